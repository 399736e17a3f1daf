//! When a feed must be polled and which stories each poll finds, computed from the times of its stories alone.
//!
//! Written from the prose of the rules and not from the code that carries them out: no record, no checksum, no memory
//! of stories, no reader of feeds. A poll that can be kept to the millisecond is; late polls are judged by
//! [`Doubling`], which is told when each poll ended.
//!
//! Invariant: nothing of the core is used here.

use super::web::{DAY, HOUR, MINUTE, Source};

/// A poll that the model expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// When.
    pub at: u64,
    /// The first story that the poll finds.
    pub first: usize,
    /// The story behind the last one; as `first` if there is nothing new.
    pub end: usize,
}

/// The shortest wait of both rules.
const SHORTEST: u64 = 5 * MINUTE;
/// The longest.
const LONGEST: u64 = 7 * DAY;
/// The shortest of the adaptive rule for a feed without validators.
const SHORTEST_DEAR: u64 = 30 * MINUTE;

/// SEEDS D3: five minutes after a poll that found a story, twice as long after each that did not, up to a week.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubling {
    wait: u64,
}

impl Doubling {
    /// How long to wait after a poll.
    pub fn wait(&mut self, found_something: bool) -> u64 {
        self.wait = match (found_something, self.wait) {
            (true, _) => SHORTEST,
            // A first poll that finds nothing is a fruitless one.
            (false, 0) => 2 * SHORTEST,
            (false, wait) => (2 * wait).min(LONGEST),
        };
        self.wait
    }
}

/// All polls of a feed by the seed's rule, from the first to the end.
pub fn doubling(source: &Source, first: u64, end: u64) -> Vec<Expected> {
    let mut rule = Doubling::default();
    follow(source, first, end, |_, expected, _| rule.wait(expected.first < expected.end))
}

/// All polls of a feed by the adaptive rule, from the first to the end.
///
/// The prose: half of the usual time between stories, or of the silence if that is longer; the usual time is a mean in
/// which the newest gap counts for a quarter, begins with the dates that the feed shows at first, and is six hours
/// while nothing is known. If half of the feed is new, no longer than half of the wait before. After a failure as long
/// as the shortest wait doubled for each. No sooner than its `ttl`. Between five minutes (30 for a feed without
/// validators, and before the first answer) and a week.
pub fn adaptive(source: &Source, first: u64, end: u64) -> Vec<Expected> {
    let mut gap = 0;
    let mut found_at: Option<u64> = None;
    let (mut failures, mut answered, mut before) = (0u32, false, None);
    follow(source, first, end, |at, expected, is_down| {
        let new = (expected.end - expected.first) as u64;
        if let Some(new) = std::num::NonZeroU64::new(new) {
            gap = match found_at {
                Some(last) => {
                    let newest = (at - last) / new;
                    if gap == 0 { newest } else { gap - gap / 4 + newest / 4 }
                }
                None => shown_gap(source, at),
            };
            found_at = Some(at);
        }
        failures = if is_down { failures + 1 } else { 0 };
        answered |= !is_down;
        let usual = if gap == 0 { 6 * HOUR } else { gap };
        let silence = at - found_at.unwrap_or(first);
        let mut wait = usual.max(silence) / 2;
        let entries = source.visible(at).len() as u64;
        if let Some(before) = before
            && entries >= 4
            && new >= entries / 2
            && !is_down
        {
            wait = wait.min(before / 2);
        }
        let shortest = if source.validators && answered { SHORTEST } else { SHORTEST_DEAR };
        if failures > 0 {
            wait = wait.max(shortest << failures.min(40));
        } else {
            wait = wait.max(source.ttl);
        }
        let wait = wait.clamp(shortest, LONGEST);
        before = Some(wait);
        wait
    })
}

/// The mean time between the stories that a feed shows, by their dates, if there are three.
fn shown_gap(source: &Source, at: u64) -> u64 {
    let shown = source.visible(at);
    if !source.is_dated() || shown.len() < 3 {
        return 0;
    }
    (source.published[shown.end - 1] - source.published[shown.start]) / (shown.len() as u64 - 1)
}

/// Polls from the first moment on, each time after the wait that the rule says.
fn follow(
    source: &Source,
    first: u64,
    end: u64,
    mut rule: impl FnMut(u64, Expected, bool) -> u64,
) -> Vec<Expected> {
    let mut polls = Vec::new();
    let (mut at, mut seen) = (first, 0);
    while at < end {
        let is_down = source.is_down(at);
        let mut expected = Expected { at, first: seen, end: seen };
        if !is_down {
            let visible = source.visible(at);
            // Stories that have left the feed since the last poll are gone.
            expected = Expected { at, first: seen.max(visible.start), end: visible.end };
            seen = visible.end;
        }
        at += rule(at, expected, is_down);
        polls.push(expected);
    }
    polls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_five_minutes_to_a_week() {
        let mut rule = Doubling::default();
        let minutes: Vec<u64> = (0..14).map(|poll| rule.wait(poll == 1) / MINUTE).collect();
        assert_eq!(minutes, [10, 5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, 10_080, 10_080]);
    }
}
