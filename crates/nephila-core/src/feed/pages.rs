//! Paged feeds (RFC 5005): how far `rel=next` is followed.
//!
//! Invariants: no page is requested twice in one walk; a walk has at most [`PAGES_MAX`] pages.

use std::collections::BTreeSet;

use super::Feed;
use crate::url::{CrawlUrl, UrlId};

/// Maximum number of pages of one feed in one walk, including the first.
pub const PAGES_MAX: usize = 20;

/// One walk through the pages of a feed.
#[derive(Clone, Debug)]
pub struct Walk {
    seen: BTreeSet<UrlId>,
}

impl Walk {
    /// Begins at the feed.
    pub fn new(feed: &CrawlUrl) -> Walk {
        Walk { seen: BTreeSet::from([feed.id()]) }
    }

    /// The page to request after this one; none at the end, at a page of this walk, and after [`PAGES_MAX`]. A page on
    /// another host is not followed either: one host must not speak for another.
    pub fn next<'a>(&mut self, page: &'a Feed, at: &CrawlUrl) -> Option<&'a CrawlUrl> {
        let next = page.next.as_ref().filter(|next| next.host() == at.host())?;
        (self.seen.len() < PAGES_MAX && self.seen.insert(next.id())).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(next: impl Fn(usize) -> String) -> usize {
        let mut at = CrawlUrl::parse("http://s.test/feed").unwrap();
        let mut walk = Walk::new(&at);
        for pages in 1.. {
            let page = Feed { next: CrawlUrl::parse(&next(pages)).ok(), ..Feed::default() };
            match walk.next(&page, &at) {
                Some(next) => at = next.clone(),
                None => return pages,
            }
        }
        unreachable!()
    }

    #[test]
    fn fee_20_pages_in_a_circle_or_without_end_are_left() {
        assert_eq!(walk(|_| String::new()), 1);
        assert_eq!(walk(|_| "http://s.test/feed".to_owned()), 1);
        assert_eq!(walk(|n| format!("http://s.test/feed?page={}", n % 4)), 5);
        assert_eq!(walk(|n| format!("http://s.test/feed?page={n}")), PAGES_MAX);
        assert_eq!(walk(|n| format!("http://other{n}.test/feed")), 1);
    }
}
