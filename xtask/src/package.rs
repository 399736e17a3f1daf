//! `cargo xtask package`: every published crate becomes a package that builds by itself, from the packages of the others.

use std::time::Duration;

use anyhow::Result;

use crate::shell;

/// The published crates, in the order of their dependencies.
const PUBLISHED: [&str; 11] = [
    "nephila-core",
    "nephila-spider",
    "nephila-store",
    "nephila-log",
    "nephila-tables",
    "nephila-text",
    "nephila-pdf",
    "nephila-engine",
    "nephila-api",
    "nephila-cluster",
    "nephila",
];

/// Timeout of all builds together.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// Options of `package`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Make the packages and do not build them.
    #[arg(long)]
    no_verify: bool,
}

impl Args {
    /// The short form of CI.
    pub(crate) fn short() -> Args {
        Args { no_verify: true }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    // The working tree may have changes that are not committed yet.
    let mut command = shell::cargo(&["package", "--quiet", "--locked", "--allow-dirty"]);
    PUBLISHED.iter().for_each(|name| _ = command.args(["-p", name]));
    if args.no_verify {
        command.arg("--no-verify");
    }
    shell::run(&mut command, LIMIT)?;
    let how = if args.no_verify { "made" } else { "made and built" };
    println!("package: {} packages {how}", PUBLISHED.len());
    Ok(())
}
