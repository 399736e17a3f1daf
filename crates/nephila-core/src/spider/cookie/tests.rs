//! Floods, hostile fields, and the guarantee that no cookie reaches another site.

use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap()
}

fn set(jar: &mut Jar, from: &str, field: &str) -> Result<(), Refused> {
    jar.handle_set_cookie(&url(from), field.as_bytes(), NOW)
}

fn sent(jar: &Jar, to: &str) -> String {
    String::from_utf8(jar.field(&url(to), NOW).unwrap_or_default()).unwrap()
}

/// Sets one cookie and checks which URLs would get the cookie.
fn check(from: &str, field: &str, reaches: &[&str], misses: &[&str]) {
    let mut jar = Jar::new();
    set(&mut jar, from, field).unwrap_or_else(|e| panic!("{field}: {e}"));
    for to in reaches {
        assert_ne!(sent(&jar, to), "", "{field} from {from} should reach {to}");
    }
    for to in misses {
        assert_eq!(sent(&jar, to), "", "{field} from {from} must not reach {to}");
    }
}

#[test]
fn h1_29_a_flood_of_cookies_is_bounded_and_so_is_the_field() {
    let mut jar = Jar::new();
    for n in 0..1_000 {
        let field = format!("c{n}={}", "v".repeat(4_000));
        set(&mut jar, "http://a.example/", &field).unwrap();
        let field = jar.field(&url("http://a.example/"), NOW).unwrap();
        assert!(b"Cookie: ".len() + field.len() + 2 <= FIELD_BYTES_MAX);
    }
    assert_eq!(jar.len(), DOMAIN_COOKIES_MAX);
    assert_eq!(
        set(&mut jar, "http://a.example/", &format!("x={}", "v".repeat(4_096))),
        Err(Refused::TooLarge)
    );
    // Many hosts of one attacker fill the jar, not the memory; the oldest go.
    for n in 0..5_000 {
        set(&mut jar, &format!("http://h{n}.example/"), "a=b").unwrap();
        assert!(jar.len() <= JAR_COOKIES_MAX);
    }
    assert_eq!(jar.len(), JAR_COOKIES_MAX);
    assert_eq!(sent(&jar, "http://h0.example/"), "");
    assert_eq!(sent(&jar, "http://h4999.example/"), "a=b");
    // Expired cookies are evicted first.
    let mut jar = Jar::new();
    set(&mut jar, "http://a.example/", "keep=1").unwrap();
    for n in 0..49 {
        set(&mut jar, "http://a.example/", &format!("c{n}=1; max-age=1")).unwrap();
    }
    let later = Timestamp(NOW.0 + 2_000);
    jar.handle_set_cookie(&url("http://a.example/"), b"new=1", later).unwrap();
    assert_eq!(jar.field(&url("http://a.example/"), later).unwrap(), b"keep=1; new=1");
    assert_eq!(jar.len(), 2);
}

