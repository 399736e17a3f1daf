//! `GET /api/v1/politeness`: whether every site was crawled as gently as promised, from the newest part of the log.
//!
//! The judge is the one of `nephila politeness report` ([`super::judge`]): it knows the log alone, not the frontier that
//! made the promises. A request reads at most [`READ_BYTES_MAX`] bytes of the log. In a cluster each node judges its own
//! requests, and the counts are added; the proof over all nodes together is `nephila politeness report --also`.

use std::io;
use std::path::Path;

use nephila_core::time::Timestamp;
use nephila_engine::log::Lines;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hosts::HostsSeen;
use super::judge::{Judge, Judged, Kind, RATIOS, Subject};
use super::log_view::{Filter, exact};

/// Maximum number of bytes of the log that a request reads.
pub const READ_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of hosts and of addresses in an answer.
pub const SUBJECTS_MAX: usize = 50;
/// Maximum number of broken promises in an answer; all are counted.
pub const EXCEPTIONS_MAX: usize = 100;
/// Maximum number of hosts with an unreachable robots.txt, and with parked URLs, in an answer.
pub const HOSTS_MAX: usize = 100;

/// How politely a crawl went.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PolitenessSaid {
    /// Start of the first judged request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End of the last judged request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Number of judged requests.
    pub requests: u64,
    /// Of these, requests for robots.txt.
    pub robots_requests: u64,
    /// Number of broken promises, of hosts and of addresses.
    pub violations: u64,
    /// The first broken promises.
    pub exceptions: Vec<ExceptionSaid>,
    /// The hosts with the tightest gaps, relative to their promises.
    pub tightest: Vec<TightSaid>,
    /// Gaps of hosts by their ratio to the promise. Nothing may be below 1.
    pub histogram: Vec<RatioSaid>,
    /// The addresses with the most requests.
    pub slots: Vec<AddressSaid>,
    /// Hosts whose robots.txt cannot be read. Nothing is fetched there.
    pub robots_unreachable: Vec<UnreachableSaid>,
    /// Hosts with URLs beyond the budget of their domain.
    pub parked: Vec<ParkedSaid>,
    /// Whether the whole log was judged.
    pub complete: bool,
    /// Number of lines of the log that cannot be read.
    pub skipped: u64,
}

/// A broken promise.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ExceptionSaid {
    /// The host or the address.
    pub subject: String,
    /// `host-rest`, `slot-rest`, `host-at-once` or `slot-at-once`.
    pub kind: String,
    /// Start of the later request.
    pub at: String,
    /// The actual value: milliseconds, or concurrent requests.
    pub had: u64,
    /// The promised value.
    pub promised: u64,
    /// The later request.
    pub url: String,
    /// The earlier request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The tightest gap of a host.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct TightSaid {
    /// Scheme, name and port.
    pub origin: String,
    /// The shortest gap between two requests; none with a single request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
    /// The promise for that gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_ms: Option<u64>,
    /// Start of the request after that gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The gap in hundredths of the promise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_percent: Option<u64>,
    /// Number of requests.
    pub requests: u64,
    /// Number of broken promises.
    pub violations: u64,
}

/// A bucket of the histogram.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RatioSaid {
    /// Lower bound, inclusive.
    pub ratio_from: f64,
    /// Upper bound, exclusive; none in the last bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_to: Option<f64>,
    /// Number of gaps.
    pub count: u64,
}

/// Requests to an address.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct AddressSaid {
    /// The address (IPv6: the network of 64 bits).
    pub address: String,
    /// Number of hosts that were requested there.
    pub hosts: u64,
    /// Number of requests.
    pub requests: u64,
    /// Number of broken promises.
    pub violations: u64,
    /// The shortest gap between two requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ms: Option<u64>,
    /// The promise for that gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_ms: Option<u64>,
}

/// A host whose robots.txt cannot be read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct UnreachableSaid {
    /// Scheme, name and port.
    pub origin: String,
    /// Since when.
    pub since: String,
    /// Why, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A host with parked URLs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ParkedSaid {
    /// Scheme, name and port.
    pub origin: String,
    /// Number of parked URLs.
    pub parked: u64,
}

/// Judges the newest part of a log.
pub fn judge(
    logs: &Path,
    filter: &Filter,
    (host_connections, slot_connections): (u32, u32),
) -> io::Result<PolitenessSaid> {
    let (mut lines, complete) = Lines::newest(logs, READ_BYTES_MAX)?;
    let mut judge = Judge::new(host_connections, slot_connections);
    for line in lines.by_ref() {
        let line = line?;
        if filter.takes(&line) {
            judge.line(&line);
        }
    }
    let skipped = lines.skipped();
    Ok(PolitenessSaid { complete, skipped, ..PolitenessSaid::of(&judge.finish()) })
}

