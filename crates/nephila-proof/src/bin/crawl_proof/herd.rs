//! A cluster for the proofs of its promises: nodes, servers, a web, and an observer of partition owners.
//!
//! Invariants: the owner of a partition is read from the owner records on the servers, as every node reads them; the
//! time of a request is the one that the web saw. Every wait has a timeout.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_core::cluster::NodeId;
use nephila_core::cluster::member::{NodeRecord, OwnerRecord, OwnerState};
use nephila_core::key::{Prefixes, Secret, UrlKey};
use nephila_core::url::CrawlUrl;
use nephila_log::Leases;
use nephila_log::jetstream::{self, Engine};
use nephila_testnats::{Nats, Options};
use nephila_testweb::Settings;
use nephila_testweb::journal::{Journal, Log};
use nephila_testweb::model::{Place as WebPlace, Truth, What, World};
use tokio::runtime::Runtime;

use crate::archive::{self, Copies};
use crate::cluster::{self, Fault};
use crate::crawler::{Crawler, Place, Rests, Run};
use crate::judge::{self, Verdict};
use crate::site::{self, Site};

/// Streams of every cluster here.
pub const STREAMS: u32 = 4;
/// Interval between reads of the owners.
const LOOK: Duration = Duration::from_millis(250);
/// The cluster has settled when no partition has changed hands for this long.
const SETTLED: Duration = Duration::from_secs(4);
/// A cluster settles within this time.
const SETTLE_MAX: Duration = Duration::from_secs(180);
/// A node has this long to hand over and leave.
const LEAVE_MAX: Duration = Duration::from_secs(120);
/// Captures read again in the end.
const RECORDS: usize = 200;
/// A crawl ends within this time.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Sizes of the proof.
#[derive(Clone, Debug, clap::Args)]
pub struct Size {
    /// Number of NATS servers: 1 or 3.
    #[arg(long, default_value_t = 3)]
    pub servers: usize,
    /// Number of partitions of the cluster.
    #[arg(long, default_value_t = 32)]
    pub partitions: u32,
    /// Hosts of the web, each a domain of its own.
    #[arg(long, default_value_t = 96)]
    pub hosts: u32,
    /// Rest of a host between two requests (crawl delay), in milliseconds.
    #[arg(long, default_value_t = 500)]
    pub host_delay_ms: u64,
    /// Time to live of a lease, in seconds.
    #[arg(long, default_value_t = 15)]
    pub lease: u64,
    /// Seed of the web and of all random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Size {
    /// The rests (crawl delays) that are set, and judged.
    pub fn rests(&self) -> Rests {
        // The rate limit of a shared address is the subject of the proof `slots`.
        Rests { host: Duration::from_millis(self.host_delay_ms), slot: Duration::ZERO }
    }

    /// The lease as a time.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease)
    }

    /// A web of hosts that are equally large, with errors, redirects and duplicates, and without delays.
    pub fn even_web(&self, pages: u64) -> Settings {
        Settings {
            seed: self.seed,
            hosts: self.hosts,
            hosts_per_domain: 1,
            pages,
            size_exponent: 0.0,
            tarpit_share: 0.0,
            addresses: self.hosts.max(1),
            ..site::with_everything()
        }
    }
}

/// A node: its command, and its process if running.
pub struct Node {
    /// Its name.
    pub name: String,
    /// The command of the node.
    pub crawler: Crawler,
    /// Its process.
    pub run: Option<Run>,
}

impl Node {
    /// Its name in the cluster.
    pub fn id(&self) -> NodeId {
        NodeId::of(&self.name)
    }

    /// Pulls the plug.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.run.take().context("it runs")?.kill()
    }

    /// Starts or restarts the node.
    pub fn start(&mut self) -> anyhow::Result<()> {
        self.run = Some(self.crawler.start()?);
        Ok(())
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        std::fs::read(self.crawler.said())
            .map(|said| String::from_utf8_lossy(&said).into_owned())
            .unwrap_or_default()
    }

    /// Its memory in kB, if running.
    pub fn resident_kb(&self) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.run.as_ref()?.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    }
}

/// A partition's owner record when first seen.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// When, in time of the web's journal.
    pub at_us: u64,
    /// Which partition.
    pub partition: u32,
    /// The record.
    pub record: OwnerRecord,
}

