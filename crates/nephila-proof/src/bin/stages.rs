//! Where the CPU of a page goes, stage by stage, on pages as large as the real web's, over TLS.
//!
//! ```text
//!     stages --web READY --pages 300
//! ```
//!
//! `READY` is the JSON line that `testweb serve` prints. The web is another process, so the measurement is ours alone:
//! the CPU of all threads of this process. Stages that cannot be run by themselves are differences: a handshake is a
//! fetch on a new connection less one on a kept connection, decoding a fetch that keeps the decoded body less one that
//! does not. The last line is JSON.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report};
use nephila_core::frontier::{Action, Config};
use nephila_core::handler::{self, Limits, Page, ReadAs};
use nephila_core::job::JobId;
use nephila_core::key::{Prefixes, Secret};
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::{Outcome, Settings};
use nephila_core::store::{Digest, Exchange};
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_core::want::Want;
use nephila_engine::clock::Clock;
use nephila_engine::worker::{Link, Part, Worker};
use nephila_log::Fence;
use nephila_log::local::LocalLog;
use nephila_spider::{Keep, Request, Spider};
use nephila_store::archive::{self, Archive, WarcInfo};
use nephila_store::disk::RealDisk;
use nephila_store::journal::{self, Journal};
use nephila_store::runs::Cache;
use nephila_store::state::{DiskState, Merger, Merging};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Partitions of the frontier, as in a crawl.
const PARTITIONS: u32 = 16;
/// Fetches at the same time.
const AT_ONCE: usize = 16;

/// Command line arguments.
#[derive(Parser)]
struct Args {
    /// The ready line of `testweb serve`.
    #[arg(long)]
    web: String,
    /// A file of URLs of that web, one per line.
    #[arg(long)]
    list: std::path::PathBuf,
    /// Number of pages measured.
    #[arg(long, default_value_t = 300)]
    pages: usize,
    /// `gzip` or `zstd`.
    #[arg(long, default_value = "gzip")]
    compression: String,
}

/// A page that was fetched.
struct Fetched {
    url: CrawlUrl,
    fields: http::HeaderMap,
    body: bytes::Bytes,
    exchange: Exchange,
}

/// CPU of this process so far, in milliseconds.
fn cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1_000.0 + time.tv_nsec as f64 / 1_000_000.0
}

fn settings(web: &serde_json::Value, idle_max: usize) -> anyhow::Result<Settings> {
    let port = |name: &str| web[name].as_u64().and_then(|port| u16::try_from(port).ok()).context("a port");
    Ok(Settings {
        dns_servers: vec![web["dns"].as_str().context("dns")?.parse()?],
        allow_addresses: vec!["127.0.0.0/8".parse()?],
        ports: vec![port("http_port")?, port("https_port")?],
        ca_file: Some(web["ca"].as_str().context("ca")?.into()),
        idle_max,
        idle_timeout: Duration::from_secs(60),
        ..Settings::default()
    })
}

/// Fetches a list, some at once, and returns the CPU time of each.
async fn fetch(spider: &Spider, urls: &[CrawlUrl], decoded: bool) -> anyhow::Result<(f64, Vec<Fetched>)> {
    let began = cpu();
    let mut pages = Vec::with_capacity(urls.len());
    for some in urls.chunks(AT_ONCE) {
        let mut tasks = tokio::task::JoinSet::new();
        for url in some {
            let (spider, url) = (spider.clone(), url.clone());
            tasks.spawn(async move {
                let keep = Keep { exchange: true, decoded, sha1: false };
                let fetched = spider.fetch(Request { keep, ..Request::get(url.clone()) }).await;
                (url, fetched)
            });
        }
        while let Some(done) = tasks.join_next().await {
            let (url, mut fetched) = done?;
            ensure!(fetched.outcome == Outcome::Fetched, "{}: {}", url.as_str(), fetched.outcome);
            let body = fetched.decoded.take().map(|body| body.start(usize::MAX)).transpose()?;
            let exchange = fetched.exchange.take().context("an exchange")?;
            pages.push(Fetched { url, fields: fetched.fields, body: body.unwrap_or_default(), exchange });
        }
    }
    Ok(((cpu() - began) / urls.len() as f64, pages))
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(Args::parse()))
}

