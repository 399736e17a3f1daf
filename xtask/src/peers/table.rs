//! The figures of one case as a table, for a terminal and for the manual.

use super::case::Case;
use super::figures::{Measured, Results, median, spread};
use super::tools::Tool;

/// The columns. A spread is that of the rounds; of the others, the medians.
const COLUMNS: [&str; 13] = [
    "tool",
    "pages/s, steady",
    "from - to",
    "fixed s",
    "CPU ms/page",
    "from - to",
    "peak MB",
    "wire B/page",
    "disk B/page",
    "pages",
    "again",
    "HTTP",
    "keeps",
];

/// The rows of a case: measured tools in the order of the figures' names, then the reasons why others were not.
pub(super) struct Table {
    rows: Vec<[String; COLUMNS.len()]>,
    /// Tools without figures, with the reasons.
    without: Vec<(&'static str, String)>,
}

impl Table {
    pub(super) fn new<'a>(case: Case, results: &Results, missing: impl Fn(Tool) -> Option<&'a str>) -> Table {
        let rows = results.iter().map(|(tool, list)| row(*tool, list)).collect();
        let why = |tool: Tool| Some((tool.name(), case.why_not(tool).or_else(|| missing(tool))?.to_owned()));
        let without = Tool::ALL.into_iter().filter(|tool| !results.contains_key(tool)).filter_map(why);
        Table { rows, without: without.collect() }
    }

    /// Columns as wide as they need to be.
    pub(super) fn text(&self) -> String {
        let header = COLUMNS.map(str::to_owned);
        let lines: Vec<_> = std::iter::once(&header).chain(&self.rows).collect();
        let widths: [usize; COLUMNS.len()] = std::array::from_fn(|n| {
            lines.iter().map(|line| line[n].chars().count()).max().unwrap_or_default()
        });
        let mut text = String::new();
        for line in lines {
            for (n, (cell, width)) in line.iter().zip(widths).enumerate() {
                // The first and the last column are words, the others numbers.
                match n {
                    0 => text.push_str(&format!("{cell:<width$}")),
                    _ if n + 1 == COLUMNS.len() => text.push_str(&format!("  {cell}")),
                    _ => text.push_str(&format!("  {cell:>width$}")),
                }
            }
            text.push('\n');
        }
        for (name, why) in &self.without {
            text.push_str(&format!("{name:<width$}  not measured: {why}\n", width = widths[0]));
        }
        text
    }

    pub(super) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&COLUMNS.map(str::to_owned));
        text.push_str(&format!("|---|{}---|\n", "---:|".repeat(COLUMNS.len() - 2)));
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        if !self.without.is_empty() {
            let one = |(name, why): &(&str, String)| format!("{name} ({why})");
            let all: Vec<String> = self.without.iter().map(one).collect();
            text.push_str(&format!("\nNot measured: {}.\n", all.join(", ")));
        }
        text
    }
}

fn row(tool: Tool, list: &[Measured]) -> [String; COLUMNS.len()] {
    let whole = |value: fn(&Measured) -> f64| format!("{:.0}", median(list, value));
    let steady = spread(list, Measured::steady_rate);
    let cpu = spread(list, Measured::cpu_ms);
    let stopped = if list.iter().all(|run| run.is_whole) { "" } else { "; stopped at the time limit" };
    [
        tool.name().to_owned(),
        whole(Measured::steady_rate),
        format!("{:.0} - {:.0}", steady.0, steady.1),
        format!("{:.2}", median(list, Measured::fixed_seconds)),
        format!("{:.3}", median(list, Measured::cpu_ms)),
        format!("{:.3} - {:.3}", cpu.0, cpu.1),
        whole(|run| run.memory_kb as f64 / 1024.0),
        whole(Measured::wire_per_page),
        whole(|run| run.disk_bytes as f64 / run.pages as f64),
        whole(|run| run.pages as f64),
        whole(|run| run.again as f64),
        version(median(list, Measured::http2_share)),
        format!("{}{stopped}", tool.keeps()),
    ]
}

/// The version of HTTP that the pages came by.
fn version(http2_share: f64) -> String {
    match (http2_share * 100.0).round() as u32 {
        0 => "1.1".to_owned(),
        100 => "2".to_owned(),
        percent => format!("2 ({percent} %)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::runs;
    use super::*;

    #[test]
    fn a_table_has_medians_spreads_and_reasons() {
        let mut runs = runs(&[(500, 1_000), (700, 2_000), (600, 4_000)]);
        runs[1].is_whole = false;
        let results = Results::from([(Tool::Nephila, runs)]);
        let table = Table::new(Case::Gzip, &results, |tool| (tool == Tool::Colly).then_some("not installed"));
        let text = table.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("tool") && lines[1].starts_with("nephila "), "{text}");
        for part in ["  500  250 - 1000  0.00  ", "  0.600  0.500 - 0.700  ", "; stopped at the time limit"] {
            let line = lines[1].split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(line.contains(&part.split_whitespace().collect::<Vec<_>>().join(" ")), "{text}");
        }
        assert!(
            lines[2].starts_with("bare-loop") && lines[3].ends_with("not measured: not installed"),
            "{text}"
        );
        let markdown = table.markdown();
        assert!(markdown.contains("\n| nephila | 500 | 250 - 1000 | 0.00 | 0.600 |"), "{markdown}");
        assert!(markdown.ends_with("colly (not installed).\n"), "{markdown}");
    }

    #[test]
    fn the_version_of_http_is_that_of_the_pages() {
        assert_eq!([0.0, 0.001, 0.5, 1.0].map(version), ["1.1", "1.1", "2 (50 %)", "2"]);
    }
}
