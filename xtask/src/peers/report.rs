//! All figures of one call: printed, written as JSON (`--json`), and made into the tables of `docs/benchmarks.md`
//! (`--write-docs`).
//!
//! Invariant: figures in the manual come from `docs/benchmarks.json`, which this command writes; `cargo xtask docs --check`
//! compares the two.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::case::{Case, LINKS, Size};
use super::figures::{Comparison, Results, judge};
use super::table::Table;
use super::tools::Tool;
use crate::shell;
use crate::stages::Profile;

/// The page of the manual, and the figures it shows.
const PAGE: &str = "docs/benchmarks.md";
const FIGURES: &str = "docs/benchmarks.json";
/// Where the tables begin and end in the page.
const BEGIN: &str = "<!-- Figures: written by `cargo xtask bench peers --write-docs`. -->";
const END: &str = "<!-- End of the figures. -->";
/// Timeout of a question to git.
const GIT_MAX: Duration = Duration::from_secs(20);

/// The figures of one call.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    /// The commit of the programs that were measured.
    pub(super) commit: String,
    /// The flags of the command that change what is measured.
    pub(super) command: String,
    pub(super) rounds: usize,
    /// Each run had a new file system.
    pub(super) has_disks: bool,
    /// Names and versions.
    pub(super) tools: BTreeMap<Tool, String>,
    /// Tools that were not measured, with the reason.
    pub(super) missing: BTreeMap<Tool, String>,
    pub(super) cases: Vec<CaseReport>,
    /// The cost of a page by stage.
    pub(super) stages: Vec<Profile>,
}

/// The runs of one case.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct CaseReport {
    pub(super) case: Case,
    pub(super) size: Size,
    pub(super) results: Results,
    /// Tools that could not be measured here alone, with the reason.
    pub(super) failed: BTreeMap<Tool, String>,
}

impl CaseReport {
    fn title(&self, rounds: usize) -> String {
        let Size { pages, hosts, page_bytes } = self.size;
        format!(
            "{}: {pages} pages of {} KB with {LINKS} links on {hosts} host(s), {}; medians of {rounds} round(s)",
            self.case.name(),
            page_bytes / 1_000,
            self.case.what()
        )
    }

    /// The comparisons of ours with the others.
    pub(super) fn comparisons(&self) -> Vec<Comparison> {
        judge(self.case, &self.results)
    }
}

/// What the figures depend on.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Machine {
    cores: usize,
    processor: String,
    memory_mb: u64,
    kernel: String,
}

