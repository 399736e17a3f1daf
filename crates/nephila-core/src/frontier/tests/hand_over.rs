//! Hand-over of partitions while the frontier runs.

use super::lab::{Lab, SECRET, config, key};
use crate::frontier::Frontier;
use crate::key::Prefixes;
use crate::state::State;
use crate::state::record::UrlState;

fn sites(pages: usize) -> Vec<String> {
    let page = |site: usize| move |page: usize| format!("http://s{site}.test/{page}");
    (0..3).flat_map(|site| (0..pages).map(page(site))).collect()
}

fn lab_with(urls: &[String]) -> Lab {
    let mut lab = Lab::new(config());
    lab.offer(&urls.iter().map(|url| &**url).collect::<Vec<_>>());
    lab
}

#[test]
fn a_partition_that_is_closed_gives_out_nothing_more_and_loses_nothing() {
    let urls = sites(10);
    let mut lab = lab_with(&urls);
    lab.run(4_500);
    let before = lab.pages.len();
    assert!(before >= 6, "{before}");
    lab.frontier.close_partition(0, lab.now);
    // An open page has another link; the hand-over waits for the page.
    lab.offer(&["http://s9.test/"]);
    assert!(!lab.frontier.is_closed(0));
    lab.run(20_000);
    assert_eq!(lab.pages.len(), before, "nothing was given out since");
    assert!(lab.frontier.is_closed(0));

    let state = lab.frontier.remove_partition(0);
    assert_eq!(lab.frontier.partitions(), 0);
    lab.frontier = Frontier::empty(lab.config.clone(), SECRET, 40);
    lab.frontier.add_partition(Prefixes::ALL, state, 7, lab.now);
    lab.run(60_000);
    let mut fetched: Vec<_> = lab.urls().into_iter().map(str::to_owned).collect();
    fetched.sort();
    let mut urls = urls;
    urls.push("http://s9.test/".into());
    urls.sort();
    assert_eq!(fetched, urls, "each once");
    assert!(lab.pages[before..].iter().all(|start| start.ticket.id.epoch() == 40));
    assert_eq!(lab.frontier.state(0).meta().epoch, 7);
}

#[test]
fn hosts_of_a_partition_that_is_taken_over_first_rest() {
    let urls = sites(4);
    let mut lab = lab_with(&urls);
    lab.run(2_000);
    // The owner dies; a node that has been running for long takes over at once.
    lab.restart(0);
    let state = std::mem::replace(&mut lab.frontier, Frontier::empty(lab.config.clone(), SECRET, 5));
    let state = state.into_states().remove(0);
    let taken = lab.now;
    let before = lab.pages.len() + lab.robots.len();
    lab.frontier.add_partition(Prefixes::ALL, state, 3, taken);
    lab.run(900);
    assert_eq!(lab.pages.len() + lab.robots.len(), before, "a rest is a second");
    lab.run(30_000);
    for url in &urls {
        assert_eq!(lab.record(url).state, UrlState::Ended, "{url}");
    }
}

#[test]
fn an_open_ticket_keeps_a_closed_partition_until_it_is_reported_or_expires() {
    let mut lab = lab_with(&sites(2));
    lab.web.silent.insert("http://s1.test/0".into());
    lab.run(3_000);
    lab.frontier.close_partition(0, lab.now);
    lab.run(100_000);
    assert!(!lab.frontier.is_closed(0));
    lab.run(300_000);
    assert!(lab.frontier.is_closed(0), "the ticket has expired");
    let mut state = lab.frontier.remove_partition(0);
    let record = state.url(&key("http://s1.test/0")).unwrap().unwrap();
    assert!(matches!(record.state, UrlState::Later(_)), "and is planned again");
}

#[test]
fn partitions_stand_in_the_order_of_their_prefixes_however_they_come() {
    let mut lab = Lab::with_partitions(config(), 4);
    let states = std::mem::replace(&mut lab.frontier, Frontier::empty(lab.config.clone(), SECRET, 5));
    let mut states: Vec<_> = states.into_states().into_iter().map(Some).collect();
    for number in [2, 0, 3, 1] {
        let state = states[number].take().unwrap();
        lab.frontier.add_partition(Prefixes::share(number as u32, 4), state, 2, lab.now);
    }
    lab.offer(&["http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/", "http://e.test/"]);
    lab.run(10_000);
    assert_eq!(lab.pages.len(), 5);
}
