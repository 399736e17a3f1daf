//! Soak: the good and the hostile web together, at full speed for an hour: memory, files and tasks stay flat.
//!
//! The good web has some of everything and more pages than can be fetched in the time. The hostile web is the whole
//! catalogue, named in rounds by a portal without end, so that tarpits, bombs, endless bodies, dead names and traps are
//! met until the last minute. One resolver knows both. Invariants: nothing grows after the first third, pages come in
//! every tenth of the time from both webs, the crawl ends by its time limit and in no other way, its archive is whole,
//! no host was requested too soon, and no request reached an inside address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_core::url::CrawlUrl;
use nephila_engine::exit::Exit;
use nephila_testweb::Settings;
use nephila_testweb::hostile::{self, CASES, Hostile, INSIDE};
use nephila_testweb::journal::Log;
use tokio::runtime::Runtime;

use crate::crawler::{Crawler, Place, Rests, Run};
use crate::judge::{self, Verdict};
use crate::portal::{self, Portal};
use crate::relay;
use crate::site::{self, Site};
use crate::watch::{Sample, Tolerance, Watch};

/// Addresses that may be asked: the good web's, the portal's, the hostile web's. 127.0.0.1 is inside.
const ALLOWED: &str = "[\"127.77.0.0/16\", \"127.78.0.0/16\", \"127.80.0.0/12\"]";
/// Pages of the good web for each second: more than can be fetched; two cores were seen to fetch 3,150.
const PAGES_A_SECOND: u64 = 6_000;
/// Events of the server's journal for each second: requests, connections and lookups.
const EVENTS_A_SECOND: usize = 8_000;
/// How many times the whole catalogue is met at least, and how long a round is at most.
const ROUNDS_MIN: u32 = 2;
const ROUND_MAX: Duration = Duration::from_secs(150);
/// Samples in all, and how far they lie apart at most.
const SAMPLES: u32 = 100;
const SAMPLE_EVERY_MAX: Duration = Duration::from_secs(5);
/// Interval between progress lines.
const SAID_EVERY: Duration = Duration::from_secs(60);
/// Time after the limit for a crawl to finish open fetches, merge its index and write its report.
const ENDING_MAX: Duration = Duration::from_secs(300);
/// Number of parts of the time; pages must be seen at the server in each part.
const PARTS: usize = 10;
/// Maximum share of requests to the hostile web that look too early: a busy server may record a request that the
/// crawler gave up after the next one.
const HOSTILE_SHARE_MAX: f64 = 0.001;

/// Maximum delay of a request's record after its arrival, on a machine at full load; the next request then looks too
/// early.
const NOTED_LATE: Duration = Duration::from_millis(50);

/// Memory may grow by this share and by this number of kB...
const MEMORY: Tolerance = Tolerance { share: 0.10, more: 30.0 * 1024.0 };
/// ...and, in a run shorter than this, by caches that fill up within minutes: blocks of runs (64 MB), URLs seen lately,
/// and data that the partitions have not flushed yet.
const WARM_AFTER: Duration = Duration::from_secs(1_200);
const WARMING_KB: f64 = 200.0 * 1024.0;
/// Every known URL has its bits in the filters and its share of the block index of a run; a run that is being merged is
/// there twice.
const KNOWN_URL_BYTES: f64 = 8.0;
const FILES: Tolerance = Tolerance { share: 0.10, more: 64.0 };
const THREADS: Tolerance = Tolerance { share: 0.10, more: 16.0 };
/// A task or more for each fetch and each idle connection.
const TASKS: Tolerance = Tolerance { share: 0.20, more: 512.0 };
/// Fetches at once and pages between fetch and report.
const TICKETS: Tolerance = Tolerance { share: 0.20, more: 512.0 };
/// A queue that is full now and then is normal; its capacity is its limit.
const OFFERS: Tolerance = Tolerance { share: 0.0, more: 65_536.0 };

