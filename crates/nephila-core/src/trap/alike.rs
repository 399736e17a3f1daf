//! Detects shapes of a host's URLs that keep leading to equal pages.
//!
//! Each fetched page is noted with its shape, the digest of its content and, where its main text was extracted, the
//! fingerprint of the text. A watched shape remembers its latest pages and keeps a balance: a page that equals one of
//! them, or is a near-duplicate of one, adds one; another page subtracts one. At `pages_alike_max` the shape
//! is closed and new URLs of the shape are refused. A site of ten thousand articles, some of them equal, stays far
//! below that; a soft 404 or a session id in the path reaches the limit after a few dozen pages.
//!
//! Invariants: at most [`WATCHED_MAX`] shapes are watched and [`CLOSED_MAX`] closed, whatever the host sends; the bytes
//! of [`Alike::encode`] depend on the noted pages alone.

use crate::codec::{Damaged, Reader, put_u64};
use crate::simhash::is_near;
use crate::url::CrawlUrl;

use super::{Settings, folder, shape};

/// Maximum number of watched shapes of one host.
pub const WATCHED_MAX: usize = 16;

/// Maximum number of closed shapes of one host. Beyond that the one closed first is open again, until detected again.
pub const CLOSED_MAX: usize = 32;

/// Maximum number of remembered pages of one shape, the latest ones.
pub const PAGES_MAX: usize = 4;

/// What is compared of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// 64 bits of the digest of the content.
    pub digest: u64,
    /// Fingerprint of the main text ([`crate::simhash`]), 0 if there is none.
    pub simhash: u64,
}

/// The page statistics of a host. Part of the host's record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    /// The last noted shape stands last.
    watched: Vec<Watched>,
    /// The last closed shape stands last.
    closed: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Watched {
    shape: u64,
    /// Number of equal pages minus different ones, never below 0.
    balance: u16,
    /// The last seen page stands last.
    pages: Vec<Seen>,
}

/// A remembered page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// 32 bits are enough to tell a few pages of one shape apart.
    digest: u32,
    simhash: u64,
}

impl Seen {
    fn is_like(self, other: Seen) -> bool {
        let texts = [self.simhash, other.simhash];
        self.digest == other.digest || (!texts.contains(&0) && is_near(texts[0], texts[1]))
    }
}

impl From<Page> for Seen {
    fn from(page: Page) -> Seen {
        Seen { digest: (page.digest ^ (page.digest >> 32)) as u32, simhash: page.simhash }
    }
}

