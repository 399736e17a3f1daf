//! Time as an argument: the core never reads a clock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Wall-clock time in milliseconds since 1970, UTC. Used in logs, records and indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// From whole seconds since 1970.
    pub const fn from_secs(secs: u64) -> Self {
        Timestamp(secs * 1_000)
    }

    /// In WARC format: `2026-11-14T22:58:09Z`. Whole seconds, because every reader accepts them.
    pub fn warc_date(self) -> String {
        ascii(&self.warc_date_bytes())
    }

    /// The text of [`Timestamp::warc_date`], without an allocation.
    pub fn warc_date_bytes(self) -> [u8; 20] {
        dashed(self.digits().first_chunk().expect("fourteen of seventeen"))
    }

    /// Fourteen digits, in CDX format: `20261114225809`.
    pub fn digits14(self) -> String {
        ascii(&self.digits()[..14])
    }

    /// Seventeen digits, with milliseconds: the time part of an archive file's name.
    pub fn digits17(self) -> String {
        ascii(&self.digits())
    }

    fn digits(self) -> [u8; 17] {
        let t = self.civil();
        let mut out = [0; 17];
        put_digits(&mut out[..4], i64::from(t.year()));
        put_digits(&mut out[4..6], i64::from(t.month()));
        put_digits(&mut out[6..8], i64::from(t.day()));
        put_digits(&mut out[8..10], i64::from(t.hour()));
        put_digits(&mut out[10..12], i64::from(t.minute()));
        put_digits(&mut out[12..14], i64::from(t.second()));
        put_digits(&mut out[14..], (self.0 % 1_000) as i64);
        out
    }

    fn civil(self) -> jiff::civil::DateTime {
        // A u64 of milliseconds reaches past the year 9999, which our formats cannot represent; such a time is clamped.
        let ms = i64::try_from(self.0).unwrap_or(i64::MAX).min(253_402_207_200_000 - 1);
        let time = jiff::Timestamp::from_millisecond(ms).expect("clamped into range above");
        jiff::tz::Offset::UTC.to_datetime(time)
    }
}

/// Fourteen digits of a date in WARC format.
pub(crate) fn dashed(digits: &[u8; 14]) -> [u8; 20] {
    let mut out = *b"0000-00-00T00:00:00Z";
    for (to, from) in [(0, 0..4), (5, 4..6), (8, 6..8), (11, 8..10), (14, 10..12), (17, 12..14)] {
        out[to..to + from.len()].copy_from_slice(&digits[from]);
    }
    out
}

/// Fills this place with the last digits of a number.
pub(crate) fn put_digits(out: &mut [u8], mut number: i64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// A text of ASCII bytes.
pub(crate) fn ascii(text: &[u8]) -> String {
    text.iter().map(|byte| char::from(*byte)).collect()
}

/// Whole seconds since the beginning of 2020, UTC: kept for each of 10^12 URLs. Lasts until 2156.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seconds(pub u32);

impl Seconds {
    /// 2020-01-01T00:00:00Z in seconds since 1970.
    const EPOCH: u64 = 1_577_836_800;

    /// This duration later, saturating.
    pub fn plus(self, after: std::time::Duration) -> Seconds {
        // Rounded up: an event that must not happen before a moment does not happen in its second.
        let secs = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        Seconds(self.0.saturating_add(u32::try_from(secs).unwrap_or(u32::MAX)))
    }
}

impl From<Timestamp> for Seconds {
    fn from(time: Timestamp) -> Seconds {
        let secs = (time.0 / 1_000).saturating_sub(Self::EPOCH);
        Seconds(u32::try_from(secs).unwrap_or(u32::MAX))
    }
}

impl From<Seconds> for Timestamp {
    fn from(seconds: Seconds) -> Timestamp {
        Timestamp::from_secs(Seconds::EPOCH + u64::from(seconds.0))
    }
}

/// The two clocks at one moment. Crawl delays and deadlines use `mono`, which is monotonic whatever happens to the
/// machine's clock; logs and records carry `wall`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a monotonic clock, from any beginning; without a meaning outside the process.
    pub mono: u64,
    /// The time of day.
    pub wall: Timestamp,
}

/// If the clock is set back by at most this, dates stand still until the clock catches up. Clocks kept right over the
/// network step by less.
pub const HELD_MS_MAX: u64 = 2 * 60 * 1_000;

/// Dates for logs and records, from a clock that may be set back.
///
/// If the clock is set back a little, dates stand still until the clock catches up. If set back by more than
/// [`HELD_MS_MAX`], dates follow the clock: the time before was wrong, and dates that stood still for a day would be
/// wrong as well. The archive then begins a new file (see [`roll::is_set_back`](crate::store::roll::is_set_back)).
#[derive(Debug, Default)]
pub struct Forward {
    last: Timestamp,
}

impl Forward {
    /// The date for this time of day.
    pub fn date(&mut self, wall: Timestamp) -> Timestamp {
        let back = self.last.0.saturating_sub(wall.0);
        if back == 0 || back > HELD_MS_MAX {
            self.last = wall;
        }
        self.last
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.warc_date())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_ways_to_write_one_moment() {
        let t = Timestamp(1_794_697_089_123);
        assert_eq!(t.warc_date(), "2026-11-14T22:58:09Z");
        assert_eq!(t.digits14(), "20261114225809");
        assert_eq!(t.digits17(), "20261114225809123");
    }

    #[test]
    fn the_end_of_time_does_not_panic() {
        assert_eq!(&Timestamp(u64::MAX).warc_date()[..4], "9999");
        assert_eq!(Timestamp(0).warc_date(), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_date_is_written_in_each_form() {
        for (ms, date, digits) in [
            (0, "1970-01-01T00:00:00Z", "19700101000000000"),
            (1_794_696_689_007, "2026-11-14T22:51:29Z", "20261114225129007"),
            (1_709_164_800_999, "2024-02-29T00:00:00Z", "20240229000000999"),
            (u64::MAX, "9999-12-30T21:59:59Z", "99991230215959615"),
        ] {
            let time = Timestamp(ms);
            assert_eq!(time.warc_date(), date);
            assert_eq!(time.digits17(), digits);
            assert_eq!(time.digits14(), digits[..14]);
        }
    }

    /// A clock that shows these seconds, and the resulting dates.
    fn check(clock: &[(u64, u64)]) {
        let mut dates = Forward::default();
        for (wall, date) in clock {
            assert_eq!(dates.date(Timestamp::from_secs(*wall)), Timestamp::from_secs(*date), "{clock:?}");
        }
    }

    #[test]
    fn sto_22_dates_wait_for_a_clock_that_is_set_back_a_little() {
        check(&[(1_000, 1_000), (940, 1_000), (999, 1_000), (1_000, 1_000), (1_001, 1_001)]);
        // Small steps add up to too much: the distance between dates and clock counts.
        check(&[(1_000, 1_000), (940, 1_000), (880, 1_000), (879, 879), (880, 880)]);
    }

    #[test]
    fn sto_22_dates_follow_a_clock_that_was_wrong_by_a_day() {
        check(&[(100_000, 100_000), (186_400, 186_400), (100_001, 100_001), (100_002, 100_002)]);
    }
}
