//! Judges the requests of a log: crawl delays and concurrent requests, per host and per slot (IP address).
//!
//! Lines come in the order in which requests ended; a long request comes after shorter ones that began later. So each
//! host and each slot keeps its last requests until no line can follow whose request began before they ended
//! ([`HORIZON_MS`]), and every pair within that time is compared.
//!
//! Invariants: memory is bounded by [`KEYS_MAX`], [`WINDOW_MAX`] and [`EXCEPTIONS_MAX`]; everything beyond is counted
//! and reported.

use std::collections::{HashMap, VecDeque};

use nephila_core::frontier::slot::SlotKey;
use serde::Serialize;

use nephila_engine::log::Line;

/// Maximum number of distinct hosts, and of distinct slots.
const KEYS_MAX: usize = 1_000_000;
/// Maximum number of requests kept per host or slot.
const WINDOW_MAX: usize = 512;
/// Maximum duration of a request, retries of its connection included.
const HORIZON_MS: u64 = 15 * 60 * 1_000;
/// Number of lines after which requests older than the horizon are dropped everywhere.
const SWEEP_LINES: u64 = 100_000;
/// Maximum number of listed exceptions; all are counted.
const EXCEPTIONS_MAX: usize = 1_000;
/// Maximum number of requests that one line can stand for; no version made more than two.
const REPEATS_MAX: u32 = 8;
/// Maximum number of lines by which the log is out of order.
const DISORDER_MAX: usize = 16;
/// Rounding error: times are logged in whole milliseconds.
const ROUNDING_MS: u64 = 1;

/// Lower bounds of the histogram's buckets, in hundredths of the promise. The first bucket must be empty.
pub const RATIOS: [u64; 8] = [0, 100, 110, 125, 150, 200, 500, 1_000];

/// One request, while later lines may still overlap.
#[derive(Debug)]
struct Request {
    began: u64,
    ended: u64,
    promise: u64,
    url: Box<str>,
    /// The shortest delay before this request: from the end of another request to this start.
    rest: Option<u64>,
    /// The shortest distance from the start of another request to this start.
    apart: Option<u64>,
    /// Number of other requests running when this one began.
    at_once: u32,
    /// URL of the nearest other request.
    after: Option<Box<str>>,
}

/// Statistics of one host or one slot.
#[derive(Debug, Default, Serialize)]
pub struct Subject {
    /// The host's origin, or the IP address.
    pub name: String,
    /// Number of requests sent.
    pub requests: u64,
    /// The shortest delay from the end of one request to the start of the next, in milliseconds. For permitted
    /// concurrent requests the distance of the starts counts.
    pub rest_ms_min: Option<u64>,
    /// The promise for that delay.
    pub promise_ms_there: Option<u64>,
    /// Start of the request after that delay, in milliseconds since 1970.
    pub rest_at: Option<u64>,
    /// The shortest distance between the starts of two requests.
    pub apart_ms_min: Option<u64>,
    /// The shortest promise.
    pub promise_ms_min: Option<u64>,
    /// The longest promise.
    pub promise_ms_max: Option<u64>,
    /// Maximum number of concurrent requests.
    pub at_once_max: u32,
    /// Number of broken promises.
    pub exceptions: u64,
    /// Requests that were repeated without a delay, because the first had no usable answer.
    pub repeated: u64,
    /// Number of requests for robots.txt among them, the last status, and its time in milliseconds since 1970.
    pub robots_requests: u64,
    /// See `robots_requests`.
    pub robots_status: Option<u16>,
    /// See `robots_requests`.
    pub robots_at: Option<u64>,
    /// Requests sent without obeying robots.txt.
    pub robots_ignored: u64,
    /// URLs not requested because robots.txt forbids them.
    pub robots_denied: u64,
    /// Number of hosts that were requested at this address, each counted once for its last address; 0 for a host.
    pub names: u64,
    /// The last address of this host.
    #[serde(skip)]
    at: Option<SlotKey>,
    #[serde(skip)]
    window: VecDeque<Request>,
    /// The shortest delay in hundredths of its promise.
    pub ratio_min: Option<u64>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exception {
    /// The host or the IP address.
    pub subject: String,
    /// The kind of promise.
    pub kind: Kind,
    /// Start of the later request, in milliseconds since 1970.
    pub at: u64,
    /// The actual value: milliseconds, or concurrent requests.
    pub had: u64,
    /// The promised value.
    pub promised: u64,
    /// The later request.
    pub url: String,
    /// The earlier request.
    pub after: Option<String>,
}

/// Kinds of promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The crawl delay of the host was too short.
    HostRest,
    /// The crawl delay of the slot was too short.
    SlotRest,
    /// The host had too many concurrent requests.
    HostAtOnce,
    /// The slot had too many concurrent requests.
    SlotAtOnce,
}

