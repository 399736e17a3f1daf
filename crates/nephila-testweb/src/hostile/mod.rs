//! The hostile web: every way a server or a name server can misbehave, each under its own name.
//!
//! A row of `catalogue/hostile-web.tsv` is a **case**. Case `TCP-05` answers as `tcp-05.hostile.test`; our own name
//! server gives each case a loopback address of its own (127.82.5.1), so the dialled address decides the behaviour,
//! before a byte is read. A case with several variants offers them by path (`/negative`), or by a **label** in front of
//! its name (`stall.tls-05.hostile.test`, with its own address) where the choice falls before a path is sent. [`CASES`]
//! lists all cases.
//!
//! Invariants: everything listens on loopback only; all plain servers share one port and all TLS servers another;
//! nothing endless outlives [`LIFE_MAX`], [`BODY_BYTES_MAX`] or the [`Hostile`] itself; every request and every DNS
//! query is recorded, within bounds, before its answer.

mod case;
mod conn;
mod journal;
mod listen;
mod serve;

mod compression;
mod dns;
mod encoding;
mod fields;
mod framing;
mod good;
mod h2;
mod h2frames;
mod redirect;
mod ssrf;
mod tcp;
mod tls;
mod tlsbytes;
mod urls;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::case::{CASES, Case, NO_SERVER, Scheme};
use self::journal::Journal;
pub use self::journal::{QUERIES_MAX, QuerySeen, SEEN_HEAD_BYTES_MAX, SEEN_MAX, Seen, Transport};
use crate::tls::Ca;

/// Maximum lifetime of a hostile connection. Above every timeout of a crawler.
pub const LIFE_MAX: Duration = Duration::from_secs(130);
/// An endless body, head or stream of frames ends itself after this many bytes on the wire.
pub const BODY_BYTES_MAX: u64 = 1 << 30;
/// The zone all cases live in.
pub const ZONE: &str = "hostile.test";
/// The zone of the wildcard trap (DNS-15): every name below this zone exists.
pub const TRAP_ZONE: &str = "trap.test";
/// The case id of the tripwire on 127.0.0.1: a client that gets there passed an address filter.
pub const INSIDE: &str = "inside";

/// How fast the slow ones are.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Factor on every wait of a web server: drips, idle closes, stalls. 1 keeps the times of the catalogue.
    pub web_time_scale: f64,
    /// Factor on every wait of the name server. 1 keeps the times of the catalogue.
    pub dns_time_scale: f64,
    /// The authority that signs the certificates; a fresh one unless set.
    pub ca: Option<Ca>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { web_time_scale: 1.0, dns_time_scale: 1.0, ca: None }
    }
}

/// The running hostile web. Dropping the value ends every server and every connection.
#[derive(Debug)]
pub struct Hostile {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    /// Full listeners whose address drops every SYN; held, never accepted from.
    _black_holes: Vec<listen::BlackHole>,
}

/// State shared by every server of the hostile web.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    ports: Ports,
    ca: Ca,
    journal: Journal,
    dns: dns::Zone,
    tls: tls::Configs,
    moved: watch::Sender<bool>,
    bombs: compression::Bombs,
}

/// Where the servers listen.
#[derive(Clone, Copy, Debug)]
struct Ports {
    plain: u16,
    tls: u16,
    other: u16,
    dns: SocketAddr,
    dns_udp_only: SocketAddr,
}

impl Hostile {
    /// Starts every server and the name server.
    pub async fn start(settings: Settings) -> anyhow::Result<Hostile> {
        // Filling black holes waits for a connect to fail.
        let bound = tokio::task::spawn_blocking(listen::bind_all).await??;
        let ca = settings.ca.clone().unwrap_or_else(Ca::new);
        let shared = Arc::new(Shared {
            ports: bound.ports,
            tls: tls::Configs::new(&ca)?,
            ca,
            journal: Journal::new(),
            dns: dns::Zone::new(),
            moved: watch::Sender::new(false),
            bombs: compression::Bombs::default(),
            settings,
        });
        let mut tasks = Vec::new();
        for (listener, door) in bound.listeners {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tasks.push(tokio::spawn(listen::accept(listener, door, shared.clone())));
        }
        tasks.extend(dns::spawn(bound.dns, &shared)?);
        Ok(Hostile { shared, tasks, _black_holes: bound.black_holes })
    }

    /// `http://<id>.hostile.test:<port><path>`.
    pub fn url(&self, id: &str, path: &str) -> String {
        format!("http://{}:{}{path}", host(id), self.port())
    }

    /// `https://<id>.hostile.test:<port><path>`.
    pub fn https_url(&self, id: &str, path: &str) -> String {
        format!("https://{}:{}{path}", host(id), self.tls_port())
    }

