//! Outages around a crawl: the disk is full and has room again, the resolver is gone and comes back, the clock is set
//! forward and back by an hour. The crawl goes on by itself and ends complete and polite.
//!
//! Invariants: every mount made here is unmounted here; a case that this machine cannot run is named.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use nephila_testweb::Settings;

use crate::archive::{self, Copies};
use crate::crawler::{Crawler, Place, Rests, Run};
use crate::judge::{self, Verdict};
use crate::site::{self, Site, Wanted};

/// Size of the disk that is filled.
const DISK_BYTES: u64 = 192 << 20;
/// Size of one write while the disk is filled, in bytes.
const BLOCK: usize = 64 * 1024;
/// The clock jumps by this much.
const JUMP: Duration = Duration::from_secs(3_600);
/// A crawl has this long after everything is well again.
const LIMIT: Duration = Duration::from_secs(600);
/// The crawl runs undisturbed for this long first.
const BEFORE: Duration = Duration::from_secs(2);
/// Where Debian has the library that lies about the time.
const FAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];
/// The rests (crawl delays) that are set and judged.
const RESTS: Rests = Rests { host: Duration::from_millis(10), slot: Duration::from_millis(5) };

/// Cases and durations.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this one.
    #[arg(long)]
    only: Option<Only>,
    /// How long the disk stays full, in seconds.
    #[arg(long, default_value_t = 10)]
    full_seconds: u64,
    /// How long the resolver is gone, in seconds.
    #[arg(long, default_value_t = 60)]
    silent_seconds: u64,
    /// Number of hosts of the web.
    #[arg(long, default_value_t = 40)]
    hosts: u32,
    /// Number of pages of the web.
    #[arg(long, default_value_t = 6_000)]
    pages: u64,
    /// Seed of the web.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One kind of outage.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Only {
    /// No room on the disk.
    Disk,
    /// No names.
    Names,
    /// The time of day jumps.
    Clock,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut verdict = Verdict::default();
    let mut done = Vec::new();
    for (which, name) in [(Only::Disk, "disk"), (Only::Names, "names"), (Only::Clock, "clock")] {
        if args.only.is_some_and(|only| only != which) {
            continue;
        }
        let scene = Scene::new(place, args, name)?;
        let figures = match which {
            Only::Disk => disk(args, scene, &mut verdict)?,
            Only::Names => names(args, scene, &mut verdict)?,
            Only::Clock => clock(scene, &mut verdict)?,
        };
        match figures {
            Some(figures) => done.push(figures),
            None => println!("skipped: {name}"),
        }
    }
    verdict.end(&format!("outage: {}; {:.0} s", done.join("; "), began.elapsed().as_secs_f64()))
}

/// One crawl that something will happen to.
struct Scene {
    folder: PathBuf,
    site: Site,
    wanted: Wanted,
    crawler: Crawler,
}

impl Scene {
    fn new(place: &Place, args: &Args, name: &str) -> anyhow::Result<Scene> {
        let folder = place.folder(&format!("outage-{name}"))?;
        // Tarpits are another proof's matter, and take their time.
        let settings = Settings { tarpit_share: 0.0, ..site::mixed(args.seed, args.hosts, args.pages)? };
        let site = Site::start(settings, &folder)?;
        let wanted = site.most_domains(&folder)?;
        let crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "domain", RESTS);
        Ok(Scene { folder, site, wanted, crawler })
    }

    /// Lets the crawl run undisturbed first.
    fn begin(&self) -> anyhow::Result<Run> {
        let mut run = self.crawler.start()?;
        ensure!(!run.wait_until(Instant::now() + BEFORE)?, "the crawl was over before anything happened");
        Ok(run)
    }

    fn requests(&self) -> usize {
        self.site.web().journal().requests()
    }

    /// Waits for the end and judges.
    fn end(self, run: Run, verdict: &mut Verdict) -> anyhow::Result<u64> {
        run.finish(LIMIT)?;
        let world = self.site.web().world().clone();
        let log = self.site.stop();
        let pages = judge::complete(verdict, &world, &self.wanted.truth, &log);
        judge::polite(verdict, &world, &log, RESTS);
        archive::check(verdict, &self.crawler, &world, &self.wanted.truth, &log, Copies::AsAsked, 500)?;
        Ok(pages)
    }
}

