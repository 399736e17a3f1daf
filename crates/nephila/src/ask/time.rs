//! Parsing and formatting of times for people.

use std::time::Duration;

use nephila_core::time::Timestamp;

/// Fourteen digits or a prefix: `2026-11-12` and `20261112` are equal.
pub(super) fn digits(text: &str) -> anyhow::Result<String> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let plain = text.chars().all(|c| c.is_ascii_digit() || "-:. TZ".contains(c));
    if !plain || !matches!(digits.len(), 4 | 6 | 8 | 10 | 12 | 14) {
        anyhow::bail!(
            "{text:?} is not a time: write 2026-11-12, 2026-11-12T10:30:00 or 20261112103000 (UTC)"
        );
    }
    Ok(digits)
}

/// The start of the period that `text` names: a time, or a duration before `now` (`1h`, `2d`).
pub(super) fn since(text: &str, now: Timestamp) -> anyhow::Result<Timestamp> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return Ok(Timestamp(now.0.saturating_sub(millis(ago))));
    }
    moment(&digits(text)?, "00000101000000")
}

/// The end of the period that `text` names.
pub(super) fn until(text: &str) -> anyhow::Result<Timestamp> {
    let digits = digits(text)?;
    let end = moment(&digits, "99991231235959")?;
    Ok(Timestamp(end.0 + 999))
}

fn moment(digits: &str, rest: &str) -> anyhow::Result<Timestamp> {
    let mut all = format!("{digits}{}", &rest[digits.len()..]);
    if digits.len() == 6 && rest.starts_with('9') {
        // The last day of a month.
        let date = jiff::civil::Date::new(all[..4].parse()?, all[4..6].parse()?, 1)?.last_of_month();
        all.replace_range(6..8, &format!("{:02}", date.day()));
    }
    let part = |range: std::ops::Range<usize>| all[range].parse::<i8>();
    let time = jiff::civil::DateTime::new(
        all[..4].parse()?,
        part(4..6)?,
        part(6..8)?,
        part(8..10)?,
        part(10..12)?,
        part(12..14)?,
        0,
    )?;
    let ms = time.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp().as_millisecond();
    Ok(Timestamp(u64::try_from(ms).unwrap_or(0)))
}

/// Milliseconds as an integer.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats milliseconds for people: `310 ms`, `4 min 10 s`, `2 h 3 min`.
pub(super) fn span(ms: u64) -> String {
    let secs = ms / 1_000;
    match secs {
        0 if ms < 1_000 => format!("{ms} ms"),
        0..60 => format!("{}.{:02} s", secs, ms % 1_000 / 10),
        60..3_600 => format!("{} min {} s", secs / 60, secs % 60),
        3_600..172_800 => format!("{} h {} min", secs / 3_600, secs % 3_600 / 60),
        _ => format!("{} d {} h", secs / 86_400, secs % 86_400 / 3_600),
    }
}

/// Formats a number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1_000.0 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_beginning_and_an_end() {
        let now = Timestamp::from_secs(1_794_700_800);
        for (text, from, to) in [
            ("2026-11-12", "2026-11-12T00:00:00Z", "2026-11-12T23:59:59Z"),
            ("202602", "2026-02-01T00:00:00Z", "2026-02-28T23:59:59Z"),
            ("2026", "2026-01-01T00:00:00Z", "2026-12-31T23:59:59Z"),
            ("2026-11-12T10:30:00Z", "2026-11-12T10:30:00Z", "2026-11-12T10:30:00Z"),
        ] {
            assert_eq!(since(text, now).unwrap().warc_date(), from, "{text}");
            assert_eq!(until(text).unwrap().warc_date(), to, "{text}");
        }
        assert_eq!(since("1h", now).unwrap().0, now.0 - 3_600_000);
        for bad in ["yesterday", "2026-1", "20261399", "", "202611121"] {
            assert!(since(bad, now).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            [span(310), span(2_500), span(250_000), span(7_380_000)],
            ["310 ms", "2.50 s", "4 min 10 s", "2 h 3 min"]
        );
        assert_eq!([size(999), size(1_500), size(63_000_000)], ["999 B", "1.5 kB", "63.0 MB"]);
    }
}
