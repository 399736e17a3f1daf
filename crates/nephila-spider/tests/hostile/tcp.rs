//! Sockets that stall, lie and vanish.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use http::header::{HeaderName, HeaderValue};
use nephila_core::spider::{Action, Class, Outcome, Settings};
use nephila_core::store::Truncation;
use nephila_testweb::hostile;

use crate::namespace;
use crate::support::{World, body, request, text};

/// Number of requests for a path of a case.
fn asked(world: &World, id: &str, path: &str) -> usize {
    world.web.requests(id).iter().filter(|seen| seen.path == path).count()
}

#[tokio::test]
async fn tcp_01_a_dropped_syn_ends_at_the_connect_deadline() {
    let world = World::start_with(|settings| settings.connect_timeout = Duration::from_millis(1_500)).await;
    for url in [world.web.url("tcp-01", "/"), world.web.https_url("tcp-01", "/")] {
        let fetched = world.fetch(&url).await;
        assert_eq!(fetched.outcome, Outcome::ConnectTimeout, "{}", fetched.detail);
        assert_eq!(fetched.requests, 0);
        let took = fetched.timings.connect.expect("it tried");
        // Once, not once more after the first deadline.
        assert!((1_400..2_800).contains(&took.as_millis()), "{took:?}");
    }
    assert_eq!(Outcome::ConnectTimeout.action(), Action::BackOff);
}

#[tokio::test]
async fn tcp_02_refused_and_reset_have_names_of_their_own() {
    let world = World::start().await;
    let refused = world.get("refused.tcp-02", "/").await;
    assert_eq!((refused.outcome, refused.requests), (Outcome::ConnectRefused, 0), "{}", refused.detail);
    let reset = world.get("accept.tcp-02", "/").await;
    assert_eq!(reset.outcome, Outcome::Reset, "{}", reset.detail);
    let head = world.get("tcp-02", "/head").await;
    assert_eq!((head.outcome, head.requests), (Outcome::Reset, 1), "{}", head.detail);
    assert!(head.exchange.is_none(), "half a head is nothing to archive");
    assert_eq!(asked(&world, "tcp-02", "/head"), 1);
}

#[tokio::test]
async fn tcp_02_a_body_that_is_reset_is_kept_as_cut_by_a_disconnect() {
    let world = World::start().await;
    let fetched = world.get("tcp-02", "/body").await;
    assert_eq!(
        (fetched.outcome, fetched.truncated),
        (Outcome::CutDisconnect, Some(Truncation::Disconnect)),
        "{}",
        fetched.detail
    );
    assert_eq!(fetched.outcome.class(), Class::Retry);
    assert_eq!(body(&fetched).len(), 10_000);
    assert_eq!(fetched.exchange.as_ref().unwrap().truncated, Some(Truncation::Disconnect));
    assert_eq!(asked(&world, "tcp-02", "/body"), 1);
}

#[tokio::test]
async fn tcp_03_a_silent_server_ends_at_the_head_deadline() {
    let world = World::start().await;
    let fetched = world.get("tcp-03", "/").await;
    assert_eq!(fetched.outcome, Outcome::HeadTimeout, "{}", fetched.detail);
    assert!(fetched.timings.total >= world.settings.head_timeout);
    assert_eq!((fetched.requests, asked(&world, "tcp-03", "/")), (1, 1));
}

