//! Versions: a cluster of an older program is upgraded node by node to this one, while nodes and servers fail.
//!
//! Everything begins with the older program: the cluster, the job, all nodes. Then faults come one after the other, and
//! between them one node after the other gets the new program: every second one is drained before, as an operator would
//! do, and the others are killed. From the beginning the job has a field that the older program does not know, at the
//! place where the older program ignores unknown fields; and, once no node runs the older program, fields at every
//! level. Beside the cluster a crawl on one machine is begun by the older program, killed, and finished by the new one.
//!
//! With `--back` the nodes then go back to the older program in the same way, and so does the crawl on one machine: a
//! roll-back between two versions that write the same formats.
//!
//! Invariants, by the requests that the web saw: everything that the truth wants, nothing twice without a fault, no
//! host treated rudely; no node ends by itself; every state that the older program left on a disk opens, and equals the
//! fold of its log up to there; the fields are there in the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_core::entry;
use nephila_core::fold::fold;
use nephila_core::key::Prefixes;
use nephila_core::state::{MemoryState, State};
use nephila_log::{Fence, GroupLog, Leases};
use nephila_store::disk::RealDisk;
use nephila_store::runs::Cache;
use nephila_store::state::{DiskState, Merging};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::archive::{self, Copies};
use crate::cluster::{self, Fault, Kind, Watch};
use crate::crawler::{Crawler, Place, Rests, Run};
use crate::herd::{Herd, Judged, STREAMS, Size};
use crate::judge::{self, Verdict};
use crate::plug::Random;
use crate::site::{self, Site};

/// Between two faults.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(6));
/// A node that was killed comes back after this.
const BACK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(4));
/// A node is frozen for this long: now and then longer than its lease.
const FROZEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(20));
/// A server is away for this long.
const SERVER_AWAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// Shares out of ten faults: killed nodes, frozen nodes, and killed leaders of a stream; the rest are all servers at
/// once.
const SHARES: [(u64, Kind); 4] =
    [(4, Kind::NodeKilled), (7, Kind::NodeFrozen), (9, Kind::LeaderKilled), (10, Kind::ServersKilled)];
/// A node that is drained has left within this time.
const LEAVE_MAX: Duration = Duration::from_secs(120);
/// A question to the cluster is answered within this time, though a server has just died.
const ASK_MAX: Duration = Duration::from_secs(90);
/// Between two tries.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The record of the first job.
const JOB: &str = "job.1";
/// A field that no program knows.
const FIELD: &str = "made_for_the_proof";
/// A setting that came after the older program; no node needs the setting.
const NEWER_SETTING: (&str, &str) = ("crawl.wait_max", "crawl.wait_max=20s");
/// The crawl on one machine: hosts, pages, rest of a host, and its timeout.
const ALONE: (u32, u64, Duration) = (24, 1_500, Duration::from_millis(40));
const ALONE_MAX: Duration = Duration::from_secs(600);

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// The older program.
    #[arg(long)]
    old: PathBuf,
    /// Go back to the older program afterwards, node by node.
    #[arg(long)]
    back: bool,
    /// Number of nodes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// Number of faults.
    #[arg(long, default_value_t = 40)]
    faults: usize,
    /// Pages of the web; the crawl has to last longer than the faults.
    #[arg(long, default_value_t = 80_000)]
    pages: u64,
    /// Time without a request after which the crawl counts as done, in seconds.
    #[arg(long, default_value_t = 45)]
    quiet: u64,
}

/// A state that the older program left on a disk: the node, the partition, and the path of its copy.
struct Left {
    partition: u32,
    tables: PathBuf,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let size = &args.size;
    ensure!(args.nodes > 1, "somebody has to take over");
    let mut verdict = Verdict::default();
    let alone = alone(args, place, &mut verdict)?;

    let folder = place.folder("versions")?;
    let site = Site::start(size.even_web(args.pages), &folder)?;
    let wanted = site.all_homes(&folder)?;
    let old = Place { program: args.old.clone(), base: place.base.clone() };
    let mut herd = Herd::found(size, &old, &folder, &site, &wanted.seeds, "any")?;
    let watch = Watch::start((0..args.nodes).map(|number| herd.said(number)).collect(), herd.journal.clone());
    change(&herd, |record| record[FIELD] = json!({"kept": true}))?;
    herd.join(args.nodes)?;
    herd.settle()?;

