//! `cargo xtask outside [PART]`: the outside judge under `outside/`, a second web, resolver and checker in Python that share no code
//! with ours.
//!
//! Makes a virtual environment with pinned packages from PyPI (once, in a cache folder outside the clone), builds the
//! program, and runs the judge on this program. The judge prints its findings and ends with one line of figures; all
//! traffic stays on loopback.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::programs::Programs;
use crate::{interop, shell};

/// Packages of the judge besides the standard library: certificates, two codings, and two readers of WARC.
const PACKAGES: &[&str] =
    &["cryptography==50.0.2", "brotli==1.2.1", "zstandard==0.25.0", "warcio==1.8.1", "fastwarc==1.1.0"];
/// Timeout of the judge's own tests.
const TEST_LIMIT: Duration = Duration::from_secs(120);
/// Timeout of the short form, which is meant for 90 s; the rest is for a machine under load.
const SHORT_LIMIT: Duration = Duration::from_secs(6 * 60);
/// Timeout of a whole run: 100 kills and 20,000 pages at the shipped rests take about a quarter of an hour.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Parts to judge, and their sizes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this part, as with `--only`. `cluster` runs only on request: several nodes and three NATS servers under
    /// faults.
    #[arg(value_name = "PART")]
    part: Option<String>,
    /// The form for CI: small, at most a minute and a half.
    #[arg(long, conflicts_with_all = ["pages", "hosts", "kills", "damages"])]
    short: bool,
    /// Number of pages of the web that is crawled under kills [default: 20000].
    #[arg(long)]
    pages: Option<u32>,
    /// Number of its hosts [default: 300].
    #[arg(long)]
    hosts: Option<u32>,
    /// Number of kills of that crawl [default: 100].
    #[arg(long)]
    kills: Option<u32>,
    /// Number of nodes of the cluster [default: 4].
    #[arg(long)]
    nodes: Option<u32>,
    /// Number of faults of the cluster [default: 100].
    #[arg(long)]
    faults: Option<u32>,
    /// Number of kinds of damage to a folder [default: all].
    #[arg(long)]
    damages: Option<u32>,
    /// Seed of the webs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this part: `killed`, `full`, `clock`, `damage`, `first-hour`, `operators-hour`, `cluster`. May be given several times.
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Complaints with this text are about findings that are known to be open: shown, and no failure. May be given
    /// several times.
    #[arg(long, value_name = "TEXT")]
    open: Vec<String>,
    /// Write docs/first-hour.md and docs/operators-hour.md instead of comparing them.
    #[arg(long)]
    write_docs: bool,
    /// Folder that keeps journals and folders of crawls, for inspection.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The program to judge [default: the one of this workspace].
    #[arg(long, value_name = "FILE")]
    nephila: Option<PathBuf>,
    /// Folder of the virtual environment.
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Result<()> {
    let cache = args.cache.map_or_else(interop::default_cache, Ok)?;
    let tools = interop::environment(&cache.join("outside-tools"), PACKAGES)?;
    let nephila = match args.nephila {
        Some(path) => path,
        None => Programs::build()?.path("nephila")?.to_owned(),
    };
    let folder = shell::root().join("outside");
    let python = || {
        let mut command = std::process::Command::new(tools.join("bin/python"));
        // No compiled files in the clone; every line at once, so that progress is seen.
        command.args(["-B", "-u"]).current_dir(&folder);
        command
    };
    shell::quiet(python().args(["-m", "unittest", "--quiet"]), TEST_LIMIT)
        .and_then(|(status, said)| if status.success() { Ok(()) } else { anyhow::bail!("{said}") })
        .context("the judge's own tests")?;
    let mut judge = python();
    judge.arg("judge.py").arg("--nephila").arg(nephila.canonicalize().context("the program to judge")?);
    let sizes = [
        ("--pages", args.pages),
        ("--hosts", args.hosts),
        ("--kills", args.kills),
        ("--nodes", args.nodes),
        ("--faults", args.faults),
        ("--damages", args.damages),
    ];
    for (name, value) in sizes {
        if let Some(value) = value {
            judge.args([name, &value.to_string()]);
        }
    }
    judge.args(["--seed", &args.seed.to_string()]);
    let only: Vec<String> = args.part.into_iter().chain(args.only).collect();
    for (name, values) in [("--only", &only), ("--open", &args.open)] {
        for value in values {
            judge.args([name, value]);
        }
    }
    for (name, is_on) in [("--short", args.short), ("--write-docs", args.write_docs)] {
        if is_on {
            judge.arg(name);
        }
    }
    if let Some(keep) = args.keep {
        judge.arg("--keep").arg(std::path::absolute(keep)?);
    }
    shell::run(&mut judge, if args.short { SHORT_LIMIT } else { LIMIT })
        .context("something does not hold: see the lines that begin with FAIL")
}
