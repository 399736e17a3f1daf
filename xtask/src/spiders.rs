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
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let programs = Programs::build()?;
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