    let mut random = Random(size.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    // Each step gives a node another program.
    let steps = args.nodes * if args.back { 2 } else { 1 };
    let (mut faults, mut left, mut done, mut lost) = (Vec::new(), Vec::new(), 0, false);
    for number in 0..args.faults {
        std::thread::sleep(random.duration(BETWEEN.0, BETWEEN.1));
        let fault = fault(&mut herd, &mut random, size.servers)?;
        faults.push(fault);
        herd.expect_alive()?;
        eprintln!("versions: {} of {} faults, the last {:?}", number + 1, args.faults, fault.kind);
        while done < steps && (number + 1) * (steps + 1) >= (done + 1) * args.faults {
            let (program, name) = match done < args.nodes {
                true => (&place.program, "new"),
                false => (&args.old, "older"),
            };
            herd.asks.set_program(program);
            faults.extend(replace(&mut herd, (done, done % args.nodes), program, &folder, &mut left)?);
            done += 1;
            let all = done.is_multiple_of(args.nodes);
            let number = if all { args.nodes } else { done % args.nodes };
            eprintln!("versions: {number} of {} nodes have the {name} program", args.nodes);
            ask(&herd.asks, &["job", "list"])?;
            if !all {
                // Both programs are asked while nodes of both run.
                let mut other = herd.asks.clone();
                other.set_program(if done < args.nodes { &args.old } else { &place.program });
                ask(&other, &["job", "list"])?;
            }
            if done == args.nodes {
                lost = fields(&herd, &mut verdict)?;
            }
        }
    }
    ensure!(done == steps, "more faults are needed: {done} of {steps} nodes were replaced");
    let at_last = herd.journal.requests();
    herd.until_quiet(Duration::from_secs(args.quiet))?;
    verdict.expect(herd.journal.requests() > at_last, || {
        "the crawl was over before the last fault: more pages, or a longer rest".to_owned()
    });
    expect_fields(&herd, &mut verdict)?;
    let dirs = herd.dirs();
    let running = herd.running();
    herd.leave(running)?;
    faults.extend(watch.end());

    let groups = cluster::replay(&mut verdict, &herd.nats, size.servers, size.partitions, &dirs)?;
    let (opened, versions) = compare(&mut verdict, &herd, &left)?;
    let world = site.web().world().clone();
    let log = site.stop();
    let Judged { places, repeats, captures, read } =
        herd.judge(&mut verdict, &world, &wanted.truth, &log, &faults)?;
    let mut kinds = BTreeMap::<Kind, usize>::new();
    faults.iter().for_each(|fault| *kinds.entry(fault.kind).or_default() += 1);
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind:?}")).collect();
    verdict.end(&format!(
        "versions: {} nodes upgraded one by one{}, {} faults ({}), {places} places as the truth says, {} requests ({at_last} by \
         the last fault), {repeats} repeated after faults, {captures} captures, {read} read again, {groups} groups of the logs \
         folded again ({}), {opened} states of the older program opened as their logs say, the unknown field {}; alone: {alone}; \
         {:.0} s in all",
        args.nodes,
        if args.back { " and taken back" } else { "" },
        faults.len(),
        kinds.join(", "),
        log.requests.len(),
        versions.iter().map(|(version, count)| format!("{count} of version {version}")).collect::<Vec<_>>().join(", "),
        if lost { "was dropped by an older node and written again" } else { "was never dropped" },
        began.elapsed().as_secs_f64(),
    ))
}

/// A crawl on one machine that the older program begins and the new one ends; with `--back` the older one ends it again.
fn alone(args: &Args, place: &Place, verdict: &mut Verdict) -> anyhow::Result<String> {
    let folder = place.folder("alone")?;
    let (hosts, pages, host) = ALONE;
    let rests = Rests { host, slot: Duration::ZERO };
    let site = Site::start(site::mixed(args.size.seed, hosts, pages)?, &folder)?;
    let wanted = site.most_domains(&folder)?;
    let mut crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "domain", rests);
    crawler.set("frontier.slot_connections=1000");
    crawler.set_program(&args.old);
    crawler.unset(NEWER_SETTING.0);
    let journal = site.web().journal().clone();
    let third = usize::try_from(pages / 3)?;
    let mut faults = Vec::new();
    // Lets a program crawl up to so many requests, and kills it.
    let mut until = |mut run: Run, requests: usize| -> anyhow::Result<()> {
        while journal.requests() < requests {
            ensure!(
                !run.wait_until(Instant::now() + Duration::from_millis(20))?,
                "the crawl was over after {} requests: a longer rest is needed",
                journal.requests()
            );
        }
        let from = journal.now_us();
        run.kill()?;
        faults.push(Fault { kind: Kind::NodeKilled, from, to: journal.now_us() });
        Ok(())
    };
    until(crawler.start()?, third)?;
    crawler.set_program(&place.program);
    crawler.set(NEWER_SETTING.1);
    if args.back {
        until(crawler.start()?, 2 * third)?;
        crawler.set_program(&args.old);
        crawler.unset(NEWER_SETTING.0);
    }
    crawler.finish(ALONE_MAX)?;
    let world = site.web().world().clone();
    let log = site.stop();
    let places = judge::complete(verdict, &world, &wanted.truth, &log);
    cluster::polite(verdict, &world, &log, rests, &faults);
    let repeats = cluster::repeats(verdict, &log, &faults);
    let (captures, _) = archive::check(verdict, &crawler, &world, &wanted.truth, &log, Copies::AsAsked, 200)?;
    Ok(format!(
        "{places} places, {third} of {} requests by the older program{}, {repeats} repeated, {captures} captures",
        log.requests.len(),
        if args.back { ", as many by the new one, the rest by the older one again" } else { "" },
    ))
}

