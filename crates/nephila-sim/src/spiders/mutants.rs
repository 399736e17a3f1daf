//! Bugs planted on purpose between a node and its spiders, and the checker that must notice each.

use nephila_core::planted::{self, Bug};

use super::{Figures, Planted, Sim, TROUBLE};
use crate::{Checker, Violation};

/// Maximum number of worlds in which a planted bug must be found.
pub const WORLDS_MAX: u64 = 60;

/// A bug, its place, and the checkers that must find the bug.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its name on the command line.
    pub name: &'static str,
    /// The bug in the core, if any.
    pub core: Option<Bug>,
    /// The bug in the shell, if any.
    pub shell: Planted,
    /// The checkers that must find the bug.
    pub checkers: &'static [Checker],
}

const fn core(name: &'static str, bug: Bug, checkers: &'static [Checker]) -> Mutant {
    Mutant { name, core: Some(bug), shell: Planted::Nothing, checkers }
}

/// All of them.
pub const MUTANTS: &[Mutant] = &[
    core("foreign-result", Bug::ForeignResult, &[Checker::Archive]),
    core("passed-on-at-close", Bug::PassedOnAtClose, &[Checker::Politeness]),
    core("lease-from-arrival", Bug::LeaseFromArrival, &[Checker::Politeness]),
    core("share-forgotten", Bug::ShareForgotten, &[Checker::Politeness]),
    Mutant { name: "stored-early", core: None, shell: Planted::StoredEarly, checkers: &[Checker::Archive] },
];

/// The mutant of this name.
pub fn by_name(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}

impl Mutant {
    /// Runs one world with this bug.
    pub fn run(&self, seed: u64, verbose: bool) -> (Result<u64, Violation>, Figures) {
        planted::set(self.core);
        let mut sim = Sim::new(seed);
        (sim.planted, sim.verbose) = (self.shell, verbose);
        let result = sim.run(TROUBLE);
        planted::set(None);
        (result, sim.figures)
    }

    /// Runs worlds until the checker for the bug finds the bug; returns the number of worlds and the violation.
    pub fn hunt(&self, seed: u64) -> Result<(u64, Violation), String> {
        for n in 0..WORLDS_MAX {
            match self.run(seed + n, false).0 {
                Err(violation) if self.checkers.contains(&violation.checker) => {
                    return Ok((n + 1, violation));
                }
                _ => {}
            }
        }
        Err(format!("{}: {:?} did not notice in {WORLDS_MAX} worlds", self.name, self.checkers))
    }
}

/// Runs one world without a bug.
pub fn run(seed: u64, verbose: bool) -> (Result<u64, Violation>, Figures) {
    let mut sim = Sim::new(seed);
    sim.verbose = verbose;
    let result = sim.run(TROUBLE);
    (result, sim.figures)
}
