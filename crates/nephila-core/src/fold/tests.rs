//! The fold: the effect of each entry, and that nothing else has an effect.

use super::*;
use crate::entry::{ChainError, FoundHost, FoundUrls, open, seal};
use crate::handler::ReadAs;
use crate::job::{Job, JobId};
use crate::key::Prefixes;
use crate::refusal::Refusal;
use crate::spider::outcome::Outcome;
use crate::spread::DomainSpread;
use crate::state::MemoryState;
use crate::state::queue::QueueKey;
use crate::state::record::{RobotsPolicy, RobotsRecord};
use crate::state::totals::Tally;
use crate::time::{Seconds, Timestamp};
use crate::want::Want;

const HOST: HostKey = HostKey { domain: DomainKey(0x1234 << 48), host: 7 };
const AT: Seconds = Seconds(1_000);

fn url(path: u64) -> UrlKey {
    UrlKey { host: HOST, path }
}

fn place(low: u32) -> QueueKey {
    QueueKey { band: 5, age: AT, low }
}

/// URLs of the host, which is new if there is an origin.
fn found(origin: Option<&str>, urls: &[(u64, Admission)]) -> Entry {
    let urls = urls.iter().map(|(path, admission)| FoundUrl {
        path: *path,
        text: format!("/{path}").into(),
        want: Want {
            depth: 2,
            hops: crate::job::Hops::by_code(1),
            read_as: ReadAs::Feed,
            priority: 4,
            hits: 5,
            via: (*path % 2 == 1).then(crate::job::Via::seed),
            ..Want::of(JobId(3))
        },
        admission: *admission,
    });
    let host =
        FoundHost { key: HOST, origin: origin.map(Into::into), displaced: false, urls: urls.collect() };
    Entry::Found(FoundUrls { at: AT, hosts: vec![host] })
}

fn ended(path: u64, fetch: u64) -> Ended {
    Ended {
        key: url(path),
        text: format!("/{path}").into(),
        fetch,
        at: Seconds(1_010),
        outcome: Outcome::Fetched,
        status: 200,
        digest: 77,
        simhash: 0,
        bytes: 1_000,
        shapes: [0, 0],
        alike_max: 0,
        etag: "\"e\"".into(),
        last_modified: Box::default(),
        from: Origin::Queue,
        next: None,
        retries: 0,
        floor: QueueKey::MIN,
        later_floor: LaterKey::MIN,
        rest_until: Timestamp(0),
        failures: 0,
    }
}

fn commit(state: &mut MemoryState, epoch: u64, entries: Vec<Entry>) {
    let group = Group { epoch, entries };
    let (_, behind) = seal(&group, state.position());
    fold(state, &group, behind).unwrap();
}

/// A state in which three URLs wait.
fn three() -> MemoryState {
    let mut state = MemoryState::new();
    let urls = [1, 2, 3].map(|path| (path, Admission::Queue(place(path as u32))));
    commit(&mut state, 1, vec![found(Some("http://a.test"), &urls)]);
    state
}

fn texts(state: &mut MemoryState) -> Vec<String> {
    let mut queue = Vec::new();
    state.queued(&HOST, QueueKey::MIN, 100, &mut queue).unwrap();
    queue.into_iter().map(|queued| queued.text.to_string()).collect()
}

#[test]
fn new_urls_wait_in_their_queue_and_are_counted() {
    let mut state = three();
    assert_eq!(texts(&mut state), ["/1", "/2", "/3"]);
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!((&*host.origin, host.found, host.waiting, host.parked), ("http://a.test", AT, 3, 0));
    let domain = state.domain(HOST.domain).unwrap().unwrap();
    assert_eq!((domain.hosts, domain.admitted, domain.found), (1, 3, AT));
    let record = state.url(&url(2)).unwrap().unwrap();
    assert_eq!(
        (record.state, record.job, record.depth, record.priority),
        (UrlState::Waiting, JobId(3), 2, 4)
    );
    assert_eq!((record.hits, record.found, record.text), (5, AT, None));
    assert_eq!((record.hops, record.read_as), (crate::job::Hops::by_code(1), ReadAs::Feed));
    assert_eq!(state.meta().epoch, 1);
}