fn date(ms: u64) -> String {
    exact(Timestamp(ms))
}

impl PolitenessSaid {
    /// The answer for a verdict.
    pub fn of(judged: &Judged) -> PolitenessSaid {
        let exceptions = judged.exceptions.iter().take(EXCEPTIONS_MAX).map(|exception| ExceptionSaid {
            subject: exception.subject.clone(),
            kind: kind(exception.kind).to_owned(),
            at: date(exception.at),
            had: exception.had,
            promised: exception.promised,
            url: exception.url.clone(),
            after: exception.after.clone(),
        });
        let tight = |host: &&Subject| host.requests > 0;
        let mut slots: Vec<&Subject> = judged.slots.iter().collect();
        slots.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.name.cmp(&b.name)));
        PolitenessSaid {
            from: judged.first.map(date),
            to: judged.last.map(date),
            requests: judged.requests,
            robots_requests: judged.robots,
            violations: judged.exceptions_total,
            exceptions: exceptions.collect(),
            tightest: judged.hosts.iter().filter(tight).take(SUBJECTS_MAX).map(tightest).collect(),
            histogram: (0..RATIOS.len()).map(|at| bucket(at, judged.histogram[at])).collect(),
            slots: slots.into_iter().take(SUBJECTS_MAX).map(address).collect(),
            complete: true,
            ..PolitenessSaid::default()
        }
    }

    /// Adds what the frontier knows about its hosts.
    #[must_use]
    pub fn with_hosts(mut self, seen: &HostsSeen, filter: &Filter) -> PolitenessSaid {
        for row in seen.rows.iter().filter(|row| filter.takes_origin(&row.origin)) {
            let robots = &row.robots;
            if robots.unreachable_since.0 > 0 && self.robots_unreachable.len() < HOSTS_MAX {
                self.robots_unreachable.push(UnreachableSaid {
                    origin: row.origin.to_string(),
                    since: Timestamp::from(robots.unreachable_since).warc_date(),
                    reason: robots.unread.map(|unread| unread.to_string()),
                });
            }
            if row.parked > 0 {
                self.parked.push(ParkedSaid { origin: row.origin.to_string(), parked: row.parked });
            }
        }
        self.order_hosts();
        self
    }

    fn order_hosts(&mut self) {
        self.parked.sort_by(|a, b| b.parked.cmp(&a.parked).then_with(|| a.origin.cmp(&b.origin)));
        self.parked.truncate(HOSTS_MAX);
        self.robots_unreachable.sort_by(|a, b| (&a.since, &a.origin).cmp(&(&b.since, &b.origin)));
        self.robots_unreachable.truncate(HOSTS_MAX);
    }

    /// Adds the answer of another node.
    pub fn add(&mut self, other: PolitenessSaid) {
        let firsts = self.from.take().into_iter().chain(other.from);
        self.from = firsts.min();
        self.to = self.to.take().max(other.to);
        self.requests += other.requests;
        self.robots_requests += other.robots_requests;
        self.violations += other.violations;
        self.complete &= other.complete;
        self.skipped += other.skipped;
        self.exceptions.extend(other.exceptions);
        self.exceptions.sort_by(|a, b| a.at.cmp(&b.at));
        self.exceptions.truncate(EXCEPTIONS_MAX);
        self.tightest.extend(other.tightest);
        self.tightest.sort_by_key(|host| {
            (u64::MAX - host.violations, host.ratio_percent.unwrap_or(u64::MAX), u64::MAX - host.requests)
        });
        self.tightest.truncate(SUBJECTS_MAX);
        for (to, from) in self.histogram.iter_mut().zip(other.histogram) {
            to.count += from.count;
        }
        for slot in other.slots {
            match self.slots.iter_mut().find(|known| known.address == slot.address) {
                Some(known) => known.add(slot),
                None => self.slots.push(slot),
            }
        }
        self.slots.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.address.cmp(&b.address)));
        self.slots.truncate(SUBJECTS_MAX);
        self.robots_unreachable.extend(other.robots_unreachable);
        self.parked.extend(other.parked);
        self.order_hosts();
    }
}

impl AddressSaid {
    fn add(&mut self, other: AddressSaid) {
        self.requests += other.requests;
        self.violations += other.violations;
        // Hosts of several nodes: each host is at one of them.
        self.hosts += other.hosts;
        if other.gap_ms.is_some_and(|gap| self.gap_ms.is_none_or(|own| gap < own)) {
            (self.gap_ms, self.promised_ms) = (other.gap_ms, other.promised_ms);
        }
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::HostRest => "host-rest",
        Kind::SlotRest => "slot-rest",
        Kind::HostAtOnce => "host-at-once",
        Kind::SlotAtOnce => "slot-at-once",
    }
}

