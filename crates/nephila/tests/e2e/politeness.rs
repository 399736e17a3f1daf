//! The command is polite to hostile hosts, keeps every kind of fetch outside, and never blames a host for its own
//! shortages.

use std::time::Duration;

use nephila_testweb::hostile::{self, INSIDE, Seen};

use crate::namespace;
use crate::support::World;

/// A rest that is measured by another process is allowed this much less.
const SLACK: Duration = Duration::from_millis(30);

/// Checks that no two requests came closer to each other than this.
fn check_rests(mut requests: Vec<Seen>, rest: Duration) {
    requests.sort_by_key(|seen| seen.at);
    for pair in requests.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap + SLACK >= rest, "{} and {} are {gap:?} apart", pair[0].path, pair[1].path);
    }
}

#[tokio::test]
async fn dns_01_a_thousand_urls_of_a_dead_name_cost_one_question() {
    let world = World::start().await;
    let urls = (0..1_000).map(|n| world.web.url("any.dns-01", &format!("/{n}")));
    let ran = world.fetch().urls(urls).run().await;
    ran.check_all(1_000, "dns-nxdomain");
    assert!(ran.lines.iter().all(|line| line["class"] == "retry" && line["requests"] == 0));
    let questions = world.web.dns_queries("any.dns-01.hostile.test");
    assert!(questions.len() <= 2, "one for each family at most: {questions:?}");
}

#[tokio::test]
async fn dns_13_the_address_that_really_answered_rests() {
    let world = World::start().await;
    let ran = world
        .fetch()
        .set("frontier.slot_delay=400ms")
        .args(["-c", "1"])
        .url(world.web.url("dns-13", "/page"))
        .run()
        .await;
    ran.check_all(1, "ok");
    let requests = world.web.requests("dns-13");
    assert_eq!(requests.len(), 2, "robots.txt and the page, both from the second address");
    check_rests(requests, Duration::from_millis(400));
}

#[tokio::test]
async fn dns_16_many_names_of_one_address_share_its_rest() {
    const NAMES: usize = 12;
    let world = World::start().await;
    let urls = (0..NAMES).map(|n| world.web.url(&format!("h{n}.dns-16"), "/page"));
    let ran = world.fetch().set("frontier.slot_delay=150ms").args(["-c", "50"]).urls(urls).run().await;
    ran.check_all(NAMES, "ok");
    let requests = world.web.requests("dns-16");
    assert_eq!(requests.len(), 2 * NAMES, "robots.txt and a page of each name");
    check_rests(requests, Duration::from_millis(150));
}

#[tokio::test]
async fn dns_16_a_name_with_another_address_does_not_wait_for_them() {
    let world = World::start().await;
    let urls = (0..6).map(|n| world.web.url(&format!("h{n}.dns-16"), "/page"));
    let run = world.fetch().set("frontier.slot_delay=300ms").args(["-c", "50"]).urls(urls);
    let ran = run.url(world.web.url("good", "/page")).run().await;
    ran.check_all(7, "ok");
    let last = |id: &str| world.web.requests(id).iter().map(|seen| seen.at).max().expect("it was asked");
    assert!(
        last("good") + Duration::from_millis(600) < last("dns-16"),
        "{:?} {:?}",
        last("good"),
        last("dns-16")
    );
}

#[tokio::test]
async fn dns_21_a_resolver_that_comes_back_costs_no_url() {
    let world = World::start().await;
    world.web.set_dns_up(false);
    let urls = (0..20).map(|n| world.web.url(&format!("n{n}.dns-21"), "/page"));
    let run = world.fetch().set("spider.dns_timeout=300ms").set("spider.dns_total_timeout=1s").urls(urls);
    let back = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        world.web.set_dns_up(true);
    };
    let (ran, ()) = tokio::join!(run.run(), back);
    ran.check_all(20, "ok");
    assert_eq!(ran.code, 0, "{}", ran.complaints);
    assert!(ran.took > Duration::from_secs(3));
}