#[test]
fn h1_30_hostile_fields_do_no_harm() {
    // A lifetime beyond all numbers.
    for field in
        ["a=b; Max-Age=9223372036854775808", "a=b; max-age=99999999999999999999999999", "a=b; Max-Age=1"]
    {
        check("http://h.example/", field, &["http://h.example/"], &[]);
    }
    let mut jar = Jar::new();
    set(&mut jar, "http://h.example/", "a=b; Max-Age=9223372036854775808").unwrap();
    assert!(jar.field(&url("http://h.example/"), Timestamp(u64::MAX)).is_none(), "400 days at most");
    jar.handle_set_cookie(&url("http://h.example/"), b"c=d; max-age=99", Timestamp(u64::MAX)).unwrap();
    for gone in
        ["a=b; Max-Age=0", "a=b; Max-Age=-9223372036854775809", "a=b; expires=Thu, 01 Jan 1970 00:00:00 GMT"]
    {
        check("http://h.example/", gone, &[], &["http://h.example/"]);
    }
    // Control characters.
    for field in ["a=b\0", "a\x01=b", "a=b\r\nX: y", "a=b; path=/\x7f"] {
        assert_eq!(set(&mut jar, "http://h.example/", field), Err(Refused::Control), "{field:?}");
    }
    // Public suffixes, in any case.
    for domain in ["co.uk", ".co.uk", "CO.UK", ".cO.uK", "uk", "UK"] {
        let refused = set(&mut jar, "http://a.example.co.uk/", &format!("a=b; Domain={domain}"));
        assert_eq!(refused, Err(Refused::PublicSuffix), "{domain}");
    }
    assert_eq!(set(&mut jar, "http://me.github.io/", "a=b; domain=GitHub.IO"), Err(Refused::PublicSuffix));
    // Mixed case and a leading dot are the same domain.
    for domain in ["example.com", "EXAMPLE.com", ".example.com", ".Example.COM"] {
        check(
            "http://www.example.com/",
            &format!("a=b; DOMAIN={domain}"),
            &["http://example.com/", "http://x.y.example.com/", "http://WWW.EXAMPLE.COM./"],
            &["http://example.org/", "http://badexample.com/", "http://com/"],
        );
    }
    for domain in
        ["example.org", "other.example.com", "x.www.example.com", "..example.com", "example.com.", "ex ample"]
    {
        let refused = set(&mut jar, "http://www.example.com/", &format!("a=b; domain={domain}"));
        assert_eq!(refused, Err(Refused::ForeignDomain), "{domain}");
    }
    // Addresses have no subdomains.
    check(
        "http://1.2.3.4/",
        "a=b",
        &["http://1.2.3.4/", "http://0x01020304/"],
        &["http://4.3.2.1/", "http://9.1.2.3.4.example/"],
    );
    check("http://1.2.3.4/", "a=b; domain=1.2.3.4", &["http://1.2.3.4/"], &["http://2.3.4.5/"]);
    for domain in ["2.3.4", "3.4", "4", ".3.4", "1.2.3.5"] {
        let refused = set(&mut jar, "http://1.2.3.4/", &format!("a=b; domain={domain}"));
        assert_eq!(refused, Err(Refused::ForeignDomain), "{domain}");
    }
    check(
        "http://[2001:db8::1]/",
        "a=b; domain=2001:db8::1",
        &["http://[2001:db8::1]/"],
        &["http://[2001:db8::2]/"],
    );
    assert_eq!(set(&mut jar, "http://[2001:db8::1]/", "a=b; domain=db8::1"), Err(Refused::ForeignDomain));
    // A suffix that has a site keeps its cookies to itself.
    check("http://github.io/", "a=b; domain=github.io", &["http://github.io/"], &["http://me.github.io/"]);
    check("http://localhost/", "a=b; domain=localhost", &["http://localhost/"], &["http://x.localhost/"]);
}

#[test]
fn cookies_go_back_by_path_scheme_and_order() {
    check(
        "http://h.example/a/b",
        "x=1",
        &["http://h.example/a", "http://h.example/a/c"],
        &["http://h.example/", "http://h.example/ab"],
    );
    check("http://h.example/a/b", "x=1; path=/", &["http://h.example/"], &["http://x.h.example/"]);
    check("http://h.example/a/b", "x=1; path=a", &["http://h.example/a/"], &["http://h.example/"]);
    check("https://h.example/", "x=1; Secure", &["https://h.example/"], &["http://h.example/"]);
    check("https://h.example/", "x=1", &["https://h.example/"], &["http://h.example/"]);
    check("http://h.example/", "x=1", &["https://h.example/", "http://h.example/"], &[]);
    let mut jar = Jar::new();
    assert_eq!(set(&mut jar, "http://h.example/", "x=1; secure"), Err(Refused::NotSecure));
    for field in [
        "__Secure-a=1",
        "__Host-a=1; secure; domain=h.example; path=/",
        "__host-a=1; secure; path=/x",
        "=__Host-a=1; secure",
    ] {
        assert_eq!(set(&mut jar, "https://h.example/", field), Err(Refused::NotSecure), "{field}");
    }
    set(&mut jar, "https://h.example/", "__Host-a=1; secure; path=/").unwrap();
    set(&mut jar, "https://h.example/", "b=2; path=/d").unwrap();
    set(&mut jar, "https://h.example/", "c=3; path=/").unwrap();
    set(&mut jar, "https://h.example/", "bare").unwrap();
    set(&mut jar, "https://h.example/", "c=\"q s\"; path=/").unwrap();
    assert_eq!(sent(&jar, "https://h.example/d/"), "b=2; __Host-a=1; c=\"q s\"; bare");
    assert_eq!(set(&mut jar, "http://h.example/", "__Host-a=0; path=/"), Err(Refused::NotSecure));
    set(&mut jar, "https://h.example/", "s=1; secure").unwrap();
    assert_eq!(
        set(&mut jar, "http://h.example/", "s=2"),
        Err(Refused::NotSecure),
        "a secure one is not replaced"
    );
    assert_eq!(set(&mut jar, "https://h.example/", " = ; path=/"), Err(Refused::Empty));
    assert!(!format!("{jar:?}").contains("q s"));
}

