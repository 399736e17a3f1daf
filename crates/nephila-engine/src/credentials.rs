//! HTTP authentication: the `Authorization` field for a request, and the decision whether a request rejected with 401
//! is retried with an answer to the challenge.
//!
//! Basic credentials are sent with every request: waiting for a 401 each time would double the number of requests, and
//! the person who named the origin has decided that the site may know the password. Digest needs the site's challenge
//! first; the challenge is kept, and later requests answer directly.
//!
//! Invariant: credentials go to the origin for which they were given and to no other, regardless of any URL, page or
//! redirect.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use data_encoding::{BASE64, HEXLOWER};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use md5::Digest as _;
use nephila_core::spider::auth::{self, Algorithm, Asking, Challenge, Scheme, Wanted};
use nephila_core::url::CrawlUrl;

use crate::settings::{Credential, usage};

/// Maximum number of origins with credentials from URLs.
pub const GIVEN_MAX: usize = 100_000;
/// Maximum size of a password file in bytes.
pub const PASSWORD_BYTES_MAX: u64 = 64 * 1024;

/// See the module.
#[derive(Default)]
pub struct Credentials(Mutex<HashMap<String, Held>>);

/// Credentials for one origin.
pub struct Held {
    user: String,
    password: String,
    scheme: Scheme,
    /// The last challenge of the site, and the number of answers to this challenge.
    digest: Option<(Box<Challenge>, u32)>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Credentials from the settings. Reads the password files.
    pub fn new(settings: &[Credential]) -> anyhow::Result<Credentials> {
        let mut all = HashMap::new();
        for credential in settings {
            let Credential { origin, user, .. } = credential;
            let origin = CrawlUrl::parse(origin).map_err(|error| usage(error.into()))?.origin().to_owned();
            let password = match (&credential.password, credential.password_file.as_os_str().is_empty()) {
                (Some(password), _) => password.clone(),
                (None, false) => read(&credential.password_file)?,
                (None, true) => {
                    tracing::warn!(
                        %origin,
                        "the password of {user} at {origin} is not kept with the crawl, so nothing is sent: put it into \
                         [[credentials]] of nephila.toml, or type the URL with it again"
                    );
                    continue;
                }
            };
            all.insert(
                origin,
                Held { user: user.clone(), password, scheme: credential.scheme, digest: None },
            );
        }
        Ok(Credentials(Mutex::new(all)))
    }

    /// Takes the credentials from a URL that a person gave; they apply to the URL's origin.
    pub fn give(&self, url: &CrawlUrl) {
        let Some((user, password)) = url.credentials() else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known =
            all.get(url.origin()).is_some_and(|held| held.user == user && held.password == password);
        if !is_known && all.len() < GIVEN_MAX {
            let (user, password) = (user.to_owned(), password.to_owned());
            all.insert(url.origin().to_owned(), Held { user, password, scheme: Scheme::Basic, digest: None });
        }
    }

    /// The header field for a request, if there are credentials for its origin.
    pub fn field(&self, url: &CrawlUrl, head_only: bool) -> Option<(HeaderName, HeaderValue)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return None;
        }
        let Held { user, password, scheme, digest } = all.get_mut(url.origin())?;
        let text = match (digest, scheme) {
            (Some((challenge, count)), _) => {
                *count += 1;
                let method = if head_only { "HEAD" } else { "GET" };
                let cnonce = uuid::Uuid::new_v4().simple().to_string();
                let target = url.path_and_query();
                let asking = Asking { user, password, method, target, count: *count, cnonce: &cnonce };
                auth::digest(challenge, asking, hash)
            }
            (None, Scheme::Basic) => {
                format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
            }
            (None, Scheme::Digest) => return None,
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some((AUTHORIZATION, value))
    }

    /// Handles a 401 answer; `sent` is the field that was sent. Returns whether a retry with a better answer is
    /// worthwhile.
    pub fn may_ask_again(&self, url: &CrawlUrl, sent: Option<&HeaderValue>, said: &HeaderMap) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = all.get_mut(url.origin()) else { return false };
        let fields = said.get_all(WWW_AUTHENTICATE);
        let Some(Wanted::Digest(challenge)) =
            auth::choose(fields.iter().map(HeaderValue::as_bytes), held.scheme)
        else {
            return false;
        };
        let had_digest = sent.is_some_and(|sent| sent.as_bytes().starts_with(b"Digest "));
        let again = !had_digest || challenge.is_stale();
        held.digest = Some((challenge, 0));
        again
    }
}

