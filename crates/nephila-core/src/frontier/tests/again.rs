//! Repeated visits: feeds by their own schedule, URLs named by streams, pages by how often they change.

use std::time::Duration;

use super::lab::{Lab, SECRET, config, key, url};
use crate::entry::Entry;
use crate::feed::record::{Brought, Record as FeedRecord};
use crate::feed::schedule::PollAnswer;
use crate::frontier::URGENT;
use crate::frontier::offers::Offer;
use crate::frontier::ticket::{HeadFirst, HeadSaid, Report};
use crate::handler::ReadAs;
use crate::job::{Job, JobId, Schedule};
use crate::recrawl::claims::{FORWARD_MAX, Listed};
use crate::recrawl::{Policy, Settings};
use crate::reflog::part::{Named, Part};
use crate::reflog::{BatchKey, Grouped};
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;
use crate::time::{Seconds, Timestamp};
use crate::want::Want;

const MINUTE: u64 = 60_000;
const FEED: &str = "http://a.test/feed";

fn offer_feed(lab: &mut Lab, text: &str) {
    let url = url(text);
    let (origin, path) = (url.origin(), url.path_and_query().to_owned());
    lab.frontier.offer(Offer {
        key: key(text),
        origin,
        text: &path,
        want: &Want { read_as: ReadAs::Feed, priority: URGENT, ..Want::of(JobId(1)) },
    });
    lab.commit();
}

fn brought(answer: PollAnswer) -> Report {
    let brought = Brought { title: "News".into(), ..Brought::of(answer, &FeedRecord::default()) };
    Report { feed: Some(Box::new(brought)), ..Report::of(Outcome::Fetched, 200, Duration::ZERO) }
}

fn news(new: u32) -> Report {
    brought(PollAnswer::Read { entries: 10, new, oldest_new: None, dated_gap: None })
}

/// Minutes between the starts of pages, without rests.
fn gaps(lab: &Lab) -> Vec<u64> {
    lab.pages.windows(2).map(|pair| (pair[1].at - pair[0].at) / MINUTE).collect()
}

#[test]
fn a_feed_is_asked_five_minutes_after_a_story_and_ever_later_without_one() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert(FEED.into(), news(3));
    offer_feed(&mut lab, FEED);
    lab.run(6 * MINUTE);
    lab.web.pages.insert(FEED.into(), brought(PollAnswer::Redundant));
    lab.run(80 * MINUTE);
    assert_eq!(gaps(&lab), [5, 5, 10, 20, 40]);
    // The schedule survives a restart.
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
    lab.web.pages.insert(FEED.into(), Report { status: 410, ..brought(PollAnswer::Gone) });
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
    // Another offer changes nothing.
    offer_feed(&mut lab, FEED);
    lab.run(MINUTE);
    assert_eq!(lab.pages.len(), 3);
}

fn part(batch: &str, text: &str, minute: u64, tag: &str) -> Entry {
    let url = url(text);
    let at = Timestamp(1_794_700_800_000 + minute * MINUTE);
    let grouped = Grouped { id: url.id(), url, at, hits: 1, tag: tag.into(), page: "2310".into() };
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
    // Repeated batches count for nothing, also after a restart; another hour or another tag counts.
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
    // The old plan is void: the page is due ten hours after the last fetch.
    lab.run(9 * 60 * MINUTE + 30 * MINUTE);
    assert_eq!(lab.pages.len(), 2);
    lab.run(60 * MINUTE);
    assert_eq!(lab.pages.len(), 3);
}

/// A lab in which a page takes ten seconds; a stream names the page half way.
fn half_way(text: &str) -> Lab {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/robots-is-read"]);
    lab.run(MINUTE);
    lab.took = 10_000;
    lab.say(part("first", text, 0, "x"));
    lab.run(5_000);
    assert_eq!(lab.pages.len(), 2, "it is under way");
    lab
}

#[test]
fn a_tag_that_changes_while_its_page_is_fetched_brings_it_once_more() {
    let text = "http://a.test/1";
    let mut lab = half_way(text);
    lab.say(part("second", text, 1, "y"));
    lab.say(part("third", text, 2, "z"));
    lab.run(1_000);
    lab.say(part("fourth", text, 3, "z"));
    lab.run(1_000);
    assert_eq!(lab.pages.len(), 2, "one at a time");
    lab.run(10 * MINUTE);
    assert_eq!(lab.pages.len(), 3, "once for both changes, not for the line within the hour");
    assert_eq!((lab.record(text).state, lab.host(text).waiting), (UrlState::Ended, 0));
    lab.restart(1_000);
    lab.run(10 * MINUTE);
    assert_eq!(lab.pages.len(), 3);
}

