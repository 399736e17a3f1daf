//! The work of a verdict: counted in bytes read, not in time, so that the figures are the same everywhere.
//!
//! Invariants: a rule costs at most its own length and the URL's, in each of two forms; a verdict at most the sum over
//! its rules. Clocks are read only where the guarantee itself is about time, and then with a large margin. The figures
//! are shown with `--nocapture`.
#![allow(clippy::disallowed_macros)]

use std::time::{Duration, Instant};

use crate::robots::{ROBOTS_BYTES_MAX, Robots};
use crate::url::URL_BYTES_MAX;

fn robots(file: &str) -> Robots {
    Robots::parse(file.as_bytes(), "nephila")
}

/// The number of bytes that one verdict reads. No path here is allowed by chance: each must have the given verdict.
fn work(robots: &Robots, path: &str, allowed: bool) -> usize {
    let mut sum = 0;
    let verdict = robots.verdict_with_work(path, |bytes| sum += bytes);
    assert_eq!(verdict.allowed, allowed);
    sum
}

/// `/*a*a*a…b` with this many wildcards.
fn stars(count: usize) -> Robots {
    robots(&format!(
        "User-agent: *\nDisallow: /{}*b$\nDisallow: /{}*b",
        "*a".repeat(count),
        "*a".repeat(count)
    ))
}

/// The number of bytes of a file of two such rules and a path, in both forms, with the path read once more.
fn bound(stars: usize, path: &str) -> usize {
    2 * 2 * (2 * (2 * stars + 4) + path.len()) + path.len()
}

#[test]
fn work_grows_with_the_sum_of_wildcards_and_path_not_with_their_product() {
    // The path holds a `b`, but before the last `a`, so that no rule is passed over unread.
    let path = |length: usize| format!("/b{}", "a".repeat(length));
    for length in [1_000, 2_000, 4_000, 8_000] {
        for count in [1, 10, 100, 1_000] {
            let path = path(length);
            let found = count > length || length == 0;
            let work = work(&stars(count), &path, !found);
            println!("{count} wildcards, path of {length}: {work} bytes");
            assert!(work <= bound(count, &path), "{count} wildcards, path of {length}: {work} bytes");
        }
    }
    // Twice the path is at most twice the work; a thousand times the wildcards adds what they are long.
    let at = |count, length| work(&stars(count), &path(length), true);
    assert!(at(100, 8_000) <= 2 * at(100, 4_000));
    assert!(at(1_000, 8_000) <= at(1, 8_000) + bound(1_000, ""));
}

#[test]
fn pieces_that_almost_fit_everywhere_are_not_compared_everywhere_in_full() {
    // Searching `aaa…b` in `aaa…` octet by octet would take the product of both lengths. The count cannot see inside
    // the search, so the clock does: 100 verdicts at 4,000 by 8,000 octets are 3.2 billion steps done that way.
    let robots = robots(&format!("User-agent: *\nDisallow: /*{}b{}", "a".repeat(2_000), "a".repeat(2_000)));
    let path = format!("/ab{}", "a".repeat(8_000));
    let start = Instant::now();
    for _ in 0..100 {
        assert!(robots.verdict(&path).allowed);
    }
    println!("4,000 octets in 8,000: {:?} each", start.elapsed() / 100);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn the_worst_file_of_500_kib_against_the_longest_url_is_bounded() {
    // Few rules with very many wildcards, many with a few, and as many as there is room for. Every byte they need is in
    // the URLs, so that none is passed over unread, but in an order that lets each fail only at the end.
    let rule = |count: usize, n: usize| {
        format!("Disallow: /{}*b*{}*{}*{}\n", "*a".repeat(count), n / 100, n / 10 % 10, n % 10)
    };
    let long: String = (0..60).map(|n| rule(4_000, n)).collect();
    let some: String = (0..1_000).map(|n| rule(230, n)).collect();
    // Without the digits of the escape below.
    let order: String = ('0'..='z').filter(|c| c.is_ascii_alphanumeric() && !"2F".contains(*c)).collect();
    let mut many = String::new();
    for (at, first) in order.char_indices() {
        for earlier in order[..at].chars() {
            order.chars().for_each(|last| many.push_str(&format!("disallow:*{first}*{earlier}*{last}\n")));
        }
    }

    let ordered: String =
        order.chars().map(|c| c.to_string().repeat((URL_BYTES_MAX - 10) / order.len())).collect();
    // A piece that is nowhere, while all its pairs are everywhere.
    let near: String = order
        .chars()
        .flat_map(|c| order.chars().map(move |d| (c, d)))
        .flat_map(|(c, d)| order.chars().take(8).map(move |e| format!("disallow:*aaaab*{c}*{d}*{e}\n")))
        .collect();
    let misses = format!("{}{order}", "aaab".repeat((URL_BYTES_MAX - 100) / 4));
    let letters = format!("b0123456789{}", "a".repeat(URL_BYTES_MAX - 20));
    for (name, rules, path) in [
        ("few long", &long, &letters),
        ("some", &some, &letters),
        ("many short", &many, &ordered),
        ("near misses", &near, &misses),
    ] {
        let robots = robots(&format!("User-agent: *\n{rules}"));
        // The second time with a query that has a second form: everything twice.
        for (forms, path) in [(1, format!("/{path}")), (2, format!("/?%2F{path}"))] {
            let start = Instant::now();
            let work = work(&robots, &path, true);
            let took = start.elapsed();
            let rules = robots.rule_count();
            let bound = path.len() + rules * (1 + forms * (path.len() + 2)) + forms * 2 * ROBOTS_BYTES_MAX;
            println!(
                "{name}: {rules} rules, URL of {} octets, {forms} forms: {work} bytes of at most {bound}, {took:?}",
                path.len()
            );
            assert!(work <= bound, "{name}: {work} bytes of at most {bound}");
            assert!(work >= bound / 4, "{name}: {work} bytes of at most {bound}: not the worst file");
            assert!(took < Duration::from_secs(5), "{name}: {took:?}");
        }
    }
}

#[test]
fn rob_23_ten_thousand_rules_take_a_millisecond_and_400_000_are_cut() {
    let mut many = String::from("User-agent: *\n");
    for n in 0..10_000 {
        many.push_str(&format!("Disallow: /*x{n}*y\n"));
    }
    let robots = Robots::parse(many.as_bytes(), "nephila");
    assert_eq!(robots.rule_count(), 10_000);
    for path in [format!("/{}", "some/path-x/".repeat(8)), format!("/{}", "0123456789xy".repeat(170))] {
        let start = Instant::now();
        for _ in 0..20 {
            assert!(robots.verdict(&path).allowed);
        }
        let each = start.elapsed() / 20;
        // 1 ms is the promise of an optimised build.
        assert!(each < Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 1 }), "{each:?}");
    }

    // The limit on bytes is the limit on rules.
    let flood =
        "User-agent: *\n".to_owned() + &(0..400_000).map(|n| format!("Disallow: /{n}\n")).collect::<String>();
    let robots = Robots::parse(flood.as_bytes(), "nephila");
    assert!(robots.rule_count() <= ROBOTS_BYTES_MAX / 8 && robots.rule_count() > 20_000);
    assert!(!robots.verdict("/77").allowed);
}
