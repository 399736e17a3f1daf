//! Retries: from how a fetch ended to what happens to its URL and its host.
//!
//! The outcome's own table ([`crate::spider::outcome`]) says *whether* a URL is asked for again; this file says *when*,
//! how often, and how long the whole host rests. Waits grow by a factor with each failure in a row, are moved a little
//! by jitter so that what failed together does not come back together, and end at a maximum. The jitter comes from a
//! salt (the URL's key), so the same log gives the same state.
//!
//! `Retry-After` is a floor under both waits, jitter comes on top of it. It is believed up to `retry_after_max`: a site
//! that asks for ten years is asked again after a day, gets one request, and may ask for its ten years again.
//!
//! What always holds: a wait never gets shorter with more failures; it is never below what the site asked for, up to the
//! cap; it is never above the maximum plus jitter; what is our own fault counts against nobody.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::spider::{Action, Class, Outcome};

/// When a failed URL is asked for again. Section `[retry]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Times a URL is asked for again after its first failure, before it is given up.
    pub retries_max: u8,
    /// The same for what is broken rather than busy: bad framing, bad certificates, redirect loops.
    pub retries_broken_max: u8,
    /// First wait of a URL after 429, 503 or a time-out while reading.
    #[serde(with = "humantime_serde")]
    pub back_off_first: Duration,
    /// First wait after names and connections that failed and other answers 5xx. Also the first rest of a host whose
    /// name, connection or handshake failed, or whose robots.txt cannot be read.
    #[serde(with = "humantime_serde")]
    pub back_off_other_first: Duration,
    /// First wait after what is broken.
    #[serde(with = "humantime_serde")]
    pub back_off_broken_first: Duration,
    /// Each further wait is this many times the one before.
    pub back_off_factor: u32,
    /// No wait of our own choosing is longer, jitter aside.
    #[serde(with = "humantime_serde")]
    pub back_off_max: Duration,
    /// First rest of a whole host after 429 or 503 without `Retry-After`. Grows by `back_off_factor` with each failure
    /// of the host in a row.
    #[serde(with = "humantime_serde")]
    pub host_rest_first: Duration,
    /// The longest such rest, jitter aside.
    #[serde(with = "humantime_serde")]
    pub host_rest_max: Duration,
    /// Rest of a host that answered with a challenge for browsers. We do not solve them.
    #[serde(with = "humantime_serde")]
    pub challenge_rest: Duration,
    /// A longer `Retry-After` is taken as this long.
    #[serde(with = "humantime_serde")]
    pub retry_after_max: Duration,
    /// Wait after a failure of our own: no file handles, no resolver, a proxy that is away. No retry is counted.
    #[serde(with = "humantime_serde")]
    pub pause: Duration,
    /// Each wait is made longer by up to this many hundredths of itself. At most 100.
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

/// What happens to a URL next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlNext {
    /// It is done until its schedule says otherwise.
    Done,
    /// It is never asked for again, unless the operator changes the rules.
    Never,
    /// It is asked for again.
    Again {
        /// Not before this long from now.
        after: Duration,
    },
    /// It failed too often. Its schedule, if it has one, may bring it back.
    GiveUp,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// To the URL.
    pub url: UrlNext,
    /// The retries to remember with the URL.
    pub retries: u8,
    /// How long the whole host rests. A rest that the host already has and that ends later stays.
    pub host_rest: Option<Duration>,
}

impl Next {
    /// The URL is asked for again as soon as its host has rested.
    pub(super) fn soon(retries: u8) -> Next {
        Next { url: UrlNext::Again { after: Duration::ZERO }, retries, host_rest: None }
    }
}

/// What an operator stopped is looked at again after this long: that costs an entry for each of its URLs at hand.
pub const STOPPED_AGAIN: Duration = Duration::from_secs(600);

/// What happens after this outcome.
///
/// `retries` is how often the URL was asked for again so far, `host_failures` how many fetches from the host failed in a
/// row before this one; `retry_after` is what the site asked for, `salt` anything that differs from URL to URL.
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
    // The URL was not asked for, so nothing is held against it; it waits as long as its host does.
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

/// Which of the three first waits applies.
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

/// How long the host rests, before floor and jitter. None where the fault may lie with the one URL.
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

/// Whether every other URL of the host would have ended the same way: nobody can be reached, or nobody can be trusted,
/// under this name. Ten thousand URLs of a dead name are then one look-up, and not ten thousand.
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

    /// The wait after this many earlier failures.
    fn grown(&self, first: Duration, failures: u8, max: Duration) -> Duration {
        let mut wait = first.min(max);
        for _ in 0..failures {
            wait = wait.saturating_mul(self.back_off_factor.max(1)).min(max);
        }
        wait
    }

    /// A little longer, by a share that depends on the salt alone: the order of two waits stays.
    fn jitter(&self, wait: Duration, salt: u64) -> Duration {
        let share = u128::from(mix(salt) >> 32) * u128::from(self.jitter_percent.min(100));
        // A wait of more than 584 years is jittered as if it were that long.
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
