//! Fields of a request beside the URL: cookies, validators, fields of the operator's. A whole run sends each of them
//! only to its own origin, and within the limits.

use nephila_core::spider::cookie::FIELD_BYTES_MAX;
use nephila_testweb::hostile::Seen;

use crate::support::{Ran, World};

/// Bytes of a request head beside its cookies, with room to spare.
const OTHER_FIELDS_BYTES: u64 = 1024;

/// The value of a field of a request, as seen by the server.
fn field<'a>(seen: &'a Seen, name: &str) -> Option<&'a str> {
    let head = std::str::from_utf8(&seen.head).expect("our requests are text");
    head.lines()
        .find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v))
}

/// The requests of a case, robots.txt left out.
fn pages(world: &World, id: &str) -> Vec<Seen> {
    world.web.requests(id).into_iter().filter(|seen| seen.path != "/robots.txt").collect()
}

/// The line of the URL that ends so.
fn line<'a>(ran: &'a Ran, end: &str) -> &'a serde_json::Value {
    let found = ran.lines.iter().find(|line| line["url"].as_str().unwrap_or_default().ends_with(end));
    found.unwrap_or_else(|| panic!("no line for {end}: {} {:?}", ran.complaints, ran.lines))
}

#[tokio::test]
async fn h1_29_a_flood_of_cookies_makes_no_large_request() {
    let world = World::start().await;
    let urls = ["/", "/fits", "/one", "/echo"].map(|path| world.web.url("h1-29", path));
    let ran = world.fetch().args(["--cookies", "-c", "1"]).urls(urls).run().await;
    assert_eq!(ran.outcomes(), ["head-too-large", "ok", "ok", "ok"], "{}", ran.complaints);
    // The echo is as long as the request head, and a few bytes of markup.
    let echoed = line(&ran, "/echo")["body_bytes"].as_u64().unwrap();
    assert!(echoed > 4_000, "some cookies are sent");
    assert!(echoed <= FIELD_BYTES_MAX as u64 + OTHER_FIELDS_BYTES, "{echoed}");
}

#[tokio::test]
async fn h1_29_without_being_told_no_cookie_is_sent() {
    let world = World::start().await;
    let urls = ["/one", "/fits", "/echo"].map(|path| world.web.url("h1-29", path));
    world.fetch().args(["-c", "1"]).urls(urls).run().await.check_all(3, "ok");
    assert!(pages(&world, "h1-29").iter().all(|seen| field(seen, "cookie").is_none()));
}

#[tokio::test]
async fn h1_30_hostile_cookies_end_no_run_and_reach_nobody_else() {
    let world = World::start().await;
    let paths = ["/maxage", "/control", "/suffix", "/case", "/dot", "/ip", "/echo"];
    let urls = paths.map(|path| world.web.url("h1-30", path));
    let ran =
        world.fetch().args(["--cookies", "-c", "1"]).urls(urls).url(world.web.url("h1-37", "/")).run().await;
    ran.check_all(8, "ok");
    let seen = pages(&world, "h1-30");
    let mut cookies: Vec<&str> = field(seen.last().unwrap(), "cookie").unwrap().split("; ").collect();
    cookies.sort_unstable();
    // No cookies for a public suffix, for an address, or with control characters.
    assert_eq!(cookies, ["dotted=1", "long=1", "mixed=1"]);
    assert_eq!(field(&pages(&world, "h1-37")[0], "cookie"), None);
}

#[tokio::test]
async fn h1_30_a_cookie_of_an_address_is_that_addresss_alone() {
    let world = World::start().await;
    let at = |id: &str, path: &str| format!("http://{}:{}{path}", world.web.address(id), world.web.port());
    let urls =
        [at("h1-30", "/ip"), at("h1-30", "/echo"), at("h1-29", "/echo"), world.web.url("h1-30", "/echo")];
    world.fetch().args(["--cookies", "-c", "1"]).urls(urls).run().await.check_all(4, "ok");
    // The name is another host than the address: which of the two is asked first is open, while one of them rests.
    let seen = pages(&world, "h1-30");
    let by_address = |seen: &&Seen| field(seen, "host").unwrap().starts_with("127.");
    let (address, name): (Vec<&Seen>, Vec<&Seen>) = seen.iter().partition(by_address);
    let cookies = |seen: &[&Seen]| -> Vec<Option<String>> {
        seen.iter().map(|seen| field(seen, "cookie").map(str::to_owned)).collect()
    };
    assert_eq!(cookies(&address), [None, Some("ip=1".to_owned())]);
    assert_eq!(cookies(&name), [None]);
    assert_eq!(field(&pages(&world, "h1-29")[0], "cookie"), None);
}

#[tokio::test]
async fn h1_31_sites_fetched_in_parallel_keep_their_cookies_apart() {
    let world = World::start().await;
    let mut urls = vec![world.web.url("a.h1-31", "/set"), world.web.url("b.h1-31", "/set")];
    for n in 0..20 {
        urls.extend(["a", "b"].map(|site| world.web.url(&format!("{site}.h1-31"), &format!("/echo?{n}"))));
    }
    world.fetch().args(["--cookies", "-c", "8"]).urls(urls).run().await.check_all(42, "ok");
    let mut carried = 0;
    for seen in pages(&world, "h1-31") {
        let site = field(&seen, "host").unwrap().split('.').next().unwrap().to_owned();
        if let Some(cookies) = field(&seen, "cookie") {
            assert_eq!(cookies, format!("owner={site}"), "{}", seen.path);
            carried += 1;
        }
    }
    assert!(carried >= 20, "most of them carry one: {carried}");
}

