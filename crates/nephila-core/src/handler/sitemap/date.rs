//! The date of the last change, as written in sitemaps and feeds: W3C dates of any precision, and mail dates.
//!
//! Invariant: a text that cannot be parsed, or a date before 1970, is no date.

use crate::time::Timestamp;

/// Maximum length of a date in bytes.
const DATE_BYTES_MAX: usize = 64;

/// Parses a date. Without a time the date means midnight, without a zone UTC.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.len() < 4 || text.len() > DATE_BYTES_MAX || !text.is_ascii() {
        return None;
    }
    let time = if text.as_bytes()[0].is_ascii_digit() && text.as_bytes()[3].is_ascii_digit() {
        w3c(text)
    } else {
        jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()
    }?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp)
}

fn w3c(text: &str) -> Option<jiff::Timestamp> {
    let whole = match text.len() {
        4 => format!("{text}-01-01T00:00:00"),
        7 => format!("{text}-01T00:00:00"),
        10 => format!("{text}T00:00:00"),
        _ => text.replacen(' ', "T", 1),
    };
    if let Ok(time) = whole.parse::<jiff::Timestamp>() {
        return Some(time);
    }
    // No zone, or a zone with a space before it.
    let whole = whole.replace(' ', "");
    if let Ok(time) = whole.parse::<jiff::Timestamp>() {
        return Some(time);
    }
    let civil = whole.parse::<jiff::civil::DateTime>().ok()?;
    civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Option<&str>) {
        assert_eq!(parse(text).map(Timestamp::warc_date).as_deref(), want, "{text:?}");
    }

    #[test]
    fn dates_of_every_precision_are_read() {
        check("2026", Some("2026-01-01T00:00:00Z"));
        check("2026-11", Some("2026-11-01T00:00:00Z"));
        check("2026-11-15", Some("2026-11-15T00:00:00Z"));
        check("2026-11-15T10:20+01:00", Some("2026-11-15T09:20:00Z"));
        check("2026-11-15T10:20:30Z", Some("2026-11-15T10:20:30Z"));
        check("2026-11-15T10:20:30.45+05:30", Some("2026-11-15T04:50:30Z"));
        check("2026-11-15 10:20:30", Some("2026-11-15T10:20:30Z"));
        check("2026-11-15 10:20:30 +0100", Some("2026-11-15T09:20:30Z"));
        check("Sun, 15 Nov 2026 10:20:30 GMT", Some("2026-11-15T10:20:30Z"));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["", "now", "15", "2026-13-45", "1969-12-31", "99999-01-01", "2026-11-15Tnoon", "é026"] {
            check(text, None);
        }
    }
}
