//! The measured figures, as a table, as ratios, and against the goals.

use std::collections::BTreeMap;

use super::Case;
use super::tools::Tool;
use crate::programs::Usage;

/// Our CPU per page is at most this share of the cheapest other's.
const CHEAPEST_SHARE_MAX: f64 = 1.0;
/// Our CPU per page is at most this share of the CPU per page of every tool that archives.
const ARCHIVER_SHARE_MAX: f64 = 1.0 / 6.0;
/// Our pages/s are at least this multiple of every other tool's.
const RATE_RATIO_MIN: f64 = 1.0;

/// Tools left out, with the reason: printed in every table.
const LEFT_OUT: &[(&str, &str)] = &[("colly", "a Go library; no program of it is built here")];

/// One measured run.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) usage: Usage,
    /// Different pages that the server handed out.
    pub(super) pages: u64,
    /// Pages handed out more than once.
    pub(super) again: u64,
    /// The run ended by itself, not at the timeout.
    pub(super) is_whole: bool,
    /// Bytes left on disk.
    pub(super) disk_bytes: u64,
    /// Pages a second in the steady middle of the run, if it has one.
    pub(super) steady: Option<f64>,
}

impl Measured {
    fn rate(&self) -> f64 {
        self.pages as f64 / self.usage.wall.as_secs_f64()
    }

    /// Pages a second without start and end; of a run without a steady middle, those of the whole.
    fn steady_rate(&self) -> f64 {
        self.steady.unwrap_or_else(|| self.rate())
    }

    /// Seconds of start and end: what the run took beyond its pages at the steady rate.
    fn fixed_seconds(&self) -> f64 {
        (self.usage.wall.as_secs_f64() - self.pages as f64 / self.steady_rate()).max(0.0)
    }

    fn cpu_per_1000(&self) -> f64 {
        self.usage.cpu.as_secs_f64() * 1_000.0 / self.pages as f64
    }

    /// One line of progress.
    pub(super) fn line(&self) -> String {
        format!(
            "{} pages in {:.1} s{}, {:.0} a second in the middle, {:.3} CPU s per 1,000",
            self.pages,
            self.usage.wall.as_secs_f64(),
            if self.is_whole { "" } else { " (stopped)" },
            self.steady_rate(),
            self.cpu_per_1000()
        )
    }
}

/// The runs of each tool, one per round.
pub(super) type Results = BTreeMap<Tool, Vec<Measured>>;

/// Prints one case.
pub(super) fn print_table(results: &Results, missing: &[(Tool, String)]) {
    println!(
        "{:<14} {:>8} {:>8} {:>7} {:>11} {:>13} {:>8} {:>11} {:>8} {:>6}  keeps",
        "tool",
        "pages/s",
        "steady",
        "fixed s",
        "CPU s/1000",
        "from - to",
        "peak MB",
        "disk B/page",
        "pages",
        "again"
    );
    for tool in Tool::ALL {
        if let Some((_, why)) = missing.iter().find(|(missing, _)| *missing == tool) {
            println!("{:<14} not measured: {why}", tool.name());
        }
        let Some(list) = results.get(&tool) else { continue };
        let stopped = if list.iter().all(|run| run.is_whole) { "" } else { "; stopped at the time limit" };
        println!(
            "{:<14} {:>8.0} {:>8.0} {:>7.2} {:>11.3} {:>5.2} - {:>5.2} {:>8.0} {:>11.0} {:>8.0} {:>6.0}  {}{stopped}",
            tool.name(),
            median(list, Measured::rate),
            median(list, Measured::steady_rate),
            median(list, Measured::fixed_seconds),
            median(list, Measured::cpu_per_1000),
            edge(list, Measured::cpu_per_1000, f64::min),
            edge(list, Measured::cpu_per_1000, f64::max),
            median(list, |run| run.usage.memory_kb as f64 / 1024.0),
            median(list, |run| run.disk_bytes as f64 / run.pages as f64),
            median(list, |run| run.pages as f64),
            median(list, |run| run.again as f64),
            tool.keeps(),
        );
    }
    for (name, why) in LEFT_OUT {
        println!("{name:<14} not measured: {why}");
    }
}

