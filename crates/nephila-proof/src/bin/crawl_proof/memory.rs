//! Memory against known URLs: the same number of pages fetched, once with ten thousand URLs known, once with a million.
//!
//! The web has no end, and the number of links of a page is chosen so that the frontier knows the requested number of
//! URLs when the pages are fetched: all other URLs wait in queues. Pages are equally large for any number of links. The
//! same over few hosts, whose queues are long, and over many. Required: the peak of memory at the most URLs is at most
//! [`GROWTH`] times the one at the fewest, and [`ALLOWANCE_KB`].
//!
//! With `--minutes`, crawls run at full speed for this long: the web has as many pages as are to be known, every page
//! names [`LINKS`] others, so they are known soon, and memory must stay within its budget ([`budget_kb`]) to the end.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use nephila_engine::exit::Exit;
use nephila_testweb::Settings;

use crate::crawler::{Crawler, Place, Rests};
use crate::judge::Verdict;
use crate::site::Site;
use crate::watch::{Said, Watch};

/// The peak at the most URLs against the peak at the fewest.
const GROWTH: f64 = 1.5;
/// Caches that fill up within the first million URLs and then keep their size, in kB: the URLs seen lately, and the
/// part of the state that is not flushed yet.
const ALLOWANCE_KB: u64 = 48 * 1024;
/// Bytes of every page.
const PAGE_BYTES: u32 = 40_000;
/// Number of pages of the web: large enough that two links seldom lead to the same page.
const PAGES_MAX: u64 = 4_000_000_000;
/// Hosts on one address.
const HOSTS_PER_ADDRESS: u32 = 5;
/// Hosts that are seeds.
const SEEDS_MAX: u32 = 500;
/// One crawl ends within this time.
const LIMIT: Duration = Duration::from_secs(1_800);
/// Interval between reads of the crawl's numbers: a short crawl ends within a second, and anything after the last read
/// is not counted.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Minimum share of the requested URLs that the frontier knows.
const KNOWN_SHARE_MIN: f64 = 0.8;

/// Memory of a crawl at full speed with up to a million URLs known, in kB...
const BUDGET_KB: u64 = 512 * 1024;
/// ...and this many bytes for each additional URL: bits in the filters, and its share of the index of a run.
const BUDGET_URL_BYTES: u64 = 14;
const BUDGET_URLS: u64 = 1_000_000;
/// Links of a page of a crawl that runs by time.
const LINKS: u32 = 40;
/// Pages of the web for each second of such a crawl, so that the crawl does not run out of pages: more than two cores
/// fetch and serve.
const PAGES_A_SECOND: f64 = 2_000.0;
/// Samples of such a crawl.
const SAMPLES: u32 = 1_000;
/// Interval between progress lines.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Memory budget of a crawl that knows this many URLs.
fn budget_kb(known: u64) -> u64 {
    BUDGET_KB + known.saturating_sub(BUDGET_URLS) * BUDGET_URL_BYTES / 1024
}

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// URLs known in each crawl.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    known: Vec<u64>,
    /// Pages fetched in each crawl.
    #[arg(long, default_value_t = 3_000)]
    pages: u64,
    /// Hosts of the web, in turn.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 10_000])]
    hosts: Vec<u32>,
    /// How long each crawl runs at full speed, in minutes, instead of by pages; then its memory has a budget.
    #[arg(long)]
    minutes: Option<f64>,
}

/// One crawl.
struct Row {
    known: u64,
    peak_kb: u64,
    took: Duration,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    ensure!(!args.known.is_empty() && args.pages > 0, "nothing to measure");
    if let Some(minutes) = args.minutes {
        ensure!(minutes > 0.0 && minutes < 100_000.0, "{minutes} minutes");
        return run_long(args, Duration::from_secs_f64(minutes * 60.0), place);
    }
    let mut verdict = Verdict::default();
    let mut figures = Vec::new();
    println!(
        "{:>8} {:>12} {:>12} {:>10} {:>8} {:>9}",
        "hosts", "known, meant", "known", "peak, MB", "s", "pages/s"
    );
    for hosts in &args.hosts {
        let mut rows = Vec::new();
        for known in &args.known {
            let row = measure(place, args.pages, *hosts, *known)?;
            let seconds = row.took.as_secs_f64();
            let (peak, rate) = (row.peak_kb as f64 / 1024.0, args.pages as f64 / seconds);
            println!("{hosts:>8} {known:>12} {:>12} {peak:>10.1} {seconds:>8.1} {rate:>9.0}", row.known);
            let enough = row.known as f64 >= *known as f64 * KNOWN_SHARE_MIN;
            verdict.expect(enough, || format!("{hosts} hosts: {} URLs known, {known} meant", row.known));
            rows.push(row);
        }
        let (Some(fewest), Some(most)) =
            (rows.iter().min_by_key(|row| row.known), rows.iter().max_by_key(|row| row.known))
        else {
            continue;
        };
        let allowed = (fewest.peak_kb as f64 * GROWTH) as u64 + ALLOWANCE_KB;
        verdict.expect(most.peak_kb <= allowed, || {
            format!("{hosts} hosts: {} kB at {}, at most {allowed} kB", most.peak_kb, most.known)
        });
        figures.push(format!(
            "{hosts} hosts: {:.0} MB at {} URLs, {:.0} MB at {}",
            fewest.peak_kb as f64 / 1024.0,
            fewest.known,
            most.peak_kb as f64 / 1024.0,
            most.known
        ));
    }
    verdict.end(&format!("crawl memory: {} pages each: {}", args.pages, figures.join("; ")))
}

