//! `cargo xtask bench`: throughput of `nephila fetch` and `nephila crawl` against the achievable limit, as ratios
//! within one run.
//!
//! The synthetic web serves pages of 20 KB in the mean, on one host, on one host over TLS, and on many hosts. The limit
//! is a bare loop over the same list with as many connections (`crates/nephila-proof/src/bin/bare_loop.rs`); with an archive
//! the limit is the bare loop plus one bare compression of each body; for a crawl, which starts at the home page and
//! finds the rest by its links, the limit is the bare loop that reads the links of every page and writes each page as a
//! compressed record. All runs of a case follow each other in every repetition, back and forth, so that other load on
//! the machine meets all of them; a ratio is the median over the repetitions. Politeness is off and there is no
//! robots.txt: only our own cost is measured.
//!
//! Server and client share the machine, so pages/s also hold the cost of the server; CPU per 1,000 pages does not.

mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::{self, Programs, Server, Usage};
use report::{compare, print_stages, print_table, share};

/// Number of connections of every run.
const CONNECTIONS: u32 = 64;
/// The address of all hosts.
const ADDRESS: &str = "127.77.0.1";
/// Timeout of one run.
const RUN_LIMIT: Duration = Duration::from_secs(300);
/// `nephila fetch` without an archive reaches at least this share of the bare loop.
const FETCH_SHARE_MIN: f64 = 0.80;
/// With an archive, of the bare loop that compresses.
const WARC_SHARE_MIN: f64 = 0.65;
/// `nephila crawl`, of the bare loop that reads links and writes records.
const CRAWL_SHARE_MIN: f64 = 0.55;
/// With `--short` the goals are lowered to this share of themselves: such runs are too short for more.
const SHORT_FACTOR: f64 = 0.4;
const SHORT_PAGES: u32 = 4_000;

/// Sizes of the measurement.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of pages of every run.
    #[arg(long, default_value_t = 20_000)]
    pages: u32,
    /// Number of repetitions of each run.
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    /// Small and quick, with lowered goals, for CI.
    #[arg(long)]
    short: bool,
    /// Only the cases whose name contains this: `one host`, `one host, TLS`, `many hosts`.
    #[arg(long)]
    only: Option<String>,
    /// Number of hosts of the case with many.
    #[arg(long, default_value_t = 10_000)]
    hosts: u32,
    /// Folder for archives during the measurement; a temporary folder if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Compare with this older program instead of the bare loop: CPU and memory may not be more than 3 % higher.
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Do not fail when a goal is missed.
    #[arg(long)]
    report_only: bool,
}

/// Runs the command.
pub fn run(mut args: Args) -> Result<()> {
    if args.short {
        args.pages = args.pages.min(SHORT_PAGES);
        args.repetitions = 1;
        println!("short: {} pages once; goals lowered to {SHORT_FACTOR} of themselves", args.pages);
    }
    ensure!(args.repetitions > 0 && args.pages > 0, "nothing to measure");
    let temporary = tempfile::tempdir().context("make a temporary folder")?;
    let programs = Programs::build()?;
    let bench = Bench {
        testweb: programs.path("testweb")?.into(),
        nephila: programs.path("nephila")?.into(),
        bare: programs.path("bare_loop")?.into(),
        before: args.before.clone(),
        folder: args.dir.clone().unwrap_or_else(|| temporary.path().to_owned()),
    };
    let factor = if args.short { SHORT_FACTOR } else { 1.0 };
    let mut figures = Vec::new();
    let mut missed = Vec::new();
    for case in CASES {
        let wanted = args.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
        if !wanted || args.short && !case.in_short {
            continue;
        }
        let results = bench.measure(case, &args)?;
        if args.before.is_some() {
            compare(case, &results, &args, &mut figures, &mut missed);
            continue;
        }
        print_table(case, &results, &args);
        print_stages(&results, args.pages);
        for (name, base, goal) in GOALS {
            let Some(share) = share(&results, name, base) else { continue };
            figures.push(format!("{}: {name} {share:.2} of {base}", case.name));
            // A crawl of four seconds is mostly its beginning and its end.
            let is_judged = case.has_goals && !(args.short && name == CRAWL);
            if is_judged && share < goal * factor {
                missed.push(format!(
                    "{}: {name} is {share:.2} of {base}, {:.2} wanted",
                    case.name,
                    goal * factor
                ));
            }
        }
    }
    println!("bench: {} pages x {}: {}", args.pages, args.repetitions, figures.join("; "));
    if !args.report_only {
        ensure!(missed.is_empty(), "{}", missed.join("; "));
    }
    Ok(())
}

