//! Answers that many ask for at the same time are made once for all of them.
//!
//! An open page of the dashboard asks for the same few lists every three seconds, and two hundred open pages ask for the
//! same answer again and again. What a client asks for [`OFTEN`] times a second is remembered for [`AGE_MAX`]. When that
//! time is over, one request makes the answer again, and the others get the old one meanwhile. What is asked for less often
//! is made for each request.
//!
//! Invariants: an answer is sent to the client alone for whom it was made, and at most [`STALE_MAX`] after it was made; a
//! request that changes something forgets all answers; at most [`TARGETS_MAX`] targets are counted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Method, StatusCode};
use tokio::time::Instant;

use super::content::Content;
use super::problem::{HttpAnswer, whole};
use super::question::{FORWARDED, HttpQuestion};

/// What open dashboards and scrapers ask for.
const PATHS: [&str; 9] = [
    "/api/v1/archive",
    "/api/v1/history",
    "/api/v1/hosts",
    "/api/v1/jobs",
    "/api/v1/log",
    "/api/v1/politeness",
    "/api/v1/stats",
    "/api/v1/status",
    "/metrics",
];
/// Requests of a [`WINDOW`] from which on an answer is remembered.
const OFTEN: u32 = 10;
/// Time over which requests are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Age of an answer at which it is made again.
const AGE_MAX: Duration = Duration::from_millis(500);
/// Maximum age of an answer that is sent.
const STALE_MAX: Duration = Duration::from_secs(1);
/// Maximum number of counted targets.
const TARGETS_MAX: usize = 64;
/// Maximum size of a remembered body in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Client, target, and the field `Accept`.
type Key = (Box<str>, Box<str>, Box<[u8]>);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Popular(Mutex<HashMap<Key, Target>>);

/// What is known of a target.
#[derive(Debug)]
struct Target {
    /// Begin of the present window.
    since: Instant,
    /// Requests in the present window, and in the one before.
    asked: u32,
    before: u32,
    answer: Option<Kept>,
    /// When a request began to make the answer.
    making: Option<Instant>,
}

#[derive(Debug)]
struct Kept {
    at: Instant,
    headers: HeaderMap,
    body: Bytes,
}

/// Where the answer to a request comes from.
#[derive(Debug, PartialEq)]
enum Source {
    Kept,
    Make,
    MakeAndKeep,
}

/// How to answer a request.
#[derive(Debug)]
pub(super) enum Look {
    /// With this answer.
    Known(HttpAnswer),
    /// With one that is to be made, and to be kept if there is a key.
    Make(Option<Wanted>),
}

/// The place of an answer that is being made.
#[derive(Debug)]
pub(super) struct Wanted(Key, Instant);

impl Popular {
    /// Counts a request, and looks for its answer.
    pub(super) fn look(&self, client: &str, asked: &HttpQuestion, now: Instant) -> Look {
        if !is_shared(asked) {
            return Look::Make(None);
        }
        let accept = asked.headers.get(header::ACCEPT).map_or(&b""[..], |accept| accept.as_bytes());
        let key: Key = (client.into(), asked.target.as_str().into(), accept.into());
        let mut targets = self.targets();
        if targets.len() >= TARGETS_MAX && !targets.contains_key(&key) {
            targets.retain(|_, target| now.duration_since(target.since) < 2 * WINDOW);
            if targets.len() >= TARGETS_MAX {
                return Look::Make(None);
            }
        }
        let target = targets.entry(key.clone()).or_insert_with(|| Target::new(now));
        match target.look(now) {
            Source::MakeAndKeep => Look::Make(Some(Wanted(key, now))),
            Source::Make => Look::Make(None),
            Source::Kept => {
                target.answer.as_ref().map_or(Look::Make(None), |kept| Look::Known(kept.answer()))
            }
        }
    }

    /// Forgets all answers, also those that are being made: something has changed.
    pub(super) fn forget(&self) {
        self.targets().clear();
    }

