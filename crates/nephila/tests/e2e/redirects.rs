//! Redirects that are followed: each hop is a fetch of its own, with the robots.txt, scope, politeness and origin of
//! its own host, and nothing that was meant for one origin reaches another.

use std::time::Duration;

use nephila_testweb::hostile::Seen;
use nephila_testweb::proxy::{Manner, Proxy};

use crate::support::{Ran, World};

/// A secret in everything that must stay with its origin.
const SECRET: &str = "topsecret";

/// The requests of a case for pages, robots.txt left out.
fn pages(world: &World, id: &str) -> Vec<Seen> {
    world.web.requests(id).into_iter().filter(|seen| seen.path != "/robots.txt").collect()
}

fn paths(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.path.as_str()).collect()
}

fn head(seen: &Seen) -> String {
    String::from_utf8_lossy(&seen.head).to_lowercase()
}

/// Follows one URL.
async fn follow(world: &World, url: String, flags: &[&str]) -> Ran {
    world.fetch().args(["-L"]).args(flags.iter().copied()).url(url).run().await
}

#[tokio::test]
async fn red_01_a_redirect_that_comes_back_is_a_loop_and_asked_once() {
    let world = World::start().await;
    let ran = follow(&world, world.web.url("red-01", "/self"), &[]).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["redirect-loop"], 1));
    assert_eq!(paths(&pages(&world, "red-01")), ["/self"]);
    let ran = follow(&world, world.web.url("red-01", "/a"), &[]).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "redirect-loop"], 1));
    assert_eq!(paths(&pages(&world, "red-01")), ["/self", "/a", "/b"]);
    assert_eq!(ran.lines[1]["via"], world.web.url("red-01", "/a"), "a hop says where it came from");
}

#[tokio::test]
async fn red_01_a_chain_stops_at_the_limit_and_every_hop_is_recorded() {
    for (start, last) in [("/chain/40", "/chain/30"), ("/endless/0", "/endless/10")] {
        let world = World::start().await;
        let folder = tempfile::tempdir().unwrap();
        let ran =
            follow(&world, world.web.url("red-01", start), &["--warc", folder.path().to_str().unwrap()])
                .await;
        // The URL itself and ten redirects. Lines come as the archive takes the hops, not always in their order.
        let (redirects, ends): (Vec<_>, Vec<_>) =
            ran.lines.iter().partition(|line| line["outcome"] == "redirect");
        assert_eq!((redirects.len(), ends.len(), ran.code), (10, 1, 1), "{start}");
        assert_eq!(
            (&ends[0]["outcome"], &ends[0]["url"]),
            (&"redirect-limit".into(), &world.web.url("red-01", last).into())
        );
        assert_eq!(pages(&world, "red-01").len(), 11, "{start}");
        assert!(
            ran.lines.iter().all(|line| line["warc"]["file"].is_string()),
            "{start}: every hop is in the archive"
        );
        let asked: std::collections::HashSet<_> =
            ran.lines.iter().map(|line| line["url"].to_string()).collect();
        assert_eq!(asked.len(), 11, "{start}");
    }
}

#[tokio::test]
async fn red_01_a_chain_within_the_limit_arrives_and_each_hop_is_polite() {
    let world = World::start().await;
    let ran = follow(&world, world.web.url("red-01", "/chain/9"), &[]).await;
    assert_eq!((ran.lines.len(), ran.outcomes().last().copied(), ran.code), (10, Some("ok"), 0));
    let world = World::start().await;
    let rest = Duration::from_millis(300);
    follow(&world, world.web.url("red-01", "/chain/2"), &["--delay", "300ms"]).await;
    let seen = world.web.requests("red-01");
    assert_eq!(paths(&seen), ["/robots.txt", "/chain/2", "/chain/1", "/chain/0"]);
    for pair in seen.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap + Duration::from_millis(30) >= rest, "{} followed after {gap:?}", pair[1].path);
    }
}

