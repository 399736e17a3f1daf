//! `cargo xtask sim`: the frontier, and whole clusters, in worlds made from seeds, with faults, and checkers that stand
//! outside them.
//!
//! The program is `nephila-sim`; this builds it with optimisation and passes on what was asked for. It ends with one
//! line of figures, or with the seed that failed and the command that shows it again.

use std::process::Command;
use std::time::Duration;

use clap::Subcommand;

use crate::shell;

/// What is simulated.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The frontier, in worlds of 20,000 steps, one seed after another.
    Frontier {
        /// Steps in all.
        #[arg(long, default_value_t = 50_000_000)]
        steps: u64,
        /// The first seed; the next worlds have the next ones.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// So many worlds, whatever steps that makes.
        #[arg(long)]
        worlds: Option<u64>,
        /// Tells everything that happens, on standard error.
        #[arg(long)]
        verbose: bool,
        /// Plants a bug, to see it found.
        #[arg(long)]
        planted: Option<String>,
    },
    /// Whole clusters, in worlds of ten minutes and what follows, one seed after another.
    Cluster {
        /// Hours of clusters in all.
        #[arg(long, default_value_t = 2_000)]
        hours: u64,
        /// Nodes killed in all.
        #[arg(long, default_value_t = 20_000)]
        kills: u64,
        /// The first seed; the next worlds have the next ones.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// So many worlds, whatever hours and kills that makes.
        #[arg(long)]
        worlds: Option<u64>,
        /// Tells everything that happens, on standard error.
        #[arg(long)]
        verbose: bool,
        /// Plants a bug, to see it found.
        #[arg(long)]
        planted: Option<String>,
    },
    /// Every planted bug: each must be found by the checker that is there for it.
    Planted,
}

/// The longest run, a cold build included.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let mut command =
        shell::cargo(&["run", "--quiet", "--release", "--locked", "-p", "nephila-sim", "--bin", "sim", "--"]);
    match args.what {
        What::Planted => _ = command.arg("planted"),
        What::Frontier { steps, seed, worlds, verbose, planted } => {
            command.args(["frontier", "--steps", &steps.to_string(), "--seed", &seed.to_string()]);
            pass_on(&mut command, worlds, verbose, planted);
        }
        What::Cluster { hours, kills, seed, worlds, verbose, planted } => {
            command.args(["cluster", "--hours", &hours.to_string(), "--kills", &kills.to_string()]);
            command.args(["--seed", &seed.to_string()]);
            pass_on(&mut command, worlds, verbose, planted);
        }
    }
    shell::run(&mut command, LIMIT)
}

/// What both kinds of worlds understand.
fn pass_on(command: &mut Command, worlds: Option<u64>, verbose: bool, planted: Option<String>) {
    if let Some(worlds) = worlds {
        command.args(["--worlds", &worlds.to_string()]);
    }
    if verbose {
        command.arg("--verbose");
    }
    if let Some(planted) = planted {
        command.args(["--planted", &planted]);
    }
}