#[test]
fn each_admission_leads_to_its_own_state() {
    let mut state = three();
    let parked = QueueKey { band: 255, age: AT, low: 4 };
    let urls = [
        (4, Admission::Park(parked)),
        (5, Admission::ParkBare),
        (6, Admission::Refuse(Refusal::TrapDeep)),
        (3, Admission::Raise(QueueKey { band: 0, age: AT, low: 3 })),
    ];
    commit(&mut state, 1, vec![found(None, &urls)]);
    let mut state_of = |path| state.url(&url(path)).unwrap().unwrap();
    assert_eq!(state_of(4).state, UrlState::Parked);
    assert_eq!((state_of(5).state, state_of(5).text), (UrlState::ParkedBare, None));
    assert_eq!(state_of(6).state, UrlState::Refused(Refusal::TrapDeep));
    assert_eq!(state_of(6).text.as_deref(), Some("/6"), "people ask for the list of what was refused");
    assert_eq!(
        (state_of(3).state, state_of(3).hits),
        (UrlState::Waiting, 10),
        "raised, and named five times more"
    );
    assert_eq!(texts(&mut state), ["/3", "/1", "/2", "/3", "/4"], "the old place is stale, and harmless");
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!((host.waiting, host.parked), (3, 1));
    let domain = state.domain(HOST.domain).unwrap().unwrap();
    assert_eq!((domain.admitted, domain.parked, domain.bare, domain.hosts), (3, 1, 1, 1));

    commit(&mut state, 1, vec![found(None, &[(5, Admission::Unpark(place(5)))])]);
    assert_eq!(state.url(&url(5)).unwrap().unwrap().state, UrlState::Waiting);
    let domain = state.domain(HOST.domain).unwrap().unwrap();
    assert_eq!((domain.admitted, domain.bare), (4, 0));
}

#[test]
fn a_fetch_that_ended_leaves_the_queue_and_is_remembered() {
    let mut state = three();
    let mut first = ended(1, 90);
    first.floor = place(1);
    commit(&mut state, 1, vec![Entry::Ended(Box::new(first))]);
    assert_eq!(texts(&mut state), ["/2", "/3"]);
    let record = state.url(&url(1)).unwrap().unwrap();
    assert_eq!((record.state, record.text.as_deref()), (UrlState::Ended, Some("/1")));
    let last = record.last.unwrap();
    assert_eq!(
        (last.fetch, last.outcome, last.status, last.digest, &*last.etag),
        (90, Outcome::Fetched, 200, 77, "\"e\"")
    );
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!((host.waiting, host.ended, host.floor), (2, 1, place(1)));
}

#[test]
fn a_fetch_that_is_reported_twice_counts_once() {
    let mut state = three();
    commit(&mut state, 1, vec![Entry::Ended(Box::new(ended(1, 90)))]);
    let before = state.hash(Prefixes::ALL).unwrap();
    commit(&mut state, 1, vec![Entry::Ended(Box::new(ended(1, 90)))]);
    assert_eq!(state.hash(Prefixes::ALL).unwrap(), before, "in another group");

    let mut twice = three();
    commit(&mut twice, 1, vec![Entry::Ended(Box::new(ended(1, 90))), Entry::Ended(Box::new(ended(1, 90)))]);
    assert_eq!(twice.hash(Prefixes::ALL).unwrap(), before, "in the same group");
}

#[test]
fn what_became_of_urls_is_counted_by_job_and_what_is_left_in_all() {
    let mut state = three();
    let urls = [
        (4, Admission::Park(QueueKey { band: 255, age: AT, low: 4 })),
        (5, Admission::ParkBare),
        (6, Admission::Refuse(Refusal::TrapDeep)),
    ];
    commit(&mut state, 1, vec![found(None, &urls)]);
    let again = Ended { next: Some(Seconds(2_000)), outcome: Outcome::Reset, bytes: 0, ..ended(2, 91) };
    let twice = Entry::Ended(Box::new(ended(1, 90)));
    commit(&mut state, 1, vec![twice.clone(), Entry::Ended(Box::new(again))]);
    commit(&mut state, 1, vec![twice, found(None, &[(5, Admission::Unpark(place(5)))])]);
    // A former owner is not counted.
    commit(&mut state, 0, vec![Entry::Ended(Box::new(ended(3, 92)))]);
    let totals = &state.meta().totals;
    assert_eq!((totals.waiting, totals.parked, totals.later), (2, 1, 1));
    assert_eq!(totals.open, [(3, 4)].into());
    let tally = Tally {
        ended: [(Outcome::Fetched.code(), 1), (Outcome::Reset.code(), 1)].into(),
        bytes: 1_000,
        refused: [(Refusal::TrapDeep.code(), 1)].into(),
        found: 6,
    };
    assert_eq!(totals.tally, [(3, tally)].into());
    assert_eq!(Meta::decode(&state.meta().encode()).unwrap(), *state.meta());
}