/// Crawls that run by time.
fn run_long(args: &Args, time: Duration, place: &Place) -> anyhow::Result<()> {
    let mut verdict = Verdict::default();
    let mut figures = Vec::new();
    for (hosts, known) in
        args.hosts.iter().flat_map(|hosts| args.known.iter().map(move |known| (*hosts, *known)))
    {
        let folder = place.folder("memory")?;
        let pages = known.max((time.as_secs_f64() * PAGES_A_SECOND) as u64);
        let site = site(&folder, hosts, pages, LINKS)?;
        let mut crawler = crawler(place, &folder, &site, hosts)?;
        crawler.set_limit("--time-limit", &format!("{}ms", time.as_millis()), Exit::TimeLimit);
        let mut crawl = crawler.start()?;
        let mut watch = Watch::new(crawler.dir());
        let (began, mut said_at) = (Instant::now(), Instant::now());
        while !crawl.wait_until(Instant::now() + time / SAMPLES)? {
            ensure!(
                began.elapsed() < time + LIMIT,
                "the crawl did not end within {} s",
                (time + LIMIT).as_secs()
            );
            let Some(sample) = watch.look(&crawl).filter(|_| said_at.elapsed() >= SAID_EVERY) else {
                continue;
            };
            said_at = Instant::now();
            let said = sample.said.unwrap_or_default();
            let (at, memory) = (sample.at, sample.memory_kb / 1024);
            println!("{at:>6.0} s: {memory} MB, {} URLs known, {} ended", said.known(), said.ended);
        }
        let ended = crawl.finish(LIMIT)?;
        watch.write(&place.base.join(format!("memory-{hosts}-{known}-long.tsv")))?;
        let last = watch.samples().iter().rev().find_map(|sample| sample.said).unwrap_or_default();
        let (peak, budget) = (ended.peak_kb, budget_kb(last.known()));
        // The last URLs of a web are found ever more slowly.
        let enough = known - known / 100;
        verdict.expect(last.known() >= enough, || format!("{} URLs known, {known} meant", last.known()));
        verdict.expect(peak <= budget, || {
            format!(
                "{hosts} hosts, {} URLs known: a peak of {peak} kB, the budget is {budget} kB",
                last.known()
            )
        });
        figures.push(format!(
            "{hosts} hosts, {} URLs known, {} fetched in {:.0} s: {} MB of {}",
            last.known(),
            last.ended,
            ended.took.as_secs_f64(),
            peak / 1024,
            budget / 1024
        ));
        println!("{}", figures.last().expect("just pushed"));
    }
    verdict.end(&format!("crawl memory: {}", figures.join("; ")))
}

fn measure(place: &Place, pages: u64, hosts: u32, known: u64) -> anyhow::Result<Row> {
    let folder = place.folder("memory")?;
    let links = u32::try_from(known.div_ceil(pages)).unwrap_or(u32::MAX);
    let site = site(&folder, hosts, PAGES_MAX, links)?;
    let mut crawler = crawler(place, &folder, &site, hosts)?;
    crawler.set_limit("--limit", &pages.to_string(), Exit::PageLimit);
    let mut crawl = crawler.start()?;
    let began = Instant::now();
    let mut watch = Watch::new(crawler.dir());
    while !crawl.wait_until(Instant::now() + LOOK_EVERY)? {
        ensure!(began.elapsed() < LIMIT, "the crawl did not end within {} s", LIMIT.as_secs());
        watch.look(&crawl);
    }
    let ended = crawl.finish(LIMIT)?;
    watch.write(&place.base.join(format!("memory-{hosts}-{known}.tsv")))?;
    let known = watch.samples().iter().filter_map(|sample| sample.said).map(|said: Said| said.known()).max();
    Ok(Row { known: known.unwrap_or(0), peak_kb: ended.peak_kb, took: ended.took })
}

fn site(folder: &Path, hosts: u32, pages: u64, links: u32) -> anyhow::Result<Site> {
    let settings = Settings {
        hosts,
        pages,
        size_exponent: 0.0,
        page_bytes: PAGE_BYTES,
        page_bytes_sigma: 0.0,
        links,
        addresses: (hosts / HOSTS_PER_ADDRESS).max(1),
        journal_max: 0,
        threads: 1,
        ..Settings::default()
    };
    Site::start(settings, folder)
}

/// No rests: the settings for a machine's own web, but for the memory, which is as shipped.
fn crawler(place: &Place, folder: &Path, site: &Site, hosts: u32) -> anyhow::Result<Crawler> {
    let seeds = folder.join("seeds.txt");
    let homes: Vec<String> = site.homes().take(hosts.min(SEEDS_MAX) as usize).collect();
    std::fs::write(&seeds, homes.join("\n") + "\n")?;
    let none = Rests { host: Duration::ZERO, slot: Duration::ZERO };
    let mut crawler = Crawler::new(place, folder, site, &seeds, "any", none);
    crawler.set("frontier.slot_connections=4");
    Ok(crawler)
}
