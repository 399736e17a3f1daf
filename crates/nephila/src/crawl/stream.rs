//! Parts of a stream of URLs, read and sorted out: what goes to the partitions, and what could not be read.
//!
//! What always holds: every line is counted as read or as unreadable; a URL that an `exclude`, a trap or its
//! address keeps out is counted, and goes nowhere.

use std::cell::RefCell;

use nephila_core::key::Secret;
use nephila_core::reflog::part::{LinesRead, Part, first_part, id_of};
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use serde::{Deserialize, Serialize};

use super::jobs::InForce;

/// Threads that read lines at once.
const READERS_MAX: usize = 4;

/// A part of a stream, the URLs that are kept out of it and by what, and what is said of it.
pub(crate) type Looked = (Part, Vec<(String, &'static str)>, StreamSaid);

/// What became of lines.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct StreamSaid {
    /// Lines that were read.
    pub(crate) lines: u64,
    /// URLs they name.
    pub(crate) urls: u64,
    /// Of these, kept out by an `exclude`, as a trap, or for the address they name.
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

/// What lines are judged by.
pub(crate) struct Judge<'a, R> {
    /// The job that they are for.
    pub(crate) job: &'a InForce,
    pub(crate) traps: &'a trap::Settings,
    pub(crate) now: Timestamp,
    pub(crate) secret: &'a Secret,
    /// Can a URL be reached? Those that cannot are kept out.
    pub(crate) reaches: R,
}

impl<R: Fn(&CrawlUrl) -> bool + Sync> Judge<'_, R> {
    /// Reads a text in its parts, numbered from this on, on several threads: reading lines takes longer than deciding
    /// about them. The parts stand in their order.
    pub(crate) fn read(&self, text: &[u8], batch: Option<&str>, first: u32) -> Vec<(Part, StreamSaid)> {
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

    /// Reads a text in its parts without giving them to anybody: beside each part the URLs that are kept out, and by what.
    pub(crate) fn look(&self, text: &[u8], batch: Option<&str>, first: u32) -> Vec<Looked> {
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

    /// By what a URL is kept out, if it is.
    fn kept_out_by(&self, url: &CrawlUrl) -> Option<&'static str> {
        if self.job.excludes(url) {
            Some("exclude")
        } else if !(self.reaches)(url) {
            Some("address")
        } else {
            trap::judge_at(url, self.traps, self.now).map(|_| "trap")
        }
    }

    fn read_part(&self, (text, batch, number): &(&[u8], String, u32)) -> (Part, StreamSaid) {
        let wanted = |url: &CrawlUrl| self.kept_out_by(url).is_none();
        let (part, read) = Part::of_lines(text, (batch, *number), self.job.id, self.secret, wanted);
        let LinesRead { lines, urls, unwanted, unreadable } = read;
        (part, StreamSaid { lines, urls, refused: unwanted, unreadable })
    }
}

/// Text in parts, numbered from this on, each with the id of its batch: the one that was given, or made from what it
/// says.
fn parts<'a>(
    text: &'a [u8],
    batch: Option<&str>,
    first: u32,
) -> impl Iterator<Item = (&'a [u8], String, u32)> {
    let (mut rest, mut number) = (text, first);
    std::iter::from_fn(move || {
        let (part, others) = rest.split_at(first_part(rest, true)?);
        rest = others;
        let this = number;
        // Whoever asks says the first number; it may be any.
        number = number.wrapping_add(1);
        Some((part, batch.map_or_else(|| id_of(part), str::to_owned), this))
    })
}
