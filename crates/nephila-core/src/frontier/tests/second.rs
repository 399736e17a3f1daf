//! Immediate retries: a request that cannot have been answered is repeated once, with the usual rests.

use super::lab::{Lab, config, failed};
use crate::frontier::ticket::Report;
use crate::frontier::{Config, Settings};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;

const PAGE: &str = "http://a.test/1";

fn lab() -> Lab {
    // As shipped, but without jitter, so that times are exact.
    let frontier = Settings { recent_max: 64, ..Settings::default() };
    Lab::new(Config { frontier, ..config() })
}

#[test]
fn pro_03_a_request_without_an_answer_is_made_once_more_after_the_rest() {
    let mut lab = lab();
    lab.web.pages.insert(PAGE.into(), Report { again: true, ..failed(Outcome::EmptyReply, 0, None) });
    lab.offer(&[PAGE]);
    // The lab itself checks that every start comes after the rests.
    lab.run(20_000);
    assert_eq!(lab.urls(), [PAGE, PAGE], "once more, and then by the table");
    let between = lab.pages[1].at - lab.pages[0].at;
    assert!((2_000..5_000).contains(&between), "{between} ms");
    assert_eq!((lab.pages[0].ticket.retries, lab.pages[1].ticket.retries), (0, 1));
    let record = lab.record(PAGE);
    assert_eq!((record.retries, record.last.unwrap().outcome), (2, Outcome::EmptyReply));
    let later = lab.config.retry.back_off_other_first.as_millis() as u64;
    lab.run(later * 3);
    assert_eq!(lab.urls().len(), 3, "after its back-off");
}

#[test]
fn pro_03_a_second_try_that_works_leaves_nothing_behind() {
    let mut lab = lab();
    lab.web.pages.insert(PAGE.into(), Report { again: true, ..failed(Outcome::Misdirected, 421, None) });
    lab.offer(&[PAGE]);
    lab.run(2_200);
    assert_eq!(lab.urls(), [PAGE]);
    lab.web.pages.clear();
    lab.offer(&["http://a.test/2"]);
    lab.run(20_000);
    let mut urls = lab.urls();
    urls.sort_unstable();
    assert_eq!(urls, [PAGE, PAGE, "http://a.test/2"]);
    assert_eq!(lab.record(PAGE).last.unwrap().outcome, Outcome::Fetched);
    assert_eq!(lab.host(PAGE).failures, 0);
}

#[test]
fn pro_03_a_robots_txt_has_one_second_try_too() {
    let mut lab = lab();
    let robots = "http://a.test/robots.txt";
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Unreachable, String::new()));
    lab.web.robots_again.insert(robots.into());
    lab.offer(&[PAGE]);
    lab.run(60_000);
    assert_eq!(lab.robots.len(), 2, "once more, then it counts as not reached");
    assert!(lab.robots[1].at - lab.robots[0].at >= 2_000);
    assert_eq!(lab.robots.iter().map(|start| start.ticket.retries).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(lab.host(PAGE).failures, 1);
    lab.web.robots.clear();
    lab.web.robots_again.clear();
    lab.run(3_600_000);
    assert_eq!((lab.robots.len(), lab.urls()), (3, vec![PAGE]));
    assert_eq!(lab.robots[2].ticket.retries, 0, "a first try again");
}
