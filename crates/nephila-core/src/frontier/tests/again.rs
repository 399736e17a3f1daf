//! What comes back: feeds by their own schedule, URLs that streams name, pages by how often they change.

use std::time::Duration;

use super::lab::{Lab, SECRET, config, key, url};
use crate::entry::Entry;
use crate::feed::record::{Brought, Record as FeedRecord};
use crate::feed::schedule::Answer;
use crate::frontier::URGENT;
use crate::frontier::offers::Offer;
use crate::frontier::ticket::Report;
use crate::handler::ReadAs;
use crate::job::{Hops, Job, JobId, Schedule};
use crate::recrawl::{Policy, Settings};
use crate::reflog::part::{Named, Part};
use crate::reflog::{BatchKey, Grouped};
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;
use crate::time::Timestamp;

const MINUTE: u64 = 60_000;
const FEED: &str = "http://a.test/feed";

fn offer_feed(lab: &mut Lab, text: &str) {
    let url = url(text);
    let (origin, path) = (url.origin(), url.path_and_query().to_owned());
    lab.frontier.offer(Offer {
        key: key(text),
        origin: &origin,
        text: &path,
        job: JobId(1),
        depth: 0,
        hops: Hops::NONE,
        read_as: ReadAs::Feed,
        priority: URGENT,
        hits: 0,
        refusal: None,
    });
    lab.commit();
}

fn brought(answer: Answer) -> Report {
    let brought = Brought { title: "News".into(), ..Brought::of(answer, &FeedRecord::default()) };
    Report { feed: Some(Box::new(brought)), ..Report::of(Outcome::Fetched, 200, Duration::ZERO) }
}

fn news(new: u32) -> Report {
    brought(Answer::Read { entries: 10, new, oldest_new: None, dated_gap: None })
}

/// Minutes between the starts of pages, rests left out.
fn gaps(lab: &Lab) -> Vec<u64> {
    lab.pages.windows(2).map(|pair| (pair[1].at - pair[0].at) / MINUTE).collect()
}

#[test]
fn a_feed_is_asked_five_minutes_after_a_story_and_ever_later_without_one() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert(FEED.into(), news(3));
    offer_feed(&mut lab, FEED);
    lab.run(6 * MINUTE);
    lab.web.pages.insert(FEED.into(), brought(Answer::Redundant));
    lab.run(80 * MINUTE);
    assert_eq!(gaps(&lab), [5, 5, 10, 20, 40]);
    // It is remembered across a restart, and goes on from there.
    lab.restart(1_000);
    let record = lab.frontier.feed(&key(FEED)).unwrap();
    assert_eq!((record.stories, record.polls.len(), &*record.title), (6, 6, "News"));
    lab.web.pages.insert(FEED.into(), news(1));
    lab.run(90 * MINUTE);
    let record = lab.frontier.feed(&key(FEED)).unwrap();
    assert!(record.stories > 6 && record.polls.last().unwrap().why() == "new-story");
    let listed = lab.frontier.feeds_page(None, 10).unwrap();
    assert_eq!(listed.iter().map(|view| &*view.url).collect::<Vec<_>>(), [FEED]);
    assert!(listed[0].next.is_some());
}

#[test]
fn a_feed_that_fails_is_asked_ever_later_and_one_that_is_gone_no_more() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert(FEED.into(), Report::of(Outcome::NotFound, 404, Duration::ZERO));
    offer_feed(&mut lab, FEED);
    lab.run(50 * MINUTE);
    assert_eq!(gaps(&lab), [10, 20]);
    lab.web.pages.insert(FEED.into(), Report { status: 410, ..brought(Answer::Gone) });
    lab.run(40 * 24 * 60 * MINUTE);
    assert_eq!(lab.pages.len(), 3 + 3, "three times gone is gone");
    assert_eq!(lab.record(FEED).state, UrlState::Ended);
}

#[test]
fn a_page_that_is_known_becomes_a_feed_when_somebody_adds_it() {
    let mut lab = Lab::new(config());
    lab.offer(&[FEED]);
    lab.run(MINUTE);
    assert_eq!(lab.record(FEED).state, UrlState::Ended);
    lab.web.pages.insert(FEED.into(), news(1));
    offer_feed(&mut lab, FEED);
    lab.run(6 * MINUTE);
    assert_eq!((lab.pages.len(), lab.record(FEED).read_as), (3, ReadAs::Feed));
    // Once more changes nothing.
    offer_feed(&mut lab, FEED);
    lab.run(MINUTE);
    assert_eq!(lab.pages.len(), 3);
}

