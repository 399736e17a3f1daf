//! Judges: the behaviour of a crawler, seen from the server's side alone.
//!
//! Every judge reads a [`Log`] and returns a [`Report`]. None relies on a crawler's own claims, and each is tested with
//! journals that hold exactly one violation. Invariants: a journal with losses is never clean, and a report names at
//! most [`VIOLATIONS_MAX`] violations but counts all.

mod complete;
mod delays;
mod politeness;
mod repeats;
mod retry_after;
mod robots;

use std::fmt;
use std::net::IpAddr;

pub use complete::check_complete;
pub use delays::CrawlDelays;
pub use politeness::Politeness;
pub use repeats::Repeats;
pub use retry_after::RetryAfter;
pub use robots::{Robots, RulesOf};

use crate::journal::{Log, Request};

/// Maximum number of violations that a report names.
pub const VIOLATIONS_MAX: usize = 100;

/// The findings of a judge.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// The first violations, by time where they have one.
    pub violations: Vec<Violation>,
    /// Number of violations.
    pub total: u64,
    /// Number of judged events; a report about nothing proves nothing.
    pub judged: u64,
}

/// One violation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// When, in microseconds of the journal; 0 for something that never happened.
    pub at_us: u64,
    /// The host, address or URL concerned.
    pub subject: String,
    /// The fault.
    pub fault: Fault,
}

/// The kinds of faults.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The journal misses events, so politeness cannot be proved.
    Lost(u64),
    /// A host was requested again too soon (crawl delay).
    HostRest {
        /// The actual rest, in microseconds.
        had_us: u64,
        /// The required rest.
        needed_us: u64,
    },
    /// An address was requested again too soon.
    AddressRest {
        /// The actual rest, in microseconds.
        had_us: u64,
        /// The required rest.
        needed_us: u64,
    },
    /// A host had this many requests at once.
    HostBusy(usize),
    /// An address had this many requests at once.
    AddressBusy(usize),
    /// A host had this many connections at once.
    HostConnections(usize),
    /// An address had this many connections at once.
    AddressConnections(usize),
    /// A page was requested before robots.txt.
    RobotsUnread,
    /// A page was requested by a robots.txt this old, in microseconds.
    RobotsStale(u64),
    /// A page was requested that robots.txt closes.
    Disallowed,
    /// The same URL was requested this many times.
    Repeat(u32),
    /// A URL was never requested.
    Missing,
    /// A URL was requested that no crawl discovers, or by the wrong scheme.
    Unexpected,
    /// A host was requested before the time named in its `Retry-After`.
    RetryAfter {
        /// The actual rest, in microseconds.
        had_us: u64,
        /// The requested rest.
        needed_us: u64,
    },
    /// A host was requested again before the end of the `Crawl-delay` in the robots.txt read before.
    CrawlDelay {
        /// The actual rest, in microseconds.
        had_us: u64,
        /// The required rest.
        needed_us: u64,
    },
}

impl Report {
    /// A report that already says whether the journal is whole.
    fn new(log: &Log) -> Report {
        let mut report = Report::default();
        if log.lost > 0 {
            report.add(0, "journal", Fault::Lost(log.lost));
        }
        report
    }

    fn add(&mut self, at_us: u64, subject: impl Into<String>, fault: Fault) {
        self.total += 1;
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(Violation { at_us, subject: subject.into(), fault });
        }
    }

    /// Whether something was judged and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.total == 0 && self.judged > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} judged, {} violations", self.judged, self.total)?;
        for violation in &self.violations {
            let at = violation.at_us as f64 / 1e6;
            write!(f, "\n  {at:.6} s {}: {:?}", violation.subject, violation.fault)?;
        }
        Ok(())
    }
}

/// The host of a request in the sense of politeness and robots.txt: scheme and authority.
fn host_key(request: &Request) -> String {
    format!("{}://{}", if request.tls { "https" } else { "http" }, request.host)
}

fn url(request: &Request) -> String {
    format!("{}{}", host_key(request), request.path)
}

fn is_robots(request: &Request) -> bool {
    matches!(request.path.as_str(), "/robots.txt" | "/robots-real.txt")
}

/// A request of a hand-made journal, from `start_us` to `end_us`.
#[doc(hidden)]
pub fn sample(host: &str, path: &str, connection: u64, start_us: u64, end_us: u64) -> Request {
    Request {
        connection,
        start_us,
        end_us,
        virtual_s: 0,
        local: IpAddr::from([127, 77, 0, 1]),
        tls: false,
        http2: false,
        method: "GET".into(),
        host: host.into(),
        path: path.to_owned(),
        user_agent: None,
        accept_encoding: None,
        condition: None,
        status: 200,
        retry_after: None,
        bytes: 0,
        is_complete: true,
    }
}
