//! What metrics cost: the CPU of a crawl at full speed, scraped by Prometheus and not scraped, and the CPU of one scrape.
//!
//! Rounds without scrapes, with one every 15 seconds and with one every second alternate, and the CPU per 1,000 pages of each
//! kind is compared by its median. On a shared machine such rounds differ by more than the cost itself. So what is judged is
//! also measured directly: the crawl is paused, many scrapes in a row are answered, and what the process used meanwhile beyond
//! what it uses at rest is the cost of a scrape, the connection of each included.
//!
//! Counting goes on while nobody asks. What it takes of a page's CPU is measured by `crawl_proof counting`, which passes the
//! counters, histograms and the meter of politeness as a page does.
//!
//! Invariant: crawl, web and Prometheus end with the measurement.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::prometheus::{Prometheus, Setup};
use super::stage::until;
use crate::api_servers::{ADMIN, Place, ask};
use crate::bench::cpu_of_process as cpu_of;
use crate::programs::Programs;
use crate::shell;
use crate::watched::{Answering, Site};

/// Maximum share of one core that scrapes take.
const SHARE_MAX: f64 = 0.01;
/// Maximum ratio of the CPU per page between rounds with scrapes and without: the share, and the noise of rounds.
const RATIO_MAX: f64 = 1.10;
/// Length of a round, and the time until the first scrape before it.
const ROUND: Duration = Duration::from_secs(15);
const FIRST_LIMIT: Duration = Duration::from_secs(60);
/// Pages before the first round.
const PAGES_FIRST: u64 = 500;
const WARM_UP: Duration = Duration::from_secs(120);
/// Scrapes of the direct measurement, and how long the process is measured at rest before.
const SCRAPES: u32 = 400;
const REST: Duration = Duration::from_secs(5);
/// A paused crawl has settled when it uses less of a core than this over a second. Before that it puts its queued URLs
/// aside, some ten thousand a second.
const IDLE_SHARE: f64 = 0.05;
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// Time limit of the measurement of the counters.
const COUNTING_LIMIT: Duration = Duration::from_secs(120);

/// Interval of the scrapes of each kind of round; none without scrapes.
const KINDS: [Option<u64>; 3] = [None, Some(15), Some(1)];

/// CPU of one scrape, and of 1,000 pages by kind of round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    scrape: Duration,
    bytes: usize,
    per_thousand: [f64; 3],
    /// Time of the counters of one page.
    counting: Duration,
}

impl Cost {
    /// What is too dear, and one line of figures.
    pub(super) fn conclude(&self) -> (Vec<String>, String) {
        let share = |every: f64| self.scrape.as_secs_f64() / every;
        let [quiet, slow, fast] = self.per_thousand;
        let counting = self.counting.as_secs_f64() * 1_000.0 / quiet;
        let mut faults = Vec::new();
        for every in [1.0, 15.0] {
            if share(every) > SHARE_MAX {
                faults
                    .push(format!("a scrape every {every} s takes {:.2} % of a core", 100.0 * share(every)));
            }
        }
        if counting > SHARE_MAX {
            faults.push(format!("counting takes {:.2} % of the CPU of a page", 100.0 * counting));
        }
        for (ratio, every) in [(slow / quiet, 15), (fast / quiet, 1)] {
            if ratio > RATIO_MAX {
                faults.push(format!("a page costs {ratio:.3} as much with a scrape every {every} s"));
            }
        }
        let line = format!(
            "a scrape of {} kB takes {:.2} ms of CPU: {:.3} % of a core every second, {:.4} % every 15 s (at most {} %); \
             CPU per 1,000 pages {quiet:.2} s without, {:.3} of that every 15 s, {:.3} every second; \
             counting {} ns per page, {:.2} % of its CPU",
            self.bytes / 1_000,
            self.scrape.as_secs_f64() * 1_000.0,
            100.0 * share(1.0),
            100.0 * share(15.0),
            100.0 * SHARE_MAX,
            slow / quiet,
            fast / quiet,
            self.counting.as_nanos(),
            100.0 * counting
        );
        (faults, line)
    }
}

