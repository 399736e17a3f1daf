//! Slots: many hosts on few addresses, crawled by several nodes, while nodes are killed and frozen and hosts move from one
//! address to another.
//!
//! Invariants, as the server saw them: no address and no host has two requests at once, none is requested again before
//! its rest is over, by any node. While nothing fails, the addresses are used nearly as much as their rest allows, and
//! a turn that goes round costs few messages.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_testweb::Settings;
use nephila_testweb::check::Politeness;
use nephila_testweb::journal::Log;
use rustix::process::Signal;

use crate::crawler::{Place, Rests};
use crate::herd::{Herd, Size, us};
use crate::judge::{self, Verdict};
use crate::plug::Random;
use crate::site::Site;

/// A node that was killed comes back after this.
const BACK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(4));
/// A node is frozen for this long: now and then longer than its lease.
const FROZEN: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(20));
/// Between two faults.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// Minimum use of an address while nothing fails, as a share of the rate that the rests allow.
const USED_MIN: f64 = 0.9;
/// An address with fewer requests in the phase had nothing to do.
const REQUESTS_MIN: usize = 3;
/// Output of a node about its turns.
const TURNS: &str = "turns: ";

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Number of nodes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// Number of addresses that the hosts share.
    #[arg(long, default_value_t = 200)]
    addresses: u32,
    /// Rest of an address, in milliseconds.
    #[arg(long, default_value_t = 1_000)]
    slot_delay_ms: u64,
    /// Number of pages of the web; the crawl has to last longer than everything else here.
    #[arg(long, default_value_t = 200_000)]
    pages: u64,
    /// How long the cluster is watched while nothing fails, in seconds.
    #[arg(long, default_value_t = 60)]
    phase: u64,
    /// Number of nodes that are killed or frozen, one after the other.
    #[arg(long, default_value_t = 60)]
    faults: usize,
    /// Hosts move to another address this often, in seconds; 0 for never.
    #[arg(long, default_value_t = 20)]
    moves: u64,
    /// Share of hosts that have only ::1, one address more that all nodes share, if this machine has ::1.
    #[arg(long, default_value_t = 0.005)]
    ipv6_share: f64,
    /// Clusters that break the rate limit, each in a way of its own: the judge of all other runs has to notice.
    #[arg(long)]
    planted: bool,
    /// A smaller share than the goal is reported and is no failure: for a machine under other load.
    #[arg(long)]
    report_only: bool,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    if args.planted {
        return planted(args, place);
    }
    let began = Instant::now();
    ensure!(args.nodes > 0 && args.addresses > 0, "there are nodes and addresses");
    let folder = place.folder("slots")?;
    let site = Site::start(web(args), &folder)?;
    let wanted = site.all_homes(&folder)?;
    let mut herd = Herd::found(&args.size, place, &folder, &site, &wanted.seeds, "any")?;
    keep_to_addresses(&mut herd, args.slot_delay_ms);
    if args.moves > 0 {
        herd.asks.set(&format!("frontier.resolve_after={}s", args.moves.div_ceil(2)));
    }
    herd.join(args.nodes)?;
    herd.settle()?;
    // Every host's robots.txt is asked for first.
    herd.until_requests(args.size.hosts as usize / 2)?;

    let (from_us, said) = (herd.journal.now_us(), Said::of(&herd));
    std::thread::sleep(Duration::from_secs(args.phase));
    let (to_us, after) = (herd.journal.now_us(), Said::of(&herd));
    herd.expect_alive()?;
    let (killed, frozen) = break_things(args, &mut herd)?;
    let ended_us = herd.journal.now_us();
    // A node that was started a moment ago cannot receive the request to leave yet.
    herd.settle()?;
    let running = herd.running();
    herd.leave(running)?;

    let log = site.stop();
    let mut verdict = Verdict::default();
    let rests = rests(args);
    let politeness = Politeness {
        // A node that is frozen cannot close its connections.
        host_connections_max: if frozen > 0 { 2 } else { 1 },
        ..judge::politeness(rests)
    };
    let judged = verdict.report("politeness", &politeness.check(&log));
    let sixes = log.requests.iter().filter(|request| request.local.is_ipv6()).count();
    verdict.expect(
        log.requests.iter().any(|request| request.start_us > ended_us - us(Duration::from_secs(10))),
        || "the crawl was over before the last fault: more pages".to_owned(),
    );
    let used = used(&log, rests.slot, from_us, to_us);
    let middle = used.iter().sum::<f64>() / used.len().max(1) as f64;
    verdict.expect(!used.is_empty() && (args.report_only || middle >= USED_MIN), || {
        format!("{:.1} % of what {} addresses could bear was used", middle * 100.0, used.len())
    });
    let moved = moved(&log);
    verdict.expect(args.moves == 0 || moved > 0, || "no host has moved".to_owned());
    let seconds = (to_us - from_us) as f64 / 1e6;
    let (turns, packets) = ((after.turns - said.turns) as f64, (after.packets - said.packets) as f64);
    verdict.end(&format!(
        "slots: {} nodes, {} hosts on {} addresses, {judged} requests judged ({sixes} over IPv6), 0 violations; {killed} nodes killed, {frozen} \
         frozen, {moved} hosts moved; {:.1} % of what the rests allow was used by {} addresses, {:.1} turns and {:.1} packets a \
         second, {:.1} packets a turn; {:.0} s in all",
        args.nodes,
        args.size.hosts,
        args.addresses,
        middle * 100.0,
        used.len(),
        turns / seconds,
        packets / seconds,
        packets / turns.max(1.0),
        began.elapsed().as_secs_f64()
    ))
}

