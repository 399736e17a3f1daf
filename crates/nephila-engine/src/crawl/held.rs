//! What holds a crawl back, decided from counters alone.
//!
//! [`Facts`] are the counters of one moment, of one machine or summed over the nodes of a cluster. [`limited_by`] is a
//! pure function of them: the progress line of a crawl, its status for programs and the dashboard all say the same.

use std::sync::atomic::Ordering::Relaxed;

use nephila_core::frontier::outlook::{Held, Outlook};
use nephila_core::job::State;
use nephila_core::text::shown;
use nephila_core::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared::Shared;
use crate::human::{count, size};
use crate::worker::Stats;

/// A stage this full, in percent of its places, holds back the stages before it.
const FULL_PERCENT: u64 = 90;
/// Maximum number of folders named in a sentence about full disks.
const NAMED_MAX: usize = 4;

/// What holds a crawl back, in one word.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Nothing is fetched here: a finished archive.
    Archive,
    /// The process is ending.
    Stopping,
    /// The node has no lease: the servers of the cluster do not answer.
    Lease,
    /// The disk is full, or nearly.
    Disk,
    /// The object store takes no bodies.
    Objects,
    /// Links wait for the journals of the frontier.
    Log,
    /// Pages wait for the archive: its compression, or its disk.
    Store,
    /// Pages wait to be read: all threads that parse are busy.
    Read,
    /// A limit of the job is reached.
    Limit,
    /// All jobs are paused or stopped.
    Paused,
    /// Hosts and addresses rest between two requests.
    Politeness,
    /// Hosts rest after failures, or because they asked for it.
    Backoff,
    /// robots.txt files are on their way.
    Robots,
    /// Names are being resolved.
    Dns,
    /// All places for concurrent fetches are taken.
    Connections,
    /// Servers take their time to answer.
    Answers,
    /// There is nothing to do.
    #[default]
    Nothing,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 17] = [
        Reason::Archive,
        Reason::Stopping,
        Reason::Lease,
        Reason::Disk,
        Reason::Objects,
        Reason::Log,
        Reason::Store,
        Reason::Read,
        Reason::Limit,
        Reason::Paused,
        Reason::Politeness,
        Reason::Backoff,
        Reason::Robots,
        Reason::Dns,
        Reason::Connections,
        Reason::Answers,
        Reason::Nothing,
    ];

    /// The name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Archive => "archive",
            Reason::Stopping => "stopping",
            Reason::Lease => "lease",
            Reason::Disk => "disk",
            Reason::Objects => "objects",
            Reason::Log => "log",
            Reason::Store => "store",
            Reason::Read => "read",
            Reason::Limit => "limit",
            Reason::Paused => "paused",
            Reason::Politeness => "politeness",
            Reason::Backoff => "backoff",
            Reason::Robots => "robots",
            Reason::Dns => "dns",
            Reason::Connections => "connections",
            Reason::Answers => "answers",
            Reason::Nothing => "nothing",
        }
    }
}

/// What holds a crawl back.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Limited {
    /// The reason in one word.
    pub reason: Reason,
    /// The reason in words, with numbers.
    pub detail: String,
}

/// The places of a stage.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Name of the stage: `fetch`, `store`, `read`, `offer`.
    pub name: String,
    /// Places taken.
    pub length: u64,
    /// All places.
    pub capacity: u64,
}

impl Stage {
    /// Whether the stage is so full that it holds back the stages before it.
    fn is_full(&self) -> bool {
        self.capacity > 0 && self.length.saturating_mul(100) >= self.capacity.saturating_mul(FULL_PERCENT)
    }
}

/// Hosts by what they wait for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct HostsWait {
    /// Hosts with a page being fetched.
    pub fetching: u64,
    /// Hosts that may be requested now.
    pub ready: u64,
    /// Hosts in their crawl delay.
    pub resting: u64,
    /// Hosts that rest after failures.
    pub backing_off: u64,
    /// Hosts whose address is busy or rests.
    pub slot: u64,
    /// Hosts whose name is being resolved.
    pub resolving: u64,
    /// Hosts whose robots.txt is awaited.
    pub robots: u64,
}