/// The owner of each partition at this moment, among nodes with a live lease.
pub type Owners = BTreeMap<u32, NodeId>;

/// Reads the owner records again and again and keeps the changes.
struct Eye {
    seen: Arc<Mutex<(Vec<Change>, Owners)>>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Eye {
    fn open(settings: jetstream::Settings, journal: Journal) -> anyhow::Result<Eye> {
        let seen = Arc::new(Mutex::new((Vec::new(), Owners::new())));
        let is_over = Arc::new(AtomicBool::new(false));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let engine = runtime.block_on(Engine::connect(settings))?;
        let (shared, over) = (seen.clone(), is_over.clone());
        let look = async move {
            let leases = engine.leases();
            let mut known: BTreeMap<u32, u64> = BTreeMap::new();
            while !over.load(Ordering::Relaxed) {
                tokio::time::sleep(LOOK).await;
                // While the servers are away nothing is seen, and nothing changes.
                let Some((records, live)) = read(&leases).await else { continue };
                let now = journal.now_us();
                let mut seen = shared.lock().expect("nobody panics holding it");
                for (partition, (revision, record)) in &records {
                    if known.insert(*partition, *revision) != Some(*revision) {
                        seen.0.push(Change { at_us: now, partition: *partition, record: *record });
                    }
                }
                let owned = records.iter().filter(|(_, (_, record))| {
                    record.state == OwnerState::Owned && live.contains(&record.incarnation.0)
                });
                seen.1 = owned.map(|(partition, (_, record))| (*partition, record.node)).collect();
            }
        };
        let thread = std::thread::spawn(move || runtime.block_on(look));
        Ok(Eye { seen, is_over, thread: Some(thread) })
    }
}

impl Drop for Eye {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            _ = thread.join();
        }
    }
}

type Records = BTreeMap<u32, (u64, OwnerRecord)>;

async fn read(leases: &dyn Leases) -> Option<(Records, BTreeSet<u64>)> {
    let mut records = Records::new();
    for item in leases.records("owner.").await.ok()? {
        let partition = item.key.strip_prefix("owner.")?.parse().ok()?;
        records.insert(partition, (item.revision, OwnerRecord::decode(&item.value).ok()?));
    }
    let held = leases.held().await.ok()?;
    let nodes = held.iter().filter(|item| item.key.starts_with("node."));
    let live = nodes.filter_map(|item| Some(NodeRecord::decode(&item.value).ok()?.incarnation.0));
    Some((records, live.collect()))
}

/// The results of judging a crawl.
pub struct Judged {
    /// Places as the truth says.
    pub places: u64,
    /// Requests that were made again, each after a fault.
    pub repeats: usize,
    /// Captures of all nodes.
    pub captures: usize,
    /// Of these, read again.
    pub read: usize,
}

/// A cluster.
pub struct Herd {
    /// Its servers.
    pub nats: Nats,
    /// Its nodes, running or not.
    pub nodes: Vec<Node>,
    /// The requests that the web sees.
    pub journal: Journal,
    /// Asks the cluster, as a person would.
    pub asks: Crawler,
    folder: PathBuf,
    size: Size,
    /// The partition of each host of the web.
    by_host: Vec<u32>,
    secret: Secret,
    eye: Eye,
    runtime: Runtime,
    engine: Engine,
}

