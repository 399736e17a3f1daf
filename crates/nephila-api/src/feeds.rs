//! JSON views of feeds: each with its health, its schedule and its last polls.

use std::collections::BTreeMap;

use nephila_core::feed::opml::Outline;
use nephila_core::feed::record::PollLine;
use nephila_core::feed::schedule::Health;
use nephila_core::frontier::feeds::FeedView;
use nephila_core::key::UrlKey;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Questions;

/// Maximum number of feeds in one answer; a longer list is cut and marked as cut.
pub(crate) const FEEDS_MAX: usize = 100_000;
/// Page size for requests to the worker.
const FEEDS_AT_ONCE: usize = 500;

/// Health of a feed that was never polled.
const NEW: &str = "new";
/// All values of health, the unhealthy ones last.
pub const HEALTHS: [&str; 10] =
    ["fine", "learning", "new", "page", "quiet", "failing", "not-a-feed", "broken", "moved", "gone"];
/// Index of the first unhealthy value.
const ILL_FROM: usize = 4;

/// Whether a feed with this health is unhealthy.
pub fn is_ill(health: &str) -> bool {
    HEALTHS[ILL_FROM..].contains(&health)
}

/// A list of feeds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct FeedsSaid {
    /// The feeds.
    pub feeds: Vec<FeedSaid>,
    /// Whether the list was cut.
    #[serde(default)]
    pub cut: bool,
}

/// A feed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct FeedSaid {
    /// URL of the feed.
    pub url: String,
    /// Title of the feed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Source of the feed: its name, or the domain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// One of [`HEALTHS`].
    pub health: String,
    /// Short description of the fault, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wrong: String,
    /// Total number of new stories.
    pub stories: u64,
    /// The usual seconds between two stories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_gap_s: Option<u64>,
    /// Seconds without a new story at the last poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<u64>,
    /// Time of the next poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Reason for that time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The last polls, the latest last; a list of feeds has one poll each.
    pub polls: Vec<PollSaid>,
}

/// One poll of a feed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PollSaid {
    /// Time of the poll.
    pub at: String,
    /// HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Result of the poll.
    pub found: String,
    /// Number of entries in the feed.
    pub entries: u32,
    /// Number of new stories among the entries.
    pub new: u32,
}

impl PollSaid {
    fn of(line: &PollLine) -> PollSaid {
        PollSaid {
            at: line.at.warc_date(),
            status: (line.status > 0).then_some(line.status),
            found: line.found.name().to_owned(),
            entries: line.entries,
            new: line.new,
        }
    }
}

impl FeedSaid {
    fn of(view: &FeedView, polls_max: usize, listed: &Listed, now: Timestamp) -> FeedSaid {
        let record = &view.record;
        let last = record.polls.last();
        let last_new = record.history.last_new();
        let silent = match (record.history.health(), last) {
            (Health::Quiet { silent, .. }, _) => Some(silent.as_secs()),
            (_, Some(last)) if last_new.0 > 0 => Some(last.at.0.saturating_sub(last_new.0) / 1_000),
            _ => None,
        };
        let from = record.polls.len().saturating_sub(polls_max);
        FeedSaid {
            url: view.url.clone(),
            title: record.title.to_string(),
            source: listed.source(&view.url),
            health: record.health().to_owned(),
            wrong: record.wrong.to_string(),
            stories: record.stories,
            usual_gap_s: record.history.usual_gap().map(|gap| gap.as_secs()),
            silent_s: silent,
            next: view.next.map(|due| match Timestamp::from(due) {
                due if due <= now => "now".to_owned(),
                due => due.warc_date(),
            }),
            why: match &*view.stopped {
                "" => last.map(PollLine::why).unwrap_or_default(),
                stopped => format!("its host is stopped: {stopped}"),
            },
            polls: record.polls[from..].iter().map(PollSaid::of).collect(),
        }
    }
}

impl Questions {
    /// All followed feeds.
    pub async fn feeds(&self) -> anyhow::Result<FeedsSaid> {
        let (mut said, mut from) = (FeedsSaid::default(), None);
        let mut listed = Listed::of(self.scopes.feeds()?);
        let now = self.clock.now().wall;
        loop {
            let page = self.handle.feeds(from, FEEDS_AT_ONCE).await?;
            for view in &page {
                if listed.is_removed(&view.url) {
                    continue;
                }
                listed.asked(&view.url);
                said.feeds.push(FeedSaid::of(view, 1, &listed, now));
            }
            let next = page.last().filter(|_| page.len() == FEEDS_AT_ONCE).and_then(|last| after(last.key));
            if next.is_none() || said.feeds.len() >= FEEDS_MAX {
                said.cut = next.is_some();
                break;
            }
            from = next;
        }
        for (url, feed) in listed.never_asked() {
            let source = listed.source(url);
            let health = NEW.to_owned();
            let title = if feed.title == *url { String::new() } else { feed.title.clone() };
            said.feeds.push(FeedSaid { url: url.clone(), title, source, health, ..FeedSaid::default() });
        }
        Ok(said)
    }

    /// One feed with its last polls; none if the feed was never polled.
    pub async fn feed(&self, text: &str) -> anyhow::Result<Option<FeedSaid>> {
        let url = CrawlUrl::parse(text)?;
        let key = self.handle.key(&url);
        let page = self.handle.feeds(Some(key), 1).await?;
        let listed = Listed::of(self.scopes.feeds()?);
        let now = self.clock.now().wall;
        let view = page.first().filter(|view| view.key == key);
        Ok(view.map(|view| FeedSaid::of(view, usize::MAX, &listed, now)))
    }
}

/// The feeds in the list of a folder; empty in a cluster.
struct Listed {
    feeds: BTreeMap<String, (Outline, bool)>,
}

impl Listed {
    fn of(feeds: Vec<Outline>) -> Listed {
        let feeds = feeds.into_iter();
        Listed { feeds: feeds.map(|feed| (feed.url.as_str().to_owned(), (feed, false))).collect() }
    }

    fn is_removed(&self, url: &str) -> bool {
        self.feeds.get(url).is_some_and(|(feed, _)| feed.removed)
    }

    fn source(&self, url: &str) -> String {
        let named = self.feeds.get(url).and_then(|(feed, _)| feed.source.clone());
        named.unwrap_or_else(|| match CrawlUrl::parse(url) {
            Ok(url) => url.registrable_domain().unwrap_or(url.host_str()).to_owned(),
            Err(_) => String::new(),
        })
    }

    fn asked(&mut self, url: &str) {
        if let Some((_, asked)) = self.feeds.get_mut(url) {
            *asked = true;
        }
    }

    fn never_asked(&self) -> impl Iterator<Item = (&String, &Outline)> {
        let never = self.feeds.iter().filter(|(_, (feed, asked))| !asked && !feed.removed);
        never.map(|(url, (feed, _))| (url, feed))
    }
}

/// The next key in sort order.
fn after(key: UrlKey) -> Option<UrlKey> {
    match key.path.checked_add(1) {
        Some(path) => Some(UrlKey { path, ..key }),
        None => Some(UrlKey { host: key.host.next()?, path: 0 }),
    }
}
