//! A web that runs: listeners, DNS, certificates and journal around one [`World`].
//!
//! [`Web::builder`] takes settings, [`Builder::start`] binds everything and returns once the web answers, and the
//! returned [`RunningWeb`] is the handle. Invariant: dropping the handle ends every listener and connection.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::dns::Dns;
use crate::journal::{Journal, Log};
use crate::model::{Truth, TruthOptions, World};
use crate::render::Renderer;
use crate::server::{self, Shared};
use crate::settings::Settings;
use crate::tls::{ALPN_BOTH, ALPN_HTTP1, Ca};

/// How long [`RunningWeb::stop`] waits for connections to end.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How often [`RunningWeb::stop`] checks.
const STOP_LOOK: Duration = Duration::from_millis(5);

/// The synthetic web; begin with [`Web::builder`].
pub struct Web;

impl Web {
    /// A plain web, to be described further.
    pub fn builder() -> Builder {
        Builder { settings: Settings::default(), ca: None, journal_file: None }
    }
}

/// The description of a web.
#[derive(Clone, Debug)]
pub struct Builder {
    settings: Settings,
    ca: Option<Ca>,
    journal_file: Option<PathBuf>,
}

impl Builder {
    /// Replaces all settings.
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Builder {
        self.settings.seed = seed;
        self
    }

    /// Sets the number of hosts.
    pub fn hosts(mut self, hosts: u32) -> Builder {
        self.settings.hosts = hosts;
        self
    }

    /// Sets about how many pages there are.
    pub fn pages(mut self, pages: u64) -> Builder {
        self.settings.pages = pages;
        self
    }

    /// Sets the mean size of a page.
    pub fn page_bytes(mut self, page_bytes: u32) -> Builder {
        self.settings.page_bytes = page_bytes;
        self
    }

    /// Sets the number of addresses.
    pub fn addresses(mut self, addresses: u32) -> Builder {
        self.settings.addresses = addresses;
        self
    }

    /// Uses this authority instead of a new one.
    pub fn ca(mut self, ca: Ca) -> Builder {
        self.ca = Some(ca);
        self
    }

    /// Writes the journal to a file instead of memory.
    pub fn journal_file(mut self, path: impl Into<PathBuf>) -> Builder {
        self.journal_file = Some(path.into());
        self
    }

    /// Binds everything and begins to answer.
    pub async fn start(self) -> anyhow::Result<RunningWeb> {
        let runtime = match self.settings.threads {
            0 => None,
            threads => Some(Owned::new(threads)?),
        };
        let handle = runtime.as_ref().map_or_else(Handle::current, Owned::handle);
        let mut web = handle.spawn(self.launch()).await.context("the start of the web panicked")??;
        web.runtime = runtime;
        Ok(web)
    }

    async fn launch(self) -> anyhow::Result<RunningWeb> {
        let journal = match &self.journal_file {
            Some(path) => Journal::to_file(path).with_context(|| format!("create {}", path.display()))?,
            None => Journal::in_memory(self.settings.journal_max),
        };
        let world = World::new(self.settings, 0, 0);
        let dns = Dns::bind(world.settings().dns_port).await?;
        let http = server::bind(&world, world.settings().http_port)?;
        let https = server::bind(&world, world.settings().https_port)?;
        let world = Arc::new(world.with_ports(http.port, https.port).with_ipv6(http.ipv6 && https.ipv6));
        let ca = self.ca.unwrap_or_else(Ca::new);
        let alpn = if world.settings().http2 { ALPN_BOTH } else { ALPN_HTTP1 };
        let shared = Arc::new(Shared {
            renderer: Renderer::new(world.clone()),
            journal: journal.clone(),
            tls: TlsAcceptor::from(ca.server_config(alpn)),
            connections: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            left: server::Registry::default(),
        });
        let (stop, stopped) = watch::channel(());
        let dns_addr = dns.address();
        let dns_silent: Arc<AtomicBool> = Arc::default();
        let mut tasks = vec![tokio::spawn(dns.run(world.clone(), journal.clone(), dns_silent.clone()))];
        for (sockets, tls) in [(http.sockets, false), (https.sockets, true)] {
            for socket in sockets {
                tasks.push(tokio::spawn(server::accept(socket, tls, shared.clone(), stopped.clone())));
            }
        }
        Ok(RunningWeb { world, shared, journal, ca, dns_addr, dns_silent, stop, tasks, runtime: None })
    }
}

/// A web that answers. Dropping the value stops the web.
pub struct RunningWeb {
    world: Arc<World>,
    shared: Arc<Shared>,
    journal: Journal,
    ca: Ca,
    dns_addr: SocketAddr,
    dns_silent: Arc<AtomicBool>,
    stop: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
    runtime: Option<Owned>,
}

impl RunningWeb {
    /// The web as a function.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// The port of plain HTTP on every address.
    pub fn http_port(&self) -> u16 {
        self.world.port(false)
    }

    /// The port of HTTPS on every address.
    pub fn https_port(&self) -> u16 {
        self.world.port(true)
    }

    /// Where the DNS server answers, by UDP and TCP.
    pub fn dns_addr(&self) -> SocketAddr {
        self.dns_addr
    }

    /// The certificate authority.
    pub fn ca(&self) -> &Ca {
        &self.ca
    }

    /// The certificate of the authority, for a trust file.
    pub fn ca_pem(&self) -> String {
        self.ca.pem()
    }

    /// The URLs of all pages, host by host.
    pub fn urls(&self) -> impl Iterator<Item = String> + '_ {
        self.world.pages().map(|place| self.world.url(place))
    }

    /// The ground truth of a polite crawl from all home pages.
    pub fn truth(&self) -> Truth {
        self.world.truth(&TruthOptions::default())
    }

    /// The requests so far.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Connections open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Silences the DNS server, or lets the server answer again. Questions that come meanwhile stay unanswered.
    pub fn set_dns_silent(&self, silent: bool) {
        self.dns_silent.store(silent, Ordering::Relaxed);
    }

    /// Moves virtual time forward.
    pub fn advance(&self, by: Duration) {
        self.world.clock().advance(by);
    }

    /// Stops, waits until all connections are closed and noted, and returns the journal. The log is empty when the
    /// journal went to a file, which is whole then.
    pub async fn stop(self) -> Log {
        self.stop.send(()).ok();
        let looks = STOP_MAX.as_millis() / STOP_LOOK.as_millis();
        for _ in 0..looks {
            if self.open_connections() == 0 {
                break;
            }
            tokio::time::sleep(STOP_LOOK).await;
        }
        self.journal.finish();
        self.journal.log()
    }
}

impl Drop for RunningWeb {
    fn drop(&mut self) {
        self.stop.send(()).ok();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A runtime of our own. The value may be dropped inside another runtime, where blocking is not allowed.
struct Owned(Option<Runtime>);

impl Owned {
    fn new(threads: usize) -> anyhow::Result<Owned> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("testweb")
            .enable_all()
            .build()
            .context("start the runtime of the web")?;
        Ok(Owned(Some(runtime)))
    }

    fn handle(&self) -> Handle {
        self.0.as_ref().expect("taken only when dropped").handle().clone()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
