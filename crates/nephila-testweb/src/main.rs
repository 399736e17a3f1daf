//! The `testweb` command: serve a synthetic web, list its URLs, print its ground truth, judge a journal; serve the
//! hostile web; serve one bare page.
//!
//! Everything on standard output is for programs (one JSON line, or one line per URL); messages for people go to
//! standard error.

mod cli;

use std::io::{BufRead, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use nephila_testweb::check::{self, Politeness, Repeats, Robots};
use nephila_testweb::hostile::{self, Hostile};
use nephila_testweb::journal::Log;
use nephila_testweb::model::{Place, TruthOptions, World};
use nephila_testweb::{Settings, Web, server};
use tokio::signal::unix::{SignalKind, signal};

use cli::{CheckArgs, Command, ServeArgs, TruthArgs};

/// Maximum size of standard input in bytes; the command ends when more is read.
const STDIN_BYTES_MAX: u64 = 1 << 30;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> anyhow::Result<()> {
    match cli::Cli::parse().command {
        Command::Serve(args) => run(args.threads(), serve(args)),
        Command::BenchBare { port, page_bytes, threads, seconds } => {
            run(threads.unwrap_or(0), bench_bare(port, page_bytes, seconds))
        }
        Command::Hostile { folder, seconds } => run(0, hostile(folder, seconds)),
        Command::List(web) => list(&world(web.settings()?)),
        Command::Truth(args) => truth(&args),
        Command::Check(args) => judge(&args),
        Command::Settings(web) => {
            println!("{}", serde_json::to_string_pretty(&web.settings()?)?);
            Ok(())
        }
    }
}

/// Runs a future on a runtime with this number of threads; one per core at 0.
fn run(threads: usize, future: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if threads > 0 {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.enable_all().build().context("start the runtime")?;
    let result = runtime.block_on(future);
    // Reading standard input cannot be interrupted; do not wait for the reader.
    runtime.shutdown_background();
    result
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let mut settings = args.web.settings()?;
    // This command has a runtime of its own already.
    settings.threads = 0;
    if args.no_journal {
        settings.journal_max = 0;
    }
    let mut builder = Web::builder().settings(settings);
    if let Some(journal) = &args.journal {
        builder = builder.journal_file(journal);
    }
    let web = builder.start().await?;
    let own_ca = args.ca.is_none();
    let ca = args.ca.unwrap_or_else(default_ca_path);
    std::fs::write(&ca, web.ca_pem()).with_context(|| format!("write {}", ca.display()))?;
    let ready = serde_json::json!({
        "http_port": web.http_port(),
        "https_port": web.https_port(),
        "dns": web.dns_addr(),
        "ca": ca,
        "pid": std::process::id(),
        "hosts": web.world().settings().hosts,
        "addresses": web.world().settings().addresses,
        "home": web.urls().next(),
    });
    println!("{ready}");
    wait(args.seconds, Some(web.world().clone())).await?;
    web.stop().await;
    if own_ca {
        std::fs::remove_file(&ca).ok();
    }
    Ok(())
}

async fn hostile(folder: PathBuf, seconds: Option<u64>) -> anyhow::Result<()> {
    let web = Hostile::start(hostile::Settings::default()).await?;
    let (ca, urls) = (folder.join("ca.pem"), folder.join("urls.txt"));
    std::fs::write(&ca, web.ca_pem()).with_context(|| format!("write {}", ca.display()))?;
    std::fs::write(&urls, web.all_urls().join("\n") + "\n")
        .with_context(|| format!("write {}", urls.display()))?;
    let ready = serde_json::json!({
        "http_port": web.port(),
        "https_port": web.tls_port(),
        "other_port": web.other_port(),
        "dns": web.dns_addr(),
        "ca": ca,
        "urls": urls,
        "pid": std::process::id(),
    });
    println!("{ready}");
    wait(seconds, None).await
}

async fn bench_bare(port: u16, page_bytes: usize, seconds: Option<u64>) -> anyhow::Result<()> {
    let (port, server) = server::serve_bare(port, page_bytes)?;
    println!(
        "{}",
        serde_json::json!({ "http_port": port, "pid": std::process::id(), "page_bytes": page_bytes })
    );
    tokio::select! {
        ended = tokio::spawn(server) => ended.context("the bare server panicked"),
        result = wait(seconds, None) => result,
    }
}

/// Waits for the end: this number of seconds, or until standard input closes; in both cases at most until a signal.
async fn wait(seconds: Option<u64>, world: Option<Arc<World>>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let time = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => drop(tokio::task::spawn_blocking(move || follow(world.as_deref())).await),
        }
    };
    tokio::select! {
        () = time => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Reads standard input to its end. A line `advance SECONDS` moves the virtual time of a web; others mean nothing.
fn follow(world: Option<&World>) {
    for line in std::io::stdin().lock().take(STDIN_BYTES_MAX).lines() {
        let Ok(line) = line else { return };
        let seconds = line.strip_prefix("advance ").and_then(|seconds| seconds.trim().parse().ok());
        if let (Some(world), Some(seconds)) = (world, seconds) {
            world.clock().advance(Duration::from_secs(seconds));
        }
    }
}

fn default_ca_path() -> PathBuf {
    std::env::temp_dir().join(format!("testweb-ca-{}.pem", std::process::id()))
}

/// The web of settings outside of a server: links have the usual ports unless others are given.
fn world(settings: Settings) -> World {
    let (http, https) = (settings.http_port, settings.https_port);
    World::new(settings, if http == 0 { 80 } else { http }, if https == 0 { 443 } else { https })
}

fn list(world: &World) -> anyhow::Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for place in world.pages() {
        writeln!(out, "{}", world.url(place))?;
    }
    Ok(out.flush()?)
}

fn truth_options(args: &TruthArgs, world: &World) -> anyhow::Result<TruthOptions> {
    let place = |url: &String| world.place_of_url(url).with_context(|| format!("{url} is not of this web"));
    let seeds = args.seeds.iter().map(place).collect::<anyhow::Result<Vec<Place>>>()?;
    let host = |name: &String| world.host_of(name).with_context(|| format!("{name} is not of this web"));
    let scope = args.scope.iter().map(host).collect::<anyhow::Result<Vec<u32>>>()?;
    Ok(TruthOptions {
        seeds,
        scope: (!scope.is_empty()).then_some(scope),
        obeys_robots: !args.ignore_robots,
        reads_sitemaps: args.sitemaps,
        reads_feeds: args.feeds,
        ..TruthOptions::default()
    })
}

fn truth(args: &TruthArgs) -> anyhow::Result<()> {
    let world = world(args.web.settings()?);
    let truth = world.truth(&truth_options(args, &world)?);
    eprintln!("{:?}", truth.counts());
    let mut places: Vec<_> = truth.iter().collect();
    places.sort_unstable();
    let mut out = BufWriter::new(std::io::stdout().lock());
    for (place, reach) in places {
        writeln!(out, "{reach:?}\t{}", world.url(place))?;
    }
    Ok(out.flush()?)
}

fn judge(args: &CheckArgs) -> anyhow::Result<()> {
    let world = world(args.truth.web.settings()?);
    let file =
        std::fs::File::open(&args.journal).with_context(|| format!("open {}", args.journal.display()))?;
    let log = Log::read(std::io::BufReader::new(file))?;
    let politeness = Politeness {
        host_rest: Duration::from_millis(args.host_rest_ms),
        address_rest: Duration::from_millis(args.address_rest_ms),
        host_requests_max: args.host_requests_max,
        address_requests_max: args.address_requests_max,
        host_connections_max: args.host_connections_max,
        address_connections_max: args.address_connections_max,
        ..Politeness::default()
    };
    let politeness = politeness.with_crawl_delays(&world, &world.settings().agent, &log);
    let mut reports = vec![
        ("politeness", politeness.check(&log)),
        ("robots", Robots::of_world(&world, &world.settings().agent).check(&log)),
        ("repeats", Repeats::default().check(&log)),
    ];
    if !args.partial {
        let truth = world.truth(&truth_options(&args.truth, &world)?);
        reports.push(("complete", check::check_complete(&world, &truth, &log)));
    }
    for (name, report) in &reports {
        println!("{name}: {report}");
    }
    anyhow::ensure!(reports.iter().all(|(_, report)| report.is_clean()), "not clean");
    Ok(())
}
