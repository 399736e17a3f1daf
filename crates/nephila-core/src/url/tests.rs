//! The catalogue of hostile URLs, row by row, and properties over random text.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use crate::spider::Outcome;
use crate::spider::address::AddressFilter;

fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn refused(text: &str) -> Outcome {
    match CrawlUrl::parse(text) {
        Ok(url) => panic!("{text:?} was taken as {url}"),
        Err(error) => error.outcome(),
    }
}

fn check_ip(spellings: &[&str], ip: impl Into<IpAddr>) {
    let ip = ip.into();
    for spelling in spellings {
        assert_eq!(url(spelling).host(), Host::Ip(ip), "{spelling}");
    }
}

#[test]
fn url_01_numbers_for_an_address_become_the_address() {
    check_ip(
        &[
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://0x7f000001/",
        ],
        Ipv4Addr::LOCALHOST,
    );
    check_ip(&["http://0/", "http://0x0/", "http://0.0.0.0./"], Ipv4Addr::UNSPECIFIED);
    // So the filter sees the address, never the spelling.
    let filter = AddressFilter::default();
    for spelling in
        ["http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.1/", "http://0/"]
    {
        let url = url(spelling);
        let Host::Ip(ip) = url.host() else { panic!("{spelling} is a name") };
        assert!(filter.check(ip).is_err(), "{spelling}");
    }
    assert_eq!(refused("http://4294967296/"), Outcome::UrlBadHost);
    assert_eq!(refused("http://1.2.3.256/"), Outcome::UrlBadHost);
    assert_eq!(refused("http://1.2.3.4.5/"), Outcome::UrlBadHost);
}

#[test]
fn url_02_digits_and_dots_of_other_scripts_are_normalised_and_filtered() {
    check_ip(
        &["http://１２７.0.0.1/", "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://127．0｡0.1/"],
        Ipv4Addr::LOCALHOST,
    );
    assert_eq!(url("http://ⓔxample。com/").host(), Host::Name("example.com"));
    let filtered = url("http://①②⑦.⓪.⓪.①/");
    let Host::Ip(ip) = filtered.host() else { panic!("a name") };
    assert!(AddressFilter::default().check(ip).is_err());
}

#[test]
fn url_03_embedded_ipv4_is_unfolded_before_the_filter_and_zone_ids_are_refused() {
    let filter = AddressFilter::default();
    for literal in [
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:7f00:1::]",
        "[2002:a00:1::1]",
        "[2001:0:7f00:1::]",
        "[::1]",
    ] {
        let url = url(&format!("http://{literal}/"));
        let Host::Ip(ip) = url.host() else { panic!("{literal} is a name") };
        assert!(filter.check(ip).is_err(), "{literal}");
    }
    let public: Ipv6Addr = "2606:4700::1111".parse().unwrap();
    check_ip(&["http://[2606:4700::1111]/", "http://[2606:4700:0:0:0:0:0:1111]/"], public);
    assert!(filter.check(public.into()).is_ok());
    for zone in ["http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[2606:4700::1111%251]/"] {
        assert_eq!(refused(zone), Outcome::UrlBadHost, "{zone}");
    }
}

#[test]
fn url_04_userinfo_is_in_no_key_no_uri_and_no_log() {
    for (text, host) in [
        ("http://user:s3cret@example.com/", "example.com"),
        ("http://user@evil@example.com/", "example.com"),
        ("http://s3cret@example.com/", "example.com"),
        ("http://good.com\\@evil.com/", "good.com"),
        ("http://good.com#@evil.com/", "good.com"),
        ("http://good.com?@evil.com/", "good.com"),
        ("http://good.com/@evil.com/", "good.com"),
    ] {
        let url = url(text);
        assert_eq!(url.host(), Host::Name(host), "{text}");
        for shown in [url.as_str(), url.key(), &format!("{url}"), &format!("{url:?}"), url.origin()] {
            assert!(!shown.contains("s3cret") && !shown.contains("user"), "{shown}");
        }
    }
    let with = url("http://us%40er:p%3Aw@example.com/a");
    assert_eq!(with.credentials(), Some(("us@er", "p:w")));
    assert_eq!(with.key(), url("http://example.com/a").key());
    assert_eq!(url("http://example.com/").credentials(), None);
    assert_eq!(url("http://:pw@example.com/").credentials(), Some(("", "pw")));
    // Nor does a secret propagate to links of the page.
    assert_eq!(with.join("/b").unwrap().credentials(), None);
}

