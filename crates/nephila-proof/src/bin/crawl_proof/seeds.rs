//! A scoped job with very many seeds on several nodes: how long the start takes, its cost in memory, and the fate of
//! each seed.
//!
//! Every page of most hosts is a seed; pages link to everywhere. Some hosts are closed by their robots.txt, some have
//! no seed. One of the latter gets seeds while the job runs. The job is judged by the web alone: every seed of an open
//! host was answered, no page of a closed host was requested, and no host without a seed was requested at all. For
//! seeds that were not fetched the cluster must give the reason.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_testweb::Settings;
use nephila_testweb::journal::Log;
use nephila_testweb::model::{Place as WebPlace, RobotsKind, What, World};
use nephila_testweb::settings::RobotsShares;

use crate::crawler::{Crawler, Ended, Place, Run};
use crate::herd::{Herd, Size};
use crate::judge::Verdict;
use crate::plug::Random;
use crate::site::{self, Site};

/// One host in this number has no seed.
const OUTSIDE_EVERY: u32 = 10;
/// Interval between reads of the nodes' memory.
const LOOK: Duration = Duration::from_millis(200);
/// No request may come this long after the job is complete.
const QUIET: Duration = Duration::from_secs(5);
/// Number of seeds that were not fetched and are to be explained.
const EXPLAINED: u64 = 50;
/// A partition that moves is at its new node within this time.
const MOVES_MAX: Duration = Duration::from_secs(30);
/// Interval between repeated questions after an answer of "not now".
const AGAIN: Duration = Duration::from_secs(1);
/// Timeout of the commands that begin a job and add to a job.
const COMMAND_MAX: Duration = Duration::from_secs(1_800);
/// A job is complete within this time.
const JOB_MAX: Duration = Duration::from_secs(6 * 3_600);
/// Findings of one kind that are shown.
const SHOWN_MAX: usize = 8;

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Number of nodes.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Number of seeds.
    #[arg(long, default_value_t = 1_000_000)]
    seeds: u64,
    /// Number of seeds of a host.
    #[arg(long, default_value_t = 50)]
    host_seeds: u64,
    /// Share of hosts whose robots.txt closes everything.
    #[arg(long, default_value_t = 0.5)]
    closed: f64,
    /// Kill the command that begins the job after this number of milliseconds and repeat it, with more and more time
    /// until one ends by itself. 0: no kill.
    #[arg(long, default_value_t = 0)]
    cut_ms: u64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    // Hosts with seeds, hosts without, and one for the job that a cluster is founded with.
    let seeded = u32::try_from(args.seeds.div_ceil(args.host_seeds))?;
    let size = Size { hosts: seeded + seeded / (OUTSIDE_EVERY - 1) + 2, ..args.size.clone() };
    let folder = place.folder("seeds")?;
    let site = Site::start(web(args, &size), &folder)?;
    let world = site.web().world().clone();
    let founding = seeds_of(&folder, "first", &world, [size.hosts - 1].into_iter(), 1)?;
    let mut herd = Herd::found(&size, place, &folder, &site, &founding, "host")?;
    // Names and connections of a busy machine are late, and an unreachable host costs a wait: a quarter of an hour.
    for set in ["dns_timeout=5s", "dns_total_timeout=15s", "connect_timeout=10s", "head_timeout=20s"] {
        herd.asks.set(&format!("spider.{set}"));
    }
    for set in ["spider.total_timeout=60s", "frontier.ticket_timeout=120s"] {
        herd.asks.set(set);
    }
    // A name that was late is looked up again soon, and not an hour later as where a proof counts retries.
    for set in ["retries_max=9", "back_off_factor=2", "back_off_max=20s"] {
        herd.asks.set(&format!("retry.{set}"));
    }
    herd.join(args.nodes)?;
    herd.settle()?;
    let idle_kb = herd.memory();

    let is_outside = |host: &u32| host % OUTSIDE_EVERY == OUTSIDE_EVERY - 1 || *host >= size.hosts - 1;
    let inside = (0..size.hosts).filter(|host| !is_outside(host)).take(seeded as usize);
    let file = seeds_of(&folder, "many", &world, inside.clone(), args.host_seeds)?;
    let create = ["job", "create", "many", "--scope", "host", "-d", "255", "-i", &file.display().to_string()]
        .map(str::to_owned);
    let mut peak_kb = idle_kb;
    let created = match args.cut_ms {
        0 => {
            let run = herd.asks.command_of(&folder, &create).start()?;
            watched(&mut herd, &mut peak_kb, run, COMMAND_MAX)?
        }
        cut_ms => cut_short(&herd.asks, &folder, &create, Duration::from_millis(cut_ms))?,
    };
    peak_kb = herd.memory().max(peak_kb);
    let (took, command_mb, listed_mb) = (created.took.as_secs_f64(), created.peak_kb / 1024, peak_kb / 1024);
    eprintln!(
        "seeds: {} seeds in {took:.1} s; the command took {command_mb} MB, a node {listed_mb} MB",
        args.seeds
    );

    // During the job, a host that many pages link to gets seeds.
    let late = OUTSIDE_EVERY - 1;
    let more = seeds_of(&folder, "more", &world, [late].into_iter(), args.host_seeds)?;
    let add = ["add", "many", "--seed", "-i", &more.display().to_string()].map(str::to_owned);
    let run = herd.asks.command_of(&folder, &add).start()?;
    let added = watched(&mut herd, &mut peak_kb, run, COMMAND_MAX)?;
    let wait = ["job", "wait", "many", "--timeout", "6h"].map(str::to_owned);
    let run = herd.asks.command_of(&folder, &wait).start()?;
    let crawled = watched(&mut herd, &mut peak_kb, run, JOB_MAX)?;
    herd.until_quiet(QUIET)?;

    let mut verdict = Verdict::default();
    let hosts: Vec<u32> = inside.chain([late]).collect();
    let explained = explain(&mut verdict, &herd, &world, &hosts, args)?;
    let running = herd.running();
    herd.leave(running)?;
    let log = site.stop();
    let (fetched, closed) = judge(&mut verdict, &world, &log, &hosts, size.hosts - 1, args.host_seeds);
    verdict.end(&format!(
        "seeds: {} seeds of {} hosts on {} nodes: begun in {took:.1} s, {} more added in {:.1} s, complete after {:.0} s; \
         {fetched} fetched, {closed} closed by robots.txt ({explained} of them asked about); the command took {command_mb} MB, \
         a node {} MB idle, {listed_mb} MB with the seeds, {} MB at most",
        hosts.len() as u64 * args.host_seeds,
        hosts.len(),
        args.nodes,
        args.host_seeds,
        added.took.as_secs_f64(),
        crawled.took.as_secs_f64(),
        idle_kb / 1024,
        peak_kb / 1024,
    ))
}

