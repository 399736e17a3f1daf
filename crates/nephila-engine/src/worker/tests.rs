//! Whole crawls of an imaginary web through a worker, with crashes, slow consumers and losses of power.

mod full;
mod hand_over;
mod slow;
mod web;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use nephila_core::entry::HostChange;
use nephila_core::frontier;
use nephila_core::frontier::explain::Standing;
use nephila_core::frontier::outlook::Left;
use nephila_core::key::UrlKey;
use nephila_core::state::{MemoryState, Position};
use nephila_core::time::Seconds;
use nephila_core::url::CrawlUrl;
use nephila_log::Fence;
use nephila_log::local::LocalLog;
use nephila_store::disk::faulty::{Damage, FaultyDisk, IO_ERROR, Plan};
use nephila_store::journal::{self, Journal};
use nephila_store::runs::Cache;
use nephila_store::state::{DiskState, Merger, Merging};
use web::{Web, link};

use super::*;

const SECRET: Secret = Secret([3; 16]);
const PARTITIONS: u32 = 4;
/// Longer than any of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn healthy() -> FaultyDisk {
    FaultyDisk::new(Plan::Healthy, IO_ERROR, Damage::HalfWritten)
}

/// Rests of a millisecond, so that a crawl takes seconds.
fn config() -> Config {
    let frontier = frontier::Settings {
        host_delay: Duration::from_millis(1),
        host_delay_factor: 0,
        slot_delay: Duration::from_millis(1),
        recent_max: 1 << 12,
        ..frontier::Settings::default()
    };
    Config { frontier, agent: "nephila".into(), ..Config::default() }
}

fn settings() -> Settings {
    Settings { group_delay: Duration::from_millis(5), ..Settings::default() }
}

fn open_with<S: Durable + Send + 'static>(
    disk: &FaultyDisk,
    folder: &Path,
    config: Config,
    state: impl Fn(u32) -> Result<S, StateError>,
) -> Result<Running, Error> {
    open_set(disk, folder, config, Settings { dirty_bytes_max: 20_000, ..settings() }, state)
}

fn open_set<S: Durable + Send + 'static>(
    disk: &FaultyDisk,
    folder: &Path,
    config: Config,
    settings: Settings,
    state: impl Fn(u32) -> Result<S, StateError>,
) -> Result<Running, Error> {
    let mut parts = Vec::new();
    // Not in order: the worker sorts them.
    for n in (0..PARTITIONS).rev() {
        let small = journal::Settings { segment_bytes_max: 4_096, keep_bytes: 0 };
        let journal = Journal::open(Arc::new(disk.clone()), &folder.join(n.to_string()), small);
        let (journal, _) = journal.map_err(nephila_log::Error::from)?;
        parts.push(Part {
            prefixes: Prefixes::share(n, PARTITIONS),
            state: state(n)?,
            log: Box::new(LocalLog::new(journal, Fence::new())),
        });
    }
    Worker::open(config, settings, SECRET, parts, Clock::new())?.spawn()
}

fn open(disk: &FaultyDisk, folder: &Path) -> Result<Running, Error> {
    open_with(disk, folder, config(), |_| Ok(MemoryState::new()))
}

