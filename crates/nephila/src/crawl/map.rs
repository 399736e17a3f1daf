//! `nephila map`: what a crawl would fetch, and which rule decided.
//!
//! A crawl that follows nothing but redirects and sitemaps, keeps nothing, and prints the verdict on every URL it finds.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use nephila_core::job::{Rules, Verdict};
use nephila_core::text::shown;
use nephila_core::url::{CrawlUrl, UrlId};
use serde::Serialize;

use super::ending::{self, End};
use super::progress::Progress;
use super::shared::{JOB, Shared, Tools};
use super::{begin, meant, work};
use crate::cli::crawl::{self, MapArgs};
use crate::exit::Exit;
use crate::folder::Folder;
use crate::settings::StateKind;
use crate::{log, wire};

/// URLs remembered as printed, so that each is printed once. Beyond, one may be printed again.
const PRINTED_MAX: usize = 5_000_000;

/// Prints verdicts.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
    printed: Mutex<HashSet<UrlId>>,
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
    pub(super) fn print(&self, url: &CrawlUrl, rules: &Rules, verdict: &Verdict, via: &str) {
        let mut printed = self.printed.lock().expect("nobody panics holding it");
        if printed.len() >= PRINTED_MAX {
            printed.clear();
        }
        if !printed.insert(url.id()) {
            return;
        }
        let line = Line {
            url: url.as_str(),
            verdict: if verdict.is_in() { "in" } else { "out" },
            via,
            rule: rules.text(verdict.rule),
            origin: rules.origin(verdict.rule),
        };
        let text = match self.json {
            true => serde_json::to_string(&line).expect("strings can be written"),
            false => {
                format!("{:<4} {}   {} ({}, {})", line.verdict, shown(line.url), line.rule, line.origin, via)
            }
        };
        // Nobody may be listening.
        _ = writeln!(std::io::stdout(), "{text}");
    }
}

/// Runs the command.
pub(crate) fn run(args: MapArgs) -> anyhow::Result<Exit> {
    let meant::Meant { mut settings, plan, fields } =
        meant::map(&args.urls, &args.seeds, &args.what, &args.how)?;
    settings.crawl.state = StateKind::Memory;
    let dir = tempfile::tempdir().context("a temporary folder")?;
    let folder = Folder::new(dir.path());
    let _lock = folder.lock()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let exit = runtime.block_on(async {
        let running = wire::worker(&folder, &settings)?;
        let (log, log_thread) = log::Writer::open(&folder.logs()).context("opening the log")?;
        let spider = wire::spider(&settings)?;
        let tools = Tools { handle: running.handle, spider, archive: None, log };
        let mut shared = Shared::new(settings, folder, plan, tools)?;
        let json = args.json || !std::io::stdout().is_terminal();
        shared.map = Some(Printer { json, printed: Mutex::default() });
        let shared = Arc::new(shared.with_fields(fields));
        let job = shared.jobs.get(JOB).expect("a crawl has one job");
        for seed in &shared.plan().job.scope.seeds {
            if let Ok(url) = CrawlUrl::parse(seed) {
                let verdict = job.rules.verdict(&url, nephila_core::job::Found::seed());
                shared.show(&job, &url, &verdict, "seed");
            }
        }
        begin(&shared).await?;
        let end =
            work::work(&shared, running.actions, None, Progress::new(crawl::Progress::None, true)).await?;
        if !matches!(end, End::StoppedHard) {
            ending::close(&shared, running.thread, log_thread).await?;
        }
        end.exit()
    });
    runtime.shutdown_background();
    exit
}
