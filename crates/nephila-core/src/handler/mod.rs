//! The handler stage: what the bytes of an answer are, and which other URLs they name.
//!
//! A body arrives as bytes with a label that may be missing or false. [`sniff`] says what kind of thing it is,
//! [`charset`] in which encoding its text is, [`refresh`] whether it sends its readers elsewhere, [`read_as`]
//! what whoever found the URL expects of it. [`page`] puts these
//! together and reads pages for links, [`css`] reads style sheets, [`sitemap`] reads sitemaps and feeds; [`page_robots`] holds what a page asks of
//! robots. None of them changes what is stored, and none of them trusts a byte: whatever comes in, what comes out is
//! what could be read, within limits.

pub mod charset;
mod collect;
pub mod css;
mod html;
pub mod link;
pub mod link_field;
pub mod outlinks;
pub mod page;
pub mod page_robots;
pub mod read_as;
pub mod refresh;
pub mod sitemap;
pub mod sniff;
pub(crate) mod soup;
pub mod srcset;
#[cfg(test)]
mod tests;

pub use link::{Found, LinkKind};
pub use page::{Counts, Findings, Limits, Page, read_page, read_page_until};
pub use page_robots::PageRobots;
pub use read_as::{ReadAs, TextOf};
pub use sitemap::{SitemapFindings, read_sitemap};
