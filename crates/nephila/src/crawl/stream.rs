//! A part of a stream of URLs, read and sorted out: what goes to the partitions, and what could not be read.
//!
//! What always holds: every line is counted as read or as unreadable; a URL that an `exclude` or a trap keeps out is
//! counted, and goes nowhere.

use nephila_core::frontier::key::Secret;
use nephila_core::frontier::trap;
use nephila_core::intake::reflog;
use nephila_core::job::JobId;
pub(crate) use nephila_core::reflog::part::id_of;
use nephila_core::reflog::part::{Named, Part};
use nephila_core::reflog::{BatchKey, group};
use nephila_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::jobs::InForce;

/// What became of lines.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct StreamSaid {
    /// Lines that were read.
    pub(crate) lines: u64,
    /// URLs they name.
    pub(crate) urls: u64,
    /// Of these, kept out by an `exclude` or as a trap.
    pub(crate) refused: u64,
    /// Lines that could not be read.
    pub(crate) unreadable: u64,
}

impl StreamSaid {
    /// Both together.
    pub(crate) fn plus(&mut self, other: StreamSaid) {
        self.lines += other.lines;
        self.urls += other.urls;
        self.refused += other.refused;
        self.unreadable += other.unreadable;
    }
}

/// Reads the part with this number of the batch with this id.
pub(crate) fn read(
    text: &[u8],
    (batch, number): (&str, u32),
    job: &InForce,
    traps: &trap::Settings,
    now: Timestamp,
    secret: &Secret,
) -> (Part, StreamSaid) {
    let reading = reflog::read(text);
    let lines = u32::try_from(text.split(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX);
    let mut said = StreamSaid {
        lines: reading.entries.len() as u64,
        unreadable: reading.bad.values().sum(),
        ..StreamSaid::default()
    };
    let groups = group(reading.entries);
    said.urls = groups.len() as u64;
    let wanted = |url| !job.excludes(url) && trap::judge_at(url, traps, now).is_none();
    let mut urls: Vec<Named> =
        groups.iter().filter(|group| wanted(&group.url)).map(|group| Named::of(group, secret)).collect();
    said.refused = said.urls - urls.len() as u64;
    urls.sort_by_key(|url| url.key);
    urls.dedup_by_key(|url| url.key);
    (Part { key: BatchKey::of(batch, number, lines), job: job.id, urls }, said)
}

/// A part, divided among whoever `place` names.
pub(crate) fn divided<K: Ord>(part: Part, place: impl Fn(&Named) -> K) -> Vec<(K, Part)> {
    let (key, job): (BatchKey, JobId) = (part.key, part.job);
    let mut shares = std::collections::BTreeMap::<K, Vec<Named>>::new();
    for url in part.urls {
        shares.entry(place(&url)).or_default().push(url);
    }
    shares.into_iter().map(|(to, urls)| (to, Part { key, job, urls })).collect()
}