/// The result.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// Number of requests sent.
    pub requests: u64,
    /// Number of requests for robots.txt among them.
    pub robots: u64,
    /// Requests that were repeated without a delay: a connection had died, a server redirected to another server, or
    /// required a signature. Only earlier versions did that.
    pub repeated: u64,
    /// Start of the first request.
    pub first: Option<u64>,
    /// End of the last request.
    pub last: Option<u64>,
    /// Hosts, the lowest ratio of delay to promise first.
    pub hosts: Vec<Subject>,
    /// Slots, the lowest ratio first.
    pub slots: Vec<Subject>,
    /// Delays of hosts as ratios of the promise, by [`RATIOS`].
    pub histogram: [u64; RATIOS.len()],
    /// Total number of exceptions.
    pub exceptions_total: u64,
    /// The first exceptions.
    pub exceptions: Vec<Exception>,
    /// Requests of hosts or slots beyond [`KEYS_MAX`], which were not judged.
    pub unjudged: u64,
    /// Promised maximum of concurrent requests per host.
    pub host_connections: u32,
    /// Promised maximum of concurrent requests per slot.
    pub slot_connections: u32,
}

impl Judged {
    /// Whether every judged promise was kept.
    pub fn is_clean(&self) -> bool {
        self.exceptions_total == 0
    }
}

/// Judges lines, fed in the order of the log.
#[derive(Debug)]
pub struct Judge {
    hosts: HashMap<Box<str>, Subject>,
    slots: HashMap<SlotKey, Subject>,
    found: Found,
    lines: u64,
    requests: u64,
    robots: u64,
    repeated: u64,
    first: Option<u64>,
    last: Option<u64>,
    unjudged: u64,
    host_connections: u32,
    slot_connections: u32,
}

#[derive(Debug, Default)]
struct Found {
    histogram: [u64; RATIOS.len()],
    total: u64,
    listed: Vec<Exception>,
}

/// Promises for a subject, in addition to the crawl delay.
#[derive(Clone, Copy)]
struct Terms {
    connections: u32,
    rest: Kind,
    at_once: Kind,
    in_histogram: bool,
}

impl Judge {
    /// With the permitted numbers of concurrent requests per host and per slot.
    pub fn new(host_connections: u32, slot_connections: u32) -> Judge {
        Judge {
            hosts: HashMap::new(),
            slots: HashMap::new(),
            found: Found::default(),
            lines: 0,
            requests: 0,
            robots: 0,
            repeated: 0,
            first: None,
            last: None,
            unjudged: 0,
            host_connections,
            slot_connections,
        }
    }

    fn host_terms(&self) -> Terms {
        Terms {
            connections: self.host_connections,
            rest: Kind::HostRest,
            at_once: Kind::HostAtOnce,
            in_histogram: true,
        }
    }

    fn slot_terms(&self) -> Terms {
        Terms {
            connections: self.slot_connections,
            rest: Kind::SlotRest,
            at_once: Kind::SlotAtOnce,
            in_histogram: false,
        }
    }

