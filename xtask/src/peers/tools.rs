//! The tools of the comparison: how each is found, installed and called.
//!
//! Invariants: each obeys robots.txt, waits for nothing between two requests, follows all links from the home page, has
//! the number of connections that is best for the tool (64; 16 for wget2, whose threads get in each other's way above;
//! one for wget, which has no more), and writes into the given folder and nowhere else.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{interop, shell};

/// The name under which all hosts of the test web lie.
const UNDER: &str = "test";
const SCRAPY: &[&str] = &["scrapy==2.19.0"];
const CRAWLEE: &str = "@crawlee/cheerio@3.18.1";

/// A crawler.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Tool {
    /// Ours at default settings: a WARC with gzip.
    Nephila,
    /// Ours, with zstd.
    NephilaZstd,
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
}

/// The web that is to be crawled.
pub(super) struct Web {
    pub(super) home: String,
    pub(super) dns: String,
    pub(super) ports: [u16; 2],
    pub(super) ca: PathBuf,
}

impl Tool {
    pub(super) const ALL: [Tool; 8] = [
        Tool::Nephila,
        Tool::NephilaZstd,
        Tool::Wget2,
        Tool::WgetWarc,
        Tool::Httrack,
        Tool::Scrapy,
        Tool::Crawlee,
        Tool::Spider,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Nephila => "nephila",
            Tool::NephilaZstd => "nephila-zstd",
            Tool::Wget2 => "wget2",
            Tool::WgetWarc => "wget-warc",
            Tool::Httrack => "httrack",
            Tool::Scrapy => "scrapy",
            Tool::Crawlee => "crawlee",
            Tool::Spider => "spider",
        }
    }

    pub(super) fn of(name: &str) -> Result<Tool> {
        let found = Tool::ALL.into_iter().find(|tool| tool.name() == name);
        found.with_context(|| format!("no tool {name}: there are {}", Tool::ALL.map(Tool::name).join(", ")))
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Tool::Nephila | Tool::NephilaZstd)
    }

    /// Whether the tool writes an archive, as ours do, and not just files or nothing.
    pub(super) fn archives(self) -> bool {
        self.is_ours() || self == Tool::WgetWarc
    }

    /// The output that the tool leaves behind, for the table.
    pub(super) fn keeps(self) -> &'static str {
        match self {
            Tool::Nephila => "WARC, gzip",
            Tool::NephilaZstd => "WARC, zstd",
            Tool::Wget2 | Tool::Httrack => "a file per page",
            Tool::WgetWarc => "WARC, gzip, files",
            Tool::Scrapy | Tool::Crawlee | Tool::Spider => "no pages",
        }
    }

    /// The command that installs the tool.
    pub(super) fn how_to_install(self) -> String {
        match self {
            Tool::Nephila | Tool::NephilaZstd => "cargo build --release -p nephila".to_owned(),
            Tool::Wget2 => "apt-get install wget2".to_owned(),
            Tool::WgetWarc => "apt-get install wget".to_owned(),
            Tool::Httrack => "apt-get install httrack".to_owned(),
            Tool::Scrapy => {
                "apt-get install python3-venv, then `cargo xtask bench peers --tools scrapy`".to_owned()
            }
            Tool::Crawlee => {
                "apt-get install nodejs npm, then `cargo xtask bench peers --tools crawlee`".to_owned()
            }
            Tool::Spider => "`cargo xtask bench peers --tools spider`, which builds it once".to_owned(),
        }
    }

    /// Installs a tool from a language's own registry; system packages are left to the user.
    pub(super) fn install(self, cache: &Path) -> Result<()> {
        match self {
            Tool::Scrapy => interop::environment(&cache.join("scrapy"), SCRAPY).map(drop),
            Tool::Crawlee if !self.is_here(cache) => {
                let folder = cache.join("crawlee");
                std::fs::create_dir_all(&folder)?;
                eprintln!("installing {CRAWLEE} into {}", folder.display());
                let installed = Command::new("npm")
                    .args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
                    .args([folder.as_os_str(), CRAWLEE.as_ref()])
                    .stdout(Stdio::null())
                    .status();
                ensure!(installed.context("npm is needed")?.success(), "npm could not install {CRAWLEE}");
                Ok(())
            }
            Tool::Spider if !self.is_here(cache) => build_spider(cache),
            _ => Ok(()),
        }
    }

    /// Whether the tool is installed.
    pub(super) fn is_here(self, cache: &Path) -> bool {
        let answers = |program: &Path| {
            let mut command = Command::new(program);
            command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok()
        };
        match self {
            Tool::Nephila | Tool::NephilaZstd => true,
            Tool::Wget2 => answers("wget2".as_ref()),
            Tool::WgetWarc => answers("wget".as_ref()),
            Tool::Httrack => answers("httrack".as_ref()),
            Tool::Scrapy => cache.join("scrapy/bin/scrapy").exists() && answers(&python(cache)),
            Tool::Crawlee => {
                modules(cache).join("@crawlee/cheerio/package.json").exists() && answers("node".as_ref())
            }
            Tool::Spider => spider(cache).exists() && is_current(&cache.join("spider")),
        }
    }

    /// The whole command line.
    pub(super) fn command(self, nephila: &Path, cache: &Path, web: &Web, out: &Path) -> Command {
        let scripts = shell::root().join("xtask/peers");
        let home = web.home.as_str();
        match self {
            Tool::Nephila => ours(nephila, web, out),
            Tool::NephilaZstd => {
                let mut command = ours(nephila, web, out);
                command.args(["--set", "store.compression=zstd"]);
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
                let mut command = Command::new(python(cache));
                command.args(["-m", "scrapy", "runspider"]).arg(scripts.join("spider.py"));
                command.args(["-a", &format!("home={home}"), "-a", &format!("under={UNDER}")]);
                command
            }
            Tool::Crawlee => {
                let mut command = Command::new("node");
                // Crawlee slows down when memory seems short, so the limit is high.
                command.arg("--max-old-space-size=8192").env("CRAWLEE_MEMORY_MBYTES", "8192");
                command.arg(scripts.join("crawl.mjs")).arg(home).env("PEER_MODULES", modules(cache));
                command.env("CRAWLEE_STORAGE_DIR", out.join("storage")).env("CRAWLEE_LOG_LEVEL", "ERROR");
                command.env("NODE_EXTRA_CA_CERTS", &web.ca);
                command
            }
            Tool::Spider => {
                let mut command = Command::new(spider(cache));
                // By default the crate moves visited URLs to SQLite at 15,000 URLs, and is five times slower then.
                command.arg(home).env("LINKS_VISITED_MEMORY_LIMIT", "100000000").stdout(Stdio::null());
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

/// The program that uses the `spider` crate: its files here, and where they lie in its folder.
const SPIDER_FILES: [(&str, &str); 2] = [("manifest.toml", "Cargo.toml"), ("main.rs", "src/main.rs")];
/// Timeout of the build; the program has 400 dependencies.
const SPIDER_BUILD_MAX: Duration = Duration::from_secs(30 * 60);

/// Builds the program in a folder of its own, with its own lock file.
fn build_spider(cache: &Path) -> Result<()> {
    let folder = cache.join("spider");
    eprintln!("building the spider crate in {}, once, for some minutes", folder.display());
    std::fs::create_dir_all(folder.join("src"))?;
    // The present program was built from other files, or not to its end.
    std::fs::remove_file(spider(cache)).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    for (from, to) in SPIDER_FILES {
        std::fs::copy(spider_source(from), folder.join(to)).with_context(|| format!("copy {from}"))?;
    }
    let mut build = shell::cargo(&["build", "--release", "--quiet", "--target-dir", "target"]);
    // Flags meant for our own build are not meant for this one.
    build.current_dir(&folder).env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS");
    shell::run(&mut build, SPIDER_BUILD_MAX)
}

/// Whether the program was built from the present files.
fn is_current(folder: &Path) -> bool {
    let same = |(from, to): &(&str, &str)| {
        std::fs::read(spider_source(from))
            .ok()
            .is_some_and(|text| std::fs::read(folder.join(to)).ok() == Some(text))
    };
    SPIDER_FILES.iter().all(same)
}

fn spider_source(name: &str) -> PathBuf {
    shell::root().join("xtask/peers/spider").join(name)
}

fn spider(cache: &Path) -> PathBuf {
    cache.join("spider/target/release/peer-spider")
}

fn python(cache: &Path) -> PathBuf {
    cache.join("scrapy/bin/python")
}

fn modules(cache: &Path) -> PathBuf {
    cache.join("crawlee/node_modules")
}
