//! JetStream under faults: lost answers, stopped servers, broken networks, logs that lose messages.

mod worlds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use nephila_log::conformance::{WAIT_MAX, block, group, numbers, write};
use nephila_log::jetstream::{Engine, JetLog, Level, Settings};
use nephila_log::{Error, Fence, GroupLog, Inbox, Leases};
use nephila_testnats::{Nats, Options, Proxy};
use tokio::time::{Instant, sleep};
use worlds::{Jet, settings};

/// The stream of partition 1 and 3.
const STREAM: &str = "NEPH_test_1";

/// Servers, with a proxy between the engine and the first server.
struct Behind {
    proxy: Arc<Proxy>,
    engine: Engine,
    nats: Nats,
}

impl Behind {
    async fn new() -> Self {
        let nats = block(Nats::one).await.unwrap();
        let proxy = Arc::new(Proxy::to(nats.address(0)).unwrap());
        let engine = Engine::connect(settings(vec![proxy.url()], 1)).await.unwrap();
        Behind { proxy, engine, nats }
    }

    /// Number of messages in the stream, from the server.
    fn messages(&self) -> u64 {
        let said = self.nats.ask(0, "/jsz?streams=true&accounts=true").unwrap();
        let streams = said["account_details"][0]["stream_detail"].as_array().unwrap();
        let found = streams.iter().find(|stream| stream["name"] == STREAM).unwrap();
        found["state"]["messages"].as_u64().unwrap()
    }

