//! Pull the plug: the crawl is killed at random moments, one in five during the recovery from the last kill, and the
//! same command goes on, until the crawl is done. When a crawl is done before all kills are, another one begins.
//!
//! The invariants are the same as without kills, counted over all runs: complete, polite, obedient, every capture
//! whole. One difference is allowed: a page whose ticket was open at a kill may be requested once more.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nephila_testweb::journal::{Log, Request};

use crate::archive::{self, Copies};
use crate::crawler::{Crawler, Place, Rests};
use crate::judge::{self, Verdict};
use crate::peers;
use crate::site::{self, Site};
use crate::tables::Judge;

/// A run that is killed late lives this long.
const LIFE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// A run that is killed early lives at most this long: the recovery is still going on.
const EARLY_MAX: Duration = Duration::from_millis(300);
/// One kill in this number is early.
const EARLY_EVERY: u64 = 5;
/// After its last byte a page is stored, read and reported. A kill up to this long after that may cost another request.
/// Long, since a shared disk may be slow; the longest delay seen is printed.
const GRACE: Duration = Duration::from_secs(5);
/// The server notices within this time that the other end of a connection is gone.
const CUT: Duration = Duration::from_millis(50);
/// Maximum delay until the server reads a request.
const LATE: Duration = Duration::from_millis(100);
/// Fetches at the same time.
const CONCURRENCY: usize = 64;
/// Tickets open at once: fetching, and fetched and not yet durable (`STORING_MIN` of the crawl).
const OPEN_MAX: usize = CONCURRENCY + 256;
/// After this number of lives in a row without a page the crawl only waits for its backoffs: no more kills are wasted
/// then.
const IDLE_LIVES_MAX: u32 = 5;
/// The last run of a crawl has this long.
const LIMIT: Duration = Duration::from_secs(600);
/// Maximum number of retries of a page that failed, kills aside.
const RETRIES_MAX: u32 = 3;

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of times the crawl is killed.
    #[arg(long, default_value_t = 300)]
    kills: usize,
    /// Seed of the random moments and of the webs; the moment of a kill still depends on the machine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Hosts of each web.
    #[arg(long, default_value_t = 80)]
    hosts: u32,
    /// Pages of each web.
    #[arg(long, default_value_t = 12_000)]
    pages: u64,
    /// Rest of a host between two requests (crawl delay), in milliseconds; an address rests half as long.
    #[arg(long, default_value_t = 10)]
    host_delay_ms: u64,
    /// Also kill Scrapy, wget2 and httrack once, and report the pages they lose and fetch again.
    #[arg(long)]
    peers: bool,
    /// With --peers: the Python of an environment that has Scrapy.
    #[arg(long)]
    python: Option<std::path::PathBuf>,
    #[command(flatten)]
    judge: Judge,
}

/// One kill, in time of the journal: just before and just after.
type Kill = (u64, u64);

#[derive(Debug, Default)]
struct Figures {
    kills: usize,
    early: usize,
    crawls: usize,
    places: u64,
    captures: usize,
    read: usize,
    requests: usize,
    repeats: usize,
    /// The most repeats that one kill cost.
    repeats_max: usize,
    /// The longest time between the end of an answer and a kill that still cost a repeat.
    lag_max_us: u64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut random = Random(args.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut verdict = Verdict::default();
    let mut total = Figures::default();
    while total.kills < args.kills {
        one_crawl(args, place, &mut random, &mut verdict, &mut total)?;
        eprintln!("plug: {} of {} kills, {} faults", total.kills, args.kills, verdict.faults());
    }
    if args.peers {
        peers::run(place, args.python.as_deref(), &mut verdict)?;
    }
    verdict.end(&format!(
        "plug: {} kills ({} during recovery) of {} crawls, {} places stored as the truth says, {} captures, {} read again, \
         {} requests, {} repeated (at most {} for one kill, at most {:.0} ms after the answer), 0 lost, {:.0} s",
        total.kills,
        total.early,
        total.crawls,
        total.places,
        total.captures,
        total.read,
        total.requests,
        total.repeats,
        total.repeats_max,
        total.lag_max_us as f64 / 1e3,
        began.elapsed().as_secs_f64(),
    ))
}

fn one_crawl(
    args: &Args,
    place: &Place,
    random: &mut Random,
    verdict: &mut Verdict,
    total: &mut Figures,
) -> anyhow::Result<()> {
    let folder = place.folder("plug")?;
    let host = Duration::from_millis(args.host_delay_ms);
    let rests = Rests { host, slot: host / 2 };
    let seed = args.seed + total.crawls as u64 * 1_000_000;
    let site = Site::start(site::mixed(seed, args.hosts, args.pages)?, &folder)?;
    let wanted = site.most_domains(&folder)?;
    let mut crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "domain", rests);
    crawler.set(&format!("crawl.concurrency={CONCURRENCY}"));
    args.judge.settings().iter().for_each(|setting| crawler.set(setting));
    let journal = site.web().journal().clone();
    let mut kills: Vec<Kill> = Vec::new();
    let mut idle_lives = 0;
    loop {
        let pages = journal.requests();
        let mut run = crawler.start()?;
        if total.kills == args.kills || idle_lives > IDLE_LIVES_MAX {
            run.finish(LIMIT)?;
            break;
        }
        let early = random.below(EARLY_EVERY) == 0;
        let life =
            if early { random.duration(Duration::ZERO, EARLY_MAX) } else { random.duration(LIFE.0, LIFE.1) };
        if run.wait_until(Instant::now() + life)? {
            break;
        }
        let before = journal.now_us();
        run.kill()?;
        kills.push((before, journal.now_us()));
        total.kills += 1;
        total.early += usize::from(early);
        idle_lives = if journal.requests() > pages { 0 } else { idle_lives + 1 };
    }
    let world = site.web().world().clone();
    let log = site.stop();
    total.crawls += 1;
    total.requests += log.requests.len();
    total.places += judge::complete(verdict, &world, &wanted.truth, &log);
    judge::polite(verdict, &world, &log, rests);
    repeats(verdict, &log, &kills, total);
    let copies = if kills.is_empty() { Copies::Once } else { Copies::AsAsked };
    let (captures, read) = archive::check(verdict, &crawler, &world, &wanted.truth, &log, copies, 1_000)?;
    total.captures += captures;
    total.read += read;
    if let Some(said) = args.judge.run(crawler.dir(), &world, &wanted.truth)? {
        eprintln!("plug: tables: {said}");
    }
    Ok(())
}

