//! Budgets: how many URLs of one registrable domain may be queued and what happens to the others, and how many bytes
//! one host may send in a day.
//!
//! A domain begins with `domain_urls` and earns `domain_urls_per_day` from the moment its first URL was found. A URL
//! within the budget is queued. A URL beyond the budget is **parked**: the URL stays on disk and comes back when the
//! budget has grown. So a trap or a giant site costs disk, and neither memory nor other sites' turns. The first parked
//! URLs keep their text; beyond `parked_text_max` of them only a fingerprint of 9 bytes is kept, which is enough to
//! recognize the URL when the URL is found again.
//!
//! A host that has sent its [share of bytes](Settings::host_bytes_per_day) rests until the end of the day in UTC. The
//! page that exhausts the share is kept whole, and counts when the page is reported. So requests under way until then,
//! and the few requests that start while the page is being stored, exceed the share.
//!
//! Invariants: no URL is dropped; a budget never shrinks as time passes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::codec::{Damaged, Reader, put_u64};
use crate::time::Seconds;

/// Limits on the share of the crawl that one domain may take. Section `[budget]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// URLs of one registrable domain that are queued from the start. URLs beyond are parked, never dropped.
    pub domain_urls: u64,
    /// Daily growth of a domain's budget, in URLs, counted from the time the domain was first found.
    pub domain_urls_per_day: u64,
    /// Maximum number of parked URLs of one domain that keep their text. Beyond that only a fingerprint is kept: such
    /// URLs come back when they are found again.
    pub parked_text_max: u64,
    /// Bytes that one host may send per day, robots.txt not counted. After that the host rests until the next day
    /// (UTC); 0 means no limit.
    pub host_bytes_per_day: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            domain_urls: 100_000,
            domain_urls_per_day: 10_000,
            parked_text_max: 100_000,
            // A page of 200 kB in each second of the day: only large files reach this limit.
            host_bytes_per_day: 20_000_000_000,
        }
    }
}

impl Settings {
    /// Number of URLs of a domain that may have been queued by now. Times are in seconds of one clock. The operator's
    /// own figure for the domain replaces base and growth together; 0 parks everything that is found from now on.
    pub fn allowed(&self, first_found: u32, now: u32, own: Option<u64>) -> u64 {
        if let Some(own) = own {
            return own;
        }
        // A clock that went back earns nothing and takes nothing.
        let age = u64::from(now.saturating_sub(first_found));
        // In 128 bits, since a large configured figure times 136 years does not fit 64 bits.
        let earned = u128::from(age) * u128::from(self.domain_urls_per_day) / u128::from(DAY);
        self.domain_urls.saturating_add(u64::try_from(earned).unwrap_or(u64::MAX))
    }

    /// When a domain that has queued `admitted` URLs may queue one more, if time alone allows one.
    pub fn grows_at(&self, first_found: u32, admitted: u64, own: Option<u64>) -> Option<u32> {
        if own.is_some() || self.domain_urls_per_day == 0 {
            return None;
        }
        let missing = u128::from(admitted) + 1 - u128::from(self.domain_urls.min(admitted));
        let age = (missing * u128::from(DAY)).div_ceil(u128::from(self.domain_urls_per_day));
        first_found.checked_add(u32::try_from(age).ok()?)
    }
}

/// The decision about a new URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The URL is queued.
    Queue,
    /// The URL is over the budget and waits on disk, with its text.
    Park,
    /// The URL is over the budget, and so are many others: only its fingerprint is kept.
    ParkBare,
}

impl Admission {
    /// The name of the counter.
    pub const fn name(self) -> &'static str {
        match self {
            Admission::Queue => "queued",
            Admission::Park => "parked",
            Admission::ParkBare => "parked-bare",
        }
    }
}

/// Decides about a new URL of a domain that has queued `admitted` URLs so far, holds `parked_with_text` parked URLs
/// with their text, and may have `allowed` (see [`Settings::allowed`]).
pub fn admit(admitted: u64, parked_with_text: u64, allowed: u64, settings: &Settings) -> Admission {
    if admitted < allowed {
        Admission::Queue
    } else if parked_with_text < settings.parked_text_max {
        Admission::Park
    } else {
        Admission::ParkBare
    }
}

/// Number of parked URLs of a domain that may be queued now. They go before newly found URLs, which are younger.
pub fn room(admitted: u64, allowed: u64) -> u64 {
    allowed.saturating_sub(admitted)
}

/// The bytes that a host has sent on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Days since the beginning of [`Seconds`].
    day: u32,
    bytes: u64,
}

