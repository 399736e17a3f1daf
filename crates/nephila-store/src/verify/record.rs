//! Checks one record.

use std::collections::HashSet;
use std::path::Path;

use nephila_core::store::digest::Hasher;
use nephila_core::store::record::{PROFILE_IDENTICAL, PROFILE_NOT_MODIFIED};
use nephila_core::store::{Digest, Media, cdxj, media};

use super::http::Http;
use super::{IDS_MAX, Kind, Named, Report};
use crate::warc::scan::capture;
use crate::warc::{Header, Record, Visitor};

/// Inspects a record while reading.
#[derive(Default)]
pub(super) struct Checker {
    block: Hasher,
    http: Option<Http>,
}

impl Visitor for Checker {
    fn header(&mut self, header: &Header) {
        let kind = header.get("WARC-Type").unwrap_or_default();
        let is_http = header.get("Content-Type").is_some_and(|t| t.starts_with("application/http"))
            || header
                .get("WARC-Target-URI")
                .is_some_and(|uri| uri.trim_start_matches('<').starts_with("http"));
        if is_http && matches!(kind, "response" | "revisit" | "request") {
            self.http = Some(Http::default());
        }
    }

    fn block(&mut self, bytes: &[u8]) {
        self.block.update(bytes);
        if let Some(http) = &mut self.http {
            http.push(bytes);
        }
    }
}

const TYPES: [&str; 8] =
    ["warcinfo", "response", "resource", "request", "metadata", "revisit", "conversion", "continuation"];
/// Profiles of WARC 1.0 and 1.1, which differ in one path segment.
const PROFILES_OLD: [&str; 2] = [
    "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest",
    "http://netpreserve.org/warc/1.0/revisit/server-not-modified",
];

impl Checker {
    /// Reports the defects; returns the index data of the record.
    pub(super) fn finish(
        self,
        path: &Path,
        record: &Record,
        report: &mut Report,
        ids: &mut HashSet<[u8; 16]>,
    ) -> Option<cdxj::Capture> {
        let header = &record.header;
        let id = header.get("WARC-Record-ID").map(str::to_owned);
        let mut unchecked = 0;
        let mut found: Vec<(Kind, String)> = Vec::new();
        let mut add = |kind, message: String| found.push((kind, message));

        framing(record, &mut add);
        named_fields(header, record.block_len, &mut add);
        match &id {
            None => add(Kind::RecordIdMissing, "no WARC-Record-ID".into()),
            Some(id) => {
                if !(id.starts_with('<') && id.ends_with('>') && id.contains(':')) {
                    add(Kind::RecordIdForm, format!("{id:?}"));
                }
                let short = Digest::of(&[id.as_bytes()]).0[..16].try_into().expect("a digest has 20 bytes");
                if ids.len() < IDS_MAX && !ids.insert(short) {
                    add(Kind::RecordIdRepeated, format!("{id} was there before"));
                }
            }
        }
        let block = self.block.finish();
        let mut digest =
            |name: &str, wrong: Kind, actual: Option<Digest>, add: &mut dyn FnMut(Kind, String)| {
                let Some(said) = header.get(name) else { return };
                match (Digest::parse(said), actual) {
                    (Some(said), Some(actual)) if said != actual => {
                        add(wrong, format!("{name} {said}, really {actual}"))
                    }
                    (Some(_), _) => {}
                    (None, _) if said.contains(':') && !said.to_ascii_lowercase().starts_with("sha1:") => {
                        unchecked += 1
                    }
                    (None, _) => add(Kind::DigestForm, format!("{name}: {said:?}")),
                }
            };
        digest("WARC-Block-Digest", Kind::BlockDigest, Some(block), &mut add);
        let kind = header.get("WARC-Type").unwrap_or_default();
        let mut http_head: &[u8] = &[];
        let view = self.http.as_ref().map(Http::view);
        match (kind, &view) {
            ("response", Some(view)) => {
                view.check_response(&mut add);
                // The payload is an object: `verify --media` reads it.
                let payload = view.payload_digest().filter(|_| header.get(media::FIELD).is_none());
                digest("WARC-Payload-Digest", Kind::PayloadDigest, payload, &mut add);
                http_head = view.head;
            }
            ("revisit", view) => {
                revisit(header, record.block_len, view.as_ref(), &mut add);
                digest("WARC-Payload-Digest", Kind::PayloadDigest, None, &mut add);
                http_head = view.as_ref().map_or(&[], |view| view.head);
            }
            ("request", Some(view)) => view.check_request(&mut add),
            ("resource" | "conversion", _) => {
                digest("WARC-Payload-Digest", Kind::PayloadDigest, Some(block), &mut add);
            }
            _ => {}
        }
        let held = header.get(media::FIELD).map(|said| (said, Media::parse(said)));
        match held {
            Some((_, Some(media))) if kind == "response" && view.is_some_and(|view| view.body_len == 0) => {
                report.name(media, Named { file: path.into(), offset: record.offset, record: id.clone() });
            }
            Some((said, _)) => add(Kind::MediaForm, format!("{said:?}")),
            None => {}
        }
        report.unchecked += unchecked;
        for (kind, message) in found {
            report.add(path, record.offset, id.as_deref(), kind, message);
        }
        capture(header, http_head)
    }
}

