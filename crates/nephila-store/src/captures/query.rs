//! A query for captures: which keys and which times match.
//!
//! Times are up to fourteen digits, filled up to a whole one before they are compared.

use nephila_core::url::surt;

/// The URLs that a query matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// This URL, in every spelling with the same key.
    #[default]
    Exact,
    /// URLs with this prefix.
    Prefix,
    /// Everything on its host.
    Host,
    /// Everything on its host and its subdomains.
    Domain,
}

/// A query for captures.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The URL, with or without scheme.
    pub url: String,
    /// The kind of match.
    pub matches: Match,
    /// Earliest time: up to fourteen digits, filled up with the earliest.
    pub from: Option<String>,
    /// Latest time: up to fourteen digits, filled up with the latest.
    pub to: Option<String>,
}

impl Query {
    /// A query for one URL.
    pub fn exact(url: &str) -> Query {
        Query { url: url.into(), ..Query::default() }
    }

    /// A query as CDX servers write it: `*.a.test` means a domain, `http://a.test/x*` a prefix, `*` everything.
    pub fn parse(text: &str) -> Query {
        let plain = text.strip_prefix("http://").or(text.strip_prefix("https://")).unwrap_or(text);
        let (url, matches) = match (plain.strip_prefix("*."), text.strip_suffix('*')) {
            (Some(name), _) => (name.strip_suffix("/*").unwrap_or(name), Match::Domain),
            (None, Some(url)) => (url, Match::Prefix),
            (None, None) => (text, Match::Exact),
        };
        Query { url: url.to_owned(), matches, ..Query::default() }
    }

    /// Prefixes of the matching lines; in order, and none contains another.
    pub(super) fn prefixes(&self) -> Vec<String> {
        if self.url.is_empty() && self.matches == Match::Prefix {
            return vec![String::new()];
        }
        let key = surt(&self.url);
        let host = key.split_once(')').map(|(host, _)| host);
        match (self.matches, host) {
            // A folder: the folder itself, its content, and the folder with a query.
            (Match::Prefix, Some(_)) if self.url.ends_with('/') && !key.ends_with(")/") => {
                vec![format!("{key} "), format!("{key}/"), format!("{key}?")]
            }
            (Match::Prefix, _) => vec![key],
            // Other ports of a host belong to the host, unless the query names one.
            (Match::Host, Some(host)) if host.contains(':') => vec![format!("{host})")],
            (Match::Host, Some(host)) => vec![format!("{host})"), format!("{host}:")],
            (Match::Domain, Some(host)) => {
                let host = host.split(':').next().unwrap_or(host);
                vec![format!("{host})"), format!("{host},"), format!("{host}:")]
            }
            (Match::Exact, _) | (_, None) => vec![format!("{key} ")],
        }
    }

    pub(super) fn takes(&self, digits14: &str) -> bool {
        let from = self.from.as_deref().is_none_or(|from| filled(from, EARLIEST).as_str() <= digits14);
        from && self.to.as_deref().is_none_or(|to| filled(to, LATEST).as_str() >= digits14)
    }
}

/// Completion of a partial start time.
const EARLIEST: &str = "00000101000000";
/// Completion of a partial end time.
const LATEST: &str = "99991231235959";

/// Seconds of a time of up to fourteen digits, since the beginning of the year 0 of the Gregorian calendar.
pub fn seconds(time: &str) -> u64 {
    let digits14 = filled(time, EARLIEST);
    let part = |range: std::ops::Range<usize>| -> u64 {
        digits14.get(range).and_then(|digits| digits.parse().ok()).unwrap_or_default()
    };
    let (year, month, day) = (part(0..4), part(4..6), part(6..8));
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let leap_days = year.div_ceil(4) - year.div_ceil(100) + year.div_ceil(400);
    let before = DAYS_BEFORE.get(month.saturating_sub(1) as usize).copied().unwrap_or(334);
    let days = year * 365 + leap_days + before + u64::from(is_leap && month > 2) + day.saturating_sub(1);
    ((days * 24 + part(8..10)) * 60 + part(10..12)) * 60 + part(12..14)
}

/// Days of a year before each month, without a leap day.
const DAYS_BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// A time filled up to fourteen digits.
fn filled(time: &str, with: &str) -> String {
    let digits: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
    format!("{digits}{}", &with[digits.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_times_are_exact() {
        let day = |from: &str, to: &str| (seconds(to) - seconds(from)) as f64 / 86_400.0;
        assert_eq!((day("20260228", "20260301"), day("20240228", "20240301")), (1.0, 2.0));
        assert_eq!((day("19000228", "19000301"), day("20000228", "20000301")), (1.0, 2.0));
        assert_eq!(
            (day("20251231", "20260101"), day("2024", "2025"), day("2025", "2026")),
            (1.0, 366.0, 365.0)
        );
        assert_eq!(day("2000", "2400"), 146_097.0);
        assert_eq!(day("20260101000000", "20260101120000"), 0.5);
    }

    #[test]
    fn wildcards_are_those_of_cdx_servers() {
        let parsed = |text: &str| {
            let query = Query::parse(text);
            (query.url, query.matches)
        };
        assert_eq!(parsed("*.a.test"), ("a.test".into(), Match::Domain));
        assert_eq!(parsed("*.a.test/*"), ("a.test".into(), Match::Domain));
        assert_eq!(parsed("http://a.test/x*"), ("http://a.test/x".into(), Match::Prefix));
        assert_eq!(parsed("http://a.test/x"), ("http://a.test/x".into(), Match::Exact));
        assert_eq!(Query::parse("*").prefixes(), [""]);
    }
}
