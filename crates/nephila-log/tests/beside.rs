//! Readers other than the owner: the event stream, and a log that another node writes.

mod worlds;

use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use nephila_log::conformance::{WAIT_MAX, block, group, write};
use nephila_log::jetstream::{Beside, JetLog, LogReader};
use nephila_log::{Fence, GroupLog as _};
use worlds::Jet;

const EVENTS: &str = "NEPH_test_EVENTS";

/// A direct connection, to act like the server.
async fn past(jet: &Jet) -> jetstream::Context {
    jetstream::new(async_nats::connect(jet.nats.urls()).await.unwrap())
}

async fn publish(events: &nephila_log::jetstream::JetEvents, id: &str) {
    events.publish(1, id, Bytes::from(format!("{id}\n")), WAIT_MAX).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_whose_consumer_the_server_removed_goes_on() {
    let jet = Jet::one().await;
    let events = jet.engine.events(1 << 20);
    events.ensure().await.unwrap();
    publish(&events, "one").await;
    let mut reader = events.reader(0);
    let one = (1_u64, Bytes::from_static(b"one\n"));
    assert_eq!(reader.take(10, Duration::ZERO).await.unwrap(), [one]);
    // The server does the same with an idle consumer.
    let stream = past(&jet).await.get_stream(EVENTS).await.unwrap();
    let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    assert!(!names.is_empty());
    for name in names {
        stream.delete_consumer(&name).await.unwrap();
    }
    publish(&events, "two").await;
    let two = (2_u64, Bytes::from_static(b"two\n"));
    assert_eq!(reader.take(10, Duration::ZERO).await.unwrap(), [two]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_that_was_removed_is_made_again() {
    let jet = Jet::one().await;
    let events = jet.engine.events(1 << 20);
    events.ensure().await.unwrap();
    publish(&events, "one").await;
    let past = past(&jet).await;
    past.delete_stream(EVENTS).await.unwrap();
    let lines = Bytes::from_static(b"two\n");
    let failed = events.publish(1, "two", lines, Duration::from_secs(1)).await;
    assert!(failed.is_err_and(|error| error.is_unavailable()));
    // However many callers there are, the stream is checked only once in a while.
    let end = tokio::time::Instant::now() + WAIT_MAX;
    while past.get_stream(EVENTS).await.is_err() {
        assert!(tokio::time::Instant::now() < end, "it was not made");
        events.ensure().await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    publish(&events, "two").await;
    assert_eq!(events.end().await.unwrap(), 1);
}

/// Reads until no message is pending: the numbers of checked groups, and claims.
async fn all(reader: &mut LogReader) -> (Vec<u64>, Vec<u64>) {
    let (mut groups, mut claims) = (Vec::new(), Vec::new());
    loop {
        let steps = reader.take().await.unwrap();
        if steps.is_empty() {
            return (groups, claims);
        }
        for step in steps {
            match step {
                Beside::Group(number, bytes) => {
                    assert!(bytes == group(number, 500), "group {number} has other bytes");
                    groups.push(number);
                }
                Beside::Behind(number) => claims.push(number),
            }
        }
    }
}

async fn written(mut log: JetLog, groups: std::ops::RangeInclusive<u64>) -> JetLog {
    block(move || {
        write(&mut log, groups, 500).unwrap();
        log
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_read_beside_its_owner_who_does_not_notice() {
    let jet = Jet::one().await;
    let log = jet.engine.log(1, 1, Fence::new()).await.unwrap();
    let log = written(log, 1..=20).await;
    let mut reader = jet.engine.log_reader(1, 8);
    assert_eq!(all(&mut reader).await.0, Vec::from_iter(8..=20));
    let log = written(log, 21..=25).await;
    assert_eq!(all(&mut reader).await.0, Vec::from_iter(21..=25));
    drop(log);
    // Another owner, whose log starts anew: the groups in between are missing, and the claim says so.
    let mut log = jet.engine.log(1, 2, Fence::new()).await.unwrap();
    log.begin_behind(40).await.unwrap();
    let log = written(log, 41..=42).await;
    assert_eq!(log.synced(), 42);
    let (groups, claims) = all(&mut jet.engine.log_reader(1, 26)).await;
    assert_eq!((groups, claims.last()), (vec![41, 42], Some(&40)));
}
