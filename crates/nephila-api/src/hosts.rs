//! `GET /api/v1/hosts`: the hosts of a crawl, sorted and filtered, page by page.
//!
//! The frontier has its hosts in the order of keys. A request looks at no more than [`HOSTS_LOOKED_AT_MAX`] of them, read
//! in pages so that the deciding thread works in between, and keeps the best rows in a heap. What was read serves all
//! requests of the next seconds. The first rows of the nodes of a cluster are merged by the same order.
//!
//! Invariants: memory and work of a request are bounded; each page has the rows behind its cursor, in one order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use nephila_core::frontier::rows::{HostRow, HostState};
use nephila_core::frontier::views::HOSTS_PAGE_MAX;
use nephila_core::state::record::{RobotsPolicy, RobotsRecord};
use nephila_core::time::Timestamp;
use nephila_engine::crawl::lasts::Lasts;
use nephila_engine::worker::{Handle, Stopped};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::{escaped, unescaped};

/// Maximum number of hosts that a request looks at.
pub const HOSTS_LOOKED_AT_MAX: usize = 20_000;
/// Maximum number of rows in an answer.
pub const ROWS_MAX: usize = 1_000;
/// Number of rows in an answer to a request without `limit`.
pub const ROWS_USUAL: usize = 100;

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Most URLs in the queue first.
    #[default]
    Queued,
    /// Most ended fetches first.
    Done,
    /// Most failures in a row first.
    Errors,
    /// The next request first.
    Next,
}

impl Sort {
    /// Reads the parameter `sort`.
    pub fn parse(text: &str) -> Option<Sort> {
        [Sort::Queued, Sort::Done, Sort::Errors, Sort::Next].into_iter().find(|sort| sort.name() == text)
    }

    /// The value of the parameter.
    pub const fn name(self) -> &'static str {
        match self {
            Sort::Queued => "queued",
            Sort::Done => "done",
            Sort::Errors => "errors",
            Sort::Next => "next",
        }
    }

    /// The place in the order: a smaller one comes first.
    fn place(self, row: &HostRow) -> u64 {
        match self {
            Sort::Queued => u64::MAX - row.queued,
            Sort::Done => u64::MAX - row.ended,
            Sort::Errors => u64::MAX - u64::from(row.failures),
            Sort::Next => match row.ready_in {
                Some(left) if row.queued + row.later > 0 => left,
                _ => u64::MAX,
            },
        }
    }
}

/// What a reader wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostsWanted {
    /// The order.
    pub sort: Sort,
    /// Hosts in this state alone.
    pub state: Option<HostState>,
    /// Hosts whose origin contains this text.
    pub matching: String,
    /// Maximum number of rows.
    pub limit: usize,
    /// The last row of the page before: its place and its origin.
    pub behind: Option<(u64, String)>,
}

impl HostsWanted {
    /// Reads the parameters of a request. The error names the parameter.
    pub fn of(parameter: impl Fn(&str) -> Option<String>) -> Result<HostsWanted, &'static str> {
        let sort =
            parameter("sort").map(|text| Sort::parse(&text).ok_or("sort: queued, done, errors or next"));
        let state = parameter("state").filter(|state| !state.is_empty()).map(|text| {
            let state = HostState::ALL.into_iter().find(|state| state.name() == text);
            state.ok_or("state: busy, ready, resting, backing_off, loading, stopped or idle")
        });
        let limit = parameter("limit").map(|text| text.parse::<usize>().map_err(|_| "limit: a number"));
        let behind = parameter("cursor").map(|text| cursor(&text).ok_or("cursor: the one of an answer"));
        Ok(HostsWanted {
            sort: sort.transpose()?.unwrap_or_default(),
            state: state.transpose()?,
            matching: parameter("match").unwrap_or_default().to_lowercase(),
            limit: limit.transpose()?.unwrap_or(ROWS_USUAL).clamp(1, ROWS_MAX),
            behind: behind.transpose()?,
        })
    }

    fn takes(&self, row: &HostRow) -> bool {
        self.state.is_none_or(|state| row.state == state)
            && (self.matching.is_empty() || row.origin.contains(&self.matching))
    }
}

/// Reads a cursor: the place and the origin of a row.
fn cursor(text: &str) -> Option<(u64, String)> {
    let (place, origin) = text.split_once('~')?;
    Some((place.parse().ok()?, unescaped(origin)))
}

/// Hosts of a crawl.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct HostsSaid {
    /// The rows.
    pub hosts: Vec<HostLine>,
    /// Where the next page begins; none after the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of hosts that were looked at.
    pub looked_at: u64,
    /// Whether these are all hosts. A crawl with more hosts shows the best rows of those that were looked at.
    pub complete: bool,
}

/// A host.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct HostLine {
    /// Scheme, name and port.
    pub origin: String,
    /// `busy`, `ready`, `resting`, `backing_off`, `loading`, `stopped` or `idle`.
    pub state: String,
    /// The address to connect to, if it is known now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// URLs in its queue.
    pub queued: u64,
    /// URLs planned for a time of their own.
    pub later: u64,
    /// URLs beyond the budget of its domain.
    pub parked: u64,
    /// Fetches that ended.
    pub done: u64,
    /// Failures in a row now.
    pub errors: u64,
    /// Seconds until the next request may begin; none if the host is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_in_s: Option<f64>,
    /// Seconds between two requests.
    pub delay_s: f64,
    /// The last outcome, if the host was requested lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<String>,
    /// Its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<String>,
    /// Why an operator stopped the host; empty if nobody did.
    pub stopped: String,
    /// Its robots.txt: `unknown`, `rules`, `allow`, `disallow` or `unreachable`.
    pub robots: String,
    /// The place of the row in the order of the request: the nodes of a cluster are merged by it.
    pub place: u64,
}

