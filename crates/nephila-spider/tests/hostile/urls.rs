//! Awkward spellings of URLs on the wire: the contacted host and the requested target. The rules themselves are tested
//! with the URL parser, in `nephila_core::url`.

use nephila_core::spider::Outcome;
use nephila_core::url::{CrawlUrl, URL_BYTES_MAX};
use nephila_testweb::hostile::INSIDE;

use crate::support::{World, body, text};

/// A world whose tripwire on 127.0.0.1 may not be touched.
async fn fenced() -> World {
    World::start_with(|settings| settings.allow_addresses = vec!["127.80.0.0/12".parse().unwrap()]).await
}

#[tokio::test]
async fn url_01_to_03_every_spelling_of_an_inner_address_meets_the_filter() {
    let world = fenced().await;
    let port = world.web.port();
    for host in [
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "１２７.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ] {
        let fetched = world.fetch(&format!("http://{host}:{port}/")).await;
        assert_eq!(fetched.outcome, Outcome::AddressPrivate, "{host}: {}", fetched.detail);
    }
    let zero = world.fetch(&format!("http://0:{port}/")).await;
    assert_eq!(zero.outcome, Outcome::DnsNullAddress, "{}", zero.detail);
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn url_04_userinfo_chooses_no_host_and_is_stored_nowhere() {
    let world = fenced().await;
    let port = world.web.port();
    for url in [
        format!("http://user:pass@good.hostile.test:{port}/page"),
        format!("http://user@127.0.0.1@good.hostile.test:{port}/page"),
        format!("http://127.0.0.1;user:pass@good.hostile.test:{port}/page"),
    ] {
        let fetched = world.fetch(&url).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{url}: {}", fetched.detail);
        assert_eq!(fetched.address.unwrap().ip(), world.web.address("good"), "{url}");
        let exchange = fetched.exchange.unwrap();
        assert_eq!(exchange.url, world.web.url("good", "/page"), "{url}");
        assert!(!String::from_utf8_lossy(&exchange.request_head).contains("pass"), "{url}");
    }
    let backslash = world.fetch(&format!("http://good.hostile.test:{port}\\@127.0.0.1:{port}/")).await;
    assert_eq!(backslash.address.unwrap().ip(), world.web.address("good"), "as browsers see it");
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn url_07_ports_that_are_not_allowed_are_never_dialled() {
    let world = World::start().await;
    for port in [22, 25, 6000, 8000] {
        let fetched = world.fetch(&format!("http://good.hostile.test:{port}/page")).await;
        assert_eq!(fetched.outcome, Outcome::PortDenied, "{port}: {}", fetched.detail);
        assert!(
            fetched.address.is_none() && fetched.timings.resolve.is_none(),
            "{port}: refused before anything is asked"
        );
    }
    for port in ["99999", "-1", "x"] {
        assert!(CrawlUrl::parse(&format!("http://good.hostile.test:{port}/")).is_err(), "{port}");
    }
    assert!(world.web.dns_queries("good.hostile.test").is_empty());
}

#[tokio::test]
async fn url_08_spellings_of_a_host_are_one_host_with_one_connection() {
    let world = World::start().await;
    for (host, reused) in
        [("good.hostile.test", false), ("GOOD.Hostile.TEST", true), ("good.hostile.test.", true)]
    {
        let fetched = world.fetch(&format!("https://{host}:{}/page", world.web.tls_port())).await;
        assert_eq!(
            (fetched.outcome, fetched.reused),
            (Outcome::Fetched, reused),
            "{host}: {}",
            fetched.detail
        );
    }
    assert_eq!(world.web.connections("good"), 1);
}

#[tokio::test]
async fn url_10_to_12_paths_arrive_as_a_browser_would_send_them() {
    let world = World::start().await;
    for (id, path, sent) in [
        ("url-10", "/a\tb", "/ab"),
        ("url-10", "/a\nb", "/ab"),
        ("url-10", "/nul\0byte", "/nul%00byte"),
        ("url-10", "/lone%", "/lone%"),
        ("url-10", "/bad%zz", "/bad%zz"),
        ("url-10", "/wide%u0041", "/wide%u0041"),
        ("url-11", "/a/../b", "/b"),
        ("url-11", "/%2e%2e/b", "/b"),
        ("url-11", "/a/./b", "/a/b"),
        ("url-11", "/x//y", "/x//y"),
        ("url-11", "/../../../c", "/c"),
        ("url-12", "?x=1", "/?x=1"),
    ] {
        let fetched = world.get(id, path).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{path:?}: {}", fetched.detail);
        assert_eq!(world.web.requests(id).last().unwrap().path, sent, "{path:?}");
    }
}

#[tokio::test]
async fn url_15_a_url_of_the_greatest_length_is_sent_and_a_longer_one_is_not() {
    let world = World::start().await;
    let longest = world.web.url("url-15", &format!("/{}", "l".repeat(URL_BYTES_MAX)));
    let longest = &longest[..URL_BYTES_MAX];
    let fetched = world.fetch(longest).await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    let error = CrawlUrl::parse(&format!("{longest}l")).unwrap_err();
    assert_eq!(error.outcome(), Outcome::UrlTooLong);
    assert_eq!(world.web.requests("url-15").len(), 1);
}

#[tokio::test]
async fn url_16_a_fragment_is_never_sent() {
    let world = World::start().await;
    let fetched = world.get("url-16", "/app#!/route/1").await;
    assert_eq!(text(&fetched), "<p>asked for /app</p>");
    assert_eq!(world.web.requests("url-16")[0].path, "/app");
    assert_eq!(fetched.exchange.unwrap().url, world.web.url("url-16", "/app"));
}

#[tokio::test]
async fn url_18_what_a_server_tells_apart_stays_apart() {
    let world = World::start().await;
    let mut keys = std::collections::HashSet::new();
    for path in ["/Case", "/case", "/a/b", "//a//b", "/a/b/"] {
        let fetched = world.get("url-18", path).await;
        assert_eq!(String::from_utf8(body(&fetched)).unwrap(), format!("<p>this is exactly {path}</p>"));
        assert!(keys.insert(CrawlUrl::parse(&world.web.url("url-18", path)).unwrap().id()), "{path}");
    }
}
