//! Elastic: one crawl while nodes join and leave, all hand-overs graceful.
//!
//! After each step the cluster settles, and is then watched for a while. Invariants: every page once, as without any
//! change; no partition that has work stands still for long during a hand-over; the busiest node does not do much more
//! than the mean; and few partitions move beyond the necessary.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::member::OwnerState;

use crate::cluster::{self, Watch};
use crate::crawler::Place;
use crate::herd::{Change, Herd, Judged, Size};
use crate::judge::Verdict;
use crate::site::Site;

/// The longest that a partition with work may stand still in a hand-over.
const STILL_MAX: Duration = Duration::from_secs(10);
/// The busiest node against the mean.
const BUSIEST_MAX: f64 = 1.25;
/// Moves against the least that are needed.
const MOVES_MAX: f64 = 1.5;
/// Minimum number of requests in a phase for a verdict on the busiest node.
const REQUESTS_MIN: usize = 200;

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Numbers of nodes, one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 3])]
    steps: Vec<usize>,
    /// How long each number of nodes is watched after settling, in seconds.
    #[arg(long, default_value_t = 60)]
    phase: u64,
    /// Pages of the web; the crawl has to last longer than the steps.
    #[arg(long, default_value_t = 60_000)]
    pages: u64,
    /// Time without a request after which the crawl counts as done, in seconds.
    #[arg(long, default_value_t = 30)]
    quiet: u64,
    /// Times and shares beyond the goal are reported and are no failure: for a machine under other load.
    #[arg(long)]
    report_only: bool,
}

/// A number of nodes: when requested, when settled, when over.
struct Phase {
    nodes: usize,
    asked_us: u64,
    settled_us: u64,
    over_us: u64,
    /// The minimum number of partitions that had to move.
    least: usize,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let size = &args.size;
    ensure!(args.steps.iter().all(|nodes| *nodes > 0) && !args.steps.is_empty(), "a cluster has nodes");
    let folder = place.folder("elastic")?;
    let site = Site::start(size.even_web(args.pages), &folder)?;
    let wanted = site.all_homes(&folder)?;
    let mut herd = Herd::found(size, place, &folder, &site, &wanted.seeds, "any")?;
    // A machine that is held up may make a node stop by itself: that is a fault then, with the excuses of a fault.
    let nodes_max = args.steps.iter().copied().max().unwrap_or(0);
    let watch = Watch::start((0..nodes_max).map(|number| herd.said(number)).collect(), herd.journal.clone());
    let mut phases = Vec::new();
    for nodes in &args.steps {
        phases.push(step(&mut herd, *nodes, size.partitions, Duration::from_secs(args.phase))?);
        eprintln!("elastic: {nodes} nodes, {} requests so far", herd.journal.requests());
    }
    let (mut verdict, crawled) = (Verdict::default(), herd.journal.requests());
    herd.until_quiet(Duration::from_secs(args.quiet))?;
    verdict.expect(herd.journal.requests() > crawled, || {
        "the crawl was over before the last step: more pages, or shorter phases".to_owned()
    });
    let (dirs, running) = (herd.dirs(), herd.running());
    herd.leave(running)?;
    let faults = watch.end();

