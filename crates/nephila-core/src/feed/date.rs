//! Dates as feeds write them: the format of mail, the format of the W3C, and the variants of both in practice.
//!
//! A mail date is read word by word, in any order: a day, a month by name, a year, a time, a zone. A date without a
//! time means midnight. A date without a zone, or with an unknown zone, means UTC: a few hours of error are better than
//! no date. Where day and month cannot be distinguished (`11/12/2026`), there is no date.
//!
//! Invariants: a text that cannot be parsed, or that lies before 1970, is no date; the work is linear in the text.

use crate::handler::sitemap::date as w3c;
use crate::time::Timestamp;

/// A longer text is no date.
const DATE_BYTES_MAX: usize = 512;

/// A date has at most this number of words.
const WORDS_MAX: usize = 16;

/// Reads a date.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.is_empty() || text.len() > DATE_BYTES_MAX {
        return None;
    }
    if text.len() >= 4 && text.bytes().take(4).all(|b| b.is_ascii_digit()) {
        return w3c::parse(text).or_else(|| of_digits(text)).or_else(|| of_mail(text));
    }
    of_mail(text)
}

/// Seconds or milliseconds since 1970, as some programs print them.
fn of_digits(text: &str) -> Option<Timestamp> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    match text.len() {
        10 => text.parse().ok().map(Timestamp::from_secs),
        13 => text.parse().ok().map(Timestamp),
        _ => None,
    }
}

#[derive(Default)]
struct Parts {
    day: Option<i8>,
    month: Option<i8>,
    year: Option<i16>,
    time: Option<(i8, i8, i8)>,
    afternoon: Option<bool>,
    offset: Option<i32>,
}

fn of_mail(text: &str) -> Option<Timestamp> {
    let text = without_comments(text);
    let mut parts = Parts::default();
    // A dash between words separates (15-Nov-2026), one before digits is a zone (-0500) or part of a W3C date.
    let words = text.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|w| !w.is_empty());
    for word in words.take(WORDS_MAX) {
        let dashed: Vec<&str> = word.split(['-', '/']).collect();
        if let [a, b, c] = dashed.as_slice()
            && month(b).is_some()
        {
            for word in [a, b, c] {
                parts.take(word)?;
            }
        } else {
            parts.take(word)?;
        }
    }
    parts.finish()
}

/// Removes text in parentheses, at any depth.
fn without_comments(text: &str) -> String {
    let mut depth = 0usize;
    let mut kept = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(char),
            _ => {}
        }
    }
    kept
}

impl Parts {
    /// Takes one word; none if the word cannot be part of a date.
    fn take(&mut self, word: &str) -> Option<()> {
        let first = word.bytes().next()?;
        if word.contains(':') && first.is_ascii_digit() {
            // A zone may be attached to its time: 10:20:30Z, 10:20:30+01:00, 10:20PM.
            let end = word.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(word.len());
            self.time = Some(time(&word[..end])?);
            return if end < word.len() { self.take(&word[end..]) } else { Some(()) };
        }
        if first == b'+' || first == b'-' {
            self.offset = Some(offset(word)?);
        } else if first.is_ascii_digit() {
            let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '.');
            self.take_number(digits)?;
        } else if let Some(month) = month(word) {
            self.month.get_or_insert(month);
        } else if word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm") {
            self.afternoon = Some(word.eq_ignore_ascii_case("pm"));
        } else if let Some(minutes) = zone(word) {
            self.offset = Some(minutes);
        }
        // Other words are days of the week, in any language, and unknown zones.
        Some(())
    }

    fn take_number(&mut self, digits: &str) -> Option<()> {
        let number: i16 = digits.parse().ok()?;
        match digits.len() {
            4 => self.year = Some(number),
            1 | 2 if self.day.is_none() => self.day = Some(number as i8),
            // RFC 5322, 4.3.
            2 if self.year.is_none() => {
                self.year = Some(if number < 50 { 2000 + number } else { 1900 + number })
            }
            3 if self.year.is_none() => self.year = Some(1900 + number),
            _ => return None,
        }
        Some(())
    }

    fn finish(self) -> Option<Timestamp> {
        let (mut hour, minute, second) = self.time.unwrap_or_default();
        match self.afternoon {
            Some(true) if hour < 12 => hour += 12,
            Some(false) if hour == 12 => hour = 0,
            _ => {}
        }
        // A leap second, and the midnight that belongs to the day before.
        let second = second.min(59);
        let next_day = hour == 24 && minute == 0 && second == 0;
        let hour = if next_day { 0 } else { hour };
        let civil =
            jiff::civil::DateTime::new(self.year?, self.month?, self.day?, hour, minute, second, 0).ok()?;
        let local = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
        let day = if next_day { 86_400_000 } else { 0 };
        let offset = i64::from(self.offset.unwrap_or(0)) * 60_000;
        u64::try_from(local + day - offset).ok().map(Timestamp)
    }
}

fn time(text: &str) -> Option<(i8, i8, i8)> {
    let mut fields = text.split(':');
    let mut next = |needed: bool| match fields.next() {
        Some(field) => field.split('.').next().and_then(|f| f.parse::<i8>().ok()),
        None => (!needed).then_some(0),
    };
    Some((next(true)?, next(true)?, next(false)?))
}

/// `+0100`, `-05:00`, `+1`: in minutes.
fn offset(word: &str) -> Option<i32> {
    let digits: String = word[1..].chars().filter(|c| *c != ':').collect();
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i32 = digits.parse().ok()?;
    let minutes = if digits.len() <= 2 { number * 60 } else { number / 100 * 60 + number % 100 };
    // No place on earth is further than 14 hours from UTC.
    (minutes <= 14 * 60).then_some(if word.starts_with('-') { -minutes } else { minutes })
}

