//! A cluster: several nodes, each a process, on real NATS servers, while nodes, servers and the network between them fail.
//!
//! Faults come one after the other, some during the recovery from the last: a node is killed, frozen for longer than
//! its lease, cut off from the servers, or loses the states of its partitions; a server is killed or frozen, or all of
//! them at once. When all faults are over and requests have stopped, the nodes are told to leave.
//!
//! The invariants are the same as for one node, counted at the server and in the archives of all nodes together:
//! complete, polite to every host, obedient, every capture whole. A page may be requested again only if a fault fell
//! while its ticket could be open. Without faults every page is requested once.

mod faults;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_core::entry;
use nephila_core::fold::fold;
use nephila_core::key::Prefixes;
use nephila_core::state::{MemoryState, State};
use nephila_log::jetstream::{self, Engine};
use nephila_log::{Fence, GroupLog};
use nephila_store::disk::RealDisk;
use nephila_store::runs::Cache;
use nephila_store::state::{DiskState, Merging};
use nephila_testnats::{Nats, Options, Proxy};
use nephila_testweb::check::Politeness;
use nephila_testweb::journal::{Journal, Log, Request};

use crate::archive::{self, Copies};
use crate::crawler::{Crawler, Place, Rests, Run};
use crate::herd::STREAMS;
use crate::judge::{self, Verdict};
use crate::plug::Random;
use crate::site::{self, Site};
use crate::tables::{self, Judge};

pub use faults::{Fault, Kind, Watch, wipe};

/// A page that was fetched is stored, its links are sent, and its outcome is committed within this time, if nothing fails.
const GRACE: Duration = Duration::from_secs(8);
/// A node that cannot reach the servers keeps fetched pages for at most this long, then gives its tickets up.
const HELD: Duration = Duration::from_secs(30);
/// The server notices within this time that the other end of a connection is gone.
const CUT: Duration = Duration::from_millis(200);
/// A request that was open when a node froze and is open this much later belongs to the frozen node: shorter than any
/// lease.
const LET_GO: Duration = Duration::from_secs(10);
/// Maximum number of retries of a page that failed.
const RETRIES_MAX: u32 = 3;
/// A node has this long to hand over and leave.
const LEAVE_MAX: Duration = Duration::from_secs(90);
/// The busiest node of a spread domain has at most this share of the mean.
const BUSIEST_MAX: f64 = 1.25;
/// A cluster has this long for its work.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Output of a node that opens a partition from a snapshot.
const RESTORED: &str = "begins with the snapshot of group";

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of nodes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// Number of NATS servers: 1 or 3.
    #[arg(long, default_value_t = 3)]
    servers: usize,
    /// Number of partitions of the cluster.
    #[arg(long, default_value_t = 64)]
    partitions: u32,
    /// Number of hosts of the web.
    #[arg(long, default_value_t = 500)]
    hosts: u32,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 200_000)]
    pages: u64,
    /// Number of faults; none shows that a cluster fetches every page once.
    #[arg(long, default_value_t = 300)]
    faults: usize,
    /// Kinds of faults, one of them at random each time: a kind that is named twice comes twice as often. Without, all
    /// kinds.
    #[arg(long, value_enum, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Longest pause between two faults, in milliseconds.
    #[arg(long, default_value_t = 6_000)]
    between_ms: u64,
    /// Seed of the web and of the faults; the effect of a fault still depends on the machine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rest of a host between two requests (crawl delay), in milliseconds.
    #[arg(long, default_value_t = 10)]
    host_delay_ms: u64,
    /// Time without a request after which the crawl counts as done, in seconds.
    #[arg(long, default_value_t = 45)]
    quiet: u64,
    /// Number of remote spiders; without, nodes fetch by themselves.
    #[arg(long, default_value_t = 0)]
    spiders: usize,
    /// With snapshots every few seconds into a folder that all nodes see, and archives sent there. The logs are then
    /// shortened, and are not folded again from their beginning.
    #[arg(long)]
    snapshots: bool,
    /// All hosts are of one domain, which is spread, and are alike in size. Addresses rest too. Without faults the busiest
    /// node has at most 1.25 of the mean of the captures.
    #[arg(long)]
    spread: bool,
    /// Needs --snapshots: tables are judged as the object store has them.
    #[command(flatten)]
    judge: Judge,
}

