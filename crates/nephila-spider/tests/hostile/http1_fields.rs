//! Cookies, types, dates, validators and demands in responses, as one fetch sees them.
//!
//! Cookies and validators over a whole run are tested in `crates/nephila/tests/e2e/cookies.rs`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderValue};
use nephila_core::handler::sniff::{self, Kind};
use nephila_core::spider::cookie::{FIELD_BYTES_MAX, Jar};
use nephila_core::spider::{Action, Class, Outcome};
use nephila_core::store::Truncation;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Request};

use crate::support::{AGENT, World, request, text};

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64)
}

/// Keeps the cookies that a response sets, as a run with cookies does.
fn keep_cookies(jar: &mut Jar, url: &str, fetched: &Fetched) -> usize {
    let url = CrawlUrl::parse(url).unwrap();
    let cookies = fetched.fields.get_all(header::SET_COOKIE);
    cookies.iter().filter(|cookie| jar.handle_set_cookie(&url, cookie.as_bytes(), now()).is_ok()).count()
}

fn with_cookies(jar: &Jar, url: &str) -> Request {
    let mut request = request(url);
    if let Some(cookies) = jar.field(&request.url, now()) {
        request.fields.push((header::COOKIE, HeaderValue::from_bytes(&cookies).unwrap()));
    }
    request
}

#[tokio::test]
async fn h1_29_a_flood_of_cookies_is_a_head_too_large() {
    let world = World::start().await;
    let fetched = world.get("h1-29", "/").await;
    assert_eq!(fetched.outcome, Outcome::HeadTooLarge, "{}", fetched.detail);
    assert!(fetched.fields.is_empty() && fetched.exchange.is_none());
}

#[tokio::test]
async fn h1_29_the_cookie_field_of_later_requests_stays_small() {
    let world = World::start().await;
    let mut jar = Jar::new();
    let url = world.web.url("h1-29", "/fits");
    let fetched = world.fetch(&url).await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    assert_eq!(keep_cookies(&mut jar, &url, &fetched), 60);
    let echoed = text(&world.ask(with_cookies(&jar, &world.web.url("h1-29", "/echo"))).await);
    let field = echoed.lines().find(|line| line.starts_with("Cookie: ")).expect("some are sent");
    assert!(field.len() > 4_000 && field.len() + 2 <= FIELD_BYTES_MAX, "{}", field.len());
    assert_eq!(FIELD_BYTES_MAX, 8 * 1024);
}

#[tokio::test]
async fn h1_30_hostile_cookies_go_only_where_they_may() {
    let world = World::start().await;
    for (path, sent) in [
        ("/maxage", Some("long=1")),
        ("/control", None),
        ("/suffix", None),
        ("/case", Some("mixed=1")),
        ("/dot", Some("dotted=1")),
        ("/ip", None),
    ] {
        let mut jar = Jar::new();
        let url = world.web.url("h1-30", path);
        let fetched = world.fetch(&url).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{path}: {}", fetched.detail);
        keep_cookies(&mut jar, &url, &fetched);
        let echoed = text(&world.ask(with_cookies(&jar, &world.web.url("h1-30", "/echo"))).await);
        let field = echoed.lines().find_map(|line| line.strip_prefix("Cookie: "));
        assert_eq!(field, sent, "{path}");
        // Nothing of it reaches a neighbour, and from an address only that address.
        let neighbour = CrawlUrl::parse(&world.web.url("h1-29", "/echo")).unwrap();
        assert_eq!(jar.field(&neighbour, now()), None, "{path}");
    }
}

#[tokio::test]
async fn h1_30_a_cookie_of_an_address_stays_with_it() {
    let world = World::start().await;
    let mut jar = Jar::new();
    let url = format!("http://{}:{}/ip", world.web.address("h1-30"), world.web.port());
    let fetched = world.fetch(&url).await;
    assert_eq!(keep_cookies(&mut jar, &url, &fetched), 1, "{:?}", fetched.fields);
    let field = |url: &str| jar.field(&CrawlUrl::parse(url).unwrap(), now());
    assert_eq!(field(&url).as_deref(), Some(&b"ip=1"[..]));
    assert_eq!(field("http://127.84.29.1/"), None);
    assert_eq!(field(&world.web.url("h1-30", "/echo")), None, "the same machine under a name");
}

