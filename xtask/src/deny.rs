//! `cargo xtask deny`: which packages may be in our dependency tree, by `cargo deny` and by our own reading of the lock
//! files.
//!
//! Licences, bans, sources and version floors are always checked. Advisories need the RustSec database, a git
//! repository: a folder named by `NEPHILA_ADVISORY_DB`, or the network. Without either the command says in plain words
//! that advisories were not checked; the floors, taken from that database by hand, were.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{floors, shell};

/// Options of `deny`.
#[derive(Default, clap::Args)]
pub(crate) struct Args {}

/// The version that `.ci/run` installs.
const TOOL: &str = "cargo-deny@0.20.2";

/// Our own workspace, and the fuzz targets, which are a workspace of their own.
const WORKSPACES: [&str; 2] = [".", "fuzz"];

/// Timeout of one call of the tool, the index update included.
const TOOL_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Timeout of the database's host before the host counts as away.
const NETWORK_LIMIT: Duration = Duration::from_secs(15);

/// Where the database lives.
const DATABASE_URL: &str = "https://github.com/RustSec/advisory-db";

/// The folder name under which `cargo deny` looks for a clone of [`DATABASE_URL`].
const DATABASE_FOLDER: &str = "advisory-db-3157b0e258782691";

/// Names the folder of a clone of the database.
const DATABASE_VARIABLE: &str = "NEPHILA_ADVISORY_DB";

/// Runs the command.
pub(crate) fn run(_args: Args) -> Result<()> {
    let config = shell::root().join("deny.toml");
    let config_text = std::fs::read_to_string(&config).context("cannot read deny.toml")?;

    let floors = floors::parse(&config_text)?;
    for workspace in WORKSPACES {
        let path = shell::root().join(workspace).join("Cargo.lock");
        let lock =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let found = floors::violations(&floors, &lock)?;
        ensure!(found.is_empty(), "{}:\n  {}", path.display(), found.join("\n  "));
    }

    if shell::output(Command::new("cargo-deny").arg("--version"), TOOL_LIMIT).is_err() {
        bail!("cargo-deny is not installed: run `cargo install --locked {TOOL}`");
    }
    for workspace in WORKSPACES {
        shell::run(&mut deny(workspace, &config, &[], &["licenses", "bans", "sources"]), TOOL_LIMIT)?;
    }

    let advisories = check_advisories(&config, &config_text)?;
    println!(
        "deny: {} floors and bans over {} lock files, licences, bans and sources ok, {advisories}",
        floors.len(),
        WORKSPACES.len()
    );
    Ok(())
}

fn deny(workspace: &str, config: &Path, flags: &[&str], checks: &[&str]) -> Command {
    let manifest = shell::root().join(workspace).join("Cargo.toml");
    let mut command = Command::new("cargo-deny");
    command.current_dir(shell::root()).args(["--log-level", "warn", "--locked", "--manifest-path"]);
    command.arg(manifest).arg("--config").arg(config).args(flags);
    // An exception that only one of the two workspaces needs is no news in the other.
    command.args(["check", "--allow", "license-exception-not-encountered"]).args(checks);
    command
}

fn check_advisories(config: &Path, config_text: &str) -> Result<String> {
    if let Some(folder) = std::env::var_os(DATABASE_VARIABLE) {
        let folder = Path::new(&folder);
        // The tool takes an empty folder for a database without advisories.
        ensure!(
            folder.join("crates").is_dir(),
            "{DATABASE_VARIABLE} is {}, which is not a clone of {DATABASE_URL}: it has no folder `crates`",
            folder.display()
        );
        let scratch = tempfile::tempdir()?;
        std::os::unix::fs::symlink(std::path::absolute(folder)?, scratch.path().join(DATABASE_FOLDER))?;
        let config = scratch.path().join("deny.toml");
        std::fs::write(&config, with_database(config_text, scratch.path())?)?;
        for workspace in WORKSPACES {
            shell::run(&mut deny(workspace, &config, &["--offline"], &["advisories"]), TOOL_LIMIT)?;
        }
        return Ok(format!("advisories ok ({})", folder.display()));
    }
    let mut ask = Command::new("git");
    ask.args(["ls-remote", "--quiet", DATABASE_URL, "HEAD"]).env("GIT_TERMINAL_PROMPT", "0");
    if shell::output(&mut ask, NETWORK_LIMIT).is_ok() {
        for workspace in WORKSPACES {
            shell::run(&mut deny(workspace, config, &[], &["advisories"]), TOOL_LIMIT)?;
        }
        return Ok("advisories ok (from the network)".to_owned());
    }
    println!(
        "deny: advisories were NOT checked: {DATABASE_URL} does not answer and {DATABASE_VARIABLE} is not set.\n\
         deny: to check them, clone that repository somewhere and set {DATABASE_VARIABLE} to its folder."
    );
    Ok("advisories NOT checked".to_owned())
}

/// The settings with the place of the database in them.
fn with_database(config: &str, folder: &Path) -> Result<String> {
    let mut config: toml::Table = config.parse()?;
    let advisories = config.entry("advisories").or_insert_with(|| toml::Table::new().into());
    let table = advisories.as_table_mut().context("deny.toml: advisories is not a table")?;
    table.insert("db-path".to_owned(), folder.display().to_string().into());
    table.insert("db-urls".to_owned(), vec![DATABASE_URL].into());
    Ok(toml::to_string(&config)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_database_is_added_and_nothing_else_is_lost() {
        let real = std::fs::read_to_string(shell::root().join("deny.toml")).unwrap();
        let changed: toml::Table = with_database(&real, Path::new("/some/where")).unwrap().parse().unwrap();
        let real: toml::Table = real.parse().unwrap();
        assert_eq!(changed["advisories"]["db-path"].as_str(), Some("/some/where"));
        assert_eq!(changed["advisories"]["yanked"], real["advisories"]["yanked"]);
        assert_eq!((&changed["bans"], &changed["licenses"]), (&real["bans"], &real["licenses"]));
    }
}
