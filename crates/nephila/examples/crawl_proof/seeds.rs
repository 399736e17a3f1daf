//! A scoped job with very many seeds on several nodes: how long it takes to begin it, what that costs in memory, and what
//! becomes of each seed.
//!
//! Every page of most hosts is a seed; pages link to everywhere. Some hosts are closed by their robots.txt, some have no seed.
//! One of the latter gets seeds while the job runs. The job is judged by the web alone: every seed of an open host was
//! answered, no page of a closed host was asked for, and nobody was asked at all who has no seed. What is not fetched is
//! asked about: the cluster says why.

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

/// One host in so many has no seed.
const OUTSIDE_EVERY: u32 = 10;
/// The memory of nodes is looked at this often.
const LOOK: Duration = Duration::from_millis(200);
/// Nothing may be asked for so long after the job is complete.
const QUIET: Duration = Duration::from_secs(5);
/// Seeds that were not fetched and are asked about.
const EXPLAINED: u64 = 50;
/// A partition that moves is at its new node within this time.
const MOVES_MAX: Duration = Duration::from_secs(30);
/// Whoever says to ask again is asked this often.
const AGAIN: Duration = Duration::from_secs(1);
/// The commands that begin a job and add to it end within this time.
const COMMAND_MAX: Duration = Duration::from_secs(1_800);
/// A job is complete within this time.
const JOB_MAX: Duration = Duration::from_secs(6 * 3_600);
/// Findings of one kind that are shown.
const SHOWN_MAX: usize = 8;

/// How large.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Nodes.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Seeds.
    #[arg(long, default_value_t = 1_000_000)]
    seeds: u64,
    /// Seeds of a host.
    #[arg(long, default_value_t = 50)]
    host_seeds: u64,
    /// Share of hosts whose robots.txt closes everything.
    #[arg(long, default_value_t = 0.5)]
    closed: f64,
    /// The command that begins the job is killed after so many milliseconds, and said again. 0: it is not.
    #[arg(long, default_value_t = 0)]
    cut_ms: u64,
}

/// Runs it.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    // Hosts with seeds, those without, and one for the job that a cluster is founded with.
    let seeded = u32::try_from(args.seeds.div_ceil(args.host_seeds))?;
    let size = Size { hosts: seeded + seeded / (OUTSIDE_EVERY - 1) + 2, ..args.size.clone() };
    let folder = place.folder("seeds")?;
    let site = Site::start(web(args, &size), &folder)?;
    let world = site.web().world().clone();
    let founding = seeds_of(&folder, "first", &world, [size.hosts - 1].into_iter(), 1)?;
    let mut herd = Herd::found(&size, place, &folder, &site, &founding, "host")?;
    // Names and connections of a busy machine are late, and whoever cannot be asked is waited for: a quarter of an hour.
    for set in ["dns_timeout=5s", "dns_total_timeout=15s", "connect_timeout=10s", "head_timeout=20s"] {
        herd.asks.set(&format!("spider.{set}"));
    }
    for set in ["spider.total_timeout=60s", "frontier.ticket_timeout=120s"] {
        herd.asks.set(set);
    }
    herd.join(args.nodes)?;
    herd.settle()?;
    let idle_kb = herd.memory();

    let is_outside = |host: &u32| host % OUTSIDE_EVERY == OUTSIDE_EVERY - 1 || *host >= size.hosts - 1;
    let inside = (0..size.hosts).filter(|host| !is_outside(host)).take(seeded as usize);
    let file = seeds_of(&folder, "many", &world, inside.clone(), args.host_seeds)?;
    let create = ["job", "create", "many", "--scope", "host", "-d", "255", "-i", &file.display().to_string()]
        .map(str::to_owned);
    if args.cut_ms > 0 {
        cut_short(&herd.asks, &folder, &create, Duration::from_millis(args.cut_ms))?;
    }
    let mut peak_kb = idle_kb;
    let run = herd.asks.command_of(&folder, &create).start()?;
    let created = watched(&mut herd, &mut peak_kb, run, COMMAND_MAX)?;
    let (took, command_mb, listed_mb) = (created.took.as_secs_f64(), created.peak_kb / 1024, peak_kb / 1024);
    eprintln!(
        "seeds: {} seeds in {took:.1} s; the command took {command_mb} MB, a node {listed_mb} MB",
        args.seeds
    );

    // While it runs, a host that many pages link to gets seeds.
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

/// Begins the job, and is killed before it has come far: what is missing is said.
fn cut_short(asks: &Crawler, folder: &Path, create: &[String], after: Duration) -> anyhow::Result<()> {
    let mut run = asks.command_of(folder, create).start()?;
    if run.wait_until(Instant::now() + after)? {
        eprintln!("seeds: all were sent within {after:?}: nothing was cut short");
        return Ok(());
    }
    run.kill()?;
    let args: Vec<String> =
        ["job", "show", "many"].map(str::to_owned).into_iter().chain(asks.settings()).collect();
    let (status, said) = asks.ask_all(&args.iter().map(String::as_str).collect::<Vec<_>>())?;
    // It may not have come as far as the job.
    ensure!(!status.success() || said.contains("was cut short"), "{said}");
    eprintln!(
        "seeds: cut short after {after:?}: {}",
        said.lines().find(|line| line.contains("cut short")).unwrap_or("no job yet")
    );
    Ok(())
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

/// Asks why some seeds were not fetched. How many.
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

/// What each node says of a URL.
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

/// Was every seed answered that may be fetched, and nothing else asked for? How many were, and how many may not be.
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
