//! `cargo xtask spiders`: judges remote spiders: of version 1 with spiders that were written from the documents alone, of
//! version 2 with `nephila spider`.
//!
//! Runs `xtask/interop/spiders.py`: the test web is crawled by the built-in spider, then by the Python spiders of
//! `examples/spiders` in both dialects and by `nephila spider`, some of which are killed meanwhile. URLs, outcomes and digests have to be the
//! same, and no host may be asked too soon. The spiders' own test against `docs/store-v1.md` runs before.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::programs::Programs;
use crate::shell;

/// Options of `spiders`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pages of the web
    #[arg(long, default_value_t = 200)]
    pages: u32,
    /// Spiders killed in each dialect
    #[arg(long, default_value_t = 5)]
    kills: u32,
    /// Measures version 2 beside the built-in spider instead (`xtask/interop/spider_speed.py`): many hosts, a distant node, one
    /// site on four spiders
    #[arg(long)]
    speed: bool,
    /// Rounds of `--speed`
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Cases of `--speed`
    #[arg(long, default_value = "many,distant,site,site-gzip")]
    cases: String,
    /// Do not fail when `--speed` misses a goal
    #[arg(long)]
    report_only: bool,
}

/// Pages of `--speed` for each of `--pages`: 30,000 for the 200 of default.
const SPEED_FACTOR: u32 = 150;
/// Pages of each host of `--speed`.
const PAGES_PER_HOST: u32 = 3;

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let programs = Programs::build()?;
    if args.speed {
        return speed(args, &programs);
    }
    let (root, examples) = (shell::root(), shell::root().join("examples/spiders"));
    let mut own = Command::new("python3");
    own.arg(examples.join("selftest.py")).arg(root.join("docs/store-v1.md"));
    ensure!(own.status().context("run python3")?.success(), "the spiders fail their own test: see above");
    let mut judge = Command::new("python3");
    judge.arg(root.join("xtask/interop/spiders.py"));
    judge.args([programs.path("nephila")?, programs.path("testweb")?, &examples]);
    let status =
        judge.args([args.pages.to_string(), args.kills.to_string()]).status().context("run python3")?;
    ensure!(status.success(), "remote spiders: see the lines that begin with FAIL");
    Ok(())
}

fn speed(args: &Args, programs: &Programs) -> Result<()> {
    let pages = args.pages * SPEED_FACTOR;
    let mut judge = Command::new("python3");
    judge.arg(shell::root().join("xtask/interop/spider_speed.py"));
    judge.args([programs.path("nephila")?, programs.path("testweb")?]);
    for (flag, value) in [
        ("--pages", pages.to_string()),
        ("--hosts", (pages / PAGES_PER_HOST).to_string()),
        ("--rounds", args.rounds.to_string()),
        ("--cases", args.cases.clone()),
    ] {
        judge.args([flag.to_owned(), value]);
    }
    judge.args((!args.report_only).then_some("--judge"));
    let status = judge.status().context("run python3")?;
    ensure!(status.success(), "spiders: a goal was missed, or a line begins with FAIL: see above");
    Ok(())
}
