//! `cargo xtask api-load`: does a watched crawl crawl as fast as one that nobody looks at?
//!
//! A crawl of the test web runs without rests, as fast as it can. Clients open dashboards (each follows the status as
//! server-sent events and asks for its page every three seconds) and send further requests at a fixed rate. Three kinds of
//! rounds alternate: `quiet` without clients, `beside` with the same clients at a stand-in that sends prepared answers, and
//! `watched` with the clients at the crawl.
//!
//! Judged are the pages per second of `watched` against `beside`, by the median of the ratios within a round: clients and
//! crawl share the processors of one machine, what the clients themselves use is no cost of the API, and a machine whose
//! speed changes from minute to minute slows neighbours alike. The ratio of the medians over all rounds, the ratio to `quiet`,
//! and the CPU of the crawl per page, which does not depend on who else computes, stand beside it. Latency is measured from
//! the moment at which a request was due, so that an answer that is late delays no clock.
//!
//! Invariant: crawl, web and clients end with the command.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::api_clients::{Clients, Load, Standin};
use crate::api_servers::{ADMIN, Place, ask};
use crate::bench::cpu_of_process as cpu_of;
use crate::programs::Programs;
use crate::watched::{Answering, Site};

/// Minimum pages per second of a watched crawl against the same crawl with the clients elsewhere.
const PAGES_SHARE_MIN: f64 = 0.95;
/// Share of requests that are answered in time.
const IN_TIME: f64 = 0.99;
/// Maximum latency of these requests.
const LATENCY_MAX: Duration = Duration::from_millis(50);
/// Pages that the crawl has fetched before the first round.
const PAGES_FIRST: u64 = 1_000;
/// Time for these pages.
const WARM_UP: Duration = Duration::from_secs(120);
/// Time between the start of the clients and the start of the measurement.
const SETTLE: Duration = Duration::from_secs(2);
/// Connections of the crawl to the web.
const CONNECTIONS: &str = "64";

/// Options of `api-load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Open dashboards
    #[arg(long, default_value_t = 200)]
    dashboards: usize,
    /// Requests per second beside those of the dashboards
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Length of a round in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Rounds of each kind
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Hosts of the web
    #[arg(long, default_value_t = 200)]
    hosts: u32,
    /// Pages of the web: more than the crawl fetches meanwhile
    #[arg(long, default_value_t = 4_000_000)]
    pages: u32,
    /// Only report: goals that are missed do not fail the command
    #[arg(long)]
    report_only: bool,
    /// Folder of programs that were built before
    #[arg(long)]
    programs: Option<PathBuf>,
}

/// Where the clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Quiet,
    Beside,
    Watched,
}

/// All kinds, in the order of the first round.
const KINDS: [Kind; 3] = [Kind::Quiet, Kind::Beside, Kind::Watched];

/// A measured round.
#[derive(Clone, Copy, Debug)]
struct Round {
    kind: Kind,
    pages: u64,
    wall: Duration,
    /// CPU of the crawl.
    cpu: Duration,
}

impl Round {
    fn pages_per_second(&self) -> f64 {
        self.pages as f64 / self.wall.as_secs_f64()
    }