#[test]
fn dates_are_read_in_every_shape() {
    for text in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "6 nov 1994 8:49:37x",
    ] {
        assert_eq!(date::parse(text.as_bytes()), Some(Timestamp(784_111_777_000)), "{text}");
    }
    assert_eq!(date::parse(b"Wed, 01 Jan 1601 00:00:00 GMT"), Some(Timestamp(0)));
    for text in [
        "",
        "garbage",
        "31 Feb 2026 00:00:00",
        "1 Jan 1600 00:00:00",
        "1 Jan 2026",
        "1 Jan 2026 25:00:00",
        "1 Jan 9999999 00:00:00",
    ] {
        assert_eq!(date::parse(text.as_bytes()), None, "{text}");
    }
}

/// Hosts that are close to each other in all the wrong ways.
fn host() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "example.com",
        "www.example.com",
        "a.www.example.com",
        "badexample.com",
        "example.com.evil.org",
        "evil.org",
        "example.co.uk",
        "other.co.uk",
        "co.uk",
        "me.github.io",
        "you.github.io",
        "github.io",
        "1.2.3.4",
        "2.3.4.1",
        "[2001:db8::1]",
        "[2001:db8::2]",
        "localhost",
        "x.localhost",
        "com",
        "xn--bcher-kva.example",
        "bücher.example",
    ])
}

/// The site of a host: the registrable domain, or the host itself.
fn site(url: &CrawlUrl) -> String {
    url.registrable_domain().map_or_else(|| url.host().to_string(), str::to_owned)
}

proptest! {
    // Every hop of a chain of redirects sets a cookie that names its setter, with an arbitrary domain, and reads the
    // cookies that would be sent: only names of its own site may be there.
    #[test]
    fn h1_31_no_cookie_reaches_another_site(
        hops in prop::collection::vec((host(), prop::option::of(host()), any::<[bool; 3]>()), 1..30),
    ) {
        let mut jar = Jar::new();
        for (host, domain, [tls, dot, upper]) in &hops {
            let scheme = if *tls { "https" } else { "http" };
            let hop = url(&format!("{scheme}://{host}/p/q"));
            if let Some(field) = jar.field(&hop, NOW) {
                let field = String::from_utf8(field).unwrap();
                for cookie in field.split("; ") {
                    let owner = cookie.split_once('=').unwrap().1;
                    prop_assert_eq!(owner, site(&hop), "{} was sent {}", &hop, cookie);
                }
            }
            let mut value = format!("n{}={}; path=/", jar.len(), site(&hop));
            if let Some(domain) = domain {
                let domain = domain.trim_matches(['[', ']']);
                let domain = if *upper { domain.to_uppercase() } else { domain.to_owned() };
                value += &format!("; domain={}{domain}", if *dot { "." } else { "" });
            }
            let _ = jar.handle_set_cookie(&hop, value.as_bytes(), NOW);
        }
    }

    #[test]
    fn any_field_is_survived(fields in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..10),
                             text in "[a=; ]{0,5}(domain|path|max-age|expires|secure)=[-0-9a-z./: ]{0,30}", now in any::<u64>()) {
        let mut jar = Jar::new();
        let at = url("https://h.example/x");
        for field in fields.iter().map(Vec::as_slice).chain([text.as_bytes()]) {
            let _ = jar.handle_set_cookie(&at, field, Timestamp(now));
        }
        jar.field(&at, Timestamp(now));
    }
}
