//! Scale: offers, tickets and outcomes with millions of URLs known, beside an embedded store and a bare merge.

use std::path::Path;
use std::time::{Duration, Instant};

use nephila_core::budget;
use nephila_core::frontier::{Config, Stats};

use crate::baseline::{self, Load};
use crate::drive::{Driver, Failure, Journal, Kept, create};
use crate::goals::Goals;
use crate::meter::{self, Io, Meter};
use crate::web::{Chunk, Web};

/// Offers made up at once, outside the measured time.
const CHUNK: usize = 131_072;
/// Offers of a partition that are looked at together while the web is loaded.
const LOAD_BATCH: usize = 65_536;
/// Every host has its share in each of these passes when the web is loaded.
const LOAD_PASSES: u32 = 4;
/// One fetch for so many offers.
const OFFERS_PER_FETCH: u64 = 100;
/// Offers in a second of imaginary time.
const OFFERS_PER_SECOND: u64 = 100_000;
/// Imaginary milliseconds of crawling before measuring, so that hosts are on the bench and know their robots.txt.
const WARM_UP: u64 = 60_000;
/// And at most this many fetches.
const WARM_UP_FETCHES: u64 = 100_000;
/// Hosts on an address, for those that share it.
const NEIGHBOURS: u64 = 10;

/// Goals at every size.
const RATE_MIN: f64 = 100_000.0;
const CPU_MAX: f64 = 6.0;
const PEAK_MAX: f64 = 2.0e9;
const RESIDENT_MAX: f64 = 1.5;
const DISK_MAX: f64 = 45.0;
const MERGE_SHARE_MIN: f64 = 0.40;
/// A merge of a small file beats everything that can also be asked other questions; it is judged from here on.
const MERGE_KNOWN_MIN: u64 = 100_000_000;
/// CPU per offer at the largest size against the one before it.
const GROWTH_MAX: f64 = 1.3;
/// Below this many known URLs, bytes per URL say nothing: what is in memory has not been written yet.
const BYTES_KNOWN_MIN: u64 = 1_000_000;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of the web.
    pub seed: u64,
    /// URLs known, one run for each.
    pub known: Vec<u64>,
    /// Offers measured in each run.
    pub offers: u64,
    /// Offers of a partition looked at together.
    pub batch: usize,
    /// Partitions.
    pub partitions: u32,
    /// Out of 100 offers, those of known URLs.
    pub known_share: u64,
    /// Measure the baselines, with at most this many URLs known; 0 for not at all.
    pub baselines: u64,
}

/// Offers a second.
#[derive(Clone, Copy, Debug)]
struct Rates {
    /// With tickets and outcomes beside them.
    all: f64,
    /// The time for tickets left out.
    offers: f64,
}

/// Runs it.
pub fn run<S: Kept>(options: &Options, folder: &Path, goals: &mut Goals) -> Result<(), Failure> {
    let mut before: Option<f64> = None;
    for &known in &options.known {
        let folder = folder.join(format!("scale-{known}"));
        std::fs::create_dir_all(&folder)?;
        let (cpu, load, rates) = frontier::<S>(options, known, &folder, goals)?;
        std::fs::remove_dir_all(&folder)?;
        if let Some(before) = before.replace(cpu) {
            goals.at_most(
                &format!("CPU per offer at {known} against the size before"),
                cpu / before,
                GROWTH_MAX,
            );
        }
        if options.baselines > 0 {
            baselines(load, options.baselines, rates, &folder, goals)?;
        }
    }
    Ok(())
}

