//! The load of each partition of a node: its fetches a minute, smoothed.
//!
//! Fetches are counted as they begin. Every few seconds [`Meter::measure`] mixes the new count into a mean over about
//! [`WINDOW`]. A partition that changes owners brings its load along: the new owner begins with the load published by
//! the old owner, so that no node looks idle for a minute because its partitions are new. A partition of unknown load
//! has no load until this node has watched the partition for [`WATCH_MIN`].
//!
//! Invariants: whole numbers only; the same fetches at the same times give the same loads.

use std::collections::BTreeMap;

/// Loads are a mean over about this time, in milliseconds.
pub const WINDOW: u64 = 60_000;

/// A partition of unknown load is watched for this long before a load is published, in milliseconds.
pub const WATCH_MIN: u64 = 20_000;

/// Loads are kept in thousandths, so that a slow partition does not round to nothing.
const SCALE: u64 = 1_000;

/// Milliseconds of a minute.
const MINUTE: u64 = 60_000;

/// Counts a node's fetches by partition.
#[derive(Debug, Default)]
pub struct Meter {
    partitions: BTreeMap<u32, Rate>,
}

#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Fetches since the last measurement.
    count: u64,
    /// Time of the last measurement.
    measured: u64,
    /// The time that the mean covers, up to [`WINDOW`].
    watched: u64,
    /// Fetches a minute, times [`SCALE`].
    mean: u64,
}

impl Meter {
    /// A partition is opened. `load` is the load published by its last owner.
    pub fn begin(&mut self, now: u64, partition: u32, load: Option<u32>) {
        let watched = if load.is_some() { WINDOW } else { 0 };
        let mean = u64::from(load.unwrap_or(0)) * SCALE;
        self.partitions.insert(partition, Rate { count: 0, measured: now, watched, mean });
    }

    /// A partition is given up.
    pub fn end(&mut self, partition: u32) {
        self.partitions.remove(&partition);
    }

    /// A fetch of a partition begins. A fetch of a partition that is no longer ours does not count.
    pub fn handle_fetch(&mut self, partition: u32) {
        if let Some(rate) = self.partitions.get_mut(&partition) {
            rate.count += 1;
        }
    }

    /// The current loads, of the partitions that have one: fetches a minute.
    pub fn measure(&mut self, now: u64) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.partitions.iter_mut().filter_map(move |(partition, rate)| Some((*partition, rate.measure(now)?)))
    }
}

impl Rate {
    fn measure(&mut self, now: u64) -> Option<u32> {
        let took = now.saturating_sub(self.measured);
        if let Some(fresh) = self.count.saturating_mul(MINUTE * SCALE).checked_div(took) {
            self.watched = (self.watched + took).min(WINDOW);
            // In the beginning the plain mean of all fetches, later a mean in which old fetches fade.
            let share = took.min(self.watched);
            let (old, new) = (u128::from(self.mean), u128::from(fresh));
            let (share, whole) = (u128::from(share), u128::from(self.watched));
            self.mean = ((old * (whole - share) + new * share) / whole) as u64;
            (self.count, self.measured) = (0, now);
        }
        let load = u32::try_from(self.mean.div_ceil(SCALE)).unwrap_or(u32::MAX);
        (self.watched >= WATCH_MIN).then_some(load)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures every five seconds for a while, with this number of fetches of partition 7 each time.
    fn go_on(meter: &mut Meter, now: &mut u64, times: u64, fetches: u64) -> Option<u32> {
        let mut last = None;
        for _ in 0..times {
            *now += 5_000;
            (0..fetches).for_each(|_| meter.handle_fetch(7));
            last = meter.measure(*now).find(|(partition, _)| *partition == 7).map(|(_, load)| load);
        }
        last
    }

    #[test]
    fn nothing_is_said_before_it_was_watched_and_then_the_mean_is_right_at_once() {
        let (mut meter, mut now) = (Meter::default(), 100);
        meter.begin(now, 7, None);
        assert_eq!(go_on(&mut meter, &mut now, 3, 10), None);
        assert_eq!(go_on(&mut meter, &mut now, 1, 10), Some(120));
        assert_eq!(go_on(&mut meter, &mut now, 60, 10), Some(120));
    }

    #[test]
    fn what_the_last_owner_said_goes_on_and_fades() {
        let (mut meter, mut now) = (Meter::default(), 0);
        meter.begin(now, 7, Some(600));
        assert_eq!(go_on(&mut meter, &mut now, 1, 50), Some(600));
        let soon = go_on(&mut meter, &mut now, 2, 0).unwrap();
        assert!((450..600).contains(&soon), "{soon}: two short silences are no idleness");
        assert_eq!(go_on(&mut meter, &mut now, 200, 0), Some(0));
    }

    #[test]
    fn a_long_pause_between_two_measurements_counts_as_one_window() {
        let (mut meter, mut now) = (Meter::default(), 0);
        meter.begin(now, 7, Some(600));
        now = 10 * WINDOW;
        assert_eq!(go_on(&mut meter, &mut now, 1, 0), Some(0));
    }

    #[test]
    fn what_was_given_up_counts_no_more() {
        let (mut meter, mut now) = (Meter::default(), 0);
        meter.begin(now, 7, Some(600));
        meter.end(7);
        assert_eq!(go_on(&mut meter, &mut now, 5, 3), None);
        meter.begin(now, 7, Some(1));
        assert_eq!(meter.measure(now).collect::<Vec<_>>(), [(7, 1)], "no time has passed");
    }
}