fn tightest(host: &Subject) -> TightSaid {
    TightSaid {
        origin: host.name.clone(),
        gap_ms: host.rest_ms_min,
        promised_ms: host.promise_ms_there.or(host.promise_ms_min),
        at: host.rest_at.map(date),
        ratio_percent: host.ratio_min,
        requests: host.requests,
        violations: host.exceptions,
    }
}

fn address(slot: &Subject) -> AddressSaid {
    AddressSaid {
        address: slot.name.clone(),
        hosts: slot.names,
        requests: slot.requests,
        violations: slot.exceptions,
        gap_ms: slot.rest_ms_min,
        promised_ms: slot.promise_ms_there.or(slot.promise_ms_min),
    }
}

fn bucket(at: usize, count: u64) -> RatioSaid {
    let bound = |at: usize| RATIOS[at] as f64 / 100.0;
    RatioSaid { ratio_from: bound(at), ratio_to: (at + 1 < RATIOS.len()).then(|| bound(at + 1)), count }
}

#[cfg(test)]
mod tests {
    use nephila_engine::log::Line;

    use super::*;

    fn log(dir: &Path, requests: &[(u64, &str)]) {
        let lines = requests.iter().map(|(at, host)| {
            Line {
                at: *at,
                took_ms: 50,
                url: format!("http://{host}/<script>{at}"),
                origin: format!("http://{host}"),
                address: Some("127.0.0.1".parse().unwrap()),
                host_rest_ms: 2_000,
                requests: 1,
                robots_obeyed: true,
                ..Line::default()
            }
            .json()
        });
        std::fs::write(dir.join("outcomes-00000001.jsonl"), lines.collect::<Vec<_>>().concat()).unwrap();
    }

    fn judged(requests: &[(u64, &str)], filter: &Filter) -> PolitenessSaid {
        let dir = tempfile::tempdir().unwrap();
        log(dir.path(), requests);
        judge(dir.path(), filter, (1, 9)).unwrap()
    }

    #[test]
    fn a_polite_crawl_has_no_violations_and_its_tightest_gap_is_told() {
        let said = judged(&[(1_000, "a.test"), (3_050, "a.test"), (3_100, "b.test")], &Filter::default());
        assert_eq!((said.requests, said.violations, said.complete), (3, 0, true));
        let host = &said.tightest[0];
        assert_eq!(
            (&*host.origin, host.gap_ms, host.promised_ms),
            ("http://a.test", Some(2_000), Some(2_000))
        );
        assert_eq!(host.at.as_deref(), Some("1970-01-01T00:00:03.050Z"));
        assert_eq!((said.histogram[0].count, said.histogram[1].count), (0, 1));
        assert_eq!((said.histogram[1].ratio_from, said.histogram[1].ratio_to), (1.0, Some(1.1)));
        assert_eq!(said.histogram.last().unwrap().ratio_to, None);
        assert_eq!((said.slots[0].hosts, said.slots[0].requests), (2, 3));
    }

    #[test]
    fn a_broken_promise_is_a_violation_and_one_host_can_be_looked_at() {
        let requests = [(1_000, "a.test"), (1_100, "b.test"), (2_000, "a.test"), (9_000, "b.test")];
        let said = judged(&requests, &Filter::default());
        assert_eq!((said.violations, said.histogram[0].count), (1, 1));
        assert_eq!((&*said.exceptions[0].kind, said.exceptions[0].had), ("host-rest", 950));
        assert!(said.exceptions[0].url.contains("<script>"), "readers show it as text");
        let one = judged(&requests, &Filter::of_host(Some("b.test")));
        assert_eq!((one.requests, one.violations), (2, 0));
    }

    #[test]
    fn the_verdicts_of_nodes_are_added() {
        let mut all = judged(&[(1_000, "a.test"), (2_000, "a.test")], &Filter::default());
        all.add(judged(&[(500, "b.test"), (5_000, "b.test")], &Filter::default()));
        assert_eq!((all.requests, all.violations, all.slots.len(), all.slots[0].hosts), (4, 1, 1, 2));
        assert_eq!(all.from.as_deref(), Some("1970-01-01T00:00:00.500Z"));
        assert_eq!(all.to.as_deref(), Some("1970-01-01T00:00:05.050Z"));
        assert_eq!(all.tightest[0].origin, "http://a.test", "the violation first");
        assert_eq!(all.histogram.iter().map(|bucket| bucket.count).sum::<u64>(), 2);
    }

    #[test]
    fn an_empty_log_says_nothing_bad() {
        let dir = tempfile::tempdir().unwrap();
        let said = judge(&dir.path().join("none"), &Filter::default(), (1, 1)).unwrap();
        assert_eq!((said.requests, said.violations, said.from), (0, 0, None));
    }
}