    fn cpu_us_per_page(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.pages.max(1) as f64
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.rounds > 0, "nothing to measure");
    let programs = match &args.programs {
        Some(folder) => Programs::of_folder(folder)?,
        None => Programs::build()?,
    };
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let (hosts, pages) = (args.hosts.to_string(), args.pages.to_string());
    let site = Site::start(&programs, &["--hosts", &hosts, "--pages", &pages, "--addresses", "2"])?;
    let place = Place::new(&programs, &site, folder.path())?;
    let without_rests = [
        format!("crawl.concurrency={CONNECTIONS}"),
        "frontier.host_connections=8".to_owned(),
        format!("frontier.slot_connections={CONNECTIONS}"),
        "frontier.slot_delay=0s".to_owned(),
        "budget.domain_urls=1000000000".to_owned(),
        "budget.domain_urls_per_day=1000000000".to_owned(),
    ];
    let mut crawl = place.crawl("crawl", "0s", &without_rests)?;
    let end = Instant::now() + WARM_UP;
    while pages_of(&crawl)? < PAGES_FIRST {
        ensure!(crawl.is_running()? && Instant::now() < end, "the crawl is slow; it said:\n{}", crawl.said());
        std::thread::sleep(Duration::from_millis(200));
    }
    let load = Load::of(crawl.address(), ADMIN, args.dashboards, args.rate)?;
    let standin = Standin::start(load.answers(), &load)?;
    println!(
        "{} dashboards and {} requests per second, {} rounds of {} s of each kind",
        args.dashboards, args.rate, args.rounds, args.seconds
    );
    let (mut rounds, mut watched) = (Vec::new(), Clients::default());
    for number in 0..args.rounds {
        let mut kinds = KINDS;
        kinds.rotate_left(number % KINDS.len());
        for kind in kinds {
            let clients = match kind {
                Kind::Quiet => None,
                Kind::Beside => Some(load.start(standin.address())?),
                Kind::Watched => Some(load.start(crawl.address())?),
            };
            std::thread::sleep(SETTLE);
            let round = measure(kind, &crawl, Duration::from_secs(args.seconds))?;
            let said = clients.map(|clients| clients.end()).transpose()?;
            println!(
                "  {kind:?}: {:.0} pages/s, {:.0} µs of CPU per page{}",
                round.pages_per_second(),
                round.cpu_us_per_page(),
                said.as_ref().map(|said| format!("; {}", said.line())).unwrap_or_default()
            );
            if let Some(said) = said.filter(|_| kind == Kind::Watched) {
                watched.add(said);
            }
            rounds.push(round);
            ensure!(crawl.is_running()?, "the crawl ended: give it more --pages; it said:\n{}", crawl.said());
        }
    }
    conclude(args, &rounds, &watched)
}

/// The figures, and whether they are good.
fn conclude(args: &Args, rounds: &[Round], watched: &Clients) -> Result<()> {
    let of = |kind: Kind, value: fn(&Round) -> f64| {
        median(rounds.iter().filter(|round| round.kind == kind).map(value).collect())
    };
    let pages = |kind| of(kind, Round::pages_per_second);
    let cpu = |kind| of(kind, Round::cpu_us_per_page);
    let share = share_of(rounds);
    let (late, in_time) = (watched.quantile(IN_TIME), watched.in_time(LATENCY_MAX));
    println!(
        "api-load: {} dashboards, {} requests/s: pages/s {:.0} watched, {:.0} with the clients elsewhere, {:.0} quiet: \
         {share:.3} of elsewhere within a round (judged), {:.3} over all, {:.3} of quiet; CPU of the crawl per page {:.3} of quiet, {:.3} of elsewhere; {}; \
         {:.2} % within {} ms",
        args.dashboards,
        args.rate,
        pages(Kind::Watched),
        pages(Kind::Beside),
        pages(Kind::Quiet),
        pages(Kind::Watched) / pages(Kind::Beside),
        pages(Kind::Watched) / pages(Kind::Quiet),
        cpu(Kind::Watched) / cpu(Kind::Quiet),
        cpu(Kind::Watched) / cpu(Kind::Beside),
        watched.line(),
        in_time * 100.0,
        LATENCY_MAX.as_millis(),
    );
    let mut missed = Vec::new();
    // Without any pages there is no share.
    if share.is_nan() || share < PAGES_SHARE_MIN {
        missed.push(format!(
            "pages/s are {share:.3} of those with the clients elsewhere, at least {PAGES_SHARE_MIN}"
        ));
    }
    if watched.in_time(Duration::MAX) <= 0.0 {
        missed.push("no request was answered".to_owned());
    }
    if late > LATENCY_MAX {
        missed.push(format!(
            "99 % are answered within {} ms, at most {}",
            late.as_millis(),
            LATENCY_MAX.as_millis()
        ));
    }
    if watched.failed > 0 {
        missed.push(format!("{} requests or streams failed: {}", watched.failed, watched.why));
    }
    ensure!(missed.is_empty() || args.report_only, "missed: {}", missed.join("; "));
    Ok(())
}

