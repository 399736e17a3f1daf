//! The cost of a cluster: the same web crawled by `nephila crawl` and by clusters of several sizes, at full speed, and
//! the resources of each per page: CPU of the nodes and of the NATS servers apart, bytes and messages in logs and
//! inboxes.
//!
//! A crawl ends by itself; a cluster does not. Its usage is counted from the moment when its processes are up and idle
//! to the moment when the last page has been requested and all its results are written.
//!
//! Invariant: every run requests the same pages, each once, or the figures are refused.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use nephila_testnats::{Nats, Options};
use nephila_testweb::Settings;
use serde_json::Value;

use crate::crawler::{Crawler, Place, Rests, Run};
use crate::encryption::Wires;
use crate::site::Site;

/// Interval between readings of processes and servers.
const LOOK: Duration = Duration::from_millis(100);
/// Time without a request after which the last page has been requested.
const QUIET: Duration = Duration::from_secs(6);
/// Time after the last page in which its results are written: this time counts.
const AFTER: Duration = Duration::from_secs(3);
/// Nodes have divided the partitions among them and rest.
const SETTLED: Duration = Duration::from_secs(2);
/// A node has this long to come, and to leave.
const NODE_MAX: Duration = Duration::from_secs(90);
/// Timeout of one run.
const LIMIT: Duration = Duration::from_secs(1_800);
/// Linux counts CPU in hundredths of a second towards programs.
const SECONDS_PER_TICK: f64 = 0.01;

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sizes of the clusters, in turn.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    nodes: Vec<usize>,
    /// Number of NATS servers: 1 or 3.
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Partitions of each cluster, and of the crawl.
    #[arg(long, default_value_t = 16)]
    partitions: u32,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 100_000)]
    pages: u64,
    /// Number of hosts of the web.
    #[arg(long, default_value_t = 500)]
    hosts: u32,
    /// Number of links of a page.
    #[arg(long, default_value_t = 105)]
    links: u32,
    /// Size of a page in the mean, in bytes.
    #[arg(long, default_value_t = 20_000)]
    page_bytes: u32,
    /// The one node of a cluster may use this many times the CPU of a crawl.
    #[arg(long, default_value_t = 1.25)]
    tax_max: f64,
    /// Each page of a larger cluster may cost this many times that of the smallest.
    #[arg(long, default_value_t = 1.15)]
    growth_max: f64,
    /// Print the figures without a verdict.
    #[arg(long)]
    report_only: bool,
    /// One more setting of the crawler, for all runs.
    #[arg(long)]
    set: Vec<String>,
}

/// Nodes and servers of the runs that [`crate::encryption`] compares.
pub const ENCRYPTION_NODES: usize = 3;

impl Args {
    /// Arguments for the runs of other proofs.
    pub fn of(pages: u64, hosts: u32, links: u32, page_bytes: u32) -> Args {
        let (nodes, set) = (vec![ENCRYPTION_NODES], Vec::new());
        let (servers, partitions, report_only) = (ENCRYPTION_NODES, 12, true);
        let (tax_max, growth_max) = (f64::MAX, f64::MAX);
        Args {
            nodes,
            servers,
            partitions,
            pages,
            hosts,
            links,
            page_bytes,
            tax_max,
            growth_max,
            report_only,
            set,
        }
    }
}

/// The resources of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub took: Duration,
    /// Seconds of CPU.
    pub nodes: f64,
    pub servers: f64,
    /// The messages that arrived in logs and inboxes.
    stored: Stored,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stored {
    messages: u64,
    bytes: u64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut rows = vec![("crawl".to_owned(), crawl(args, place)?)];
    for &nodes in &args.nodes {
        rows.push((format!("{nodes} nodes"), cluster(args, place, nodes, None)?));
    }
    let thousands = args.pages as f64 / 1_000.0;
    println!(
        "{:<10} {:>8} {:>11} {:>6} {:>12} {:>11} {:>14}",
        "run", "pages/s", "CPU s/1000", "ratio", "NATS s/1000", "bytes/page", "messages/page"
    );
    let first = rows[0].1.nodes;
    for (name, used) in &rows {
        let per_page = |value: u64| value as f64 / args.pages as f64;
        println!(
            "{name:<10} {:>8.0} {:>11.4} {:>6.2} {:>12.4} {:>11.0} {:>14.3}",
            args.pages as f64 / used.took.as_secs_f64(),
            used.nodes / thousands,
            used.nodes / first,
            used.servers / thousands,
            per_page(used.stored.bytes),
            per_page(used.stored.messages),
        );
    }
    let clusters = &rows[1..];
    let smallest = clusters.first().map_or(first, |(_, used)| used.nodes);
    let growth = clusters.iter().map(|(_, used)| used.nodes / smallest).fold(1.0, f64::max);
    let tax = smallest / first;
    let last = clusters.last().map_or_else(Used::default, |(_, used)| *used);
    let per_page = |value: u64| value as f64 / args.pages as f64;
    println!(
        "tax: {} pages, {} links each, {} servers: {} costs {tax:.2} times a crawl, more nodes {growth:.2} times that; with \
         {} {:.0} bytes and {:.3} messages a page; {:.0} s in all",
        args.pages,
        args.links,
        args.servers,
        clusters.first().map_or("no cluster", |(name, _)| name),
        clusters.last().map_or("none", |(name, _)| name),
        per_page(last.stored.bytes),
        per_page(last.stored.messages),
        began.elapsed().as_secs_f64(),
    );
    if !args.report_only {
        ensure!(tax <= args.tax_max, "one node may cost {} times a crawl", args.tax_max);
        ensure!(growth <= args.growth_max, "more nodes may cost {} times the fewest", args.growth_max);
    }
    Ok(())
}

