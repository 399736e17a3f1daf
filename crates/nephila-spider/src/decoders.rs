//! Schedules decoding: few bodies at a time, and no host delays the others.
//!
//! A decoder can need 16 MiB for its window and a second of a core, so there are few of them (`decoders_max`). A host
//! has one at a time. A host whose last body cost more than [`HEAVY_CPU`] is **heavy**: all heavy hosts together have
//! at most half of the decoders, so that four hosts with bombs leave capacity for all other hosts. The next cheaper
//! body makes the host normal again.
//!
//! Invariant: waiting bodies get their turns in order of arrival, or give up at their deadline and leave nothing
//! behind.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// CPU time of a body above which its host is heavy. A page of 10 MiB takes about a fifth of this.
pub(crate) const HEAVY_CPU: Duration = Duration::from_millis(250);
/// Maximum CPU time for decoding a body; beyond this decoding stops.
pub(crate) const DECODE_CPU_MAX: Duration = Duration::from_secs(2);
/// Maximum remembered heavy hosts. Beyond this all are forgotten: each then costs one long turn to be known again.
const HEAVY_HOSTS_MAX: usize = 10_000;

/// The decoders of a spider.
#[derive(Debug)]
pub(crate) struct Decoders {
    all: Arc<Semaphore>,
    for_heavy: Arc<Semaphore>,
    hosts: Mutex<Hosts>,
}

#[derive(Debug, Default)]
struct Hosts {
    /// Hosts that decode or wait, each with one permit.
    here: HashMap<String, Arc<Semaphore>>,
    heavy: HashSet<String>,
}

/// The right to decode one body of a host.
#[derive(Debug)]
pub(crate) struct Turn {
    place: Place,
    _of_heavy: Option<OwnedSemaphorePermit>,
    _of_all: OwnedSemaphorePermit,
}

/// A host's entry in `here`, removed with the last of its bodies.
#[derive(Debug)]
struct Place {
    decoders: Arc<Decoders>,
    host: String,
    semaphore: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Decoders {
    /// Creates `max` decoders; at least one.
    pub(crate) fn new(max: usize) -> Arc<Decoders> {
        let max = max.max(1);
        Arc::new(Decoders {
            all: Arc::new(Semaphore::new(max)),
            for_heavy: Arc::new(Semaphore::new((max / 2).max(1))),
            hosts: Mutex::default(),
        })
    }

    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn of this host. Dropping the future leaves nothing behind.
    pub(crate) async fn turn(self: &Arc<Self>, host: &str) -> Turn {
        let semaphore = {
            let mut hosts = self.hosts();
            hosts.here.entry(host.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
        };
        let mut place = Place {
            decoders: self.clone(),
            host: host.to_owned(),
            semaphore: Some(semaphore.clone()),
            permit: None,
        };
        place.permit = Some(semaphore.acquire_owned().await.expect("never closed"));
        // Read only now: the previous body may have changed the state of its host.
        let is_heavy = self.hosts().heavy.contains(host);
        let of_heavy = match is_heavy {
            true => Some(self.for_heavy.clone().acquire_owned().await.expect("never closed")),
            false => None,
        };
        let of_all = self.all.clone().acquire_owned().await.expect("never closed");
        Turn { place, _of_heavy: of_heavy, _of_all: of_all }
    }
}

impl Turn {
    /// Ends a turn with the CPU time that decoding took.
    pub(crate) fn ended(self, cpu: Duration) {
        let mut hosts = self.place.decoders.hosts();
        if cpu <= HEAVY_CPU {
            hosts.heavy.remove(&self.place.host);
            return;
        }
        if hosts.heavy.len() >= HEAVY_HOSTS_MAX {
            hosts.heavy.clear();
        }
        hosts.heavy.insert(self.place.host.clone());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut hosts = self.decoders.hosts();
        self.permit = None;
        self.semaphore = None;
        // Waiting bodies hold a reference too.
        if hosts.here.get(&self.host).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            hosts.here.remove(&self.host);
        }
    }
}

/// CPU time of this thread so far.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(50);

    async fn is_given(decoders: &Arc<Decoders>, host: &str) -> Option<Turn> {
        tokio::time::timeout(LONG, decoders.turn(host)).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn sec_01_one_host_holds_one_decoder() {
        let decoders = Decoders::new(4);
        let first = is_given(&decoders, "a.test").await.unwrap();
        assert!(is_given(&decoders, "a.test").await.is_none(), "one at a time");
        let mut turns = Vec::new();
        for host in ["b.test", "c.test", "d.test"] {
            turns.push(is_given(&decoders, host).await.unwrap());
        }
        assert!(is_given(&decoders, "e.test").await.is_none(), "no more than there are");
        drop(first);
        turns.push(is_given(&decoders, "e.test").await.unwrap());
        assert_eq!(decoders.hosts().here.len(), 4);
        drop(turns);
        assert!(decoders.hosts().here.is_empty(), "whoever left, or gave up waiting, is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn sec_01_heavy_hosts_share_half_of_the_decoders() {
        let decoders = Decoders::new(4);
        let heavy = ["a.test", "b.test", "c.test", "d.test"];
        for host in heavy {
            decoders.turn(host).await.ended(HEAVY_CPU * 2);
        }
        let held =
            (is_given(&decoders, "a.test").await.unwrap(), is_given(&decoders, "b.test").await.unwrap());
        assert!(is_given(&decoders, "c.test").await.is_none(), "half of them is all they get");
        let good =
            (is_given(&decoders, "x.test").await.unwrap(), is_given(&decoders, "y.test").await.unwrap());
        good.0.ended(Duration::ZERO);
        assert!(is_given(&decoders, "d.test").await.is_none(), "also when one is free");
        held.0.ended(Duration::ZERO);
        let again = is_given(&decoders, "c.test").await.unwrap();
        let light = is_given(&decoders, "a.test").await.unwrap();
        drop((held.1, again, light, good.1));
        assert!(!decoders.hosts().heavy.contains("a.test"), "one light body makes up for it");
    }

    #[tokio::test(start_paused = true)]
    async fn one_decoder_is_enough_for_heavy_and_light() {
        let decoders = Decoders::new(1);
        decoders.turn("a.test").await.ended(HEAVY_CPU * 2);
        decoders.turn("a.test").await.ended(HEAVY_CPU * 2);
        decoders.turn("b.test").await.ended(Duration::ZERO);
    }

    #[test]
    fn heavy_hosts_are_remembered_within_a_limit() {
        let decoders = Decoders::new(1);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for n in 0..=HEAVY_HOSTS_MAX {
            runtime.block_on(decoders.turn(&format!("{n}.test"))).ended(HEAVY_CPU * 2);
        }
        assert_eq!(decoders.hosts().heavy.len(), 1);
    }
}
