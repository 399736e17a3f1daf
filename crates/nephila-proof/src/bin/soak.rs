//! Fetches good and hostile URLs for a long time, many at once, and checks that nothing hangs and nothing is left.
//!
//! ```text
//!     soak --web READY --fetches 100000 --concurrency 2000
//! ```
//!
//! `READY` is the JSON line that `testweb hostile` prints; the hostile web is another process, so that only the spider
//! is measured here. `cargo xtask soak` runs both.
//!
//! First every URL is fetched once, which opens everything that is opened once (sessions, names, threads). Open files
//! and tasks must come back to the level after that. Then two rounds alike; the second must not end with more memory
//! than the first. Heads and bodies are kept until a fetch has ended, as in `nephila fetch --warc`.
//!
//! Invariants: every fetch ends within its total deadline and one second; files and tasks come back to their level once
//! idle connections have gone; memory stays under its limit at its peak and does not grow by rounds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use nephila_core::spider::Settings;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Keep, Request, Spider};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Time that a fetch may take beyond its total deadline.
const GRACE: Duration = Duration::from_secs(1);
/// A fetch that has not ended this long after its deadline is given up, so that the soak itself ends.
const HANG: Duration = Duration::from_secs(10);
/// Peak of resident memory, in kB.
const MEMORY_KB_MAX: u64 = 512 * 1024;
/// The second round may end with this many kB more than the first, beside [`GROWTH_SHARE`].
const GROWTH_KB: u64 = 48 * 1024;
const GROWTH_SHARE: f64 = 0.10;
/// How long files and tasks have to come back, beyond the time idle connections are kept.
const SETTLE: Duration = Duration::from_secs(8);
const SETTLE_STEP: Duration = Duration::from_millis(200);
/// Maximum number of late fetches that are named; the rest is only counted.
const NAMED_MAX: usize = 20;

/// Command line arguments.
#[derive(Parser)]
struct Args {
    /// The ready line of `testweb hostile`.
    #[arg(long)]
    web: String,
    /// Number of fetches of both rounds together.
    #[arg(long, default_value_t = 100_000)]
    fetches: u64,
    /// Number of fetches at the same time.
    #[arg(long, default_value_t = 2_000)]
    concurrency: usize,
    /// Percentage of hostile URLs; they take turns, so that each case comes equally often.
    #[arg(long, default_value_t = 15)]
    hostile_percent: u64,
}

