//! The table of cases: each row is a file, a path, the expected result and the reason.
//!
//! Columns: id, source, agent, path, expected, file, why. In file and path, `\n \r \t \0 \\ \xE9` are bytes and
//! `{{3*ab}}` is `ababab`. Expected is `allow`, `disallow`, `delay SECONDS` or `delay none`, or `sitemaps COUNT`. The
//! expected result comes from the named source, not from our reader; the second reader must agree as well.

use std::collections::BTreeSet;
use std::time::Duration;

use super::second;
use crate::robots::{Robots, docs, docs_page, whole_start};

/// A row of the table.
pub(super) struct Case {
    pub(super) id: &'static str,
    pub(super) agent: &'static str,
    pub(super) path: String,
    pub(super) expect: &'static str,
    pub(super) file: Vec<u8>,
    why: &'static str,
}

pub(super) fn all() -> Vec<Case> {
    docs::CASES
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&'static str> = line.split('\t').collect();
            let [id, _source, agent, path, expect, file, why] = cells[..] else {
                panic!("not a row: {line}")
            };
            let path = String::from_utf8(bytes(path)).expect("paths are text");
            Case { id, agent, path, expect, file: bytes(file), why }
        })
        .collect()
}

/// The bytes that a cell stands for.
fn bytes(cell: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = cell;
    while !rest.is_empty() {
        if let Some(repeat) = rest.strip_prefix("{{") {
            let (count, after) = repeat.split_once('*').expect("a count");
            // The text may end with a star, but never with a brace.
            let (text, after) = after.split_once("}}").expect("an end");
            out.extend(bytes(text).repeat(count.parse().expect("a number")));
            rest = after;
        } else if let Some(escape) = rest.strip_prefix('\\') {
            let mut length = 1;
            match escape.as_bytes()[0] {
                b'n' => out.push(b'\n'),
                b'r' => out.push(b'\r'),
                b't' => out.push(b'\t'),
                b'0' => out.push(0),
                b'\\' => out.push(b'\\'),
                b'x' => {
                    out.push(u8::from_str_radix(&escape[1..3], 16).expect("two hex digits"));
                    length = 3;
                }
                other => panic!("unknown escape {other} in {cell}"),
            }
            rest = &escape[length..];
        } else {
            let length = rest.chars().next().map_or(0, char::len_utf8);
            out.extend(&rest.as_bytes()[..length]);
            rest = &rest[length..];
        }
    }
    out
}

#[test]
fn every_case_of_the_table_comes_out_as_its_source_says() {
    let cases = all();
    assert!(cases.len() >= 300, "{}", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let robots = Robots::parse(&case.file, case.agent);
        let ours = match case.expect.split_once(' ') {
            Some(("delay", _)) => match robots.crawl_delay() {
                Some(delay) => format!("delay {}", delay.as_secs_f64()),
                None => "delay none".to_owned(),
            },
            Some(("sitemaps", _)) => format!("sitemaps {}", robots.sitemaps().len()),
            _ => word(robots.verdict(&case.path).allowed).to_owned(),
        };
        if ours != case.expect {
            wrong.push(format!("{}: {} instead of {} ({})", case.id, ours, case.expect, case.why));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn the_second_reader_is_held_to_the_same_table() {
    let mut judged = 0;
    let mut wrong = Vec::new();
    for case in all().iter().filter(|case| ["allow", "disallow"].contains(&case.expect)) {
        judged += 1;
        let theirs = word(second::allowed(&case.file, case.agent, &case.path));
        if theirs != case.expect {
            wrong.push(format!("{}: {} instead of {} ({})", case.id, theirs, case.expect, case.why));
        }
    }
    assert!(judged >= 300, "{judged}");
    assert!(wrong.is_empty(), "{} of {judged} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_case_stands_in_the_table_twice_and_each_says_why() {
    let (mut ids, mut questions) = (BTreeSet::new(), BTreeSet::new());
    for case in all() {
        assert!(ids.insert(case.id), "{} twice", case.id);
        assert!(!case.why.is_empty(), "{} has no reason", case.id);
        assert!(questions.insert((case.agent, case.path, case.file)), "{} asks again", case.id);
    }
}

#[test]
fn every_row_of_the_catalogue_about_reading_has_cases() {
    // ROB-26 is about the URL that is handed to us, and has a test of its own; the others are about fetching.
    for row in [8, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 27, 29] {
        let name = format!("ROB-{row:02}");
        let count = docs::CASES
            .lines()
            .filter(|line| line.split('\t').nth(1).is_some_and(|c| c.contains(&name)))
            .count();
        assert!(count >= 2, "{name} has {count} cases");
    }
}

#[test]
fn the_start_of_a_file_counts_up_to_its_last_line_end() {
    let whole = "User-agent: *\nDisallow: /a\nDisallow: /about\n";
    let at = whole.len() - 4;
    let cut = Robots::parse_start(&whole.as_bytes()[..at], "nephila");
    assert!(cut.is_cut());
    assert_eq!((cut.rule_count(), cut.verdict("/abx").rule.map(|(line, _)| line)), (1, Some(2)));
    let whole = Robots::parse_start(whole.as_bytes(), "nephila");
    assert_eq!(whole.rule_count(), 2);
    assert_eq!(whole.crawl_delay(), None::<Duration>);
}

#[test]
fn the_docs_page_holds_every_case_and_every_answer() {
    let page = docs_page();
    for case in all() {
        assert!(page.contains(&format!("\n| {} |", case.id)), "{}", case.id);
    }
    for row in [
        "| 200 to 299 | the rules in it | the rules in it | the rules in it | the rules in it |",
        "| 404 to 428 | everything allowed | everything allowed | everything allowed | everything allowed |",
        "| 403 | everything allowed | everything allowed | everything allowed | nothing allowed |",
        "| 430 to 499 | everything allowed | everything allowed | everything allowed | everything allowed |",
        "| 500 to 599 | nothing allowed | the rules of the copy | everything allowed | nothing allowed |",
    ] {
        assert!(page.contains(row), "{row} is not in\n{}", page.split("## How").next().unwrap_or_default());
    }
    // A table row is one line with as many bars as its head, so that it shows as a table.
    for row in page.split("## Cases").nth(1).unwrap_or_default().lines().filter(|line| line.starts_with('|'))
    {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 8, "{row}");
    }
}

fn word(allowed: bool) -> &'static str {
    if allowed { "allow" } else { "disallow" }
}

#[test]
fn what_is_kept_of_a_file_that_goes_on_reads_like_its_start() {
    let text = "User-agent: *\nDisallow: /a\nCrawl-delay: 2\nDisallow: /b";
    let mut wide = vec![0xff, 0xfe];
    wide.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    for bytes in [text.as_bytes(), &wide, b"", b"no line ends here"] {
        let start = Robots::parse_start(bytes, "nephila");
        let kept = Robots::parse(&whole_start(bytes), "nephila");
        assert_eq!((start.rule_count(), start.crawl_delay()), (kept.rule_count(), kept.crawl_delay()));
        assert_eq!(start.verdict("/b").allowed, kept.verdict("/b").allowed);
    }
    assert_eq!(Robots::parse(&whole_start(&wide), "nephila").rule_count(), 1, "half a line says nothing");
}
