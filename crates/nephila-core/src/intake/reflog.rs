//! The `reflog` format: one visited URL a line, seven fields between tabs.
//!
//! ```text
//! batch  priority  timestamp  page  url  hits  updatetag
//! ```
//!
//! Real files are not so tidy: tabs become spaces, a line is wrapped before or behind its URL, the last fields are
//! missing. Readable lines are parsed. Malformed lines are quarantined, with their position and the reason, and do not
//! affect the lines around them.
//!
//! Invariants: every physical line is part of exactly one entry or one bad line, or is blank; at most
//! [`LINE_BYTES_MAX`] bytes of a line are kept.

use std::collections::BTreeMap;
use std::fmt;

use crate::time::Timestamp;
use crate::url::{CrawlUrl, UrlError};

/// Maximum length of a line in bytes: the longest URL, and its fields.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// Number of bytes of a bad line that are kept for diagnosis.
pub const QUARANTINED_BYTES_MAX: usize = 1_024;

/// Number of bad lines of one file that are kept; all are counted.
pub const QUARANTINED_LINES_MAX: usize = 10_000;

const FIELDS: usize = 7;

/// One visited URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The batch of the line.
    pub batch: String,
    /// The priority, which is unused.
    pub priority: String,
    /// The time of the visit.
    pub at: Timestamp,
    /// The page that showed the advertisement.
    pub page: String,
    /// The URL.
    pub url: CrawlUrl,
    /// Number of visits in this batch; one if the field is missing.
    pub hits: u64,
    /// Changes when the content changes; none if the field is missing or empty.
    pub update_tag: Option<String>,
}

/// A malformed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The line number in the file, from 1: the first one if several belong together.
    pub line: usize,
    /// The reason.
    pub reason: Reason,
    /// The first bytes.
    pub bytes: Vec<u8>,
}

/// Why a line is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Longer than [`LINE_BYTES_MAX`].
    TooLong,
    /// Not UTF-8.
    NotUtf8,
    /// Fewer than five fields, or more than seven.
    Fields,
    /// The time is not fourteen digits of a date that exists.
    Timestamp,
    /// The hits are no number.
    Hits,
    /// The URL cannot be crawled.
    Url(UrlError),
}

impl Reason {
    /// The name under which the reason is counted.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::TooLong => "line-too-long",
            Reason::NotUtf8 => "not-utf-8",
            Reason::Fields => "fields",
            Reason::Timestamp => "timestamp",
            Reason::Hits => "hits",
            Reason::Url(error) => error.outcome().name(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The contents of a file.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The entries, in the order of the file.
    pub entries: Vec<Entry>,
    /// The malformed lines: the first [`QUARANTINED_LINES_MAX`].
    pub quarantined: Vec<Bad>,
    /// Number of malformed lines, by reason.
    pub bad: BTreeMap<&'static str, u64>,
}

/// Reads a whole file.
pub fn read(bytes: &[u8]) -> Reading {
    let mut reading = Reading::default();
    for line in entries(bytes) {
        match line {
            Ok(entry) => reading.entries.push(entry),
            Err(bad) => {
                *reading.bad.entry(bad.reason.name()).or_default() += 1;
                if reading.quarantined.len() < QUARANTINED_LINES_MAX {
                    reading.quarantined.push(bad);
                }
            }
        }
    }
    reading
}

/// Reads a file entry by entry, as an iterator.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<Entry, Bad>> {
    let mut lines = bytes.split(|b| *b == b'\n').enumerate().peekable();
    std::iter::from_fn(move || {
        let (index, first) = lines.find(|(_, line)| !line.trim_ascii().is_empty())?;
        let bad = |reason| {
            Some(Err(Bad {
                line: index + 1,
                reason,
                bytes: first[..first.len().min(QUARANTINED_BYTES_MAX)].to_vec(),
            }))
        };
        let mut fields = match split(first) {
            Ok(fields) => fields,
            Err(reason) => return bad(reason),
        };
        // A wrapped line continues right below, never behind a blank line.
        while let Some((_, next)) = lines.peek()
            && let Ok(more) = split(next)
            && continues(&fields, &more)
        {
            fields.extend(more);
            lines.next();
        }
        Some(entry(&fields).or_else(|reason| bad(reason).expect("always some")))
    })
}

