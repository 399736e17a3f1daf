//! `cargo xtask sim frontier | cluster | scale | feeds | reflog | spiders | planted`: the frontier, whole clusters, large
//! ones, feeds, streams of URLs, and remote spiders, in worlds made from seeds, with faults, and checkers that stand
//! outside them.
//!
//! The program is `nephila-sim`; this command builds the program and passes on the arguments. The last line is one line
//! of figures, or the seed that failed and the command that repeats the failure.

use std::process::Command;
use std::time::Duration;

use crate::programs::Programs;
use crate::shell;

/// The simulation to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `frontier`, `cluster`, `scale`, `feeds`, `reflog`, `spiders` or `planted`, and sizes; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    what: Vec<String>,
}

/// Timeout of the longest run, a cold build included.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let programs = Programs::build()?;
    shell::run(Command::new(programs.path("sim")?).args(&args.what), LIMIT)
}