/// Waits until something holds of the stats.
async fn until(handle: &Handle, what: &str, holds: impl Fn(&Stats) -> bool) -> Stats {
    let began = Instant::now();
    loop {
        let stats = handle.stats().await.unwrap();
        if holds(&stats) {
            return stats;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {stats:#?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until every page of the web has ended and nothing is open.
async fn until_done(handle: &Handle, web: &Web, what: &str) -> Stats {
    let began = Instant::now();
    loop {
        let stats = handle.stats().await.unwrap();
        let all = web.seen.lock().unwrap().fetched.len() == web.hosts * web.pages;
        if all && stats.gauges.tickets_open == 0 && all_ended(handle, web).await {
            return stats;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {stats:#?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn all_ended(handle: &Handle, web: &Web) -> bool {
    for host in 0..web.hosts {
        for page in 0..web.pages {
            let explained = handle.explain(&link(host, page).url).await.unwrap();
            if !matches!(explained.standing, Standing::Ended(_)) {
                return false;
            }
        }
    }
    true
}

async fn join(thread: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_whole_web_is_crawled_once() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(50, 40));
    let Running { handle, actions, thread } = open(&healthy(), dir.path()).unwrap();
    let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
    handle.offer(&[link(0, 0)]).await.unwrap();
    until_done(&handle, &web, "the crawl ends").await;
    let seed = CrawlUrl::parse("http://h0.test/0").unwrap();
    assert!(matches!(handle.explain(&seed).await.unwrap().standing, Standing::Ended(_)));
    let stats = handle.stop().await.unwrap();
    join(thread).await.unwrap();
    spider.await.unwrap();
    assert_eq!(web.seen.lock().unwrap().fetched.len(), 2_000);
    assert_eq!(web.fetches(), 2_000, "each of them once");
    assert_eq!((stats.frontier.tickets, stats.frontier.ended, stats.frontier.late), (2_000, 2_000, 0));
    assert_eq!(stats.checkpoints, u64::from(PARTITIONS), "when it stopped");
    assert_eq!(handle.stats().await, Err(Stopped { why: None }));
}

#[tokio::test]
async fn a_worker_that_is_killed_goes_on_where_it_was() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(20, 30));
    let mut unsure = 0;
    for kills in 0..4 {
        let Running { handle, actions, thread } = open(&healthy(), dir.path()).unwrap();
        let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
        handle.offer_durably(&[link(0, 0)]).await.unwrap();
        if kills == 3 {
            until_done(&handle, &web, "the crawl ends").await;
            handle.stop().await.unwrap();
            join(thread).await.unwrap();
            spider.await.unwrap();
            break;
        }
        let began = Instant::now();
        while web.fetches() < (kills + 1) * 150 && began.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        spider.abort();
        _ = spider.await;
        drop(handle);
        join(thread).await.unwrap();
        web.hang_up();
        let seen = web.seen.lock().unwrap();
        unsure += seen.fetched.keys().filter(|url| !seen.sure.contains(*url)).count();
    }
    // The web asserts at every fetch that no page with a durable report is fetched again.
    assert_eq!(web.seen.lock().unwrap().fetched.len(), 600);
    let again = web.fetches() - 600;
    assert!(again <= unsure, "{again} fetched again, {unsure} were not done for sure at a kill");
}

#[tokio::test]
async fn the_power_may_go_at_any_time() {
    for (round, from) in [3, 20, 60, 150, 151, 152, 153, 154, 300, 500].into_iter().enumerate() {
        let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(10, 10));
        let disk = FaultyDisk::new(Plan::From(from), IO_ERROR, Damage::HalfWritten);
        let state = |n| on_disk(&disk, dir.path(), n);
        if let Ok(Running { handle, actions, thread }) = open_with(&disk, dir.path(), config(), state) {
            let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
            _ = handle.offer_durably(&[link(0, 0)]).await;
            let began = Instant::now();
            let ended = loop {
                match handle.stats().await {
                    Err(stopped) => break Some(stopped),
                    Ok(stats) if web.is_done() && stats.gauges.tickets_open == 0 => break None,
                    Ok(stats) => assert!(began.elapsed() < PATIENCE, "call {from}: {stats:#?}"),
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            };
            if let Some(stopped) = ended {
                assert!(stopped.why.is_some(), "the reason is told");
                assert!(matches!(join(thread).await, Err(Error::Log(_) | Error::State(_))));
            } else {
                _ = handle.stop().await;
                _ = join(thread).await;
            }
            spider.await.unwrap();
        }
        disk.lose_power([0, 128, 255][round % 3]).unwrap();
        web.hang_up();
        let state = |n| on_disk(&healthy(), dir.path(), n);
        let Running { handle, actions, thread } = open_with(&healthy(), dir.path(), config(), state).unwrap();
        let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
        handle.offer_durably(&[link(0, 0)]).await.unwrap();
        until_done(&handle, &web, &format!("the crawl ends after call {from}")).await;
        handle.stop().await.unwrap();
        join(thread).await.unwrap();
        spider.await.unwrap();
        let seen = web.seen.lock().unwrap();
        assert_eq!(seen.fetched.len(), 100);
        assert!(seen.fetched.values().all(|count| *count <= 2));
    }
}

#[tokio::test]
async fn who_asks_in_the_moment_in_which_a_worker_ends_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(Plan::From(150), IO_ERROR, Damage::HalfWritten);
    let Running { handle, actions, thread } = open(&disk, dir.path()).unwrap();
    // A caller has reserved a place for a question.
    let place = handle.events.clone().reserve_owned().await.unwrap();
    let mut host = 0;
    while handle.offer_durably(&[link(host, 0)]).await.is_ok() {
        host += 1;
        assert!(host < 1_000, "the disk fails");
    }
    assert!(join(thread).await.is_err());
    drop(actions);
    let (reply, answer) = tokio::sync::oneshot::channel();
    place.send(Event::Stats(reply));
    let heard = tokio::time::timeout(PATIENCE, handle.heard(answer)).await;
    assert!(heard.expect("nobody waits for ever").is_none());
    assert!(handle.stats().await.is_err());
}

#[tokio::test]
async fn who_does_not_take_actions_holds_the_worker_back_and_loses_nothing() {
    const HOSTS: usize = 200;
    const PAGES: usize = 100;
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(HOSTS, PAGES));
    let mut config = config();
    config.frontier.offers_max = 100;
    let Running { handle, actions, thread } =
        open_with(&healthy(), dir.path(), config, |_| Ok(MemoryState::new())).unwrap();
    let links: Vec<Link> = (0..PAGES).flat_map(|page| (0..HOSTS).map(move |host| link(host, page))).collect();
    handle.offer_durably(&links).await.unwrap();
    let stats = handle.stats().await.unwrap();
    assert_eq!(stats.frontier.sifted.queued, (HOSTS * PAGES) as u64, "nothing was lost: {stats:#?}");
    assert!(stats.frontier.full > 10, "there was more than fits: {stats:#?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let stats = handle.stats().await.unwrap();
    assert_eq!(stats.actions, ACTIONS_MAX as u64, "no ticket without a taker");
    assert!(stats.gauges.tickets_open <= ACTIONS_MAX && stats.gauges.offers_waiting == 0);
    assert!(stats.ticks < 10_000, "it waits and does not spin: {stats:#?}");
    let before = stats.ticks;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let idle = handle.stats().await.unwrap().ticks - before;
    assert!(idle < 100, "{idle} ticks in half a second of nothing to do");

    let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
    until(&handle, "half of it", |stats| stats.frontier.ended > 5_000).await;
    handle.stop().await.unwrap();
    join(thread).await.unwrap();
    spider.await.unwrap();
    assert!(web.seen.lock().unwrap().fetched.values().all(|count| *count == 1));
}

#[tokio::test]
async fn stopping_makes_everything_durable_that_was_said() {
    let dir = tempfile::tempdir().unwrap();
    let Running { handle, actions: _actions, thread } = open(&healthy(), dir.path()).unwrap();
    let links: Vec<Link> = (0..5_000).map(|n| link(n % 100, n)).collect();
    handle.offer(&links).await.unwrap();
    let stats = handle.stop().await.unwrap();
    assert_eq!(stats.frontier.sifted.queued, 5_000);
    join(thread).await.unwrap();
    assert_eq!(handle.offer(&links).await, Err(Stopped { why: None }));

    let Running { handle, actions: _actions, thread } = open(&healthy(), dir.path()).unwrap();
    handle.offer_durably(&links).await.unwrap();
    let stats = handle.stop().await.unwrap();
    join(thread).await.unwrap();
    assert!(stats.replayed > 0);
    assert_eq!((stats.frontier.sifted.queued, stats.frontier.sifted.known), (0, 5_000));
}

#[tokio::test]
async fn a_command_is_in_force_when_it_returns_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let Running { handle, actions: _actions, thread } = open(&healthy(), dir.path()).unwrap();
    let (url, host) = (link(1, 1).url, UrlKey::of(&link(1, 1).url, &SECRET).host);
    handle.offer_durably(&[link(1, 1)]).await.unwrap();
    assert!(handle.holds(&url));
    let stop = HostChange::Stop(host, "asked by mail".into());
    handle.command(Command::Host(stop)).await.unwrap();
    let stopped = handle.explain(&url).await.unwrap().host.unwrap().stopped;
    assert_eq!(&*stopped, "asked by mail");
    drop(handle);
    join(thread).await.unwrap();
    let Running { handle, actions: _actions, thread } = open(&healthy(), dir.path()).unwrap();
    let stopped = handle.explain(&url).await.unwrap().host.unwrap().stopped;
    assert_eq!(&*stopped, "asked by mail");
    handle.stop().await.unwrap();
    join(thread).await.unwrap();
}

fn on_disk(disk: &FaultyDisk, folder: &Path, n: u32) -> Result<DiskState, StateError> {
    let cache = Cache::new(1 << 20);
    DiskState::open(Arc::new(disk.clone()), &folder.join(format!("state-{n}")), Merging::Inline, &cache)
}

#[tokio::test]
async fn partitions_together_keep_no_more_in_memory_than_they_may() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(20, 30));
    let state = |n| on_disk(&healthy(), dir.path(), n);
    let settings = Settings { dirty_bytes_max: usize::MAX, dirty_bytes_all_max: 30_000, ..settings() };
    let running = open_set(&healthy(), dir.path(), config(), settings, state).unwrap();
    let Running { handle, actions, thread } = running;
    let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
    handle.offer_durably(&[link(0, 0)]).await.unwrap();
    let stats = until(&handle, "half of it", |stats| stats.frontier.ended > 300).await;
    assert!(stats.checkpoints > 2, "{stats:#?}");
    assert!(stats.dirty_bytes < 100_000, "{stats:#?}");
    spider.abort();
    _ = spider.await;
    drop(handle);
    join(thread).await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_shortens_the_journal_and_the_rest_is_folded_again() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(20, 30));
    let state = |n| on_disk(&healthy(), dir.path(), n);
    for kill in [true, false] {
        let Running { handle, actions, thread } = open_with(&healthy(), dir.path(), config(), state).unwrap();
        let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
        handle.offer_durably(&[link(0, 0)]).await.unwrap();
        if kill {
            let stats = until(&handle, "half of it", |stats| stats.frontier.ended > 300).await;
            assert!(stats.checkpoints > 2, "{stats:#?}");
            assert!(stats.dirty_bytes < 40_000 * PARTITIONS as usize, "{stats:#?}");
            spider.abort();
            _ = spider.await;
            drop(handle);
            join(thread).await.unwrap();
            web.hang_up();
        } else {
            let stats = until_done(&handle, &web, "the crawl ends").await;
            assert!(stats.replayed > 0, "{stats:#?}");
            let stats = handle.stop().await.unwrap();
            assert!(stats.journal_bytes < stats.group_bytes / 2, "{stats:#?}");
            join(thread).await.unwrap();
            spider.await.unwrap();
        }
    }
    assert_eq!(web.seen.lock().unwrap().fetched.len(), 600);
    // After a stop there is nothing to replay.
    let Running { handle, actions: _actions, thread } =
        open_with(&healthy(), dir.path(), config(), state).unwrap();
    assert_eq!(handle.stats().await.unwrap().replayed, 0);
    handle.stop().await.unwrap();
    join(thread).await.unwrap();
}

