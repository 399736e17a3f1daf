//! The measured figures of a run, their medians and spread over the rounds, and the goals.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::case::Case;
use super::journal::Counts;
use super::tools::Tool;
use crate::programs::Usage;

/// Our CPU per page is at most this share of the cheapest other's.
const CHEAPEST_SHARE_MAX: f64 = 1.0;
/// Our CPU per page is at most this share of the CPU per page of every tool that archives.
const ARCHIVER_SHARE_MAX: f64 = 1.0 / 6.0;
/// Our pages/s are at least this multiple of every other tool's.
const RATE_RATIO_MIN: f64 = 1.0;
/// Our pages/s are at least this share of the bare loop's; likewise pages per CPU second.
const LIMIT_SHARE_MIN: f64 = 0.75;

/// One measured run.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Measured {
    /// Different pages that the server handed out.
    pub(super) pages: u64,
    /// Pages handed out more than once.
    pub(super) again: u64,
    /// Pages that came by HTTP/2.
    pub(super) http2: u64,
    /// Bytes of all bodies on the wire.
    pub(super) wire_bytes: u64,
    /// The run ended by itself, not at the timeout.
    pub(super) is_whole: bool,
    /// From start to end.
    pub(super) wall_s: f64,
    /// User and system time.
    pub(super) cpu_s: f64,
    /// Peak of resident memory.
    pub(super) memory_kb: u64,
    /// Bytes left on disk.
    pub(super) disk_bytes: u64,
    /// Pages a second in the steady middle of the run, if it has one.
    pub(super) steady: Option<f64>,
}

impl Measured {
    pub(super) fn new(usage: &Usage, counts: &Counts, is_whole: bool, disk_bytes: u64) -> Measured {
        Measured {
            pages: counts.pages,
            again: counts.again,
            http2: counts.http2,
            wire_bytes: counts.wire_bytes,
            is_whole,
            wall_s: usage.wall.as_secs_f64(),
            cpu_s: usage.cpu.as_secs_f64(),
            memory_kb: usage.memory_kb,
            disk_bytes,
            steady: counts.steady(),
        }
    }

    fn rate(&self) -> f64 {
        self.pages as f64 / self.wall_s
    }

    /// Pages a second without start and end; of a run without a steady middle, those of the whole.
    pub(super) fn steady_rate(&self) -> f64 {
        self.steady.unwrap_or_else(|| self.rate())
    }

    /// Seconds of start and end: what the run took beyond its pages at the steady rate.
    pub(super) fn fixed_seconds(&self) -> f64 {
        (self.wall_s - self.pages as f64 / self.steady_rate()).max(0.0)
    }

    /// CPU milliseconds per page.
    pub(super) fn cpu_ms(&self) -> f64 {
        self.cpu_s * 1_000.0 / self.pages as f64
    }

    /// Bytes of a body on the wire, in the mean.
    pub(super) fn wire_per_page(&self) -> f64 {
        self.wire_bytes as f64 / (self.pages + self.again) as f64
    }

    /// Share of the pages that came by HTTP/2.
    pub(super) fn http2_share(&self) -> f64 {
        self.http2 as f64 / (self.pages + self.again) as f64
    }

    /// One line of progress.
    pub(super) fn line(&self) -> String {
        format!(
            "{} pages in {:.1} s{}, {:.0} a second in the middle, {:.3} CPU ms per page",
            self.pages,
            self.wall_s,
            if self.is_whole { "" } else { " (stopped)" },
            self.steady_rate(),
            self.cpu_ms()
        )
    }
}

/// The runs of each tool, one per round.
pub(super) type Results = BTreeMap<Tool, Vec<Measured>>;