#[test]
fn a_tag_that_changes_at_the_moment_of_the_outcome_brings_the_page_once_more() {
    let text = "http://a.test/1";
    let mut lab = half_way(text);
    let ends = lab.pages[1].at + lab.took;
    lab.run(ends - 1 - lab.now.mono);
    // The outcome and the stream come together, and are written as one group.
    (lab.now.mono, lab.now.wall) = (lab.now.mono + 1, Timestamp(lab.now.wall.0 + 1));
    lab.say(part("second", text, 1, "y"));
    lab.run(MINUTE);
    assert_eq!(lab.pages.len(), 3);
    assert_eq!((lab.record(text).state, lab.host(text).waiting), (UrlState::Ended, 0));
    lab.restart(1_000);
    lab.run(10 * MINUTE);
    assert_eq!(lab.pages.len(), 3);
}

#[test]
fn a_page_that_was_wanted_once_more_is_fetched_after_a_crash_as_well() {
    let text = "http://a.test/1";
    let mut lab = half_way(text);
    lab.say(part("second", text, 1, "y"));
    lab.run(1_000);
    lab.restart(1_000);
    lab.run(10 * MINUTE);
    assert_eq!(lab.pages.len(), 3, "the outcome was lost, so one fetch is both");
    assert_eq!((lab.record(text).state, lab.host(text).waiting), (UrlState::Ended, 0));
}

#[test]
fn a_feed_that_is_added_while_it_is_fetched_as_a_page_is_followed() {
    for restarts in [false, true] {
        let mut lab = half_way(FEED);
        lab.web.pages.insert(FEED.into(), news(1));
        offer_feed(&mut lab, FEED);
        lab.run(1_000);
        if restarts {
            lab.restart(1_000);
        }
        lab.run(8 * MINUTE);
        assert_eq!(lab.record(FEED).read_as, ReadAs::Feed);
        assert!(lab.frontier.feed(&key(FEED)).unwrap().polls.len() >= 2, "restarts: {restarts}");
    }
}

