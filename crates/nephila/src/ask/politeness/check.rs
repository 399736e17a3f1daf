//! `nephila politeness check`: compares a site's own access log with our promise.
//!
//! Most access logs have whole seconds. Two lines that are n seconds apart were between n-1 and n+1 seconds apart. So a
//! delay is proved too short only if n+1 seconds are not more than the promise, and proved long enough only if n-1
//! seconds are at least the promise; all others are unclear, and the output counts them. Depending on the server, a
//! line has the start or the end of a request: either way the delay was not longer than the distance of the lines. If
//! the line has the duration of the request, the delay itself is known.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::Context;
use nephila_core::robots::Robots;
use nephila_core::text::shown;
use nephila_core::time::Timestamp;
use serde::Serialize;

use super::super::time::{millis, span};
use super::super::{out, print_json};
use super::access::{Access, LINE_BYTES_MAX, parse};
use crate::cli::ask::PolitenessCheckArgs;
use nephila_engine::exit::Exit;

/// Size of the reorder buffer: lines are written when requests end, and are sorted by start.
const REORDER_MAX: usize = 10_000;
/// Maximum number of hosts in a log.
const HOSTS_MAX: usize = 10_000;
/// Maximum number of printed violations; all are counted.
const VIOLATIONS_MAX: usize = 10_000;
/// Maximum size in bytes of a robots.txt.
const ROBOTS_BYTES_MAX: u64 = 512_000;

/// The promised crawl delay, connections and robots.txt rules.
struct Promise {
    rest_ms: u64,
    connections: usize,
    robots: Option<Robots>,
}

/// A line that breaks a promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Violation {
    line: u64,
    at: String,
    kind: &'static str,
    path: String,
    detail: String,
}

/// Result of the check.
#[derive(Debug, Default, Serialize)]
struct Found {
    /// Readable lines.
    lines: u64,
    /// Unreadable lines.
    unread: u64,
    /// Requests of our user agent.
    ours: u64,
    /// Lines among them without a User-Agent: each counts, whoever sent the request.
    without_agent: u64,
    /// Delays that were long enough, as far as the log shows.
    kept: u64,
    /// Delays that the log is too imprecise to judge.
    unclear: u64,
    violations: u64,
    #[serde(skip)]
    listed: Vec<Violation>,
}

/// `nephila politeness check`.
pub(in super::super) fn run(args: &PolitenessCheckArgs) -> anyhow::Result<Exit> {
    let settings = args.common.load()?;
    let agent = args.agent.clone().unwrap_or_else(|| settings.identity.agent.clone());
    let mut promise = Promise {
        rest_ms: millis(args.delay.unwrap_or(settings.frontier.host_delay)),
        connections: args.connections.unwrap_or(settings.frontier.host_connections).max(1) as usize,
        robots: None,
    };
    if let Some(path) = &args.robots {
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(|| path.display().to_string())?;
        file.take(ROBOTS_BYTES_MAX).read_to_end(&mut bytes).with_context(|| path.display().to_string())?;
        let robots = Robots::parse(&bytes, &settings.identity.agent);
        promise.rest_ms = promise.rest_ms.max(robots.crawl_delay().map_or(0, millis));
        promise.robots = Some(robots);
    }
    let mut checker = Checker::new(&promise);
    for path in &args.access_logs {
        let input = open(path).with_context(|| path.display().to_string())?;
        read(input, args.format, &agent, &mut checker).with_context(|| path.display().to_string())?;
    }
    let coarse = checker.coarse;
    let found = checker.finish();
    if found.lines == 0 {
        anyhow::bail!("no line could be read: name the log's format with --format");
    }
    let mut out = out();
    for violation in &found.listed {
        if args.json {
            print_json(&mut out, violation)?;
        } else {
            writeln!(
                out,
                "line {}: {} {}: {}  {}",
                violation.line,
                violation.at,
                violation.kind,
                violation.detail,
                shown(&violation.path)
            )?;
        }
    }
    if args.json {
        print_json(&mut out, &found)?;
    } else {
        summary(&mut out, &found, &promise, &agent, coarse)?;
    }
    out.flush()?;
    Ok(if found.violations == 0 { Exit::Done } else { Exit::Failed })
}

fn summary(
    out: &mut dyn Write,
    found: &Found,
    promise: &Promise,
    agent: &str,
    coarse: bool,
) -> io::Result<()> {
    writeln!(
        out,
        "{} lines, {} of them ours (User-Agent with {}): {} violations of {} rest and {} at once",
        found.lines,
        found.ours,
        shown(agent),
        found.violations,
        span(promise.rest_ms),
        promise.connections
    )?;
    if found.without_agent > 0 {
        writeln!(
            out,
            "{} of these lines have no User-Agent, so requests of others may be among them: keep the lines of the crawler's \
             addresses alone, or log in the combined format",
            found.without_agent
        )?;
    }
    writeln!(out, "rests: {} long enough, {} cannot be told from this log", found.kept, found.unclear)?;
    if coarse {
        writeln!(
            out,
            "the log has whole seconds: lines n seconds apart prove n-1 seconds, and a rest of up to 1 s cannot be judged"
        )?;
    }
    match &promise.robots {
        Some(robots) => writeln!(
            out,
            "robots.txt: judged by the file given ({} rules for us); it may have been another one then",
            robots.rule_count()
        )?,
        None => writeln!(out, "robots.txt: not judged, give the file with --robots")?,
    }
    if found.unread > 0 {
        writeln!(out, "{} lines could not be read", found.unread)?;
    }
    if found.violations > found.listed.len() as u64 {
        writeln!(out, "{} violations are not listed", found.violations - found.listed.len() as u64)?;
    }
    Ok(())
}

