//! Mutual authentication of nodes by MAC, without sending the shared secret.
//!
//! The address of another node comes from the node's lease, and a lease may be forged. So a node never sends the shared
//! token there, but proves that it knows the token. A request carries a MAC over the target, the addressed node, the
//! time and a nonce; the answer carries a MAC over the nonce and the complete answer. A server without the token learns
//! nothing from the first MAC and cannot make the second.
//!
//! Invariants: the token is in no message; an accepted answer comes from a holder of the token and answers this
//! request; a request is accepted once (no replay), by the addressed node, within two minutes, and only with GET.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use aws_lc_rs::{digest, hmac};
use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, Method, StatusCode};

/// Authentication scheme of nodes in `Authorization`.
const SCHEME: &str = "Nephila-Node";
/// Header field with the MAC of an answer.
pub(crate) const PROOF: &str = "nephila-proof";
/// Maximum clock skew between nodes in seconds.
const CLOCKS_MAX: u64 = 120;
/// Maximum number of remembered nonces for replay protection. When all are in use within their time, further requests
/// are refused.
const REMEMBERED_MAX: usize = 1 << 17;
/// Header fields that the connection adds after the MAC was computed.
const NOT_COVERED: [&str; 5] = ["connection", "transfer-encoding", "content-length", "date", PROOF];

/// A random number that is used once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nonce(String);

impl Nonce {
    /// Generates a new nonce.
    pub(crate) fn new() -> Nonce {
        Nonce(uuid::Uuid::new_v4().simple().to_string())
    }
}

/// Replay protection: the nonces of recent requests.
#[derive(Debug, Default)]
pub struct Once(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    nonces: HashSet<u128>,
    /// The nonces with their arrival times, in order.
    order: VecDeque<(u64, u128)>,
}

impl Once {
    /// Whether this nonce is used for the first time. To be called only for requests with a valid MAC.
    pub(crate) fn is_first(&self, nonce: &Nonce, now: u64) -> bool {
        let Ok(number) = u128::from_str_radix(&nonce.0, 16) else { return false };
        let mut guard = self.0.lock().expect("nobody panics holding it");
        let Remembered { nonces, order } = &mut *guard;
        // An older request is refused by its time. A request may be early or late by the clock skew.
        while let Some((_, old)) = order.pop_front_if(|(at, _)| at.saturating_add(2 * CLOCKS_MAX) < now) {
            nonces.remove(&old);
        }
        if nonces.len() >= REMEMBERED_MAX || !nonces.insert(number) {
            return false;
        }
        order.push_back((now, number));
        true
    }
}

/// The credentials for one request to this node at this time in seconds.
pub(crate) fn of_request(token: &str, node: &str, target: &str, at: u64, nonce: &Nonce) -> String {
    let mac = BASE64URL_NOPAD.encode(hmac::sign(&key(token), &asked(node, target, at, nonce)).as_ref());
    format!("{SCHEME} {at} {} {mac}", nonce.0)
}

/// Verifies the credentials of a request: MAC, node, method and clock skew. The answer must prove the returned nonce.
pub(crate) fn check_request(
    token: &str,
    node: &str,
    (method, target): (&Method, &str),
    credentials: &str,
    now: u64,
) -> Option<Nonce> {
    let mut parts = credentials.strip_prefix(SCHEME)?.strip_prefix(' ')?.split(' ');
    let at: u64 = parts.next()?.parse().ok()?;
    let nonce = parts
        .next()
        .filter(|nonce| nonce.len() == 32 && nonce.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let nonce = Nonce(nonce.to_owned());
    let mac = BASE64URL_NOPAD.decode(parts.next()?.as_bytes()).ok()?;
    if parts.next().is_some() || method != Method::GET || at.abs_diff(now) > CLOCKS_MAX {
        return None;
    }
    hmac::verify(&key(token), &asked(node, target, at, &nonce), &mac).ok()?;
    Some(nonce)
}

/// The MAC of an answer.
pub(crate) fn of_answer(
    token: &str,
    nonce: &Nonce,
    status: StatusCode,
    fields: &HeaderMap,
    body: &[u8],
) -> String {
    BASE64URL_NOPAD.encode(hmac::sign(&key(token), &answered(nonce, status, fields, body)).as_ref())
}

/// Whether this answer belongs to the request with this nonce and comes from a holder of the token.
pub(crate) fn check_answer(
    token: &str,
    nonce: &Nonce,
    status: StatusCode,
    fields: &HeaderMap,
    body: &[u8],
) -> bool {
    let mac = fields.get(PROOF).and_then(|mac| BASE64URL_NOPAD.decode(mac.as_bytes()).ok());
    mac.is_some_and(|mac| hmac::verify(&key(token), &answered(nonce, status, fields, body), &mac).is_ok())
}

fn key(token: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())
}