struct Node {
    crawler: Crawler,
    proxies: Vec<Proxy>,
    run: Option<Run>,
}

struct Cluster {
    nats: Nats,
    nodes: Vec<Node>,
    /// Remote spiders; their proxies lead to the nodes.
    spiders: Vec<Node>,
    journal: Journal,
    random: Random,
    faults: Vec<Fault>,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    anyhow::ensure!(args.snapshots || !args.judge.is_wanted(), "--tables needs --snapshots");
    let folder = place.folder("cluster")?;
    let host = Duration::from_millis(args.host_delay_ms);
    // The rate limit of a shared address is the subject of the proof `slots`, and of one domain on many nodes.
    let rests = Rests { host, slot: if args.spread { host / 2 } else { Duration::ZERO } };
    let mut web = site::mixed(args.seed, args.hosts, args.pages)?;
    if args.spread {
        (web.hosts_per_domain, web.size_exponent) = (args.hosts, 0.0);
    }
    let site = Site::start(web, &folder)?;
    let wanted = site.most_domains(&folder)?;
    let nats = Nats::with(Options { servers: args.servers, ..Options::default() })?;
    let mut crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "domain", rests);
    let replicas = if args.servers == 3 { 3 } else { 1 };
    for set in [
        format!("cluster.replicas={replicas}"),
        format!("cluster.partitions={}", args.partitions),
        format!("cluster.streams={STREAMS}"),
        "cluster.discover=false".into(),
        format!("frontier.slot_connections={}", if args.spread { 1 } else { 1000 }),
        "crawl.concurrency=256".into(),
    ] {
        crawler.set(&set);
    }
    let objects = folder.join("objects");
    if args.snapshots {
        crawler.set(&format!("cluster.objects=\"file://{}\"", objects.display()));
        crawler.set("cluster.snapshot_every=\"4s\"");
        crawler.set("cluster.archive_upload=\"closed\"");
        crawler.set("store.bytes_max=1000000");
        args.judge.settings().iter().for_each(|setting| crawler.set(setting));
    }
    let (mut nodes, mut listen) = (Vec::new(), Vec::new());
    for number in 0..args.nodes {
        let mut node = crawler.node(&folder, &format!("node-{number}"));
        let proxies: Vec<Proxy> =
            (0..args.servers).map(|server| Proxy::to(nats.address(server))).collect::<Result<_, _>>()?;
        let urls: Vec<_> = proxies.iter().map(|proxy| format!("\"{}\"", proxy.url())).collect();
        node.set(&format!("cluster.servers=[{}]", urls.join(", ")));
        if args.spiders > 0 {
            let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
            node.set(&format!("spiders.listen=\"{address}\""));
            // As the defaults stand to each other: a ticket outlives a fetch and a lease.
            node.set("frontier.ticket_timeout=60s");
            listen.push(address);
        }
        let run = Some(node.start()?);
        nodes.push(Node { crawler: node, proxies, run });
    }
    let mut spiders = Vec::new();
    for number in 0..args.spiders {
        let proxies: Vec<Proxy> = listen.iter().map(|node| Proxy::to(*node)).collect::<Result<_, _>>()?;
        let nodes: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
        let spider = crawler.spider(&folder, &format!("spider-{number}"), &nodes, site.ca());
        let run = Some(spider.start()?);
        spiders.push(Node { crawler: spider, proxies, run });
    }
    let urls: Vec<_> = nats.urls().iter().map(|url| format!("\"{url}\"")).collect();
    crawler.set(&format!("cluster.servers=[{}]", urls.join(", ")));
    let domain = site.world().name(0);
    create_job(&crawler, &wanted.seeds, "domain", args.spread.then_some(&domain))?;

    let journal = site.web().journal().clone();
    let random = Random(args.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let watch =
        Watch::start(nodes.iter().map(|node| node.crawler.said().to_owned()).collect(), journal.clone());
    let mut cluster = Cluster { nats, nodes, spiders, journal, random, faults: Vec::new() };
    cluster.break_things(args)?;
    let first_quiet = cluster.until_quiet(Duration::from_secs(args.quiet))?;
    let dirs: Vec<PathBuf> = cluster.nodes.iter().map(|node| node.crawler.dir().to_owned()).collect();
    cluster.leave()?;
    cluster.faults.extend(watch.end());

    let mut verdict = Verdict::default();
    // The message names the check that was made: a shortened log cannot be folded from its beginning.
    let logs = if args.snapshots {
        let files = stored(&mut verdict, args.partitions, &objects, &dirs)?;
        let said: Vec<_> = cluster.nodes.iter().map(|node| node.crawler.said().to_owned()).collect();
        let restored: usize = said
            .iter()
            .map(|path| std::fs::read_to_string(path).unwrap_or_default().matches(RESTORED).count())
            .sum();
        let wiped = cluster.faults.iter().any(|fault| fault.kind == Kind::NodeWiped);
        verdict.expect(!wiped || restored > 0, || "a node was wiped and nothing came from a snapshot".into());
        format!(
            "{} partitions with snapshots, {restored} openings from one, {files} archive files stored as they are, logs not \
             folded again",
            args.partitions
        )
    } else {
        let groups = replay(&mut verdict, &cluster.nats, args.servers, args.partitions, &dirs)?;
        format!("{} partitions the same when {groups} groups of their logs are folded again", args.partitions)
    };
    let world = site.web().world().clone();
    let log = site.stop();
    let places = judge::complete(&mut verdict, &world, &wanted.truth, &log);
    polite(&mut verdict, &world, &log, rests, &cluster.faults);
    let repeats = repeats(&mut verdict, &log, &cluster.faults);
    let copies = if cluster.faults.is_empty() { Copies::Once } else { Copies::AsAsked };
    let (captures, read) =
        archive::check_all(&mut verdict, &crawler, &dirs, &world, &wanted.truth, &log, copies, 1_000)?;
    let busiest = if args.spread { even(&mut verdict, &dirs, args.faults == 0)? } else { String::new() };
    if args.judge.is_wanted() {
        let dir = folder.join("judged");
        tables::gather(&objects, &dir)?;
        let said = args.judge.run(&dir, &world, &wanted.truth)?;
        eprintln!("cluster: tables: {}", said.unwrap_or_default());
    }
    let mut kinds = std::collections::BTreeMap::<Kind, usize>::new();
    cluster.faults.iter().for_each(|fault| *kinds.entry(fault.kind).or_default() += 1);
    let kinds: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind:?}")).collect();
    verdict.end(&format!(
        "cluster: {} nodes, {} spiders, {} servers, {} faults ({}), {places} places as the truth says, {captures} captures, {read} \
         read again, {} requests, {repeats} repeated after faults, {busiest}{logs}, {:.0} s of work, {:.0} s in all",
        args.nodes,
        args.spiders,
        args.servers,
        cluster.faults.len(),
        kinds.join(", "),
        log.requests.len(),
        first_quiet.as_secs_f64(),
        began.elapsed().as_secs_f64(),
    ))
}

