//! SSRF: attempts to lead the spider to a forbidden address. The tripwire on 127.0.0.1 counts every connection.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use nephila_core::spider::{Action, Outcome, Settings};
use nephila_core::url::CrawlUrl;
use nephila_spider::Fetched;
use nephila_testweb::hostile::INSIDE;
use tokio::net::TcpListener;

use crate::namespace;
use crate::support::{World, request, text};

/// Opens the hostile web only; 127.0.0.1 and everything else private stays closed.
fn guarded(settings: &mut Settings) {
    settings.allow_addresses = vec!["127.80.0.0/12".parse().unwrap()];
}

fn check_refused(fetched: &Fetched, what: &str) {
    assert_eq!(
        (fetched.outcome, fetched.requests),
        (Outcome::AddressPrivate, 0),
        "{what}: {}",
        fetched.detail
    );
    assert_eq!(fetched.outcome.action(), Action::Never);
}

/// Follows redirects, as a crawler does.
async fn follow(world: &World, id: &str, path: &str) -> Fetched {
    let redirect = world.get(id, path).await;
    assert_eq!(redirect.outcome, Outcome::Redirect, "{path}: {}", redirect.detail);
    world.fetch(redirect.redirect.expect("a target").as_str()).await
}

#[tokio::test]
async fn ssr_01_a_name_for_a_private_ipv4_address_is_refused_at_the_dial() {
    let world = World::start_with(guarded).await;
    for address in [
        "127.0.0.1",
        "127.255.255.254",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.1.2.3",
        "192.0.0.1",
        "198.18.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "224.0.0.1",
    ] {
        let name = format!("a-{}.ssr-01", address.replace('.', "-"));
        let fetched = world.get(&name, "/").await;
        check_refused(&fetched, &name);
        assert!(fetched.detail.contains(address), "{}", fetched.detail);
        assert_eq!(fetched.address, None, "nothing was dialled");
    }
    assert_eq!(world.web.connections(INSIDE), 0);
    assert_eq!(world.get("ssr-01", "/").await.outcome, Outcome::Fetched, "the open range is open");
}

