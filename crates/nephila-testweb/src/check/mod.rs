//! Judges: what a crawler did, seen from the server's side alone.
//!
//! Every judge reads a [`Log`] and returns a [`Report`]. None believes anything the crawler says about itself, and each
//! is tested with journals that hold exactly one violation. What always holds: a journal with losses is never clean,
//! and a report names at most [`VIOLATIONS_MAX`] violations while it counts all.

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

/// Violations a report names.
pub const VIOLATIONS_MAX: usize = 100;

/// What a judge found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// The first violations, by time where they have one.
    pub violations: Vec<Violation>,
    /// How many there are.
    pub total: u64,
    /// How many things were judged; a report about nothing proves nothing.
    pub judged: u64,
}

/// One thing that should not have happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// When, in microseconds of the journal; 0 for what never happened.
    pub at_us: u64,
    /// The host, address or URL it is about.
    pub subject: String,
    /// What is wrong.
    pub fault: Fault,
}

/// What can be wrong.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The journal misses events, so it cannot show that a crawler was good.
    Lost(u64),
    /// A host was asked again too soon.
    HostRest {
        /// The rest it had, in microseconds.
        had_us: u64,
        /// The rest it should have had.
        needed_us: u64,
    },
    /// An address was asked again too soon.
    AddressRest {
        /// The rest it had, in microseconds.
        had_us: u64,
        /// The rest it should have had.
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
    /// A page was asked for before robots.txt had been.
    RobotsUnread,
    /// A page was asked for by a robots.txt this old, in microseconds.
    RobotsStale(u64),
    /// A page was asked for that robots.txt closes.
    Disallowed,
    /// The same thing was asked for this many times.
    Repeat(u32),
    /// Something was never asked for.
    Missing,
    /// Something was asked for that no crawl hears of, or by the wrong scheme.
    Unexpected,
    /// A host was asked before the time it had named in `Retry-After`.
    RetryAfter {
        /// How long it was left alone, in microseconds.
        had_us: u64,
        /// How long it had asked for.
        needed_us: u64,
    },
    /// A host was asked again before the `Crawl-delay` it had been read to ask for.
    CrawlDelay {
        /// The rest it had, in microseconds.
        had_us: u64,
        /// The rest it should have had.
        needed_us: u64,
    },
}

impl Report {
    /// A report that already knows whether the journal is whole.
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

/// The host of a request as politeness and robots.txt understand it: scheme and authority.
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
