//! This node's lease at the servers. One call at a time: each renewal gives the lease a new revision, and a release
//! must name the last revision. With an older revision the lease would stay until its expiry, and the other nodes would
//! wait for a node that has left.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nephila_core::cluster::Incarnation;
use nephila_core::cluster::member::SwapResult;
use nephila_log::{Error, Leases};
use tokio::sync::Mutex;

/// Timeout of a call.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Lease {
    leases: Arc<dyn Leases>,
    key: String,
    /// Locked for the duration of a call.
    last: Arc<Mutex<Last>>,
}

/// The last known state of the lease.
#[derive(Default)]
pub(crate) struct Last {
    revision: u64,
    /// The incarnation that acquired the lease: a renewal by an earlier session has no effect.
    incarnation: Incarnation,
}

impl Lease {
    pub(crate) fn new(leases: Arc<dyn Leases>, key: String) -> Lease {
        Lease { leases, key, last: Arc::default() }
    }

    pub(crate) async fn acquire(&self, incarnation: Incarnation, value: Bytes) -> SwapResult {
        let mut last = self.last.lock().await;
        let answer = answer(bounded(self.leases.acquire(&self.key, value)).await);
        if let SwapResult::Done(revision) = answer {
            *last = Last { revision, incarnation };
        }
        answer
    }

    pub(crate) async fn renew(&self, incarnation: Incarnation, value: Bytes) -> SwapResult {
        let mut last = self.last.lock().await;
        if last.incarnation != incarnation {
            return SwapResult::Refused;
        }
        let answer = answer(bounded(self.leases.renew(&self.key, last.revision, value)).await);
        if let SwapResult::Done(revision) = answer {
            last.revision = revision;
        }
        answer
    }

    /// Releases the lease; if the servers do not answer, the lease expires.
    pub(crate) async fn release(&self) {
        let last = self.last.lock().await;
        _ = bounded(self.leases.release(&self.key, last.revision)).await;
    }
}

/// A call with a timeout.
pub(crate) async fn bounded<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL_MAX, call).await {
        Ok(result) => result,
        Err(_) => {
            let why = "no answer".to_owned();
            Err(Error::Unavailable { what: "a call to the servers", waited: CALL_MAX, why })
        }
    }
}

pub(crate) fn answer(result: Result<Option<u64>, Error>) -> SwapResult {
    match result {
        Ok(Some(revision)) => SwapResult::Done(revision),
        Ok(None) => SwapResult::Refused,
        Err(_) => SwapResult::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use nephila_log::memory::Engine;
    use nephila_log::{Item, Reply};

    use super::*;

    /// Servers that answer a renewal late.
    #[derive(Debug)]
    struct Slow(Arc<dyn Leases>);

    impl Leases for Slow {
        fn acquire<'a>(&'a self, key: &'a str, value: Bytes) -> Reply<'a, Option<u64>> {
            self.0.acquire(key, value)
        }

        fn renew<'a>(&'a self, key: &'a str, revision: u64, value: Bytes) -> Reply<'a, Option<u64>> {
            Box::pin(async move {
                let renewed = self.0.renew(key, revision, value).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
                renewed
            })
        }

        fn release<'a>(&'a self, key: &'a str, revision: u64) -> Reply<'a, ()> {
            self.0.release(key, revision)
        }

        fn held(&self) -> Reply<'_, Vec<Item>> {
            self.0.held()
        }

        fn records<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Item>> {
            self.0.records(prefix)
        }

        fn record<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Item>> {
            self.0.record(key)
        }

        fn put<'a>(&'a self, key: &'a str, expected: Option<u64>, value: Bytes) -> Reply<'a, Option<u64>> {
            self.0.put(key, expected, value)
        }
    }

    #[tokio::test]
    async fn a_lease_is_given_back_even_if_a_renewal_is_on_its_way() {
        let servers: Arc<dyn Leases> =
            Arc::new(Slow(Arc::new(Engine::new(Duration::from_secs(15)).leases())));
        let lease = Lease::new(servers.clone(), "node.one".to_owned());
        assert!(matches!(lease.acquire(Incarnation(1), Bytes::from_static(b"1")).await, SwapResult::Done(_)));
        let renewal = {
            let lease = lease.clone();
            tokio::spawn(async move { lease.renew(Incarnation(1), Bytes::from_static(b"2")).await })
        };
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(servers.held().await.unwrap()[0].value, "2", "the servers have the renewal");
        assert!(!renewal.is_finished(), "and we do not know it yet");
        lease.release().await;
        assert_eq!(servers.held().await.unwrap(), [], "nobody holds it");
        assert!(matches!(renewal.await.unwrap(), SwapResult::Done(_)));
    }
    #[tokio::test]
    async fn an_earlier_session_renews_nothing() {
        let servers: Arc<dyn Leases> = Arc::new(Engine::new(Duration::from_secs(15)).leases());
        let lease = Lease::new(servers.clone(), "node.one".to_owned());
        lease.acquire(Incarnation(1), Bytes::from_static(b"1")).await;
        lease.release().await;
        lease.acquire(Incarnation(2), Bytes::from_static(b"2")).await;
        assert_eq!(lease.renew(Incarnation(1), Bytes::from_static(b"3")).await, SwapResult::Refused);
        assert_eq!(servers.held().await.unwrap()[0].value, "2");
    }
}
