//! The page for people who write spiders says what the code does.

use super::record::{Http, Specific};
use crate::spider::outcome::Outcome;

const PAGE: &str = include_str!("../../../../docs/store-v1.md");

/// The rows of the table under this heading, without its own heading.
fn rows(heading: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n## {heading}\n")).expect("the page has this heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    section.lines().filter(|line| line.starts_with("| ")).skip(1).collect()
}

#[test]
fn the_outcomes_of_the_page_are_those_of_the_code() {
    let of = |outcome: &Outcome| {
        let success = Specific::Outcome(*outcome).success().map_or(2, u8::from);
        format!("| {} | `{}` | {success} |", outcome.code(), outcome.name())
    };
    let mut expected: Vec<_> = Outcome::ALL.iter().map(of).collect();
    expected.push(format!("| {} | `followed` | 0 or 1 |", Specific::Followed.number()));
    assert_eq!(rows("Outcomes"), expected);
}

#[test]
fn the_status_codes_of_the_page_are_those_of_the_code() {
    let of = |number: u8| {
        Some(match Http::by_number(number)? {
            Http::None => format!("| {number} | none: there was no response |"),
            Http::Status(status) => format!("| {number} | {status} |"),
            Http::Other => format!("| {number} | any other |"),
        })
    };
    let expected: Vec<_> = (0..=255).filter_map(of).collect();
    assert_eq!(rows("HTTP status"), expected);
}

#[test]
fn the_time_limits_of_the_page_are_the_defaults() {
    let settings = serde_json::to_value(super::desk::Settings::default()).unwrap();
    for row in rows("Time limits") {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let name = cells.next().unwrap_or_default().trim_matches('`');
        let default = cells.next().unwrap_or_default().replace(' ', "");
        assert_eq!(settings[name].as_str(), Some(default.as_str()), "{name}");
    }
}

#[test]
fn the_example_of_the_page_is_the_golden_record() {
    assert!(PAGE.contains("00000007 01 00 05 00 0000002A 0009 0000 00000002 687474703A2F2F612F 6869"));
}
