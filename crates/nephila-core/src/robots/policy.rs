//! The policy in force for a site, given how the fetch of its robots.txt ended; how long a copy is cached; the crawl
//! delay.
//!
//! Invariants: a file that could not be reached forbids everything (RFC 9309, 2.3.1.4) unless an older copy exists; a
//! site never makes us faster than our own delay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::planted::{self, Bug};

/// Maximum number of redirects that are followed to a robots.txt (RFC 9309, 2.3.1.2).
pub const REDIRECTS_MAX: usize = 5;

/// Maximum time for which a cached copy is used (RFC 9309, 2.4).
pub const REFETCH_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Minimum time for which a cached copy is used, whatever the site's cache rules say.
pub const REFETCH_AFTER_MIN: Duration = Duration::from_secs(10 * 60);

/// Maximum `Crawl-delay` that `nephila fetch` waits for. A crawl waits as long as the site asks, and reports the delay.
pub const CRAWL_DELAY_MAX: Duration = Duration::from_secs(300);

/// After this time without a response the operator's setting decides (RFC 9309, 2.3.1.4).
pub const UNREACHABLE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The operator's choices where the RFC leaves a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The meaning of 401 and 403.
    pub denied: Denied,
    /// Whether to crawl a site whose robots.txt has been unreachable for 30 days.
    pub unreachable_then_allow: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { denied: Denied::Allow, unreachable_then_allow: false }
    }
}

/// The meaning of 401 and 403 for a robots.txt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denied {
    /// There are no rules, as for every other 4xx (RFC 9309, 2.3.1.3).
    #[default]
    Allow,
    /// Stricter: a site that hides its rules wants no visitors.
    Disallow,
}

/// How the fetch of a robots.txt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsResult {
    /// With this status, after at most [`REDIRECTS_MAX`] redirects. A redirect without a usable target is its own
    /// status.
    Status(u16),
    /// With more redirects than that, or in a loop.
    RedirectLimit,
    /// Without a complete response: no name, no connection, no TLS, a timeout, an address that is not dialled.
    Unreachable,
}

/// The policy in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The rules of the response.
    Rules,
    /// The rules of the last good response.
    LastRules,
    /// No rules: everything is allowed.
    AllowAll,
    /// Nothing may be fetched.
    DisallowAll,
}

/// The policy in force after an answer. `last_good` tells whether an older copy exists, `unreachable_for` for how long
/// there has been no response.
pub fn in_force(
    answer: RobotsResult,
    last_good: bool,
    unreachable_for: Duration,
    settings: &Settings,
) -> Policy {
    match answer {
        RobotsResult::Status(200..=299) => Policy::Rules,
        // Nothing has changed since the cached copy.
        RobotsResult::Status(304) if last_good => Policy::LastRules,
        RobotsResult::Status(401 | 403) if settings.denied == Denied::Disallow => Policy::DisallowAll,
        // 429 asks us to wait, and does not mean that there are no rules. A 304 without a copy counts as no response.
        RobotsResult::Status(300..=303 | 305..=428 | 430..=499) | RobotsResult::RedirectLimit => {
            Policy::AllowAll
        }
        RobotsResult::Status(500..) if planted::is(Bug::RobotsErrorAllows) => Policy::AllowAll,
        RobotsResult::Status(_) | RobotsResult::Unreachable => {
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

/// When to fetch the file again, given its `max-age`; zero stands for `no-store` and similar.
pub fn refetch_after(max_age: Option<Duration>) -> Duration {
    max_age.unwrap_or(REFETCH_AFTER_MAX).clamp(REFETCH_AFTER_MIN, REFETCH_AFTER_MAX)
}

/// The rest between two fetches from a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Wait this long.
    Wait(Duration),
    /// The site asks for more than the maximum: park the host, and report that. Holds the requested delay.
    Park(Duration),
}

/// Our own delay, or the site's if longer.
pub fn rest_in_force(ours: Duration, crawl_delay: Option<Duration>) -> Rest {
    match crawl_delay {
        Some(theirs) if theirs > CRAWL_DELAY_MAX && theirs > ours => Rest::Park(theirs),
        Some(theirs) => Rest::Wait(ours.max(theirs)),
        None => Rest::Wait(ours),
    }
}
