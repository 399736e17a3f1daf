//! Feeds and lists of feeds: any bytes are read, twice alike, limits hold, and no entry is a new story twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::feed::story::{Memory, Settings, Sighting, StoryVerdict};
use nephila_core::feed::{Limits, opml, read_feed, schedule};
use nephila_core::handler::{Page, ReadAs};
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, KeyRules};

fuzz_target!(|data: &[u8]| {
    // How many entries are taken, then a label, then the body.
    let [entries, rest @ ..] = data else { return };
    let at = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    let (label, body) = (&rest[..at], rest.get(at + 1..).unwrap_or_default());

    let url = CrawlUrl::parse("http://a.test/dir/feed").expect("it is a URL");
    let keys = KeyRules::default();
    let mut fields = http::HeaderMap::new();
    if let Ok(value) = http::HeaderValue::from_bytes(label) {
        fields.insert("content-type", value);
    }
    let page = Page { url: &url, fields: &fields, body, read_as: ReadAs::Feed, agent: "", keys: &keys };
    let limits = Limits { bytes_max: 64 * 1024, entries_max: usize::from(*entries) };
    let feed = read_feed(&page, &limits);
    assert!(feed.entries.len() <= limits.entries_max);
    assert_eq!(feed, read_feed(&page, &limits));
    assert!(feed.entries.iter().all(|entry| !entry.title.contains('\n')));

    let now = Timestamp(1_794_830_400_000);
    let mut memory = Memory::default();
    let judged = memory.judge(&feed.entries, &Settings::default(), now);
    memory.fold(&Sighting::from_bytes(&judged.sighting.to_bytes()).expect("just written"));
    let again = memory.judge(&feed.entries, &Settings::default(), now);
    assert_eq!(again.count(StoryVerdict::New), 0, "a story came twice");
    assert_eq!(Memory::from_bytes(&memory.to_bytes()).as_ref(), Ok(&memory));

    let list = opml::read(body);
    let written = opml::read(opml::write("list", &list.feeds).as_bytes());
    assert_eq!(written.feeds.len(), list.feeds.len());
    let _ = (Memory::from_bytes(body), Sighting::from_bytes(body), schedule::History::from_bytes(body));

    nephila_fuzz::linear(body, |body| {
        read_feed(&Page { body, ..page }, &Limits::default());
        opml::read(body);
    });
});
