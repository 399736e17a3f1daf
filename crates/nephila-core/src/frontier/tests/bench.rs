//! The workbench: bounded, and never idle while a host has work.

use super::lab::{Lab, config, failed};
use crate::frontier::Config;
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;

fn offer_many(lab: &mut Lab, hosts: usize, urls: usize) {
    for host in 0..hosts {
        for url in 0..urls {
            lab.offer_as(&format!("http://h{host}.test/{url}"), 1, 0, 5);
        }
    }
    lab.commit();
}

fn small(hosts: usize, urls: usize) -> Config {
    let mut config = config();
    config.frontier.hosts_active_max = hosts;
    config.frontier.visit_urls_max = urls;
    config
}

#[test]
fn a_thousand_hosts_pass_through_ten_places() {
    let mut lab = Lab::new(small(10, 5));
    lab.took = 0;
    offer_many(&mut lab, 1_000, 2);
    for _ in 0..400 {
        lab.run(1_000);
        assert!(lab.frontier.gauges().hosts_active <= 10);
    }
    assert_eq!(lab.pages.len(), 2_000, "every URL of every host");
    assert_eq!(lab.frontier.gauges().tickets_open, 0);
}

#[test]
fn a_large_host_gives_its_place_up_and_comes_back() {
    let mut lab = Lab::new(small(2, 3));
    offer_many(&mut lab, 8, 20);
    lab.run(30_000);
    let mut hosts: Vec<&str> =
        lab.pages.iter().map(|start| start.ticket.url.split('/').nth(2).unwrap()).collect();
    hosts.sort();
    hosts.dedup();
    assert!(hosts.len() > 2, "hosts take turns: {hosts:?}");
    lab.run(400_000);
    assert_eq!(lab.pages.len(), 160, "and nothing of the large ones is left behind");
}

#[test]
fn what_has_no_place_stays_in_the_state() {
    let mut lab = Lab::new(small(3, 4));
    offer_many(&mut lab, 50, 30);
    lab.run(500);
    let gauges = lab.frontier.gauges();
    assert_eq!((gauges.hosts_active, gauges.offers_waiting), (3, 0));
    assert!(gauges.bench_bytes < 3 * 1_500 + 4_096, "{gauges:?}");
    let queued = lab.frontier.state(0).tables.queued.len();
    assert_eq!(queued, 1_500, "all of them, those at hand as well, until they have ended");
    assert_eq!(lab.record("http://h49.test/29").state, UrlState::Waiting);
}

#[test]
fn a_host_that_rests_long_makes_place_for_others() {
    let mut lab = Lab::new(small(1, 5));
    for host in ["a", "b"] {
        for url in 0..3 {
            lab.offer_as(&format!("http://{host}.test/{url}"), 1, 0, 5);
            let busy = failed(Outcome::Unavailable, 503, Some(3_600));
            lab.web.pages.insert(format!("http://{host}.test/{url}"), busy);
        }
    }
    lab.run(60_000);
    let mut origins: Vec<&str> = lab.urls().iter().map(|url| &url[..13]).collect();
    origins.sort();
    assert_eq!(origins, ["http://a.test", "http://b.test"], "each was asked once, then rested an hour");
    lab.web.pages.clear();
    lab.run(2 * 3_600_000);
    assert_eq!(lab.pages.len(), 8, "the others, and the two that failed once more");
}

#[test]
fn a_search_for_work_passes_hosts_that_have_none() {
    let mut lab = Lab::new(small(400, 5));
    lab.took = 0;
    // More hosts than one search looks at, all of them read.
    offer_many(&mut lab, 300, 1);
    lab.run(600_000);
    assert_eq!(lab.pages.len(), 300);
    assert_eq!(lab.frontier.gauges().hosts_active, 0, "whoever has no work leaves");
    // After a restart the hosts with work are unknown: the few of them stand anywhere among the others.
    for host in (0..300).step_by(23) {
        lab.offer_as(&format!("http://h{host}.test/new"), 1, 0, 5);
    }
    lab.commit();
    lab.restart(0);
    lab.run(600_000);
    assert_eq!(lab.pages.len(), 300 + 300usize.div_ceil(23));
}

#[test]
fn hosts_of_several_partitions_share_one_bench() {
    let mut lab = Lab::with_partitions(small(7, 3), 5);
    lab.took = 0;
    offer_many(&mut lab, 150, 4);
    for _ in 0..60 {
        lab.run(5_000);
        assert!(lab.frontier.gauges().hosts_active <= 7);
    }
    lab.restart(1_000);
    lab.run(600_000);
    assert_eq!(lab.pages.len(), 600);
    assert!((0..5).all(|at| lab.frontier.state(at).tables.hosts.len() > 5), "each partition has its share");
    assert!(lab.frontier.poll_timeout(lab.now).is_none());
}

#[test]
fn a_url_of_another_nodes_partition_is_not_taken() {
    use super::lab::SECRET;
    use crate::frontier::{Frontier, Offered};
    use crate::key::Prefixes;
    use crate::state::MemoryState;
    let mut lab = Lab::new(config());
    lab.frontier = Frontier::new(config(), SECRET, vec![(Prefixes::share(1, 4), MemoryState::new())], None);
    let taken =
        |lab: &mut Lab, host: u32| lab.offer_as(&format!("http://h{host}.test/"), 1, 0, 5) == Offered::Taken;
    let count = (0..400).filter(|host| taken(&mut lab, *host)).count();
    assert!((60..140).contains(&count), "{count} of 400 belong to a quarter of the prefixes");
}

