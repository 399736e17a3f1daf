//! A million random pairs of file and URL, judged by the product and by the second reader, which must agree.
//!
//! Files and URLs are made of few, well-chosen pieces so that rules often match, tie and overlap; half of the URLs are
//! made from a rule of the file. The same seed gives the same pairs. Planted mistakes show that disagreement is found.
//! The figures are shown with `--nocapture`.
#![allow(clippy::disallowed_macros)]

use std::fmt::Write;

use super::second::{Bug, Rules};
use crate::robots::Robots;

/// Number of pairs of a file and a URL.
const PAIRS: usize = 1_000_000;

/// URLs for each file.
const PATHS_PER_FILE: usize = 25;

/// A planted mistake must show within this many pairs.
const PAIRS_UNTIL_FOUND_MAX: usize = 5_000;

const SEED: u64 = 0x9309_2022;

/// The pieces of rules and URLs: separators, letters in several spellings, characters with a meaning in rules, broken
/// and whole escapes, and characters of two, three and four bytes.
const PIECES: [&str; 36] = [
    "/",
    "/",
    "/",
    "a",
    "a",
    "a",
    "b",
    "b",
    "ab",
    "*",
    "*",
    "*",
    "$",
    ".",
    "?",
    "?",
    "%61",
    "%62",
    "%2f",
    "%2F",
    "/",
    "%",
    "2",
    "f",
    "F",
    "%2A",
    "%24",
    "%3a",
    ":",
    "é",
    "%c3%A9",
    "ツ",
    "%E3%83%84",
    "😀",
    "=",
    " ",
];

/// Pseudo-random numbers: xorshift with a multiplication behind.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn value(&mut self) -> String {
        let mut value =
            String::from(if self.one_in(12) { self.pick(&["*", "", "a", "%2F", "$"]) } else { "/" });
        for _ in 0..self.below(6) {
            value.push_str(self.pick(&PIECES));
        }
        if self.one_in(5) {
            value.push('$');
        }
        value
    }

    /// A file, and the values of its rules.
    fn file(&mut self) -> (String, Vec<String>) {
        let mut file = String::from(self.pick(&["", "", "", "\u{feff}", "# c\n", "Disallow: /\n"]));
        let mut values = Vec::new();
        for _ in 0..1 + self.below(3) {
            for _ in 0..1 + self.below(2) {
                let key = self.pick(&["User-agent: ", "User-agent:", "user-agent : ", "Useragent: "]);
                let name = self.pick(&["*", "*", "nephila", "Nephila/1.0", "other", "nephila-news", ""]);
                let end = self.pick(&["\n", "\r\n", "\r", "\n\n", " # c\n", "\nCrawl-delay: 1\n"]);
                let _ = write!(file, "{key}{name}{end}");
            }
            for _ in 0..self.below(6) {
                let key = self.pick(&[
                    "Disallow: ",
                    "Disallow: ",
                    "Allow: ",
                    "Allow:",
                    "disalow: ",
                    "DISALLOW\t:",
                    "Alow: ",
                ]);
                let value = self.value();
                let end =
                    self.pick(&["\n", "\n", "\r\n", "\r", "\n \n", " # c\n", "\nSitemap: /s\n", "\nx y z\n"]);
                let _ = write!(file, "{key}{value}{end}");
                values.push(value);
            }
        }
        (file, values)
    }

    /// A URL: made from nothing, or from a rule with its wildcards filled in, its letters respelled and its end
    /// changed.
    fn path(&mut self, values: &[String]) -> String {
        let mut path = String::from("/");
        if values.is_empty() || self.one_in(2) {
            for _ in 0..self.below(8) {
                path.push_str(self.pick(&PIECES));
            }
            return path;
        }
        let value = &values[self.below(values.len())];
        for char in value.strip_prefix('/').unwrap_or(value).chars() {
            match char {
                '*' => (0..self.below(3)).for_each(|_| path.push_str(self.pick(&PIECES))),
                'a' if self.one_in(3) => path.push_str("%61"),
                'é' if self.one_in(2) => path.push_str("%C3%a9"),
                ':' if self.one_in(2) => path.push_str("%3A"),
                '/' if self.one_in(6) => path.push_str("%2f"),
                '$' if self.one_in(2) => {}
                _ if self.one_in(25) => {}
                _ => path.push(char),
            }
        }
        if self.one_in(4) {
            path.push_str(self.pick(&PIECES));
        }
        path
    }
}

/// Statistics of the pairs.
#[derive(Debug, Default)]
struct Seen {
    pairs: usize,
    rule_pairs: usize,
    disallowed: usize,
    allowed_by_rule: usize,
}

/// Judges pairs until the two disagree; returns the disagreement and the number of pairs.
fn compare(pairs: usize, bug: Bug) -> Result<Seen, (usize, String)> {
    let mut random = Random(SEED);
    let mut seen = Seen::default();
    while seen.pairs < pairs {
        let (file, values) = random.file();
        let ours = Robots::parse(file.as_bytes(), "nephila");
        let theirs = Rules::of(file.as_bytes(), "nephila", bug);
        for _ in 0..PATHS_PER_FILE {
            let path = random.path(&values);
            let (first, second) = (ours.verdict(&path), theirs.allow(&path));
            seen.pairs += 1;
            seen.rule_pairs += theirs.len();
            if first.allowed != second {
                let verdicts = format!("{first:?}, the second reader: allowed {second}");
                return Err((seen.pairs, format!("{path:?} under\n{file:?}\n{verdicts}")));
            }
            seen.disallowed += usize::from(!first.allowed);
            seen.allowed_by_rule += usize::from(first.allowed && first.rule.is_some());
        }
    }
    Ok(seen)
}

#[test]
fn a_million_random_pairs_are_judged_alike_by_two_readers() {
    let seen = compare(PAIRS, Bug::None)
        .unwrap_or_else(|(after, how)| panic!("pair {after} (seed {SEED:#x}): {how}"));
    // Pairs in which nothing matches prove little: a fifth at least is forbidden, a tenth allowed by a rule.
    assert!(
        seen.pairs >= PAIRS && seen.disallowed * 5 >= seen.pairs && seen.allowed_by_rule * 10 >= seen.pairs,
        "{seen:?}"
    );
    println!("{seen:?}");
}

#[test]
fn planted_mistakes_are_found_within_few_pairs() {
    for bug in [
        Bug::FirstMatch,
        Bug::NoNormalForm,
        Bug::DisallowOnTie,
        Bug::WildcardStopsAtSlash,
        Bug::AnchorAnywhere,
        Bug::EverybodyToo,
    ] {
        let Err((after, _)) = compare(PAIRS_UNTIL_FOUND_MAX, bug) else {
            panic!("{bug:?} not found in {PAIRS_UNTIL_FOUND_MAX} pairs")
        };
        println!("{bug:?} found at pair {after}");
    }
}
