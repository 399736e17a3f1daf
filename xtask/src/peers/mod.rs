//! `cargo xtask bench peers`: the same work done by us and by others, as ratios within one run, and where the CPU of our
//! pages goes.
//!
//! The synthetic web serves pages of 20 KB with 40 links (`real-pages`: with markup as of real pages, 60 KB in the mean, most
//! of them smaller); every tool starts at the same home page and follows all links
//! to the end, obeying robots.txt, without rests. Each run has a server of its own, whose journal says how many
//! different pages were handed out, when, and by which version of HTTP: no tool counts for itself. Runs of all tools follow
//! each other in every round, back and forth; a ratio is the median over the rounds of neighbouring runs. A tool too slow
//! for the time limit is stopped there, and its figures are for the pages up to then.
//!
//! The bare loop (`crates/nephila-proof/src/bin/bare_loop.rs`) is no crawler, but the limit: it has the list of all URLs,
//! reads the links of every page with our reader, and writes the page with our codec.
//!
//! Other tools use the system's resolver and default ports, so everything runs in a network namespace of its own
//! (`place`). Each run has a new file system there, so that nobody pays for the files of the run before.
//!
//! Server and tool share the machine, so pages/s also hold the cost of the server; CPU per page does not.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::Programs;
use crate::{interop, shell, stages};

mod case;
mod figures;
mod install;
mod journal;
mod place;
mod report;
mod run;
mod table;
mod tools;

use case::{Case, LINKS};
use place::{Disk, Place};
use report::{Machine, Report};
use run::Bench;
use tools::Tool;

pub(crate) use report::docs_page;

/// Timeout of all rounds together.
const ALL_LIMIT: Duration = Duration::from_secs(5 * 60 * 60);
const QUICK_PAGES: u32 = 2_000;
/// One run of the quick form: all of them together stay below 40 s.
const QUICK_SECONDS: u64 = 2;
/// Pages of each profile by stage, of the quick form and otherwise.
const STAGE_PAGES: [u32; 2] = [40, 1_000];
/// Crawlers that are named, and not measured.
const LEFT_OUT: &str = "Heritrix, Nutch, StormCrawler and BUbiNG, which need a Java service or a cluster of their own, and \
                        browsers, which render: see docs/benchmarks.md";

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
    /// Write all figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures into docs/benchmarks.json, and their tables into docs/benchmarks.md.
    #[arg(long, conflicts_with = "quick")]
    write_docs: bool,
    /// Folder for crawls during the measurement; a temporary folder if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Folder of the Scrapy environment, the modules of Crawlee and the programs around `spider` and colly.
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
    /// A `nephila` built before, instead of building one now.
    #[arg(long)]
    nephila: Option<PathBuf>,
    /// A `testweb` built before, instead of building one now.
    #[arg(long)]
    testweb: Option<PathBuf>,
    /// A `bare_loop` built before, instead of building one now.
    #[arg(long)]
    bare_loop: Option<PathBuf>,
    /// A `stages` built before, instead of building one now.
    #[arg(long)]
    stages: Option<PathBuf>,
    /// Set for the copy of this command that runs in a network of its own.
    #[arg(long, hide = true)]
    inside: bool,
}

/// Runs the command.
pub(crate) fn run(mut args: Args) -> Result<()> {
    let tools = args.tools.iter().map(|name| Tool::of(name)).collect::<Result<Vec<_>>>()?;
    if args.quick {
        if args.cases.len() == Case::ALL.len() {
            args.cases = vec![Case::ManyHosts.name().to_owned()];
        }
        args.pages = args.pages.min(QUICK_PAGES);
        args.rounds = 1;
        args.seconds = args.seconds.min(QUICK_SECONDS);
    }
    let cases = args.cases.iter().map(|name| Case::of(name)).collect::<Result<Vec<_>>>()?;
    ensure!(args.rounds > 0 && args.pages > 0 && args.seconds > 0, "nothing to measure");
    let cache = args.cache.clone().map_or_else(interop::default_cache, Ok)?;
    if !args.inside {
        args.find_programs()?;
        args.make_absolute()?;
        if !args.quick {
            // A tool that cannot be installed is named later, with the reason, when the tool is not found.
            for tool in &tools {
                if let Err(error) = tool.install(&cache) {
                    println!("{} could not be installed: {error:#}", tool.name());
                }
            }
        }
        if let Some(place) = Place::find() {
            let folder = tempfile::tempdir().context("make a temporary folder")?;
            args.cache = Some(cache);
            return shell::run(&mut place.enter(folder.path(), &args.again())?, ALL_LIMIT);
        }
    }
    let temporary = tempfile::tempdir().context("make a temporary folder")?;
    let folder = args.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let why_no_disks = match args.inside && !args.quick {
        true => Disk::why_not(&folder),
        false => Some("not asked for".to_owned()),
    };
    let bench = Bench {
        nephila: args.nephila.clone().context("--nephila is missing")?,
        bare_loop: args.bare_loop.clone().context("--bare-loop is missing")?,
        testweb: args.testweb.clone().context("--testweb is missing")?,
        folder,
        cache,
        rounds: args.rounds,
        pages: args.pages,
        seconds: args.seconds,
        is_inside: args.inside,
        syncs: !args.quick,
        has_disks: why_no_disks.is_none(),
    };
    if let (Some(why), false) = (why_no_disks, args.quick) {
        println!("all runs share one file system, since none of their own can be made: {why}");
    }
    compare(&args, &bench, &cases, &tools)
}