pub(super) fn adaptive() -> Entry {
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
    // Everything is in the log.
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

/// The site of these pages claims that they were changed just now.
pub(super) fn claim(lab: &mut Lab, texts: &[String]) {
    let modified = Seconds::from(lab.now.wall).plus(Duration::from_secs(1));
    let listed: Vec<Listed> = texts.iter().map(|text| Listed { path: key(text).path, modified }).collect();
    lab.frontier.listed(key(&texts[0]).host, JobId(1), &listed, lab.now);
    lab.run(10 * MINUTE);
}

#[test]
fn a_site_that_always_says_now_is_not_believed_and_costs_one_visit_at_a_time() {
    let mut lab = Lab::new(config());
    lab.say(adaptive());
    let texts: Vec<String> = (0..12).map(|n| format!("http://a.test/{n}")).collect();
    texts.iter().for_each(|text| lab.offer(&[text]));
    lab.run(60 * MINUTE);
    assert_eq!(lab.pages.len(), 12);
    // Claims about the past, or about a distant year, change nothing.
    for modified in [Seconds(0), Seconds::from(lab.now.wall).plus(Duration::from_secs(400 * 86_400))] {
        let listed = [Listed { path: key(&texts[0]).path, modified }];
        lab.frontier.listed(key(&texts[0]).host, JobId(1), &listed, lab.now);
        lab.run(MINUTE);
    }
    assert_eq!(lab.pages.len(), 12);
    // All are brought forward once, and none has changed.
    claim(&mut lab, &texts);
    assert_eq!((lab.pages.len(), lab.frontier.stats().sifted.forward), (24, 12));
    // A moment later nothing is brought forward: no page is visited more often than the job allows.
    claim(&mut lab, &texts);
    assert_eq!(lab.pages.len(), 24);
    let mut visits = lab.pages.len();
    for _ in 0..3 {
        lab.run(30 * MINUTE);
        claim(&mut lab, &texts);
        visits += 1;
        assert_eq!(lab.pages.len(), visits, "one at a time");
    }
    // Everything is in the log.
    let before = lab.host(&texts[0]).claims;
    lab.restart(1_000);
    assert_eq!(lab.host(&texts[0]).claims, before);
    assert!(!before.is_believed());
    // From now on the claims are true, and in time they are believed again.
    for round in 0..20 {
        for text in &texts {
            let page = Report { digest: round + 1, ..Report::of(Outcome::Fetched, 200, Duration::ZERO) };
            lab.web.pages.insert(text.clone(), page);
        }
        lab.run(30 * MINUTE);
        claim(&mut lab, &texts);
    }
    assert!(lab.host(&texts[0]).claims.is_believed());
    assert!(lab.host(&texts[0]).claims.forward_max() == FORWARD_MAX);
}

#[test]
fn what_a_site_says_means_nothing_to_a_job_that_visits_once() {
    let mut lab = Lab::new(config());
    let texts = vec!["http://a.test/1".to_owned()];
    lab.offer(&[&texts[0]]);
    lab.run(60 * MINUTE);
    claim(&mut lab, &texts);
    assert_eq!(lab.pages.len(), 1);
}

/// Lets a page be visited this number of times, each time with this answer.
pub(super) fn visit(lab: &mut Lab, text: &str, times: usize, mut answer: impl FnMut(HeadFirst) -> Report) {
    for _ in 0..times {
        let before = lab.pages.len();
        let head = lab.pages.last().map_or(HeadFirst::No, |start| start.ticket.head);
        lab.web.pages.insert(text.into(), answer(head));
        while lab.pages.len() == before {
            lab.run(60 * MINUTE);
        }
    }
}

#[test]
fn large_pages_of_a_host_that_ignores_validators_are_asked_for_by_their_heads() {
    let mut config = config();
    config.frontier.slot_connections = 1;
    let mut lab = Lab::new(config);
    lab.say(adaptive());
    let text = "http://a.test/1";
    lab.offer(&[text]);
    let whole = |digest| Report {
        digest,
        etag: "\"1\"".into(),
        bytes: 1 << 20,
        conditional: true,
        ..Report::of(Outcome::Fetched, 200, Duration::ZERO)
    };
    visit(&mut lab, text, 12, |_| whole(7));
    assert!(lab.pages[..4].iter().all(|start| start.ticket.head == HeadFirst::No));
    let last = &lab.pages.last().unwrap().ticket;
    assert!(last.head != HeadFirst::No && last.known.is_some(), "{last:?}");
    assert!(lab.host(text).trust.is_believed());
    // Heads say that nothing has changed, and twice that is seen to be wrong.
    visit(&mut lab, text, 1, |_| Report {
        head: Some(HeadSaid::Unchanged),
        ..Report::of(Outcome::NotModified, 200, Duration::ZERO)
    });
    assert!(lab.host(text).trust.is_believed());
    let mut digest = 100;
    visit(&mut lab, text, 3, |_| {
        digest += 1;
        Report { head: Some(HeadSaid::Unchanged), etag: format!("\"{digest}\"").into(), ..whole(digest) }
    });
    assert!(!lab.host(text).trust.is_believed());
    visit(&mut lab, text, 2, |_| whole(7));
    let last = &lab.pages.last().unwrap().ticket;
    assert!(last.head == HeadFirst::No && last.known.is_none(), "{last:?}");
}

#[test]
fn trp_12_pages_that_change_at_every_visit_are_bounded_by_their_interval_and_by_their_host() {
    const DAYS: u64 = 4;
    const PAGES: u64 = 30;
    let mut lab = Lab::new(config());
    let mut job = Job::new(JobId(1), "press");
    let settings = Settings {
        policy: Policy::Adaptive,
        interval: Duration::from_secs(3_600),
        host_visits_per_day: 48,
        interval_max: Duration::from_secs(4 * 3_600),
        ..Settings::default()
    };
    job.schedule = Schedule::Adaptive(settings);
    lab.say(Entry::Job(Box::new(job)));
    let texts: Vec<String> = (0..PAGES).map(|n| format!("http://a.test/{n}")).collect();
    texts.iter().for_each(|text| lab.offer(&[text]));
    for minute in 0..DAYS * 24 * 12 {
        // A new version and another ad, each time.
        for text in &texts {
            let etag = format!("\"{minute}\"").into();
            let page =
                Report { digest: minute + 1, etag, ..Report::of(Outcome::Fetched, 200, Duration::ZERO) };
            lab.web.pages.insert(text.clone(), page);
        }
        lab.run(5 * MINUTE);
    }
    let visits = lab.pages.len() as u64 - PAGES;
    assert!(visits > 48, "{visits} visits");
    assert!(visits <= DAYS * 48 + PAGES, "{visits} visits in {DAYS} days");
    for text in &texts {
        let own: Vec<u64> = lab.pages.iter().filter(|s| s.ticket.url == *text).map(|s| s.at).collect();
        assert!(own.windows(2).all(|pair| pair[1] - pair[0] >= 30 * MINUTE), "{text}: {own:?}");
    }
}
