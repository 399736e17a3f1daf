//! Rates of a crawl over the last seconds, and its history of an hour, from samples of its counters.
//!
//! Pure: the time is an argument, and a task at the edge ([`super::monitor`]) brings one sample a second. Counters may
//! start again from zero, when a node gets a new session: then the new count is the difference.
//!
//! Invariant: memory is bounded by [`RATE_SAMPLES_MAX`] samples and [`POINTS_MAX`] points.

use std::collections::VecDeque;

use nephila_core::time::{Now, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Interval between two samples in milliseconds.
pub const SAMPLE_MS: u64 = 1_000;
/// Maximum number of samples for rates: those of a minute, with a reserve for uneven ticks.
pub const RATE_SAMPLES_MAX: usize = 72;
/// Seconds of one point of the history.
pub const STEP_S: u64 = 5;
/// Maximum number of points of the history: one hour.
pub const POINTS_MAX: usize = 720;

/// Counters of one moment. They only grow, except after a restart of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Answers to keep (2xx, 304).
    pub ok: u64,
    /// Redirects.
    pub redirect: u64,
    /// Answers with a 4xx status.
    pub client_error: u64,
    /// Answers with a 5xx status.
    pub server_error: u64,
    /// Requests without a usable answer.
    pub failed: u64,
    /// Of the answers with a 4xx status, those with 429.
    pub rate_limited: u64,
    /// Bytes of bodies received.
    pub bytes: u64,
    /// Bytes written to the archive, compressed.
    pub written_bytes: u64,
}

impl Counters {
    /// Page requests that ended, with any outcome.
    pub fn pages(&self) -> u64 {
        self.ok + self.redirect + self.client_error + self.server_error + self.failed
    }

    /// The growth since an earlier moment.
    fn since(&self, before: &Counters) -> Counters {
        // A counter below its earlier value started again from zero.
        let grown = |now: u64, before: u64| if now >= before { now - before } else { now };
        Counters {
            ok: grown(self.ok, before.ok),
            redirect: grown(self.redirect, before.redirect),
            client_error: grown(self.client_error, before.client_error),
            server_error: grown(self.server_error, before.server_error),
            failed: grown(self.failed, before.failed),
            rate_limited: grown(self.rate_limited, before.rate_limited),
            bytes: grown(self.bytes, before.bytes),
            written_bytes: grown(self.written_bytes, before.written_bytes),
        }
    }

    fn add(&mut self, more: &Counters) {
        self.ok += more.ok;
        self.redirect += more.redirect;
        self.client_error += more.client_error;
        self.server_error += more.server_error;
        self.failed += more.failed;
        self.rate_limited += more.rate_limited;
        self.bytes += more.bytes;
        self.written_bytes += more.written_bytes;
    }
}

/// Gauges of one moment, for the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// URLs in queues.
    pub queued: u64,
    /// URLs planned for a time of their own.
    pub later: u64,
    /// URLs beyond the budget of their domain.
    pub parked: u64,
    /// Hosts that may be requested now.
    pub hosts_ready: u64,
}

/// Rates over a time.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Rates {
    /// Page requests that ended per second, with any outcome.
    pub pages_per_s: f64,
    /// Bytes of bodies received per second.
    pub bytes_per_s: f64,
    /// Page requests per second that ended without a usable answer, or with 5xx.
    pub errors_per_s: f64,
}

impl Rates {
    /// Adds the rates of another node.
    pub fn add(&mut self, other: &Rates) {
        self.pages_per_s = rounded(self.pages_per_s + other.pages_per_s);
        self.bytes_per_s = rounded(self.bytes_per_s + other.bytes_per_s);
        self.errors_per_s = rounded(self.errors_per_s + other.errors_per_s);
    }
}

fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

/// One point of the history: what happened in its step, and the gauges at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Point {
    /// Start of the step, a multiple of [`STEP_S`] seconds.
    pub(super) at: u64,
    pub(super) counted: Counters,
    pub(super) gauges: Gauges,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Sampler {
    /// The last values of the counters.
    last: Option<Counters>,
    /// Sums since the start of the sampler, by monotonic time.
    recent: VecDeque<(u64, Counters)>,
    sum: Counters,
    points: VecDeque<Point>,
}

impl Sampler {
    /// Takes the counters of this moment.
    pub fn note(&mut self, now: Now, counters: Counters) {
        let grown = self.last.map_or_else(Counters::default, |last| counters.since(&last));
        self.last = Some(counters);
        self.sum.add(&grown);
        self.recent.push_back((now.mono, self.sum));
        while self.recent.len() > RATE_SAMPLES_MAX {
            self.recent.pop_front();
        }
        self.point(now.wall).counted.add(&grown);
    }

    /// Takes the gauges of this moment.
    pub fn gauge(&mut self, now: Now, gauges: Gauges) {
        self.point(now.wall).gauges = gauges;
    }

    /// Whether the next step of the history has begun, which needs gauges.
    pub fn wants_gauges(&self, now: Now) -> bool {
        self.points.back().is_none_or(|last| last.at != step(now.wall))
    }

    /// The point of this moment. A clock that was set back writes into the last point.
    fn point(&mut self, wall: Timestamp) -> &mut Point {
        let at = step(wall);
        let last = self.points.back();
        if last.is_none_or(|last| last.at < at || last.at > at + 3_600) {
            // A clock that was set back by more than the whole ring begins the history anew.
            if last.is_some_and(|last| last.at > at) {
                self.points.clear();
            }
            let gauges = self.points.back().map_or_else(Gauges::default, |last| last.gauges);
            self.points.push_back(Point { at, gauges, ..Point::default() });
            if self.points.len() > POINTS_MAX {
                self.points.pop_front();
            }
        }
        self.points.back_mut().expect("one was pushed if there was none")
    }