#[test]
fn url_05_a_semicolon_in_userinfo_leaves_the_host_as_browsers_see_it() {
    let url = url("http://good.com;x:y@evil.com/");
    assert_eq!(url.host(), Host::Name("evil.com"));
    assert_eq!(url.credentials(), Some(("good.com;x", "y")));
    assert_eq!(url.key(), "http://evil.com/");
}

#[test]
fn url_06_a_percent_encoded_host_is_decoded_once_and_checked_again() {
    assert_eq!(url("http://ex%61mple.com/").host(), Host::Name("example.com"));
    assert_eq!(url("http://EX%41MPLE%2Ecom/").host(), Host::Name("example.com"));
    for text in [
        "http://ex%2fample.com/",
        "http://good.com%2f@evil/..%2f",
        "http://ex%2561mple.com/",
        "http://a%00b/",
    ] {
        if text.contains('@') {
            assert_eq!(url("http://good.com%2f@evil/").host(), Host::Name("evil"));
        } else {
            assert_eq!(refused(text), Outcome::UrlBadHost, "{text}");
        }
    }
    assert_eq!(refused("http://exa%23mple.com/"), Outcome::UrlBadHost);
    check_ip(&["http://%31%32%37.1/"], Ipv4Addr::LOCALHOST);
}

#[test]
fn url_07_default_and_empty_ports_go_and_odd_ports_are_refused() {
    for text in ["http://a.test:80/", "http://a.test:/", "http://a.test:0080/", "http://a.test/"] {
        assert_eq!(url(text).as_str(), "http://a.test/");
        assert_eq!(url(text).port(), 80);
        assert_eq!(url(text).origin(), "http://a.test");
    }
    assert_eq!(url("https://a.test:443/").as_str(), "https://a.test/");
    assert_eq!(url("https://a.test:80/").key(), "https://a.test:80/");
    for text in ["http://a.test:99999/", "http://a.test:65536/", "http://a.test:x/", "http://a.test:-1/"] {
        assert_eq!(refused(text), Outcome::UrlBad, "{text}");
    }
    let mut rule = PortRule::default();
    for (text, allowed) in [
        ("http://a.test/", true),
        ("https://a.test/", true),
        ("http://a.test:8080/", true),
        ("https://a.test:8443/", true),
        ("http://a.test:0/", false),
        ("http://a.test:22/", false),
        ("http://a.test:25/", false),
        ("http://a.test:3000/", false),
    ] {
        assert_eq!(rule.check(url(text).port()).is_ok(), allowed, "{text}");
    }
    rule.allowed.extend([3000, 25]);
    assert_eq!(rule.check(3000), Ok(()));
    assert_eq!(rule.check(25), Err(PortDenied::Bad(25)));
}

