//! Fetches through a proxy: data sent to the proxy, data hidden from the origin, and limits of proxies.

use std::net::SocketAddr;

use nephila_core::spider::Outcome;
use nephila_testweb::hostile::INSIDE;
use nephila_testweb::proxy::{Manner, Proxy};

use crate::support::{World, request, text};

/// `spider:open sesame`, in the form of a proxy's URL and of CONNECT.
const CREDENTIALS: &str = "spider:open%20sesame";
const TOKEN: &str = "Basic c3BpZGVyOm9wZW4gc2VzYW1l";

/// A world that can be reached only through this proxy.
async fn behind(proxy: &Proxy, scheme: &str) -> World {
    let setting = format!("{scheme}://{CREDENTIALS}@{}", proxy.addr());
    World::start_with(|settings| settings.proxy = setting).await
}

/// Checks that neither the origin nor the archive sees anything of the proxy.
fn assert_nothing_leaks(world: &World, archived: &[u8]) {
    for head in world.web.requests("red-16").iter().map(|seen| seen.head.as_slice()).chain([archived]) {
        let head = String::from_utf8_lossy(head).to_lowercase();
        for secret in ["proxy-", "sesame", &TOKEN.to_lowercase()[6..], "forwarded", "via:"] {
            assert!(!head.contains(secret), "{secret} in {head}");
        }
    }
}

#[tokio::test]
async fn red_16_connect_carries_an_address_and_the_origin_sees_no_credentials() {
    let proxy = Proxy::start(Manner::Helpful).await.unwrap();
    let world = behind(&proxy, "http").await;
    for url in [world.web.url("red-16", "/land"), world.web.https_url("red-16", "/land")] {
        let fetched = world.fetch(&url).await;
        assert_eq!(fetched.outcome, Outcome::Fetched, "{url}: {}", fetched.detail);
        let exchange = fetched.exchange.as_ref().unwrap();
        assert_nothing_leaks(&world, &exchange.request_head);
        assert!(!text(&fetched).contains("CONNECT"));
        assert_eq!(
            exchange.address, None,
            "the archive does not claim an address that we did not dial ourselves"
        );
    }
    let asked = proxy.asked();
    let expected = [world.web.port(), world.web.tls_port()]
        .map(|port| SocketAddr::new(world.web.address("red-16"), port));
    assert_eq!(
        asked
            .iter()
            .map(|asked| asked.target.parse().expect("an address, no name"))
            .collect::<Vec<SocketAddr>>(),
        expected
    );
    for asked in asked {
        assert_eq!(asked.credentials, Some((TOKEN.into(), String::new())));
        assert!(!asked.head.contains("hostile.test"), "the name would be resolved again: {}", asked.head);
    }
    assert!(!world.web.dns_queries("red-16.hostile.test").is_empty(), "we resolve it ourselves");
}

#[tokio::test]
async fn red_16_socks5_carries_an_address_and_the_origin_sees_no_credentials() {
    let proxy = Proxy::start(Manner::Helpful).await.unwrap();
    // `socks5h` asks the proxy to resolve. The proxy still gets the address.
    for scheme in ["socks5", "socks5h"] {
        let world = behind(&proxy, scheme).await;
        for url in [world.web.url("red-16", "/land"), world.web.https_url("red-16", "/land")] {
            let fetched = world.fetch(&url).await;
            assert_eq!(fetched.outcome, Outcome::Fetched, "{url}: {}", fetched.detail);
            assert_nothing_leaks(&world, &fetched.exchange.unwrap().request_head);
            let asked = proxy.asked().pop().unwrap();
            assert_eq!(asked.kind, "socks5");
            assert_eq!(
                asked.target.parse::<SocketAddr>().expect("an address, no name").ip(),
                world.web.address("red-16")
            );
            assert_eq!(asked.credentials, Some(("spider".into(), "open sesame".into())));
        }
    }
    assert_eq!(proxy.asked().len(), 4);
}