#[tokio::test]
async fn red_02_other_schemes_are_recorded_and_not_followed() {
    let world = World::start().await;
    for path in ["/file", "/ftp", "/gopher", "/data", "/javascript"] {
        let ran = follow(&world, world.web.url("red-02", path), &[]).await;
        assert_eq!((ran.outcomes(), ran.code), (vec!["redirect-scheme"], 1), "{path}");
        assert!(ran.lines[0].get("redirect").is_none(), "{path}");
    }
    assert_eq!((pages(&world, "red-02").len(), world.web.connections("good")), (5, 0));
}

#[tokio::test]
async fn red_03_the_targets_robots_txt_is_asked_before_the_target() {
    let world = World::start().await;
    let ran = follow(&world, world.web.url("red-03", "/start"), &[]).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "robots-denied"], 1));
    let seen = world.web.requests("red-03");
    assert_eq!(paths(&seen), ["/robots.txt", "/start", "/robots.txt"]);
    assert_eq!(seen[2].local.ip(), world.web.address("blocked.red-03"), "the target's own");
    // The cause was robots.txt: without its rules the redirect is followed.
    let ran = follow(&world, world.web.url("red-03", "/start"), &["--ignore-robots"]).await;
    assert_eq!(ran.outcomes(), ["redirect", "ok"]);
}

#[tokio::test]
async fn red_04_the_scope_holds_for_every_hop() {
    let world = World::start().await;
    for path in ["/out", "/other"] {
        let ran = follow(&world, world.web.url("red-04", path), &["--follow-scope", "host"]).await;
        assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "out-of-scope"], 1), "{path}");
    }
    assert_eq!(
        (world.web.connections("good"), world.web.connections("red-03")),
        (0, 0),
        "not even robots.txt"
    );
    for scope in ["domain", "any"] {
        let ran = follow(&world, world.web.url("red-04", "/out"), &["--follow-scope", scope]).await;
        assert_eq!(ran.outcomes(), ["redirect", "ok"], "{scope}");
    }
    assert_eq!(pages(&world, "good").len(), 2);
}

/// Follows a redirect to another origin with everything that could leak, and checks the received fields.
async fn check_nothing_leaks(id: &str, start: impl Fn(&World) -> String) {
    let world = World::start().await;
    let url = start(&world);
    let flags = [
        "-H",
        "Authorization: Bearer topsecret",
        "-H",
        "Cookie: sid=topsecret",
        "-H",
        "X-Api-Key: topsecret",
        "--cookies",
    ];
    let ran = follow(&world, url.clone(), &flags).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "ok"], 0), "{url}: {}", ran.complaints);
    let (land, others): (Vec<Seen>, Vec<Seen>) =
        world.web.requests(id).into_iter().partition(|seen| seen.path == "/land");
    assert_eq!(land.len(), 1, "{url}");
    assert_eq!(
        others.iter().filter(|seen| head(seen).matches(SECRET).count() == 3).count(),
        1,
        "{url}: sent where they belong"
    );
    let arrived = head(&land[0]);
    for leak in [SECRET, "authorization", "cookie", "x-api-key", "referer"] {
        assert!(!arrived.contains(leak), "{url}: {leak} in {arrived}");
    }
    let robots = others.iter().filter(|seen| seen.path == "/robots.txt");
    assert!(
        robots.into_iter().all(|seen| !head(seen).contains(SECRET)),
        "{url}: robots.txt is asked without them"
    );
    // The same in the URL itself.
    let with_user = url.replacen("://", "://user:topsecret@", 1);
    let ran = follow(&world, with_user, &[]).await;
    assert_eq!(ran.outcomes(), ["redirect", "ok"], "{url}");
    assert!(!ran.lines.iter().any(|line| line.to_string().contains(SECRET)), "{url}: in what is printed");
    let arrived = pages(&world, id).pop().unwrap();
    assert_eq!(arrived.path, "/land");
    assert!(!head(&arrived).contains("authorization"), "{url}: {}", head(&arrived));
}

