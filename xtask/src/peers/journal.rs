//! Counts pages in a journal of the test web: the pages a tool really received, regardless of its own report, and when.
//!
//! The steady middle of a run is the time between its first and its last tenth of pages. Start and end of a run (a process
//! that starts, the first hosts, the last ones, an archive that is closed) are a fixed time beside it, whatever the number
//! of pages; the two together are the time of the run.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The pages that a tool received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Different pages, each whole.
    pub(super) pages: u64,
    /// Pages given once more.
    pub(super) again: u64,
    /// Those of all these that came by HTTP/2.
    pub(super) http2: u64,
    /// Bytes of all their bodies, as coded on the wire.
    pub(super) wire_bytes: u64,
    /// Events that the journal lost.
    pub(super) lost: u64,
    /// When the last byte of each page went out, in microseconds, sorted.
    pub(super) ends_us: Vec<u64>,
}

/// Pages before and after the steady middle: one in this many.
const EDGE: usize = 10;

impl Counts {
    /// Pages a second in the steady middle; none if it is too short to be measured.
    pub(super) fn steady(&self) -> Option<f64> {
        let edge = self.ends_us.len() / EDGE;
        let middle = self.ends_us.get(edge..self.ends_us.len() - edge)?;
        let (first, last) = (middle.first()?, middle.last()?);
        (last > first).then(|| (middle.len() - 1) as f64 * 1e6 / (last - first) as f64)
    }
}

/// One line, with the fields that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Line {
    event: String,
    host: String,
    path: String,
    status: u16,
    http2: bool,
    bytes: u64,
    is_complete: bool,
    end_us: u64,
    lost: u64,
}

/// Reads the journal line by line: a parent's memory counts as that of the programs it starts.
pub(super) fn count(path: &Path) -> Result<Counts> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    count_lines(BufReader::new(file))
}

fn count_lines(lines: impl BufRead) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut seen = HashSet::new();
    for line in lines.lines() {
        let line: Line = serde_json::from_str(&line?).context("understand the journal")?;
        counts.lost += line.lost;
        if line.event != "request" || line.status != 200 || !line.is_complete || line.path == "/robots.txt" {
            continue;
        }
        counts.http2 += u64::from(line.http2);
        counts.wire_bytes += line.bytes;
        let mut hasher = DefaultHasher::new();
        // Some write the port that is meant anyway, some do not.
        (line.host.split(':').next(), &line.path).hash(&mut hasher);
        if seen.insert(hasher.finish()) {
            counts.pages += 1;
            counts.ends_us.push(line.end_us);
        } else {
            counts.again += 1;
        }
    }
    counts.ends_us.sort_unstable();
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_counted_once_and_nothing_else_is() {
        let line = |host: &str, path: &str, status: u16, whole: bool| {
            format!(
                r#"{{"event":"request","host":"{host}","path":"{path}","status":{status},"bytes":7,"is_complete":{whole}}}"#
            )
        };
        let lines = [
            line("a.test", "/", 200, true),
            line("a.test:80", "/", 200, true),
            line("b.test", "/", 200, true).replace("\"bytes\"", "\"http2\":true,\"bytes\""),
            line("b.test", "/robots.txt", 200, true),
            line("b.test", "/1", 404, true),
            line("b.test", "/2", 200, false),
            r#"{"event":"lookup","name":"a.test"}"#.to_owned(),
            r#"{"lost":3}"#.to_owned(),
        ];
        let counts = count_lines(lines.join("\n").as_bytes()).unwrap();
        let wanted = Counts { pages: 2, again: 1, http2: 1, wire_bytes: 21, lost: 3, ends_us: vec![0, 0] };
        assert_eq!(counts, wanted);
        assert_eq!(counts.steady(), None, "no time lies between them");
    }

    #[test]
    fn the_steady_middle_leaves_start_and_end_out() {
        // 100 pages: the first after a second, then one each millisecond, the last five ten seconds later.
        let ends_us = (0..100).map(|n| 1_000_000 + n * 1_000 + if n < 95 { 0 } else { 10_000_000 }).collect();
        let counts = Counts { pages: 100, ends_us, ..Counts::default() };
        assert!((counts.steady().unwrap() - 1_000.0).abs() < 1e-6, "{:?}", counts.steady());
        assert_eq!(Counts::default().steady(), None);
    }
}
