//! The object store away: in the middle of a crawl nothing can be written there or read from there, for a while.
//!
//! Invariants: the crawl goes on, since its log and its disks are enough; memory stays bounded; `cluster status`
//! reports the fault during the outage, and not afterwards; and in the end everything is stored, with nothing lost.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::cluster;
use crate::crawler::Place;
use crate::engine::{LOOK, expect_bounded};
use crate::herd::{Herd, Size};
use crate::judge::{self, Verdict};
use crate::site::Site;
use crate::tables::{self, Judge};

/// The alarm is there, or gone again, within this time.
const ALARM_MAX: Duration = Duration::from_secs(120);
/// The text of the alarm.
const ALARM: &str = "could not be stored";
/// A crawl lasts this much longer than the outage, in seconds.
const LONGER: u64 = 30;

/// Sizes of the proof.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: Size,
    /// Number of nodes.
    #[arg(long, default_value_t = 2)]
    nodes: usize,
    /// How long the object store is away.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Time without a request after which the crawl counts as done, in seconds.
    #[arg(long, default_value_t = 30)]
    quiet: u64,
    #[command(flatten)]
    judge: Judge,
}

/// Runs the proof.
pub fn run(args: &Args, place: &Place) -> anyhow::Result<()> {
    let began = Instant::now();
    let size = &args.size;
    let folder = place.folder("objects-away")?;
    // As many pages as its hosts give away in that time.
    let a_second = u64::from(size.hosts) * 1_000 / size.host_delay_ms.max(1);
    let site = Site::start(size.even_web(a_second * (args.seconds + LONGER)), &folder)?;
    let wanted = site.all_homes(&folder)?;
    let (objects, away) = (folder.join("objects"), folder.join("objects-kept"));
    let mut herd = Herd::found(size, place, &folder, &site, &wanted.seeds, "any")?;
    herd.asks.set(&format!("cluster.objects=\"file://{}\"", objects.display()));
    herd.asks.set("cluster.snapshot_every=\"4s\"");
    herd.asks.set("cluster.archive_upload=\"closed\"");
    herd.asks.set("store.bytes_max=1000000");
    args.judge.settings().iter().for_each(|setting| herd.asks.set(setting));
    herd.join(args.nodes)?;
    herd.settle()?;
    herd.until_requests(size.hosts as usize * 3)?;
    let end = Instant::now() + ALARM_MAX;
    while !objects.exists() {
        ensure!(Instant::now() < end, "nothing was stored within {} s", ALARM_MAX.as_secs());
        std::thread::sleep(LOOK);
    }
    let mut verdict = Verdict::default();

    // A file in the place of the folder: no user, not even root, can write below.
    std::fs::rename(&objects, &away)?;
    std::fs::write(&objects, b"")?;
    let (gone, before, memory_before) = (Instant::now(), herd.journal.requests(), herd.memory());
    let noticed = until_alarm(&mut herd, true)?;
    let mut memory_away = memory_before;
    while gone.elapsed() < Duration::from_secs(args.seconds) {
        herd.expect_alive()?;
        std::thread::sleep(LOOK);
        memory_away = memory_away.max(herd.memory());
    }
    let meanwhile = herd.journal.requests() - before;
    std::fs::remove_file(&objects)?;
    std::fs::rename(&away, &objects)?;
    let well = until_alarm(&mut herd, false)?;
    herd.until_quiet(Duration::from_secs(args.quiet))?;
    let (dirs, running) = (herd.dirs(), herd.running());
    herd.leave(running)?;

    let files = cluster::stored(&mut verdict, size.partitions, &objects, &dirs)?;
    verdict.expect(meanwhile > 0, || "nothing was asked for meanwhile".to_owned());
    expect_bounded(&mut verdict, "the object store was", memory_before, memory_away);
    let world = site.web().world().clone();
    let log = site.stop();
    let places = judge::complete(&mut verdict, &world, &wanted.truth, &log);
    let repeats = cluster::repeats(&mut verdict, &log, &[]);
    if args.judge.is_wanted() {
        let dir = folder.join("judged");
        tables::gather(&objects, &dir)?;
        let said = args.judge.run(&dir, &world, &wanted.truth)?;
        eprintln!("objects: tables: {}", said.unwrap_or_default());
    }
    verdict.end(&format!(
        "objects: away for {} s; `cluster status` said so after {:.1} s and stopped saying it {:.1} s after; {meanwhile} \
         requests meanwhile; {:.0} MB before, {:.0} MB meanwhile; {places} places as the truth says, {} requests, {repeats} \
         repeated, {files} archive files stored as they are; {:.0} s in all",
        args.seconds,
        noticed.as_secs_f64(),
        well.as_secs_f64(),
        memory_before as f64 / 1024.0,
        memory_away as f64 / 1024.0,
        log.requests.len(),
        began.elapsed().as_secs_f64()
    ))
}

/// Waits until a status request shows the alarm, or no longer shows the alarm; returns how long that took.
fn until_alarm(herd: &mut Herd, is_told: bool) -> anyhow::Result<Duration> {
    let began = Instant::now();
    loop {
        let (_, said) = herd.status()?;
        if said.contains(ALARM) == is_told {
            return Ok(began.elapsed());
        }
        herd.expect_alive()?;
        ensure!(began.elapsed() < ALARM_MAX, "`cluster status` after {} s: {said}", ALARM_MAX.as_secs());
        std::thread::sleep(LOOK);
    }
}
