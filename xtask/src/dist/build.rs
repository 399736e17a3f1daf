//! The program of a release: built with the profile `dist`, and without paths of the machine that builds it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::shell;

/// Timeout of the build, whose last step optimises the program as a whole.
const LIMIT: Duration = Duration::from_secs(3 * 60 * 60);
/// Timeout of a call of git.
const GIT_LIMIT: Duration = Duration::from_secs(30);

/// Builds the program and returns its path.
pub(crate) fn program() -> Result<PathBuf> {
    let mut command =
        shell::cargo(&["build", "--locked", "-p", "nephila", "--bin", "nephila", "--profile", "dist"]);
    // Sources of ours and of others have names of their own, so that messages are the same wherever the program is built.
    let (mut rust, mut c) = (flags("RUSTFLAGS"), flags("CFLAGS"));
    for (path, name) in places()? {
        rust.push(format!("--remap-path-prefix={path}={name}"));
        c.push(format!("-ffile-prefix-map={path}={name}"));
    }
    command.env("RUSTFLAGS", rust.join(" ")).env("CFLAGS", c.join(" "));
    shell::run(&mut command, LIMIT)?;
    Ok(shell::target_dir().join("dist/nephila"))
}

fn flags(variable: &str) -> Vec<String> {
    std::env::var(variable).ok().filter(|flags| !flags.is_empty()).into_iter().collect()
}

/// Places of this machine, with the names that they have in a program. The last that fits is taken.
fn places() -> Result<Vec<(String, &'static str)>> {
    let home = std::env::var_os("HOME").map(PathBuf::from).context("HOME is not set")?;
    let cargo = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let sources = cargo.join("registry/src");
    let mut places = vec![(home, "/home"), (cargo, "/cargo")];
    // The folder of a registry has its digest in its name.
    for entry in std::fs::read_dir(&sources).with_context(|| sources.display().to_string())? {
        places.push((entry?.path(), "/crates"));
    }
    places.push((shell::target_dir(), "/target"));
    places.push((shell::root(), "/nephila"));
    Ok(places.into_iter().map(|(path, name)| (path.to_string_lossy().into_owned(), name)).collect())
}

/// Places of this machine whose paths are in a program.
pub(crate) fn paths(program: &[u8]) -> Vec<String> {
    // A name such as `root` alone says nothing, and may be in an address.
    let places = places().unwrap_or_default().into_iter().filter(|(path, _)| path.matches('/').count() > 1);
    let places = places.map(|(path, _)| path + "/");
    let is_in = |path: &String| program.windows(path.len()).any(|window| window == path.as_bytes());
    places.filter(is_in).collect()
}

/// The time of all files in artifacts: `SOURCE_DATE_EPOCH`, else that of the commit.
pub(crate) fn time() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            let mut git = std::process::Command::new("git");
            git.args(["log", "-1", "--format=%ct"]).current_dir(shell::root());
            shell::output(&mut git, GIT_LIMIT).context("the time of the commit; or set SOURCE_DATE_EPOCH")?
        }
    };
    text.trim().parse().with_context(|| format!("{text:?} is no time in seconds"))
}
