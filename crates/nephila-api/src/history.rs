//! `GET /api/v1/history`: the last hour of a crawl, in steps of five seconds.
//!
//! Kept in memory by the sampler; a process that begins has no history. The steps of all nodes begin at the same times,
//! so the histories of a cluster are added step by step.

use std::collections::BTreeMap;

use nephila_core::time::{Now, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sampler::{POINTS_MAX, Point, STEP_S, Sampler};

/// Maximum number of seconds of an answer.
pub const SECONDS_MAX: u64 = POINTS_MAX as u64 * STEP_S;

/// The last hour of a crawl.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct HistorySaid {
    /// Seconds of one point.
    pub step_s: u64,
    /// The points, oldest first. A step in which no sample was taken is missing.
    pub points: Vec<HistoryPoint>,
}

/// What happened in one step, and the gauges at its end.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct HistoryPoint {
    /// Start of the step.
    pub t: String,
    /// Page requests that ended in the step, by class of their outcome.
    pub pages: PagesPoint,
    /// Bytes of bodies received in the step.
    pub bytes: u64,
    /// Bytes written to the archive in the step, compressed.
    pub written_bytes: u64,
    /// URLs in queues.
    pub queued: u64,
    /// URLs planned for a time of their own.
    pub later: u64,
    /// URLs beyond the budget of their domain.
    pub parked: u64,
    /// Hosts that may be requested now.
    pub hosts_ready: u64,
}

/// Page requests that ended, by class of their outcome.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PagesPoint {
    /// 2xx and 304.
    pub ok: u64,
    /// Redirects.
    pub redirect: u64,
    /// 4xx.
    pub client_error: u64,
    /// 5xx.
    pub server_error: u64,
    /// No usable answer.
    pub failed: u64,
}

impl HistoryPoint {
    fn of(point: &Point) -> HistoryPoint {
        let (counted, gauges) = (&point.counted, &point.gauges);
        HistoryPoint {
            t: Timestamp::from_secs(point.at).warc_date(),
            pages: PagesPoint {
                ok: counted.ok,
                redirect: counted.redirect,
                client_error: counted.client_error,
                server_error: counted.server_error,
                failed: counted.failed,
            },
            bytes: counted.bytes,
            written_bytes: counted.written_bytes,
            queued: gauges.queued,
            later: gauges.later,
            parked: gauges.parked,
            hosts_ready: gauges.hosts_ready,
        }
    }

    fn add(&mut self, other: &HistoryPoint) {
        for (to, from) in [
            (&mut self.pages.ok, other.pages.ok),
            (&mut self.pages.redirect, other.pages.redirect),
            (&mut self.pages.client_error, other.pages.client_error),
            (&mut self.pages.server_error, other.pages.server_error),
            (&mut self.pages.failed, other.pages.failed),
            (&mut self.bytes, other.bytes),
            (&mut self.written_bytes, other.written_bytes),
            (&mut self.queued, other.queued),
            (&mut self.later, other.later),
            (&mut self.parked, other.parked),
            (&mut self.hosts_ready, other.hosts_ready),
        ] {
            *to = to.saturating_add(from);
        }
    }
}

impl HistorySaid {
    /// The last seconds, as far as the sampler reaches.
    pub fn of(sampler: &Sampler, now: Now, seconds: u64) -> HistorySaid {
        let points = sampler.points(now, seconds.min(SECONDS_MAX)).map(HistoryPoint::of);
        HistorySaid { step_s: STEP_S, points: points.collect() }
    }

    /// Adds the history of another node.
    pub fn add(&mut self, other: HistorySaid) {
        let mut all: BTreeMap<String, HistoryPoint> =
            std::mem::take(&mut self.points).into_iter().map(|point| (point.t.clone(), point)).collect();
        for point in other.points.into_iter().take(POINTS_MAX) {
            match all.get_mut(&point.t) {
                Some(known) => known.add(&point),
                None => _ = all.insert(point.t.clone(), point),
            }
        }
        let too_many = all.len().saturating_sub(POINTS_MAX);
        self.points = all.into_values().skip(too_many).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::{Counters, Gauges};

    fn at(seconds: u64) -> Now {
        Now { mono: seconds * 1_000, wall: Timestamp::from_secs(1_794_697_000 + seconds) }
    }

    fn sampler(pages: u64, from: u64) -> Sampler {
        let mut sampler = Sampler::default();
        for second in from..20 {
            sampler.note(at(second), Counters { ok: second * pages, ..Counters::default() });
            sampler.gauge(at(second), Gauges { queued: 7, ..Gauges::default() });
        }
        sampler
    }

    #[test]
    fn the_histories_of_nodes_are_added_step_by_step() {
        let mut one = HistorySaid::of(&sampler(1, 0), at(19), 3_600);
        assert_eq!((one.step_s, one.points.len()), (5, 4));
        assert_eq!(one.points[1].pages.ok, 5);
        one.add(HistorySaid::of(&sampler(10, 10), at(19), 3_600));
        let ok: Vec<u64> = one.points.iter().map(|point| point.pages.ok).collect();
        assert_eq!(ok, [4, 5, 45, 55], "the first sample of a node only begins its count");
        assert_eq!(one.points.iter().map(|point| point.queued).collect::<Vec<_>>(), [7, 7, 14, 14]);
    }

    #[test]
    fn a_node_with_another_clock_makes_the_answer_no_longer() {
        let mut one = HistorySaid::of(&sampler(1, 0), at(19), 3_600);
        let strange = (0..3 * POINTS_MAX)
            .map(|number| HistoryPoint { t: format!("z{number:05}"), ..Default::default() });
        one.add(HistorySaid { step_s: STEP_S, points: strange.collect() });
        assert_eq!(one.points.len(), POINTS_MAX);
    }

    #[test]
    fn fewer_seconds_give_fewer_points() {
        assert_eq!(HistorySaid::of(&sampler(1, 0), at(19), 10).points.len(), 2);
    }
}