#[test]
fn a_split_counts_what_each_side_holds_and_no_fetch_twice() {
    let mut whole = three();
    let far = HostKey { domain: DomainKey(0xf000 << 48), host: 1 };
    let mut other =
        found(Some("http://z.test"), &[(8, Admission::Queue(place(8))), (9, Admission::ParkBare)]);
    if let Entry::Found(found) = &mut other {
        found.hosts[0].key = far;
    }
    commit(&mut whole, 1, vec![other, Entry::Ended(Box::new(ended(1, 90)))]);
    let (low, high) = Prefixes::ALL.split(0x8000).unwrap();
    let halves = [low, high].map(|prefixes| {
        let mut half = whole.clone();
        // A fetch in the same group is counted where its host went.
        commit(&mut half, 1, vec![Entry::Split(prefixes), Entry::Ended(Box::new(ended(2, 91)))]);
        half.meta().totals.clone()
    });
    assert_eq!((halves[0].waiting, halves[0].parked), (1, 0));
    assert_eq!((halves[1].waiting, halves[1].parked), (1, 1));
    assert_eq!(halves[0].tally[&3].found, 5);
    assert_eq!(halves[0].tally[&3].ended, [(Outcome::Fetched.code(), 2)].into());
    assert!(halves[1].tally.is_empty());
    assert_eq!(halves.map(|half| half.open), [[(3, 1)].into(), [(3, 1)].into()]);
}

#[test]
fn small_things_without_totals_are_read_and_begin_at_zero() {
    let mut bytes = Meta { epoch: 4, ..Meta::default() }.encode();
    assert!(!Meta::lacks_open(&bytes));
    // Version 2 ended behind the totals, or behind the batches: four bytes are no batches, one is no job with something left.
    for cut in [1, 4] {
        bytes.truncate(bytes.len() - cut);
        assert_eq!(Meta::decode(&bytes).unwrap(), Meta { epoch: 4, ..Meta::default() });
        assert!(Meta::lacks_open(&bytes));
    }
    // Version 1 ended behind the prefixes; four zeros are all that nothing counted takes.
    bytes.truncate(bytes.len() - 4);
    assert!(Meta::decode(&bytes).is_err(), "cut");
    bytes[0] = 1;
    assert_eq!(Meta::decode(&bytes).unwrap(), Meta { epoch: 4, ..Meta::default() });
    assert!(Meta::lacks_totals(&bytes) && !Meta::lacks_totals(&Meta::default().encode()));
}

#[test]
fn a_failed_fetch_is_planned_and_its_host_rests() {
    let mut state = three();
    let mut failed = ended(1, 90);
    (failed.outcome, failed.status, failed.next, failed.retries) =
        (Outcome::Unavailable, 503, Some(Seconds(4_600)), 1);
    (failed.rest_until, failed.failures, failed.digest) = (Timestamp(5_000), 1, 0);
    commit(&mut state, 1, vec![Entry::Ended(Box::new(failed.clone()))]);
    let record = state.url(&url(1)).unwrap().unwrap();
    assert_eq!((record.state, record.retries), (UrlState::Later(Seconds(4_600)), 1));
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!(
        (host.later, host.later_next, host.rest_until, host.failures),
        (1, Seconds(4_600), Timestamp(5_000), 1)
    );
    let mut plans = Vec::new();
    state.planned(&HOST, LaterKey::MIN, 10, &mut plans).unwrap();
    assert_eq!(plans, [Planned { place: LaterKey { due: Seconds(4_600), path: 1 }, text: "/1".into() }]);

    // Its second try works: the plan is done, and a rest is never made shorter by a later entry.
    let mut again = ended(1, 91);
    again.from = Origin::Later;
    again.later_floor = plans[0].place;
    commit(&mut state, 1, vec![Entry::Ended(Box::new(again))]);
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!((host.later, host.rest_until, host.failures, host.ended), (0, Timestamp(5_000), 0, 2));
    let mut plans = Vec::new();
    state.planned(&HOST, LaterKey::MIN, 10, &mut plans).unwrap();
    assert!(plans.is_empty());
    assert_eq!(
        state.url(&url(1)).unwrap().unwrap().last.unwrap().changes,
        0b11,
        "another digest than at the failure"
    );
}

