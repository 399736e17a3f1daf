//! `cargo xtask fuzz`: builds the targets under `fuzz/` and feeds them mutated bytes.
//!
//! The targets are plain programs around libFuzzer. A fuzz build differs by a handful of compiler flags, set here, so
//! that stable cargo is the only tool needed. The learned corpus stays beside the build (`fuzz-corpus` in the target
//! folder) and is used again; the seeds under `fuzz/seeds/` are only read.
//!
//! Invariant: a run that crashes, hangs or outgrows its memory fails the command and leaves the input in a file whose
//! path is printed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::shell;

/// Options of `fuzz`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this target; all of them if not given.
    #[arg(long)]
    target: Option<String>,
    /// Number of executions per target.
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    runs: u64,
    /// Stop a target after this many seconds, regardless of its executions.
    #[arg(long)]
    seconds: Option<u64>,
    /// Run this one input through `--target` and stop: to repeat a crash.
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,
}

impl Args {
    /// The short form that CI runs.
    pub(crate) fn short() -> Args {
        Args { target: None, runs: 50_000, seconds: Some(10), input: None }
    }
}

/// The full form of the command.
const RUNS_DEFAULT: u64 = 10_000_000;

/// Timeout of a cold build of all targets.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);

/// Timeout of one target without `--seconds`.
const RUN_LIMIT: Duration = Duration::from_secs(12 * 3600);

/// Time beyond `--seconds` for a target to load its corpus and to end.
const RUN_GRACE: Duration = Duration::from_secs(300);

/// An input that takes longer than this hangs. Far above the slowest honest one, because machines are shared: the check
/// for linear work takes up to 6 s of CPU, at a low priority, beside other steps.
const INPUT_SECONDS_MAX: u64 = 90;

/// A target that needs more memory than this leaks or does not keep a limit.
const MEMORY_MB_MAX: u64 = 1024;

/// Inputs are not longer than this: enough for every structure our parsers know, short enough to stay quick.
const INPUT_BYTES_MAX: u64 = 384;
/// Guessing a charset reads a few megabytes a second, so its inputs are shorter.
const CHARSET_INPUT_BYTES_MAX: u64 = 192;

/// Coverage counters, program counters and compared values for libFuzzer, and no address sanitizer: the targets are
/// safe Rust. Debug assertions and overflow checks are on: a fuzzer is to trigger these.
const FLAGS: [&str; 8] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions=on",
    "-Coverflow-checks=on",
];

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let known = targets()?;
    let chosen: Vec<&String> = match &args.target {
        Some(name) => known.iter().filter(|t| *t == name).collect(),
        None => known.iter().collect(),
    };
    ensure!(!chosen.is_empty(), "there is no such target; there are: {}", known.join(", "));

    let bin = build(&chosen)?;
    if let Some(input) = &args.input {
        let target = &chosen[0];
        return shell::run(Command::new(bin.join(target)).arg(input), RUN_GRACE)
            .with_context(|| format!("{target} fails on {}", input.display()));
    }
    // Each uses one core. One failing target does not hide the others.
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match run_target(&bin, target, &args) {
                        Ok(line) => println!("{line}"),
                        Err(error) => failures.lock().expect("no panic").push(format!("{error:#}")),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic");
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// The targets, by the files that hold them.
fn targets() -> Result<Vec<String>> {
    let folder = shell::root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Builds these targets and returns the folder with their programs.
fn build(targets: &[&String]) -> Result<PathBuf> {
    // With a target triple the flags do not reach build scripts and macros, which have no libFuzzer to link with.
    let host = host_triple()?;
    let target_dir = shell::target_dir().join("fuzz");
    let mut command = shell::cargo(&["build", "--release", "--locked", "--target", &host]);
    for target in targets {
        command.args(["--bin", target]);
    }
    command.arg("--manifest-path").arg(shell::root().join("fuzz/Cargo.toml"));
    command.env("CARGO_TARGET_DIR", &target_dir).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    shell::run(&mut command, BUILD_LIMIT)?;
    Ok(target_dir.join(host).join("release"))
}

fn host_triple() -> Result<String> {
    let text = shell::output(Command::new("rustc").arg("-vV"), RUN_GRACE)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

fn run_target(bin: &Path, target: &str, args: &Args) -> Result<String> {
    println!("fuzz: {target}: running, {} executions", args.runs);
    let corpus = shell::target_dir().join("fuzz-corpus").join(target);
    let artifacts = shell::target_dir().join("fuzz-artifacts").join(target);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut command = Command::new(bin.join(target));
    command.args([
        format!("-runs={}", args.runs),
        format!("-max_len={}", if target == "charset" { CHARSET_INPUT_BYTES_MAX } else { INPUT_BYTES_MAX }),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-rss_limit_mb={MEMORY_MB_MAX}"),
        format!("-artifact_prefix={}/", artifacts.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    let mut limit = RUN_LIMIT;
    if let Some(seconds) = args.seconds {
        command.arg(format!("-max_total_time={seconds}"));
        limit = Duration::from_secs(seconds) + RUN_GRACE;
    }
    // The first folder is written to, the others are only read.
    command.arg(&corpus);
    let seeds = shell::root().join("fuzz/seeds").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    let (status, text) = shell::quiet(&mut command, limit)?;
    if !status.success() {
        println!("{text}");
        bail!(
            "fuzz target {target} failed ({status}). The input is in {}; run it again with\n  \
             cargo xtask fuzz --target {target} --input FILE",
            artifacts.display()
        );
    }
    let stat = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("stat::{key}:")))?;
        line.trim().parse::<u64>().ok()
    };
    let runs = stat("number_of_executed_units").context("libFuzzer printed no figures")?;
    let speed = stat("average_exec_per_sec").unwrap_or(0);
    let memory = stat("peak_rss_mb").unwrap_or(0);
    Ok(format!("fuzz: {target}: {runs} executions, {speed} per second, {memory} MB, 0 failures"))
}
