//! When a feed is polled again, and whether the feed is silent against its own rhythm.
//!
//! Two rules, by setting. **Doubling** (SEEDS D3): five minutes after a poll that found a new story, twice as long
//! after each fruitless poll, up to a week (exponential backoff). **Adaptive**: often enough that a story takes
//! [`Settings::polls_per_story`] polls, by the gaps between the stories so far; longer as the silence grows; sooner
//! when so much of the feed was new that stories may have been missed; never sooner than the feed itself asks for
//! (`ttl`, `sy:updatePeriod`, `Cache-Control`), within reason; and down to five minutes only where validators make a
//! poll cheap.
//!
//! Both rules respect `Retry-After`, and failures double the wait. A feed that is gone (several 410 in a row) is
//! retired. A feed with several permanent redirects to one place in a row is polled at the new place. A 304 is trusted,
//! but a full response is requested once in [`Settings::full_after`]; a server whose 304s hid stories is no longer
//! trusted.
//!
//! Invariants: the next poll is later than this one by at least `interval_min` and at most `interval_max`, or
//! `retry_after_max` where the server sends `Retry-After`; the same polls give the same plan on every machine.

mod poll;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::codec::{Damaged, Reader, put_u64};
use crate::time::Timestamp;

pub use poll::{Health, Plan, Poll, PollAnswer, PollReason};

/// The rule for the next poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Five minutes after a new story, twice as long after each fruitless poll.
    #[default]
    Doubling,
    /// By the feed's own rhythm and hints.
    Adaptive,
}

/// How often feeds are polled. Section `[feed.schedule]` of the settings file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The rule for the time of the next poll.
    pub rule: Rule,
    /// Minimum wait between polls: the wait after a new story.
    #[serde(with = "humantime_serde")]
    pub interval_min: Duration,
    /// Maximum wait between polls.
    #[serde(with = "humantime_serde")]
    pub interval_max: Duration,
    /// Minimum wait of the adaptive rule for feeds without validators, where every poll transfers the whole feed.
    #[serde(with = "humantime_serde")]
    pub interval_min_unvalidated: Duration,
    /// Target number of polls per story under the adaptive rule. More polls find a story sooner.
    pub polls_per_story: u32,
    /// Maximum polling interval that a feed can ask for. Feeds that ask for a year exist.
    #[serde(with = "humantime_serde")]
    pub hint_max: Duration,
    /// Maximum `Retry-After` that is respected.
    #[serde(with = "humantime_serde")]
    pub retry_after_max: Duration,
    /// Maximum age of the last full response. An older one is requested again without validators.
    #[serde(with = "humantime_serde")]
    pub full_after: Duration,
    /// Maximum percentage by which the adaptive rule shortens a wait, so that feeds that started together drift apart.
    pub spread_percent: u8,
}

impl Default for Settings {
    fn default() -> Self {
        let hours = |hours: u64| Duration::from_secs(3_600 * hours);
        Settings {
            rule: Rule::Doubling,
            interval_min: Duration::from_secs(300),
            interval_max: hours(7 * 24),
            interval_min_unvalidated: Duration::from_secs(1_800),
            polls_per_story: 2,
            hint_max: hours(24),
            retry_after_max: hours(24),
            full_after: hours(7 * 24),
            spread_percent: 10,
        }
    }
}

/// The history of a feed's polls. Times are in milliseconds, 0 for never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    polls: u64,
    first: u64,
    last_ok: u64,
    last_full: u64,
    last_new: u64,
    last_not_modified: u64,
    failing_since: u64,
    fruitless: u16,
    failures: u16,
    gone: u8,
    /// Number of polls that found a story, without the first.
    news: u32,
    /// The mean time between stories, weighted to the latest.
    gap: u64,
    /// The mean and the longest time between polls that found a story, weighted to the latest.
    pause: u64,
    pause_max: u64,
    /// The wait before this poll.
    interval: u64,
    validators: bool,
    /// Number of times that a 304 hid a story.
    lies: u8,
    moved_to: u64,
    moves: u8,
}

impl History {
    /// Takes in a poll and plans the next one. `spread` is any number that differs from feed to feed.
    pub fn handle_poll(&mut self, poll: &Poll, settings: &Settings, spread: u64) -> Plan {
        self.take(poll);
        let adopt_move = self.moves >= MOVES_MIN;
        if self.gone >= GONE_MIN {
            return Plan { due: None, conditional: false, adopt_move: false, why: PollReason::Gone };
        }
        let (mut wait, mut why) = match settings.rule {
            Rule::Doubling => self.doubling(settings),
            Rule::Adaptive => self.adaptive(poll, settings, spread),
        };
        let asked = poll.retry_after.map_or(0, |after| ms(after.min(settings.retry_after_max)));
        if asked > wait {
            (wait, why) = (asked, PollReason::RetryAfter);
        }
        self.interval = wait;
        if adopt_move {
            (self.moves, self.moved_to) = (0, 0);
        }
        let due = poll.at.0.saturating_add(wait);
        let is_fresh = due.saturating_sub(self.last_full) < ms(settings.full_after);
        let conditional = self.is_cheap() && is_fresh;
        Plan { due: Some(Timestamp(due)), conditional, adopt_move, why }
    }

