//! `cargo xtask tour`: the operator's tour of `docs/tour.md`, run for real: three nodes, a job, two faults, and their causes on the
//! dashboard. The script is `outside/dashboard/tour.mjs`; this command gives it the programs.
//!
//! Needs Chromium, node and npm on the machine, and the nats-server that `.ci/run` installs.
//!
//! Invariant: every process that the script starts ends with the script, which kills each by its id, also when the script is told
//! to end.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::dashboard;
use crate::interop::default_cache;
use crate::programs::Programs;
use crate::shell;

/// Options of `tour`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write docs/tour.md and its screens
    #[arg(long)]
    write_docs: bool,
    /// Folder of servers and nodes; its contents are removed first
    #[arg(long, default_value = "/tmp/nephila-tour")]
    folder: PathBuf,
    /// Folder with `nephila`, instead of building it
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Folder that keeps the tools of others
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// Timeout of the tour: the alarm of refusing hosts looks back five minutes. The script gives up before, and ends what runs.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let programs = match &args.programs {
        Some(folder) => Programs::of_folder(folder)?,
        None => Programs::build()?,
    };
    let cache = args.cache.clone().map_or_else(default_cache, Ok)?;
    let script = dashboard::tools(&cache.join("dashboard"))?;
    // The script runs in a folder of its own.
    let nats = std::path::absolute(nephila_testnats::server_program()?)?;
    let folder = std::path::absolute(&args.folder).context("--folder")?;
    let folders =
        [programs.path("nephila")?, &nats].map(|program| program.parent().expect("a file has a folder"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folders.iter().map(|folder| folder.to_path_buf()).chain(std::env::split_paths(&path));
    let mut command = Command::new("node");
    command.arg("tour.mjs").arg("--folder").arg(folder).current_dir(script);
    command.env("PATH", std::env::join_paths(all).context("the search path of programs")?);
    if args.write_docs {
        command.arg("--docs").arg(shell::root().join("docs"));
    }
    shell::run(&mut command, LIMIT).context("a command or a page is not as docs/tour.md says")
}