#[test]
fn the_soonest_plan_is_the_next_one() {
    let mut state = three();
    let plan = |path, due| Entry::Ended(Box::new(Ended { next: Some(Seconds(due)), ..ended(path, path) }));
    commit(&mut state, 1, vec![plan(1, 5_000), plan(2, 3_000), plan(3, 4_000)]);
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!((host.later, host.later_next), (3, Seconds(3_000)));
}

#[test]
fn a_parked_url_that_was_fetched_counts_as_let_in() {
    let mut state = three();
    commit(
        &mut state,
        1,
        vec![found(None, &[(4, Admission::Park(QueueKey { band: 255, age: AT, low: 4 }))])],
    );
    let fetched = Ended { from: Origin::Parked, ..ended(4, 1) };
    commit(&mut state, 1, vec![Entry::Ended(Box::new(fetched))]);
    let (host, domain) = (state.host(&HOST).unwrap().unwrap(), state.domain(HOST.domain).unwrap().unwrap());
    assert_eq!((host.parked, domain.parked, domain.admitted), (0, 0, 4));
}

#[test]
fn what_waits_or_is_parked_and_is_wanted_again_changes_its_depth_and_no_count() {
    let mut state = three();
    let parked = Admission::Park(QueueKey { band: 255, age: AT, low: 4 });
    commit(&mut state, 1, vec![found(None, &[(4, parked)])]);
    let counts = |state: &mut MemoryState| {
        let (host, domain) =
            (state.host(&HOST).unwrap().unwrap(), state.domain(HOST.domain).unwrap().unwrap());
        (host.waiting, host.parked, host.later, domain.admitted, domain.parked)
    };
    let before = counts(&mut state);
    assert_eq!(before, (3, 1, 0, 3, 1));
    let again = |low| Admission::Again(QueueKey { band: 0, age: AT, low });
    let mut entry = found(None, &[(1, again(1)), (4, again(4))]);
    if let Entry::Found(found) = &mut entry {
        found.hosts[0].urls.iter_mut().for_each(|url| url.want.depth = 0);
    }
    commit(&mut state, 1, vec![entry]);
    assert_eq!(counts(&mut state), before);
    for (path, stands) in [(1, UrlState::Waiting), (4, UrlState::Parked)] {
        let record = state.url(&url(path)).unwrap().unwrap();
        assert_eq!((record.state, record.depth), (stands, 0));
    }
    // Their outcomes count each of them once.
    let fetched = Ended { from: Origin::Parked, ..ended(4, 2) };
    commit(&mut state, 1, vec![Entry::Ended(Box::new(ended(1, 1))), Entry::Ended(Box::new(fetched))]);
    assert_eq!(counts(&mut state), (2, 0, 0, 4, 0));
}

#[test]
fn equal_pages_close_their_shape() {
    let mut state = three();
    for fetch in 1..=10 {
        let page = Ended { shapes: [42, 43], alike_max: 3, ..ended(fetch % 3 + 1, fetch) };
        commit(&mut state, 1, vec![Entry::Ended(Box::new(page))]);
    }
    let host = state.host(&HOST).unwrap().unwrap();
    assert!(host.alike.is_closed(42) && !host.alike.is_closed(44));
}

#[test]
fn robots_txt_stays_until_a_new_one_is_read() {
    let mut state = three();
    let record = RobotsRecord {
        policy: RobotsPolicy::Rules,
        fetched: AT,
        expires: Seconds(9_000),
        ..Default::default()
    };
    let body: Box<[u8]> = Box::from(*b"Disallow: /x");
    let read =
        RobotsRead { host: HOST, record, body: Some(body.clone()), rest_until: Timestamp(0), failures: 0 };
    commit(&mut state, 1, vec![Entry::Robots(Box::new(read.clone()))]);
    assert_eq!(state.robots(&HOST).unwrap(), Some(body.clone()));
    let kept = RobotsRecord { expires: Seconds(9_900), unreachable_since: Seconds(9_000), ..record };
    let failed = RobotsRead { record: kept, body: None, rest_until: Timestamp(44), failures: 2, ..read };
    commit(&mut state, 1, vec![Entry::Robots(Box::new(failed))]);
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!((host.robots, host.rest_until, host.failures), (kept, Timestamp(44), 2));
    assert_eq!(state.robots(&HOST).unwrap(), Some(body), "the last good one is kept");
}

