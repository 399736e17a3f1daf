//! `cargo xtask hostile`: joins the catalogue of hostile cases with the tests that carry their ids.
//!
//! `hostile-web.tsv` holds hostile behaviour of the web towards a crawler, `outside.tsv` findings of outside checks in
//! ours. A case such as `DNS-01` is shown by every test whose name, or the name of a surrounding module, begins with
//! `dns_01_`, and by every test that `proved-by.tsv` lists for the case. A case passes when the case has at least one
//! test and all of them pass. A case may be marked as not applicable, with its reason, in `not-applicable.tsv`; at most
//! [`NOT_APPLICABLE_MAX`] may be. A case that needs a part which is not there yet stands in `later.tsv`, with its
//! issue: the case stays `later` regardless of tests that show a part, and fails if one of them does.
//!
//! Invariant: a required case is in exactly one of passed, failed, missing, not applicable and later.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::junit::{self, Test};
use crate::shell;

/// Options of `hostile`.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Only this area: dns, tcp, tls, http1, html, robots, politeness, storage and so on, or an id prefix.
    #[arg(long)]
    area: Option<String>,
    /// Show the other areas of the catalogue too. They inform; only the required areas decide.
    #[arg(long)]
    all: bool,
    /// Join with this JUnit report of an earlier run instead of running the tests.
    #[arg(long, value_name = "FILE")]
    report: Option<std::path::PathBuf>,
}

impl Args {
    /// The form for CI: the tests have run already, and this is their report.
    pub(crate) fn of_report(report: std::path::PathBuf) -> Args {
        Args { report: Some(report), ..Default::default() }
    }
}

/// The id prefixes that must be whole: everything between a URL and a decoded body, and everything a crawl decides and
/// keeps.
const REQUIRED: [&str; 24] = [
    "DNS", "TCP", "TLS", "H1", "H2", "RED", "ENC", "CMP", "URL", "SSR", "HTM", "ROB", "SMP", "TRP", "POL",
    "STO", "CLU", "FEE", "FIN", "OUT", "SEC", "ROW", "PRO", "OPS",
];

/// Maximum number of cases that may be declared not applicable.
const NOT_APPLICABLE_MAX: usize = 8;

/// Maximum number of cases that may wait for a missing part of the crawler.
const LATER_MAX: usize = 24;

/// Timeout of all tests of the catalogue together, the build included.
const RUN_LIMIT: Duration = Duration::from_secs(45 * 60);

/// Maximum length of a case's description in the table.
const WHAT_CHARS_MAX: usize = 80;

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let folder = shell::root().join("crates/nephila-testweb/catalogue");
    let mut cases = parse_catalogue(&read(&folder.join("hostile-web.tsv"))?)?;
    cases.extend(parse_catalogue(&read(&folder.join("outside.tsv"))?)?);
    let excused = parse_not_applicable(&read(&folder.join("not-applicable.tsv"))?, &cases)?;
    let later = parse_later(&read(&folder.join("later.tsv"))?, &cases)?;
    let proofs = parse_proofs(&read(&folder.join("proved-by.tsv"))?, &cases)?;
    let tests = match &args.report {
        Some(report) => junit::read(report)?,
        None => run_tests(&cases, &proofs)?,
    };
    let known = Known { excused, later, proofs };
    let rows = join(&cases, &known, &tests)?;
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

fn run_tests(cases: &[Case], proofs: &[Proof]) -> Result<Vec<Test>> {
    let mut prefixes: Vec<String> = cases.iter().map(|c| prefix(&c.id).to_lowercase()).collect();
    prefixes.dedup();
    let mut filter = format!("test(/(^|::)({})_[0-9]{{2}}_/)", prefixes.join("|"));
    for proof in proofs {
        filter.push_str(&format!(" | (binary_id(={}) & test(={}))", proof.binary, proof.test));
    }
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
    // A failing test fails this command too, but the table says more.
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

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Missing,
    NotApplicable,
    Later,
}

/// A test that shows a case without carrying its id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Proof {
    id: String,
    /// The test's binary: `nephila-core`, `nephila::e2e`.
    binary: String,
    /// Its path in there.
    test: String,
}

/// The contents of the files beside the catalogue.
#[derive(Default)]
struct Known {
    excused: BTreeMap<String, String>,
    later: BTreeMap<String, String>,
    proofs: Vec<Proof>,
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
    parse_reasons("not-applicable.tsv", text, cases)
}

fn parse_later(text: &str, cases: &[Case]) -> Result<BTreeMap<String, String>> {
    let later = parse_reasons("later.tsv", text, cases)?;
    for (id, why) in &later {
        ensure!(why.starts_with("issue "), "later.tsv does not begin with the issue that {id} belongs to");
    }
    Ok(later)
}