    /// Processes a line.
    pub fn line(&mut self, line: &Line) {
        self.lines += 1;
        if self.lines.is_multiple_of(SWEEP_LINES) {
            self.sweep();
        }
        let (host_terms, slot_terms) = (self.host_terms(), self.slot_terms());
        if self.hosts.len() >= KEYS_MAX && !self.hosts.contains_key(&*line.origin) {
            self.unjudged += 1;
            return;
        }
        let host = self
            .hosts
            .entry(line.origin.as_str().into())
            .or_insert_with(|| Subject { name: line.origin.clone(), ..Subject::default() });
        // Nothing was sent: no server was involved.
        let Some(address) = line.address else {
            host.robots_denied += u64::from(line.outcome == "robots-denied");
            return;
        };
        let sent = u64::from(line.requests.max(1));
        self.requests += sent;
        self.repeated += sent - 1;
        self.robots += u64::from(line.purpose == nephila_engine::log::Purpose::Robots);
        self.first = Some(self.first.map_or(line.at, |first| first.min(line.at)));
        self.last = Some(self.last.map_or(line.ended().0, |last| last.max(line.ended().0)));
        host.robots_ignored += u64::from(!line.robots_obeyed);
        if line.purpose == nephila_engine::log::Purpose::Robots {
            host.robots_requests += 1;
            if host.robots_at.is_none_or(|last| line.at >= last) {
                (host.robots_status, host.robots_at) = (line.status, Some(line.at));
            }
        }
        host.take(line, line.host_rest_ms, host_terms, &mut self.found);
        host.repeat(line, line.host_rest_ms, host_terms, &mut self.found);
        let slot = SlotKey::of(address);
        let is_new_there = host.at != Some(slot);
        host.at = Some(slot);
        if self.slots.len() >= KEYS_MAX && !self.slots.contains_key(&slot) {
            self.unjudged += 1;
            return;
        }
        let subject = self.slots.entry(slot);
        let subject = subject.or_insert_with(|| Subject { name: slot.to_string(), ..Subject::default() });
        subject.names += u64::from(is_new_there);
        subject.take(line, line.slot_rest_ms, slot_terms, &mut self.found);
        subject.repeat(line, line.slot_rest_ms, slot_terms, &mut self.found);
    }

    fn sweep(&mut self) {
        let before = self.last.unwrap_or_default().saturating_sub(HORIZON_MS);
        let terms = self.host_terms();
        self.hosts.values_mut().for_each(|host| host.forget(before, terms, &mut self.found));
        let terms = self.slot_terms();
        self.slots.values_mut().for_each(|slot| slot.forget(before, terms, &mut self.found));
    }

    /// Judges the remaining requests and returns the result.
    pub fn finish(mut self) -> Judged {
        let (host_terms, slot_terms) = (self.host_terms(), self.slot_terms());
        let mut hosts: Vec<Subject> = self.hosts.into_values().collect();
        let mut slots: Vec<Subject> = self.slots.into_values().collect();
        for (subjects, terms) in [(&mut hosts, host_terms), (&mut slots, slot_terms)] {
            for subject in subjects.iter_mut() {
                subject.end(terms, &mut self.found);
            }
            subjects.sort_by(|a, b| {
                let tight = |subject: &Subject| {
                    (
                        u64::MAX - subject.exceptions,
                        subject.ratio_min.unwrap_or(u64::MAX),
                        u64::MAX - subject.requests,
                    )
                };
                tight(a).cmp(&tight(b)).then_with(|| a.name.cmp(&b.name))
            });
        }
        self.found.listed.sort_by_key(|exception| exception.at);
        Judged {
            requests: self.requests,
            robots: self.robots,
            repeated: self.repeated,
            first: self.first,
            last: self.last,
            hosts,
            slots,
            histogram: self.found.histogram,
            exceptions_total: self.found.total,
            exceptions: self.found.listed,
            unjudged: self.unjudged,
            host_connections: self.host_connections,
            slot_connections: self.slot_connections,
        }
    }
}

impl Subject {
    fn take(&mut self, line: &Line, promise: u64, terms: Terms, found: &mut Found) {
        self.requests += u64::from(line.requests.max(1));
        self.repeated += u64::from(line.requests.max(1)) - 1;
        self.promise_ms_min = Some(self.promise_ms_min.map_or(promise, |min| min.min(promise)));
        self.promise_ms_max = Some(self.promise_ms_max.map_or(promise, |max| max.max(promise)));
        let mut new = Request {
            began: line.at,
            ended: line.ended().0,
            promise,
            url: line.url.as_str().into(),
            rest: None,
            apart: None,
            at_once: 0,
            after: None,
        };
        // Requests that ended before this start are ever further away, except for reordered lines.
        let mut over = 0;
        for other in self.window.iter_mut().rev() {
            if other.began <= new.began {
                new.meets(other.began, other.ended, &other.url);
                over += usize::from(other.ended <= new.began);
                if over > DISORDER_MAX {
                    break;
                }
            } else {
                // The one that took long and began first.
                other.meets(new.began, new.ended, &new.url);
            }
        }
        self.window.push_back(new);
        if self.window.len() > WINDOW_MAX {
            self.judge_first(terms, found);
        }
    }

