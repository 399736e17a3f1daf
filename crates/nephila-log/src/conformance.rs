//! Conformance checks: the promises of every implementation. Each check gets a [`World`] of its own and panics with a
//! description of the broken promise.
//!
//! Memory, local files and JetStream pass the same checks. A promise that one implementation does not make is named in
//! its world and nowhere else. Example: for local files the lock of the crawl, not the journal, keeps a second owner
//! away.

mod leases;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::{Error, Fence, GroupLog, Inbox, Leases, Reply};

pub use leases::{
    a_counter_that_many_count_is_right, a_lease_has_one_holder, a_lease_that_is_not_renewed_ends,
    long_lists_are_whole, records_change_by_compare_and_swap,
};

/// Timeout for an expected event, generous for a busy machine.
pub const WAIT_MAX: Duration = Duration::from_secs(90);
/// Polling interval of a waiting check.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// One implementation, with everything in it empty.
pub trait World: Send + Sync {
    /// Opens the log of a partition.
    fn log(&self, partition: u32, epoch: u64, fence: Fence) -> Reply<'_, Box<dyn GroupLog>>;
    /// The inboxes.
    fn inbox(&self) -> Arc<dyn Inbox>;
    /// Leases and records.
    fn leases(&self) -> Arc<dyn Leases>;
    /// Time to live of a lease.
    fn lease_ttl(&self) -> Duration;
    /// Whether opening a log fences out the previous owner.
    fn shuts_out(&self) -> bool {
        true
    }
    /// Whether groups are removed one by one rather than file by file.
    fn removes_groups(&self) -> bool {
        true
    }
}

/// A group whose bytes identify its number. The bytes do not compress.
pub fn group(sequence: u64, len: usize) -> Vec<u8> {
    let mut state = sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = sequence.to_be_bytes().to_vec();
    while bytes.len() < len.max(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_be_bytes());
    }
    bytes.truncate(len.max(8));
    bytes
}

/// Runs a blocking closure on a thread that may block.
pub async fn block<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(act).await.expect("a check panicked")
}

/// Moves an open log to a thread of its own, runs a closure on the log, and returns both.
async fn with_log<T: Send + 'static>(
    mut log: Box<dyn GroupLog>,
    act: impl FnOnce(&mut dyn GroupLog) -> T + Send + 'static,
) -> (Box<dyn GroupLog>, T) {
    block(move || {
        let result = act(&mut *log);
        (log, result)
    })
    .await
}

/// Appends groups and syncs them together.
pub fn write(log: &mut dyn GroupLog, groups: std::ops::RangeInclusive<u64>, len: usize) -> Result<(), Error> {
    for sequence in groups {
        log.append(sequence, &group(sequence, len))?;
    }
    log.sync()
}

/// The numbers of all groups from `from` on. Checks the bytes of each group.
pub fn numbers(log: &mut dyn GroupLog, from: u64, len: usize) -> Result<Vec<u64>, Error> {
    let mut numbers = Vec::new();
    for read in log.replay(from) {
        let (sequence, bytes) = read?;
        assert!(bytes == group(sequence, len), "group {sequence} has other bytes");
        numbers.push(sequence);
    }
    Ok(numbers)
}

/// Groups come back in order, from any start group, after one sync for several groups.
pub async fn groups_come_back_in_order(world: &dyn World) {
    let log = world.log(1, 1, Fence::new()).await.unwrap();
    with_log(log, |log| {
        assert_eq!(log.synced(), 0);
        assert_eq!(numbers(log, 1, 500).unwrap(), Vec::<u64>::new());
        for first in (1..=100).step_by(10) {
            write(log, first..=first + 9, 500).unwrap();
            assert_eq!(log.synced(), first + 9);
        }
        log.sync().unwrap();
        for from in [0, 1, 2, 57, 100] {
            assert_eq!(numbers(log, from, 500).unwrap(), Vec::from_iter(from.max(1)..=100));
        }
        assert_eq!(numbers(log, 101, 500).unwrap(), Vec::<u64>::new());
        assert!(log.bytes() > 0);
        // Writing goes on after reading.
        write(log, 101..=101, 500).unwrap();
        assert_eq!(numbers(log, 100, 500).unwrap(), [100, 101]);
    })
    .await;
}