fn disk(args: &Args, mut scene: Scene, verdict: &mut Verdict) -> anyhow::Result<Option<String>> {
    let Some(mount) = Mount::new(scene.folder.join("small"))? else { return Ok(None) };
    scene.crawler.set_dir(mount.0.join("crawl"));
    let mut run = scene.begin()?;
    let ballast = mount.0.join("ballast");
    let mut file = File::create(&ballast)?;
    let full = Instant::now() + Duration::from_secs(args.full_seconds);
    let mut seen = 0;
    // Whatever the crawl frees meanwhile is taken as well.
    while Instant::now() < full {
        while file.write_all(&[0x5A; BLOCK]).is_ok() {}
        ensure!(!run.wait_until(Instant::now() + Duration::from_millis(200))?, "it ended on a full disk");
        seen = seen.max(scene.requests());
    }
    drop(file);
    std::fs::remove_file(&ballast)?;
    let freed = Instant::now();
    while scene.requests() <= seen && freed.elapsed() < LIMIT {
        ensure!(!run.wait_until(Instant::now() + Duration::from_millis(20))?, "it ended before it went on");
    }
    let waited = freed.elapsed();
    verdict.expect(waited < Duration::from_secs(30), || {
        format!("it went on {} s after there was room", waited.as_secs())
    });
    let pages = scene.end(run, verdict)?;
    let (full, waited) = (args.full_seconds, waited.as_secs_f64());
    Ok(Some(format!("disk full for {full} s, went on {waited:.1} s after, {pages} places complete")))
}

fn names(args: &Args, mut scene: Scene, verdict: &mut Verdict) -> anyhow::Result<Option<String>> {
    // Names are asked for again and again, so that none is known for the whole outage.
    scene.crawler.set("frontier.resolve_after=1s");
    scene.crawler.set("spider.dns_ttl_max=1s");
    scene.crawler.set("spider.dns_ttl_min=1s");
    let mut run = scene.begin()?;
    scene.site.web().set_dns_silent(true);
    let silent = Duration::from_secs(args.silent_seconds);
    ensure!(!run.wait_until(Instant::now() + silent)?, "it ended while there were no names");
    scene.site.web().set_dns_silent(false);
    let pages = scene.end(run, verdict)?;
    Ok(Some(format!("no names for {} s, {pages} places complete", silent.as_secs())))
}

fn clock(mut scene: Scene, verdict: &mut Verdict) -> anyhow::Result<Option<String>> {
    let Some(clock) = Clock::new(&scene.folder)? else {
        println!("no libfaketime on this machine: apt-get install libfaketime");
        return Ok(None);
    };
    clock.attach(&mut scene.crawler);
    // Hosts that rest longer than they must, so that a small web is not done before the clock is set back.
    scene.crawler.set("frontier.host_delay=60ms");
    let mut run = scene.begin()?;
    clock.ahead(JUMP)?;
    ensure!(!run.wait_until(Instant::now() + 2 * BEFORE)?, "it ended before the clock was set back");
    clock.back(JUMP)?;
    let pages = scene.end(run, verdict)?;
    Ok(Some(format!("clock set forward and back by an hour, {pages} places complete")))
}

/// The path of that library. None if the library is not installed.
pub fn faketime() -> Option<&'static str> {
    FAKETIME.into_iter().find(|path| Path::new(path).is_file())
}

/// The wall clock of the crawler. Its monotonic clock, used for rests, is left alone.
pub struct Clock {
    library: &'static str,
    file: PathBuf,
}

impl Clock {
    /// None where the library is not installed.
    pub fn new(folder: &Path) -> anyhow::Result<Option<Clock>> {
        let Some(library) = faketime() else { return Ok(None) };
        let clock = Clock { library, file: folder.join("time") };
        clock.set("+0")?;
        Ok(Some(clock))
    }

    /// Makes this crawler use the clock.
    pub fn attach(&self, crawler: &mut Crawler) {
        crawler.env("LD_PRELOAD", self.library);
        crawler.env("FAKETIME_TIMESTAMP_FILE", &self.file.display().to_string());
        // Seconds after which a new time is noticed.
        crawler.env("FAKETIME_CACHE_DURATION", "1");
        crawler.env("DONT_FAKE_MONOTONIC", "1");
        crawler.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// This far ahead of the real time.
    pub fn ahead(&self, by: Duration) -> anyhow::Result<()> {
        self.set(&format!("+{}", by.as_secs()))
    }

    /// This far behind the real time.
    pub fn back(&self, by: Duration) -> anyhow::Result<()> {
        self.set(&format!("-{}", by.as_secs()))
    }

    fn set(&self, text: &str) -> anyhow::Result<()> {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{text}\n"))?;
        std::fs::rename(&new, &self.file).context("setting the time")
    }
}

/// A small disk, gone when dropped.
struct Mount(PathBuf);

impl Mount {
    /// None where mounting is not allowed.
    fn new(path: PathBuf) -> anyhow::Result<Option<Mount>> {
        std::fs::create_dir_all(&path)?;
        let size = format!("size={DISK_BYTES}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "nephila"]).arg(&path).output()?;
        if !mounted.status.success() {
            let said = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
            println!("no small disk can be mounted here, it needs root: {said}");
            return Ok(None);
        }
        Ok(Some(Mount(path)))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: the crawler may still hold a file when a proof ends with an error.
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}
