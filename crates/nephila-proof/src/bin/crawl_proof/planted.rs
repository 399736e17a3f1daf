//! Judges that cannot fail prove nothing: each judge is shown a violation that must be noticed.

use std::time::Duration;

use nephila_testweb::check::{Repeats, check_complete};
use nephila_testweb::journal::{Event, Log};

use crate::archive::{self, Copies};
use crate::crawler::{Crawler, Place, Rests};
use crate::judge::{self, Verdict};
use crate::site::{self, Site};
use crate::watch::{Sample, Tolerance, Watch};

/// Each crawl has this long.
const LIMIT: Duration = Duration::from_secs(300);
/// The rests to judge by where none are set.
const WANTED: Rests = Rests { host: Duration::from_millis(20), slot: Duration::from_millis(5) };

/// Runs the proof.
pub fn run(place: &Place) -> anyhow::Result<()> {
    let mut missed = Verdict::default();
    let mut caught = 0;
    let mut expect = |name: &str, noticed: bool| {
        caught += u32::from(noticed);
        missed.expect(noticed, || format!("nobody noticed {name}"));
    };
    // A crawl without rests.
    let folder = place.folder("planted")?;
    let site = Site::start(site::mixed(1, 20, 600)?, &folder)?;
    let wanted = site.most_domains(&folder)?;
    let none = Rests { host: Duration::ZERO, slot: Duration::ZERO };
    let mut crawler = Crawler::new(place, &folder, &site, &wanted.seeds, "domain", none);
    crawler.set("frontier.slot_connections=4");
    crawler.finish(LIMIT)?;
    let world = site.web().world().clone();
    let log = site.stop();
    let rests = judge::politeness(WANTED).check(&log);
    expect("a crawl without rests", rests.total > 0 && rests.judged > 0);
    expect("the truth itself", check_complete(&world, &wanted.truth, &log).is_clean());

    // A page that was not fetched, and one that was fetched twice.
    let pages = |log: &Log| log.requests.iter().filter(|request| request.path.starts_with("/p/")).count();
    let last = log
        .requests
        .iter()
        .rposition(|request| request.path.starts_with("/p/") && request.status == 200 && request.is_complete);
    let last = last.expect("some page was fetched");
    let without = |log: &Log| {
        let mut requests = log.requests.clone();
        let gone = requests.remove(last);
        requests.retain(|request| (&request.host, &request.path) != (&gone.host, &gone.path));
        Log::new(requests.into_iter().map(Event::Request), 0)
    };
    let short = without(&log);
    expect(
        "a page left out",
        pages(&short) < pages(&log) && !check_complete(&world, &wanted.truth, &short).is_clean(),
    );
    let twice = Log::new(log.requests.iter().chain([&log.requests[last]]).cloned().map(Event::Request), 0);
    expect("a page fetched twice", !Repeats::default().check(&twice).is_clean());

    // A record that is gone from the archive.
    let check = |sample| -> anyhow::Result<usize> {
        let mut quiet = Verdict::quiet();
        archive::check(&mut quiet, &crawler, &world, &wanted.truth, &log, Copies::Once, sample)?;
        Ok(quiet.faults())
    };
    expect("a whole archive", check(usize::MAX)? == 0);
    archive::remove_record(crawler.dir())?;
    expect("a record that is gone", check(usize::MAX)? >= 2);

    // Memory that leaks, and memory that goes up and down.
    let soaked = |memory_kb: &dyn Fn(u64) -> u64| {
        let sample = |at: u64| Sample { at: at as f64, memory_kb: memory_kb(at), ..Sample::default() };
        let tolerance = Tolerance { share: 0.1, more: 1_000.0 };
        Watch::of((0..600).map(sample).collect()).grows(|sample| Some(sample.memory_kb as f64), tolerance)
    };
    expect("memory that stays", soaked(&|at| 100_000 + at * 7_919 % 20_000).is_ok());
    expect("memory that leaks", soaked(&|at| 100_000 + at * 100).is_err());
    missed.end(&format!("planted: {caught} of 8 judged as they must be"))
}
