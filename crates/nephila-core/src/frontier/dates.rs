//! Implausible dates: a clock that was wrong for seconds leaves them behind, in rests, plans and robots.txt.
//!
//! Stored times are wall-clock times, so a clock that once showed next year makes a page wait until next year. A date
//! is therefore believed only if the date lies no further ahead than the longest period that could have been meant when
//! the date was written, plus a tolerance ([`DOUBT`]). Beyond that, a rest is over, a robots.txt is requested again, a
//! plan is due at the next full minute. (Not at once: a plan that cannot be carried out would come up without end. Not
//! later: a crawl that runs now and then, and waits a minute for retries, would miss every full hour.)
//!
//! Invariant: a date that a correct clock wrote is never changed.

use std::time::Duration;

use super::retry;
use super::{Frontier, REST_MAX};
use crate::feed;
use crate::job::{Job, Schedule};
use crate::robots::policy::REFETCH_AFTER_MAX;
use crate::state::State;
use crate::state::record::HostRecord;
use crate::time::{Seconds, Timestamp};

/// Tolerated difference between two correct clocks.
pub(super) const DOUBT: Duration = Duration::from_secs(24 * 3_600);

/// Maximum validity of the robots.txt of a loaded host. (Values read from disk are checked more strictly.)
pub(super) const ROBOTS_AHEAD_MAX: Duration = Duration::from_secs(60 * 24 * 3_600);

/// An implausible plan is due at the next multiple of this, in seconds.
const LOOKED_AT_EVERY: u32 = 60;

/// End of a host's rest. No rest is longer than [`REST_MAX`], plus the host's own rest between fetches.
pub(super) fn rest_until(record: &HostRecord, now: Timestamp) -> Timestamp {
    let own = u64::from(record.delay.max(record.robots.crawl_delay));
    let ahead = REST_MAX + own + DOUBT.as_millis() as u64;
    if record.rest_until.0 > now.0.saturating_add(ahead) { Timestamp(0) } else { record.rest_until }
}

/// End of the validity of a host's robots.txt.
pub(super) fn robots_until(record: &HostRecord, retry: &retry::Settings, now: Timestamp) -> Seconds {
    let longest = match record.robots.unreachable_since {
        Seconds(0) => REFETCH_AFTER_MAX,
        // Older rules are valid for twice the rest of an unreachable host, which jitter may double.
        _ => retry.back_off_max.max(retry.retry_after_max).saturating_mul(4),
    };
    let expires = record.robots.expires;
    if expires > Seconds::from(now).plus(longest.saturating_add(DOUBT)) { Seconds(0) } else { expires }
}

/// The longest time that anything is planned ahead.
pub(super) fn plan_ahead_max<'a>(
    retry: &retry::Settings,
    feed: &feed::Settings,
    jobs: impl Iterator<Item = &'a Job>,
) -> Duration {
    let waits = [retry.back_off_max, retry.retry_after_max, retry.challenge_rest, retry.host_rest_max];
    let schedules = jobs.map(|job| match job.schedule {
        Schedule::Once => Duration::ZERO,
        Schedule::Every(interval) => interval,
        Schedule::Adaptive(settings) => settings.interval_max.max(settings.interval),
    });
    let feeds = [feed.schedule.interval_max, feed.schedule.retry_after_max];
    let longest = waits.into_iter().chain(feeds).chain(schedules).max().unwrap_or_default();
    // Jitter may double the time.
    longest.saturating_mul(2).saturating_add(DOUBT)
}

/// When a plan is due, if nothing is planned further ahead than `ahead_max`.
pub(super) fn believed(due: Seconds, ahead_max: Duration, now: Timestamp) -> Seconds {
    let now = Seconds::from(now);
    if due > now.plus(ahead_max) {
        return Seconds(now.0.div_ceil(LOOKED_AT_EVERY).saturating_mul(LOOKED_AT_EVERY));
    }
    due
}

/// Like [`believed`], for a plan that was just looked at: an implausible one is due at a full minute after this second.
pub(super) fn believed_next(due: Seconds, ahead_max: Duration, now: Timestamp) -> Seconds {
    believed(due, ahead_max, Timestamp(now.0.saturating_add(1_000)))
}

impl<S: State> Frontier<S> {
    /// The longest time that anything of a partition is planned ahead.
    pub(super) fn plan_ahead_max(&self, partition: usize) -> Duration {
        let jobs = &self.partitions[partition].state.meta().jobs;
        plan_ahead_max(&self.config.retry, &self.config.feed, jobs.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::record::RobotsRecord;

    const DAY: u64 = 24 * 3_600;
    const NOW: Timestamp = Timestamp(1_794_700_800_000);

    #[test]
    fn pro_05_a_date_is_believed_as_far_ahead_as_anybody_could_have_meant_it() {
        let ahead = |days: u64| Seconds::from(NOW).plus(Duration::from_secs(days * DAY));
        let retry = retry::Settings::default();
        let host = |rest: u64, robots: u64, since: u64| HostRecord {
            rest_until: Timestamp(NOW.0 + rest * DAY * 1_000),
            robots: RobotsRecord {
                expires: ahead(robots),
                unreachable_since: Seconds(since as u32),
                ..RobotsRecord::default()
            },
            ..HostRecord::default()
        };
        assert_eq!(rest_until(&host(7, 0, 0), NOW), host(7, 0, 0).rest_until);
        assert_eq!(rest_until(&host(365, 0, 0), NOW), Timestamp(0));
        let slow = HostRecord { delay: 40 * DAY as u32 * 1_000, ..host(40, 0, 0) };
        assert_eq!(rest_until(&slow, NOW), slow.rest_until, "somebody said so");
        assert_eq!(robots_until(&host(0, 1, 0), &retry, NOW), ahead(1));
        assert_eq!(robots_until(&host(0, 14, 0), &retry, NOW), Seconds(0));
        assert_eq!(robots_until(&host(0, 14, 1), &retry, NOW), ahead(14));
        assert_eq!(robots_until(&host(0, 365, 1), &retry, NOW), Seconds(0));
    }

    #[test]
    fn pro_05_a_plan_for_next_year_comes_up_at_the_next_full_minute() {
        let mut yearly = Job::new(crate::job::JobId(1), "yearly");
        yearly.schedule = Schedule::Every(Duration::from_secs(365 * DAY));
        let (retry, feed) = (retry::Settings::default(), feed::Settings::default());
        let usual = plan_ahead_max(&retry, &feed, std::iter::empty());
        let due = Seconds::from(NOW).plus(Duration::from_secs(365 * DAY));
        let later = Timestamp(NOW.0 + 1_000);
        assert_eq!(believed(due, usual, later).0, Seconds::from(NOW).0 + 60);
        assert_eq!(believed(due, usual, NOW), Seconds::from(NOW), "this is a full minute");
        assert_eq!(believed(due, plan_ahead_max(&retry, &feed, [yearly].iter()), later), due, "it was meant");
    }
}
