//! Groups the lines of one batch by URL (SEEDS C3, C4).
//!
//! Invariants: the sum of hits equals the sum of the lines; URLs come out sorted by id, each once, so that they can be
//! joined with records in the same order.

use crate::intake::reflog::Entry;
use crate::time::Timestamp;
use crate::url::{CrawlUrl, UrlId};

/// Maximum length of a kept update tag or page id in bytes. A longer one is cut.
pub const TAG_BYTES_MAX: usize = 64;

/// All lines of one URL in one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouped {
    /// The id of the URL.
    pub id: UrlId,
    /// The URL, as written in its last line.
    pub url: CrawlUrl,
    /// The time of the last line.
    pub at: Timestamp,
    /// The sum of hits of all lines.
    pub hits: u64,
    /// The last tag that is not empty; empty if all are. Last by the time of the line, then by its position in the
    /// batch.
    pub tag: Box<str>,
    /// The last page id that is not empty, in the same sense; empty if all are.
    pub page: Box<str>,
}

/// The needed parts of a line. The rest is dropped at once: a batch is held as a whole, and a smaller batch makes
/// better use of the processor's cache.
struct Line {
    url: CrawlUrl,
    hits: u64,
    tag: Option<String>,
    page: String,
}

/// Groups the lines of one batch.
pub fn group(entries: impl IntoIterator<Item = Entry>) -> Vec<Grouped> {
    // Lines are large; the sorted tuples are small, and ids are compared as numbers. The position keeps lines of one
    // moment in their order.
    let mut order: Vec<(u128, Timestamp, u32)> = Vec::new();
    let mut lines: Vec<Option<Line>> = Vec::new();
    for entry in entries {
        let place = u32::try_from(lines.len()).expect("a batch has fewer than four thousand million lines");
        order.push((u128::from_be_bytes(entry.url.id().0), entry.at, place));
        lines.push(Some(Line { url: entry.url, hits: entry.hits, tag: entry.update_tag, page: entry.page }));
    }
    order.sort_unstable();
    let mut groups: Vec<Grouped> = Vec::new();
    for (id, at, place) in order {
        let id = UrlId(id.to_be_bytes());
        let line = lines[place as usize].take().expect("each place comes once");
        let tag = line.tag.as_deref().map(str::trim).filter(|tag| !tag.is_empty());
        match groups.last_mut() {
            Some(last) if last.id == id => {
                (last.url, last.at) = (line.url, at);
                last.hits = last.hits.saturating_add(line.hits);
                if let Some(tag) = tag {
                    last.tag = cut(tag);
                }
                if !line.page.trim().is_empty() {
                    last.page = cut(line.page.trim());
                }
            }
            _ => {
                let tag = tag.map(cut).unwrap_or_default();
                let page = cut(line.page.trim());
                groups.push(Grouped { id, url: line.url, at, hits: line.hits, tag, page });
            }
        }
    }
    groups
}

fn cut(tag: &str) -> Box<str> {
    let mut end = tag.len().min(TAG_BYTES_MAX);
    while !tag.is_char_boundary(end) {
        end -= 1;
    }
    tag[..end].into()
}