fn frontier<S: Kept>(
    options: &Options,
    known: u64,
    folder: &Path,
    goals: &mut Goals,
) -> Result<(f64, Load, Rates), Failure> {
    let begun = Instant::now();
    let mut web = Web::new(options.seed, known, options.known_share);
    let mut driver = load::<S>(&web, options.partitions, folder)?;
    let loaded = begun.elapsed();
    println!(
        "scale, {known} known, {}: {} hosts, loaded in {:.1} s, {:.0} MB on disk, {:.0} MB resident",
        S::NAME,
        web.hosts(),
        loaded.as_secs_f64(),
        meter::disk_bytes(folder) as f64 / 1e6,
        meter::resident() as f64 / 1e6,
    );

    let mut config = config();
    config.frontier.offers_max = options.batch;
    driver = driver.again(config, options.partitions);
    driver.failures = true;
    driver.hosts_per_address = NEIGHBOURS;
    driver.commit_every = Some(1_000);
    driver.crawl(driver.now.mono + WARM_UP, WARM_UP_FETCHES.min(known / 4), &mut |_| ())?;
    driver.round()?;
    // From here on groups are written when offers are sifted.
    driver.commit_every = None;
    driver.journal = Some(Journal::create(folder)?);

    let stats = driver.frontier.stats();
    driver.phases = Default::default();
    let mut meter = Meter::start();
    let mut chunk = Chunk::default();
    let (mut offered, mut crawled) = (0, 0);
    while offered < options.offers {
        meter.pause(|| {
            chunk.clear();
            web.links(CHUNK, &mut chunk);
        });
        let rounds = driver.offer_all(&chunk)?;
        offered += chunk.len() as u64;
        if rounds > 0 {
            let made = std::mem::replace(&mut crawled, offered);
            crawl(&mut driver, offered - made)?;
        }
    }
    driver.round()?;
    crawl(&mut driver, offered - crawled)?;
    let used = meter.stop();
    let did = difference(driver.frontier.stats(), stats);
    let phases = driver.phases;
    let journal = driver.journal.as_ref().map_or(0, |journal| journal.bytes);
    let peak = meter::resident_peak();

    let per_offer = |time: Duration| time.as_secs_f64() * 1e6 / offered as f64;
    let rate = offered as f64 / used.wall.as_secs_f64();
    let cpu = per_offer(used.cpu);
    println!(
        "  {offered} offers ({:.1} % offered a moment before, {:.1} % of the rest known) in {:.2} s: {rate:.0}/s, \
         {cpu:.2} us CPU each, {:.2} each that was looked at; read {:.1} bytes each ({:.1} from the device)",
        100.0 * did.recent as f64 / offered as f64,
        100.0 * did.sifted.known as f64 / did.sifted.looked_at.max(1) as f64,
        used.wall.as_secs_f64(),
        used.cpu.as_secs_f64() * 1e6 / did.sifted.looked_at.max(1) as f64,
        used.io.read_calls as f64 / offered as f64,
        used.io.read_device as f64 / offered as f64,
    );
    println!(
        "  microseconds per offer: take {:.2}, sift {:.2}, journal {:.2}, fold {:.2}, flush {:.2}, tickets {:.2}; {} \
         groups",
        per_offer(phases.offer),
        per_offer(phases.sift),
        per_offer(phases.journal),
        per_offer(phases.fold),
        per_offer(phases.flush),
        per_offer(phases.crawl),
        did.groups,
    );
    let fetches = did.tickets + did.robots;
    println!(
        "  {} tickets for pages and {} for robots.txt: {:.0}/s beside the offers, {:.1} us each; {} fills",
        did.tickets,
        did.robots,
        fetches as f64 / used.wall.as_secs_f64(),
        phases.crawl.as_secs_f64() * 1e6 / fetches.max(1) as f64,
        did.fills,
    );
    let gauges = driver.frontier.gauges();
    let (begun, settling) = (Instant::now(), Io::now());
    let mut states = driver.frontier.into_states();
    states.iter_mut().try_for_each(Kept::settle)?;
    let resident: u64 = states.iter().map(Kept::resident).sum();
    let settled = begun.elapsed();
    let total = known + did.sifted.looked_at - did.sifted.known;
    let disk = meter::disk_bytes(folder).saturating_sub(journal_bytes(folder));
    // What was still in memory and the merges that were still due belong to it.
    let written = used.io.write_calls.saturating_sub(journal) + settling.since().write_calls;
    println!(
        "  peak {:.0} MB; bench {} hosts, {:.1} MB; filters and indexes {:.2} bytes per known URL; disk {:.1} bytes per \
         known URL; {:.1} bytes written per byte of journal, which has {:.1} per new URL; settled in {:.1} s",
        peak as f64 / 1e6,
        gauges.hosts_active,
        gauges.bench_bytes as f64 / 1e6,
        resident as f64 / total as f64,
        disk as f64 / total as f64,
        written as f64 / journal.max(1) as f64,
        journal as f64 / did.sifted.queued.max(1) as f64,
        settled.as_secs_f64(),
    );
    goals.rate(&format!("offers/s at {known}"), rate, RATE_MIN);
    goals.cost(&format!("us CPU per offer at {known}"), cpu, CPU_MAX);
    if S::ON_DISK && known >= BYTES_KNOWN_MIN {
        goals.at_most(&format!("peak bytes at {known}"), peak as f64, PEAK_MAX);
        goals.at_most(
            &format!("resident bytes per URL at {known}"),
            resident as f64 / total as f64,
            RESIDENT_MAX,
        );
        goals.at_most(&format!("disk bytes per URL at {known}"), disk as f64 / total as f64, DISK_MAX);
    }
    let load = Load {
        seed: options.seed,
        known,
        known_share: options.known_share,
        offers: options.offers,
        buffer: options.batch * options.partitions as usize,
    };
    let offers_only = offered as f64 / used.wall.saturating_sub(phases.crawl).as_secs_f64();
    Ok((cpu, load, Rates { all: rate, offers: offers_only }))
}

