//! Logs that do not answer for a while: they delay only their own partition, and nothing is lost.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report, TicketId};
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::outcome::Outcome;
use nephila_log::Groups;

use super::*;

const HOSTS: usize = 40;
const PAGES: usize = 30;
/// A number of groups that keeps a valve open.
const ALWAYS: u64 = u64::MAX / 2;

/// Lets a given number of groups become durable.
#[derive(Clone, Debug, Default)]
struct Valve(Arc<(AtomicU64, Mutex<Wake>)>);

impl Valve {
    fn let_pass(&self, groups: u64) {
        self.0.0.store(groups, Ordering::SeqCst);
        self.0.1.lock().unwrap().call();
    }

    fn may_pass(&self) -> bool {
        self.0.0.load(Ordering::SeqCst) > 0
    }
}

/// A log behind a valve.
#[derive(Debug)]
struct SlowLog {
    log: LocalLog,
    appended: u64,
    valve: Valve,
}

impl GroupLog for SlowLog {
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), nephila_log::Error> {
        self.appended = sequence;
        self.log.append(sequence, group)
    }

    fn sync(&mut self) -> Result<(), nephila_log::Error> {
        self.log.sync()
    }

    fn try_sync(&mut self) -> Result<bool, nephila_log::Error> {
        if self.appended <= self.log.synced() {
            return self.log.try_sync();
        }
        if !self.valve.may_pass() || !self.log.try_sync()? {
            return Ok(false);
        }
        self.valve.0.0.fetch_sub(1, Ordering::SeqCst);
        Ok(true)
    }

    fn wake_with(&mut self, wake: Wake) {
        *self.valve.0.1.lock().unwrap() = wake.clone();
        self.log.wake_with(wake);
    }

    fn go_back(&mut self) -> Result<(), nephila_log::Error> {
        self.log.go_back()
    }

    fn synced(&self) -> u64 {
        self.log.synced()
    }

    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a> {
        self.log.replay(from)
    }

    fn truncate_before(&mut self, sequence: u64) -> Result<(), nephila_log::Error> {
        self.log.truncate_before(sequence)
    }

    fn bytes(&self) -> u64 {
        self.log.bytes()
    }
}

/// A worker whose first partition has a valve, which is open.
fn open_slow(folder: &Path, config: Config) -> (Running, Valve) {
    let valve = Valve::default();
    valve.let_pass(ALWAYS);
    let mut parts = Vec::new();
    for n in 0..PARTITIONS {
        let disk = Arc::new(healthy());
        let (log, _) =
            LocalLog::open(disk, &folder.join(n.to_string()), journal::Settings::default(), Fence::new())
                .unwrap();
        let valve = if n == 0 { valve.clone() } else { Valve::default() };
        if n != 0 {
            valve.let_pass(ALWAYS);
        }
        let appended = log.synced();
        let log = Box::new(SlowLog { log, appended, valve });
        parts.push(Part { prefixes: Prefixes::share(n, PARTITIONS), state: MemoryState::new(), log });
    }
    (Worker::open(config, settings(), SECRET, parts, Clock::new()).unwrap().spawn().unwrap(), valve)
}

fn is_slow(link: &Link) -> bool {
    let domain = UrlKey::of(&link.url, &SECRET).host.domain;
    Prefixes::share(0, PARTITIONS).holds(domain)
}

/// Answers every request with an empty page. The first page of every host is kept until a test takes the page.
#[derive(Clone, Debug, Default)]
struct Blank {
    seen: Arc<Mutex<BTreeMap<String, u32>>>,
    kept: Arc<Mutex<Option<Vec<TicketId>>>>,
}