/// Measures.
pub(super) fn measure(programs: &Programs, cache: &Path, rounds: usize) -> Result<Cost> {
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let site = Site::start(programs, &["--hosts", "200", "--pages", "1500000", "--addresses", "2"])?;
    let place = Place::new(programs, &site, folder.path())?;
    let without_rests = [
        "crawl.concurrency=64",
        "frontier.host_connections=8",
        "frontier.slot_connections=64",
        "frontier.slot_delay=0s",
        "budget.domain_urls=1000000000",
    ];
    let mut crawl = place.crawl("crawl", "0s", &without_rests.map(str::to_owned))?;
    until("the crawl is under way", WARM_UP, || Ok(pages_of(&crawl)? > PAGES_FIRST))?;
    let mut seen: [Vec<f64>; 3] = Default::default();
    for number in 0..rounds * KINDS.len() {
        // Another order each time.
        let at = (number + number / KINDS.len()) % KINDS.len();
        let data = folder.path().join(format!("prometheus-{number}"));
        let targets = [("crawl", crawl.address())];
        let every = Duration::from_secs(KINDS[at].unwrap_or(1));
        let setup = Setup { every, targets: &targets, token: Some(ADMIN), rules: "" };
        let server = KINDS[at].map(|_| Prometheus::start(cache, &data, &setup)).transpose()?;
        // Prometheus begins to scrape some seconds after its start, and with a long interval later still.
        if let Some(server) = &server {
            until("Prometheus scrapes the crawl", FIRST_LIMIT, || {
                Ok(server.sum("max_over_time(up[1m])")? > 0.0)
            })?;
        }
        let (pages, cpu) = (pages_of(&crawl)?, cpu_of(crawl.id())?);
        std::thread::sleep(ROUND);
        let (pages, cpu) = (pages_of(&crawl)? - pages, cpu_of(crawl.id())?.saturating_sub(cpu));
        let scrapes = match &server {
            Some(server) => server.sum("sum_over_time(up[16s])")?,
            None => 0.0,
        };
        ensure!(server.is_none() || scrapes > 0.0, "Prometheus could not scrape the crawl in the round");
        ensure!(pages > 0 && crawl.is_running()?, "the crawl fetches nothing; it said:\n{}", crawl.said());
        println!(
            "  {scrapes} scrapes in {} s: {:.0} pages/s, {:.3} s of CPU per 1,000 pages",
            ROUND.as_secs(),
            pages as f64 / ROUND.as_secs_f64(),
            cpu.as_secs_f64() * 1_000.0 / pages as f64
        );
        seen[at].push(cpu.as_secs_f64() * 1_000.0 / pages as f64);
    }
    let per_thousand = seen.map(median);
    let (scrape, bytes) = one_scrape(&crawl)?;
    drop(crawl);
    Ok(Cost { scrape, bytes, per_thousand, counting: counting(programs)? })
}

/// The time of the counters of one page.
fn counting(programs: &Programs) -> Result<Duration> {
    let mut command = Command::new(programs.path("crawl_proof")?);
    command.arg("--nephila").arg(programs.path("nephila")?).arg("counting");
    let said = shell::output(&mut command, COUNTING_LIMIT)?;
    let nanos = said.strip_prefix("counting: ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    Ok(Duration::from_nanos(nanos.with_context(|| said.clone())?))
}

/// The CPU of one scrape of a crawl that is paused, and the bytes of its answer.
fn one_scrape(crawl: &Answering) -> Result<(Duration, usize)> {
    let (status, said) = ask(crawl.address(), "POST", "/api/v1/jobs/crawl/pause", "")?;
    ensure!((200..300).contains(&status), "the job is not paused: {status} {said}");
    let over = |wait: Duration| -> Result<f64> {
        let (cpu, began) = (cpu_of(crawl.id())?, Instant::now());
        std::thread::sleep(wait);
        Ok(cpu_of(crawl.id())?.saturating_sub(cpu).as_secs_f64() / began.elapsed().as_secs_f64())
    };
    until("the paused crawl is idle", IDLE_LIMIT, || Ok(over(Duration::from_secs(1))? < IDLE_SHARE))?;
    let at_rest = over(REST)?;
    let (cpu, began, mut bytes) = (cpu_of(crawl.id())?, Instant::now(), 0);
    for _ in 0..SCRAPES {
        bytes = metrics_of(crawl)?.len();
    }
    let used = cpu_of(crawl.id())?.saturating_sub(cpu).as_secs_f64();
    let own = (used - at_rest * began.elapsed().as_secs_f64()).max(0.0);
    Ok((Duration::from_secs_f64(own / f64::from(SCRAPES)), bytes))
}

fn metrics_of(crawl: &Answering) -> Result<String> {
    let (status, text) = ask(crawl.address(), "GET", "/metrics", "")?;
    ensure!(status == 200, "/metrics was answered with {status}: {text}");
    Ok(text)
}

/// Pages of the crawl so far.
fn pages_of(crawl: &Answering) -> Result<u64> {
    let text = metrics_of(crawl)?;
    let sample = "nephila_spider_fetches_total{outcome=\"2xx\"} ";
    let value = text.lines().find_map(|line| line.strip_prefix(sample));
    value.and_then(|value| value.parse().ok()).context("/metrics names no pages")
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

    #[test]
    fn a_scrape_that_takes_more_than_a_hundredth_of_a_core_is_too_dear() {
        let cost = |millis: f64, fast: f64| Cost {
            scrape: Duration::from_secs_f64(millis / 1_000.0),
            bytes: 30_000,
            per_thousand: [1.0, 1.0, fast],
            counting: Duration::from_micros(4),
        };
        let (faults, line) = cost(1.5, 1.05).conclude();
        assert!(faults.is_empty(), "{faults:?}");
        assert!(line.contains("1.50 ms of CPU: 0.150 % of a core every second, 0.0100 %"), "{line}");
        assert_eq!(cost(12.0, 1.0).conclude().0, ["a scrape every 1 s takes 1.20 % of a core"]);
        assert_eq!(cost(200.0, 1.0).conclude().0.len(), 2);
        assert_eq!(cost(1.0, 1.2).conclude().0, ["a page costs 1.200 as much with a scrape every 1 s"]);
        let slow = Cost { counting: Duration::from_micros(11), ..cost(1.0, 1.0) };
        assert_eq!(slow.conclude().0, ["counting takes 1.10 % of the CPU of a page"]);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
