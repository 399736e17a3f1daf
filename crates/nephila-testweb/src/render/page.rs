//! Pages: a head with title and links, then text from the block all pages share.
//!
//! Invariants: a page has exactly the size that the model drew, unless its head alone is larger; text is plain ASCII
//! words, so that the text can be cut anywhere.

use bytes::Bytes;

use super::gzip::SEGMENT;
use super::{Answer, HTML, Renderer};
use crate::model::{Place, What, push_number};

/// Length of the text block. Pages up to half this length have their text in one piece.
const TEXT_BYTES: usize = 512 * 1024;
/// The end of a page.
const TAIL: &str = "\n</div>\n</body>\n</html>\n";

/// Words of the text; the first ones come most often, as in any language.
const WORDS: [&str; 64] = [
    "the", "of", "and", "a", "to", "in", "is", "it", "was", "for", "on", "are", "as", "with", "they", "at",
    "be", "this", "have", "from", "or", "one", "had", "by", "word", "but", "not", "what", "all", "were",
    "we", "when", "your", "can", "said", "there", "use", "an", "each", "which", "she", "do", "how", "their",
    "if", "will", "up", "other", "about", "out", "many", "then", "them", "these", "so", "some", "her",
    "would", "make", "like", "orchard", "lantern", "harbour", "meadow",
];

/// The text all pages of a web are cut from.
pub(super) fn text_block(seed: u64) -> Bytes {
    let mut text = String::with_capacity(TEXT_BYTES + 16);
    let mut state = seed | 1;
    let mut words = 0u32;
    while text.len() < TEXT_BYTES {
        // A step of xorshift64, more than good enough to pick words.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (a, b) = (state >> 20 & 63, state >> 40 & 63);
        text.push_str(WORDS[(a * b / 64) as usize]);
        // Now and then a number, so that text does not compress better than real pages do.
        if state >> 60 == 0 {
            text.push(' ');
            push_number(&mut text, state >> 30 & 0xFFFF_FFFF);
        }
        words += 1;
        text.push(if words.is_multiple_of(16) { '\n' } else { ' ' });
    }
    text.truncate(TEXT_BYTES);
    text.into()
}

impl Renderer {
    /// An ordinary page at a virtual time.
    pub(super) fn page(&self, host: u32, page: u64, now: u64) -> Answer {
        let world = &self.world;
        let (version, began) = world.page_version(host, page, now);
        let mut head = String::with_capacity(512 + 72 * world.settings().links as usize);
        head.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page ");
        push_number(&mut head, page);
        head.push_str(" of ");
        world.push_name(&mut head, host);
        head.push_str("</title>\n");
        if page == 0 && world.has_feed(host) {
            let kind = if world.is_atom(host) { "atom" } else { "rss" };
            head.push_str("<link rel=\"alternate\" type=\"application/");
            head.push_str(kind);
            head.push_str("+xml\" href=\"");
            world.push_url(&mut head, Place { host, what: What::Feed });
            head.push_str("\">\n");
        }
        head.push_str("</head>\n<body>\n<h1>Page ");
        push_number(&mut head, page);
        head.push_str("</h1>\n<p>Version ");
        push_number(&mut head, version);
        head.push_str("</p>\n<ul>\n");
        let absolute = world.is_absolute(host, page);
        // Most links stay on the host: its part of the URL is written once and copied.
        let mut own = String::with_capacity(48);
        if absolute {
            world.push_origin(&mut own, host);
        }
        let mut n = 0;
        world.each_link(host, page, |to| {
            head.push_str("<li><a href=\"");
            if to.host == host {
                head.push_str(&own);
                world.push_path(&mut head, to);
            } else {
                world.push_url(&mut head, to);
            }
            if world.has_fragment(host, page, n) {
                head.push_str("#top");
            }
            head.push_str("\">link</a></li>\n");
            n += 1;
        });
        head.push_str("</ul>\n<div>\n");
        let mark = crate::model::text_mark(world, host, page, version);
        let body = self.fill(head, mark, world.page_size(host, page));
        Answer { version: Some((mark, began)), ..Answer::ok(HTML, body) }
    }

    /// A page of the news.
    pub(super) fn news(&self, host: u32, item: u64) -> Answer {
        let world = &self.world;
        let mut head = String::with_capacity(512);
        head.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>News ");
        push_number(&mut head, item);
        head.push_str(" of ");
        world.push_name(&mut head, host);
        head.push_str("</title>\n</head>\n<body>\n<p><a href=\"/\">Home</a></p>\n<div>\n");
        let number = item ^ 1 << 60;
        let mark = crate::model::text_mark(world, host, number, 0);
        let body = self.fill(head, mark, world.page_size(host, number));
        Answer { version: Some((mark, world.news_time(host, item))), ..Answer::ok(HTML, body) }
    }

    /// Head, text and tail, together of the requested size.
    fn fill(&self, head: String, mark: u64, size: usize) -> Vec<Bytes> {
        let mut left = size.saturating_sub(head.len() + TAIL.len());
        let mut body = Vec::with_capacity(4);
        body.push(Bytes::from(head));
        // At a segment, so that gzip has the bytes ready-made.
        let mut at = (mark >> 8) as usize % (TEXT_BYTES / 2 / SEGMENT) * SEGMENT;
        while left > 0 {
            let end = (at + left).min(TEXT_BYTES);
            body.push(self.text.slice(at..end));
            left -= end - at;
            at = 0;
        }
        body.push(Bytes::from_static(TAIL.as_bytes()));
        body
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::World;
    use crate::settings::Settings;

    fn bytes(answer: &Answer) -> Vec<u8> {
        answer.body.concat()
    }

    #[test]
    fn pages_are_as_large_as_they_were_drawn() {
        let settings = Settings { page_bytes: 185_000, page_bytes_sigma: 1.0, ..Settings::default() };
        let renderer = Renderer::new(Arc::new(World::new(settings, 80, 443)));
        for page in 0..200 {
            let answer = renderer.page(1, page, 0);
            assert_eq!(answer.len() as usize, renderer.world.page_size(1, page).max(2000));
            assert!(bytes(&answer).is_ascii());
        }
    }

    #[test]
    fn a_duplicate_has_the_bytes_of_its_original() {
        let world = Arc::new(World::new(Settings { pages: 5000, ..Settings::mixed() }, 80, 443));
        let renderer = Renderer::new(world.clone());
        let mut found = 0;
        for place in world.pages() {
            let What::Page(page) = place.what else { panic!() };
            if let crate::model::PageKind::Duplicate(of) = world.page_kind(place.host, page) {
                assert_eq!(bytes(&renderer.answer(place, 0)), bytes(&renderer.answer(of, 0)));
                found += 1;
            }
        }
        assert!(found > 100);
    }

    #[test]
    fn text_changes_with_the_version_and_links_do_not() {
        let world = Arc::new(World::new(Settings { change_share: 1.0, ..Settings::default() }, 80, 443));
        let renderer = Renderer::new(world.clone());
        let start = world.settings().time_start;
        let (before, after) = (renderer.page(1, 5, start), renderer.page(1, 5, start + 86_400 * 60));
        assert_ne!(before.version, after.version);
        assert_ne!(bytes(&before), bytes(&after));
        let links = |answer: &Answer| {
            let text = String::from_utf8(bytes(answer)).unwrap();
            text.split("<ul>").nth(1).unwrap().split("</ul>").next().unwrap().to_owned()
        };
        assert_eq!(links(&before), links(&after));
    }
}
