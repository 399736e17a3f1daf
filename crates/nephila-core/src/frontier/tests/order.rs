//! The order in which URLs leave; each leaves once.

use super::lab::{Lab, Start, check, config, failed, key, url};
use crate::frontier::offers::Offer;
use crate::frontier::{Offered, URGENT};
use crate::handler::ReadAs;
use crate::job::JobId;
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;
use crate::want::Want;

#[test]
fn robots_txt_comes_first_and_pages_follow_after_the_rest() {
    let lab = check(config(), 10, &["http://a.test/1"], &[(1, "http://a.test/1")]);
    assert_eq!(lab.robots.len(), 1);
    assert_eq!(lab.robots[0].ticket.url, "http://a.test/robots.txt");
    assert_eq!(lab.pages[0].at - lab.robots[0].at, 1_100, "it took 100 ms, and the host rested a second");
}

#[test]
fn the_order_is_priority_then_depth_then_age() {
    let mut config = config();
    config.frontier.visit_urls_max = 2;
    let mut lab = Lab::new(config);
    for (text, depth, priority) in [
        ("http://a.test/deep-urgent", 9, 2),
        ("http://a.test/deep", 2, 5),
        ("http://a.test/shallow", 1, 5),
        ("http://a.test/later", 0, 7),
    ] {
        assert_eq!(lab.offer_as(text, 1, depth, priority), Offered::Taken);
    }
    lab.commit();
    lab.run(1_050);
    lab.offer_as("http://a.test/shallow-and-younger", 1, 1, 5);
    lab.run(20_000);
    let paths: Vec<_> = lab.urls().into_iter().map(|url| &url[14..]).collect();
    assert_eq!(paths, ["deep-urgent", "shallow", "shallow-and-younger", "deep", "later"]);
}

#[test]
fn a_site_is_read_breadth_first_without_doubles_and_through_cycles() {
    let mut lab = Lab::new(config());
    let page = |name: &str| format!("http://a.test/{name}");
    for (from, to) in [
        ("", vec!["a", "b", ""]),
        ("a", vec!["aa", "ab", "", "b"]),
        ("b", vec!["ba", "a", "aa"]),
        ("aa", vec!["aaa", "a", "aa"]),
        ("ab", vec!["", "aaa"]),
        ("ba", vec!["b"]),
        ("aaa", vec!["", "a", "b", "aa"]),
    ] {
        lab.web.links.insert(page(from), to.into_iter().map(page).collect());
    }
    lab.offer(&["http://a.test/"]);
    lab.run(60_000);
    let depths: Vec<_> = lab.pages.iter().map(|start| start.ticket.depth).collect();
    assert_eq!(depths, [0, 1, 1, 2, 2, 2, 3], "level by level");
    let mut urls = lab.urls();
    urls.sort();
    assert_eq!(urls, ["", "a", "aa", "aaa", "ab", "b", "ba"].map(|name| format!("http://a.test/{name}")));
    assert!(lab.frontier.poll_timeout(lab.now).is_none(), "nothing is left to do");
}

#[test]
fn an_urgent_offer_overtakes_what_waits_and_is_fetched_once() {
    let mut config = config();
    config.frontier.visit_urls_max = 1;
    config.frontier.host_delay = std::time::Duration::from_secs(100);
    let mut lab = Lab::new(config);
    for i in 0..6 {
        lab.offer_as(&format!("http://a.test/{i}"), 1, 0, 5);
        lab.run(2_000);
    }
    assert_eq!(lab.offer_as("http://a.test/5", 1, 0, URGENT), Offered::Taken);
    lab.run(1_000_000);
    let paths: Vec<_> = lab.urls().into_iter().map(|url| &url[14..]).collect();
    assert_eq!(paths, ["0", "5", "1", "2", "3", "4"], "behind the one at hand, before all others, and once");
}

#[test]
fn what_was_fetched_is_not_fetched_again_however_often_it_is_offered() {
    let mut lab = Lab::new(config());
    for _ in 0..5 {
        lab.offer_as("http://a.test/1", 1, 0, 5);
        lab.offer_as("http://a.test/1", 1, 0, URGENT);
        lab.run(10_000);
    }
    assert_eq!(lab.urls(), ["http://a.test/1"]);
    assert_eq!(lab.record("http://a.test/1").state, UrlState::Ended);
    let stats = lab.frontier.stats();
    assert_eq!((stats.sifted.queued, stats.tickets, stats.ended), (1, 1, 1));
    assert!(stats.sifted.known >= 4, "{stats:?}");
}

#[test]
fn hops_and_reading_come_back_with_every_ticket_also_after_a_failure_and_a_restart() {
    let mut lab = Lab::new(config());
    let whole = url("http://a.test/sitemap.xml");
    let offer = Offer {
        key: key(whole.as_str()),
        origin: "http://a.test",
        text: whole.path_and_query(),
        want: &Want {
            depth: 3,
            hops: crate::job::Hops::by_code(2),
            read_as: ReadAs::Sitemap,
            ..Want::of(JobId(1))
        },
    };
    lab.frontier.offer(offer);
    lab.offer(&["http://a.test/page"]);
    lab.web.pages.insert(whole.as_str().into(), failed(Outcome::ServerError, 500, None));
    lab.run(30_000);
    lab.restart(1_000);
    lab.run(7_200_000);
    let carried: Vec<_> = lab
        .pages
        .iter()
        .map(|Start { ticket, .. }| (ticket.read_as.name(), ticket.hops.code(), ticket.depth, ticket.retries))
        .collect();
    assert_eq!(carried[..3], [("page", 0, 0, 0), ("sitemap", 2, 3, 0), ("sitemap", 2, 3, 1)]);
}

#[test]
fn out_01_a_ticket_and_an_explanation_say_where_their_url_was_found() {
    use std::sync::Arc;

    use crate::job::{Trail, Via};
    let mut lab = Lab::new(config());
    let page = url("http://a.test/front");
    let via = Arc::new(Via::of(&page, Trail::SEED.hop('L').hop('E'), true));
    let other = Arc::new(Via::of(&page, Trail::SEED.hop('R'), true));
    for via in [&via, &other] {
        lab.frontier.offer(Offer {
            key: key("http://a.test/x"),
            origin: "http://a.test",
            text: "/x",
            want: &Want { depth: 2, via: Some(Arc::clone(via)), ..Want::of(JobId(1)) },
        });
        lab.commit();
    }
    lab.run(60_000);
    let tickets: Vec<_> = lab.pages.iter().map(|start| start.ticket.via.clone()).collect();
    assert_eq!(tickets, [Some(via.clone())], "who named it first counts");
    assert_eq!(lab.record("http://a.test/x").via, Some(via));
}
