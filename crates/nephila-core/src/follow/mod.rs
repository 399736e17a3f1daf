//! The decisions about an answer: which of its links are offered to the frontier ([`links()`]), whether a redirect leads on
//! ([`redirect()`]), and whether the next request for the page is conditional ([`conditions()`]).
//!
//! Invariants: a link that is left out is counted under the rule that excluded the link; the same page and rules give
//! the same links, whether the page was just fetched or is read again from the archive.

mod conditions;
mod links;
mod redirect;
mod source;
#[cfg(test)]
mod tests;

pub use conditions::{Stored, conditions, is_stored};
pub use links::{Counts, Follow, Judge, Link, Links, Unwitnessed, Witness, links, links_of_feed};
pub use redirect::redirect;
pub use source::{Known, Source};

use crate::handler::Findings;
use crate::key::{Secret, UrlKey};
use crate::recrawl::claims::{LISTED_MAX, Listed};
use crate::time::Timestamp;
use crate::url::CrawlUrl;

/// The times of change of pages on the sitemap's own host, as the sitemap claims. Entries of other hosts are ignored.
pub fn listed(page: &CrawlUrl, findings: Option<&Findings>, secret: &Secret) -> Box<[Listed]> {
    let sitemap = findings.and_then(|findings| findings.sitemap.as_ref());
    let entries = sitemap.iter().flat_map(|sitemap| &sitemap.urls);
    claimed(page, entries.filter_map(|entry| Some((&entry.url, entry.lastmod?))), secret)
}

/// Like [`listed`], for any pages and times.
pub fn claimed<'a>(
    page: &CrawlUrl,
    times: impl Iterator<Item = (&'a CrawlUrl, Timestamp)>,
    secret: &Secret,
) -> Box<[Listed]> {
    let origin = page.origin();
    let own = times.filter(|(url, _)| url.origin() == origin).take(LISTED_MAX);
    own.map(|(url, at)| Listed { path: UrlKey::of(url, secret).path, modified: at.into() }).collect()
}