/// A log that is opened again continues after its last group and accepts only the next number.
pub async fn a_log_that_is_opened_again_goes_on(world: &dyn World) {
    let log = world.log(2, 1, Fence::new()).await.unwrap();
    let (log, ()) = with_log(log, |log| write(log, 7..=30, 300).unwrap()).await;
    drop(log);
    let log = world.log(2, 2, Fence::new()).await.unwrap();
    with_log(log, |log| {
        assert_eq!(log.synced(), 30);
        for sequence in [0, 1, 30, 32] {
            let refused = log.append(sequence, b"x");
            assert!(matches!(refused, Err(Error::OutOfOrder { last: 30, .. })), "{sequence}: {refused:?}");
        }
        write(log, 31..=35, 300).unwrap();
        assert_eq!(numbers(log, 1, 300).unwrap(), Vec::from_iter(7..=35));
    })
    .await;
    // Each partition has a log of its own.
    let log = world.log(3, 1, Fence::new()).await.unwrap();
    with_log(log, |log| assert_eq!(log.synced(), 0)).await;
}

/// Groups of all sizes come back unchanged, from empty to several messages long.
pub async fn groups_of_all_sizes_come_back(world: &dyn World) {
    let log = world.log(4, 1, Fence::new()).await.unwrap();
    let (log, ()) = with_log(log, |log| {
        for (sequence, len) in [(1, 8), (2, 255), (3, 256), (4, 3_300_000), (5, 1 << 20), (6, 9)] {
            write(log, sequence..=sequence, len).unwrap();
        }
        log.append(7, &[]).unwrap();
        log.append(8, &vec![7; 1 << 20]).unwrap();
        log.sync().unwrap();
    })
    .await;
    drop(log);
    let log = world.log(4, 2, Fence::new()).await.unwrap();
    with_log(log, |log| {
        assert_eq!(log.synced(), 8);
        let read: Vec<(u64, usize)> =
            log.replay(1).map(|group| group.map(|(s, b)| (s, b.len())).unwrap()).collect();
        let lens = [8, 255, 256, 3_300_000, 1 << 20, 9, 0, 1 << 20];
        assert_eq!(read, Vec::from_iter((1..).zip(lens)));
        assert_eq!(log.replay(4).next().unwrap().unwrap().1, group(4, 3_300_000));
        assert_eq!(log.replay(8).next().unwrap().unwrap().1, vec![7; 1 << 20]);
    })
    .await;
}

/// Truncation removes unneeded groups. It never removes a needed group or the last group.
pub async fn what_is_not_needed_goes(world: &dyn World) {
    let is_exact = world.removes_groups();
    let log = world.log(5, 1, Fence::new()).await.unwrap();
    let (log, ()) = with_log(log, move |log| {
        write(log, 1..=200, 2_000).unwrap();
        let before = log.bytes();
        log.truncate_before(0).unwrap();
        log.truncate_before(1).unwrap();
        assert_eq!(numbers(log, 1, 2_000).unwrap().len(), 200);
        let end = std::time::Instant::now() + WAIT_MAX;
        loop {
            log.truncate_before(120).unwrap();
            let kept = match numbers(log, 1, 2_000) {
                // The servers removed groups between two pieces of this reading, which then says so.
                Err(Error::Gap { expected: 2..120, found: 120 })
                    if is_exact && std::time::Instant::now() < end =>
                {
                    continue;
                }
                kept => kept.unwrap(),
            };
            assert!(kept[0] <= 120 && kept == Vec::from_iter(kept[0]..=200), "{kept:?}");
            if kept[0] > 1 || !is_exact {
                break;
            }
            assert!(std::time::Instant::now() < end, "nothing was removed");
            std::thread::sleep(LOOK_INTERVAL);
        }
        assert!(log.bytes() < before || !is_exact);
        log.truncate_before(10_000).unwrap();
    })
    .await;
    drop(log);
    let log = world.log(5, 2, Fence::new()).await.unwrap();
    with_log(log, |log| {
        assert_eq!(log.synced(), 200);
        assert_eq!(numbers(log, 200, 2_000).unwrap(), [200]);
        write(log, 201..=202, 2_000).unwrap();
        assert_eq!(numbers(log, 200, 2_000).unwrap(), [200, 201, 202]);
    })
    .await;
}