fn rests(args: &Args) -> Rests {
    Rests { slot: Duration::from_millis(args.slot_delay_ms), ..args.size.rests() }
}

/// One request at once to an address, and this rest, from the next node on.
fn keep_to_addresses(herd: &mut Herd, delay_ms: u64) {
    herd.asks.set("frontier.slot_connections=1");
    herd.asks.set(&format!("frontier.slot_delay={delay_ms}ms"));
}

/// Three ways to break the promise, each for as long as a phase. None of them is in the product: nodes are configured
/// so that together they behave like a crawler with that fault.
fn planted(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut verdict = Verdict::default();
    let mut caught = Vec::new();
    for fault in ["limits of each node instead of all", "limits of hosts only", "a node that does not rest"] {
        let folder = place.folder("slots-planted")?;
        let site = Site::start(web(args), &folder)?;
        let wanted = site.all_homes(&folder)?;
        let found = |name: &str| {
            let folder = folder.join(name);
            std::fs::create_dir_all(&folder)?;
            Herd::found(&args.size, place, &folder, &site, &wanted.seeds, "any")
        };
        let mut herds = vec![found("one")?];
        match fault {
            "limits of each node instead of all" => {
                // Each node is a cluster of its own without any knowledge of the other.
                herds.push(found("two")?);
                for herd in &mut herds {
                    keep_to_addresses(herd, args.slot_delay_ms);
                    herd.join(1)?;
                }
            }
            "limits of hosts only" => herds[0].join(2)?,
            _ => {
                keep_to_addresses(&mut herds[0], 0);
                herds[0].join(1)?;
                keep_to_addresses(&mut herds[0], args.slot_delay_ms);
                herds[0].join(1)?;
            }
        }
        herds.iter_mut().try_for_each(Herd::settle)?;
        herds[0].until_requests(args.size.hosts as usize)?;
        std::thread::sleep(Duration::from_secs(args.phase));
        herds.iter_mut().flat_map(|herd| &mut herd.nodes).try_for_each(|node| node.kill())?;
        drop(herds);
        let log = site.stop();
        let report = judge::politeness(rests(args)).check(&log);
        verdict.expect(report.total > 0, || format!("{fault}: nobody noticed in {} requests", report.judged));
        caught.push(format!("{fault}: {} of {}", report.total, report.judged));
    }
    verdict.end(&format!(
        "slots, planted: {} faults, violations of requests: {}; {:.0} s in all",
        caught.len(),
        caught.join(", "),
        began.elapsed().as_secs_f64()
    ))
}

fn web(args: &Args) -> Settings {
    let moves = args.moves > 0;
    Settings {
        addresses: args.addresses,
        addresses_per_host_max: if moves { 3 } else { 1 },
        addresses_move: Duration::from_secs(args.moves),
        ipv6_only_share: args.ipv6_share,
        dns_ttl: Duration::from_secs(1),
        ..args.size.even_web(args.pages)
    }
}

/// Kills and freezes nodes. Returns the number of each.
fn break_things(args: &Args, herd: &mut Herd) -> anyhow::Result<(usize, usize)> {
    let mut random = Random(args.size.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (mut killed, mut frozen) = (0, 0);
    for number in 0..args.faults {
        std::thread::sleep(random.duration(BETWEEN.0, BETWEEN.1));
        let node = random.below(herd.nodes.len() as u64) as usize;
        let node = &mut herd.nodes[node];
        if random.below(2) == 0 {
            node.kill()?;
            std::thread::sleep(random.duration(BACK.0, BACK.1));
            node.start()?;
            killed += 1;
        } else {
            let run = node.run.as_ref().context("it runs")?;
            run.signal(Signal::STOP)?;
            std::thread::sleep(random.duration(FROZEN.0, FROZEN.1));
            run.signal(Signal::CONT)?;
            frozen += 1;
        }
        eprintln!(
            "slots: {} of {} faults, {} requests so far",
            number + 1,
            args.faults,
            herd.journal.requests()
        );
    }
    Ok((killed, frozen))
}

/// The figures about turns in the output of all nodes together.
struct Said {
    turns: u64,
    packets: u64,
}

impl Said {
    fn of(herd: &Herd) -> Said {
        let mut sum = Said { turns: 0, packets: 0 };
        for node in &herd.nodes {
            let said = node.said();
            let Some(line) = said.lines().rev().find_map(|line| line.split_once(TURNS)) else { continue };
            let number = |before: &str| {
                let part = line.1.split(", ").find(|part| part.contains(before));
                part.and_then(|part| part.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
            };
            sum.turns += number("got");
            sum.packets += number("packets");
        }
        sum
    }
}

/// Of the time from one moment to another, the share in which each address was busy or rested; only addresses with
/// enough requests.
fn used(log: &Log, rest: Duration, from_us: u64, to_us: u64) -> Vec<f64> {
    let mut by_address: BTreeMap<IpAddr, (u64, usize)> = BTreeMap::new();
    for request in log.requests.iter().filter(|request| (from_us..to_us).contains(&request.start_us)) {
        let (used, count) = by_address.entry(request.local).or_default();
        *used += request.end_us.saturating_sub(request.start_us) + us(rest);
        *count += 1;
    }
    let busy = by_address.values().filter(|(_, count)| *count >= REQUESTS_MIN);
    busy.map(|(used, _)| *used as f64 / (to_us - from_us) as f64).collect()
}

/// The number of hosts that were requested at more than one address.
fn moved(log: &Log) -> usize {
    let mut addresses: BTreeMap<&str, BTreeSet<IpAddr>> = BTreeMap::new();
    for request in &log.requests {
        addresses.entry(&request.host).or_default().insert(request.local);
    }
    addresses.values().filter(|addresses| addresses.len() > 1).count()
}