/// The web of every run: nothing but pages.
fn site(args: &Args, folder: &std::path::Path) -> anyhow::Result<Site> {
    let settings = Settings {
        seed: 7,
        hosts: args.hosts,
        pages: args.pages,
        links: args.links,
        page_bytes: args.page_bytes,
        addresses: args.hosts.min(64),
        threads: 1,
        ..Settings::default()
    };
    Site::start(settings, folder)
}

/// No rests, and nothing is given up early: only our own cost is measured.
fn set_up(crawler: &mut Crawler, args: &Args) {
    for set in [
        "frontier.host_connections=4",
        "frontier.slot_connections=1000",
        "spider.total_timeout=60s",
        "frontier.ticket_timeout=120s",
        "crawl.concurrency=64",
        "budget.domain_urls_per_day=1000000000",
    ] {
        crawler.set(set);
    }
    for set in &args.set {
        crawler.set(set);
    }
}

const RESTS: Rests = Rests { host: Duration::ZERO, slot: Duration::ZERO };

fn crawl(args: &Args, place: &Place) -> anyhow::Result<Used> {
    let folder = place.folder("tax-crawl")?;
    let site = site(args, &folder)?;
    let wanted = site.all_homes(&folder)?;
    let mut crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "any", RESTS);
    set_up(&mut crawler, args);
    let mut run = crawler.start()?;
    let (began, mut cpu, mut took) = (Instant::now(), 0.0, Duration::ZERO);
    let mut requests = 0;
    while !run.wait_until(Instant::now() + LOOK)? {
        ensure!(began.elapsed() < LIMIT, "the crawl does not end");
        cpu = cpu_of(run.id()).unwrap_or(cpu);
        let now = site.web().journal().requests();
        if now != std::mem::replace(&mut requests, now) {
            took = began.elapsed();
        }
    }
    once_each(site, "crawl")?;
    Ok(Used { took, nodes: cpu, ..Used::default() })
}

/// A crawl by this number of nodes, connected to each other and to the servers by these wires, or by default.
pub fn cluster(args: &Args, place: &Place, nodes: usize, wires: Option<&Wires>) -> anyhow::Result<Used> {
    let folder = place.folder(&format!("tax-{nodes}"))?;
    let site = site(args, &folder)?;
    let wanted = site.all_homes(&folder)?;
    let options = Options { servers: args.servers, ..Options::default() };
    let nats = Nats::with(wires.map_or(Ok(options.clone()), |wires| wires.servers(options))?)?;
    let mut crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "any", RESTS);
    set_up(&mut crawler, args);
    let urls: Vec<_> = nats.urls().iter().map(|url| format!("\"{url}\"")).collect();
    for set in [
        format!("cluster.replicas={}", if args.servers == 3 { 3 } else { 1 }),
        format!("cluster.partitions={}", args.partitions),
        "cluster.streams=4".into(),
        "cluster.discover=false".into(),
        format!("cluster.servers=[{}]", urls.join(", ")),
    ] {
        crawler.set(&set);
    }
    let mut crawlers = Vec::new();
    let mut runs: Vec<Run> = Vec::new();
    for number in 0..nodes {
        let name = format!("node-{number}");
        let mut node = crawler.node(&folder, &name);
        if let Some(wires) = wires {
            wires.set(&mut node, Some(&name));
        }
        runs.push(node.start()?);
        crawlers.push(node);
    }
    until_shared(&crawlers, args.partitions)?;
    let Some(wires) = wires else {
        return measure(args, site, &nats, &crawler, &wanted.seeds, runs, || ());
    };
    wires.set(&mut crawler, None);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| wires.ask(&crawlers[0]));
        let used = measure(args, site, &nats, &crawler, &wanted.seeds, runs, || wires.end());
        wires.end();
        asking.join().expect("whoever asks does not panic")?;
        used
    })
}