/// The counters that decide.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// Whether this is an archive that is only read.
    pub archive: bool,
    /// Nodes whose process ends.
    pub stopping: u64,
    /// Nodes that may make no request, because they hold no lease.
    pub without_lease: u64,
    /// Nodes that were counted; 1 for a crawl on one machine.
    pub nodes: u64,
    /// Folders on a full disk.
    pub disk_full: Vec<String>,
    /// `crawl.disk_free_min` where the disk is nearly full.
    pub disk_low: Option<u64>,
    /// Pages that wait for the object store.
    pub objects_away: u64,
    /// Whether a limit of the job is reached.
    pub at_limit: bool,
    /// Running jobs.
    pub jobs_running: u64,
    /// Paused and stopped jobs.
    pub jobs_halted: u64,
    /// Hosts by what they wait for.
    pub hosts: HostsWait,
    /// The host that is waited for while there is nothing else to do, in words.
    pub held: Option<String>,
    /// The stages.
    pub stages: Vec<Stage>,
    /// Groups of entries on their way to the log.
    pub groups: u64,
}

impl Facts {
    /// An archive that is only read.
    pub fn of_archive() -> Facts {
        Facts { archive: true, nodes: 1, ..Facts::default() }
    }

    /// The facts of a running crawl.
    pub fn of(shared: &Shared, outlook: &Outlook, stats: &Stats) -> Facts {
        let (counts, waits) = (&shared.counts, &outlook.waits);
        let is_full = counts.disk_full.load(Relaxed) || stats.disk_full;
        let is_low = counts.disk_low.load(Relaxed);
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let stages = shared.room.stages().into_iter().map(|(name, length, capacity)| Stage {
            name: name.to_owned(),
            length: number(length),
            capacity: number(capacity),
        });
        let jobs = shared.jobs.all();
        let running = jobs.iter().filter(|job| job.state == State::Running).count();
        Facts {
            archive: false,
            stopping: u64::from(counts.stopping.load(Relaxed)),
            without_lease: u64::from(!shared.may_request()),
            nodes: 1,
            disk_full: is_full.then(|| shared.folder.dir().display().to_string()).into_iter().collect(),
            disk_low: is_low.then_some(shared.settings.crawl.disk_free_min),
            objects_away: number(counts.objects_away.load(Relaxed)),
            at_limit: counts.at_limit.load(Relaxed),
            jobs_running: number(running),
            jobs_halted: number(jobs.len() - running),
            hosts: HostsWait {
                fetching: number(waits.fetching),
                ready: number(waits.ready),
                resting: number(waits.resting),
                backing_off: number(waits.backing_off),
                slot: number(waits.slot),
                resolving: number(waits.resolving),
                robots: number(waits.robots),
            },
            held: waiting(shared, &outlook.held),
            stages: stages.collect(),
            groups: number(stats.on_their_way),
        }
    }

    /// Adds the facts of another node.
    pub fn add(&mut self, other: &Facts) {
        self.archive &= other.archive;
        self.stopping += other.stopping;
        self.without_lease += other.without_lease;
        self.nodes += other.nodes;
        self.disk_full.extend(other.disk_full.iter().cloned());
        self.disk_low = self.disk_low.max(other.disk_low);
        self.objects_away = self.objects_away.saturating_add(other.objects_away);
        self.at_limit &= other.at_limit;
        // Every node knows all jobs.
        self.jobs_running = self.jobs_running.max(other.jobs_running);
        self.jobs_halted = self.jobs_halted.max(other.jobs_halted);
        let (to, from) = (&mut self.hosts, other.hosts);
        for (to, from) in [
            (&mut to.fetching, from.fetching),
            (&mut to.ready, from.ready),
            (&mut to.resting, from.resting),
            (&mut to.backing_off, from.backing_off),
            (&mut to.slot, from.slot),
            (&mut to.resolving, from.resolving),
            (&mut to.robots, from.robots),
        ] {
            *to = to.saturating_add(from);
        }
        self.held = self.held.take().or_else(|| other.held.clone());
        self.groups = self.groups.saturating_add(other.groups);
        for stage in &other.stages {
            match self.stages.iter_mut().find(|known| known.name == stage.name) {
                Some(known) => {
                    known.length = known.length.saturating_add(stage.length);
                    known.capacity = known.capacity.saturating_add(stage.capacity);
                }
                None => self.stages.push(stage.clone()),
            }
        }
    }

    fn full_stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.name == name && stage.is_full())
    }
}

/// What holds a crawl back. The first that applies: what stops everything, then a full stage (the last one first, since
/// it fills those before it), then what most hosts wait for.
pub fn limited_by(facts: &Facts) -> Limited {
    let said = |reason, detail: String| Limited { reason, detail };
    if facts.archive {
        return said(Reason::Archive, "a finished archive: it is read, and nothing is fetched".into());
    }
    let nothing = || said(Reason::Nothing, "nothing to wait for".into());
    stopped(facts).or_else(|| full(facts)).or_else(|| waits(facts)).unwrap_or_else(nothing)
}

