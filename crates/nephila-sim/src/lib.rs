//! The frontier in a world made from one seed.
//!
//! One thread runs one [`harness::Sim`]: a frontier, its partitions' logs, a web that answers (or does not), an
//! operator, and a wall clock that is set now and then. The seed chooses every event. At any step the process may die;
//! everything that was not in the log is lost, and another process recovers from the log.
//!
//! The checkers stand outside. They keep their own books, from the frontier's requests and the world's answers:
//! [`politeness`] (rests and connections), [`robots`] (which URLs may be fetched, and from which address),
//! [`scope`] (which links and redirects are followed), [`conditions`] (which requests are conditional),
//! [`completeness`] (nothing vanishes, nothing is fetched twice without reason), [`reach`] (no site is given up too
//! early), [`bounds`] (queues and tables stay within their bounds). [`mutants`] tests the checkers: bugs planted on
//! purpose, each of which its own checker must find.
//!
//! Invariant: the same seed gives the same trace, to the bit.

pub mod bounds;
pub mod clock;
pub mod cluster;
pub mod completeness;
pub mod conditions;
mod detours;
mod drain;
mod facts;
mod faults;
pub mod feeds;
pub mod harness;
pub mod mutants;
mod pages;
pub mod politeness;
pub mod reach;
pub mod reflog;
pub mod rng;
pub mod robots;
pub mod scale;
pub mod scope;
pub mod site;
pub mod spiders;
mod web;
pub mod world;

use std::fmt;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found the violation.
    pub checker: Checker,
    /// The observation.
    pub what: String,
}

/// The checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// Rests and connections.
    Politeness,
    /// Which URLs may be fetched, and from which address.
    Robots,
    /// No page out of scope is requested, and no link in scope is left out.
    Scope,
    /// Redirects of pages end or lead on as they should.
    Redirects,
    /// A request is conditional if the archive has the version, and only then.
    Conditions,
    /// Nothing vanishes.
    Completeness,
    /// Nothing is fetched again without reason.
    Repeats,
    /// Hosts that an operator stopped are not requested.
    Operator,
    /// Bounds.
    Bounds,
    /// Everything that is due happens.
    Liveness,
    /// A state replayed from its log equals the state that wrote the log.
    Recovery,
    /// Two nodes never act for one partition.
    Owners,
    /// Everything in the log is in the archive, once.
    Archive,
    /// The same as an independent statement of the rule says.
    Model,
    /// A stream is decided as the seed's pipeline decides.
    Streams,
    /// One seed, one trace.
    Trace,
    /// The frontier itself returned an error.
    Error,
}

impl Violation {
    /// A violation found by this checker.
    pub fn new(checker: Checker, what: impl Into<String>) -> Violation {
        Violation { checker, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.checker, self.what)
    }
}
