//! Known URLs that become something else: a feed that a user adds, a story that a feed names. Also the names of refused
//! hosts.

use std::time::Duration;

use super::lab::{Lab, config, key, url};
use crate::entry::{DomainChange, Entry};
use crate::event::{self, Kind};
use crate::feed::record::{Brought, Record};
use crate::feed::schedule::PollAnswer;
use crate::frontier::offers::Offer;
use crate::frontier::ticket::Report;
use crate::frontier::{Config, Offered, URGENT};
use crate::handler::ReadAs;
use crate::job::JobId;
use crate::spider::outcome::Outcome;
use crate::state::State;
use crate::state::record::UrlState;
use crate::want::Want;

const MINUTE: u64 = 60_000;
const FEED: &str = "http://a.test/feed";
const PAGE: &str = "http://a.test/page";

/// One loaded URL at a time, and a rest long enough for other events.
fn slow() -> Config {
    let mut config = config();
    config.frontier.visit_urls_max = 1;
    config.frontier.host_delay = Duration::from_secs(100);
    config
}

/// Offers a URL, and writes nothing.
fn offer(lab: &mut Lab, text: &str, depth: u8, read_as: ReadAs, priority: u8) {
    let whole = url(text);
    let origin = whole.origin();
    let offered = lab.frontier.offer(Offer {
        key: key(text),
        origin,
        text: whole.path_and_query(),
        want: &Want { depth, read_as, priority, ..Want::of(JobId(1)) },
    });
    assert_eq!(offered, Offered::Taken, "{text}");
}

/// A user adds the feed, which has a story at each poll. Writes nothing.
fn add_feed(lab: &mut Lab) {
    let answer = PollAnswer::Read { entries: 10, new: 1, oldest_new: None, dated_gap: None };
    let feed = Some(Box::new(Brought::of(answer, &Record::default())));
    let report = Report { feed, ..Report::of(Outcome::Fetched, 200, Duration::ZERO) };
    lab.web.pages.insert(FEED.into(), report);
    offer(lab, FEED, 0, ReadAs::Feed, URGENT);
}

/// The feed is polled again and again, and counted once.
fn check_followed(lab: &mut Lab, what: &str) {
    let polls = lab.frontier.feed(&key(FEED)).unwrap().polls.len();
    assert!(polls >= 2, "{polls} polls: {what}");
    let (record, host) = (lab.record(FEED), lab.host(FEED));
    assert_eq!((record.read_as, record.depth), (ReadAs::Feed, 0), "{what}");
    assert_eq!((host.waiting, host.parked, host.later), (0, 0, 1), "{what}");
}

/// The reading of each ticket of a URL, first to last.
fn readings(lab: &Lab, text: &str) -> Vec<ReadAs> {
    lab.pages.iter().filter(|start| start.ticket.url == text).map(|start| start.ticket.read_as).collect()
}

#[test]
fn a_feed_that_is_added_while_it_waits_is_followed() {
    for (priority, restarts) in [(5, false), (5, true), (URGENT, false), (URGENT, true)] {
        let what = format!("priority {priority}, restarts: {restarts}");
        let mut lab = Lab::new(slow());
        lab.offer(&["http://a.test/first"]);
        lab.run(2_000);
        offer(&mut lab, FEED, 2, ReadAs::Page, priority);
        lab.run(2_000);
        assert_eq!((lab.record(FEED).state, lab.record(FEED).depth), (UrlState::Waiting, 2), "{what}");
        let waiting = lab.host(FEED).waiting;
        add_feed(&mut lab);
        lab.commit();
        let record = lab.record(FEED);
        assert_eq!((record.state, record.depth, record.read_as), (UrlState::Waiting, 0, ReadAs::Feed));
        assert_eq!(lab.host(FEED).waiting, waiting, "{what}");
        if restarts {
            lab.restart(1_000);
        }
        lab.run(30 * MINUTE);
        assert!(readings(&lab, FEED).iter().all(|read_as| *read_as == ReadAs::Feed), "{what}");
        check_followed(&mut lab, &what);
        // Another offer changes nothing.
        let (before, polls) = (lab.record(FEED), lab.pages.len());
        add_feed(&mut lab);
        lab.commit();
        assert_eq!((lab.record(FEED), lab.pages.len()), (before, polls), "{what}");
    }
}

#[test]
fn a_feed_that_is_added_while_it_is_at_hand_or_fetched_is_followed_though_its_outcome_is_lost() {
    // The robots.txt is read after ten seconds; then its host rests, and ten seconds more take the page.
    for (added_at, fetching) in [(15_000, 0), (115_000, 1)] {
        for restarts in [false, true] {
            let what = format!("added at {added_at}, restarts: {restarts}");
            let mut lab = Lab::new(slow());
            lab.took = 10_000;
            offer(&mut lab, FEED, 2, ReadAs::Page, 5);
            lab.run(added_at);
            assert_eq!(lab.pages.len(), fetching, "{what}");
            add_feed(&mut lab);
            lab.commit();
            if restarts {
                lab.restart(1_000);
            }
            lab.run(30 * MINUTE);
            check_followed(&mut lab, &what);
        }
    }
}