/// CPU seconds per 1,000 pages of each, in one line.
pub(super) fn summary(results: &Results) -> String {
    let one = |(tool, list): (&Tool, &Vec<Measured>)| {
        format!("{} {:.3}", tool.name(), median(list, Measured::cpu_per_1000))
    };
    results.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// One comparison and its goal.
#[derive(Debug)]
pub(super) struct Goal {
    what: String,
    ratio: f64,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    AtMost(f64),
    MoreThan(f64),
}

impl Goal {
    /// Whether the goal is reached.
    pub(super) fn is_met(&self) -> bool {
        match self.wanted {
            Wanted::AtMost(most) => self.ratio <= most,
            Wanted::MoreThan(least) => self.ratio > least,
        }
    }

    /// The comparison in words.
    pub(super) fn line(&self) -> String {
        let wanted = match self.wanted {
            Wanted::AtMost(most) => format!("at most {most:.2}"),
            Wanted::MoreThan(least) => format!("more than {least:.2}"),
        };
        format!(
            "{} {}: {:.2}, {wanted} wanted",
            if self.is_met() { "ok  " } else { "MISS" },
            self.what,
            self.ratio
        )
    }
}

/// The goals of one case, for each of ours that was measured.
pub(super) fn judge(case: Case, results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    let others = || results.iter().filter(|(tool, _)| !tool.is_ours());
    for (our, ours) in results.iter().filter(|(tool, _)| tool.is_ours()) {
        let name = |other: &Tool| format!("{}: {} to {}", case.name(), our.name(), other.name());
        let cheapest = others().min_by(|(_, a), (_, b)| {
            median(a, Measured::cpu_per_1000).total_cmp(&median(b, Measured::cpu_per_1000))
        });
        if let Some((other, theirs)) = cheapest {
            goals.push(Goal {
                what: format!("{}, the cheapest, CPU", name(other)),
                ratio: ratio(ours, theirs, Measured::cpu_per_1000),
                wanted: Wanted::AtMost(CHEAPEST_SHARE_MAX),
            });
        }
        for (other, theirs) in others() {
            if other.archives() {
                goals.push(Goal {
                    what: format!("{}, which archives, CPU", name(other)),
                    ratio: ratio(ours, theirs, Measured::cpu_per_1000),
                    wanted: Wanted::AtMost(ARCHIVER_SHARE_MAX),
                });
            }
            goals.push(Goal {
                what: format!("{}, steady pages/s", name(other)),
                ratio: ratio(ours, theirs, Measured::steady_rate),
                wanted: Wanted::MoreThan(RATE_RATIO_MIN),
            });
        }
    }
    goals
}

/// The median over the rounds of the ratios within a round.
fn ratio(ours: &[Measured], theirs: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    middle(ours.iter().zip(theirs).map(|(ours, theirs)| value(ours) / value(theirs)).collect())
}

fn median(list: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    middle(list.iter().map(value).collect())
}

fn edge(list: &[Measured], value: impl Fn(&Measured) -> f64, of: impl Fn(f64, f64) -> f64) -> f64 {
    list.iter().map(value).reduce(of).unwrap_or(0.0)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn runs(cpu_and_wall_ms: &[(u64, u64)]) -> Vec<Measured> {
        let run = |(cpu, wall): &(u64, u64)| Measured {
            usage: Usage {
                wall: Duration::from_millis(*wall),
                cpu: Duration::from_millis(*cpu),
                memory_kb: 0,
            },
            pages: 1_000,
            again: 0,
            is_whole: true,
            disk_bytes: 0,
            steady: None,
        };
        cpu_and_wall_ms.iter().map(run).collect()
    }

    #[test]
    fn the_cheapest_other_is_the_measure_in_every_case() {
        let results = Results::from([
            (Tool::Nephila, runs(&[(600, 300)])),
            (Tool::Wget2, runs(&[(500, 400)])),
            (Tool::Httrack, runs(&[(1_900, 2_000)])),
        ]);
        let missed: Vec<String> =
            judge(Case::ManyHosts, &results).iter().filter(|goal| !goal.is_met()).map(Goal::line).collect();
        assert_eq!(missed.len(), 1, "{missed:?}");
        assert!(missed[0].contains("wget2, the cheapest, CPU: 1.20"), "{missed:?}");
        assert!(judge(Case::OneHost, &results).iter().any(|goal| !goal.is_met()));
    }

    #[test]
    fn start_and_end_are_apart_from_the_steady_middle() {
        let run = Measured { steady: Some(2_000.0), ..runs(&[(600, 800)])[0] };
        assert!((run.fixed_seconds() - 0.3).abs() < 1e-9, "1,000 pages take 0.5 s of the 0.8");
        let short = runs(&[(600, 800)])[0];
        assert!((short.steady_rate() - 1_250.0).abs() < 1e-9 && short.fixed_seconds() < 1e-9);
    }

    #[test]
    fn a_sixth_is_asked_against_those_who_archive_and_a_rate_against_all() {
        let results = Results::from([
            (Tool::NephilaZstd, runs(&[(600, 900)])),
            (Tool::WgetWarc, runs(&[(2_000, 4_000)])),
            (Tool::Scrapy, runs(&[(700, 800)])),
        ]);
        let missed: Vec<String> =
            judge(Case::OneHost, &results).iter().filter(|goal| !goal.is_met()).map(Goal::line).collect();
        assert_eq!(missed.len(), 2, "{missed:?}");
        assert!(
            missed.iter().any(|line| line.contains("wget-warc, which archives, CPU: 0.30")),
            "{missed:?}"
        );
        assert!(missed.iter().any(|line| line.contains("scrapy, steady pages/s: 0.89")), "{missed:?}");
    }

    #[test]
    fn a_ratio_compares_neighbours_and_takes_the_middle() {
        // The second round met a busy machine; both runs of the round did.
        let (ours, theirs) = (runs(&[(80, 1), (800, 1), (90, 1)]), runs(&[(100, 1), (1_000, 1), (300, 1)]));
        assert!((ratio(&ours, &theirs, Measured::cpu_per_1000) - 0.8).abs() < 1e-9);
    }
}
