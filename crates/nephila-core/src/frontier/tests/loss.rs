//! Reports that are lost, late or duplicated; names without an address; processes that end in the middle.

use std::time::Duration;

use super::lab::{Lab, config, failed, key};
use crate::entry::Entry;
use crate::frontier::ticket::Report;
use crate::job::{Job, JobId, Schedule};
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;

#[test]
fn a_ticket_that_nobody_reports_expires_and_the_late_report_is_ignored() {
    let mut lab = Lab::new(config());
    lab.web.silent.insert("http://a.test/1".into());
    lab.offer(&["http://a.test/1"]);
    lab.run(200_000);
    assert_eq!((lab.pages.len(), lab.frontier.gauges().tickets_open), (1, 1), "five minutes are not over");
    lab.run(150_000);
    assert_eq!((lab.frontier.stats().expired, lab.frontier.gauges().tickets_open), (1, 0));
    let record = lab.record("http://a.test/1");
    assert!(matches!(record.state, UrlState::Later(_)));
    assert_eq!((record.retries, record.last.unwrap().outcome), (1, Outcome::TotalTimeout));

    let lost = lab.pages[0].ticket.clone();
    let report = Report::of(Outcome::Fetched, 200, Duration::from_secs(1));
    assert!(!lab.frontier.handle_report(lost.id, &report, lab.now).unwrap(), "it comes too late");
    assert_eq!(lab.frontier.stats().late, 1);
    lab.close(&lost);
    lab.web.silent.clear();
    lab.run(2 * 3_600_000);
    assert_eq!(lab.pages.len(), 2);
    assert_eq!(lab.pages[1].ticket.retries, 1);
    let record = lab.record("http://a.test/1");
    assert_eq!((record.state, record.retries), (UrlState::Ended, 0));
    assert_eq!(lab.host("http://a.test/").ended, 2);
}

#[test]
fn a_report_that_comes_twice_counts_once() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1"]);
    lab.run(5_000);
    let report = Report::of(Outcome::NotFound, 404, Duration::from_secs(1));
    assert!(!lab.frontier.handle_report(lab.pages[0].ticket.id, &report, lab.now).unwrap());
    lab.run(5_000);
    assert_eq!(lab.record("http://a.test/1").last.unwrap().outcome, Outcome::Fetched);
    assert_eq!(lab.host("http://a.test/").ended, 1);
}

#[test]
fn a_url_that_keeps_failing_is_given_up() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::ServerError, 500, None));
    lab.offer(&["http://a.test/1"]);
    lab.run(40 * 24 * 3_600_000);
    let retries: Vec<u8> = lab.pages.iter().map(|start| start.ticket.retries).collect();
    assert_eq!(retries, [0, 1, 2, 3, 4, 5], "once, and five times more");
    let gaps: Vec<u64> = lab.pages.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(gaps.is_sorted() && gaps[4] >= 10 * gaps[0], "each wait is longer: {gaps:?}");
    assert_eq!(lab.record("http://a.test/1").state, UrlState::Ended);
}

#[test]
fn a_process_that_ends_loses_no_url_and_doubles_only_what_was_open() {
    let mut lab = Lab::new(config());
    for host in 0..20 {
        for url in 0..10 {
            lab.offer_as(&format!("http://h{host}.test/{url}"), 1, 0, 5);
        }
    }
    let mut lost = 0;
    for gap in [3_700, 2_950, 4_050, 5_333] {
        lab.run(gap);
        lost += lab.frontier.gauges().tickets_open;
        lab.restart(500);
    }
    lab.run(120_000);
    let mut urls: Vec<&str> = lab.urls();
    let all = urls.len();
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), 200, "every URL");
    assert!(all - 200 <= lost, "{} more than once, {lost} were open", all - 200);
    for host in 0..20 {
        let host = lab.host(&format!("http://h{host}.test/"));
        assert_eq!((host.waiting, host.ended), (0, 10));
    }
}

#[test]
fn tickets_of_another_epoch_have_other_numbers() {
    let mut lab = Lab::new(config());
    lab.web.silent.insert("http://a.test/1".into());
    lab.offer(&["http://a.test/1"]);
    lab.run(5_000);
    let old = lab.pages[0].ticket.clone();
    lab.restart(0);
    lab.run(5_000);
    let new = &lab.pages[1].ticket;
    assert_eq!((&new.url, new.retries), (&old.url, 0), "nothing is known of the first try");
    assert!(new.id > old.id && new.id.epoch() > old.id.epoch());
    let report = Report::of(Outcome::NotFound, 404, Duration::from_secs(1));
    assert!(!lab.frontier.handle_report(old.id, &report, lab.now).unwrap());
}

