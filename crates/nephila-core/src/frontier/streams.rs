//! Streams of URLs in the frontier: the owner of a partition decides about the parts of batches.
//!
//! A part waits until the next group is made: then no group is in flight, so the state is up to date. Each URL is
//! compared with its record; URLs worth a fetch are offered in the same group, even if they were fetched before.
//!
//! Invariant: a part and its results stand in one group of the log, together with the read position of the inbox that
//! the part came from. The caller bounds the bytes of waiting parts (backpressure).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Frontier;
use super::offers::Offer;
use super::partition::{Partition, URGENT};
use crate::entry::Entry;
use crate::job::PRIORITY_MAX;
use crate::key::UrlKey;
use crate::planted::{self, Bug};
use crate::reflog::part::{Part, Streamed};
use crate::reflog::{Ahead, Batch, BatchKey, Decision, Record, priority};
use crate::state::{Beside, State, StateError};
use crate::time::Now;
use crate::want::Want;

/// A preview of the decision about a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreseen {
    /// The batch of the part; `None` if the part was taken in before.
    pub batch: Option<Batch>,
    /// The stored record of each of its URLs.
    pub records: Vec<Option<Record>>,
}

impl<S: State> Frontier<S> {
    /// Takes a part of a batch for a partition here. The next group decides about the part.
    pub fn handle_stream(&mut self, partition: usize, part: Part) {
        self.partitions[partition].streams.push_back(part);
    }

    /// The stored record of a URL that a stream named.
    pub fn streamed(&mut self, key: &UrlKey) -> Result<Option<Record>, StateError> {
        let Some(partition) = self.partition_of(&key.host) else { return Ok(None) };
        let mut found = Vec::with_capacity(1);
        self.partitions[partition].state.beside(Beside::Stream, std::slice::from_ref(key), &mut found)?;
        Ok(found.pop().flatten().map(|bytes| Record::from_bytes(&bytes)).transpose()?)
    }

    /// Previews the decision about a part of one partition, without deciding: the batch, `None` if the part was taken
    /// in before, and the stored records of its URLs. Waiting parts are not considered.
    pub fn foresee(&mut self, part: &Part, now: Now) -> Result<Foreseen, StateError> {
        let first = part.urls.first().and_then(|url| self.partition_of(&url.key.host));
        let Some(partition) = first else { return Ok(Foreseen::default()) };
        let state = &mut self.partitions[partition].state;
        let batch = Ahead::of(Arc::clone(&state.meta().batches)).take(part.key, now.wall);
        let keys: Vec<UrlKey> = part.urls.iter().map(|url| url.key).collect();
        let mut found = Vec::with_capacity(keys.len());
        state.beside(Beside::Stream, &keys, &mut found)?;
        let read = |bytes: Option<Box<[u8]>>| bytes.map(|bytes| Record::from_bytes(&bytes)).transpose();
        let records = found.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Foreseen { batch, records })
    }

    /// Approximate size of the waiting parts of a partition, in bytes.
    pub fn streams_waiting(&self, partition: usize) -> usize {
        self.partitions[partition].streams.iter().map(Part::bytes).sum()
    }
}

impl<S: State> Partition<S> {
    /// Decides about the waiting parts and returns the entries to write. URLs worth a fetch are then among the offers.
    pub(super) fn decide_streams(&mut self, now: Now) -> Result<Vec<Entry>, StateError> {
        let mut entries = Vec::new();
        if self.streams.is_empty() {
            return Ok(entries);
        }
        let mut batches = Ahead::of(Arc::clone(&self.state.meta().batches));
        // For URLs of earlier parts of this group: where the last record stands, as part and index within the part.
        let mut decided: BTreeMap<UrlKey, (usize, usize)> = BTreeMap::new();
        while let Some(part) = self.streams.pop_front() {
            let key = match planted::is(Bug::PartCountsTwice) {
                true => BatchKey(part.key.0 ^ now.wall.0),
                false => part.key,
            };
            let Some(batch) = batches.take(key, now.wall) else {
                self.sifted.stream_repeats += 1;
                continue;
            };
            let keys: Vec<UrlKey> = part.urls.iter().map(|url| url.key).collect();
            let mut found = Vec::with_capacity(keys.len());
            self.state.beside(Beside::Stream, &keys, &mut found)?;
            let mut records = Vec::with_capacity(keys.len());
            for (url, bytes) in part.urls.iter().zip(found) {
                let earlier = decided.get(&url.key).and_then(|(part, at)| match &entries[*part] {
                    Entry::Streamed(streamed) => streamed.records.get(*at),
                    _ => None,
                });
                let mut record = match (earlier, bytes) {
                    (Some((_, record)), _) => record.clone(),
                    (None, Some(bytes)) => Record::from_bytes(&bytes)?,
                    (None, None) => Record::default(),
                };
                self.sifted.streamed += 1;
                let decision = record.handle_named(url.at, url.hits, &url.tag, &batch);
                record.handle_page(&url.page);
                match decision {
                    Decision::Send { hits, .. } => {
                        // Only URLs from users and new stories are urgent.
                        let priority = priority(PRIORITY_MAX, hits).max(URGENT + 1);
                        let hits = u32::try_from(hits).unwrap_or(u32::MAX);
                        let want = &Want { priority, hits, ..Want::of(part.job) };
                        self.offer_again(Offer { key: url.key, origin: &url.origin, text: &url.text, want });
                    }
                    Decision::Keep => self.sifted.suppressed += 1,
                }
                if !self.streams.is_empty() {
                    decided.insert(url.key, (entries.len(), records.len()));
                }
                records.push((url.key, record));
            }
            entries.push(Entry::Streamed(Box::new(Streamed { key: part.key, batch, records })));
        }
        Ok(entries)
    }
}