/// Lines of an id and a reason, under a heading.
fn parse_reasons(file: &str, text: &str, cases: &[Case]) -> Result<BTreeMap<String, String>> {
    let mut reasons = BTreeMap::new();
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let (id, reason) = line.split_once('\t').unwrap_or((line, ""));
        ensure!(!reason.trim().is_empty(), "{file} gives no reason for {id}");
        ensure!(cases.iter().any(|c| c.id == id), "{file} names {id}, the catalogue does not");
        ensure!(reasons.insert(id.to_owned(), reason.trim().to_owned()).is_none(), "{file} names {id} twice");
    }
    Ok(reasons)
}

fn parse_proofs(text: &str, cases: &[Case]) -> Result<Vec<Proof>> {
    let mut proofs: Vec<Proof> = Vec::new();
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[id, name, shows] = &columns[..] else { bail!("proved-by.tsv: `{line}` has not three columns") };
        ensure!(cases.iter().any(|c| c.id == id), "proved-by.tsv names {id}, the catalogue does not");
        ensure!(!shows.trim().is_empty(), "proved-by.tsv does not say what {name} shows for {id}");
        let Some((binary, test)) = name.split_once(' ') else {
            bail!("proved-by.tsv: `{name}` is not a binary and a test, with a space between them");
        };
        let proof = Proof { id: id.to_owned(), binary: binary.to_owned(), test: test.to_owned() };
        ensure!(!proofs.contains(&proof), "proved-by.tsv lists {name} twice for {id}");
        proofs.push(proof);
    }
    Ok(proofs)
}