/// All cases and the profiles by stage, printed and written.
fn compare(args: &Args, bench: &Bench, cases: &[Case], tools: &[Tool]) -> Result<()> {
    let (here, missing) = bench.find(tools);
    let mut report = Report {
        machine: Machine::this(),
        commit: report::commit(),
        command: args.command(),
        rounds: args.rounds,
        has_disks: bench.has_disks,
        tools: here.iter().filter_map(|tool| Some((*tool, tool.version()?))).collect(),
        missing,
        cases: Vec::new(),
        stages: Vec::new(),
    };
    let (mut lines, mut missed) = (Vec::new(), Vec::new());
    for case in cases {
        let measured = bench.measure(*case, &here)?;
        print!("{}", report.text(&measured));
        lines.push(format!("{}: {}", case.name(), figures::summary(&measured.results)));
        missed
            .extend(measured.comparisons().iter().filter(|found| !found.is_met()).map(|found| found.line()));
        report.cases.push(measured);
    }
    report.stages = args.profiles()?;
    if let Some(path) = &args.json {
        report.write(path)?;
    }
    if args.write_docs {
        report.write_docs()?;
    }
    println!("left out: {LEFT_OUT}");
    println!(
        "bench peers: {} pages x {} round(s), {} tools, {} not measured, {} goals missed: {}",
        args.pages,
        args.rounds,
        here.len(),
        report.missing.len(),
        missed.len(),
        lines.join("; ")
    );
    if !args.report_only && !args.quick {
        ensure!(missed.is_empty(), "{}", missed.join("; "));
    }
    Ok(())
}

impl Args {
    /// Builds the programs that no flag names.
    fn find_programs(&mut self) -> Result<()> {
        let mut built = None;
        for (name, path) in [
            ("nephila", &mut self.nephila),
            ("testweb", &mut self.testweb),
            ("bare_loop", &mut self.bare_loop),
            ("stages", &mut self.stages),
        ] {
            if path.is_none() {
                if built.is_none() {
                    built = Some(Programs::build()?);
                }
                *path = Some(built.as_ref().expect("built above").path(name)?.to_owned());
            }
        }
        Ok(())
    }

    /// Programs run in other folders.
    fn make_absolute(&mut self) -> Result<()> {
        let programs = [&mut self.nephila, &mut self.testweb, &mut self.bare_loop, &mut self.stages];
        for path in programs.into_iter().chain([&mut self.dir, &mut self.json]).flatten() {
            *path = std::path::absolute(&*path)?;
        }
        Ok(())
    }

    /// The cost of a page by stage: of the pages that the tools crawl, and of pages as the real web has them.
    fn profiles(&self) -> Result<Vec<stages::Profile>> {
        let programs =
            [&self.testweb, &self.stages].map(|path| path.as_deref().context("a program is missing"));
        let [testweb, program] = programs;
        let (testweb, program) = (testweb?, program?);
        let pages = STAGE_PAGES[usize::from(!self.quick)];
        let plain =
            stages::Args { pages, page_bytes: 20_000, links: LINKS, plain: true, ..stages::Args::default() };
        let real = stages::Args { pages: pages.min(stages::PAGES), ..stages::Args::default() };
        [plain, real].iter().map(|args| stages::measure(args, testweb, program)).collect()
    }

    /// The flags that change what is measured, as a person would type them.
    fn command(&self) -> String {
        let sizes = format!("--rounds {} --pages {} --seconds {}", self.rounds, self.pages, self.seconds);
        let mut command = format!("cargo xtask bench peers {sizes}");
        if self.cases.len() < Case::ALL.len() {
            command.push_str(&format!(" --cases {}", self.cases.join(",")));
        }
        if self.tools.len() < Tool::ALL.len() {
            command.push_str(&format!(" --tools {}", self.tools.join(",")));
        }
        command
    }

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
            ("--json", &self.json),
            ("--dir", &self.dir),
            ("--cache", &self.cache),
            ("--nephila", &self.nephila),
            ("--testweb", &self.testweb),
            ("--bare-loop", &self.bare_loop),
            ("--stages", &self.stages),
        ] {
            flags.extend(path.iter().flat_map(|path| [flag.to_owned(), path.display().to_string()]));
        }
        for (flag, is_set) in
            [("--quick", self.quick), ("--report-only", self.report_only), ("--write-docs", self.write_docs)]
        {
            flags.extend(is_set.then(|| flag.to_owned()));
        }
        flags
    }
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
            "--json",
            "/j",
            "--write-docs",
        ];
        let args = Line::parse_from(line).args;
        let again = Line::parse_from([&["x".to_owned()], &args.again()[2..]].concat()).args;
        assert!(again.inside && !args.inside);
        assert_eq!(format!("{:?}", Args { inside: true, ..args }), format!("{again:?}"));
    }

    #[test]
    fn cases_and_tools_are_found_by_their_names() {
        let written = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        for case in Case::ALL {
            assert_eq!(Case::of(case.name()).unwrap(), case);
            assert_eq!(written(serde_json::json!(case)), case.name(), "in files too");
        }
        for tool in Tool::ALL {
            assert_eq!(Tool::of(tool.name()).unwrap(), tool);
            assert_eq!(written(serde_json::json!(tool)), tool.name(), "in files too");
        }
        assert!(Case::of("two-hosts").is_err() && Tool::of("curl").is_err());
    }
}
