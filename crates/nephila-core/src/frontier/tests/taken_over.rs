//! Jobs that want URLs of other jobs.

use super::lab::{Lab, config, url};
use crate::entry::Entry;
use crate::frontier::Offered;
use crate::frontier::ticket::Ticket;
use crate::job::{Job, JobId, State};

const MINUTE: u64 = 60_000;

fn job(id: u32, state: State) -> Entry {
    Entry::Job(Box::new(Job { state, ..Job::new(JobId(id), "press") }))
}

fn texts() -> Vec<String> {
    (0..6).map(|number| format!("http://a.test/{number}")).collect()
}

/// A lab in which job 1 is stopped after its first pages.
fn stopped() -> Lab {
    let mut lab = Lab::new(config());
    lab.say(job(1, State::Running));
    lab.commit();
    texts().iter().for_each(|text| lab.offer(&[text]));
    lab.run(3_500);
    lab.say(job(1, State::Stopped));
    lab.run(1_000);
    assert!((1..texts().len() - 1).contains(&lab.pages.len()), "{:?}", lab.urls());
    lab
}

fn open(lab: &Lab, id: u32) -> u64 {
    lab.frontier.totals().open.get(&id).copied().unwrap_or(0)
}

#[test]
fn urls_of_a_stopped_job_belong_to_the_running_job_that_offers_them() {
    // Right after the stop, and when the URLs of the stopped job have been denied and planned for later.
    for (wait, restarts) in [(0, false), (5 * MINUTE, false), (0, true), (5 * MINUTE, true)] {
        let mut lab = stopped();
        lab.run(wait);
        let before = lab.pages.len();
        assert_eq!(open(&lab, 1), (texts().len() - before) as u64);
        // A page that was under way at the stop names them once more.
        texts().iter().for_each(|text| _ = lab.offer_as(text, 1, 1, 5));
        lab.say(job(2, State::Running));
        lab.commit();
        for text in texts() {
            assert_eq!(lab.offer_as(&text, 2, 1, 5), Offered::Taken, "{text}");
        }
        lab.commit();
        assert_eq!((open(&lab, 1), open(&lab, 2)), (0, (texts().len() - before) as u64));
        if restarts {
            lab.restart(1_000);
        }
        lab.run(10 * MINUTE);
        let mut pages = lab.urls();
        pages.sort_unstable();
        assert_eq!(pages, texts(), "each page once");
        let is_of_new = |ticket: &Ticket| (ticket.job, ticket.depth) == (JobId(2), 1);
        assert!(lab.pages[before..].iter().all(|page| is_of_new(&page.ticket)));
        assert_eq!((open(&lab, 1), open(&lab, 2), lab.host("http://a.test/").waiting), (0, 0, 0));
    }
}

#[test]
fn a_stopped_job_takes_nothing_from_another() {
    let mut lab = stopped();
    let before = lab.pages.len();
    lab.say(job(2, State::Stopped));
    lab.commit();
    texts().iter().for_each(|text| _ = lab.offer_as(text, 2, 1, 5));
    lab.run(30 * MINUTE);
    assert_eq!((lab.pages.len(), open(&lab, 2)), (before, 0));
    // The URLs wait for their own job.
    lab.say(job(1, State::Running));
    lab.run(30 * MINUTE);
    assert_eq!(lab.pages.len(), texts().len());
}

#[test]
fn a_page_is_fetched_again_for_the_job_that_wants_it() {
    let mut lab = Lab::new(config());
    lab.say(job(1, State::Running));
    lab.say(job(2, State::Running));
    lab.commit();
    let text = "http://a.test/1";
    lab.offer(&[text]);
    lab.run(MINUTE);
    assert!(lab.frontier.fetch_again(&url(text), Some(JobId(2))).unwrap().is_some());
    lab.run(MINUTE);
    let jobs: Vec<JobId> = lab.pages.iter().map(|page| page.ticket.job).collect();
    assert_eq!((jobs, lab.record(text).job), (vec![JobId(1), JobId(2)], JobId(2)));
}
