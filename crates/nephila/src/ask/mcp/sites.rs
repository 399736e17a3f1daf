//! `map`, `crawl` and `crawl_status`: the URLs of a site, and a crawl of it.

use std::fmt::Write as _;

use nephila_api::agent::{self, CrawlOptions, CrawlState, Link, MapOptions, Wants};
use nephila_core::text::shown;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::args;
use super::node::Node;
use super::said::{Done, Failed, ROWS_MAX, fenced};
use super::tools::arguments;

/// Usual number of pages of a crawl.
const PAGES: u64 = 100;
/// Maximum number of pages of a crawl.
const PAGES_MAX: u64 = 10_000;
/// Number of URLs of a list in the text for models.
const SHOWN: usize = 50;

/// The known URLs of a site.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct MapSaid {
    /// URLs, from the offset on.
    links: Vec<Link>,
    /// Where the list goes on; none at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// A crawl that has begun.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct CrawlSaid {
    /// Id of the crawl, for `crawl_status`.
    id: String,
}

/// How far a crawl is.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct CrawlStatusSaid {
    /// `scraping`, `completed`, `cancelled` or `failed`.
    state: CrawlState,
    /// Number of pages that are there.
    completed: u64,
    /// Number of pages that are there or wanted.
    total: u64,
    /// Pages, the oldest capture first. `read` gives the text of each.
    pages: Vec<CrawlPage>,
    /// The cursor for further pages; none if there are no more so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// What the reader should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// A page of a crawl.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct CrawlPage {
    /// The URL.
    url: String,
    /// The HTTP status.
    status: u16,
    /// Title of the page; empty if there is none.
    title: String,
    /// Time of the capture.
    captured: String,
}

/// `map`.
pub(super) async fn map(node: &Node, value: Value) -> Result<Done, Failed> {
    let args: args::Map = arguments(value)?;
    let offset = args.offset.unwrap_or(0) as usize;
    let options = MapOptions {
        search: args.search,
        subdomains: !args.this_host,
        sitemap: args.sitemap,
        // One more says whether the list goes on.
        limit: offset.saturating_add(ROWS_MAX + 1),
        ..MapOptions::default()
    };
    let mut links = agent::map(node, &args.url, &options).await?;
    let next_offset = (links.len() > offset + ROWS_MAX).then_some(offset + ROWS_MAX);
    let links: Vec<Link> = links.drain(offset.min(links.len())..).take(ROWS_MAX).collect();
    let mut text = match links.is_empty() {
        true => "no URL of this site is known: scrape its first page, or crawl it".to_owned(),
        false => format!("{} known URLs from number {offset} on", links.len()),
    };
    if let Some(next) = next_offset {
        _ = write!(text, "; there are more: map with offset {next}");
    }
    if !links.is_empty() {
        let lines = links.iter().take(SHOWN).map(|link| match &link.title {
            Some(title) => format!("{}  {}", shown(&link.url), shown(title)),
            None => shown(&link.url).to_string(),
        });
        text = format!("{text}\n{}", fenced(&lines.collect::<Vec<_>>().join("\n")));
    }
    Ok(Done::new(text, &MapSaid { links, next_offset })?.foreign())
}

/// `crawl`.
pub(super) async fn crawl(node: &Node, value: Value) -> Result<Done, Failed> {
    let args: args::Crawl = arguments(value)?;
    let usual = CrawlOptions::default();
    if args.subdomains && !args.include.is_empty() {
        let text = "include is for one host: leave out subdomains, or begin a crawl for each host";
        return Err(Failed::new("invalid-arguments", text));
    }
    let options = CrawlOptions {
        limit: args.limit.unwrap_or(PAGES).clamp(1, PAGES_MAX),
        depth: args.depth.unwrap_or(usual.depth),
        whole_host: args.whole_host,
        subdomains: args.subdomains,
        include: agent::paths_of_host(&args.url, &args.include)?,
        exclude: args.exclude,
        // `read` gives the text of a page.
        wants: Wants { markdown: false, ..Wants::default() },
    };
    let id = agent::crawl(node, &args.url, &options).await?;
    let text = format!(
        "the crawl {id} has begun, of at most {} pages: crawl_status says how far it is",
        options.limit
    );
    Done::new(text, &CrawlSaid { id })
}

/// `crawl_status`.
pub(super) async fn crawl_status(node: &Node, value: Value) -> Result<Done, Failed> {
    let args: args::CrawlStatus = arguments(value)?;
    let status = agent::crawl_status(node, &args.id, args.cursor.as_deref()).await?;
    let pages = status.pages.into_iter().map(|page| CrawlPage {
        url: page.url,
        status: page.status,
        title: page.title,
        captured: page.captured,
    });
    let said = CrawlStatusSaid {
        state: status.state,
        completed: status.completed,
        total: status.total,
        pages: pages.collect(),
        next: status.next,
        warning: status.warning,
    };
    let state = match said.state {
        CrawlState::Scraping => "the crawl goes on: ask again in some seconds",
        CrawlState::Completed => "the crawl is complete",
        CrawlState::Cancelled => "the crawl was stopped",
        CrawlState::Failed => "the first page could not be fetched: explain says why",
    };
    let mut text = format!("{state}; {} of {} pages are there", said.completed, said.total);
    if let Some(next) = &said.next {
        _ = write!(text, "; further pages with the cursor {next}");
    }
    if !said.pages.is_empty() {
        let lines =
            said.pages.iter().take(SHOWN).map(|page| format!("{}  {}", shown(&page.url), shown(&page.title)));
        text = format!("{text}\n{}", fenced(&lines.collect::<Vec<_>>().join("\n")));
    }
    Ok(Done::new(text, &said)?.foreign())
}
