//! Wrong lengths, chunks and transfer codings: a body is whole, or marked, or refused; never mis-framed.

use nephila_core::spider::{Class, Outcome};
use nephila_core::store::Truncation;
use nephila_spider::Fetched;

use crate::support::{World, body, text};

/// The five bytes that most cases serve.
const FIVE: &str = "<b>5\n";

/// Checks for a cut body: marked, and never taken for a complete page.
fn assert_cut(fetched: &Fetched, path: &str) {
    assert_eq!(fetched.outcome, Outcome::CutDisconnect, "{path}: {}", fetched.detail);
    assert_eq!(fetched.truncated, Some(Truncation::Disconnect), "{path}");
    assert_eq!(
        fetched.exchange.as_ref().and_then(|exchange| exchange.truncated),
        Some(Truncation::Disconnect),
        "{path}"
    );
    assert_ne!(fetched.outcome.class(), Class::Ok, "{path}");
    assert!(!fetched.detail.is_empty(), "{path} says why");
}

/// Checks that the connection of every fetch so far was closed afterwards.
fn assert_nothing_reused(world: &World, id: &str) {
    let seen = world.web.requests(id);
    assert!(seen.iter().all(|request| request.number == 1), "{id}: {seen:?}");
    assert_eq!(world.web.connections(id), seen.len() as u64, "{id}");
}

