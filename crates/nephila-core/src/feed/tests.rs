//! Feeds as they are found: rows FEE of the catalogue of hostile webs, every format, and a second opinion.

mod formats;
mod hostile;
mod second;

use super::*;
use crate::handler::ReadAs;
use crate::url::KeyRules;

/// Reads a feed that came from `http://s.test/feeds/all.xml`.
fn read(body: &[u8]) -> Feed {
    read_as("application/xml", body, &Limits::default())
}

fn read_as(content_type: &str, body: &[u8], limits: &Limits) -> Feed {
    let url = CrawlUrl::parse("http://s.test/feeds/all.xml").unwrap();
    let mut fields = http::HeaderMap::new();
    fields.insert(http::header::CONTENT_TYPE, content_type.parse().unwrap());
    let keys = KeyRules::default();
    let page = Page { url: &url, fields: &fields, body, read_as: ReadAs::Feed, agent: "", keys: &keys };
    read_feed(&page, limits)
}

fn rss(items: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>S</title><link>http://s.test/</link>{items}</channel></rss>"
    )
}

fn urls(feed: &Feed) -> Vec<&str> {
    feed.entries.iter().map(|entry| entry.url.as_str()).collect()
}

fn titles(feed: &Feed) -> Vec<&str> {
    feed.entries.iter().map(|entry| entry.title.as_str()).collect()
}

fn items(count: usize) -> String {
    (0..count)
        .map(|n| {
            format!(
                "<item><title>Title {n}</title><link>http://s.test/{n}</link><guid>g{n}</guid>\
                 <pubDate>Sun, 15 Nov 2026 10:{:02}:00 GMT</pubDate></item>",
                n % 60
            )
        })
        .collect()
}
