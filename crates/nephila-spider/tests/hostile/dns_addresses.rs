//! Addresses that expire, move, die or swallow everything.

use std::time::Duration;

use nephila_core::spider::Outcome;

use crate::dns::{A, asked, jump, no_kept_connections};
use crate::support::World;

#[tokio::test]
async fn dns_11_a_ttl_of_zero_does_not_mean_a_question_per_page() {
    let world = World::start_with(no_kept_connections).await;
    for _ in 0..100 {
        assert_eq!(world.get("dns-11", "/page").await.outcome, Outcome::Fetched);
    }
    assert_eq!(asked(&world, "dns-11.hostile.test", A), 1);
    assert_eq!(
        world.web.connections("dns-11"),
        100,
        "each page had a connection of its own, dialled and checked anew"
    );
    jump(Duration::from_secs(61)).await;
    assert_eq!(world.get("dns-11", "/page").await.outcome, Outcome::Fetched);
    assert_eq!(asked(&world, "dns-11.hostile.test", A), 2);
}

#[tokio::test]
async fn dns_12_an_endless_ttl_is_believed_for_a_day() {
    let world = World::start_with(no_kept_connections).await;
    assert_eq!(world.get("dns-12", "/page").await.outcome, Outcome::Fetched);
    jump(Duration::from_secs(23 * 3600)).await;
    world.get("dns-12", "/page").await;
    assert_eq!(asked(&world, "dns-12.hostile.test", A), 1);
    jump(Duration::from_secs(2 * 3600)).await;
    world.get("dns-12", "/page").await;
    assert_eq!(asked(&world, "dns-12.hostile.test", A), 2);
}

#[tokio::test]
async fn dns_12_a_host_that_moved_is_found_in_the_same_fetch() {
    let world = World::start_with(no_kept_connections).await;
    let before = world.get("dns-12", "/page").await;
    assert_eq!(before.address.unwrap().ip(), world.web.address("dns-12"));
    world.web.move_dns_12();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let after = world.get("dns-12", "/page").await;
    assert_eq!(after.outcome, Outcome::Fetched, "{}", after.detail);
    assert_eq!(after.address.unwrap().ip(), world.web.address("moved.dns-12"));
    assert_eq!(asked(&world, "dns-12.hostile.test", A), 2, "asked again once, at once");
}

#[tokio::test]
async fn dns_13_the_second_address_serves_when_the_first_is_dead() {
    let world = World::start_with(no_kept_connections).await;
    let dead = world.web.address("dead.dns-13");
    assert_eq!(world.spider.resolver().resolve("dns-13.hostile.test").await.0.unwrap()[0], dead);
    let fetched = world.get("dns-13", "/page").await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    assert_eq!(
        fetched.address.unwrap().ip(),
        world.web.address("dns-13"),
        "the address really used is reported"
    );
    let order = world.spider.resolver().resolve("dns-13.hostile.test").await.0.unwrap();
    assert_eq!((order[0], order[1]), (world.web.address("dns-13"), dead), "the dead one is remembered");
}

#[tokio::test]
async fn dns_13_an_address_that_swallows_is_left_within_the_fallback_time() {
    let world = World::start_with(no_kept_connections).await;
    let first = world.get("blackhole.dns-13", "/page").await;
    assert_eq!(first.outcome, Outcome::Fetched, "{}", first.detail);
    assert_eq!(first.address.unwrap().ip(), world.web.address("dns-13"));
    let took = first.timings.connect.unwrap();
    assert!(took >= Duration::from_millis(290) && took < Duration::from_millis(1_500), "{took:?}");
    let second = world.get("blackhole.dns-13", "/page").await;
    assert!(second.timings.connect.unwrap() < Duration::from_millis(250), "{:?}", second.timings);
}

#[tokio::test]
async fn dns_14_a_dead_ipv6_path_falls_back_to_ipv4() {
    let world = World::start_with(no_kept_connections).await;
    let first = world.get("dns-14", "/page").await;
    assert_eq!(first.outcome, Outcome::Fetched, "{}", first.detail);
    assert!(first.address.unwrap().is_ipv4());
    let took = first.timings.connect.unwrap();
    assert!(took < Duration::from_millis(1_500), "{took:?}: not the whole connect deadline");
    let order = world.spider.resolver().resolve("dns-14.hostile.test").await.0.unwrap();
    assert!(order[0].is_ipv4(), "remembered for the host: {order:?}");
    let second = world.get("dns-14", "/page").await;
    assert!(second.timings.connect.unwrap() < Duration::from_millis(250), "{:?}", second.timings);
}
