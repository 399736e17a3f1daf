//! From the status and fields of a response to an outcome, a redirect target and a time to retry.
//!
//! Pure: the spider calls [`judge`] once the head is complete, before the body is read.

use std::time::Duration;

use http::header::{self, HeaderMap, HeaderValue};

use crate::time::Timestamp;
use crate::url::{CrawlUrl, URL_BYTES_MAX, UrlError};

use super::{Outcome, head};

/// Maximum time for which a site may ask us to stay away.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

/// Maximum length of a validator (`ETag`, `Last-Modified`). The next request omits a longer one.
pub const VALIDATOR_BYTES_MAX: usize = 256;

/// A validator for the next request: verbatim, or none if empty, too long, or invalid in a header field.
pub fn validator(value: &str) -> Option<HeaderValue> {
    let fits = !value.trim().is_empty() && value.len() <= VALIDATOR_BYTES_MAX;
    fits.then(|| HeaderValue::from_str(value).ok()).flatten()
}

/// The responses that the request permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedResponse {
    /// HEAD: there is no body, whatever the head says.
    pub head_only: bool,
    /// The request carried a validator, so 304 is permitted.
    pub conditional: bool,
    /// The request carried a range, so 206 is permitted.
    pub range: bool,
}

/// The meaning of the head of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadVerdict {
    /// The outcome if the body arrives completely.
    pub outcome: Outcome,
    /// The target of the redirect.
    pub redirect: Option<CrawlUrl>,
    /// Whether the body is read and kept. If not, the connection is closed instead.
    pub keep: bool,
    /// Whether the connection may be reused once the body is read.
    pub reusable: bool,
}

/// Judges the head of a response.
pub fn judge(asked: ExpectedResponse, url: &CrawlUrl, status: u16, fields: &HeaderMap) -> HeadVerdict {
    let refuse = |outcome| HeadVerdict { outcome, redirect: None, keep: false, reusable: false };
    match status {
        101 => return refuse(Outcome::UnexpectedUpgrade),
        206 if !asked.range => return refuse(Outcome::UnexpectedPartial),
        304 if !asked.conditional => return refuse(Outcome::UnexpectedNotModified),
        _ => {}
    }
    let codings = || fields.get_all(header::TRANSFER_ENCODING).iter().map(|value| value.as_bytes());
    if head::has_foreign_transfer_coding(codings()) {
        return refuse(Outcome::TransferCoding);
    }
    // A length beside chunks: the chunks win. An intermediary may decide otherwise, so the connection is closed.
    let smuggled =
        fields.contains_key(header::TRANSFER_ENCODING) && fields.contains_key(header::CONTENT_LENGTH);
    let mut answer =
        HeadVerdict { outcome: Outcome::of_status(status), redirect: None, keep: true, reusable: !smuggled };
    if answer.outcome == Outcome::Redirect {
        match target(url, fields) {
            Ok(target) => answer.redirect = Some(target),
            Err(outcome) => answer.outcome = outcome,
        }
    }
    if is_challenge(status, fields) {
        answer.outcome = Outcome::Challenged;
    }
    answer
}

/// The target of a redirect, or the outcome if there is none.
fn target(url: &CrawlUrl, fields: &HeaderMap) -> Result<CrawlUrl, Outcome> {
    let mut locations = fields.get_all(header::LOCATION).iter().map(|value| value.as_bytes().trim_ascii());
    let location =
        locations.next().filter(|location| !location.is_empty()).ok_or(Outcome::RedirectBadLocation)?;
    if location.len() > URL_BYTES_MAX || locations.any(|other| other != location) {
        return Err(Outcome::RedirectBadLocation);
    }
    url.join(&bytes_to_reference(location)).map_err(|error| match error {
        UrlError::Scheme(_) => Outcome::RedirectScheme,
        _ => Outcome::RedirectBadLocation,
    })
}

/// The redirect targets in a head that hold control bytes, with these bytes encoded like in browsers. HTTP libraries
/// drop such a field as invalid. NUL and CR stay invalid: heads are forged with them.
pub fn locations_with_controls(head: &[u8]) -> impl Iterator<Item = HeaderValue> {
    let locations = head::fields(head).filter(|(name, _)| name.eq_ignore_ascii_case(b"location"));
    locations.filter_map(|(_, value)| {
        let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
        if !value.iter().any(is_control) || value.iter().any(|byte| matches!(byte, 0 | b'\r')) {
            return None;
        }
        let encoded = value.iter().fold(Vec::with_capacity(value.len() + 8), |mut encoded, byte| {
            if is_control(byte) {
                encoded.extend_from_slice(format!("%{byte:02X}").as_bytes());
            } else {
                encoded.push(*byte);
            }
            encoded
        });
        HeaderValue::from_bytes(&encoded).ok()
    })
}

/// The text itself; bytes that are no UTF-8 percent-encoded one by one, since their charset is unknown.
fn bytes_to_reference(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            if byte.is_ascii() {
                text.push(char::from(*byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
            text
        }),
    }
}

/// Whether a page is a challenge for browsers. The announced kind is recognised and never solved.
fn is_challenge(status: u16, fields: &HeaderMap) -> bool {
    matches!(status, 401 | 403 | 429 | 503)
        && fields.get("cf-mitigated").is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"challenge"))
}