#[test]
fn an_operators_word_is_kept() {
    let mut state = three();
    let stop = Entry::Host(HostChange::Stop(HOST, "asked to by mail".into()));
    let budget = Entry::Domain(DomainChange::Budget(HOST.domain, Some(9)));
    commit(&mut state, 1, vec![stop, Entry::Host(HostChange::Delay(HOST, 8_000)), budget]);
    let host = state.host(&HOST).unwrap().unwrap();
    assert_eq!((&*host.stopped, host.delay), ("asked to by mail", 8_000));
    assert_eq!(state.domain(HOST.domain).unwrap().unwrap().budget, Some(9));
    commit(&mut state, 1, vec![Entry::Host(HostChange::Resume(HOST))]);
    assert!(state.host(&HOST).unwrap().unwrap().stopped.is_empty());
}

#[test]
fn an_operators_word_about_what_nobody_has_found_yet_stays_when_it_is_found() {
    let mut state = MemoryState::new();
    let budget = Entry::Domain(DomainChange::Budget(HOST.domain, Some(9)));
    commit(&mut state, 1, vec![Entry::Host(HostChange::Stop(HOST, "asked to by mail".into())), budget]);
    commit(&mut state, 1, vec![found(Some("http://a.test"), &[(1, Admission::Queue(place(1)))])]);
    let (host, domain) = (state.host(&HOST).unwrap().unwrap(), state.domain(HOST.domain).unwrap().unwrap());
    assert_eq!(
        (&*host.origin, &*host.stopped, host.found, host.waiting),
        ("http://a.test", "asked to by mail", AT, 1)
    );
    assert_eq!((domain.budget, domain.found, domain.hosts), (Some(9), AT, 1));
}

#[test]
fn jobs_inboxes_and_the_split_are_kept_with_the_small_things() {
    let mut state = MemoryState::new();
    let job = Job::new(JobId(3), "press");
    let inbox = |position| Entry::Inbox { name: "links".into(), position };
    let half = Prefixes::share(0, 2);
    let staying = std::sync::Arc::new([7, 9].into());
    let spread = DomainSpread { domain: DomainKey(5), name: "a.test".into(), staying };
    let later = DomainSpread { staying: Default::default(), ..spread.clone() };
    let spreads = [Entry::Spread(spread.clone()), Entry::Spread(later)];
    let entries = [Entry::Job(Box::new(job.clone())), inbox(5), inbox(9), Entry::Split(half)];
    commit(&mut state, 1, entries.into_iter().chain(spreads).collect());
    assert_eq!(state.meta().spread.iter().collect::<Vec<_>>(), [&spread], "the first decision stands");
    assert_eq!(state.meta().jobs.get(&3), Some(&job));
    assert_eq!((state.meta().inboxes.get("links"), state.meta().prefixes), (Some(&9), Some(half)));
    commit(&mut state, 1, vec![Entry::JobRemoved(JobId(3))]);
    assert!(state.meta().jobs.is_empty());
    assert_eq!(Meta::decode(&state.meta().encode()).unwrap(), *state.meta());
}

#[test]
fn a_displaced_host_is_remembered_by_its_origin() {
    let mut state = MemoryState::new();
    let mut entry = found(Some("http://b.test"), &[]);
    if let Entry::Found(found) = &mut entry {
        found.hosts[0].displaced = true;
    }
    commit(&mut state, 1, vec![entry]);
    assert_eq!(state.meta().displaced.get(&(HOST.domain, "http://b.test".into())), Some(&HOST.host));
}

