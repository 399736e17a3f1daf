//! When a page is fetched again.
//!
//! Once, at a fixed interval, or **adaptive**: [`rate`] estimates from past visits how often a page changes, and a
//! visit is due when its expected gain is large enough. The gain of a visit is the time for which the page is current
//! because of the visit. For a page that changes at the rate l, last visited t ago, the gain is
//!
//! ```text
//! gain(l, t) = (1 - (1 + l t) e^(-l t)) / l
//! ```
//!
//! which grows with t up to 1/l: a page that changes every minute gains a minute at most, however long we wait. With
//! the same least gain for all pages, a **price**, no other plan with as many fetches keeps more pages current (each
//! page changing by chance, at its rate). [`price_next`] raises the price while there is more to do than can be done,
//! and the same gain can order waiting visits when politeness lets only some of them through. The frontier plans with
//! the fixed price [`Settings::price_first`].
//!
//! Strictly, a page whose 1/l is below the price is never visited again. That is the best for the share of pages that
//! are current and the worst for every reader of that page, so its rate is limited to half of one over the price. The
//! limit costs 3 % of that share and keeps delays short.
//!
//! [`trust`] decides the kind of request: with validators, by HEAD, or in full, and when not to believe the answer.
//! [`claims`] rates how reliable the modification dates in a site's sitemaps are.
//!
//! Invariants: the adaptive [`interval`] lies between `interval_min` and `interval_max` (the booked time of a host may
//! delay the visit further); only additions, products, quotients and roots are used, so that every machine plans
//! alike.

pub mod claims;
pub mod rate;
pub mod trust;
pub mod visited;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::rate::{Seen, Site, exp_neg};

/// How the pages of a job are visited again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Never.
    #[default]
    Once,
    /// At a fixed interval.
    Fixed,
    /// By how often each page changes.
    Adaptive,
}

/// How pages are visited again. Section `[recrawl]` of the settings file, and part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Revisit policy: `once`, `fixed`, or `adaptive`, by how often each page changes. `crawl.again_every` overrides
    /// the policy where it is not `0s`.
    pub policy: Policy,
    /// Revisit interval of the fixed policy, and starting point of the adaptive policy.
    #[serde(with = "humantime_serde")]
    pub interval: Duration,
    /// Minimum revisit interval of the adaptive policy.
    #[serde(with = "humantime_serde")]
    pub interval_min: Duration,
    /// Maximum revisit interval of the adaptive policy.
    #[serde(with = "humantime_serde")]
    pub interval_max: Duration,
    /// Planned revisits per host and day. Each visit to a page that was visited before books one part in this number
    /// of its host's day, and the adaptive policy plans the next visit of a page behind the booked time, by a year at
    /// most; 0 is no limit. A host with many pages then waits longer than `interval_max`. First visits book nothing,
    /// and pages that a sitemap, a feed or a stream brings forward do not wait.
    pub host_visits_per_day: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let hours = |hours: u64| Duration::from_secs(3_600 * hours);
        Settings {
            policy: Policy::Once,
            interval: hours(24),
            interval_min: hours(1) / 2,
            interval_max: hours(60 * 24),
            host_visits_per_day: 10_000,
        }
    }
}

impl Settings {
    /// The seconds of a host's day that one visit books; 0 if there is no limit.
    pub fn host_visit_seconds(&self) -> u32 {
        match self.host_visits_per_day {
            0 => 0,
            // Rounded up: with less than its part for each visit there would be more of them in a day.
            visits => DAY.div_ceil(visits),
        }
    }

    /// The price at which a page that changes once in the interval is visited once in the interval: the start of the
    /// adaptive policy.
    pub fn price_first(&self) -> f64 {
        let interval = self.interval.as_secs_f64().max(1.0);
        gain(1.0 / interval, interval)
    }
}

/// The time until a page is visited again; none for never. The price is in seconds.
pub fn interval(settings: &Settings, page: &Seen, site: &Site, price: f64) -> Option<Duration> {
    match settings.policy {
        Policy::Once => None,
        Policy::Fixed => Some(settings.interval),
        Policy::Adaptive => {
            let seconds = best_interval(page.rate(site), price);
            let (min, max) = (settings.interval_min.as_secs_f64(), settings.interval_max.as_secs_f64());
            // Whole seconds: no stored time has a rounding of its own.
            Some(Duration::from_secs(seconds.min(max).max(min) as u64))
        }
    }
}

/// The seconds for which a page is expected to be current because of a visit now, at this rate (changes a second),
/// last visited `since` seconds ago.
pub fn gain(rate: f64, since: f64) -> f64 {
    if rate <= 0.0 || since <= 0.0 {
        return 0.0;
    }
    share(rate * since) / rate
}

/// The number of seconds after which a visit is worth its price.
fn best_interval(rate: f64, price: f64) -> f64 {
    let price = price.clamp(PRICE_MIN, PRICE_MAX);
    let rate = rate.clamp(RATE_MIN, SHARE_MAX / price);
    share_inverse(rate * price) / rate
}

/// 1 - (1 + r) e^-r: from 0 to 1.
fn share(r: f64) -> f64 {
    if r < 0.05 {
        // The difference of two numbers near 1 has few digits left.
        return r * r * (0.5 - r / 3.0 + r * r / 8.0);
    }
    1.0 - (1.0 + r) * exp_neg(r)
}

/// The inverse of [`share`], for shares up to [`SHARE_MAX`]: Newton's method, starting where small shares are exact.
fn share_inverse(share_wanted: f64) -> f64 {
    let mut r = (2.0 * share_wanted).sqrt();
    for _ in 0..NEWTON_STEPS {
        let slope = r * exp_neg(r);
        if slope <= 0.0 {
            break;
        }
        r += (share_wanted - share(r)) / slope;
    }
    r
}

/// The next price, if the present price needs `needed` fetches a second and `possible` can be made. To be called now
/// and then; each call changes the price by a factor of two at most.
pub fn price_next(price: f64, needed: f64, possible: f64) -> f64 {
    if needed <= 0.0 || possible <= 0.0 {
        return price.clamp(PRICE_MIN, PRICE_MAX);
    }
    (price * (needed / possible).clamp(0.5, 2.0)).clamp(PRICE_MIN, PRICE_MAX)
}

/// Seconds of a day.
const DAY: u32 = 86_400;

/// Rates are limited to this share of one over the price.
const SHARE_MAX: f64 = 0.5;

/// Once in 30 years: a page that never changes.
const RATE_MIN: f64 = 1e-9;

/// Enough for shares up to [`SHARE_MAX`]: the last step changes the ninth digit.
const NEWTON_STEPS: usize = 5;

/// A second, and a year.
const PRICE_MIN: f64 = 1.0;
const PRICE_MAX: f64 = 365.0 * 86_400.0;

#[cfg(test)]
mod tests;
