//! Which alerts fire, looked at twice a second, and which of them nobody expects.
//!
//! Invariants: an alert that fires without being expected is noted once each time it begins; the thread ends with the value.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::prometheus::{Named, Prometheus};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(500);

/// An alert that may fire, and the node that it must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) alert: &'static str,
    /// None: any node, or none.
    pub(super) node: Option<&'static str>,
}

impl Expected {
    fn is(&self, named: &Named) -> bool {
        self.alert == named.0 && (self.node.is_none() || self.node == named.1.as_deref())
    }
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    firing: BTreeSet<Named>,
    expected: Vec<Expected>,
    /// What began to fire and was not expected.
    unexpected: Vec<String>,
    /// Looks that were answered.
    looks: u64,
}

impl Seen {
    fn take(&mut self, firing: BTreeSet<Named>, second: u64) {
        for named in firing.difference(&self.firing) {
            if !self.expected.iter().any(|expected| expected.is(named)) {
                let node = named.1.as_deref().unwrap_or("the cluster");
                self.unexpected.push(format!("{} of {node} fires in second {second}", named.0));
            }
        }
        self.firing = firing;
        self.looks += 1;
    }
}

/// See the module.
pub(super) struct Watch {
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watch {
    /// Looks until dropped.
    pub(super) fn start(prometheus: Arc<Prometheus>) -> Watch {
        let (seen, is_over) = (Arc::<Mutex<Seen>>::default(), Arc::new(AtomicBool::new(false)));
        let (all, end, began) = (seen.clone(), is_over.clone(), Instant::now());
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                if let Ok(firing) = prometheus.firing() {
                    lock(&all).take(firing, began.elapsed().as_secs());
                }
                std::thread::sleep(LOOK);
            }
        });
        Watch { seen, is_over, thread: Some(thread) }
    }

    /// From now on these may fire.
    pub(super) fn expect(&self, expected: &[Expected]) {
        lock(&self.seen).expected.extend(expected);
    }

    /// From now on these may not begin to fire.
    pub(super) fn expect_no_more(&self, expected: &[Expected]) {
        let mut seen = lock(&self.seen);
        for one in expected {
            if let Some(at) = seen.expected.iter().position(|known| known == one) {
                seen.expected.swap_remove(at);
            }
        }
    }

    /// Whether this alert fires.
    pub(super) fn fires(&self, expected: Expected) -> bool {
        lock(&self.seen).firing.iter().any(|named| expected.is(named))
    }

    /// Number of looks so far.
    pub(super) fn looks(&self) -> u64 {
        lock(&self.seen).looks
    }

    /// What fired and was not expected, so far.
    pub(super) fn unexpected(&self) -> Vec<String> {
        lock(&self.seen).unexpected.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firing(all: &[(&str, Option<&str>)]) -> BTreeSet<Named> {
        all.iter().map(|(name, node)| ((*name).to_owned(), node.map(str::to_owned))).collect()
    }

    #[test]
    fn an_alert_that_nobody_expects_is_noted_once_each_time_it_begins() {
        let mut seen = Seen::default();
        seen.expected.push(Expected { alert: "Stalled", node: Some("three") });
        seen.expected.push(Expected { alert: "UploadLag", node: None });
        seen.take(
            firing(&[("Stalled", Some("three")), ("UploadLag", Some("two")), ("UploadLag", Some("one"))]),
            1,
        );
        assert_eq!(seen.unexpected, Vec::<String>::new());
        seen.take(firing(&[("Stalled", Some("one"))]), 2);
        seen.take(firing(&[("Stalled", Some("one"))]), 3);
        assert_eq!(seen.unexpected, ["Stalled of one fires in second 2"], "of another node");
        seen.take(firing(&[]), 4);
        seen.take(firing(&[("Blocked", None)]), 5);
        assert_eq!(seen.unexpected[1..], ["Blocked of the cluster fires in second 5"]);
        seen.expected.clear();
        seen.take(firing(&[("Blocked", None), ("UploadLag", Some("two"))]), 6);
        assert_eq!(seen.unexpected.len(), 3, "{:?}", seen.unexpected);
    }
}