/// The time to wait by `Retry-After`: seconds or a date, at most [`RETRY_AFTER_MAX`], none if malformed.
pub fn retry_after(fields: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = fields.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs).min(RETRY_AFTER_MAX));
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    let wait = u64::try_from(at).ok()?.saturating_sub(now.0);
    Some(Duration::from_millis(wait).min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn fields(list: &[(&str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_bytes(value).unwrap(),
            );
        }
        map
    }

    fn check(status: u16, list: &[(&str, &[u8])]) -> HeadVerdict {
        let url = CrawlUrl::parse("http://site.test/dir/page?q=1").unwrap();
        judge(ExpectedResponse::default(), &url, status, &fields(list))
    }

    #[test]
    fn a_target_is_resolved_against_the_page() {
        for (location, target) in [
            (&b"../x"[..], "http://site.test/x"),
            (b"//other.test/a b", "http://other.test/a%20b"),
            ("/\u{fc}".as_bytes(), "http://site.test/%C3%BC"),
            (b"/\xfc", "http://site.test/%FC"),
            (b"?p=2", "http://site.test/dir/page?p=2"),
        ] {
            let answer = check(302, &[("location", location)]);
            assert_eq!(answer.outcome, Outcome::Redirect);
            assert_eq!(answer.redirect.unwrap().as_str(), target);
        }
    }

    #[test]
    fn no_target_is_ever_guessed() {
        let long = vec![b'a'; URL_BYTES_MAX + 1];
        for list in [
            &[][..],
            &[("location", &b""[..])],
            &[("location", b"/a"), ("location", b"/b")],
            &[("location", &long)],
            &[("location", b"http://[broken/")],
        ] {
            let answer = check(301, list);
            assert_eq!(
                (answer.outcome, answer.redirect, answer.keep),
                (Outcome::RedirectBadLocation, None, true)
            );
        }
        for scheme in
            ["file:///etc/passwd", "ftp://a.test/", "gopher://a.test/", "data:,x", "javascript:alert(1)"]
        {
            assert_eq!(
                check(302, &[("location", scheme.as_bytes())]).outcome,
                Outcome::RedirectScheme,
                "{scheme}"
            );
        }
    }

    #[test]
    fn red_08_control_bytes_in_a_target_are_encoded_and_forgery_is_not_helped() {
        let check = |value: &[u8]| {
            let head = [b"HTTP/1.1 302 Found\r\nlocation: ", value, b"\r\nX: \x01\r\n\r\n"].concat();
            locations_with_controls(&head).map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(check(b"/a\x01\x0b\x7f\xfcb"), [b"/a%01%0B%7F\xfcb"]);
        for dropped in [&b"/plain"[..], b"/a\0b\x01", b"/a\rb\x01", b""] {
            assert!(check(dropped).is_empty(), "{dropped:?}");
        }
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        assert_eq!(check(101, &[]).outcome, Outcome::UnexpectedUpgrade);
        assert_eq!(check(206, &[]).outcome, Outcome::UnexpectedPartial);
        assert_eq!(check(304, &[]).outcome, Outcome::UnexpectedNotModified);
        assert_eq!(check(200, &[("transfer-encoding", b"gzip, chunked")]).outcome, Outcome::TransferCoding);
        let url = CrawlUrl::parse("http://site.test/").unwrap();
        let asked = ExpectedResponse { conditional: true, ..ExpectedResponse::default() };
        assert_eq!(judge(asked, &url, 304, &HeaderMap::new()).outcome, Outcome::NotModified);
    }

    #[test]
    fn length_and_chunks_together_end_the_connection() {
        assert!(!check(200, &[("transfer-encoding", b"chunked"), ("content-length", b"5")]).reusable);
        assert!(check(200, &[("transfer-encoding", b"chunked")]).reusable);
    }

    #[test]
    fn h1_34_validators_go_back_verbatim_and_only_below_a_size() {
        for value in ["\"strong\"", "W/\"weak\"", "unquoted", "Sun, 06 Nov 1994 08:49:37 GMT", "\"\""] {
            assert_eq!(validator(value).unwrap(), value);
        }
        let long = |bytes| "e".repeat(bytes);
        assert!(validator(&long(VALIDATOR_BYTES_MAX)).is_some());
        for value in ["", " ", &long(VALIDATOR_BYTES_MAX + 1), &long(10_000), "\"a\r\nX: y\"", "\"\u{1}\""] {
            assert_eq!(validator(value), None, "{value:.20?}");
        }
    }

    #[test]
    fn a_site_can_send_us_away_for_a_day_at_most() {
        let now = Timestamp::from_secs(784_111_770);
        for (value, wait) in [
            ("120", Some(120)),
            ("99999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1993 08:49:37 GMT", None),
            ("soon", None),
            ("-5", None),
        ] {
            let found = retry_after(&fields(&[("retry-after", value.as_bytes())]), now).map(|d| d.as_secs());
            // A weekday that does not fit its date may be refused or taken as the past: both mean "no wait".
            assert_eq!(found.filter(|s| *s > 0), wait, "{value}");
        }
    }
}
