//! An explosion: every page names eleven URLs nobody has heard of. Memory stays flat, and what is beyond the budgets is
//! parked at a few bytes each.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use nephila_core::budget;
use nephila_core::frontier::Config;
use nephila_core::frontier::ticket::Purpose;
use nephila_core::key::HostKey;

use crate::drive::{Driver, Failure, Kept, create};
use crate::goals::Goals;
use crate::meter;
use crate::web::{Chunk, Web};

/// New URLs on every page.
const NEW_PER_PAGE: u32 = 11;
/// Domains and hosts of each.
const DOMAINS: u32 = 100;
const HOSTS: u32 = 50;
/// Pages fetched before what they name is offered.
const PAGES_AT_ONCE: u64 = 20_000;
const BATCH: usize = 65_536;
/// The most imaginary time between two looks, in milliseconds.
const STEP: u64 = 10_000;
/// Steps without a page after which there is nothing left to fetch.
const IDLE_STEPS_MAX: u32 = 20;
/// Surplus URLs of the last part, by which their bytes on disk are measured, at most.
const SURPLUS_MAX: u64 = 2_000_000;
/// Fewer say nothing about bytes each.
const SURPLUS_JUDGED_MIN: u64 = 500_000;

/// Goals: bytes on disk of a URL beyond what is parked with its text; growth of memory beyond the filters.
const SURPLUS_BYTES_MAX: f64 = 12.0;
const FILTER_BYTES: f64 = 1.5;
const GROWTH_MAX: f64 = 64e6;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the web.
    pub seed: u64,
    /// Pages fetched.
    pub pages: u64,
    /// Partitions.
    pub partitions: u32,
}

/// Runs it.
pub fn run<S: Kept>(options: &Options, folder: &Path, goals: &mut Goals) -> Result<(), Failure> {
    let folder = folder.join("explosion");
    std::fs::create_dir_all(&folder)?;
    let begun = Instant::now();
    let mut web = Growing::new(options.seed);
    let budget = (options.pages / u64::from(DOMAINS)).max(1);
    let mut config = Config { agent: "nephila".into(), ..Config::default() };
    config.frontier.offers_max = BATCH;
    config.rules.budget = budget::Settings {
        domain_urls: budget,
        domain_urls_per_day: 0,
        parked_text_max: budget,
        ..budget::Settings::default()
    };
    let mut driver = Driver::<S>::new(config, create(&folder, options.partitions)?);
    driver.commit_every = Some(1_000);
    let mut chunk = Chunk::default();
    (0..DOMAINS * HOSTS).for_each(|host| web.next(host, &mut chunk));
    driver.offer_all(&chunk)?;
    driver.round()?;

    let (mut pages, mut idle) = (0, 0);
    let mut early = None;
    while pages < options.pages && idle < IDLE_STEPS_MAX {
        let mut fetched = Vec::new();
        let quota = PAGES_AT_ONCE.min(options.pages - pages);
        driver.crawl(driver.now.mono + STEP, quota, &mut |ticket| {
            if ticket.purpose == Purpose::Page {
                fetched.push(ticket.key.host);
            }
        })?;
        idle = if fetched.is_empty() { idle + 1 } else { 0 };
        pages += fetched.len() as u64;
        chunk.clear();
        for host in fetched {
            web.page(host, &mut chunk);
        }
        driver.offer_all(&chunk)?;
        driver.round()?;
        if early.is_none() && pages > options.pages * 3 / 10 {
            early = Some((meter::resident(), driver.frontier.stats().sifted));
        }
    }
    let stats = driver.frontier.stats().sifted;
    let found = |sifted: nephila_core::frontier::Sifted| sifted.queued + sifted.parked + sifted.refused;
    let (early, then) = early.unwrap_or((meter::resident(), stats));
    let growth = meter::resident() as f64 - early as f64;
    let took = begun.elapsed();

    let settle = |driver: &mut Driver<S>| -> Result<u64, Failure> {
        for partition in 0..options.partitions as usize {
            driver.frontier.state(partition).settle()?;
        }
        Ok(meter::disk_bytes(&folder))
    };
    let before = settle(&mut driver)?;
    let surplus = options.pages.min(SURPLUS_MAX);
    let parked = driver.frontier.stats().sifted.parked;
    for at in (0..surplus).step_by(BATCH) {
        chunk.clear();
        for i in at..surplus.min(at + BATCH as u64) {
            web.next((i % u64::from(DOMAINS * HOSTS)) as u32, &mut chunk);
        }
        driver.offer_all(&chunk)?;
    }
    driver.round()?;
    let parked = driver.frontier.stats().sifted.parked - parked;
    let after = settle(&mut driver)?;
    let each = after.saturating_sub(before) as f64 / surplus as f64;
    let known = found(stats) - found(then);
    println!(
        "explosion, {pages} pages, {}: {} URLs found, {} queued, {} parked, in {:.0} s ({:.1} us a page); resident {:.0} \
         MB at 30 %, {:+.0} MB since ({:.2} bytes per URL found since), peak {:.0} MB; {:.1} MB on disk; {surplus} more, \
         {parked} of them parked: {each:.1} bytes on disk each",
        S::NAME,
        found(stats),
        stats.queued,
        stats.parked,
        took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / pages.max(1) as f64,
        early as f64 / 1e6,
        growth / 1e6,
        growth / known.max(1) as f64,
        meter::resident_peak() as f64 / 1e6,
        before as f64 / 1e6,
    );
    goals.at_least("share of pages fetched in an explosion", pages as f64 / options.pages as f64, 0.98);
    goals.at_least("share of the surplus that is parked", parked as f64 / surplus as f64, 0.99);
    if S::ON_DISK {
        let allowed = GROWTH_MAX + FILTER_BYTES * known as f64;
        goals.at_most(
            "growth of memory in an explosion, against what filters may take",
            growth / allowed,
            1.0,
        );
        if surplus >= SURPLUS_JUDGED_MIN {
            goals.at_most("bytes on disk of a surplus URL", each, SURPLUS_BYTES_MAX);
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// A web that names new URLs for ever.
struct Growing {
    web: Web,
    next: Vec<u32>,
    numbers: HashMap<HostKey, u32>,
    turn: u32,
}

impl Growing {
    fn new(seed: u64) -> Growing {
        let mut web = Web::equal(seed, 0, 0);
        (0..DOMAINS).for_each(|_| _ = web.add_domain(HOSTS, 0));
        let mut numbers = HashMap::new();
        let mut chunk = Chunk::default();
        for host in 0..DOMAINS * HOSTS {
            chunk.clear();
            web.push(host, 0, &mut chunk);
            numbers.extend(chunk.offers().map(|offer| (offer.key.host, host)));
        }
        Growing { next: vec![0; numbers.len()], web, numbers, turn: 0 }
    }

    /// The next URL of a host.
    fn next(&mut self, host: u32, chunk: &mut Chunk) {
        let next = &mut self.next[host as usize];
        self.web.push(host, *next, chunk);
        *next += 1;
    }

    /// What a page of this host names: URLs of its domain.
    fn page(&mut self, host: HostKey, chunk: &mut Chunk) {
        let number = self.numbers[&host];
        let first = number - number % HOSTS;
        for _ in 0..NEW_PER_PAGE {
            self.turn = self.turn.wrapping_add(1);
            self.next(first + self.turn % HOSTS, chunk);
        }
    }
}