#[test]
fn url_08_one_key_per_host_and_no_fake_punycode() {
    let key = url("http://example.com/").key().to_owned();
    for text in
        ["http://example.com./", "http://EXAMPLE.com/", "http://eXample.COM.:80/", "HTTP://example.com"]
    {
        assert_eq!(url(text).key(), key, "{text}");
        assert_eq!(url(text).host(), Host::Name("example.com"));
    }
    let key = url("http://bücher.example/").key().to_owned();
    for text in ["http://xn--bcher-kva.example/", "http://BÜCHER.example./", "http://XN--BCHER-KVA.example/"]
    {
        assert_eq!(url(text).key(), key, "{text}");
    }
    for text in ["http://xn--example-/", "http://xn--example-.com/", "http://xn--/", "http://a.xn--0/"] {
        assert_eq!(refused(text), Outcome::UrlBadHost, "{text}");
    }
    let label = "a".repeat(64);
    assert_eq!(refused(&format!("http://{label}.com/")), Outcome::UrlBadHost);
    assert!(CrawlUrl::parse(&format!("http://{}.com/", &label[1..])).is_ok());
    let name = [&label[..49]; 5].join(".") + ".abc";
    assert_eq!(name.len(), 253);
    assert!(CrawlUrl::parse(&format!("http://{name}/")).is_ok());
    assert!(CrawlUrl::parse(&format!("http://{name}./")).is_ok());
    assert_eq!(refused(&format!("http://{name}d/")), Outcome::UrlBadHost);
    for text in ["http://a..b/", "http://.a/", "http://a../", "http://../", "http://./"] {
        assert_eq!(refused(text), Outcome::UrlBadHost, "{text}");
    }
    // A single label is a name of its own, and nothing is ever appended to it.
    assert_eq!(url("http://intranet/").host(), Host::Name("intranet"));
    assert_eq!(url("http://intranet/").registrable_domain(), None);
}

#[test]
fn url_09_names_follow_uts_46_without_transition() {
    assert_eq!(url("http://faß.de/").host(), Host::Name("xn--fa-hia.de"));
    assert_eq!(url("http://fass.de/").host(), Host::Name("fass.de"));
    assert_eq!(url("http://☃.net/").host(), Host::Name("xn--n3h.net"));
    assert_eq!(url("http://😀.example/").host(), Host::Name("xn--e28h.example"));
    assert_eq!(url("http://βόλος.com/").host(), Host::Name("xn--nxasmm1c.com"));
    // A label that mixes directions against RFC 5893 is refused; a pure right-to-left one is taken.
    assert_eq!(url("http://אבג.example/").host(), Host::Name("xn--4dbcd.example"));
    assert_eq!(refused("http://אa.example/"), Outcome::UrlBadHost);
    assert_eq!(refused("http://0\u{202e}a.example/"), Outcome::UrlBadHost);
}

#[test]
fn url_10_odd_bytes_are_handled_as_browsers_do() {
    for (text, want) in [
        ("  http://a.test/b\tc\nd\r ", "http://a.test/bcd"),
        ("\u{0}\u{1f} http://a.test/\u{0}", "http://a.test/"),
        ("http://a.test/x\u{0}y", "http://a.test/x%00y"),
        ("ht\ntp://a.test/", "http://a.test/"),
        ("http://a.test/%", "http://a.test/%"),
        ("http://a.test/%zz?%zz%", "http://a.test/%zz?%zz%"),
        ("http://a.test/%u0041", "http://a.test/%u0041"),
        ("http://a.test/a b?c d", "http://a.test/a%20b?c%20d"),
        ("http://*.example.com/", "http://*.example.com/"),
    ] {
        let url = url(text);
        assert_eq!(url.as_str(), want, "{text:?}");
        assert_eq!(url.key(), want, "{text:?}");
    }
    assert_eq!(refused("http://a\u{0}b.test/"), Outcome::UrlBadHost);
    assert_eq!(refused("http://a b.test/"), Outcome::UrlBadHost);
    // One bad link does not spoil its batch.
    let base = url("http://a.test/");
    let batch = ["/1", "http://%zz/", "http://[/", "/2%zz", "//", "/3"];
    let good: Vec<_> =
        batch.iter().filter_map(|href| base.join(href).ok()).map(|u| u.path().to_owned()).collect();
    assert_eq!(good, ["/1", "/2%zz", "/3"]);
}