fn join<'a>(cases: &'a [Case], known: &Known, tests: &[Test]) -> Result<Vec<Row<'a>>> {
    let mut by_id: BTreeMap<String, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        for id in ids(&test.name) {
            by_id.entry(id).or_default().push(test);
        }
    }
    for proof in &known.proofs {
        let Some(test) = tests.iter().find(|t| t.name == proof.test && t.binary == proof.binary) else {
            let Proof { id, binary, test } = proof;
            bail!("proved-by.tsv says that `{binary} {test}` shows {id}, but no such test ran");
        };
        by_id.entry(proof.id.clone()).or_default().push(test);
    }
    let row = |case: &'a Case| {
        let tests = by_id.get(&case.id).map_or(&[][..], Vec::as_slice);
        let failed: Vec<&str> = tests.iter().filter(|t| !t.passed).map(|t| t.name.as_str()).collect();
        // A test is better knowledge than an excuse.
        let (verdict, what) = if !failed.is_empty() {
            (Verdict::Failed, failed.join(", "))
        } else if let Some(why) = known.later.get(&case.id) {
            // The passing tests show a part of the case.
            (Verdict::Later, why.clone())
        } else if !tests.is_empty() {
            (Verdict::Passed, case.does.clone())
        } else if let Some(reason) = known.excused.get(&case.id) {
            (Verdict::NotApplicable, reason.clone())
        } else {
            (Verdict::Missing, case.does.clone())
        };
        Row { case, verdict, tests: tests.len(), what }
    };
    Ok(cases.iter().map(row).collect())
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
            Verdict::Later => "later",
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
    later: usize,
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
            later: count(Verdict::Later),
        }
    }

    fn line(&self) -> String {
        format!(
            "hostile: {} cases, {} passed, {} failed, {} missing, {} not applicable, {} later",
            self.cases, self.passed, self.failed, self.missing, self.not_applicable, self.later
        )
    }

    fn verdict(&self) -> Result<()> {
        ensure!(self.failed == 0, "{} hostile cases fail: their tests are named in the table", self.failed);
        ensure!(
            self.missing == 0,
            "{} hostile cases have no test: write one whose name begins with the id (dns_01_…), or list one in proved-by.tsv",
            self.missing
        );
        ensure!(
            self.not_applicable <= NOT_APPLICABLE_MAX,
            "{} cases are marked as not applicable, at most {NOT_APPLICABLE_MAX} may be",
            self.not_applicable
        );
        ensure!(
            self.later <= LATER_MAX,
            "{} cases wait for what is not there yet, at most {LATER_MAX} may",
            self.later
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOGUE: &str = "id\tarea\tdoes\tmust\n\
        DNS-01\tdns\tno such name\tx\nDNS-02\tdns\tservfail\tx\nH1-10\thttp1\tlong head\tx\nAPI-01\tapi\ttoken\tx\n";

    fn check(not_applicable: &str, tests: &[(&str, bool)], want: &str) {
        check_with(not_applicable, "", "", tests, want);
    }

    fn ran(tests: &[(&str, bool)]) -> Vec<Test> {
        let test = |&(name, passed): &(&str, bool)| Test { name: name.into(), binary: "b".into(), passed };
        tests.iter().map(test).collect()
    }

    fn check_with(not_applicable: &str, later: &str, proofs: &str, tests: &[(&str, bool)], want: &str) {
        let cases = parse_catalogue(CATALOGUE).unwrap();
        let known = Known {
            excused: parse_not_applicable(&format!("id\treason\n{not_applicable}"), &cases).unwrap(),
            later: parse_later(&format!("id\twhy\n{later}"), &cases).unwrap(),
            proofs: parse_proofs(&format!("id\ttest\tshows\n{proofs}"), &cases).unwrap(),
        };
        let rows = join(&cases, &known, &ran(tests)).unwrap();
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
            "hostile: 3 cases, 3 passed, 0 failed, 0 missing, 0 not applicable, 0 later",
        );
    }

    #[test]
    fn one_failing_test_fails_its_case_whatever_the_others_say() {
        check(
            "",
            &[("dns_01_a", true), ("dns_01_b", false), ("dns_02_b", true), ("h1_10_c", true)],
            "hostile: 3 cases, 2 passed, 1 failed, 0 missing, 0 not applicable, 0 later",
        );
    }

    #[test]
    fn a_case_without_a_test_is_missing_unless_it_is_excused() {
        check(
            "DNS-02\tneeds a second resolver\n",
            &[("dns_01_a", true)],
            "hostile: 3 cases, 1 passed, 0 failed, 1 missing, 1 not applicable, 0 later",
        );
    }

    #[test]
    fn a_failing_test_wins_over_an_excuse() {
        check(
            "DNS-02\tneeds a second resolver\n",
            &[("dns_01_a", true), ("dns_02_x", false), ("h1_10_c", true)],
            "hostile: 3 cases, 2 passed, 1 failed, 0 missing, 0 not applicable, 0 later",
        );
    }

    #[test]
    fn too_many_excuses_are_refused() {
        let figures = Figures { cases: 20, passed: 11, failed: 0, missing: 0, not_applicable: 9, later: 0 };
        assert!(figures.verdict().is_err());
        let figures = Figures { cases: 40, passed: 15, failed: 0, missing: 0, not_applicable: 0, later: 25 };
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
    fn a_listed_test_shows_its_case_as_a_named_one_does() {
        let proofs = "DNS-02\tb servers::fail\tit is asked again\nH1-10\tb heads\tcut\nDNS-02\tb heads\tx\n";
        let line = |figures| format!("hostile: 3 cases, {figures}, 0 missing, 0 not applicable, 0 later");
        let tests = |passed| [("dns_01_a", true), ("servers::fail", passed), ("heads", true)];
        check_with("", "", proofs, &tests(true), &line("3 passed, 0 failed"));
        check_with("", "", proofs, &tests(false), &line("2 passed, 1 failed"));
    }

    #[test]
    fn a_listed_test_that_did_not_run_is_an_error() {
        let cases = parse_catalogue(CATALOGUE).unwrap();
        let proofs =
            |name: &str| parse_proofs(&format!("id\ttest\tshows\nDNS-02\t{name}\tx\n"), &cases).unwrap();
        let join_with = |name: &str| {
            let known = Known { proofs: proofs(name), ..Known::default() };
            join(&cases, &known, &ran(&[("servers::fail", true)])).map(drop)
        };
        assert!(join_with("b servers::fail").is_ok());
        let error = join_with("b servers::gone").unwrap_err().to_string();
        assert!(error.contains("servers::gone") && error.contains("DNS-02"), "{error}");
        assert!(join_with("another servers::fail").is_err(), "a test of that name in another binary");
    }

    #[test]
    fn what_comes_later_stays_later_unless_a_part_of_it_fails() {
        let later = "DNS-01\tissue 5: three nodes\nDNS-02\tissue 7: asks again\n";
        check_with(
            "",
            later,
            "",
            &[("dns_01_a", true), ("h1_10_c", true)],
            "hostile: 3 cases, 1 passed, 0 failed, 0 missing, 0 not applicable, 2 later",
        );
        check_with(
            "",
            later,
            "",
            &[("dns_01_a", false), ("h1_10_c", true)],
            "hostile: 3 cases, 1 passed, 1 failed, 0 missing, 0 not applicable, 1 later",
        );
    }

    #[test]
    fn the_lists_say_what_they_mean() {
        let cases = parse_catalogue(CATALOGUE).unwrap();
        for line in
            ["DNS-01\tsome day", "DNS-01\t", "DNS-99\tissue 5: x", "DNS-01\tissue 5: x\nDNS-01\tissue 6: y"]
        {
            assert!(parse_later(&format!("id\twhy\n{line}\n"), &cases).is_err(), "{line}");
        }
        for line in [
            "DNS-01\tb x",
            "DNS-01\tb x\t",
            "DNS-01\tx\ty",
            "DNS-99\tb x\ty",
            "DNS-01\tb x\ty\nDNS-01\tb x\tz",
        ] {
            assert!(parse_proofs(&format!("id\ttest\tshows\n{line}\n"), &cases).is_err(), "{line}");
        }
    }

    #[test]
    fn an_excuse_needs_a_reason_and_a_case() {
        let cases = parse_catalogue(CATALOGUE).unwrap();
        assert!(parse_not_applicable("id\treason\nDNS-01\n", &cases).is_err());
        assert!(parse_not_applicable("id\treason\nDNS-99\tbecause\n", &cases).is_err());
    }
}
