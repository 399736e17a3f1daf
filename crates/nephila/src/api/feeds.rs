//! What is said about feeds: each with its health, its rhythm and its last polls.

use nephila_core::feed::record::PollLine;
use nephila_core::feed::schedule::Health;
use nephila_core::frontier::feeds::FeedView;
use nephila_core::frontier::key::UrlKey;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use serde::{Deserialize, Serialize};

use super::Questions;

/// Feeds listed in one answer; with more it is cut, and says so.
pub(crate) const FEEDS_MAX: usize = 100_000;
/// Feeds that the worker is asked for at once.
const FEEDS_AT_ONCE: usize = 500;

/// Many feeds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct FeedsSaid {
    /// The feeds.
    pub feeds: Vec<FeedSaid>,
    /// There are more.
    #[serde(default)]
    pub cut: bool,
}

/// A feed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct FeedSaid {
    /// Its URL.
    pub url: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// `fine`, `learning`, `quiet`, `failing` or `gone`.
    pub health: String,
    /// New stories, ever.
    pub stories: u64,
    /// The usual seconds between two stories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_gap_s: Option<u64>,
    /// For so many seconds there was no new story when it was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<u64>,
    /// When it is asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Its last polls, the latest last; a list of feeds has one each.
    pub polls: Vec<PollSaid>,
}

/// A poll.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct PollSaid {
    /// When.
    pub at: String,
    /// The status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What it found.
    pub found: String,
    /// Entries of the feed.
    pub entries: u32,
    /// New stories among them.
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
    fn of(view: &FeedView, polls_max: usize) -> FeedSaid {
        let record = &view.record;
        let last = record.polls.last();
        let health = record.history.health();
        let last_new = record.history.last_new();
        let silent = match (health, last) {
            (Health::Quiet { silent, .. }, _) => Some(silent.as_secs()),
            (_, Some(last)) if last_new.0 > 0 => Some(last.at.0.saturating_sub(last_new.0) / 1_000),
            _ => None,
        };
        let from = record.polls.len().saturating_sub(polls_max);
        FeedSaid {
            url: view.url.clone(),
            title: record.title.to_string(),
            health: health.name().to_owned(),
            stories: record.stories,
            usual_gap_s: record.history.usual_gap().map(|gap| gap.as_secs()),
            silent_s: silent,
            next: view.next.map(|due| match due.0 {
                0 => "now".to_owned(),
                _ => Timestamp::from(due).warc_date(),
            }),
            why: last.map(PollLine::why).unwrap_or_default(),
            polls: record.polls[from..].iter().map(PollSaid::of).collect(),
        }
    }
}

impl Questions {
    /// The feeds that are followed.
    pub async fn feeds(&self) -> anyhow::Result<FeedsSaid> {
        let (mut said, mut from) = (FeedsSaid::default(), None);
        loop {
            let page = self.handle.feeds(from, FEEDS_AT_ONCE).await?;
            said.feeds.extend(page.iter().map(|view| FeedSaid::of(view, 1)));
            let Some(last) = page.last().filter(|_| page.len() == FEEDS_AT_ONCE) else { return Ok(said) };
            let Some(next) = after(last.key) else { return Ok(said) };
            if said.feeds.len() >= FEEDS_MAX {
                return Ok(FeedsSaid { cut: true, ..said });
            }
            from = Some(next);
        }
    }

    /// One of them, with its last polls; none if it was never asked.
    pub async fn feed(&self, text: &str) -> anyhow::Result<Option<FeedSaid>> {
        let url = CrawlUrl::parse(text)?;
        let key = self.handle.key(&url);
        let page = self.handle.feeds(Some(key), 1).await?;
        Ok(page.first().filter(|view| view.key == key).map(|view| FeedSaid::of(view, usize::MAX)))
    }
}

/// The key behind another.
fn after(key: UrlKey) -> Option<UrlKey> {
    match key.path.checked_add(1) {
        Some(path) => Some(UrlKey { path, ..key }),
        None => Some(UrlKey { host: key.host.next()?, path: 0 }),
    }
}