fn month(word: &str) -> Option<i8> {
    const NAMES: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const FULL: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.trim_end_matches('.').to_ascii_lowercase();
    if word.len() < 3 {
        return None;
    }
    let at = FULL
        .iter()
        .position(|full| full.starts_with(word.as_str()) || word == "sept" && *full == "september");
    at.or_else(|| NAMES.iter().position(|name| *name == word)).map(|at| at as i8 + 1)
}

/// Zones by name, in minutes. First the zones of RFC 5322, then the ones that newsrooms write. Where two places share a
/// name, the place with more feeds wins.
fn zone(word: &str) -> Option<i32> {
    let upper = word.to_ascii_uppercase();
    // GMT+3, UTC-05:00.
    for prefix in ["GMT", "UTC"] {
        if let Some(rest) = upper.strip_prefix(prefix)
            && rest.starts_with(['+', '-'])
        {
            return offset(rest);
        }
    }
    let hours_4 = match upper.as_str() {
        "GMT" | "UT" | "UTC" | "Z" | "WET" => 0,
        "EST" | "CDT" => -20,
        "EDT" | "AST" => -16,
        "CST" | "MDT" => -24,
        "MST" | "PDT" => -28,
        "PST" | "AKDT" => -32,
        "BRT" | "ART" | "ADT" => -12,
        "BST" | "CET" | "MEZ" | "WEST" => 4,
        "CEST" | "MESZ" | "EET" | "SAST" => 8,
        "EEST" | "MSK" => 12,
        "IST" => 22,
        "SGT" | "HKT" | "AWST" => 32,
        "JST" | "KST" => 36,
        "AEST" => 40,
        "AEDT" => 44,
        "NZST" => 48,
        "NZDT" => 52,
        _ => return None,
    };
    Some(hours_4 * 15)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, want: &str) {
        let got = parse(text).map(Timestamp::warc_date);
        assert_eq!(got.as_deref().unwrap_or("none"), want, "{text:?}");
    }

    #[test]
    fn fee_09_dates_as_people_write_them() {
        for (text, want) in [
            ("Sun, 15 Nov 2026 10:20:30 GMT", "2026-11-15T10:20:30Z"),
            ("Sun, 15 Nov 2026 10:20:30 +0100", "2026-11-15T09:20:30Z"),
            ("Sun, 15 Nov 2026 10:20:30 EST", "2026-11-15T15:20:30Z"),
            ("Sun, 15 Nov 2026 10:20:30 IST", "2026-11-15T04:50:30Z"),
            ("15 Nov 26 10:20 GMT", "2026-11-15T10:20:00Z"),
            ("15 Nov 99 10:20 GMT", "1999-11-15T10:20:00Z"),
            // The weekday is wrong, which mail forbids.
            ("Mon, 15 Nov 2026 10:20:30 GMT", "2026-11-15T10:20:30Z"),
            ("Sunday, 15 November 2026 10:20:30 UTC", "2026-11-15T10:20:30Z"),
            ("Sun, 15 Nov 2026 10:20:30", "2026-11-15T10:20:30Z"),
            ("Sun, 15 Nov 2026", "2026-11-15T00:00:00Z"),
            ("Nov 15, 2026 10:20 PM", "2026-11-15T22:20:00Z"),
            ("November 15th, 2026 12:05am EST", "2026-11-15T05:05:00Z"),
            ("15-Nov-2026 10:20:30 GMT+3", "2026-11-15T07:20:30Z"),
            ("Sun 15 Sept. 2026 9:05:07 Z", "2026-09-15T09:05:07Z"),
            ("Вс, 15 Nov 2026 10:20:30 +0300", "2026-11-15T07:20:30Z"),
            ("Sun, 15 Nov 2026 24:00:00 GMT", "2026-11-16T00:00:00Z"),
            ("Sat, 31 Dec 2016 23:59:60 GMT", "2016-12-31T23:59:59Z"),
            ("Sun, 15 Nov 2026 10:20:30 +01:00 (CET (sic))", "2026-11-15T09:20:30Z"),
            ("Sun, 15 Nov 2026 10:20:30 NOWHERE", "2026-11-15T10:20:30Z"),
            ("2026-11-15T10:20:30Z", "2026-11-15T10:20:30Z"),
            ("2026-11-15 10:20:30", "2026-11-15T10:20:30Z"),
            ("2026-11-15T10:20:30-0500", "2026-11-15T15:20:30Z"),
            ("2026-11-15", "2026-11-15T00:00:00Z"),
            ("1794738030", "2026-11-15T10:20:30Z"),
            ("1794738030000", "2026-11-15T10:20:30Z"),
        ] {
            check(text, want);
        }
    }

    #[test]
    fn fee_09_what_is_no_date_is_none() {
        for text in [
            "",
            "yesterday",
            "0000-00-00",
            "0000-00-00T00:00:00Z",
            "Sun, 00 Jan 0000 00:00:00 GMT",
            "11/12/2026",
            "Sun, 31 Nov 2026 10:20:30 GMT",
            "15 Nov 2026 25:61:00",
            "15 Nov 1969 10:00 GMT",
            "15 2026",
            "Nov",
            "Sun, 15 Nov 2026 10:20:30 +9900",
            "99999999999999999999",
            "-",
            "+",
            ":",
            "1:2:3:4",
            "é",
        ] {
            check(text, "none");
        }
        check(&format!("{}15 Nov 2026{}", "(".repeat(200), ")".repeat(200)), "none");
        check(&"(".repeat(1_000_000), "none");
    }

    proptest! {
        #[test]
        fn fee_09_any_text_is_read_or_not(text in any::<String>(), words in "[0-9A-Za-z:+ ,()/-]{0,60}") {
            let _ = (parse(&text), parse(&words));
        }
    }
}
