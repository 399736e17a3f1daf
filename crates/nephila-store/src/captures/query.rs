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

    /// Prefixes of the matching lines; in order, and none contains another.
    pub(super) fn prefixes(&self) -> Vec<String> {
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
pub(super) const EARLIEST: &str = "00000101000000";
/// Completion of a partial end time.
const LATEST: &str = "99991231235959";

/// Seconds in a calendar with months of equal length: enough to compare distances, to within days.
pub(super) fn seconds(digits14: &str) -> u64 {
    let part = |range: std::ops::Range<usize>| -> u64 {
        digits14.get(range).and_then(|digits| digits.parse().ok()).unwrap_or_default()
    };
    let days = (part(0..4) * 12 + part(4..6)) * 31 + part(6..8);
    ((days * 24 + part(8..10)) * 60 + part(10..12)) * 60 + part(12..14)
}

/// A time filled up to fourteen digits.
pub(super) fn filled(time: &str, with: &str) -> String {
    let digits: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
    format!("{digits}{}", &with[digits.len()..])
}
