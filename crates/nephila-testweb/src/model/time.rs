//! Virtual time, and the formats of dates.
//!
//! Virtual time starts at the time of the settings, runs at their rate (0 by default, so that the same URL has the same
//! bytes) and can be advanced by hand. Virtual time never goes back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock of virtual seconds since 1970.
#[derive(Debug)]
pub struct Clock {
    start: u64,
    rate: f64,
    began: Instant,
    moved_ms: AtomicU64,
}

impl Clock {
    /// A clock that shows `start` now.
    pub fn new(start: u64, rate: f64) -> Clock {
        Clock { start, rate, began: Instant::now(), moved_ms: AtomicU64::new(0) }
    }

    /// Virtual seconds since 1970.
    pub fn now(&self) -> u64 {
        let moved = self.moved_ms.load(Ordering::Relaxed);
        let ran = if self.rate > 0.0 { self.began.elapsed().as_secs_f64() * self.rate } else { 0.0 };
        self.start + (moved as f64 / 1000.0 + ran) as u64
    }

    /// Moves time forward.
    pub fn advance(&self, by: Duration) {
        self.moved_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment as in `Last-Modified` (RFC 9110, 5.6.7); valid in RSS too.
pub fn http_date(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    // 1970-01-01 was a Thursday.
    let weekday = DAYS[((seconds / 86_400 + 3) % 7) as usize];
    let (hour, minute, second) = clock_of(seconds);
    // By hand: every page has one, and `format!` would show in a measurement.
    let mut out = String::with_capacity(29);
    out.push_str(weekday);
    out.push_str(", ");
    push_two(&mut out, day);
    out.push(' ');
    out.push_str(MONTHS[month as usize - 1]);
    out.push(' ');
    push_two(&mut out, year / 100);
    push_two(&mut out, year % 100);
    for (before, part) in [(' ', hour), (':', minute), (':', second)] {
        out.push(before);
        push_two(&mut out, part);
    }
    out.push_str(" GMT");
    out
}

/// Appends a number below 100 as two digits.
fn push_two(out: &mut String, number: u64) {
    out.push(char::from(b'0' + (number / 10) as u8));
    out.push(char::from(b'0' + (number % 10) as u8));
}

/// A moment as in Atom and sitemaps (RFC 3339).
pub fn iso_date(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = clock_of(seconds);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Parses the output of [`http_date`]; other forms are not needed, as clients echo the received date.
pub fn parse_http_date(text: &str) -> Option<u64> {
    let mut parts = text.split_once(", ")?.1.split([' ', ':']);
    let day: u64 = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? as u64 + 1;
    let year: u64 = parts.next()?.parse().ok()?;
    let (hour, minute, second): (u64, u64, u64) =
        (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    if !(1970..10_000).contains(&year) || parts.next() != Some("GMT") {
        return None;
    }
    // Days before 1 March of the year, counted from 1 March of year 0, so that leap days come last.
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = shifted_year * 365 + shifted_year / 4 - shifted_year / 100
        + shifted_year / 400
        + (shifted_month * 153 + 2) / 5
        + day
        - 1;
    Some((days - DAYS_TO_1970) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1 March of year 0 to 1 January 1970.
const DAYS_TO_1970: u64 = 719_468;

fn clock_of(seconds: u64) -> (u64, u64, u64) {
    (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of a day since 1970, by the Gregorian rules.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + DAYS_TO_1970;
    let era = day / 146_097;
    let of_era = day % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_the_rfcs_show_them() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(iso_date(784_111_777), "1994-11-06T08:49:37Z");
        assert_eq!(iso_date(951_782_400), "2000-02-29T00:00:00Z");
    }

    #[test]
    fn dates_read_back_as_they_were_written() {
        for seconds in (0..4_000_000_000u64).step_by(7_777_777) {
            assert_eq!(parse_http_date(&http_date(seconds)), Some(seconds));
        }
        assert_eq!(parse_http_date("yesterday"), None);
        assert_eq!(parse_http_date("Sun, 06 Nov 1994"), None);
    }

    #[test]
    fn a_clock_stands_still_until_it_is_moved() {
        let clock = Clock::new(1000, 0.0);
        assert_eq!(clock.now(), 1000);
        clock.advance(Duration::from_millis(1500));
        clock.advance(Duration::from_millis(500));
        assert_eq!(clock.now(), 1002);
    }
}
