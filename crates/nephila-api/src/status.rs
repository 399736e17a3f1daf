//! `GET /api/v1/status`: what a crawl does and what holds it back, on one page.
//!
//! The answer of a node has two parts: the [`StatusSaid`] for readers, and the [`Facts`] from which sentence and reason
//! follow. A cluster adds both over its nodes, and draws the conclusion once, from the sums.
//!
//! Pure, except [`super::monitor`], which brings the numbers.

use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Class;
use nephila_core::state::totals::Tally;
use nephila_engine::crawl::held::{Facts, Limited, Reason, Stage, limited_by};
use nephila_engine::crawl::work::is_page;
use nephila_engine::human::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::alarms::{AlarmSaid, in_words};
use super::jobs::JobRow;
use super::sampler::Rates;
use super::webhooks::WebhookSaid;

/// Maximum number of alarms in an answer.
const ALARMS_MAX: usize = 100;
/// A disk that is full later than this is not worth a word.
const FULL_IN_WORDS_S: u64 = 30 * 24 * 3_600;

/// The state of a crawl.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct StatusSaid {
    /// Version of the program.
    pub version: String,
    /// Name of the folder or of the answering node.
    pub name: String,
    /// `single`, `cluster` or `archive`.
    pub mode: String,
    /// Time of the answer.
    pub now: String,
    /// Start of the process.
    pub started_at: String,
    /// `crawling`, `ready`, `stopping` or `archive`.
    pub state: String,
    /// The state in one sentence.
    pub sentence: String,
    /// What holds the crawl back.
    pub limited_by: Limited,
    /// Rates over the last 10 seconds.
    pub rates: Rates,
    /// Rates over the last 60 seconds.
    pub rates_60s: Rates,
    /// What waits.
    pub frontier: FrontierSaid,
    /// What was done.
    pub done: DoneSaid,
    /// The stages with their queues, in the order of a page.
    pub stages: Vec<Stage>,
    /// Where hosts and pages wait.
    pub waits: Vec<WaitSaid>,
    /// The disk; the fullest one of a cluster.
    pub disk: DiskSaid,
    /// Active faults.
    pub alarms: Vec<AlarmSaid>,
    /// The jobs with their progress.
    pub jobs: Vec<JobRow>,
    /// The webhooks of a crawl on one machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub webhooks: Vec<WebhookSaid>,
    /// Seconds until the queue is empty, at the rate of the last minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_in_s: Option<u64>,
    /// The nodes of a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeRow>>,
}

/// What waits in the frontier.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct FrontierSaid {
    /// URLs in queues.
    pub queued: u64,
    /// URLs planned for a time of their own.
    pub later: u64,
    /// URLs beyond the budget of their domain.
    pub parked: u64,
    /// URLs offered and not looked at yet.
    pub offers_waiting: u64,
    /// Fetches that are open.
    pub tickets_open: u64,
    /// Hosts in memory, by state.
    pub hosts: HostsSaid,
    /// Addresses in memory, by state.
    pub slots: SlotsSaid,
}

/// Hosts in memory, by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct HostsSaid {
    /// Hosts that may be requested now.
    pub ready: u64,
    /// Hosts with a request under way.
    pub busy: u64,
    /// Hosts in their crawl delay, or whose address rests.
    pub resting: u64,
    /// Hosts that rest after failures.
    pub backing_off: u64,
    /// Hosts that wait for URLs or an address.
    pub loading: u64,
}

/// Addresses in memory, by state.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SlotsSaid {
    /// Addresses with a request under way.
    pub busy: u64,
    /// All other addresses.
    pub idle: u64,
}

