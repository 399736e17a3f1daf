//! Which capture is the best, what is answered without one, and how long a read keeps its place.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;

fn explained(summary: Summary, expected_s: Option<u64>) -> Explained {
    let mut explained = Explained::bad("http://a.test/", "because".into());
    (explained.summary, explained.expected_s) = (summary, expected_s);
    explained
}

#[test]
fn what_is_wanted_comes_later_and_what_is_not_never() {
    let status = |answer: &HttpAnswer| answer.status().as_u16();
    let queued = missing(&explained(Summary::Queued, Some(42)), &[]);
    assert_eq!((status(&queued), &queued.headers()["retry-after"]), (503, &HeaderValue::from(42)));
    let parked = missing(&explained(Summary::Parked, None), &[]);
    assert_eq!((status(&parked), &parked.headers()["retry-after"]), (503, &HeaderValue::from(SOME_TIME)));
    for unwanted in [Summary::OutOfScope, Summary::Robots, Summary::Trap, Summary::Unknown, Summary::Failed] {
        assert_eq!(status(&missing(&explained(unwanted, None), &[])), 404, "{unwanted:?}");
    }
    let lost = missing(&explained(Summary::Fetched, None), &[]);
    assert_eq!(status(&lost), 503, "it was there once");
    let silent = missing(&explained(Summary::Failed, None), &["node b: no answer".into()]);
    assert_eq!(status(&silent), 503, "who does not answer may have it");
}

#[test]
fn the_very_url_and_the_newest_capture_win() {
    let found = |url: &str, timestamp: &str| FoundCapture { url: url.into(), timestamp: timestamp.into() };
    let url = "http://a.test/";
    let (old, new, other) = (
        found(url, "20260101000000"),
        found(url, "20260102000000"),
        found("https://a.test/", "20270101000000"),
    );
    assert!(new.rank(url, None) < old.rank(url, None));
    assert!(old.rank(url, None) < other.rank(url, None));
    assert!(old.rank(url, Some("2026")) < new.rank(url, Some("2026")));
}

#[tokio::test]
async fn a_read_keeps_its_place_when_its_client_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::new(dir.path(), "here");
    let (end, until) = std::sync::mpsc::channel::<()>();
    let read = archive.read(move |_| Ok(until.recv().is_ok()));
    assert!(timeout(Duration::from_millis(50), read).await.is_err(), "the client goes before the read ends");
    assert_eq!(archive.reads.available_permits(), READS_MAX - 1);
    drop(end);
    let all_free = async {
        while archive.reads.available_permits() < READS_MAX {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), all_free).await.expect("the place is free at the end of the read");
}