fn framing(record: &Record, add: &mut dyn FnMut(Kind, String)) {
    if !record.separator {
        let wanted = record.header.content_length().unwrap_or_default();
        add(
            Kind::Separator,
            format!("{} bytes of a block of {wanted}, or no two line ends", record.block_len),
        );
    } else if record.shares_member {
        add(Kind::SharedMember, "something follows the record in the same member".into());
    }
    if record.header.broken_lines > 0 {
        add(Kind::HeaderLine, format!("{} lines", record.header.broken_lines));
    }
    if !matches!(record.header.version.as_str(), "WARC/1.0" | "WARC/1.1") {
        add(Kind::Version, format!("{:?}", record.header.version));
    }
}

fn named_fields(header: &Header, block_len: u64, add: &mut dyn FnMut(Kind, String)) {
    let kind = header.get("WARC-Type").unwrap_or_default();
    if !TYPES.contains(&kind) {
        add(Kind::Type, format!("{kind:?}"));
    }
    match header.get("WARC-Date") {
        None => add(Kind::Date, "no WARC-Date".into()),
        Some(date) if !is_date(date) => add(Kind::Date, format!("{date:?}")),
        Some(_) => {}
    }
    match header.get("WARC-Target-URI") {
        None if matches!(
            kind,
            "response" | "resource" | "request" | "revisit" | "conversion" | "continuation"
        ) =>
        {
            add(Kind::TargetMissing, "no WARC-Target-URI".into());
        }
        Some(uri) if !is_uri(uri) => add(Kind::TargetForm, format!("{uri:?}")),
        _ => {}
    }
    let wanted = match kind {
        "response" | "request" => header
            .get("WARC-Target-URI")
            .is_some_and(|uri| uri.starts_with("http"))
            .then(|| format!("msgtype={kind}")),
        "warcinfo" => Some("application/warc-fields".into()),
        _ => None,
    };
    match (header.get("Content-Type"), wanted) {
        (None, _) if block_len > 0 => add(Kind::ContentType, "no Content-Type".into()),
        (Some(said), Some(wanted)) if !said.replace(' ', "").contains(&wanted) => {
            add(Kind::ContentType, format!("{said:?} in a {kind}"));
        }
        _ => {}
    }
    if let Some(reason) = header.get("WARC-Truncated")
        && !matches!(reason, "length" | "time" | "disconnect" | "unspecified")
    {
        add(Kind::Truncated, format!("{reason:?}"));
    }
}