/// A web and the runs measured with this web.
struct Case {
    name: &'static str,
    many_hosts: bool,
    https: bool,
    in_short: bool,
    has_goals: bool,
    runs: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "one host",
        many_hosts: false,
        https: false,
        in_short: true,
        has_goals: true,
        runs: &[
            BARE,
            FETCH,
            "fetch --digest",
            "bare + gzip",
            WARC_GZIP,
            "bare + zstd",
            WARC_ZSTD,
            "warc none",
            "warc gzip, dedup off",
            BARE_CRAWL,
            CRAWL,
        ],
    },
    Case {
        name: "one host, TLS",
        many_hosts: false,
        https: true,
        in_short: false,
        has_goals: true,
        runs: &[BARE, FETCH, "bare + gzip", WARC_GZIP, BARE_CRAWL, CRAWL],
    },
    Case {
        name: "many hosts",
        many_hosts: true,
        https: false,
        in_short: false,
        // The bare loop asks no name server, so this is a comparison, not a limit.
        has_goals: false,
        runs: &[BARE, FETCH, "bare + gzip", WARC_GZIP, BARE_CRAWL, CRAWL],
    },
];

const BARE: &str = "bare";
const FETCH: &str = "fetch";
const WARC_GZIP: &str = "warc gzip";
const WARC_ZSTD: &str = "warc zstd";
const BARE_CRAWL: &str = "bare + links + gzip";
const CRAWL: &str = "crawl gzip";

/// Which run is compared with which, and the minimum share.
const GOALS: [(&str, &str, f64); 4] = [
    (FETCH, BARE, FETCH_SHARE_MIN),
    (WARC_GZIP, "bare + gzip", WARC_SHARE_MIN),
    (WARC_ZSTD, "bare + zstd", WARC_SHARE_MIN),
    (CRAWL, BARE_CRAWL, CRAWL_SHARE_MIN),
];

/// Which runs an older program repeats.
const REPEATED: [(&str, &str); 3] =
    [(FETCH, "fetch, before"), (WARC_GZIP, "warc gzip, before"), (CRAWL, "crawl gzip, before")];
/// CPU and memory in relation to an older program.
const AGAINST_BEFORE_MAX: f64 = 1.03;

/// One measured run.
#[derive(Clone, Copy)]
struct Measured {
    usage: Usage,
    /// CPU time of the server during the run.
    server_cpu: Duration,
    /// Bytes left on disk.
    disk_bytes: u64,
}

type Results = BTreeMap<&'static str, Vec<Measured>>;

struct Bench {
    testweb: PathBuf,
    nephila: PathBuf,
    bare: PathBuf,
    before: Option<PathBuf>,
    folder: PathBuf,
}

impl Bench {
    fn measure(&self, case: &'static Case, args: &Args) -> Result<Results> {
        let hosts = if case.many_hosts { args.hosts.min(args.pages) } else { 1 };
        let mut web: Vec<String> = Vec::new();
        for (flag, value) in [
            ("--hosts", hosts.to_string()),
            ("--pages", args.pages.to_string()),
            ("--page-bytes", "20000".into()),
            ("--addresses", "1".into()),
            ("--https-share", if case.https { "1" } else { "0" }.into()),
        ] {
            web.extend([flag.to_owned(), value]);
        }
        let server = Server::start(Command::new(&self.testweb).args(["serve", "--no-journal"]).args(&web))?;
        let ports = [
            "--http-port".to_owned(),
            server.port("http_port")?.to_string(),
            "--https-port".to_owned(),
            server.port("https_port")?.to_string(),
        ];
        let list = self.folder.join("urls.txt");
        let listed = Command::new(&self.testweb).arg("list").args(&web).args(&ports).output()?;
        ensure!(listed.status.success(), "testweb list failed: {}", String::from_utf8_lossy(&listed.stderr));
        let text = String::from_utf8(listed.stdout)?;
        // Every host has a page, so there may be more than asked for.
        let text: String = text.lines().take(args.pages as usize).flat_map(|line| [line, "\n"]).collect();
        std::fs::write(&list, text)?;

        let mut results = Results::new();
        // Once before measuring: pages and names that the server makes at first sight are made.
        self.run(BARE, &server, &list)?;
        for repetition in 0..args.repetitions {
            let mut runs = match self.before {
                Some(_) => REPEATED.iter().flat_map(|(name, before)| [*name, *before]).collect(),
                None => case.runs.to_vec(),
            };
            if repetition % 2 == 1 {
                runs.reverse();
            }
            for name in runs {
                let measured =
                    self.run(name, &server, &list).with_context(|| format!("{}: {name}", case.name))?;
                results.entry(name).or_default().push(measured);
            }
        }
        Ok(results)
    }

    fn run(&self, name: &str, server: &Server, list: &Path) -> Result<Measured> {
        let out = self.folder.join("crawl");
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        let mut command = match name.strip_prefix("bare") {
            Some(compress) => {
                let mut command = Command::new(&self.bare);
                command.arg(list).args(["--address", ADDRESS, "--ca", server.text("ca")?]);
                command.args(["--connections", &CONNECTIONS.to_string()]);
                let (links, kind) = match compress.strip_prefix(" + links") {
                    Some(kind) => (true, kind),
                    None => (false, compress),
                };
                if let Some(kind) = kind.strip_prefix(" + ") {
                    command.args(["--compress", kind]);
                }
                if links {
                    command.arg("--links").arg("--warc").arg(out.join("bare.warc.gz"));
                }
                command
            }
            None => {
                let (name, program) = match (name.strip_suffix(", before"), &self.before) {
                    (Some(name), Some(before)) => (name, before),
                    _ => (name, &self.nephila),
                };
                match name {
                    CRAWL => crawl(program, server, &out)?,
                    _ => fetch(program, name, server, list, &out)?,
                }
            }
        };
        let before = cpu_of(server)?;
        let usage = programs::measure(&mut command, RUN_LIMIT)?;
        let server_cpu = cpu_of(server)?.saturating_sub(before);
        Ok(Measured { usage, server_cpu, disk_bytes: bytes_in(&out)? })
    }
}