#[test]
fn url_11_dot_segments_go_and_double_slashes_stay() {
    for (text, want) in [
        ("http://a.test/a/../b", "http://a.test/b"),
        ("http://a.test/a/%2e%2e/b", "http://a.test/b"),
        ("http://a.test/a/.%2E/b", "http://a.test/b"),
        ("http://a.test/%2e%2e/b", "http://a.test/b"),
        ("http://a.test/a/./b", "http://a.test/a/b"),
        ("http://a.test/a/%2E/b", "http://a.test/a/b"),
        ("http://a.test//a//b", "http://a.test//a//b"),
        ("http://a.test/../../..", "http://a.test/"),
    ] {
        assert_eq!(url(text).as_str(), want);
        assert_eq!(url(text).key(), want);
    }
    let base = url("http://a.test/x/y");
    assert_eq!(base.join("../../../z").unwrap().as_str(), "http://a.test/z");
    // Unless a rule says so, and then in the key only.
    let rules = KeyRules { slashes_merge: true, ..KeyRules::default() };
    let merged = CrawlUrl::parse_with("http://a.test//a///b?c=//d", &rules).unwrap();
    assert_eq!(merged.as_str(), "http://a.test//a///b?c=//d");
    assert_eq!(merged.key(), "http://a.test/a/b?c=//d");
}

#[test]
fn url_12_short_references_resolve_as_in_browsers() {
    assert_eq!(url("http://h?x=1").as_str(), "http://h/?x=1");
    assert_eq!(url("http:example.com").as_str(), "http://example.com/");
    let base = url("http://h/a/b?q");
    for (href, want) in [
        ("#f", "http://h/a/b?q"),
        ("", "http://h/a/b?q"),
        ("?", "http://h/a/b?"),
        ("?x", "http://h/a/b?x"),
        ("//host/path", "http://host/path"),
        ("http:relative", "http://h/a/relative"),
        ("https:other", "https://other/"),
        ("c", "http://h/a/c"),
        ("/c", "http://h/c"),
        ("\\\\host\\c", "http://host/c"),
    ] {
        assert_eq!(base.join(href).unwrap().as_str(), want, "{href:?}");
    }
    assert_eq!(refused("relative"), Outcome::UrlBad);
    assert_eq!(refused(""), Outcome::UrlBad);
    assert_eq!(refused("//host/path"), Outcome::UrlBad);
}

#[test]
fn url_13_hex_is_upper_case_and_unreserved_is_decoded_in_the_key_only() {
    let one = url("http://h/%7Euser/a%2fb%c3%a9?x=%7e%3d%2B");
    assert_eq!(one.as_str(), "http://h/%7Euser/a%2fb%c3%a9?x=%7e%3d%2B");
    assert_eq!(one.key(), "http://h/~user/a%2Fb%C3%A9?x=~%3D%2B");
    assert_eq!(one, url("http://h/~user/a%2Fbé?x=~%3d%2b"));
    assert_ne!(one, url("http://h/~user/a/bé?x=~%3d%2b"));
    assert_ne!(url("http://h/a%2Bb"), url("http://h/a+b"));
    assert_ne!(url("http://h/%2541"), url("http://h/%41"));
    assert_eq!(url("http://h/%61"), url("http://h/a"));
}

#[test]
fn url_14_parameters_are_sorted_or_dropped_only_by_a_rule() {
    let text = "http://h/?b=2&a=1&a=1&c=&sid=9&utm_source=x&UTM_Medium=y";
    assert_eq!(url(text).as_str(), text);
    assert_eq!(url(text).key(), text);
    assert_ne!(url("http://h/?a=1&b=2"), url("http://h/?b=2&a=1"));
    assert_ne!(url("http://h/?a="), url("http://h/?a"));
    assert_ne!(url("http://h/?"), url("http://h/"));
    let rules =
        KeyRules { query_sort: true, query_drop: vec!["utm_*".into(), "sid".into()], ..KeyRules::default() };
    let ruled = CrawlUrl::parse_with(text, &rules).unwrap();
    assert_eq!(ruled.as_str(), text, "the request stays as it was");
    assert_eq!(ruled.key(), "http://h/?a=1&a=1&b=2&c=");
    let only = CrawlUrl::parse_with("http://h/?utm_x=1", &rules).unwrap();
    assert_eq!((only.as_str(), only.key()), ("http://h/?utm_x=1", "http://h/"));
    assert_eq!(url("http://h/p").join_with("?sid=1&z&a", &rules).unwrap().key(), "http://h/p?a&z");
}

