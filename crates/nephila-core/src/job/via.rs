//! Where a URL was found: on which page, and by which hops from a seed.
//!
//! A [`Via`] is kept with the URL, for the metadata record of its capture and for queries about its origin. No decision
//! depends on a via. The cost: two or three bytes for the hops, and the path of the page (its whole URL for a page on
//! another host), which all links of a page share in memory and in the log.
//!
//! Invariants: a kept page has at most [`PAGE_BYTES_MAX`] bytes, and a trail at most [`Trail::MOST`] hops.

use std::fmt;
use std::sync::Arc;

use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::url::CrawlUrl;

/// Maximum length of the URL of a kept page: a page with thousands of links would be written as often.
pub const PAGE_BYTES_MAX: usize = 1_024;

/// The hops that led to a URL, first to last, in the letters of Heritrix: `L` link, `E` embedded, `R` redirect, `M`
/// manifest (sitemap), `S` submit, `X` anything else. Three bits each, behind a one.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trail(u64);

/// The letters by their number. The last stands for dropped hops.
const LETTERS: [char; 8] = ['L', 'E', 'R', 'M', 'S', 'X', 'P', '+'];

impl Trail {
    /// Maximum number of hops that are kept. Of more hops the last are kept, behind a `+`.
    pub const MOST: u32 = 20;

    /// Unknown: records from before there were trails.
    pub const UNKNOWN: Trail = Trail(0);

    /// No hop: a seed.
    pub const SEED: Trail = Trail(1);

    /// Number of kept hops.
    fn len(self) -> u32 {
        (63 - (self.0 | 1).leading_zeros()) / 3
    }

    /// One hop further. Unknown hops before become a `+`.
    #[must_use]
    pub fn hop(self, letter: char) -> Trail {
        if self == Trail::UNKNOWN {
            return Trail(0b1111).hop(letter);
        }
        let code = LETTERS[..7].iter().position(|known| *known == letter).unwrap_or(5) as u64;
        let mut kept = self.0;
        let cut = kept >> (3 * self.len().saturating_sub(1)) == 0b1111;
        let room = Trail::MOST + u32::from(cut);
        if self.len() >= room {
            // A one, the mark, and all kept hops but the oldest.
            let bits = 3 * (Trail::MOST - 1);
            kept = 0b1111 << bits | kept & ((1 << bits) - 1);
        }
        Trail(kept << 3 | code)
    }

    /// Number of the last hops in a row that lead to embedded content, redirects included.
    pub fn embeds(self) -> u32 {
        let letter = |at: &u32| LETTERS[(self.0 >> (3 * at)) as usize & 7];
        (0..self.len()).take_while(|at| matches!(letter(at), 'E' | 'R')).count() as u32
    }

    /// Whether the last hop, redirects apart, leads to embedded content.
    pub fn is_embedded(self) -> bool {
        let letter = |at: u32| LETTERS[(self.0 >> (3 * at)) as usize & 7];
        (0..self.len()).map(letter).find(|letter| *letter != 'R') == Some('E')
    }

    /// The number that is stored.
    pub fn code(self) -> u64 {
        self.0
    }

    /// The trail with this stored number.
    pub fn by_code(code: u64) -> Option<Trail> {
        let trail = Trail(code);
        let whole = code == 0 || (63 - code.leading_zeros()).is_multiple_of(3);
        (whole && trail.len() <= Trail::MOST + 1).then_some(trail)
    }
}

impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.len()).rev().try_for_each(|at| {
            let letter = LETTERS[(self.0 >> (3 * at)) as usize & 7];
            fmt::Write::write_char(f, letter)
        })
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trail({self})")
    }
}

/// Where a URL was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Via {
    /// The page that named the URL first: path and query for the same origin, else the whole URL. Empty for a seed, or
    /// if the page's URL is too long to be kept.
    page: Box<str>,
    /// The hops that led to the URL.
    pub trail: Trail,
}

