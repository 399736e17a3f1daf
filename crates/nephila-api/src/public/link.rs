//! Signed links: what a link is about, until when, and whether a signature belongs to it. Decided without clock and files.
//!
//! A signature is an HMAC-SHA256 over kind, end and name. Its key comes from a secret by another HMAC with a label of its
//! own, so that a link says nothing about tokens, sessions or proofs of nodes, and none of those opens a link.
//!
//! Invariants: a signature opens one subject until one moment; signatures are compared in constant time; each signature
//! has one spelling.

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::question::escaped;
use crate::timeline::origin_of;

/// Path below which links lead.
pub const PREFIX: &str = "/public/";
/// Usual life of a link in seconds: 7 days.
pub const LIFE_USUAL: u64 = 7 * 24 * 3_600;
/// Shortest life of a link in seconds.
pub const LIFE_MIN: u64 = 60;
/// Longest life of a link in seconds: 90 days. A single link cannot be taken back.
pub const LIFE_MAX: u64 = 90 * 24 * 3_600;
/// Maximum length in bytes of the name of a job or a host.
pub const NAME_BYTES_MAX: usize = 512;
/// What the key of links is made for.
const LABEL: &[u8] = b"nephila public links 1\n";

/// What a link shows.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The progress of a job.
    Job,
    /// The requests to a host.
    Host,
}

impl Kind {
    /// The kind in one word, as in the path.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Job => "job",
            Kind::Host => "host",
        }
    }
}

/// What one link is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// Job or host.
    pub kind: Kind,
    /// Name of the job, or authority of the host: `example.org`, `example.org:8080`.
    pub name: String,
}

impl Subject {
    /// A subject as a person names it: a job by its name, a host by its name or by a URL. The error says what is wrong.
    pub fn named(kind: Kind, text: &str) -> Result<Subject, String> {
        let name = match kind {
            Kind::Job => text.to_owned(),
            Kind::Host => {
                let origin = origin_of(text.trim())?;
                origin.split_once("://").map_or("", |(_, authority)| authority).to_owned()
            }
        };
        match name.len() {
            1..=NAME_BYTES_MAX => Ok(Subject { kind, name }),
            _ => Err(format!("a name has 1 to {NAME_BYTES_MAX} bytes")),
        }
    }

    /// The subject in the path of a request.
    pub(super) fn in_path(kind: Kind, name: &str) -> Subject {
        Subject { kind, name: name.to_owned() }
    }

    /// Scheme and authority of the hosts that a link shows: a site is one site over https and over http.
    pub(super) fn origins(&self) -> Vec<String> {
        let is_own = |origin: &String| origin.split_once("://").is_some_and(|(_, name)| name == self.name);
        let schemes = ["https", "http"].iter().filter(|_| self.kind == Kind::Host);
        let origins = schemes.filter_map(|scheme| origin_of(&format!("{scheme}://{}/", self.name)).ok());
        origins.filter(is_own).collect()
    }

    /// Path and query of the page, with this signature.
    pub fn target(&self, until: u64, signature: &str) -> String {
        format!("{PREFIX}{}/{}?until={until}&key={signature}", self.kind.name(), escaped(&self.name))
    }

    fn signed(&self, until: u64) -> Vec<u8> {
        // The name comes last: it may have line ends, the others have none.
        format!("{}\n{until}\n{}", self.kind.name(), self.name).into_bytes()
    }
}

/// Whether a path leads to what a link shows.
pub(crate) fn is_public(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// The key of links.
#[derive(Clone)]
pub struct LinkKey(hmac::Key);

impl std::fmt::Debug for LinkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LinkKey")
    }
}

