//! Hours of the day at which a host may be requested.
//!
//! Some sites allow visits at night only, by their own clock. Their hours stand in the settings; all other hosts may be
//! requested at any time. A fetch that begins within the hours may end after them.
//!
//! Invariants: no request begins outside of a host's hours, robots.txt included; hosts that wait for the same hours
//! begin spread over five minutes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::retry::mix;
use crate::stop_list::Target;
use crate::time::Timestamp;

/// Maximum number of entries in the settings: each is checked before every fetch.
pub const HOURS_MAX: usize = 1_000;

/// Hosts begin spread over this number of milliseconds after their hours have begun.
const SPREAD: u64 = 5 * MINUTE;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// Hours at which some hosts may be requested.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hours {
    /// Hosts (`a.example`) and domains with all names below them (`*.a.example`).
    pub hosts: Vec<Target>,
    /// Begin of the hours, such as `22:00`.
    pub from: TimeOfDay,
    /// End of the hours, such as `06:00`; may lie on the next day.
    pub to: TimeOfDay,
    /// Offset of the sites' clocks from UTC, such as `+02:00`. Summer time is not followed.
    #[serde(default)]
    pub offset: Offset,
}

impl Hours {
    /// Checks the hours. They must name hosts or domains, and last at least ten minutes, since hosts begin spread over
    /// time.
    pub fn check(&self) -> Result<(), String> {
        if self.hosts.is_empty() || self.hosts.iter().any(|host| matches!(host, Target::Range(_))) {
            return Err(format!("{self} must name hosts or domains, and no addresses"));
        }
        if self.length() < 2 * SPREAD {
            return Err(format!("{self} must be at least ten minutes"));
        }
        Ok(())
    }

    /// The milliseconds until these hosts may be requested; `None` if they may be requested now.
    pub fn opens_in(&self, now: Timestamp) -> Option<u64> {
        let local = (now.0 % DAY + DAY).saturating_add_signed(self.offset.ms()) % DAY;
        let since = (local + DAY - self.from.ms()) % DAY;
        (since >= self.length()).then(|| DAY - since)
    }

    fn length(&self) -> u64 {
        (self.to.ms() + DAY - self.from.ms()) % DAY
    }

    fn are_of(&self, host: &str) -> bool {
        self.hosts.iter().any(|target| match target {
            Target::Host(name) => name == host,
            Target::Domain(name) => {
                host.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            Target::Range(_) => false,
        })
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} ({})", self.from, self.to, self.offset)
    }
}

/// The hours of a host, if any; the first entry that names the host counts.
pub fn of<'a>(all: &'a [Hours], host: &str) -> Option<&'a Hours> {
    all.iter().find(|hours| hours.are_of(host))
}

/// Delay of a host after the begin of its hours, in milliseconds.
pub fn spread(host: u32) -> u64 {
    mix(host.into()) % SPREAD
}

/// A time of the day, in minutes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeOfDay(u16);

impl TimeOfDay {
    fn ms(self) -> u64 {
        u64::from(self.0) * MINUTE
    }
}

/// A distance from UTC, in minutes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Offset(i16);

impl Offset {
    fn ms(self) -> i64 {
        i64::from(self.0) * MINUTE as i64
    }
}

/// A text that is no valid time or offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no {1}")]
pub struct NoTime(String, &'static str);

impl FromStr for TimeOfDay {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<TimeOfDay, NoTime> {
        let minutes = minutes(text).filter(|minutes| *minutes < 24 * 60);
        minutes.map(TimeOfDay).ok_or_else(|| NoTime(text.to_owned(), "time of the day, such as 22:00"))
    }
}

impl FromStr for Offset {
    type Err = NoTime;

    fn from_str(text: &str) -> Result<Offset, NoTime> {
        let (sign, rest) = match text.as_bytes().first() {
            Some(b'+') => (1, &text[1..]),
            Some(b'-') => (-1, &text[1..]),
            _ => (0, ""),
        };
        // No clock on earth is further from UTC.
        let minutes = minutes(rest).filter(|minutes| *minutes <= 14 * 60);
        let minutes = minutes.and_then(|minutes| i16::try_from(minutes).ok());
        let wrong = || NoTime(text.to_owned(), "distance from UTC, such as +02:00");
        minutes.map(|minutes| Offset(sign * minutes)).ok_or_else(wrong)
    }
}

/// Minutes of `HH:MM`.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let two = |part: &str| {
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse::<u16>().ok()).flatten()
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (minutes < 60).then_some(hours * 60 + minutes)
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, minutes) = (if self.0 < 0 { '-' } else { '+' }, self.0.unsigned_abs());
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// Conversions from and to text, for the settings file.
macro_rules! as_text {
    ($time:ty) => {
        impl TryFrom<String> for $time {
            type Error = NoTime;

            fn try_from(text: String) -> Result<Self, NoTime> {
                text.parse()
            }
        }

        impl From<$time> for String {
            fn from(time: $time) -> String {
                time.to_string()
            }
        }
    };
}

