//! Malformed status lines and heads: a tolerated head is kept byte for byte; a refused response has a reason and is
//! never stored.

use std::time::Duration;

use http::header::{HeaderValue, IF_NONE_MATCH};
use nephila_core::spider::{Class, Outcome};
use nephila_spider::{Fetched, Request};

use crate::support::{World, request, text};

/// The page that most cases serve.
const KEPT: &str = "<p>kept</p>";

/// The head as stored.
fn head(fetched: &Fetched) -> &[u8] {
    &fetched
        .exchange
        .as_ref()
        .unwrap_or_else(|| panic!("nothing was kept: {} {}", fetched.outcome, fetched.detail))
        .response_head
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Fetches a page that must be kept whole, whatever its head is like.
async fn kept(world: &World, id: &str, path: &str) -> Fetched {
    let fetched = world.get(id, path).await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{id}{path}: {}", fetched.detail);
    assert_eq!((fetched.status, fetched.truncated), (Some(200), None), "{id}{path}");
    assert_eq!(text(&fetched), KEPT, "{id}{path}");
    fetched
}

/// Fetches a response that must not be stored.
async fn refused(world: &World, id: &str, path: &str, outcome: Outcome) -> Fetched {
    let fetched = world.get(id, path).await;
    assert_eq!(fetched.outcome, outcome, "{id}{path}: {}", fetched.detail);
    assert!(fetched.exchange.is_none() && fetched.decoded.is_none(), "{id}{path} is stored");
    assert_eq!((fetched.body_bytes, fetched.requests), (0, 1), "{id}{path}");
    fetched
}

#[tokio::test]
async fn h1_01_a_line_without_a_colon_is_skipped_and_the_page_kept() {
    let world = World::start().await;
    for path in ["/", "/first"] {
        let fetched = kept(&world, "h1-01", path).await;
        assert!(fetched.fields.contains_key("content-length"), "the fields around it are read");
        assert!(contains(head(&fetched), b"no colon\r\n"), "the archive has the head as it came");
    }
}

#[tokio::test]
async fn h1_02_a_space_before_the_colon_is_removed_and_splits_nothing() {
    let world = World::start().await;
    for (path, name) in [("/", "x-spaced"), ("/tab", "x-tabbed")] {
        let fetched = kept(&world, "h1-02", path).await;
        assert_eq!(fetched.fields[name], "yes");
        assert_eq!(fetched.fields.len(), 3, "{:?}", fetched.fields);
    }
    let fetched = world.get("h1-02", "/length").await;
    assert_eq!((fetched.outcome, text(&fetched).as_str()), (Outcome::Fetched, "<b>5\n"));
    assert_eq!(fetched.fields["content-length"], "5");
}

#[tokio::test]
async fn h1_03_a_folded_field_is_joined_or_dropped() {
    let world = World::start().await;
    let fetched = kept(&world, "h1-03", "/").await;
    if let Some(value) = fetched.fields.get("x-folded") {
        assert!(!value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n')), "{value:?}");
        assert_eq!(
            value.to_str().unwrap().split_ascii_whitespace().collect::<Vec<_>>(),
            ["one", "two", "three"]
        );
    }
    assert!(contains(head(&fetched), b"X-Folded: one\r\n two\r\n\tthree\r\n"), "stored as it came");
    kept(&world, "h1-03", "/first").await;
}

#[tokio::test]
async fn h1_04_bare_line_feeds_end_lines_too() {
    let world = World::start().await;
    for path in ["/", "/mixed"] {
        let fetched = kept(&world, "h1-04", path).await;
        assert_eq!(fetched.fields["content-type"], "text/html");
        assert_eq!(fetched.head_bytes, head(&fetched).len() as u64);
        assert!(head(&fetched).ends_with(b"11\n\n") || head(&fetched).ends_with(b"11\r\n\n"));
    }
}

#[tokio::test]
async fn h1_05_the_reason_may_be_missing_or_no_ascii() {
    let world = World::start().await;
    for path in ["/none", "/nospace", "/latin1", "/utf8"] {
        kept(&world, "h1-05", path).await;
    }
    let latin1 = kept(&world, "h1-05", "/latin1").await;
    assert!(head(&latin1).starts_with(b"HTTP/1.1 200 Tr\xe8s bien\r\n"), "stored as it came");
}

#[tokio::test]
async fn h1_06_what_is_no_http_1_is_never_stored_as_a_page() {
    let world = World::start().await;
    for path in ["/icy", "/09", "/20", "/12"] {
        let fetched = refused(&world, "h1-06", path, Outcome::BadStatusLine).await;
        assert_eq!(fetched.status, None, "{path}");
    }
}

#[tokio::test]
async fn h1_07_the_end_of_the_connection_ends_a_body_without_a_length() {
    let world = World::start().await;
    let fetched = kept(&world, "h1-07", "/").await;
    assert_eq!(fetched.protocol, Some("http/1.0"));
}

#[tokio::test]
async fn h1_08_strange_statuses_are_recorded_and_malformed_ones_refused() {
    let world = World::start().await;
    for (path, status, body) in [("/999", 999, "denied"), ("/600", 600, "unknown")] {
        let fetched = world.get("h1-08", path).await;
        assert_eq!(
            (fetched.outcome, fetched.status),
            (Outcome::StatusUnknown, Some(status)),
            "{}",
            fetched.detail
        );
        assert_eq!(fetched.outcome.class(), Class::Broken);
        assert_eq!(text(&fetched), body, "recorded with its body");
    }
    for path in ["/000", "/099", "/1000", "/abc"] {
        refused(&world, "h1-08", path, Outcome::BadStatusLine).await;
    }
}

#[tokio::test]
async fn h1_09_control_bytes_drop_the_field_or_refuse_the_answer() {
    let world = World::start().await;
    let fetched = kept(&world, "h1-09", "/control").await;
    assert!(!fetched.fields.contains_key("x-control"), "{:?}", fetched.fields);
    refused(&world, "h1-09", "/nul", Outcome::BadHeader).await;
    refused(&world, "h1-09", "/cr", Outcome::BadHeader).await;
    refused(&world, "h1-09", "/length", Outcome::BadFraming).await;
}

#[tokio::test]
async fn h1_10_bytes_that_are_no_ascii_stay_bytes() {
    let world = World::start().await;
    for (path, name, value) in
        [("/utf8", "x-utf8", "Grüße ✓".as_bytes()), ("/latin1", "x-latin1", b"Gr\xfc\xdfe")]
    {
        let fetched = kept(&world, "h1-10", path).await;
        assert_eq!(fetched.fields[name].as_bytes(), value);
        assert!(contains(head(&fetched), value), "the archive has the bytes");
    }
}

#[tokio::test]
async fn h1_22_many_fields_are_read_and_too_many_cost_one_page_not_the_host() {
    let world = World::start().await;
    assert!(world.settings.head_fields_max >= 256);
    for count in [101, 150, 256] {
        let fetched = kept(&world, "h1-22", &format!("/{count}")).await;
        assert_eq!(fetched.fields.len(), count);
    }
    refused(&world, "h1-22", "/5000", Outcome::HeadTooLarge).await;
    kept(&world, "h1-22", "/101").await;
}

#[tokio::test]
async fn h1_23_a_head_has_a_largest_size() {
    let world = World::start().await;
    assert_eq!(world.settings.head_bytes_max, 256 * 1024);
    for path in ["/300k", "/2m", "/endless"] {
        let fetched = refused(&world, "h1-23", path, Outcome::HeadTooLarge).await;
        assert!(
            fetched.timings.total < world.settings.head_timeout,
            "{path} stops at the size, not at the time"
        );
    }
}

#[tokio::test]
async fn h1_24_early_hints_are_skipped_and_the_final_answer_stored() {
    let world = World::start().await;
    for path in ["/", "/100"] {
        let fetched = kept(&world, "h1-24", path).await;
        assert!(head(&fetched).starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", head(&fetched).escape_ascii());
        assert!(!fetched.fields.contains_key("link"), "a hint's fields are not the answer's");
    }
}

#[tokio::test]
async fn h1_25_endless_early_hints_meet_a_count() {
    let world = World::start().await;
    let fetched = refused(&world, "h1-25", "/", Outcome::InformationalFlood).await;
    assert!(fetched.timings.total < world.settings.head_timeout, "the count comes before the time");
}

#[tokio::test]
async fn h1_25_endless_early_hints_meet_a_time_whatever_the_count() {
    let world = World::start_with(|settings| settings.informational_max = u32::MAX).await;
    let before = cpu_time();
    let fetched = world.get("h1-25", "/").await;
    assert!(matches!(fetched.outcome, Outcome::HeadTimeout | Outcome::HeadTooLarge), "{}", fetched.outcome);
    assert!(fetched.exchange.is_none());
    // Other tests may share this process: then its time says nothing about this fetch.
    if std::env::var_os("NEXTEST").is_some() {
        let spent = cpu_time() - before;
        assert!(spent < fetched.timings.total / 2, "{spent:?} of {:?}", fetched.timings.total);
    }
}

/// User and system time of this process so far (`/proc/self/stat`, fields 14 and 15, in ticks of 10 ms).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    let ticks: u64 = after_name.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn h1_26_an_upgrade_nobody_asked_for_is_refused_and_its_connection_closed() {
    let world = World::start().await;
    for path in ["/", "/h2c"] {
        let fetched = refused(&world, "h1-26", path, Outcome::UnexpectedUpgrade).await;
        assert_eq!(fetched.status, Some(101));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!((world.web.connections("h1-26"), world.web.connections_open_max("h1-26")), (2, 1));
}

#[tokio::test]
async fn h1_27_bytes_after_a_bodyless_answer_do_not_bleed_into_the_next() {
    let world = World::start().await;
    let conditional = |path: &str| Request {
        fields: vec![(IF_NONE_MATCH, HeaderValue::from_static("\"x\""))],
        ..request(&world.web.url("h1-27", path))
    };
    for _ in 0..2 {
        let fetched = world.get("h1-27", "/204").await;
        assert_eq!((fetched.outcome, fetched.status, fetched.body_bytes), (Outcome::Fetched, Some(204), 0));
        assert_eq!(text(&fetched), "");
        let fetched = world.ask(conditional("/304")).await;
        assert_eq!(
            (fetched.outcome, fetched.status, fetched.body_bytes),
            (Outcome::NotModified, Some(304), 0)
        );
        // An ordinary page of the same host is unaffected.
        let fetched = world.get("h1-27", "/").await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
        assert!(text(&fetched).contains("href=\"/unasked304\"") && !text(&fetched).contains("bleeding"));
    }
    // After each 204 and 304 the connection was given up.
    for seen in world.web.requests("h1-27").windows(2) {
        assert!(seen[0].path == "/" || seen[0].connection != seen[1].connection, "{seen:?}");
    }
}

#[tokio::test]
async fn h1_27_not_modified_and_partial_content_need_to_be_asked_for() {
    let world = World::start().await;
    for (path, outcome, status) in [
        ("/304", Outcome::UnexpectedNotModified, 304),
        ("/unasked304", Outcome::UnexpectedNotModified, 304),
        ("/206", Outcome::UnexpectedPartial, 206),
    ] {
        let fetched = refused(&world, "h1-27", path, outcome).await;
        assert_eq!(fetched.status, Some(status));
        assert_ne!(fetched.outcome.class(), Class::Ok);
    }
}

#[tokio::test]
async fn h1_28_empty_lines_before_the_status_line_are_skipped() {
    let world = World::start().await;
    for path in ["/", "/ten", "/many"] {
        let fetched = kept(&world, "h1-28", path).await;
        assert!(head(&fetched).starts_with(b"HTTP/1.1 200 OK\r\n"), "{path}");
    }
}
