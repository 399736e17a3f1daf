//! Removes secrets from request heads before they are archived.
//!
//! A field keeps its value only if the field is harmless in every request, or if the operator named the field: any
//! field added with `-H` may be a secret, whatever its name. All other fields keep their names and lose their values;
//! user information is cut out of every URL in the head. Invariant: no value of a field in [`NAMES`] reaches a record,
//! whatever the operator names.

use std::borrow::Cow;

use super::head::{Lines, push_field, split_field};

/// The replacement of a secret.
pub const REDACTED: &[u8] = b"[redacted]";

/// Names that are always secret, in lower case. All names that begin with one of [`PREFIXES`] are secret as well.
pub const NAMES: &[&str] = &[
    "authorization",
    "cookie",
    "cookie2",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-access-token",
];

/// Prefixes of names that are always secret, in lower case: fields for a proxy, and message signatures.
pub const PREFIXES: &[&str] = &["proxy-", "signature"];

/// Names whose values may stand in a record, in lower case: the fields of our own requests, and fields that browsers
/// send to every site.
pub const HARMLESS: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "dnt",
    "from",
    "host",
    "if-modified-since",
    "if-none-match",
    "pragma",
    "range",
    "referer",
    "te",
    "upgrade-insecure-requests",
    "user-agent",
];

/// Whether the value of a field with this name may be archived. `open` holds names that the operator calls harmless,
/// `more` additional secret names.
pub fn is_open(name: &[u8], open: &[String], more: &[String]) -> bool {
    let same = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    !is_secret(name, more)
        && (HARMLESS.iter().any(|other| same(other)) || open.iter().any(|other| same(other)))
}

/// Whether a field with this name is secret. `more` holds names that the operator added.
pub fn is_secret(name: &[u8], more: &[String]) -> bool {
    let same = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    let begins = |prefix: &&str| {
        name.len() >= prefix.len() && name[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
    };
    NAMES.iter().any(|other| same(other))
        || PREFIXES.iter().any(begins)
        || more.iter().any(|other| same(other))
}

/// A request head without secrets, with clean lines. For the lists see [`is_open`].
pub fn request(head: &[u8], open: &[String], more: &[String]) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len());
    let mut lines = Lines::new(head);
    out.extend_from_slice(&without_userinfo(&lines.next().unwrap_or_default()));
    out.extend_from_slice(b"\r\n");
    for line in lines {
        match split_field(&line) {
            Some((name, value)) if is_open(name, open, more) => {
                push_field(&mut out, name, &without_userinfo(value));
            }
            Some((name, _)) => push_field(&mut out, name, REDACTED),
            // We wrote the head ourselves, so this does not happen; if ever, a malformed line is redacted.
            None => push_field(&mut out, b"X-Crawler-Invalid-Line", REDACTED),
        }
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// Cuts `user:password@` out of every URL in these bytes.
pub fn without_userinfo(bytes: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'@', bytes).is_none() {
        return Cow::Borrowed(bytes);
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, b"://") {
        let (before, after) = rest.split_at(at + 3);
        out.extend_from_slice(before);
        let authority = after.iter().position(|b| b"/?#\\ \t\"'<>".contains(b)).unwrap_or(after.len());
        rest = match memchr::memrchr(b'@', &after[..authority]) {
            Some(at) => &after[at + 1..],
            None => after,
        };
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_lose_their_values_and_keep_their_names() {
        let head = b"GET http://u:p@h.test/?q=a@b HTTP/1.1\r\nHost: h.test\r\nAUTHORIZATION: Basic Zm9v\r\n\
            Cookie: a=SECRET;\r\n b=SECRET\r\nProxy-Authorization: SECRET\r\nSignature-Input: SECRET\r\nSignature: SECRET\r\n\
            X-Shop-Key: SECRET\r\nX-Api-Key: SECRET\r\nReferer: https://me:SECRET@x.test/a\r\nAccept: */*\r\n\r\n";
        let out = request(head, &["Cookie".into()], &["x-shop-key".into()]);
        let out = String::from_utf8(out).unwrap();
        assert!(!out.contains("SECRET") && !out.contains("Zm9v") && !out.contains("u:p@"), "{out}");
        assert!(out.starts_with(
            "GET http://h.test/?q=a@b HTTP/1.1\r\nHost: h.test\r\nAUTHORIZATION: [redacted]\r\n"
        ));
        assert!(out.contains("Referer: https://x.test/a\r\nAccept: */*\r\n\r\n"));
        assert_eq!(out.matches("[redacted]").count(), 7);
    }

    #[test]
    fn sec_06_a_field_of_any_name_loses_its_value_unless_it_is_named() {
        let head = b"GET / HTTP/1.1\r\nHost: h.test\r\nX-Tenant: SECRET\r\nMy-Pass: SECRET\r\nX-Experiment: b\r\n\r\n";
        let out =
            String::from_utf8(request(head, &["x-experiment".into(), "my-pass".into()], &["my-pass".into()]));
        let out = out.unwrap();
        assert!(!out.contains("SECRET"), "{out}");
        assert!(out.contains("X-Tenant: [redacted]\r\n") && out.contains("X-Experiment: b\r\n"), "{out}");
        assert!(out.contains("Host: h.test\r\n"), "{out}");
    }

    #[test]
    fn urls_lose_their_users() {
        for (url, want) in [
            ("http://a@b@c.test/x", "http://c.test/x"),
            ("http://c.test/x@y", "http://c.test/x@y"),
            ("http://c.test", "http://c.test"),
            ("a://u@b c://v:w@d", "a://b c://d"),
            ("://", "://"),
        ] {
            assert_eq!(*without_userinfo(url.as_bytes()), *want.as_bytes());
        }
    }
}
