//! The judges together: each finding is said once, and the proof fails at its end if there was any.

use std::time::Duration;

use anyhow::bail;
use nephila_testweb::check::{self, Politeness, Report};
use nephila_testweb::journal::Log;
use nephila_testweb::model::{Truth, World};

use crate::crawler::Rests;

/// Violations of one kind that are shown.
const SHOWN_MAX: usize = 8;
/// A busy server may be this late to see that a connection was closed which lay idle, or whose answer was given up.
const CLOSING_GRACE: Duration = Duration::from_millis(200);

/// The findings so far.
#[derive(Debug, Default)]
pub struct Verdict {
    faults: Vec<String>,
    is_quiet: bool,
}

impl Verdict {
    /// One that only counts.
    pub fn quiet() -> Verdict {
        Verdict { is_quiet: true, ..Verdict::default() }
    }

    /// Reports a fault unless `holds`.
    pub fn expect(&mut self, holds: bool, says: impl FnOnce() -> String) {
        if !holds {
            self.fault(says());
        }
    }

    /// Reports a fault.
    pub fn fault(&mut self, says: String) {
        if !self.is_quiet {
            eprintln!("FAILED: {says}");
        }
        self.faults.push(says);
    }

    /// The report of a judge.
    pub fn report(&mut self, name: &str, report: &Report) -> u64 {
        if !report.is_clean() {
            eprintln!("FAILED: {name}: {} judged, {} violations", report.judged, report.total);
            for violation in report.violations.iter().take(SHOWN_MAX) {
                let at = violation.at_us as f64 / 1e6;
                eprintln!("  {at:.6} s {}: {:?}", violation.subject, violation.fault);
            }
            self.faults.push(format!("{name}: {} violations of {} judged", report.total, report.judged));
        }
        report.judged
    }

    /// The number of faults.
    pub fn faults(&self) -> usize {
        self.faults.len()
    }

    /// The line of figures, or an error.
    pub fn end(self, figures: &str) -> anyhow::Result<()> {
        println!("{figures}");
        if !self.faults.is_empty() {
            bail!("{} things do not hold: {}", self.faults.len(), self.faults.join("; "));
        }
        Ok(())
    }
}

/// Requests and connections at once, and rests, by host and by address, robots.txt counted like any other request.
pub fn politeness(rests: Rests) -> Politeness {
    Politeness {
        host_rest: rests.host,
        address_rest: rests.slot,
        host_requests_max: 1,
        address_requests_max: 1,
        host_connections_max: 1,
        address_connections_max: usize::MAX,
        // The server records an end before the last byte is handed out and a start after the head is read, so no rest
        // looks shorter than in reality; but the frontier counts whole milliseconds.
        tolerance: Duration::from_millis(1),
        closing_grace: CLOSING_GRACE,
        ..Politeness::default()
    }
}

/// The requirements on every crawl: polite, and obedient.
pub fn polite(verdict: &mut Verdict, world: &World, log: &Log, rests: Rests) {
    verdict.report("politeness", &politeness(rests).check(log));
    obedient(verdict, world, log);
}

/// No request that the robots.txt in force forbids, none sooner than its crawl delay, none but GET.
pub fn obedient(verdict: &mut Verdict, world: &World, log: &Log) {
    let agent = world.settings().agent.as_str();
    verdict.report("robots.txt", &check::Robots::of_world(world, agent).check(log));
    let delays =
        check::CrawlDelays { closing_grace: CLOSING_GRACE, ..check::CrawlDelays::of_world(world, agent) };
    let delays = delays.check(log);
    // A small web may have no host that asks for a delay.
    if delays.judged > 0 {
        verdict.report("Crawl-delay", &delays);
    }
    let others = log.requests.iter().filter(|request| &*request.method != "GET").count();
    verdict.expect(others == 0, || format!("{others} requests were not GET"));
}

/// All of the truth, and nothing else.
pub fn complete(verdict: &mut Verdict, world: &World, truth: &Truth, log: &Log) -> u64 {
    verdict.report("completeness", &check::check_complete(world, truth, log))
}
