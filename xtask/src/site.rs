//! `cargo xtask site`: the manual as a site, built by MkDocs from `docs/` as `mkdocs.yml` says, and judged.
//!
//! Makes a virtual environment with pinned packages from PyPI (once, in a cache folder outside the clone) and builds strictly: a
//! warning is an error, such as a link to nothing or a page that the navigation lacks. `outside/site_links.py` then reads the built
//! pages as a browser would, and `outside/site_commands.py` compares the commands and settings of the pages with the program. Both
//! share no code with MkDocs.
//!
//! Invariants: nothing is written into the clone but the target folder; no page of the site loads anything from elsewhere.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::programs::Programs;
use crate::{interop, shell};

/// The generator, its theme, and the packages that shape its pages.
const PACKAGES: &[&str] = &[
    "mkdocs==1.6.1",
    "mkdocs-material==9.8.1",
    "Markdown==3.11.3",
    "pymdown-extensions==13.1",
    "Pygments==2.21.0",
];
/// Timeout of the build, which takes some seconds.
const BUILD_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Timeout of a judge, which takes some seconds; one of them starts the program for each of its commands.
const JUDGE_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Options of `site`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave no site behind; fail when something is wrong with a page
    #[arg(long)]
    check: bool,
    /// The program whose commands are compared [default: the one of this workspace]
    #[arg(long, value_name = "FILE")]
    nephila: Option<PathBuf>,
    /// Folder of the virtual environment
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let cache = args.cache.clone().map_or_else(interop::default_cache, Ok)?;
    let tools = interop::environment(&cache.join("site"), PACKAGES)?;
    let nephila = match &args.nephila {
        Some(path) => path.clone(),
        None => Programs::build()?.path("nephila")?.to_owned(),
    };
    let nephila = nephila.canonicalize().context("the program to compare")?;
    let temporary = tempfile::tempdir().context("make a temporary folder")?;
    let folder = if args.check { temporary.path().to_owned() } else { shell::target_dir() };
    let site = folder.join("site");
    let python = tools.join("bin/python");
    build(&python, &site)?;
    // Both, so that one run shows every fault.
    let judged = [judge(&python, "site_links.py", &site), judge(&python, "site_commands.py", &nephila)];
    judged.into_iter().collect::<Result<()>>()?;
    if !args.check {
        println!("site: {}", site.join("index.html").display());
    }
    Ok(())
}

/// Builds the site into a folder, whose contents are removed first.
fn build(python: &Path, site: &Path) -> Result<()> {
    let mut command = python_at_root(python);
    command.args(["-m", "mkdocs", "build", "--strict", "--site-dir"]).arg(site);
    // The theme advertises its successor otherwise.
    command.env("NO_MKDOCS_2_WARNING", "1");
    shell::run(&mut command, BUILD_LIMIT)
        .context("the manual does not build strictly: see the lines with WARNING")
}

/// Runs a judge under `outside/` on a folder or a program.
fn judge(python: &Path, script: &str, on: &Path) -> Result<()> {
    let mut command = python_at_root(python);
    command.arg(Path::new("outside").join(script)).arg(on);
    shell::run(&mut command, JUDGE_LIMIT).context("see the lines that begin with FAIL")
}

fn python_at_root(python: &Path) -> Command {
    let mut command = Command::new(python);
    // No compiled files in the clone; every line at once, so that progress is seen.
    command.args(["-B", "-u"]).current_dir(shell::root());
    command
}
