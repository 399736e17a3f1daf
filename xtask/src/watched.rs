//! A crawl of the test web that is looked at over HTTP while it runs.
//!
//! Invariant: crawl and web end with the value.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::programs::{Programs, Server};

/// The web and the speed of the crawl.
pub(crate) struct Web {
    pub(crate) hosts: u32,
    pub(crate) pages: u32,
    /// The crawl delay, as `--delay` takes it.
    pub(crate) delay: &'static str,
}

/// See the module.
pub(crate) struct Watched {
    crawl: Child,
    _web: Server,
    folder: TempDir,
    address: SocketAddr,
}

impl Watched {
    /// Starts web and crawl.
    pub(crate) fn start(programs: &Programs, sizes: &Web) -> Result<Watched> {
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let web = [
            ("--hosts", sizes.hosts.to_string()),
            ("--pages", sizes.pages.to_string()),
            ("--addresses", "2".into()),
        ];
        let mut server = Command::new(programs.path("testweb")?);
        server.args(["serve", "--no-journal"]);
        server.args(web.iter().flat_map(|(flag, value)| [*flag, value.as_str()]));
        let web = Server::start(&mut server)?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr())?;
        let log = std::fs::File::create(folder.path().join("crawl.log"))?;
        let mut crawl = Command::new(programs.path("nephila")?);
        crawl.args(["crawl", web.text("home")?, "--scope", "any", "--config", "/dev/null"]);
        crawl.args(["--delay", sizes.delay, "--listen", &address.to_string()]);
        crawl.arg("-o").arg(folder.path().join("crawl"));
        for set in [
            format!("spider.dns_servers=[\"{}\"]", web.text("dns")?),
            format!("spider.ca_file={}", web.text("ca")?),
            format!("spider.ports=[{}, {}]", web.port("http_port")?, web.port("https_port")?),
            "spider.allow_addresses=[\"127.0.0.0/8\"]".to_owned(),
        ] {
            crawl.args(["--set", &set]);
        }
        let crawl = crawl.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        Ok(Watched { crawl: crawl.context("start nephila")?, _web: web, folder, address })
    }

    /// Where the crawl answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder of the crawl.
    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("crawl")
    }

    /// Whether the crawl has not ended.
    pub(crate) fn is_running(&mut self) -> Result<bool> {
        Ok(self.crawl.try_wait()?.is_none())
    }

    /// The output of the crawl so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("crawl.log")).unwrap_or_default()
    }

    /// Ends the crawl at once.
    pub(crate) fn kill(&mut self) {
        self.crawl.kill().ok();
        self.crawl.wait().ok();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.kill();
    }
}