/// Duration and sizes of the soak.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long the crawl runs, in minutes.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Hosts of the good web.
    #[arg(long, default_value_t = 1_000)]
    hosts: u32,
    /// Where the search for a seed of the web begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rest of a host between two requests (crawl delay), in milliseconds; an address rests half as long.
    #[arg(long, default_value_t = 20)]
    host_delay_ms: u64,
    /// File for the samples, a line each.
    #[arg(long)]
    samples: Option<PathBuf>,
    /// File for overlapping connections of one host, a line each: when, how long, idle for how long before.
    #[arg(long)]
    overlaps: Option<PathBuf>,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    ensure!(args.minutes > 0.0 && args.minutes < 100_000.0, "{} minutes", args.minutes);
    let time = Duration::from_secs_f64(args.minutes * 60.0);
    let folder = place.folder("soak")?;
    let host = Duration::from_millis(args.host_delay_ms);
    let rests = Rests { host, slot: host / 2 };
    let site = Site::start(good(args, time), &folder)?;
    let rough = Rough::start(&site, &folder, ROUND_MAX.min(time / ROUNDS_MIN))?;
    let seeds = rough.seeds(&site, &folder)?;
    let mut crawler = Crawler::new(place, &folder, &site, &seeds, "any", rests);
    rough.attach(&site, &mut crawler);
    crawler.set_limit("--time-limit", &format!("{}ms", time.as_millis()), Exit::TimeLimit);

    let mut crawl = crawler.start()?;
    let began = Instant::now();
    let mut watch = Watch::new(crawler.dir());
    watched(&mut crawl, &mut watch, time)?;
    let ended = crawl.finish(time + ENDING_MAX)?;
    if let Some(path) = &args.samples {
        watch.write(path).with_context(|| path.display().to_string())?;
    }
    let mut verdict = Verdict::default();
    let (status, said) = crawler.ask(&["verify", &crawler.dir().display().to_string()])?;
    verdict.expect(status.success(), || format!("nephila verify: {status}: {said}"));
    let world = site.web().world().clone();
    let log = site.stop();
    judge::polite(&mut verdict, &world, &log, rests);
    if let Some(path) = &args.overlaps {
        let lines = overlaps(&log)
            .into_iter()
            .map(|(at, after, idle, host)| format!("{at}\t{after}\t{idle}\t{host}\n"));
        std::fs::write(path, lines.collect::<String>()).with_context(|| path.display().to_string())?;
    }
    let met = rough.judge(&mut verdict, rests, began, time);
    everywhere(&mut verdict, "the good web", parts(&log, time));
    let flat = flat(&mut verdict, &watch, time);
    let faults = verdict.faults();
    let seconds = ended.took.as_secs_f64();
    let ok = log.requests.iter().filter(|request| request.status == 200 && request.is_complete).count();
    verdict.end(&format!(
        "crawl soak: {:.1} min, {} requests to {} good hosts ({ok} pages), {met}; {:.0} requests/s; {flat}; peak {} MB; \
         {} faults",
        seconds / 60.0,
        log.requests.len(),
        args.hosts,
        log.requests.len() as f64 / seconds,
        ended.peak_kb / 1024,
        faults,
    ))
}

/// A web with some of everything and more pages than a crawl can fetch. Hosts are more alike in size than usual, so
/// that all of them have pages left to the end, tarpits too.
fn good(args: &Args, time: Duration) -> Settings {
    let pages = (time.as_secs() + 60) * PAGES_A_SECOND;
    Settings {
        pages,
        seed: args.seed,
        hosts: args.hosts,
        addresses: (args.hosts * 2 / 3).max(1),
        size_exponent: 0.5,
        journal_max: (time.as_secs() as usize + 60) * EVENTS_A_SECOND,
        ..site::with_everything()
    }
}

/// Samples the crawl until its end.
fn watched(crawl: &mut Run, watch: &mut Watch, time: Duration) -> anyhow::Result<()> {
    let every = (time / SAMPLES).min(SAMPLE_EVERY_MAX);
    let (began, mut said) = (Instant::now(), Instant::now());
    while !crawl.wait_until(Instant::now() + every)? {
        ensure!(began.elapsed() < time + ENDING_MAX, "the crawl does not end at its time limit");
        // Work after the limit is no part of the soak.
        if began.elapsed() >= time {
            continue;
        }
        let Some(sample) = watch.look(crawl) else { continue };
        if said.elapsed() >= SAID_EVERY {
            said = Instant::now();
            let now = sample.said.unwrap_or_default();
            println!(
                "{:>6.0} s: {} MB, {} files, {} threads, {} tasks, {} tickets, {} hosts at hand, {} offers, {} done, {} known",
                sample.at,
                sample.memory_kb / 1024,
                sample.files,
                sample.threads,
                now.tasks,
                now.tickets_open,
                now.hosts_active,
                now.offers_waiting,
                now.ended,
                now.known()
            );
        }
    }
    Ok(())
}

