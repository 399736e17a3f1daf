//! Style sheets: any text is read, twice alike, the URLs found keep their limits, and a comment changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::handler::css::{self, Named};
use nephila_core::handler::{Limits, Page, ReadAs, read_page};
use nephila_core::url::{CrawlUrl, KeyRules};

fn named(text: &str) -> Vec<(String, Named)> {
    let mut all = Vec::new();
    css::read(text, &mut |url, named| all.push((url.to_owned(), named)));
    all
}

fuzz_target!(|data: &[u8]| {
    // How many links are taken, then the sheet.
    let [links, body @ ..] = data else { return };
    let text = String::from_utf8_lossy(body);
    let all = named(&text);
    assert_eq!(all, named(&text));
    assert_eq!(all, named(&format!("/* url(a) @import 'b' */{text}")), "a comment changes what is named");
    assert!(all.len() <= text.len(), "each takes bytes of its own");
    // An escape of two bytes may stand for a character of three, and none for more.
    assert!(all.iter().all(|(url, _)| !url.is_empty() && url.len() <= text.len() * 3 / 2));

    // The same as a file, with a label, and as the style of a page.
    let url = CrawlUrl::parse("http://a.test/dir/sheet").expect("it is a URL");
    let keys = KeyRules::default();
    let limits = Limits { links_max: usize::from(*links), ..Limits::default() };
    let read = |kind: &'static str, body: &[u8], limits: &Limits| {
        let mut fields = http::HeaderMap::new();
        fields.insert("content-type", http::HeaderValue::from_static(kind));
        let page =
            Page { url: &url, fields: &fields, body, read_as: ReadAs::Page, agent: "nephila", keys: &keys };
        read_page(&page, limits)
    };
    let styled = |body: &[u8]| [b"<!DOCTYPE html><html><style>", body].concat();
    for findings in [read("text/css", body, &limits), read("text/html", &styled(body), &limits)] {
        assert!(findings.links.len() <= limits.links_max);
        assert!(findings.cut || findings.counts.over_limit == 0);
    }

    let limits = Limits::default();
    nephila_fuzz::linear(body, |body| {
        css::read(&String::from_utf8_lossy(body), &mut |_, _| {});
        read("text/css", body, &limits);
        read("text/html", &styled(body), &limits);
    });
});
