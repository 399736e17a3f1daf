//! Tellers on a real NATS server: catching up, gaps, and a removed stream.

use nephila_core::entry::{Entry, EventContext, Group, HostChange, seal};
use nephila_core::event::Kind;
use nephila_core::key::{DomainKey, HostKey};
use nephila_core::state::Position;
use nephila_core::time::Seconds;
use nephila_log::Fence;
use nephila_testnats::Nats;

use super::*;
use crate::event_stream::{Place, Stream};
use crate::tails::Recorded;
use nephila_api::event_pages::{Page, Wanted};
use nephila_engine::settings::Settings;

/// Longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);
const BYTES_MAX: u64 = 1 << 20;

struct World {
    nats: Nats,
    cluster: Cluster,
}

impl World {
    async fn new() -> World {
        let nats = tokio::task::spawn_blocking(Nats::one).await.unwrap().unwrap();
        let mut settings = Settings::default().cluster;
        settings.servers = nats.urls();
        (settings.replicas, settings.streams, settings.partitions) = (1, 1, 1);
        let cluster = Cluster::connect(&settings).await.unwrap();
        World { nats, cluster }
    }

    async fn telling(&self) -> Telling {
        Telling::begin(&self.cluster, BYTES_MAX, "one").await.unwrap()
    }

    /// The log of the only partition.
    async fn log(&self, epoch: u64) -> nephila_log::jetstream::JetLog {
        self.cluster.engine.log(0, epoch, Fence::new()).await.unwrap()
    }

    async fn remove_stream(&self) {
        let client = async_nats::connect(self.nats.urls()).await.unwrap();
        async_nats::jetstream::new(client).delete_stream("NEPH_nephila_EVENTS").await.unwrap();
    }
}

/// Consecutive groups, each with one event.
struct Chain(Position);

impl Chain {
    fn behind(sequence: u64) -> Chain {
        Chain(Position { sequence, chain: 77 })
    }

    fn groups(&mut self, count: u64) -> Vec<(u64, Vec<u8>)> {
        (0..count).map(|_| self.group()).collect()
    }

    fn group(&mut self) -> (u64, Vec<u8>) {
        let host = HostKey { domain: DomainKey(7), host: 1 };
        let context = EventContext { at: Seconds(1_000), ..EventContext::default() };
        let entries = vec![Entry::Host(HostChange::Resume(host)), Entry::EventContext(Box::new(context))];
        let (bytes, behind) = seal(&Group { epoch: 1, entries }, self.0);
        self.0 = behind;
        (behind.sequence, bytes)
    }
}

/// Writes as a worker does, on a blocking thread.
async fn write(mut log: Box<dyn GroupLog>, groups: Vec<(u64, Vec<u8>)>) -> Box<dyn GroupLog> {
    let write = move || {
        for (number, bytes) in groups {
            log.append(number, &bytes).unwrap();
        }
        log.sync().unwrap();
        log
    };
    tokio::task::spawn_blocking(write).await.unwrap()
}

