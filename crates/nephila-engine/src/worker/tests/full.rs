//! A full disk: the worker waits for room, reports the state, and resumes without loss.

use nephila_store::disk::faulty::NO_SPACE;

use super::*;

fn small_disk() -> FaultyDisk {
    FaultyDisk::new(Plan::Healthy, NO_SPACE, Damage::HalfWritten)
}

/// Crawls a small web on a disk that is full after this number of calls, and is freed once the worker reports the full
/// disk.
async fn crawl_through_full(after: u64, background: bool) {
    let (dir, web, disk) = (tempfile::tempdir().unwrap(), Web::new(10, 20), small_disk());
    let merger = Merger::start().unwrap();
    let state = |n: u32| {
        let merging = if background { Merging::Background(merger.clone()) } else { Merging::Inline };
        let folder = dir.path().join(format!("state-{n}"));
        DiskState::open(Arc::new(disk.clone()), &folder, merging, &Cache::new(1 << 20))
    };
    let Running { handle, actions, thread } = open_with(&disk, dir.path(), config(), state).unwrap();
    disk.set_plan(Plan::From(disk.calls().0 + after));
    let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
    handle.offer(&[link(0, 0)]).await.unwrap();
    until(&handle, "the disk fills up", |stats| stats.disk_full).await;
    // Fetches under way end; after that none begins.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (before, fetches) = (handle.stats().await.unwrap(), web.fetches());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let stats = handle.stats().await.unwrap();
    assert_eq!((stats.actions, web.fetches()), (before.actions, fetches), "nothing is handed out");
    assert!(stats.ticks - before.ticks < 50, "it waits and does not spin: {stats:#?}");
    disk.set_plan(Plan::Healthy);
    until(&handle, "there is room", |stats| !stats.disk_full).await;
    until_done(&handle, &web, "the crawl ends").await;
    let stats = handle.stop().await.unwrap();
    join(thread).await.unwrap();
    spider.await.unwrap();
    let pages = web.seen.lock().unwrap().fetched.len();
    assert_eq!((pages, web.fetches()), (200, 200), "each of them once");
    assert_eq!((stats.frontier.tickets, stats.frontier.ended, stats.frontier.late), (200, 200, 0));
    assert_eq!(stats.totals.tally[&1].found, 200);

    // The reported figures match the disk.
    disk.lose_power(0).unwrap();
    let Running { handle, actions: _actions, thread } =
        open_with(&disk, dir.path(), config(), state).unwrap();
    assert!(all_ended(&handle, &web).await);
    assert_eq!(handle.stats().await.unwrap().totals, stats.totals);
    handle.stop().await.unwrap();
    join(thread).await.unwrap();
}

#[tokio::test]
async fn a_worker_waits_for_room_and_loses_nothing() {
    for after in [0, 1, 2, 9, 30, 61] {
        crawl_through_full(after, false).await;
    }
}

#[tokio::test]
async fn threads_that_write_states_out_wait_for_room_as_well() {
    for after in [5, 47] {
        crawl_through_full(after, true).await;
    }
}

#[tokio::test]
async fn whoever_offers_waits_with_the_worker_and_every_offer_is_durable_once() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), small_disk());
    let mut config = config();
    config.frontier.offers_max = 50;
    let Running { handle, actions: _actions, thread } =
        open_with(&disk, dir.path(), config, |_| Ok(MemoryState::new())).unwrap();
    disk.set_plan(Plan::From(0));
    let links: Vec<Link> = (0..30_000).map(|n| link(n % 100, n)).collect();
    let offering = tokio::spawn({
        let handle = handle.clone();
        async move { handle.offer_durably(&links).await }
    });
    until(&handle, "the disk is full", |stats| stats.disk_full).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let stats = handle.stats().await.unwrap();
    assert!(stats.disk_full_met > 1 && stats.groups == 0 && !offering.is_finished(), "{stats:#?}");
    assert!(stats.gauges.offers_waiting <= 50 * PARTITIONS as usize, "{stats:#?}");
    disk.set_plan(Plan::Healthy);
    offering.await.unwrap().unwrap();
    let stats = handle.stats().await.unwrap();
    assert_eq!((stats.frontier.sifted.queued, stats.totals.waiting), (30_000, 30_000), "{stats:#?}");
    drop(handle);
    join(thread).await.unwrap();
    disk.lose_power(0).unwrap();
    let Running { handle, actions: _actions, thread } = open(&disk, dir.path()).unwrap();
    let stats = handle.stop().await.unwrap();
    assert_eq!((stats.totals.waiting, stats.totals.tally[&1].found), (30_000, 30_000));
    join(thread).await.unwrap();
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_does_not_wait_for_ever() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), small_disk());
    let Running { handle, actions: _actions, thread } = open(&disk, dir.path()).unwrap();
    handle.offer_durably(&[link(0, 0)]).await.unwrap();
    disk.set_plan(Plan::From(0));
    handle.offer(&[link(1, 1)]).await.unwrap();
    let stopped = handle.stop().await.unwrap_err();
    assert!(stopped.why.is_some_and(|why| why.contains("full")));
    assert!(matches!(join(thread).await, Err(Error::DiskFull)));
    // Everything acknowledged as durable is there.
    let Running { handle, actions: _actions, thread } = open(&healthy(), dir.path()).unwrap();
    assert_eq!(handle.stop().await.unwrap().totals.waiting, 1);
    join(thread).await.unwrap();
}
