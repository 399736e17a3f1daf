//! The handler stage: decides the type of a response body, and extracts the URLs that the body names.
//!
//! A body arrives as bytes with a label that may be missing or false. [`sniff`] decides the media kind, [`charset`] the
//! character encoding, [`refresh`] parses client-side redirects, and [`read_as`] is the expectation of the page that
//! named the URL. [`page`] combines these steps and extracts links from HTML, [`css`] reads style sheets, [`sitemap`]
//! reads sitemaps and feeds; [`page_robots`] reads the robots directives of a page. No reader changes the stored bytes,
//! and no reader trusts a byte: any input gives the part that could be parsed, within limits.

pub mod charset;
mod collect;
pub mod css;
pub mod details;
mod hashes;
mod html;
pub mod link;
pub mod link_field;
pub mod outlinks;
pub mod page;
pub mod page_robots;
pub mod read_as;
pub mod refresh;
mod scan;
pub mod sitemap;
pub mod sniff;
pub(crate) mod soup;
pub mod srcset;
pub mod table_notes;
#[cfg(test)]
mod tests;

pub use details::Details;
pub use link::{FoundLink, LinkKind, LinkWords};
pub use page::{Counts, Findings, Limits, Page, read_page, read_page_until};
pub use page_robots::PageRobots;
pub use read_as::{ReadAs, TextOf};
#[cfg(any(test, feature = "test-util"))]
pub use scan::outline::{outline, outline_names};
pub use sitemap::{SitemapFindings, read_sitemap};
