//! Progress of a crawl, and the cause of a wait: one changing line on a terminal, lines at intervals elsewhere.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nephila_core::frontier::outlook::Outlook;
use nephila_core::job::Limits;
use serde::Serialize;

use crate::cli::crawl;
use nephila_engine::crawl::ending::End;
use nephila_engine::crawl::held::{Facts, limited_by};
use nephila_engine::crawl::shared::Shared;
use nephila_engine::crawl::work;
use nephila_engine::human::{count, size};
use nephila_engine::service::{Part, Service};
use nephila_engine::worker::Stats;

/// Interval of plain and JSON lines.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The rate is measured over this time.
const RATE_OVER: Duration = Duration::from_secs(10);
/// Width of a terminal of unknown width.
const WIDTH: usize = 100;

/// Shows progress.
#[derive(Debug)]
pub(crate) struct Progress {
    how: How,
    said: Option<Instant>,
    /// Samples: time and number of pages.
    history: VecDeque<(Instant, u64)>,
    shown: bool,
    service: Service,
    /// The loop of the crawl and the thread that answers it.
    part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Bar,
    Plain,
    Json,
    Quiet,
}

/// A snapshot of a crawl.
#[derive(Debug, Serialize)]
struct Look {
    seconds: u64,
    done: u64,
    ok: u64,
    failed: u64,
    queued: u64,
    later: u64,
    parked: u64,
    bytes: u64,
    pages_per_second: f64,
    open: usize,
    waits_for: String,
}

impl Progress {
    pub(crate) fn new(how: crawl::Progress, quiet: bool, service: Service) -> Progress {
        let how = match how {
            _ if quiet => How::Quiet,
            crawl::Progress::Auto if std::io::stderr().is_terminal() => How::Bar,
            crawl::Progress::Auto | crawl::Progress::Plain => How::Plain,
            crawl::Progress::Bar => How::Bar,
            crawl::Progress::Json => How::Json,
            crawl::Progress::None => How::Quiet,
        };
        Progress { how, said: None, history: VecDeque::new(), shown: false, part: service.part(), service }
    }

    /// The sign of life of the crawl, for the time before its loop runs.
    pub(crate) fn part(&self) -> &Part {
        &self.part
    }
}

impl work::Progress for Progress {
    /// Called at every check of the loop, with what the frontier's thread has answered: both live.
    fn show(&mut self, shared: &Shared, outlook: &Outlook, stats: &Stats, limits: &Limits) {
        self.part.alive();
        let now = Instant::now();
        let done = shared.counts.all();
        self.history.push_back((now, done));
        while self.history.len() > 2 && now.duration_since(self.history[0].0) > RATE_OVER {
            self.history.pop_front();
        }
        let (since, before) = self.history[0];
        let seconds = now.duration_since(since).as_secs_f64();
        let rate = if seconds > 0.0 { (done - before) as f64 / seconds } else { 0.0 };
        let due = self.how == How::Bar || self.said.is_none_or(|said| said.elapsed() >= LINE_EVERY);
        if self.how == How::Quiet || !due {
            return;
        }
        self.said = Some(now);
        let look = Look {
            seconds: shared.counts.began.elapsed().as_secs(),
            done,
            ok: shared.counts.ok.load(Ordering::Relaxed),
            failed: shared.counts.failed.load(Ordering::Relaxed),
            queued: stats.totals.waiting,
            later: stats.totals.later,
            parked: stats.totals.parked,
            bytes: shared.counts.bytes.load(Ordering::Relaxed),
            pages_per_second: (rate * 10.0).round() / 10.0,
            open: stats.gauges.tickets_open,
            waits_for: limited_by(&Facts::of(shared, outlook, stats)).detail,
        };
        match self.how {
            How::Json => {
                let mut line = serde_json::to_vec(&look).expect("strings and numbers can be written");
                line.push(b'\n');
                write(&line);
            }
            How::Plain => write(format!("{}\n", look.text(limits)).as_bytes()),
            How::Bar => {
                let width = terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0));
                let line: String = look.text(limits).chars().take(width.saturating_sub(1)).collect();
                write(format!("\r\x1b[K{line}").as_bytes());
                self.shown = true;
            }
            How::Quiet => {}
        }
    }

    /// Prints a message for the user at once.
    fn note(&mut self, text: &str) {
        if self.how != How::Quiet {
            self.clear();
            write(format!("nephila: {text}\n").as_bytes());
        }
    }

    /// Prints that no more fetches begin.
    fn ending(&mut self, end: &End, open: usize) {
        self.service.stopping();
        self.clear();
        if matches!(end, End::Stopped) && self.how != How::Quiet {
            write(
                format!("nephila: finishing {open} open fetches; Ctrl-C once more stops at once\n")
                    .as_bytes(),
            );
        }
    }

    /// Clears the changing line.
    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            write(b"\r\x1b[K");
        }
    }
}

impl Look {
    fn text(&self, limits: &Limits) -> String {
        let mut line = format!("  {} done", count(self.done));
        if limits.pages_max > 0 {
            line += &format!(" of {}", count(limits.pages_max));
        }
        line += &format!("   {} queued", count(self.queued));
        if self.later > 0 {
            line += &format!("   {} later", count(self.later));
        }
        line += &format!(
            "   {} failed   {:.1} pages/s   {}   {}",
            count(self.failed),
            self.pages_per_second,
            size(self.bytes),
            self.waits_for
        );
        if self.pages_per_second > 0.0 && self.queued > 0 {
            let left = Duration::from_secs((self.queued as f64 / self.pages_per_second) as u64);
            line += &format!("   eta {}", humantime::format_duration(rough(left)));
        }
        line
    }
}

/// Rounds a time: seconds matter for minutes, not for days.
fn rough(time: Duration) -> Duration {
    let seconds = time.as_secs();
    Duration::from_secs(match seconds {
        0..=599 => seconds,
        600..=86_399 => seconds / 60 * 60,
        _ => seconds / 3_600 * 3_600,
    })
}

fn write(bytes: &[u8]) {
    let mut out = std::io::stderr().lock();
    // Standard error may be closed.
    _ = out.write_all(bytes).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_matter_for_minutes_and_not_for_days() {
        assert_eq!(rough(Duration::from_secs(7_265)), Duration::from_secs(7_260));
    }
}
