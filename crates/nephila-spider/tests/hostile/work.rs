//! Cost of the parsers of foreign bytes: every bomb of the test web, and some of their own, at two sizes.
//!
//! The measure is the CPU time of the thread. Non-linear growth fails here, and so does a CPU time above the limit at
//! the full size. `cargo xtask crawl bombs` judges the whole program, as released.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use nephila_core::feed::{self, opml, read_feed};
use nephila_core::handler::{self, Page, ReadAs, link_field, read_page};
use nephila_core::robots::Robots;
use nephila_core::spider::coding::Codings;
use nephila_core::spider::cookie::Jar;
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::decode::{Note, Stop, decode};
use nephila_testweb::bombs::Bomb;
use nephila_testweb::work::{cpu_of, growth};

/// The size at which the limit applies.
const FULL_BYTES: usize = 10_000_000;
/// Maximum CPU time of one bomb at its full size. Without optimisation parsing takes several times as long.
const CPU_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 5 });

fn read_as_page(media: &'static str, body: &[u8], read_as: ReadAs) {
    let url = CrawlUrl::parse("http://a.test/dir/page").unwrap();
    let mut fields = HeaderMap::new();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    let keys = KeyRules::default();
    let page = Page { url: &url, fields: &fields, body, read_as, agent: "nephila", keys: &keys };
    read_page(&page, &handler::Limits::default());
    if media.contains("rss") || media.contains("json") {
        read_feed(&page, &feed::Limits::default());
    }
}

fn undo(coding: &str, body: &[u8]) -> Note {
    let codings = Codings::parse([coding.as_bytes()].into_iter(), 2).unwrap();
    decode(&codings, || Ok(Box::new(body)), 10 << 20, &|| Stop::GoOn, &mut std::io::sink()).unwrap().note
}

fn check(name: &str, bytes: usize, make: impl Fn(usize) -> Vec<u8>, read: impl Fn(&[u8])) -> Option<String> {
    let growth = growth(bytes, &make, &read);
    // A body that meets a limit on its way costs less than the extrapolation.
    let mut full = growth.of(FULL_BYTES);
    if full > CPU_MAX {
        let body = make(FULL_BYTES);
        full = cpu_of(|| read(&body));
    }
    println!(
        "{name}: {} bytes {:?}, four times {:?}; full {full:?}",
        growth.bytes, growth.single, growth.fourfold
    );
    (!growth.is_linear() || full > CPU_MAX).then(|| {
        format!("{name}: {growth:?}, {:.1} times for twice as much, {full:?} at full size", growth.factor())
    })
}

fn check_plain(kind: &str) {
    let bombs = Bomb::plain().filter(|bomb| bomb.name.starts_with(kind));
    let bad: Vec<String> = bombs
        .filter_map(|bomb| {
            check(
                bomb.name,
                64 << 10,
                |bytes| bomb.body(bytes),
                |body| {
                    read_as_page(bomb.media, body, ReadAs::Page);
                },
            )
        })
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn sec_02_every_reader_of_feeds_is_linear() {
    check_plain("feed-");
    check_plain("json-");
}

#[test]
fn sec_02_every_reader_of_sitemaps_is_linear() {
    check_plain("sitemap-");
}

#[test]
fn sec_02_every_reader_of_pages_is_linear() {
    check_plain("html-");
}

#[test]
fn sec_01_every_undoing_of_codings_is_linear_and_ends() {
    let bad: Vec<String> = Bomb::coded()
        .filter_map(|bomb| {
            check(
                bomb.name,
                64 << 10,
                |bytes| bomb.body(bytes),
                |body| {
                    undo(bomb.coding, body);
                },
            )
        })
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn sec_02_packed_sitemaps_that_hold_nothing_end() {
    let members = Bomb::named("gzip-empty-members").unwrap();
    let nested = Bomb::named("gzip-empty-members-in-gzip").unwrap();
    let bad: Vec<String> = [members, nested]
        .into_iter()
        .filter_map(|bomb| {
            check(
                bomb.name,
                64 << 10,
                |bytes| bomb.body(bytes),
                |body| {
                    read_as_page("application/gzip", body, ReadAs::Sitemap);
                },
            )
        })
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn sec_02_every_reader_of_fields_and_lists_is_linear() {
    let url = CrawlUrl::parse("http://a.test/").unwrap();
    let repeat = |unit: &'static str| move |bytes: usize| unit.repeat(bytes / unit.len()).into_bytes();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut bad = Vec::new();
    for unit in ["<a>;", "\"\\", "<a;rel=\"", ",;=", "x"] {
        bad.extend(check(&format!("Link {unit}"), 32 << 10, repeat(unit), |body| {
            link_field::parse(&text(body));
        }));
    }
    for unit in ["a=b;", "=", "a=b; expires=Mon, 99; ", "; domain=.a.test"] {
        bad.extend(check(&format!("Set-Cookie {unit}"), 32 << 10, repeat(unit), |body| {
            let mut jar = Jar::new();
            _ = jar.handle_set_cookie(&url, body, Timestamp(0));
            jar.field(&url, Timestamp(0));
        }));
    }
    for unit in [
        "Disallow: /*a*b\n",
        "User-agent: *\n",
        "user-agent:",
        "Allow: /%41%2f*$\n",
        "\r",
        "#",
        "Sitemap: x\n",
    ] {
        bad.extend(check(&format!("robots {unit:?}"), 32 << 10, repeat(unit), |body| {
            Robots::parse(body, "nephila");
        }));
    }
    for unit in [
        "<outline text=\"&&&\" xmlUrl=\"http://a.test/\">",
        "<outline title=\"",
        "<outline ",
        "&",
        "<outline xmlUrl=\"a.test/<\">",
    ] {
        bad.extend(check(&format!("OPML {unit}"), 64 << 10, repeat(unit), |body| {
            opml::read(body);
        }));
    }
    for unit in ["/..", "%41", "a@", ":", "\t", "?&", "[", "xn--a.", "\u{5e9}", "."] {
        bad.extend(check(&format!("URL {unit:?}"), 1 << 10, repeat(unit), |body| {
            _ = url.join(&text(body));
            _ = CrawlUrl::parse(&format!("http://{}/", text(body)));
        }));
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
