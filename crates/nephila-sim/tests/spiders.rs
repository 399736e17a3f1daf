//! A node and its spiders in some worlds, and the bugs that the checkers must find. The long run is
//! `cargo xtask sim spiders`.

use nephila_sim::Checker;
use nephila_sim::spiders::{Figures, mutants};

/// Processes killed in the short run.
const DEATHS: u64 = 1_000;

#[test]
fn nothing_is_violated_in_a_thousand_deaths() {
    let mut sum = Figures::default();
    for seed in 1.. {
        let (result, figures) = mutants::run(seed, false);
        assert!(result.is_ok(), "seed {seed}: {}", result.unwrap_err());
        sum.add(&figures);
        if sum.deaths() >= DEATHS {
            break;
        }
    }
    let seldom = [sum.node_deaths, sum.lies, sum.refused, sum.leaves, sum.cancels, sum.resumed];
    let often = [sum.half_open, sum.stalls, sum.lost, sum.repeats];
    let is_enough = seldom.iter().all(|count| *count > 10) && often.iter().all(|count| *count > 100);
    assert!(is_enough && sum.pages > 5_000, "worlds to which nothing happens show nothing: {sum}");
    assert!(sum.repeats <= sum.open_at_faults, "{sum}");
}

#[test]
fn ten_seeds_give_the_same_trace_twice() {
    for seed in 1..=10 {
        assert_eq!(mutants::run(seed, false).0, mutants::run(seed, false).0, "seed {seed}");
    }
}

#[test]
fn every_bug_planted_between_node_and_spiders_is_found_by_its_checker() {
    for mutant in mutants::MUTANTS {
        let found = mutant.hunt(1);
        assert!(found.is_ok(), "{}", found.unwrap_err());
    }
}

#[test]
fn every_checker_of_spiders_that_matters_most_has_a_bug_to_find() {
    for checker in [Checker::Politeness, Checker::Archive] {
        assert!(mutants::MUTANTS.iter().any(|mutant| mutant.checkers.contains(&checker)), "{checker:?}");
    }
}