/// The robots.txt of a host in one word.
fn robots(robots: &RobotsRecord) -> &'static str {
    match robots.policy {
        _ if robots.unreachable_since.0 > 0 => "unreachable",
        RobotsPolicy::Unknown => "unknown",
        RobotsPolicy::Rules => "rules",
        RobotsPolicy::AllowAll => "allow",
        RobotsPolicy::DisallowAll => "disallow",
    }
}

/// All hosts, as far as a request looks.
#[derive(Clone, Debug, Default)]
pub struct HostsSeen {
    /// The hosts, in the order of keys.
    pub rows: Vec<HostRow>,
    /// Whether these are all.
    pub complete: bool,
}

impl HostsSeen {
    /// Reads the hosts of a worker, page by page.
    pub async fn look(handle: &Handle) -> Result<HostsSeen, Stopped> {
        let (mut seen, mut from) = (HostsSeen { rows: Vec::new(), complete: true }, None);
        loop {
            let page = handle.host_rows(from, HOSTS_PAGE_MAX).await?;
            let last = page.last().map(|row| row.key);
            let is_end = page.len() < HOSTS_PAGE_MAX;
            seen.rows.extend(page);
            from = last.and_then(|last| last.next());
            if is_end || from.is_none() {
                return Ok(seen);
            }
            if seen.rows.len() >= HOSTS_LOOKED_AT_MAX {
                seen.complete = false;
                return Ok(seen);
            }
        }
    }

    /// The wanted rows.
    pub fn said(&self, wanted: &HostsWanted, lasts: Option<&Lasts>) -> HostsSaid {
        let mut best: BinaryHeap<Placed<'_>> = BinaryHeap::with_capacity(wanted.limit + 2);
        let behind = wanted.behind.as_ref().map(|(place, origin)| (*place, origin.as_str()));
        for row in self.rows.iter().filter(|row| wanted.takes(row)) {
            let placed = Placed { place: wanted.sort.place(row), row };
            if behind.is_some_and(|behind| placed.key() <= behind) {
                continue;
            }
            best.push(placed);
            // One more than wanted: then there is a next page.
            if best.len() > wanted.limit + 1 {
                best.pop();
            }
        }
        let rows = best.into_sorted_vec();
        let hosts: Vec<HostLine> = rows.iter().map(|placed| placed.line(lasts)).collect();
        cut(
            HostsSaid { hosts, cursor: None, looked_at: self.rows.len() as u64, complete: self.complete },
            wanted.limit,
        )
    }
}

/// Cuts an answer, with a cursor if there was more.
fn cut(mut said: HostsSaid, limit: usize) -> HostsSaid {
    if said.hosts.len() > limit {
        said.hosts.truncate(limit);
        said.cursor = said.hosts.last().map(|last| format!("{}~{}", last.place, escaped(&last.origin)));
    }
    said
}

/// Merges the rows of nodes, in the order that all of them have.
pub fn merge(parts: Vec<HostsSaid>, limit: usize) -> HostsSaid {
    let mut all = HostsSaid { complete: true, ..HostsSaid::default() };
    let mut more = false;
    for part in parts {
        all.complete &= part.complete;
        all.looked_at += part.looked_at;
        more |= part.cursor.is_some();
        all.hosts.extend(part.hosts);
    }
    all.hosts.sort_by(|a, b| (a.place, &a.origin).cmp(&(b.place, &b.origin)));
    // A host that has just moved may be at two nodes.
    all.hosts.dedup_by(|a, b| a.origin == b.origin);
    if more && all.hosts.len() <= limit {
        all.cursor = all.hosts.last().map(|last| format!("{}~{}", last.place, escaped(&last.origin)));
        return all;
    }
    cut(all, limit)
}

/// A row with its place in the order.
#[derive(Debug)]
struct Placed<'a> {
    place: u64,
    row: &'a HostRow,
}

impl Placed<'_> {
    fn key(&self) -> (u64, &str) {
        (self.place, &self.row.origin)
    }

    fn line(&self, lasts: Option<&Lasts>) -> HostLine {
        let row = self.row;
        let last = lasts.and_then(|lasts| lasts.of(&row.origin));
        let seconds = |ms: u64| ms as f64 / 1_000.0;
        HostLine {
            origin: row.origin.to_string(),
            state: row.state.name().to_owned(),
            address: row.address.map(|address| address.to_string()),
            queued: row.queued,
            later: row.later,
            parked: row.parked,
            done: row.ended,
            errors: row.failures.into(),
            next_in_s: row.ready_in.map(seconds),
            delay_s: seconds(row.rest_ms),
            last_outcome: last.map(|(outcome, _)| outcome.name().to_owned()),
            last_at: last.map(|(_, at)| Timestamp::warc_date(at)),
            stopped: row.stopped.to_string(),
            robots: robots(&row.robots).to_owned(),
            place: self.place,
        }
    }
}

impl PartialEq for Placed<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Placed<'_> {}

impl PartialOrd for Placed<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests;
