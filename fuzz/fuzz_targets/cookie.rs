//! Cookies: any field is taken or refused, limits hold, nothing goes to another host, and the work is linear.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::spider::cookie::{DOMAIN_COOKIES_MAX, FIELD_BYTES_MAX, Jar};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;

const NOW: Timestamp = Timestamp(1_794_830_400_000);

fuzz_target!(|data: &[u8]| {
    let url = |text| CrawlUrl::parse(text).expect("it is a URL");
    let (own, below, other) =
        (url("https://a.test/x/y"), url("https://b.a.test/x"), url("https://b.test/x/y"));
    let mut jar = Jar::new();
    for field in data.split(|byte| *byte == b'\n') {
        _ = jar.handle_set_cookie(&own, field, NOW);
        assert!(jar.len() <= 2 * DOMAIN_COOKIES_MAX, "more cookies than two domains may have");
    }
    for asked in [&own, &below, &other] {
        let field = jar.field(asked, NOW).unwrap_or_default();
        assert!(field.len() <= FIELD_BYTES_MAX, "a field of {} bytes", field.len());
        assert!(!field.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "a field that ends early");
    }
    assert_eq!(jar.field(&other, NOW), None, "a cookie for somebody else");

    nephila_fuzz::linear(data, |data| {
        let mut jar = Jar::new();
        for field in data.split(|byte| *byte == b'\n') {
            _ = jar.handle_set_cookie(&own, field, NOW);
        }
        jar.field(&own, NOW);
    });
});
