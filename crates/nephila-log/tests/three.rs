//! Three servers with several faults at once, and files after a restart.

mod worlds;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nephila_log::conformance::{WAIT_MAX, World, block, group, numbers, write};
use nephila_log::jetstream::{Engine, Settings};
use nephila_log::{Error, Fence, GroupLog, Inbox, Leases};
use nephila_testnats::{Nats, Proxy};
use tokio::time::sleep;
use worlds::{Jet, Local, settings};

/// The stream of partition 1.
const STREAM: &str = "NEPH_test_1";

#[tokio::test(flavor = "multi_thread")]
async fn all_servers_die_at_once_and_nothing_is_lost() {
    let mut jet = Jet::three().await;
    let (inbox, leases) = (jet.engine.inbox(), jet.engine.leases());
    let mut log = jet.engine.log(1, 1, Fence::new()).await.unwrap();
    let mut revision = None;
    for round in 0..2_u64 {
        let first = 1 + round * 30;
        log = block(move || {
            write(&mut log, first..=first + 29, 1_000).unwrap();
            log
        })
        .await;
        inbox.publish(1, u128::from(round), group(round, 100).into()).await.unwrap();
        revision = leases.put("r", revision, Bytes::from(round.to_string())).await.unwrap();
        for server in 0..3 {
            jet.nats.kill(server).unwrap();
        }
        for server in 0..3 {
            jet.nats.start(server).unwrap();
        }
    }
    let mut log = block(move || {
        write(&mut log, 61..=61, 1_000).unwrap();
        log
    })
    .await;
    assert_eq!(block(move || numbers(&mut log, 1, 1_000)).await.unwrap(), Vec::from_iter(1..=61));
    assert_eq!(inbox.read(1, 0, 10, WAIT_MAX).await.unwrap().len(), 2);
    let record = leases.record("r").await.unwrap().unwrap();
    assert_eq!((Some(record.revision), &record.value[..]), (revision, &b"1"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_outlives_the_leader_that_keeps_it() {
    let mut nats = block(Nats::three).await.unwrap();
    // Longer than any election on a busy machine.
    let long = Settings { lease_ttl: Duration::from_secs(60), ..settings(nats.urls(), 3) };
    let leases = Engine::connect(long).await.unwrap().leases();
    let mut revision = leases.acquire("node", Bytes::new()).await.unwrap().unwrap();
    let leader = nats.leader_of("NEPH_test_LEASES").unwrap();
    nats.kill(leader).unwrap();
    let mut renewals = 0;
    while renewals < 3 {
        match leases.renew("node", revision, Bytes::new()).await {
            Ok(Some(renewed)) => (revision, renewals) = (renewed, renewals + 1),
            lost => panic!("the lease was lost: {lost:?}"),
        }
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(leases.held().await.unwrap()[0].revision, revision);
}

/// Owners take the log from each other while a leader freezes and wakes: every acknowledged group stays durable, in its
/// place, whichever owner writes after.
#[tokio::test(flavor = "multi_thread")]
async fn owners_that_race_lose_nothing_that_was_acknowledged() {
    const OWNERS: u64 = 3;
    const TURNS: u64 = 30;
    let mut jet = Jet::three().await;
    let epochs = Arc::new(AtomicU64::new(0));
    let runtime = tokio::runtime::Handle::current();
    let owners: Vec<_> = (0..OWNERS)
        .map(|owner| {
            let (engine, epochs, runtime) = (jet.engine.clone(), epochs.clone(), runtime.clone());
            std::thread::spawn(move || {
                let mut told = BTreeMap::new();
                for turn in 0..TURNS {
                    let epoch = epochs.fetch_add(1, Ordering::AcqRel) + 1;
                    // A late owner finds a later epoch.
                    let mut log = match runtime.block_on(engine.log(1, epoch, Fence::new())) {
                        Ok(log) => log,
                        Err(error) if error.is_fenced() => continue,
                        Err(error) => panic!("{error:?}"),
                    };
                    for count in 0..200_u64 {
                        let sequence = log.synced() + 1;
                        let text =
                            format!("owner {owner} turn {turn} count {count} epoch {epoch}").into_bytes();
                        match log.append(sequence, &text).and_then(|()| log.sync()) {
                            Ok(()) => _ = told.insert(sequence, text),
                            Err(Error::Fenced(_)) => break,
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                }
                told
            })
        })
        .collect();
    sleep(Duration::from_millis(300)).await;
    let leader = jet.nats.leader_of(STREAM).unwrap();
    jet.nats.stop(leader).unwrap();
    assert!(owners.iter().any(|owner| !owner.is_finished()), "they were done before anything went wrong");
    sleep(Duration::from_secs(12)).await;
    jet.nats.cont(leader).unwrap();
    let mut told = BTreeMap::new();
    for owner in owners {
        for (sequence, text) in block(move || owner.join().unwrap()).await {
            let other = told.insert(sequence, text);
            assert!(other.is_none(), "two owners were told that group {sequence} is theirs");
        }
    }
    let mut log = jet.engine.log(1, u64::MAX, Fence::new()).await.unwrap();
    let read: BTreeMap<u64, Vec<u8>> = block(move || log.replay(1).collect::<Result<_, _>>()).await.unwrap();
    for (sequence, text) in &told {
        assert_eq!(read.get(sequence), Some(text), "group {sequence}");
    }
    let epoch = |text: &[u8]| {
        String::from_utf8_lossy(text).rsplit(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap()
    };
    let order: Vec<u64> = read.values().map(|text| epoch(text)).collect();
    assert!(order.is_sorted(), "an older epoch wrote after a later one: {order:?}");
    assert!(told.len() >= 40, "only {} groups were written", told.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_goes_on_with_another_server_when_its_own_is_cut_off() {
    let nats = block(Nats::three).await.unwrap();
    let proxies: Vec<Proxy> = (0..3).map(|server| Proxy::to(nats.address(server)).unwrap()).collect();
    let urls = proxies.iter().map(Proxy::url).collect();
    // Only through the proxies, and not to the addresses that the servers announce.
    let engine = Engine::connect(Settings { discover: false, ..settings(urls, 3) }).await.unwrap();
    let mut log = engine.log(1, 1, Fence::new()).await.unwrap();
    for round in 0..4_u64 {
        let (server, _) = engine.server().unwrap();
        let server: usize = server.strip_prefix('n').unwrap().parse().unwrap();
        // Cut off, or silent: pings detect the second case.
        if round % 2 == 0 {
            proxies[server].cut()
        } else {
            proxies[server].hold()
        }
        let first = 1 + round * 10;
        log = block(move || {
            write(&mut log, first..=first + 9, 500).unwrap();
            log
        })
        .await;
        proxies[server].heal();
    }
    assert_eq!(block(move || numbers(&mut log, 1, 500)).await.unwrap(), Vec::from_iter(1..=40));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_records_in_files_outlive_the_process() {
    let local = Local::new();
    let first = local.inbox().publish(1, 7, Bytes::from_static(b"m")).await.unwrap();
    let mut revision = None;
    // More changes than the threshold for writing all records again.
    for count in 0..1_100_u32 {
        let value = Bytes::from(count.to_string());
        revision = local.leases().put("often", revision, value).await.unwrap();
    }
    local.leases().put("once", None, Bytes::from_static(b"o")).await.unwrap();
    local.leases().acquire("lease", Bytes::new()).await.unwrap();
    let local = local.again();
    let (inbox, leases) = (local.inbox(), local.leases());
    assert_eq!(inbox.publish(1, 7, Bytes::from_static(b"m")).await.unwrap(), first);
    assert_eq!(inbox.read(1, 0, 10, Duration::ZERO).await.unwrap(), [(first, Bytes::from_static(b"m"))]);
    let often = leases.record("often").await.unwrap().unwrap();
    assert_eq!((Some(often.revision), &often.value[..]), (revision, &b"1099"[..]));
    assert_eq!(leases.record("once").await.unwrap().unwrap().value[..], b"o"[..]);
    let later = leases.put("often", revision, Bytes::new()).await.unwrap();
    assert!(later > revision);
    // Leases end with the process that held them.
    assert_eq!(leases.held().await.unwrap(), []);
}