#[test]
fn a_name_without_an_address_ends_with_the_reason_and_is_tried_again() {
    let mut lab = Lab::new(config());
    lab.web.no_address.insert("http://a.test".into(), Outcome::DnsNxdomain);
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.run(10_000);
    assert!(lab.robots.is_empty() && lab.pages.is_empty());
    assert_eq!(lab.resolves, 1, "one lookup for all of them");
    for text in ["http://a.test/1", "http://a.test/2"] {
        let record = lab.record(text);
        assert!(matches!(record.state, UrlState::Later(_)), "{:?}", record.state);
        assert_eq!(record.last.unwrap().outcome, Outcome::DnsNxdomain);
    }
    lab.web.no_address.clear();
    lab.run(3_600_000);
    assert_eq!(lab.pages.len(), 2);
}

#[test]
fn a_page_on_a_schedule_comes_again() {
    let mut lab = Lab::new(config());
    let mut job = Job::new(JobId(1), "press");
    job.schedule = Schedule::Every(Duration::from_secs(3_600));
    lab.say(Entry::Job(Box::new(job)));
    lab.offer(&["http://a.test/1"]);
    lab.run(4 * 3_600_000 + 60_000);
    assert_eq!(lab.pages.len(), 5, "at once, and after each of four hours");
    assert!(lab.pages.windows(2).all(|pair| (3_600_000..3_660_000).contains(&(pair[1].at - pair[0].at))));
}

#[test]
fn a_page_that_comes_again_brings_what_its_last_report_said_of_its_version() {
    let mut lab = Lab::new(config());
    let mut job = Job::new(JobId(1), "press");
    job.schedule = Schedule::Every(Duration::from_secs(3_600));
    lab.say(Entry::Job(Box::new(job)));
    let page = |etag: &str, outcome| Report {
        etag: etag.into(),
        digest: 7,
        ..Report::of(outcome, 200, Duration::ZERO)
    };
    let text = "http://a.test/1";
    let mut sent = Vec::new();
    lab.offer(&[text, "http://a.test/without-a-version"]);
    for (etag, outcome) in [
        ("one", Outcome::Fetched),
        ("", Outcome::NotModified),
        ("two", Outcome::Fetched),
        ("", Outcome::ServerError),
        ("two", Outcome::Fetched),
    ] {
        lab.web.pages.insert(text.into(), page(etag, outcome));
        let before = lab.pages.iter().filter(|start| start.ticket.url == text).count();
        while lab.pages.iter().filter(|start| start.ticket.url == text).count() == before {
            lab.run(60_000);
        }
        let start = lab.pages.iter().rfind(|start| start.ticket.url == text).unwrap();
        sent.push(start.ticket.known.as_ref().map_or("none".to_owned(), |known| known.etag.to_string()));
    }
    assert_eq!(sent, ["none", "one", "one", "two", "two"], "a failure says nothing new of the page");
    assert!(
        lab.pages.iter().filter(|start| start.ticket.url != text).all(|start| start.ticket.known.is_none())
    );
}

#[test]
fn a_paused_job_waits_and_goes_on() {
    let mut lab = Lab::new(config());
    let job = |state| Entry::Job(Box::new(Job { state, ..Job::new(JobId(1), "press") }));
    lab.say(job(crate::job::State::Paused));
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.offer_as("http://a.test/of-another-job", 2, 0, 5);
    lab.run(60_000);
    assert_eq!(lab.urls(), ["http://a.test/of-another-job"]);
    assert!(matches!(lab.record("http://a.test/1").state, UrlState::Later(_)));
    lab.run(3_600_000);
    assert_eq!(lab.pages.len(), 1);
    lab.say(job(crate::job::State::Running));
    lab.run(1_200_000);
    assert_eq!(lab.pages.len(), 3);
    assert_eq!(lab.record("http://a.test/2").state, UrlState::Ended);
}

#[test]
fn a_stopped_host_is_left_alone_until_it_may_go_on() {
    use crate::entry::HostChange;
    let mut lab = Lab::new(config());
    let texts: Vec<String> = (0..10).map(|i| format!("http://a.test/{i}")).collect();
    lab.offer(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    lab.run(2_500);
    let before = lab.pages.len();
    let host = key("http://a.test/").host;
    lab.say(Entry::Host(HostChange::Stop(host, "asked to by mail".into())));
    lab.run(600_000);
    assert_eq!(lab.pages.len(), before, "not one more");
    assert_eq!(lab.frontier.gauges().hosts_active, 0);
    lab.offer_as("http://a.test/new", 1, 0, 5);
    lab.run(60_000);
    assert_eq!(lab.pages.len(), before, "new links change nothing");
    lab.restart(1_000);
    lab.run(60_000);
    assert_eq!(lab.pages.len(), before, "nor does a restart");
    lab.say(Entry::Host(HostChange::Resume(host)));
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 11);
}