#[tokio::test]
async fn red_05_nothing_secret_goes_to_another_host() {
    check_nothing_leaks("red-05", |world| world.web.url("red-05", "/host")).await;
}

#[tokio::test]
async fn red_05_nothing_secret_goes_to_another_scheme() {
    check_nothing_leaks("red-05", |world| world.web.url("red-05", "/scheme")).await;
    check_nothing_leaks("red-05", |world| world.web.https_url("red-05", "/scheme")).await;
}

#[tokio::test]
async fn red_05_fields_do_go_along_within_their_origin() {
    let world = World::start().await;
    let ran = follow(&world, world.web.url("red-09", "/302"), &["-H", "X-Api-Key: topsecret"]).await;
    assert_eq!(ran.outcomes(), ["redirect", "ok"]);
    assert!(pages(&world, "red-09").iter().all(|seen| head(seen).contains(SECRET)));
}

#[tokio::test]
async fn red_06_another_port_and_a_downgrade_are_other_origins() {
    check_nothing_leaks("red-05", |world| world.web.url("red-05", "/port")).await;
    check_nothing_leaks("red-06", |world| world.web.url("red-06", "/port")).await;
    check_nothing_leaks("red-06", |world| world.web.https_url("red-06", "/downgrade")).await;
}

#[tokio::test]
async fn red_07_a_bad_location_ends_the_chain() {
    let world = World::start().await;
    for path in ["/missing", "/empty", "/twice", "/long"] {
        let ran = follow(&world, world.web.url("red-07", path), &[]).await;
        assert_eq!((ran.outcomes(), ran.code), (vec!["redirect-bad-location"], 1), "{path}");
    }
    assert_eq!(pages(&world, "red-07").len(), 4);
}

#[tokio::test]
async fn red_09_all_kinds_of_redirects_are_followed_with_get_and_300_is_not() {
    let world = World::start().await;
    for status in [301, 302, 303, 307, 308] {
        let ran = follow(&world, world.web.url("red-09", &format!("/{status}")), &[]).await;
        assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "ok"], 0), "{status}");
    }
    let ran = follow(&world, world.web.url("red-09", "/300"), &[]).await;
    assert_eq!(ran.outcomes(), ["multiple-choices"]);
    assert!(pages(&world, "red-09").iter().all(|seen| seen.method == "GET"));
}

#[tokio::test]
async fn red_11_a_thousand_urls_that_lead_to_one_page_fetch_it_once() {
    const URLS: usize = 1_000;
    let world = World::start().await;
    let urls = (0..URLS).map(|n| world.web.url("red-11", &format!("/u/{n}")));
    let ran = world.fetch().args(["-L", "--host-concurrency", "4"]).urls(urls).run().await;
    assert_eq!((ran.lines.len(), ran.code), (URLS + 1, 0), "{}", ran.complaints);
    let seen = pages(&world, "red-11");
    assert_eq!(seen.iter().filter(|seen| seen.path == "/login").count(), 1);
    assert_eq!(seen.len(), URLS + 1);
    assert!(world.web.connections_open_max("red-11") <= 4, "politeness is kept");
}

#[tokio::test]
async fn red_12_a_cookie_wall_is_tried_once_with_the_cookie_and_only_if_cookies_are_on() {
    let world = World::start().await;
    let ran = follow(&world, world.web.url("red-12", "/wall"), &[]).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["cookie-wall"], 1));
    assert_eq!(pages(&world, "red-12").len(), 1);
    let ran = follow(&world, world.web.url("red-12", "/wall"), &["--cookies"]).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "ok"], 0));
    let ran = follow(&world, world.web.url("red-12", "/stone"), &["--cookies"]).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "cookie-wall"], 1));
    let seen = pages(&world, "red-12");
    assert_eq!(paths(&seen), ["/wall", "/wall", "/wall", "/stone", "/stone"], "at most one retry");
    let with_cookie: Vec<bool> = seen.iter().map(|seen| head(seen).contains("cookie: wall=1")).collect();
    assert_eq!(with_cookie, [false, false, true, false, true], "and the jar is gone with its run");
}