/// What stops everything.
fn stopped(facts: &Facts) -> Option<Limited> {
    let said = |reason, detail: String| Some(Limited { reason, detail });
    let all = |nodes: u64| facts.nodes > 0 && nodes >= facts.nodes;
    if all(facts.stopping) {
        return said(Reason::Stopping, "it stops: open fetches are finished, and no others begin".into());
    }
    if facts.without_lease > 0 && all(facts.without_lease) {
        return said(
            Reason::Lease,
            "no node holds a lease, so nothing is fetched: do the NATS servers answer?".into(),
        );
    }
    if !facts.disk_full.is_empty() {
        let some = &facts.disk_full[..facts.disk_full.len().min(NAMED_MAX)];
        return said(Reason::Disk, format!("disk full: free some space in {}", some.join(", ")));
    }
    if let Some(min) = facts.disk_low {
        let min = size(min);
        let detail = format!("disk nearly full: it waits until {min} are free (crawl.disk_free_min)");
        return said(Reason::Disk, detail);
    }
    if facts.objects_away > 0 {
        let pages = count(facts.objects_away);
        return said(Reason::Objects, format!("{pages} pages wait for the object store (media.to)"));
    }
    // Open fetches are finished; hosts that are ready stay so.
    let fetches_none = facts.hosts.fetching == 0;
    if fetches_none && facts.jobs_running == 0 && facts.jobs_halted > 0 {
        return said(Reason::Paused, "every job is paused or stopped".into());
    }
    if fetches_none && facts.at_limit {
        return said(Reason::Limit, "a limit of the job is reached".into());
    }
    None
}

/// A stage without places.
fn full(facts: &Facts) -> Option<Limited> {
    let of = |name, reason, what: &str| {
        let Stage { length, capacity, .. } = facts.full_stage(name)?;
        let detail = format!("held by {what}: {} of {} places are taken", count(*length), count(*capacity));
        Some(Limited { reason, detail })
    };
    of("offer", Reason::Log, "the journals that take new links")
        .or_else(|| of("read", Reason::Read, "the reading of pages"))
        .or_else(|| of("store", Reason::Store, "the archive"))
}

/// What most hosts wait for.
fn waits(facts: &Facts) -> Option<Limited> {
    let waits = &facts.hosts;
    let others = waits.fetching + waits.ready + waits.resting + waits.slot + waits.robots + waits.resolving;
    if let (0, Some(text)) = (others, &facts.held) {
        return Some(Limited { reason: Reason::Backoff, detail: text.clone() });
    }
    let hosts = |n: u64| if n == 1 { "1 host".to_owned() } else { format!("{} hosts", count(n)) };
    let reasons = [
        (waits.ready, Reason::Connections, "connections"),
        (waits.resting, Reason::Politeness, "politeness"),
        (waits.slot, Reason::Politeness, "politeness to a shared address"),
        (waits.robots, Reason::Robots, "robots.txt"),
        (waits.resolving, Reason::Dns, "DNS"),
        (waits.backing_off, Reason::Backoff, "a host's back-off"),
    ];
    match reasons.iter().max_by_key(|(n, ..)| *n) {
        Some((n, reason, why)) if *n > 0 => {
            Some(Limited { reason: *reason, detail: format!("held by {why}: {}", hosts(*n)) })
        }
        _ if waits.fetching > 0 => {
            let detail = format!("waiting for answers: {}", hosts(waits.fetching));
            Some(Limited { reason: Reason::Answers, detail })
        }
        _ => None,
    }
}