fn split(line: &[u8]) -> Result<Vec<&str>, Reason> {
    let line = line.trim_ascii();
    if line.len() > LINE_BYTES_MAX {
        return Err(Reason::TooLong);
    }
    let text = std::str::from_utf8(line).map_err(|_| Reason::NotUtf8)?;
    // Where tabs separate the fields, a space is part of the URL.
    Ok(if text.contains('\t') {
        text.split('\t').map(str::trim).collect()
    } else {
        text.split_whitespace().collect()
    })
}

/// Whether this line is the continuation of that one. Wrapped before the URL, the continuation must begin with one.
/// Wrapped behind the URL, the continuation must have none, and no more fields than are missing.
fn continues(fields: &[&str], more: &[&str]) -> bool {
    let is_url = |field: &str| field.contains("://");
    match (fields.len(), more.first()) {
        (_, None) => false,
        (4, Some(first)) => is_timestamp(fields[2]) && is_url(first) && more.len() <= FIELDS - 4,
        (5 | 6, Some(_)) => {
            is_url(fields[4]) && more.len() <= FIELDS - fields.len() && !more.iter().any(|f| is_url(f))
        }
        _ => false,
    }
}

fn is_timestamp(field: &str) -> bool {
    field.len() == 14 && field.bytes().all(|b| b.is_ascii_digit())
}

fn entry(fields: &[&str]) -> Result<Entry, Reason> {
    if !(5..=FIELDS).contains(&fields.len()) {
        return Err(Reason::Fields);
    }
    let field = |index: usize| fields.get(index).copied().filter(|field| !field.is_empty());
    let hits = match field(5) {
        Some(hits) => hits.parse().map_err(|_| Reason::Hits)?,
        None => 1,
    };
    Ok(Entry {
        batch: field(0).ok_or(Reason::Fields)?.to_owned(),
        priority: fields[1].to_owned(),
        at: timestamp(fields[2]).ok_or(Reason::Timestamp)?,
        page: fields[3].to_owned(),
        url: CrawlUrl::parse(field(4).ok_or(Reason::Fields)?).map_err(Reason::Url)?,
        hits,
        update_tag: field(6).map(str::to_owned),
    })
}

