//! Dates in URLs, and their distance from today.
//!
//! Only a clear date counts: a year followed by a month in the path (`/2031/07/`, `/2031-07`, `/events/2031-07-19`), or
//! a parameter with a matching name (`year=2031`, `date=2031-07-19`). A year alone in a path is as often a number or a
//! title.

use std::time::Duration;

use crate::time::Timestamp;
use crate::url::CrawlUrl;

use super::{Settings, param_name, params, segments};

/// Whether the URL names a date further from now than the settings allow.
pub(super) fn is_far(url: &CrawlUrl, settings: &Settings, now: Timestamp) -> bool {
    let now = year_of(now);
    let far = |year: u16| {
        let (ahead, back) = (settings.years_ahead_max, settings.years_back_max);
        ahead > 0 && year > now.saturating_add(ahead) || back > 0 && year < now.saturating_sub(back)
    };
    in_path(url.path()).any(far) || url.query().is_some_and(|query| in_query(query).any(far))
}

fn year_of(now: Timestamp) -> u16 {
    // Years of 365.2425 days; a day more or less at New Year changes no verdict that matters.
    const YEAR: Duration = Duration::from_secs(31_556_952);
    let years = now.0 / (YEAR.as_secs() * 1_000);
    1970u16.saturating_add(u16::try_from(years).unwrap_or(u16::MAX))
}

fn in_path(path: &str) -> impl Iterator<Item = u16> {
    let mut before = None;
    segments(path).filter_map(move |segment| {
        let year = std::mem::replace(&mut before, year(segment));
        year.filter(|_| is_month(segment)).or_else(|| year_month(segment))
    })
}

fn in_query(query: &str) -> impl Iterator<Item = u16> {
    params(query).filter_map(|param| {
        let name = param_name(param);
        let value = param.get(name.len() + 1..)?;
        let named = NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
        named.then(|| year(value).or_else(|| year_month(value)))?
    })
}

/// The year of `2031-07`, `2031_07` or `2031-07-19`, also if followed by anything but a digit.
fn year_month(text: &str) -> Option<u16> {
    let (first, rest) = text.split_at_checked(4)?;
    let rest = rest.strip_prefix(['-', '_', '.'])?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    year(first).filter(|_| is_month(&rest[..digits]))
}

fn year(text: &str) -> Option<u16> {
    let digits = text.len() == 4 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

fn is_month(text: &str) -> bool {
    let digits = matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit());
    digits && text.parse().is_ok_and(|month: u8| (1..=12).contains(&month))
}

/// Names of parameters that hold a date, case-insensitive.
const NAMES: &[&str] =
    &["year", "yr", "date", "day", "month", "start", "end", "from", "to", "tribe-bar-date", "cal_date"];
