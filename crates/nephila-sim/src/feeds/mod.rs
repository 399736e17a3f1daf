//! Many feeds for many days: every story is found once, at the times that an independent model of the rule says.
//!
//! A feed by itself ([`single`]) is read, judged and planned by the core at every moment the core asks for, and
//! compared with [`model`], which knows nothing but the times of the stories ([`web`]). Some feeds also live in a whole
//! frontier ([`whole`]), which dies now and then.
//!
//! Invariant: the same seed gives the same figures, on any number of threads.

pub mod model;
pub mod single;
pub mod web;
pub mod whole;

use std::fmt;

use nephila_core::feed::schedule::{Rule, Settings};

use crate::Violation;
use crate::rng::mix;
use web::{BEGAN, DAY, MINUTE, Source};

/// First polls are spread over this time.
const SPREAD: u64 = 60 * MINUTE;

/// Counts of a run over feeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Feeds.
    pub feeds: u64,
    /// Polls of feeds.
    pub polls: u64,
    /// Of these, answered 304.
    pub not_modified: u64,
    /// Of these, with the URLs of last time.
    pub redundant: u64,
    /// Stories found, each once.
    pub stories: u64,
    /// Stories that left their feed before the rule said to look.
    pub gone: u64,
    /// Stories that were published after the last poll.
    pub waiting: u64,
    /// Seconds from publication to capture, of stories that were published after the first poll.
    pub delays: Vec<u32>,
    /// The latest poll, in milliseconds; in a whole frontier only.
    pub late_max: u64,
    /// Times the process died.
    pub restarts: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.feeds += other.feeds;
        self.polls += other.polls;
        self.not_modified += other.not_modified;
        self.redundant += other.redundant;
        self.stories += other.stories;
        self.gone += other.gone;
        self.waiting += other.waiting;
        self.delays.extend(other.delays);
        self.late_max = self.late_max.max(other.late_max);
        self.restarts += other.restarts;
    }

    /// The delay from publication to capture that half of the stories stay below, in minutes.
    pub fn delay_median(&self) -> f64 {
        let mut delays = self.delays.clone();
        let middle = delays.len() / 2;
        if delays.is_empty() { 0.0 } else { f64::from(*delays.select_nth_unstable(middle).1) / 60.0 }
    }

    /// Polls for each story.
    pub fn polls_per_story(&self) -> f64 {
        self.polls as f64 / self.stories.max(1) as f64
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} feeds, {} polls when the model says ({} answered 304), {} stories found once each, {} gone from their feed \
             before a poll was due, median delay {:.1} min, {:.2} polls a story",
            self.feeds,
            self.polls,
            self.not_modified,
            self.stories,
            self.gone,
            self.delay_median(),
            self.polls_per_story()
        )
    }
}

/// When a feed is first polled.
fn first(seed: u64, number: u64) -> u64 {
    BEGAN + mix(seed ^ number.wrapping_mul(0x9e37_79b9)) % SPREAD
}

/// Follows `feeds` feeds, each by itself, on several threads.
pub fn alone(
    seed: u64,
    feeds: u64,
    days: u64,
    settings: &Settings,
    threads: u64,
) -> Result<Counts, Violation> {
    let threads = threads.clamp(1, feeds.max(1));
    let of_thread = |thread: u64| {
        let mut counts = Counts::default();
        for number in (thread..feeds).step_by(threads as usize) {
            let source = Source::new(seed, number, days);
            single::run(&source, settings, first(seed, number), BEGAN + days * DAY, &mut counts)?;
        }
        Ok(counts)
    };
    let results: Vec<Result<Counts, Violation>> = std::thread::scope(|scope| {
        let of_thread = &of_thread;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || of_thread(thread))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("a checker gives a violation, no panic"))
            .collect()
    });
    let mut sum = Counts::default();
    for result in results {
        sum.add(result?);
    }
    Ok(sum)
}

/// The name of a rule.
pub fn name(rule: Rule) -> &'static str {
    match rule {
        Rule::Doubling => "doubling",
        Rule::Adaptive => "adaptive",
    }
}