/// Opening a log fences out the previous owner, which gets an error at its next write. An older epoch cannot open the
/// log.
pub async fn a_second_owner_shuts_out_the_first(world: &dyn World) {
    if !world.shuts_out() {
        return;
    }
    let first = world.log(6, 3, Fence::new()).await.unwrap();
    let (first, ()) = with_log(first, |log| write(log, 1..=5, 400).unwrap()).await;
    let second = world.log(6, 4, Fence::new()).await.unwrap();
    assert_eq!(second.synced(), 5);
    // Before the second owner has written a group.
    let (mut first, refused) = with_log(first, |log| write(log, 6..=6, 400)).await;
    assert!(refused.as_ref().is_err_and(Error::is_fenced), "{refused:?}");
    let again = first.append(6, b"x");
    assert!(again.as_ref().is_err_and(Error::is_fenced), "{again:?}");
    with_log(second, |log| {
        write(log, 6..=9, 400).unwrap();
        assert_eq!(numbers(log, 1, 400).unwrap(), Vec::from_iter(1..=9));
    })
    .await;
    let old = world.log(6, 3, Fence::new()).await;
    assert!(old.as_ref().is_err_and(Error::is_fenced), "{old:?}");
    let same = world.log(6, 4, Fence::new()).await.unwrap();
    assert_eq!(same.synced(), 9);
}

/// After the fence falls every call returns a fenced error.
pub async fn a_fallen_fence_ends_every_call(world: &dyn World) {
    let fence = Fence::new();
    let log = world.log(7, 1, fence.clone()).await.unwrap();
    let (log, ()) = with_log(log, |log| write(log, 1..=2, 100).unwrap()).await;
    fence.fall();
    with_log(log, |log| {
        let results = [log.append(3, b"x"), log.sync(), log.go_back(), log.truncate_before(2)];
        for result in results {
            assert!(result.as_ref().is_err_and(Error::is_fenced), "{result:?}");
        }
        let read = numbers(log, 1, 100);
        assert!(read.as_ref().is_err_and(Error::is_fenced), "{read:?}");
        assert_eq!(log.synced(), 2);
    })
    .await;
    if world.shuts_out() {
        assert!(world.log(7, 2, fence).await.is_err_and(|error| error.is_fenced()));
    }
}

/// Calls `try_sync` until the log is durable, each time only after a wake-up.
fn try_until_synced(log: &mut dyn GroupLog, woken: &std::sync::mpsc::Receiver<()>) -> Result<u32, Error> {
    let mut asked = 1;
    while !log.try_sync()? {
        // A log that is not durable yet calls the wake-up later; otherwise this never ends.
        woken.recv_timeout(WAIT_MAX).expect("a log that is not done calls");
        asked += 1;
    }
    Ok(asked)
}

