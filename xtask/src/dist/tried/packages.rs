//! Trials of packages, of the tarball and of the image: installed, run, and removed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{CA, QUICK, Root, Trial, as_strs, pages};
use crate::shell;

/// Timeout of a tool on this machine.
const LIMIT: Duration = Duration::from_secs(120);
/// The user of the image.
const USER: &str = "65532:65532";
/// Where a package is put into a root.
const PACKAGE: &str = "/data/package";

/// Installs, crawls and purges the Debian package.
pub(super) fn deb(trial: &Trial<'_>) -> Result<String> {
    let root = Root::debian(&trial.cache, &[])?;
    trial.bring_ca(&root)?;
    bring(&root, &trial.artifact(".deb")?)?;
    let (files, users) = (root.files()?, root.users()?);
    // A fresh root has all that the package needs: dpkg refuses otherwise.
    root.run(&["dpkg", "--install", PACKAGE])?;
    let installed = root.files()?.difference(&files).count();
    ensure!(root.users()?.contains("\nnephila:x:"), "the package made no user");
    let version = root.run(&["nephila", "--version"])?;
    let crawled = crawl(trial, &root, "nephila", "/var/lib/nephila/trial")?;
    root.run(&["dpkg", "--verify", "nephila"])?;
    root.run(&["dpkg", "--purge", "nephila"])?;
    let left: Vec<_> = root.files()?.difference(&files).cloned().collect();
    ensure!(left.is_empty(), "purge leaves {}", left.join(", "));
    ensure!(root.users()? == users, "purge leaves a user or a group");
    let known = root.run(&["sh", "-c", "ls /var/lib/dpkg/info | grep -c ^nephila || true"])?;
    ensure!(known.trim() == "0", "dpkg still knows the package");
    Ok(format!(
        "{}: {installed} files installed, {crawled} pages crawled, purge leaves nothing",
        version.trim()
    ))
}

/// Installs the RPM package into a Debian root by this machine's rpm, verifies, crawls and removes it.
pub(super) fn rpm(trial: &Trial<'_>) -> Result<String> {
    let root = Root::debian(&trial.cache, &[])?;
    trial.bring_ca(&root)?;
    let files = root.files()?;
    let rpm = |words: &[&str]| {
        let mut command = Command::new("rpm");
        // Debian's rpm keeps its database in the home folder otherwise.
        command.arg("--root").arg(root.path()).args(["--dbpath", "/var/lib/rpm"]).args(words);
        shell::output(&mut command, LIMIT)
    };
    let package = trial.artifact(".rpm")?;
    let package = package.to_str().context("a path in UTF-8")?;
    let checked = rpm(&["--checksig", "--nosignature", package])?;
    ensure!(checked.contains("digests OK"), "rpm says {checked}");
    // What Debian installed is unknown to rpm, so is glibc.
    rpm(&["--install", "--nodeps", package])?;
    ensure!(root.users()?.contains("\nnephila:x:"), "the package made no user");
    let installed = root.files()?.difference(&files).count();
    let changed = rpm(&["--verify", "--nodeps", "nephila"])?;
    ensure!(changed.trim().is_empty(), "rpm --verify says {changed}");
    let crawled = crawl(trial, &root, "nephila", "/var/lib/nephila/trial")?;
    rpm(&["--erase", "nephila"])?;
    let left: Vec<String> = root.files()?.difference(&files).cloned().collect();
    let is_kept = |path: &String| {
        ["etc/nephila", "var/lib/nephila", "var/lib/rpm"].iter().any(|kept| path.starts_with(kept))
    };
    let odd: Vec<String> = left.into_iter().filter(|path| !is_kept(path)).collect();
    ensure!(odd.is_empty(), "erasing leaves {}", odd.join(", "));
    Ok(format!("{installed} files installed, rpm --verify clean, {crawled} pages crawled, erased"))
}

