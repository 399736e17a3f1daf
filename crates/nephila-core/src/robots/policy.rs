//! What is in force for a site, given how the fetch of its robots.txt ended; how long it stays so; how long we rest.
//!
//! What always holds: a file that could not be reached forbids everything (RFC 9309, 2.3.1.4) unless an older copy is
//! still there; a site never makes us faster than we are by ourselves.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::planted::{self, Bug};

/// How many redirects are followed to a robots.txt (RFC 9309, 2.3.1.2).
pub const REDIRECTS_MAX: usize = 5;

/// A copy is used no longer than this (RFC 9309, 2.4).
pub const REFETCH_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A copy is used at least this long, whatever the site's cache rules say.
pub const REFETCH_AFTER_MIN: Duration = Duration::from_secs(10 * 60);

/// The longest `Crawl-delay` that a list of URLs waits for. A crawl waits as long as it is asked to, and says so.
pub const CRAWL_DELAY_MAX: Duration = Duration::from_secs(300);

/// After this time without an answer the operator's rule decides (RFC 9309, 2.3.1.4).
pub const UNREACHABLE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What the operator chose where the RFC leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What 401 and 403 mean.
    pub denied: Denied,
    /// May a site be crawled whose robots.txt has been out of reach for 30 days?
    pub unreachable_then_allow: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { denied: Denied::Allow, unreachable_then_allow: false }
    }
}

/// What 401 and 403 for a robots.txt mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denied {
    /// There are no rules, as for every other 4xx (RFC 9309, 2.3.1.3).
    #[default]
    Allow,
    /// Stricter: who hides the rules wants no visitors.
    Disallow,
}

/// How the fetch of a robots.txt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With this status, after at most [`REDIRECTS_MAX`] redirects. A redirect that led nowhere is its own status.
    Status(u16),
    /// With more redirects than that, or in a circle.
    RedirectLimit,
    /// Not at all: no name, no connection, no TLS, no whole answer in time, an address that is not dialled.
    Unreachable,
}

/// What is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The rules in the answer.
    Rules,
    /// The rules of the last good answer.
    LastRules,
    /// No rules: everything is allowed.
    AllowAll,
    /// Nothing may be fetched.
    DisallowAll,
}

/// Says what is in force after an answer. `last_good` tells whether an older copy exists, `unreachable_for` since when
/// there has been no answer.
pub fn in_force(answer: Answer, last_good: bool, unreachable_for: Duration, settings: &Settings) -> Policy {
    match answer {
        Answer::Status(200..=299) => Policy::Rules,
        // Nothing has changed since the copy we hold.
        Answer::Status(304) if last_good => Policy::LastRules,
        Answer::Status(401 | 403) if settings.denied == Denied::Disallow => Policy::DisallowAll,
        // 429 asks us to wait; it does not say that there are no rules.
        // A 304 without a copy says as little as no answer.
        Answer::Status(300..=303 | 305..=428 | 430..=499) | Answer::RedirectLimit => Policy::AllowAll,
        Answer::Status(500..) if planted::is(Bug::RobotsErrorAllows) => Policy::AllowAll,
        Answer::Status(_) | Answer::Unreachable => {
            if last_good {
                Policy::LastRules
            } else if settings.unreachable_then_allow && unreachable_for >= UNREACHABLE_MAX {
                Policy::AllowAll
            } else {
                Policy::DisallowAll
            }
        }
    }
}

/// When to fetch the file again, given the `max-age` it came with; zero stands for `no-store` and its kind.
pub fn refetch_after(max_age: Option<Duration>) -> Duration {
    max_age.unwrap_or(REFETCH_AFTER_MAX).clamp(REFETCH_AFTER_MIN, REFETCH_AFTER_MAX)
}

/// The rest between two fetches from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Wait this long.
    Wait(Duration),
    /// The site asks for more than we wait for: park it, and say so. Holds what it asked for.
    Park(Duration),
}

/// Our own rest, or the site's if it is longer.
pub fn rest_in_force(ours: Duration, crawl_delay: Option<Duration>) -> Rest {
    match crawl_delay {
        Some(theirs) if theirs > CRAWL_DELAY_MAX && theirs > ours => Rest::Park(theirs),
        Some(theirs) => Rest::Wait(ours.max(theirs)),
        None => Rest::Wait(ours),
    }
}
