//! The frontier in a world made from one seed.
//!
//! One thread runs one [`harness::Sim`]: a frontier, its partitions' logs, a web that answers (or does not), an operator,
//! and a clock that somebody sets now and then. Everything that happens is chosen by the seed. At any step the process
//! may die; what was not in the log is gone, and another begins from what was.
//!
//! The checkers stand outside. They keep their own books, from what the frontier asked for and what the world answered:
//! [`politeness`] (rests and connections), [`robots`] (what may be fetched, and where), [`completeness`] (nothing
//! vanishes, nothing is fetched twice without reason), [`reach`] (no site is given up too early), [`bounds`] (queues and
//! tables stay under their limits). Whether they would notice is shown by [`mutants`]: bugs planted on purpose, each to be found by the checker that is there for
//! it.
//!
//! What always holds: the same seed gives the same trace, to the bit.

pub mod bounds;
pub mod clock;
pub mod cluster;
pub mod completeness;
mod detours;
mod drain;
mod facts;
mod faults;
pub mod feeds;
pub mod harness;
pub mod mutants;
pub mod politeness;
pub mod reach;
pub mod reflog;
pub mod rng;
pub mod robots;
pub mod scale;
mod web;
pub mod world;

use std::fmt;

/// Something that must never be, and was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Who noticed.
    pub checker: Checker,
    /// What was seen.
    pub what: String,
}

/// Who notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// Rests and connections.
    Politeness,
    /// What may be fetched, and from which address.
    Robots,
    /// Nothing vanishes.
    Completeness,
    /// Nothing is fetched again without reason.
    Repeats,
    /// What an operator stopped stays still.
    Operator,
    /// Limits.
    Bounds,
    /// Whatever is due happens.
    Liveness,
    /// A state from its log equals the one that wrote it.
    Recovery,
    /// Two nodes never act for one partition.
    Owners,
    /// Whatever is in the log is in the archive, once.
    Archive,
    /// The same as an independent statement of the rule says.
    Model,
    /// A stream is decided as the seed's pipeline decides it.
    Streams,
    /// One seed, one trace.
    Trace,
    /// The frontier itself gave up.
    Error,
}

impl Violation {
    /// What a checker has to say.
    pub fn new(checker: Checker, what: impl Into<String>) -> Violation {
        Violation { checker, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.checker, self.what)
    }
}