#[tokio::test]
async fn h1_11_the_same_length_twice_is_one_length() {
    let world = World::start().await;
    for path in ["/twice", "/list"] {
        let fetched = world.get("h1-11", path).await;
        assert_eq!(
            (fetched.outcome, fetched.truncated),
            (Outcome::Fetched, None),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(text(&fetched), FIVE, "{path}");
    }
}

#[tokio::test]
async fn h1_12_lengths_that_are_none_are_refused_and_the_connection_closed() {
    let world = World::start().await;
    for path in ["/two", "/list", "/negative", "/plus", "/digits", "/hex", "/empty"] {
        let fetched = world.get("h1-12", path).await;
        assert_eq!(fetched.outcome, Outcome::BadFraming, "{path}: {}", fetched.detail);
        assert!(fetched.exchange.is_none(), "{path} is stored");
        assert_eq!(fetched.requests, 1, "{path}");
    }
    assert_nothing_reused(&world, "h1-12");
}

#[tokio::test]
async fn h1_13_a_body_shorter_than_its_length_is_marked() {
    let world = World::start().await;
    for (path, bytes) in [("/", 500), ("/none", 0)] {
        let fetched = world.get("h1-13", path).await;
        assert_cut(&fetched, path);
        assert_eq!(body(&fetched), vec![b's'; bytes], "{path}: what came is kept");
        assert_eq!((fetched.body_bytes, fetched.requests), (bytes as u64, 1), "{path}");
    }
}

#[tokio::test]
async fn h1_14_a_body_longer_than_its_length_is_cut_there_and_the_connection_closed() {
    let world = World::start().await;
    for _ in 0..2 {
        let fetched = world.get("h1-14", "/").await;
        assert_eq!((fetched.outcome, fetched.status), (Outcome::Fetched, Some(200)), "{}", fetched.detail);
        assert_eq!(body(&fetched), vec![b'l'; 500]);
        assert!(!fetched.reused);
    }
    assert_nothing_reused(&world, "h1-14");
}

#[tokio::test]
async fn h1_15_chunks_win_over_a_length_and_the_connection_ends() {
    let world = World::start().await;
    for path in ["/", "/reverse"] {
        let fetched = world.get("h1-15", path).await;
        assert_eq!(
            (fetched.outcome, fetched.truncated),
            (Outcome::Fetched, None),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(text(&fetched), FIVE, "{path}: five bytes by the chunks, three by the length");
        assert!(!fetched.reused, "{path}");
    }
    assert_nothing_reused(&world, "h1-15");
}

#[tokio::test]
async fn h1_16_a_second_transfer_coding_is_refused() {
    let world = World::start().await;
    for path in ["/", "/two"] {
        let fetched = world.get("h1-16", path).await;
        assert_eq!(fetched.outcome, Outcome::TransferCoding, "{path}: {}", fetched.detail);
        assert!(
            fetched.exchange.is_none() && fetched.decoded.is_none(),
            "{path}: never stored as plain text"
        );
    }
    assert_nothing_reused(&world, "h1-16");
}

#[tokio::test]
async fn h1_17_unknown_transfer_codings_are_refused() {
    let world = World::start().await;
    for (path, outcome) in [
        ("/unknown", Outcome::TransferCoding),
        ("/notlast", Outcome::TransferCoding),
        ("/http10", Outcome::BadFraming),
    ] {
        let fetched = world.get("h1-17", path).await;
        assert_eq!(fetched.outcome, outcome, "{path}: {}", fetched.detail);
        assert!(fetched.exchange.is_none(), "{path} is stored");
    }
}

#[tokio::test]
async fn h1_17_what_only_looks_like_a_coding_is_framed_without_it() {
    let world = World::start().await;
    // The full-width colon is no colon: the length counts. `identity` is no coding: the end of the connection does.
    for path in ["/wide", "/identity"] {
        let fetched = world.get("h1-17", path).await;
        assert_eq!(
            (fetched.outcome, fetched.truncated),
            (Outcome::Fetched, None),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(text(&fetched), FIVE, "{path}");
    }
}

#[tokio::test]
async fn h1_18_chunks_without_an_end_are_never_a_whole_page() {
    let world = World::start().await;
    for path in ["/", "/mid", "/size"] {
        let fetched = world.get("h1-18", path).await;
        assert_cut(&fetched, path);
        assert_eq!(text(&fetched), FIVE, "{path}: what came is kept");
    }
}

#[tokio::test]
async fn h1_19_chunk_sizes_that_are_none_are_refused() {
    let world = World::start().await;
    for path in ["/nothex", "/17", "/negative", "/prefix"] {
        let fetched = world.get("h1-19", path).await;
        assert_cut(&fetched, path);
        assert_eq!(body(&fetched), b"", "{path}: nothing was read by a wrong size");
    }
    let fetched = world.get("h1-19", "/nocrlf").await;
    assert_cut(&fetched, "/nocrlf");
    assert_eq!(text(&fetched), FIVE, "the chunk before the fault, and nothing of it");
    assert_nothing_reused(&world, "h1-19");
}

#[tokio::test]
async fn h1_19_padding_and_line_feeds_are_tolerated_or_refused_but_not_misread() {
    let world = World::start().await;
    for path in ["/padded", "/lf"] {
        let fetched = world.get("h1-19", path).await;
        match fetched.outcome {
            Outcome::Fetched => assert_eq!(text(&fetched), FIVE, "{path}"),
            _ => {
                assert_cut(&fetched, path);
                assert!(FIVE.as_bytes().starts_with(&body(&fetched)), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn h1_20_chunk_extensions_are_limited_in_all() {
    let world = World::start().await;
    for path in ["/", "/mega"] {
        let fetched = world.get("h1-20", path).await;
        assert_cut(&fetched, path);
        // 3,000 bytes would have come with 600,000 bytes of extensions.
        assert!(fetched.body_bytes < 1_000, "{path}: {}", fetched.body_bytes);
        assert!(fetched.detail.contains("extensions"), "{path}: {}", fetched.detail);
        assert!(fetched.timings.total < world.settings.body_idle_timeout, "{path}");
    }
}

#[tokio::test]
async fn h1_21_trailers_are_limited() {
    let world = World::start().await;
    let fetched = world.get("h1-21", "/").await;
    assert_cut(&fetched, "/");
    assert_eq!(text(&fetched), FIVE, "the body before them is kept");
    assert!(!fetched.fields.keys().any(|name| name.as_str().starts_with("x-trailer")));
}

#[tokio::test]
async fn h1_21_trailers_are_not_merged_into_the_fields() {
    let world = World::start().await;
    let fetched = world.get("h1-21", "/smuggle").await;
    assert_eq!((fetched.outcome, text(&fetched).as_str()), (Outcome::Fetched, FIVE), "{}", fetched.detail);
    for name in ["content-length", "set-cookie", "location"] {
        assert!(!fetched.fields.contains_key(name), "{name} came in a trailer");
    }
    assert_eq!(fetched.redirect, None);
    let exchange = fetched.exchange.unwrap();
    assert!(
        exchange.response_head.ends_with(b"chunked\r\n\r\n"),
        "{}",
        exchange.response_head.escape_ascii()
    );
}
