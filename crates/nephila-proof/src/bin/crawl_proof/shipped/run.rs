//! The crawler under a clock of its own, which runs faster than ours, and is set forward while the crawl only waits, by
//! its own output.
//!
//! Invariant: the clock is never touched while a request is under way, so that no deadline passes because of a jump.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::PLANTED;
use super::web::Time;
use crate::outage::faketime;

/// Factor by which the clock runs faster than ours. Deadlines of seconds are still tenths of one: a busy machine keeps
/// them.
pub const RATE: u32 = 20;
/// Interval between reads of the crawl's output.
const LOOK: Duration = Duration::from_millis(100);
/// Waits shorter than this pass by themselves.
const WAIT_MIN: Duration = Duration::from_secs(30);
/// The clock is set to this long before the end of a wait.
const BEFORE: Duration = Duration::from_secs(5);
/// After the clock was set, earlier output is ignored for this long; the library reads its file every second.
const SETTLE: Duration = Duration::from_millis(1_500);
/// Timeout of a run, by our own clock.
const RUN_MAX: Duration = Duration::from_secs(240);

/// When the crawl is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Never.
    Never,
    /// When the crawl says that it only waits.
    Waiting,
    /// After this number of requests to its first site.
    Asked(usize),
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: i32,
    /// The output, from its last words back.
    pub said: String,
    /// How often the clock was set forward.
    pub jumps: u32,
}

/// Builds the library that helps the other one (`futex.c`).
pub fn helper(folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, library) = (folder.join("futex.c"), folder.join("futex.so"));
    std::fs::write(&source, include_str!("futex.c"))?;
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let status = command.arg("-ldl").status().context("no C compiler: apt-get install gcc libc6-dev")?;
    ensure!(status.success(), "futex.c does not compile: see above");
    Ok(library)
}

/// A program under such a clock.
pub struct Clock<'a> {
    /// The program.
    pub program: &'a Path,
    /// The library that is loaded before libfaketime.
    pub helper: &'a Path,
    /// The planted bug, if the program is this one.
    pub bug: Option<&'static str>,
    /// A folder of ours.
    pub folder: PathBuf,
    /// The time of its web.
    pub time: Time,
}

impl Clock<'_> {
    /// `before` is the time that the clock gained in earlier runs: the library counts from the start of a program.
    fn set(&self, before: Duration) -> anyhow::Result<()> {
        // Replaced as a whole: the library may read the file at any moment.
        let (file, new) = (self.folder.join("time"), self.folder.join("time.new"));
        std::fs::write(&new, format!("+{} x{RATE}\n", (before + self.time.ahead()).as_secs()))?;
        Ok(std::fs::rename(new, file)?)
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[String], stop: Stop, asked: &dyn Fn() -> usize) -> anyhow::Result<Ended> {
        let library = faketime().context("no libfaketime: apt-get install libfaketime")?;
        let before = self.time.ours() * (RATE - 1);
        self.set(before)?;
        let said = self.folder.join("said.txt");
        let out = File::create(&said)?;
        let mut command = Command::new(self.program);
        if let Some(bug) = self.bug {
            command.env(PLANTED, bug);
        }
        let child = command
            .args(args)
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env("NEPHILA_CONFIG", "/dev/null")
            .env("LD_PRELOAD", format!("{}:{library}", self.helper.display()))
            .env("CRAWL_PROOF_RATE", RATE.to_string())
            .env("FAKETIME_TIMESTAMP_FILE", self.folder.join("time"))
            .env("FAKETIME_CACHE_DURATION", "1")
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let mut running = Running { child, began: Instant::now(), wall: SystemTime::now(), before };
        running.watch(self, &said, stop, asked)
    }
}

struct Running {
    child: Child,
    began: Instant,
    /// The time of day at the start. The library adds to this time.
    wall: SystemTime,
    before: Duration,
}

impl Running {
    fn watch(
        &mut self,
        clock: &Clock<'_>,
        said: &Path,
        mut stop: Stop,
        asked: &dyn Fn() -> usize,
    ) -> anyhow::Result<Ended> {
        let (mut jumps, mut read) = (0, 0);
        let mut deaf_until = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(said)?;
                let code = status.code().with_context(|| format!("{status}: {said}"))?;
                return Ok(Ended { code, said, jumps });
            }
            let text = std::fs::read_to_string(said)?;
            ensure!(self.began.elapsed() < RUN_MAX, "it does not end; it said: {}", last(&text));
            if let Stop::Asked(often) = stop
                && asked() >= often
            {
                self.interrupt()?;
                stop = Stop::Never;
            }
            // Whole lines that came since.
            let end = text.rfind('\n').map_or(0, |at| at + 1);
            let lines = &text[read.min(end)..end];
            read = end;
            let until = if Instant::now() >= deaf_until { waits_until(lines) } else { None };
            if let Some(until) = until {
                match stop {
                    Stop::Waiting => {
                        self.interrupt()?;
                        stop = Stop::Never;
                    }
                    Stop::Never | Stop::Asked(_) => {
                        let now = self.wall + self.began.elapsed() * RATE + self.before + clock.time.ahead();
                        let wait = until.duration_since(now).unwrap_or_default();
                        if wait > WAIT_MIN {
                            clock.time.jump(Duration::from_secs((wait - BEFORE).as_secs()));
                            clock.set(self.before)?;
                            jumps += 1;
                            deaf_until = Instant::now() + SETTLE;
                        }
                    }
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    fn interrupt(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        Ok(rustix::process::kill_process(pid.context("a process id")?, rustix::process::Signal::INT)?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Until when the crawl waits, if there is nothing else to do, by the last line of progress.
fn waits_until(lines: &str) -> Option<SystemTime> {
    let line: Value = lines.lines().rev().find_map(|line| serde_json::from_str(line).ok())?;
    let text = line["waits_for"].as_str()?.strip_prefix("waiting for ")?;
    let date = text.split(" until ").nth(1)?.get(..20)?;
    humantime::parse_rfc3339(date).ok()
}

/// The last words.
pub fn last(text: &str) -> &str {
    const BYTES_MAX: usize = 1_500;
    let mut from = text.len().saturating_sub(BYTES_MAX);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// The closing words: all output that is not progress.
pub fn words(said: &str) -> String {
    let words = said.lines().filter(|line| !line.starts_with('{'));
    words.collect::<Vec<_>>().join("\n")
}

/// The pages that the closing words count.
pub fn pages(words: &str) -> anyhow::Result<u64> {
    let Some(line) = words.lines().find(|line| line.contains(" received")) else {
        bail!("no closing words: {words}")
    };
    let before = line.rsplit_once(" page").map_or("", |(before, _)| before);
    let number: String = before.rsplit(": ").next().unwrap_or_default().split(' ').collect();
    number.parse().with_context(|| format!("no count of pages: {line}"))
}