/// Makes all URLs of a web known, by the same way that offers take, without anybody fetching.
pub fn load<S: Kept>(web: &Web, partitions: u32, folder: &Path) -> Result<Driver<S>, Failure> {
    let mut config = config();
    config.frontier.hosts_active_max = 0;
    config.frontier.offers_max = LOAD_BATCH;
    load_with(web, config, partitions, folder)
}

/// The same with a configuration.
pub fn load_with<S: Kept>(
    web: &Web,
    config: Config,
    partitions: u32,
    folder: &Path,
) -> Result<Driver<S>, Failure> {
    let mut driver = Driver::<S>::new(config, create(folder, partitions)?);
    let (mut all, mut chunk) = (web.all(LOAD_PASSES), Chunk::default());
    loop {
        chunk.clear();
        let more = web.next_known(&mut all, CHUNK, &mut chunk);
        driver.offer_all(&chunk)?;
        if !more {
            break;
        }
    }
    driver.round()?;
    for partition in 0..partitions as usize {
        driver.frontier.state(partition).settle()?;
    }
    driver.advance_to(driver.now.mono + 1_000);
    Ok(driver)
}

/// The fetches that belong to so many offers.
fn crawl<S: Kept>(driver: &mut Driver<S>, offers: u64) -> Result<(), Failure> {
    let until = driver.now.mono + offers * 1_000 / OFFERS_PER_SECOND;
    driver.crawl(until, offers / OFFERS_PER_FETCH, &mut |_| ())?;
    if driver.now.mono < until {
        driver.advance_to(until);
    }
    Ok(())
}

/// As shipped, but no domain meets its budget: every URL is queued with its text, which is the dearest way.
fn config() -> Config {
    let mut config = Config { agent: "nephila".into(), ..Config::default() };
    config.rules.budget = budget::Settings { domain_urls: u64::MAX, ..Default::default() };
    config
}

fn difference(now: Stats, before: Stats) -> Stats {
    let mut did = now;
    did.recent -= before.recent;
    did.tickets -= before.tickets;
    did.robots -= before.robots;
    did.fills -= before.fills;
    did.groups -= before.groups;
    did.sifted.looked_at -= before.sifted.looked_at;
    did.sifted.known -= before.sifted.known;
    did.sifted.queued -= before.sifted.queued;
    did
}

fn journal_bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("journal")).map_or(0, |metadata| metadata.len())
}

fn baselines(
    load: Load,
    known_max: u64,
    rates: Rates,
    folder: &Path,
    goals: &mut Goals,
) -> Result<(), Failure> {
    let known = load.known;
    let load = Load { known: known.min(known_max), ..load };
    for (name, measure) in [
        ("sort and merge, keys only", baseline::merge as fn(_, &Path) -> _),
        ("fjall alone", baseline::store),
    ] {
        std::fs::create_dir_all(folder)?;
        let begun = Instant::now();
        let result: baseline::Result = measure(load, folder)?;
        std::fs::remove_dir_all(folder)?;
        println!(
            "  {name}, {} known, {} together: {:.0} offers/s, {:.2} us CPU each, {:.1} % new, {:.1} bytes on disk \
             per URL, {:.1} bytes written per offer; we reach {:.2} of its rate, {:.2} without \
             tickets ({:.0} s in all)",
            load.known,
            load.buffer,
            result.rate(),
            result.cpu(),
            100.0 * result.new as f64 / result.offers as f64,
            result.disk as f64 / (load.known + result.new) as f64,
            result.used.io.write_calls as f64 / result.offers as f64,
            rates.all / result.rate(),
            rates.offers / result.rate(),
            begun.elapsed().as_secs_f64(),
        );
        // Another size would compare unlike things. The merge fetches nothing, so it is set beside our offers alone.
        let (rate, least) =
            if name.starts_with("fjall") { (rates.all, 1.0) } else { (rates.offers, MERGE_SHARE_MIN) };
        if load.known == known && (name.starts_with("fjall") || known >= MERGE_KNOWN_MIN) {
            goals.rate(&format!("share of {name} at {known}"), rate / result.rate(), least);
        }
    }
    Ok(())
}