#[tokio::test]
async fn red_16_the_proxy_follows_the_scheme_of_each_hop() {
    let (plain, tls) =
        (Proxy::start(Manner::Helpful).await.unwrap(), Proxy::start(Manner::Helpful).await.unwrap());
    let world = World::start().await;
    for start in [world.web.url("red-16", "/up"), world.web.https_url("red-16", "/down")] {
        let ran = world
            .fetch()
            .args(["-L"])
            .variable("http_proxy", format!("http://one:{SECRET}@{}", plain.addr()))
            .variable("https_proxy", format!("socks5://two:{SECRET}@{}", tls.addr()))
            .url(&start)
            .run()
            .await;
        assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "ok"], 0), "{start}: {}", ran.complaints);
        assert!(!format!("{ran:?}").contains(SECRET), "{start}");
    }
    for (proxy, kind, port) in [(&plain, "connect", world.web.port()), (&tls, "socks5", world.web.tls_port())]
    {
        let asked = proxy.asked();
        assert!(asked.len() >= 2, "{kind}: each run has a hop with this scheme");
        for asked in asked {
            assert_eq!((asked.kind, asked.target), (kind, format!("{}:{port}", world.web.address("red-16"))));
            assert!(asked.credentials.is_some());
        }
    }
    for seen in world.web.requests("red-16") {
        let head = head(&seen);
        assert!(!head.contains("proxy") && !head.contains(SECRET), "{head}");
    }
}

#[tokio::test]
async fn tls_16_a_loop_between_https_and_http_ends_and_the_http_leg_gets_no_secret() {
    let world = World::start().await;
    let flags = ["-H", "Authorization: Bearer topsecret", "-H", "Cookie: sid=topsecret", "--cookies"];
    let ran = follow(&world, world.web.https_url("tls-16", "/loop"), &flags).await;
    assert_eq!((ran.outcomes(), ran.code), (vec!["redirect", "redirect-loop"], 1));
    let seen = pages(&world, "tls-16");
    assert_eq!(seen.iter().map(|seen| seen.tls).collect::<Vec<_>>(), [true, false]);
    assert!(head(&seen[0]).contains(SECRET));
    let plain = head(&seen[1]);
    for leak in [SECRET, "authorization", "cookie", "over-tls"] {
        assert!(!plain.contains(leak), "{leak} in {plain}");
    }
}

#[tokio::test]
async fn h2_09_politeness_counts_requests_whatever_the_server_allows() {
    for limit in [1, 2] {
        let world = World::start().await;
        let urls = (0..8).map(|n| world.web.https_url("h2-09", &format!("/page?{n}")));
        let ran = world.fetch().args(["--host-concurrency", &limit.to_string()]).urls(urls).run().await;
        ran.check_all(8, "ok");
        assert!(ran.lines.iter().all(|line| line["protocol"] == "h2"));
        assert!(world.web.streams_open_max("h2-09") <= limit, "100 streams are allowed, {limit} asked for");
    }
}

#[tokio::test]
async fn h2_10_each_name_of_a_shared_certificate_keeps_its_own_robots_txt() {
    let world = World::start().await;
    let urls = ["n1.h2-10", "n2.h2-10", "n3.h2-10"].map(|name| world.web.https_url(name, "/page"));
    let ran = world.fetch().urls(urls).run().await;
    ran.check_all(3, "ok");
    let seen = world.web.requests("h2-10");
    assert_eq!(seen.iter().filter(|seen| seen.path == "/robots.txt").count(), 3);
    assert_eq!(world.web.connections("h2-10"), 3, "no connection serves two names");
}
