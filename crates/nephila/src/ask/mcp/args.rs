//! The arguments of the tools, with their JSON schemas.
//!
//! Invariant: an argument that a tool does not know is refused by name, so that a misspelt one is not ignored.

use nephila_api::agent::Sitemap;
use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Words that a page must have in its title or its main text, all of them, in any case. Words in quotation marks are
    /// one.
    pub(super) query: String,
    /// Only URLs of this pattern, such as `*.example.org` (a domain) or `https://example.org/docs/*`.
    pub(super) url: Option<String>,
    /// Number of hits after which the answer ends.
    #[schemars(range(min = 1, max = 100))]
    pub(super) limit: Option<u32>,
    /// The `cursor` of the answer before, to go on behind it.
    pub(super) cursor: Option<String>,
}

/// Arguments of `explain`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Explain {
    /// The URL.
    pub(super) url: String,
}

/// Arguments of `status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Status {}

/// Arguments of `read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The URL of a page that was fetched before.
    pub(super) url: String,
    /// The capture nearest to this time, as 4 to 14 digits such as `20261115`; without it the newest.
    pub(super) at: Option<String>,
    /// Where the text goes on: the `next_offset` of the answer before, in characters.
    pub(super) offset: Option<u32>,
    /// Also the links of the page.
    #[serde(default)]
    pub(super) links: bool,
    /// All text of the page, with navigation and boilerplate, instead of the main text alone.
    #[serde(default)]
    pub(super) whole: bool,
}

/// Arguments of `scrape`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Scrape {
    /// The URL of the page.
    pub(super) url: String,
    /// A capture of at most this age in seconds is good enough, and nothing is fetched: two days, unless this says
    /// otherwise. 0 fetches the page anew.
    pub(super) max_age_s: Option<u64>,
    /// How long the page is awaited, in seconds. The crawler waits between the requests to a host.
    #[schemars(range(min = 1, max = 50))]
    pub(super) timeout_s: Option<u64>,
    /// Also the links of the page.
    #[serde(default)]
    pub(super) links: bool,
    /// All text of the page, with navigation and boilerplate, instead of the main text alone.
    #[serde(default)]
    pub(super) whole: bool,
}

/// Arguments of `map`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Map {
    /// A URL of the site.
    pub(super) url: String,
    /// Words of a URL or its title: only URLs with one of them, those with most of them first.
    #[serde(default)]
    pub(super) search: String,
    /// Only the host of the URL, not the others of its domain.
    #[serde(default)]
    pub(super) this_host: bool,
    /// Whether entries of sitemaps are listed: beside other URLs (`include`), not (`skip`), or alone (`only`).
    #[serde(default)]
    pub(super) sitemap: Sitemap,
    /// Where the list goes on: the `next_offset` of the answer before.
    pub(super) offset: Option<u32>,
}

/// Arguments of `crawl`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Crawl {
    /// The URL at which the crawl begins. Without further arguments its folder is crawled.
    pub(super) url: String,
    /// Maximum number of pages: 100, unless this says otherwise.
    #[schemars(range(min = 1, max = 10000))]
    pub(super) limit: Option<u64>,
    /// Maximum number of links from the first page.
    pub(super) depth: Option<u8>,
    /// The whole host, not the folder of the URL alone.
    #[serde(default)]
    pub(super) whole_host: bool,
    /// All hosts of the domain.
    #[serde(default)]
    pub(super) subdomains: bool,
    /// Only URLs of this host whose path matches one of these: text of the path, `*` for anything, `^` and `$` for its ends.
    #[serde(default)]
    pub(super) include: Vec<String>,
    /// No URLs that match one of these: text of the URL, `*` for anything, `^` and `$` for its ends.
    #[serde(default)]
    pub(super) exclude: Vec<String>,
}

/// Arguments of `crawl_status`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CrawlStatus {
    /// The `id` that `crawl` gave.
    pub(super) id: String,
    /// The `next` of the answer before, for the pages behind it.
    pub(super) cursor: Option<String>,
}