#[tokio::test]
async fn tcp_11_one_connection_per_host_holds_for_every_kind_of_file() {
    let world = World::start().await;
    let paths = ["/", "/favicon.ico", "/sitemap.xml", "/feed", "/a", "/b"];
    let ran = world
        .fetch()
        .args(["-c", "20", "-L"])
        .urls(paths.map(|path| world.web.url("tcp-11", path)))
        .run()
        .await;
    ran.check_all(paths.len(), "ok");
    assert_eq!(world.web.connections_open_max("tcp-11"), 1);
    assert_eq!(world.web.requests("tcp-11").iter().filter(|seen| seen.path == "/robots.txt").count(), 1);
}

#[tokio::test]
async fn tcp_13_without_file_handles_fetches_wait_and_none_fails() {
    const URLS: usize = 200;
    let world = World::start().await;
    let urls = (0..URLS).map(|n| world.web.url("good", &format!("/page?{n}")));
    let run = world.fetch().args(["-c", "100", "--host-concurrency", "100", "--delay", "0s"]).handles_max(64);
    let ran = run.set("spider.total_timeout=20s").urls(urls).run().await;
    ran.check_all(URLS, "ok");
    assert_eq!(ran.code, 0, "{}", ran.complaints);
    assert!(ran.complaints.contains("file handles"), "the operator is told: {}", ran.complaints);
    let pages = world.web.requests("good").iter().filter(|seen| seen.path.starts_with("/page")).count();
    assert_eq!(pages, URLS, "each was asked for once");
    assert!(world.web.connections_open_max("good") < 64);
}

#[tokio::test]
async fn tcp_13_many_hosts_share_few_handles() {
    // Kept connections of other hosts hold handles; they are let go first, and meanwhile the fetches wait.
    const URLS: usize = 90;
    let world = World::start().await;
    let urls = (0..URLS).map(|n| world.web.url(&format!("n{n}.good"), "/page"));
    let run = world
        .fetch()
        .args(["-c", "100", "--host-concurrency", "100", "--delay", "0s", "--ignore-robots"])
        .handles_max(64);
    let ran = run.set("spider.total_timeout=20s").urls(urls).run().await;
    ran.check_all(URLS, "ok");
    assert_eq!(world.web.requests("good").len(), URLS);
    let open = world.web.connections_open_max("good");
    assert!(
        (20..64).contains(&open),
        "{open} connections: the handles were used, and never more than there were"
    );
    // Waiting costs nothing: one busy thread would have worked all the time.
    assert!(ran.worked < ran.took / 2, "{:?} of {:?}", ran.worked, ran.took);
}

#[tokio::test]
async fn tcp_14_without_ports_fetches_wait_and_none_fails() {
    if !namespace::enter("politeness::tcp_14_without_ports_fetches_wait_and_none_fails") {
        return;
    }
    const URLS: usize = 200;
    let world = World::start().await;
    // Ten ports for everything that leaves, names included. The servers have theirs already.
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "61000 61009")
        .expect("the namespace's own range");
    let urls = (0..URLS).map(|n| world.web.url("good", &format!("/page?{n}")));
    let run = world.fetch().args(["-c", "50", "--host-concurrency", "50", "--delay", "0s"]);
    let ran = run.set("spider.total_timeout=20s").urls(urls).run().await;
    ran.check_all(URLS, "ok");
    assert_eq!(ran.code, 0, "{}", ran.complaints);
    let open = world.web.connections_open_max("good");
    assert!(
        (5..=10).contains(&open),
        "{open} connections: the ports were used, and never more than there were"
    );
    let pages = world.web.requests("good").iter().filter(|seen| seen.path.starts_with("/page")).count();
    assert_eq!(pages, URLS, "each was asked for once");
}

