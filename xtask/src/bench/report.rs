//! What the runs say: tables, ratios of neighbours, the cost of each stage, and the comparison with an older program.

use super::{
    AGAINST_BEFORE_MAX, Args, BARE, BARE_CRAWL, CRAWL, Case, FETCH, GOALS, Measured, REPEATED, Results,
    WARC_GZIP, WARC_ZSTD,
};

/// The median over repetitions of `name` against `base`, by pages/s.
pub(super) fn share(results: &Results, name: &str, base: &str) -> Option<f64> {
    let (name, base) = (results.get(name)?, results.get(base)?);
    let wall = |measured: &Measured| measured.usage.wall.as_secs_f64();
    Some(median(name.iter().zip(base).map(|(name, base)| wall(base) / wall(name)).collect()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn median_of(list: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    median(list.iter().map(value).collect())
}

/// CPU seconds per 1,000 pages.
fn cpu_per_1000(list: &[Measured], pages: u32) -> f64 {
    median_of(list, |measured| measured.usage.cpu.as_secs_f64()) * 1_000.0 / f64::from(pages)
}

pub(super) fn print_table(case: &Case, results: &Results, args: &Args) {
    println!("\n{}, {} pages, medians of {}", case.name, args.pages, args.repetitions);
    println!(
        "{:<22} {:>8} {:>6} {:>12} {:>12} {:>8} {:>10}",
        "run", "pages/s", "ratio", "CPU s/1000", "server CPU", "peak MB", "disk B/page"
    );
    for name in case.runs {
        let Some(list) = results.get(name) else { continue };
        let pages = f64::from(args.pages);
        let base = GOALS.iter().find(|(goal, ..)| goal == name).map_or(BARE, |(_, base, _)| base);
        println!(
            "{name:<22} {:>8.0} {:>6.2} {:>12.4} {:>12.4} {:>8.0} {:>10.0}",
            median_of(list, |measured| pages / measured.usage.wall.as_secs_f64()),
            share(results, name, base).unwrap_or_default(),
            cpu_per_1000(list, args.pages),
            median_of(list, |measured| measured.server_cpu.as_secs_f64()) * 1_000.0 / pages,
            median_of(list, |measured| measured.usage.memory_kb as f64 / 1024.0),
            median_of(list, |measured| measured.disk_bytes as f64 / pages),
        );
    }
}

/// Compares the runs of both programs: the median over the repetitions, of neighbours.
pub(super) fn compare(
    case: &Case,
    results: &Results,
    args: &Args,
    figures: &mut Vec<String>,
    missed: &mut Vec<String>,
) {
    println!("\n{}, {} pages, medians of {}", case.name, args.pages, args.repetitions);
    println!("{:<22} {:>12} {:>12} {:>8} {:>8}", "run", "CPU s/1000", "before", "peak MB", "before");
    for (name, before) in REPEATED {
        let (Some(now), Some(then)) = (results.get(name), results.get(before)) else { continue };
        let memory = |list| median_of(list, |measured| measured.usage.memory_kb as f64 / 1024.0);
        println!(
            "{name:<22} {:>12.4} {:>12.4} {:>8.0} {:>8.0}",
            cpu_per_1000(now, args.pages),
            cpu_per_1000(then, args.pages),
            memory(now),
            memory(then)
        );
        let ratio = |value: fn(&Measured) -> f64| {
            median(now.iter().zip(then).map(|(now, then)| value(now) / value(then)).collect())
        };
        let cpu = ratio(|measured| measured.usage.cpu.as_secs_f64());
        let memory = ratio(|measured| measured.usage.memory_kb as f64);
        figures.push(format!("{}: {name} CPU {cpu:.3}, memory {memory:.3} of before", case.name));
        if cpu.max(memory) > AGAINST_BEFORE_MAX {
            missed.push(format!(
                "{}: {name} takes {cpu:.3} of the CPU and {memory:.3} of the memory of before, \
                 {AGAINST_BEFORE_MAX} allowed",
                case.name
            ));
        }
    }
}

/// Stages whose cost is the difference between two runs.
pub(super) const STAGES: &[(&str, &str, &str)] = &[
    ("all that is not the bare loop", FETCH, BARE),
    ("a digest of each body", "fetch --digest", FETCH),
    ("the archive without compression", "warc none", FETCH),
    ("gzip in the archive", WARC_GZIP, "warc none"),
    ("gzip bare", "bare + gzip", BARE),
    ("zstd in the archive", WARC_ZSTD, "warc none"),
    ("zstd bare", "bare + zstd", BARE),
    ("looking for known payloads", WARC_GZIP, "warc gzip, dedup off"),
    ("links and records, bare", BARE_CRAWL, "bare + gzip"),
    ("all of a crawl that is not the bare loop", CRAWL, BARE_CRAWL),
];

pub(super) fn print_stages(results: &Results, pages: u32) {
    println!("CPU by stage, as differences of the above, microseconds per page:");
    for (stage, with, without) in STAGES {
        let (Some(with), Some(without)) = (results.get(with), results.get(without)) else { continue };
        let microseconds = (cpu_per_1000(with, pages) - cpu_per_1000(without, pages)) * 1_000.0;
        println!("{microseconds:>8.1}  {stage}");
    }
}
