//! What programs for language models ask for: a page as text, the URLs of a site, a small crawl.
//!
//! Written once over the API itself ([`Ask`]): a server asks its own table of operations ([`Own`]), and `nephila mcp`
//! asks a node ([`Peer`](crate::client::Peer)). So roles, checks, robots.txt, delays and scopes are those of every other request.
//!
//! | function | what it does | least role |
//! |---|---|---|
//! | [`scrape()`] | the newest capture if it is young enough; else the URL is added to a job, and its page awaited | operate |
//! | [`read`] | the newest capture, without a request to the site | read |
//! | [`map()`] | the known URLs of a site | read |
//! | [`crawl()`] | a job with one seed, and an id that has everything to ask for it | operate |
//! | [`crawl_status`], [`crawl_errors`] | how far it is, with its pages | read |
//! | [`crawl_cancel`] | stops the job | operate |
//!
//! Invariants: nothing is kept between two requests, so each node answers for a crawl, also after a restart; a page is
//! foreign bytes: its size, the time and the place of its reading are bounded (`render`), off the threads that serve.

mod ask;
mod crawl;
mod failure;
mod firecrawl;
mod id;
mod map;
mod options;
mod patterns;
mod render;
mod scrape;
mod site;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use ask::{Ask, Own};
pub use crawl::{crawl, crawl_cancel, crawl_errors, crawl_status};
pub use failure::{Failure, Kind};
#[cfg(test)]
pub(crate) use firecrawl::LISTS;
pub use firecrawl::routes;
pub(crate) use firecrawl::{PREFIX as FIRECRAWL, shaped};
pub use map::map;
pub use patterns::paths_of_host;
pub use scrape::{read, scrape};

/// Job of single pages, unless another is named.
pub const JOB: &str = nephila_engine::crawl::more_jobs::PAGES_JOB;
/// Usual and longest wait for a page. A server gives a request 60 s.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// See [`TIMEOUT`].
pub const TIMEOUT_MAX: Duration = Duration::from_secs(50);
/// Age up to which a capture is good enough, unless the request says otherwise.
pub const MAX_AGE: Duration = Duration::from_secs(2 * 24 * 3_600);
/// Usual number of pages of a crawl.
pub const PAGES: u64 = 10_000;
/// Usual and greatest number of links of a map.
pub const LINKS: usize = 5_000;
/// See [`LINKS`].
pub const LINKS_MAX: usize = 100_000;

/// What of a page is wanted.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Wants {
    /// The text as Markdown.
    pub markdown: bool,
    /// The text as plain HTML, with nothing that runs or loads.
    pub html: bool,
    /// The body as the server sent it, without content codings.
    pub raw_html: bool,
    /// The links, absolute.
    pub links: bool,
    /// The images, absolute.
    pub images: bool,
    /// Markdown and HTML have the main text alone, without navigation and boilerplate.
    pub only_main: bool,
}

impl Default for Wants {
    fn default() -> Wants {
        Wants { markdown: true, html: false, raw_html: false, links: false, images: false, only_main: true }
    }
}

/// How a page is scraped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeOptions {
    /// What of the page is wanted.
    pub wants: Wants,
    /// A capture of at most this age is good enough.
    pub max_age: Duration,
    /// How long the page is awaited, at most [`TIMEOUT_MAX`].
    pub timeout: Duration,
    /// Job that the URL is added to. A missing job is made, with the scope `page`.
    pub job: String,
}

impl Default for ScrapeOptions {
    fn default() -> ScrapeOptions {
        ScrapeOptions { wants: Wants::default(), max_age: MAX_AGE, timeout: TIMEOUT, job: JOB.to_owned() }
    }
}