impl Alike {
    /// Whether nothing has been noted. Most hosts need no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty() && self.closed.is_empty()
    }

    /// Notes a page under its shape and under its top folder. Returns whether that closed one of them.
    ///
    /// Only the first capture of a URL counts: an unchanged page on a later visit is a good page.
    pub fn note_page(&mut self, url: &CrawlUrl, page: Page, settings: &Settings) -> bool {
        let by_shape = self.note(shape(url), page, settings.pages_alike_max);
        let by_folder = self.note(folder(url), page, settings.pages_alike_max);
        by_shape || by_folder
    }

    /// Whether URLs like this one are refused. A host's front page never is.
    pub fn is_page_closed(&self, url: &CrawlUrl) -> bool {
        !self.closed.is_empty()
            && url.path_and_query() != "/"
            && (self.is_closed(shape(url)) || self.is_closed(folder(url)))
    }

    /// Notes a page. Returns whether that closed its shape. A maximum of 0 turns the rule off.
    pub fn note(&mut self, shape: u64, page: Page, pages_alike_max: u16) -> bool {
        if pages_alike_max == 0 || self.is_closed(shape) {
            return false;
        }
        let mut watched = match self.watched.iter().position(|watched| watched.shape == shape) {
            Some(at) => self.watched.remove(at),
            None => {
                self.make_room();
                Watched { shape, balance: 0, pages: Vec::new() }
            }
        };
        let page = Seen::from(page);
        match watched.pages.iter().position(|seen| seen.is_like(page)) {
            Some(at) => {
                watched.pages.remove(at);
                watched.balance = watched.balance.saturating_add(1);
            }
            None => {
                watched.balance = watched.balance.saturating_sub(1);
                if watched.pages.len() == PAGES_MAX {
                    watched.pages.remove(0);
                }
            }
        }
        watched.pages.push(page);
        if watched.balance < pages_alike_max {
            self.watched.push(watched);
            return false;
        }
        if self.closed.len() == CLOSED_MAX {
            self.closed.remove(0);
        }
        self.closed.push(shape);
        true
    }

    /// Whether URLs of this shape are refused.
    pub fn is_closed(&self, shape: u64) -> bool {
        self.closed.contains(&shape)
    }

    /// The closed shapes, the one closed first at the front.
    pub fn closed(&self) -> &[u64] {
        &self.closed
    }

    /// Evicts the longest-watched shape with a balance of 0, or else the oldest. On a site where every page has its own
    /// shape most have a balance of 0, and these must not evict the one shape that repeats. A shape that is kept only
    /// for its balance fades: each eviction subtracts one from the oldest.
    fn make_room(&mut self) {
        if self.watched.len() < WATCHED_MAX {
            return;
        }
        let at = self.watched.iter().position(|watched| watched.balance == 0).unwrap_or(0);
        self.watched.remove(at);
        if let Some(oldest) = self.watched.first_mut() {
            oldest.balance = oldest.balance.saturating_sub(1);
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        let texts = self.watched.iter().flat_map(|watched| &watched.pages).any(|seen| seen.simhash != 0);
        let mut out = vec![if texts { VERSION_WITH_TEXTS } else { VERSION }];
        put_u64(&mut out, self.watched.len() as u64);
        for watched in &self.watched {
            out.extend(watched.shape.to_be_bytes());
            put_u64(&mut out, watched.balance.into());
            put_u64(&mut out, watched.pages.len() as u64);
            for seen in &watched.pages {
                out.extend(seen.digest.to_be_bytes());
                if texts {
                    out.extend(seen.simhash.to_be_bytes());
                }
            }
        }
        put_u64(&mut out, self.closed.len() as u64);
        self.closed.iter().for_each(|shape| out.extend(shape.to_be_bytes()));
        out
    }

    /// Reads the stored form. No bytes at all mean that nothing was noted.
    pub fn decode(bytes: &[u8]) -> Result<Alike, Damaged> {
        if bytes.is_empty() {
            return Ok(Alike::default());
        }
        let mut reader = Reader::new(bytes);
        let texts = match reader.u8("version of alike")? {
            VERSION => false,
            VERSION_WITH_TEXTS => true,
            _ => return Err(Damaged("version of alike")),
        };
        let mut alike = Alike::default();
        for _ in 0..count(&mut reader, WATCHED_MAX)? {
            let shape = reader.fixed_u64("watched shape")?;
            let balance = reader.u64("balance")?.try_into().map_err(|_| Damaged("balance"))?;
            let mut pages = Vec::new();
            for _ in 0..count(&mut reader, PAGES_MAX)? {
                let digest = reader.fixed_u32("digest")?;
                let simhash = if texts { reader.fixed_u64("fingerprint of a text")? } else { 0 };
                pages.push(Seen { digest, simhash });
            }
            alike.watched.push(Watched { shape, balance, pages });
        }
        for _ in 0..count(&mut reader, CLOSED_MAX)? {
            alike.closed.push(reader.fixed_u64("closed shape")?);
        }
        if reader.is_empty() { Ok(alike) } else { Err(Damaged("end of alike")) }
    }
}

fn count(reader: &mut Reader<'_>, max: usize) -> Result<usize, Damaged> {
    usize::try_from(reader.u64("count")?).ok().filter(|count| *count <= max).ok_or(Damaged("count"))
}

