//! Counters of a run.
//!
//! Plain numbers of this process. What a crawl did in all its runs is in the totals of the frontier.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use nephila_core::handler::ReadAs;
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Class;

use crate::log::Counted;
use crate::metrics::Metrics;

/// Counters of this run.
#[derive(Debug)]
pub struct Counts {
    /// Start time of this run.
    pub began: Instant,
    /// Requests that ended with an answer to keep, except robots.txt and redirects.
    pub ok: AtomicU64,
    /// Of these, sitemaps and feeds.
    pub lists: AtomicU64,
    /// Of these, neither pages nor lists: images, styles, scripts.
    pub files: AtomicU64,
    /// Answers whose body was cut at a size limit.
    pub cut: AtomicU64,
    /// Number of page requests that ended with a redirect.
    pub redirects: AtomicU64,
    /// Number of page requests after which the server said that there is no page.
    pub gone: AtomicU64,
    /// Number of page fetches that the site, the operator or our own rules forbid.
    pub refused: AtomicU64,
    /// Failed fetches, perhaps to be retried.
    pub failed: AtomicU64,
    /// Number of robots.txt requests that were made, with any outcome.
    pub robots: AtomicU64,
    /// Number of bytes received by page requests.
    pub bytes: AtomicU64,
    /// Number of pages that the archive stored as a reference to an earlier capture, without the body.
    pub revisits: AtomicU64,
    /// Size in bytes of the bodies that the archive did not store again.
    pub revisit_bytes: AtomicU64,
    /// Number of found links in scope.
    pub(crate) links_wanted: AtomicU64,
    /// Number of found links that are out of scope.
    pub links_out: AtomicU64,
    /// Number of found links that were rejected as traps.
    pub links_traps: AtomicU64,
    /// Captures that were read again for a wider scope, and new URLs in them.
    pub reread: AtomicU64,
    /// Number of new URLs in captures that were read again.
    pub reread_found: AtomicU64,
    /// Whether the archive waits for room on the disk.
    pub disk_full: AtomicBool,
    /// Number of pages that wait for the object store.
    pub objects_away: AtomicUsize,
    /// Whether the free space is below `crawl.disk_free_min`.
    pub disk_low: AtomicBool,
    /// Whether a limit of the job is reached while the process serves queries: nothing more is fetched.
    pub at_limit: AtomicBool,
    /// Whether the folder's own job has work left, at the last look.
    pub own_job_busy: AtomicBool,
    /// Whether the crawl is ending: no more fetches begin.
    pub stopping: AtomicBool,
    /// Measurements of the stages.
    pub metrics: Metrics,
}

impl Default for Counts {
    fn default() -> Self {
        Self::new()
    }
}

impl Counts {
    /// Sets all counters to zero and the start time to now.
    pub fn new() -> Counts {
        let zero = AtomicU64::default;
        Counts {
            began: Instant::now(),
            ok: zero(),
            lists: zero(),
            files: zero(),
            cut: zero(),
            redirects: zero(),
            gone: zero(),
            refused: zero(),
            failed: zero(),
            robots: zero(),
            bytes: zero(),
            revisits: zero(),
            revisit_bytes: zero(),
            links_wanted: zero(),
            links_out: zero(),
            links_traps: zero(),
            reread: zero(),
            reread_found: zero(),
            disk_full: AtomicBool::new(false),
            objects_away: AtomicUsize::new(0),
            disk_low: AtomicBool::new(false),
            at_limit: AtomicBool::new(false),
            own_job_busy: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            metrics: Metrics::default(),
        }
    }

    /// Counts the end of a page's fetch.
    pub fn ended(&self, outcome: Outcome, bytes: u64) {
        let which = match outcome.class() {
            Class::Ok if outcome == Outcome::Redirect => &self.redirects,
            Class::Ok => &self.ok,
            Class::Gone => &self.gone,
            Class::Refused => &self.refused,
            Class::Retry | Class::Broken => &self.failed,
        };
        which.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.metrics.fetched(outcome);
    }

    /// Counts an answer to keep, by its kind.
    pub fn kept(&self, outcome: Outcome, read_as: ReadAs, mime: &str) {
        if outcome == Outcome::CutLength {
            self.cut.fetch_add(1, Ordering::Relaxed);
        }
        if outcome.class() != Class::Ok || outcome == Outcome::Redirect {
            return;
        }
        match Counted::of(read_as, mime) {
            Counted::Page => {}
            Counted::List => _ = self.lists.fetch_add(1, Ordering::Relaxed),
            Counted::File => _ = self.files.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Page requests that any server answered, well or not: a crawl that gets answers does not only wait.
    pub fn answers(&self) -> u64 {
        let answered = [&self.ok, &self.redirects, &self.gone, &self.refused];
        answered.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Pages fetched.
    pub fn pages(&self) -> u64 {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        get(&self.ok).saturating_sub(get(&self.lists) + get(&self.files))
    }

    /// Page fetches that ended, with any outcome.
    pub fn all(&self) -> u64 {
        [&self.ok, &self.redirects, &self.gone, &self.refused, &self.failed]
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}