impl Blank {
    async fn serve(self, handle: Handle, mut actions: Actions) -> Result<(), Stopped> {
        while let Some(action) = actions.next().await {
            match action {
                Action::Resolve { host, origin } => {
                    let number: u32 = origin["http://h".len()..origin.len() - ".test".len()].parse().unwrap();
                    let address = IpAddr::V4(Ipv4Addr::from_bits(0x7f01_0000 + number));
                    handle.resolved(host, &[address]).await?;
                }
                Action::Fetch(ticket) if ticket.purpose == Purpose::Robots => {
                    let report = RobotsReport::of(RobotsResult::Status(404), Duration::ZERO);
                    handle.robots(ticket.id, report).await?;
                }
                Action::Fetch(ticket) => {
                    *self.seen.lock().unwrap().entry(ticket.url).or_default() += 1;
                    if let Some(kept) = &mut *self.kept.lock().unwrap() {
                        kept.push(ticket.id);
                        continue;
                    }
                    handle.report(ticket.id, Report::of(Outcome::Fetched, 200, Duration::ZERO)).await?;
                }
            }
        }
        Ok(())
    }
}

async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_log_that_does_not_answer_holds_up_its_own_partition_only() {
    let (dir, web) = (tempfile::tempdir().unwrap(), Blank::default());
    let (Running { handle, actions, thread }, valve) = open_slow(dir.path(), config());
    let links: Vec<Link> = (0..PAGES).flat_map(|page| (0..HOSTS).map(move |host| link(host, page))).collect();
    handle.offer_durably(&links).await.unwrap();
    *web.kept.lock().unwrap() = Some(Vec::new());
    let spider = tokio::spawn(web.clone().serve(handle.clone(), actions));
    let kept = || web.kept.lock().unwrap().as_ref().map_or(0, Vec::len);
    wait_until("every host is asked for a page", || kept() == HOSTS).await;

    valve.let_pass(0);
    let kept = web.kept.lock().unwrap().take().unwrap();
    for id in kept {
        handle.report(id, Report::of(Outcome::Fetched, 200, Duration::ZERO)).await.unwrap();
    }
    // Durable URLs are handed out, also where the log does not answer: more than one visit's worth.
    let all = || web.seen.lock().unwrap().len() == HOSTS * PAGES;
    wait_until("every page is asked for", all).await;
    for n in 1..PARTITIONS {
        handle.settled_in(Prefixes::share(n, PARTITIONS)).await.unwrap();
    }
    let settled = tokio::spawn({
        let handle = handle.clone();
        async move { handle.settled().await }
    });
    for link in &links {
        let ended = matches!(handle.explain(&link.url).await.unwrap().standing, Standing::Ended(_));
        assert_eq!(ended, !is_slow(link), "{}", link.url);
    }
    let stats = handle.stats().await.unwrap();
    assert_eq!(stats.on_their_way, 1, "{stats:#?}");
    assert!(!settled.is_finished(), "what does not stand in the log is not settled");
    // Other partitions still take new offers.
    let other = (HOSTS..).map(|host| link(host, 0)).find(|link| !is_slow(link)).unwrap();
    handle.offer_durably(&[other]).await.unwrap();

    valve.let_pass(ALWAYS);
    settled.await.unwrap().unwrap();
    for link in &links {
        let standing = handle.explain(&link.url).await.unwrap().standing;
        assert!(matches!(standing, Standing::Ended(_)), "{}", link.url);
    }
    handle.stop().await.unwrap();
    join(thread).await.unwrap();
    spider.await.unwrap().unwrap();
    let seen = web.seen.lock().unwrap();
    assert!(seen.values().all(|count| *count == 1), "each of them once: {seen:?}");
}