    async fn wait_for_messages(&self, count: u64) {
        let end = Instant::now() + WAIT_MAX;
        while self.messages() < count {
            assert!(Instant::now() < end, "{} messages came of {count}", self.messages());
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A direct connection, to act like a broken server.
async fn past(nats: &Nats) -> jetstream::Context {
    jetstream::new(async_nats::connect(nats.urls()).await.unwrap())
}

async fn written(engine: &Engine, groups: std::ops::RangeInclusive<u64>, len: usize) -> JetLog {
    let mut log = engine.log(1, 1, Fence::new()).await.unwrap();
    block(move || {
        write(&mut log, groups, len).unwrap();
        log
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_does_not_double_the_group() {
    let behind = Behind::new().await;
    let mut log = written(&behind.engine, 1..=1, 500).await;
    behind.proxy.mute();
    log.append(2, &group(2, 500)).unwrap();
    // The claim and two groups: the server has stored them, but the acknowledgement is lost.
    behind.wait_for_messages(3).await;
    behind.proxy.cut();
    sleep(Duration::from_millis(300)).await;
    behind.proxy.heal();
    let read = block(move || {
        log.sync().unwrap();
        write(&mut log, 3..=3, 500).unwrap();
        numbers(&mut log, 1, 500).unwrap()
    })
    .await;
    assert_eq!(read, [1, 2, 3]);
    assert_eq!(behind.messages(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_never_arrived_is_sent_again() {
    let behind = Behind::new().await;
    let mut log = written(&behind.engine, 1..=1, 500).await;
    behind.proxy.hold();
    log.append(2, &group(2, 500)).unwrap();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(behind.messages(), 2);
    behind.proxy.cut();
    sleep(Duration::from_millis(300)).await;
    behind.proxy.heal();
    let read = block(move || {
        log.sync().unwrap();
        numbers(&mut log, 1, 500).unwrap()
    })
    .await;
    assert_eq!(read, [1, 2]);
    assert_eq!(behind.messages(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_does_not_double_a_message_nor_a_record() {
    let behind = Behind::new().await;
    let (inbox, leases) = (behind.engine.inbox(), behind.engine.leases());
    inbox.publish(1, 1, Bytes::from_static(b"one")).await.unwrap();
    let record = leases.put("r", None, Bytes::from_static(b"one")).await.unwrap();
    let lease = leases.acquire("l", Bytes::from_static(b"one")).await.unwrap().unwrap();
    behind.proxy.mute();
    let sent = tokio::spawn({
        let (inbox, leases) = (inbox.clone(), leases.clone());
        async move {
            tokio::join!(
                inbox.publish(1, 2, Bytes::from_static(b"two")),
                leases.put("r", record, Bytes::from_static(b"two")),
                leases.renew("l", lease, Bytes::from_static(b"two")),
            )
        }
    });
    behind.wait_for_messages(2).await;
    behind.proxy.cut();
    sleep(Duration::from_millis(200)).await;
    behind.proxy.heal();
    let (message, put, renewed) = sent.await.unwrap();
    let read = inbox.read(1, 0, 10, Duration::ZERO).await.unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(read[1], (message.unwrap(), Bytes::from_static(b"two")));
    assert_eq!(leases.record("r").await.unwrap().unwrap().revision, put.unwrap().unwrap());
    // The lease may have expired meanwhile; if not, it must be ours.
    if let Some(held) = leases.held().await.unwrap().first() {
        assert_eq!(renewed.unwrap(), Some(held.revision));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_after_one_with_an_unknown_result_holds_the_lease() {
    let nats = block(Nats::one).await.unwrap();
    let proxy = Proxy::to(nats.address(0)).unwrap();
    // A lease that outlives the fault.
    let long = Settings { lease_ttl: Duration::from_secs(120), ..settings(vec![proxy.url()], 1) };
    let leases = Engine::connect(long).await.unwrap().leases();
    let first = leases.acquire("l", Bytes::from_static(b"0")).await.unwrap().unwrap();
    proxy.mute();
    let lost =
        tokio::time::timeout(Duration::from_secs(1), leases.renew("l", first, Bytes::from_static(b"1")));
    assert!(lost.await.is_err(), "the answer should not have come");
    proxy.heal();
    let end = Instant::now() + WAIT_MAX;
    while leases.held().await.unwrap()[0].revision == first {
        assert!(Instant::now() < end, "the renewal never arrived");
        sleep(Duration::from_millis(20)).await;
    }
    let renewed = leases.renew("l", first, Bytes::from_static(b"2")).await.unwrap();
    let held = leases.held().await.unwrap();
    assert_eq!((renewed, &held[0].value[..]), (Some(held[0].revision), &b"2"[..]));
    // Once the new revision is known, the earlier one no longer counts.
    assert_eq!(leases.renew("l", first, Bytes::from_static(b"3")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_and_comes_back_is_waited_for() {
    let mut jet = Jet::one().await;
    let mut log = written(&jet.engine, 1..=20, 500).await;
    let inbox = jet.engine.inbox();
    inbox.publish(1, 1, Bytes::from_static(b"before")).await.unwrap();
    let mut read = inbox.read(1, 0, 10, Duration::ZERO).await.unwrap();
    assert_eq!(read.len(), 1);
    for round in 0..3_u64 {
        jet.nats.kill(0).unwrap();
        let next = 21 + round * 10;
        let writing = tokio::task::spawn_blocking(move || {
            let result = write(&mut log, next..=next + 9, 500);
            (log, result)
        });
        let publishing = tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.publish(1, u128::from(100 + round), Bytes::from_static(b"while")).await }
        });
        sleep(Duration::from_millis(700)).await;
        jet.nats.start(0).unwrap();
        let (back, result) = writing.await.unwrap();
        result.unwrap();
        let sent = publishing.await.unwrap().unwrap();
        // An existing reader continues with unseen messages.
        let more = inbox.read(1, read.last().unwrap().0, 10, WAIT_MAX).await.unwrap();
        assert_eq!(more, [(sent, Bytes::from_static(b"while"))]);
        read.extend(more);
        log = back;
    }
    assert_eq!(block(move || numbers(&mut log, 1, 500)).await.unwrap(), Vec::from_iter(1..=50));
    assert_eq!(inbox.read(1, 0, 10, Duration::ZERO).await.unwrap().len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_server_is_waited_for() {
    let mut jet = Jet::one().await;
    let mut log = written(&jet.engine, 1..=5, 500).await;
    jet.nats.stop(0).unwrap();
    let writing = tokio::task::spawn_blocking(move || {
        write(&mut log, 6..=10, 500).unwrap();
        numbers(&mut log, 1, 500).unwrap()
    });
    // Longer than the timeout of one request.
    sleep(Duration::from_secs(7)).await;
    jet.nats.cont(0).unwrap();
    assert_eq!(writing.await.unwrap(), Vec::from_iter(1..=10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flapping_connection_loses_and_doubles_nothing() {
    const GROUPS: u64 = 250;
    let behind = Behind::new().await;
    let inbox = behind.engine.inbox();
    let mut log = written(&behind.engine, 1..=1, 2_000).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let flapping = std::thread::spawn({
        let (proxy, is_over) = (behind.proxy.clone(), is_over.clone());
        move || {
            for round in 0_u64.. {
                if is_over.load(Ordering::Acquire) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(30 + round * 37 % 200));
                match round % 3 {
                    0 => proxy.cut(),
                    1 => proxy.mute(),
                    _ => proxy.hold(),
                }
                std::thread::sleep(Duration::from_millis(10 + round * 13 % 60));
                proxy.cut();
                std::thread::sleep(Duration::from_millis(5));
                proxy.heal();
            }
            proxy.heal();
        }
    });
    let writing = tokio::task::spawn_blocking(move || {
        for sequence in 2..=GROUPS {
            write(&mut log, sequence..=sequence, 2_000).unwrap();
        }
        log
    });
    for id in 0..GROUPS {
        inbox.publish(3, u128::from(id), group(id, 500).into()).await.unwrap();
    }
    let mut log = writing.await.unwrap();
    let (log, read) = block(move || {
        let read = numbers(&mut log, 1, 2_000).unwrap();
        (log, read)
    })
    .await;
    assert_eq!(read, Vec::from_iter(1..=GROUPS));
    let (mut from, mut ids) = (0, Vec::new());
    let end = Instant::now() + WAIT_MAX;
    while ids.len() < GROUPS as usize {
        assert!(Instant::now() < end, "{} messages came", ids.len());
        for (position, message) in inbox.read(3, from, 7, Duration::from_millis(500)).await.unwrap() {
            assert!(position > from);
            from = position;
            ids.push(u64::from_be_bytes(message[..8].try_into().unwrap()));
        }
    }
    is_over.store(true, Ordering::Release);
    flapping.join().unwrap();
    assert_eq!(ids, Vec::from_iter(0..GROUPS));
    assert_eq!(log.synced(), GROUPS);
    assert_eq!(inbox.read(3, from, 7, Duration::from_millis(200)).await.unwrap(), []);
    // The claim, the groups and the messages, each once.
    assert_eq!(behind.messages(), 1 + 2 * GROUPS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_gets_everything_in_order() {
    const MESSAGES: u64 = 600;
    let behind = Behind::new().await;
    let inbox = behind.engine.inbox();
    for id in 0..MESSAGES {
        inbox.publish(1, u128::from(id), group(id, 20_000).into()).await.unwrap();
    }
    behind.proxy.delay(Duration::from_millis(20));
    let (mut from, mut next) = (0, 0);
    let end = Instant::now() + WAIT_MAX;
    while next < MESSAGES {
        assert!(Instant::now() < end, "only {next} messages came");
        for (position, message) in inbox.read(1, from, 64, Duration::from_secs(1)).await.unwrap() {
            assert_eq!(message[..], group(next, 20_000));
            (from, next) = (position, next + 1);
        }
        sleep(Duration::from_millis(30)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_gone_from_the_middle_is_noticed() {
    let jet = Jet::one().await;
    let mut log = written(&jet.engine, 1..=50, 500).await;
    // The claim is message 1, so group 20 is message 21.
    let stream = past(&jet.nats).await.get_stream(STREAM).await.unwrap();
    stream.delete_message(21).await.unwrap();
    let (log, results) = block(move || {
        let results = [1, 20, 21].map(|from| numbers(&mut log, from, 500).map(|read| read.len()));
        (log, results)
    })
    .await;
    for result in &results[..2] {
        assert!(matches!(result, Err(Error::Gap { expected: 20, found: 21 })), "{result:?}");
    }
    assert_eq!(*results[2].as_ref().unwrap(), 30);
    drop(log);
    // A later owner notices too.
    let mut log = jet.engine.log(1, 2, Fence::new()).await.unwrap();
    let read = block(move || numbers(&mut log, 5, 500)).await;
    assert!(matches!(read, Err(Error::Gap { expected: 20, found: 21 })), "{read:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_its_end_is_noticed() {
    let jet = Jet::one().await;
    let mut log = written(&jet.engine, 1..=50, 500).await;
    let stream = past(&jet.nats).await.get_stream(STREAM).await.unwrap();
    for message in 45..=51 {
        stream.delete_message(message).await.unwrap();
    }
    let (mut log, read) = block(move || {
        let read = numbers(&mut log, 1, 500);
        (log, read)
    })
    .await;
    assert!(matches!(read, Err(Error::RolledBack { expected: 51, found: 44 })), "{read:?}");
    let wrote = block(move || write(&mut log, 51..=51, 500)).await;
    assert!(matches!(wrote, Err(Error::RolledBack { expected: 51, found: 44 })), "{wrote:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_made_anew_is_noticed() {
    let jet = Jet::one().await;
    let mut log = written(&jet.engine, 1..=5, 500).await;
    let context = past(&jet.nats).await;
    let config = context.get_stream(STREAM).await.unwrap().cached_info().config.clone();
    context.delete_stream(STREAM).await.unwrap();
    context.create_stream(config).await.unwrap();
    let wrote = block(move || {
        let wrote = write(&mut log, 6..=6, 500);
        assert!(matches!(log.append(7, b"x"), Err(Error::Broken)));
        assert!(log.go_back().is_err());
        wrote
    })
    .await;
    assert!(matches!(wrote, Err(Error::RolledBack { expected: 6, found: 0 })), "{wrote:?}");
    assert!(wrote.unwrap_err().is_loss());
    assert_eq!(jet.engine.log(1, 2, Fence::new()).await.unwrap().synced(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_whose_writer_died_in_the_middle_does_not_count() {
    let small = Options { payload_bytes_max: 64 << 10, ..Options::default() };
    let jet = Jet::with(small).await;
    let log = written(&jet.engine, 1..=2, 300_000).await;
    drop(log);
    let stream = past(&jet.nats).await.get_stream(STREAM).await.unwrap();
    let last = stream.get_info().await.unwrap().state.last_sequence;
    // The last part of group 2 was never written.
    stream.delete_message(last).await.unwrap();
    let log = jet.engine.log(1, 2, Fence::new()).await.unwrap();
    assert_eq!(log.synced(), 1);
    let read = block(move || {
        let mut log = log;
        write(&mut log, 2..=4, 300_000).unwrap();
        numbers(&mut log, 1, 300_000).unwrap()
    })
    .await;
    assert_eq!(read, [1, 2, 3, 4]);
    // The same with the only group.
    let mut log = jet.engine.log(3, 1, Fence::new()).await.unwrap();
    block(move || write(&mut log, 9..=9, 300_000).unwrap()).await;
    let last = stream.get_info().await.unwrap().state.last_sequence;
    stream.delete_message(last).await.unwrap();
    stream.purge().filter("neph.test.1.log.3").keep(2).await.unwrap();
    assert_eq!(jet.engine.log(3, 2, Fence::new()).await.unwrap().synced(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_falling_fence_ends_a_write_that_waits() {
    let behind = Behind::new().await;
    let fence = Fence::new();
    let mut log = behind.engine.log(1, 1, fence.clone()).await.unwrap();
    behind.proxy.cut();
    let writing = tokio::task::spawn_blocking(move || write(&mut log, 1..=3, 100));
    sleep(Duration::from_millis(500)).await;
    assert!(!writing.is_finished());
    fence.fall();
    let result = tokio::time::timeout(Duration::from_secs(30), writing).await.unwrap().unwrap();
    assert!(result.as_ref().is_err_and(Error::is_fenced), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_refuses_and_takes_again_once_there_is_room() {
    let nats = block(Nats::one).await.unwrap();
    let small = Settings { stream_bytes_max: 200_000, ..settings(nats.urls(), 1) };
    let engine = Engine::connect(small).await.unwrap();
    let mut log = engine.log(1, 1, Fence::new()).await.unwrap();
    block(move || {
        let mut next = 1;
        let full = loop {
            match write(&mut log, next..=next, 20_000) {
                Ok(()) => next += 1,
                Err(error) => break error,
            }
            assert!(next < 100, "it never was full");
        };
        assert!(full.is_full(), "{full:?}");
        assert_eq!(log.synced(), next - 1);
        assert!(matches!(log.append(next, b"x"), Err(Error::Broken)));
        log.go_back().unwrap();
        // Still full.
        assert!(write(&mut log, next..=next, 20_000).is_err_and(|error| error.is_full()));
        log.go_back().unwrap();
        let end = std::time::Instant::now() + WAIT_MAX;
        loop {
            log.truncate_before(next - 2).unwrap();
            match write(&mut log, next..=next, 20_000) {
                Ok(()) => break,
                Err(error) => assert!(error.is_full(), "{error:?}"),
            }
            log.go_back().unwrap();
            assert!(std::time::Instant::now() < end, "there was never room again");
            std::thread::sleep(Duration::from_millis(50));
        }
        let read = numbers(&mut log, next - 2, 20_000).unwrap();
        assert_eq!(read, [next - 2, next - 1, next]);
    })
    .await;
    let refused = engine.inbox().publish(1, 1, vec![0; 500_000].into()).await;
    assert!(refused.as_ref().is_err_and(Error::is_full), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_can_be_written_from_inside_another_runtime() {
    let jet = Jet::one().await;
    let mut log = jet.engine.log(1, 1, Fence::new()).await.unwrap();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            write(&mut log, 1..=5, 500).unwrap();
            log.truncate_before(2).unwrap();
            numbers(&mut log, 3, 500).unwrap()
        })
    });
    assert_eq!(block(move || thread.join().unwrap()).await, [3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_searched_and_not_read_from_the_start() {
    let jet = Jet::one().await;
    let inbox = jet.engine.inbox();
    // Other subjects of the stream lie between.
    let mut log = jet.engine.log(1, 1, Fence::new()).await.unwrap();
    for first in (1..=900).step_by(100) {
        log = block(move || {
            write(&mut log, first..=first + 99, 100).unwrap();
            log
        })
        .await;
        for id in 0..100_u64 {
            inbox.publish(3, u128::from(first * 1_000 + id), Bytes::from_static(b"x")).await.unwrap();
        }
    }
    drop(log);
    let mut log = jet.engine.log(1, 2, Fence::new()).await.unwrap();
    block(move || {
        for from in [1, 2, 450, 451, 899, 900] {
            assert_eq!(numbers(&mut log, from, 100).unwrap(), Vec::from_iter(from..=900));
        }
        // Unneeded groups are found without reading them all.
        log.truncate_before(890).unwrap();
    })
    .await;
    let mut log = jet.engine.log(1, 3, Fence::new()).await.unwrap();
    let end = Instant::now() + WAIT_MAX;
    loop {
        let (back, read) = block(move || {
            let read = numbers(&mut log, 1, 100).unwrap();
            (log, read)
        })
        .await;
        log = back;
        assert!(read[0] <= 890 && *read.last().unwrap() == 900, "{read:?}");
        if read[0] > 300 {
            break;
        }
        assert!(Instant::now() < end, "still {}", read[0]);
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_streams_and_the_names_are_checked() {
    let jet = Jet::one().await;
    let other = Settings { streams: 3, ..settings(jet.nats.urls(), 1) };
    let refused = Engine::connect(other).await;
    assert!(matches!(&refused, Err(Error::Refused(why)) if why.contains("cannot change")), "{refused:?}");
    // The same again is fine, and a longer lease too.
    let longer = Settings { lease_ttl: Duration::from_secs(9), ..settings(jet.nats.urls(), 1) };
    Engine::connect(longer).await.unwrap();
    let stream = past(&jet.nats).await.get_stream("NEPH_test_LEASES").await.unwrap();
    assert_eq!(stream.cached_info().config.max_age, Duration::from_secs(9));
    for (cluster, streams, replicas) in [("a b", 2, 1), ("", 2, 1), ("a", 0, 1), ("a", 33, 1), ("a", 2, 2)] {
        let cluster = cluster.to_owned();
        let wrong = Settings { cluster, streams, replicas, ..settings(jet.nats.urls(), 1) };
        assert!(matches!(Engine::connect(wrong).await, Err(Error::Refused(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_sees_how_servers_sync() {
    for (sync_interval, level) in [("always", Level::Good), ("10s", Level::Bad)] {
        let options = Options { sync_interval: sync_interval.to_owned(), ..Options::default() };
        let nats = block(|| Nats::with(options)).await.unwrap();
        let seen = Settings { monitors: nats.monitors(), ..settings(nats.urls(), 1) };
        let findings = Engine::connect(seen).await.unwrap().check().await;
        let sync = findings.iter().find(|finding| finding.text.contains("syncs")).unwrap();
        assert_eq!(sync.level, level, "{findings:?}");
        assert!(findings.iter().any(|f| f.level == Level::Good && f.text.contains("nats-server 2.")));
        let unseen = Engine::connect(settings(nats.urls(), 1)).await.unwrap().check().await;
        assert!(unseen.iter().any(|f| f.level == Level::Warning && f.text.contains("was not looked at")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_die_and_nothing_is_lost_or_doubled() {
    const ROUNDS: u64 = 3;
    let mut jet = Jet::three().await;
    let inbox = jet.engine.inbox();
    let mut log = written(&jet.engine, 1..=1, 3_000).await;
    for round in 0..ROUNDS {
        let first = 2 + round * 40;
        let writing = tokio::task::spawn_blocking(move || {
            for sequence in first..first + 40 {
                write(&mut log, sequence..=sequence, 3_000).unwrap();
            }
            log
        });
        let publishing = tokio::spawn({
            let inbox = inbox.clone();
            async move {
                for id in round * 20..(round + 1) * 20 {
                    inbox.publish(1, u128::from(id), group(id, 200).into()).await.unwrap();
                }
            }
        });
        sleep(Duration::from_millis(100)).await;
        let leader = jet.nats.leader_of(STREAM).unwrap_or(0);
        jet.nats.kill(leader).unwrap();
        log = writing.await.unwrap();
        publishing.await.unwrap();
        if round == 1 {
            jet.nats.wipe(leader).unwrap();
        }
        jet.nats.start(leader).unwrap();
        let nats = block(move || {
            let mut nats = jet.nats;
            nats.wait_ready().unwrap();
            nats
        })
        .await;
        jet = Jet { engine: jet.engine, nats };
    }
    let last = 1 + ROUNDS * 40;
    // Another owner finds the same.
    let mut second = jet.engine.log(1, 2, Fence::new()).await.unwrap();
    assert_eq!(second.synced(), last);
    let read = block(move || numbers(&mut second, 1, 3_000).unwrap()).await;
    assert_eq!(read, Vec::from_iter(1..=last));
    let refused = block(move || write(&mut log, last + 1..=last + 1, 3_000)).await;
    assert!(refused.as_ref().is_err_and(Error::is_fenced), "{refused:?}");
    let read = inbox.read(1, 0, 1_000, Duration::from_secs(5)).await.unwrap();
    let ids: Vec<u64> = read.iter().map(|(_, m)| u64::from_be_bytes(m[..8].try_into().unwrap())).collect();
    assert_eq!(ids, Vec::from_iter(0..ROUNDS * 20));
}

/// A lost and rewritten log differs from the log folded before: the chain in the groups shows this.
#[tokio::test(flavor = "multi_thread")]
async fn another_history_is_noticed_by_the_chain() {
    use nephila_core::entry::{self, ChainError, Group};
    use nephila_core::state::Position;

    fn chain(log: &mut dyn GroupLog, mut behind: Position, epoch: u64, groups: u64) -> Position {
        for _ in 0..groups {
            let (bytes, position) = entry::seal(&Group { epoch, entries: Vec::new() }, behind);
            log.append(position.sequence, &bytes).unwrap();
            behind = position;
        }
        log.sync().unwrap();
        behind
    }

    let jet = Jet::one().await;
    let mut first = jet.engine.log(1, 1, Fence::new()).await.unwrap();
    let (third, fifth) = block(move || {
        let third = chain(&mut first, Position::default(), 1, 3);
        (third, chain(&mut first, third, 1, 2))
    })
    .await;
    let stream = past(&jet.nats).await.get_stream(STREAM).await.unwrap();
    for message in [5, 6] {
        stream.delete_message(message).await.unwrap();
    }
    // A node that has folded five groups sees that the log ends with the third.
    let mut second = jet.engine.log(1, 2, Fence::new()).await.unwrap();
    assert_eq!((second.synced(), fifth.sequence), (3, 5));
    // A node that had folded only three groups cannot notice, and continues; a node that folded five finds another
    // history.
    let verdict = block(move || {
        chain(&mut second, third, 2, 4);
        let (sequence, bytes) = second.replay(fifth.sequence + 1).next().unwrap().unwrap();
        assert_eq!(sequence, 6);
        entry::open(&bytes, fifth).map(|_| ())
    })
    .await;
    assert_eq!(verdict, Err(ChainError::Forked { sequence: 6 }));
}