/// CPU milliseconds per page of each, in one line.
pub(super) fn summary(results: &Results) -> String {
    let one = |(tool, list): (&Tool, &Vec<Measured>)| {
        format!("{} {:.3}", tool.name(), median(list, Measured::cpu_ms))
    };
    results.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// One comparison, and its goal if there is one.
#[derive(Debug)]
pub(super) struct Comparison {
    what: String,
    ratio: f64,
    wanted: Option<Wanted>,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    AtMost(f64),
    AtLeast(f64),
    MoreThan(f64),
}

impl Comparison {
    /// Whether the goal is reached; without one, always.
    pub(super) fn is_met(&self) -> bool {
        match self.wanted {
            Some(Wanted::AtMost(most)) => self.ratio <= most,
            Some(Wanted::AtLeast(least)) => self.ratio >= least,
            Some(Wanted::MoreThan(least)) => self.ratio > least,
            None => true,
        }
    }

    /// The comparison in words.
    pub(super) fn line(&self) -> String {
        let wanted = match self.wanted {
            Some(Wanted::AtMost(most)) => format!(", at most {most:.2} wanted"),
            Some(Wanted::AtLeast(least)) => format!(", at least {least:.2} wanted"),
            Some(Wanted::MoreThan(least)) => format!(", more than {least:.2} wanted"),
            None => String::new(),
        };
        let mark = match (&self.wanted, self.is_met()) {
            (None, _) => "    ",
            (_, true) => "ok  ",
            (_, false) => "MISS",
        };
        format!("{mark} {}: {:.2}{wanted}", self.what, self.ratio)
    }
}

/// The comparisons of one case, for each of ours that was measured.
pub(super) fn judge(case: Case, results: &Results) -> Vec<Comparison> {
    let mut found = Vec::new();
    let others = || results.iter().filter(|(tool, _)| tool.is_others());
    for (our, ours) in results.iter().filter(|(tool, _)| tool.is_ours()) {
        let name = |other: &Tool| format!("{}: {} to {}", case.name(), our.name(), other.name());
        let cheapest = others()
            .min_by(|(_, a), (_, b)| median(a, Measured::cpu_ms).total_cmp(&median(b, Measured::cpu_ms)));
        if let Some((other, theirs)) = cheapest {
            found.push(Comparison {
                what: format!("{}, the cheapest, CPU", name(other)),
                ratio: ratio(ours, theirs, Measured::cpu_ms),
                wanted: Some(Wanted::AtMost(CHEAPEST_SHARE_MAX)),
            });
        }
        for (other, theirs) in others() {
            if other.archives() {
                found.push(Comparison {
                    what: format!("{}, which archives, CPU", name(other)),
                    ratio: ratio(ours, theirs, Measured::cpu_ms),
                    wanted: Some(Wanted::AtMost(ARCHIVER_SHARE_MAX)),
                });
            }
            found.push(Comparison {
                what: format!("{}, steady pages/s", name(other)),
                ratio: ratio(ours, theirs, Measured::steady_rate),
                wanted: Some(Wanted::MoreThan(RATE_RATIO_MIN)),
            });
        }
    }
    found.extend(limits(case, results));
    found
}

/// Ours beside the bare loop, which writes a WARC with gzip too.
fn limits(case: Case, results: &Results) -> Vec<Comparison> {
    let (Some(ours), Some(bare)) = (results.get(&Tool::Nephila), results.get(&Tool::BareLoop)) else {
        return Vec::new();
    };
    let wanted = case.asks_for_the_limit().then_some(Wanted::AtLeast(LIMIT_SHARE_MIN));
    let one = |of: &str, ratio: f64| Comparison {
        what: format!("{}: nephila to the bare loop, {of}", case.name()),
        ratio,
        wanted,
    };
    vec![
        one("steady pages/s", ratio(ours, bare, Measured::steady_rate)),
        one("pages per CPU second", ratio(bare, ours, Measured::cpu_ms)),
    ]
}

/// The median over the rounds of the ratios within a round.
fn ratio(ours: &[Measured], theirs: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    middle(ours.iter().zip(theirs).map(|(ours, theirs)| value(ours) / value(theirs)).collect())
}

/// The median over the rounds.
pub(super) fn median(list: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    middle(list.iter().map(value).collect())
}

/// The smallest and the largest value of the rounds.
pub(super) fn spread(list: &[Measured], value: impl Fn(&Measured) -> f64) -> (f64, f64) {
    let edges = |(least, most): (f64, f64), value: f64| (least.min(value), most.max(value));
    list.iter().map(value).fold((f64::INFINITY, f64::NEG_INFINITY), edges)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Runs of 1,000 pages with these milliseconds of CPU and from start to end.
    pub(crate) fn runs(cpu_and_wall_ms: &[(u32, u32)]) -> Vec<Measured> {
        let run = |(cpu, wall): &(u32, u32)| Measured {
            pages: 1_000,
            again: 0,
            http2: 0,
            wire_bytes: 20_000_000,
            is_whole: true,
            wall_s: f64::from(*wall) / 1_000.0,
            cpu_s: f64::from(*cpu) / 1_000.0,
            memory_kb: 10_240,
            disk_bytes: 0,
            steady: None,
        };
        cpu_and_wall_ms.iter().map(run).collect()
    }

    fn missed(case: Case, results: &Results) -> Vec<String> {
        judge(case, results).iter().filter(|found| !found.is_met()).map(Comparison::line).collect()
    }

    #[test]
    fn the_cheapest_other_is_the_measure_in_every_case() {
        let results = Results::from([
            (Tool::Nephila, runs(&[(600, 300)])),
            (Tool::BareLoop, runs(&[(500, 250)])),
            (Tool::Wget2, runs(&[(500, 400)])),
            (Tool::Httrack, runs(&[(1_900, 2_000)])),
        ]);
        for case in Case::ALL {
            let missed = missed(case, &results);
            assert_eq!(missed.len(), 1, "{missed:?}");
            assert!(missed[0].contains("wget2, the cheapest, CPU: 1.20"), "{missed:?}");
        }
    }

    #[test]
    fn three_quarters_of_the_bare_loop_are_asked_with_one_host_and_with_many() {
        let results =
            Results::from([(Tool::Nephila, runs(&[(600, 300)])), (Tool::BareLoop, runs(&[(400, 250)]))]);
        for case in [Case::OneHost, Case::ManyHosts] {
            let missed = missed(case, &results);
            assert_eq!(missed.len(), 1, "{missed:?}");
            assert!(missed[0].ends_with("pages per CPU second: 0.67, at least 0.75 wanted"), "{missed:?}");
        }
        let elsewhere = judge(Case::Tls, &results);
        assert!(elsewhere.len() == 2 && elsewhere.iter().all(Comparison::is_met), "{elsewhere:?}");
        assert!(elsewhere[0].line().ends_with("tls: nephila to the bare loop, steady pages/s: 0.83"));
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
        let missed = missed(Case::OneHost, &results);
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
        assert!((ratio(&ours, &theirs, Measured::cpu_ms) - 0.8).abs() < 1e-9);
        let (least, most) = spread(&ours, Measured::cpu_ms);
        assert!((least - 0.08).abs() < 1e-9 && (most - 0.8).abs() < 1e-9);
    }
}