#[tokio::test]
async fn whoever_comes_while_a_group_is_on_its_way_waits_for_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (Running { handle, actions: _actions, thread }, valve) = open_slow(dir.path(), config());
    let mut slow = (0..).map(|host| link(host, 0)).filter(is_slow);
    let offer = |link: Link| {
        let handle = handle.clone();
        tokio::spawn(async move { handle.offer_durably(&[link]).await })
    };
    valve.let_pass(0);
    let first = offer(slow.next().unwrap());
    until(&handle, "the first is on its way", |stats| stats.on_their_way == 1).await;
    let second = offer(slow.next().unwrap());
    until(&handle, "the second is taken", |stats| stats.offers == 2).await;
    assert!(!first.is_finished() && !second.is_finished());
    valve.let_pass(1);
    first.await.unwrap().unwrap();
    until(&handle, "the second is on its way", |stats| stats.groups == 1 && stats.on_their_way == 1).await;
    assert!(!second.is_finished(), "only the first is durable");
    valve.let_pass(1);
    second.await.unwrap().unwrap();

    // A third group is under way, and a fourth waits behind it, when the process ends.
    let third = offer(slow.next().unwrap());
    until(&handle, "the third is on its way", |stats| stats.on_their_way == 1).await;
    let fourth = offer(slow.next().unwrap());
    until(&handle, "the fourth is taken", |stats| stats.offers == 4).await;
    third.abort();
    fourth.abort();
    drop((handle, third.await, fourth.await));
    join(thread).await.unwrap();
    let (Running { handle, actions: _actions, thread }, _) = open_slow(dir.path(), config());
    assert_eq!(handle.stop().await.unwrap().totals.waiting, 2, "what was said to be durable, and no more");
    join(thread).await.unwrap();
}

#[tokio::test]
async fn offers_for_a_partition_that_is_held_up_let_others_pass_and_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.frontier.offers_max = 50;
    let (Running { handle, actions: _actions, thread }, valve) = open_slow(dir.path(), config);
    valve.let_pass(0);
    let (slow, quick): (Vec<Link>, Vec<Link>) = (0..4_000).map(|n| link(n % 200, n)).partition(is_slow);
    let offering = tokio::spawn({
        let (handle, slow) = (handle.clone(), slow.clone());
        async move { handle.offer_durably(&slow).await }
    });
    until(&handle, "one is on its way", |stats| stats.on_their_way == 1).await;
    handle.offer_durably(&quick).await.unwrap();
    let stats = handle.stats().await.unwrap();
    assert!(!offering.is_finished() && stats.gauges.offers_waiting <= 50, "{stats:#?}");
    valve.let_pass(ALWAYS);
    offering.await.unwrap().unwrap();
    let stats = handle.stop().await.unwrap();
    assert_eq!(stats.totals.waiting, 4_000);
    join(thread).await.unwrap();
}

#[tokio::test]
async fn an_inbox_is_durable_when_all_that_was_read_from_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.frontier.offers_max = 20;
    let (Running { handle, actions: _actions, thread }, valve) = open_slow(dir.path(), config);
    let prefixes = Prefixes::share(0, PARTITIONS);
    let mut slow = (0..).map(|host| link(host, 0)).filter(is_slow);
    let mut offers = || (0..15).map(|_| offered(&slow.next().unwrap(), &SECRET)).collect::<Vec<_>>();
    valve.let_pass(0);
    // More than there is room for: the last batches wait to be fed.
    for position in 1..=5 {
        handle.from_inbox(prefixes, position, offers(), None).await.unwrap();
    }
    let durable = tokio::spawn({
        let handle = handle.clone();
        async move { handle.inbox_is_durable(prefixes, 5).await }
    });
    until(&handle, "one is on its way", |stats| stats.on_their_way == 1).await;
    valve.let_pass(1);
    until(&handle, "the second is on its way", |stats| stats.groups == 1 && stats.on_their_way == 1).await;
    assert!(!durable.is_finished());
    valve.let_pass(ALWAYS);
    assert_eq!(durable.await.unwrap(), Ok(true));
    assert_eq!(handle.stats().await.unwrap().totals.waiting, 75);
    assert_eq!(handle.inbox_is_durable(Prefixes::share(9, 16), 1).await, Ok(false), "nobody has that one");
    drop(handle);
    join(thread).await.unwrap();
}
