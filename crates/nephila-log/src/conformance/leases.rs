//! Conformance checks of leases and records.

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{WAIT_MAX, World};

/// A lease has one holder. Only the holder can renew or release the lease.
pub async fn a_lease_has_one_holder(world: &dyn World) {
    let leases = world.leases();
    let value = |text: &'static str| Bytes::from_static(text.as_bytes());
    let first = leases.acquire("node.a", value("1")).await.unwrap().unwrap();
    assert_eq!(leases.acquire("node.a", value("2")).await.unwrap(), None);
    let second = leases.renew("node.a", first, value("3")).await.unwrap().unwrap();
    assert!(second > first);
    assert_eq!(leases.renew("node.a", first, value("4")).await.unwrap(), None);
    assert_eq!(leases.renew("node.b", 1, value("4")).await.unwrap(), None);
    let other = leases.acquire("node.b", value("5")).await.unwrap().unwrap();
    let held = leases.held().await.unwrap();
    let held: Vec<_> = held.iter().map(|item| (item.key.as_str(), &item.value[..], item.revision)).collect();
    assert_eq!(held, [("node.a", &b"3"[..], second), ("node.b", b"5", other)]);
    // An older revision releases nothing.
    leases.release("node.a", first).await.unwrap();
    assert_eq!(leases.acquire("node.a", value("6")).await.unwrap(), None);
    leases.release("node.a", second).await.unwrap();
    leases.release("node.a", second).await.unwrap();
    let third = leases.acquire("node.a", value("7")).await.unwrap().unwrap();
    assert!(third > other);
    assert_eq!(leases.renew("node.a", second, value("8")).await.unwrap(), None);
    assert!(leases.acquire("no key", value("9")).await.is_err());
}

/// A renewed lease stays held. A lease without renewal expires, and its holder is told at the next renewal.
pub async fn a_lease_that_is_not_renewed_ends(world: &dyn World) {
    let (leases, ttl) = (world.leases(), world.lease_ttl());
    let lost = leases.acquire("lost", Bytes::new()).await.unwrap().unwrap();
    let mut kept = leases.acquire("kept", Bytes::new()).await.unwrap().unwrap();
    let (began, end) = (Instant::now(), Instant::now() + ttl + WAIT_MAX);
    let mut renewed = began;
    loop {
        sleep(ttl / 10).await;
        let now = Instant::now();
        kept = match leases.renew("kept", kept, Bytes::from_static(b"k")).await.unwrap() {
            Some(revision) => revision,
            // A machine that was suspended for the time to live of a lease has rightly lost the lease.
            None => {
                assert!(renewed.elapsed() >= ttl, "it was renewed in time");
                leases.acquire("kept", Bytes::from_static(b"k")).await.unwrap().expect("it has ended")
            }
        };
        renewed = now;
        let held: Vec<String> = leases.held().await.unwrap().into_iter().map(|item| item.key).collect();
        assert!(held.contains(&"kept".to_owned()) || renewed.elapsed() >= ttl, "{held:?}");
        if !held.contains(&"lost".to_owned()) && began.elapsed() > ttl * 2 {
            break;
        }
        assert!(Instant::now() < end, "the lease did not end");
    }
    assert_eq!(leases.renew("lost", lost, Bytes::new()).await.unwrap(), None);
    assert!(leases.acquire("lost", Bytes::new()).await.unwrap().is_some());
}

/// A record changes only through a writer that knows the last revision. Records do not expire.
pub async fn records_change_by_compare_and_swap(world: &dyn World) {
    let leases = world.leases();
    assert_eq!(leases.record("owner.1").await.unwrap(), None);
    assert_eq!(leases.records("").await.unwrap(), []);
    let first = leases.put("owner.1", None, Bytes::from_static(b"a")).await.unwrap().unwrap();
    assert_eq!(leases.put("owner.1", None, Bytes::from_static(b"b")).await.unwrap(), None);
    assert_eq!(leases.put("owner.2", Some(first), Bytes::from_static(b"b")).await.unwrap(), None);
    let second = leases.put("owner.1", Some(first), Bytes::from_static(b"c")).await.unwrap().unwrap();
    assert_eq!(leases.put("owner.1", Some(first), Bytes::from_static(b"d")).await.unwrap(), None);
    let third = leases.put("owner.2", None, Bytes::from_static(b"e")).await.unwrap().unwrap();
    leases.put("job.x", None, Bytes::new()).await.unwrap().unwrap();
    assert!(first < second && second < third);
    let record = leases.record("owner.1").await.unwrap().unwrap();
    assert_eq!((record.key.as_str(), &record.value[..], record.revision), ("owner.1", &b"c"[..], second));
    let keys = |items: Vec<crate::Item>| items.into_iter().map(|item| item.key).collect::<Vec<_>>();
    assert_eq!(keys(leases.records("owner.").await.unwrap()), ["owner.1", "owner.2"]);
    assert_eq!(keys(leases.records("").await.unwrap()), ["job.x", "owner.1", "owner.2"]);
    assert_eq!(leases.held().await.unwrap(), []);
}

/// Many concurrent writers increment one record: no increment is lost or counted twice.
pub async fn a_counter_that_many_count_is_right(world: &dyn World) {
    const TASKS: u64 = 6;
    const ROUNDS: u64 = 10;
    let leases = world.leases();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let leases = leases.clone();
        tasks.spawn(async move {
            let mut done = 0;
            let end = Instant::now() + WAIT_MAX;
            while done < ROUNDS {
                assert!(Instant::now() < end, "only {done} rounds were done");
                let now = leases.record("counter").await.unwrap();
                let count =
                    now.as_ref().map_or(0, |item| u64::from_be_bytes(item.value[..].try_into().unwrap()));
                let next = Bytes::copy_from_slice(&(count + 1).to_be_bytes());
                let put = leases.put("counter", now.map(|item| item.revision), next).await.unwrap();
                done += u64::from(put.is_some());
            }
        });
    }
    tasks.join_all().await;
    let end = leases.record("counter").await.unwrap().unwrap();
    assert_eq!(end.value[..], (TASKS * ROUNDS).to_be_bytes());
}

/// Lists are complete, also long lists.
pub async fn long_lists_are_whole(world: &dyn World) {
    const RECORDS: usize = 1_300;
    let leases = world.leases();
    let mut tasks = JoinSet::new();
    for lane in 0..13 {
        let leases = leases.clone();
        tasks.spawn(async move {
            for record in (0..RECORDS).skip(lane).step_by(13) {
                let value = Bytes::from(record.to_string());
                leases.put(&format!("r.{record:05}"), None, value).await.unwrap().unwrap();
            }
        });
    }
    tasks.join_all().await;
    let records = leases.records("r.").await.unwrap();
    assert_eq!(records.len(), RECORDS);
    for (index, record) in records.iter().enumerate() {
        assert_eq!(
            (record.key.clone(), &record.value[..]),
            (format!("r.{index:05}"), index.to_string().as_bytes())
        );
    }
}