/// Small pages, all of them good, that link to everywhere.
fn web(args: &Args, size: &Size) -> Settings {
    Settings {
        seed: size.seed,
        hosts: size.hosts,
        hosts_per_domain: 1,
        pages: u64::from(size.hosts) * args.host_seeds,
        size_exponent: 0.0,
        page_bytes: 600,
        links: 4,
        robots: RobotsShares { closed: args.closed, ..RobotsShares::default() },
        addresses: size.hosts.min(50),
        journal_max: site::with_everything().journal_max,
        threads: 1,
        ..Settings::default()
    }
}

/// Pages of these hosts, one URL per line.
fn seeds_of(
    folder: &Path,
    name: &str,
    world: &World,
    hosts: impl Iterator<Item = u32>,
    pages: u64,
) -> anyhow::Result<std::path::PathBuf> {
    use std::io::Write as _;
    let path = folder.join(format!("{name}.txt"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
    for host in hosts {
        for page in 0..pages {
            writeln!(file, "{}", world.url(WebPlace { host, what: What::Page(page) }))?;
        }
    }
    file.flush().with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Begins the job with a command that is killed and repeated, each time later by half, until all seeds are sent. After
/// each kill the cluster must say that seeds are missing.
fn cut_short(asks: &Crawler, folder: &Path, create: &[String], first: Duration) -> anyhow::Result<Ended> {
    let (mut after, mut cuts, mut named, mut peak_kb) = (first, 0, 0, 0);
    let began = Instant::now();
    loop {
        ensure!(began.elapsed() < COMMAND_MAX, "{cuts} commands were killed, and seeds are still missing");
        let mut run = asks.command_of(folder, create).start()?;
        let is_ended = run.wait_until(Instant::now() + after)?;
        peak_kb = run.peak_kb().max(peak_kb);
        if is_ended {
            break;
        }
        run.kill()?;
        cuts += 1;
        after = after * 3 / 2;
        let args = ["job", "show", "many"].map(str::to_owned).into_iter().chain(asks.settings());
        let args: Vec<String> = args.collect();
        let (status, said) = asks.ask_all(&args.iter().map(String::as_str).collect::<Vec<_>>())?;
        // A command may be killed before the job is made, and after its last seed is sent.
        match (status.success(), said.contains("was cut short")) {
            (false, _) => ensure!(named == 0, "a job that was begun is gone: {said}"),
            (true, true) => named += 1,
            (true, false) => break,
        }
    }
    let ended = Ended { took: began.elapsed(), peak_kb };
    ensure!(cuts > 0, "the command ended within {first:?}: nothing was cut short. Use a smaller --cut-ms");
    eprintln!(
        "seeds: the command was killed {cuts} times; {named} times the cluster named the missing seeds"
    );
    Ok(ended)
}

/// Waits for a command, with an eye on the nodes.
fn watched(herd: &mut Herd, peak_kb: &mut u64, mut run: Run, limit: Duration) -> anyhow::Result<Ended> {
    let end = Instant::now() + limit;
    while !run.wait_until(Instant::now() + LOOK)? {
        ensure!(Instant::now() < end, "a command has not ended after {} s", limit.as_secs());
        herd.expect_alive()?;
        *peak_kb = herd.memory().max(*peak_kb);
    }
    run.finish(limit)
}

/// Asks why some seeds were not fetched. Returns their number.
fn explain(
    verdict: &mut Verdict,
    herd: &Herd,
    world: &World,
    hosts: &[u32],
    args: &Args,
) -> anyhow::Result<u64> {
    let mut random = Random(args.size.seed | 1);
    let closed: Vec<u32> =
        hosts.iter().copied().filter(|host| world.robots_kind(*host) == RobotsKind::Closed).collect();
    if closed.is_empty() {
        return Ok(0);
    }
    let asked = EXPLAINED.min(closed.len() as u64);
    for _ in 0..asked {
        let host = closed[random.below(closed.len() as u64) as usize];
        let url = world.url(WebPlace { host, what: What::Page(random.below(args.host_seeds)) });
        // A partition may move, since the job is at its end: then each node says to ask again.
        let end = Instant::now() + MOVES_MAX;
        let said = loop {
            let said = said_of(herd, &url)?;
            if said.iter().any(|said| is_explained(said)) || Instant::now() >= end {
                break said;
            }
            std::thread::sleep(AGAIN);
        };
        verdict.expect(said.iter().any(|said| is_explained(said)), || format!("{url}: {said:?}"));
    }
    Ok(asked)
}

/// The answers of the nodes about a URL.
fn said_of(herd: &Herd, url: &str) -> anyhow::Result<Vec<String>> {
    let dirs = herd.dirs();
    let said = dirs.iter().map(|dir| {
        let (_, said) = herd.asks.ask_all(&["explain", "--json", url, "-o", &dir.display().to_string()])?;
        Ok(said)
    });
    said.collect()
}

fn is_explained(said: &str) -> bool {
    let said: serde_json::Value = serde_json::from_str(said).unwrap_or_default();
    said["summary"] == "robots" && said["depth"] == 0
}

/// Checks that every seed that may be fetched was answered, and that nothing else was requested. Returns the numbers of
/// both.
fn judge(
    verdict: &mut Verdict,
    world: &World,
    log: &Log,
    hosts: &[u32],
    founding: u32,
    host_seeds: u64,
) -> (u64, u64) {
    verdict.expect(log.lost == 0, || format!("{} events were lost", log.lost));
    let mut answered: HashMap<u32, Vec<bool>> =
        hosts.iter().map(|host| (*host, vec![false; host_seeds as usize])).collect();
    let (mut rude, mut strange) = (0, 0);
    for request in &log.requests {
        let Some(place) = world.place(&request.host, &request.path) else { continue };
        if place.host == founding {
            continue;
        }
        let Some(pages) = answered.get_mut(&place.host) else {
            strange += 1;
            if strange <= SHOWN_MAX {
                verdict.fault(format!("{}{} is around no seed", request.host, request.path));
            }
            continue;
        };
        if let What::Page(page) = place.what {
            let is_closed = world.robots_kind(place.host) == RobotsKind::Closed;
            if is_closed {
                rude += 1;
                verdict.expect(rude > SHOWN_MAX, || format!("{}{} is closed", request.host, request.path));
            }
            if let Some(page) = pages.get_mut(page as usize).filter(|_| request.is_complete) {
                *page = true;
            }
        }
    }
    let (mut fetched, mut closed, mut missing) = (0, 0, 0);
    for (host, pages) in &answered {
        if world.robots_kind(*host) == RobotsKind::Closed {
            closed += host_seeds;
            continue;
        }
        for (page, _) in pages.iter().enumerate().filter(|(_, is_answered)| !**is_answered) {
            missing += 1;
            if missing <= SHOWN_MAX {
                let url = world.url(WebPlace { host: *host, what: What::Page(page as u64) });
                verdict.fault(format!("{url} is a seed and was not fetched"));
            }
        }
        fetched += pages.iter().filter(|is_answered| **is_answered).count() as u64;
    }
    verdict.expect(missing == 0 && strange == 0, || {
        format!("{missing} seeds were not fetched, {strange} requests are around no seed")
    });
    (fetched, closed)
}