#[tokio::test]
async fn ssr_02_a_name_for_a_special_ipv6_address_is_refused_at_the_dial() {
    let has_ipv6 = std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| !text.is_empty());
    let world = World::start_with(guarded).await;
    for address in [
        "::1",
        "fe80::1",
        "fc00::1",
        "fd00:ec2::254",
        "fec0::1",
        "::ffff:7f00:1",
        "::7f00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::7f00:1",
        "2002:7f00:1::1",
        "2001:0:7f00:1::1",
        "2001:db8::1",
        "3fff::1",
        "100::1",
        "ff02::1",
    ] {
        check_refused(&world.fetch(&format!("http://[{address}]:{}/", world.web.port())).await, address);
        let name = format!("aaaa-{}.ssr-02", address.replace(':', "-"));
        let fetched = world.get(&name, "/").await;
        if has_ipv6 {
            check_refused(&fetched, &name);
        } else {
            assert_eq!(fetched.outcome, Outcome::DnsNodata, "{name}");
        }
    }
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn ssr_03_the_address_that_was_checked_is_the_one_dialled() {
    let change = |settings: &mut Settings| {
        guarded(settings);
        settings.dns_ttl_min = Duration::ZERO;
        settings.idle_timeout = Duration::ZERO;
    };
    let world = World::start_with(change).await;
    // Changes at every query: each fetch resolves once, and connects to that address, or is refused.
    let (mut served, mut refused) = (0, 0);
    for _ in 0..20 {
        let fetched = world.get("ssr-03", "/").await;
        match fetched.outcome {
            Outcome::Fetched => {
                served += 1;
                assert_eq!(fetched.address.unwrap().ip(), world.web.address("ssr-03"));
            }
            _ => {
                refused += 1;
                check_refused(&fetched, "ssr-03");
            }
        }
    }
    assert_eq!((served, refused), (10, 10));
    let questions = world.web.dns_queries("ssr-03.hostile.test");
    assert_eq!(
        questions.iter().filter(|query| query.record_type == 1).count(),
        20,
        "one resolution per fetch"
    );
    for _ in 0..5 {
        let two = world.get("two.ssr-03", "/").await;
        assert_eq!(two.outcome, Outcome::Fetched, "{}", two.detail);
        assert_eq!(two.address.unwrap().ip(), world.web.address("two.ssr-03"));
    }
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn ssr_03_a_kept_connection_keeps_its_checked_address() {
    let change = |settings: &mut Settings| {
        guarded(settings);
        settings.dns_ttl_min = Duration::ZERO;
    };
    let world = World::start_with(change).await;
    let first = world.get("second.ssr-03", "/").await;
    let second = world.get("second.ssr-03", "/").await;
    assert_eq!((second.outcome, second.reused), (Outcome::Fetched, true), "{}", second.detail);
    assert_eq!(second.address, first.address);
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn ssr_04_every_hop_of_a_redirect_is_filtered() {
    let world = World::start_with(guarded).await;
    for path in ["/loopback", "/name", "/v6", "/mapped", "/metadata"] {
        check_refused(&follow(&world, "ssr-04", path).await, path);
    }
    let hop = follow(&world, "ssr-04", "/chain").await;
    check_refused(&world.fetch(hop.redirect.expect("the second hop").as_str()).await, "/chain");
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn ssr_05_every_kind_of_file_that_leads_inside_is_refused() {
    let world = World::start_with(guarded).await;
    for path in [
        "/robots.txt",
        "/sitemap.xml",
        "/favicon.ico",
        "/license.xml",
        "/.well-known/http-message-signatures-directory",
    ] {
        check_refused(&follow(&world, "ssr-05", path).await, path);
    }
    // HEAD takes the same way.
    let mut head = request(&format!("http://127.0.0.1:{}/", world.web.port()));
    head.head_only = true;
    check_refused(&world.ask(head).await, "HEAD");
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn ssr_06_other_spellings_of_an_address_are_refused_at_the_dial() {
    let world = World::start_with(guarded).await;
    for path in ["/decimal", "/hex", "/octal", "/short", "/wide"] {
        check_refused(&follow(&world, "ssr-06", path).await, path);
    }
    assert_eq!(follow(&world, "ssr-06", "/zero").await.outcome, Outcome::DnsNullAddress);
    for host in [
        "2130706433",
        "0x7f000001",
        "0177.1",
        "127.1",
        "１２７.０.０.１",
        "%31%32%37.0.0.1",
        "[::ffff:127.0.0.1]",
        "localhost",
    ] {
        check_refused(&world.fetch(&format!("http://{host}:{}/", world.web.port())).await, host);
    }
    assert_eq!(world.web.connections(INSIDE), 0);
}

#[tokio::test]
async fn ssr_08_ports_of_other_services_are_refused() {
    let world = World::start().await;
    for path in ["/22", "/25", "/6379", "/4222", "/9200"] {
        let fetched = follow(&world, "ssr-08", path).await;
        assert_eq!(
            (fetched.outcome, fetched.requests, fetched.address),
            (Outcome::PortDenied, 0, None),
            "{path}: {}",
            fetched.detail
        );
    }
    // Ports that browsers refuse stay refused, whatever the settings say; the rest is up to the operator.
    let opened = World::start_with(|settings| settings.ports.extend([22, 25, 6379, 9200])).await;
    for (port, outcome) in
        [(22, Outcome::PortDenied), (25, Outcome::PortDenied), (9200, Outcome::ConnectRefused)]
    {
        let fetched = opened.fetch(&format!("http://good.hostile.test:{port}/")).await;
        assert_eq!(fetched.outcome, outcome, "{port}: {}", fetched.detail);
    }
}

#[tokio::test]
async fn ssr_09_a_denied_range_is_refused_though_public() {
    let change = |settings: &mut Settings| {
        guarded(settings);
        settings.deny_addresses = vec!["93.184.216.0/24".parse().unwrap(), "2606:2800::/32".parse().unwrap()];
        settings.dns_fixed = vec!["store.test=93.184.216.34".into()];
    };
    let world = World::start_with(change).await;
    for url in [
        "http://store.test/",
        "http://93.184.216.34/",
        "http://[2606:2800::1]/",
        "http://[64:ff9b::5db8:d822]/",
    ] {
        let fetched = world.fetch(url).await;
        check_refused(&fetched, url);
        assert!(fetched.detail.contains("our own"), "{}", fetched.detail);
        assert_eq!(fetched.address, None);
    }
}

#[tokio::test]
async fn ssr_09_the_addresses_of_this_machine_are_refused_though_public() {
    if !namespace::enter("ssrf::ssr_09_the_addresses_of_this_machine_are_refused_though_public") {
        return;
    }
    // The machine has a public address before the spider starts, and our server listens there.
    namespace::run("ip addr add 93.184.216.34/32 dev lo");
    namespace::run("ip addr add 2606:2800::7/128 dev lo nodad");
    let inside = TcpListener::bind("93.184.216.34:0").await.unwrap();
    let port = inside.local_addr().unwrap().port();
    let world = World::start_with(|settings| settings.ports.push(port)).await;
    for host in ["93.184.216.34", "[2606:2800::7]"] {
        let fetched = world.fetch(&format!("http://{host}:{port}/")).await;
        check_refused(&fetched, host);
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(200), inside.accept()).await.is_err(),
        "somebody came"
    );
}

#[tokio::test]
async fn ssr_10_line_ends_and_spaces_never_become_fields() {
    let world = World::start().await;
    let mut fetched = Vec::new();
    for path in ["/cr", "/raw", "/space"] {
        let redirect = world.get("ssr-10", path).await;
        // An unreadable target is refused; a readable one is requested in one line.
        if let Some(target) = redirect.redirect {
            fetched.push(world.fetch(target.as_str()).await);
        }
    }
    let host = format!("http://ssr-10.hostile.test:{}", world.web.port());
    for path in [
        "/b\r\nX-Injected: yes\r\n\r\nGET /other HTTP/1.1",
        "/%0d%0aX-Injected:%20yes",
        "/c d HTTP/1.1\tX-Injected: yes",
        "/?q=\r\nX-Injected: yes",
    ] {
        fetched.push(world.fetch(&format!("{host}{path}")).await);
    }
    assert!(fetched.len() >= 5);
    for fetched in &fetched {
        assert_eq!(fetched.outcome, Outcome::Fetched, "{}", fetched.detail);
    }
    for seen in world.web.requests("ssr-10") {
        let head = String::from_utf8_lossy(&seen.head).into_owned();
        assert!(!head.lines().any(|line| line.to_ascii_lowercase().starts_with("x-injected")), "{head}");
        assert_eq!(head.lines().next().unwrap().split(' ').count(), 3, "{head}");
    }
    assert!(!world.web.requests("ssr-10").iter().any(|seen| seen.path == "/other"));
    // In the host they are no URL at all, and a field cannot hold them.
    for host in [
        "good.hostile.test\r\nSET x 1",
        "good hostile.test",
        "good.hostile.test%0d%0aPUB",
        "good.hostile.test%20x",
    ] {
        match CrawlUrl::parse(&format!("http://{host}/")) {
            Err(error) => assert_eq!(error.outcome(), Outcome::UrlBadHost, "{host:?}"),
            // Line ends are removed from a URL before parsing; the rest is one plain name.
            Ok(url) => assert!(
                url.host_str().bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
                "{url:?}"
            ),
        }
    }
    assert!(HeaderValue::from_bytes(b"a\r\nX-Injected: yes").is_err());
    assert!(HeaderName::from_bytes(b"a\r\nb").is_err());
}

#[tokio::test]
async fn ssr_11_an_opened_range_opens_nothing_else() {
    let world =
        World::start_with(|settings| settings.allow_addresses = vec!["127.89.1.1/32".parse().unwrap()]).await;
    assert_eq!(world.get("ssr-01", "/").await.outcome, Outcome::Fetched);
    check_refused(&world.get("good", "/page").await, "good");
    check_refused(&world.get("a-127-0-0-1.ssr-01", "/").await, "loopback");
    assert_eq!(world.web.connections("good") + world.web.connections(INSIDE), 0);
    assert_eq!(Settings::default().allow_addresses, [], "closed unless opened");
}

#[tokio::test]
async fn ssr_13_a_kept_connection_never_serves_another_name() {
    let world = World::start().await;
    let first = world.get("one.ssr-13", "/").await;
    let other = world.get("two.ssr-13", "/").await;
    assert_eq!(first.address, other.address, "one address, two names");
    assert!(!other.reused);
    assert!(world.get("one.ssr-13", "/").await.reused);
    assert!(world.get("two.ssr-13", "/").await.reused);
    assert_eq!(world.web.connections("ssr-13"), 2);
    for seen in world.web.requests("ssr-13") {
        let name = if seen.connection == 1 { "one.ssr-13" } else { "two.ssr-13" };
        assert!(
            String::from_utf8_lossy(&seen.head).contains(name),
            "connection {} served another name",
            seen.connection
        );
    }
}

#[tokio::test]
async fn ssr_14_only_http_and_https_can_be_asked_for() {
    for url in [
        "file:///etc/passwd",
        "ftp://good.hostile.test/f",
        "gopher://good.hostile.test/1",
        "unix:/run/x.sock",
        "data:text/html,x",
        "FILE:///etc/passwd",
        "\tfile:///x",
    ] {
        let error = CrawlUrl::parse(url).expect_err(url);
        assert_eq!(error.outcome(), Outcome::UrlScheme, "{url}");
        assert_eq!(error.outcome().action(), Action::Never);
    }
    // The same from a page, a feed or a sitemap: every link found there is joined to the page's URL.
    let world = World::start().await;
    for path in ["/links", "/feed", "/sitemap.xml"] {
        let page = CrawlUrl::parse(&world.web.url("ssr-14", path)).unwrap();
        let found = text(&world.get("ssr-14", path).await);
        for url in [
            "file:///etc/passwd",
            "ftp://good.hostile.test/f",
            "gopher://good.hostile.test/1",
            "unix:/run/x.sock",
            "data:text/html,x",
        ] {
            assert!(found.contains(url), "{path} offers {url}");
            assert_eq!(page.join(url).expect_err(url).outcome(), Outcome::UrlScheme, "{url}");
        }
    }
}

#[tokio::test]
async fn ssr_16_what_is_inside_a_nat64_address_decides() {
    let has_ipv6 = std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| !text.is_empty());
    let world = World::start_with(guarded).await;
    if has_ipv6 {
        let fetched = world.get("ssr-16", "/").await;
        check_refused(&fetched, "127.0.0.1 inside");
        assert!(fetched.detail.contains("127.0.0.0/8"), "{}", fetched.detail);
    }
    check_refused(&world.fetch("http://[64:ff9b::a00:1]/").await, "10.0.0.1 inside");
    check_refused(&world.fetch("http://[64:ff9b::a9fe:a9fe]/").await, "metadata inside");
    assert_eq!(world.web.connections(INSIDE), 0);
    // A public address inside is dialled. There is no NAT64 here, so the dial fails.
    let public = world.fetch("http://[64:ff9b::5db8:d822]/").await;
    let expected =
        [Outcome::ConnectUnreachable, Outcome::ConnectTimeout, Outcome::ConnectRefused, Outcome::LocalPorts];
    assert!(expected.contains(&public.outcome), "{}: {}", public.outcome, public.detail);
}

#[tokio::test]
async fn ssr_17_literals_and_names_take_the_same_way() {
    let world = World::start_with(guarded).await;
    let port = world.web.port();
    let by_name = world.get("a-127-0-0-1.ssr-01", "/").await;
    let by_literal = world.fetch(&format!("http://127.0.0.1:{port}/")).await;
    let by_redirect = follow(&world, "ssr-17", "/literal").await;
    for fetched in [&by_name, &by_literal, &by_redirect] {
        check_refused(fetched, "127.0.0.1");
        assert_eq!(fetched.detail, by_name.detail);
    }
    check_refused(&follow(&world, "ssr-17", "/v6").await, "[::1]");
    assert_eq!(world.web.connections(INSIDE), 0);
    // And an open address is served by literal as by name.
    let open = world.fetch(&format!("http://{}:{port}/page", world.web.address("good"))).await;
    assert_eq!(open.outcome, Outcome::Fetched, "{}", open.detail);
}
