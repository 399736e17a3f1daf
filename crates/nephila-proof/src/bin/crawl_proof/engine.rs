//! The engine away: all NATS servers are killed in the middle of a crawl and come back after a while.
//!
//! Invariants: no request is sent once the leases may have expired; memory stays bounded; a status request is answered
//! soon, saying that the servers do not answer; and when they are back everything goes on by itself, with nothing lost.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::cluster::{self, Fault, Kind, Watch};
use crate::crawler::Place;
use crate::herd::{Herd, Judged, Size, us};
use crate::judge::Verdict;
use crate::site::Site;

/// Memory while the servers are away, against that before: this many times, and this much more.
const GROWTH_MAX: u64 = 2;
const GROWTH_KB: u64 = 128 * 1024;
/// Timeout of a status request.
const STATUS_MAX: Duration = Duration::from_secs(20);
/// Maximum time from the servers' return to the next request.
const BACK_MAX: Duration = Duration::from_secs(120);
/// Maximum delay until a server reads a request, on a machine under load.
const LATE: Duration = Duration::from_secs(1);
/// Interval between readings of memory.
pub const LOOK: Duration = Duration::from_millis(500);

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Number of nodes.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// How long the servers are away.
    #[arg(long, default_value_t = 180)]
    seconds: u64,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 10_000)]
    pages: u64,
    /// Time without a request after which the crawl counts as done, in seconds.
    #[arg(long, default_value_t = 30)]
    quiet: u64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let size = &args.size;
    let folder = place.folder("engine")?;
    let site = Site::start(size.even_web(args.pages), &folder)?;
    let wanted = site.all_homes(&folder)?;
    let mut herd = Herd::found(size, place, &folder, &site, &wanted.seeds, "any")?;
    herd.join(args.nodes)?;
    herd.settle()?;
    herd.until_requests(size.hosts as usize * 3)?;
    let said = herd.nodes.iter().map(|node| node.crawler.said().to_owned()).collect();
    let watch = Watch::start(said, herd.journal.clone());
    let mut verdict = Verdict::default();

    let memory_before = herd.memory();
    let from = herd.journal.now_us();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    for server in 0..size.servers {
        herd.nats.kill(server)?;
    }
    let (took, said) = status(&herd, &mut verdict)?;
    let mut memory_away = herd.memory();
    while Instant::now() < end {
        herd.expect_alive()?;
        std::thread::sleep(LOOK);
        memory_away = memory_away.max(herd.memory());
    }
    let to = herd.journal.now_us();
    for server in 0..size.servers {
        herd.nats.start(server)?;
    }
    let back = until_asked(&mut herd, to)?;
    herd.until_quiet(Duration::from_secs(args.quiet))?;
    let (dirs, running) = (herd.dirs(), herd.running());
    herd.leave(running)?;
    let mut faults = watch.end();
    faults.push(Fault { kind: Kind::ServersKilled, from, to });

    let groups = cluster::replay(&mut verdict, &herd.nats, size.servers, size.partitions, &dirs)?;
    let world = site.web().world().clone();
    let log = site.stop();
    let late = log.requests.iter().filter(|request| (from..to).contains(&request.start_us));
    let last = late.map(|request| request.start_us - from).max().unwrap_or(0);
    verdict.expect(last <= us(size.lease() + LATE), || {
        format!("a page was asked for {:.1} s after the servers had gone", last as f64 / 1e6)
    });
    expect_bounded(&mut verdict, "the servers were", memory_before, memory_away);
    let Judged { places, repeats, captures, .. } =
        herd.judge(&mut verdict, &world, &wanted.truth, &log, &faults)?;
    verdict.end(&format!(
        "engine: {} servers away for {} s; the last request {:.1} s after they went, the first {:.1} s after they came back; \
         {:.0} MB before, {:.0} MB meanwhile; `cluster status` said after {:.1} s: {said:?}; {places} places as the truth \
         says, {captures} captures, {} requests, {repeats} repeated, {groups} groups folded again; {:.0} s in all",
        size.servers,
        args.seconds,
        last as f64 / 1e6,
        back.as_secs_f64(),
        memory_before as f64 / 1024.0,
        memory_away as f64 / 1024.0,
        took.as_secs_f64(),
        log.requests.len(),
        began.elapsed().as_secs_f64()
    ))
}

/// Checks that memory stays bounded, in kB, while `who` away.
pub fn expect_bounded(verdict: &mut Verdict, who: &str, before: u64, away: u64) {
    verdict.expect(away <= before * GROWTH_MAX + GROWTH_KB, || {
        format!("{away} kB while {who} away, {before} kB before")
    });
}

/// The answer to a status request now, and its delay. The answer must come soon, and be no good news.
fn status(herd: &Herd, verdict: &mut Verdict) -> anyhow::Result<(Duration, String)> {
    let began = Instant::now();
    let (status, said) = herd.status()?;
    let took = began.elapsed();
    let said = said.lines().last().unwrap_or_default().to_owned();
    verdict.expect(!status.success(), || format!("`cluster status` was content: {said}"));
    verdict.expect(!said.is_empty(), || "`cluster status` said nothing".to_owned());
    verdict.expect(took <= STATUS_MAX, || format!("`cluster status` took {:.0} s", took.as_secs_f64()));
    Ok((took, said))
}

/// Waits until a request comes after a moment; returns how long after.
fn until_asked(herd: &mut Herd, since: u64) -> anyhow::Result<Duration> {
    let end = Instant::now() + BACK_MAX;
    loop {
        let log = herd.journal.log();
        let starts = log.requests.iter().map(|request| request.start_us);
        if let Some(first) = starts.filter(|start| *start >= since).min() {
            return Ok(Duration::from_micros(first - since));
        }
        herd.expect_alive()?;
        ensure!(Instant::now() < end, "it does not go on within {} s", BACK_MAX.as_secs());
        std::thread::sleep(LOOK);
    }
}
