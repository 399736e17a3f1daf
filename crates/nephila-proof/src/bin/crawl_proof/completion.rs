//! When a job is complete: many jobs on one cluster, while nodes and servers fail, each of other hosts.
//!
//! The completion of a job is judged by the web alone: everything that the ground truth wants of its hosts was answered
//! by then, nothing of them is requested afterwards, and the completion came soon after the last answer. The delay is
//! the plain time from the end of that answer to the moment at which `nephila job wait` has ended; nothing is taken off
//! for faults. Delays of jobs that no fault can have held up are reported apart from the others.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_testweb::Settings;
use nephila_testweb::journal::{Journal, Log};
use nephila_testweb::model::{Place as WebPlace, TruthOptions, What, World};
use nephila_testweb::settings::RobotsShares;
use rustix::process::Signal;

use crate::crawler::{Crawler, Place};
use crate::herd::{Herd, Size, median_and_max, us};
use crate::judge::Verdict;
use crate::plug::Random;
use crate::site::Site;

/// Completion is said within this time after the last answer.
const LATE_MAX: Duration = Duration::from_secs(30);
/// The pause between two faults is the one requested, and up to half of that more.
const MORE_PART: u32 = 2;
/// Number of the latest jobs that are printed one by one.
const TOLD: usize = 3;
/// A node or a server is away for this long.
const AWAY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(6));
/// A node is frozen for this long: now and then longer than its lease.
const FROZEN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(20));
/// A job is complete within this time.
const JOB_MAX: &str = "600s";
/// No request may come this long after the last job.
const QUIET: Duration = Duration::from_secs(15);
/// Number of hosts of a job.
const HOSTS: (u64, u64) = (2, 6);

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Number of nodes.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Number of jobs.
    #[arg(long, default_value_t = 50)]
    crawls: usize,
    /// Number of jobs at the same time.
    #[arg(long, default_value_t = 3)]
    at_once: usize,
    /// Number of pages of a host.
    #[arg(long, default_value_t = 40)]
    host_pages: u64,
    /// No faults.
    #[arg(long)]
    calm: bool,
    /// The pause between two faults, in seconds: one and a half times that at most.
    #[arg(long, default_value_t = 20)]
    between: u64,
    /// Lateness beyond the goal is reported and is no failure: for a machine under other load.
    #[arg(long)]
    report_only: bool,
}

/// A fault, in time of the journal.
#[derive(Clone, Copy, Debug)]
struct Fault {
    kind: &'static str,
    from: u64,
    to: u64,
}

/// How late the completion of a job was reported.
#[derive(Debug)]
struct Late {
    /// Its first host, which names the job.
    job: u32,
    /// From the last answer to the report.
    seconds: f64,
    /// Faults that may have held the job up, with the seconds from the last answer to their beginning and end.
    held_up_by: Vec<String>,
}

