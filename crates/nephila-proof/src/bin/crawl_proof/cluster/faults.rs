//! Faults of a cluster: their kinds, how long each lasts, and what brings it about.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use nephila_testnats::Proxy;
use nephila_testweb::journal::Journal;
use rustix::process::Signal;

use super::{Args, Cluster};
use crate::herd::STREAMS;

/// A node that was killed comes back after this.
const BACK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(4));
/// A node is cut off for this long: often longer than its lease.
const AWAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A spider is cut off from the nodes for this long.
const LINK_AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// A node is frozen for this long.
const FROZEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// The network between a node and the servers is slow by this much, each way.
const SLOW_BY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(400));
/// A server is away for this long.
const SERVER_AWAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// All servers are away for this long.
const ALL_AWAY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Shortest pause between two faults.
const BETWEEN_MIN: Duration = Duration::from_millis(500);
/// Interval between reads of the nodes' output.
const WATCH: Duration = Duration::from_millis(100);
/// Output of a node that stops by itself (fencing).
const STOPS: [&str; 2] = ["everything stops", "beginning again"];

/// A fault, in time of the journal: from, to.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The kind of fault.
    pub kind: Kind,
    /// From when.
    pub from: u64,
    /// Until when.
    pub to: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    NodeKilled,
    NodeFrozen,
    NodeCutOff,
    NodeSlow,
    NodeWiped,
    LeaderKilled,
    ServerFrozen,
    ServersKilled,
    SpiderKilled,
    SpiderFrozen,
    SpiderCutOff,
    SpiderSlow,
    /// None of ours: a node could not renew its lease in time, as on a machine that is held up, and began again.
    #[value(skip)]
    NodeFenced,
}

const KINDS: [Kind; 8] = [
    Kind::NodeKilled,
    Kind::NodeFrozen,
    Kind::NodeCutOff,
    Kind::NodeSlow,
    Kind::NodeWiped,
    Kind::LeaderKilled,
    Kind::ServerFrozen,
    Kind::ServersKilled,
];

/// Faults of a cluster with remote spiders besides these.
const SPIDER_KINDS: [Kind; 4] =
    [Kind::SpiderKilled, Kind::SpiderFrozen, Kind::SpiderCutOff, Kind::SpiderSlow];

impl Kind {
    /// Whether a process that asks sites stood still, with its connections open.
    pub(super) fn is_frozen(self) -> bool {
        matches!(self, Kind::NodeFrozen | Kind::SpiderFrozen)
    }
}

/// Reads the output of the nodes, and records when one of them has stopped by itself.
pub struct Watch {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Fault>>,
}

impl Watch {
    /// Begins.
    pub fn start(said: Vec<PathBuf>, journal: Journal) -> Watch {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = std::thread::spawn(move || {
            let (mut seen, mut faults) = (vec![0; said.len()], Vec::new());
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(WATCH);
                for (seen, path) in seen.iter_mut().zip(&said) {
                    let text = std::fs::read_to_string(path).unwrap_or_default();
                    let stops = STOPS.iter().map(|words| text.matches(words).count()).sum();
                    if stops > std::mem::replace(seen, stops) {
                        let now = journal.now_us();
                        faults.push(Fault { kind: Kind::NodeFenced, from: now, to: now });
                    }
                }
            }
            faults
        });
        Watch { is_over, thread }
    }

    /// Ends the watch; returns the faults seen.
    pub fn end(self) -> Vec<Fault> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

impl Cluster {
    /// Injects faults, one after the other.
    pub(super) fn break_things(&mut self, args: &Args) -> anyhow::Result<()> {
        let is_of_spiders = |kind: &Kind| SPIDER_KINDS.contains(kind);
        anyhow::ensure!(
            !self.spiders.is_empty() || !args.kinds.iter().any(is_of_spiders),
            "--kinds needs --spiders"
        );
        let between = Duration::from_millis(args.between_ms.max(501));
        for number in 0..args.faults {
            self.pause((BETWEEN_MIN, between));
            // Every second fault is one of the spiders, if there are any.
            let kinds: &[Kind] = match self.spiders.is_empty() || self.random.below(2) == 0 {
                _ if !args.kinds.is_empty() => &args.kinds,
                true => &KINDS,
                false => &SPIDER_KINDS,
            };
            let kind = kinds[self.random.below(kinds.len() as u64) as usize];
            self.fault(kind)?;
            eprintln!("cluster: {} of {} faults, the last {kind:?}", number + 1, args.faults);
        }
        Ok(())
    }