impl LinkKey {
    /// The key that follows from a random secret, and from a second one that an operator can change.
    pub fn new(secret: &[u8], second: &[u8]) -> LinkKey {
        let made = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &[LABEL, second].concat());
        LinkKey(hmac::Key::new(hmac::HMAC_SHA256, made.as_ref()))
    }

    /// The signature of a link that ends at this time, in seconds since 1970.
    pub fn sign(&self, subject: &Subject, until: u64) -> String {
        BASE64URL_NOPAD.encode(hmac::sign(&self.0, &subject.signed(until)).as_ref())
    }

    /// Whether a link opens its subject at this time.
    pub fn opens(&self, subject: &Subject, until: &str, signature: &str, now: u64) -> bool {
        let Some(end) = until.parse::<u64>().ok().filter(|end| end.to_string() == until) else {
            return false;
        };
        let Ok(signature) = BASE64URL_NOPAD.decode(signature.as_bytes()) else { return false };
        hmac::verify(&self.0, &subject.signed(end), &signature).is_ok() && now < end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const END: u64 = NOW + LIFE_USUAL;

    fn key() -> LinkKey {
        LinkKey::new(&[7; 32], b"")
    }

    fn subject(kind: Kind, name: &str) -> Subject {
        Subject::named(kind, name).unwrap()
    }

    #[test]
    fn a_link_opens_its_subject_until_its_end() {
        let host = subject(Kind::Host, "a.test");
        let signature = key().sign(&host, END);
        let end = END.to_string();
        for (now, opens) in [(0, true), (NOW, true), (END - 1, true), (END, false), (END + 1, false)] {
            assert_eq!(key().opens(&host, &end, &signature, now), opens, "{now}");
        }
        assert_eq!(host.target(END, &signature), format!("/public/host/a.test?until={end}&key={signature}"));
        assert_eq!(signature.len(), 43);
    }

    #[test]
    fn a_link_with_any_part_changed_opens_nothing() {
        let host = subject(Kind::Host, "a.test");
        let signature = key().sign(&host, END);
        let end = END.to_string();
        for other in [
            subject(Kind::Host, "b.test"),
            subject(Kind::Host, "a.test:8080"),
            subject(Kind::Host, "aa.test"),
            Subject::in_path(Kind::Host, "A.test"),
            Subject::in_path(Kind::Host, ""),
            Subject::in_path(Kind::Job, "a.test"),
            Subject::in_path(Kind::Host, &format!("{END}\na.test")),
        ] {
            assert!(!key().opens(&other, &end, &signature, NOW), "{other:?}");
        }
        for until in [
            (END + 1).to_string(),
            (END - 1).to_string(),
            format!("0{end}"),
            format!("+{end}"),
            String::new(),
        ] {
            assert!(!key().opens(&host, &until, &signature, NOW), "{until:?}");
        }
        for at in 0..signature.len() {
            for letter in ["A", "b", "-", "_", "=", "é"] {
                let changed = format!("{}{letter}{}", &signature[..at], &signature[at + 1..]);
                let is_same = changed == signature;
                assert_eq!(key().opens(&host, &end, &changed, NOW), is_same, "{changed}");
            }
        }
        for changed in
            [&signature[1..], &signature[..42], &format!("{signature}A"), &format!("{signature}="), ""]
        {
            assert!(!key().opens(&host, &end, changed, NOW), "{changed:?}");
        }
    }

    #[test]
    fn a_changed_secret_ends_all_links_and_the_same_one_keeps_them() {
        let job = subject(Kind::Job, "press");
        let signature = key().sign(&job, END);
        let opens = |key: LinkKey| key.opens(&job, &END.to_string(), &signature, NOW);
        assert!(opens(LinkKey::new(&[7; 32], b"")), "another node, or the same one after a restart");
        assert!(!opens(LinkKey::new(&[8; 32], b"")));
        assert!(!opens(LinkKey::new(&[7; 32], b"another token")));
        assert_eq!(format!("{:?}", key()), "LinkKey", "no secret is printed");
    }

    #[test]
    fn the_key_of_links_is_no_other_key() {
        let job = subject(Kind::Job, "press");
        let plain = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]), &job.signed(END));
        assert_ne!(key().sign(&job, END), BASE64URL_NOPAD.encode(plain.as_ref()));
    }

    #[test]
    fn a_host_is_named_by_its_name_or_a_url_and_is_one_over_both_schemes() {
        for (text, name) in [
            ("a.test", "a.test"),
            ("A.Test:80", "a.test"),
            ("https://a.test:443/x?y", "a.test"),
            ("http://a.test:8080/", "a.test:8080"),
            (" 127.0.0.1:9 ", "127.0.0.1:9"),
            ("[::1]:9", "[::1]:9"),
        ] {
            assert_eq!(Subject::named(Kind::Host, text).unwrap().name, name, "{text}");
        }
        for wrong in ["", "http://", "a b.test"] {
            assert!(Subject::named(Kind::Host, wrong).is_err(), "{wrong}");
        }
        assert!(Subject::named(Kind::Job, "").is_err());
        assert!(Subject::named(Kind::Job, &"x".repeat(NAME_BYTES_MAX + 1)).is_err());
        assert_eq!(subject(Kind::Host, "a.test").origins(), ["https://a.test", "http://a.test"]);
        assert_eq!(subject(Kind::Host, "https://a.test:80").origins(), ["https://a.test:80"]);
        assert_eq!(subject(Kind::Job, "a.test").origins(), [""; 0]);
        let v6 = subject(Kind::Host, "[::1]:9");
        assert!(v6.target(1, "k").starts_with("/public/host/%5B::1%5D:9?"));
    }
}