/// Pages per second of a watched crawl as a share of those with the clients elsewhere: the median of the rounds.
fn share_of(rounds: &[Round]) -> f64 {
    let of = |kind: Kind| rounds.iter().filter(move |round| round.kind == kind).map(Round::pages_per_second);
    median(of(Kind::Watched).zip(of(Kind::Beside)).map(|(watched, beside)| watched / beside).collect())
}

/// Pages of the crawl so far.
fn pages_of(crawl: &Answering) -> Result<u64> {
    let (status, text) = ask(crawl.address(), "GET", "/metrics", "")?;
    ensure!(status == 200, "/metrics was answered with {status}: {text}");
    let sample = "nephila_spider_fetches_total{outcome=\"2xx\"} ";
    let value = text.lines().find_map(|line| line.strip_prefix(sample));
    value.and_then(|value| value.parse().ok()).context("/metrics names no pages")
}

/// One round, while the clients do what they do.
fn measure(kind: Kind, crawl: &Answering, length: Duration) -> Result<Round> {
    let (pages, cpu, began) = (pages_of(crawl)?, cpu_of(crawl.id())?, Instant::now());
    std::thread::sleep(length);
    let (pages, cpu) = (pages_of(crawl)? - pages, cpu_of(crawl.id())?.saturating_sub(cpu));
    Ok(Round { kind, pages, wall: began.elapsed(), cpu })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => (values[(count - 1) / 2] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> Args {
        let (dashboards, rate, seconds, rounds, hosts, pages) = (1, 1, 1, 1, 1, 1);
        Args { dashboards, rate, seconds, rounds, hosts, pages, report_only: false, programs: None }
    }

    fn round(kind: Kind, pages: u64) -> Round {
        Round { kind, pages, wall: Duration::from_secs(1), cpu: Duration::from_millis(500) }
    }

    #[test]
    fn a_goal_that_is_missed_fails_and_names_itself() {
        let rounds =
            |watched| [round(Kind::Quiet, 200), round(Kind::Beside, 100), round(Kind::Watched, watched)];
        let in_time = Clients::of(&[1_000; 200]);
        conclude(&args(), &rounds(96), &in_time).unwrap();
        let slow = conclude(&args(), &rounds(94), &in_time).unwrap_err().to_string();
        assert!(slow.contains("0.940") && !slow.contains("answered within"), "{slow}");
        let mut late = Clients::of(&[1_000; 95]);
        late.add(Clients::of(&[60_000; 5]));
        let error = conclude(&args(), &rounds(100), &late).unwrap_err().to_string();
        assert!(error.contains("within 60 ms"), "{error}");
        let mut failed = in_time.clone();
        failed.failed = 1;
        assert!(conclude(&args(), &rounds(100), &failed).is_err());
        conclude(&Args { report_only: true, ..args() }, &rounds(1), &failed).unwrap();
        let still = [round(Kind::Quiet, 0), round(Kind::Beside, 0), round(Kind::Watched, 0)];
        let error = conclude(&args(), &still, &in_time).unwrap_err().to_string();
        assert!(error.contains("pages/s are NaN"), "{error}");
        let error = conclude(&args(), &rounds(100), &Clients::default()).unwrap_err().to_string();
        assert!(error.contains("no request was answered"), "{error}");
    }

    #[test]
    fn a_machine_that_slows_down_between_rounds_changes_no_share() {
        let mut rounds = Vec::new();
        for speed in [1_000, 100, 10] {
            rounds.extend([round(Kind::Beside, speed), round(Kind::Watched, speed * 9 / 10)]);
        }
        assert!((share_of(&rounds) - 0.9).abs() < 1e-9, "{}", share_of(&rounds));
        rounds.pop();
        assert!((share_of(&rounds) - 0.9).abs() < 1e-9, "a round without its neighbour is left out");
        assert!(share_of(&[]).is_nan());
    }

    #[test]
    fn the_cpu_of_a_process_is_read() {
        let began = Instant::now();
        let used = || cpu_of(std::process::id()).unwrap();
        while used() <= Duration::from_millis(20) && began.elapsed() < Duration::from_secs(60) {
            std::hint::black_box(began);
        }
        assert!(used() > Duration::from_millis(20) && used() < Duration::from_secs(600), "{:?}", used());
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![1.0, 2.0])), (2.0, 1.5));
    }
}