#[test]
fn a_journal_that_ends_before_its_state_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(healthy());
    let (mut journal, _) = Journal::open(disk.clone(), dir.path(), journal::Settings::default()).unwrap();
    let group = nephila_core::entry::Group { epoch: 1, entries: vec![] };
    let (mut state, mut position) = (MemoryState::new(), Position::default());
    for _ in 0..3 {
        let (bytes, behind) = nephila_core::entry::seal(&group, position);
        if behind.sequence < 3 {
            journal.append(behind.sequence, &bytes).unwrap();
        }
        nephila_core::fold::fold(&mut state, &group, behind).unwrap();
        position = behind;
    }
    journal.sync().unwrap();
    let mut part =
        Part { prefixes: Prefixes::ALL, state, log: Box::new(LocalLog::new(journal, Fence::new())) };
    assert!(matches!(part.replay(usize::MAX), Err(Error::Behind { state: 3, journal: 2 })));
    part.state = MemoryState::new();
    assert_eq!(part.replay(usize::MAX).unwrap(), 2);
}

#[tokio::test]
async fn a_crawl_is_done_when_its_last_page_is_and_not_before() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(20, 10));
    let Running { handle, actions, thread } = open(&healthy(), dir.path()).unwrap();
    handle.offer_durably(&[link(0, 0)]).await.unwrap();
    let horizon = Seconds(u32::MAX);
    assert_eq!(handle.outlook(horizon).await.unwrap().left, Left::Work, "nobody has taken an action yet");
    let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
    let began = Instant::now();
    loop {
        let outlook = handle.outlook(horizon).await.unwrap();
        let all = web.seen.lock().unwrap().fetched.len() == web.hosts * web.pages;
        if outlook.left == Left::Nothing {
            assert!(all, "done with {outlook:?}");
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{outlook:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(all_ended(&handle, &web).await);
    let seed = link(0, 0).url;
    let host = handle.host(&seed).await.unwrap().expect("it was crawled");
    assert_eq!((&*host.origin, host.record.unwrap().ended), ("http://h0.test", 10));
    assert!(handle.host(&CrawlUrl::parse("http://nobody.test/").unwrap()).await.unwrap().is_none());
    assert_eq!(handle.slot("127.1.0.0".parse().unwrap()).await.unwrap().open, 0);
    let first = handle.hosts(None, 15).await.unwrap();
    let then = handle.hosts(first[14].0.next(), 15).await.unwrap();
    assert_eq!((first.len(), then.len()), (15, 5));
    handle.stop().await.unwrap();
    spider.await.unwrap();
    join(thread).await.unwrap();
}

#[tokio::test]
async fn who_waits_for_the_end_is_told_when_the_last_page_has_ended_and_not_before() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Web::new(10, 10));
    let Running { handle, actions, thread } = open(&healthy(), dir.path()).unwrap();
    handle.offer_durably(&[link(0, 0)]).await.unwrap();
    let end = tokio::spawn({
        let (handle, web) = (handle.clone(), web.clone());
        async move {
            handle.nothing_left(Seconds(u32::MAX)).await.unwrap();
            web.seen.lock().unwrap().fetched.len()
        }
    });
    // Nobody has taken an action yet.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!end.is_finished());
    let spider = tokio::spawn(web.clone().crawl(handle.clone(), actions));
    let fetched = tokio::time::timeout(PATIENCE, end).await.expect("it is told").unwrap();
    assert_eq!(fetched, 100);
    assert!(all_ended(&handle, &web).await);
    // With nothing left the answer comes at once; a new URL is something.
    handle.nothing_left(Seconds(u32::MAX)).await.unwrap();
    handle.offer_durably(&[link(10, 0)]).await.unwrap();
    handle.nothing_left(Seconds(u32::MAX)).await.unwrap();
    let new = handle.explain(&link(10, 0).url).await.unwrap();
    assert!(matches!(new.standing, Standing::Ended(_)), "{new:?}");
    handle.stop().await.unwrap();
    spider.await.unwrap();
    join(thread).await.unwrap();
}

#[tokio::test]
async fn a_group_that_everybody_waits_for_is_not_delayed() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { group_delay: 10 * PATIENCE, group_delay_max: 10 * PATIENCE, ..settings() };
    let memory = |_| Ok(MemoryState::new());
    let Running { handle, actions: _actions, thread } =
        open_set(&healthy(), dir.path(), config(), settings, memory).unwrap();
    let durable = tokio::time::timeout(PATIENCE, handle.offer_durably(&[link(0, 0)])).await;
    assert_eq!(durable.expect("nothing else can come meanwhile"), Ok(Vec::new()));
    handle.stop().await.unwrap();
    join(thread).await.unwrap();
}
