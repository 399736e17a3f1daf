//! Complete: every reachable, allowed, wanted page exactly once, nothing else, and a reason for each of the others.
//!
//! The crawl wants all domains but one in twelve (`--scope domain`) and begins at one host of each. Like the ground
//! truth, the crawl reads sitemaps and feeds. Duplicates are one page in twelve, far below the share at which a shape
//! of URLs is closed as a trap.

use std::time::Duration;

use nephila_testweb::check::Repeats;

use crate::archive::{self, Copies};
use crate::crawler::{Crawler, Place, Rests};
use crate::judge::{self, Verdict};
use crate::reasons;
use crate::site::{self, Site};

/// Tries of a page that fails: the first and `retry.retries_max` more, and the tries after a rest of its whole host.
const RETRIES_MAX: u32 = 3;
/// A page takes this long at most, all of them one after the other: far more than any crawl needs.
const PAGE_MAX: Duration = Duration::from_millis(20);
/// Minimum timeout for a crawl of any size.
const LIMIT_MIN: Duration = Duration::from_secs(300);

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of hosts of the web.
    #[arg(long, default_value_t = 300)]
    hosts: u32,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 200_000)]
    pages: u64,
    /// Where the search for a seed of the web begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rest of a host between two requests (crawl delay), in milliseconds; an address rests half as long.
    #[arg(long, default_value_t = 10)]
    host_delay_ms: u64,
    /// Number of places of each kind to explain; 0 for none.
    #[arg(long, default_value_t = 500)]
    reasons: usize,
    /// Number of records read again.
    #[arg(long, default_value_t = 1_000)]
    records: usize,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let folder = place.folder("complete")?;
    let host = Duration::from_millis(args.host_delay_ms);
    let rests = Rests { host, slot: host / 2 };
    let site = Site::start(site::mixed(args.seed, args.hosts, args.pages)?, &folder)?;
    let wanted = site.most_domains(&folder)?;
    let crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "domain", rests);
    let limit = LIMIT_MIN.max(PAGE_MAX * u32::try_from(args.pages).unwrap_or(u32::MAX));
    let ended = crawler.finish(limit)?;
    let mut verdict = Verdict::default();
    let world = site.web().world().clone();
    let reasons = match args.reasons {
        0 => Default::default(),
        sample => reasons::check(&mut verdict, &crawler, &world, &wanted.truth, sample)?,
    };
    let log = site.stop();

    let pages = judge::complete(&mut verdict, &world, &wanted.truth, &log);
    let repeats = Repeats { retries_max: RETRIES_MAX, ..Repeats::default() }.check(&log);
    verdict.report("repeats", &repeats);
    judge::polite(&mut verdict, &world, &log, rests);
    let (captures, read) =
        archive::check(&mut verdict, &crawler, &world, &wanted.truth, &log, Copies::Once, args.records)?;
    for (reach, count) in wanted.truth.counts() {
        println!("truth: {count:>8} {reach:?}");
    }
    for (answer, count) in &reasons {
        println!("reason: {count:>7} {answer}");
    }
    let seconds = ended.took.as_secs_f64();
    verdict.end(&format!(
        "complete: {pages} places of {} hosts fetched as the truth says (web seed {}), {} requests, 0 to repeat, \
         {captures} captures, {read} read again, {} reasons, {seconds:.0} s, {:.0} requests/s, peak {} MB",
        args.hosts,
        world.settings().seed,
        log.requests.len(),
        reasons.values().sum::<usize>(),
        log.requests.len() as f64 / seconds,
        ended.peak_kb / 1024,
    ))
}
