//! HTTP/2 frames that flood, lie or never come.
//!
//! Every server here answers properly over HTTP/1.1. So a server that breaks HTTP/2 before its response loses nothing
//! but HTTP/2: the fetch succeeds, over HTTP/1.1, after exactly one retry.

use std::time::Duration;

use nephila_core::spider::{Action, Outcome};
use nephila_core::store::Truncation;
use nephila_spider::Fetched;

use crate::measure::{cpu_time, locked_version, memory};
use crate::support::{World, body, text};

/// Far more than a bounded flood costs here, far less than one that is read until a deadline.
const CPU_MAX: Duration = Duration::from_secs(2);
/// Maximum growth of the process through one hostile connection, the server's side included.
const GROWTH_MAX: u64 = 24 * 1024 * 1024;

fn over_h2(world: &World, id: &str) -> usize {
    world.web.requests(id).iter().filter(|seen| seen.method == "(h2)").count()
}

/// Checks for success over HTTP/1.1 after one attempt over HTTP/2, and that the host is remembered.
async fn assert_falls_back(world: &World, id: &str) -> Fetched {
    let case = id.rsplit('.').next().unwrap();
    let (h2_before, connections_before) = (over_h2(world, case), world.web.connections(case));
    let fetched = world.get_tls(id, "/page").await;
    assert_eq!(
        (fetched.outcome, fetched.protocol),
        (Outcome::Fetched, Some("http/1.1")),
        "{id}: {}",
        fetched.detail
    );
    assert_eq!(world.web.connections(case), connections_before + 2, "{id}: one over each protocol");
    let again = world.get_tls(id, "/page").await;
    assert_eq!((again.outcome, again.requests), (Outcome::Fetched, 1), "{id}: {}", again.detail);
    assert_eq!(over_h2(world, case), h2_before + 1, "{id}: HTTP/2 is not tried again");
    fetched
}

#[tokio::test]
async fn h2_01_a_stream_of_continuations_is_cut_at_a_bound() {
    let world = World::patient().await;
    for id in ["h2-01", "empty.h2-01"] {
        let (cpu, before) = (cpu_time(), memory());
        assert_falls_back(&world, id).await;
        let spent = cpu_time() - cpu;
        assert!(spent < CPU_MAX, "{id}: {spent:?}");
        assert!(memory().saturating_sub(before) < GROWTH_MAX, "{id}");
    }
}

#[tokio::test]
async fn h2_02_endless_empty_data_costs_no_memory() {
    let world = World::patient().await;
    let (cpu, before) = (cpu_time(), memory());
    let fetched = world.get_tls("h2-02", "/page").await;
    let spent = cpu_time() - cpu;
    assert_eq!(
        (fetched.outcome, fetched.truncated),
        (Outcome::CutDisconnect, Some(Truncation::Disconnect)),
        "{}",
        fetched.detail
    );
    assert!(body(&fetched).is_empty());
    assert!(memory().saturating_sub(before) < GROWTH_MAX);
    assert!(spent < CPU_MAX, "{spent:?}");
    let again = world.get_tls("h2-02", "/page").await;
    assert_eq!(
        (again.outcome, again.protocol),
        (Outcome::Fetched, Some("http/1.1")),
        "the host is not lost: {}",
        again.detail
    );
}

#[test]
fn h2_02_the_lock_file_holds_no_h2_with_known_holes() {
    assert!(locked_version("h2") >= [0, 4, 16], "RUSTSEC-2026-0258");
}

#[tokio::test]
async fn h2_03_a_header_bomb_does_not_unfold() {
    let world = World::patient().await;
    let before = memory();
    let fetched = assert_falls_back(&world, "h2-03").await;
    let grown = memory().saturating_sub(before);
    assert!(grown < GROWTH_MAX, "{grown} bytes for a bomb of 64 MB");
    assert!(fetched.head_bytes < 64 * 1024);
}

#[tokio::test]
async fn h2_04_floods_of_control_frames_are_cut_at_a_bound() {
    let world = World::patient().await;
    for id in ["h2-04", "ping.h2-04", "window.h2-04", "priority.h2-04"] {
        let (cpu, before) = (cpu_time(), memory());
        assert_falls_back(&world, id).await;
        let spent = cpu_time() - cpu;
        assert!(spent < CPU_MAX, "{id}: {spent:?}");
        assert!(memory().saturating_sub(before) < GROWTH_MAX, "{id}");
    }
    assert_eq!(Outcome::H2Protocol.action(), Action::BackOff, "where HTTP/1.1 does not help either");
}

#[tokio::test]
async fn h2_04_a_flood_whose_answers_are_never_read_fills_no_queue() {
    let world = World::start().await;
    let before = memory();
    let fetched = world.get_tls("ack.h2-04", "/page").await;
    let over_h1 = (fetched.outcome, fetched.protocol) == (Outcome::Fetched, Some("http/1.1"));
    assert!(over_h1 || fetched.outcome == Outcome::HeadTimeout, "{} {}", fetched.outcome, fetched.detail);
    assert!(memory().saturating_sub(before) < GROWTH_MAX);
}

