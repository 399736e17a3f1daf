//! `cargo xtask bench reads`: how much the cache of captures helps a reader.
//!
//! A web of pages of 20 KB is crawled with the shipped settings of the archive. Then `read_speed` reads the folder, with
//! Zipf(1) popularity, without a cache and with the shipped `api.cache_bytes`, in one process. The ratio is the median over
//! the rounds. It is that of a cache in use: the reads that fill an empty one are printed, and not judged.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench;
use crate::programs::{self, Programs, Server};

/// Timeout of the crawl and of one round.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// Reads with a cache are at least this many times as fast as reads without.
const RATIO_MIN: f64 = 5.0;

/// Sizes of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of pages of the archive.
    #[arg(long, default_value_t = 10_000)]
    pages: u32,
    /// Number of reads of each kind.
    #[arg(long, default_value_t = 20_000)]
    reads: u32,
    /// Number of repetitions.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Do not fail when the goal is missed.
    #[arg(long)]
    report_only: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    ensure!(args.rounds > 0 && args.reads > 0, "nothing to measure");
    let programs = Programs::build()?;
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let out = folder.path().join("crawl");
    let mut serve = Command::new(programs.path("testweb")?);
    serve.args(["serve", "--no-journal", "--page-bytes", "20000", "--addresses", "1", "--https-share", "0"]);
    serve.args(["--hosts", &(args.pages / 50).max(1).to_string(), "--pages", &args.pages.to_string()]);
    let server = Server::start(&mut serve)?;
    programs::measure(&mut bench::crawl(programs.path("nephila")?, &server, &out)?, RUN_LIMIT)?;
    let mut ratios = Vec::new();
    for round in 1..=args.rounds {
        let mut command = Command::new(programs.path("read_speed")?);
        let output = command.arg(&out).arg(args.reads.to_string()).output().context("run read_speed")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "read_speed: {}", String::from_utf8_lossy(&output.stderr));
        println!("round {round}:\n{}", text.trim_end());
        let last = text.lines().last().and_then(|line| line.split_whitespace().last());
        ratios.push(last.and_then(|ratio| ratio.parse::<f64>().ok()).context("read_speed says no ratio")?);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    println!(
        "bench reads: {} pages, {} reads with Zipf(1) popularity: with the shipped cache {ratio:.1} times as many reads a \
         second (goal {RATIO_MIN:.0})",
        args.pages, args.reads
    );
    ensure!(ratio >= RATIO_MIN || args.report_only, "the goal is missed");
    Ok(())
}
