//! Partitions that move between two workers while both crawl.

use nephila_core::state::State;

use super::*;

/// A partition of a folder, replayed from the beginning of its log.
fn part(disk: &FaultyDisk, folder: &Path, n: u32) -> Part<MemoryState> {
    let small = journal::Settings { segment_bytes_max: 4_096, keep_bytes: 0 };
    let (journal, _) = Journal::open(Arc::new(disk.clone()), &folder.join(n.to_string()), small).unwrap();
    let log = Box::new(LocalLog::new(journal, Fence::new()));
    let mut part = Part { prefixes: Prefixes::share(n, PARTITIONS), state: MemoryState::new(), log };
    part.replay(usize::MAX).unwrap();
    part
}

fn empty(ticket_epoch: u64) -> (Running, PartitionPort<MemoryState>) {
    // Logs are replayed from the beginning here, so they are never shortened.
    Worker::empty(config(), settings(), SECRET, ticket_epoch, Clock::new()).spawn_open().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_move_between_workers_and_every_page_is_fetched_once() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(30, 60));
    let disk = healthy();
    let ((one, one_door), (two, two_door)) = (empty(1), empty(2));
    let handles = [one.handle.clone(), two.handle.clone()];
    let web = Web { others: handles.to_vec(), ..web };
    let spiders = [
        tokio::spawn(web.clone().crawl(one.handle.clone(), one.actions)),
        tokio::spawn(web.clone().crawl(two.handle.clone(), two.actions)),
    ];
    let (doors, mut epoch) = ([one_door, two_door], 1);
    for n in 0..PARTITIONS {
        assert!(doors[0].bring(part(&disk, dir.path(), n), epoch).await);
    }
    assert_eq!(handles[1].offer_durably(&[link(0, 0)]).await.unwrap(), [0], "it has no partition yet");
    assert!(handles[0].offer_durably(&[link(0, 0)]).await.unwrap().is_empty());
    assert!(handles[0].holds(&link(0, 0).url) && !handles[1].holds(&link(0, 0).url));

    let mut owner = [0; PARTITIONS as usize];
    for round in 0..24 {
        let n = round % PARTITIONS;
        let from = owner[n as usize];
        let closed = handles[from].close(Prefixes::share(n, PARTITIONS)).await.unwrap().unwrap();
        assert_eq!(closed.prefixes, Prefixes::share(n, PARTITIONS));
        let part = part(&disk, dir.path(), n);
        assert_eq!(part.state.position(), closed.position, "the log has all that the state had");
        epoch += 1;
        assert!(doors[1 - from].bring(part, epoch).await);
        owner[n as usize] = 1 - from;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(handles[0].close(Prefixes::share(9, 16)).await.unwrap().is_none(), "nobody has that one");
    let began = Instant::now();
    while !web.is_done() {
        assert!(began.elapsed() < PATIENCE, "{} of 1,800", web.fetches());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(web.fetches(), 1_800, "each of them once");
    for (running, thread) in handles.iter().zip([one.thread, two.thread]) {
        running.stop().await.unwrap();
        join(thread).await.unwrap();
    }
    for spider in spiders {
        spider.await.unwrap();
    }
}

#[tokio::test]
async fn what_came_through_an_inbox_is_durable_together_with_how_far_it_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let disk = healthy();
    let (running, port) = empty(1);
    let here = Prefixes::share(0, 1);
    let log = |disk: &FaultyDisk| {
        let journal = Journal::open(Arc::new(disk.clone()), dir.path(), journal::Settings::default());
        Box::new(LocalLog::new(journal.unwrap().0, Fence::new()))
    };
    let part = Part { prefixes: here, state: MemoryState::new(), log: log(&disk) };
    assert!(port.bring(part, 1).await);
    let offers = (0..10).map(|page| offered(&link(1, page), &SECRET)).collect();
    let said = Some(nephila_core::entry::Entry::JobRemoved(nephila_core::job::JobId(7)));
    running.handle.from_inbox(here, 42, offers, said).await.unwrap();
    // Input for a partition that is not here is ignored.
    running.handle.from_inbox(Prefixes::share(1, 2), 50, Vec::new(), None).await.unwrap();
    until(&running.handle, "they are in", |stats| stats.frontier.sifted.queued == 10).await;
    running.handle.settled().await.unwrap();
    running.handle.stop().await.unwrap();
    join(running.thread).await.unwrap();

    let mut part = Part { prefixes: here, state: MemoryState::new(), log: log(&disk) };
    part.replay(usize::MAX).unwrap();
    assert_eq!(part.state.meta().inboxes.get(INBOX), Some(&42));
    assert_eq!(part.state.meta().totals.waiting, 10);
}
