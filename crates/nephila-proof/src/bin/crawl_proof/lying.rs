//! NATS lying: servers lose acknowledged messages. Each case is a cluster of its own.
//!
//! A message is removed from the middle of a log; a stream is made anew, and empty; one of three replicas is rolled
//! back to an earlier copy of its files. Required: within a minute a node reports the loss, and then either nothing is
//! missing in the end or the partition stays closed until a person has looked; or the loss does no harm: the crawl is
//! complete all the same, with no page fetched again for no other reason. A loss that only the next owner notices is
//! noticed too late, and a report followed by going on without the missing messages is worse.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use async_nats::jetstream::{self, stream};

use crate::cluster::{self, Fault, Kind, Watch};
use crate::crawler::Place;
use crate::herd::{Herd, STREAMS, Size};
use crate::judge::{self, Verdict};
use crate::plug::Random;
use crate::site::Site;

/// A lie is noticed within this time.
const NOTICED_MAX: Duration = Duration::from_secs(60);
/// Maximum time until the next owner notices, beyond the lease.
const NEXT_OWNER_MAX: Duration = Duration::from_secs(45);
/// Interval between reads of the nodes' output.
const LOOK: Duration = Duration::from_millis(500);
/// Output of a node that has noticed.
const NOTICES: [&str; 4] = ["does not fit the log", "lost messages", "was rolled back", "groups are gone"];
/// Output of a node about a partition that stays closed, and the maximum time between two of them.
const CLOSED: &str = "cannot be opened";
const CLOSED_AGAIN: Duration = Duration::from_secs(45);
/// Messages that a log has before one of them is removed.
const MESSAGES_MIN: usize = 5;
/// A log has that many within this time.
const MESSAGES_WAIT: Duration = Duration::from_secs(60);
/// Age of the copy to which a replica is rolled back.
const OLDER: Duration = Duration::from_secs(8);

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Number of nodes.
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// Number of cases, each kind in turn.
    #[arg(long, default_value_t = 20)]
    cases: usize,
    /// Only this kind.
    #[arg(long, value_enum)]
    only: Option<Lie>,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 3_000)]
    pages: u64,
    /// Time without a request after which the crawl counts as done, in seconds.
    #[arg(long, default_value_t = 30)]
    quiet: u64,
}

/// The kind of loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Lie {
    /// A message from the middle of a log.
    Hole,
    /// A whole stream.
    Anew,
    /// The latest writes of one of three servers.
    RolledBack,
}

const LIES: [Lie; 3] = [Lie::Hole, Lie::Anew, Lie::RolledBack];

/// The end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// A node reported the loss in time, and nothing is missing in the end.
    Healed,
    /// A node reported the loss in time, and the damaged partition stays closed until a person has looked.
    Stopped,
    /// No report, and nothing is missing.
    Harmless,
    /// Only the next owner noticed.
    Late,
    /// A node reported the loss, and then the cluster went on without the missing messages.
    Forgotten,
    /// No report, and something is missing.
    Unnoticed,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let (mut verdict, mut ends) = (Verdict::default(), BTreeMap::<(Lie, End), usize>::new());
    let mut longest = 0.0_f64;
    for case in 0..args.cases {
        let lie = args.only.unwrap_or(LIES[case % LIES.len()]);
        let (end, after) = one(args, place, lie, args.size.seed + case as u64)?;
        eprintln!(
            "lying: case {} of {}: {lie:?}: {end:?} after {:.1} s",
            case + 1,
            args.cases,
            after.as_secs_f64()
        );
        *ends.entry((lie, end)).or_default() += 1;
        if matches!(end, End::Healed | End::Stopped) {
            longest = longest.max(after.as_secs_f64());
        }
        verdict.expect(matches!(end, End::Healed | End::Stopped | End::Harmless), || {
            format!("case {case}, {lie:?}: {end:?}")
        });
    }
    let ends: Vec<_> = ends.iter().map(|((lie, end), count)| format!("{lie:?} {end:?} {count}")).collect();
    verdict.end(&format!(
        "lying: {} cases: {}; noticed after {longest:.1} s at most; {:.0} s in all",
        args.cases,
        ends.join(", "),
        began.elapsed().as_secs_f64()
    ))
}

