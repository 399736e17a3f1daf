//! Pages, sitemaps and feeds: any bytes are read, twice alike, each URL comes out once, and limits hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::handler::page_robots::USAGE_MAX;
use nephila_core::handler::{Limits, Page, ReadAs, link_field, read_page, read_sitemap, srcset};
use nephila_core::url::{CrawlUrl, KeyRules};

fuzz_target!(|data: &[u8]| {
    // How the page is read, the amount of memory, then a field, then the body.
    let [how, memory, rest @ ..] = data else { return };
    let at = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    let (field, body) = (&rest[..at], rest.get(at + 1..).unwrap_or_default());

    let url = CrawlUrl::parse("http://a.test/dir/page").expect("it is a URL");
    let keys = KeyRules::default();
    let mut fields = http::HeaderMap::new();
    if let Ok(value) = http::HeaderValue::from_bytes(field) {
        let names = ["content-type", "link", "x-robots-tag", "refresh"];
        fields.insert(names[usize::from(how >> 2) % names.len()], value);
    }
    let read_as = [ReadAs::Page, ReadAs::Sitemap, ReadAs::Feed][usize::from(how & 3) % 3];
    let page = Page { url: &url, fields: &fields, body, read_as, agent: "nephila", keys: &keys };
    let limits = Limits {
        links_max: usize::from(how >> 4),
        memory_max: 2_000 + 64 * usize::from(*memory),
        sitemap_urls_max: usize::from(how >> 4),
        sitemap_bytes_max: 4_096,
        forms: true,
        ..Limits::default()
    };

    let findings = read_page(&page, &limits);
    assert!(findings.links.len() <= limits.links_max);
    assert!(findings.page_robots.usage.len() <= USAGE_MAX);
    assert!(findings.cut || findings.counts.over_limit == 0);
    let mut ids: Vec<_> = findings.links.iter().map(|found| found.url.key()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "a URL came out twice");
    assert!(!ids.contains(&url.key()), "a page is not news to itself");
    let again = read_page(&page, &limits);
    assert_eq!((findings.links, findings.counts, findings.title), (again.links, again.counts, again.title));

    let sitemap = read_sitemap(&page, &limits);
    assert!(sitemap.urls.len() + sitemap.sitemaps.len() <= limits.sitemap_urls_max);
    assert!(sitemap.urls.iter().all(|entry| entry.priority.is_none_or(|p| (0.0..=1.0).contains(&p))));

    let text = String::from_utf8_lossy(body);
    assert!(srcset::urls(&text).len() <= srcset::CANDIDATES_MAX);
    assert!(link_field::parse(&text).len() <= link_field::LINKS_MAX);

    nephila_fuzz::linear(body, |body| _ = read_page(&Page { body, ..page }, &Limits::default()));
});