#[tokio::test]
async fn h1_31_two_sites_asked_at_once_never_see_each_others_cookies() {
    let world = World::start().await;
    let mut jar = Jar::new();
    for site in ["a.h1-31", "b.h1-31"] {
        let url = world.web.url(site, "/set");
        let fetched = world.fetch(&url).await;
        assert_eq!(keep_cookies(&mut jar, &url, &fetched), 1);
    }
    for _ in 0..5 {
        let ask = |site: &str| world.ask(with_cookies(&jar, &world.web.url(site, "/echo")));
        let (a, b) = tokio::join!(ask("a.h1-31"), ask("b.h1-31"));
        let (a, b) = (text(&a), text(&b));
        assert!(a.contains("Cookie: owner=a\r\n") && !a.contains("owner=b"), "{a}");
        assert!(b.contains("Cookie: owner=b\r\n") && !b.contains("owner=a"), "{b}");
    }
}

#[tokio::test]
async fn h1_32_the_type_is_sniffed_and_the_stored_field_untouched() {
    let world = World::start().await;
    let long = format!("Content-Type: text/html; x={}\r\n", "t".repeat(4 * 1024));
    for (path, line) in [
        ("/missing", ""),
        ("/empty", "Content-Type: \r\n"),
        ("/twice", "Content-Type: text/plain\r\nContent-Type: text/html\r\n"),
        ("/nocharset", "Content-Type: text/html; charset\r\n"),
        ("/long", &long),
        ("/png", "Content-Type: image/png\r\n"),
    ] {
        let fetched = world.get("h1-32", path).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{path}: {}", fetched.detail);
        let stored = &fetched.exchange.as_ref().unwrap().response_head;
        assert_eq!(
            &stored[..],
            format!("HTTP/1.1 200 OK\r\n{line}Content-Length: 81\r\n\r\n").as_bytes(),
            "{path}"
        );
        let labels = fetched.fields.get_all(header::CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
        let sniffed = sniff::sniff(labels, text(&fetched).as_bytes());
        assert_eq!(sniffed.kind, Kind::Html, "{path}: {sniffed:?}");
    }
    // The prefix is bounded: bytes after the prefix change nothing.
    let far = [vec![b' '; sniff::SNIFF_BYTES_MAX], b"<!doctype html>".to_vec()].concat();
    assert_eq!(sniff::sniff([], &far).kind, Kind::Text);
}

#[tokio::test]
async fn h1_33_absurd_dates_move_neither_our_clock_nor_our_plans() {
    let world = World::start().await;
    for path in ["/1601", "/9999", "/garbage", "/tomorrow"] {
        let before = now();
        let fetched = world.get("h1-33", path).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{path}: {}", fetched.detail);
        let started = fetched.exchange.as_ref().unwrap().started;
        assert!((before.0..=now().0).contains(&started.0), "{path}: recorded with our own time");
        assert_eq!(fetched.retry_after, None, "{path}: nobody waits because of it");
        assert!(fetched.timings.total < world.settings.total_timeout, "{path}");
    }
}

#[tokio::test]
async fn h1_34_validators_are_seen_as_they_came() {
    let world = World::start().await;
    for (path, name, value) in [
        ("/weak", header::ETAG, "W/\"weak\"".to_owned()),
        ("/strong", header::ETAG, "\"strong\"".to_owned()),
        ("/empty", header::ETAG, String::new()),
        ("/long", header::ETAG, format!("\"{}\"", "e".repeat(10_000))),
    ] {
        let fetched = world.get("h1-34", path).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{path}");
        assert_eq!(fetched.fields[name].as_bytes(), value.as_bytes(), "{path}");
    }
}

#[tokio::test]
async fn h1_34_a_validator_that_always_changes_costs_one_request_each_time() {
    let world = World::start().await;
    let mut digests = Vec::new();
    for path in ["/changing", "/changing", "/now", "/now"] {
        let fetched = world.get("h1-34", path).await;
        assert_eq!((fetched.outcome, fetched.requests), (Outcome::Fetched, 1), "{path}");
        digests.push(fetched.sha1.unwrap());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "the digest says that nothing changed, whatever the validators say");
    assert_eq!(world.web.requests("h1-34").len(), 4);
}

#[tokio::test]
async fn h1_35_a_refusal_is_read_up_to_the_limit_and_not_answered() {
    let world = World::start_with(|settings| settings.body_bytes_max = 1_000_000).await;
    for (path, status) in [("/401", 401), ("/407", 407)] {
        let fetched = world.get("h1-35", path).await;
        assert_eq!(
            (fetched.outcome, fetched.status),
            (Outcome::Unauthorized, Some(status)),
            "{}",
            fetched.detail
        );
        assert_eq!((fetched.body_bytes, fetched.truncated), (1_000_000, Some(Truncation::Length)));
        assert_eq!((fetched.requests, fetched.outcome.action()), (1, Action::Done), "nobody asks again");
    }
    let seen = world.web.requests("h1-35");
    assert_eq!(seen.len(), 2);
    for request in seen {
        let head = String::from_utf8(request.head).unwrap().to_ascii_lowercase();
        assert!(!head.contains("authorization"), "{head}");
    }
}

#[tokio::test]
async fn h1_36_those_who_want_something_are_recorded_and_left_alone() {
    let world = World::start().await;
    for (path, outcome, action) in [
        ("/402", Outcome::PaymentRequired, Action::Never),
        ("/403", Outcome::Challenged, Action::BackOffHost),
        ("/451", Outcome::Legal, Action::Never),
    ] {
        let fetched = world.get("h1-36", path).await;
        assert_eq!(
            (fetched.outcome, fetched.outcome.action()),
            (outcome, action),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!((fetched.outcome.class(), fetched.requests), (Class::Refused, 1), "{path}");
        assert!(fetched.exchange.is_some(), "{path} is recorded");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let paths: Vec<String> = world.web.requests("h1-36").into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/402", "/403", "/451"], "no retry, no solving");
}

#[tokio::test]
async fn h1_37_the_echo_of_a_request_shows_nothing_but_what_it_needs() {
    let world = World::start().await;
    for path in ["/", "/json"] {
        // User information in a URL is up to the caller; the spider does not send it.
        let url = world.web.url("h1-37", path).replace("://", "://user:secret@");
        let fetched = world.fetch(&url).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
        let echoed = text(&fetched);
        let names: Vec<String> = echoed
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .map(|(name, _)| name.to_ascii_lowercase())
            .collect();
        assert_eq!(names, ["host", "user-agent", "accept", "accept-encoding"], "{echoed}");
        assert!(echoed.contains(&format!("User-Agent: {AGENT}\r\n")), "{echoed}");
        let node = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        for secret in ["secret", "user:", node.trim()] {
            assert!(!echoed.contains(secret), "{secret} is in {echoed}");
        }
    }
}

#[tokio::test]
async fn h1_38_bytes_after_a_head_answer_close_the_connection() {
    let world = World::start().await;
    let fetched = world.ask(Request { head_only: true, ..request(&world.web.url("h1-38", "/body")) }).await;
    assert_eq!(
        (fetched.outcome, fetched.status, fetched.body_bytes),
        (Outcome::Fetched, Some(200), 0),
        "{}",
        fetched.detail
    );
    let fetched = world.get("h1-38", "/body").await;
    assert_eq!(text(&fetched), "<p>bytes after a HEAD</p>");
    assert!(!fetched.reused);
    let seen = world.web.requests("h1-38");
    assert_ne!(seen[0].connection, seen[1].connection);
}

#[tokio::test]
async fn h1_38_a_head_answer_proves_nothing_about_the_page() {
    let world = World::start().await;
    let head = world.ask(Request { head_only: true, ..request(&world.web.url("h1-38", "/disagree")) }).await;
    assert_eq!(
        (head.outcome, head.truncated, head.body_bytes),
        (Outcome::Fetched, None, 0),
        "{}",
        head.detail
    );
    assert_eq!(head.fields[header::CONTENT_LENGTH], "99999", "announced, and not waited for");
    let get = world.get("h1-38", "/disagree").await;
    assert_eq!((get.outcome, get.body_bytes), (Outcome::Fetched, 81));
    assert_eq!(
        (&get.fields[header::ETAG], &get.fields[header::CONTENT_TYPE]),
        (&HeaderValue::from_static("\"get\""), &HeaderValue::from_static("text/html"))
    );
}