    let groups = cluster::replay(&mut verdict, &herd.nats, size.servers, size.partitions, &dirs)?;
    let (world, changes) = (site.web().world().clone(), herd.changes());
    let log = site.stop();
    let starts = herd.starts(&world, &log);
    let mut told = Vec::new();
    for phase in &phases {
        let moved = moves(&changes, phase.asked_us, phase.settled_us);
        let later = moves(&changes, phase.settled_us, phase.over_us);
        let busiest = busiest(&changes, &starts, phase);
        let allowed = (phase.least as f64 * MOVES_MAX).ceil() as usize + 1;
        if !args.report_only {
            verdict.expect(moved <= allowed, || {
                format!("{} nodes: {moved} partitions moved, {} had to", phase.nodes, phase.least)
            });
            verdict.expect(busiest.is_none_or(|busiest| busiest <= BUSIEST_MAX), || {
                format!("{} nodes: the busiest did {:.2} of the mean", phase.nodes, busiest.unwrap_or(0.0))
            });
        }
        let busiest = busiest.map_or("-".to_owned(), |busiest| format!("{busiest:.2}"));
        told.push(format!("{}: {moved} of {} moved, {later} later, {busiest}", phase.nodes, phase.least));
    }
    let (still, over) = longest_still(&changes, &starts);
    verdict.expect(args.report_only || still <= STILL_MAX.as_secs_f64(), || {
        format!("a partition stood still for {still:.1} s in a hand-over")
    });
    let Judged { places, repeats, captures, read } =
        herd.judge(&mut verdict, &world, &wanted.truth, &log, &faults)?;
    verdict.end(&format!(
        "elastic: {places} places as the truth says, {captures} captures, {read} read again, {} requests, {repeats} repeated, {} nodes fenced, \
         {groups} groups folded again; nodes: partitions moved of the least possible, busiest node against the mean: {}; {over} graceful \
         hand-overs of partitions at work, the longest without a request {still:.1} s; {:.0} s in all",
        log.requests.len(),
        faults.len(),
        told.join("; "),
        began.elapsed().as_secs_f64()
    ))
}

/// Brings the cluster to this number of nodes, lets the cluster settle, and watches.
fn step(herd: &mut Herd, nodes: usize, partitions: u32, watched: Duration) -> anyhow::Result<Phase> {
    let (before, asked_us) = (herd.running(), herd.journal.now_us());
    let least = if nodes >= before {
        herd.join(nodes - before)?;
        // The fair share of each that came.
        (nodes - before) * partitions as usize / nodes
    } else {
        let running = herd.nodes.iter().rev().filter(|node| node.run.is_some());
        let leaving: Vec<NodeId> = running.take(before - nodes).map(|node| node.id()).collect();
        let owned = herd.owners().into_values().filter(|owner| leaving.contains(owner)).count();
        herd.leave(before - nodes)?;
        owned
    };
    herd.settle()?;
    let settled_us = herd.journal.now_us();
    let end = Instant::now() + watched;
    while Instant::now() < end {
        herd.expect_alive()?;
        std::thread::sleep(Duration::from_millis(500).min(watched));
    }
    Ok(Phase { nodes, asked_us, settled_us, over_us: herd.journal.now_us(), least })
}

/// How many partitions got another owner in a time.
fn moves(changes: &[Change], from: u64, to: u64) -> usize {
    let within = changes.iter().filter(|change| (from..to).contains(&change.at_us));
    within.filter(|change| change.record.state == OwnerState::Owned).count()
}

/// The busiest node against the mean of all, in requests of the second half of a phase; none if there were few.
fn busiest(changes: &[Change], starts: &BTreeMap<u32, Vec<u64>>, phase: &Phase) -> Option<f64> {
    let (from, to) = ((phase.settled_us + phase.over_us) / 2, phase.over_us);
    let mut by_node: BTreeMap<NodeId, usize> = BTreeMap::new();
    for (partition, starts) in starts {
        for start in starts.iter().filter(|start| (from..to).contains(start)) {
            let mut before = changes.iter().filter(|c| c.partition == *partition && c.at_us <= *start);
            if let Some(owner) = before.next_back() {
                *by_node.entry(owner.record.node).or_default() += 1;
            }
        }
    }
    let all: usize = by_node.values().sum();
    let most = *by_node.values().max()?;
    (all >= REQUESTS_MIN).then(|| most as f64 * phase.nodes as f64 / all as f64)
}

/// The longest time without a request around the moment when a partition was given up, of partitions that were at work
/// before and after; and their number.
fn longest_still(changes: &[Change], starts: &BTreeMap<u32, Vec<u64>>) -> (f64, usize) {
    let (mut longest, mut count) = (0.0_f64, 0);
    for change in changes.iter().filter(|change| change.record.state == OwnerState::Released) {
        let Some(starts) = starts.get(&change.partition) else { continue };
        let at = starts.partition_point(|start| *start < change.at_us);
        let (Some(before), Some(after)) = (at.checked_sub(1).map(|at| starts[at]), starts.get(at)) else {
            continue;
        };
        count += 1;
        longest = longest.max((after - before) as f64 / 1e6);
    }
    (longest, count)
}