fn events_of(page: &Page) -> Vec<Event> {
    let lines = page.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// The first `count` events of the stream.
async fn told(telling: &Telling, count: usize) -> Vec<Event> {
    let mut stream = Stream::open(&telling.stream, Place::Beginning).await.unwrap();
    let (mut events, began) = (Vec::new(), Instant::now());
    while events.len() < count {
        assert!(began.elapsed() < LONG, "{events:?}");
        // There may be no stream yet.
        if let Ok(page) = stream.read(&Wanted::default(), LOOK).await {
            events.extend(events_of(&page));
        }
    }
    events
}

/// The groups of events; for gaps, the first and the last group.
fn groups(events: &[Event]) -> Vec<(u64, u64)> {
    let group = |event: &Event| match event.gone {
        Some([_, first, last]) => (first, last),
        None => {
            let group = event.id.split('.').nth(1).unwrap().parse().unwrap();
            (group, group)
        }
    };
    events.iter().map(group).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_owner_tells_what_the_last_one_did_not_and_goes_on_with_its_own() {
    let world = World::new().await;
    let telling = world.telling().await;
    let mut chain = Chain::behind(0);
    drop(write(Box::new(world.log(1).await), chain.groups(30)).await);
    let log = world.log(2).await;
    let start = Start::of(Recorded { now: Some(10), before: None }, 1, log.synced());
    let (teller, log) = Teller::begin(&telling, 0, 2, start, Box::new(log));
    let how_far = teller.how_far();
    tokio::spawn(teller.run());
    let _log = write(log, chain.groups(3)).await;
    let events = told(&telling, 23).await;
    assert_eq!(groups(&events), (11..=33).map(|group| (group, group)).collect::<Vec<_>>());
    assert!(events.iter().all(|event| event.kind == Kind::HostResumed));
    let began = Instant::now();
    while how_far.told.load(Ordering::Acquire) < 33 {
        assert!(began.elapsed() < LONG, "{how_far:?}");
        tokio::time::sleep(LOOK).await;
    }
    assert_eq!(how_far.written.load(Ordering::Acquire), 10, "nobody has written it down");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_whose_log_was_begun_anew_says_what_is_gone_and_goes_on() {
    let world = World::new().await;
    let telling = world.telling().await;
    let log = write(Box::new(world.log(1).await), Chain::behind(0).groups(5)).await;
    drop(log);
    let mut log = world.log(2).await;
    log.begin_behind(9).await.unwrap();
    let start = Start::of(Recorded { now: Some(5), before: None }.begun_anew(), 10, log.synced());
    let (teller, log) = Teller::begin(&telling, 0, 2, start, Box::new(log));
    tokio::spawn(teller.run());
    // At once, though nothing happens in the partition.
    assert_eq!(groups(&told(&telling, 1).await), [(6, 9)]);
    let _log = write(log, Chain::behind(9).groups(2)).await;
    assert_eq!(groups(&told(&telling, 3).await), [(6, 9), (10, 10), (11, 11)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_nobody_can_read_is_a_gap_and_not_the_end() {
    let world = World::new().await;
    let telling = world.telling().await;
    let mut chain = Chain::behind(0);
    let mut written = chain.groups(3);
    written[1].1 = b"no group".to_vec();
    let log = world.log(1).await;
    let (teller, log) = Teller::begin(&telling, 0, 1, Start::of(Recorded::default(), 1, 0), Box::new(log));
    tokio::spawn(teller.run());
    let _log = write(log, written).await;
    let events = told(&telling, 3).await;
    assert_eq!(groups(&events), [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(events[1].kind, Kind::Gap);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_gone_is_made_again_and_nobody_waits_for_it() {
    let world = World::new().await;
    // Nobody has made it.
    let telling = Telling::new(&world.cluster, BYTES_MAX, "one");
    telling.outage.note(&Error::Broken).await;
    let leases = world.cluster.leases.clone();
    let alarms = alarm::all(&*leases).await.unwrap();
    assert!(alarms.len() == 1 && alarms[0].about == "events-one", "{alarms:?}");
    let log = world.log(1).await;
    let (teller, log) = Teller::begin(&telling, 0, 1, Start::of(Recorded::default(), 1, 0), Box::new(log));
    tokio::spawn(teller.run());
    let _log = write(log, Chain::behind(0).groups(2)).await;
    assert_eq!(groups(&told(&telling, 2).await), [(1, 1), (2, 2)]);
    let began = Instant::now();
    while !alarm::all(&*leases).await.unwrap().is_empty() {
        assert!(began.elapsed() < LONG, "it is well again");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_behind_the_end_of_the_stream_is_a_gap_and_its_beginning() {
    let world = World::new().await;
    let telling = world.telling().await;
    for number in 1..=3 {
        let line = Event { id: number.to_string(), ..Event::default() }.line();
        telling.stream.publish(0, &number.to_string(), line.into(), LONG).await.unwrap();
    }
    let mut follower = Stream::open(&telling.stream, Place::Beginning).await.unwrap();
    let page = follower.read(&Wanted::default(), Duration::ZERO).await.unwrap();
    assert_eq!((events_of(&page).len(), &*page.position), (3, "s3"));
    world.remove_stream().await;
    let again = world.telling().await;
    let line = Event { id: "4".into(), ..Event::default() }.line();
    again.stream.publish(0, "4", line.into(), LONG).await.unwrap();
    // Whoever comes back, and whoever never went.
    let back = Stream::open(&telling.stream, Place::Behind(3)).await.unwrap();
    for mut stream in [back, follower] {
        let page = stream.read(&Wanted::default(), LOOK).await.unwrap();
        let events = events_of(&page);
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!((events[0].kind, &*events[1].id, &*page.position), (Kind::Gap, "4", "s1"));
    }
}

#[test]
fn events_are_packed_in_order_and_no_message_is_too_long() {
    let event = |number: usize| Event { id: number.to_string(), kind: Kind::Fetched, ..Event::default() };
    let events: Vec<Event> = (0..100).map(event).collect();
    let messages = pack(&events, 200);
    assert!(messages.len() > 10 && messages.iter().all(|message| message.len() <= 200));
    assert_eq!(messages.concat(), events.iter().flat_map(Event::line).collect::<Vec<u8>>());
    assert_eq!(pack(&events, 10), Vec::<Vec<u8>>::new());
}