impl Spent {
    /// Counts bytes sent by the host. A clock that went back by one day does not start that day again. If the clock
    /// went back by more, the recorded day was wrong and is replaced: otherwise that day would end in years.
    pub fn take(&mut self, at: Seconds, bytes: u64) {
        let day = at.0 / DAY as u32;
        if day > self.day || self.day > day + 1 {
            *self = Spent { day, bytes: 0 };
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The rest of a host that has sent its share, until the end of the day.
    pub fn rest(&self, settings: &Settings, now: Seconds) -> Option<Duration> {
        let over = settings.host_bytes_per_day > 0 && self.bytes >= settings.host_bytes_per_day;
        let ends = (u64::from(self.day) + 1) * DAY;
        over.then(|| Duration::from_secs(ends.saturating_sub(u64::from(now.0))))
            .filter(|rest| !rest.is_zero())
    }

    /// Whether the host has sent nothing.
    pub(crate) fn is_none(&self) -> bool {
        *self == Spent::default()
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.day.into());
        put_u64(out, self.bytes);
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Spent, Damaged> {
        Ok(Spent { day: reader.u32("day of a host")?, bytes: reader.u64("bytes of a host")? })
    }
}

/// One day, in seconds.
const DAY: u64 = 24 * 3600;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Settings =
        Settings { domain_urls: 10, domain_urls_per_day: 24, parked_text_max: 3, host_bytes_per_day: 1_000 };

    #[test]
    fn a_host_that_sent_its_share_rests_until_the_day_is_over() {
        let noon = Seconds(10 * 86_400 + 43_200);
        let mut spent = Spent::default();
        spent.take(noon, 999);
        assert_eq!(spent.rest(&SMALL, noon), None);
        spent.take(noon, 1);
        assert_eq!(spent.rest(&SMALL, noon), Some(Duration::from_secs(43_200)));
        assert_eq!(spent.rest(&Settings { host_bytes_per_day: 0, ..SMALL }, noon), None, "no limit");
        assert_eq!(spent.rest(&SMALL, Seconds(11 * 86_400)), None, "the next day");
        spent.take(Seconds(9 * 86_400), 5);
        assert!(spent.rest(&SMALL, noon).is_some(), "a clock that went back brings no day back");
        spent.take(Seconds(11 * 86_400), 5);
        assert_eq!(spent.rest(&SMALL, Seconds(11 * 86_400)), None, "a new day begins with nothing");
        let mut bytes = Vec::new();
        spent.put(&mut bytes);
        assert_eq!(Spent::read(&mut Reader::new(&bytes)), Ok(spent));
    }

    #[test]
    fn a_day_that_a_wrong_clock_named_is_over_once_the_clock_is_right() {
        let (wrong, noon) = (Seconds(6_000 * 86_400), Seconds(10 * 86_400 + 43_200));
        let mut spent = Spent::default();
        spent.take(wrong, 1_000);
        spent.take(noon, 999);
        assert_eq!(spent.rest(&SMALL, noon), None);
        spent.take(noon, 1);
        assert_eq!(spent.rest(&SMALL, noon), Some(Duration::from_secs(43_200)), "today, and not for years");
    }

    #[test]
    fn trp_01_trp_02_trp_09_a_maze_is_parked_beyond_its_budget_and_nothing_is_dropped() {
        let (mut queued, mut parked, mut bare) = (0, 0, 0);
        for _ in 0..1_000 {
            match admit(queued, parked, SMALL.allowed(0, 0, None), &SMALL) {
                Admission::Queue => queued += 1,
                Admission::Park => parked += 1,
                Admission::ParkBare => bare += 1,
            }
        }
        assert_eq!((queued, parked, bare), (10, 3, 987));
    }

    #[test]
    fn a_budget_grows_with_every_hour() {
        for (now, allowed) in [(100, 10), (100 + 3_599, 10), (100 + 3_600, 11), (100 + 86_400, 34)] {
            assert_eq!(SMALL.allowed(100, now, None), allowed, "{now}");
        }
        assert_eq!(room(10, SMALL.allowed(100, 100 + 7_200, None)), 2);
        assert_eq!(room(10, 3), 0);
    }

    #[test]
    fn the_moment_of_the_next_one_is_known() {
        for admitted in 10..40 {
            let at = SMALL.grows_at(100, admitted, None).unwrap();
            assert!(SMALL.allowed(100, at, None) > admitted && SMALL.allowed(100, at - 1, None) <= admitted);
        }
        assert_eq!(SMALL.grows_at(100, 10, Some(10)), None, "an operator's figure does not grow");
        assert_eq!(Settings { domain_urls_per_day: 0, ..SMALL }.grows_at(100, 10, None), None);
        assert_eq!(SMALL.grows_at(100, u64::MAX, None), None, "not in our time");
    }

    #[test]
    fn a_clock_that_went_back_takes_nothing() {
        assert_eq!(SMALL.allowed(5_000, 10, None), 10);
    }

    #[test]
    fn the_operator_has_the_last_word() {
        assert_eq!(SMALL.allowed(0, u32::MAX, Some(7)), 7);
        assert_eq!(admit(0, 0, SMALL.allowed(0, 0, Some(0)), &SMALL), Admission::Park);
    }

    #[test]
    fn settings_with_a_slip_are_refused() {
        assert!(serde_json::from_str::<Settings>(r#"{"domain_url": 5}"#).is_err());
        assert_eq!(serde_json::from_str::<Settings>("{}").unwrap(), Settings::default());
    }

    proptest! {
        #[test]
        fn a_budget_never_shrinks_while_time_goes_on(first: u32, a: u32, b: u32, base: u64, day: u64) {
            let settings = Settings { domain_urls: base, domain_urls_per_day: day, ..SMALL };
            let (early, late) = (a.min(b), a.max(b));
            prop_assert!(settings.allowed(first, early, None) <= settings.allowed(first, late, None));
            prop_assert!(settings.allowed(first, early, None) >= base);
        }
    }
}