/// A page as programs for language models want it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Scraped {
    /// The URL of the request.
    pub asked: String,
    /// The URL of the page, after redirects.
    pub url: String,
    /// The HTTP status.
    pub status: u16,
    /// Media type.
    pub content_type: String,
    /// Time of the capture (RFC 3339).
    pub captured: String,
    /// Whether the capture was there before the request.
    pub cached: bool,
    /// Title of the page; empty if there is none, as are the other texts.
    pub title: String,
    /// What the page says about itself in `meta` elements.
    pub description: String,
    /// The language that the page states.
    pub language: String,
    /// The author, as on the page.
    pub author: String,
    /// The time of publication, as on the page.
    pub published: String,
    /// The text as Markdown, if it was wanted, as are the following.
    pub markdown: Option<String>,
    /// The text as plain HTML.
    pub html: Option<String>,
    /// The body as the server sent it.
    pub raw_html: Option<String>,
    /// The links.
    pub links: Option<Vec<String>>,
    /// The images.
    pub images: Option<Vec<String>>,
    /// What the reader should know: a text that was cut, or a capture that is older than wanted.
    pub warning: Option<String>,
}

/// Whether sitemaps are used.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sitemap {
    /// Beside everything else.
    #[default]
    Include,
    /// Not.
    Skip,
    /// Nothing else.
    Only,
}

/// Which URLs of a site are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapOptions {
    /// Words that a URL or its title has; the URLs with most of them come first.
    pub search: String,
    /// Also the hosts below the registrable domain.
    pub subdomains: bool,
    /// URLs without their query, each once.
    pub without_query: bool,
    /// Whether sitemaps are used.
    pub sitemap: Sitemap,
    /// Maximum number of links.
    pub limit: usize,
    /// How long is looked.
    pub timeout: Duration,
}

impl Default for MapOptions {
    fn default() -> MapOptions {
        MapOptions {
            search: String::new(),
            subdomains: true,
            without_query: false,
            sitemap: Sitemap::Include,
            limit: LINKS,
            timeout: TIMEOUT,
        }
    }
}

/// A URL of a site.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The URL.
    pub url: String,
    /// Title of the page, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the page says about itself, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Which pages a crawl fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrawlOptions {
    /// Maximum number of pages.
    pub limit: u64,
    /// Maximum number of links from the seed.
    pub depth: u8,
    /// The whole host, and not only the folder of the seed.
    pub whole_host: bool,
    /// All hosts of the registrable domain.
    pub subdomains: bool,
    /// Patterns that a URL of the crawl has to match one of; all URLs without any. The seed is always fetched. They alone
    /// decide, also about hosts: one that is to stay on a host begins with `^`, the scheme and the host.
    pub include: Vec<String>,
    /// Patterns of URLs that are left out.
    pub exclude: Vec<String>,
    /// What of the pages is wanted.
    pub wants: Wants,
}

impl Default for CrawlOptions {
    fn default() -> CrawlOptions {
        CrawlOptions {
            limit: PAGES,
            depth: 20,
            whole_host: false,
            subdomains: false,
            include: Vec::new(),
            exclude: Vec::new(),
            wants: Wants::default(),
        }
    }
}

/// State of a crawl.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CrawlState {
    /// Pages are being fetched.
    #[default]
    Scraping,
    /// Nothing is left, or the limit is reached.
    Completed,
    /// It was stopped.
    Cancelled,
    /// The seed could not be fetched.
    Failed,
}

/// How far a crawl is, with a page of its pages.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CrawlStatus {
    /// The state.
    pub state: CrawlState,
    /// Number of pages that are there.
    pub completed: u64,
    /// Number of pages that are there or wanted.
    pub total: u64,
    /// Pages, the oldest capture first.
    pub pages: Vec<Scraped>,
    /// Cursor of the next pages; none if there are no more so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What the reader should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// A URL of a crawl that could not be fetched.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct CrawlError {
    /// The URL.
    pub url: String,
    /// Time of the request.
    pub at: String,
    /// Outcome, by the name in `docs/outcomes.md`.
    pub outcome: String,
    /// The outcome in words.
    pub why: String,
    /// Whether robots.txt forbids the URL.
    pub by_robots: bool,
}

#[cfg(test)]
mod tests;
