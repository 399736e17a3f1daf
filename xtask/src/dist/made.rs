//! What the program makes of itself for packages: manual pages, scripts of shells, and the settings with their defaults.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::tree::{FILE, Tree};
use crate::shell;

/// Shells with the names that their scripts have in a folder of such scripts.
pub(crate) const SCRIPTS: [(&str, &str); 3] =
    [("bash", "nephila"), ("zsh", "_nephila"), ("fish", "nephila.fish")];
/// Timeout of a call of the program.
const LIMIT: Duration = Duration::from_secs(60);

/// Files by `man/NAME.1`, `completions/SHELL/NAME` and `nephila.toml`.
///
/// Beside a program that is too old to make them, a folder `made` may have them.
pub(crate) fn files(program: &Path) -> Result<Tree> {
    let kept = program.with_file_name("made");
    if kept.is_dir() {
        let mut tree = Tree::default();
        read(&kept, "", &mut tree)?;
        return Ok(tree);
    }
    make(program)
}

fn make(program: &Path) -> Result<Tree> {
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let nephila = |args: &[&str]| {
        let mut command = Command::new(program);
        // Without the settings of whoever builds.
        command.args(args).current_dir(folder.path()).env("HOME", folder.path()).env_remove("NEPHILA_CONFIG");
        shell::output(&mut command, LIMIT)
    };
    nephila(&["man", "--out", "man"])?;
    let mut tree = Tree::default();
    read(folder.path(), "", &mut tree)?;
    for (shell, name) in SCRIPTS {
        tree.file(format!("completions/{shell}/{name}"), FILE, nephila(&["completions", shell])?);
    }
    tree.file("nephila.toml", FILE, nephila(&["settings"])?);
    ensure!(tree.iter().any(|(path, _)| path == "man/nephila-crawl.1"), "the program made no manual pages");
    Ok(tree)
}

/// Adds all files of a folder.
fn read(folder: &Path, prefix: &str, tree: &mut Tree) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
        match path.is_dir() {
            true => read(&path, &format!("{name}/"), tree)?,
            false => tree.file(name, FILE, std::fs::read(&path).with_context(|| path.display().to_string())?),
        }
    }
    Ok(())
}
