//! Runs the tools: one tool, one server and one file system at a time, round after round, back and forth.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::case::Case;
use super::figures::{Measured, Results};
use super::journal;
use super::place::{self, Disk};
use super::report::CaseReport;
use super::tools::{Tool, Web};
use crate::programs::{self, Server};
use crate::shell;

/// A server writes the end of its journal within this time.
const SERVER_END: Duration = Duration::from_secs(20);
/// The test web lists its URLs within this time.
const LIST_MAX: Duration = Duration::from_secs(60);
/// The disk catches up within this time before each run.
const SYNC_LIMIT: Duration = Duration::from_secs(120);
/// Our tools must end by themselves, regardless of the others' limit, and within this time.
const OUR_SECONDS_MAX: u64 = 300;
/// Maximum length of the output shown of a failed run of ours, in bytes.
const SAID_BYTES_MAX: usize = 2_000;

/// All that a run needs.
pub(super) struct Bench {
    pub(super) nephila: PathBuf,
    pub(super) bare_loop: PathBuf,
    pub(super) testweb: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) cache: PathBuf,
    pub(super) rounds: usize,
    pub(super) pages: u32,
    /// Timeout of another's tool in seconds.
    pub(super) seconds: u64,
    /// This process runs in a network of its own.
    pub(super) is_inside: bool,
    /// Unwritten data of the run before is written first.
    pub(super) syncs: bool,
    /// Each run has a file system of its own.
    pub(super) has_disks: bool,
}

impl Bench {
    /// The tools that can be measured here, and the reasons why others cannot.
    pub(super) fn find(&self, tools: &[Tool]) -> (Vec<Tool>, BTreeMap<Tool, String>) {
        let (mut here, mut missing) = (Vec::new(), BTreeMap::new());
        for tool in tools {
            match self.why_not(*tool) {
                None => here.push(*tool),
                Some(why) => drop(missing.insert(*tool, why)),
            }
        }
        (here, missing)
    }

    fn why_not(&self, tool: Tool) -> Option<String> {
        if !tool.is_others() {
            return None;
        }
        if !self.is_inside {
            return Some(place::WHY_NOT.to_owned());
        }
        (!tool.is_here(&self.cache)).then(|| format!("not installed: {}", tool.how_to_install()))
    }

    /// All rounds of one case. A tool of others that fails in one of them has no figures, and a reason instead.
    pub(super) fn measure(&self, case: Case, tools: &[Tool]) -> Result<CaseReport> {
        let (mut results, mut failed) = (Results::new(), BTreeMap::new());
        for round in 0..self.rounds {
            let mut order = tools.to_vec();
            if round % 2 == 1 {
                order.reverse();
            }
            for tool in order {
                if case.why_not(tool).is_some() || failed.contains_key(&tool) {
                    continue;
                }
                let place = format!("{}, round {}: {}", case.name(), round + 1, tool.name());
                match self.run(case, tool) {
                    Ok(measured) => {
                        println!("{place}: {}", measured.line());
                        results.entry(tool).or_default().push(measured);
                    }
                    Err(error) if tool.is_others() => {
                        println!("{place} failed: {error:#}");
                        results.remove(&tool);
                        failed.insert(tool, format!("failed: {error:#}").replace('\n', " "));
                    }
                    Err(error) => return Err(error.context(place)),
                }
            }
        }
        Ok(CaseReport { case, size: case.size(self.pages), results, failed })
    }

    /// One tool, one server, from the home page to the end.
    fn run(&self, case: Case, tool: Tool) -> Result<Measured> {
        let out = self.folder.join("crawl");
        // Declared first: the file system is left when everything on it has ended.
        let _disk = self.make_room(&out)?;
        let settings = self.folder.join("web.json");
        std::fs::write(&settings, case.settings(self.pages).to_string())?;
        let journal = self.folder.join("journal.jsonl");
        let ca = self.folder.join("ca.pem");
        let server = self.serve(&settings, &journal, &ca)?;
        let ports = [server.port("http_port")?, server.port("https_port")?];
        let web = Web {
            home: server.text("home")?.to_owned(),
            list: self.folder.join("urls.txt"),
            dns: server.text("dns")?.to_owned(),
            ports,
            ca,
        };
        let listed = if tool.is_others() { None } else { Some(self.list(&settings, &web)?) };
        let said = self.folder.join("said.txt");
        let mut command = tool.command([&self.nephila, &self.bare_loop], &self.cache, &web, &out);
        // Environment variables must not lead the other tools elsewhere.
        for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command.env("HOME", &out).current_dir(&out).stderr(std::fs::File::create(&said)?);
        let seconds = if tool.is_others() { self.seconds } else { OUR_SECONDS_MAX };
        let (usage, status) = programs::measure_for(&mut command, Duration::from_secs(seconds))?;
        server.finish(SERVER_END)?;
        let counts = journal::count(&journal)?;
        if let Some(listed) = listed {
            let is_good = status.is_some_and(|status| status.success());
            ensure!(is_good, "{command:?} ended with {status:?}: {}", last_of(&said));
            ensure!(counts.pages == listed, "{} pages of {listed} were fetched", counts.pages);
        }
        ensure!(counts.lost == 0, "the journal lost {} events", counts.lost);
        ensure!(counts.pages > 0, "no page was fetched: {}", last_of(&said));
        Ok(Measured::new(&usage, &counts, status.is_some(), crate::bench::bytes_in(&out)?))
    }

    /// An empty folder, on a file system of its own if there can be one.
    fn make_room(&self, out: &Path) -> Result<Option<Disk>> {
        if out.exists() {
            std::fs::remove_dir_all(out)?;
        }
        std::fs::create_dir_all(out)?;
        let disk = self.has_disks.then(|| Disk::mount(&self.folder.join("disk.img"), out)).transpose()?;
        if self.syncs {
            // Unwritten data of the run before would otherwise slow this one down.
            shell::run(Command::new("sync").arg("-f").arg(&self.folder), SYNC_LIMIT)?;
        }
        Ok(disk)
    }

    fn serve(&self, settings: &Path, journal: &Path, ca: &Path) -> Result<Server> {
        if journal.exists() {
            std::fs::remove_file(journal)?;
        }
        let mut command = Command::new(&self.testweb);
        command.args(["serve", "--settings"]).arg(settings).arg("--journal").arg(journal).arg("--ca").arg(ca);
        if self.is_inside {
            // The ports that a URL without one means: some tools know no others everywhere.
            command.args(["--http-port", "80", "--https-port", "443", "--dns-port", "53"]);
        }
        Server::start(&mut command)
    }

    /// Writes the list of all URLs and returns their number: every host has one at least, so there may be more than
    /// requested.
    fn list(&self, settings: &Path, web: &Web) -> Result<u64> {
        let [http, https] = web.ports.map(|port| port.to_string());
        let mut command = Command::new(&self.testweb);
        command.args(["list", "--settings"]).arg(settings);
        let urls = shell::output(command.args(["--http-port", &http, "--https-port", &https]), LIST_MAX)?;
        std::fs::write(&web.list, &urls)?;
        Ok(urls.lines().count() as u64)
    }
}

/// The end of a program's output.
fn last_of(said: &Path) -> String {
    let text = std::fs::read(said).unwrap_or_default();
    let from = text.len().saturating_sub(SAID_BYTES_MAX);
    String::from_utf8_lossy(&text[from..]).trim().to_owned()
}