#[test]
fn url_15_long_urls_are_refused_and_cost_linear_time() {
    let fits = format!("http://h/{}", "a".repeat(URL_BYTES_MAX - 9));
    assert_eq!(url(&fits).as_str().len(), URL_BYTES_MAX);
    assert_eq!(refused(&format!("{fits}a")), Outcome::UrlTooLong);
    // A text within the limit may exceed the limit once encoded.
    assert_eq!(refused(&format!("http://h/{}", "é".repeat(2_000))), Outcome::UrlTooLong);
    let segments = format!("http://h{}", "/a".repeat(10_000));
    let parameters = format!("http://h/?{}", "a=1&".repeat(5_000));
    let long = format!("http://h/{}", "x".repeat(100_000));
    let base = url("http://h/");
    for text in [&segments, &parameters, &long] {
        assert_eq!(refused(text), Outcome::UrlTooLong);
        assert_eq!(base.join(text).unwrap_err().outcome(), Outcome::UrlTooLong);
    }
    // The longest we take, in the shapes that cost most: many thousand of them stay a matter of seconds.
    for text in [
        format!("http://h/{}", "%2e%2e/".repeat(1_100)),
        format!("http://h/{}", "/../a".repeat(1_600)),
        format!("http://h/?{}", "a&".repeat(4_000)),
        format!("http://h/%{}", "25".repeat(4_000)),
    ] {
        let rules = KeyRules { query_sort: true, query_drop: vec!["b".into()], ..KeyRules::default() };
        for _ in 0..100 {
            CrawlUrl::parse_with(&text, &rules).unwrap();
        }
    }
}

#[test]
fn url_16_fragments_are_dropped_unless_a_rule_keeps_them() {
    assert_eq!(url("http://h/a#!/x").as_str(), "http://h/a");
    assert_eq!(url("http://h/a#!/x"), url("http://h/a#y"));
    let bang = KeyRules { fragments: Fragments::HashBang, ..KeyRules::default() };
    let route = CrawlUrl::parse_with("http://h/a#!/x", &bang).unwrap();
    assert_eq!((route.as_str(), route.key()), ("http://h/a", "http://h/a#!/x"));
    assert_eq!(route.fragment(), Some("!/x"));
    assert_eq!(CrawlUrl::parse_with("http://h/a#top", &bang).unwrap().key(), "http://h/a");
    let keep = KeyRules { fragments: Fragments::Keep, ..KeyRules::default() };
    assert_eq!(CrawlUrl::parse_with("http://h/a#top", &keep).unwrap().key(), "http://h/a#top");
    assert_eq!(url("http://h/a").join_with("#/r", &keep).unwrap().key(), "http://h/a#/r");
}

