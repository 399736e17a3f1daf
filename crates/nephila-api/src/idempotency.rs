//! Answers that are remembered by `Idempotency-Key`, so that a repeated POST request changes nothing a second time.
//!
//! A key belongs to a client and to one request: method, target and body. Answers with status 429 or 5xx are not
//! remembered, because the client is to try again. The memory is that of one server: after a restart, and at another
//! node, a key is new.
//!
//! Invariants: at most [`KEYS_MAX`] keys are remembered, each for [`KEPT_SECONDS`] seconds at most, the oldest making
//! room; while a request is being answered, no other request with its key is.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};

use super::content::Content;
use super::problem::{HttpAnswer, Instead, problem, retry_after, whole};
use super::question::HttpQuestion;

/// Header field with the key.
pub(super) const KEY: &str = "idempotency-key";
/// Header field of an answer that was remembered.
pub(super) const REPLAYED: &str = "idempotency-replayed";
/// Maximum length of a key in bytes.
pub(super) const KEY_BYTES_MAX: usize = 255;
/// Maximum number of remembered keys.
pub(super) const KEYS_MAX: usize = 4_096;
/// Maximum size of a remembered body in bytes. Of a larger one the status is remembered.
pub(super) const BODY_BYTES_MAX: usize = 64 << 10;
/// Time in seconds for which an answer is remembered.
pub(super) const KEPT_SECONDS: u64 = 24 * 3_600;
/// `Retry-After` in seconds while the first request is being answered.
const BUSY_RETRY: u64 = 1;

/// Client and key.
type Key = (Box<str>, Box<str>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    kept: HashMap<Key, Kept>,
    /// The keys by the time of their first request.
    order: VecDeque<(u64, Key)>,
}

#[derive(Debug)]
struct Kept {
    request: [u8; 32],
    at: u64,
    /// None while the request is being answered.
    answer: Option<(StatusCode, HeaderMap, Bytes)>,
}

/// A key whose request is being answered; forgotten on drop if there is no answer to remember.
#[derive(Debug)]
pub(super) struct Open<'a> {
    memory: &'a Memory,
    key: Option<Key>,
    at: u64,
}

impl Memory {
    /// Looks up the key of a request: an answer to send instead, or a place for the answer; none without a key.
    pub(super) fn open(
        &self,
        client: &str,
        asked: &HttpQuestion,
        now: u64,
    ) -> Result<Option<Open<'_>>, Instead> {
        let Some(given) = asked.headers.get(KEY).filter(|_| asked.method == Method::POST) else {
            return Ok(None);
        };
        let text = given.to_str().ok().filter(|text| {
            (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        });
        let Some(text) = text else {
            let detail = format!("1 to {KEY_BYTES_MAX} visible characters");
            return Err(problem(StatusCode::BAD_REQUEST, "invalid Idempotency-Key", detail).into());
        };
        let (key, request) = ((client.into(), text.into()), digest(asked));
        let mut inner = self.0.lock().expect("nobody panics holding it");
        inner.forget(now);
        if let Some(kept) = inner.kept.get(&key) {
            return Err(instead(kept, &request).into());
        }
        inner.kept.insert(key.clone(), Kept { request, at: now, answer: None });
        inner.order.push_back((now, key.clone()));
        Ok(Some(Open { memory: self, key: Some(key), at: now }))
    }
}

impl Inner {
    /// Forgets keys that are too old or too many.
    fn forget(&mut self, now: u64) {
        while let Some((at, key)) = self.order.front() {
            let is_old = at.saturating_add(KEPT_SECONDS) <= now;
            // A key that was forgotten and used again has a later time.
            let is_gone = self.kept.get(key).is_none_or(|kept| kept.at != *at);
            if !is_old && !is_gone && self.kept.len() < KEYS_MAX && self.order.len() < 2 * KEYS_MAX {
                break;
            }
            let Some((_, key)) = self.order.pop_front() else { break };
            if !is_gone {
                self.kept.remove(&key);
            }
        }
    }
}

impl Open<'_> {
    /// Remembers the answer, unless the client is to try again.
    pub(super) async fn keep(mut self, answer: HttpAnswer) -> HttpAnswer {
        let is_final = !answer.status().is_server_error() && answer.status() != StatusCode::TOO_MANY_REQUESTS;
        if !is_final || answer.body().is_stream() {
            return answer;
        }
        let (head, body) = whole(answer).await;
        let kept = if body.len() <= BODY_BYTES_MAX { body.clone() } else { Bytes::new() };
        if let Some(key) = self.key.take() {
            let mut inner = self.memory.0.lock().expect("nobody panics holding it");
            if let Some(entry) = inner.kept.get_mut(&key).filter(|entry| entry.at == self.at) {
                entry.answer = Some((head.status, head.headers.clone(), kept));
            }
        }
        HttpAnswer::from_parts(head, Content::whole(body))
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut inner = self.memory.0.lock().expect("nobody panics holding it");
        if inner.kept.get(&key).is_some_and(|kept| kept.at == self.at && kept.answer.is_none()) {
            inner.kept.remove(&key);
        }
    }
}