/// One fault, from its beginning to its end.
fn fault(herd: &mut Herd, random: &mut Random, servers: usize) -> anyhow::Result<Fault> {
    let chance = random.below(10);
    let kind = SHARES.iter().find(|(below, _)| chance < *below).context("shares end at ten")?.1;
    let node = random.below(herd.nodes.len() as u64) as usize;
    let from = herd.journal.now_us();
    match kind {
        Kind::NodeKilled => {
            herd.nodes[node].kill()?;
            std::thread::sleep(random.duration(BACK.0, BACK.1));
            herd.nodes[node].start()?;
        }
        Kind::NodeFrozen => {
            let run = herd.nodes[node].run.as_ref().context("it runs")?;
            run.signal(Signal::STOP)?;
            std::thread::sleep(random.duration(FROZEN.0, FROZEN.1));
            run.signal(Signal::CONT)?;
        }
        _ => {
            let stream = random.below(u64::from(STREAMS));
            let leader = herd.nats.leader_of(&format!("NEPH_nephila_{stream}")).unwrap_or(0);
            let all = kind == Kind::ServersKilled;
            let hit: Vec<usize> = (0..servers).filter(|server| all || *server == leader).collect();
            hit.iter().try_for_each(|server| herd.nats.kill(*server))?;
            std::thread::sleep(random.duration(SERVER_AWAY.0, SERVER_AWAY.1));
            hit.iter().try_for_each(|server| herd.nats.start(*server))?;
        }
    }
    Ok(Fault { kind, from, to: herd.journal.now_us() })
}

/// Gives a node another program, as the step of this number. At every second step the node is drained before; to be
/// killed is a fault.
fn replace(
    herd: &mut Herd,
    (step, number): (usize, usize),
    program: &Path,
    folder: &Path,
    left: &mut Vec<Left>,
) -> anyhow::Result<Option<Fault>> {
    let from = herd.journal.now_us();
    let name = herd.nodes[number].name.clone();
    let drained = step.is_multiple_of(2);
    if drained {
        ask(&herd.asks, &["cluster", "drain", &name])?;
        herd.nodes[number].run.take().context("it runs")?.finish_within(LEAVE_MAX)?;
    } else {
        herd.nodes[number].kill()?;
    }
    let node = &mut herd.nodes[number];
    for entry in std::fs::read_dir(node.crawler.dir().join("state"))? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(partition) = file.strip_prefix("partition-").and_then(|text| text.parse().ok()) else {
            continue;
        };
        let (from, to) = (entry.path().join("tables"), folder.join(format!("left-by-{name}")).join(&file));
        if from.is_dir() {
            copy(&from, &to)?;
            left.push(Left { partition, tables: to });
        }
    }
    node.crawler.set_program(program);
    node.start()?;
    let to = herd.journal.now_us();
    Ok((!drained).then_some(Fault { kind: Kind::NodeKilled, from, to }))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => _ = std::fs::copy(entry.path(), &to)?,
        }
    }
    Ok(())
}

/// Asks the cluster until an answer comes: a server may have died just now.
fn ask(asks: &Crawler, args: &[&str]) -> anyhow::Result<()> {
    let end = Instant::now() + ASK_MAX;
    let words: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).chain(asks.settings()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    loop {
        let (status, said) = asks.ask_all(&words)?;
        if status.success() {
            return Ok(());
        }
        ensure!(Instant::now() < end, "nephila {}: {status}: {said}", args.join(" "));
        std::thread::sleep(ASK_AGAIN);
    }
}