/// A job that was reported complete.
struct Said {
    hosts: Vec<u32>,
    at: u64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut random = Random(args.size.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut groups: Vec<Vec<u32>> = Vec::new();
    let mut next = 0;
    for _ in 0..args.crawls {
        let count = (HOSTS.0 + random.below(HOSTS.1 - HOSTS.0 + 1)) as u32;
        groups.push((next..next + count).collect());
        next += count;
    }
    // One host more, for the job that a cluster is founded with.
    let size = Size { hosts: next + 1, ..args.size.clone() };
    let folder = place.folder("completion")?;
    // A host that cannot be asked, or whose robots.txt cannot be read, is waited for: a quarter of an hour at first. That a
    // job is not complete then is right, and would take days here.
    let web = Settings {
        dead_share: 0.0,
        robots: RobotsShares::default(),
        ..size.even_web(u64::from(size.hosts) * args.host_pages)
    };
    let site = Site::start(web, &folder)?;
    let seeds = seeds(&folder, "first", site.world(), &[next])?;
    let mut herd = Herd::found(&size, place, &folder, &site, &seeds, "host")?;
    herd.join(args.nodes)?;
    herd.settle()?;

    let (taken, journal) = (AtomicUsize::new(0), herd.journal.clone());
    let ended = AtomicUsize::new(0);
    let mut faults = Vec::new();
    let said = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..args.at_once.max(1))
            .map(|_| {
                let (asks, world) = (herd.asks.clone(), site.web().world().clone());
                let (taken, ended, groups, journal, folder) = (&taken, &ended, &groups, &journal, &folder);
                scope.spawn(move || {
                    let mut said = Vec::new();
                    while let Some(hosts) = groups.get(taken.fetch_add(1, Ordering::Relaxed)) {
                        said.push(one(&asks, &world, journal, folder, hosts)?);
                        let count = ended.fetch_add(1, Ordering::Relaxed) + 1;
                        eprintln!("completion: {count} of {} jobs", groups.len());
                    }
                    anyhow::Ok(said)
                })
            })
            .collect();
        let broken = loop {
            if args.calm || lanes.iter().all(|lane| lane.is_finished()) {
                break Ok(());
            }
            let pause = Duration::from_secs(args.between);
            match fault(&mut herd, &mut random, size.servers, (pause, pause + pause / MORE_PART)) {
                Ok(fault) => faults.push(fault),
                Err(error) => break Err(error),
            }
        };
        let mut said = Vec::new();
        for lane in lanes {
            said.extend(lane.join().map_err(|_| anyhow::anyhow!("a lane panicked"))??);
        }
        broken.map(|()| said)
    })?;
    herd.until_quiet(QUIET)?;
    let running = herd.running();
    herd.leave(running)?;

    let mut verdict = Verdict::default();
    let world = site.web().world().clone();
    let log = site.stop();
    let (mut lates, mut pages) = (Vec::new(), 0);
    for said in &said {
        let (late, count) = judge(&mut verdict, &world, &log, said, &faults, size.lease());
        lates.push(late);
        pages += count;
    }
    let early = verdict.faults();
    lates.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for late in lates.iter().take(TOLD) {
        eprintln!("completion: job {} {:.1} s late; {}", late.job, late.seconds, late.held_up_by.join(", "));
    }
    let of = |is_held_up: bool| {
        let these = lates.iter().filter(|late| late.held_up_by.is_empty() != is_held_up);
        let seconds: Vec<f64> = these.map(|late| late.seconds).collect();
        let (count, (median, max)) = (seconds.len(), median_and_max(seconds));
        format!("{count} jobs {median:.1} s in the middle, {max:.1} s at most")
    };
    let max = lates.first().map_or(0.0, |late| late.seconds);
    verdict.expect(args.report_only || max <= LATE_MAX.as_secs_f64(), || {
        format!("completion was said {max:.1} s late")
    });
    verdict.end(&format!(
        "completion: {} jobs of {} hosts, {pages} pages, {} faults; {early} said too early or incomplete; from the last answer to \
         the word: without a fault {}, with one in the way {}; {:.0} s in all",
        said.len(),
        next,
        faults.len(),
        of(false),
        of(true),
        began.elapsed().as_secs_f64()
    ))
}

