//! Retry and backoff: maps the outcome of a fetch to the next steps for its URL and its host.
//!
//! The table of outcomes ([`crate::spider::outcome`]) says *whether* a URL is retried; this module says *when*, how
//! often, and how long the whole host rests. Waits grow by a factor with each consecutive failure, are spread by jitter
//! so that URLs that failed together do not come back together, and end at a maximum. The jitter comes from a salt (the
//! URL's key), so the replay of a log gives the same state.
//!
//! `Retry-After` is a lower bound of both waits; jitter is added on top. The value is capped at `retry_after_max`: a
//! site that demands ten years gets one request after a day, and may demand its ten years again.
//!
//! Invariants: a wait never gets shorter with more failures; a wait is never below the site's `Retry-After`, up to the
//! cap; a wait is never above the maximum plus jitter; a failure of our own counts against neither URL nor host.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::spider::{Action, Class, Outcome};

/// Retry and backoff of failed URLs. Section `[retry]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Maximum number of retries of a URL after its first failure.
    pub retries_max: u8,
    /// Maximum number of retries after permanent-looking faults: bad framing, bad certificates, redirect loops.
    pub retries_broken_max: u8,
    /// First backoff of a URL after 429, 503 or a timeout while reading.
    #[serde(with = "humantime_serde")]
    pub back_off_first: Duration,
    /// First backoff after a failed name resolution or connection, and after other 5xx answers. Also the first rest of
    /// a host whose name, connection or handshake failed, or whose robots.txt cannot be read.
    #[serde(with = "humantime_serde")]
    pub back_off_other_first: Duration,
    /// First backoff after permanent-looking faults (see `retries_broken_max`).
    #[serde(with = "humantime_serde")]
    pub back_off_broken_first: Duration,
    /// Backoff factor: each further wait is this many times the one before.
    pub back_off_factor: u32,
    /// Maximum backoff, without jitter. `Retry-After` may demand more, up to `retry_after_max`.
    #[serde(with = "humantime_serde")]
    pub back_off_max: Duration,
    /// First rest of a whole host after 429 or 503 without `Retry-After`. Grows by `back_off_factor` with each
    /// consecutive failure of the host.
    #[serde(with = "humantime_serde")]
    pub host_rest_first: Duration,
    /// Maximum rest of a host after 429 or 503, without jitter.
    #[serde(with = "humantime_serde")]
    pub host_rest_max: Duration,
    /// Rest of a host that answered with a challenge for browsers. The crawler does not solve challenges.
    #[serde(with = "humantime_serde")]
    pub challenge_rest: Duration,
    /// Maximum accepted `Retry-After`. A longer value is shortened to this.
    #[serde(with = "humantime_serde")]
    pub retry_after_max: Duration,
    /// Wait after a local failure: no file handles, no resolver, an unavailable proxy. Such a failure counts as no
    /// retry.
    #[serde(with = "humantime_serde")]
    pub pause: Duration,
    /// Maximum jitter, in percent of the wait, added to each wait. At most 100.
    pub jitter_percent: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            retries_max: 5,
            retries_broken_max: 2,
            back_off_first: HOUR,
            back_off_other_first: Duration::from_secs(15 * 60),
            back_off_broken_first: Duration::from_secs(24 * 3600),
            back_off_factor: 2,
            back_off_max: Duration::from_secs(7 * 24 * 3600),
            host_rest_first: Duration::from_secs(60),
            host_rest_max: HOUR,
            challenge_rest: Duration::from_secs(24 * 3600),
            retry_after_max: Duration::from_secs(24 * 3600),
            pause: Duration::from_secs(30),
            jitter_percent: 10,
        }
    }
}

/// The next step for a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlNext {
    /// Done until its schedule is due.
    Done,
    /// Never fetched again, unless the operator changes the rules.
    Never,
    /// Retried.
    Again {
        /// Minimum wait from now.
        after: Duration,
    },
    /// Given up after too many failures. Its schedule, if the job has one, may bring the URL back.
    GiveUp,
}

/// The next steps after an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The next step for the URL.
    pub url: UrlNext,
    /// The retry count to store with the URL.
    pub retries: u8,
    /// The rest of the whole host. A present rest that ends later stays in force.
    pub host_rest: Option<Duration>,
}

impl Next {
    /// The URL is retried as soon as its host has rested.
    pub(super) fn soon(retries: u8) -> Next {
        Next { url: UrlNext::Again { after: Duration::ZERO }, retries, host_rest: None }
    }
}

/// Wait of a URL, or of a host without an address, whose attempt met the stop list. The host is stopped in its log by then,
/// and its URLs are not examined; so this is how long they wait after the stop was removed.
pub const STOPPED_AGAIN: Duration = Duration::from_secs(5);

/// The next steps after this outcome.
///
/// `retries` is the number of retries of the URL so far, `host_failures` the number of consecutive failed fetches from
/// the host before this one. `retry_after` is the `Retry-After` of the site, `salt` any value that differs from URL to
/// URL.
pub fn next(
    outcome: Outcome,
    retries: u8,
    host_failures: u8,
    retry_after: Option<Duration>,
    salt: u64,
    settings: &Settings,
) -> Next {
    let end = |url, retries| Next { url, retries, host_rest: None };
    match outcome.action() {
        Action::Keep | Action::Offer | Action::KeepUnread | Action::Done => end(UrlNext::Done, 0),
        Action::Never => end(UrlNext::Never, 0),
        Action::Pause if outcome == Outcome::StopList => {
            end(UrlNext::Again { after: settings.jitter(STOPPED_AGAIN, salt) }, retries)
        }
        Action::Pause => end(UrlNext::Again { after: settings.jitter(settings.pause, salt) }, retries),
        Action::BackOff | Action::BackOffHost => {
            back_off(outcome, retries, host_failures, retry_after, salt, settings)
        }
    }
}