fn one(args: &Args, place: &Place, lie: Lie, seed: u64) -> anyhow::Result<(End, Duration)> {
    let servers = if lie == Lie::RolledBack { 3 } else { args.size.servers };
    let size = Size { servers, seed, ..args.size.clone() };
    let folder = place.folder("lying")?;
    let site = Site::start(size.even_web(args.pages), &folder)?;
    let wanted = site.all_homes(&folder)?;
    let mut herd = Herd::found(&size, place, &folder, &site, &wanted.seeds, "any")?;
    herd.join(args.nodes)?;
    herd.settle()?;
    herd.until_requests(size.hosts as usize * 3)?;
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);

    let said = herd.nodes.iter().map(|node| node.crawler.said().to_owned()).collect();
    let watch = Watch::start(said, herd.journal.clone());
    let from = herd.journal.now_us();
    let partition = match lie {
        Lie::Hole => Some(dig(&herd, &mut random)?),
        Lie::Anew => {
            make_anew(&herd, random.below(u64::from(STREAMS)) as u32)?;
            None
        }
        Lie::RolledBack => {
            roll_back(&mut herd, random.below(3) as usize, &folder)?;
            None
        }
    };
    let (began, to) = (Instant::now(), herd.journal.now_us());
    let mut faults = vec![Fault { kind: Kind::LeaderKilled, from, to }];
    let mut noticed = until_noticed(&herd, NOTICED_MAX);
    let in_time = noticed.is_some();
    if let (None, Some(partition)) = (noticed, partition) {
        // The owner knows more than the log. The owner is killed and its state removed: the next one needs the log.
        let owner = herd.owners().get(&partition).copied().context("it has an owner")?;
        let node = herd.nodes.iter().position(|node| node.id() == owner).context("it is one of ours")?;
        let from = herd.journal.now_us();
        herd.nodes[node].kill()?;
        cluster::wipe(herd.nodes[node].crawler.dir())?;
        herd.nodes[node].start()?;
        faults.push(Fault { kind: Kind::NodeWiped, from, to: herd.journal.now_us() });
        noticed = until_noticed(&herd, size.lease() + NEXT_OWNER_MAX).map(|_| began.elapsed());
    }
    herd.until_quiet(Duration::from_secs(args.quiet))?;
    let stopped = has_stopped(&herd);
    let running = herd.running();
    herd.leave(running)?;
    let world = site.web().world().clone();
    let log = site.stop();
    let mut whole = Verdict::quiet();
    judge::complete(&mut whole, &world, &wanted.truth, &log);
    faults.extend(watch.end());
    cluster::repeats(&mut whole, &log, &faults);
    let end = match (noticed, whole.faults() == 0, stopped) {
        // A web whose pages name each other is found again from nothing: that no history is left is harm enough.
        (None, true, _) if lie == Lie::Anew => End::Unnoticed,
        (None, true, _) => End::Harmless,
        (None, false, _) => End::Unnoticed,
        (Some(_), false, false) => End::Forgotten,
        (Some(_), ..) if !in_time => End::Late,
        (Some(_), true, _) => End::Healed,
        (Some(_), false, true) => End::Stopped,
    };
    Ok((end, noticed.unwrap_or(began.elapsed())))
}

/// Whether a partition stays closed, with repeated reports.
fn has_stopped(herd: &Herd) -> bool {
    let said = || -> usize { herd.nodes.iter().map(|node| node.said().matches(CLOSED).count()).sum() };
    let (before, began) = (said(), Instant::now());
    while began.elapsed() < CLOSED_AGAIN {
        if said() > before {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}

/// Waits until a node reports the loss; returns the time.
fn until_noticed(herd: &Herd, limit: Duration) -> Option<Duration> {
    let began = Instant::now();
    while began.elapsed() < limit {
        if herd.nodes.iter().any(|node| NOTICES.iter().any(|words| node.said().contains(words))) {
            return Some(began.elapsed());
        }
        std::thread::sleep(LOOK);
    }
    None
}

/// Connects to the servers with full permissions.
fn by_hand<T>(
    herd: &Herd,
    work: impl AsyncFnOnce(jetstream::Context) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (runtime, _) = herd.engine();
    runtime.block_on(async {
        let client = async_nats::connect(herd.nats.urls()).await?;
        work(jetstream::new(client)).await
    })
}

/// Removes a message from the middle of a log. Returns the partition.
fn dig(herd: &Herd, random: &mut Random) -> anyhow::Result<u32> {
    let end = Instant::now() + MESSAGES_WAIT;
    let owned: Vec<u32> = herd.owners().into_keys().collect();
    loop {
        let partition = owned[random.below(owned.len() as u64) as usize];
        let done = by_hand(herd, async |context| {
            let stream = partition % STREAMS;
            let subject = format!("neph.nephila.{stream}.log.{partition}");
            let stream = context.get_stream(format!("NEPH_nephila_{stream}")).await?;
            let (mut sequences, mut next) = (Vec::new(), 1);
            while let Ok(message) = stream.direct_get_next_for_subject(&*subject, Some(next)).await {
                sequences.push(message.sequence);
                next = message.sequence + 1;
            }
            if sequences.len() < MESSAGES_MIN {
                return Ok(false);
            }
            let middle = sequences[sequences.len() / 2];
            ensure!(stream.delete_message(middle).await?, "message {middle} was not removed");
            Ok(true)
        })?;
        if done {
            return Ok(partition);
        }
        ensure!(Instant::now() < end, "no log has {MESSAGES_MIN} messages");
        std::thread::sleep(LOOK);
    }
}

/// Removes a stream and recreates the same stream, without its messages.
fn make_anew(herd: &Herd, stream: u32) -> anyhow::Result<()> {
    by_hand(herd, async |context| {
        let name = format!("NEPH_nephila_{stream}");
        let config: stream::Config = context.get_stream(&name).await?.cached_info().config.clone();
        context.delete_stream(&name).await?;
        context.create_stream(config).await?;
        Ok(())
    })
}

/// Rolls one server back to an earlier copy of its files; the other two go on meanwhile.
fn roll_back(herd: &mut Herd, server: usize, folder: &Path) -> anyhow::Result<()> {
    let (store, copy) = (herd.nats.store(server), folder.join("older"));
    herd.nats.kill(server)?;
    copy_folder(&store, &copy)?;
    herd.nats.start(server)?;
    herd.nats.wait_ready()?;
    std::thread::sleep(OLDER);
    herd.nats.kill(server)?;
    herd.nats.wipe(server)?;
    copy_folder(&copy, &store)?;
    herd.nats.start(server)
}

fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let (entry, to) = (entry?, to.to_owned());
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => _ = std::fs::copy(entry.path(), target)?,
        }
    }
    Ok(())
}