    /// The rates over the last seconds.
    pub fn rates(&self, now: Now, over_s: u64) -> Rates {
        let since = now.mono.saturating_sub(over_s * 1_000);
        let Some((from, before)) = self.recent.iter().find(|(at, _)| *at >= since) else {
            return Rates::default();
        };
        let seconds = now.mono.saturating_sub(*from) as f64 / 1_000.0;
        if seconds <= 0.0 {
            return Rates::default();
        }
        let grown = self.sum.since(before);
        let rate = |number: u64| rounded(number as f64 / seconds);
        Rates {
            pages_per_s: rate(grown.pages()),
            bytes_per_s: rate(grown.bytes),
            errors_per_s: rate(grown.server_error + grown.failed),
        }
    }

    /// What was counted in the last seconds, as far as the history reaches, and how many seconds it covers.
    pub fn lately(&self, now: Now, over_s: u64) -> (Counters, u64) {
        let since = (now.wall.0 / 1_000).saturating_sub(over_s);
        let mut sum = Counters::default();
        let points = || self.points.iter().filter(|point| point.at >= since);
        points().for_each(|point| sum.add(&point.counted));
        let from = points().next().map_or(0, |first| first.at);
        (sum, if from == 0 { 0 } else { (now.wall.0 / 1_000).saturating_sub(from) })
    }

    /// The points of the last seconds, oldest first.
    pub(super) fn points(&self, now: Now, over_s: u64) -> impl Iterator<Item = &Point> {
        let since = (now.wall.0 / 1_000).saturating_sub(over_s);
        self.points.iter().filter(move |point| point.at >= since)
    }
}

/// Start of the step of a moment, in seconds since 1970. All nodes have the same steps.
fn step(wall: Timestamp) -> u64 {
    wall.0 / 1_000 / STEP_S * STEP_S
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: u64 = 1_794_697_000_000;

    fn at(seconds: u64) -> Now {
        Now { mono: seconds * 1_000, wall: Timestamp(BEGAN + seconds * 1_000) }
    }

    fn counters(ok: u64, failed: u64) -> Counters {
        Counters { ok, failed, bytes: ok * 100, written_bytes: ok * 10, ..Counters::default() }
    }

    #[test]
    fn a_rate_is_the_growth_over_its_time() {
        let mut sampler = Sampler::default();
        assert_eq!(sampler.rates(at(0), 10), Rates::default(), "nothing is known yet");
        for second in 0..=30 {
            sampler.note(at(second), counters(second * 20, second));
        }
        let rates = sampler.rates(at(30), 10);
        assert_eq!((rates.pages_per_s, rates.bytes_per_s, rates.errors_per_s), (21.0, 2_000.0, 1.0));
        // Ten more seconds, in which nothing happens.
        for second in 31..=40 {
            sampler.note(at(second), counters(600, 30));
        }
        assert_eq!(sampler.rates(at(40), 10).pages_per_s, 0.0);
        assert!(sampler.rates(at(40), 60).pages_per_s > 10.0, "the minute still knows");
        assert_eq!(sampler.rates(at(400), 10), Rates::default(), "no sample is recent");
    }

    #[test]
    fn a_counter_that_starts_again_loses_nothing_and_invents_nothing() {
        let mut sampler = Sampler::default();
        sampler.note(at(0), counters(1_000, 0));
        sampler.note(at(1), counters(1_010, 0));
        sampler.note(at(2), counters(7, 0));
        sampler.note(at(3), counters(9, 0));
        let (sum, _) = sampler.lately(at(3), 60);
        assert_eq!(sum.ok, 10 + 7 + 2, "what was before the first sample is not counted");
    }

    #[test]
    fn the_history_has_steps_of_five_seconds_and_ends_after_an_hour() {
        let mut sampler = Sampler::default();
        for second in 0..5_000 {
            sampler.note(at(second), counters(second, 0));
            if sampler.wants_gauges(at(second)) || second.is_multiple_of(5) {
                sampler.gauge(at(second), Gauges { queued: second, ..Gauges::default() });
            }
        }
        let points: Vec<&Point> = sampler.points(at(4_999), 10_000).collect();
        assert_eq!(points.len(), POINTS_MAX);
        assert!(points.windows(2).all(|pair| pair[1].at == pair[0].at + STEP_S));
        assert!(points[1..].iter().all(|point| point.counted.ok == 5), "five a step");
        assert_eq!(points.last().unwrap().gauges.queued, 4_995);
        assert_eq!(sampler.points(at(4_999), 60).count(), 12);
        assert!(sampler.recent.len() <= RATE_SAMPLES_MAX);
    }

    #[test]
    fn a_clock_that_is_set_back_breaks_nothing() {
        let mut sampler = Sampler::default();
        let wall = |seconds: u64, wall: u64| Now { mono: seconds * 1_000, wall: Timestamp(wall * 1_000) };
        sampler.note(wall(0, 1_000_000), counters(0, 0));
        sampler.note(wall(1, 1_000_010), counters(5, 0));
        sampler.note(wall(2, 1_000_000), counters(9, 0));
        assert_eq!(sampler.points.len(), 2, "a little back: it counts into the last step");
        assert_eq!(sampler.rates(wall(2, 1_000_000), 10).pages_per_s, 4.5, "rates know no time of day");
        sampler.note(wall(3, 10_000), counters(12, 0));
        assert_eq!(sampler.points.len(), 1, "years back: it begins anew");
    }
}