#[test]
fn url_17_other_schemes_are_dropped_and_can_be_counted() {
    let base = url("http://h/");
    let mut counts = std::collections::BTreeMap::new();
    let long_data = format!("data:text/html,{}", "x".repeat(100_000));
    for href in [
        "javascript:void(0)",
        " JavaScript:alert(1)",
        "java\nscript:alert(1)",
        "mailto:a@b.c",
        "tel:+49",
        "data:text/html,<a>",
        &long_data,
        "blob:http://h/x",
        "about:blank",
        "intent://x#Intent;end",
        "magnet:?xt=1",
        "ftp://h/",
        "/kept",
        "http://h/kept:too",
    ] {
        match base.join(href) {
            Ok(url) => assert!(url.path().starts_with("/kept")),
            Err(UrlError::Scheme(scheme)) => *counts.entry(scheme.to_string()).or_insert(0) += 1,
            Err(other) => panic!("{href:?}: {other}"),
        }
    }
    let counts: Vec<_> = counts.iter().map(|(scheme, n)| (scheme.as_str(), *n)).collect();
    let want = [
        ("about", 1),
        ("blob", 1),
        ("data", 2),
        ("ftp", 1),
        ("intent", 1),
        ("javascript", 3),
        ("magnet", 1),
        ("mailto", 1),
        ("tel", 1),
    ];
    assert_eq!(counts, want);
    assert_eq!(refused("about:blank"), Outcome::UrlScheme);
    let endless = format!("{}:x", "s".repeat(5_000));
    assert!(CrawlUrl::parse(&endless).unwrap_err().to_string().len() < 100);
}

#[test]
fn only_http_and_https_become_urls() {
    for text in
        ["file:///etc/passwd", "ftp://h/", "gopher://h/", "unix:/run/x", "data:,x", "FILE:///x", "ws://h/"]
    {
        assert_eq!(refused(text), Outcome::UrlScheme, "{text}");
        assert_eq!(url("http://h/").join(text).unwrap_err().outcome(), Outcome::UrlScheme, "{text}");
    }
}

#[test]
fn line_ends_and_spaces_never_reach_the_request_line() {
    for text in [
        "http://h/a\r\nHost: x",
        "http://h/a b\r\n\r\nPUB x 1",
        "http://h/?q=\r\nSET a b",
        "http://h/\u{0}\u{7f}",
    ] {
        let url = url(text);
        let line = url.path_and_query();
        assert!(line.bytes().all(|b| b.is_ascii_graphic()), "{line:?}");
        assert!(url.authority().bytes().all(|b| b.is_ascii_graphic()));
    }
    assert_eq!(refused("http://h x/"), Outcome::UrlBadHost);
    assert_eq!(url("http://h\r\n/").host(), Host::Name("h"));
}

/// URLs that name different resources on some server, though another crawler's key would fold them.
const DIFFERENT: &[&str] = &[
    "http://h/a",
    "http://h/A",
    "http://h/a/",
    "http://h/a//",
    "http://h//a",
    "http://h/a.",
    "http://h/a?",
    "http://h/a??",
    "http://h/a?x",
    "http://h/a?x=",
    "http://h/a?X",
    "http://h/a?x=1&y=2",
    "http://h/a?y=2&x=1",
    "http://h/a?x=1&x=1",
    "http://h/a?x=1;y=2",
    "http://h/a?sid=1",
    "http://h/a?x=+",
    "http://h/a?x=%20",
    "http://h/a?x=%2B",
    "http://h/a?x=%26",
    "http://h/a?x=&",
    "http://h/a%2Fb",
    "http://h/a/b",
    "http://h/a%3Fb",
    "http://h/a%25",
    "http://h/a%2525",
    "http://h/a%",
    "http://h/%%34%31",
    "http://h/%2541",
    "http://h/A%00",
    "http://h/index.html",
    "http://h/",
    "http://www.h/",
    "https://h/",
    "http://h:8080/",
    "http://h/a;b",
    "http://h/a%3Bb",
    "http://h/é",
    "http://h/e\u{301}",
    "http://h/%E9",
    "http://h/a+b",
    "http://h/a%20b",
    "http://h/a_b",
];

#[test]
fn url_18_two_resources_never_share_one_key() {
    let mut seen = std::collections::BTreeMap::new();
    for text in DIFFERENT {
        let url = url(text);
        if let Some(other) = seen.insert(url.key().to_owned(), text) {
            panic!("{text} and {other} share {}", url.key());
        }
    }
    // A final dot of the host is the same host, so there it is one page; a dot of the path is not.
    assert_eq!(url("http://h./a"), url("http://h/a"));
}