/// What was done. The first seven count the whole life of the crawl, the others this process.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct DoneSaid {
    /// Answers that were kept: pages, images, feeds, sitemaps. They count for the limits of a job.
    pub pages: u64,
    /// The same, by the class of the outcome.
    pub ok: u64,
    /// Redirects.
    pub redirect: u64,
    /// Pages that do not exist.
    pub missing: u64,
    /// Pages that the site, the operator or our own rules forbid.
    pub refused: u64,
    /// Failed requests.
    pub failed: u64,
    /// Bytes of bodies received.
    pub bytes: u64,
    /// Requests for robots.txt.
    pub robots: u64,
    /// Pages stored as a reference to an equal capture.
    pub revisits: u64,
    /// Bytes that were not stored again.
    pub saved_bytes: u64,
    /// Bytes written to the archive, compressed.
    pub written_bytes: u64,
}

/// What waits for one thing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct WaitSaid {
    /// `politeness`, `backoff`, `robots`, `dns`, `connections`, `answers`, `store` or `log`.
    pub what: String,
    /// Number of hosts, of pages (`store`), or of groups of entries (`log`) that wait.
    pub tickets: u64,
}

/// A disk.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct DiskSaid {
    /// Free bytes on the volume of the folder; 0 if the file system does not say.
    pub free_bytes: u64,
    /// Seconds until the crawl must wait for room, at the rate of the last hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_s: Option<u64>,
}

/// A node of a cluster, in one row.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NodeRow {
    /// Name of the node.
    pub name: String,
    /// Its state; `unknown` if it does not answer.
    pub state: String,
    /// Page requests that ended per second, over 10 seconds.
    pub pages_per_s: f64,
    /// URLs in its queues.
    pub queued: u64,
    /// Number of its active faults.
    pub alarms: u64,
    /// Why it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The part of one node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StatusPart {
    /// The state of the node.
    pub status: StatusSaid,
    /// The facts from which its conclusion follows.
    pub facts: Facts,
}

impl DoneSaid {
    /// The counts of all runs.
    pub(super) fn of(tally: &Tally) -> DoneSaid {
        let class = |class: Class| {
            tally.ended_as(move |outcome| outcome.class() == class && outcome != Outcome::Redirect)
        };
        DoneSaid {
            pages: tally.ended_as(is_page),
            ok: class(Class::Ok),
            redirect: tally.ended_as(|outcome| outcome == Outcome::Redirect),
            missing: class(Class::Gone),
            refused: class(Class::Refused),
            failed: class(Class::Retry) + class(Class::Broken),
            bytes: tally.bytes,
            ..DoneSaid::default()
        }
    }
}

impl NodeRow {
    /// A node that answered.
    pub fn of(status: &StatusSaid) -> NodeRow {
        NodeRow {
            name: status.name.clone(),
            state: status.state.clone(),
            pages_per_s: status.rates.pages_per_s,
            queued: status.frontier.queued,
            alarms: status.alarms.len() as u64,
            error: None,
        }
    }

    /// A node that did not answer.
    pub fn silent(name: &str, why: String) -> NodeRow {
        NodeRow {
            name: name.to_owned(),
            state: "unknown".to_owned(),
            alarms: 1,
            error: Some(why),
            ..NodeRow::default()
        }
    }
}

impl StatusPart {
    /// Adds another node. Jobs are the same everywhere, so the first ones stay.
    pub fn add(&mut self, other: StatusPart) {
        let (status, from) = (&mut self.status, other.status);
        self.facts.add(&other.facts);
        status.rates.add(&from.rates);
        status.rates_60s.add(&from.rates_60s);
        add_frontier(&mut status.frontier, &from.frontier);
        add_done(&mut status.done, &from.done);
        status.disk = fullest(status.disk, from.disk);
        status.alarms.extend(
            from.alarms
                .into_iter()
                .map(|alarm| AlarmSaid { text: format!("node {}: {}", from.name, alarm.text), ..alarm }),
        );
        status.alarms.truncate(ALARMS_MAX);
    }

