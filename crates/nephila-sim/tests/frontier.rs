//! The frontier in a few hundred worlds, and the bugs that the checkers must find. The long run is `cargo xtask sim`.

use nephila_sim::Checker;
use nephila_sim::mutants::{self, MUTANTS, Mutant, STEPS, Site};

/// Steps of a world here: a world is drained at its end, so short ones show the end more often.
const STEPS_SHORT: u64 = 4_000;

#[test]
fn nothing_is_violated_in_a_hundred_and_fifty_worlds() {
    let (mut pages, mut redirects, mut moved, mut unchanged) = (0, 0, 0, 0);
    for seed in 1..=150 {
        let (result, figures) = mutants::run(seed, STEPS_SHORT);
        assert!(result.is_ok(), "seed {seed}: {}", result.unwrap_err());
        pages += figures.pages;
        redirects += figures.redirects;
        moved += figures.moved;
        unchanged += figures.unchanged;
    }
    assert!(pages > 3_000, "worlds in which nothing is fetched show nothing: {pages} pages");
    let counts = [redirects / 100, moved, unchanged / 10];
    assert!(
        counts.iter().all(|count| *count > 10),
        "hundreds of redirects, moved seeds, tens of 304s: {counts:?}"
    );
}

#[test]
fn a_hundred_seeds_give_the_same_trace_twice() {
    for seed in 1..=100 {
        let (first, second) = (mutants::run(seed, 2_000).0, mutants::run(seed, 2_000).0);
        assert_eq!(first, second, "seed {seed}");
    }
}

fn is_found(mutant: &Mutant) {
    let found = mutant.hunt(1, STEPS);
    assert!(found.is_ok(), "{}", found.unwrap_err());
}

#[test]
fn every_planted_bug_is_found_by_its_checker() {
    MUTANTS.iter().filter(|mutant| matches!(mutant.site, Site::Core(_) | Site::LinksLate)).for_each(is_found);
}

#[test]
fn a_hash_of_32_bits_is_found_where_there_are_many_urls() {
    let mutant = mutants::by_name("m7-url-hash-32").expect("it is in the list");
    is_found(mutant);
    assert_eq!(mutants::large(1, 20_000), Ok(20_000), "without the bug none is missing");
}

#[test]
fn the_order_of_a_hash_table_is_found_by_running_twice() {
    is_found(mutants::by_name("m21-hash-order").expect("it is in the list"));
}

#[test]
fn every_checker_has_a_bug_to_find() {
    let all = [
        Checker::Politeness,
        Checker::Robots,
        Checker::Scope,
        Checker::Redirects,
        Checker::Conditions,
        Checker::Completeness,
        Checker::Operator,
        Checker::Bounds,
        Checker::Liveness,
        Checker::Recovery,
        Checker::Trace,
    ];
    for checker in all {
        assert!(MUTANTS.iter().any(|mutant| mutant.checkers.contains(&checker)), "{checker:?}");
    }
}
