//! Bombs: answers that are small on the wire and were made to cost minutes.
//!
//! First each of them alone, at ten megabytes, on a host of its own: the crawl must end by itself within [`WALL_MAX`]
//! and use no more CPU time than [`CPU_MAX`], the start of the program included. Then four hosts that serve nothing
//! else beside many good ones: in the same time the good ones must serve almost as many pages as without them.
//!
//! No setting is changed but addresses and ports.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nephila_testweb::bombs::{Bomb, Site};

use crate::crawler::Place;
use crate::judge::Verdict;

/// Maximum CPU time of the crawl of one bomb.
const CPU_MAX: Duration = Duration::from_secs(5);
/// Maximum wall time: the deadlines are two seconds of decoding, three of reading and one beyond them. The rest is the
/// start and the end of a program on a machine under other load.
const WALL_MAX: Duration = Duration::from_secs(20);
/// The share of their pages that bombs may cost the good hosts.
const LOSS_MAX: f64 = 0.05;
/// Interval between checks of a running crawl.
const LOOK: Duration = Duration::from_millis(10);
/// After its time limit a crawl gets this long to end.
const END_MAX: Duration = Duration::from_secs(60);
/// The bombs of the four bad hosts.
const WORST: [&str; 4] = [
    "zstd-skipped-in-brotli",
    "feed-link-ampersands",
    "gzip-empty-members-in-gzip",
    "html-names-of-many-letters",
];

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the bombs one by one, not their cost to others.
    #[arg(long)]
    short: bool,
    /// Decoded size of a bomb in bytes.
    #[arg(long, default_value_t = 10_000_000)]
    bytes: usize,
    /// Only the bombs whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Number of good hosts beside the bad ones.
    #[arg(long, default_value_t = 200)]
    hosts: u8,
    /// Duration of each of the two compared crawls, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let mut verdict = Verdict::default();
    let mut worst = (Duration::ZERO, "");
    let bombs: Vec<Bomb> = Bomb::all().filter(|bomb| bomb.name.contains(&args.only)).collect();
    println!("{:<32} {:>10} {:>8} {:>8}", "bomb", "wire", "CPU, s", "s");
    for bomb in &bombs {
        let (cpu, took) = alone(place, *bomb, args.bytes)?;
        let wire = bomb.wire(args.bytes).0.len();
        println!("{:<32} {wire:>10} {:>8.2} {:>8.2}", bomb.name, cpu.as_secs_f64(), took.as_secs_f64());
        verdict.expect(cpu <= CPU_MAX, || format!("{}: {cpu:?} of a processor", bomb.name));
        verdict.expect(took <= WALL_MAX, || format!("{}: {took:?}", bomb.name));
        worst = worst.max((cpu, bomb.name));
    }
    let mut figures = format!(
        "bombs: {} of {} bytes, worst {} with {:.2} s of a processor",
        bombs.len(),
        args.bytes,
        worst.1,
        worst.0.as_secs_f64()
    );
    if !args.short {
        let time = Duration::from_secs(args.seconds);
        let (without, _) = beside(place, args, &[], time)?;
        let bad: Vec<Bomb> = WORST.iter().filter_map(|name| Bomb::named(name)).collect();
        let (with, set_off) = beside(place, args, &bad, time)?;
        let loss = 1.0 - with as f64 / without.max(1) as f64;
        verdict.expect(without > 0, || "no good host was asked".into());
        verdict.expect(set_off > 0, || "no bomb was asked for".into());
        verdict.expect(loss < LOSS_MAX, || format!("{with} good pages with bombs, {without} without"));
        figures += &format!(
            "; {} good hosts for {} s: {without} pages alone, {with} beside 4 bad hosts and {set_off} bombs ({:.1} % less)",
            args.hosts,
            args.seconds,
            loss * 100.0
        );
    }
    verdict.end(&figures)
}

/// A crawl of one bomb: its CPU time and wall time.
fn alone(place: &Place, bomb: Bomb, bytes: usize) -> anyhow::Result<(Duration, Duration)> {
    let site = Site::bad(Ipv4Addr::new(127, 90, 0, 1), bomb, bytes)?;
    let folder = place.folder("bomb")?;
    let mut command = crawl(place, &folder, &[site.port()]);
    command.arg(site.url("/bomb/1")).args(["-d", "0", "--scope", "host"]);
    let began = Instant::now();
    let cpu = finish(command.spawn().context("start the crawl")?, WALL_MAX + END_MAX)?;
    ensure!(site.pages() > 0, "{} was not asked for", bomb.name);
    Ok((cpu, began.elapsed()))
}

/// A crawl of good hosts beside bad ones: the number of pages served by the good ones, and by the bad ones.
fn beside(place: &Place, args: &Args, bad: &[Bomb], time: Duration) -> anyhow::Result<(u64, u64)> {
    let address = |group, host| Ipv4Addr::new(127, 90, group, host);
    let good: Vec<Site> =
        (0..args.hosts).map(|host| Site::good(address(1, host + 1))).collect::<Result<_, _>>()?;
    let bad: Vec<Site> = (1..)
        .zip(bad)
        .map(|(host, bomb)| Site::bad(address(2, host), *bomb, args.bytes))
        .collect::<Result<_, _>>()?;
    let folder = place.folder("beside")?;
    let seeds: String = good.iter().chain(&bad).map(|site| site.url("/") + "\n").collect();
    std::fs::write(folder.join("seeds.txt"), seeds)?;
    let ports: Vec<u16> = good.iter().chain(&bad).map(Site::port).collect();
    let mut command = crawl(place, &folder, &ports);
    command.arg("-i").arg(folder.join("seeds.txt")).args(["-d", "255", "--scope", "host"]);
    command.args(["--time-limit", &format!("{}s", time.as_secs())]);
    finish(command.spawn().context("start the crawl")?, time + END_MAX)?;
    let pages = |sites: &[Site]| sites.iter().map(Site::pages).sum();
    Ok((pages(&good), pages(&bad)))
}

fn crawl(place: &Place, folder: &Path, ports: &[u16]) -> Command {
    let mut command = Command::new(&place.program);
    command
        .args(["crawl", "-q", "--config", "/dev/null", "-o"])
        .arg(folder.join("crawl"))
        .args(["--set", "spider.allow_addresses=[\"127.90.0.0/16\"]"])
        .args(["--set", &format!("spider.ports={ports:?}")])
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits for the end of a crawl and returns its CPU time. A crawl that does not end is killed.
fn finish(mut child: Child, limit: Duration) -> anyhow::Result<Duration> {
    let (began, mut cpu) = (Instant::now(), Duration::ZERO);
    loop {
        cpu = processor_time(child.id()).unwrap_or(cpu);
        if child.try_wait()?.is_some() {
            return Ok(cpu);
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("a crawl did not end within {} s", limit.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}

/// The CPU time of a process from the kernel: user and system time, in hundredths of a second (proc(5), fields 14 and
/// 15).
fn processor_time(id: u32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(10 * ticks))
}