    /// Draws the conclusion from the sums.
    pub fn conclude(mut self) -> StatusSaid {
        let status = &mut self.status;
        status.limited_by = limited_by(&self.facts);
        status.stages = self.facts.stages.clone();
        status.waits = waits(&self.facts);
        let rate = status.rates_60s.pages_per_s;
        let queued = status.frontier.queued;
        status.drain_in_s = (rate > 0.0 && queued > 0).then(|| (queued as f64 / rate) as u64);
        status.sentence = sentence(status);
        self.status
    }
}

fn add_frontier(to: &mut FrontierSaid, from: &FrontierSaid) {
    for (to, from) in [
        (&mut to.queued, from.queued),
        (&mut to.later, from.later),
        (&mut to.parked, from.parked),
        (&mut to.offers_waiting, from.offers_waiting),
        (&mut to.tickets_open, from.tickets_open),
        (&mut to.hosts.ready, from.hosts.ready),
        (&mut to.hosts.busy, from.hosts.busy),
        (&mut to.hosts.resting, from.hosts.resting),
        (&mut to.hosts.backing_off, from.hosts.backing_off),
        (&mut to.hosts.loading, from.hosts.loading),
        (&mut to.slots.busy, from.slots.busy),
        (&mut to.slots.idle, from.slots.idle),
    ] {
        *to = to.saturating_add(from);
    }
}

fn add_done(to: &mut DoneSaid, from: &DoneSaid) {
    for (to, from) in [
        (&mut to.pages, from.pages),
        (&mut to.ok, from.ok),
        (&mut to.redirect, from.redirect),
        (&mut to.missing, from.missing),
        (&mut to.refused, from.refused),
        (&mut to.failed, from.failed),
        (&mut to.bytes, from.bytes),
        (&mut to.robots, from.robots),
        (&mut to.revisits, from.revisits),
        (&mut to.saved_bytes, from.saved_bytes),
        (&mut to.written_bytes, from.written_bytes),
    ] {
        *to = to.saturating_add(from);
    }
}

/// The disk that is full first.
fn fullest(one: DiskSaid, other: DiskSaid) -> DiskSaid {
    let key = |disk: &DiskSaid| (disk.full_in_s.unwrap_or(u64::MAX), disk.free_bytes);
    if key(&other) < key(&one) { other } else { one }
}

/// Where hosts and pages wait.
fn waits(facts: &Facts) -> Vec<WaitSaid> {
    let hosts = &facts.hosts;
    let store = facts.stages.iter().find(|stage| stage.name == "store").map_or(0, |stage| stage.length);
    [
        ("politeness", hosts.resting + hosts.slot),
        ("backoff", hosts.backing_off),
        ("robots", hosts.robots),
        ("dns", hosts.resolving),
        ("connections", hosts.ready),
        ("answers", hosts.fetching),
        ("store", store),
        ("log", facts.groups),
    ]
    .into_iter()
    .map(|(what, tickets)| WaitSaid { what: what.to_owned(), tickets })
    .collect()
}

/// The state in one sentence.
fn sentence(status: &StatusSaid) -> String {
    let detail = &status.limited_by.detail;
    let mut text = match (&*status.state, status.limited_by.reason) {
        (_, Reason::Archive | Reason::Stopping) => capital(detail),
        ("ready", Reason::Nothing) => "It waits for work: nothing is left to fetch".to_owned(),
        _ => {
            let rate = status.rates.pages_per_s;
            // A rate of hundreds needs no tenths.
            let rate = if rate >= 100.0 { count(rate.round() as u64) } else { format!("{rate:.1}") };
            format!("{rate} pages/s, {detail}")
        }
    };
    if let Some(full) = status.disk.full_in_s.filter(|full| *full <= FULL_IN_WORDS_S) {
        text += &format!("; disk full in {}", in_words(full));
    }
    match status.alarms.len() {
        0 => {}
        1 => text += "; 1 alarm",
        many => text += &format!("; {many} alarms"),
    }
    text + "."
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default() + chars.as_str()
}

#[cfg(test)]
mod tests;