    fn take(&mut self, poll: &Poll) {
        let now = poll.at.0;
        let stories = poll.answer.stories();
        if self.polls == 0 {
            self.first = now;
        }
        match poll.answer {
            PollAnswer::Read { dated_gap, oldest_new, .. } => {
                let hidden = self.last_not_modified > 0
                    && !poll.conditional
                    && oldest_new.is_some_and(|at| at.0 + HIDDEN_SLACK_MS < self.last_not_modified);
                self.lies = self.lies.saturating_add(u8::from(hidden));
                if stories > 0 {
                    self.take_news(now, stories, dated_gap);
                }
                self.last_full = now;
            }
            PollAnswer::Redundant => self.last_full = now,
            PollAnswer::NotModified => self.last_not_modified = now,
            PollAnswer::Failed | PollAnswer::Gone => {}
        }
        self.fruitless = if stories > 0 { 0 } else { self.fruitless.saturating_add(1) };
        self.gone = if poll.answer == PollAnswer::Gone { self.gone.saturating_add(1) } else { 0 };
        if poll.answer.is_failure() {
            if self.failures == 0 {
                self.failing_since = now;
            }
            self.failures = self.failures.saturating_add(1);
        } else {
            (self.failures, self.failing_since) = (0, 0);
            self.last_ok = now;
            // A 304 need not repeat the validators.
            self.validators = poll.validators || poll.answer == PollAnswer::NotModified && self.validators;
        }
        match poll.moved_to {
            Some(to) if to == self.moved_to => self.moves = self.moves.saturating_add(1),
            Some(to) => (self.moved_to, self.moves) = (to, 1),
            // A failure tells nothing about the place of the feed.
            None if poll.answer.is_failure() => {}
            None => (self.moved_to, self.moves) = (0, 0),
        }
        self.polls += 1;
    }

    fn take_news(&mut self, now: u64, stories: u32, dated_gap: Option<Duration>) {
        if self.last_new > 0 {
            let pause = now.saturating_sub(self.last_new);
            let gap = pause / u64::from(stories);
            self.gap = if self.gap == 0 { gap } else { lean(self.gap, gap) };
            self.pause = if self.pause == 0 { pause } else { lean(self.pause, pause) };
            // The longest pause fades with time, not with stories: a weekend is remembered until the next.
            let fades = self.pause_max / 1_000 * (pause / 1_000).min(FADE_SECS) / FADE_SECS * 1_000;
            self.pause_max = pause.max(self.pause_max - fades);
            self.news = self.news.saturating_add(1);
        } else {
            // Stories from before the first poll: only their dates can show the rhythm.
            self.gap = dated_gap.map_or(0, ms);
        }
        self.last_new = now;
    }

    /// The doubling rule (SEEDS D3).
    fn doubling(&self, settings: &Settings) -> (u64, PollReason) {
        let (min, max) = (ms(settings.interval_min), ms(settings.interval_max));
        let wait = doubled(min, self.fruitless).min(max);
        let why = match (self.failures, self.fruitless) {
            (1.., _) => PollReason::Failing(self.failures),
            (_, 0) => PollReason::NewStory,
            (_, times) => PollReason::Fruitless(times),
        };
        (wait, why)
    }

    fn adaptive(&self, poll: &Poll, settings: &Settings, spread: u64) -> (u64, PollReason) {
        let max = ms(settings.interval_max);
        let min = ms(if self.is_cheap() { settings.interval_min } else { settings.interval_min_unvalidated });
        let gap = if self.gap == 0 { GAP_UNKNOWN_MS } else { self.gap };
        let silent = poll.at.0.saturating_sub(if self.last_new > 0 { self.last_new } else { self.first });
        let mut why = if silent > gap { PollReason::Silence } else { PollReason::Rhythm };
        let mut wait = gap.max(silent) / u64::from(settings.polls_per_story.max(1));
        if let PollAnswer::Read { entries, new, .. } = poll.answer
            && self.polls > 1
            && entries >= CROWD_ENTRIES_MIN
            && new >= entries / 2
            && self.interval / 2 < wait
        {
            (wait, why) = (self.interval / 2, PollReason::Crowded);
        }
        let failing = if self.failures > 0 { doubled(min, self.failures) } else { 0 };
        if failing > wait {
            (wait, why) = (failing, PollReason::Failing(self.failures));
        }
        // Before the bounds, so that the bounds hold.
        let spread = spread % 1_000 * u64::from(settings.spread_percent.min(50));
        wait -= wait / 100_000 * spread;
        let hints = [poll.hints.ttl, poll.hints.update_period, poll.max_age];
        let hint = hints.into_iter().flatten().max().map_or(0, |hint| ms(hint.min(settings.hint_max)));
        if hint > wait {
            (wait, why) = (hint, PollReason::Hint);
        }
        if wait < min || wait > max {
            (wait, why) = (wait.clamp(min, max.max(min)), PollReason::Bound);
        }
        (wait, why)
    }