impl Herd {
    /// Servers and a job; no node yet.
    pub fn found(
        size: &Size,
        place: &Place,
        folder: &Path,
        site: &Site,
        seeds: &Path,
        scope: &str,
    ) -> anyhow::Result<Herd> {
        let nats = Nats::with(Options { servers: size.servers, ..Options::default() })?;
        let mut asks = Crawler::new(place, folder, site, seeds, scope, size.rests());
        let replicas = if size.servers == 3 { 3 } else { 1 };
        let servers: Vec<_> = nats.urls().iter().map(|url| format!("\"{url}\"")).collect();
        let ms = size.lease * 1_000;
        for set in [
            format!("cluster.servers=[{}]", servers.join(", ")),
            format!("cluster.replicas={replicas}"),
            format!("cluster.partitions={}", size.partitions),
            format!("cluster.streams={STREAMS}"),
            format!("cluster.lease_ttl={ms}ms"),
            // As the defaults stand to each other.
            format!("cluster.heartbeat={}ms", ms * 4 / 15),
            format!("cluster.margin={}ms", ms / 5),
            "cluster.discover=false".into(),
            "frontier.slot_connections=1000".into(),
            "crawl.concurrency=256".into(),
        ] {
            asks.set(&set);
        }
        // A setting for the end of a crawl; an older program may not know the setting.
        asks.unset("crawl.wait_max");
        crate::cluster::create_job(&asks, seeds, scope, None)?;
        let settings = jetstream::Settings {
            servers: nats.urls(),
            streams: STREAMS,
            replicas,
            lease_ttl: size.lease(),
            discover: false,
            ..jetstream::Settings::default()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let engine = runtime.block_on(Engine::connect(settings.clone()))?;
        let record =
            runtime.block_on(engine.leases().record("cluster"))?.context("the cluster is founded")?;
        let secret = secret(&record.value).context("the secret of the cluster")?;
        let journal = site.web().journal().clone();
        let eye = Eye::open(settings, journal.clone())?;
        let by_host = partitions(site.world(), &secret, size.partitions)?;
        let (folder, size, nodes) = (folder.to_owned(), size.clone(), Vec::new());
        Ok(Herd { nats, nodes, journal, asks, folder, size, by_host, secret, eye, runtime, engine })
    }

    /// Starts this number of additional nodes.
    pub fn join(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            match self.nodes.iter_mut().find(|node| node.run.is_none()) {
                Some(node) => node.start()?,
                None => {
                    let name = format!("node-{}", self.nodes.len());
                    let crawler = self.asks.node(&self.folder, &name);
                    let run = Some(crawler.start()?);
                    self.nodes.push(Node { name, crawler, run });
                }
            }
        }
        Ok(())
    }

    /// The file of the output of the node with this number.
    pub fn said(&self, number: usize) -> PathBuf {
        self.folder.join(format!("node-{number}.txt"))
    }

    /// The last `count` nodes hand over and leave, all at once.
    pub fn leave(&mut self, count: usize) -> anyhow::Result<()> {
        let running = self.nodes.iter_mut().rev().filter(|node| node.run.is_some()).take(count);
        let leaving: Vec<Run> = running.filter_map(|node| node.run.take()).collect();
        leaving.iter().try_for_each(Run::ask_to_end)?;
        leaving.into_iter().try_for_each(|run| run.finish_within(LEAVE_MAX))
    }

    /// How many nodes run.
    pub fn running(&self) -> usize {
        self.nodes.iter().filter(|node| node.run.is_some()).count()
    }

    /// The folders of all nodes there were.
    pub fn dirs(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(|node| node.crawler.dir().to_owned()).collect()
    }

    /// The largest node, in kB.
    pub fn memory(&self) -> u64 {
        self.nodes.iter().filter_map(|node| node.resident_kb()).max().unwrap_or(0)
    }

    /// The answer to a status request to the cluster.
    pub fn status(&self) -> anyhow::Result<(ExitStatus, String)> {
        let mut args: Vec<String> = ["cluster", "status"].map(str::to_owned).into();
        args.extend(self.asks.settings());
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.asks.ask_all(&args)
    }

    /// Judges the requests that the web saw and the archives of all nodes.
    pub fn judge(
        &self,
        verdict: &mut Verdict,
        world: &Arc<World>,
        truth: &Truth,
        log: &Log,
        faults: &[Fault],
    ) -> anyhow::Result<Judged> {
        let places = judge::complete(verdict, world, truth, log);
        cluster::polite(verdict, world, log, self.size.rests(), faults);
        let repeats = cluster::repeats(verdict, log, faults);
        let copies = if faults.is_empty() { Copies::Once } else { Copies::AsAsked };
        let (captures, read) =
            archive::check_all(verdict, &self.asks, &self.dirs(), world, truth, log, copies, RECORDS)?;
        Ok(Judged { places, repeats, captures, read })
    }

    /// The owner of each partition, as seen last.
    pub fn owners(&self) -> Owners {
        self.eye.seen.lock().expect("nobody panics holding it").1.clone()
    }

