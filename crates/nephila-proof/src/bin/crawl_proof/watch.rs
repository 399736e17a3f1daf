//! Resources of a running crawl: memory, files and threads from the system, tasks and queues from its control socket.
//!
//! [`Watch`] takes samples while a crawl runs; [`Watch::grows`] judges whether something grew. The first third of the
//! time is warming up: caches fill, the state reaches its size. Of the rest, the peak of the last third may lie above
//! the peak of the middle third by a tolerance and no more; unless the peak was as high before, since a shared machine
//! may be slow in the middle, and a slow crawl takes less.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::crawler::Run;

/// Timeout of the crawl's answer; without an answer a sample lacks its numbers.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum number of samples that are kept.
const SAMPLES_MAX: usize = 1_000_000;

/// One look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Seconds since the crawl began.
    pub at: f64,
    /// Resident memory, in kB.
    pub memory_kb: u64,
    /// Open files.
    pub files: u64,
    /// Threads.
    pub threads: u64,
    /// The crawl's own figures; nothing if no answer came in time.
    pub said: Option<Said>,
}

/// A crawl's figures about itself.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Said {
    /// Outcomes taken in.
    pub ended: u64,
    /// Tickets open.
    pub tickets_open: u64,
    /// Hosts loaded in memory (the workbench).
    pub hosts_active: u64,
    /// Offers that wait for sifting.
    pub offers_waiting: u64,
    /// URLs in queues.
    pub urls_waiting: u64,
    /// URLs that wait for a time of their own.
    pub urls_later: u64,
    /// URLs that are parked.
    pub urls_parked: u64,
    /// Tasks alive.
    pub tasks: u64,
    /// Bytes of the frontier's journals.
    pub journal_bytes: u64,
}

impl Said {
    /// URLs that the frontier knows, roughly: URLs that ended and URLs that wait.
    pub fn known(&self) -> u64 {
        self.ended + self.urls_waiting + self.urls_later + self.urls_parked
    }
}

/// How much more something may be in the last third than in the middle one.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// As a share of the earlier value.
    pub share: f64,
    /// And this much in any case.
    pub more: f64,
}

/// Takes samples of one crawl.
pub struct Watch {
    began: Instant,
    socket: PathBuf,
    samples: Vec<Sample>,
}

impl Watch {
    /// Of a crawl in this folder that begins now.
    pub fn new(dir: &Path) -> Watch {
        Watch { began: Instant::now(), socket: dir.join("state/control"), samples: Vec::new() }
    }

    /// One whose samples are given.
    pub fn of(samples: Vec<Sample>) -> Watch {
        Watch { samples, ..Watch::new(Path::new("")) }
    }

    /// Looks once.
    pub fn look(&mut self, run: &Run) -> Option<Sample> {
        let folder = PathBuf::from(format!("/proc/{}", run.id()));
        let status = std::fs::read_to_string(folder.join("status")).ok()?;
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        let sample = Sample {
            at: self.began.elapsed().as_secs_f64(),
            memory_kb: number("VmRSS")?,
            files: std::fs::read_dir(folder.join("fd")).ok()?.count() as u64,
            threads: number("Threads")?,
            said: said(&self.socket),
        };
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(sample);
        }
        Some(sample)
    }

    /// All samples.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The highest of a third of the time; nothing where there was no sample.
    fn peak(&self, third: usize, of: &impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let end = self.samples.last()?.at;
        let (from, to) = (end * third as f64 / 3.0, end * (third + 1) as f64 / 3.0);
        let inside = self.samples.iter().filter(|sample| sample.at > from && sample.at <= to);
        inside.filter_map(of).reduce(f64::max)
    }

    /// The highest of the middle and of the last third.
    pub fn peaks(&self, of: impl Fn(&Sample) -> Option<f64>) -> Option<(f64, f64)> {
        Some((self.peak(1, &of)?, self.peak(2, &of)?))
    }

    /// Both peaks when something grew by more than the tolerance, or has no samples to tell.
    pub fn grows(
        &self,
        of: impl Fn(&Sample) -> Option<f64>,
        tolerance: Tolerance,
    ) -> Result<(f64, f64), Option<(f64, f64)>> {
        let first = self.peak(0, &of).unwrap_or(0.0);
        let (middle, last) = self.peaks(of).ok_or(None)?;
        match last <= first.max(middle * (1.0 + tolerance.share) + tolerance.more) {
            true => Ok((middle, last)),
            false => Err(Some((middle, last))),
        }
    }

    /// The slope by least squares after the first third, per hour.
    pub fn slope(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        let from = self.samples.last().map_or(0.0, |sample| sample.at / 3.0);
        let points: Vec<(f64, f64)> =
            self.samples.iter().filter(|sample| sample.at > from).map(|s| (s.at / 3_600.0, of(s))).collect();
        let n = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / n, sum.1 + point.1 / n));
        let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let under: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
        if under > 0.0 { over / under } else { 0.0 }
    }

    /// Writes the samples down, a line each.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut text = String::from(
            "seconds\tmemory_kb\tfiles\tthreads\ttasks\ttickets\thosts\toffers\twaiting\tlater\tparked\tended\tjournal\n",
        );
        for sample in &self.samples {
            let said = sample.said.unwrap_or_default();
            let numbers = [
                sample.memory_kb,
                sample.files,
                sample.threads,
                said.tasks,
                said.tickets_open,
                said.hosts_active,
                said.offers_waiting,
                said.urls_waiting,
                said.urls_later,
                said.urls_parked,
                said.ended,
                said.journal_bytes,
            ];
            text += &format!("{:.1}", sample.at);
            numbers.iter().for_each(|number| text += &format!("\t{number}"));
            text.push('\n');
        }
        std::fs::write(path, text)
    }
}

/// Asks the crawl over its socket.
fn said(socket: &Path) -> Option<Said> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    stream.write_all(b"GET /api/v1/stats HTTP/1.1\r\nHost: control\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}
