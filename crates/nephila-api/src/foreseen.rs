//! Dry run of a stream: the URLs that would be sent on, the others, and the reasons (`nephila add --reflog --dry-run`).
//!
//! Invariant: a dry run changes no state.

use nephila_core::reflog::Record;
use nephila_core::reflog::part::Named;
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Questions;
use nephila_engine::crawl::stream::{Judge, StreamSaid};

/// Result of a dry run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct ForeseenSaid {
    /// Counts of the lines of the stream.
    pub said: StreamSaid,
    /// Accepted URLs, each with its stored record.
    pub urls: Vec<NamedSaid>,
    /// Rejected URLs, each with the rule that rejects the URL.
    pub kept_out: Vec<(String, String)>,
}

/// Answer to lines of a stream.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(untagged)]
pub enum VisitsSaid {
    /// The lines are stored.
    Stored(StreamSaid),
    /// A dry run.
    Foreseen(ForeseenSaid),
}

/// A URL of a stream, with its stored record.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct NamedSaid {
    /// Full URL: origin, path and query.
    pub url: String,
    /// Time of the last line of the URL, in milliseconds since 1970 (UTC).
    pub at: u64,
    /// Sum of the hits of all lines of the URL.
    pub hits: u64,
    /// Last tag that is not empty; empty if no line has a tag.
    pub tag: String,
    /// Last page id that is not empty; empty if no line has a page id.
    pub page: String,
    /// The batch of the line: number, time, time of the previous batch. None if this batch was already processed.
    pub batch: Option<(u64, u64, u64)>,
    /// The stored record, encoded.
    pub before: Option<Vec<u8>>,
}

impl NamedSaid {
    fn of(url: &Named, batch: Option<nephila_core::reflog::Batch>, before: Option<&Record>) -> NamedSaid {
        NamedSaid {
            url: [&*url.origin, &*url.text].concat(),
            at: url.at.0,
            hits: url.hits,
            tag: url.tag.to_string(),
            page: url.page.to_string(),
            batch: batch.map(|batch| (batch.number, batch.at.0, batch.previous.0)),
            before: before.map(Record::to_bytes),
        }
    }
}

impl Questions {
    /// Dry run of parts of a stream, numbered from `first`.
    pub async fn foresee(
        &self,
        batch: Option<&str>,
        first: u32,
        text: &[u8],
    ) -> anyhow::Result<ForeseenSaid> {
        let job = self.scopes.in_force()?;
        let (now, secret): (Timestamp, _) = (self.clock.now().wall, self.handle.secret());
        let traps: &trap::Settings = &self.settings.trap;
        let judge = Judge { job: &job, traps, now, secret, reaches: |_: &CrawlUrl| true };
        let mut all = ForeseenSaid::default();
        for (part, kept_out, said) in judge.look(text, batch, first) {
            all.said.plus(said);
            all.kept_out.extend(kept_out.into_iter().map(|(url, why)| (url, why.to_owned())));
            let foreseen = self.handle.foresee(part).await?;
            all.urls.extend(
                foreseen.iter().map(|(url, batch, before)| NamedSaid::of(url, *batch, before.as_ref())),
            );
        }
        Ok(all)
    }
}