    /// The changes of ownership so far.
    pub fn changes(&self) -> Vec<Change> {
        self.eye.seen.lock().expect("nobody panics holding it").0.clone()
    }

    /// The partition of each host of the web.
    pub fn by_host(&self) -> &[u32] {
        &self.by_host
    }

    /// The key under which the cluster hashes URLs.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The servers, as a node sees them.
    pub fn engine(&self) -> (&Runtime, &Engine) {
        (&self.runtime, &self.engine)
    }

    /// Waits until every partition has a live owner, every node that runs owns one, and nothing changes hands.
    pub fn settle(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        let (mut count, mut since) = (0, Instant::now());
        loop {
            std::thread::sleep(LOOK);
            self.expect_alive()?;
            let (owners, changes) = (self.owners(), self.changes().len());
            let all = owners.len() == self.size.partitions as usize;
            let ids: BTreeSet<NodeId> = owners.values().copied().collect();
            let running: BTreeSet<NodeId> =
                self.nodes.iter().filter(|node| node.run.is_some()).map(Node::id).collect();
            if changes != count || !all || ids != running {
                (count, since) = (changes, Instant::now());
            }
            if since.elapsed() >= SETTLED {
                return Ok(());
            }
            ensure!(
                began.elapsed() < SETTLE_MAX,
                "it has not settled: {} of {} partitions have an owner, {} of {} nodes own one",
                owners.len(),
                self.size.partitions,
                ids.len(),
                running.len()
            );
        }
    }

    /// No node has ended by itself.
    pub fn expect_alive(&mut self) -> anyhow::Result<()> {
        for node in self.nodes.iter_mut() {
            if let Some(run) = &mut node.run {
                ensure!(!run.wait_until(Instant::now())?, "{} has left by itself", node.name);
            }
        }
        Ok(())
    }

    /// Waits until the web has received this number of requests.
    pub fn until_requests(&mut self, count: usize) -> anyhow::Result<()> {
        let end = Instant::now() + SETTLE_MAX;
        while self.journal.requests() < count {
            self.expect_alive()?;
            ensure!(Instant::now() < end, "{} requests and no more", self.journal.requests());
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits until requests have stopped.
    pub fn until_quiet(&mut self, quiet: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        let (mut requests, mut since) = (self.journal.requests(), Instant::now());
        while since.elapsed() < quiet {
            ensure!(began.elapsed() < LIMIT, "it is still at work after {} s", LIMIT.as_secs());
            self.expect_alive()?;
            std::thread::sleep(LOOK);
            let now = self.journal.requests();
            if now != requests {
                (requests, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// The requests of each partition: when they began.
    pub fn starts(&self, world: &World, log: &Log) -> BTreeMap<u32, Vec<u64>> {
        let mut starts: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for request in &log.requests {
            if let Some(host) = world.host_of(&request.host) {
                starts.entry(self.by_host[host as usize]).or_default().push(request.start_us);
            }
        }
        starts.values_mut().for_each(|starts| starts.sort_unstable());
        starts
    }
}

/// The middle of some figures, and the largest; zeros if there are none.
pub fn median_and_max(mut figures: Vec<f64>) -> (f64, f64) {
    figures.sort_by(f64::total_cmp);
    let middle = figures.get(figures.len() / 2).copied().unwrap_or(0.0);
    (middle, figures.last().copied().unwrap_or(0.0))
}

/// Microseconds of a time.
pub fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn secret(record: &[u8]) -> Option<Secret> {
    let record: serde_json::Value = serde_json::from_slice(record).ok()?;
    let text = record["secret"].as_str()?;
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
    Some(Secret(bytes.try_into().ok()?))
}

fn partitions(world: &World, secret: &Secret, partitions: u32) -> anyhow::Result<Vec<u32>> {
    let of = |host| {
        let url = CrawlUrl::parse(&world.url(WebPlace { host, what: What::Page(0) }))
            .map_err(|error| anyhow::anyhow!("a URL of the web: {error:?}"))?;
        let domain = UrlKey::of(&url, secret).host.domain;
        let holds = |partition: &u32| Prefixes::share(*partition, partitions).holds(domain);
        (0..partitions).find(holds).context("shares have no gaps")
    };
    (0..world.settings().hosts).map(of).collect()
}