#[test]
fn a_feed_that_is_added_while_a_plan_of_it_is_fetched_is_followed_though_its_outcome_is_lost() {
    let mut lab = Lab::new(slow());
    lab.web.pages.insert(FEED.into(), Report::of(Outcome::ServerError, 500, Duration::ZERO));
    offer(&mut lab, FEED, 2, ReadAs::Page, 5);
    lab.run(5 * MINUTE);
    assert!(matches!(lab.record(FEED).state, UrlState::Later(_)));
    // Until its retry is being fetched.
    lab.took = 10_000;
    let asked = lab.pages.len();
    while lab.pages.len() == asked {
        lab.run(1_000);
    }
    add_feed(&mut lab);
    lab.commit();
    assert!(matches!(lab.record(FEED).state, UrlState::Later(_)), "its outcome takes it from the plans");
    lab.restart(1_000);
    lab.run(90 * MINUTE);
    check_followed(&mut lab, "planned and fetched");
}

#[test]
fn what_is_parked_becomes_a_feed_or_a_story_and_the_budget_has_the_last_word() {
    let mut config = config();
    (config.rules.budget.domain_urls, config.rules.budget.domain_urls_per_day) = (1, 0);
    let mut lab = Lab::new(config);
    lab.offer(&["http://a.test/first"]);
    lab.run(5_000);
    offer(&mut lab, FEED, 2, ReadAs::Page, 5);
    offer(&mut lab, PAGE, 2, ReadAs::Page, 5);
    lab.run(5_000);
    add_feed(&mut lab);
    offer(&mut lab, PAGE, 1, ReadAs::Story, URGENT);
    lab.run(10 * MINUTE);
    let (feed, page) = (lab.record(FEED), lab.record(PAGE));
    assert_eq!((feed.state, feed.depth, feed.read_as), (UrlState::Parked, 0, ReadAs::Feed));
    assert_eq!((page.state, page.depth, page.read_as), (UrlState::Parked, 1, ReadAs::Story));
    assert_eq!((lab.pages.len(), lab.host(FEED).parked, lab.host(FEED).waiting), (1, 2, 0));
    lab.restart(1_000);
    let domain = key(FEED).host.domain;
    lab.say(Entry::Domain(DomainChange::Budget(domain, Some(3))));
    lab.run(20 * MINUTE);
    check_followed(&mut lab, "parked");
    assert_eq!(readings(&lab, PAGE), [ReadAs::Story]);
    let record = lab.frontier.state(0).domain(domain).unwrap().unwrap();
    assert_eq!((record.admitted, record.parked), (3, 0));
}

#[test]
fn a_page_that_waits_is_a_story_once_a_feed_names_it_and_one_that_has_ended_stays_a_page() {
    for priority in [5, URGENT] {
        let mut lab = Lab::new(slow());
        lab.offer(&["http://a.test/first"]);
        lab.run(2_000);
        offer(&mut lab, PAGE, 2, ReadAs::Page, priority);
        lab.run(2_000);
        offer(&mut lab, PAGE, 1, ReadAs::Story, URGENT);
        lab.run(20 * MINUTE);
        assert_eq!(readings(&lab, PAGE), [ReadAs::Story], "priority {priority}");
        offer(&mut lab, "http://a.test/first", 1, ReadAs::Story, URGENT);
        lab.run(20 * MINUTE);
        assert_eq!(readings(&lab, "http://a.test/first"), [ReadAs::Page], "fetched once, and before");
        assert_eq!(lab.host(PAGE).waiting, 0);
    }
}

#[test]
fn what_a_group_on_its_way_moves_is_not_read_from_its_old_place() {
    let mut config = config();
    config.frontier.visit_urls_max = 1;
    let mut lab = Lab::new(config);
    // Found in one second, they leave in the order of their keys: enough of them come before the feed.
    let low = |text: &str| key(text).path as u32;
    let texts = (0..10_000).map(|n| format!("http://a.test/{n}")).filter(|text| low(text) < low(FEED));
    let texts: Vec<String> = texts.take(3).collect();
    assert_eq!(texts.len(), 3, "choose another name for the feed");
    for text in texts.iter().map(String::as_str).chain([FEED]) {
        offer(&mut lab, text, 2, ReadAs::Page, 5);
    }
    lab.run(1_150);
    assert_eq!(lab.pages.len(), 1, "the first is being fetched");
    add_feed(&mut lab);
    assert!(lab.frontier.poll_group(0, lab.now).unwrap().is_some(), "it is on its way, for long");
    lab.run(10_000);
    assert_eq!(lab.pages.len(), 3, "the others are read meanwhile");
    lab.frontier.handle_committed(0, lab.now).unwrap();
    lab.run(20 * MINUTE);
    assert!(readings(&lab, FEED).iter().all(|read_as| *read_as == ReadAs::Feed));
    check_followed(&mut lab, "moved");
}

#[test]
fn urls_of_a_host_that_is_refused_itself_are_told_with_their_names() {
    let mut config = config();
    config.rules.trap.hosts_per_domain_max = 1;
    let mut lab = Lab::new(config);
    lab.offer(&["http://one.flood.test/"]);
    lab.commit();
    lab.offer(&["http://two.flood.test/a", "http://two.flood.test/b", "http://three.flood.test/c"]);
    let bytes = lab.frontier.poll_group(0, lab.now).unwrap().unwrap();
    let (events, _) = event::of_bytes(0, &bytes).unwrap();
    let mut told: Vec<_> = events.iter().map(|event| (event.kind, &*event.url)).collect();
    told.sort_unstable();
    let urls = ["http://three.flood.test/c", "http://two.flood.test/a", "http://two.flood.test/b"];
    assert_eq!(told, urls.map(|url| (Kind::Refused, url)));
    lab.frontier.handle_committed(0, lab.now).unwrap();
}