fn back_off(
    outcome: Outcome,
    retries: u8,
    host_failures: u8,
    retry_after: Option<Duration>,
    salt: u64,
    settings: &Settings,
) -> Next {
    let floor = retry_after.unwrap_or_default().min(settings.retry_after_max);
    let rest = host_rest(outcome, host_failures, settings).map(|rest| rest.max(floor));
    let host_rest = rest.map(|rest| settings.jitter(rest, salt));
    // The URL itself was not requested, so the failure does not count as a retry; the URL waits as long as its host.
    if outcome == Outcome::RobotsUnreachable {
        let after = rest.unwrap_or(settings.back_off_other_first);
        return Next { url: UrlNext::Again { after: settings.jitter(after, salt) }, retries, host_rest };
    }
    let (first, retries_max) = match kind(outcome) {
        Kind::Busy => (settings.back_off_first, settings.retries_max),
        Kind::Other => (settings.back_off_other_first, settings.retries_max),
        Kind::Broken => (settings.back_off_broken_first, settings.retries_broken_max),
    };
    if retries >= retries_max {
        return Next { url: UrlNext::GiveUp, retries, host_rest };
    }
    let wait = settings.grown(first, retries, settings.back_off_max).max(floor).max(rest.unwrap_or_default());
    let url = UrlNext::Again { after: settings.jitter(wait, salt) };
    Next { url, retries: retries + 1, host_rest }
}

/// The class of failure, which selects the first wait.
enum Kind {
    Busy,
    Other,
    Broken,
}

fn kind(outcome: Outcome) -> Kind {
    match outcome {
        Outcome::RateLimited | Outcome::Unavailable | Outcome::Challenged => Kind::Busy,
        Outcome::HeadTimeout | Outcome::TotalTimeout | Outcome::WriteTimeout | Outcome::CutTime => Kind::Busy,
        _ if outcome.class() == Class::Retry => Kind::Other,
        _ => Kind::Broken,
    }
}

/// The rest of the host, before lower bound and jitter. `None` where the fault may concern this URL alone.
fn host_rest(outcome: Outcome, failures: u8, settings: &Settings) -> Option<Duration> {
    match outcome {
        Outcome::Challenged => Some(settings.challenge_rest),
        Outcome::RobotsUnreachable => Some(settings.unreachable_rest(failures)),
        _ if outcome.action() == Action::BackOffHost => {
            Some(settings.grown(settings.host_rest_first, failures, settings.host_rest_max))
        }
        _ if is_about_the_host(outcome) => Some(settings.unreachable_rest(failures)),
        _ => None,
    }
}

/// Whether every other URL of the host would have ended the same way: the server under this name cannot be reached or
/// cannot be trusted. Ten thousand URLs of a dead name then cost one look-up instead of ten thousand.
pub(super) fn is_about_the_host(outcome: Outcome) -> bool {
    use Outcome as O;
    matches!(
        outcome,
        O::DnsNxdomain
            | O::DnsNodata
            | O::DnsServfail
            | O::DnsRefused
            | O::DnsTimeout
            | O::DnsTruncated
            | O::DnsCnameLoop
            | O::DnsNullAddress
            | O::DnsBadAnswer
            | O::ConnectRefused
            | O::ConnectTimeout
            | O::ConnectUnreachable
            | O::TlsExpired
            | O::TlsUntrusted
            | O::TlsName
            | O::TlsCertificate
            | O::TlsVersion
            | O::TlsTimeout
            | O::TlsAlert
            | O::TlsClosed
            | O::TlsProtocol
            | O::Misdirected
    )
}

impl Settings {
    fn unreachable_rest(&self, failures: u8) -> Duration {
        self.grown(self.back_off_other_first, failures, self.back_off_max)
    }

    /// The wait after this number of earlier failures.
    fn grown(&self, first: Duration, failures: u8, max: Duration) -> Duration {
        let mut wait = first.min(max);
        for _ in 0..failures {
            wait = wait.saturating_mul(self.back_off_factor.max(1)).min(max);
        }
        wait
    }

    /// Adds jitter: a share that depends on the salt alone, so the order of two waits stays.
    fn jitter(&self, wait: Duration, salt: u64) -> Duration {
        let share = u128::from(mix(salt) >> 32) * u128::from(self.jitter_percent.min(100));
        // A wait of more than 584 years gets the jitter of 584 years.
        let nanos = wait.as_nanos().min(u128::from(u64::MAX));
        let extra = (nanos * share / 100) >> 32;
        wait.saturating_add(Duration::from_nanos(u64::try_from(extra).unwrap_or(u64::MAX)))
    }
}

/// Spreads neighbouring salts over all values (the finalizer of SplitMix64).
pub(super) fn mix(salt: u64) -> u64 {
    let mut z = salt.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const HOUR: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
