//! Breadth: with a rest of ten seconds, are all hosts asked as often as they may be, and what does a host cost?

use std::path::Path;
use std::time::{Duration, Instant};

use nephila_core::frontier::Config;
use nephila_core::frontier::ticket::Purpose;

use crate::drive::{Failure, Kept};
use crate::goals::Goals;
use crate::meter;
use crate::offers::load_with;
use crate::web::Web;

/// The rest of a host.
const DELAY: Duration = Duration::from_secs(10);
/// URLs of each host: as many as one visit holds, so that memory is measured at its worst.
const HOST_URLS: u32 = 16;
/// Rests before measuring: names, robots.txt, first page.
const WARM_UP_RESTS: u64 = 3;
/// Rests measured.
const RESTS: u64 = 3;
/// Groups are committed so often, in milliseconds.
const COMMIT_EVERY: u64 = 200;
/// Offers of a partition that are looked at together.
const BATCH: usize = 65_536;

/// Goals.
const SHARE_MIN: f64 = 0.95;
const HOST_BYTES_MAX: f64 = 1_500.0;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the web.
    pub seed: u64,
    /// Hosts, one run for each.
    pub hosts: Vec<u32>,
    /// Partitions.
    pub partitions: u32,
}

/// Runs it.
pub fn run<S: Kept>(options: &Options, folder: &Path, goals: &mut Goals) -> Result<(), Failure> {
    for &hosts in &options.hosts {
        let folder = folder.join(format!("breadth-{hosts}"));
        std::fs::create_dir_all(&folder)?;
        of::<S>(options, hosts, &folder, goals)?;
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

fn of<S: Kept>(options: &Options, hosts: u32, folder: &Path, goals: &mut Goals) -> Result<(), Failure> {
    let begun = Instant::now();
    let web = Web::equal(options.seed, hosts, HOST_URLS);
    let mut config = Config { agent: "nephila".into(), ..Config::default() };
    config.frontier.host_delay = DELAY;
    config.frontier.hosts_active_max = 0;
    config.frontier.offers_max = BATCH;
    let loaded = load_with::<S>(&web, config.clone(), options.partitions, folder)?;
    let loading = begun.elapsed();

    config.frontier.hosts_active_max = hosts as usize;
    let before = meter::resident();
    let mut driver = loaded.again(config, options.partitions);
    driver.commit_every = Some(COMMIT_EVERY);
    let rest = DELAY.as_millis() as u64;
    let begun = Instant::now();
    driver.crawl(driver.now.mono + WARM_UP_RESTS * rest, u64::MAX, &mut |_| ())?;
    let warmed = begun.elapsed();
    let gauges = driver.frontier.gauges();
    // What the state holds in memory until it writes it down is not the hosts'.
    for partition in 0..options.partitions as usize {
        driver.frontier.state(partition).settle()?;
    }
    let resident = meter::resident().saturating_sub(before);

    let (cpu, begun) = (meter::process_cpu(), Instant::now());
    let mut pages = 0u64;
    driver.crawl(driver.now.mono + RESTS * rest, u64::MAX, &mut |ticket| {
        pages += u64::from(ticket.purpose == Purpose::Page);
    })?;
    let (cpu, wall) = (meter::process_cpu() - cpu, begun.elapsed());

    let wanted = u64::from(hosts) * RESTS;
    let share = pages as f64 / wanted as f64;
    let bench_bytes = gauges.bench_bytes as f64 / f64::from(hosts);
    println!(
        "breadth, {hosts} hosts, {}: {:.0} tickets per second of their time, {:.1} % of what politeness allows; \
         {:.1} us CPU a ticket, {:.0} a second of ours; {:.0} bytes a host on the bench, {:.0} resident; \
         {} on the bench; loaded in {:.1} s, warm in {:.1} s",
        S::NAME,
        pages as f64 / (RESTS as f64 * DELAY.as_secs_f64()),
        100.0 * share,
        cpu.as_secs_f64() * 1e6 / pages.max(1) as f64,
        pages as f64 / wall.as_secs_f64(),
        bench_bytes,
        resident as f64 / f64::from(hosts),
        gauges.hosts_active,
        loading.as_secs_f64(),
        warmed.as_secs_f64(),
    );
    goals.at_least(&format!("share of hosts/delay at {hosts} hosts"), share, SHARE_MIN);
    goals.at_most(&format!("bytes per active host at {hosts} hosts"), bench_bytes, HOST_BYTES_MAX);
    Ok(())
}
