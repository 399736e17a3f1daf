//! Sums of nodes, and the sentences that follow.

use nephila_engine::crawl::held::HostsWait;

use super::*;

fn part(name: &str, pages_per_s: f64, resting: u64) -> StatusPart {
    let hosts = HostsWait { resting, ..HostsWait::default() };
    let stages = vec![Stage { name: "store".into(), length: 3, capacity: 512 }];
    StatusPart {
        status: StatusSaid {
            name: name.into(),
            state: "crawling".into(),
            rates: Rates { pages_per_s, ..Rates::default() },
            rates_60s: Rates { pages_per_s, ..Rates::default() },
            frontier: FrontierSaid { queued: 600, ..FrontierSaid::default() },
            done: DoneSaid { pages: 10, ..DoneSaid::default() },
            disk: DiskSaid { free_bytes: 100, full_in_s: None },
            ..StatusSaid::default()
        },
        facts: Facts { nodes: 1, jobs_running: 1, hosts, stages, ..Facts::default() },
    }
}

#[test]
fn one_sentence_says_what_it_does_and_what_holds_it_back() {
    let status = part("a", 61.14, 3_412).conclude();
    assert_eq!(status.sentence, "61.1 pages/s, held by politeness: 3 412 hosts.");
    assert_eq!(status.limited_by.reason, Reason::Politeness);
    assert_eq!(status.drain_in_s, Some(9));
    let waits: Vec<(&str, u64)> = status.waits.iter().map(|wait| (&*wait.what, wait.tickets)).collect();
    assert!(waits.contains(&("politeness", 3_412)) && waits.contains(&("store", 3)), "{waits:?}");
}

#[test]
fn the_disk_and_the_alarms_are_in_the_sentence() {
    let mut part = part("a", 611.0, 1);
    part.status.disk.full_in_s = Some(9 * 86_400);
    part.status.alarms = vec![AlarmSaid::default(), AlarmSaid::default()];
    assert_eq!(
        part.conclude().sentence,
        "611 pages/s, held by politeness: 1 host; disk full in 9 days; 2 alarms."
    );
}

#[test]
fn a_crawl_without_work_says_so() {
    let mut part = part("a", 0.0, 0);
    part.status.state = "ready".into();
    part.status.frontier.queued = 0;
    let status = part.conclude();
    assert_eq!(status.sentence, "It waits for work: nothing is left to fetch.");
    assert_eq!((status.limited_by.reason, status.drain_in_s), (Reason::Nothing, None));
    let archive = StatusPart { facts: Facts::of_archive(), ..StatusPart::default() }.conclude();
    assert_eq!(archive.sentence, "A finished archive: it is read, and nothing is fetched.");
}

#[test]
fn the_nodes_of_a_cluster_are_added() {
    let mut all = part("a", 20.0, 5);
    let mut other = part("b", 21.5, 7);
    other.status.disk = DiskSaid { free_bytes: 50, full_in_s: Some(600) };
    other.status.alarms =
        vec![AlarmSaid { name: "disk".into(), text: "it is full".into(), since: String::new() }];
    let row = NodeRow::of(&other.status);
    assert_eq!((row.pages_per_s, row.queued, row.alarms), (21.5, 600, 1));
    all.add(other);
    let status = all.conclude();
    assert_eq!((status.rates.pages_per_s, status.frontier.queued, status.done.pages), (41.5, 1_200, 20));
    assert_eq!(status.disk.full_in_s, Some(600));
    assert_eq!(status.alarms[0].text, "node b: it is full");
    assert_eq!(status.stages[0], Stage { name: "store".into(), length: 6, capacity: 1_024 });
    assert!(status.sentence.starts_with("41.5 pages/s, held by politeness: 12 hosts; disk full in 10 min"));
    assert_eq!(NodeRow::silent("c", "why".into()).state, "unknown");
}

#[test]
fn alarms_of_many_nodes_are_bounded() {
    let mut all = part("a", 1.0, 1);
    for number in 0..300 {
        let mut other = part(&number.to_string(), 1.0, 1);
        other.status.alarms = vec![AlarmSaid::default()];
        all.add(other);
    }
    assert_eq!(all.conclude().alarms.len(), ALARMS_MAX);
}

#[test]
fn outcomes_of_all_runs_are_counted_by_class() {
    let mut tally = Tally::default();
    for (outcome, number) in [
        (Outcome::Fetched, 5),
        (Outcome::Redirect, 4),
        (Outcome::NotFound, 3),
        (Outcome::Forbidden, 2),
        (Outcome::ConnectRefused, 1),
    ] {
        tally.ended.insert(outcome.code(), number);
    }
    tally.bytes = 99;
    let done = DoneSaid::of(&tally);
    assert_eq!((done.pages, done.ok, done.redirect, done.missing), (5, 5, 4, 3));
    assert_eq!((done.refused, done.failed, done.bytes), (2, 1, 99));
}