    /// Keeps an answer that was made. It is as old as its request.
    pub(super) async fn keep(&self, wanted: Wanted, answer: HttpAnswer) -> HttpAnswer {
        if answer.status() != StatusCode::OK || answer.body().is_stream() {
            return answer;
        }
        let (head, body) = whole(answer).await;
        let Wanted(key, at) = wanted;
        let mut targets = self.targets();
        // A target that was forgotten meanwhile waits for no answer, or for a later one.
        let target = targets.get_mut(&key).filter(|target| target.making == Some(at));
        if let Some(target) = target.filter(|_| body.len() <= BODY_BYTES_MAX) {
            target.making = None;
            target.answer = Some(Kept { at, headers: head.headers.clone(), body: body.clone() });
        }
        drop(targets);
        HttpAnswer::from_parts(head, Content::whole(body))
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<Key, Target>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target {
    fn new(now: Instant) -> Target {
        Target { since: now, asked: 0, before: 0, answer: None, making: None }
    }

    /// Counts a request, and says where its answer comes from.
    fn look(&mut self, now: Instant) -> Source {
        let passed = now.duration_since(self.since);
        if passed >= WINDOW {
            self.before = if passed < 2 * WINDOW { self.asked } else { 0 };
            (self.since, self.asked) = (now, 0);
        }
        self.asked += 1;
        if self.asked.max(self.before) < OFTEN {
            (self.answer, self.making) = (None, None);
            return Source::Make;
        }
        let age = self.answer.as_ref().map(|kept| now.duration_since(kept.at));
        let is_making = self.making.is_some_and(|since| now.duration_since(since) < STALE_MAX);
        match age {
            Some(age) if age <= AGE_MAX || is_making && age <= STALE_MAX => Source::Kept,
            _ if is_making => Source::Make,
            _ => {
                self.making = Some(now);
                Source::MakeAndKeep
            }
        }
    }
}

impl Kept {
    fn answer(&self) -> HttpAnswer {
        let mut answer = HttpAnswer::new(Content::whole(self.body.clone()));
        *answer.headers_mut() = self.headers.clone();
        answer
    }
}

/// Whether the answer to a request is the same for each request of the client. What another node asks for is made for it.
fn is_shared(asked: &HttpQuestion) -> bool {
    asked.method == Method::GET
        && PATHS.contains(&asked.path.as_str())
        && !asked.headers.contains_key(FORWARDED)
        && !asked.headers.contains_key(header::IF_NONE_MATCH)
}

#[cfg(test)]
mod tests {
    use super::super::problem::ok;
    use super::*;

    fn asked(method: Method, target: &str) -> HttpQuestion {
        HttpQuestion::new(method, target, HeaderMap::new(), false)
    }

    /// Asks once; the answer that would be made is this number. Returns the answer that is sent.
    async fn ask(popular: &Popular, client: &str, target: &str, now: Instant, number: u32) -> u32 {
        let answer = match popular.look(client, &asked(Method::GET, target), now) {
            Look::Known(answer) => answer,
            Look::Make(None) => ok(&number),
            Look::Make(Some(wanted)) => popular.keep(wanted, ok(&number)).await,
        };
        let (_, body) = whole(answer).await;
        std::str::from_utf8(&body).unwrap().trim().parse().unwrap()
    }

    fn after(begin: Instant, millis: u64) -> Instant {
        begin + Duration::from_millis(millis)
    }

    #[tokio::test]
    async fn what_is_asked_for_often_is_made_twice_a_second() {
        let (popular, begin) = (Popular::default(), Instant::now());
        let mut made = std::collections::BTreeSet::new();
        for number in 0..300 {
            // A hundred a second, over three seconds.
            let now = after(begin, u64::from(number) * 10);
            let got = ask(&popular, "", "/metrics", now, number).await;
            assert!(number - got <= 50, "{got} is too old at {number}");
            made.insert(got);
        }
        assert!((14..=16).contains(&made.len()), "the first nine, and two a second: {made:?}");
    }

    #[tokio::test]
    async fn what_is_asked_for_seldom_is_made_each_time() {
        let (popular, begin) = (Popular::default(), Instant::now());
        for number in 0..100 {
            // Eight a second.
            let now = after(begin, u64::from(number) * 125);
            assert_eq!(ask(&popular, "", "/api/v1/status", now, number).await, number);
        }
    }

    #[tokio::test]
    async fn clients_targets_and_other_paths_are_apart() {
        let (popular, now) = (Popular::default(), Instant::now());
        for number in 0..50 {
            ask(&popular, "one", "/api/v1/hosts", now, number).await;
        }
        assert_eq!(ask(&popular, "one", "/api/v1/hosts", now, 99).await, 9);
        assert_eq!(ask(&popular, "two", "/api/v1/hosts", now, 99).await, 99);
        assert_eq!(ask(&popular, "one", "/api/v1/hosts?limit=1", now, 99).await, 99);
        for number in 0..50 {
            assert_eq!(ask(&popular, "one", "/api/v1/explain", now, number).await, number);
        }
    }

    #[tokio::test]
    async fn a_change_forgets_all_answers_also_one_that_is_being_made() {
        let (popular, now) = (Popular::default(), Instant::now());
        for number in 0..20 {
            ask(&popular, "", "/api/v1/jobs", now, number).await;
        }
        assert_eq!(ask(&popular, "", "/api/v1/jobs", now, 99).await, 9);
        let Look::Make(Some(wanted)) = popular.look("", &asked(Method::GET, "/api/v1/jobs"), after(now, 600))
        else {
            panic!("the answer is old");
        };
        popular.forget();
        for number in 100..120 {
            ask(&popular, "", "/api/v1/jobs", after(now, 610), number).await;
        }
        popular.keep(wanted, ok(&1)).await;
        assert_eq!(ask(&popular, "", "/api/v1/jobs", after(now, 620), 200).await, 109);
    }

    #[test]
    fn while_one_makes_the_answer_the_others_get_the_old_one_for_a_while() {
        let begin = Instant::now();
        let mut target = Target::new(begin);
        let kept = || Some(Kept { at: begin, headers: HeaderMap::new(), body: Bytes::new() });
        (target.asked, target.answer) = (OFTEN, kept());
        assert_eq!(target.look(after(begin, 500)), Source::Kept);
        assert_eq!(target.look(after(begin, 510)), Source::MakeAndKeep, "one makes it again");
        assert_eq!(target.look(after(begin, 520)), Source::Kept, "others get the old one");
        assert_eq!(target.look(after(begin, 900)), Source::Kept);
        assert_eq!(target.look(after(begin, 1_010)), Source::Make, "but no older than this");
        assert_eq!(target.look(after(begin, 1_600)), Source::MakeAndKeep, "and whoever made it is gone");
    }

    #[test]
    fn targets_are_bounded() {
        let (popular, now) = (Popular::default(), Instant::now());
        for number in 0..1_000 {
            popular.look("", &asked(Method::GET, &format!("/api/v1/log?limit={number}")), now);
        }
        assert_eq!(popular.targets().len(), TARGETS_MAX);
        popular.look("", &asked(Method::GET, "/metrics"), after(now, 2_000));
        assert_eq!(popular.targets().len(), 1);
    }
}
