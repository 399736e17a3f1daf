//! Time as the rest of the core sees it: an argument, never a question.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Wall-clock time in milliseconds since 1970, UTC. What logs, records and indexes carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// From whole seconds since 1970.
    pub const fn from_secs(secs: u64) -> Self {
        Timestamp(secs * 1_000)
    }

    /// As WARC writes it: `2026-11-14T22:58:09Z`. Whole seconds, because every reader takes those.
    pub fn warc_date(self) -> String {
        let t = self.civil();
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        )
    }

    /// Fourteen digits, as CDX writes it: `20261114225809`.
    pub fn digits14(self) -> String {
        let t = self.civil();
        format!(
            "{:04}{:02}{:02}{:02}{:02}{:02}",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        )
    }

    /// Seventeen digits, with milliseconds: the time part of an archive file's name.
    pub fn digits17(self) -> String {
        format!("{}{:03}", self.digits14(), self.0 % 1_000)
    }

    fn civil(self) -> jiff::civil::DateTime {
        // A u64 of milliseconds reaches past the year 9999, which no format of ours can write; such a time is clamped.
        let ms = i64::try_from(self.0).unwrap_or(i64::MAX).min(253_402_207_200_000 - 1);
        jiff::Timestamp::from_millisecond(ms)
            .expect("clamped into range above")
            .to_zoned(jiff::tz::TimeZone::UTC)
            .datetime()
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
}