#[tokio::test]
async fn h2_05_a_server_that_resets_every_stream_is_asked_twice_and_left() {
    let world = World::patient().await;
    let fetched = world.get_tls("h2-05", "/page").await;
    assert_eq!((fetched.outcome, fetched.requests), (Outcome::H2Goaway, 2), "{}", fetched.detail);
    assert_eq!(fetched.outcome.action(), Action::BackOff);
    assert_eq!(world.web.connections("h2-05"), 2, "a connection with a reset stream is dropped");
    assert_eq!(over_h2(&world, "h2-05"), 2);
}

#[tokio::test]
async fn h2_05_resets_that_nobody_reads_are_not_queued_for_ever() {
    let world = World::patient().await;
    let (cpu, before) = (cpu_time(), memory());
    let fetched = world.get_tls("queue.h2-05", "/page").await;
    let spent = cpu_time() - cpu;
    let cut = (fetched.outcome, fetched.truncated) == (Outcome::CutDisconnect, Some(Truncation::Disconnect));
    let over_h1 = (fetched.outcome, fetched.protocol) == (Outcome::Fetched, Some("http/1.1"));
    assert!(cut || over_h1, "{} {}", fetched.outcome, fetched.detail);
    assert!(memory().saturating_sub(before) < GROWTH_MAX);
    assert!(spent < CPU_MAX, "{spent:?}");
    let again = world.get_tls("queue.h2-05", "/page").await;
    assert!(!again.reused || again.protocol == Some("http/1.1"), "the connection was dropped");
    assert_eq!((again.outcome, again.protocol), (Outcome::Fetched, Some("http/1.1")), "{}", again.detail);
}

#[tokio::test]
async fn h2_06_an_unprocessed_request_goes_out_once_more_on_a_new_connection() {
    let world = World::patient().await;
    let fetched = world.get_tls("h2-06", "/page").await;
    assert_eq!(
        (fetched.outcome, fetched.protocol, fetched.requests),
        (Outcome::Fetched, Some("h2"), 2),
        "{}",
        fetched.detail
    );
    assert!(!fetched.reused);
    let again = world.get_tls("h2-06", "/page").await;
    assert_eq!(
        (again.outcome, again.requests, again.reused),
        (Outcome::Fetched, 1, true),
        "{}",
        again.detail
    );
    let connections: Vec<u64> = world.web.requests("h2-06").iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 2, 2], "the first connection is never used again");
}

#[tokio::test]
async fn h2_07_a_server_that_opens_no_window_meets_the_deadlines() {
    let world = World::start().await;
    let one = async |id: &str, outcome: Outcome| {
        let fetched = world.get_tls(id, "/page").await;
        assert_eq!(fetched.outcome, outcome, "{id}: {}", fetched.detail);
        assert_eq!(fetched.requests, 1, "{id}");
        fetched
    };
    let (_, window, _) = tokio::join!(
        one("h2-07", Outcome::HeadTimeout),
        one("window.h2-07", Outcome::CutTime),
        one("headers.h2-07", Outcome::HeadTimeout)
    );
    assert_eq!(window.truncated, Some(Truncation::Time));
    let open = world.web.connections("h2-07");
    let fetched = world.get_tls("h2-07", "/page").await;
    assert_eq!(fetched.outcome, Outcome::HeadTimeout);
    assert_eq!(world.web.connections("h2-07"), open + 1, "a stuck connection is not kept for the next page");
}

#[tokio::test]
async fn h2_08_after_a_thousand_timeouts_the_next_request_succeeds() {
    const TIMEOUTS: usize = 1_024;
    const AT_ONCE: usize = 256;
    let world = World::start_with(|settings| {
        settings.head_timeout = Duration::from_millis(300);
        settings.tls_timeout = Duration::from_secs(6);
    })
    .await;
    let mut left = TIMEOUTS;
    while left > 0 {
        let mut batch = tokio::task::JoinSet::new();
        for _ in 0..AT_ONCE.min(left) {
            let (spider, url) = (world.spider.clone(), world.web.https_url("h2-08", "/never"));
            batch.spawn(async move { spider.fetch(crate::support::request(&url)).await.outcome });
        }
        left -= batch.len();
        while let Some(outcome) = batch.join_next().await {
            assert_eq!(outcome.unwrap(), Outcome::HeadTimeout);
        }
    }
    let fetched = world.get_tls("h2-08", "/page").await;
    assert_eq!(
        (fetched.outcome, fetched.protocol, fetched.requests),
        (Outcome::Fetched, Some("h2"), 1),
        "{}",
        fetched.detail
    );
    let seen = world.web.requests("h2-08");
    assert!(
        seen.iter().filter(|seen| seen.path == "/never").all(|seen| seen.number == 1),
        "no connection outlives a timeout"
    );
}