/// The resources of nodes that have divided the partitions, from a job's beginning to its end. The nodes leave
/// afterwards; `end` is called before that.
fn measure(
    args: &Args,
    site: Site,
    nats: &Nats,
    crawler: &Crawler,
    seeds: &std::path::Path,
    mut runs: Vec<Run>,
    end: impl FnOnce(),
) -> anyhow::Result<Used> {
    let nodes = runs.len();
    let cpu = |runs: &[Run]| runs.iter().map(|run| cpu_of(run.id()).unwrap_or(0.0)).sum::<f64>();
    let servers = || (0..args.servers).filter_map(|n| cpu_of(nats.process(n)?)).sum::<f64>();
    let before = (cpu(&runs), servers());
    let mut streams = Streams::default();
    streams.look(nats);
    let began = Instant::now();
    crate::cluster::create_job(crawler, seeds, "any", None)?;
    let mut used = Used::default();
    let (mut requests, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET {
        ensure!(began.elapsed() < LIMIT, "{nodes} nodes are still at work");
        std::thread::sleep(LOOK);
        for run in &mut runs {
            ensure!(!run.wait_until(Instant::now())?, "a node has left by itself");
        }
        let now = site.web().journal().requests();
        if now != std::mem::replace(&mut requests, now) {
            since = Instant::now();
            used.took = began.elapsed();
        }
        if since.elapsed() < AFTER {
            (used.nodes, used.servers) = (cpu(&runs) - before.0, servers() - before.1);
        }
        streams.look(nats);
    }
    used.stored = streams.came();
    end();
    for run in runs {
        run.ask_to_end()?;
        run.finish_within(NODE_MAX)?;
    }
    once_each(site, &format!("{nodes} nodes"))?;
    Ok(used)
}

/// Waits until the nodes have divided all partitions among them.
fn until_shared(nodes: &[Crawler], partitions: u32) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let held: u32 = nodes
            .iter()
            .map(|node| last_held(&std::fs::read_to_string(node.said()).unwrap_or_default()))
            .sum();
        if held == partitions {
            std::thread::sleep(SETTLED);
            return Ok(());
        }
        ensure!(began.elapsed() < NODE_MAX, "the nodes hold {held} of {partitions} partitions");
        std::thread::sleep(LOOK);
    }
}

/// The number of partitions of a node, from the end of its output.
fn last_held(said: &str) -> u32 {
    let held = |line: &str| line.split_once(" partitions, ")?.0.rsplit(' ').next()?.parse().ok();
    said.lines().rev().find_map(held).unwrap_or(0)
}

/// Checks that every page of the web was requested once.
fn once_each(site: Site, who: &str) -> anyhow::Result<()> {
    let urls = site.web().urls().count();
    let log = site.stop();
    let pages = log.requests.iter().filter(|request| !request.path.starts_with("/robots"));
    let mut asked: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    pages.for_each(|request| *asked.entry((&request.host, &request.path)).or_default() += 1);
    let again = asked.values().filter(|count| **count > 1).count();
    ensure!(asked.len() >= urls, "{who}: {} of {urls} pages were asked for", asked.len());
    ensure!(again * 1_000 <= urls, "{who}: {again} pages were asked for more than once");
    Ok(())
}

/// CPU seconds that a process has used so far.
fn cpu_of(id: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    // Fields 14 and 15 of proc(5), counted from the third, which follows the name in brackets.
    let ticks = |n: usize| fields.get(n)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) as f64 * SECONDS_PER_TICK)
}

/// The messages that arrived in the streams of the servers, also messages that were removed since.
#[derive(Default)]
struct Streams(BTreeMap<String, Came>);

#[derive(Default)]
struct Came {
    first: Option<u64>,
    last: u64,
    kept: u64,
    bytes: u64,
}

impl Streams {
    fn look(&mut self, nats: &Nats) {
        let Ok(said) = nats.ask(0, "/jsz?streams=true&accounts=true") else { return };
        let accounts = said["account_details"].as_array().into_iter().flatten();
        for stream in accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten()) {
            let (Some(name), state) = (stream["name"].as_str(), &stream["state"]) else { continue };
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            let (last, kept) = (number(&state["last_seq"]), number(&state["bytes"]));
            let is_new = !self.0.contains_key(name);
            let came = self.0.entry(name.to_owned()).or_default();
            came.first.get_or_insert(last);
            if !is_new {
                came.bytes += kept.saturating_sub(came.kept);
            }
            (came.last, came.kept) = (last, kept);
        }
    }

    /// Arrivals in logs and inboxes: their streams are numbered, the others have names.
    fn came(&self) -> Stored {
        let is_numbered = |name: &str| name.rsplit('_').next().is_some_and(|end| end.parse::<u32>().is_ok());
        let of = self.0.iter().filter(|(name, _)| is_numbered(name));
        of.fold(Stored::default(), |sum, (_, came)| Stored {
            messages: sum.messages + came.last.saturating_sub(came.first.unwrap_or(came.last)),
            bytes: sum.bytes + came.bytes,
        })
    }
}