    fn pause(&mut self, between: (Duration, Duration)) {
        std::thread::sleep(self.random.duration(between.0, between.1));
    }

    fn fault(&mut self, kind: Kind) -> anyhow::Result<()> {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        let server = self.random.below(self.nats.servers() as u64) as usize;
        let spider = self.random.below(self.spiders.len().max(1) as u64) as usize;
        let from = self.journal.now_us();
        match kind {
            Kind::SpiderKilled => {
                self.spiders[spider].run.take().context("it runs")?.kill()?;
                self.pause(BACK);
                self.spiders[spider].run = Some(self.spiders[spider].crawler.start()?);
            }
            Kind::SpiderFrozen => {
                self.spiders[spider].run.as_ref().context("it runs")?.signal(Signal::STOP)?;
                self.pause(FROZEN);
                self.spiders[spider].run.as_ref().context("it runs")?.signal(Signal::CONT)?;
            }
            Kind::SpiderCutOff => {
                // Cut, or stuck: then what was under way arrives late.
                let cut = if self.random.below(2) == 0 { Proxy::cut } else { Proxy::hold };
                self.spiders[spider].proxies.iter().for_each(cut);
                self.pause(LINK_AWAY);
                self.spiders[spider].proxies.iter().for_each(Proxy::heal);
            }
            Kind::SpiderSlow => {
                let by = self.random.duration(SLOW_BY.0, SLOW_BY.1);
                self.spiders[spider].proxies.iter().for_each(|proxy| proxy.delay(by));
                self.pause(AWAY);
                self.spiders[spider].proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO));
            }
            Kind::NodeKilled | Kind::NodeWiped => {
                self.nodes[node].run.take().context("it runs")?.kill()?;
                if kind == Kind::NodeWiped {
                    wipe(self.nodes[node].crawler.dir())?;
                }
                self.pause(BACK);
                self.nodes[node].run = Some(self.nodes[node].crawler.start()?);
            }
            Kind::NodeFrozen => {
                self.running(node)?.signal(Signal::STOP)?;
                self.pause(FROZEN);
                self.running(node)?.signal(Signal::CONT)?;
            }
            Kind::NodeCutOff => {
                self.nodes[node].proxies.iter().for_each(Proxy::cut);
                self.pause(AWAY);
                self.nodes[node].proxies.iter().for_each(Proxy::heal);
            }
            Kind::NodeSlow => {
                let by = self.random.duration(SLOW_BY.0, SLOW_BY.1);
                self.nodes[node].proxies.iter().for_each(|proxy| proxy.delay(by));
                self.pause(AWAY);
                self.nodes[node].proxies.iter().for_each(|proxy| proxy.delay(Duration::ZERO));
            }
            Kind::LeaderKilled => {
                let stream = self.random.below(u64::from(STREAMS));
                let server = self.nats.leader_of(&format!("NEPH_nephila_{stream}")).unwrap_or(server);
                self.nats.kill(server)?;
                self.pause(SERVER_AWAY);
                self.nats.start(server)?;
            }
            Kind::ServerFrozen => {
                self.nats.stop(server)?;
                self.pause(SERVER_AWAY);
                self.nats.cont(server)?;
            }
            Kind::NodeFenced => {}
            Kind::ServersKilled => {
                for server in 0..self.nats.servers() {
                    self.nats.kill(server)?;
                }
                self.pause(ALL_AWAY);
                for server in 0..self.nats.servers() {
                    self.nats.start(server)?;
                }
            }
        }
        self.faults.push(Fault { kind, from, to: self.journal.now_us() });
        Ok(())
    }
}

/// Removes a node's states of its partitions; its archive stays.
pub fn wipe(dir: &std::path::Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir.join("state"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("partition-") {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
