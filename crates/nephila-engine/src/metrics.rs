//! Measurements of a running crawl: counters and histograms of the stages behind the frontier.
//!
//! Plain numbers without names of their own; the publisher names them. The frontier counts for itself, in
//! [`Stats`](crate::worker::Stats).
//!
//! Invariants: the memory is constant; labels are from closed sets, never a host or a URL; counters start at zero and
//! only grow.

pub mod feeds;
pub mod politeness;
pub mod stories;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nephila_core::frontier::report::{RobotsAnswer, RobotsReport};
use nephila_core::handler::{Findings, LinkKind};
use nephila_core::histogram::{Buckets, Histogram};
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::Outcome;
use nephila_spider::Timings;
use nephila_store::archive::{Kind, Receipt};

use self::feeds::FeedHealth;
use self::politeness::Politeness;
use self::stories::Stories;

/// A counter for each of a few labels.
#[derive(Debug)]
pub struct Labelled {
    counts: Vec<(&'static str, AtomicU64)>,
}

impl Labelled {
    /// Counters with these labels.
    pub fn new(labels: impl IntoIterator<Item = &'static str>) -> Labelled {
        Labelled { counts: labels.into_iter().map(|label| (label, AtomicU64::default())).collect() }
    }

    /// Adds to the counter with this label.
    pub fn add(&self, label: &str, number: u64) {
        let count = self.counts.iter().find(|(known, _)| *known == label);
        debug_assert!(count.is_some(), "no label {label}");
        if let Some((_, count)) = count {
            count.fetch_add(number, Relaxed);
        }
    }

    /// The counts so far, by label.
    pub fn get(&self) -> Vec<(&'static str, u64)> {
        self.counts.iter().map(|(label, count)| (*label, count.load(Relaxed))).collect()
    }
}

/// The ends of a fetch, in groups.
const FETCHES: [&str; 12] =
    ["2xx", "3xx", "304", "4xx", "429", "5xx", "dns", "connect", "tls", "timeout", "truncated", "other"];
/// The meanings of an answer to a robots.txt request (RFC 9309, 2.3.1).
const ROBOTS: [&str; 4] = ["parsed", "missing", "unreachable", "redirected"];
/// The records of an archive that are counted.
const RECORDS: [&str; 2] = ["response", "revisit"];
/// The label of an entry of a feed, beside the kinds of links.
const FEED_ENTRY: &str = "feed-entry";

/// Durations of the phases of requests. A phase that a request did not need, such as the handshake on a kept connection,
/// is not counted.
#[derive(Debug, Default)]
pub struct Phases([Histogram; PHASES.len()]);

/// The phases of a request, in their order. Names are looked up before a request begins.
pub const PHASES: [&str; 4] = ["connect", "tls", "head", "body"];

impl Phases {
    /// Counts the phases of a request.
    pub fn add(&self, timings: &Timings) {
        let Timings { connect, tls, head, body, .. } = timings;
        for (histogram, took) in self.0.iter().zip([connect, tls, head, body]) {
            let ms = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            ms.into_iter().for_each(|ms| histogram.add(ms));
        }
    }

    /// The phases and their durations so far.
    pub fn get(&self) -> Vec<(&'static str, Buckets)> {
        PHASES.into_iter().zip(self.0.iter().map(Histogram::get)).collect()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Metrics {
    /// Finished tickets for pages, by outcome.
    pub fetches: Labelled,
    /// Time from the request to the last byte.
    pub fetch_took: Histogram,
    /// Time of each phase of a request that it went through.
    pub phases: Phases,
    /// Whether requests keep the promised rests.
    pub politeness: Politeness,
    /// Requests for robots.txt, by result.
    pub robots: Labelled,
    /// Records in the archive, by type.
    pub records: Labelled,
    /// Compressed bytes of these records.
    pub written_bytes: AtomicU64,
    /// Links and entries found, by kind.
    pub discoveries: Labelled,
    /// New stories in feeds.
    pub stories: AtomicU64,
    /// Delays of stories.
    pub story_delay: Stories,
    /// Feeds by health.
    pub feeds: FeedHealth,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let kinds = LinkKind::ALL.iter().map(|kind| kind.name());
        Metrics {
            fetches: Labelled::new(FETCHES),
            fetch_took: Histogram::default(),
            phases: Phases::default(),
            politeness: Politeness::default(),
            robots: Labelled::new(ROBOTS),
            records: Labelled::new(RECORDS),
            written_bytes: AtomicU64::default(),
            discoveries: Labelled::new(kinds.chain([FEED_ENTRY])),
            stories: AtomicU64::default(),
            story_delay: Stories::default(),
            feeds: FeedHealth::default(),
        }
    }
}

impl Metrics {
    /// A ticket for a page ended.
    pub fn fetched(&self, outcome: Outcome) {
        self.fetches.add(group(outcome), 1);
    }

