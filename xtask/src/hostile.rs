//! `cargo xtask hostile`: joins the catalogue of hostile cases with the tests that carry their ids.
//!
//! A case such as `DNS-01` is shown by every test whose name, or the name of a module around it, begins with
//! `dns_01_`. A case passes when it has at least one test and all of them pass. A case may be marked as not
//! applicable, with its reason, in `not-applicable.tsv`; at most [`NOT_APPLICABLE_MAX`] may be.
//!
//! Invariant: a required case is in exactly one of passed, failed, missing and not applicable.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::junit::{self, Test};
use crate::shell;

/// Options of `hostile`.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Only this area: dns, tcp, tls, http1, http2, redirect, encoding, compression, url, ssrf, or an id prefix.
    #[arg(long)]
    area: Option<String>,
    /// Show the other areas of the catalogue too. They inform; only the areas of fetching decide.
    #[arg(long)]
    all: bool,
    /// Join with this JUnit report of an earlier run instead of running the tests.
    #[arg(long, value_name = "FILE")]
    report: Option<std::path::PathBuf>,
}

impl Args {
    /// The form that CI runs: the tests have run already, and this is their report.
    pub(crate) fn of_report(report: std::path::PathBuf) -> Args {
        Args { report: Some(report), ..Default::default() }
    }
}

/// The id prefixes that must be whole: everything between a URL and a decoded body.
const REQUIRED: [&str; 10] = ["DNS", "TCP", "TLS", "H1", "H2", "RED", "ENC", "CMP", "URL", "SSR"];

/// More cases than this may not be declared out of reach.
const NOT_APPLICABLE_MAX: usize = 8;

/// The tests of the catalogue together may take this long, the build included.
const RUN_LIMIT: Duration = Duration::from_secs(45 * 60);

/// A line of the table does not show more of a case's description than this.
const WHAT_CHARS_MAX: usize = 80;

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let folder = shell::root().join("crates/nephila-testweb/catalogue");
    let cases = parse_catalogue(&read(&folder.join("hostile-web.tsv"))?)?;
    let excused = parse_not_applicable(&read(&folder.join("not-applicable.tsv"))?, &cases)?;
    let tests = match &args.report {
        Some(report) => junit::read(report)?,
        None => run_tests(&cases)?,
    };
    let rows = join(&cases, &excused, &tests);
    let shown: Vec<&Row> = rows.iter().filter(|row| is_shown(row, &args)).collect();
    ensure!(!shown.is_empty(), "no case of the catalogue is in the area {:?}", args.area.unwrap_or_default());
    print!("{}", table(&shown));
    let counted: Vec<&Row> = match args.area {
        Some(_) => shown,
        None => shown.into_iter().filter(|row| is_required(&row.case.id)).collect(),
    };
    let figures = Figures::of(&counted);
    println!("{}", figures.line());
    figures.verdict()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn run_tests(cases: &[Case]) -> Result<Vec<Test>> {
    let mut prefixes: Vec<String> = cases.iter().map(|c| prefix(&c.id).to_lowercase()).collect();
    prefixes.dedup();
    let filter = format!("test(/(^|::)({})_[0-9]{{2}}_/)", prefixes.join("|"));
    let report = junit::path_of("hostile");
    if report.exists() {
        // An old report must not pass for the new one when the build fails.
        std::fs::remove_file(&report).with_context(|| format!("cannot remove {}", report.display()))?;
    }
    let mut command = shell::cargo(&[
        "nextest",
        "run",
        "--workspace",
        "--profile",
        "hostile",
        "--no-tests=pass",
        "-E",
        &filter,
    ]);
    // A failing test fails this command too, but what the table says of it is more.
    let (status, _) = shell::tee(&mut command, RUN_LIMIT)?;
    if !report.exists() && status.success() {
        return Ok(Vec::new());
    }
    junit::read(&report)
}

/// One line of the catalogue.
#[derive(Clone, Debug)]
struct Case {
    id: String,
    area: String,
    does: String,
}

/// What is known of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Missing,
    NotApplicable,
}

struct Row<'a> {
    case: &'a Case,
    verdict: Verdict,
    tests: usize,
    what: String,
}