/// A group may be in flight while its owner does something else. The log wakes the owner when the group is durable.
pub async fn a_sync_need_not_be_waited_for(world: &dyn World) {
    let log = world.log(8, 1, Fence::new()).await.unwrap();
    let (log, ()) = with_log(log, |log| {
        let (sender, woken) = std::sync::mpsc::channel();
        log.wake_with(crate::Wake::new(move || _ = sender.send(())));
        assert!(log.try_sync().unwrap(), "nothing was appended");
        for sequence in 1..=20 {
            log.append(sequence, &group(sequence, 700)).unwrap();
            if !log.try_sync().unwrap() {
                // A group in flight is never reported as durable.
                assert!(log.synced() < sequence);
            }
            try_until_synced(log, &woken).unwrap();
            assert_eq!(log.synced(), sequence);
            assert!(log.try_sync().unwrap(), "it stays durable");
        }
        // Several groups before the first is durable, and one blocking sync.
        for sequence in 21..=25 {
            log.append(sequence, &group(sequence, 700)).unwrap();
            log.try_sync().unwrap();
        }
        try_until_synced(log, &woken).unwrap();
        assert_eq!(log.synced(), 25);
        log.append(26, &group(26, 700)).unwrap();
        log.try_sync().unwrap();
        log.sync().unwrap();
        assert_eq!(log.synced(), 26);
        // Reading and truncation wait for groups in flight.
        log.append(27, &group(27, 700)).unwrap();
        log.try_sync().unwrap();
        let read = numbers(log, 1, 700).unwrap();
        assert!(read == Vec::from_iter(1..=26) || read == Vec::from_iter(1..=27), "{read:?}");
        log.truncate_before(1).unwrap();
        try_until_synced(log, &woken).unwrap();
        assert_eq!(numbers(log, 1, 700).unwrap(), Vec::from_iter(1..=27));
        // An owner that stops now leaves a whole log, with this group or without it.
        log.append(28, &group(28, 700)).unwrap();
        log.try_sync().unwrap();
    })
    .await;
    drop(log);
    let log = world.log(8, 2, Fence::new()).await.unwrap();
    with_log(log, |log| {
        let last = log.synced();
        assert!((27..=28).contains(&last), "{last}");
        assert_eq!(numbers(log, 1, 700).unwrap(), Vec::from_iter(1..=last));
        write(log, last + 1..=last + 2, 700).unwrap();
    })
    .await;
}

/// A fence that falls while a group is in flight ends the wait for the group.
pub async fn a_fallen_fence_ends_a_sync_on_its_way(world: &dyn World) {
    let fence = Fence::new();
    let log = world.log(9, 1, fence.clone()).await.unwrap();
    with_log(log, move |log| {
        write(log, 1..=2, 100).unwrap();
        log.append(3, &group(3, 100)).unwrap();
        fence.fall();
        for _ in 0..2 {
            let refused = log.try_sync();
            assert!(refused.as_ref().is_err_and(Error::is_fenced), "{refused:?}");
        }
        assert_eq!(log.synced(), 2);
    })
    .await;
}

/// Messages come in order, after the requested position, up to the requested number.
pub async fn messages_come_in_order(world: &dyn World) {
    let inbox = world.inbox();
    assert_eq!(inbox.read(1, 0, 10, Duration::ZERO).await.unwrap(), []);
    let mut positions = Vec::new();
    for id in 0..40_u64 {
        positions.push(inbox.publish(1, u128::from(id), group(id, 100).into()).await.unwrap());
        inbox.publish(2, u128::from(id), Bytes::from_static(b"of another")).await.unwrap();
    }
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    let (mut from, mut read) = (0, Vec::new());
    for max in [1, 7, 20, 100, 5] {
        let some = inbox.read(1, from, max, Duration::ZERO).await.unwrap();
        assert!(some.len() <= max);
        from = some.last().map_or(from, |(position, _)| *position);
        read.extend(some);
    }
    assert_eq!(read.iter().map(|(position, _)| *position).collect::<Vec<_>>(), positions);
    for (id, (_, message)) in (0..).zip(&read) {
        assert_eq!(message[..], group(id, 100));
    }
    if let Some(left_at) = inbox.left_at(1) {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(now.abs_diff(left_at) < 600_000, "{left_at} is not about {now}");
        assert_eq!(inbox.left_at(77), None, "nobody read there");
    }
    // Again from the middle, like a new owner.
    let again = inbox.read(1, positions[19], 100, Duration::from_secs(1)).await.unwrap();
    assert_eq!(again, read[20..]);
    assert_eq!(inbox.read(1, from, 10, Duration::from_millis(100)).await.unwrap(), []);
    assert_eq!(inbox.read(1, 0, 0, Duration::from_millis(100)).await.unwrap(), []);
}