/// Checks that the nodes have shares alike of the captures: not after faults, since partitions of a killed node are others'
/// meanwhile. Returns the share of the busiest node.
fn even(verdict: &mut Verdict, dirs: &[PathBuf], is_judged: bool) -> anyhow::Result<String> {
    let counts = dirs.iter().map(|dir| Ok(archive::Index::read(dir)?.lines()));
    let counts: Vec<usize> = counts.collect::<anyhow::Result<_>>()?;
    let most = counts.iter().max().copied().unwrap_or(0) as f64;
    let share = most * counts.len() as f64 / counts.iter().sum::<usize>().max(1) as f64;
    verdict.expect(!is_judged || share <= BUSIEST_MAX, || {
        format!("the busiest node has {share:.2} of the mean: {counts:?}")
    });
    Ok(format!("the busiest node has {share:.2} of the mean ({counts:?}), "))
}

/// Makes a job of these seeds, and spreads a domain.
pub fn create_job(
    crawler: &Crawler,
    seeds: &std::path::Path,
    scope: &str,
    spread: Option<&String>,
) -> anyhow::Result<()> {
    let seeds = seeds.display().to_string();
    let mut args: Vec<String> =
        ["job", "create", "proof", "--scope", scope, "-d", "255", "-i", &seeds].map(str::to_owned).into();
    args.extend(spread.into_iter().flat_map(|domain| ["--spread".to_owned(), domain.clone()]));
    args.extend(crawler.settings());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (status, said) = crawler.ask(&args)?;
    anyhow::ensure!(status.success(), "nephila job create: {status}: {said}");
    Ok(())
}