fn seeds(folder: &Path, name: &str, world: &World, hosts: &[u32]) -> anyhow::Result<std::path::PathBuf> {
    let url = |host: &u32| format!("{}\n", world.url(WebPlace { host: *host, what: What::Page(0) }));
    let path = folder.join(format!("{name}.txt"));
    std::fs::write(&path, hosts.iter().map(url).collect::<String>())
        .with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Runs a job over these hosts until the job is reported complete.
fn one(
    asks: &Crawler,
    world: &World,
    journal: &Journal,
    folder: &Path,
    hosts: &[u32],
) -> anyhow::Result<Said> {
    let name = format!("job-{}", hosts[0]);
    let seeds = seeds(folder, &name, world, hosts)?.display().to_string();
    let ask = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).chain(asks.settings()).collect();
        asks.ask_all(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (status, words) = ask(&["job", "create", &name, "--scope", "host", "-d", "255", "-i", &seeds])?;
    ensure!(status.success(), "nephila job create {name}: {status}: {words}");
    loop {
        let (status, words) = ask(&["job", "wait", &name, "--timeout", JOB_MAX])?;
        let at = journal.now_us();
        match status.code() {
            Some(0) => return Ok(Said { hosts: hosts.to_vec(), at }),
            // Not now: the servers are away, or the job takes longer. Wait and ask again.
            Some(1 | 8) => std::thread::sleep(Duration::from_millis(500)),
            _ => anyhow::bail!("nephila job wait {name}: {status}: {words}"),
        }
    }
}

/// One fault, from its beginning to its end.
fn fault(
    herd: &mut Herd,
    random: &mut Random,
    servers: usize,
    between: (Duration, Duration),
) -> anyhow::Result<Fault> {
    std::thread::sleep(random.duration(between.0, between.1));
    let node = random.below(herd.nodes.len() as u64) as usize;
    let from = herd.journal.now_us();
    let kind = match random.below(if servers > 1 { 3 } else { 2 }) {
        0 => {
            herd.nodes[node].kill()?;
            std::thread::sleep(random.duration(AWAY.0, AWAY.1));
            herd.nodes[node].start()?;
            "a node killed"
        }
        1 => {
            let id = herd.nodes[node].run.as_ref().context("it runs")?.id();
            let pid = rustix::process::Pid::from_raw(i32::try_from(id)?).context("a process")?;
            rustix::process::kill_process(pid, Signal::STOP)?;
            std::thread::sleep(random.duration(FROZEN.0, FROZEN.1));
            rustix::process::kill_process(pid, Signal::CONT)?;
            "a node frozen"
        }
        _ => {
            let server = random.below(servers as u64) as usize;
            herd.nats.kill(server)?;
            std::thread::sleep(random.duration(AWAY.0, AWAY.1));
            herd.nats.start(server)?;
            "a server killed"
        }
    };
    Ok(Fault { kind, from, to: herd.journal.now_us() })
}

/// Checks that everything was answered before the report, and that nothing comes afterwards. Returns how late the
/// report was, and the number of pages.
fn judge(
    verdict: &mut Verdict,
    world: &World,
    log: &Log,
    said: &Said,
    faults: &[Fault],
    lease: Duration,
) -> (Late, u64) {
    let name = said.hosts[0];
    let mut answered: HashMap<WebPlace, u64> = HashMap::new();
    let mut last = 0;
    for request in &log.requests {
        let Some(place) = world.place(&request.host, &request.path) else { continue };
        if !said.hosts.contains(&place.host) {
            continue;
        }
        verdict.expect(request.start_us <= said.at, || {
            let after = (request.start_us - said.at) as f64 / 1e6;
            format!("job {name}: {}{} was asked for {after:.1} s later", request.host, request.path)
        });
        last = last.max(request.end_us.min(said.at));
        if request.is_complete {
            let at = answered.entry(place).or_insert(request.end_us);
            *at = (*at).min(request.end_us);
        }
    }
    let seeds = said.hosts.iter().map(|host| WebPlace { host: *host, what: What::Page(0) }).collect();
    let options = TruthOptions {
        seeds,
        scope: Some(said.hosts.clone()),
        reads_sitemaps: true,
        reads_feeds: true,
        ..TruthOptions::default()
    };
    let truth = world.truth(&options);
    let mut pages = 0;
    for place in truth.expected() {
        pages += 1;
        verdict.expect(answered.get(&place).is_some_and(|at| *at <= said.at), || {
            format!("job {name}: {} was not answered when it was said to be complete", world.url(place))
        });
    }
    // For so long after a fault a partition may have no owner.
    let settled = us(lease);
    let since = |moment: u64| (moment as f64 - last as f64) / 1e6;
    let held_up = faults.iter().filter(|fault| fault.from < said.at && fault.to + settled > last);
    let told = held_up
        .map(|fault| format!("{} from {:+.1} s to {:+.1} s", fault.kind, since(fault.from), since(fault.to)));
    (Late { job: name, seconds: since(said.at), held_up_by: told.collect() }, pages)
}
