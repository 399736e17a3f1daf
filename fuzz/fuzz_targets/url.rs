//! URLs: a parsed URL keeps its promises, and parsing our own output changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::url::{CrawlUrl, Host, LABEL_BYTES_MAX, NAME_BYTES_MAX, URL_BYTES_MAX, surt};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    // A first line is a base, the rest is found in its document.
    let (base, href) = text.split_once('\n').unwrap_or((&text, ""));
    check_surt(base);
    // A URL that is too long is refused unread, so the repeated input is a list of URLs.
    nephila_fuzz::linear(data, |data| {
        for part in String::from_utf8_lossy(data).split('\n') {
            _ = CrawlUrl::parse(part);
        }
    });
    let Ok(base) = CrawlUrl::parse(base) else { return };
    check(&base);
    if let Ok(joined) = base.join(href) {
        check(&joined);
    }
});

fn check(url: &CrawlUrl) {
    let text = url.as_str();
    assert!(text.len() <= URL_BYTES_MAX, "too long: {} bytes", text.len());
    assert!(text.is_ascii(), "not ASCII: {text}");
    assert!(matches!(url.scheme(), "http" | "https"));
    assert!(!text.contains('#'), "a fragment is requested: {text}");
    assert!(!url.authority().contains('@'), "userinfo is requested: {text}");
    if let Host::Name(name) = url.host() {
        assert!(!name.is_empty() && name.len() <= NAME_BYTES_MAX);
        assert!(
            name.split('.').all(|label| (1..=LABEL_BYTES_MAX).contains(&label.len())),
            "bad label in {name}"
        );
        assert!(!name.bytes().any(|b| b.is_ascii_uppercase()), "upper case in {name}");
    }
    // A request path cannot end a request line early.
    assert!(!url.path_and_query().bytes().any(|b| b <= b' ' || b == 0x7f), "control in {text}");

    let again = CrawlUrl::parse(text).expect("what we wrote can be read");
    assert_eq!(again.as_str(), text);
    if url.fragment().is_none() {
        assert_eq!(again.key(), url.key());
    }
    if url.key().len() <= URL_BYTES_MAX {
        let by_key = CrawlUrl::parse(url.key()).expect("a key is a URL");
        assert_eq!(by_key.key(), url.key(), "the key of a key is itself");
        assert_eq!(by_key.id(), url.id());
    }
    check_surt(text);
    assert!(surt(text).is_ascii(), "the SURT of a URL is ASCII");
}

fn check_surt(text: &str) {
    let surt = surt(text);
    assert!(!surt.is_empty());
    // Each byte becomes one escape at most; the rest is scheme, port and punctuation.
    assert!(surt.len() <= 64 + text.len() * 9, "{} bytes of {}", surt.len(), text.len());
}