/// Fourteen digits, read as UTC: the format names no zone.
fn timestamp(field: &str) -> Option<Timestamp> {
    if !is_timestamp(field) {
        return None;
    }
    let part = |range: std::ops::Range<usize>| field[range].parse::<i8>().ok();
    let date = jiff::civil::DateTime::new(
        field[..4].parse().ok()?,
        part(4..6)?,
        part(6..8)?,
        part(8..10)?,
        part(10..12)?,
        part(12..14)?,
        0,
    );
    let zoned = date.ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    u64::try_from(zoned.timestamp().as_millisecond()).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "b1\t5\t20110727200841\t2310\thttp://good.example/\t3\ttag";

    fn urls(bytes: &[u8]) -> Vec<String> {
        read(bytes).entries.iter().map(|e| e.url.to_string()).collect()
    }

    #[test]
    fn url_20_bad_lines_are_counted_and_quarantined_and_good_ones_survive() {
        let long = [b"b\t5\t20110727200841\t1\thttp://h/".as_slice(), &[b'x'; 1 << 20], b"\t1\t0"].concat();
        let bad: [(&[u8], &str); 10] = [
            (b"b1\t5\t20110727200841", "fields"),
            (b"<unknown field>", "fields"),
            (b"b1\t5\tyesterday\t1\thttp://h/\t1\t0", "timestamp"),
            (b"b1\t5\t20111340000000\t1\thttp://h/\t1\t0", "timestamp"),
            (b"b1\t5\t20110727200841\t1\thttp://h/\tmany\t0", "hits"),
            (b"b1\t5\t20110727200841\t1\tnot a url\t1\t0", "url-bad"),
            (b"b1\t5\t20110727200841\t1\tftp://h/\t1\t0", "url-scheme"),
            (b"b1\t5\t20110727200841\t1\thttp://h/\xff\xfe\t1\t0", "not-utf-8"),
            (b"b1\t5\t20110727200841\t1\thttp://h/\t1\t0\textra", "fields"),
            (&long, "line-too-long"),
        ];
        let mut file = Vec::new();
        for (line, _) in bad {
            file.extend_from_slice(GOOD.as_bytes());
            file.push(b'\n');
            file.extend_from_slice(line);
            file.push(b'\n');
        }
        file.extend_from_slice(GOOD.as_bytes());
        let reading = read(&file);
        assert_eq!(reading.entries.len(), bad.len() + 1, "every good line survives");
        assert!(reading.entries.iter().all(|e| e.url.as_str() == "http://good.example/" && e.hits == 3));
        let reasons: Vec<_> = reading.quarantined.iter().map(|b| b.reason.name()).collect();
        assert_eq!(reasons, bad.map(|(_, reason)| reason));
        for (n, bad_line) in reading.quarantined.iter().enumerate() {
            assert_eq!(bad_line.line, 2 * n + 2);
            assert!(!bad_line.bytes.is_empty() && bad_line.bytes.len() <= QUARANTINED_BYTES_MAX);
        }
        assert_eq!(reading.bad.values().sum::<u64>(), 10);
        assert_eq!(reading.bad["fields"], 3);
    }

    #[test]
    fn url_20_the_wrapped_sample_of_the_format_is_read() {
        let sample = "2011072806593795        5       20110727200841  2310    \n\
                      http://fatalenergy.com.ru/power/index.php?newsid=1185458796     1       0\n\n\
                      2011072806593795        5       20110727200853  4599    \n\
                      http://astroma.net/week/02.htm  1       0\n\n\
                      2011072806593795        5       20110727200844  1038    \n\
                      http://www.3dnews.ru/search/index.php?query=canon%20600d&method=and&orderby=1&order=1   \n1\n";
        let reading = read(sample.as_bytes());
        assert!(reading.bad.is_empty(), "{:?}", reading.quarantined);
        let [first, _, third] = reading.entries.as_slice() else { panic!("{:?}", reading.entries) };
        assert_eq!(first.at.digits14(), "20110727200841");
        assert_eq!((first.page.as_str(), first.hits, first.update_tag.as_deref()), ("2310", 1, Some("0")));
        assert_eq!((third.page.as_str(), third.hits, third.update_tag.as_deref()), ("1038", 1, None));
        assert_eq!(third.url.query(), Some("query=canon%20600d&method=and&orderby=1&order=1"));
    }

    #[test]
    fn url_20_spaces_and_missing_last_fields_are_forgiven() {
        assert_eq!(urls(b"b 5 20110727200841 1 http://h/a 2 t"), ["http://h/a"]);
        assert_eq!(urls(b"b\t5\t20110727200841\t1\thttp://h/a b\t2\tt\r\n"), ["http://h/a%20b"]);
        let short = read(b"b\t5\t20110727200841\t1\thttp://h/a");
        assert_eq!((short.entries[0].hits, &short.entries[0].update_tag), (1, &None));
        assert_eq!(read(b"b\t\t20110727200841\t\thttp://h/a\t\t").entries.len(), 1);
        // A line that lost its URL does not swallow the next entry.
        let file = format!("b\t5\t20110727200841\t1\n{GOOD}\n");
        let reading = read(file.as_bytes());
        assert_eq!((reading.entries.len(), reading.bad["fields"]), (1, 1));
    }

    proptest! {
        #[test]
        fn url_20_garbage_between_good_lines_takes_none_of_them(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
            let file = [GOOD.as_bytes(), b"\n\n", &garbage, b"\n\n", GOOD.as_bytes()].concat();
            let reading = read(&file);
            let good = reading.entries.iter().filter(|e| e.url.as_str() == "http://good.example/").count();
            prop_assert!(good >= 2);
        }
    }
}