#[tokio::test]
async fn red_16_each_hop_gets_a_tunnel_of_its_own() {
    let proxy = Proxy::start(Manner::Helpful).await.unwrap();
    let world = behind(&proxy, "http").await;
    for start in [world.web.url("red-16", "/up"), world.web.https_url("red-16", "/down")] {
        let before = proxy.asked().len();
        let hop = world.fetch(&start).await;
        assert_eq!(hop.outcome, Outcome::Redirect, "{start}: {}", hop.detail);
        let target = hop.redirect.unwrap();
        let land = world.ask(request(target.as_str())).await;
        assert_eq!(land.outcome, Outcome::Fetched, "{target:?}: {}", land.detail);
        let ports: Vec<String> = proxy.asked()[before..].iter().map(|asked| asked.target.clone()).collect();
        assert!(
            ports.iter().any(|target| target.ends_with(&format!(":{}", land.address.unwrap().port())))
                || land.reused,
            "{ports:?}"
        );
    }
    assert_nothing_leaks(&world, b"");
}

#[tokio::test]
async fn red_16_the_password_of_a_proxy_is_in_no_report() {
    for manner in [Manner::Refuses, Manner::Babbles] {
        let proxy = Proxy::start(manner).await.unwrap();
        for scheme in ["http", "socks5"] {
            let world = behind(&proxy, scheme).await;
            let fetched = world.get("red-16", "/land").await;
            assert_eq!(fetched.outcome, Outcome::ProxyFailed, "{scheme} {manner:?}: {}", fetched.detail);
            assert!(
                !fetched.detail.contains("sesame") && !fetched.detail.contains(&TOKEN[6..]),
                "{}",
                fetched.detail
            );
            assert!(!format!("{:?}", world.spider).contains("open sesame"), "nor in what programmers print");
            assert_eq!(world.web.connections("red-16"), 0, "no way around the proxy");
        }
    }
}

#[tokio::test]
async fn red_16_a_silent_proxy_meets_the_deadline_of_a_connection() {
    let proxy = Proxy::start(Manner::Silent).await.unwrap();
    let world = behind(&proxy, "http").await;
    let fetched = world.get("red-16", "/land").await;
    assert_eq!(fetched.outcome, Outcome::ProxyFailed, "{}", fetched.detail);
    assert!(fetched.timings.connect.unwrap() >= world.settings.connect_timeout);
    assert_eq!(world.web.connections("red-16"), 0);
}

#[tokio::test]
async fn ssr_07_a_private_target_is_refused_although_a_proxy_would_reach_it() {
    let proxy = Proxy::start(Manner::Helpful).await.unwrap();
    for scheme in ["http", "socks5"] {
        let setting = format!("{scheme}://{}", proxy.addr());
        let world = World::start_with(|settings| {
            settings.proxy = setting;
            settings.allow_addresses = vec!["127.80.0.0/12".parse().unwrap()];
        })
        .await;
        let (port, tls_port) = (world.web.port(), world.web.tls_port());
        for url in [
            format!("http://127.0.0.1:{port}/secret"),
            format!("http://[::1]:{port}/secret"),
            format!("http://[::ffff:127.0.0.1]:{port}/secret"),
            format!("http://2130706433:{port}/secret"),
            format!("https://127.0.0.1:{tls_port}/secret"),
            world.web.url("a-127-0-0-1.ssr-01", "/secret"),
            world.web.https_url("a-127-0-0-1.ssr-01", "/secret"),
            world.web.url("a-10-0-0-1.ssr-01", "/"),
            world.web.url("a-169-254-169-254.ssr-01", "/latest/meta-data/"),
        ] {
            let fetched = world.fetch(&url).await;
            assert_eq!(fetched.outcome, Outcome::AddressPrivate, "{scheme} {url}: {}", fetched.detail);
        }
        assert_eq!(proxy.asked(), [], "{scheme}: the proxy was never asked");
        assert_eq!(world.web.connections(INSIDE), 0);
    }
}

#[tokio::test]
async fn ssr_07_what_may_be_fetched_goes_through_the_proxy_and_by_no_other_way() {
    let proxy = Proxy::start(Manner::Helpful).await.unwrap();
    let world = behind(&proxy, "http").await;
    let fetched = world.get("good", "/page").await;
    assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    assert_eq!((proxy.asked().len(), world.web.connections("good")), (1, 1));
}