    /// A robots.txt request ended.
    pub fn robots(&self, report: &RobotsReport) {
        let result = match &report.answer {
            RobotsAnswer::Redirect(_) => "redirected",
            RobotsAnswer::Ended(RobotsResult::Status(200..300)) => "parsed",
            RobotsAnswer::Ended(RobotsResult::Status(429 | 500..) | RobotsResult::Unreachable) => {
                "unreachable"
            }
            RobotsAnswer::Ended(_) => "missing",
        };
        self.robots.add(result, 1);
    }

    /// The archive stored an exchange.
    pub fn stored(&self, receipt: &Receipt) {
        let kind = match receipt.kind {
            Kind::Response | Kind::Resource => "response",
            _ => "revisit",
        };
        self.records.add(kind, 1);
        self.written_bytes.fetch_add(receipt.length, Relaxed);
    }

    /// A page was read.
    pub fn read(&self, findings: &Findings) {
        for kind in LinkKind::ALL {
            let found = findings.links.iter().filter(|found| found.kind == *kind).count();
            self.discoveries.add(kind.name(), found as u64);
        }
        if let Some(sitemap) = &findings.sitemap {
            let alternates = sitemap.urls.iter().map(|entry| entry.alternates.len() as u64).sum();
            self.discoveries.add(LinkKind::Listed.name(), sitemap.urls.len() as u64);
            self.discoveries.add(LinkKind::Alternate.name(), alternates);
            self.discoveries.add(LinkKind::Sitemap.name(), sitemap.sitemaps.len() as u64);
        }
    }

    /// A feed with this number of entries was read; some are new stories.
    pub fn polled(&self, entries: usize, stories: usize) {
        self.discoveries.add(FEED_ENTRY, entries as u64);
        self.stories.fetch_add(stories as u64, Relaxed);
    }
}

/// The group of an outcome.
fn group(outcome: Outcome) -> &'static str {
    use Outcome as O;
    match outcome {
        O::Fetched => "2xx",
        O::NotModified => "304",
        O::Redirect | O::MultipleChoices | O::CookieWall => "3xx",
        O::RedirectBadLocation | O::RedirectScheme | O::RedirectLoop | O::RedirectLimit => "3xx",
        O::NotFound | O::Gone | O::Unauthorized | O::PaymentRequired | O::Forbidden => "4xx",
        O::Legal | O::Challenged | O::ClientError | O::Misdirected => "4xx",
        O::RateLimited => "429",
        O::Unavailable | O::ServerError => "5xx",
        O::CutLength | O::CutTime | O::CutDisconnect => "truncated",
        O::WriteTimeout | O::HeadTimeout | O::TotalTimeout => "timeout",
        other => match other.name().split('-').next() {
            Some("dns") => "dns",
            Some("connect") => "connect",
            Some("tls") => "tls",
            _ => "other",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_group_and_every_group_but_the_last_has_its_outcomes() {
        let metrics = Metrics::default();
        Outcome::ALL.iter().for_each(|outcome| metrics.fetched(*outcome));
        let counts = metrics.fetches.get();
        assert!(counts.iter().all(|(_, count)| *count > 0), "{counts:?}");
        assert_eq!(counts.iter().map(|(_, count)| *count as usize).sum::<usize>(), Outcome::ALL.len());
        for (outcome, is) in [
            (Outcome::of_status(204), "2xx"),
            (Outcome::of_status(503), "5xx"),
            (Outcome::of_status(418), "4xx"),
            (Outcome::DnsTimeout, "dns"),
            (Outcome::ConnectTimeout, "connect"),
            (Outcome::HeadTimeout, "timeout"),
            (Outcome::TlsName, "tls"),
            (Outcome::Crashed, "other"),
        ] {
            assert_eq!(group(outcome), is, "{outcome}");
        }
    }

    #[test]
    fn only_the_phases_that_a_request_went_through_are_counted() {
        let ms = |ms| Some(std::time::Duration::from_millis(ms));
        let phases = Phases::default();
        phases.add(&Timings {
            connect: ms(3),
            tls: ms(40),
            head: ms(120),
            body: ms(7),
            ..Timings::default()
        });
        phases.add(&Timings { head: ms(60), body: ms(0), ..Timings::default() });
        let counts = phases.get();
        let numbers: Vec<u64> = counts.iter().map(|(_, buckets)| buckets.counts.iter().sum()).collect();
        assert_eq!(numbers, [1, 1, 2, 2]);
        assert_eq!((counts[2].0, counts[2].1.sum), ("head", 180));
    }
}
