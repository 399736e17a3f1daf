//! Events: which events each entry gives, and that a group always gives the same ones.

use super::*;
use crate::entry::{FoundHost, FoundUrl, Origin, seal};
use crate::feed::record::NewStory;
use crate::job::{Job, JobId};
use crate::key::{DomainKey, UrlKey};
use crate::refusal::Refusal;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};
use crate::want::Want;

const HOST: HostKey = HostKey { domain: DomainKey(7), host: 1 };
const AT: Seconds = Seconds(216_860_289);

fn ended(fetch: u64, outcome: Outcome) -> Ended {
    Ended {
        key: UrlKey { host: HOST, path: fetch },
        text: format!("/{fetch}").into(),
        fetch,
        at: AT,
        outcome,
        status: 200,
        digest: 0xabc,
        simhash: 0,
        bytes: 1_000,
        shapes: [0, 0],
        alike_max: 0,
        etag: Box::default(),
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

fn context() -> EventContext {
    EventContext { at: AT, origins: [(HOST, "http://a.test".into())].into(), ..EventContext::default() }
}

fn events(partition: u32, entries: Vec<Entry>) -> Vec<Event> {
    let before = Position { sequence: 41, chain: 5 };
    let (bytes, behind) = seal(&Group { epoch: 3, entries: entries.clone() }, before);
    let (events, position) = of_bytes(partition, &bytes).unwrap();
    assert_eq!(position, behind);
    assert_eq!(
        events,
        of_group(partition, &Group { epoch: 3, entries }, behind),
        "bytes or not, it is the same"
    );
    events
}

#[test]
fn what_came_of_a_fetch_is_one_event_with_its_url() {
    let changed = [(2, true), (3, false), (4, false)].into();
    let mut retried = ended(5, Outcome::HeadTimeout);
    (retried.next, retried.retries) = (Some(Seconds(AT.0 + 3_600)), 1);
    retried.rest_until = Timestamp::from(Seconds(AT.0 + 60));
    let denied = Ended { fetch: NO_FETCH | 9, digest: 0, status: 0, ..ended(6, Outcome::RobotsDenied) };
    let held = Ended { next: Some(AT), ..denied.clone() };
    let all = vec![
        ended(1, Outcome::Fetched),
        ended(2, Outcome::Fetched),
        ended(3, Outcome::Fetched),
        ended(4, Outcome::NotModified),
        retried,
        ended(6, Outcome::HeadTimeout),
        ended(7, Outcome::NotFound),
        denied,
        held,
    ];
    let mut entries: Vec<Entry> = all.into_iter().map(|ended| Entry::Ended(Box::new(ended))).collect();
    entries.push(Entry::EventContext(Box::new(EventContext { visits: changed, ..context() })));
    let events = events(3, entries);
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.name()).collect();
    let wanted = [
        "fetched",
        "changed",
        "unchanged",
        "unchanged",
        "retry",
        "host-paused",
        "failed",
        "failed",
        "refused",
        "postponed",
    ];
    assert_eq!(kinds, wanted);
    assert_eq!(events[0].url, "http://a.test/1");
    assert_eq!((&*events[0].at, &*events[0].digest), ("2026-11-14T22:58:09Z", "0000000000000abc"));
    assert_eq!((events[5].host.as_str(), events[5].reason.as_str()), ("http://a.test", "head-timeout"));
    assert_eq!(events[8].reason.as_str(), "");
    assert_eq!(events[8].outcome, "robots-denied");
    let mut ids: Vec<&str> = events.iter().map(|event| &*event.id).collect();
    assert!(ids.iter().all(|id| id.starts_with("3.42.")), "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), events.len());
}

#[test]
fn a_fetch_that_failed_by_our_own_fault_is_postponed_and_not_failed() {
    let ours = Outcome::ALL.iter().filter(|outcome| outcome.action() == Action::Pause);
    for outcome in ours {
        // No retry is counted, so there may have been none, or some before.
        for retries in [0, 2] {
            let ended = Ended { next: Some(AT), retries, ..ended(1, *outcome) };
            let told =
                events(3, vec![Entry::Ended(Box::new(ended)), Entry::EventContext(Box::new(context()))]);
            assert_eq!((told.len(), told[0].kind), (1, Kind::Postponed), "{outcome}, {retries} retries");
            assert!(!told[0].next.is_empty() && told[0].url == "http://a.test/1");
        }
    }
}

#[test]
fn another_history_gives_other_ids_and_the_same_one_the_same() {
    let entries =
        vec![Entry::Ended(Box::new(ended(1, Outcome::Fetched))), Entry::EventContext(Box::new(context()))];
    let group = Group { epoch: 1, entries };
    let id = |chain| {
        let (bytes, _) = seal(&group, Position { sequence: 9, chain });
        of_bytes(1, &bytes).unwrap().0[0].id.clone()
    };
    assert_eq!(id(1), id(1));
    assert_ne!(id(1), id(2));
}

#[test]
fn what_is_refused_and_who_is_new_is_told_and_what_is_queued_is_not() {
    let url = |path, admission| FoundUrl {
        path,
        text: format!("/{path}").into(),
        admission,
        want: Want { depth: 1, hits: 1, ..Want::of(JobId(1)) },
    };
    let urls = vec![url(1, Admission::Queue(QueueKey::MIN)), url(2, Admission::Refuse(Refusal::TrapAlike))];
    let host = |origin: Option<&str>| FoundHost {
        key: HOST,
        origin: origin.map(Into::into),
        displaced: false,
        urls: urls.clone(),
    };
    let new = events(0, vec![Entry::Found(FoundUrls { at: AT, hosts: vec![host(Some("http://b.test"))] })]);
    let told: Vec<_> = new.iter().map(|event| (event.kind, &*event.host, &*event.url)).collect();
    assert_eq!(told, [(Kind::HostFound, "http://b.test", ""), (Kind::Refused, "", "http://b.test/2")]);
    assert_eq!(new[1].reason, Refusal::TrapAlike.name());
    let found = Entry::Found(FoundUrls { at: AT, hosts: vec![host(None)] });
    let known = events(0, vec![found, Entry::EventContext(Box::new(context()))]);
    assert_eq!((known.len(), &*known[0].url), (1, "http://a.test/2"));
    // Numbers do not depend on which events are made.
    assert_eq!(new[1].id.split('.').nth(3), known[0].id.split('.').nth(3));
}

#[test]
fn a_job_is_one_event_though_every_partition_hears_of_it() {
    let entries =
        || vec![Entry::Job(Box::new(Job::new(JobId(1), "press"))), Entry::EventContext(Box::new(context()))];
    assert_eq!(events(0, entries())[0].job, "press");
    assert!(events(1, entries()).is_empty());
}

#[test]
fn kinds_have_the_names_that_are_written() {
    for kind in Kind::ALL {
        assert_eq!(Kind::by_name(kind.name()), Some(*kind));
        assert_eq!(serde_json::to_string(kind).unwrap(), format!("{:?}", kind.name()));
    }
    assert_eq!(serde_json::from_str::<Kind>("\"of tomorrow\"").unwrap(), Kind::Other);
    let gap = String::from_utf8(Event::gap(3, 5, 9).line()).unwrap();
    assert_eq!(gap, "{\"id\":\"3.5-9.gap\",\"kind\":\"gap\",\"gone\":[3,5,9]}\n");
}

#[test]
fn stories_are_told_with_their_feed() {
    use crate::feed::record::{Brought, PollLine, Record};
    use crate::feed::schedule::{PollAnswer, PollReason};
    let record = Record::default();
    let brought = Brought::of(PollAnswer::Failed, &record);
    let polled = Polled {
        key: UrlKey { host: HOST, path: 1 },
        fetch: 1,
        line: PollLine::new(Timestamp::from(AT), 200, brought.answer, None, PollReason::NewStory),
        conditional: false,
        checksum: None,
        sighting: None,
        history: record.history,
        title: Some("News".into()),
        wrong: Box::default(),
    };
    let stories =
        vec![(1, vec![NewStory::new("http://s.test/1", "One"), NewStory::new("http://s.test/2", "")])];
    let events = events(
        2,
        vec![
            Entry::Polled(Box::new(polled)),
            Entry::Ended(Box::new(ended(1, Outcome::Fetched))),
            Entry::EventContext(Box::new(EventContext { stories, ..context() })),
        ],
    );
    let told: Vec<_> = events.iter().map(|event| (event.kind, &*event.url, &*event.feed)).collect();
    let feed = "http://a.test/1";
    let wanted = [
        (Kind::Polled, feed, ""),
        (Kind::Story, "http://s.test/1", feed),
        (Kind::Story, "http://s.test/2", feed),
        (Kind::Fetched, feed, ""),
    ];
    assert_eq!(told, wanted);
    assert_eq!((&*events[0].title, &*events[1].title), ("News", "One"));
}
