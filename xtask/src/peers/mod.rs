//! `cargo xtask bench peers`: the same work done by us and by others, as ratios within one run.
//!
//! The synthetic web serves pages of 20 KB with 40 links (`real-pages`: with markup as of real pages, 60 KB in the mean, most
//! of them smaller); every tool starts at the same home page and follows all links
//! to the end, obeying robots.txt, without rests. Each run has a server of its own, whose journal says how many
//! different pages were handed out: no tool counts for itself. Runs of all tools follow each other in every round, back
//! and forth; a ratio is the median over the rounds of neighbouring runs. A tool too slow for the time limit is stopped
//! there, and its figures are for the pages up to then.
//!
//! Other tools use the system's resolver and default ports, so everything runs in a network namespace of its own
//! (`place`). Each run has a new file system there, so that nobody pays for the files of the run before.
//!
//! Server and tool share the machine, so pages/s also hold the cost of the server; CPU per 1,000 pages does not.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::interop;
use crate::programs::{self, Programs, Server};
use crate::shell;

mod figures;
mod journal;
mod place;
mod tools;

use figures::{Measured, Results};
use tools::{Tool, Web};

/// Timeout of all rounds together.
const ALL_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);
/// A server writes the end of its journal within this time.
const SERVER_END: Duration = Duration::from_secs(20);
/// The disk catches up within this time before each run.
const SYNC_LIMIT: Duration = Duration::from_secs(120);
const QUICK_PAGES: u32 = 2_000;
/// One run of the quick form: all of them together stay below 40 s.
const QUICK_SECONDS: u64 = 2;
/// Our tool must end by itself, regardless of the others' limit, and within this time.
const OUR_SECONDS_MAX: u64 = 300;
/// With many hosts, this many pages per host in the mean.
const PAGES_PER_HOST: u32 = 3;
/// Large pages are fewer by this factor.
const LARGE_FEWER: u32 = 4;
/// Maximum length of the output shown of a failed run of ours, in bytes.
const SAID_BYTES_MAX: usize = 2_000;

/// Tools and webs to compare, and sizes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Webs to crawl.
    #[arg(long, value_delimiter = ',', default_values_t = Case::ALL.map(|case| case.name().to_owned()))]
    cases: Vec<String>,
    /// Tools to run.
    #[arg(long, value_delimiter = ',', default_values_t = Tool::ALL.map(|tool| tool.name().to_owned()))]
    tools: Vec<String>,
    /// Number of repetitions of each run.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Number of pages of the web; a quarter of this number for large pages.
    #[arg(long, default_value_t = 10_000)]
    pages: u32,
    /// Timeout of another's tool in seconds.
    #[arg(long, default_value_t = 90)]
    seconds: u64,
    /// Small, once, with many hosts only, with installed tools, without goals: for CI.
    #[arg(long)]
    quick: bool,
    /// Do not fail when a goal is missed.
    #[arg(long)]
    report_only: bool,
    /// Folder for crawls during the measurement; a temporary folder if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Folder of the Scrapy environment, the modules of Crawlee and the program with the `spider` crate.
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
    /// A `nephila` built before, instead of building one now.
    #[arg(long)]
    nephila: Option<PathBuf>,
    /// A `testweb` built before, instead of building one now.
    #[arg(long)]
    testweb: Option<PathBuf>,
    /// Set for the copy of this command that runs in a network of its own.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Runs the command.
