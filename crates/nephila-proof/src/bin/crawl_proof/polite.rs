//! Polite: ten thousand hosts, three in ten of which share their address with others, while everything that a crawler
//! has to obey changes: robots.txt closes, fails, disappears, redirects, asks for a delay, and opens again; hosts answer
//! 429 for a while and say when to come back.
//!
//! A robots.txt is good for ten minutes at least, so the crawler's own clock is made to run ahead where Debian's
//! libfaketime is installed: then every file is read many times in one crawl. Rests do not go by that clock.

use std::time::Duration;

use nephila_testweb::Settings;
use nephila_testweb::check::{RetryAfter, Robots};
use nephila_testweb::settings::RobotsShares;

use crate::crawler::{Crawler, Place, Rests};
use crate::judge::{self, Verdict};
use crate::outage::Clock;
use crate::site::Site;

/// The crawl must end within this time.
const LIMIT: Duration = Duration::from_secs(3_600);
/// The clock of the crawler is set forward this far, again and again: more than the lifetime of a robots.txt.
const JUMP: Duration = Duration::from_secs(11 * 60);
/// How often.
const JUMP_EVERY: Duration = Duration::from_secs(3);

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of hosts of the web.
    #[arg(long, default_value_t = 10_000)]
    hosts: u32,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 60_000)]
    pages: u64,
    /// Seed of the web.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rest of a host between two requests (crawl delay), in milliseconds; an address rests half as long.
    #[arg(long, default_value_t = 40)]
    host_delay_ms: u64,
    /// Number of times the clock of the crawler is set forward.
    #[arg(long, default_value_t = 30)]
    jumps: u32,
    /// `Retry-After`, in seconds.
    #[arg(long, default_value_t = 2)]
    retry_after: u64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let folder = place.folder("polite")?;
    let host = Duration::from_millis(args.host_delay_ms);
    let rests = Rests { host, slot: host / 2 };
    let site = Site::start(web(args), &folder)?;
    let wanted = site.all_homes(&folder)?;
    let mut crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "any", rests);
    // Busy hosts are retried until they answer.
    crawler.set("retry.retries_max=20");
    crawler.set("retry.back_off_factor=10");
    let clock = Clock::new(&folder)?;
    if let Some(clock) = &clock {
        clock.attach(&mut crawler);
    }
    let mut crawl = crawler.start()?;
    let began = std::time::Instant::now();
    let mut jumps = 0u32;
    while !crawl.wait_until(std::time::Instant::now() + JUMP_EVERY)? {
        anyhow::ensure!(began.elapsed() < LIMIT, "the crawl did not end within {} s", LIMIT.as_secs());
        if let Some(clock) = &clock
            && jumps < args.jumps
        {
            jumps += 1;
            clock.ahead(JUMP * jumps)?;
        }
    }
    let ended = crawl.finish(LIMIT)?;
    let world = site.web().world().clone();
    let log = site.stop();

    let mut verdict = Verdict::default();
    judge::polite(&mut verdict, &world, &log, rests);
    let retry_after = RetryAfter { tolerance: Duration::ZERO }.check(&log);
    verdict.report("Retry-After", &retry_after);
    let files = log.requests.iter().filter(|request| request.path == "/robots.txt");
    let (mut read, mut failed, mut moved) = (0, 0, 0);
    for file in files {
        read += 1;
        failed += u32::from(file.status >= 500);
        moved += u32::from((300..400).contains(&file.status));
    }
    verdict.expect(failed > 0 && moved > 0, || "no robots.txt failed or redirected".into());
    let rules = Robots::of_world(&world, &world.settings().agent);
    let changed = changes(&log, &rules);
    if clock.is_some() {
        verdict.expect(changed > 0, || "no robots.txt was read again and found changed".into());
    } else {
        println!("skipped: robots.txt read again within a crawl: install Debian's libfaketime");
    }
    let shared = shared_hosts(&world);
    verdict.end(&format!(
        "polite: {} hosts, {shared} on shared addresses, {} requests, 0 violations; {read} robots.txt read, {failed} \
         failed, {moved} redirected, {changed} found changed; {} times told to come back later; {jumps} clock jumps; {:.0} s, \
         peak {} MB",
        args.hosts,
        log.requests.len(),
        retry_after.judged,
        ended.took.as_secs_f64(),
        ended.peak_kb / 1024,
    ))
}

fn web(args: &Args) -> Settings {
    Settings {
        seed: args.seed,
        hosts: args.hosts,
        pages: args.pages,
        // This number of addresses leaves three hosts in ten on a shared one.
        addresses: args.hosts * 14 / 5,
        page_bytes: 4_000,
        // Few large hosts: the crawl should be wide, not long. But some live long enough to see their rules change.
        size_exponent: 0.7,
        private_share: 0.2,
        error_share: 0.02,
        redirect_share: 0.05,
        https_share: 0.2,
        dead_share: 0.01,
        sitemap_share: 0.2,
        robots: RobotsShares {
            private: 0.1,
            closed: 0.02,
            delay: 0.1,
            missing: 0.1,
            broken: 0.02,
            redirecting: 0.1,
            changing: 0.1,
            named: 0.05,
            patterns: 0.05,
            shifting: 0.3,
        },
        // A minute of the web in a second, so that every file changes every few seconds.
        time_rate: 60.0,
        robots_period: Duration::from_secs(300),
        robots_max_age: Duration::from_secs(60),
        crawl_delay: Duration::from_millis(300),
        retry_after: Duration::from_secs(args.retry_after),
        busy_share: 0.1,
        busy_period: Duration::from_secs(300),
        journal_max: 8_000_000,
        threads: 1,
        ..Settings::default()
    }
}

/// How often a robots.txt was read again and said something else.
fn changes(log: &nephila_testweb::journal::Log, rules: &Robots<'_>) -> u64 {
    let mut last = std::collections::HashMap::new();
    let mut changes = 0;
    for request in log.requests.iter().filter(|request| request.path == "/robots.txt" && request.status < 500)
    {
        let Some(new) = (rules.rules_of)(request) else { continue };
        let key = (request.tls, request.host.clone());
        changes += u64::from(last.insert(key, new.clone()).is_some_and(|old| old != new));
    }
    changes
}

/// Hosts that have an address with another one.
fn shared_hosts(world: &nephila_testweb::model::World) -> usize {
    let mut hosts = std::collections::HashMap::new();
    for host in 0..world.settings().hosts {
        for address in world.addresses(host) {
            *hosts.entry(address).or_insert(0usize) += 1;
        }
    }
    hosts.values().filter(|count| **count > 1).sum()
}