#[tokio::test]
async fn tcp_03_other_urls_of_the_host_do_not_wait_for_a_stuck_socket() {
    let world = World::start().await;
    let stuck = tokio::spawn({
        let (spider, request) = (world.spider.clone(), request(&world.web.url("tcp-03", "/")));
        async move { spider.fetch(request).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    assert_eq!(world.get("good", "/page").await.outcome, Outcome::Fetched);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(stuck.await.unwrap().outcome, Outcome::HeadTimeout);
}

#[tokio::test]
async fn tcp_04_a_dripped_head_ends_at_an_absolute_deadline() {
    let world = World::start().await;
    let fetched = world.get("tcp-04", "/").await;
    assert_eq!(fetched.outcome, Outcome::HeadTimeout, "{}", fetched.detail);
    let total = fetched.timings.total;
    assert!(
        total >= world.settings.head_timeout && total < world.settings.head_timeout + Duration::from_secs(2),
        "{total:?}"
    );
    assert_eq!(asked(&world, "tcp-04", "/"), 1);
}

#[tokio::test]
async fn tcp_05_a_dripped_body_is_cut_by_the_minimum_speed() {
    let world = World::start().await;
    for path in ["/", "/chunked"] {
        let fetched = world.get("tcp-05", path).await;
        assert_eq!(
            (fetched.outcome, fetched.truncated),
            (Outcome::CutTime, Some(Truncation::Time)),
            "{path}: {}",
            fetched.detail
        );
        assert!(
            fetched.timings.total < world.settings.total_timeout,
            "{path}: the speed ends it, not the total"
        );
        let kept = body(&fetched);
        assert!((1..20).contains(&kept.len()), "{path}: {} bytes", kept.len());
        assert_eq!(fetched.exchange.as_ref().unwrap().truncated, Some(Truncation::Time));
    }
}

#[tokio::test]
async fn tcp_05_without_a_minimum_speed_the_total_deadline_cuts() {
    let change = |settings: &mut Settings| {
        settings.speed_min = 0;
        settings.total_timeout = Duration::from_secs(3);
    };
    let world = World::start_with(change).await;
    let fetched = world.get("tcp-05", "/").await;
    assert_eq!(
        (fetched.outcome, fetched.truncated),
        (Outcome::CutTime, Some(Truncation::Time)),
        "{}",
        fetched.detail
    );
    assert!(fetched.timings.total >= Duration::from_millis(2_900));
    assert!(!body(&fetched).is_empty());
}

#[tokio::test]
async fn tcp_06_an_endless_body_stops_at_the_size_limit() {
    let world = World::start_with(|settings| settings.body_bytes_max = 1_000_000).await;
    for path in ["/close", "/chunked", "/length"] {
        let fetched = world.get("tcp-06", path).await;
        assert_eq!(
            (fetched.outcome, fetched.truncated),
            (Outcome::CutLength, Some(Truncation::Length)),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(fetched.body_bytes, 1_000_000, "{path}");
        assert_eq!(body(&fetched).len(), 1_000_000, "{path}");
        assert_eq!(fetched.exchange.as_ref().unwrap().truncated, Some(Truncation::Length));
        // The connection was closed: the next page comes over another.
        assert!(!world.get("tcp-06", "/").await.reused, "{path}");
    }
}

#[tokio::test]
async fn tcp_07_a_request_that_cannot_be_written_ends_at_the_write_deadline() {
    let world = World::start().await;
    let mut long = request(&world.web.url("tcp-07", "/"));
    long.fields
        .push((HeaderName::from_static("x-padding"), HeaderValue::from_str(&"a".repeat(30_000)).unwrap()));
    let fetched = world.ask(long).await;
    assert_eq!(fetched.outcome, Outcome::WriteTimeout, "{}", fetched.detail);
    let total = fetched.timings.total;
    assert!(
        total >= world.settings.write_timeout && total < world.settings.head_timeout + Duration::from_secs(1),
        "{total:?}"
    );
    assert_eq!(fetched.requests, 1);
}

#[tokio::test]
async fn tcp_08_an_empty_reply_on_a_fresh_connection_is_not_asked_again() {
    let world = World::start().await;
    let fetched = world.get("tcp-08", "/fresh").await;
    assert_eq!((fetched.outcome, fetched.requests), (Outcome::EmptyReply, 1), "{}", fetched.detail);
    assert_eq!(Outcome::EmptyReply.action(), Action::BackOff);
    assert_eq!(asked(&world, "tcp-08", "/fresh"), 1);
}

#[tokio::test]
async fn tcp_08_an_empty_reply_on_a_kept_connection_is_asked_again_once() {
    let world = World::start().await;
    assert_eq!(world.get("tcp-08", "/page").await.outcome, Outcome::Fetched);
    let second = world.get("tcp-08", "/reused").await;
    assert_eq!(
        (second.outcome, second.requests, second.reused),
        (Outcome::Fetched, 2, false),
        "{}",
        second.detail
    );
    assert_eq!(asked(&world, "tcp-08", "/reused"), 2);
    assert_eq!(world.web.connections("tcp-08"), 2);
    // A host that never answers gets two requests at most, even when the first used a kept connection.
    let third = world.get("tcp-08", "/fresh").await;
    assert_eq!((third.outcome, third.requests), (Outcome::EmptyReply, 2), "{}", third.detail);
    assert_eq!(asked(&world, "tcp-08", "/fresh"), 2);
}

#[tokio::test]
async fn tcp_09_a_delay_as_long_as_the_servers_idle_time_meets_no_closed_connection() {
    // A fifth of the catalogue's times on both sides: the server keeps for 1 s, we for 0.8 s, the delay is 1 s.
    let web = hostile::Settings { web_time_scale: 0.2, ..hostile::Settings::default() };
    let world = World::start_on(web, |settings| {
        settings.idle_timeout = Settings::default().idle_timeout.mul_f64(0.2)
    })
    .await;
    for round in 0..5 {
        let fetched = world.get("tcp-09", "/").await;
        assert_eq!(
            (fetched.outcome, fetched.requests),
            (Outcome::Fetched, 1),
            "round {round}: {}",
            fetched.detail
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(asked(&world, "tcp-09", "/"), 5);
    // And a shorter delay does use the connection again.
    world.get("tcp-09", "/").await;
    assert!(world.get("tcp-09", "/").await.reused);
}

#[test]
fn tcp_09_we_close_before_common_servers_do() {
    assert!(Settings::default().idle_timeout < Duration::from_secs(5));
}

#[tokio::test]
async fn tcp_10_a_swallowed_request_ends_at_the_head_deadline_and_its_connection_is_given_up() {
    let world = World::start().await;
    assert_eq!(world.get("tcp-10", "/").await.outcome, Outcome::Fetched);
    let second = world.get("tcp-10", "/").await;
    assert_eq!((second.outcome, second.reused), (Outcome::HeadTimeout, true), "{}", second.detail);
    let third = world.get("tcp-10", "/").await;
    assert_eq!((third.outcome, third.reused), (Outcome::Fetched, false), "{}", third.detail);
}

#[tokio::test]
async fn tcp_10_a_kept_connection_that_a_nat_forgot_is_replaced_in_seconds() {
    if !namespace::enter("tcp::tcp_10_a_kept_connection_that_a_nat_forgot_is_replaced_in_seconds") {
        return;
    }
    let change = |settings: &mut Settings| {
        settings.connect_timeout = Duration::from_millis(1_500);
        settings.head_timeout = Duration::from_secs(5);
        settings.write_timeout = Duration::from_secs(5);
    };
    let world = World::start_with(change).await;
    assert_eq!(world.get("good", "/page").await.outcome, Outcome::Fetched);
    let port = local_port_to(SocketAddr::from((world.web.address("good"), world.web.port())));
    // From now on the packets of this one connection vanish; all others are routed as before.
    namespace::run("ip rule add pref 100 lookup local");
    namespace::run(&format!("ip rule add pref 10 ipproto tcp sport {port} blackhole"));
    namespace::run("ip rule del pref 0");
    let fetched = world.get("good", "/page").await;
    assert_eq!(
        (fetched.outcome, fetched.requests, fetched.reused),
        (Outcome::Fetched, 2, false),
        "{}",
        fetched.detail
    );
    let total = fetched.timings.total;
    assert!(total >= Duration::from_secs(1) && total < Duration::from_millis(4_500), "{total:?}");
}

/// Our end of the one connection to this server, from the kernel's table.
fn local_port_to(server: SocketAddr) -> u16 {
    let IpAddr::V4(address) = server.ip() else { panic!("the hostile web speaks IPv4") };
    let wanted = format!("{:08X}:{:04X}", u32::from_le_bytes(address.octets()), server.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let line = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words[2] == wanted && words[3] == "01");
    let local = line.expect("a connection is open")[1].to_owned();
    u16::from_str_radix(local.split_once(':').expect("address and port").1, 16).expect("a port")
}

#[tokio::test]
async fn tcp_11_one_page_after_the_other_uses_one_connection() {
    let world = World::start().await;
    for path in ["/robots.txt", "/", "/favicon.ico", "/sitemap.xml"] {
        let fetched = world.get("tcp-11", path).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{path}: {}", fetched.detail);
    }
    assert_eq!((world.web.connections("tcp-11"), world.web.connections_open_max("tcp-11")), (1, 1));
}

#[tokio::test]
async fn tcp_12_what_is_glued_behind_a_body_is_never_the_next_answer() {
    let world = World::start().await;
    for path in ["/", "/garbage", "/"] {
        let fetched = world.get("tcp-12", path).await;
        assert_eq!(
            (fetched.outcome, fetched.reused),
            (Outcome::Fetched, false),
            "{path}: {}",
            fetched.detail
        );
        assert_eq!(text(&fetched).matches("the page that was asked for").count(), 1, "{path}");
        assert!(!text(&fetched).contains("SECOND"), "{path}");
        assert_eq!(fetched.requests, 1);
    }
    assert_eq!(world.web.connections("tcp-12"), 3);
}