pub(crate) fn run(mut args: Args) -> Result<()> {
    let tools = args.tools.iter().map(|name| Tool::of(name)).collect::<Result<Vec<_>>>()?;
    if args.quick && args.cases.len() == Case::ALL.len() {
        args.cases = vec![Case::ManyHosts.name().to_owned()];
    }
    let cases = args.cases.iter().map(|name| Case::of(name)).collect::<Result<Vec<_>>>()?;
    if args.quick {
        args.pages = args.pages.min(QUICK_PAGES);
        args.rounds = 1;
        args.seconds = args.seconds.min(QUICK_SECONDS);
    }
    ensure!(args.rounds > 0 && args.pages > 0 && args.seconds > 0, "nothing to measure");
    let cache = args.cache.clone().map_or_else(interop::default_cache, Ok)?;
    if !args.inside {
        let built = |name: &str| -> Result<PathBuf> { Ok(Programs::build()?.path(name)?.to_owned()) };
        args.nephila = Some(args.nephila.take().map_or_else(|| built("nephila"), Ok)?);
        args.testweb = Some(args.testweb.take().map_or_else(|| built("testweb"), Ok)?);
        if !args.quick {
            // A tool that cannot be installed is named later, with the reason, when the tool is not found.
            for tool in &tools {
                if let Err(error) = tool.install(&cache) {
                    println!("{} could not be installed: {error:#}", tool.name());
                }
            }
        }
        if place::can_be_made() {
            let folder = tempfile::tempdir().context("make a temporary folder")?;
            args.cache = Some(cache);
            return shell::run(&mut place::enter(folder.path(), &args.again())?, ALL_LIMIT);
        }
    }
    let temporary = tempfile::tempdir().context("make a temporary folder")?;
    let bench = Bench {
        nephila: args.nephila.clone().context("--nephila is missing")?,
        testweb: args.testweb.clone().context("--testweb is missing")?,
        folder: args.dir.clone().unwrap_or_else(|| temporary.path().to_owned()),
        cache,
        args,
    };
    bench.all(&cases, &tools)
}

impl Args {
    /// The flags that say the same to the copy of this command in a network of its own.
    fn again(&self) -> Vec<String> {
        let mut flags: Vec<String> = ["bench", "peers", "--inside"].map(str::to_owned).into();
        for (flag, value) in [
            ("--cases", self.cases.join(",")),
            ("--tools", self.tools.join(",")),
            ("--rounds", self.rounds.to_string()),
            ("--pages", self.pages.to_string()),
            ("--seconds", self.seconds.to_string()),
        ] {
            flags.extend([flag.to_owned(), value]);
        }
        for (flag, path) in [
            ("--dir", &self.dir),
            ("--cache", &self.cache),
            ("--nephila", &self.nephila),
            ("--testweb", &self.testweb),
        ] {
            flags.extend(path.iter().flat_map(|path| [flag.to_owned(), path.display().to_string()]));
        }
        for (flag, is_set) in [("--quick", self.quick), ("--report-only", self.report_only)] {
            flags.extend(is_set.then(|| flag.to_owned()));
        }
        flags
    }
}

/// A web to crawl.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Case {
    OneHost,
    ManyHosts,
    RealPages,
    Gzip,
    LargePages,
    Tls,
}

impl Case {
    const ALL: [Case; 6] =
        [Case::OneHost, Case::ManyHosts, Case::RealPages, Case::Gzip, Case::LargePages, Case::Tls];

    fn name(self) -> &'static str {
        match self {
            Case::OneHost => "one-host",
            Case::ManyHosts => "many-hosts",
            Case::RealPages => "real-pages",
            Case::Gzip => "gzip",
            Case::LargePages => "large-pages",
            Case::Tls => "tls",
        }
    }

    fn of(name: &str) -> Result<Case> {
        let found = Case::ALL.into_iter().find(|case| case.name() == name);
        found.with_context(|| format!("no case {name}: there are {}", Case::ALL.map(Case::name).join(", ")))
    }

    /// Pages, hosts and the mean size of a page.
    fn size(self, pages: u32) -> (u32, u32, u32) {
        let hosts = pages.div_ceil(PAGES_PER_HOST);
        match self {
            Case::OneHost => (pages, 1, 20_000),
            Case::ManyHosts | Case::Gzip | Case::Tls => (pages, hosts, 20_000),
            Case::RealPages => (pages, hosts, 60_000),
            Case::LargePages => (pages.div_ceil(LARGE_FEWER), 1, 100_000),
        }
    }
}

