//! `cargo xtask soak`: no hang, no leak.
//!
//! Runs the hostile web in one process and the spider in another (`crates/nephila-proof/src/bin/soak.rs`, which lists the
//! invariants), so that files, tasks and memory are the spider's alone. 85 of 100 URLs are good, 15 hostile, all cases
//! in turn. The last line is the figures.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::programs::{Programs, Server};
use crate::shell;

/// Sizes of the soak.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of fetches in all, in two rounds alike.
    #[arg(long, default_value_t = 100_000)]
    fetches: u64,
    /// Number of fetches at the same time.
    #[arg(long, default_value_t = 2_000)]
    concurrency: u32,
    /// Percentage of hostile URLs.
    #[arg(long, default_value_t = 15)]
    hostile_percent: u32,
    /// Timeout of the whole soak in seconds.
    #[arg(long, default_value_t = 1_200)]
    seconds_max: u64,
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    let programs = Programs::build()?;
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let web = Server::start(
        Command::new(programs.path("testweb")?).args(["hostile", "--folder"]).arg(folder.path()),
    )?;
    let mut command = Command::new(programs.path("soak")?);
    command.args(["--web", &web.ready.to_string()]);
    for (flag, value) in [
        ("--fetches", args.fetches.to_string()),
        ("--concurrency", args.concurrency.to_string()),
        ("--hostile-percent", args.hostile_percent.to_string()),
    ] {
        command.args([flag, &value]);
    }
    shell::run(&mut command, Duration::from_secs(args.seconds_max))
}