impl Via {
    /// For a seed.
    pub fn seed() -> Arc<Via> {
        Arc::new(Via { page: Box::default(), trail: Trail::SEED })
    }

    /// For a URL on a page. `same_origin` tells whether page and URL have the same origin.
    pub fn of(page: &CrawlUrl, trail: Trail, same_origin: bool) -> Via {
        let text = if same_origin { page.path_and_query() } else { page.as_str() };
        let page = if text.len() > PAGE_BYTES_MAX { "" } else { text };
        Via { page: page.into(), trail }
    }

    /// The page's URL, given the origin of the named URL. None if unknown.
    pub fn page(&self, origin: &str) -> Option<String> {
        match &*self.page {
            "" => None,
            path if path.starts_with('/') => Some([origin, path].concat()),
            url => Some(url.to_owned()),
        }
    }

    /// Appends the encoded via to `out`.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.trail.code());
        put_bytes(out, self.page.as_bytes());
    }

    /// Decodes a via.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Via, Damaged> {
        const WHAT: &str = "page that names a URL";
        let trail = Trail::by_code(reader.u64("hops of a URL")?).ok_or(Damaged("hops of a URL"))?;
        let page = reader.text(WHAT)?;
        if page.len() > PAGE_BYTES_MAX {
            return Err(Damaged(WHAT));
        }
        Ok(Via { page: page.into(), trail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(letters: &str) -> Trail {
        letters.chars().fold(Trail::SEED, Trail::hop)
    }

    #[test]
    fn a_trail_says_its_hops_and_keeps_the_last_of_too_many() {
        assert_eq!((walked("").to_string(), Trail::UNKNOWN.to_string()), (String::new(), String::new()));
        assert_eq!(walked("LLRE").to_string(), "LLRE");
        assert_eq!(walked("M?P").to_string(), "MXP");
        assert_eq!(Trail::UNKNOWN.hop('L').hop('E').to_string(), "+LE");
        assert_eq!((walked("LEREE").embeds(), walked("LEL").embeds(), walked("").embeds()), (4, 0, 0));
        let embedded = ["", "L", "LR", "LE", "LERR", "ELR"].map(|letters| walked(letters).is_embedded());
        assert_eq!(embedded, [false, false, false, true, true, false]);
        let most = "LERMSXPLERMSXPLERMSX";
        assert_eq!(walked(most).to_string(), most);
        assert_eq!(walked(&format!("{most}R")).to_string(), format!("+{}R", &most[1..]));
        let long = format!("{}{most}", "L".repeat(300));
        assert_eq!(walked(&long).to_string(), format!("+{most}"));
        for trail in [walked(""), walked("LLRE"), walked(most), walked(&long), Trail::UNKNOWN] {
            assert_eq!(Trail::by_code(trail.code()), Some(trail));
        }
        assert_eq!((Trail::by_code(2), Trail::by_code(4)), (None, None));
    }

    #[test]
    fn a_page_of_the_same_origin_costs_its_path_alone() {
        let page = CrawlUrl::parse("http://a.test/x?y=1").unwrap();
        let near = Via::of(&page, walked("LL"), true);
        let far = Via::of(&page, walked("LL"), false);
        assert_eq!(near.page("http://a.test").as_deref(), Some("http://a.test/x?y=1"));
        assert_eq!(far.page("http://b.test").as_deref(), Some("http://a.test/x?y=1"));
        let bytes = |via: &Via| {
            let mut out = Vec::new();
            via.put(&mut out);
            assert_eq!(Via::read(&mut Reader::new(&out)).as_ref(), Ok(via));
            out.len()
        };
        assert_eq!((bytes(&near), bytes(&far)), (1 + 1 + 6, 1 + 1 + 19));
        let long = CrawlUrl::parse(&format!("http://a.test/{}", "x".repeat(PAGE_BYTES_MAX))).unwrap();
        assert_eq!(Via::of(&long, walked("L"), true).page("http://a.test"), None);
        assert_eq!(Via::seed().page("http://a.test"), None);
    }
}
