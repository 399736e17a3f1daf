//! Tokens of clients, each with a role and a rate, and the sessions of browsers that began with a token.
//!
//! A session is a cookie that proves itself: name of the token, end, a random number, and a MAC with the token as the
//! key. So all nodes with the same tokens accept the session, and a changed token ends its sessions. A session that was
//! ended is remembered until the end that its cookie names.
//!
//! Invariants: tokens are compared in constant time; a session has the role of its token, at most
//! [`SESSION_SECONDS`] long; at most [`ENDED_MAX`] ended sessions are remembered, and none of them is forgotten early.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use http::header::{self, HeaderMap, HeaderValue};
use nephila_engine::settings::Role;

use super::rate::Bucket;

/// Life of a session in seconds.
pub(super) const SESSION_SECONDS: u64 = 12 * 3_600;
/// Maximum number of ended sessions that are remembered. Further ones end with their time.
pub(super) const ENDED_MAX: usize = 10_000;
/// Name of the cookie.
pub(super) const COOKIE: &str = "nephila_session";
/// Name of the cookie under TLS. Browsers accept it from this host alone, and encrypted.
pub(super) const COOKIE_TLS: &str = "__Host-nephila_session";

/// A token of a client.
#[derive(Clone, Debug)]
pub struct Token {
    /// Name, for people. Letters, digits, `-` and `_`.
    pub name: Arc<str>,
    /// The token itself.
    pub secret: Arc<str>,
    /// The permitted operations.
    pub role: Role,
    /// Requests per second.
    pub per_second: u32,
}

#[derive(Debug)]
struct Known {
    token: Token,
    bucket: Mutex<Bucket>,
}

/// See the module.
#[derive(Debug)]
pub struct Tokens {
    known: Vec<Known>,
    began: Instant,
    ended: Mutex<Ended>,
}

#[derive(Debug, Default)]
struct Ended {
    numbers: HashSet<Box<str>>,
    /// The same by the end of the session.
    order: BTreeSet<(u64, Box<str>)>,
}

/// A session, as its cookie says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// Index of the token.
    pub(super) token: usize,
    /// End of the session, in seconds since 1970.
    pub(super) until: u64,
    number: Box<str>,
}

impl Tokens {
    /// The tokens of a server.
    pub fn new(tokens: impl IntoIterator<Item = Token>) -> Tokens {
        let known = |token: Token| {
            let bucket = Mutex::new(Bucket::new(token.per_second, 0));
            Known { token, bucket }
        };
        let known = tokens.into_iter().map(known).collect();
        Tokens { known, began: Instant::now(), ended: Mutex::default() }
    }

    /// The token with this index.
    pub(super) fn get(&self, index: usize) -> &Token {
        &self.known[index].token
    }

    /// The token of a request.
    pub(super) fn bearer(&self, headers: &HeaderMap) -> Option<usize> {
        let given = headers.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
        let given = given.strip_prefix(b"Bearer ")?;
        let mut found = None;
        for (index, known) in self.known.iter().enumerate() {
            if is_same(given, known.token.secret.as_bytes()) {
                found = Some(index);
            }
        }
        found
    }

    /// Counts a request of a token. The error is the number of seconds until the next one.
    pub(super) fn count(&self, index: usize) -> Result<(), u64> {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.known[index].bucket.lock().expect("nobody panics holding it").take(now)
    }

    /// The session of a request, at this time in seconds.
    pub(super) fn session(&self, headers: &HeaderMap, is_tls: bool, now: u64) -> Option<Session> {
        let name = if is_tls { COOKIE_TLS } else { COOKIE };
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|field| field.to_str().ok());
        let mut pairs =
            cookies.flat_map(|field| field.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let text = pairs.find(|(other, _)| *other == name)?.1;
        let (said, mac) = text.rsplit_once('.')?;
        let mut parts = said.split('.');
        let (name, until, number) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
        let token = self.known.iter().position(|known| *known.token.name == *name)?;
        let mac = BASE64URL_NOPAD.decode(mac.as_bytes()).ok()?;
        hmac::verify(&key(&self.get(token).secret), &signed(said), &mac).ok()?;
        let is_over = parts.next().is_some() || now >= until || until > now.saturating_add(SESSION_SECONDS);
        if is_over || self.ended.lock().expect("nobody panics holding it").numbers.contains(number) {
            return None;
        }
        Some(Session { token, until, number: number.into() })
    }

    /// Begins a session of a token: the value of `Set-Cookie`, and the end of the session.
    pub(super) fn begin(&self, index: usize, is_tls: bool, now: u64) -> (HeaderValue, u64) {
        let token = self.get(index);
        let until = now + SESSION_SECONDS;
        let said = format!("{}.{until}.{}", token.name, uuid::Uuid::new_v4().simple());
        let mac = BASE64URL_NOPAD.encode(hmac::sign(&key(&token.secret), &signed(&said)).as_ref());
        (cookie(&format!("{said}.{mac}"), SESSION_SECONDS, is_tls), until)
    }

