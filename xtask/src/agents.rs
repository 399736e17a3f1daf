//! `cargo xtask agents`: what programs for language models use, judged by the public clients of others.
//!
//! Each judge under `outside/` is a program in Python around a client from PyPI. It gets the programs of this build, crawls a
//! web on loopback, and ends with one line of figures. The clients live in virtual environments in a cache folder outside
//! the clone.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::Programs;
use crate::{interop, shell};

/// Timeout of a judge: each takes a minute or two.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// A judge.
struct Judge {
    name: &'static str,
    /// The script under `outside/`.
    script: &'static str,
    /// Packages of its environment.
    packages: &'static [&'static str],
    /// Programs whose paths the script takes.
    programs: &'static [&'static str],
}

/// All judges.
const JUDGES: &[Judge] = &[
    // The compatible API below `/v2`, by the client of Firecrawl.
    Judge {
        name: "firecrawl",
        script: "firecrawl_client.py",
        packages: &["firecrawl-py==4.53.2"],
        programs: &["nephila", "testweb"],
    },
    // `nephila mcp`, by the SDK of the Model Context Protocol.
    Judge { name: "mcp", script: "mcp_client.py", packages: &["mcp==2.3.0"], programs: &["nephila"] },
];

/// Options of `agents`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this judge: `firecrawl` or `mcp`
    #[arg(long, value_name = "JUDGE")]
    only: Option<String>,
    /// Folder with programs that were built before, by their names [default: builds them]
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Folder of the virtual environments
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let cache = args.cache.clone().map_or_else(interop::default_cache, Ok)?;
    let is_wanted = |judge: &&Judge| args.only.as_ref().is_none_or(|name| name == judge.name);
    let judges: Vec<&Judge> = JUDGES.iter().filter(is_wanted).collect();
    ensure!(!judges.is_empty(), "no such judge: {}", args.only.as_deref().unwrap_or_default());
    let programs = match &args.programs {
        Some(folder) => Programs::of_folder(folder)?,
        None => Programs::build()?,
    };
    let mut failed = Vec::new();
    for judge in judges {
        let tools = interop::environment(&cache.join(format!("agents-{}", judge.name)), judge.packages)?;
        let mut command = Command::new(tools.join("bin/python"));
        command.args(["-B", "-u", judge.script]).current_dir(shell::root().join("outside"));
        for program in judge.programs {
            command.arg(programs.path(program)?.canonicalize().context("a program to judge")?);
        }
        if let Err(error) = shell::run(&mut command, LIMIT) {
            failed.push(format!("{}: {error:#}", judge.name));
        }
    }
    ensure!(failed.is_empty(), "see the lines that begin with FAIL: {}", failed.join("; "));
    Ok(())
}
