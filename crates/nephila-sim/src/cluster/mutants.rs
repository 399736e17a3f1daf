//! Bugs planted on purpose in a cluster, and the checker that must notice each.

use nephila_core::planted::{self, Bug};

use super::{Figures, Planted, Sim, TROUBLE};
use crate::{Checker, Violation};

/// Maximum number of worlds in which a planted bug must be found.
pub const WORLDS_MAX: u64 = 120;

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

const fn shell(name: &'static str, shell: Planted, checkers: &'static [Checker]) -> Mutant {
    Mutant { name, core: None, shell, checkers }
}

/// All of them.
pub const MUTANTS: &[Mutant] = &[
    shell("m1-no-lease-check", Planted::NoLeaseCheck, &[Checker::Owners]),
    shell("m2-no-rest-at-take-over", Planted::NoRest, &[Checker::Politeness]),
    core("m3-slot-per-node", Bug::SlotPerNode, &[Checker::Politeness]),
    shell("m6-links-late", Planted::LinksLate, &[Checker::Completeness]),
    shell("m8-report-early", Planted::ReportEarly, &[Checker::Archive]),
    shell("m13-swap-blindly", Planted::SwapBlindly, &[Checker::Owners]),
    shell("spread-early", Planted::SpreadEarly, &[Checker::Owners, Checker::Repeats, Checker::Politeness]),
    core("m14-replay-twice", Bug::ReplayTwice, &[Checker::Recovery]),
    core("m18-chain-unchecked", Bug::ChainUnchecked, &[Checker::Recovery]),
    shell("m19-put-anew", Planted::PutAnew, &[Checker::Archive]),
    core("lease-from-its-answer", Bug::LeaseFromAnswer, &[Checker::Owners]),
    core("owner-does-not-wait", Bug::OwnerDoesNotWait, &[Checker::Politeness]),
    core("turn-forgets-rest", Bug::TurnForgetsRest, &[Checker::Politeness]),
];

/// The mutant of this name.
pub fn by_name(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}

impl Mutant {
    /// Runs one cluster with this bug.
    pub fn run(&self, seed: u64, verbose: bool) -> (Result<u64, Violation>, Figures) {
        planted::set(self.core);
        let mut sim = Sim::new(seed);
        (sim.planted, sim.verbose) = (self.shell, verbose);
        let result = sim.run(TROUBLE);
        planted::set(None);
        (result, sim.figures)
    }

    /// Runs clusters until the checker for the bug finds the bug; returns the number of worlds and the violation.
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

/// Runs one cluster without a bug.
pub fn run(seed: u64, verbose: bool) -> (Result<u64, Violation>, Figures) {
    let mut sim = Sim::new(seed);
    sim.verbose = verbose;
    let result = sim.run(TROUBLE);
    (result, sim.figures)
}
