//! `cargo xtask bench reflog`: throughput of one node in lines of visited URLs per second.
//!
//! The measurement covers the whole of `nephila add --reflog FILE -o DIR`, as a person would run the command: the
//! process begins, opens the folder of a crawl, reads and groups the lines, decides about each URL with its record,
//! writes all decisions to the logs of the partitions (fsync), and ends. In turns with that run, a program only reads,
//! parses and hashes the same lines. A ratio is the median over the rounds.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::{Programs, Usage, measure};
use crate::shell;

/// Timeout of one run.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// Minimum number of lines per second.
const RATE_MIN: f64 = 200_000.0;
/// Minimum share of the program that only reads, parses and hashes.
const SHARE_MIN: f64 = 0.60;

/// Sizes of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of lines.
    #[arg(long, default_value_t = 2_000_000)]
    lines: u64,
    /// Number of repetitions of both, each time into a new folder.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Do not fail when a goal is missed.
    #[arg(long)]
    report_only: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    ensure!(args.lines > 0 && args.rounds > 0, "nothing to measure");
    let programs = Programs::build()?;
    let (nephila, speed) = (programs.path("nephila")?, programs.path("reflog_speed")?);
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let file = folder.path().join("lines");
    shell::run(Command::new(speed).arg("write").arg(&file).arg(args.lines.to_string()), RUN_LIMIT)?;
    let (mut rates, mut bare_rates, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..args.rounds {
        let crawl = folder.path().join(format!("crawl-{round}"));
        make_crawl(nephila, &crawl)?;
        let bare = measure(Command::new(speed).arg("read").arg(&file), RUN_LIMIT)?;
        let mut add = Command::new(nephila);
        add.args(["add", "crawl", "--reflog"]).arg(&file).arg("-o").arg(&crawl);
        let ours = measure(&mut add, RUN_LIMIT)?;
        let rate = |usage: &Usage| args.lines as f64 / usage.wall.as_secs_f64();
        println!(
            "round {}: {:.0} lines/s, {:.1} s of CPU, {} MB; only read, parsed and hashed: {:.0} lines/s",
            round + 1,
            rate(&ours),
            ours.cpu.as_secs_f64(),
            ours.memory_kb / 1_000,
            rate(&bare)
        );
        shares.push(rate(&ours) / rate(&bare));
        rates.push(rate(&ours));
        bare_rates.push(rate(&bare));
        std::fs::remove_dir_all(&crawl).context("remove the crawl")?;
    }
    let (rate, bare, share) = (median(rates), median(bare_rates), median(shares));
    println!(
        "bench reflog: {} lines: {rate:.0} lines/s (goal {RATE_MIN:.0}), {share:.2} of {bare:.0} (goal {SHARE_MIN:.2})",
        args.lines
    );
    let kept = rate >= RATE_MIN && share >= SHARE_MIN;
    ensure!(kept || args.report_only, "a goal is missed");
    Ok(())
}

/// A crawl to which lines can be added: of one page that does not exist.
fn make_crawl(nephila: &Path, folder: &Path) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
    let port = listener.local_addr().context("the port")?.port();
    // The thread ends with this program.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4_096];
            if stream.read(&mut head).is_ok() {
                _ = stream
                    .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        }
    });
    let mut command = Command::new(nephila);
    command.args([
        "crawl",
        &format!("http://127.0.0.1:{port}/"),
        "--scope",
        "page",
        "--delay",
        "0s",
        "-q",
        "-o",
    ]);
    command.arg(folder);
    // Its only page is not found, which is no good end; the folder is there all the same.
    let (_, said) = shell::quiet(&mut command, RUN_LIMIT)?;
    ensure!(folder.join("state").is_dir(), "no crawl was made: {said}");
    Ok(())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
