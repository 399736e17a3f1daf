//! `cargo xtask dashboard`: the pages of real crawls, judged in Chromium by `outside/dashboard`.
//!
//! Parts: the judge itself, by planted faults (`selftest`); a crawl on one machine (`crawl`) and its folder after the crawl was
//! killed (`folder`); a node of a cluster, while another node is killed and started again (`cluster`); a crawl that knows many
//! URLs (`big`, only on request). Crawls fetch the test web, and a site whose titles, links and redirects are hostile strings.
//!
//! Needs Chromium, node and npm on the machine; the part `cluster` also the nats-server that `.ci/run` installs.

mod nodes;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::interop::default_cache;
use crate::programs::{Programs, Server};
use crate::shell;
use crate::watched::{Answering, Site};
use nodes::Cluster;

/// Options of `dashboard`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these parts: `selftest`, `crawl`, `folder`, `cluster`, `big` [default: all but `big`]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// One look at each page, and no selftest and no cluster
    #[arg(long)]
    short: bool,
    /// Hosts of the web
    #[arg(long, default_value_t = 200)]
    hosts: u32,
    /// Pages of the web
    #[arg(long, default_value_t = 20_000)]
    pages: u32,
    /// URLs that the crawl of the part `big` knows, on `--big-hosts` hosts
    #[arg(long, default_value_t = 1_000_000)]
    known: u64,
    /// Hosts of the part `big`
    #[arg(long, default_value_t = 10_000)]
    big_hosts: u32,
    /// Time within which a page has its data, in milliseconds
    #[arg(long, default_value_t = 1_000)]
    load_ms: u32,
    /// Write the pictures of docs/screens, from the part `cluster`
    #[arg(long)]
    write_docs: bool,
    /// Folder for screenshots
    #[arg(long, default_value = "/tmp/nephila-dashboard")]
    out: PathBuf,
    /// Folder with `nephila` and `testweb`, instead of building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Folder that keeps the tools of others
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// The parts, in their order, and whether `--short` has them.
const PARTS: [(&str, bool); 5] =
    [("selftest", false), ("crawl", true), ("folder", true), ("cluster", false), ("big", false)];
/// Time until a server answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A crawl has fetched this many pages before the judge looks...
const PAGES_FIRST: u64 = 60;
/// ...within this time.
const WARM_UP: Duration = Duration::from_secs(120);
/// Hostile strings that the judge must see as text in a crawl; of 48, some cannot be the title of a page as they are.
const ATTACKS_MIN: &str = "40";
/// Written into the packages of the judge when all are there, with the list they are of; half of them are installed anew.
const STAMP: &str = "node_modules/nephila-packages.json";
/// Timeout of their installation.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);
/// Timeout of the judge.
const JUDGE_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Pages of the big crawl; each has as many links as are needed.
const BIG_PAGES: u64 = 3_000;
/// The web of the big crawl has so many pages that two links seldom lead to the same one.
const BIG_WEB: u64 = 4_000_000_000;
/// Time until the big crawl knows its URLs.
const BIG_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let unknown = args.only.iter().find(|name| !PARTS.iter().any(|(part, _)| part == name));
    ensure!(unknown.is_none(), "there is no part {}: see --help", unknown.map_or("", String::as_str));
    let wants = |part: &str| {
        let is_short = PARTS.iter().any(|(name, is_short)| *name == part && *is_short);
        if args.only.is_empty() {
            (is_short || !args.short) && part != "big"
        } else {
            args.only.iter().any(|name| name == part)
        }
    };
    let programs = match &args.programs {
        Some(folder) => Programs::of_folder(folder)?,
        None => Programs::build()?,
    };
    let cache = args.cache.clone().map_or_else(default_cache, Ok)?;
    let stage = Stage::new(args, programs, tools(&cache.join("dashboard"))?)?;
    let mut missed = Vec::new();
    let mut done = Vec::new();
    for (part, _) in PARTS {
        if !wants(part) || (part == "folder" && wants("crawl")) {
            continue;
        }
        let began = Instant::now();
        println!("== {part}");
        let result = match part {
            "selftest" => stage.selftest(),
            "cluster" => stage.cluster(),
            "big" => stage.big(args.known, args.big_hosts),
            _ => stage.crawl_and_folder(wants("crawl"), wants("folder"), &mut missed),
        };
        done.push(format!("{part} {:.0} s", began.elapsed().as_secs_f64()));
        if let Err(error) = result {
            println!("  ✖ {part}: {error:#}");
            missed.push(part);
        }
    }
    println!("dashboard: {}; screens in {}", done.join(", "), args.out.display());
    ensure!(missed.is_empty(), "the judge complains: {}", missed.join(", "));
    Ok(())
}

