//! The tools of the comparison, and how each is called.
//!
//! Invariants: each crawler obeys robots.txt, waits for nothing between two requests, follows all links from the home
//! page, has the number of connections that is best for the tool (64; 16 for wget2, whose threads get in each other's way
//! above; one for wget, which has no more), and writes into the given folder and nowhere else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::install::{self, COLLY, SPIDER};
use crate::shell;

/// The name under which all hosts of the test web lie.
const UNDER: &str = "test";
/// The address of all its hosts.
const ADDRESS: &str = "127.77.0.1";

/// A crawler, or the limit.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Tool {
    /// Ours at default settings: a WARC with gzip.
    Nephila,
    /// Ours, with zstd.
    NephilaZstd,
    /// The limit: a list of URLs, links read and dropped, a WARC with gzip.
    BareLoop,
    /// A file per page.
    Wget2,
    /// A WARC with gzip and a file per page.
    WgetWarc,
    /// A file per page, with links rewritten.
    Httrack,
    /// Keeps nothing.
    Scrapy,
    /// Keeps its queue on disk, and no pages.
    Crawlee,
    /// Keeps nothing.
    Spider,
    /// Keeps nothing.
    Colly,
}

/// The web that is to be crawled.
pub(super) struct Web {
    pub(super) home: String,
    /// A file of all its URLs, for the bare loop.
    pub(super) list: PathBuf,
    pub(super) dns: String,
    pub(super) ports: [u16; 2],
    pub(super) ca: PathBuf,
}

