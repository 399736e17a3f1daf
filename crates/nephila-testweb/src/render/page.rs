//! Pages: a head with title and links, then text from the block all pages share.
//!
//! Invariant: a page has exactly the size that the model drew, unless its head alone is larger. Markup is cut at the end
//! of a line, and blanks fill the rest.

use bytes::Bytes;

use super::gzip::SEGMENT;
use super::text::{LINE_MAX, TEXT_BYTES};
use super::{Answer, HTML, Renderer};
use crate::model::{Place, What, push_number};
use crate::settings::Text;

/// The end of a page.
const TAIL: &str = "\n</div>\n</body>\n</html>\n";

/// Blanks after text that is cut at the end of a line.
static BLANKS: [u8; LINE_MAX] = [b' '; LINE_MAX];

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
        let text = self.world.settings().text;
        let mut left = size.saturating_sub(head.len() + TAIL.len());
        let mut body = Vec::with_capacity(4);
        body.push(Bytes::from(head));
        // At a segment, so that gzip has the bytes ready-made.
        let mut at = (mark >> 8) as usize % (TEXT_BYTES / 2 / SEGMENT) * SEGMENT;
        while left > 0 {
            let end = (at + left).min(TEXT_BYTES);
            left -= end - at;
            let cut = match text {
                Text::Words => end,
                Text::Markup => self.line_end(at, end),
            };
            body.push(self.text.slice(at..cut));
            if cut < end {
                body.push(Bytes::from_static(&BLANKS[..end - cut]));
            }
            at = 0;
        }
        body.push(Bytes::from_static(TAIL.as_bytes()));
        body
    }

    /// The end of the last whole line of markup in this part of the text block; its begin if there is none.
    fn line_end(&self, from: usize, to: usize) -> usize {
        let last = self.text[from..to].iter().rposition(|byte| *byte == b'\n');
        last.map_or(from, |at| from + at + 1)
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
    fn markup_is_cut_at_lines_and_the_size_stays() {
        for page_bytes in [3_000, 20_000, 300_000] {
            let settings =
                Settings { page_bytes, page_bytes_sigma: 1.0, text: Text::Markup, ..Settings::default() };
            let renderer = Renderer::new(Arc::new(World::new(settings, 80, 443)));
            for page in 0..100 {
                let answer = renderer.page(1, page, 0);
                // Links alone may fill a small page.
                let size = renderer.world.page_size(1, page);
                assert!(answer.len() as usize == size || size < 4_000, "{page}: {}", answer.len());
                let text = String::from_utf8(bytes(&answer)).unwrap();
                assert_eq!(text.matches("<p ").count(), text.matches("</p>").count() - 1, "{text}");
                assert_eq!(text.matches("<script").count(), text.matches("</script>").count());
            }
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