/// A crawl of the whole web from its home page, with an archive at default settings.
pub(crate) fn crawl(program: &Path, server: &Server, out: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    let many = CONNECTIONS.to_string();
    command.args(["crawl", server.text("home")?, "--scope", "any", "-d", "255", "--quiet"]);
    command.args(["--config", "/dev/null", "--delay", "0s", "-c", &many, "--host-concurrency", &many]);
    command.arg("-o").arg(out);
    for set in [
        // Limits that only `nephila crawl` has.
        "budget.domain_urls=1000000000".to_owned(),
        "budget.domain_urls_per_day=1000000000".to_owned(),
    ] {
        command.args(["--set", &set]);
    }
    set_web(&mut command, server)?;
    Ok(command)
}

fn fetch(program: &Path, name: &str, server: &Server, list: &Path, out: &Path) -> Result<Command> {
    let mut command = Command::new(program);
    let many = CONNECTIONS.to_string();
    command.args(["fetch", "--json", "--ignore-robots", "--delay", "0s", "--concurrency", &many]);
    command.args(["--host-concurrency", &many, "-i"]).arg(list).args(["--config", "/dev/null"]);
    command.args(["--set", &format!("frontier.slot_connections={many}")]);
    set_web(&mut command, server)?;
    if let Some(kind) = name.strip_prefix("warc ") {
        command.arg("--warc").arg(out);
        let kind = kind.split(',').next().unwrap_or(kind);
        command.args(["--set", &format!("store.compression={kind}")]);
        if name.ends_with("dedup off") {
            command.args(["--set", "store.dedup=off"]);
        }
    }
    if let Some(flag) = name.strip_prefix("fetch ") {
        command.arg(flag);
    }
    Ok(command)
}

/// Points a command at the web, with the same requests as the bare loop.
fn set_web(command: &mut Command, server: &Server) -> Result<()> {
    for set in [
        format!("spider.dns_servers=[\"{}\"]", server.text("dns")?),
        format!("spider.ca_file={}", server.text("ca")?),
        format!("spider.ports=[{}, {}]", server.port("http_port")?, server.port("https_port")?),
        "spider.allow_addresses=[\"127.0.0.0/8\"]".to_owned(),
        "spider.http_versions=[\"http/1.1\"]".to_owned(),
        "spider.accept_encoding=".to_owned(),
    ] {
        command.args(["--set", &set]);
    }
    Ok(())
}

/// CPU time a server has used so far.
fn cpu_of(server: &Server) -> Result<Duration> {
    let id = server.ready["pid"].as_u64().context("no pid in the ready line")?;
    cpu_of_process(u32::try_from(id).context("a process id")?)
}

/// User and system time of a process so far.
pub(crate) fn cpu_of_process(id: u32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|field| field.parse::<u64>().ok());
    // Fields 14 and 15 of proc(5), counted from the third, which follows the name in brackets.
    let (user, system) = ticks(11).zip(ticks(12)).context("/proc/PID/stat is shorter than it should be")?;
    Ok(Duration::from_millis((user + system) * MILLISECONDS_PER_TICK))
}

/// Linux counts in hundredths of a second towards programs.
const MILLISECONDS_PER_TICK: u64 = 10;

/// All files below a folder together.
pub(crate) fn bytes_in(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(folder) else { continue };
        for entry in entries {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                sum += metadata.len();
            }
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::report::STAGES;
    use super::*;

    fn took(millis: &[u64]) -> Vec<Measured> {
        let usage = |wall| Usage { wall: Duration::from_millis(wall), cpu: Duration::ZERO, memory_kb: 0 };
        let measured =
            |wall: &u64| Measured { usage: usage(*wall), server_cpu: Duration::ZERO, disk_bytes: 0 };
        millis.iter().map(measured).collect()
    }

    #[test]
    fn a_ratio_compares_neighbours_and_takes_the_middle() {
        // The second pair met a busy machine; both runs of the pair did.
        let results = Results::from([(BARE, took(&[80, 800, 90])), (FETCH, took(&[100, 1_000, 200]))]);
        assert!((share(&results, FETCH, BARE).unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(share(&results, WARC_GZIP, BARE), None);
    }

    #[test]
    fn every_goal_and_stage_names_runs_that_are_made() {
        let made = |name: &str| CASES.iter().any(|case| case.runs.contains(&name));
        assert!(GOALS.iter().all(|(name, base, _)| made(name) && made(base)));
        assert!(STAGES.iter().all(|(_, with, without)| made(with) && made(without)));
        assert!(
            REPEATED.iter().all(|(name, before)| made(name) && before.strip_suffix(", before") == Some(name))
        );
    }
}