#[test]
fn a_former_owner_is_not_believed() {
    let mut state = three();
    commit(&mut state, 3, vec![]);
    let (before, position) = (state.hash(Prefixes::ALL).unwrap(), state.position());
    commit(&mut state, 2, vec![Entry::Ended(Box::new(ended(1, 90))), Entry::JobRemoved(JobId(1))]);
    assert_eq!(state.hash(Prefixes::ALL).unwrap(), before);
    assert_eq!(state.position().sequence, position.sequence + 1, "its group stands in the log all the same");
    commit(&mut state, 3, vec![Entry::Ended(Box::new(ended(1, 90)))]);
    assert_ne!(state.hash(Prefixes::ALL).unwrap(), before);
}

/// A log of six groups with every kind of change to a few URLs.
fn a_log() -> Vec<Vec<u8>> {
    let queue = |path: u64| (path, Admission::Queue(place(path as u32)));
    let failed = Ended { next: Some(Seconds(2_000)), outcome: Outcome::Reset, retries: 1, ..ended(2, 11) };
    let again = Ended { from: Origin::Later, at: Seconds(2_001), ..ended(2, 12) };
    let groups = [
        vec![found(Some("http://a.test"), &[queue(1), queue(2), queue(3)])],
        vec![
            Entry::Ended(Box::new(Ended { floor: place(1), ..ended(1, 10) })),
            Entry::Ended(Box::new(failed)),
        ],
        vec![
            found(None, &[queue(4), (5, Admission::ParkBare)]),
            Entry::Job(Box::new(Job::new(JobId(1), "press"))),
        ],
        vec![Entry::Ended(Box::new(again)), Entry::Host(HostChange::Delay(HOST, 5))],
        vec![found(None, &[(5, Admission::Unpark(place(50)))])],
        vec![Entry::Inbox { name: "links".into(), position: 3 }],
    ];
    let mut position = Position::default();
    let seal_next = |entries: Vec<Entry>| {
        let (bytes, behind) = seal(&Group { epoch: 1, entries }, position);
        position = behind;
        bytes
    };
    groups.into_iter().map(seal_next).collect()
}

fn replay(state: &mut MemoryState, log: &[Vec<u8>]) {
    for bytes in log {
        match open(bytes, state.position()) {
            Ok((group, behind)) => fold(state, &group, behind).unwrap(),
            Err(ChainError::Old { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn the_same_log_gives_the_same_state_from_the_beginning_and_from_any_snapshot() {
    let log = a_log();
    let mut whole = MemoryState::new();
    replay(&mut whole, &log);
    let hash = whole.hash(Prefixes::ALL).unwrap();
    for taken in 0..=log.len() {
        let mut state = MemoryState::new();
        replay(&mut state, &log[..taken]);
        let mut snapshot = state.clone();
        // The whole log again: groups in the snapshot are skipped.
        replay(&mut snapshot, &log);
        assert_eq!(snapshot.hash(Prefixes::ALL).unwrap(), hash, "snapshot behind group {taken}");
        assert_eq!(snapshot.position(), whole.position());
        assert!(taken == log.len() || state.position() < whole.position());
    }
}

#[test]
fn a_group_that_was_folded_is_old_and_one_too_far_is_a_gap() {
    let log = a_log();
    let mut state = MemoryState::new();
    replay(&mut state, &log[..2]);
    assert_eq!(open(&log[1], state.position()), Err(ChainError::Old { sequence: 2 }));
    assert_eq!(open(&log[3], state.position()), Err(ChainError::Gap { expected: 3, found: 4 }));
}

#[test]
fn an_answer_without_a_body_keeps_what_is_known_of_the_page() {
    let of =
        |outcome, digest, etag: &str| Ended { outcome, digest, etag: etag.into(), ..ended(1, digest + 1) };
    let first = last_fetch(None, &of(Outcome::Fetched, 7, "a"));
    let same = last_fetch(Some(Box::new(first)), &of(Outcome::NotModified, 0, ""));
    assert_eq!((same.digest, &*same.etag, same.changes), (7, "a", 0b10));
    let failed = last_fetch(Some(Box::new(same)), &of(Outcome::HeadTimeout, 0, ""));
    assert_eq!((failed.digest, &*failed.etag, failed.changes), (7, "a", 0b10));
    assert_eq!(failed.outcome, Outcome::HeadTimeout);
    let other = last_fetch(Some(Box::new(failed)), &of(Outcome::Fetched, 8, "b"));
    assert_eq!((other.digest, &*other.etag, other.changes), (8, "b", 0b101));
}