#[tokio::test]
async fn ssr_04_a_followed_redirect_is_filtered_at_every_hop() {
    let world = World::start().await;
    let paths = ["/loopback", "/name", "/v6", "/mapped", "/metadata"];
    let run =
        world.fetch().args(["-L", "--ignore-robots"]).urls(paths.map(|path| world.web.url("ssr-04", path)));
    let ran = run.url(world.web.url("ssr-04", "/chain")).run().await;
    let refused = ran.outcomes().iter().filter(|outcome| **outcome == "address-private").count();
    // The chain leads to /loopback, whose target is fetched once however many lead there.
    assert_eq!(refused, paths.len(), "{:?}", ran.outcomes());
    assert!(
        ran.outcomes().iter().all(|outcome| ["redirect", "address-private"].contains(outcome)),
        "{:?}",
        ran.outcomes()
    );
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn ssr_05_no_kind_of_fetch_gets_inside() {
    let world = World::start().await;
    let port = world.web.port();
    let inside = [
        format!("http://127.0.0.1:{port}/"),
        world.web.url("a-127-0-0-1.ssr-01", "/"),
        world.web.url(INSIDE, "/"),
    ];
    // A page, by address and by name; its head; a redirect hop; each with and without robots.txt, which is a kind of
    // its own and leads inside at ssr-05.
    let led_there = [
        world.web.url("ssr-05", "/page"),
        world.web.url("ssr-04", "/loopback"),
        world.web.url("ssr-05", "/favicon.ico"),
    ];
    for flags in [&["-L"][..], &["-L", "--ignore-robots"], &["-L", "--head", "--ignore-robots"]] {
        let ran = world
            .fetch()
            .args(flags.iter().copied())
            .urls(inside.iter().chain(&led_there).cloned())
            .run()
            .await;
        assert!(ran.lines.len() >= 6, "{flags:?}: {}", ran.complaints);
        for line in ran
            .lines
            .iter()
            .filter(|line| line["url"].as_str().is_some_and(|url| inside.iter().any(|inside| inside == url)))
        {
            assert_ne!(line["class"], "ok", "{flags:?}: {line}");
            assert_eq!(line["requests"], 0, "{flags:?}: {line}");
        }
        assert_eq!(world.web.connections(INSIDE), 0, "{flags:?}");
    }
}

#[tokio::test]
async fn ssr_05_a_robots_txt_that_leads_inside_counts_as_unreachable() {
    let world = World::start().await;
    let ran = world.fetch().url(world.web.url("ssr-05", "/page")).run().await;
    ran.check_all(1, "robots-unreachable");
    assert_eq!(world.web.connections(INSIDE), 0);
    let paths: Vec<String> = world.web.requests("ssr-05").into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths, ["/robots.txt"]);
}

#[tokio::test]
async fn ssr_11_what_is_opened_is_shown_among_the_settings() {
    let command = |range: &str| {
        let set = format!("spider.allow_addresses=[\"{range}\"]");
        let args = ["settings", "--effective", "--config", "/dev/null", "--set", &set];
        std::process::Command::new(env!("CARGO_BIN_EXE_nephila"))
            .args(args)
            .output()
            .expect("the command runs")
    };
    let shown = command("192.168.7.0/24");
    assert!(shown.status.success());
    assert!(String::from_utf8_lossy(&shown.stdout).contains("allow_addresses = [\"192.168.7.0/24\"]"));
    let wrong = command("everything");
    assert_eq!(wrong.status.code(), Some(2), "{}", String::from_utf8_lossy(&wrong.stderr));
}

#[tokio::test]
async fn ssr_14_other_schemes_are_refused_as_seeds() {
    let world = World::start().await;
    let seeds = [
        "file:///etc/passwd",
        "ftp://good.hostile.test/f",
        "gopher://good.hostile.test/1",
        "unix:/run/x.sock",
        "data:text/html,x",
    ];
    let ran = world.fetch().urls(seeds).run().await;
    ran.check_all(seeds.len(), "url-scheme");
    assert!(ran.lines.iter().all(|line| line["class"] == "refused"));
    assert_eq!(world.web.dns_queries("good.hostile.test").len(), 0, "nothing was even looked up");
}

#[tokio::test]
async fn dns_17_slow_zones_do_not_hold_back_quick_ones_of_the_same_run() {
    let world =
        World::start_on(hostile::Settings { dns_time_scale: 0.3, ..hostile::Settings::default() }).await;
    let slow = (0..30).map(|n| world.web.url(&format!("z{n}.dns-17"), "/page"));
    let quick = (0..5).map(|n| world.web.url(&format!("q{n}.good"), "/page"));
    let ran = world.fetch().set("spider.dns_timeout=2900ms").urls(slow.chain(quick)).run().await;
    ran.check_all(35, "ok");
    let first_slow =
        ran.lines.iter().position(|line| line["url"].as_str().is_some_and(|url| url.contains("dns-17")));
    assert_eq!(first_slow, Some(5), "all quick ones ended before the first slow one");
}