#[tokio::test]
async fn h1_34_validators_go_back_verbatim_unless_they_are_empty_or_large() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let warc = dir.path().to_str().unwrap();
    let paths = ["/weak", "/strong", "/empty", "/long", "/changing", "/now"];
    for _ in 0..3 {
        let urls = paths.map(|path| world.web.url("h1-34", path));
        let ran = world.fetch().args(["--warc", warc, "--conditional", "-c", "1"]).urls(urls).run().await;
        // Every run is a process of its own, so the validators come from the archive.
        ran.check_all(6, "ok");
    }
    let seen = pages(&world, "h1-34");
    assert_eq!(seen.len(), 3 * paths.len(), "one request per URL and run, whatever the validators do");
    let asked = |run: usize, path: &str| {
        let at = paths.iter().position(|other| *other == path).unwrap();
        let seen = &seen[run * paths.len() + at];
        assert_eq!(seen.path, path);
        (field(seen, "if-none-match"), field(seen, "if-modified-since"))
    };
    for path in paths {
        assert_eq!(asked(0, path), (None, None), "{path}: nothing is known at first");
    }
    for run in [1, 2] {
        assert_eq!(asked(run, "/weak"), (Some("W/\"weak\""), None));
        assert_eq!(asked(run, "/strong"), (Some("\"strong\""), None));
        assert_eq!(asked(run, "/empty"), (None, None));
        assert_eq!(asked(run, "/long"), (None, None), "10 KB are not sent back");
        let since = asked(run, "/now").1.unwrap();
        assert!(since.ends_with(" GMT") && since.len() < 40, "{since}");
    }
    assert_eq!((asked(1, "/changing").0, asked(2, "/changing").0), (Some("\"1\""), Some("\"2\"")));
}

#[tokio::test]
async fn h1_34_what_has_not_changed_is_not_sent_again() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    for outcome in ["ok", "not-modified", "not-modified"] {
        let run = world.fetch().args(["--warc", dir.path().to_str().unwrap(), "--conditional"]);
        run.url(world.web.url("good", "/etag")).run().await.check_all(1, outcome);
    }
}

#[tokio::test]
async fn h1_36_a_challenge_rests_the_whole_host() {
    let world = World::start().await;
    let urls = ["/403", "/402", "/451"].map(|path| world.web.url("h1-36", path));
    let run = world.fetch().args(["-c", "1"]).set("retry.challenge_rest=2s");
    let ran = run.urls(urls).run().await;
    assert_eq!(ran.outcomes(), ["challenged", "payment-required", "legal"], "{}", ran.complaints);
    let seen = pages(&world, "h1-36");
    assert_eq!(seen.len(), 3, "no retry, no solving");
    assert!(
        seen[1].at - seen[0].at >= std::time::Duration::from_millis(1_900),
        "{:?}",
        seen[1].at - seen[0].at
    );
    assert!(
        seen[2].at - seen[1].at < std::time::Duration::from_millis(1_900),
        "a price is no reason to rest"
    );
}

#[tokio::test]
async fn h1_37_secrets_for_one_site_are_in_no_other_sites_echo() {
    let world = World::start().await;
    let with_secret = |id: &str, path: &str| world.web.url(id, path).replace("://", "://user:s3cret@");
    let urls = [with_secret("h1-30", "/echo"), world.web.url("h1-37", "/"), world.web.url("h1-37", "/json")];
    let run = world.fetch().args(["--cookies", "-c", "1"]).url(world.web.url("h1-30", "/dot"));
    let ran = run.urls(urls).run().await;
    ran.check_all(4, "ok");
    assert!(
        pages(&world, "h1-30").iter().any(|seen| field(seen, "authorization").is_some()),
        "where it belongs"
    );
    let node = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for seen in world.web.requests("h1-37") {
        let head = String::from_utf8(seen.head.clone()).unwrap();
        let names: Vec<String> = head
            .lines()
            .skip(1)
            .filter_map(|line| Some(line.split_once(':')?.0.to_ascii_lowercase()))
            .collect();
        assert!(
            names
                .iter()
                .all(|name| ["host", "user-agent", "accept", "accept-encoding"].contains(&name.as_str())),
            "{head}"
        );
        assert!(
            !head.contains("s3cret") && !head.contains("dotted") && !head.contains(node.trim()),
            "{head}"
        );
    }
    // Nor is the password printed.
    assert!(ran.lines.iter().all(|line| !line.to_string().contains("s3cret")), "{:?}", ran.lines);
}

#[tokio::test]
async fn h1_38_a_head_is_no_capture_and_no_reason_to_skip_the_page() {
    let world = World::start().await;
    let dir = tempfile::tempdir().unwrap();
    let warc = ["--warc", dir.path().to_str().unwrap()];
    let url = world.web.url("h1-38", "/disagree");
    let ran = world.fetch().args(warc).args(["--head"]).url(&url).run().await;
    ran.check_all(1, "ok");
    assert!(ran.lines[0].get("warc").is_none(), "{:?}", ran.lines);
    let ran = world.fetch().args(warc).args(["--conditional"]).url(&url).run().await;
    ran.check_all(1, "ok");
    assert_eq!(ran.lines[0]["body_bytes"], 81);
    let seen = pages(&world, "h1-38");
    assert_eq!(field(&seen[1], "if-none-match"), None, "the head's validator is not the page's");
}