/// Deduplication: a message id is stored once, however often the message is sent.
pub async fn the_same_id_is_stored_once(world: &dyn World) {
    let inbox = world.inbox();
    let first = inbox.publish(3, 77, Bytes::from_static(b"one")).await.unwrap();
    let other = inbox.publish(3, 78, Bytes::from_static(b"two")).await.unwrap();
    for _ in 0..3 {
        assert_eq!(inbox.publish(3, 77, Bytes::from_static(b"one")).await.unwrap(), first);
    }
    let read = inbox.read(3, 0, 10, Duration::ZERO).await.unwrap();
    assert_eq!(read, [(first, Bytes::from_static(b"one")), (other, Bytes::from_static(b"two"))]);
}

/// A waiting reader receives a message that arrives later.
pub async fn a_waiting_reader_gets_what_comes(world: &dyn World) {
    let inbox = world.inbox();
    for round in 0..3_u64 {
        let from = inbox.read(4, 0, 100, Duration::ZERO).await.unwrap().last().map_or(0, |last| last.0);
        let reader = inbox.clone();
        let reading = tokio::spawn(async move { reader.read(4, from, 10, WAIT_MAX).await });
        sleep(Duration::from_millis(200)).await;
        let sent = inbox.publish(4, u128::from(round), group(round, 50).into()).await.unwrap();
        let read = reading.await.unwrap().unwrap();
        assert_eq!(read, [(sent, group(round, 50).into())]);
    }
}

/// Consumed messages are removed; later messages stay.
pub async fn consumed_messages_go(world: &dyn World) {
    let inbox = world.inbox();
    let mut positions = Vec::new();
    for id in 0..20_u64 {
        positions.push(inbox.publish(5, u128::from(id), group(id, 50).into()).await.unwrap());
    }
    inbox.truncate_before(5, positions[12]).await.unwrap();
    let left = inbox.read(5, 0, 100, Duration::ZERO).await.unwrap();
    let left: Vec<u64> = left.into_iter().map(|(position, _)| position).collect();
    let kept = positions.iter().position(|position| Some(position) == left.first()).unwrap();
    assert!(left == positions[kept..] && kept <= 12, "{left:?}");
    assert!(kept == 12 || !world.removes_groups(), "{kept}");
    let next = inbox.publish(5, 99, Bytes::from_static(b"x")).await.unwrap();
    assert!(next > positions[19]);
}

/// Generates one test per promise, from an expression that creates a world.
#[macro_export]
macro_rules! conformance {
    ($world:expr; $($promise:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let world = $world;
                $crate::conformance::$promise(&world).await;
            }
        )*
    };
    ($world:expr) => {
        $crate::conformance! {
            $world;
            groups_come_back_in_order,
            a_log_that_is_opened_again_goes_on,
            groups_of_all_sizes_come_back,
            what_is_not_needed_goes,
            a_second_owner_shuts_out_the_first,
            a_fallen_fence_ends_every_call,
            a_sync_need_not_be_waited_for,
            a_fallen_fence_ends_a_sync_on_its_way,
            messages_come_in_order,
            the_same_id_is_stored_once,
            a_waiting_reader_gets_what_comes,
            consumed_messages_go,
            a_lease_has_one_holder,
            a_lease_that_is_not_renewed_ends,
            records_change_by_compare_and_swap,
            a_counter_that_many_count_is_right,
            long_lists_are_whole,
        }
    };
}