/// A copy of the judge with its packages from npm.
pub(crate) fn tools(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let source = shell::root().join("outside/dashboard");
    for entry in std::fs::read_dir(&source)? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            std::fs::copy(&path, folder.join(name))?;
        }
    }
    let (stamp, wanted) = (folder.join(STAMP), std::fs::read(source.join("package-lock.json"))?);
    if std::fs::read(&stamp).ok().as_ref() != Some(&wanted) {
        shell::run(Command::new("npm").args(["ci", "--silent"]).current_dir(folder), INSTALL_LIMIT)
            .context("npm ci failed: the package registry must answer once")?;
        std::fs::write(stamp, wanted)?;
    }
    Ok(folder.to_owned())
}

/// What the parts share.
struct Stage<'a> {
    args: &'a Args,
    programs: Programs,
    judge: PathBuf,
    /// Folder for screenshots.
    out: PathBuf,
    /// A site of hostile strings, and its pages.
    hostile: Server,
    seeds: Vec<String>,
}

impl<'a> Stage<'a> {
    fn new(args: &'a Args, programs: Programs, judge: PathBuf) -> Result<Stage<'a>> {
        let hostile = Server::start(Command::new("node").arg("site.mjs").current_dir(&judge))
            .context("node is needed, from Debian or elsewhere")?;
        let seeds: Vec<String> = serde_json::from_value(hostile.ready["seeds"].clone())?;
        // The judge runs in its own folder.
        let out = std::path::absolute(&args.out).context("--out")?;
        Ok(Stage { args, programs, judge, out, hostile, seeds })
    }

    /// The test web, and how crawlers find it and the hostile site.
    fn web(&self) -> Result<(Site, Vec<String>)> {
        let (hosts, pages) = (self.args.hosts.to_string(), self.args.pages.to_string());
        let site = Site::start(
            &self.programs,
            &["--mixed", "--hosts", &hosts, "--pages", &pages, "--addresses", "40"],
        )?;
        let settings = site.settings(&[self.hostile.port("port")?])?;
        Ok((site, settings))
    }

    fn selftest(&self) -> Result<()> {
        let mut selftest = Command::new("node");
        selftest.args(["selftest.mjs", "--load-ms", &self.args.load_ms.to_string()]);
        selftest.arg("--out").arg(self.out.join("selftest")).current_dir(&self.judge);
        selftest
            .env("NEPHILA_DASHBOARD_ASSETS", shell::root().join("crates/nephila-api/src/dashboard/assets"));
        shell::run(&mut selftest, JUDGE_LIMIT)
    }

    /// A crawl while it runs, and its folder after it was killed.
    fn crawl_and_folder(
        &self,
        crawl_too: bool,
        folder_too: bool,
        missed: &mut Vec<&'static str>,
    ) -> Result<()> {
        let (site, settings) = self.web()?;
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let dir = folder.path().join("crawl").display().to_string();
        let address = Answering::free_address()?;
        let listen = address.to_string();
        let mut args = words(&["crawl", site.home()?]);
        args.extend(self.seeds.iter().cloned());
        args.extend(words(&["--scope", "any", "--config", "/dev/null", "--delay", "1s"]));
        args.extend(words(&["--listen", &listen, "-o", &dir]));
        args.extend(sets(&settings));
        let nephila = self.programs.path("nephila")?;
        let mut crawl = Answering::start(nephila, &args, folder.path().join("crawl.log"), address)?;
        crawl.wait(START_LIMIT)?;
        warm_up(&mut crawl)?;
        if crawl_too {
            let hostile: Vec<&str> = self
                .seeds
                .iter()
                .map(|seed| seed.trim_start_matches("http://").trim_end_matches('/'))
                .collect();
            let more = ["--may-change", "--want-attacks", ATTACKS_MIN, "--hostile", &hostile.join(",")];
            let more = words(&more);
            missed.extend(self.look(address, "crawl", &more).err().map(|_| "a running crawl"));
        }
        ensure!(crawl.is_running()?, "the crawl ended while it was looked at; it said:\n{}", crawl.said());
        crawl.kill();
        if folder_too {
            let args = words(&["serve", "--read-only", "--config", "/dev/null", "-o", &dir]);
            let args = [args, sets(&[format!("api.listen={listen}")])].concat();
            let mut serve = Answering::start(nephila, &args, folder.path().join("serve.log"), address)?;
            serve.wait(START_LIMIT)?;
            missed.extend(self.look(address, "folder", &[]).err().map(|_| "a folder"));
        }
        Ok(())
    }

    /// Three nodes, of which one is killed while its pages are open, and comes back.
    fn cluster(&self) -> Result<()> {
        let (site, settings) = self.web()?;
        let mut cluster = Cluster::start(self.programs.path("nephila")?, &settings)?;
        let seeds: Vec<&str> =
            std::iter::once(site.home()?).chain(self.seeds.iter().map(String::as_str)).collect();
        cluster.create_job("press", &seeds)?;
        warm_up(cluster.first())?;
        let (address, second) = (cluster.first().address(), cluster.last().address());
        let revive = cluster.revive_file();
        let mut more = words(&[
            "--may-change",
            "--second",
            &format!("http://{second}/"),
            "--kill",
            &format!("kill -9 {}", cluster.last().id()),
            "--revive",
            &format!("touch {}", revive.display()),
        ]);
        if self.args.write_docs {
            more.extend(words(&["--screens", &shell::root().join("docs/screens").display().to_string()]));
        }
        cluster.while_reviving(|| self.look(address, "cluster", &more))
    }

    /// A crawl that knows many URLs of many hosts: filled without rests, then looked at while it is polite.
    fn big(&self, known: u64, hosts: u32) -> Result<()> {
        let folder = tempfile::tempdir().context("make a temporary folder")?;
        let settings = folder.path().join("web.json");
        let web = serde_json::json!({
            "hosts": hosts, "pages": BIG_WEB, "size_exponent": 0.0, "page_bytes": 40_000, "page_bytes_sigma": 0.0,
            "links": known.div_ceil(BIG_PAGES), "addresses": 20, "journal_max": 0,
        });
        std::fs::write(&settings, web.to_string())?;
        let site = Site::start(&self.programs, &["--settings", &settings.display().to_string()])?;
        let dir = folder.path().join("crawl").display().to_string();
        let address = Answering::free_address()?;
        let listen = address.to_string();
        let (nephila, finds) = (self.programs.path("nephila")?, sets(&site.settings(&[])?));
        let began = Instant::now();
        let mut args = words(&["crawl", site.home()?, "--scope", "any", "--config", "/dev/null"]);
        args.extend(words(&["--delay", "0s", "--listen", &listen, "-o", &dir]));
        args.extend(sets(&["frontier.slot_delay=0s".into(), "frontier.slot_connections=8".into()]));
        args.extend(sets(&["frontier.host_delay_factor=0".into(), "budget.domain_urls=1000000000".into()]));
        args.extend(finds.iter().cloned());
        let mut crawl = Answering::start(nephila, &args, folder.path().join("crawl.log"), address)?;
        crawl.wait(START_LIMIT)?;
        let are_known =
            |status: &Value| status["frontier"]["queued"].as_u64().filter(|queued| *queued >= known);
        let queued = until(&mut crawl, BIG_LIMIT, are_known)?;
        crawl.kill();
        println!("{queued} URLs known after {:.0} s", began.elapsed().as_secs_f64());
        let mut args = words(&["serve", "--config", "/dev/null", "-o", &dir]);
        args.extend(sets(&[format!("api.listen={listen}"), "budget.domain_urls=1000000000".into()]));
        args.extend(finds);
        let mut serve = Answering::start(nephila, &args, folder.path().join("serve.log"), address)?;
        serve.wait(BIG_LIMIT)?;
        let is_there =
            |status: &Value| status["frontier"]["queued"].as_u64().filter(|now| *now >= queued / 2);
        until(&mut serve, BIG_LIMIT, is_there)?;
        self.look(address, "big", &[])
    }

    /// Lets the judge look at every page.
    fn look(&self, address: SocketAddr, name: &str, more: &[String]) -> Result<()> {
        let mut command = Command::new("node");
        command.arg("dashboard.mjs").arg(format!("http://{address}/"));
        command.arg("--out").arg(self.out.join(name));
        command.args(["--load-ms", &self.args.load_ms.to_string()]).args(more);
        command.args(self.args.short.then_some("--quick"));
        shell::run(command.current_dir(&self.judge), JUDGE_LIMIT)
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Settings as flags.
fn sets(settings: &[String]) -> Vec<String> {
    settings.iter().flat_map(|set| ["--set".to_owned(), set.clone()]).collect()
}

/// Waits until the crawl has fetched some pages.
fn warm_up(crawl: &mut Answering) -> Result<u64> {
    until(crawl, WARM_UP, |status| status["done"]["pages"].as_u64().filter(|pages| *pages >= PAGES_FIRST))
}

/// Asks for the status until it has what is wanted.
fn until(crawl: &mut Answering, limit: Duration, wanted: impl Fn(&Value) -> Option<u64>) -> Result<u64> {
    let end = Instant::now() + limit;
    let mut last = String::new();
    while Instant::now() < end {
        ensure!(crawl.is_running()?, "the crawl ended; it said:\n{}", crawl.said());
        match nodes::ask(crawl.address(), "/api/v1/status") {
            Ok(status) => match wanted(&status) {
                Some(value) => return Ok(value),
                None => last = status.to_string(),
            },
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    bail!(
        "not within {} s; the last status: {:.600}; the crawl said:\n{}",
        limit.as_secs(),
        last,
        crawl.said()
    )
}
