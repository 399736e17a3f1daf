//! Whole clusters in some worlds, and the bugs that the checkers must find. The long run is `cargo xtask sim cluster`.

use nephila_sim::Checker;
use nephila_sim::cluster::{Figures, mutants};

#[test]
fn nothing_is_violated_in_sixty_clusters() {
    let mut sum = Figures::default();
    for seed in 1..=60 {
        let (result, figures) = mutants::run(seed, false);
        assert!(result.is_ok(), "seed {seed}: {}", result.unwrap_err());
        sum.add(&figures);
    }
    let enough =
        sum.kills > 200 && sum.sleeps > 100 && sum.fenced > 100 && sum.opened > 1_000 && sum.pages > 1_000;
    assert!(enough, "clusters to which nothing happens show nothing: {sum}");
}

// In this world a node wakes up with a part of a log, read before that log had a hole.
#[test]
fn seed_7303_is_clean() {
    let (result, _) = mutants::run(7_303, false);
    assert!(result.is_ok(), "{}", result.unwrap_err());
}

#[test]
fn twenty_seeds_give_the_same_trace_twice() {
    for seed in 1..=20 {
        assert_eq!(mutants::run(seed, false).0, mutants::run(seed, false).0, "seed {seed}");
    }
}

#[test]
fn every_bug_planted_in_a_cluster_is_found_by_its_checker() {
    for mutant in mutants::MUTANTS {
        let found = mutant.hunt(1);
        assert!(found.is_ok(), "{}", found.unwrap_err());
    }
}

#[test]
fn every_checker_of_clusters_has_a_bug_to_find() {
    let all =
        [Checker::Owners, Checker::Politeness, Checker::Completeness, Checker::Archive, Checker::Recovery];
    for checker in all {
        assert!(mutants::MUTANTS.iter().any(|mutant| mutant.checkers.contains(&checker)), "{checker:?}");
    }
}