as_text!(TimeOfDay);
as_text!(Offset);

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-15T00:00:00Z.
    const MIDNIGHT: u64 = 1_794_700_800_000;

    fn hours(from: &str, to: &str, offset: &str) -> Hours {
        let hosts = vec!["a.example".parse().unwrap(), "*.b.example".parse().unwrap()];
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        Hours { hosts, from, to, offset: offset.parse().unwrap() }
    }

    fn opens_in(hours: &Hours, hour: u64, minute: u64) -> Option<u64> {
        let waits = hours.opens_in(Timestamp(MIDNIGHT + hour * 60 * MINUTE + minute * MINUTE));
        waits.map(|ms| ms / MINUTE)
    }

    #[test]
    fn hours_begin_and_end_by_the_clock_of_the_site() {
        for (from, to, offset, hour, minute, waits) in [
            ("08:00", "20:00", "+00:00", 8, 0, None),
            ("08:00", "20:00", "+00:00", 7, 59, Some(1)),
            ("08:00", "20:00", "+00:00", 19, 59, None),
            ("08:00", "20:00", "+00:00", 20, 0, Some(12 * 60)),
            ("22:00", "06:00", "+00:00", 23, 0, None),
            ("22:00", "06:00", "+00:00", 5, 59, None),
            ("22:00", "06:00", "+00:00", 6, 0, Some(16 * 60)),
            ("22:00", "06:00", "+02:00", 20, 0, None),
            ("22:00", "06:00", "+02:00", 19, 30, Some(30)),
            ("22:00", "06:00", "-05:30", 3, 30, None),
            ("22:00", "06:00", "-05:30", 3, 0, Some(30)),
            ("00:00", "23:59", "+14:00", 9, 59, Some(1)),
        ] {
            let hours = hours(from, to, offset);
            assert_eq!(opens_in(&hours, hour, minute), waits, "{hours} at {hour}:{minute:02}");
        }
        // Within a minute too, and close to the epoch.
        let night = hours("22:00", "06:00", "+00:00");
        assert_eq!(night.opens_in(Timestamp(MIDNIGHT - 2 * 60 * MINUTE - 1)), Some(1));
        assert_eq!(hours("10:00", "11:00", "-12:00").opens_in(Timestamp(0)), Some(22 * 60 * MINUTE));
    }

    #[test]
    fn a_host_is_found_by_its_name_or_a_name_above_it() {
        let all = [hours("08:00", "20:00", "+00:00"), hours("00:00", "01:00", "+00:00")];
        for (host, found) in [
            ("a.example", true),
            ("www.a.example", false),
            ("b.example", true),
            ("www.b.example", true),
            ("notb.example", false),
            ("[2001:db8::1]", false),
        ] {
            assert_eq!(of(&all, host), found.then_some(&all[0]), "{host}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_and_what_is_one_is_written_as_it_was() {
        for bad in ["", "8:00", "24:00", "12:60", "12", "12:3", "+1:00", "ab:cd", "12:000"] {
            assert!(bad.parse::<TimeOfDay>().is_err(), "{bad}");
        }
        for bad in ["", "02:00", "+2:00", "+15:00", "UTC", "é"] {
            assert!(bad.parse::<Offset>().is_err(), "{bad}");
        }
        let text = r#"{"hosts":["a.example","*.b.example"],"from":"22:00","to":"06:05","offset":"-05:30"}"#;
        let read: Hours = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.check(), Ok(()));
        let short = hours("22:00", "22:09", "+00:00");
        let address = Hours { hosts: vec!["192.0.2.0/24".parse().unwrap()], ..read.clone() };
        let nobody = Hours { hosts: vec![], ..read };
        for wrong in [short, address, nobody] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn hosts_with_the_same_hours_begin_spread_over_minutes() {
        let mut begin: Vec<u64> = (0..1_000).map(spread).collect();
        begin.sort_unstable();
        assert!(begin[0] < 2_000 && begin[999] > SPREAD - 2_000 && begin[999] < SPREAD);
        let crowded = begin.windows(20).filter(|few| few[19] - few[0] < 1_000).count();
        assert_eq!(crowded, 0, "no second has twenty of a thousand hosts");
    }
}