fn instead(kept: &Kept, request: &[u8; 32]) -> HttpAnswer {
    if kept.request != *request {
        let detail = "the key belongs to a request with another path or body: choose a new key";
        return problem(StatusCode::UNPROCESSABLE_ENTITY, "Idempotency-Key was used before", detail);
    }
    let Some((status, headers, body)) = &kept.answer else {
        let detail = "the first request with this key is being answered";
        return retry_after(problem(StatusCode::CONFLICT, "request is being answered", detail), BUSY_RETRY);
    };
    let mut answer = HttpAnswer::new(Content::whole(body.clone()));
    *answer.status_mut() = *status;
    *answer.headers_mut() = headers.clone();
    let fields = answer.headers_mut();
    // A session is not begun twice with one key.
    fields.remove(header::SET_COOKIE);
    fields.insert(REPLAYED, HeaderValue::from_static("true"));
    answer
}

/// Digest of method, target and body.
fn digest(asked: &HttpQuestion) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in [asked.method.as_str().as_bytes(), asked.target.as_bytes(), &asked.body] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::super::problem::ok;
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn asked(key: &str, body: &'static str) -> HttpQuestion {
        let headers = HeaderMap::from_iter([(
            header::HeaderName::from_static(KEY),
            HeaderValue::from_bytes(key.as_bytes()).unwrap(),
        )]);
        let mut asked = HttpQuestion::new(Method::POST, "/api/v1/jobs", headers, false);
        asked.body = Bytes::from_static(body.as_bytes());
        asked
    }

    fn status(refused: Result<Option<Open<'_>>, Instead>) -> u16 {
        refused.err().map_or(0, |answer| answer.status().as_u16())
    }

    #[tokio::test]
    async fn a_repeated_request_gets_the_first_answer() {
        let memory = Memory::default();
        let open = memory.open("me", &asked("a", "one"), NOW).unwrap().unwrap();
        assert_eq!(status(memory.open("me", &asked("a", "one"), NOW)), 409, "it is being answered");
        open.keep(ok(&"first")).await;
        let again = memory.open("me", &asked("a", "one"), NOW + KEPT_SECONDS - 1).unwrap_err();
        assert_eq!(
            (again.status().as_u16(), &again.headers()[REPLAYED]),
            (200, &HeaderValue::from_static("true"))
        );
        assert_eq!(whole(*again).await.1, "\"first\"");
        assert_eq!(status(memory.open("me", &asked("a", "two"), NOW)), 422);
        assert!(memory.open("you", &asked("a", "two"), NOW).unwrap().is_some(), "the key of another client");
        assert!(memory.open("me", &asked("a", "two"), NOW + KEPT_SECONDS).unwrap().is_some(), "a day later");
    }

    #[tokio::test]
    async fn a_request_that_failed_may_be_tried_again() {
        let memory = Memory::default();
        for answer in [
            problem(StatusCode::SERVICE_UNAVAILABLE, "no", ""),
            problem(StatusCode::TOO_MANY_REQUESTS, "no", ""),
        ] {
            memory.open("", &asked("a", "one"), NOW).unwrap().unwrap().keep(answer).await;
        }
        drop(memory.open("", &asked("a", "one"), NOW).unwrap().unwrap());
        let open = memory.open("", &asked("a", "one"), NOW).unwrap().unwrap();
        open.keep(problem(StatusCode::BAD_REQUEST, "no", "")).await;
        assert_eq!(status(memory.open("", &asked("a", "one"), NOW)), 400, "it would be wrong again");
    }

    #[tokio::test]
    async fn the_memory_is_bounded_and_a_key_is_visible_text() {
        let memory = Memory::default();
        for number in 0..3 * KEYS_MAX {
            let open = memory.open("", &asked(&format!("k{number}"), ""), NOW).unwrap().unwrap();
            open.keep(ok(&number)).await;
            let inner = memory.0.lock().unwrap();
            assert!(inner.kept.len() <= KEYS_MAX && inner.order.len() <= 2 * KEYS_MAX);
        }
        assert_eq!(status(memory.open("", &asked(&format!("k{}", 3 * KEYS_MAX - 1), ""), NOW)), 200);
        assert!(memory.open("", &asked("k0", ""), NOW).unwrap().is_some(), "the oldest made room");
        for wrong in ["", "a b", "ü", &"k".repeat(KEY_BYTES_MAX + 1)] {
            assert_eq!(status(memory.open("", &asked(wrong, ""), NOW)), 400, "{wrong}");
        }
        let mut get = asked("k", "");
        get.method = Method::GET;
        assert!(memory.open("", &get, NOW).unwrap().is_none());
    }
}