    /// Ends a session: the value of `Set-Cookie` that removes the cookie.
    pub(super) fn end(&self, session: &Session, is_tls: bool, now: u64) -> HeaderValue {
        let mut guard = self.ended.lock().expect("nobody panics holding it");
        let Ended { numbers, order } = &mut *guard;
        while let Some((until, number)) = order.pop_first() {
            if until > now {
                order.insert((until, number));
                break;
            }
            numbers.remove(&number);
        }
        if numbers.len() < ENDED_MAX && numbers.insert(session.number.clone()) {
            order.insert((session.until, session.number.clone()));
        }
        cookie("", 0, is_tls)
    }
}

fn cookie(value: &str, seconds: u64, is_tls: bool) -> HeaderValue {
    let (name, secure) = if is_tls { (COOKIE_TLS, "; Secure") } else { (COOKIE, "") };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&text).expect("a name has letters and digits")
}

fn key(secret: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes())
}

fn signed(said: &str) -> Vec<u8> {
    format!("nephila session\n{said}").into_bytes()
}

/// Compares in constant time, so that the duration does not tell how much of the token was right.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let mut other = given.len() ^ token.len();
    for (number, byte) in token.iter().enumerate() {
        other |= usize::from(byte ^ given.get(number).copied().unwrap_or(0));
    }
    other == 0 && !token.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn tokens(secret: &str) -> Tokens {
        let token = |name: &str, secret: &str, role| Token {
            name: name.into(),
            secret: secret.into(),
            role,
            per_second: 1_000,
        };
        Tokens::new([token("all", secret, Role::Admin), token("read", "other", Role::Read)])
    }

    fn with_cookie(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(value).unwrap())])
    }

    fn pair(set: &HeaderValue) -> String {
        set.to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_session_is_its_token_for_a_time_and_ends_when_it_is_told() {
        let tokens = tokens("secret");
        let (set, until) = tokens.begin(0, false, NOW);
        let text = set.to_str().unwrap();
        assert!(text.contains("; HttpOnly; SameSite=Strict") && text.contains("Max-Age=43200"), "{text}");
        assert!(!text.contains("secret"), "{text}");
        let headers = with_cookie(&format!("theme=dark; {}", pair(&set)));
        let session = tokens.session(&headers, false, NOW).unwrap();
        assert_eq!((session.token, session.until), (0, until));
        assert!(tokens.session(&headers, false, until - 1).is_some());
        assert_eq!(tokens.session(&headers, false, until), None);
        assert_eq!(tokens.session(&headers, true, NOW), None, "under TLS it has another name");
        let gone = tokens.end(&session, false, NOW);
        assert!(gone.to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(tokens.session(&headers, false, NOW), None);
        assert_eq!(tokens.end(&session, false, until), gone, "forgotten with its time");
    }

    #[test]
    fn a_session_is_bound_to_its_token_and_to_every_letter() {
        let one = tokens("secret");
        let (set, _) = one.begin(0, true, NOW);
        let text = pair(&set);
        assert!(
            text.starts_with("__Host-nephila_session=all.") && set.to_str().unwrap().ends_with("; Secure")
        );
        assert!(tokens("secret").session(&with_cookie(&text), true, NOW).is_some(), "another node");
        assert_eq!(tokens("changed").session(&with_cookie(&text), true, NOW), None);
        for changed in [
            text.replace("=all.", "=read."),
            text.replace(
                &format!(".{}.", NOW + SESSION_SECONDS),
                &format!(".{}.", NOW + SESSION_SECONDS - 1),
            ),
            format!("{text}A"),
            text[..text.len() - 2].to_owned(),
            "__Host-nephila_session=".to_owned(),
            "__Host-nephila_session=all...".to_owned(),
        ] {
            assert_eq!(one.session(&with_cookie(&changed), true, NOW), None, "{changed}");
        }
        assert_eq!(one.session(&with_cookie(&text), true, NOW - 10), None, "from the future");
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let tokens = tokens("secret");
        let bearer = |value: &str| {
            tokens.bearer(&HeaderMap::from_iter([(
                header::AUTHORIZATION,
                HeaderValue::from_str(value).unwrap(),
            )]))
        };
        assert_eq!((bearer("Bearer secret"), bearer("Bearer other")), (Some(0), Some(1)));
        for wrong in ["Bearer secre", "Bearer secretx", "Bearer ", "secret", "Bearer Secret", "bearer secret"]
        {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
        assert_eq!(tokens.bearer(&HeaderMap::new()), None);
    }
}