/// Reads a password file of at most [`PASSWORD_BYTES_MAX`] bytes, without the line breaks at its end.
pub fn read(path: &std::path::Path) -> anyhow::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(PASSWORD_BYTES_MAX).read_to_string(&mut text))
        .with_context(|| format!("credentials.password_file {}", path.display()))
        .map_err(usage)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns the digest of a text in lower-case hexadecimal digits.
pub fn hash(algorithm: Algorithm, text: &str) -> String {
    match algorithm {
        Algorithm::Md5 => HEXLOWER.encode(&md5::Md5::digest(text.as_bytes())),
        Algorithm::Sha256 => {
            HEXLOWER.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes()).as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> CrawlUrl {
        CrawlUrl::parse(text).unwrap()
    }

    fn held(scheme: Scheme) -> Credentials {
        let (origin, user) = ("http://www.example.org".into(), "Mufasa".into());
        let password = Some("Circle of Life".into());
        Credentials::new(&[Credential { origin, user, password, scheme, ..Credential::default() }]).unwrap()
    }

    fn said(field: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(WWW_AUTHENTICATE, HeaderValue::from_static(field))])
    }

    #[test]
    fn row_01_the_example_of_rfc_7616_gives_its_digests() {
        // RFC 7616, 3.9.1.
        for (algorithm, want) in [
            (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
            (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let name = if algorithm == Algorithm::Md5 { "MD5" } else { "SHA-256" };
            let field = format!(
                "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={name}, \
                 nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
            );
            let Some(Wanted::Digest(challenge)) = auth::choose([field.as_bytes()], Scheme::Digest) else {
                panic!("{field}")
            };
            let asking = Asking {
                user: "Mufasa",
                password: "Circle of Life",
                method: "GET",
                target: "/dir/index.html",
                count: 1,
                cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            };
            let value = auth::digest(&challenge, asking, hash);
            assert!(value.contains(&format!("response=\"{want}\"")), "{value}");
        }
    }

    #[test]
    fn row_01_a_field_goes_to_its_origin_and_to_no_other() {
        let all = held(Scheme::Basic);
        let (name, value) = all.field(&url("http://www.example.org/a"), false).unwrap();
        assert_eq!((name, value.as_bytes()), (AUTHORIZATION, &b"Basic TXVmYXNhOkNpcmNsZSBvZiBMaWZl"[..]));
        assert!(value.is_sensitive());
        for other in [
            "https://www.example.org/a",
            "http://www.example.org:8080/",
            "http://example.org/",
            "http://u:p@b.test/",
        ] {
            assert!(all.field(&url(other), false).is_none(), "{other}");
        }
        all.give(&url("http://u:p@b.test/"));
        assert!(all.field(&url("http://b.test/x"), false).is_some());
    }

    #[test]
    fn row_01_a_digest_is_sent_when_it_was_asked_for_and_then_at_once() {
        let (all, at) = (held(Scheme::Digest), url("http://www.example.org/a?b"));
        assert!(all.field(&at, false).is_none(), "nothing is readable");
        assert!(!all.may_ask_again(&at, None, &said("Basic realm=x")), "not even if the site wants it");
        let wanted = said("Digest realm=\"r\", nonce=\"n\", qop=\"auth\"");
        assert!(all.may_ask_again(&at, None, &wanted));
        let text = |head| String::from_utf8_lossy(all.field(&at, head).unwrap().1.as_bytes()).into_owned();
        assert!(text(false).contains("nc=00000001"));
        assert!(text(true).contains("nc=00000002"), "the next one answers the same challenge");
        let sent = all.field(&at, false).unwrap().1;
        assert!(!all.may_ask_again(&at, Some(&sent), &wanted), "a wrong password stays wrong");
        assert!(all.may_ask_again(&at, Some(&sent), &said("Digest realm=r, nonce=m, qop=auth, stale=true")));
        assert!(!all.may_ask_again(&url("http://b.test/"), None, &wanted), "nobody else is answered");
        // Basic gives way to a digest, if that is what the site wants.
        let basic = held(Scheme::Basic);
        let sent = basic.field(&at, false).unwrap().1;
        assert!(!basic.may_ask_again(&at, Some(&sent), &said("Basic realm=x")));
        assert!(basic.may_ask_again(&at, Some(&sent), &wanted));
        assert!(basic.field(&at, false).unwrap().1.as_bytes().starts_with(b"Digest "));
    }
}
