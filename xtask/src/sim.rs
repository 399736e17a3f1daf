//! `cargo xtask sim frontier | cluster | scale | feeds | reflog | planted`: the frontier, whole clusters, large ones, feeds,
//! and streams of URLs, in worlds made from seeds, with faults, and checkers that stand outside them.
//!
//! The program is `nephila-sim`; this builds it and passes on what was asked for. It ends with one
//! line of figures, or with the seed that failed and the command that shows it again.

use std::process::Command;
use std::time::Duration;

use crate::programs::Programs;
use crate::shell;

/// What is simulated.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `frontier`, `cluster`, `scale`, `feeds`, `reflog` or `planted`, and sizes; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    what: Vec<String>,
}

/// The longest run, a cold build included.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let programs = Programs::build()?;
    shell::run(Command::new(programs.path("sim")?).args(&args.what), LIMIT)
}
