//! `cargo xtask python`, `cargo xtask replay` and `cargo xtask attacks`: checks that are written in Python, with the programs of
//! this build.
//!
//! `python` runs `python/check.py`: the wheel of the Python package is built, installed and tested against the crawler, a
//! node and an object store. `replay` runs `xtask/interop/replay.py`: a WACZ file opens in ReplayWeb.page, in a headless
//! Chromium that the machine has to have. `attacks` runs `xtask/interop/attacks.py`, in the same browser: captured pages that
//! `nephila serve --replay` shows attack its API, the page around them and each other's browser.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::interop::default_cache;
use crate::programs::Programs;
use crate::shell;

/// Options of these commands.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder that keeps the tools of others.
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
    /// Options of the script, behind `--`.
    #[arg(last = true)]
    more: Vec<String>,
}

/// Checks the Python package.
pub(crate) fn python(args: &Args) -> Result<()> {
    let programs = Programs::build()?;
    let cache = args.cache.clone().map_or_else(default_cache, Ok)?;
    let mut command = Command::new("python3");
    command.arg(shell::root().join("python/check.py")).arg(cache.join("python-package"));
    if !args.more.is_empty() {
        command.arg("--").args(&args.more);
    }
    command.env("NEPHILA_BINARY", programs.path("nephila")?);
    command.env("NEPHILA_TESTWEB", programs.path("testweb")?);
    command.env("NEPHILA_NATS_SERVER", nephila_testnats::server_program()?);
    let status = command.status().context("running python/check.py")?;
    ensure!(status.success(), "the Python package does not pass: see above");
    Ok(())
}

/// Runs a proof in a browser: `replay.py` opens a WACZ file, `attacks.py` lets captured pages attack.
pub(crate) fn in_browser(script: &str, args: &Args) -> Result<()> {
    let programs = Programs::build()?;
    let cache = args.cache.clone().map_or_else(default_cache, Ok)?;
    let mut command = Command::new("python3");
    command.arg(shell::root().join("xtask/interop").join(script)).arg(programs.path("nephila")?).arg(cache);
    let status = command.args(&args.more).status().with_context(|| format!("running {script}"))?;
    ensure!(status.success(), "see the lines that begin with FAIL");
    Ok(())
}
