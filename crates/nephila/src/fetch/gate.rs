//! Politeness of `nephila fetch`: the number of concurrent requests to a host or an address, and the crawl delay
//! between requests.
//!
//! A fetch passes two gates, first of its host, then of its address, and holds both until its end; then both rest. A
//! whole crawl has a frontier for this; a list of URLs has these gates.
//!
//! Invariant: at no time more open passes than allowed, and no start earlier than the rest after the last end.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Maximum number of gates; beyond, unused and rested gates are evicted.
const GATES_MAX: usize = 100_000;

/// All gates of one kind.
#[derive(Debug)]
pub(super) struct Gates<K> {
    parallel_max: usize,
    gates: Mutex<HashMap<K, Arc<Gate>>>,
}

#[derive(Debug)]
struct Gate {
    permits: Arc<Semaphore>,
    rested: Mutex<Instant>,
}

/// The permission to make a request, until dropped. Then the gate rests.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    rest: Duration,
    _permit: OwnedSemaphorePermit,
}

impl<K: Eq + Hash> Gates<K> {
    pub(super) fn new(parallel_max: usize) -> Self {
        Gates { parallel_max, gates: Mutex::default() }
    }

    /// Waits until `key` may be requested.
    pub(super) async fn pass<Q>(&self, key: &Q, rest: Duration) -> Pass
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let gate = self.gate(key);
        let permit = gate.permits.clone().acquire_owned().await.expect("never closed");
        loop {
            let rested = *gate.rested.lock().expect("nobody panics holding it");
            if rested <= Instant::now() {
                break;
            }
            sleep_until(rested).await;
        }
        if !rest.is_zero() && self.parallel_max > 1 {
            // With several open passes, their starts keep the delay too.
            *gate.rested.lock().expect("nobody panics holding it") = Instant::now() + rest;
        }
        Pass { gate, rest, _permit: permit }
    }

    /// Starts the rest of `key` without a pass: this address answered in place of another.
    pub(super) fn rest<Q>(&self, key: &Q, rest: Duration)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let gate = self.gate(key);
        let mut rested = gate.rested.lock().expect("nobody panics holding it");
        *rested = (*rested).max(Instant::now() + rest);
    }

    /// The end of the rest of `key`, as far as known.
    pub(super) fn rested<Q>(&self, key: &Q) -> Instant
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let gates = self.gates.lock().expect("nobody panics holding it");
        gates
            .get(key)
            .map_or_else(Instant::now, |gate| *gate.rested.lock().expect("nobody panics holding it"))
    }

    fn gate<Q>(&self, key: &Q) -> Arc<Gate>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let mut gates = self.gates.lock().expect("nobody panics holding it");
        if let Some(gate) = gates.get(key) {
            return gate.clone();
        }
        if gates.len() >= GATES_MAX {
            let now = Instant::now();
            gates.retain(|_, gate| {
                Arc::strong_count(gate) > 1 || *gate.rested.lock().expect("nobody panics holding it") > now
            });
        }
        let gate = Arc::new(Gate {
            permits: Arc::new(Semaphore::new(self.parallel_max)),
            rested: Mutex::new(Instant::now()),
        });
        gates.insert(key.to_owned(), gate.clone());
        gate
    }
}

impl Pass {
    /// Extends the rest after this pass, as the site demands.
    pub(super) fn rest_at_least(&mut self, rest: Duration) {
        self.rest = self.rest.max(rest);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if self.rest.is_zero() {
            return;
        }
        let until = Instant::now() + self.rest;
        let mut rested = self.gate.rested.lock().expect("nobody panics holding it");
        *rested = (*rested).max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_host_rests_after_each_fetch() {
        let gates = Gates::<String>::new(1);
        let began = Instant::now();
        let mut starts = Vec::new();
        for _ in 0..3 {
            let pass = gates.pass("a", Duration::from_secs(2)).await;
            starts.push(began.elapsed().as_secs());
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(pass);
        }
        assert_eq!(starts, [0, 3, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn another_host_does_not_wait() {
        let gates = Gates::<String>::new(1);
        let _held = gates.pass("a", Duration::from_secs(60)).await;
        let began = Instant::now();
        gates.pass("b", Duration::from_secs(60)).await;
        assert_eq!(began.elapsed().as_secs(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn never_more_than_allowed() {
        let gates = Arc::new(Gates::<String>::new(2));
        let open = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (gates, open) = (gates.clone(), open.clone());
            tasks.spawn(async move {
                let _pass = gates.pass("a", Duration::ZERO).await;
                assert!(open.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < 2);
                tokio::time::sleep(Duration::from_millis(10)).await;
                open.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    }
}