#[test]
fn a_plan_wakes_its_host_when_it_is_due() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::ServerError, 500, None));
    lab.offer(&["http://a.test/1"]);
    lab.run(10_000);
    assert_eq!((lab.pages.len(), lab.frontier.gauges().hosts_active), (1, 0), "it left meanwhile");
    lab.web.pages.clear();
    let wake = lab.frontier.poll_timeout(lab.now).expect("a plan is a reason to wake up");
    assert!(wake > lab.now.mono + 800_000, "not before a quarter of an hour");
    lab.run(3_600_000);
    assert_eq!(lab.pages.len(), 2);
    assert_eq!(lab.record("http://a.test/1").state, UrlState::Ended);
}

#[test]
fn hosts_of_a_domain_share_its_places_and_all_get_a_turn() {
    let mut config = config();
    config.frontier.domain_hosts_active_max = 2;
    let mut lab = Lab::new(config);
    for host in 0..12 {
        lab.offer_as(&format!("http://h{host}.shop.test/"), 1, 0, 5);
    }
    lab.offer_as("http://other.test/", 1, 0, 5);
    lab.run(1_500);
    assert!(lab.frontier.gauges().hosts_active <= 3);
    assert!(lab.urls().contains(&"http://other.test/"), "another domain is not held up");
    lab.run(120_000);
    assert_eq!(lab.pages.len(), 13);
}

#[test]
fn more_offers_than_there_is_room_for_wait_outside() {
    use crate::frontier::Offered;
    let mut config = config();
    config.frontier.offers_max = 10;
    let mut lab = Lab::new(config);
    for url in 0..10 {
        assert_eq!(lab.offer_as(&format!("http://a.test/{url}"), 1, 0, 5), Offered::Taken);
    }
    assert_eq!(lab.offer_as("http://a.test/10", 1, 0, 5), Offered::Full);
    lab.commit();
    assert_eq!(lab.offer_as("http://a.test/10", 1, 0, 5), Offered::Taken);
    assert_eq!(lab.offer_as("http://a.test/10", 1, 0, 5), Offered::Recent);
}

#[test]
fn open_tickets_and_lookups_are_bounded() {
    let mut config = config();
    config.frontier.tickets_open_max = 4;
    config.frontier.resolves_open_max = 1;
    let mut lab = Lab::new(config);
    lab.took = 5_000;
    offer_many(&mut lab, 20, 1);
    lab.run(1_000);
    assert_eq!(lab.frontier.gauges().tickets_open, 4);
    lab.run(300_000);
    assert_eq!(lab.pages.len(), 20);
}

#[test]
fn a_host_at_hand_takes_less_than_one_and_a_half_kilobytes() {
    const HOSTS: usize = 10_000;
    let mut config = config();
    config.frontier =
        crate::frontier::Settings { recent_max: 64, tickets_open_max: 100, ..Default::default() };
    let mut lab = Lab::new(config);
    lab.took = 0;
    for host in 0..HOSTS {
        for url in 0..20 {
            lab.offer_as(&format!("http://www.a-host-{host}.test/section/page-{url}.html"), 1, 0, 5);
        }
        if host % 2_000 == 1_999 {
            lab.commit();
        }
    }
    lab.run(1_000);
    let gauges = lab.frontier.gauges();
    assert_eq!(gauges.hosts_active, HOSTS);
    let fills = lab.frontier.stats().fills;
    assert!(fills >= HOSTS as u64, "{fills} hosts have URLs at hand");
    let each = gauges.bench_bytes / HOSTS;
    assert!((500..=1_500).contains(&each), "{each} bytes a host");
}

#[test]
fn a_host_reads_on_while_its_pages_are_being_stored() {
    let mut config = config();
    config.frontier.visit_urls_max = 2;
    let mut lab = Lab::new(config);
    lab.stores = 60_000;
    for i in 0..8 {
        lab.offer(&[&format!("http://a.test/{i}")]);
    }
    lab.run(30_000);
    assert_eq!(lab.pages.len(), 8, "{:?}", lab.timeline());
    lab.run(120_000);
    assert_eq!(lab.host("http://a.test/").ended, 8);
}

#[test]
fn the_wait_of_a_ready_host_counts_only_if_there_is_no_place_for_its_request() {
    let waits = |tickets_open_max| {
        let mut config = small(10, 5);
        config.frontier.tickets_open_max = tickets_open_max;
        let mut lab = Lab::new(config);
        lab.took = 5_000;
        offer_many(&mut lab, 3, 1);
        lab.run(120_000);
        let waits = lab.frontier.stats().ready_wait;
        assert_eq!(waits.counts.iter().sum::<u64>(), 6, "a page and a robots.txt of each host");
        waits.sum_ms
    };
    assert!(waits(10) < 100, "each host has its request when it has rested: {} ms", waits(10));
    assert!(waits(1) >= 10_000, "the second waits for the first, the third for both: {} ms", waits(1));
}