struct Bench {
    nephila: PathBuf,
    testweb: PathBuf,
    folder: PathBuf,
    cache: PathBuf,
    args: Args,
}

impl Bench {
    fn all(&self, cases: &[Case], tools: &[Tool]) -> Result<()> {
        let mut here = Vec::new();
        let mut missing = Vec::new();
        for tool in tools {
            match self.why_not(*tool) {
                None => here.push(*tool),
                Some(why) => missing.push((*tool, why)),
            }
        }
        let mut lines = Vec::new();
        let mut missed = Vec::new();
        for case in cases {
            let results = self.measure(*case, &here)?;
            let (pages, hosts, bytes) = case.size(self.args.pages);
            println!(
                "\n{}: about {pages} pages of {} KB on {hosts} host(s), medians of {} round(s)",
                case.name(),
                bytes / 1_000,
                self.args.rounds
            );
            figures::print_table(&results, &missing);
            let judged = figures::judge(*case, &results);
            lines.push(format!("{}: {}", case.name(), figures::summary(&results)));
            for goal in judged {
                println!("{}", goal.line());
                if !goal.is_met() {
                    missed.push(goal.line());
                }
            }
        }
        println!(
            "bench peers: {} pages x {} round(s), {} tools, {} not measured, {} goals missed: {}",
            self.args.pages,
            self.args.rounds,
            here.len(),
            missing.len(),
            missed.len(),
            lines.join("; ")
        );
        if !self.args.report_only && !self.args.quick {
            ensure!(missed.is_empty(), "{}", missed.join("; "));
        }
        Ok(())
    }

    /// The reason why a tool cannot be measured, or none.
    fn why_not(&self, tool: Tool) -> Option<String> {
        if tool.is_ours() {
            return None;
        }
        if !self.args.inside {
            return Some(place::WHY_NOT.to_owned());
        }
        (!tool.is_here(&self.cache)).then(|| format!("not installed: {}", tool.how_to_install()))
    }

    fn measure(&self, case: Case, tools: &[Tool]) -> Result<Results> {
        let mut results = Results::new();
        for round in 0..self.args.rounds {
            let mut order = tools.to_vec();
            if round % 2 == 1 {
                order.reverse();
            }
            for tool in order {
                let measured =
                    self.run(case, tool).with_context(|| format!("{}: {}", case.name(), tool.name()))?;
                println!("{}, round {}: {}: {}", case.name(), round + 1, tool.name(), measured.line());
                results.entry(tool).or_default().push(measured);
            }
        }
        Ok(results)
    }

    /// One tool, one server, from the home page to the end.
    fn run(&self, case: Case, tool: Tool) -> Result<Measured> {
        let out = self.folder.join("crawl");
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        std::fs::create_dir_all(&out)?;
        if !self.args.quick {
            // Unwritten data of the run before would otherwise slow this one down.
            shell::run(Command::new("sync").arg("-f").arg(&self.folder), SYNC_LIMIT)?;
        }
        let _disk = match self.args.inside && !self.args.quick {
            true => Some(place::Disk::mount(&self.folder.join("disk.img"), &out)?),
            false => None,
        };
        let journal = self.folder.join("journal.jsonl");
        let ca = self.folder.join("ca.pem");
        let server = self.serve(case, &journal, &ca)?;
        let web = Web {
            home: server.text("home")?.to_owned(),
            dns: server.text("dns")?.to_owned(),
            ports: [server.port("http_port")?, server.port("https_port")?],
            ca,
        };
        let said = self.folder.join("said.txt");
        let mut command = tool.command(&self.nephila, &self.cache, &web, &out);
        // Environment variables must not lead the other tools elsewhere.
        for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command.env("HOME", &out).current_dir(&out).stderr(std::fs::File::create(&said)?);
        let seconds = if tool.is_ours() { OUR_SECONDS_MAX } else { self.args.seconds };
        let (usage, status) = programs::measure_for(&mut command, Duration::from_secs(seconds))?;
        server.finish(SERVER_END)?;
        let counts = journal::count(&journal)?;
        if tool.is_ours() {
            let is_good = status.is_some_and(|status| status.success());
            ensure!(is_good, "{command:?} ended with {status:?}: {}", last_of(&said));
            let wanted = self.listed(case)?;
            ensure!(
                counts.pages == wanted && counts.lost == 0,
                "{} of {wanted} pages were fetched, {} lines of the journal were lost",
                counts.pages,
                counts.lost
            );
        }
        ensure!(counts.pages > 0, "it fetched nothing: {}", last_of(&said));
        Ok(Measured {
            usage,
            pages: counts.pages,
            again: counts.again,
            is_whole: status.is_some(),
            disk_bytes: crate::bench::bytes_in(&out)?,
            steady: counts.steady(),
        })
    }

