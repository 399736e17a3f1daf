//! `cargo xtask dashboard`: the pages of a real crawl, judged in Chromium by `outside/dashboard`.
//!
//! A crawl of the test web runs with `--listen`; the judge opens every page, in light and dark, 1280 and 390 pixels wide. Then
//! the crawl is killed, `nephila serve` opens its folder, and the judge looks again. The judge itself is judged first, by
//! planted faults (`selftest.mjs`), unless `--skip-selftest` is given.
//!
//! Needs Chromium, node and npm on the machine, so CI leaves this out.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::interop::default_cache;
use crate::programs::Programs;
use crate::shell;
use crate::watched::{Watched, Web};

/// Options of `dashboard`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Hosts of the web
    #[arg(long, default_value_t = 200)]
    hosts: u32,
    /// Pages of the web
    #[arg(long, default_value_t = 20_000)]
    pages: u32,
    /// Time within which a page has its data, in milliseconds
    #[arg(long, default_value_t = 1_000)]
    load_ms: u32,
    /// Folder for screenshots
    #[arg(long, default_value = "/tmp/nephila-dashboard")]
    out: PathBuf,
    /// Folder that keeps the tools of others
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
    /// Do not judge the judge first
    #[arg(long)]
    skip_selftest: bool,
}

/// Time until a server answers.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time that the crawl runs before the judge looks.
const WARM_UP: Duration = Duration::from_secs(20);
/// Timeout of the judge.
const JUDGE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let programs = Programs::build()?;
    let cache = args.cache.clone().map_or_else(default_cache, Ok)?;
    let judge = tools(&cache.join("dashboard"))?;
    let mut missed = Vec::new();
    if !args.skip_selftest {
        let mut selftest = Command::new("node");
        selftest.arg("selftest.mjs").current_dir(&judge);
        missed.extend(shell::run(&mut selftest, JUDGE_LIMIT).err().map(|_| "the judge's own test"));
    }
    let web = Web { hosts: args.hosts, pages: args.pages, delay: "1s" };
    let mut crawl = Watched::start(&programs, &web)?;
    let address = crawl.address();
    wait_for(address, || crawl.is_running())?;
    std::thread::sleep(WARM_UP);
    let looked = look(&judge, &address.to_string(), &args.out.join("crawl"), args.load_ms, true);
    ensure!(crawl.is_running()?, "the crawl ended while it was looked at; it said:\n{}", crawl.said());
    missed.extend(looked.err().map(|_| "a running crawl"));
    crawl.kill();

    let mut serve = Command::new(programs.path("nephila")?);
    serve.args(["serve", "--read-only", "--config", "/dev/null", "-o"]).arg(crawl.dir());
    serve.args(["--set", &format!("api.listen={address}")]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut serve = serve.stdin(Stdio::null()).spawn().context("start nephila serve")?;
    let looked = wait_for(address, || Ok(serve.try_wait()?.is_none()))
        .and_then(|()| look(&judge, &address.to_string(), &args.out.join("folder"), args.load_ms, false));
    serve.kill().ok();
    serve.wait().ok();
    missed.extend(looked.err().map(|_| "a folder"));
    println!("dashboard: {} hosts, {} pages; screens in {}", args.hosts, args.pages, args.out.display());
    ensure!(missed.is_empty(), "the judge complains: {}", missed.join(", "));
    Ok(())
}

/// A copy of the judge with its packages from npm.
fn tools(folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let source = shell::root().join("outside/dashboard");
    let lock = "package-lock.json";
    let is_same = std::fs::read(folder.join(lock)).ok() == std::fs::read(source.join(lock)).ok();
    for entry in std::fs::read_dir(&source)? {
        let path = entry?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            std::fs::copy(&path, folder.join(name))?;
        }
    }
    if !is_same || !folder.join("node_modules").is_dir() {
        let status = Command::new("npm").args(["ci", "--silent"]).current_dir(folder).status();
        ensure!(status.context("run npm")?.success(), "npm ci failed: the package registry must answer once");
    }
    Ok(folder.to_owned())
}

fn wait_for(address: std::net::SocketAddr, mut is_running: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + START_LIMIT;
    while TcpStream::connect(address).is_err() {
        ensure!(is_running()? && Instant::now() < end, "nothing answers at {address}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Lets the judge look at every page.
fn look(judge: &Path, address: &str, out: &Path, load_ms: u32, may_change: bool) -> Result<()> {
    let mut command = Command::new("node");
    command.arg("dashboard.mjs").arg(format!("http://{address}/")).arg("--out").arg(out);
    command.args(["--load-ms", &load_ms.to_string()]).args(may_change.then_some("--may-change"));
    shell::run(command.current_dir(judge), JUDGE_LIMIT)
}
