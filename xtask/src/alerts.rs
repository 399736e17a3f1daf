//! `cargo xtask metrics --alerts`: every alert fires when its fault is made for real, and ends after it.
//!
//! Three nodes of one cluster crawl a town on loopback, with a NATS server, an object store and a remote spider. Webhooks, which
//! a cluster does not have, belong to a crawl on one machine in the same town. A real Prometheus scrapes all of them each second
//! and has the shipped rules, sixty times as fast: the command divides every duration and every threshold of an age in
//! `alerts.yml` and changes nothing else, since the shipped rules wait for minutes and hours. (A Prometheus on a faster clock
//! would need no other rules; libfaketime does not reach it, because Go does not ask libc for the time.) The rules as they are
//! shipped are judged in virtual time, by `cargo xtask metrics`.
//!
//! One node has a volume in a mount namespace of its own, which root may make, with CAP_SYS_ADMIN, or a user with user namespaces.
//!
//! First a minute at rest, in which no alert may fire. Then each fault is made and mended; an alert that no fault explains is
//! an error at any time. Meanwhile every query of the dashboard is asked of the same Prometheus. A Grafana cannot be
//! installed from where this project takes its tools: Debian has none, `grafana` in PyPI and npm are placeholders without a
//! program, and no other package there has its server. At the end the cost of scrapes is measured.
//!
//! Invariant: everything that was started ends with the command.

mod cost;
mod faults;
mod moto;
mod newer;
mod prometheus;
mod queries;
mod receiver;
mod rules;
mod stage;
mod town;
mod watch;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use self::faults::{Fault, Proved, ROWS};
use self::queries::Queries;
use self::stage::{SETTINGS, Stage, until};
use crate::programs::Programs;
use crate::{interop, shell};

/// Options of `metrics --alerts`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Only this alert, such as `Blocked`, or `queries`, or `cost`; may be repeated
    #[arg(long, value_name = "ALERT", requires = "alerts")]
    only: Vec<String>,
    /// Divide the times of the rules by this
    #[arg(long, default_value_t = 60, requires = "alerts")]
    factor: u64,
    /// Rounds of each kind, for the cost of scrapes
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..), requires = "alerts")]
    rounds: u16,
    /// Folder of programs that were built before, by their names [default: builds them]
    #[arg(long, value_name = "DIR", requires = "alerts")]
    programs: Option<PathBuf>,
    /// Folder of installed tools
    #[arg(long, env = "NEPHILA_CACHE")]
    cache: Option<PathBuf>,
}

impl Args {
    /// Folder of installed tools.
    pub(crate) fn cache(&self) -> Result<PathBuf> {
        self.cache.clone().map_or_else(interop::default_cache, Ok)
    }
}

/// Time until every node has fetched pages and the feeds were counted, which happens once a minute.
const WARM_UP: Duration = Duration::from_secs(240);
/// Pages of each node before the first look.
const PAGES_FIRST: u32 = 50;
/// Feeds of the town.
const FEEDS: u32 = 10;
/// Time without a fault in which no alert may fire: an hour of the shipped rules.
const REST: Duration = Duration::from_secs(60);
/// The watch must have looked at least so often at rest.
const LOOKS_MIN: u64 = 30;

/// What is wanted.
fn wants(only: &[String], part: &str) -> bool {
    let short = part.strip_prefix("Nephila").unwrap_or(part);
    only.is_empty() || only.iter().any(|name| name == part || name == short)
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    let parts: Vec<&str> = ROWS.iter().flat_map(|row| row.iter()).map(|fault| fault.alert).collect();
    for name in &args.only {
        let one = std::slice::from_ref(name);
        let is_known = parts.iter().chain(&["queries", "cost"]).any(|part| wants(one, part));
        ensure!(is_known, "no such part: {name}; there are {}, queries, cost", parts.join(", "));
    }
    let began = Instant::now();
    let cache = args.cache()?;
    let programs = match &args.programs {
        Some(folder) => Programs::of_folder(folder)?,
        None => Programs::build()?,
    };
    let (mut faults, mut lines) = (Vec::new(), Vec::new());
    if parts.iter().chain(&["queries"]).any(|part| wants(&args.only, part)) {
        let path = shell::root().join("deploy/prometheus/alerts.yml");
        let shipped = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let (faster, changes) = rules::faster(&shipped, args.factor)?;
        println!(
            "the rules of alerts.yml with {} times divided by {}, since the shipped ones wait for up to an hour; settings \
             that are not as shipped:",
            changes.len(),
            args.factor
        );
        SETTINGS.iter().for_each(|(set, why)| println!("  {set}: {why}"));
        let stage = Stage::start(&programs, &cache, &faster)?;
        if let Err(error) = chaos(args, &stage, &mut faults, &mut lines) {
            faults.push(format!("{error:#}\n{}", stage.said()));
        }
        faults.extend(
            stage.watch.unexpected().into_iter().map(|what| format!("{what}, and no fault explains it")),
        );
    }
    if wants(&args.only, "cost") {
        let (dear, line) = cost::measure(&programs, &cache, args.rounds.into())?.conclude();
        faults.extend(dear);
        lines.push(line);
    }
    println!("alerts: {}; {} s", lines.join("; "), began.elapsed().as_secs());
    ensure!(faults.is_empty(), "alerts:\n  {}", faults.join("\n  "));
    Ok(())
}