const VERSION: u8 = 1;
/// Each page has the fingerprint of its text.
const VERSION_WITH_TEXTS: u8 = 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: u16 = 5;

    /// A page without text.
    fn page(digest: u64) -> Page {
        Page { digest, simhash: 0 }
    }

    /// The index of the page that closes its shape, if any.
    fn check(pages: &[(u64, u64)]) -> Option<usize> {
        let mut alike = Alike::default();
        pages.iter().position(|(shape, digest)| alike.note(*shape, page(*digest), MAX))
    }

    #[test]
    fn trp_08_a_soft_404_closes_its_shape() {
        assert_eq!(check(&[(1, 7); 20]), Some(5), "the first is new, five are equal to it");
    }

    #[test]
    fn trp_06_a_few_pages_under_ever_new_session_ids_close_their_shape() {
        let pages: Vec<_> = (0..40).map(|i| (1, i % 4)).collect();
        assert_eq!(check(&pages), Some(8));
    }

    #[test]
    fn a_site_where_every_third_article_is_sold_out_stays_open() {
        let pages: Vec<_> = (0..3_000).map(|i| (1, if i % 3 == 0 { 7 } else { 1_000 + i })).collect();
        assert_eq!(check(&pages), None);
    }

    #[test]
    fn trp_12_pages_that_all_differ_never_close_anything() {
        assert_eq!(check(&(0..3_000).map(|i| (i % 3, i)).collect::<Vec<_>>()), None);
    }

    #[test]
    fn many_shapes_of_one_page_do_not_hide_the_one_that_repeats() {
        // Between two bursts of equal pages come more shapes than are watched.
        let others = WATCHED_MAX as u64 + 1;
        let mut pages = Vec::new();
        for i in 0..100 {
            pages.extend([(1, 7); 4]);
            pages.extend((0..others).map(|j| (1_000 + i * others + j, i * others + j)));
        }
        assert!(check(&pages).is_some());
    }

    #[test]
    fn stale_balances_fade_and_make_room() {
        let mut alike = Alike::default();
        for shape in 0..WATCHED_MAX as u64 {
            (0..3).for_each(|_| assert!(!alike.note(shape, page(7), MAX)));
        }
        // Two shapes that come in turns would push each other out of the one place that is free.
        let closed = (0..200).any(|i| alike.note(100 + i % 2, page(7), MAX));
        assert!(closed);
    }

    #[test]
    fn a_closed_shape_stays_closed_and_is_not_watched() {
        let mut alike = Alike::default();
        assert!((0..=MAX).any(|_| alike.note(1, page(7), MAX)));
        assert!(alike.is_closed(1) && !alike.is_closed(2));
        assert!(!alike.note(1, page(8), MAX));
        assert!(alike.watched.is_empty() && alike.closed() == [1]);
    }

    #[test]
    fn trp_05_a_catch_all_route_closes_its_folder_whatever_the_depth() {
        let settings = Settings { pages_alike_max: MAX, ..Settings::default() };
        let url = |path: &str| CrawlUrl::parse(&format!("http://a.test{path}")).unwrap();
        let mut alike = Alike::default();
        let mut path = String::from("/shop");
        for depth in 0..10 {
            path.push_str(&format!("/item-{}", ["red", "blue", "green"][depth % 3]));
            alike.note_page(&url(&path), page(7), &settings);
        }
        assert!(alike.is_page_closed(&url("/shop/whatever?x=1")));
        assert!(!alike.is_page_closed(&url("/about/us")) && !alike.is_page_closed(&url("/shop")));
    }

    #[test]
    fn trp_08_a_site_that_is_one_page_everywhere_keeps_its_front_page() {
        let settings = Settings { pages_alike_max: MAX, ..Settings::default() };
        let url = |path: &str| CrawlUrl::parse(&format!("http://a.test{path}")).unwrap();
        let mut alike = Alike::default();
        for name in ["/", "/a", "/b", "/c", "/d", "/e", "/f"] {
            alike.note_page(&url(name), page(7), &settings);
        }
        assert!(alike.is_page_closed(&url("/g")) && !alike.is_page_closed(&url("/")));
    }

    #[test]
    fn the_rule_can_be_turned_off() {
        let mut alike = Alike::default();
        assert!(!(0..1_000).any(|_| alike.note(1, page(7), 0)) && alike.is_empty());
    }

    // Stored bytes must stay readable.
    #[test]
    fn golden_bytes() {
        let mut alike = Alike::default();
        (0..2).for_each(|_| _ = alike.note(0x0102_0304_0506_0708, page(0x0a0b_0c0d), 2));
        (0..3).for_each(|_| _ = alike.note(0xff, page(1), 2));
        let bytes = [1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 10, 11, 12, 13, 1, 0, 0, 0, 0, 0, 0, 0, 255];
        assert_eq!(alike.encode(), bytes);
        assert_eq!(Alike::decode(&bytes), Ok(alike));
        let mut alike = Alike::default();
        alike.note(0xff, Page { digest: 1, simhash: 0x0102_0304_0506_0708 }, 2);
        let bytes = [2, 1, 0, 0, 0, 0, 0, 0, 0, 255, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        assert_eq!(alike.encode(), bytes);
        assert_eq!(Alike::decode(&bytes), Ok(alike));
    }

    /// The text of a page of an endless calendar: the day is all that changes.
    fn calendar(day: u64, words: u64) -> u64 {
        let text: Vec<String> = (0..words).map(|n| format!("word{}", n * 7 % 101)).collect();
        crate::simhash::simhash(&format!("{} events on day {day} {}", text.join(" "), text.join(" ")))
            .unwrap()
    }

    #[test]
    fn trp_01_a_calendar_whose_pages_differ_in_a_word_closes_its_shape() {
        let mut alike = Alike::default();
        let mut closes = |day| alike.note(1, Page { digest: day, simhash: calendar(day, 150) }, MAX);
        assert_eq!((0..40).position(&mut closes), Some(5), "the first is new, five are like it");
        // Without a text, pages with other bytes are other pages.
        let mut alike = Alike::default();
        assert_eq!((0..40).position(|day| alike.note(1, page(day), MAX)), None);
        // A page without a text is like no page with one.
        let mut alike = Alike::default();
        let text = |day| if day % 2 == 0 { calendar(day, 150) } else { 0 };
        let mut balance = |day| alike.note(1, Page { digest: day, simhash: text(day) }, MAX);
        assert_eq!((0..40).position(&mut balance), None);
    }

    #[test]
    fn trp_12_articles_with_texts_of_their_own_never_close_anything() {
        let mut alike = Alike::default();
        for n in 0..3_000_u64 {
            let text: Vec<String> = (0..120).map(|word| format!("w{}", word * 31 + n * 977)).collect();
            let simhash = crate::simhash::simhash(&format!("Share this page {}", text.join(" "))).unwrap();
            assert!(!alike.note(n % 3, Page { digest: n, simhash }, MAX), "{n}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_stays_small(
            pages in prop::collection::vec((0..60u64, 0..6u64, 0..3u64), 0..800), max in 1..9u16,
        ) {
            let mut alike = Alike::default();
            for (shape, digest, text) in pages {
                alike.note(shape, Page { digest, simhash: text * 0x0123_4567_89ab_cdef }, max);
                prop_assert!(alike.watched.len() <= WATCHED_MAX && alike.closed.len() <= CLOSED_MAX);
                prop_assert!(alike.watched.iter().all(|w| w.pages.len() <= PAGES_MAX && w.balance < max));
            }
            let bytes = alike.encode();
            prop_assert!(bytes.len() <= 3 + WATCHED_MAX * (8 + 3 + 1 + 12 * PAGES_MAX) + CLOSED_MAX * 8);
            prop_assert_eq!(Alike::decode(&bytes), Ok(alike));
            for cut in 1..bytes.len() {
                prop_assert!(Alike::decode(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn foreign_bytes_are_an_answer_too(mut bytes: Vec<u8>) {
            let _ = Alike::decode(&bytes);
            bytes.insert(0, VERSION);
            let _ = Alike::decode(&bytes);
        }
    }
}