/// The record of the job, and its revision.
fn record(herd: &Herd) -> anyhow::Result<(u64, Value)> {
    let (runtime, engine) = herd.engine();
    let end = Instant::now() + ASK_MAX;
    loop {
        match runtime.block_on(engine.leases().record(JOB)) {
            Ok(item) => {
                let item = item.context("the job has a record")?;
                return Ok((item.revision, serde_json::from_slice(&item.value)?));
            }
            Err(error) => ensure!(Instant::now() < end, "reading {JOB}: {error}"),
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

/// Changes the record of the job as a program would that knows more than ours.
fn change(herd: &Herd, change: impl Fn(&mut Value)) -> anyhow::Result<()> {
    let (runtime, engine) = herd.engine();
    let end = Instant::now() + ASK_MAX;
    loop {
        let (revision, mut value) = record(herd)?;
        change(&mut value);
        let bytes = serde_json::to_vec(&value)?;
        if let Ok(Some(_)) = runtime.block_on(engine.leases().put(JOB, Some(revision), bytes.into())) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{JOB} cannot be written");
        std::thread::sleep(ASK_AGAIN);
    }
}

/// Once no node runs the older program: adds fields at every level, and changes the job. Returns whether the first
/// field was gone by then, since the older program drops the field when writing the record.
fn fields(herd: &Herd, verdict: &mut Verdict) -> anyhow::Result<bool> {
    let lost = record(herd)?.1.get(FIELD).is_none();
    change(herd, |record| {
        record[FIELD] = json!({"kept": true});
        record["job"][FIELD] = json!("kept");
        record["job"]["scope"][FIELD] = json!(["kept"]);
        record["job"]["limits"][FIELD] = json!(1);
    })?;
    ask(&herd.asks, &["job", "set", "proof", "--exclude", "/no-page-has-this-path"])?;
    expect_fields(herd, verdict)?;
    Ok(lost)
}

/// All of them are there, and so is the change.
fn expect_fields(herd: &Herd, verdict: &mut Verdict) -> anyhow::Result<()> {
    let (_, record) = record(herd)?;
    let job = &record["job"];
    let there = [&record, job, &job["scope"], &job["limits"]].iter().all(|at| at.get(FIELD).is_some());
    verdict.expect(there, || format!("a field that no program knows is gone: {record}"));
    let changed = job["scope"]["exclude"].to_string().contains("no-page-has-this-path");
    verdict.expect(changed, || format!("the job was not changed: {record}"));
    Ok(())
}

/// Opens each state that the older program left, and folds its log up to there: both must be the same. Returns their
/// number, and the number of groups of the logs by version.
fn compare(verdict: &mut Verdict, herd: &Herd, left: &[Left]) -> anyhow::Result<(usize, BTreeMap<u8, u64>)> {
    let (runtime, engine) = herd.engine();
    let cache = Cache::new(1 << 20);
    let (mut opened, mut versions) = (0, BTreeMap::new());
    let partitions: std::collections::BTreeSet<u32> = left.iter().map(|left| left.partition).collect();
    for partition in partitions {
        let mut states = Vec::new();
        for left in left.iter().filter(|left| left.partition == partition) {
            states.push(DiskState::open(Arc::new(RealDisk), &left.tables, Merging::Inline, &cache)?);
        }
        let mut log = runtime.block_on(engine.log(partition, u64::MAX / 4, Fence::new()))?;
        let mut again = MemoryState::new();
        for group in log.replay(1) {
            let (_, bytes) = group?;
            *versions.entry(bytes.get(2).copied().unwrap_or(0)).or_default() += 1;
            let (group, behind) = entry::open(&bytes, again.position())?;
            fold(&mut again, &group, behind)?;
            for state in states.iter_mut().filter(|state| state.position() == behind) {
                opened += 1;
                verdict.expect(state.hash(Prefixes::ALL)? == again.hash(Prefixes::ALL)?, || {
                    let at = behind.sequence;
                    format!("partition {partition}: a state of the older program at group {at} is not what its log says")
                });
            }
        }
        let empty = states.iter().filter(|state| state.position().sequence == 0).count();
        opened += empty;
    }
    verdict.expect(opened == left.len(), || {
        format!("{opened} of {} states of the older program stand at a group of their log", left.len())
    });
    Ok((opened, versions))
}