fn parse_catalogue(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in text.lines().enumerate().skip(1) {
        let mut columns = line.split('\t');
        let (Some(id), Some(area), Some(does)) = (columns.next(), columns.next(), columns.next()) else {
            bail!("line {} of the catalogue has fewer than three columns", number + 1);
        };
        ensure!(id.contains('-'), "line {} of the catalogue: `{id}` is not an id", number + 1);
        ensure!(cases.iter().all(|c| c.id != id), "the catalogue names {id} twice");
        cases.push(Case { id: id.to_owned(), area: area.to_owned(), does: does.to_owned() });
    }
    Ok(cases)
}

fn parse_not_applicable(text: &str, cases: &[Case]) -> Result<BTreeMap<String, String>> {
    let mut excused = BTreeMap::new();
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let (id, reason) = line.split_once('\t').unwrap_or((line, ""));
        ensure!(!reason.trim().is_empty(), "not-applicable.tsv gives no reason for {id}");
        ensure!(cases.iter().any(|c| c.id == id), "not-applicable.tsv names {id}, the catalogue does not");
        excused.insert(id.to_owned(), reason.trim().to_owned());
    }
    Ok(excused)
}

fn join<'a>(cases: &'a [Case], excused: &BTreeMap<String, String>, tests: &[Test]) -> Vec<Row<'a>> {
    let mut by_id: BTreeMap<String, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        for id in ids(&test.name) {
            by_id.entry(id).or_default().push(test);
        }
    }
    let row = |case: &'a Case| {
        let tests = by_id.get(&case.id).map_or(&[][..], Vec::as_slice);
        let failed: Vec<&str> = tests.iter().filter(|t| !t.passed).map(|t| t.name.as_str()).collect();
        // A test is better knowledge than an excuse.
        let (verdict, what) = match (tests.len(), excused.get(&case.id)) {
            (0, Some(reason)) => (Verdict::NotApplicable, reason.clone()),
            (0, None) => (Verdict::Missing, case.does.clone()),
            _ if failed.is_empty() => (Verdict::Passed, case.does.clone()),
            _ => (Verdict::Failed, failed.join(", ")),
        };
        Row { case, verdict, tests: tests.len(), what }
    };
    cases.iter().map(row).collect()
}

/// The ids in a test's path: `dns_01_…` in any of its parts is DNS-01.
fn ids(path: &str) -> Vec<String> {
    let id = |part: &str| {
        let (area, rest) = part.split_once('_')?;
        let (number, _) = rest.split_once('_')?;
        let is_number = number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| format!("{}-{number}", area.to_uppercase()))
    };
    let mut found: Vec<String> = path.split("::").filter_map(id).collect();
    found.dedup();
    found
}