    /// Whether a poll without news costs next to nothing.
    fn is_cheap(&self) -> bool {
        self.validators && self.lies < LIES_MAX
    }

    /// The health of the feed after the last poll.
    pub fn health(&self) -> Health {
        let silent = self.last_ok.saturating_sub(self.last_new);
        // A feed that was observed for less than two weekends may have a weekly rhythm.
        let is_young = self.last_ok.saturating_sub(self.first) < YOUNG_MS;
        let quiet_min = if is_young { QUIET_MIN_YOUNG_MS } else { QUIET_MIN_MS };
        if self.gone >= GONE_MIN {
            Health::Gone
        } else if self.failures >= FAILURES_MIN {
            Health::Failing { since: Timestamp(self.failing_since), times: self.failures }
        } else if self.news < NEWS_MIN {
            Health::Learning
        } else if silent > (2 * self.pause_max).max(quiet_min) {
            Health::Quiet { usual: Duration::from_millis(self.pause), silent: Duration::from_millis(silent) }
        } else {
            Health::Fine
        }
    }

    /// The usual time between stories; none before there are two.
    pub fn usual_gap(&self) -> Option<Duration> {
        (self.gap > 0).then(|| Duration::from_millis(self.gap))
    }

    /// When the last new story was found; 0 is never.
    pub fn last_new(&self) -> Timestamp {
        Timestamp(self.last_new)
    }

    /// Encodes the history.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        for number in self.numbers() {
            put_u64(&mut out, number);
        }
        out
    }

    fn numbers(&self) -> [u64; 19] {
        [
            self.polls,
            self.first,
            self.last_ok,
            self.last_full,
            self.last_new,
            self.last_not_modified,
            self.failing_since,
            u64::from(self.fruitless),
            u64::from(self.failures),
            u64::from(self.gone),
            u64::from(self.news),
            self.gap,
            self.pause,
            self.pause_max,
            self.interval,
            u64::from(self.validators),
            u64::from(self.lies),
            self.moved_to,
            u64::from(self.moves),
        ]
    }

    /// Decodes a history.
    pub fn from_bytes(bytes: &[u8]) -> Result<History, Damaged> {
        let mut reader = Reader::new(bytes);
        let mut next = || reader.u64("history of a feed");
        let short = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        let byte = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
        Ok(History {
            polls: next()?,
            first: next()?,
            last_ok: next()?,
            last_full: next()?,
            last_new: next()?,
            last_not_modified: next()?,
            failing_since: next()?,
            fruitless: short(next()?),
            failures: short(next()?),
            gone: byte(next()?),
            news: u32::try_from(next()?).unwrap_or(u32::MAX),
            gap: next()?,
            pause: next()?,
            pause_max: next()?,
            interval: next()?,
            validators: next()? != 0,
            lies: byte(next()?),
            moved_to: next()?,
            moves: byte(next()?),
        })
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn doubled(min: u64, times: u16) -> u64 {
    min.saturating_mul(1 << times.min(40))
}

/// A moving mean: a quarter of the new value.
fn lean(mean: u64, new: u64) -> u64 {
    mean - mean / 4 + new / 4
}

/// Number of permanent redirects in a row to one place before the place is adopted.
const MOVES_MIN: u8 = 3;

/// Number of "gone" answers in a row before they are believed.
const GONE_MIN: u8 = 3;

/// Number of failures in a row before they are reported.
const FAILURES_MIN: u16 = 3;

/// Number of polls with stories before a feed has a rhythm.
const NEWS_MIN: u32 = 5;

/// Minimum silence before a feed is called quiet: a day.
const QUIET_MIN_MS: u64 = 24 * 3_600 * 1_000;

/// The same for a feed that has been followed for less than two weeks: a long weekend.
const QUIET_MIN_YOUNG_MS: u64 = 4 * QUIET_MIN_MS;
const YOUNG_MS: u64 = 14 * QUIET_MIN_MS;

/// Time constant of the decay of the longest pause: after a few times this long, the pause hardly counts.
const FADE_SECS: u64 = 28 * 24 * 3_600;

/// The assumed gap of a feed whose entries have no dates, until its second story.
const GAP_UNKNOWN_MS: u64 = 6 * 3_600 * 1_000;

/// A feed with fewer entries is never crowded, whatever share is new.
const CROWD_ENTRIES_MIN: u32 = 4;

/// Stories appear a while after their own date.
const HIDDEN_SLACK_MS: u64 = 6 * 3_600 * 1_000;

/// Number of times that a 304 may have hidden a story, by its date, before validators are no longer sent.
const LIES_MAX: u8 = 2;
