//! `nephila feed check`: one request to a feed, and the analysis of the answer.
//!
//! Invariants: nothing is added and nothing is written; text of third parties is sanitized before printing.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use nephila_core::feed::poll::{fault, take_in};
use nephila_core::feed::schedule::{History, Poll};
use nephila_core::feed::story::Memory;
use nephila_core::feed::{Feed, Limits, read_feed_until};
use nephila_core::handler::{LinkKind, Page, ReadAs, read_page};
use nephila_core::spider::outcome::{Action, Outcome};
use nephila_core::text::shown;
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, KeyRules};
use serde::Serialize;

use super::feed::span;
use super::{out, print_json};
use crate::cli::FetchArgs;
use crate::cli::feed::FeedCheckArgs;
use crate::fetch::{Hop, once};
use nephila_engine::crawl::typed::with_scheme;
use nephila_engine::exit::Exit;

/// Time limit for parsing the feed; a partial result counts.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum number of listed feeds of a page.
const FEEDS_OF_PAGE_MAX: usize = 8;

/// The flags of `nephila fetch`, with default values.
#[derive(Parser)]
struct Usual {
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Analysis of a feed.
#[derive(Debug, Default, Serialize)]
struct Said {
    /// URL of the feed.
    url: String,
    /// Whether the feed can be followed.
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    title: String,
    entries: usize,
    /// Number of entries that would become stories if the feed were added now.
    stories: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<String>,
    /// Seconds until the next poll.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_s: Option<u64>,
    /// Further remarks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    wrong: String,
    /// Target of a permanent redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_to: Option<String>,
    /// Feeds that a page links to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    feeds: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &FeedCheckArgs) -> anyhow::Result<Exit> {
    let text = with_scheme(&args.url);
    let mut fetch = Usual::parse_from(["check", "--follow"]).fetch;
    fetch.urls = vec![text.clone()];
    (fetch.common, fetch.resolve, fetch.contact) =
        (args.common.clone(), args.resolve.clone(), args.contact.clone());
    let settings = args.common.load()?;
    let hops = once(&fetch)?;
    let said = said(&text, &hops, &settings.feed);
    let mut out = out();
    match args.json {
        true => print_json(&mut out, &said)?,
        false => print(&mut out, &said)?,
    }
    out.flush()?;
    Ok(if said.ok { Exit::Done } else { Exit::Failed })
}

fn said(text: &str, hops: &[Hop], settings: &nephila_core::feed::Settings) -> Said {
    let mut said = Said { url: text.to_owned(), ..Said::default() };
    let for_good = |hop: &&Hop| matches!(hop.fetched.status, Some(301 | 308));
    said.moved_to = hops.iter().take_while(for_good).last().and_then(|hop| {
        let target = hop.fetched.redirect.as_ref()?;
        Some(target.as_str().to_owned())
    });
    let Some(Hop { url, fetched }) = hops.last() else {
        said.wrong = "nothing was asked for".to_owned();
        return said;
    };
    url.clone_into(&mut said.url);
    (said.status, said.outcome) = (fetched.status, fetched.outcome.name());
    let is_there = fetched.outcome.action() == Action::Keep && fetched.outcome != Outcome::NotModified;
    let limits = Limits::default();
    let body = fetched.decoded.as_ref().and_then(|decoded| decoded.start(limits.bytes_max).ok());
    let (Some(body), Ok(url), true) = (body, CrawlUrl::parse(url), is_there) else {
        said.wrong = match fetched.detail.is_empty() {
            true => fetched.outcome.name().to_owned(),
            false => format!("{}: {}", fetched.outcome.name(), fetched.detail),
        };
        return said;
    };
    let keys = KeyRules::default();
    let page = Page {
        url: &url,
        fields: &fetched.fields,
        body: &body,
        read_as: ReadAs::Feed,
        agent: "",
        keys: &keys,
    };
    let began = Instant::now();
    let feed = read_feed_until(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX);
    describe(&mut said, &feed, settings);
    if let Some(fault) = fault(&feed, &body) {
        said.wrong = fault.words.to_string();
    }
    if feed.format.is_none() {
        let page = Page { read_as: ReadAs::default(), ..page };
        let found = read_page(&page, &nephila_core::handler::Limits::default());
        let feeds = found.links.iter().filter(|link| link.kind == LinkKind::Feed);
        said.feeds = feeds.take(FEEDS_OF_PAGE_MAX).map(|link| link.url.as_str().to_owned()).collect();
    }
    said.ok = said.wrong.is_empty();
    said
}

/// Describes a feed: its entries, and the time of the next poll.
fn describe(said: &mut Said, feed: &Feed, settings: &nephila_core::feed::Settings) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    said.format = feed.format.map(|format| format.name());
    said.title.clone_from(&feed.title);
    said.entries = feed.entries.len();
    said.notes = feed.notes.iter().map(|note| note.name()).collect();
    said.newest = feed.entries.iter().filter_map(|entry| entry.published).max().map(|at| at.warc_date());
    let taken = take_in(feed, None, &Memory::default(), None, &settings.story, now);
    said.stories = taken.stories.len();
    if feed.format.is_some() {
        let poll = Poll { hints: feed.hints, ..Poll::new(now, taken.answer) };
        let plan = History::default().handle_poll(&poll, &settings.schedule, 0);
        said.next_s = plan.due.map(|due| due.0.saturating_sub(now.0) / 1_000);
    }
}

fn print(out: &mut dyn Write, said: &Said) -> std::io::Result<()> {
    let status = said.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    writeln!(out, "{}  {status}  {}", shown(&said.url), said.outcome)?;
    if let Some(target) = &said.moved_to {
        writeln!(out, "  it has moved to {}: follow that instead", shown(target))?;
    }
    if let Some(format) = said.format {
        writeln!(out, "  {format}  {}", shown(&said.title))?;
        let newest = said.newest.as_deref().map(|at| format!(", the newest of {at}")).unwrap_or_default();
        writeln!(out, "  {} entries, {} stories{newest}", said.entries, said.stories)?;
        writeln!(out, "  would be asked again after {}", span(said.next_s))?;
    }
    if !said.notes.is_empty() {
        writeln!(out, "  notes: {}", said.notes.join(", "))?;
    }
    if !said.wrong.is_empty() {
        writeln!(out, "  wrong: {}", shown(&said.wrong))?;
    }
    for feed in &said.feeds {
        writeln!(out, "  the page names the feed {}", shown(feed))?;
    }
    Ok(())
}