/// Opens a file or standard input, decompressing gzip.
fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(path)?))
    };
    if input.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(input))));
    }
    Ok(input)
}

fn read(
    mut input: Box<dyn BufRead>,
    format: crate::cli::ask::AccessFormat,
    agent: &str,
    checker: &mut Checker<'_>,
) -> io::Result<()> {
    let agent = agent.to_ascii_lowercase();
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let read = input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        checker.line += 1;
        if !buffer.ends_with(b"\n") && read == LINE_BYTES_MAX {
            input.skip_until(b'\n')?;
        }
        let text = String::from_utf8_lossy(&buffer);
        let text = text.trim_end();
        match parse(text, format) {
            Some(access) => {
                checker.found.lines += 1;
                let ours = access.agent.as_deref().is_none_or(|it| it.to_ascii_lowercase().contains(&agent));
                if ours {
                    checker.take(access);
                }
            }
            None => checker.found.unread += u64::from(!text.is_empty()),
        }
    }
}

/// One request of ours, ordered by start as far as known.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    began: u64,
    ended: u64,
    line: u64,
    exact_ms: u64,
    timed: bool,
    path: String,
    host: String,
}

struct Checker<'a> {
    promise: &'a Promise,
    found: Found,
    line: u64,
    waiting: BinaryHeap<Reverse<Seen>>,
    /// The last requests of each host by end time: the permitted number of connections plus one.
    hosts: HashMap<String, Vec<Seen>>,
    coarse: bool,
}

impl<'a> Checker<'a> {
    fn new(promise: &'a Promise) -> Checker<'a> {
        Checker {
            promise,
            found: Found::default(),
            line: 0,
            waiting: BinaryHeap::new(),
            hosts: HashMap::new(),
            coarse: false,
        }
    }

    fn take(&mut self, access: Access) {
        self.found.ours += 1;
        self.found.without_agent += u64::from(access.agent.is_none());
        self.coarse |= access.exact_ms >= 1_000;
        // A server that logs the duration of a request writes the line at the end of the request.
        let took = access.took_ms.unwrap_or(0);
        self.waiting.push(Reverse(Seen {
            began: access.at.saturating_sub(took),
            ended: access.at,
            line: self.line,
            exact_ms: access.exact_ms,
            timed: access.took_ms.is_some(),
            path: access.path,
            host: access.host.unwrap_or_default(),
        }));
        if self.waiting.len() > REORDER_MAX {
            self.judge_first();
        }
    }

    fn finish(mut self) -> Found {
        while !self.waiting.is_empty() {
            self.judge_first();
        }
        self.found
    }

    fn violation(&mut self, seen: &Seen, kind: &'static str, detail: String) {
        self.found.violations += 1;
        if self.found.listed.len() < VIOLATIONS_MAX {
            self.found.listed.push(Violation {
                line: seen.line,
                at: Timestamp(seen.began).warc_date(),
                kind,
                path: seen.path.clone(),
                detail,
            });
        }
    }

    fn judge_first(&mut self) {
        let Some(Reverse(seen)) = self.waiting.pop() else { return };
        let asked = seen.path.split('?').next() == Some("/robots.txt");
        let verdict =
            self.promise.robots.as_ref().filter(|_| !asked).map(|robots| robots.verdict(&seen.path));
        if let Some(verdict) = verdict.filter(|verdict| !verdict.allowed) {
            let (line, rule) = verdict.rule.unwrap_or((0, ""));
            let detail = format!("line {line} of robots.txt forbids it: {}", shown(rule));
            self.violation(&seen, "robots", detail);
        }
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(&seen.host) {
            return;
        }
        let earlier = self.hosts.remove(&seen.host).unwrap_or_default();
        // The uncertainty of the logged times.
        let slack = |other: &Seen| {
            let exact = seen.exact_ms.max(other.exact_ms);
            if exact > 1 { exact } else { 1 }
        };
        let under_way = earlier.iter().filter(|other| {
            seen.timed && other.timed && other.ended >= seen.began.saturating_add(slack(other))
        });
        let at_once = 1 + under_way.count();
        if at_once > self.promise.connections {
            let detail = format!("{at_once} requests at once, {} allowed", self.promise.connections);
            self.violation(&seen, "at-once", detail);
        } else if let Some(last) = earlier.iter().max_by_key(|other| other.ended) {
            let had = seen.began.saturating_sub(last.ended);
            let slack = slack(last);
            let promised = self.promise.rest_ms;
            // Under a second of exactness the milliseconds of rounding are all the doubt there is.
            let longest = if slack > 1 { had.saturating_add(slack) } else { had.saturating_add(2) };
            let too_short = if slack > 1 { longest <= promised } else { longest < promised };
            if too_short {
                let detail = format!(
                    "at most {} after line {}, {} promised",
                    span(longest),
                    last.line,
                    span(promised)
                );
                self.violation(&seen, "rest", detail);
            } else if had.saturating_sub(if slack > 1 { slack } else { 0 }) >= promised {
                self.found.kept += 1;
            } else {
                self.found.unclear += 1;
            }
        }
        let mut last = earlier;
        let host = seen.host.clone();
        last.push(seen);
        last.sort_by_key(|seen| Reverse(seen.ended));
        last.truncate(self.promise.connections + 1);
        self.hosts.insert(host, last);
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