fn part(batch: &str, text: &str, minute: u64, tag: &str) -> Entry {
    let url = url(text);
    let at = Timestamp(1_794_700_800_000 + minute * MINUTE);
    let grouped = Grouped { id: url.id(), url, at, hits: 1, tag: tag.into() };
    let urls = vec![Named::of(&grouped, &SECRET)];
    Entry::Stream(Box::new(Part { key: BatchKey::of(batch, 0, 1), job: JobId(1), urls }))
}

#[test]
fn pol_11_a_url_that_is_due_a_thousand_times_is_fetched_once_an_hour() {
    let mut lab = Lab::new(config());
    let text = "http://a.test/1";
    for n in 0..1_000 {
        lab.say(part(&format!("b{n}"), text, n * 59 / 1_000, "x"));
        if n % 10 == 0 {
            lab.run(100);
        }
    }
    lab.run(MINUTE);
    assert_eq!(lab.pages.len(), 1);
    let sifted = lab.frontier.stats().sifted;
    assert_eq!((sifted.streamed, sifted.suppressed, sifted.stream_repeats), (1_000, 999, 0));
    // The same batches again count for nothing, also after a restart; an hour or another tag does.
    lab.restart(1_000);
    lab.say(part("b7", text, 500, "y"));
    lab.run(MINUTE);
    assert_eq!((lab.pages.len(), lab.frontier.stats().sifted.stream_repeats), (1, 1));
    lab.say(part("later", text, 61, "x"));
    lab.run(MINUTE);
    lab.say(part("other", text, 62, "y"));
    lab.run(MINUTE);
    assert_eq!(lab.pages.len(), 3);
    assert_eq!((lab.record(text).state, lab.host(text).waiting), (UrlState::Ended, 0));
}

#[test]
fn a_stream_brings_forward_what_is_planned_for_later() {
    let mut lab = Lab::new(config());
    let mut job = Job::new(JobId(1), "press");
    job.schedule = Schedule::Every(Duration::from_secs(10 * 3_600));
    lab.say(Entry::Job(Box::new(job)));
    let text = "http://a.test/1";
    lab.offer(&[text]);
    lab.run(60 * MINUTE);
    assert_eq!((lab.pages.len(), lab.host(text).later), (1, 1));
    lab.say(part("b", text, 0, ""));
    lab.run(MINUTE);
    assert_eq!((lab.pages.len(), lab.host(text).later, lab.host(text).waiting), (2, 1, 0));
    // Its old plan is void: it comes ten hours after the last fetch.
    lab.run(9 * 60 * MINUTE + 30 * MINUTE);
    assert_eq!(lab.pages.len(), 2);
    lab.run(60 * MINUTE);
    assert_eq!(lab.pages.len(), 3);
}

fn adaptive() -> Entry {
    let mut job = Job::new(JobId(1), "press");
    job.schedule = Schedule::Adaptive(Settings { policy: Policy::Adaptive, ..Settings::default() });
    Entry::Job(Box::new(job))
}

#[test]
fn a_page_that_changes_is_visited_more_often_than_one_that_does_not() {
    let mut lab = Lab::new(config());
    lab.say(adaptive());
    let (lively, still) = ("http://a.test/lively", "http://b.test/still");
    lab.offer(&[lively, still]);
    for day in 0..60 {
        let page = |digest| Report { digest, ..Report::of(Outcome::Fetched, 200, Duration::ZERO) };
        lab.web.pages.insert(lively.into(), page(day + 1));
        lab.web.pages.insert(still.into(), page(7));
        lab.run(24 * 60 * MINUTE);
    }
    let visits = |text: &str| lab.pages.iter().filter(|start| start.ticket.url == text).count();
    assert!(visits(lively) > 2 * visits(still) && visits(still) > 1, "{} {}", visits(lively), visits(still));
    // It is all in the log.
    let before = (lab.record(lively).seen, lab.host(lively).site);
    lab.restart(1_000);
    assert_eq!((lab.record(lively).seen, lab.host(lively).site), before);
}

#[test]
fn a_host_whose_validators_are_wrong_is_asked_in_full() {
    let mut lab = Lab::new(config());
    lab.say(adaptive());
    let text = "http://a.test/1";
    lab.offer(&[text]);
    // Other bytes at every visit, and always the same version.
    let visits = |lab: &Lab| lab.pages.len();
    for digest in 1..8 {
        let page =
            Report { digest, etag: "\"1\"".into(), ..Report::of(Outcome::Fetched, 200, Duration::ZERO) };
        lab.web.pages.insert(text.into(), page);
        let before = visits(&lab);
        while visits(&lab) == before {
            lab.run(60 * MINUTE);
        }
    }
    assert!(!lab.host(text).trust.is_believed());
    assert!(lab.pages.last().unwrap().ticket.known.is_none());
    assert!(lab.pages.iter().any(|start| start.ticket.known.is_some()));
}