fn revisit(
    header: &Header,
    block_len: u64,
    view: Option<&super::http::View<'_>>,
    add: &mut dyn FnMut(Kind, String),
) {
    let profile = header.get("WARC-Profile").unwrap_or_default();
    if ![PROFILE_IDENTICAL, PROFILE_NOT_MODIFIED].contains(&profile) && !PROFILES_OLD.contains(&profile) {
        add(Kind::RevisitProfile, format!("{profile:?}"));
    }
    let date = header.get("WARC-Refers-To-Date");
    match (header.get("WARC-Refers-To-Target-URI"), date) {
        (Some(uri), Some(date)) if is_uri(uri) && is_date(date) => {}
        (uri, date) => add(Kind::RevisitTarget, format!("refers to {uri:?} at {date:?}")),
    }
    if header.get("WARC-Payload-Digest").is_none() {
        add(Kind::RevisitDigest, "no WARC-Payload-Digest".into());
    }
    let Some(view) = view.filter(|_| block_len > 0) else { return };
    if profile.ends_with("server-not-modified") || view.status() == Some("304") {
        add(Kind::RevisitBlock, format!("{block_len} bytes for a 304"));
    } else {
        view.check_head(add);
        if view.body_len > 0 {
            add(Kind::RevisitBody, format!("{} bytes after the head", view.body_len));
        }
    }
}

/// The forms of W3C's date and time note that WARC 1.1 allows: any precision from the year to nanoseconds, UTC.
fn is_date(text: &str) -> bool {
    let text = text.as_bytes();
    let matches = |shape: &[u8], part: &[u8]| {
        part.len() == shape.len()
            && part
                .iter()
                .zip(shape)
                .all(|(byte, want)| if *want == b'0' { byte.is_ascii_digit() } else { byte == want })
    };
    if [&b"0000"[..], b"0000-00", b"0000-00-00", b"0000-00-00T00:00Z", b"0000-00-00T00:00:00Z"]
        .iter()
        .any(|shape| matches(shape, text))
    {
        return in_range(text);
    }
    let Some((whole, rest)) = text.split_at_checked(19) else { return false };
    let Some(digits) = rest.strip_prefix(b".").and_then(|rest| rest.strip_suffix(b"Z")) else { return false };
    matches(b"0000-00-00T00:00:00", whole)
        && matches!(digits.len(), 1..=9)
        && digits.iter().all(u8::is_ascii_digit)
        && in_range(text)
}

fn in_range(text: &[u8]) -> bool {
    let part = |from: usize, low: u8, high: u8| {
        text.get(from..from + 2).is_none_or(|d| (low..=high).contains(&((d[0] - b'0') * 10 + (d[1] - b'0'))))
    };
    part(5, 1, 12)
        && part(8, 1, 31)
        && part(11, 0, 23)
        && part(14, 0, 59)
        && (text.len() < 19 || part(17, 0, 60))
}

fn is_uri(text: &str) -> bool {
    let scheme = text.split(':').next().unwrap_or_default();
    text.contains(':')
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        && text.chars().all(|c| c > ' ' && c != '<' && c != '>' && c != '\u{7f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_every_precision_are_dates() {
        for date in [
            "2026",
            "2026-11",
            "2026-11-14",
            "2026-11-14T22:58Z",
            "2026-11-14T22:58:09Z",
            "2026-11-14T22:58:09.1Z",
            "2026-11-14T22:58:09.123456789Z",
        ] {
            assert!(is_date(date), "{date}");
        }
        for date in [
            "",
            "2026-11-14 22:58:09",
            "2026-11-14T22:58:09",
            "20261114225809",
            "2026-13-14T22:58:09Z",
            "2026-11-14T22:58:09.Z",
            "2026-11-14T22:58:09.1234567890Z",
            "2026-11-14T24:58:09Z",
            "2026-11-14T22:58:09+01:00",
            "2026-1",
        ] {
            assert!(!is_date(date), "{date}");
        }
    }
}
