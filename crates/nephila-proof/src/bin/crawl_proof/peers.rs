//! Other crawlers beside ours: one kill in the middle of a site of 3,000 pages, the same command again, and a count at
//! the server of pages never fetched and pages fetched again.
//!
//! They do not resolve names: the web itself stands as their proxy, since the web understands requests that name a
//! whole URL. Each gets its own flags for going on after an interruption.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_testweb::Settings;
use nephila_testweb::journal::Log;

use crate::crawler::{Crawler, Place, Rests};
use crate::judge::Verdict;
use crate::site::Site;

/// Pages of the site.
const PAGES: u64 = 3_000;
/// The kill comes after this number of requests.
const KILL_AT: usize = 1_500;
/// Timeout of a run.
const LIMIT: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(20);
/// The spider for Scrapy.
const SPIDER: &str = include_str!("spider.py");

/// The counts of one tool.
#[derive(Debug)]
struct Counts {
    never: usize,
    again: usize,
}

/// Runs all installed tools.
pub fn run(place: &Place, python: Option<&Path>, verdict: &mut Verdict) -> anyhow::Result<()> {
    for name in ["nephila", "scrapy", "wget2", "httrack"] {
        let folder = place.folder(&format!("peer-{name}"))?;
        let site = Site::start(web(), &folder)?;
        let program = match name {
            "scrapy" => python.map(|python| python.display().to_string()),
            name => Some(name.to_owned()),
        };
        let is_here = match (name, &program) {
            ("nephila", _) => true,
            (_, Some(program)) => Command::new(program).arg("--version").output().is_ok(),
            _ => false,
        };
        let (Some(program), true) = (program, is_here) else {
            println!("skipped: {name} is not here: apt-get install wget2 httrack, and --python for Scrapy");
            continue;
        };
        let rests = Rests { host: Duration::from_millis(5), slot: Duration::ZERO };
        let ours = site.everything(&folder)?;
        let crawler = Crawler::new(place, &folder, &site, &ours.seeds, "any", rests);
        let start = || -> anyhow::Result<Box<dyn Peer>> {
            if name == "nephila" {
                return Ok(Box::new(crawler.start()?));
            }
            Ok(Box::new(Tool(
                command(name, &program, &folder, &site)?.spawn().with_context(|| program.clone())?,
            )))
        };
        let mut first = start()?;
        let began = Instant::now();
        let mut over = false;
        while site.web().journal().requests() < KILL_AT && began.elapsed() < LIMIT && !over {
            std::thread::sleep(LOOK);
            over = first.is_over()?;
        }
        first.kill()?;
        let mut second = start()?;
        let began = Instant::now();
        while !second.is_over()? && began.elapsed() < LIMIT {
            std::thread::sleep(LOOK);
        }
        second.kill()?;
        let urls: Vec<String> = site.web().urls().collect();
        let Counts { never, again } = count(&urls, &site.stop());
        let hint = if over { " (it was over before the kill)" } else { "" };
        println!("peer: {name}: of {} pages {never} never fetched, {again} fetched again{hint}", urls.len());
        if name == "nephila" {
            verdict.expect(never == 0, || format!("beside the others we lost {never} pages"));
        }
    }
    Ok(())
}

fn web() -> Settings {
    Settings { hosts: 1, pages: PAGES, addresses: 1, page_bytes: 6_000, threads: 1, ..Settings::default() }
}

fn count(urls: &[String], log: &Log) -> Counts {
    // By path alone: there is one host, and wget2 leaves its port out.
    let mut asked: HashMap<&str, usize> = HashMap::new();
    for request in log.requests.iter().filter(|request| request.status == 200 && request.is_complete) {
        *asked.entry(&request.path).or_default() += 1;
    }
    let path =
        |url: &str| url.splitn(4, '/').nth(3).map_or_else(|| "/".to_owned(), |path| format!("/{path}"));
    let times = |url: &String| asked.get(path(url).as_str()).copied().unwrap_or(0);
    Counts {
        never: urls.iter().filter(|url| times(url) == 0).count(),
        again: urls.iter().map(|url| times(url).saturating_sub(1)).sum(),
    }
}

fn command(name: &str, program: &str, folder: &Path, site: &Site) -> anyhow::Result<Command> {
    let proxy = format!("{}:{}", site.world().address(0), site.web().http_port());
    let home = site.web().urls().next().context("a web has a page")?;
    let into = folder.join("mirror").display().to_string();
    let mut command = Command::new(program);
    match name {
        "scrapy" => {
            let spider = folder.join("spider.py");
            std::fs::write(&spider, SPIDER)?;
            command.args(["-m", "scrapy", "runspider"]).arg(spider).args(["-a", &format!("home={home}")]);
            command.args(["-s", &format!("JOBDIR={into}"), "-s", "LOG_LEVEL=ERROR"]);
        }
        "wget2" => {
            // Pages on the disk are not requested again, and their links are followed.
            command.args([
                "--recursive",
                "--level=inf",
                "--no-clobber",
                "--quiet",
                "--directory-prefix",
                &into,
                &home,
            ]);
        }
        _ => {
            // At full speed; httrack finds its earlier state and asks no questions.
            let fast = ["-c20", "-%c0", "-%!", "-A0", "-r9999", "-q"];
            command.args([home.as_str(), "-O", &into, "-P", &proxy]).args(fast);
        }
    }
    let proxy = format!("http://{proxy}");
    command.env("http_proxy", &proxy).env("HTTP_PROXY", &proxy).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// A crawler that runs.
trait Peer {
    fn is_over(&mut self) -> anyhow::Result<bool>;
    fn kill(self: Box<Self>) -> anyhow::Result<()>;
}

struct Tool(Child);

impl Peer for Tool {
    fn is_over(&mut self) -> anyhow::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }

    fn kill(mut self: Box<Self>) -> anyhow::Result<()> {
        self.0.kill().ok();
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Peer for crate::crawler::Run {
    fn is_over(&mut self) -> anyhow::Result<bool> {
        self.wait_until(Instant::now())
    }

    fn kill(self: Box<Self>) -> anyhow::Result<()> {
        crate::crawler::Run::kill(*self)
    }
}
