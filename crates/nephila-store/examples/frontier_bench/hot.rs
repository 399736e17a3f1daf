//! A hot host: does a domain with millions of URLs take the turn of small ones?
//!
//! The same small hosts are crawled twice, without and with the giant, whose URLs keep coming in meanwhile.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use nephila_core::frontier::Config;
use nephila_core::frontier::ticket::Purpose;
use nephila_core::key::DomainKey;

use crate::drive::{Failure, Kept};
use crate::goals::Goals;
use crate::meter;
use crate::offers::load_with;
use crate::web::{Chunk, Web};

/// Hosts of the giant.
const GIANT_HOSTS: u32 = 100;
/// URLs of a small host.
const SMALL_URLS: u32 = 16;
/// How long an answer takes, in milliseconds.
const LATENCY: u64 = 200;
/// Imaginary milliseconds before measuring.
const WARM_UP: u64 = 6_000;
/// Imaginary milliseconds measured, in steps.
const MEASURED: u64 = 20_000;
const STEP: u64 = 100;
/// New URLs of the giant that are offered in each step.
const GIANT_OFFERS: u32 = 500;
const BATCH: usize = 65_536;

/// The small ones get as many tickets as without the giant, but for this share.
const LOSS_MAX: f64 = 0.10;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the web.
    pub seed: u64,
    /// Small hosts.
    pub hosts: u32,
    /// URLs of the giant.
    pub giant: u64,
    /// Partitions.
    pub partitions: u32,
}

struct Run {
    /// Tickets of small hosts in a second of their time.
    small: f64,
    giant: f64,
    /// CPU microseconds a ticket.
    cpu: f64,
    rate: f64,
    disk: u64,
    parked: u64,
    loading: Duration,
}

/// Runs it.
pub fn run<S: Kept>(options: &Options, folder: &Path, goals: &mut Goals) -> Result<(), Failure> {
    let without = of::<S>(options, 0, folder)?;
    let with = of::<S>(options, options.giant, folder)?;
    let loss = 1.0 - with.small / without.small;
    println!(
        "hot host, {} small ones, {} URLs of the giant, {}: {:.0} tickets/s of small ones without it, {:.0} with it \
         ({:.2} % less), {:.0} of its own; {:.1} and {:.1} us CPU a ticket, {:.0} and {:.0} tickets in a second of ours; \
         {} of its URLs parked; {:.1} and {:.1} MB on disk; loaded in {:.1} and {:.1} s",
        options.hosts,
        options.giant,
        S::NAME,
        without.small,
        with.small,
        100.0 * loss,
        with.giant,
        without.cpu,
        with.cpu,
        without.rate,
        with.rate,
        with.parked,
        without.disk as f64 / 1e6,
        with.disk as f64 / 1e6,
        without.loading.as_secs_f64(),
        with.loading.as_secs_f64(),
    );
    goals.at_most("loss of small hosts beside a giant", loss, LOSS_MAX);
    Ok(())
}

fn of<S: Kept>(options: &Options, giant: u64, folder: &Path) -> Result<Run, Failure> {
    let folder = folder.join(format!("hot-{giant}"));
    std::fs::create_dir_all(&folder)?;
    let begun = Instant::now();
    let mut web = Web::equal(options.seed, options.hosts, SMALL_URLS);
    let first = web.add_domain(GIANT_HOSTS, giant);
    let mut config = Config { agent: "nephila".into(), ..Config::default() };
    config.frontier.offers_max = BATCH;
    config.frontier.hosts_active_max = 0;
    let loaded = load_with::<S>(&web, config.clone(), options.partitions, &folder)?;
    let parked = loaded.frontier.stats().sifted.parked;
    let loading = begun.elapsed();
    // All of them are at hand: what they compete for is tickets, addresses and our time.
    config.frontier.hosts_active_max = (options.hosts + GIANT_HOSTS) as usize;
    let mut driver = loaded.again(config, options.partitions);
    driver.commit_every = Some(STEP);
    driver.latency = LATENCY;

    let mut chunk = Chunk::default();
    web.push(first, 0, &mut chunk);
    let giants: HashSet<DomainKey> = chunk.offers().map(|offer| offer.key.host.domain).collect();
    let (mut small, mut large) = (0u64, 0u64);
    let begin = driver.now.mono + WARM_UP;
    driver.crawl(begin, u64::MAX, &mut |_| ())?;
    let (cpu, wall) = (meter::process_cpu(), Instant::now());
    for step in 0..MEASURED / STEP {
        if giant > 0 {
            chunk.clear();
            let from = (giant / u64::from(GIANT_HOSTS)) as u32 + 1;
            for i in 0..GIANT_OFFERS {
                let number = step as u32 * GIANT_OFFERS + i;
                web.push(first + number % GIANT_HOSTS, from + number / GIANT_HOSTS, &mut chunk);
            }
            driver.offer_all(&chunk)?;
        }
        driver.crawl(begin + (step + 1) * STEP, u64::MAX, &mut |ticket| {
            if ticket.purpose == Purpose::Page {
                match giants.contains(&ticket.key.host.domain) {
                    true => large += 1,
                    false => small += 1,
                }
            }
        })?;
    }
    let (cpu, wall) = (meter::process_cpu() - cpu, wall.elapsed());
    let seconds = MEASURED as f64 / 1e3;
    let tickets = (small + large).max(1) as f64;
    let run = Run {
        small: small as f64 / seconds,
        giant: large as f64 / seconds,
        cpu: cpu.as_secs_f64() * 1e6 / tickets,
        rate: tickets / wall.as_secs_f64(),
        disk: meter::disk_bytes(&folder),
        parked,
        loading,
    };
    std::fs::remove_dir_all(&folder)?;
    Ok(run)
}
