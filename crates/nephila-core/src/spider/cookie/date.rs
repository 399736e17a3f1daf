//! Dates in cookies, in any of the formats in use (RFC 6265, 5.1.1).
//!
//! Invariants: a date before 1970 becomes 1970, a date that does not exist is none.

use crate::time::Timestamp;

/// Parses a date; none if a part is missing or impossible.
pub(super) fn parse(text: &[u8]) -> Option<Timestamp> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let delimiter = |b: &u8| matches!(b, 0x09 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e);
    for token in text.split(delimiter).filter(|token| !token.is_empty()) {
        if time.is_none()
            && let Some(found) = read_time(token)
        {
            time = Some(found);
        } else if day.is_none()
            && let Some(found) = read_number(token, 1, 2)
        {
            day = Some(found);
        } else if month.is_none()
            && let Some(found) = read_month(token)
        {
            month = Some(found);
        } else if year.is_none()
            && let Some(found) = read_number(token, 2, 4)
        {
            year = Some(found);
        }
    }
    let (hour, minute, second) = time?;
    let year = match year? {
        y @ 70..=99 => y + 1900,
        y @ 0..=69 => y + 2000,
        y => y,
    };
    if year < 1601 {
        return None;
    }
    let date = jiff::civil::DateTime::new(
        i16::try_from(year).ok()?,
        month?,
        i8::try_from(day?).ok()?,
        hour,
        minute,
        second,
        0,
    );
    let zoned = date.ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(Timestamp(u64::try_from(zoned.timestamp().as_millisecond()).unwrap_or(0)))
}

/// A number of `min` to `max` digits, followed by the end or by a non-digit.
fn read_number(token: &[u8], min: usize, max: usize) -> Option<i32> {
    let digits = token.iter().take_while(|b| b.is_ascii_digit()).count();
    (min..=max).contains(&digits).then(|| token[..digits].iter().fold(0, |n, d| n * 10 + i32::from(d - b'0')))
}

fn read_time(token: &[u8]) -> Option<(i8, i8, i8)> {
    let mut parts = token.splitn(3, |b| *b == b':');
    let mut part = |last: bool| {
        let part = parts.next()?;
        let number = i8::try_from(read_number(part, 1, 2)?).ok()?;
        (last || part.len() <= 2 && part.iter().all(u8::is_ascii_digit)).then_some(number)
    };
    Some((part(false)?, part(false)?, part(true)?))
}

fn read_month(token: &[u8]) -> Option<i8> {
    const MONTHS: [&[u8]; 12] =
        [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
    let start = token.get(..3)?;
    (1..).zip(MONTHS).find(|(_, month)| start.eq_ignore_ascii_case(month)).map(|(number, _)| number)
}