/// Judges the figures that must not grow; returns them.
fn flat(verdict: &mut Verdict, watch: &Watch, time: Duration) -> String {
    let known = |sample: &Sample| sample.said.map(|said| said.known() as f64);
    let more = watch.peaks(known).map_or(0.0, |(middle, last)| (last - middle).max(0.0));
    let (mut memory, mut files) = (MEMORY, FILES);
    memory.more += more * KNOWN_URL_BYTES / 1024.0;
    if time < WARM_AFTER {
        memory.more += WARMING_KB;
        // A third of such a run is less than a round of the hostile web, whose slow hosts hold connections in one part of
        // the round and not in another. `cargo xtask soak` compares files at rest.
        files.more = TASKS.more;
    }
    type Of = fn(&Sample) -> Option<f64>;
    let rows: [(&str, Tolerance, f64, Of); 6] = [
        ("memory MB", memory, 1024.0, |sample| Some(sample.memory_kb as f64)),
        ("files", files, 1.0, |sample| Some(sample.files as f64)),
        ("threads", THREADS, 1.0, |sample| Some(sample.threads as f64)),
        ("tasks", TASKS, 1.0, |sample| Some(sample.said?.tasks as f64)),
        ("tickets", TICKETS, 1.0, |sample| Some(sample.said?.tickets_open as f64)),
        ("offers", OFFERS, 1.0, |sample| Some(sample.said?.offers_waiting as f64)),
    ];
    let mut figures = Vec::new();
    for (name, tolerance, unit, of) in rows {
        match watch.grows(of, tolerance) {
            Ok((middle, last)) => {
                figures.push(format!("{name} {:.0} then {:.0}", middle / unit, last / unit))
            }
            Err(peaks) => verdict.fault(format!("{name} grows, or was not seen: {peaks:?}, {tolerance:?}")),
        }
    }
    let slope = watch.slope(|sample| sample.memory_kb as f64 / 1024.0);
    let last = watch.samples().iter().rev().find_map(|sample| sample.said).unwrap_or_default();
    figures.push(format!("memory by least squares {slope:+.0} MB/h"));
    figures.push(format!("{} URLs known, {} hosts at hand at the end", last.known(), last.hosts_active));
    figures.join(", ")
}

/// Connections of one host that overlap at the server: how long the older one stayed open after the first request of
/// the newer one, and how long before that its last answer was over. Both in microseconds; negative if the older one
/// was still answering.
fn overlaps(log: &Log) -> Vec<(u64, u64, i64, String)> {
    let ends: HashMap<u64, (u64, u64)> = log
        .connections
        .iter()
        .map(|connection| (connection.id, (connection.start_us, connection.end_us)))
        .collect();
    // First request and last answer, by connection.
    type Spans = HashMap<u64, (u64, u64)>;
    let mut hosts: HashMap<(bool, &str), Spans> = HashMap::new();
    for request in &log.requests {
        let spans = hosts.entry((request.tls, &request.host)).or_default();
        let span = spans.entry(request.connection).or_insert((request.start_us, request.end_us));
        span.1 = span.1.max(request.end_us);
    }
    let mut found = Vec::new();
    for ((_, host), spans) in hosts {
        let mut spans: Vec<_> = spans.into_iter().collect();
        spans.sort_unstable_by_key(|(_, (first, _))| *first);
        for pair in spans.windows(2) {
            let [(old, (_, answered)), (_, (first, _))] = [pair[0], pair[1]];
            let Some((_, closed)) = ends.get(&old).filter(|(_, closed)| *closed > first) else { continue };
            found.push((first, closed - first, first as i64 - answered as i64, host.to_owned()));
        }
    }
    found.sort_unstable();
    found
}

/// Requests in each part of the time.
fn parts(log: &Log, time: Duration) -> [u64; PARTS] {
    // The journal began a little before the crawl; its first request is close enough to the beginning.
    let first = log.requests.first().map_or(0, |request| request.start_us);
    counted(log.requests.iter().map(|request| Duration::from_micros(request.start_us - first)), time)
}

fn counted(moments: impl Iterator<Item = Duration>, time: Duration) -> [u64; PARTS] {
    let mut parts = [0; PARTS];
    for moment in moments {
        let part = (moment.as_secs_f64() / time.as_secs_f64() * PARTS as f64) as usize;
        parts[part.min(PARTS - 1)] += 1;
    }
    parts
}

fn everywhere(verdict: &mut Verdict, name: &str, parts: [u64; PARTS]) {
    verdict.expect(parts.iter().all(|part| *part > 0), || {
        format!("requests to {name} by tenths of the time: {parts:?}")
    });
}

