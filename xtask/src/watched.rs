//! A crawl of the test web that is looked at over HTTP while it runs.
//!
//! Invariant: crawl and web end with the value.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::programs::{Programs, Server};

/// Polling interval of a waiting parent.
const WAIT_STEP: Duration = Duration::from_millis(100);
/// At most this many bytes of the output of a process are shown.
const SAID_BYTES_MAX: usize = 4_000;

/// The web and the speed of the crawl.
pub(crate) struct Web {
    pub(crate) hosts: u32,
    pub(crate) pages: u32,
    /// The crawl delay, as `--delay` takes it.
    pub(crate) delay: &'static str,
}

/// The test web, and the settings with which a crawler finds its hosts.
pub(crate) struct Site {
    server: Server,
}

impl Site {
    /// Starts `testweb serve` with these flags.
    pub(crate) fn start(programs: &Programs, flags: &[&str]) -> Result<Site> {
        let mut server = Command::new(programs.path("testweb")?);
        server.args(["serve", "--no-journal"]).args(flags);
        Ok(Site { server: Server::start(&mut server)? })
    }

    /// The first page.
    pub(crate) fn home(&self) -> Result<&str> {
        self.server.text("home")
    }

    /// The file with the authority that its certificates are by.
    pub(crate) fn ca(&self) -> Result<&str> {
        self.server.text("ca")
    }

    /// Settings for `--set`. Crawlers also fetch from these further ports.
    pub(crate) fn settings(&self, ports: &[u16]) -> Result<Vec<String>> {
        let mut all = vec![self.server.port("http_port")?, self.server.port("https_port")?];
        all.extend(ports);
        Ok(vec![
            format!("spider.dns_servers=[\"{}\"]", self.server.text("dns")?),
            format!("spider.ca_file={}", self.server.text("ca")?),
            format!("spider.ports={all:?}"),
            "spider.allow_addresses=[\"127.0.0.0/8\"]".to_owned(),
        ])
    }
}

/// A `nephila` that answers over HTTP, with its output in a file.
pub(crate) struct Answering {
    child: Child,
    said: PathBuf,
    address: SocketAddr,
}

impl Answering {
    /// Starts `nephila` with these arguments; `address` is where they let the process listen.
    pub(crate) fn start(
        program: &Path,
        args: &[String],
        said: PathBuf,
        address: SocketAddr,
    ) -> Result<Answering> {
        let log = File::create(&said).with_context(|| said.display().to_string())?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("start nephila")?;
        Ok(Answering { child, said, address })
    }

    /// An address that nobody listens at. It stays free while a process that listens there is started again.
    pub(crate) fn free_address() -> Result<SocketAddr> {
        Ok((Ipv4Addr::LOCALHOST, nephila_testnats::free_port()?).into())
    }

    /// Where the process answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has not ended.
    pub(crate) fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The end of the output so far.
    pub(crate) fn said(&self) -> String {
        let all = std::fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&all[all.len().saturating_sub(SAID_BYTES_MAX)..]).into_owned()
    }

    /// Waits until the process listens.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        while TcpStream::connect(self.address).is_err() {
            if !self.is_running()? || Instant::now() >= end {
                bail!("nothing answers at {}; the process said:\n{}", self.address, self.said());
            }
            std::thread::sleep(WAIT_STEP);
        }
        Ok(())
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.kill();
    }
}

/// See the module.
pub(crate) struct Watched {
    crawl: Answering,
    _web: Site,
    _folder: TempDir,
}

impl Watched {
    /// Starts web and crawl.
    pub(crate) fn start(programs: &Programs, sizes: &Web) -> Result<Watched> {
        let (hosts, pages) = (sizes.hosts.to_string(), sizes.pages.to_string());
        let web = Site::start(programs, &["--hosts", &hosts, "--pages", &pages, "--addresses", "2"])?;
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let address = Answering::free_address()?;
        let dir = folder.path().join("crawl").display().to_string();
        let listen = address.to_string();
        let words = ["crawl", web.home()?, "--scope", "any", "--config", "/dev/null", "--delay", sizes.delay];
        let mut args: Vec<String> =
            words.into_iter().chain(["--listen", &listen, "-o", &dir]).map(str::to_owned).collect();
        args.extend(web.settings(&[])?.into_iter().flat_map(|set| ["--set".to_owned(), set]));
        let said = folder.path().join("crawl.log");
        let crawl = Answering::start(programs.path("nephila")?, &args, said, address)?;
        Ok(Watched { crawl, _web: web, _folder: folder })
    }

    /// Where the crawl answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.crawl.address()
    }

    /// Whether the crawl has not ended.
    pub(crate) fn is_running(&mut self) -> Result<bool> {
        self.crawl.is_running()
    }

    /// The output of the crawl so far.
    pub(crate) fn said(&self) -> String {
        self.crawl.said()
    }
}
