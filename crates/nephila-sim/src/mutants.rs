//! Bugs planted on purpose, and the checker that must notice each.

use nephila_core::planted::{self, Bug};

use crate::harness::{Figures, Sim};
use crate::world::World;
use crate::{Checker, Violation};

/// Number of steps of one world.
pub const STEPS: u64 = 20_000;

/// Maximum number of worlds in which a planted bug must be found.
pub const WORLDS_MAX: u64 = 60;

/// Number of pages of the world in which short hashes must be found.
pub const LARGE_PAGES: u32 = 300_000;

thread_local! {
    /// Whether worlds run in this thread print every event.
    pub static VERBOSE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A bug, its place, and the checkers that must find the bug.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// Its name on the command line.
    pub name: &'static str,
    /// The place of the bug.
    pub site: Site,
    /// The checkers that must find the bug.
    pub checkers: &'static [Checker],
}

/// Where a bug is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// In the core.
    Core(Bug),
    /// In the core; only a large world can show the bug.
    Large(Bug),
    /// In the core; only two runs can show the bug.
    Trace(Bug),
    /// In the worker: pages are reported before their links are offered.
    LinksLate,
}

const fn core(name: &'static str, bug: Bug, checkers: &'static [Checker]) -> Mutant {
    Mutant { name, site: Site::Core(bug), checkers }
}

/// All of them.
pub const MUTANTS: &[Mutant] = &[
    core("m4-robots-raw-path", Bug::RobotsRawPath, &[Checker::Robots]),
    core("m5-robots-error-allows", Bug::RobotsErrorAllows, &[Checker::Robots]),
    Mutant { name: "m6-links-late", site: Site::LinksLate, checkers: &[Checker::Completeness] },
    Mutant { name: "m7-url-hash-32", site: Site::Large(Bug::UrlHash32), checkers: &[Checker::Completeness] },
    core("m10-fold-twice", Bug::FoldTwice, &[Checker::Completeness, Checker::Liveness]),
    core("m14-replay-twice", Bug::ReplayTwice, &[Checker::Recovery]),
    core("m16-offers-unbounded", Bug::OffersUnbounded, &[Checker::Bounds]),
    core("m17-rest-by-wall-clock", Bug::RestByWallClock, &[Checker::Politeness]),
    core("m20-tickets-never-expire", Bug::TicketsNeverExpire, &[Checker::Liveness]),
    Mutant { name: "m21-hash-order", site: Site::Trace(Bug::HashOrder), checkers: &[Checker::Trace] },
    core("floor-too-far", Bug::FloorTooFar, &[Checker::Completeness, Checker::Liveness]),
    core("slot-forgets-rest", Bug::SlotForgetsRest, &[Checker::Politeness]),
    core("robots-not-judged-again", Bug::RobotsNotJudgedAgain, &[Checker::Robots]),
    core("held-at-hand", Bug::HeldAtHand, &[Checker::Operator]),
    core("errand-without-rest", Bug::ErrandWithoutRest, &[Checker::Politeness]),
    core("given-up-early", Bug::GivenUpEarly, &[Checker::Completeness]),
    core("rest-not-durable", Bug::RestNotDurable, &[Checker::Politeness]),
    core("links-keep-depth", Bug::LinksKeepDepth, &[Checker::Scope]),
    core("redirects-uncounted", Bug::RedirectsUncounted, &[Checker::Redirects]),
    core("condition-unstored", Bug::ConditionUnstored, &[Checker::Conditions]),
];

/// The mutant of this name.
pub fn by_name(name: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.name == name)
}

impl Mutant {
    /// Runs one world with this bug.
    pub fn run(&self, seed: u64, steps: u64) -> (Result<u64, Violation>, Figures) {
        match self.site {
            Site::Core(bug) => with(bug, || run(seed, steps)),
            Site::Large(bug) => with(bug, || (large(seed, LARGE_PAGES), Figures::default())),
            Site::Trace(bug) => with(bug, || {
                let ((first, figures), (second, _)) = (run(seed, steps), run(seed, steps));
                let same = match (first, second) {
                    (Ok(first), Ok(second)) if first != second => {
                        Err(Violation::new(Checker::Trace, format!("{first:x} and {second:x} from one seed")))
                    }
                    (first, Ok(_)) => first,
                    (_, second) => second,
                };
                (same, figures)
            }),
            Site::LinksLate => {
                let mut sim = Sim::new(seed);
                sim.links_late = true;
                sim.verbose = VERBOSE.get();
                (sim.run(steps), sim.figures)
            }
        }
    }

    /// Runs worlds until the checker for the bug finds the bug; returns the number of worlds and the violation. Other
    /// checkers may report before: a bug seldom breaks one promise alone.
    pub fn hunt(&self, seed: u64, steps: u64) -> Result<(u64, Violation), String> {
        for n in 0..WORLDS_MAX {
            match self.run(seed + n, steps).0 {
                Err(violation) if self.checkers.contains(&violation.checker) => {
                    return Ok((n + 1, violation));
                }
                _ => {}
            }
        }
        Err(format!(
            "{}: {:?} did not notice in {WORLDS_MAX} worlds of {steps} steps",
            self.name, self.checkers
        ))
    }
}

/// Runs one world without a bug.
pub fn run(seed: u64, steps: u64) -> (Result<u64, Violation>, Figures) {
    let mut sim = Sim::new(seed);
    sim.verbose = VERBOSE.get();
    let result = sim.run(steps);
    (result, sim.figures)
}

/// Offers every page of a large site and checks that each is known.
pub fn large(seed: u64, pages: u32) -> Result<u64, Violation> {
    Sim::of(World::large(seed, pages), seed).offer_everything()
}

fn with<T>(bug: Bug, run: impl FnOnce() -> T) -> T {
    planted::set(Some(bug));
    let result = run();
    planted::set(None);
    result
}
