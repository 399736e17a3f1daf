//! `GET /api/v1/log`: the newest lines of the crawl log, and lines as they are written.
//!
//! A request reads the log backwards from a cursor, over at most [`READ_BYTES_MAX`] bytes and [`READ_TIME_MAX`]; an
//! answer that ended there says so, and its cursor goes on. The lines of a cluster are those of its nodes, merged by
//! time; a cursor has the position of each node.
//!
//! Invariants: bytes, time and lines of a request are bounded; text of third parties is cut and left as it is: readers
//! show it as text.

mod filter;
mod follow;
mod live;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nephila_core::time::Timestamp;
use nephila_engine::log::{Line, Newest, Position, Purpose};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use filter::Filter;
pub use follow::Follow;

/// Maximum number of lines in an answer.
pub const LINES_MAX: usize = 1_000;
/// Number of lines in an answer to a request without `limit`.
pub const LINES_USUAL: usize = 100;
/// Maximum number of bytes of the log that a request reads.
pub const READ_BYTES_MAX: u64 = 32 << 20;
/// A request begins to read no further line after this time.
pub const READ_TIME_MAX: Duration = Duration::from_millis(700);
/// Maximum length in bytes of a title or a detail in an answer. Longer ones are cut.
const TEXT_BYTES_MAX: usize = 500;
/// Maximum number of nodes in a cursor.
const NODES_MAX: usize = 1_000;
/// Maximum number of bytes that a tail reads in one look; what is older is skipped and counted as dropped.
const LOOK_LINES_MAX: usize = 20_000;

/// Lines of the log, newest first.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct LogSaid {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Where older lines follow; none at the beginning of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether the request looked at everything that it had to: false if a bound on bytes or time ended it. Then fewer
    /// lines than wanted may be in the answer, and older ones behind the cursor.
    pub complete: bool,
    /// Number of bytes of the log that were read.
    pub read_bytes: u64,
}

/// One request.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct LogLine {
    /// Start of the request.
    pub at: String,
    /// The same, in milliseconds since 1970.
    pub at_ms: u64,
    /// The URL.
    pub url: String,
    /// The outcome, by the name in `docs/outcomes.md`.
    pub outcome: String,
    /// Class of the outcome: `ok`, `gone`, `refused`, `retry`, `broken`.
    pub class: String,
    /// The HTTP status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Duration of the request in milliseconds.
    pub took_ms: u64,
    /// Size of the body as received.
    pub bytes: u64,
    /// The IP address of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// `page`, `robots` or `head`.
    pub purpose: String,
    /// The crawl delay of the host that was promised when the request began.
    pub promised_ms: u64,
    /// Media type of the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mime: String,
    /// Title of the page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Target of a redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
    /// Id of the ticket's trace, if the ticket is traced (`[traces]`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Further details, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The node that sent the request, in a cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// A time to the millisecond.
pub(super) fn exact(at: Timestamp) -> String {
    format!("{}.{:03}Z", at.warc_date().trim_end_matches('Z'), at.0 % 1_000)
}

impl LogLine {
    /// A line for readers.
    pub fn of(line: Line) -> LogLine {
        let cut = |mut text: String| {
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
            text
        };
        LogLine {
            at: exact(line.began()),
            at_ms: line.at,
            url: line.url,
            outcome: line.outcome,
            class: line.class,
            status: line.status,
            took_ms: line.took_ms,
            bytes: line.bytes,
            address: line.address.map(|address| address.to_string()),
            purpose: match line.purpose {
                Purpose::Page => "page",
                Purpose::Robots => "robots",
                Purpose::Head => "head",
            }
            .to_owned(),
            promised_ms: line.host_rest_ms,
            mime: cut(line.mime),
            title: cut(line.title),
            redirect: line.redirect,
            trace: line.trace,
            detail: cut(line.detail),
            node: String::new(),
        }
    }
}

/// The lines of one node, each with the position of its beginning.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct LogPart {
    /// The lines, newest first.
    pub lines: Vec<(LogLine, String)>,
    /// Where the reading ended; none at the beginning of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Whether no bound on bytes or time ended the reading.
    pub complete: bool,
    /// Number of bytes that were read.
    pub read_bytes: u64,
}

/// What a reader of the log wants.
#[derive(Clone, Debug, Default)]
pub struct LogWanted {
    /// The lines.
    pub filter: Filter,
    /// Maximum number of lines.
    pub limit: usize,
    /// Where to begin; at the end of the log if none.
    pub before: Option<Position>,
}

/// Reads the newest lines before a position.
pub fn read(folder: &Path, wanted: &LogWanted) -> io::Result<LogPart> {
    let began = Instant::now();
    read_while(folder, wanted, |bytes| bytes < READ_BYTES_MAX && began.elapsed() < READ_TIME_MAX)
}