/// Rest, faults and queries.
fn chaos(args: &Args, stage: &Stage, faults: &mut Vec<String>, lines: &mut Vec<String>) -> Result<()> {
    warm_up(stage)?;
    let (looks, before) = (stage.watch.looks(), stage.watch.unexpected().len());
    std::thread::sleep(REST);
    ensure!(stage.watch.looks() - looks >= LOOKS_MIN, "Prometheus was seldom asked for its alerts");
    let at_rest = stage.watch.unexpected().len() - before;
    println!("  at rest: {} s, {at_rest} alerts", REST.as_secs());
    let mut queries = Queries::new()?;
    queries.look(&stage.prometheus);

    let mut proved: Vec<Proved> = Vec::new();
    let mut wanted = 0;
    for row in ROWS {
        let row: Vec<&Fault> = row.iter().filter(|fault| wants(&args.only, fault.alert)).collect();
        wanted += row.len();
        let results: Vec<Result<Proved>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                row.iter().map(|fault| scope.spawn(|| (fault.prove)(fault, stage))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a fault panics")).collect()
        });
        for result in results {
            match result {
                Ok(one) => proved.push(one),
                Err(error) => {
                    println!("  ✖ {error:#}");
                    faults.push(format!("{error:#}"));
                }
            }
        }
        queries.look(&stage.prometheus);
    }
    let times: Vec<String> = proved
        .iter()
        .map(|one| {
            let name = one.alert.trim_start_matches("Nephila");
            format!("{name} {}/{} s", one.fired.as_secs(), one.ended.as_secs())
        })
        .collect();
    lines.push(format!(
        "{} of {wanted} fired in their faults and ended after them ({}), {at_rest} at rest in {} s",
        proved.len(),
        times.join(", "),
        REST.as_secs()
    ));
    // With some faults alone, some queries have nothing to show.
    if args.only.is_empty() || wants(&args.only, "queries") {
        let (missing, line) = queries.conclude(args.only.is_empty());
        faults.extend(missing);
        lines.push(line);
    }
    Ok(())
}

/// Waits until every node crawls and the feeds are known.
fn warm_up(stage: &Stage) -> Result<()> {
    let crawl = format!(
        "count(sum by (instance) (nephila_spider_fetches_total{{outcome=\"2xx\"}}) >= {PAGES_FIRST})"
    );
    let feeds = "sum(nephila_handler_feeds{health=~\"fine|learning\"})";
    until("every node crawls, and the feeds are known", WARM_UP, || {
        let (nodes, known) = (stage.prometheus.sum(&crawl)?, stage.prometheus.sum(feeds)?);
        ensure!(
            nodes == 3.0 && known >= f64::from(FEEDS),
            "{nodes} nodes have pages, {known} feeds are known"
        );
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_is_chosen_by_its_name_with_or_without_the_prefix() {
        let only = |name: &str| vec![name.to_owned()];
        assert!(wants(&[], "NephilaBlocked") && wants(&[], "cost"));
        assert!(
            wants(&only("Blocked"), "NephilaBlocked") && wants(&only("NephilaBlocked"), "NephilaBlocked")
        );
        assert!(!wants(&only("Blocked"), "NephilaStalled") && !wants(&only("Blocked"), "cost"));
    }
}
