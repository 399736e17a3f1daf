//! `nephila map`, the dry run: which URLs a crawl would fetch, and which rule decided.
//!
//! A crawl that follows only redirects and sitemaps, keeps nothing, and prints the verdict on every URL found. A URL in
//! scope waits until the robots.txt of its host is read, which may forbid the URL. Therefore one URL of every host goes
//! to the frontier, which fetches robots.txt first; the URL itself is not requested.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use nephila_core::frontier::explain::{Explanation, Hold};
use nephila_core::job::{Rules, ScopeVerdict};
use nephila_core::state::record::RobotsPolicy;
use nephila_core::text::shown;
use nephila_core::url::{CrawlUrl, UrlId};
use serde::Serialize;
use tokio::sync::Notify;

use super::resolved;
use crate::cli::crawl::MapArgs;
use nephila_engine::crawl::ending::{self, End};
use nephila_engine::crawl::shared::{JOB, Shared, Tools};
use nephila_engine::crawl::stage::Observe;
use nephila_engine::crawl::{begin, work};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::log;
use nephila_engine::process;
use nephila_engine::process::block_on;
use nephila_engine::settings::StateKind;
use nephila_engine::wire;

/// Maximum number of URLs in the deduplication of the output. Beyond, a URL may be printed again.
const PRINTED_MAX: usize = 5_000_000;

/// Maximum number of URLs in scope that wait for the robots.txt of their hosts. Beyond, they are printed as allowed.
const PENDING_MAX: usize = 1_000_000;
/// Maximum number of hosts of which one URL goes to the frontier.
const HOSTS_MAX: usize = 100_000;

/// Prints verdicts.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
    printed: Mutex<HashSet<UrlId>>,
    pending: Mutex<Vec<Pending>>,
    hosts: Mutex<HashSet<String>>,
}

/// A URL in scope.
#[derive(Debug)]
struct Pending {
    url: CrawlUrl,
    via: String,
    rule: String,
    origin: String,
}

#[derive(Serialize)]
struct Line<'a> {
    url: &'a str,
    verdict: &'static str,
    via: &'a str,
    rule: String,
    origin: String,
}

impl Printer {
    fn new(json: bool) -> Printer {
        Printer { json, printed: Mutex::default(), pending: Mutex::default(), hosts: Mutex::default() }
    }

    /// Records the decision about a URL, once.
    fn take(&self, url: &CrawlUrl, is_in: bool, via: &str, rule: String, origin: String) {
        let mut printed = self.printed.lock().expect("nobody panics holding it");
        if printed.len() >= PRINTED_MAX {
            printed.clear();
        }
        if !printed.insert(url.id()) {
            return;
        }
        drop(printed);
        let pending = Pending { url: url.clone(), via: via.to_owned(), rule, origin };
        let mut waiting = self.pending.lock().expect("nobody panics holding it");
        if is_in && waiting.len() < PENDING_MAX {
            waiting.push(pending);
            return;
        }
        drop(waiting);
        self.line(&pending, is_in);
    }

    /// Prints the URLs in scope whose robots.txt has been read; at the end all of them.
    async fn settle(&self, shared: &Shared, at_end: bool) -> anyhow::Result<()> {
        let pending = std::mem::take(&mut *self.pending.lock().expect("nobody panics holding it"));
        let mut kept = Vec::new();
        for mut pending in pending {
            let said = shared.handle.explain(&pending.url).await?;
            match forbidden(&said) {
                Some(why) if shared.settings.robots.obey => {
                    (pending.rule, pending.origin) = (why, "robots.txt".into());
                    self.line(&pending, false);
                }
                _ if !at_end && shared.settings.robots.obey && is_unread(&said) => kept.push(pending),
                _ => self.line(&pending, true),
            }
        }
        self.pending.lock().expect("nobody panics holding it").extend(kept);
        Ok(())
    }

    fn line(&self, pending: &Pending, is_in: bool) {
        let line = Line {
            url: pending.url.as_str(),
            verdict: if is_in { "in" } else { "out" },
            via: &pending.via,
            rule: pending.rule.clone(),
            origin: pending.origin.clone(),
        };
        let text = match self.json {
            true => serde_json::to_string(&line).expect("strings can be written"),
            false => {
                format!(
                    "{:<4} {}   {} ({}, {})",
                    line.verdict,
                    shown(line.url),
                    line.rule,
                    line.origin,
                    line.via
                )
            }
        };
        // Standard output may be closed.
        _ = writeln!(std::io::stdout(), "{text}");
    }
}

