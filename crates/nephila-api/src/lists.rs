//! Lists of a crawl with cursors: downloads by state and type, stories by source.
//!
//! Invariants: a page has at most [`PAGE_MAX`] rows, and the cursor of the next page; a request with a cursor returns
//! the rows behind the cursor.

use nephila_core::feed::source::SourceKey;
use nephila_core::frontier::downloads::{Cursor, Download, DownloadState, DownloadType, Wanted};
use nephila_core::key::{DomainKey, UrlKey};
use nephila_core::time::{Seconds, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Questions;

/// Maximum number of rows in a page.
pub const PAGE_MAX: usize = 1_000;
/// Maximum number of frontier pages scanned for one page of matching rows.
const LOOKS_MAX: usize = 50;

/// A page of a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ListSaid<T> {
    /// The rows; possibly empty although more pages follow.
    pub rows: Vec<T>,
    /// Cursor of the next page; none after the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A download.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct DownloadSaid {
    /// URL of the download.
    pub url: String,
    /// `pending`, `fetching`, `success` or `error`.
    pub state: String,
    /// `content`, `feed` or `sitemap`.
    #[serde(rename = "type")]
    pub of: String,
    /// Number of links from a seed.
    pub depth: u8,
    /// Number of retries since the last success.
    pub retries: u8,
    /// Time of the first discovery.
    pub found: String,
    /// Outcome of the last request, or the reason why no request was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The last HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Time of the last request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Time of the next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A story.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct StorySaid {
    /// Source of the story: a name, or a domain.
    pub source: String,
    /// Time of the discovery.
    pub found: String,
    /// URL of the story.
    pub url: String,
    /// Title of the story.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Publication time, as the story states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// The first feed with this story.
    pub feed: String,
}

fn date(at: Seconds) -> String {
    Timestamp::from(at).warc_date()
}

impl DownloadSaid {
    fn of(download: Download) -> DownloadSaid {
        DownloadSaid {
            url: download.url,
            state: download.state.name().to_owned(),
            of: download.of.name().to_owned(),
            depth: download.depth,
            retries: download.retries,
            found: date(download.found),
            outcome: download.last.map(|(outcome, ..)| outcome.name().to_owned()),
            status: download.last.map(|(_, status, _)| status).filter(|status| *status > 0),
            at: download.last.map(|(.., at)| date(at)),
            next: download.next.map(date),
        }
    }
}

impl Questions {
    /// Downloads of a state and a type, from a cursor on.
    pub async fn downloads(
        &self,
        state: Option<&str>,
        of: Option<&str>,
        from: Option<&str>,
        max: usize,
    ) -> anyhow::Result<ListSaid<DownloadSaid>> {
        let known = |name: &str| DownloadState::ALL.into_iter().find(|state| state.name() == name);
        let types = [DownloadType::Content, DownloadType::Feed, DownloadType::Sitemap];
        let known_type = |name: &str| types.into_iter().find(|of| of.name() == name);
        let wanted = Wanted {
            state: state.map(|name| known(name).ok_or_else(|| unknown("state", name))).transpose()?,
            of: of.map(|name| known_type(name).ok_or_else(|| unknown("type", name))).transpose()?,
        };
        let mut from = match from {
            None => Cursor::START,
            Some(text) => Cursor::parse(text).ok_or_else(|| unknown("cursor", text))?,
        };
        for _ in 0..LOOKS_MAX {
            let (page, next) = self.handle.downloads(from, wanted, max.clamp(1, PAGE_MAX)).await?;
            let Some(cursor) = next.filter(|_| page.is_empty()) else {
                let rows = page.into_iter().map(DownloadSaid::of).collect();
                return Ok(ListSaid { rows, next: next.map(|cursor| cursor.text()) });
            };
            from = cursor;
        }
        Ok(ListSaid { rows: Vec::new(), next: Some(from.text()) })
    }

    /// Stories of all sources or of one, grouped by source, the oldest first, from a cursor on.
    pub async fn stories(
        &self,
        source: Option<&str>,
        from: Option<&str>,
        max: usize,
    ) -> anyhow::Result<ListSaid<StorySaid>> {
        let max = max.clamp(1, PAGE_MAX);
        let wanted: Option<Vec<SourceKey>> = source.map(|name| {
            let secret = self.handle.secret();
            // A given name, or a domain.
            let mut keys =
                vec![SourceKey::of_name(name, secret), SourceKey::of_domain(DomainKey::of(name, secret))];
            keys.sort_unstable();
            keys
        });
        let first = |key: SourceKey| UrlKey { host: key.0, path: 0 };
        let mut from = match from {
            Some(text) => match Cursor::parse(text) {
                Some(Cursor::Records(key)) => key,
                _ => return Err(unknown("cursor", text)),
            },
            None => wanted.as_ref().map_or_else(UrlKey::default, |keys| first(keys[0])),
        };
        let mut said = ListSaid { rows: Vec::new(), next: None };
        let mut name: Option<(SourceKey, String)> = None;
        loop {
            let room = max - said.rows.len();
            let page = self.handle.stories(Some(from), room).await?;
            let is_end = page.len() < room;
            let mut passed = None;
            for view in page {
                let key = view.source();
                let Some(next) = after(view.key) else { return Ok(said) };
                from = next;
                if wanted.as_ref().is_some_and(|keys| !keys.contains(&key)) {
                    passed = Some(key);
                    break;
                }
                if name.as_ref().is_none_or(|(of, _)| *of != key) {
                    name = Some((key, self.handle.source(key).await?.name.to_string()));
                }
                let record = view.record;
                said.rows.push(StorySaid {
                    source: name.as_ref().map(|(_, name)| name.clone()).unwrap_or_default(),
                    found: date(Seconds((view.key.path >> 32) as u32)),
                    url: record.url.to_string(),
                    title: record.title.to_string(),
                    published: (record.published.0 > 0).then(|| date(record.published)),
                    feed: record.feed.to_string(),
                });
            }
            if let Some(passed) = passed {
                // The following stories belong to another source: continue with the next wanted source.
                let next = wanted.iter().flatten().find(|key| **key > passed);
                let Some(next) = next else { return Ok(said) };
                from = first(*next);
            } else if is_end {
                return Ok(said);
            }
            if said.rows.len() >= max {
                said.next = Some(Cursor::Records(from).text());
                return Ok(said);
            }
        }
    }
}

/// A parameter of a list that the client got wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Wrong(String);

fn unknown(what: &str, text: &str) -> anyhow::Error {
    Wrong(format!("there is no such {what}: {}", nephila_core::text::shown(text))).into()
}

/// The next key in sort order.
fn after(key: UrlKey) -> Option<UrlKey> {
    match key.path.checked_add(1) {
        Some(path) => Some(UrlKey { path, ..key }),
        None => Some(UrlKey { host: key.host.next()?, path: 0 }),
    }
}