fn main() -> ExitCode {
    nephila::memory::keep_pages_small();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    match runtime.block_on(soak(Args::parse())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn soak(args: Args) -> anyhow::Result<()> {
    let web: serde_json::Value = serde_json::from_str(&args.web).context("--web is not JSON")?;
    let settings = settings(&web)?;
    let urls = Urls::read(&web, args.hostile_percent)?;
    let soak = Arc::new(Soak {
        spider: Spider::new(settings.clone(), "NephilaSoak/1.0")?,
        settings,
        urls,
        next: AtomicU64::new(0),
        seen: Mutex::default(),
        worst_us: AtomicU64::new(0),
        late: AtomicUsize::new(0),
    });
    let begun = Instant::now();

    let every = soak.urls.every();
    soak.clone().round(every.len() as u64, args.concurrency, move |n| every[n as usize].clone()).await;
    soak.settle(None).await;
    let start = Level::now();
    println!("warm: {} URLs once, {start}", soak.urls.len());
    soak.reset();

    let mut ends = Vec::new();
    for round in 1..=2 {
        let began = Instant::now();
        let urls = soak.clone();
        soak.clone().round(args.fetches / 2, args.concurrency, move |n| urls.urls.nth(n)).await;
        let took = began.elapsed().as_secs_f64();
        let busy = Level::now();
        soak.settle(Some(start)).await;
        let end = Level::now();
        println!("round {round}: {took:.1} s, right after {busy}; at rest {end}");
        ends.push(end);
    }
    soak.print_outcomes();
    let done: u64 = soak.seen().values().map(|count| count.fetches).sum();
    let late = soak.late.load(Ordering::Relaxed);
    let peak = status_kb("VmHWM");
    println!(
        "soak: {done} fetches, {} at once, {late} late, longest {:.2} s of {:.0}+1 s, files {} to {}, tasks {} to {}, \
         memory {} then {} MB at rest, peak {} of {} MB, {:.0} s",
        args.concurrency,
        soak.worst_us.load(Ordering::Relaxed) as f64 / 1e6,
        soak.settings.total_timeout.as_secs_f64(),
        start.files,
        ends[1].files,
        start.tasks,
        ends[1].tasks,
        ends[0].memory_kb / 1024,
        ends[1].memory_kb / 1024,
        peak / 1024,
        MEMORY_KB_MAX / 1024,
        begun.elapsed().as_secs_f64()
    );

    ensure!(late == 0, "{late} fetches did not end within their deadline and one second");
    for end in &ends {
        ensure!(end.files <= start.files, "open files did not come back: {} then {}", start.files, end.files);
        ensure!(end.tasks <= start.tasks, "tasks did not come back: {} then {}", start.tasks, end.tasks);
    }
    let memory_max = ends[0].memory_kb + (ends[0].memory_kb as f64 * GROWTH_SHARE) as u64 + GROWTH_KB;
    ensure!(ends[1].memory_kb <= memory_max, "memory grows by rounds: {} then {}", ends[0], ends[1]);
    ensure!(peak <= MEMORY_KB_MAX, "the peak of memory was {} MB", peak / 1024);
    Ok(())
}

/// Deadlines short enough to wait for many of them, in the same order of length as the defaults. The limits of size
/// are the defaults.
fn settings(web: &serde_json::Value) -> anyhow::Result<Settings> {
    let port = |name: &str| -> anyhow::Result<u16> {
        web[name].as_u64().and_then(|port| port.try_into().ok()).with_context(|| format!("no {name}"))
    };
    let mut settings = Settings {
        dns_timeout: Duration::from_millis(700),
        dns_total_timeout: Duration::from_secs(3),
        connect_timeout: Duration::from_secs(2),
        tls_timeout: Duration::from_secs(2),
        write_timeout: Duration::from_millis(1_200),
        head_timeout: Duration::from_secs(2),
        body_idle_timeout: Duration::from_secs(2),
        total_timeout: Duration::from_secs(6),
        speed_window: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(2),
        dns_servers: vec![web["dns"].as_str().context("no dns")?.parse()?],
        allow_addresses: vec!["127.0.0.0/8".parse()?, "::1/128".parse()?],
        ca_file: Some(PathBuf::from(web["ca"].as_str().context("no ca")?)),
        ..Settings::default()
    };
    settings.ports.extend([port("http_port")?, port("https_port")?, port("other_port")?]);
    Ok(settings)
}

/// The URLs in their mix.
struct Urls {
    good: Vec<CrawlUrl>,
    hostile: Vec<CrawlUrl>,
    hostile_percent: u64,
}

impl Urls {
    fn read(web: &serde_json::Value, hostile_percent: u64) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(web["urls"].as_str().context("no urls")?)?;
        // URLs that cannot be parsed never reach the spider; these are tests of the parser.
        let all = text.lines().filter_map(|line| CrawlUrl::parse(line).ok());
        let (good, hostile): (Vec<_>, Vec<_>) = all.partition(|url| url.host_str().starts_with("good."));
        ensure!(!good.is_empty() && !hostile.is_empty(), "the list has only one kind of URL");
        Ok(Urls { good, hostile, hostile_percent: hostile_percent.min(100) })
    }

    fn len(&self) -> usize {
        self.good.len() + self.hostile.len()
    }

    fn every(&self) -> Vec<CrawlUrl> {
        self.good.iter().chain(&self.hostile).cloned().collect()
    }

    /// The URL of fetch number `n`: hostile ones are spread evenly among the good ones.
    fn nth(&self, n: u64) -> CrawlUrl {
        let hostile_before = |n: u64| n * self.hostile_percent / 100;
        let hostile = hostile_before(n);
        if hostile_before(n + 1) > hostile {
            self.hostile[hostile as usize % self.hostile.len()].clone()
        } else {
            self.good[(n - hostile) as usize % self.good.len()].clone()
        }
    }
}

/// State shared by all workers.
struct Soak {
    spider: Spider,
    settings: Settings,
    urls: Urls,
    next: AtomicU64,
    seen: Mutex<BTreeMap<&'static str, Count>>,
    worst_us: AtomicU64,
    late: AtomicUsize,
}

/// Number of fetches with an outcome, and the longest time.
#[derive(Clone, Copy, Default)]
struct Count {
    fetches: u64,
    longest: Duration,
}

impl Soak {
    async fn round<F>(self: Arc<Self>, fetches: u64, concurrency: usize, url: F)
    where
        F: Fn(u64) -> CrawlUrl + Send + Sync + 'static,
    {
        self.next.store(0, Ordering::Relaxed);
        let url = Arc::new(url);
        let mut workers = JoinSet::new();
        for _ in 0..concurrency {
            let (soak, url) = (self.clone(), url.clone());
            workers.spawn(async move {
                loop {
                    let n = soak.next.fetch_add(1, Ordering::Relaxed);
                    if n >= fetches {
                        return;
                    }
                    soak.fetch(url(n)).await;
                }
            });
        }
        while let Some(ended) = workers.join_next().await {
            ended.expect("a worker does not panic");
        }
    }

    async fn fetch(&self, url: CrawlUrl) {
        let name = url.as_str().to_owned();
        let keep = Keep { exchange: true, decoded: false, sha1: true };
        let request = Request { keep, ..Request::get(url) };
        let limit = self.settings.total_timeout + GRACE;
        let began = Instant::now();
        let fetched = timeout(limit + HANG, self.spider.fetch(request)).await;
        let took = began.elapsed();
        self.worst_us.fetch_max(took.as_micros() as u64, Ordering::Relaxed);
        let outcome = fetched.as_ref().map_or("(hangs)", |fetched| fetched.outcome.name());
        if took > limit && self.late.fetch_add(1, Ordering::Relaxed) < NAMED_MAX {
            let timings = fetched.as_ref().map(|fetched| fetched.timings);
            eprintln!("late: {name}: {outcome} after {:.2} s, {timings:?}", took.as_secs_f64());
        }
        let mut seen = self.seen();
        let count = seen.entry(outcome).or_default();
        count.fetches += 1;
        count.longest = count.longest.max(took);
    }

    /// Waits until idle connections have gone, and then for files and tasks to come back, if they are going to.
    async fn settle(&self, to: Option<Level>) {
        tokio::time::sleep(self.settings.idle_timeout + Duration::from_secs(1)).await;
        let until = Instant::now() + SETTLE;
        while Instant::now() < until {
            let now = Level::now();
            if to.is_some_and(|to| now.files <= to.files && now.tasks <= to.tasks) {
                return;
            }
            tokio::time::sleep(SETTLE_STEP).await;
        }
    }

    fn reset(&self) {
        self.seen().clear();
        self.worst_us.store(0, Ordering::Relaxed);
    }

    fn print_outcomes(&self) {
        println!("{:<20} {:>9} {:>10}", "outcome", "fetches", "longest s");
        for (outcome, count) in &*self.seen() {
            println!("{outcome:<20} {:>9} {:>10.2}", count.fetches, count.longest.as_secs_f64());
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Count>> {
        self.seen.lock().expect("nobody panics holding it")
    }
}

/// Resources of the process.
#[derive(Clone, Copy)]
struct Level {
    files: usize,
    tasks: usize,
    memory_kb: u64,
}

impl Level {
    fn now() -> Self {
        Level {
            files: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            memory_kb: status_kb("VmRSS"),
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} files, {} tasks, {} MB", self.files, self.tasks, self.memory_kb / 1024)
    }
}

/// A line of /proc/self/status, in kB.
fn status_kb(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or_default()
}
