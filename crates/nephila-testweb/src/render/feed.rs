//! Feeds: the last items a host published, as RSS 2.0 or Atom.

use super::{Answer, Renderer};
use crate::model::time::{http_date, iso_date};
use crate::model::{FEED_ITEMS, Place, What};

impl Renderer {
    /// The feed of a host at a virtual time, newest item first.
    pub(super) fn feed(&self, host: u32, now: u64) -> Answer {
        let world = &self.world;
        let count = world.news_count(host, now);
        let latest = world.news_time(host, count - 1);
        let name = world.name(host);
        let items = (count - FEED_ITEMS..count).rev().map(|item| {
            (item, world.url(Place { host, what: What::News(item) }), world.news_time(host, item))
        });
        let home = world.url(Place { host, what: What::Page(0) });
        let mut text = String::with_capacity(512 + FEED_ITEMS as usize * 256);
        text.push_str("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n");
        let kind = if world.is_atom(host) {
            let updated = iso_date(latest);
            text.push_str(&format!(
                "<feed xmlns=\"http://www.w3.org/2005/Atom\">\n<title>News of {name}</title>\n<id>{home}</id>\n\
                 <link href=\"{home}\"/>\n<updated>{updated}</updated>\n"
            ));
            for (item, url, at) in items {
                let at = iso_date(at);
                text.push_str(&format!(
                    "<entry><title>News {item} of {name}</title><id>{url}</id><link href=\"{url}\"/>\
                     <updated>{at}</updated></entry>\n"
                ));
            }
            text.push_str("</feed>\n");
            "application/atom+xml; charset=utf-8"
        } else {
            text.push_str(&format!(
                "<rss version=\"2.0\"><channel>\n<title>News of {name}</title>\n<link>{home}</link>\n\
                 <description>Everything that happens on {name}</description>\n"
            ));
            for (item, url, at) in items {
                let at = http_date(at);
                text.push_str(&format!(
                    "<item><title>News {item} of {name}</title><link>{url}</link><guid>{url}</guid>\
                     <pubDate>{at}</pubDate></item>\n"
                ));
            }
            text.push_str("</channel></rss>\n");
            "application/rss+xml; charset=utf-8"
        };
        Answer { version: Some((count, latest)), ..Answer::ok(kind, vec![text.into()]) }
    }
}
