//! `cargo xtask state crash | replay | snapshot`: proves the state on disk at full size.
//!
//! The proofs themselves are in `crates/nephila-store/examples/state_proof`, built as released; this starts them. Each
//! ends with one line of figures, and fails when a bound does not hold.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::programs::Programs;
use crate::shell;

/// Timeout of a proof of any size.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// The proof to run.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    proof: Proof,
}

#[derive(Debug, clap::Subcommand)]
enum Proof {
    /// Stops the machine at every call to its disk, then kills a process that folds again and again.
    Crash {
        /// Number of groups in the log whose folding is stopped.
        #[arg(long, default_value_t = 500)]
        groups: u64,
        /// Distance between two stop points, in calls to the disk.
        #[arg(long, default_value_t = 1)]
        stride: u64,
        /// Number of times the process is killed.
        #[arg(long, default_value_t = 500)]
        kills: u64,
        /// Seed of the random moments; the moment of a kill still depends on the machine.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Folder for the states; a temporary folder if not given.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Folds a log twice, and once from a snapshot in its middle: the same state.
    Replay {
        /// Approximate number of discoveries and outcomes in the log.
        #[arg(long, default_value_t = 10_000_000)]
        entries: u64,
        /// Folder for the states; a temporary folder if not given.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Snapshots a large partition when one URL in a hundred has changed, goes on from the copy, and splits.
    Snapshot {
        /// Number of URLs of the partition.
        #[arg(long, default_value_t = 10_000_000)]
        urls: u64,
        /// Folder for the states; a temporary folder if not given.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let programs = Programs::build()?;
    let program = programs.path("state_proof")?;
    let prove = |name: &str, numbers: &[(&str, u64)], dir: &Option<PathBuf>| {
        let mut command = Command::new(program);
        command.arg(name);
        for (option, number) in numbers {
            command.args([*option, &number.to_string()]);
        }
        if let Some(dir) = dir {
            command.arg("--dir").arg(dir);
        }
        shell::run(&mut command, LIMIT)
    };
    match args.proof {
        Proof::Crash { groups, stride, kills, seed, dir } => {
            prove("crash", &[("--groups", groups), ("--stride", stride)], &dir)?;
            prove("kill", &[("--kills", kills), ("--seed", seed)], &dir)
        }
        Proof::Replay { entries, dir } => prove("replay", &[("--entries", entries)], &dir),
        Proof::Snapshot { urls, dir } => prove("snapshot", &[("--urls", urls)], &dir),
    }
}
