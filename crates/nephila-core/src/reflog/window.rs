//! The one-hour rate limit and the ten-hour memory (SEEDS C5, C6), as a step of one URL's record.
//!
//! The seed joins each batch (`incoming_log`) with the URLs of the last hour (`current_log`):
//!
//! - **URL_A**, in the batch only: sent, and remembered.
//! - **URL_B**, in the memory only: kept while its time is within an hour of the batch's clock.
//! - **URL_C**, in both: sent if its time is more than an hour later, or its tag changed; then its new time is
//!   remembered. Otherwise the old time stays, so a URL that never pauses is still sent once an hour.
//!
//! Nothing here scans for URL_B. A record knows which batch last named its URL ([`Record::batch`]). The URL has left
//! the `current_log` if another batch came between that one and this one, more than an hour after the URL's time. The
//! answer is the same at the moment of the URL's next line, the only moment that matters.
//!
//! A URL that left the `current_log` is still remembered for ten hours after the last batch with the URL, for its hits
//! and its tag: hits that were not sent are sent with the next.
//!
//! Decided here, where the seed says nothing: exactly one hour is not more than one. An empty tag is no change, and the
//! last non-empty tag stays. From no tag to some tag is a change, since the tag names a version that we may not have. A
//! line that is older than the sent one counts by its tag only.
//!
//! Invariants: the step is a function of the record, the line and the batch; every hit is sent once, except hits that
//! were forgotten, which are counted.

use std::collections::BTreeMap;

use super::group::Grouped;
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::time::Timestamp;

/// A URL is not sent again within this time, unless its tag changed (rate limit).
pub const QUIET_MS: u64 = 3_600_000;

/// The record of a URL is dropped this long after the last batch with the URL.
pub const MEMORY_MS: u64 = 10 * QUIET_MS;

/// The batch of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of the batch, from 1 in the order of processing.
    pub number: u64,
    /// The time of processing, by the clock of the deciding node.
    pub at: Timestamp,
    /// The time of the batch before; 0 if there was none.
    pub previous: Timestamp,
}

/// The state of a URL in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The time of the line that was sent.
    pub sent: Timestamp,
    /// The time of the last batch that named the URL.
    pub named: Timestamp,
    /// The number of that batch.
    pub batch: u64,
    /// The time of the URL's last line.
    pub last: Timestamp,
    /// The last tag that is not empty.
    pub tag: Box<str>,
    /// Hits that were not sent yet.
    pub hits: u64,
    /// The last page id that is not empty: where the URL was shown. Kept for queries; no decision uses the page id.
    pub page: Box<str>,
}

/// Why a URL is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Unknown within the last hour.
    First,
    /// More than an hour has passed.
    HourPassed,
    /// The tag changed.
    TagChanged,
}

impl Reason {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::First => "first",
            Reason::HourPassed => "hour-passed",
            Reason::TagChanged => "tag-changed",
        }
    }
}

/// The decision about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The URL is worth a fetch.
    Send {
        /// The hits, including the ones that were kept back.
        hits: u64,
        /// The reason.
        reason: Reason,
    },
    /// The URL was sent within the hour; its hits are kept back.
    Keep,
}

impl Record {
    /// Takes in the line of a URL: returns the new record, and the decision.
    pub fn next(before: Option<&Record>, line: &Grouped, batch: &Batch) -> (Record, Decision) {
        let mut record = before.cloned().unwrap_or_default();
        let decision = record.handle_line(line, batch);
        (record, decision)
    }

    /// Like [`Record::next`], in place. The default record is the record of an unknown URL: batches count from 1.
    pub fn handle_line(&mut self, line: &Grouped, batch: &Batch) -> Decision {
        self.handle_named(line.at, line.hits, &line.tag, batch)
    }