fn prefix(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

fn is_required(id: &str) -> bool {
    REQUIRED.contains(&prefix(id))
}

fn is_shown(row: &Row<'_>, args: &Args) -> bool {
    match &args.area {
        Some(area) => row.case.area == *area || prefix(&row.case.id).eq_ignore_ascii_case(area),
        None => args.all || is_required(&row.case.id),
    }
}

fn table(rows: &[&Row<'_>]) -> String {
    let mut text = format!("{:<7} {:<14} {:>5}  what\n", "id", "result", "tests");
    for row in rows {
        let verdict = match row.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "FAILED",
            Verdict::Missing => "MISSING",
            Verdict::NotApplicable => "not applicable",
        };
        let mut what: String = row.what.chars().take(WHAT_CHARS_MAX).collect();
        if what.len() < row.what.len() {
            what.push('…');
        }
        text.push_str(&format!("{:<7} {verdict:<14} {:>5}  {what}\n", row.case.id, row.tests));
    }
    text
}

#[derive(Debug, PartialEq, Eq)]
struct Figures {
    cases: usize,
    passed: usize,
    failed: usize,
    missing: usize,
    not_applicable: usize,
}

impl Figures {
    fn of(rows: &[&Row<'_>]) -> Figures {
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        Figures {
            cases: rows.len(),
            passed: count(Verdict::Passed),
            failed: count(Verdict::Failed),
            missing: count(Verdict::Missing),
            not_applicable: count(Verdict::NotApplicable),
        }
    }

    fn line(&self) -> String {
        format!(
            "hostile: {} cases, {} passed, {} failed, {} missing, {} not applicable",
            self.cases, self.passed, self.failed, self.missing, self.not_applicable
        )
    }

    fn verdict(&self) -> Result<()> {
        ensure!(self.failed == 0, "{} hostile cases fail: their tests are named in the table", self.failed);
        ensure!(
            self.missing == 0,
            "{} hostile cases have no test: write one whose name begins with the id (dns_01_…)",
            self.missing
        );
        ensure!(
            self.not_applicable <= NOT_APPLICABLE_MAX,
            "{} cases are marked as not applicable, at most {NOT_APPLICABLE_MAX} may be",
            self.not_applicable
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOGUE: &str = "id\tarea\tdoes\tmust\n\
        DNS-01\tdns\tno such name\tx\nDNS-02\tdns\tservfail\tx\nH1-10\thttp1\tlong head\tx\nFEE-01\tfeed\tbomb\tx\n";

    fn check(not_applicable: &str, tests: &[(&str, bool)], want: &str) {
        let cases = parse_catalogue(CATALOGUE).unwrap();
        let excused = parse_not_applicable(&format!("id\treason\n{not_applicable}"), &cases).unwrap();
        let tests: Vec<Test> = tests
            .iter()
            .map(|&(name, passed)| Test { name: name.to_owned(), binary: "b".to_owned(), passed })
            .collect();
        let rows = join(&cases, &excused, &tests);
        let shown: Vec<&Row> = rows.iter().filter(|row| is_required(&row.case.id)).collect();
        let figures = Figures::of(&shown);
        assert_eq!(figures.line(), want);
        assert_eq!(figures.verdict().is_ok(), figures.failed + figures.missing == 0);
    }

    #[test]
    fn every_case_with_a_passing_test_is_passed() {
        check(
            "",
            &[("dns_01_a", true), ("dns::dns_02_b", true), ("h1_10_c", true)],
            "hostile: 3 cases, 3 passed, 0 failed, 0 missing, 0 not applicable",
        );
    }

    #[test]
    fn one_failing_test_fails_its_case_whatever_the_others_say() {
        check(
            "",
            &[("dns_01_a", true), ("dns_01_b", false), ("dns_02_b", true), ("h1_10_c", true)],
            "hostile: 3 cases, 2 passed, 1 failed, 0 missing, 0 not applicable",
        );
    }

    #[test]
    fn a_case_without_a_test_is_missing_unless_it_is_excused() {
        check(
            "DNS-02\tneeds a second resolver\n",
            &[("dns_01_a", true)],
            "hostile: 3 cases, 1 passed, 0 failed, 1 missing, 1 not applicable",
        );
    }

    #[test]
    fn a_failing_test_wins_over_an_excuse() {
        check(
            "DNS-02\tneeds a second resolver\n",
            &[("dns_01_a", true), ("dns_02_x", false), ("h1_10_c", true)],
            "hostile: 3 cases, 2 passed, 1 failed, 0 missing, 0 not applicable",
        );
    }

    #[test]
    fn too_many_excuses_are_refused() {
        let figures = Figures { cases: 20, passed: 11, failed: 0, missing: 0, not_applicable: 9 };
        assert!(figures.verdict().is_err());
    }

    #[test]
    fn an_id_is_read_from_any_part_of_a_path() {
        assert_eq!(ids("e2e::dns::dns_01_x"), ["DNS-01"]);
        assert_eq!(ids("h2_07_::inner"), ["H2-07"]);
        assert_eq!(ids("dns_1_x"), [] as [&str; 0]);
        assert_eq!(ids("dns_01"), [] as [&str; 0]);
        assert_eq!(ids("http_001_x"), [] as [&str; 0]);
    }

    #[test]
    fn an_excuse_needs_a_reason_and_a_case() {
        let cases = parse_catalogue(CATALOGUE).unwrap();
        assert!(parse_not_applicable("id\treason\nDNS-01\n", &cases).is_err());
        assert!(parse_not_applicable("id\treason\nDNS-99\tbecause\n", &cases).is_err());
    }
}