/// Unpacks the tarball into a root that has only what its documents say: glibc and libgcc.
pub(super) fn tarball(trial: &Trial<'_>) -> Result<String> {
    let root = Root::empty()?;
    trial.bring_ca(&root)?;
    root.unpack(&trial.artifact(".tar.gz")?)?;
    let name = std::fs::read_dir(root.path())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find(|name| name.starts_with("nephila-"))
        .context("the tarball has one folder")?;
    let program = root.path().join(&name).join("nephila");
    let needs = super::super::needs::Needs::of(&program, &std::fs::read(&program)?)?;
    for (place, path) in &needs.libraries {
        let to = root.path().join(place.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().context("a library lies in a folder")?)?;
        std::fs::copy(path, to).with_context(|| path.display().to_string())?;
    }
    let crawled = crawl(trial, &root, &format!("/{name}/nephila"), "/data/trial")?;
    let on = needs.glibc.map_or_else(|| "nothing".to_owned(), |glibc| format!("glibc {glibc} and libgcc"));
    Ok(format!("{crawled} pages crawled in a root with {on} alone"))
}

/// Runs the image's root as its user, with everything but `/data` and `/tmp` read-only.
pub(super) fn image(trial: &Trial<'_>) -> Result<String> {
    let layout = Root::empty()?;
    layout.unpack(&trial.artifact(".oci.tar")?)?;
    let root = Root::empty()?;
    let (config, layers) = opened(layout.path())?;
    layers.iter().try_for_each(|layer| root.unpack(layer))?;
    ensure!(config["User"] == USER, "the image's user is {}", config["User"]);
    trial.bring_ca(&root)?;
    let words = trial.crawl(entrypoint(&config)?, "/data/trial", QUICK)?;
    root.run_read_only(USER, &as_strs(&words))?;
    let program = entrypoint(&config)?;
    let crawled = pages(&root.run_read_only(USER, &[program, "report", "summary", "-o", "/data/trial"])?)?;
    root.run_read_only(USER, &[program, "verify", "/data/trial"])?;
    let refused = root.run_read_only(USER, &[program, "identity", "key", "/usr/key.pem"]);
    ensure!(refused.is_err(), "the root can be written");
    Ok(format!("{crawled} pages crawled as user {USER}, with a read-only root"))
}

/// What the image says about how it runs, and its layers. Each blob has to have its digest.
fn opened(layout: &Path) -> Result<(Value, Vec<PathBuf>)> {
    let path = |descriptor: &Value| -> Result<PathBuf> {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let path = layout.join("blobs/sha256").join(digest.context("no digest")?);
        let is_right = super::super::sha256(&std::fs::read(&path)?) == digest.unwrap_or_default();
        ensure!(is_right, "{} does not have its digest", path.display());
        Ok(path)
    };
    let read = |path: &Path| anyhow::Ok(serde_json::from_slice::<Value>(&std::fs::read(path)?)?);
    let index = read(&layout.join("index.json"))?;
    let manifest = read(&path(&index["manifests"][0])?)?;
    let config = read(&path(&manifest["config"])?)?["config"].take();
    let layers = manifest["layers"].as_array().context("no layers")?;
    Ok((config, layers.iter().map(path).collect::<Result<_>>()?))
}

fn entrypoint(config: &Value) -> Result<&str> {
    config["Entrypoint"][0].as_str().context("the image has no entry point")
}

/// Copies a package into a root.
fn bring(root: &Root, package: &Path) -> Result<()> {
    std::fs::copy(package, root.path().join(PACKAGE.trim_start_matches('/')))
        .map(drop)
        .context("copy the package")
}

/// Crawls the test web in a root, judges the archive, and returns the number of pages.
fn crawl(trial: &Trial<'_>, root: &Root, program: &str, folder: &str) -> Result<u64> {
    debug_assert!(root.path().join(CA.trim_start_matches('/')).is_file(), "the crawl trusts the test web");
    root.run(&as_strs(&trial.crawl(program, folder, QUICK)?))?;
    root.run(&[program, "verify", folder])?;
    pages(&root.run(&[program, "report", "summary", "-o", folder])?)
}