    /// Like [`Record::handle_line`], with only the needed parts of the line.
    pub fn handle_named(&mut self, at: Timestamp, hits: u64, tag: &str, batch: &Batch) -> Decision {
        if self.batch > 0 && self.is_over(batch.at) {
            *self = Record::default();
        }
        let is_known = self.batch > 0;
        // The time of a line comes from outside: any value is possible, and the sum must not overflow.
        let quiet_until = self.sent.0.saturating_add(QUIET_MS);
        let dropped = batch.number > self.batch.saturating_add(1) && batch.previous.0 > quiet_until;
        let changed = !tag.is_empty() && *tag != *self.tag;
        let reason = if !is_known || dropped {
            Some(Reason::First)
        } else if changed {
            Some(Reason::TagChanged)
        } else {
            (at.0 > quiet_until).then_some(Reason::HourPassed)
        };
        let hits = self.hits.saturating_add(hits);
        (self.named, self.batch) = (batch.at, batch.number);
        self.last = self.last.max(at);
        // Most tags stay the same, and then nothing is copied.
        if changed {
            self.tag = tag.into();
        }
        match reason {
            Some(reason) => {
                (self.sent, self.hits) = (at, 0);
                Decision::Send { hits, reason }
            }
            None => {
                self.hits = hits;
                Decision::Keep
            }
        }
    }

    /// Takes in the page id of a line, if there is one.
    pub fn handle_page(&mut self, page: &str) {
        if !page.is_empty() && *page != *self.page {
            self.page = page.into();
        }
    }

    /// Whether the record has expired. Ten hours by the clock of the batches: the time of a line comes from outside.
    pub fn is_over(&self, now: Timestamp) -> bool {
        now.0 > self.named.0.saturating_add(MEMORY_MS)
    }

    /// Encodes the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + self.tag.len());
        self.put(&mut out);
        out
    }

    /// Appends the encoded record to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        for number in [self.sent.0, self.named.0, self.batch, self.last.0, self.hits] {
            put_u64(out, number);
        }
        put_bytes(out, self.tag.as_bytes());
        // Added later: absent in older records, and where there is no page id.
        if !self.page.is_empty() {
            put_bytes(out, self.page.as_bytes());
        }
    }

    /// Decodes a record.
    pub fn from_bytes(bytes: &[u8]) -> Result<Record, Damaged> {
        let mut reader = Reader::new(bytes);
        Ok(Record {
            sent: Timestamp(reader.u64("time of a URL")?),
            named: Timestamp(reader.u64("time of a URL")?),
            batch: reader.u64("batch of a URL")?,
            last: Timestamp(reader.u64("time of a URL")?),
            hits: reader.u64("hits of a URL")?,
            tag: reader.text("tag of a URL")?.into(),
            page: match reader.is_empty() {
                true => Box::default(),
                false => reader.text("page id of a URL")?.into(),
            },
        })
    }
}

/// Statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of URLs in batches.
    pub urls: u64,
    /// Number of URLs sent.
    pub sent: u64,
    /// Number of hits sent.
    pub hits_sent: u64,
    /// Number of hits of URLs that were forgotten before they were sent again.
    pub hits_forgotten: u64,
}

/// The records of one partition in memory: for a node without a state of its own, and for tests.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// By id, as a number: the URLs of a batch come in the same order.
    records: BTreeMap<u128, Record>,
    stats: Stats,
}

impl Window {
    /// Takes in a grouped batch and returns the URLs to send, each with its hits, in the order of their ids.
    pub fn handle_batch(&mut self, batch: &Batch, lines: Vec<Grouped>) -> Vec<Grouped> {
        let mut sent = Vec::new();
        for mut line in lines {
            self.stats.urls += 1;
            let record = self.records.entry(u128::from_be_bytes(line.id.0)).or_default();
            if record.batch > 0 && record.is_over(batch.at) {
                self.stats.hits_forgotten += record.hits;
            }
            let decision = record.handle_line(&line, batch);
            record.handle_page(&line.page);
            if let Decision::Send { hits, .. } = decision {
                line.hits = hits;
                self.stats.sent += 1;
                self.stats.hits_sent += hits;
                sent.push(line);
            }
        }
        sent
    }

    /// Drops expired records. To be called now and then; no decision depends on this call.
    pub fn forget(&mut self, now: Timestamp) {
        let stats = &mut self.stats;
        self.records.retain(|_, record| {
            let over = record.is_over(now);
            stats.hits_forgotten += if over { record.hits } else { 0 };
            !over
        });
    }

    /// Number of remembered URLs.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no URL is remembered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The statistics so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Number of hits that were not sent yet.
    pub fn hits_waiting(&self) -> u64 {
        self.records.values().map(|record| record.hits).sum()
    }
}