    fn serve(&self, case: Case, journal: &Path, ca: &Path) -> Result<Server> {
        if journal.exists() {
            std::fs::remove_file(journal)?;
        }
        let mut command = Command::new(&self.testweb);
        command.arg("serve").args(self.web(case)?).arg("--journal").arg(journal).arg("--ca").arg(ca);
        if self.args.inside {
            // The ports that a URL without one means: some tools know no others everywhere.
            command.args(["--http-port", "80", "--https-port", "443", "--dns-port", "53"]);
        }
        Server::start(&mut command)
    }

    /// The flags of the web of a case, with a settings file for settings without a flag.
    fn web(&self, case: Case) -> Result<Vec<String>> {
        let (pages, hosts, bytes) = case.size(self.args.pages);
        let settings = self.folder.join("web.json");
        let (text, sigma) = if case == Case::RealPages { ("markup", 1.0) } else { ("words", 0.6) };
        // With gzip the server answers coded to those who accept it, as the web does.
        let encodings: &[&str] = if case == Case::Gzip { &["gzip"] } else { &[] };
        let rest = serde_json::json!({
            "links": 40, "addresses": 1, "text": text, "page_bytes_sigma": sigma, "encodings": encodings
        });
        std::fs::write(&settings, rest.to_string())?;
        let share = if case == Case::Tls { "1" } else { "0" };
        let mut flags = Vec::new();
        for (flag, value) in [
            ("--settings", settings.display().to_string()),
            ("--pages", pages.to_string()),
            ("--hosts", hosts.to_string()),
            ("--page-bytes", bytes.to_string()),
            ("--https-share", share.to_owned()),
        ] {
            flags.extend([flag.to_owned(), value]);
        }
        Ok(flags)
    }

    /// The number of pages: every host has one at least, so there may be more than requested.
    fn listed(&self, case: Case) -> Result<u64> {
        let output = Command::new(&self.testweb).arg("list").args(self.web(case)?).output()?;
        if !output.status.success() {
            bail!("testweb list failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64)
    }
}

/// The end of a program's output.
fn last_of(said: &Path) -> String {
    let text = std::fs::read(said).unwrap_or_default();
    let from = text.len().saturating_sub(SAID_BYTES_MAX);
    String::from_utf8_lossy(&text[from..]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn the_copy_in_a_network_of_its_own_is_told_the_same() {
        let line = [
            "x",
            "--cases",
            "tls",
            "--tools",
            "wget2,httrack",
            "--rounds",
            "2",
            "--dir",
            "/d",
            "--report-only",
        ];
        let args = Line::parse_from(line).args;
        let again = Line::parse_from([&["x".to_owned()], &args.again()[2..]].concat()).args;
        assert!(again.inside && !args.inside);
        assert_eq!(format!("{:?}", Args { inside: true, ..args }), format!("{again:?}"));
    }

    #[test]
    fn cases_and_tools_are_found_by_their_names() {
        assert!(Case::ALL.iter().all(|case| Case::of(case.name()).unwrap() == *case));
        assert!(Tool::ALL.iter().all(|tool| Tool::of(tool.name()).unwrap() == *tool));
        assert!(Case::of("two-hosts").is_err() && Tool::of("curl").is_err());
    }
}