/// The hostile web, its portal, and the resolver for everything.
struct Rough {
    hostile: Hostile,
    portal: Portal,
    dns: SocketAddr,
    ca: PathBuf,
    /// When the hostile web's journal began, at the latest.
    began: Instant,
    urls: usize,
    _runtime: Runtime,
}

impl Rough {
    fn start(site: &Site, folder: &Path, round: Duration) -> anyhow::Result<Rough> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hostile")
            .enable_all()
            .build()?;
        let web = site.web();
        let settings = hostile::Settings { ca: Some(web.ca().clone()), ..hostile::Settings::default() };
        let hostile = runtime.block_on(Hostile::start(settings))?;
        let began = Instant::now();
        let ca = folder.join("all-ca.pem");
        std::fs::write(&ca, hostile.ca_pem()).with_context(|| ca.display().to_string())?;
        // URLs that cannot be parsed never reach a frontier. A URL that has a query already is new only once.
        let urls: Vec<String> = hostile
            .all_urls()
            .into_iter()
            .filter(|url| !url.contains(['?', '#']) && CrawlUrl::parse(url).is_ok())
            .collect();
        let count = urls.len();
        let portal = runtime.block_on(Portal::start(urls, round))?;
        let dns = runtime.block_on(relay::start(web.world().clone(), web.dns_addr(), hostile.dns_addr()))?;
        Ok(Rough { hostile, portal, dns, ca, began, urls: count, _runtime: runtime })
    }

    /// All home pages of the good web, every hostile URL once, and the portal.
    fn seeds(&self, site: &Site, folder: &Path) -> anyhow::Result<PathBuf> {
        let mut seeds = vec![self.portal.url()];
        seeds.extend(site.homes());
        seeds.extend(self.hostile.all_urls());
        let path = folder.join("seeds.txt");
        std::fs::write(&path, seeds.join("\n") + "\n").with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Connects this crawler to all of them.
    fn attach(&self, site: &Site, crawler: &mut Crawler) {
        let (good, bad) = (site.web(), &self.hostile);
        let ports = [
            good.http_port(),
            good.https_port(),
            bad.port(),
            bad.tls_port(),
            bad.other_port(),
            self.portal.port(),
        ];
        for set in [
            format!("spider.dns_servers=[\"{}\"]", self.dns),
            format!("spider.dns_fixed=[\"{}={}\"]", portal::NAME, portal::ADDRESS),
            format!("spider.ports={ports:?}"),
            format!("spider.ca_file=\"{}\"", self.ca.display()),
            format!("spider.allow_addresses={ALLOWED}"),
        ] {
            crawler.set(&set);
        }
    }

    /// Judges the requests that the hostile web and the portal saw; returns the figures.
    fn judge(&self, verdict: &mut Verdict, rests: Rests, began: Instant, time: Duration) -> String {
        let inside = self.hostile.connections(INSIDE);
        verdict.expect(inside == 0, || format!("{inside} connections to where nobody may go"));
        let before = began.duration_since(self.began);
        let mut moments = Vec::new();
        let (mut connections, mut soon, mut cases) = (0, Vec::new(), 0usize);
        for case in CASES.iter() {
            connections += self.hostile.connections(case.id);
            cases += usize::from(self.hostile.connections(case.id) > 0);
            let mut last: HashMap<IpAddr, Duration> = HashMap::new();
            for seen in self.hostile.requests(case.id) {
                moments.push(seen.at.saturating_sub(before));
                let rest = last.insert(seen.local.ip(), seen.at).map(|last| seen.at.saturating_sub(last));
                if rest.is_some_and(|rest| rest + Duration::from_millis(1) < rests.slot) {
                    soon.push(format!("{} {} after {rest:?}", seen.local, seen.path));
                }
            }
        }
        let requests = moments.len();
        verdict.expect(soon.len() as f64 <= requests as f64 * HOSTILE_SHARE_MAX, || {
            format!(
                "{} of {requests} hostile requests came too soon: {:?}",
                soon.len(),
                &soon[..soon.len().min(5)]
            )
        });
        everywhere(verdict, "the hostile web", counted(moments.into_iter(), time));
        let asked = self.portal.asked();
        let hasty = asked.windows(2).filter(|pair| pair[1] - pair[0] + NOTED_LATE < portal::DELAY).count();
        verdict.expect(hasty == 0, || format!("the portal was asked {hasty} times before its Crawl-delay"));
        verdict.expect(asked.len() > 1, || "the portal led nowhere".into());
        format!(
            "{requests} requests and {connections} connections to {cases} hostile cases ({} URLs in {:.1} rounds)",
            self.urls,
            self.portal.rounds()
        )
    }
}
