//! `cargo xtask dist-try`: installs and runs what `dist` has made, as people would, in roots that know nothing of us.
//!
//! Each trial has a root of its own and crawls the test web on the machine's loopback from within. Prints for each a line with time and
//! size. Needs root, Linux, and the Debian packages that [`NEEDS`] names.

mod packages;
mod root;
mod service;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::interop;
use crate::programs::Programs;
use crate::watched::Site;
use root::Root;

/// Programs of others, with the Debian package of each.
const NEEDS: [(&str, &str); 4] = [
    ("debootstrap", "debootstrap"),
    ("rpm", "rpm"),
    ("systemd-nspawn", "systemd-container"),
    ("systemd-analyze", "systemd"),
];
/// Hosts and pages of the test web: enough for a crawl, which takes seconds.
const WEB: [&str; 6] = ["--hosts", "3", "--pages", "40", "--addresses", "2"];
/// The crawl delay of a crawl that is to end soon.
const QUICK: &str = "10ms";
/// The authority of the test web, in a root.
const CA: &str = "/data/ca.pem";

/// Options of `dist-try`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with the artifacts of `dist`
    #[arg(long, value_name = "DIR")]
    dist: PathBuf,
    /// Folder with the test web [default: build it]
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    /// Trials to make [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Folder for the roots
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

/// What a trial has.
struct Trial<'a> {
    dist: &'a Path,
    cache: PathBuf,
    web: &'a Site,
}

/// A trial: returns what it has seen.
type Try = fn(&Trial<'_>) -> Result<String>;

/// All trials, with the end of the name of the artifact that each is about.
const TRIALS: [(&str, &str, Try); 6] = [
    ("deb", ".deb", packages::deb),
    ("rpm", ".rpm", packages::rpm),
    ("tarball", ".tar.gz", packages::tarball),
    ("image", ".oci.tar", packages::image),
    ("sandbox", ".deb", service::sandbox),
    ("service", ".deb", service::service),
];

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "roots are made by root: run with sudo, or in a container");
    for (program, package) in NEEDS {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|folder| folder.join(program).is_file());
        ensure!(found, "{program} is missing: apt-get install {package}");
    }
    let known = |name: &String| TRIALS.iter().any(|(trial, ..)| trial == name);
    if let Some(unknown) = args.names.iter().find(|name| !known(name)) {
        anyhow::bail!("there is no trial {unknown}; there are {}", TRIALS.map(|(name, ..)| name).join(", "));
    }
    let programs = args.programs.as_deref().map_or_else(Programs::build, Programs::of_folder)?;
    let web = Site::start(&programs, &WEB)?;
    let dist = std::path::absolute(&args.dist)?;
    let cache = args.cache.clone().map_or_else(interop::default_cache, Ok)?;
    let trial = Trial { dist: &dist, cache, web: &web };
    let chosen = TRIALS
        .iter()
        .filter(|(name, ..)| args.names.is_empty() || args.names.iter().any(|other| other == name));
    let mut failed = Vec::new();
    for (name, end, run) in chosen {
        let begun = Instant::now();
        let megabytes = std::fs::metadata(trial.artifact(end)?)?.len() as f64 / 1e6;
        let said = run(&trial);
        let seconds = begun.elapsed().as_secs_f64();
        match said {
            Ok(said) => println!("dist-try: {name:<8} {megabytes:>5.1} MB {seconds:>6.1} s  {said}"),
            Err(error) => {
                println!("dist-try: {name:<8} {megabytes:>5.1} MB {seconds:>6.1} s  FAILED: {error:#}");
                failed.push(*name);
            }
        }
    }
    ensure!(failed.is_empty(), "failed: {}; see above", failed.join(", "));
    Ok(())
}

impl Trial<'_> {
    /// The artifact whose name ends so.
    fn artifact(&self, end: &str) -> Result<PathBuf> {
        let entries = std::fs::read_dir(self.dist).with_context(|| self.dist.display().to_string())?;
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let found = paths.find(|path| path.to_string_lossy().ends_with(end));
        found.with_context(|| format!("no artifact *{end} in {}: run cargo xtask dist", self.dist.display()))
    }

    /// The settings by which a crawler in a root finds the test web.
    fn settings(&self) -> Result<Vec<String>> {
        let settings = self.web.settings(&[])?;
        let inside = |set: String| {
            if set.starts_with("spider.ca_file=") { format!("spider.ca_file={CA}") } else { set }
        };
        Ok(settings.into_iter().map(inside).collect())
    }

    /// Puts the authority of the test web into a root.
    fn bring_ca(&self, root: &Root) -> Result<()> {
        let to = root.path().join(CA.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
        std::fs::copy(self.web.ca()?, &to).context("the authority of the test web")?;
        // Read by users of the root who are not root.
        Ok(std::fs::set_permissions(&to, Permissions::from_mode(0o644))?)
    }

    /// The words of a command that crawls the test web into a folder, with this crawl delay.
    fn crawl(&self, program: &str, folder: &str, delay: &str) -> Result<Vec<String>> {
        let words = [program, "crawl", self.web.home()?, "--scope", "any", "-d", "255", "--delay", delay];
        let more = ["--config", "/dev/null", "--quiet", "-o", folder];
        let words = words.into_iter().chain(more).map(str::to_owned);
        Ok(words.chain(self.settings()?.into_iter().flat_map(|set| ["--set".to_owned(), set])).collect())
    }
}

/// Number of pages that a crawl has stored, by what `nephila report summary` says; there have to be some.
fn pages(summary: &str) -> Result<u64> {
    let pages = summary.split_once(" pages from ").and_then(|(before, _)| before.trim().parse().ok());
    let pages: u64 = pages.with_context(|| format!("no number of pages in {summary:?}"))?;
    ensure!(pages >= 10, "only {pages} pages were crawled");
    Ok(pages)
}

/// Words as they are given to a command.
fn as_strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_a_crawl_is_understood() {
        assert_eq!(pages("40 pages from 3 hosts at 2 addresses, 3 robots.txt\n").unwrap(), 40);
        assert!(pages("3 pages from 1 hosts").is_err(), "that is no crawl");
        assert!(pages("nothing").is_err());
    }
}