impl Tool {
    pub(super) const ALL: [Tool; 10] = [
        Tool::Nephila,
        Tool::NephilaZstd,
        Tool::BareLoop,
        Tool::Wget2,
        Tool::WgetWarc,
        Tool::Httrack,
        Tool::Scrapy,
        Tool::Crawlee,
        Tool::Spider,
        Tool::Colly,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Nephila => "nephila",
            Tool::NephilaZstd => "nephila-zstd",
            Tool::BareLoop => "bare-loop",
            Tool::Wget2 => "wget2",
            Tool::WgetWarc => "wget-warc",
            Tool::Httrack => "httrack",
            Tool::Scrapy => "scrapy",
            Tool::Crawlee => "crawlee",
            Tool::Spider => "spider",
            Tool::Colly => "colly",
        }
    }

    pub(super) fn of(name: &str) -> Result<Tool> {
        let found = Tool::ALL.into_iter().find(|tool| tool.name() == name);
        found.with_context(|| format!("no tool {name}: there are {}", Tool::ALL.map(Tool::name).join(", ")))
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Tool::Nephila | Tool::NephilaZstd)
    }

    /// Whether the tool is a crawler of others, neither ours nor the limit.
    pub(super) fn is_others(self) -> bool {
        !self.is_ours() && self != Tool::BareLoop
    }

    /// Whether the tool writes an archive, as ours do, and not just files or nothing.
    pub(super) fn archives(self) -> bool {
        !self.is_others() || self == Tool::WgetWarc
    }

    /// The output that the tool leaves behind, for the table.
    pub(super) fn keeps(self) -> &'static str {
        match self {
            Tool::Nephila => "WARC, gzip",
            Tool::BareLoop => "responses, gzip",
            Tool::NephilaZstd => "WARC, zstd",
            Tool::Wget2 | Tool::Httrack => "a file per page",
            Tool::WgetWarc => "WARC, gzip, files",
            Tool::Scrapy | Tool::Crawlee | Tool::Spider | Tool::Colly => "no pages",
        }
    }

    /// The whole command line. `nephila` and `bare_loop` are programs of ours.
    pub(super) fn command(
        self,
        [nephila, bare_loop]: [&Path; 2],
        cache: &Path,
        web: &Web,
        out: &Path,
    ) -> Command {
        let scripts = shell::root().join("xtask/peers");
        let home = web.home.as_str();
        match self {
            Tool::Nephila => ours(nephila, web, out),
            Tool::NephilaZstd => {
                let mut command = ours(nephila, web, out);
                command.args(["--set", "store.compression=zstd"]);
                command
            }
            Tool::BareLoop => {
                let mut command = Command::new(bare_loop);
                command
                    .arg(&web.list)
                    .args(["--address", ADDRESS, "--connections", "64", "--ca"])
                    .arg(&web.ca);
                command.args(["--links", "--compress", "gzip", "--warc"]).arg(out.join("bare.warc.gz"));
                command
            }
            Tool::Wget2 => {
                let mut command = Command::new("wget2");
                command.args([
                    "--no-config",
                    "--recursive",
                    "--level=inf",
                    "--max-threads=16",
                    "--quiet",
                    "--tries=1",
                ]);
                command.args([
                    "--span-hosts",
                    &format!("--domains={UNDER}"),
                    "--no-ocsp",
                    "--ca-certificate",
                ]);
                command.arg(&web.ca).arg("--directory-prefix").arg(out).arg(home);
                command
            }
            Tool::WgetWarc => {
                let mut command = Command::new("wget");
                command.args([
                    "--no-config",
                    "--recursive",
                    "--level=inf",
                    "--quiet",
                    "--tries=1",
                    "--span-hosts",
                ]);
                command.args([&format!("--domains={UNDER}"), "--warc-cdx", "--ca-certificate"]).arg(&web.ca);
                command
                    .arg("--warc-file")
                    .arg(out.join("crawl"))
                    .arg("--directory-prefix")
                    .arg(out)
                    .arg(home);
                command
            }
            Tool::Httrack => {
                let mut command = Command::new("httrack");
                // At full speed, without questions, an index page or a limit on links; one try each.
                command.arg(home).arg("-O").arg(out).args([
                    "--disable-security-limits",
                    "-c64",
                    "-%c10000",
                    "-A0",
                ]);
                command.args(["-q", "-I0", "-%v0", "-R0", "-#L10000000", "-*", &format!("+*.{UNDER}/*")]);
                command
            }
            Tool::Scrapy => {
                let mut command = Command::new(install::python(cache));
                command.args(["-m", "scrapy", "runspider"]).arg(scripts.join("spider.py"));
                command.args(["-a", &format!("home={home}"), "-a", &format!("under={UNDER}")]);
                command
            }
            Tool::Crawlee => {
                let mut command = Command::new("node");
                // Crawlee slows down when memory seems short, so the limit is high.
                command.arg("--max-old-space-size=8192").env("CRAWLEE_MEMORY_MBYTES", "8192");
                command.arg(scripts.join("crawl.mjs")).arg(home).env("PEER_MODULES", install::modules(cache));
                command.env("CRAWLEE_STORAGE_DIR", out.join("storage")).env("CRAWLEE_LOG_LEVEL", "ERROR");
                command.env("NODE_EXTRA_CA_CERTS", &web.ca);
                command
            }
            Tool::Spider => {
                let mut command = Command::new(SPIDER.program(cache));
                // By default the crate moves visited URLs to SQLite at 15,000 URLs, and is five times slower then.
                command.arg(home).env("LINKS_VISITED_MEMORY_LIMIT", "100000000").stdout(Stdio::null());
                command
            }
            Tool::Colly => {
                let mut command = Command::new(COLLY.program(cache));
                command.args([home, UNDER]).env("SSL_CERT_FILE", &web.ca);
                command
            }
        }
    }
}

fn ours(nephila: &Path, web: &Web, out: &Path) -> Command {
    let mut command = Command::new(nephila);
    command.args([
        "crawl",
        &web.home,
        "--scope",
        "any",
        "-d",
        "255",
        "--quiet",
        "--config",
        "/dev/null",
        "-o",
    ]);
    command.arg(out.join("crawl")).args(["--delay", "0s", "-c", "64", "--host-concurrency", "64"]);
    for set in [
        format!("spider.dns_servers=[\"{}\"]", web.dns),
        format!("spider.ports={:?}", web.ports),
        format!("spider.ca_file={}", web.ca.display()),
        "spider.allow_addresses=[\"127.0.0.0/8\"]".to_owned(),
        // Others have no such limits.
        "budget.domain_urls=1000000000".to_owned(),
        "budget.domain_urls_per_day=1000000000".to_owned(),
    ] {
        command.args(["--set", &set]);
    }
    command
}
