//! `cargo xtask crash`: kills a writer of the archive at random moments and checks that nothing acknowledged is lost.
//!
//! The writer (`crates/nephila-store/examples/write_forever.rs`) prints every acknowledged page. The command kills the
//! writer with SIGKILL after a random time, a fifth of the times during the recovery from the last kill. After every
//! restart the pages acknowledged by the run before are looked up; in the end each archive is closed and checked
//! strictly: every acknowledged page is there once, with its digest, and no torn record is left.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::programs::Programs;

/// A new archive after this many kills, so that opening stays quick.
const KILLS_PER_ARCHIVE: u32 = 25;
/// A run that is not killed early lives at most this long after the archive was opened.
const LIFE_MAX: Duration = Duration::from_millis(120);
/// Moment of an early kill, counted from the start of the process.
const EARLY_MAX: Duration = Duration::from_millis(20);
/// One run in this number is killed early.
const EARLY_EVERY: u64 = 5;

/// Number of kills.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of times the writer is killed.
    #[arg(long, default_value_t = 500)]
    kills: u32,
    /// Seed of the random moments; the moment of a kill still depends on the machine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the archives; a temporary folder if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let programs = Programs::build()?;
    let writer = programs.path("write_forever")?;
    let temporary = tempfile::tempdir()?;
    let base = args.dir.unwrap_or_else(|| temporary.path().to_owned());
    let begun = Instant::now();
    let mut random = Random(args.seed.max(1));
    let mut total = Figures::default();
    let mut first = 0;
    let mut done = 0;
    while done < args.kills {
        let dir = base.join(format!("archive-{:04}", done / KILLS_PER_ARCHIVE));
        let kills = KILLS_PER_ARCHIVE.min(args.kills - done);
        one_archive(writer, &dir, kills, &mut random, &mut first, &mut total)
            .with_context(|| format!("seed {}, archive {}", args.seed, dir.display()))?;
        done += kills;
        if base == temporary.path() {
            std::fs::remove_dir_all(&dir)?;
        }
    }
    println!(
        "crash: {} kills ({} before the archive was open), {} acknowledged pages checked, 0 lost, 0 doubled, {:.0} s",
        total.kills,
        total.early,
        total.pages,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

#[derive(Default)]
struct Figures {
    kills: u32,
    early: u32,
    pages: usize,
}

fn one_archive(
    writer: &Path,
    dir: &Path,
    kills: u32,
    random: &mut Random,
    first: &mut u64,
    total: &mut Figures,
) -> anyhow::Result<()> {
    let mut ledger = String::new();
    // Pages that were acknowledged and not yet looked up.
    let mut unchecked = String::new();
    for _ in 0..kills {
        let mut child = Killed(
            Command::new(writer)
                .args(["write".as_ref(), dir.as_os_str(), first.to_string().as_ref()])
                .stdout(Stdio::piped())
                .spawn()?,
        );
        // Numbers are never used twice, so a page can only be there twice if the archive doubled the page.
        *first += 1_000_000;
        total.kills += 1;
        let mut output = BufReader::new(child.0.stdout.take().context("stdout")?);
        let mut said = String::new();
        if random.below(EARLY_EVERY) == 0 {
            std::thread::sleep(random.duration(EARLY_MAX));
            child.0.kill()?;
        } else {
            output.read_line(&mut said)?;
            ensure!(said == "open\n", "the writer did not open the archive, it said {said:?}");
            let killing = Instant::now() + random.duration(LIFE_MAX);
            // Pages acknowledged by earlier runs have survived the kill and the recovery.
            lookup(writer, "check", dir, &std::mem::take(&mut unchecked))?;
            while Instant::now() < killing {
                ensure!(output.read_line(&mut said)? > 0, "the writer ended by itself");
            }
            child.0.kill()?;
        }
        child.0.wait()?;
        output.read_to_string(&mut said)?;
        // Half a line was not said.
        said.truncate(said.rfind('\n').map_or(0, |end| end + 1));
        match said.strip_prefix("open\n") {
            Some(lines) => {
                unchecked.push_str(lines);
                ledger.push_str(lines);
            }
            None => total.early += 1,
        }
    }
    total.pages += ledger.lines().count();
    lookup(writer, "finish", dir, &ledger)
}

fn lookup(writer: &Path, action: &str, dir: &Path, ledger: &str) -> anyhow::Result<()> {
    if ledger.is_empty() && action == "check" {
        return Ok(());
    }
    let mut child =
        Killed(Command::new(writer).args([action.as_ref(), dir.as_os_str()]).stdin(Stdio::piped()).spawn()?);
    child.0.stdin.take().context("stdin")?.write_all(ledger.as_bytes())?;
    ensure!(child.0.wait()?.success(), "{action}: what was acknowledged is not all there");
    Ok(())
}

/// A child that does not outlive us.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A small generator (xorshift): good enough for moments.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    fn duration(&mut self, max: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(max.as_micros()).unwrap_or(u64::MAX)))
    }
}