/// Reads lines while `may` permits, given the number of bytes read.
fn read_while(folder: &Path, wanted: &LogWanted, may: impl Fn(u64) -> bool) -> io::Result<LogPart> {
    let limit = wanted.limit.clamp(1, LINES_MAX);
    let needle = wanted.filter.needle().map(|needle| memchr::memmem::Finder::new(needle.as_bytes()));
    let mut newest = Newest::of(folder, wanted.before)?;
    let mut part = LogPart { complete: true, ..LogPart::default() };
    loop {
        if part.lines.len() >= limit {
            break;
        }
        if !may(newest.read_bytes()) {
            part.complete = false;
            break;
        }
        let Some((line, position)) = newest.next_line()? else {
            part.end = None;
            break;
        };
        part.end = Some(position.to_string());
        // Most lines are of other hosts: they need not be parsed.
        if needle.as_ref().is_some_and(|needle| needle.find(&line).is_none()) {
            continue;
        }
        let Ok(line) = serde_json::from_slice::<Line>(&line) else { continue };
        if wanted.filter.takes(&line) {
            part.lines.push((LogLine::of(line), position.to_string()));
        }
    }
    part.read_bytes = newest.read_bytes();
    Ok(part)
}

impl LogPart {
    /// The first lines alone; the others are behind the cursor.
    #[must_use]
    pub fn shortened(mut self, limit: usize) -> LogPart {
        if self.lines.len() > limit {
            self.lines.truncate(limit);
            self.end = self.lines.last().map(|(_, position)| position.clone());
        }
        self
    }

    /// The answer of a crawl on one machine.
    pub fn said(self) -> LogSaid {
        let LogPart { lines, end, complete, read_bytes } = self;
        LogSaid {
            lines: lines.into_iter().map(|(line, _)| line).collect(),
            cursor: end,
            complete,
            read_bytes,
        }
    }
}

/// The positions of the nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors(Vec<(String, Option<String>)>);

impl Cursors {
    /// Reads a cursor of a cluster: `NODE~POSITION,NODE~-`.
    pub fn parse(text: &str) -> Option<Cursors> {
        let one = |part: &str| {
            let (node, position) = part.split_once('~')?;
            let position = match position {
                "-" => None,
                position => Some(position.parse::<Position>().ok()?.to_string()),
            };
            Some((node.to_owned(), position))
        };
        Some(Cursors(text.split(',').take(NODES_MAX).map(one).collect::<Option<Vec<_>>>()?))
    }

    /// The position of a node: none if the node has nothing older, or was not there at the first request.
    pub fn of(&self, node: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == node)?.1.as_deref()
    }

    fn text(&self) -> Option<String> {
        let one = |(node, position): &(String, Option<String>)| {
            format!("{node}~{}", position.as_deref().unwrap_or("-"))
        };
        self.0
            .iter()
            .any(|(_, position)| position.is_some())
            .then(|| self.0.iter().map(one).collect::<Vec<_>>().join(","))
    }
}

/// Merges the parts of nodes, newest first. `before` has the position at which each node began.
pub fn merge(parts: Vec<(String, LogPart)>, before: Option<&Cursors>, limit: usize) -> LogSaid {
    let mut said = LogSaid { complete: true, ..LogSaid::default() };
    let mut nodes = Vec::new();
    for (node, part) in parts {
        said.complete &= part.complete;
        said.read_bytes += part.read_bytes;
        nodes.push((node, part.lines.into_iter().peekable(), part.end, None::<String>));
    }
    // An incomplete part says nothing about lines older than its own: they may belong between others, and are found
    // behind the cursor.
    while said.lines.len() < limit {
        let newest = nodes.iter_mut().enumerate();
        // A log has its lines in the order in which the requests ended.
        let newest = newest
            .filter_map(|(at, (_, lines, ..))| lines.peek().map(|(line, _)| (line.at_ms + line.took_ms, at)));
        let Some((_, at)) = newest.max() else { break };
        let (node, lines, _, taken) = &mut nodes[at];
        if let Some((line, position)) = lines.next() {
            said.lines.push(LogLine { node: node.clone(), ..line });
            *taken = Some(position);
        }
    }
    let cursors = nodes.into_iter().map(|(node, mut lines, end, taken)| {
        let position = match lines.peek() {
            // All its lines were taken: it goes on where it ended.
            None => end,
            Some(_) => taken
                .or_else(|| before.and_then(|before| before.of(&node).map(str::to_owned)))
                .or_else(newest_of_all),
        };
        (node, position)
    });
    said.cursor = Cursors(cursors.collect()).text();
    said
}

/// The position behind the newest line.
fn newest_of_all() -> Option<String> {
    Some(Position { file: u64::MAX, offset: u64::MAX }.to_string())
}

/// Lines as they are written, for readers that watch.
#[derive(Debug)]
pub struct LogTail {
    follow: Follow,
    filter: Filter,
}

/// What was written since the last look.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Tailed {
    /// The lines, oldest first.
    pub lines: Vec<LogLine>,
    /// Number of older lines that were left out.
    pub dropped: u64,
}

impl LogTail {
    /// Begins at the end of the log.
    pub fn new(logs: PathBuf, filter: Filter) -> io::Result<LogTail> {
        Ok(LogTail { follow: Follow::at_end(logs)?, filter })
    }

    /// The newest lines since the last look, at most `max`; earlier ones are counted.
    pub fn look(&mut self, max: usize) -> io::Result<Tailed> {
        let mut lines = std::collections::VecDeque::new();
        let mut dropped = 0;
        for _ in 0..LOOK_LINES_MAX {
            let Some(line) = self.follow.next_line()? else { break };
            if self.filter.takes(&line) {
                lines.push_back(line);
            }
            if lines.len() > max {
                lines.pop_front();
                dropped += 1;
            }
        }
        Ok(Tailed { lines: lines.into_iter().map(LogLine::of).collect(), dropped })
    }
}

#[cfg(test)]
mod tests;