#[test]
fn url_19_ids_have_128_bits_and_billions_do_not_collide() {
    assert_eq!(size_of::<UrlId>() * 8, 128);
    // Birthday bound: n^2 / 2^(bits + 1). At 64 bits it would be 0.03 for 10^9 and near certainty for 10^10.
    let chance = |n: f64| n * n / 2f64.powi(129);
    assert!(chance(1e9) < 1e-20 && chance(1e12) < 1e-14);
    let mut ids: Vec<UrlId> = (0..100_000).map(|n| UrlId::of_key(&format!("http://h/{n}"))).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100_000);
    // Every byte takes part, so none of the 128 bits is padding.
    for byte in 0..16 {
        let distinct: std::collections::BTreeSet<u8> = ids.iter().map(|id| id.0[byte]).collect();
        assert_eq!(distinct.len(), 256);
    }
    // The id is a hash of the key and never changes: ids are written to disk.
    assert_eq!(url("http://h/%7e").id(), url("http://h/~").id());
    assert_eq!(UrlId::of_key("http://example.com/").to_string(), "9c17e047f58f9220a7008d4f18152fee");
}

#[test]
fn registrable_domains_follow_the_public_suffix_list() {
    for (text, want) in [
        ("http://www.example.co.uk/", Some("example.co.uk")),
        ("http://A.B.Example.COM./", Some("example.com")),
        ("http://example.com/", Some("example.com")),
        ("http://co.uk/", None),
        ("http://foo.github.io/", Some("foo.github.io")),
        ("http://1.2.3.4/", None),
        ("http://[::1]/", None),
        ("http://localhost/", None),
    ] {
        assert_eq!(url(text).registrable_domain(), want, "{text}");
    }
    assert_eq!(registrable_domain("1.2.3.4"), None);
    assert_eq!(registrable_domain("CO.UK"), None);
}

#[test]
fn enc_06_invalid_bytes_in_an_href_become_encoded_replacement_characters() {
    let (page, _) = encoding_rs::UTF_8.decode_without_bom_handling(b"/a\xff?q=\xc3(");
    assert_eq!(url("http://h/").join(&page).unwrap().as_str(), "http://h/a%EF%BF%BD?q=%EF%BF%BD(");
    // The links beside it are untouched.
    let (page, _) = encoding_rs::UTF_8.decode_without_bom_handling(b"/one /tw\xf0o /three");
    let links: Vec<_> =
        page.split(' ').map(|href| url("http://h/").join(href).unwrap().path().to_owned()).collect();
    assert_eq!(links, ["/one", "/tw%EF%BF%BDo", "/three"]);
}

#[test]
fn enc_07_a_query_is_written_in_the_pages_encoding_and_the_path_in_utf_8() {
    let base = url("http://h/");
    let cyrillic = base.join_with_encoding("/путь?q=привет&x", encoding_rs::WINDOWS_1251).unwrap();
    assert_eq!(cyrillic.as_str(), "http://h/%D0%BF%D1%83%D1%82%D1%8C?q=%EF%F0%E8%E2%E5%F2&x");
    let missing = base.join_with_encoding("?q=é€", encoding_rs::WINDOWS_1251).unwrap();
    assert_eq!(missing.as_str(), "http://h/?q=%26%23233%3B%88");
    let japanese = base.join_with_encoding("?q=日本", encoding_rs::SHIFT_JIS).unwrap();
    assert_eq!(japanese.query(), Some("q=%93%FA%96{"));
    // UTF-16 pages write their queries in UTF-8, and so does a plain join.
    for encoding in [encoding_rs::UTF_16LE, encoding_rs::UTF_8, encoding_rs::REPLACEMENT] {
        assert_eq!(base.join_with_encoding("?é", encoding).unwrap(), base.join("?é").unwrap());
    }
    assert_eq!(base.join("?é").unwrap().query(), Some("%C3%A9"));
    // A long run of characters that the encoding lacks grows, and meets the limit like any other URL.
    let long = format!("?{}", "日".repeat(2_000));
    assert_eq!(base.join_with_encoding(&long, encoding_rs::WINDOWS_1251), Err(UrlError::TooLong));
}