async fn measure(args: Args) -> anyhow::Result<()> {
    let web: serde_json::Value = serde_json::from_str(&args.web).context("--web is not JSON")?;
    let list = std::fs::read_to_string(&args.list).with_context(|| args.list.display().to_string())?;
    let urls: Vec<CrawlUrl> =
        list.lines().filter_map(|line| CrawlUrl::parse(line).ok()).take(args.pages).collect();
    ensure!(urls.len() == args.pages, "the list has {} URLs", urls.len());
    let pages = args.pages as f64;

    let fresh = Spider::new(settings(&web, 0)?, "Nephila")?;
    let kept = Spider::new(settings(&web, 4_096)?, "Nephila")?;
    fetch(&kept, &urls, true).await?;
    fetch(&fresh, &urls[..urls.len().min(50)], false).await?;
    let (new_connection, _) = fetch(&fresh, &urls, false).await?;
    let (http, _) = fetch(&kept, &urls, false).await?;
    let (with_decoding, fetched) = fetch(&kept, &urls, true).await?;
    let decoded_bytes = fetched.iter().map(|page| page.body.len()).sum::<usize>() / args.pages;

    let began = cpu();
    let name = fetched[0].url.host_str().to_owned();
    for _ in 0..args.pages {
        kept.resolver().resolve(&name).await.0.ok().context("an address")?;
    }
    let resolve = (cpu() - began) / pages;

    let (keys, limits) = (KeyRules::default(), Limits::default());
    let began = cpu();
    let mut found = Vec::new();
    for page in &fetched {
        let read = Page {
            url: &page.url,
            fields: &page.fields,
            body: &page.body,
            read_as: ReadAs::Page,
            agent: "Nephila",
            keys: &keys,
        };
        found.push(handler::read_page(&read, &limits).links);
    }
    let read = (cpu() - began) / pages;
    let links = found.iter().map(Vec::len).sum::<usize>() as f64 / pages;
    let began = cpu();
    for (page, links) in fetched.iter().zip(&found) {
        for link in links {
            std::hint::black_box(page.url.join(link.url.as_str())).ok().context("a URL")?;
        }
    }
    let join = (cpu() - began) / pages;

    let began = cpu();
    for page in &fetched {
        std::hint::black_box(Digest::of(&[page.exchange.body.in_memory().unwrap_or_default()]));
    }
    let digest = 2.0 * (cpu() - began) / pages;

    let folder = tempfile::tempdir()?;
    let store = archive::Settings {
        compression: args.compression.parse().map_err(anyhow::Error::msg)?,
        ..archive::Settings::default()
    };
    let archive = Archive::open(folder.path(), store, WarcInfo::default())?;
    let began = cpu();
    let mut tasks = tokio::task::JoinSet::new();
    for page in &fetched {
        let (archive, exchange) = (archive.clone(), page.exchange.share());
        tasks.spawn(async move { archive.append(exchange).await });
    }
    while let Some(stored) = tasks.join_next().await {
        stored??;
    }
    archive.close().await?;
    let stored = (cpu() - began) / pages;

    let frontier = frontier(folder.path(), &fetched, &found).await?;

    let decode = (with_decoding - http).max(0.0);
    let stages = [
        ("resolve", resolve),
        ("connect and TLS handshake", (new_connection - http).max(0.0)),
        ("sockets, TLS records, HTTP", http),
        ("decode", decode),
        ("parse", (read - join).max(0.0)),
        ("URLs", join),
        ("digest", digest),
        ("archive", (stored - digest).max(0.0)),
        ("frontier", frontier),
    ];
    let total: f64 = stages.iter().map(|(_, ms)| ms).sum();
    println!(
        "{} pages of {decoded_bytes} bytes, {links:.0} links each; CPU milliseconds a page:",
        args.pages
    );
    for (name, ms) in stages {
        println!("  {ms:>7.3}  {name}");
    }
    println!(
        "  {total:>7.3}  in all, a handshake for each page; {:.3} with kept connections",
        total - stages[1].1
    );
    let json: serde_json::Map<String, serde_json::Value> =
        stages.iter().map(|(name, ms)| ((*name).to_owned(), serde_json::json!(ms))).collect();
    println!(
        "{}",
        serde_json::json!({ "pages": args.pages, "bytes": decoded_bytes, "links": links, "total_ms": total, "stages_ms": json })
    );
    Ok(())
}

/// Takes the links in, gives tickets out and takes their reports, until every page has ended. Returns the CPU time per
/// ticket.
async fn frontier(
    folder: &Path,
    fetched: &[Fetched],
    found: &[Vec<handler::FoundLink>],
) -> anyhow::Result<f64> {
    let (cache, merger) = (Cache::new(64 << 20), Merger::start()?);
    let mut parts = Vec::new();
    for number in 0..PARTITIONS {
        let path = folder.join(format!("partition-{number}"));
        let (journal, _) =
            Journal::open(Arc::new(RealDisk), &path.join("log"), journal::Settings::default())?;
        let state = DiskState::open(
            Arc::new(RealDisk),
            &path.join("tables"),
            Merging::Background(merger.clone()),
            &cache,
        )?;
        parts.push(Part {
            prefixes: Prefixes::share(number, PARTITIONS),
            state,
            log: Box::new(LocalLog::new(journal, Fence::new())),
        });
    }
    let mut config = Config { agent: "Nephila".into(), ..Config::default() };
    config.frontier.host_delay = Duration::ZERO;
    config.frontier.slot_delay = Duration::ZERO;
    config.frontier.host_delay_factor = 0;
    config.frontier.host_connections = 64;
    config.frontier.slot_connections = 64;
    let worker = Worker::open(config, Default::default(), Secret([7; 16]), parts, Clock::new())?;
    let mut running = worker.spawn()?;
    let link = |url: &CrawlUrl| Link { url: url.clone(), want: Want::of(JobId(1)).at(1) };
    running.handle.offer(&fetched.iter().map(|page| link(&page.url)).collect::<Vec<_>>()).await?;
    let began = cpu();
    let (mut ended, handle) = (0, running.handle.clone());
    let mut tasks = tokio::task::JoinSet::new();
    while ended < fetched.len() {
        let action = running.actions.next().await.context("the worker ended")?;
        match action {
            Action::Resolve { host, .. } => handle.resolved(host, &[IpAddr::from([127, 0, 0, 1])]).await?,
            Action::Fetch(ticket) if ticket.purpose == Purpose::Robots => {
                handle.robots(ticket.id, RobotsReport::of(RobotsResult::Status(404), Duration::ZERO)).await?;
            }
            Action::Fetch(ticket) => {
                let links: Vec<Link> = found[ended].iter().map(|found| link(&found.url)).collect();
                ended += 1;
                let handle = handle.clone();
                tasks.spawn(async move {
                    handle.offer_durably(&links).await?;
                    handle
                        .report(ticket.id, Report::of(Outcome::Fetched, 200, Duration::from_millis(1)))
                        .await
                });
            }
        }
        while let Some(done) = tasks.try_join_next() {
            done??;
        }
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    handle.stop().await?;
    Ok((cpu() - began) / fetched.len() as f64)
}