/// Checks that every page requested twice had failed, or was open at a kill; and that no kill costs more than the open
/// tickets.
fn repeats(verdict: &mut Verdict, log: &Log, kills: &[Kill], total: &mut Figures) {
    let mut by_url: HashMap<(bool, &str, &str), Vec<&Request>> = HashMap::new();
    for request in log.requests.iter().filter(|request| !request.path.starts_with("/robots")) {
        by_url.entry((request.tls, &request.host, &request.path)).or_default().push(request);
    }
    let grace = GRACE.as_micros() as u64;
    let mut per_kill = vec![0usize; kills.len()];
    let mut unasked = Vec::new();
    for ((_, host, path), requests) in &by_url {
        let mut failures = 0;
        for pair in requests.windows(2) {
            let (before, again) = (pair[0], pair[1]);
            let failed = before.status == 429 || before.status >= 500 || !before.is_complete;
            // The first kill after the start of the request ended the process: only that kill can have cost the repeat.
            // A busy server may read a request sent before the kill a little after the kill.
            let late = LATE.as_micros() as u64;
            let between = |late: u64| {
                let first = kills.iter().position(|(_, to)| before.start_us <= *to + late);
                first.filter(|kill| kills[*kill].1 <= again.start_us)
            };
            let first = between(0).or_else(|| between(late));
            let kill_within = |grace: u64| first.filter(|kill| kills[*kill].0 <= before.end_us + grace);
            // A page that failed by itself is retried, kill or not, unless a kill cut the request off; but a kill
            // before the failure was recorded takes nothing from the page's retries.
            let cut = kill_within(CUT.as_micros() as u64);
            if cut.is_none() && failed && failures < RETRIES_MAX {
                failures += 1;
                continue;
            }
            let Some(kill) = cut.or_else(|| kill_within(grace)) else {
                let at = again.start_us as f64 / 1e6;
                let began = before.start_us as f64 / 1e6;
                unasked.push(format!("{host}{path} at {at:.3} s, {} at {began:.3} s", before.status));
                continue;
            };
            per_kill[kill] += 1;
            total.repeats += 1;
            if !failed {
                total.lag_max_us = total.lag_max_us.max(kills[kill].0.saturating_sub(before.end_us));
            }
        }
    }
    let most = per_kill.iter().copied().max().unwrap_or(0);
    total.repeats_max = total.repeats_max.max(most);
    verdict.expect(most <= OPEN_MAX, || format!("one kill cost {most} repeats"));
    verdict.expect(unasked.is_empty(), || {
        let shown: Vec<_> = unasked.iter().take(5).cloned().collect();
        format!("{} repeats without a reason: {}", unasked.len(), shown.join("; "))
    });
}

/// A small generator (xorshift): good enough for moments.
pub struct Random(pub u64);

impl Random {
    /// A number below this.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    /// A time between these.
    pub fn duration(&mut self, from: Duration, to: Duration) -> Duration {
        from + Duration::from_micros(self.below(u64::try_from((to - from).as_micros()).unwrap_or(u64::MAX)))
    }
}