impl Cluster {
    fn running(&self, node: usize) -> anyhow::Result<&Run> {
        self.nodes[node].run.as_ref().context("it runs")
    }

    /// Waits until requests have stopped; returns how long there were any.
    fn until_quiet(&mut self, quiet: Duration) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let (mut requests, mut since) = (self.journal.requests(), Instant::now());
        while since.elapsed() < quiet {
            anyhow::ensure!(began.elapsed() < LIMIT, "it is still at work after {} s", LIMIT.as_secs());
            for node in &mut self.nodes {
                let ended = node.run.as_mut().context("it runs")?.wait_until(Instant::now())?;
                anyhow::ensure!(!ended, "a node has left by itself");
            }
            std::thread::sleep(Duration::from_millis(200));
            let now = self.journal.requests();
            if now != requests {
                (requests, since) = (now, Instant::now());
            }
        }
        Ok(began.elapsed().saturating_sub(quiet))
    }

    /// Every node hands over and leaves, the last one without a successor.
    fn leave(&mut self) -> anyhow::Result<()> {
        for spider in &mut self.spiders {
            let run = spider.run.take().context("it runs")?;
            run.ask_to_end()?;
            run.finish_within(LEAVE_MAX)?;
        }
        for node in &mut self.nodes {
            let run = node.run.take().context("it runs")?;
            run.ask_to_end()?;
            run.finish_within(LEAVE_MAX)?;
        }
        Ok(())
    }
}

/// Folds the log of every partition from its beginning, and compares with the state on the last owner's disk. Returns
/// the number of groups.
pub fn replay(
    verdict: &mut Verdict,
    nats: &Nats,
    servers: usize,
    partitions: u32,
    dirs: &[PathBuf],
) -> anyhow::Result<u64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let settings = jetstream::Settings {
        servers: nats.urls(),
        streams: 4,
        replicas: if servers == 3 { 3 } else { 1 },
        ..jetstream::Settings::default()
    };
    let engine = runtime.block_on(Engine::connect(settings))?;
    let cache = Cache::new(1 << 20);
    let mut groups = 0;
    for partition in 0..partitions {
        // The last owner is the one that has come furthest.
        let mut last: Option<DiskState> = None;
        for dir in dirs {
            let tables = dir.join(format!("state/partition-{partition:05}/tables"));
            if tables.is_dir() {
                let state = DiskState::open(Arc::new(RealDisk), &tables, Merging::Inline, &cache)?;
                let further =
                    last.as_ref().is_none_or(|last| last.position().sequence < state.position().sequence);
                last = if further { Some(state) } else { last };
            }
        }
        let mut live = last.with_context(|| format!("nobody had partition {partition}"))?;
        let mut log = runtime.block_on(engine.log(partition, u64::MAX / 4, Fence::new()))?;
        let mut again = MemoryState::new();
        for group in log.replay(1) {
            let (_, bytes) = group?;
            let (group, behind) = entry::open(&bytes, again.position())?;
            fold(&mut again, &group, behind)?;
            groups += 1;
        }
        let (live_at, again_at) = (live.position().sequence, again.position().sequence);
        verdict.expect(live.hash(Prefixes::ALL)? == again.hash(Prefixes::ALL)? && live_at == again_at, || {
            format!("partition {partition}: its log has {again_at} groups, its last owner {live_at}, and they differ")
        });
    }
    Ok(groups)
}