#[test]
fn the_golden_file_of_surt_is_met_line_by_line() {
    let golden = include_str!("../../tests/golden/surt.tsv");
    let unescape = |text: &str| -> String {
        text.split("\\\\").map(|part| part.replace("\\t", "\t")).collect::<Vec<_>>().join("\\")
    };
    let mut wrong = Vec::new();
    for line in golden.lines() {
        let (url, want) = line.split_once('\t').expect("two columns");
        let (url, want) = (unescape(url), unescape(want));
        let got = surt(&url);
        if got != want {
            wrong.push(format!("{url:?}\n  want {want:?}\n  got  {got:?}"));
        }
    }
    assert!(golden.lines().count() >= 300);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// URL-like text: random text alone rarely gets past the scheme.
fn url_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("http://".to_owned()),
        Just("https:".to_owned()),
        Just("//".to_owned()),
        Just("h.test".to_owned()),
        Just("[::1]".to_owned()),
        Just(":80".to_owned()),
        Just("@".to_owned()),
        Just("/../".to_owned()),
        Just("/./".to_owned()),
        Just("%2e".to_owned()),
        Just("%".to_owned()),
        Just("%4".to_owned()),
        Just("%34%31".to_owned()),
        Just("?".to_owned()),
        Just("#".to_owned()),
        Just("&".to_owned()),
        Just("=".to_owned()),
        Just("\\".to_owned()),
        "[a-zA-Z0-9._~%é日 -]{0,8}",
        "\\PC{0,4}",
        any::<String>(),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn parsing_never_panics_and_what_it_takes_obeys_the_rules(tail in url_like(), whole in url_like()) {
        for text in [format!("http://{tail}"), format!("http://h.test/{tail}"), whole] {
            let Ok(url) = CrawlUrl::parse(&text) else { continue };
            prop_assert!(url.as_str().is_ascii() && !url.as_str().contains(['#', ' ']));
            prop_assert!(url.as_str().len() <= URL_BYTES_MAX && url.key().len() <= URL_BYTES_MAX);
            prop_assert!(!url.authority().contains('@'));
            let again = CrawlUrl::parse(url.as_str()).unwrap();
            prop_assert_eq!(again.as_str(), url.as_str(), "the request form is stable");
            let key = CrawlUrl::parse(url.key()).unwrap();
            prop_assert_eq!(key.key(), url.key(), "the key is the key of itself");
            surt(&text);
        }
    }

    #[test]
    fn joining_what_was_joined_changes_nothing(href in url_like()) {
        let base = CrawlUrl::parse("https://h.test/a/b?c").unwrap();
        let Ok(url) = base.join(&href) else { return Ok(()) };
        prop_assert_eq!(&base.join(url.as_str()).unwrap(), &url);
        prop_assert_eq!(&base.join(url.key()).unwrap(), &url);
        prop_assert_eq!(&base.join_with_encoding(url.as_str(), encoding_rs::GBK).unwrap(), &url);
    }

    #[test]
    fn url_18_keys_differ_whenever_the_decoded_requests_do(a in "[aA/%.25e7E41f]{0,8}", b in "[aA/%.25e7E41f]{0,8}") {
        let (a, b) = (CrawlUrl::parse(&format!("http://h/{a}")).unwrap(), CrawlUrl::parse(&format!("http://h/{b}")).unwrap());
        // Two paths are one resource only if they are equal after one decoding of their unreserved escapes.
        if a.key() == b.key() {
            prop_assert_eq!(percent_decode(a.path().as_bytes()), percent_decode(b.path().as_bytes()));
        }
    }

    #[test]
    fn surt_of_anything_is_a_line(text in any::<String>()) {
        let key = surt(&text);
        prop_assert!(!key.is_empty());
    }
}