    /// Handles a line of an earlier version that stands for several requests: the repeated requests had no delay.
    fn repeat(&mut self, line: &Line, promise: u64, terms: Terms, found: &mut Found) {
        for _ in 1..line.requests.min(REPEATS_MAX) {
            if promise <= ROUNDING_MS {
                return;
            }
            self.exceptions += 1;
            found.total += 1;
            (self.rest_ms_min, self.promise_ms_there, self.ratio_min) = (Some(0), Some(promise), Some(0));
            if terms.in_histogram {
                found.histogram[0] += 1;
            }
            if found.listed.len() < EXCEPTIONS_MAX {
                found.listed.push(Exception {
                    subject: self.name.clone(),
                    kind: terms.rest,
                    at: line.at,
                    had: 0,
                    promised: promise,
                    url: line.url.clone(),
                    after: Some(line.url.clone()),
                });
            }
        }
    }

    /// Drops requests that no later line can overlap, except the last one: the next delay is counted from its end.
    fn forget(&mut self, before: u64, terms: Terms, found: &mut Found) {
        while self.window.len() > 1 && self.window.front().is_some_and(|first| first.ended < before) {
            self.judge_first(terms, found);
        }
        self.window.shrink_to_fit();
    }

    fn end(&mut self, terms: Terms, found: &mut Found) {
        while !self.window.is_empty() {
            self.judge_first(terms, found);
        }
    }

    fn judge_first(&mut self, terms: Terms, found: &mut Found) {
        let Some(request) = self.window.pop_front() else { return };
        self.at_once_max = self.at_once_max.max(request.at_once + 1);
        if let Some(apart) = request.apart {
            self.apart_ms_min = Some(self.apart_ms_min.map_or(apart, |min| min.min(apart)));
        }
        // Where several requests at once are allowed, their beginnings lie as far apart as the rest.
        let overlaps = request.at_once > 0;
        let rest = match (request.rest, request.apart) {
            (Some(rest), Some(apart)) if overlaps => Some(rest.min(apart)),
            (None, apart) if overlaps => apart,
            (rest, _) => rest,
        };
        if let Some(rest) = rest {
            if self.rest_ms_min.is_none_or(|min| rest < min) {
                self.rest_ms_min = Some(rest);
                (self.promise_ms_there, self.rest_at) = (Some(request.promise), Some(request.began));
            }
            let ratio = ratio(rest, request.promise);
            if let Some(ratio) = ratio {
                self.ratio_min = Some(self.ratio_min.map_or(ratio, |min| min.min(ratio)));
            }
            if terms.in_histogram
                && let Some(ratio) = ratio
            {
                found.histogram[RATIOS.iter().rposition(|begin| *begin <= ratio).unwrap_or(0)] += 1;
            }
        }
        let mut exception = |kind, had, promised| {
            self.exceptions += 1;
            found.total += 1;
            if found.listed.len() < EXCEPTIONS_MAX {
                found.listed.push(Exception {
                    subject: self.name.clone(),
                    kind,
                    at: request.began,
                    had,
                    promised,
                    url: request.url.to_string(),
                    after: request.after.as_deref().map(str::to_owned),
                });
            }
        };
        if request.at_once + 1 > terms.connections {
            exception(terms.at_once, u64::from(request.at_once) + 1, u64::from(terms.connections));
        } else if let Some(rest) = rest.filter(|rest| rest + ROUNDING_MS < request.promise) {
            exception(terms.rest, rest, request.promise);
        }
    }
}

impl Request {
    /// Compares with another request of the same subject, which did not begin later.
    fn meets(&mut self, began: u64, ended: u64, url: &str) {
        let apart = self.began - began;
        let nearer = if ended > self.began {
            self.at_once += 1;
            self.apart.is_none_or(|min| apart < min)
        } else {
            let rest = self.began - ended;
            let nearer = self.rest.is_none_or(|min| rest < min);
            if nearer {
                self.rest = Some(rest);
            }
            nearer
        };
        self.apart = Some(self.apart.map_or(apart, |min| min.min(apart)));
        if nearer {
            self.after = Some(url.into());
        }
    }
}

/// Ratio in hundredths; none without a promise. Compensates for the rounding error.
fn ratio(rest: u64, promise: u64) -> Option<u64> {
    let rest = if rest < promise { (rest + ROUNDING_MS).min(promise) } else { rest };
    (promise > 0).then(|| rest.saturating_mul(100) / promise)
}

#[cfg(test)]
mod tests;