#[tokio::test]
async fn h2_09_a_connection_carries_one_request_at_a_time() {
    let world = World::patient().await;
    // Sequential requests share a connection; concurrent requests do not share streams.
    for _ in 0..3 {
        assert_eq!(world.get_tls("h2-09", "/page").await.outcome, Outcome::Fetched);
    }
    assert_eq!((world.web.connections("h2-09"), world.web.streams_open_max("h2-09")), (1, 1));
    let (a, b) = tokio::join!(world.get_tls("h2-09", "/page"), world.get_tls("h2-09", "/page"));
    assert_eq!((a.outcome, b.outcome), (Outcome::Fetched, Outcome::Fetched));
    assert_eq!(world.web.connections("h2-09"), 2, "so whoever counts connections counts requests");
    assert_eq!(world.web.streams_open_max("h2-09"), 2);
}

#[tokio::test]
async fn h2_10_names_never_share_a_connection() {
    let world = World::patient().await;
    for name in ["n1.h2-10", "n2.h2-10", "h2-10", "n1.h2-10"] {
        let fetched = world.get_tls(name, "/page").await;
        assert_eq!((fetched.outcome, fetched.requests), (Outcome::Fetched, 1), "{name}: {}", fetched.detail);
    }
    assert_eq!(world.web.connections("h2-10"), 3, "one for each name, though one certificate covers all");
}

#[tokio::test]
async fn h2_10_a_misdirected_request_goes_out_once_more_on_its_own_connection() {
    let world = World::patient().await;
    // The first answer comes on a kept connection.
    assert_eq!(world.get_tls("h2-10", "/page").await.outcome, Outcome::Fetched);
    let fetched = world.get_tls("h2-10", "/misdirected").await;
    assert_eq!(
        (fetched.outcome, fetched.status, fetched.requests),
        (Outcome::Fetched, Some(200), 2),
        "{}",
        fetched.detail
    );
    let connections: Vec<u64> = world.web.requests("h2-10").iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
}

#[tokio::test]
async fn h2_11_nothing_pushed_is_kept() {
    let world = World::patient().await;
    let fetched = assert_falls_back(&world, "h2-11").await;
    assert!(!text(&fetched).contains("PUSHED"));
    assert_eq!(fetched.requests, 2);
}

#[tokio::test]
async fn h2_12_a_malformed_answer_is_never_stored_as_complete() {
    let world = World::patient().await;
    for id in ["h2-12", "short.h2-12", "long.h2-12"] {
        let fetched = world.get_tls(id, "/page").await;
        if fetched.protocol == Some("h2") {
            assert_eq!(
                (fetched.outcome, fetched.truncated),
                (Outcome::CutDisconnect, Some(Truncation::Disconnect)),
                "{id}: {}",
                fetched.detail
            );
            assert_eq!(fetched.exchange.as_ref().unwrap().truncated, Some(Truncation::Disconnect), "{id}");
        } else {
            assert_eq!(
                (fetched.outcome, fetched.requests),
                (Outcome::Fetched, 2),
                "{id}: {}",
                fetched.detail
            );
            assert!(!text(&fetched).contains("malformed"), "{id}");
        }
    }
}

#[tokio::test]
async fn h2_12_a_pseudo_header_in_the_trailers_changes_nothing_that_is_stored() {
    // The HTTP library drops the frame instead of resetting the stream. Trailers are never stored, so this does no
    // harm.
    let world = World::patient().await;
    let fetched = world.get_tls("trailers.h2-12", "/page").await;
    assert_eq!((fetched.status, fetched.fields.len()), (Some(200), 1), "{}", fetched.detail);
    let head = fetched.exchange.as_ref().unwrap().response_head.to_vec();
    assert_eq!(String::from_utf8(head).unwrap().matches("200").count(), 1);
    assert_eq!(text(&fetched), "<p>malformed</p>");
}

#[tokio::test]
async fn h2_13_frames_that_are_too_large_do_not_lose_the_host() {
    let world = World::patient().await;
    assert_falls_back(&world, "headers.h2-13").await;
    // Here the head came before the frame: the part of the page is kept as cut, and the next attempt is over h1.
    let fetched = world.get_tls("h2-13", "/page").await;
    if fetched.protocol == Some("h2") {
        assert_eq!(
            (fetched.outcome, fetched.truncated),
            (Outcome::CutDisconnect, Some(Truncation::Disconnect)),
            "{}",
            fetched.detail
        );
    }
    let again = world.get_tls("h2-13", "/page").await;
    assert_eq!(
        (again.outcome, again.protocol, again.requests),
        (Outcome::Fetched, Some("http/1.1"), 1),
        "{}",
        again.detail
    );
}

#[tokio::test]
async fn h2_14_a_server_that_requires_http_1_1_gets_it_and_is_remembered() {
    let world = World::patient().await;
    for id in ["h2-14", "goaway.h2-14"] {
        let fetched = assert_falls_back(&world, id).await;
        assert_eq!(fetched.requests, 2, "{id}");
    }
}
