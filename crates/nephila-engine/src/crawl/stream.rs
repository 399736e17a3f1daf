//! Parses parts of a stream of URLs: URLs for the partitions, and unreadable lines.
//!
//! Invariants: every line is counted as read or as unreadable; a URL that an `exclude`, a trap or its address rejects
//! is counted, and goes nowhere.

use std::cell::RefCell;

use nephila_core::key::Secret;
use nephila_core::reflog::part::{LinesRead, Part, first_part, id_of};
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jobs::InForce;

/// Maximum number of threads that parse lines.
pub const READERS_MAX: usize = 4;

/// A part of a stream, its rejected URLs with the reason, and its counts.
pub type Looked = (Part, Vec<(String, &'static str)>, StreamSaid);

/// Counts of the lines of a stream.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct StreamSaid {
    /// Lines read.
    pub lines: u64,
    /// URLs in these lines.
    pub urls: u64,
    /// URLs among them that an `exclude`, a trap or their address rejects.
    pub refused: u64,
    /// Unreadable lines.
    pub unreadable: u64,
}

impl StreamSaid {
    /// Adds other counts.
    pub fn plus(&mut self, other: StreamSaid) {
        self.lines += other.lines;
        self.urls += other.urls;
        self.refused += other.refused;
        self.unreadable += other.unreadable;
    }
}

/// The rules by which lines are judged.
pub struct Judge<'a, R> {
    /// The job of the stream.
    pub job: &'a InForce,
    /// Settings of the trap detection.
    pub traps: &'a trap::Settings,
    /// Time of the judgement, for traps that depend on a date.
    pub now: Timestamp,
    /// Secret from which the keys of URLs are derived.
    pub secret: &'a Secret,
    /// Whether a URL is reachable. Unreachable URLs are rejected.
    pub reaches: R,
}

impl<R: Fn(&CrawlUrl) -> bool + Sync> Judge<'_, R> {
    /// Parses a text in parts, numbered from `first`, on several threads: parsing lines takes longer than the decision.
    /// The parts keep their order.
    pub fn read(&self, text: &[u8], batch: Option<&str>, first: u32) -> Vec<(Part, StreamSaid)> {
        let parts: Vec<_> = parts(text, batch, first).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX);
        let mut shares = parts.chunks(parts.len().div_ceil(threads).max(1));
        let Some(own) = shares.next() else { return Vec::new() };
        let read = |share: &[_]| share.iter().map(|part| self.read_part(part)).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let others: Vec<_> = shares.map(|share| scope.spawn(move || read(share))).collect();
            let mut all = read(own);
            all.extend(
                others.into_iter().flat_map(|other| other.join().expect("reading lines does not panic")),
            );
            all
        })
    }

    /// Dry run: parses a text in parts. Returns beside each part the rejected URLs with the reason.
    pub fn look(&self, text: &[u8], batch: Option<&str>, first: u32) -> Vec<Looked> {
        let all = parts(text, batch, first).map(|part| {
            let kept_out = RefCell::new(Vec::new());
            let wanted = |url: &CrawlUrl| {
                let why = self.kept_out_by(url);
                kept_out.borrow_mut().extend(why.map(|why| (url.as_str().to_owned(), why)));
                why.is_none()
            };
            let (text, batch, number) = &part;
            let (part, read) = Part::of_lines(text, (batch, *number), self.job.id, self.secret, wanted);
            let LinesRead { lines, urls, unwanted, unreadable } = read;
            (part, kept_out.into_inner(), StreamSaid { lines, urls, refused: unwanted, unreadable })
        });
        all.collect()
    }

    /// The rule that rejects a URL, if there is one.
    pub fn kept_out_by(&self, url: &CrawlUrl) -> Option<&'static str> {
        if self.job.excludes(url) {
            Some("exclude")
        } else if !(self.reaches)(url) {
            Some("address")
        } else {
            trap::judge_at(url, self.traps, self.now).map(|_| "trap")
        }
    }

    /// Parses one part of a text, and counts its lines, URLs, rejected URLs and unreadable lines.
    pub fn read_part(&self, (text, batch, number): &(&[u8], String, u32)) -> (Part, StreamSaid) {
        let wanted = |url: &CrawlUrl| self.kept_out_by(url).is_none();
        let (part, read) = Part::of_lines(text, (batch, *number), self.job.id, self.secret, wanted);
        let LinesRead { lines, urls, unwanted, unreadable } = read;
        (part, StreamSaid { lines, urls, refused: unwanted, unreadable })
    }
}

/// Splits a text into parts, numbered from `first`, each with the id of its batch: the given one, or a digest of the
/// part.
pub fn parts<'a>(
    text: &'a [u8],
    batch: Option<&str>,
    first: u32,
) -> impl Iterator<Item = (&'a [u8], String, u32)> {
    let (mut rest, mut number) = (text, first);
    std::iter::from_fn(move || {
        let (part, others) = rest.split_at(first_part(rest, true)?);
        rest = others;
        let this = number;
        // The first number comes from the caller and may be any.
        number = number.wrapping_add(1);
        Some((part, batch.map_or_else(|| id_of(part), str::to_owned), this))
    })
}