impl Machine {
    pub(super) fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let kb = field(&memory, "MemTotal").trim_end_matches(" kB").parse::<u64>().unwrap_or_default();
        Machine {
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            processor: field(&cpu, "model name").to_owned(),
            memory_mb: kb / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// The first value of this name in lines of `name: value`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim());
    text.lines().find_map(value).unwrap_or_default()
}

/// The present commit; with a mark if files differ from it.
pub(super) fn commit() -> String {
    let git =
        |args: &[&str]| shell::output(Command::new("git").args(args).current_dir(shell::root()), GIT_MAX);
    let Ok(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let is_clean = git(&["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|said| said.is_empty());
    format!("{}{}", commit.trim(), if is_clean { "" } else { " with changes" })
}

impl Report {
    /// The table of one case, as text.
    pub(super) fn text(&self, case: &CaseReport) -> String {
        let mut text = format!("\n{}\n{}", case.title(self.rounds), self.table(case).text());
        case.comparisons().iter().for_each(|found| text.push_str(&format!("{}\n", found.line())));
        text
    }

    fn table(&self, case: &CaseReport) -> Table {
        let why = |tool| case.failed.get(&tool).or_else(|| self.missing.get(&tool)).map(String::as_str);
        Table::new(case.case, &case.results, why)
    }

    /// The tables for the manual.
    fn markdown(&self) -> String {
        let Machine { cores, processor, memory_mb, kernel } = &self.machine;
        let disks = if self.has_disks { "each run on a new file system" } else { "on one file system" };
        let tools: Vec<&str> = Tool::ALL
            .iter()
            .filter(|tool| tool.is_others())
            .filter_map(|tool| self.tools.get(tool).map(String::as_str))
            .collect();
        let mut text = format!(
            "`{}`, commit {}, {disks}. {processor}, {cores} cores, {memory_mb} MB of memory, Linux {kernel}.\n\nThe others: {}.\n",
            self.command,
            self.commit,
            tools.join(", ")
        );
        for case in &self.cases {
            text.push_str(&format!("\n### {}\n\n{}", case.title(self.rounds), self.table(case).markdown()));
            let lines: String =
                case.comparisons().iter().map(|found| format!("{}\n", found.line())).collect();
            if !lines.is_empty() {
                text.push_str(&format!("\n```text\n{lines}```\n"));
            }
        }
        for profile in &self.stages {
            text.push_str(&format!("\n### By stage: {}\n\n{}", profile.title(), profile.markdown()));
        }
        text
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("write the figures")? + "\n";
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }

    /// Writes the figures beside the manual, and their tables into it.
    pub(super) fn write_docs(&self) -> Result<()> {
        self.write(&shell::root().join(FIGURES))?;
        let page = docs_page()?.context("the figures were just written")?;
        std::fs::write(shell::root().join(PAGE), page).context(PAGE)
    }
}

/// The page of the manual with the figures that were kept; none if there are none.
pub(crate) fn docs_page() -> Result<Option<String>> {
    let figures = shell::root().join(FIGURES);
    if !figures.exists() {
        return Ok(None);
    }
    let report: Report = serde_json::from_slice(&std::fs::read(figures)?).context(FIGURES)?;
    let page = std::fs::read_to_string(shell::root().join(PAGE)).context(PAGE)?;
    fill(&page, &report.markdown()).map(Some)
}

/// Puts the tables into the page.
fn fill(page: &str, tables: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("the page has no place for figures")?;
    let (_, after) = rest.split_once(END).context("the place for figures has no end")?;
    Ok(format!("{before}{BEGIN}\n\n{tables}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::runs;
    use super::*;

    fn report() -> Report {
        let case = Case::OneHost;
        let results =
            Results::from([(Tool::Nephila, runs(&[(600, 300)])), (Tool::Wget2, runs(&[(500, 400)]))]);
        Report {
            machine: Machine::this(),
            commit: "0123456789ab".to_owned(),
            command: "cargo xtask bench peers".to_owned(),
            rounds: 1,
            has_disks: true,
            tools: BTreeMap::from([(Tool::Wget2, "GNU Wget2 2.2.0".to_owned())]),
            missing: BTreeMap::from([(Tool::Colly, "not installed".to_owned())]),
            cases: vec![CaseReport { case, size: case.size(1_000), results, failed: BTreeMap::new() }],
            stages: Vec::new(),
        }
    }

    #[test]
    fn figures_read_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.json");
        let report = report();
        report.write(&path).unwrap();
        let back: Report = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(back.markdown(), report.markdown());
        let text = report.text(&report.cases[0]);
        assert!(text.contains("one-host: 1000 pages of 20 KB with 40 links on 1 host(s)"), "{text}");
        assert!(text.contains("MISS one-host: nephila to wget2, the cheapest, CPU: 1.20"), "{text}");
    }

    #[test]
    fn tables_replace_the_older_ones_and_nothing_else() {
        let page = format!("# Benchmarks\n\n{BEGIN}\n\nold\n\n{END}\n\nMore.\n");
        let filled = fill(&page, "new\n").unwrap();
        assert_eq!(filled, format!("# Benchmarks\n\n{BEGIN}\n\nnew\n\n{END}\n\nMore.\n"));
        assert_eq!(fill(&filled, "new\n").unwrap(), filled);
        assert!(fill("no place", "new").is_err());
    }

    #[test]
    fn the_manual_has_a_place_for_figures() {
        let page = std::fs::read_to_string(shell::root().join(PAGE)).unwrap();
        fill(&page, "").unwrap();
    }

    #[test]
    fn this_machine_has_a_processor_and_memory() {
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.memory_mb > 0 && !machine.kernel.is_empty(), "{machine:?}");
        assert_eq!(field("model name\t: A B\nmodel name\t: C\n", "model name"), "A B");
    }
}