/// Every partition has two snapshots and no more, and every closed file of an archive is stored unchanged.
pub fn stored(
    verdict: &mut Verdict,
    partitions: u32,
    objects: &std::path::Path,
    dirs: &[PathBuf],
) -> anyhow::Result<usize> {
    let cluster = std::fs::read_dir(objects)?.next().context("nothing is stored")??.path();
    for partition in 0..partitions {
        let folder = cluster.join(format!("snapshots/{partition:05}"));
        let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        let names = entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
        let manifests = names.iter().filter(|name| name.to_string_lossy().ends_with(".json")).count();
        // One more if its maker was killed before the removal of the old one.
        verdict.expect((1..=3).contains(&manifests), || {
            format!("partition {partition} has {manifests} snapshots")
        });
    }
    let mut files = 0;
    for (number, dir) in dirs.iter().enumerate() {
        for entry in std::fs::read_dir(dir.join("archive"))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_owned();
            if !name.to_string_lossy().ends_with(".warc.gz") {
                continue;
            }
            let there = cluster.join("archive").join(format!("node-{number}")).join(&name);
            let is_same = std::fs::read(&there).is_ok_and(|stored| Some(stored) == std::fs::read(&path).ok());
            verdict.expect(is_same, || format!("{} is not stored as it is", path.display()));
            files += 1;
        }
    }
    Ok(files)
}

/// Checks politeness to every host; addresses are another matter. A node that is frozen cannot close its connections,
/// while its hosts are requested by another: one more connection, idle or with the open request, is then no fault.
pub fn polite(
    verdict: &mut Verdict,
    world: &nephila_testweb::model::World,
    log: &Log,
    rests: Rests,
    faults: &[Fault],
) {
    let frozen = faults.iter().filter(|fault| fault.kind.is_frozen()).count();
    let by_host = Politeness {
        host_connections_max: if frozen > 0 { 2 } else { 1 },
        address_rest: Duration::ZERO,
        address_requests_max: usize::MAX,
        ..judge::politeness(rests)
    };
    verdict.report("politeness", &by_host.check(&let_go(log, faults)));
    judge::obedient(verdict, world, log);
}

/// The log as if the frozen nodes had dropped their open requests at once. A request that another node had open for as
/// long is cut as well, which only a slow server brings about.
fn let_go(log: &Log, faults: &[Fault]) -> Log {
    let mut log = log.clone();
    let frozen = || faults.iter().filter(|fault| fault.kind.is_frozen());
    for request in &mut log.requests {
        let held = frozen().find(|fault| {
            request.start_us <= fault.from && request.end_us >= fault.from + LET_GO.as_micros() as u64
        });
        if let Some(fault) = held {
            request.end_us = fault.from;
        }
    }
    log
}

/// Checks that every page requested twice had failed, or that a fault fell while its ticket could be open.
pub fn repeats(verdict: &mut Verdict, log: &Log, faults: &[Fault]) -> usize {
    let mut by_url: HashMap<(bool, &str, &str), Vec<&Request>> = HashMap::new();
    for request in log.requests.iter().filter(|request| !request.path.starts_with("/robots")) {
        by_url.entry((request.tls, &request.host, &request.path)).or_default().push(request);
    }
    let us = |time: Duration| time.as_micros() as u64;
    let (mut repeats, mut unasked) = (0, Vec::new());
    for ((_, host, path), requests) in &by_url {
        let mut failures = 0;
        for pair in requests.windows(2) {
            let (before, again) = (pair[0], pair[1]);
            // A fault that fell between the two, and not long after the first was over. A node that is frozen or cut
            // off may recover, or give up, some time after the fault is over.
            let hit = |fault: &&Fault| {
                let quick = matches!(fault.kind, Kind::NodeKilled | Kind::NodeWiped);
                let grace = us(if quick { GRACE } else { HELD });
                fault.from <= again.start_us
                    && before.start_us <= fault.to + grace
                    && fault.from <= before.end_us + grace
            };
            let is_hit = faults.iter().any(|fault| hit(&fault));
            let was_cut = faults
                .iter()
                .any(|fault| before.start_us <= fault.to + us(HELD) && fault.from <= before.end_us + us(CUT));
            let failed = before.status == 429 || before.status >= 500 || !before.is_complete;
            if failed && (was_cut || failures < RETRIES_MAX) {
                failures += u32::from(!was_cut);
            } else if is_hit {
                repeats += 1;
            } else {
                let (began, at) = (before.start_us as f64 / 1e6, again.start_us as f64 / 1e6);
                unasked.push(format!("{host}{path} at {at:.3} s, {} at {began:.3} s", before.status));
            }
        }
    }
    verdict.expect(unasked.is_empty(), || {
        let shown: Vec<_> = unasked.iter().take(5).cloned().collect();
        format!("{} repeats without a reason: {}", unasked.len(), shown.join("; "))
    });
    repeats
}