fn asked(node: &str, target: &str, at: u64, nonce: &Nonce) -> Vec<u8> {
    format!("nephila request\n{node}\n{target}\n{at}\n{}", nonce.0).into_bytes()
}

fn answered(nonce: &Nonce, status: StatusCode, fields: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let mut covered: Vec<(&str, &[u8])> = fields
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .filter(|(name, _)| !NOT_COVERED.contains(name))
        .collect();
    covered.sort_unstable();
    let mut text = format!("nephila answer\n{}\n{}\n", nonce.0, status.as_u16()).into_bytes();
    for (name, value) in covered {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        // A field has no line ends.
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text.push(b'\n');
    text.extend_from_slice(digest::digest(&digest::SHA256, body).as_ref());
    text
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const NOW: u64 = 1_794_700_800;
    const TARGET: &str = "/api/v1/explain?url=http%3A%2F%2Fa.test%2F";

    #[test]
    fn sec_04_a_request_is_believed_by_the_node_it_was_made_for_and_for_a_while() {
        let nonce = Nonce::new();
        let said = of_request("geheim", "two", TARGET, NOW, &nonce);
        assert!(!said.contains("geheim"));
        let check = |token: &str, node: &str, method: Method, target: &str, now: u64| {
            check_request(token, node, (&method, target), &said, now)
        };
        assert_eq!(check("geheim", "two", Method::GET, TARGET, NOW + 100), Some(nonce));
        assert_eq!(check("other", "two", Method::GET, TARGET, NOW), None);
        assert_eq!(check("geheim", "three", Method::GET, TARGET, NOW), None, "recorded, and sent to another");
        assert_eq!(check("geheim", "two", Method::POST, TARGET, NOW), None, "it only asks");
        assert_eq!(check("geheim", "two", Method::GET, "/api/v1/jobs", NOW), None);
        assert_eq!(check("geheim", "two", Method::GET, TARGET, NOW + 121), None, "too old");
        assert_eq!(check("geheim", "two", Method::GET, TARGET, NOW - 121), None, "not yet");
        for wrong in ["", "Nephila-Node", "Nephila-Node ", "Nephila-Node 1 2", "Bearer geheim"] {
            assert_eq!(check_request("geheim", "two", (&Method::GET, TARGET), wrong, NOW), None, "{wrong:?}");
        }
    }

    #[test]
    fn sec_04_a_request_that_was_recorded_counts_once() {
        let (once, nonce) = (Once::default(), Nonce::new());
        assert!(once.is_first(&nonce, NOW));
        for later in [0, 1, 119, 120, 240] {
            assert!(!once.is_first(&nonce, NOW + later), "{later}");
        }
        assert!(once.is_first(&Nonce::new(), NOW + 241));
        assert_eq!(once.0.lock().unwrap().order.len(), 1, "what is refused by its time is forgotten");
        for number in 1..REMEMBERED_MAX {
            assert!(once.is_first(&Nonce(format!("{number:032x}")), NOW + 241));
        }
        assert!(!once.is_first(&Nonce::new(), NOW + 300), "there is no room to remember it");
        assert!(once.is_first(&Nonce::new(), NOW + 1_000));
    }

    #[test]
    fn sec_04_an_answer_is_believed_if_it_is_the_one_to_this_request() {
        let (nonce, status) = (Nonce::new(), StatusCode::OK);
        let mut fields = HeaderMap::new();
        fields.insert("nephila-node", HeaderValue::from_static("two"));
        let mac = of_answer("geheim", &nonce, status, &fields, b"page");
        fields.insert(PROOF, HeaderValue::from_str(&mac).unwrap());
        // What the connection adds is its own.
        fields.insert("date", HeaderValue::from_static("Mon, 16 Nov 2026 00:00:00 GMT"));
        assert!(check_answer("geheim", &nonce, status, &fields, b"page"));
        assert!(
            !check_answer("geheim", &Nonce::new(), status, &fields, b"page"),
            "the answer to another request"
        );
        assert!(!check_answer("other", &nonce, status, &fields, b"page"));
        assert!(!check_answer("geheim", &nonce, StatusCode::NOT_FOUND, &fields, b"page"));
        assert!(!check_answer("geheim", &nonce, status, &fields, b"other page"));
        let mut changed = fields.clone();
        changed.insert("nephila-node", HeaderValue::from_static("three"));
        assert!(!check_answer("geheim", &nonce, status, &changed, b"page"));
        fields.remove(PROOF);
        assert!(!check_answer("geheim", &nonce, status, &fields, b"page"));
    }
}