/// The host for which a crawl waits, until when, and why.
pub fn waiting(shared: &Shared, held: &Held) -> Option<String> {
    let (until, origin) = held.first.as_ref()?;
    let mut text = format!("waiting for {} until {}", shown(origin), Timestamp::from(*until).warc_date());
    if let Some(cause) = shared.troubles.of(origin) {
        text += &format!(" ({cause})");
    }
    let hosts = match held.hosts {
        0 | 1 => String::new(),
        n => format!(" of {} hosts", count(n)),
    };
    Some(format!("{text}: {} URLs{hosts} were never tried", count(held.urls)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(hosts: HostsWait) -> Facts {
        Facts { nodes: 1, jobs_running: 1, hosts, ..Facts::default() }
    }

    fn stage(name: &str, length: u64, capacity: u64) -> Stage {
        Stage { name: name.into(), length, capacity }
    }

    fn reason(facts: &Facts) -> Reason {
        limited_by(facts).reason
    }

    #[test]
    fn what_most_hosts_wait_for_is_what_holds_a_crawl_back() {
        let waits = |resting, slot, robots, resolving, backing_off| {
            facts(HostsWait { fetching: 9, resting, slot, robots, resolving, backing_off, ready: 1 })
        };
        assert_eq!(reason(&waits(5, 1, 1, 1, 1)), Reason::Politeness);
        assert_eq!(
            limited_by(&waits(1_234, 1, 1, 1, 1)).detail,
            format!("held by politeness: {} hosts", count(1_234))
        );
        assert_eq!(
            limited_by(&waits(1, 5, 1, 1, 1)).detail,
            "held by politeness to a shared address: 5 hosts"
        );
        assert_eq!(reason(&waits(1, 1, 5, 1, 1)), Reason::Robots);
        assert_eq!(reason(&waits(1, 1, 1, 5, 1)), Reason::Dns);
        assert_eq!(reason(&waits(1, 1, 1, 1, 5)), Reason::Backoff);
        let ready = facts(HostsWait { ready: 3, resting: 1, ..HostsWait::default() });
        assert_eq!(reason(&ready), Reason::Connections);
        let slow = facts(HostsWait { fetching: 1, ..HostsWait::default() });
        assert_eq!(limited_by(&slow).detail, "waiting for answers: 1 host");
        assert_eq!(limited_by(&facts(HostsWait::default())).detail, "nothing to wait for");
    }

    #[test]
    fn a_host_with_a_long_rest_is_named_only_while_there_is_nothing_else() {
        let mut facts = facts(HostsWait { backing_off: 2, ..HostsWait::default() });
        facts.held = Some("waiting for http://a.test".into());
        assert_eq!(limited_by(&facts).detail, "waiting for http://a.test");
        facts.hosts.resting = 3;
        assert_eq!(reason(&facts), Reason::Politeness);
    }

    #[test]
    fn what_stops_everything_goes_before_what_slows() {
        let mut facts = facts(HostsWait { resting: 9, ..HostsWait::default() });
        facts.stages = vec![stage("store", 512, 512), stage("read", 64, 64), stage("offer", 10, 65_536)];
        assert_eq!(reason(&facts), Reason::Read, "who reads fills what is behind");
        facts.stages[2].length = 60_000;
        assert_eq!(reason(&facts), Reason::Log);
        facts.stages[1].length = 1;
        facts.stages[2].length = 1;
        assert_eq!(reason(&facts), Reason::Store);
        facts.objects_away = 1;
        assert_eq!(reason(&facts), Reason::Objects);
        facts.disk_low = Some(1 << 30);
        assert_eq!(reason(&facts), Reason::Disk);
        facts.disk_full = vec!["/a".into()];
        assert_eq!(limited_by(&facts).detail, "disk full: free some space in /a");
        facts.without_lease = 1;
        assert_eq!(reason(&facts), Reason::Lease);
        facts.stopping = 1;
        assert_eq!(reason(&facts), Reason::Stopping);
        assert_eq!(reason(&Facts::of_archive()), Reason::Archive);
    }

    #[test]
    fn nothing_to_do_has_a_cause_too() {
        let mut idle = facts(HostsWait::default());
        idle.at_limit = true;
        assert_eq!(reason(&idle), Reason::Limit);
        (idle.jobs_running, idle.jobs_halted) = (0, 2);
        assert_eq!(reason(&idle), Reason::Paused);
        idle.hosts.ready = 3;
        assert_eq!(reason(&idle), Reason::Paused, "hosts that are ready are not asked");
        idle.hosts = HostsWait { fetching: 1, ..HostsWait::default() };
        assert_eq!(reason(&idle), Reason::Answers, "open fetches are finished first");
        idle.hosts = HostsWait::default();
        idle.jobs_running = 1;
        idle.at_limit = false;
        assert_eq!(reason(&idle), Reason::Nothing);
    }

    #[test]
    fn one_node_without_a_lease_does_not_stop_the_others() {
        let mut cluster = facts(HostsWait { resting: 2, ..HostsWait::default() });
        cluster.stages = vec![stage("fetch", 1, 10)];
        let mut other =
            Facts { without_lease: 1, nodes: 1, stages: vec![stage("fetch", 2, 10)], ..Facts::default() };
        other.hosts.resting = 3;
        cluster.add(&other);
        assert_eq!((cluster.nodes, cluster.hosts.resting, cluster.stages.len()), (2, 5, 1));
        assert_eq!((cluster.stages[0].length, cluster.stages[0].capacity), (3, 20));
        assert_eq!(reason(&cluster), Reason::Politeness);
        cluster.without_lease = 2;
        assert_eq!(reason(&cluster), Reason::Lease);
    }

    #[test]
    fn every_reason_has_a_name_of_its_own_which_is_its_name_in_json() {
        let names: std::collections::BTreeSet<&str> =
            Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }
}