impl Observe for Printer {
    fn judged(&self, url: &CrawlUrl, rules: &Rules, verdict: &ScopeVerdict, via: &str) {
        self.take(url, verdict.is_in(), via, rules.text(verdict.rule), rules.origin(verdict.rule));
    }

    fn needed(&self, url: &CrawlUrl) {
        self.take(url, true, "requisite", "a page needs it".into(), "page_requisites".into());
    }

    fn lets_pass(&self, url: &CrawlUrl) -> bool {
        let mut hosts = self.hosts.lock().expect("nobody panics holding it");
        hosts.len() < HOSTS_MAX && hosts.insert(url.origin().to_owned())
    }

    fn is_dry_run(&self) -> bool {
        true
    }
}

/// Why robots.txt forbids a URL, if so.
fn forbidden(said: &Explanation) -> Option<String> {
    said.held_by.iter().find_map(|hold| match hold {
        Hold::Robots { .. } | Hold::RobotsUnreachable(_) => Some(hold.to_string()),
        _ => None,
    })
}

fn is_unread(said: &Explanation) -> bool {
    said.host.as_ref().is_none_or(|host| host.robots.policy == RobotsPolicy::Unknown)
}

/// Maximum wait of a dry run for resting hosts.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Interval at which URLs with a known robots.txt are printed.
const SETTLE_EVERY: Duration = Duration::from_millis(100);

/// Prints the URLs whose robots.txt has been read, until the crawl is over.
async fn settle_until(over: &Notify, printer: &Printer, shared: &Shared) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = over.notified() => return Ok(()),
            () = tokio::time::sleep(SETTLE_EVERY) => {}
        }
        printer.settle(shared, false).await?;
    }
}

/// Runs the command.
pub(crate) fn run(args: MapArgs) -> anyhow::Result<Exit> {
    let resolved::ResolvedCrawl { mut settings, plan, fields, typed } =
        resolved::map(&args.urls, &args.seeds, &args.what, &args.how)?;
    settings.crawl.state = StateKind::Memory;
    // A dry run does not wait for resting hosts.
    settings.crawl.wait_max = WAIT_MAX;
    let dir = tempfile::tempdir().context("a temporary folder")?;
    let folder = Folder::new(dir.path());
    let _lock = folder.lock()?;
    let runtime = process::runtime(0)?;
    let exit = block_on(&runtime, async {
        let running = wire::worker(&folder, &settings, false)?;
        let (log, log_thread) = log::Writer::open(&folder.logs()).context("opening the log")?;
        let spider = wire::spider(&settings)?;
        spider.set_doors(folder.open_doors(&typed)?);
        let tools = Tools { handle: running.handle, fetch: Arc::new(spider), keep: None, log };
        let shared = Shared::new(settings, folder, plan, tools)?;
        let json = args.json || !std::io::stdout().is_terminal();
        let printer = Arc::new(Printer::new(json));
        let shared = Arc::new(shared.with_fields(fields).observed(printer.clone()));
        let job = shared.jobs.get(JOB).expect("a crawl has one job");
        for seed in &shared.plan().job.scope.seeds {
            if let Ok(url) = CrawlUrl::parse(seed) {
                let verdict = job.rules.verdict(&url, nephila_core::job::FoundBy::seed());
                printer.judged(&url, &job.rules, &verdict, "seed");
            }
        }
        begin(&shared).await?;
        let over = Notify::new();
        let working = async {
            let mut signals = process::Signals::new()?;
            let until = work::Until::default();
            let end = work::work(&shared, running.actions, until, &mut work::Silent, &mut signals).await;
            over.notify_one();
            end
        };
        let (end, settled) = tokio::join!(working, settle_until(&over, &printer, &shared));
        let end = end?;
        settled?;
        if !matches!(end, End::StoppedHard) {
            printer.settle(&shared, true).await?;
            ending::close(&shared, running.thread, log_thread).await?;
        }
        match end {
            End::Waited(_) => Ok(Exit::Done),
            end => end.exit(&ending::Left::default()),
        }
    });
    runtime.shutdown_background();
    exit
}