    /// Every URL the catalogue offers: each path of each case under its name, and under each of its labels.
    pub fn all_urls(&self) -> Vec<String> {
        let mut urls = Vec::new();
        for case in CASES.iter() {
            let mut names = vec![case.id.to_owned()];
            names.extend(case.labels.iter().map(|(label, _)| format!("{label}.{}", case.id)));
            for name in names {
                for (path, _) in case.paths {
                    if case.scheme != Scheme::Https {
                        urls.push(self.url(&name, path));
                    }
                    if case.scheme != Scheme::Http {
                        urls.push(self.https_url(&name, path));
                    }
                }
            }
        }
        urls
    }

    /// The port of every plain server.
    pub fn port(&self) -> u16 {
        self.shared.ports.plain
    }

    /// The port of every TLS server.
    pub fn tls_port(&self) -> u16 {
        self.shared.ports.tls
    }

    /// A second plain port, on which `red-05` and `red-06` listen too.
    pub fn other_port(&self) -> u16 {
        self.shared.ports.other
    }

    /// The name server, UDP and TCP.
    pub fn dns_addr(&self) -> SocketAddr {
        self.shared.ports.dns
    }

    /// The same name server on a port where TCP is refused.
    pub fn dns_udp_only_addr(&self) -> SocketAddr {
        self.shared.ports.dns_udp_only
    }

    /// Where a case (`tcp-05`) or one of its labels (`stall.tls-05`) lives.
    ///
    /// # Panics
    ///
    /// When there is no such case.
    pub fn address(&self, id: &str) -> IpAddr {
        IpAddr::V4(case::address_of_host(id).unwrap_or_else(|| panic!("no case {id}")))
    }

    /// The certificates that a client must trust, as PEM: the authority that signs all good certificates here, and the
    /// root of TLS-15, under which nothing is good but for its constraints.
    pub fn ca_pem(&self) -> String {
        self.shared.ca.pem() + &self.shared.tls.constraints_root().1
    }

    /// The same two certificates for a root store.
    pub fn trusted(&self) -> [CertificateDer<'static>; 2] {
        [self.shared.ca.der(), self.shared.tls.constraints_root().0.clone()]
    }

    /// The authority itself.
    pub fn ca(&self) -> &Ca {
        &self.shared.ca
    }

    /// The requests a case has seen, oldest first; at most [`SEEN_MAX`] are kept.
    pub fn requests(&self, id: &str) -> Vec<Seen> {
        self.shared.journal.requests(id)
    }

    /// How many connections a case has accepted, over all its labels. [`INSIDE`] is the tripwire on 127.0.0.1.
    pub fn connections(&self, id: &str) -> u64 {
        self.shared.journal.connections(id)
    }

    /// How many connections a case had open at once, at most.
    pub fn connections_open_max(&self, id: &str) -> u64 {
        self.shared.journal.connections_open_max(id)
    }

    /// How many HTTP/2 streams a case had open at once, at most, over all its connections (`h2-09`).
    pub fn streams_open_max(&self, id: &str) -> u64 {
        self.shared.journal.streams_open_max(id)
    }

    /// How many client certificates a case was offered (`tls-13`).
    pub fn client_certificates(&self, id: &str) -> u64 {
        self.shared.journal.client_certificates(id)
    }

    /// The DNS queries for exactly this name, or with a leading dot for every name that ends so.
    pub fn dns_queries(&self, name: &str) -> Vec<QuerySeen> {
        self.shared.journal.queries(name)
    }

    /// Switches the name server off (silent over UDP, closes TCP) and on again (`DNS-21`).
    pub fn set_dns_up(&self, up: bool) {
        self.shared.dns.set_up(up);
    }

    /// Moves `dns-12` to its second address; its first stops listening, for good.
    pub fn move_dns_12(&self) {
        self.shared.moved.send_replace(true);
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Shared {
    /// A wait of a web server, scaled.
    fn web_time(&self, time: Duration) -> Duration {
        time.mul_f64(self.settings.web_time_scale.max(0.0))
    }

    /// A wait of the name server, scaled.
    fn dns_time(&self, time: Duration) -> Duration {
        time.mul_f64(self.settings.dns_time_scale.max(0.0))
    }

    fn url(&self, id: &str, path: &str) -> String {
        format!("http://{}:{}{path}", host(id), self.ports.plain)
    }

    fn https_url(&self, id: &str, path: &str) -> String {
        format!("https://{}:{}{path}", host(id), self.ports.tls)
    }
}

/// The host name of a case, or of `label.case`.
fn host(id: &str) -> String {
    format!("{id}.{ZONE}")
}

/// The tripwire's address.
const INSIDE_ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;
