//! Tracks connections that were dropped and whose sockets may still be open.
//!
//! A task owns the socket, and an aborted task ends when its thread gets to the task: soon, but after the caller that
//! dropped the connection has gone on. A request to the same host in between would show the host two connections of
//! ours at once.
//!
//! Invariants: no caller waits longer than [`WAIT_MAX`]; ended tasks are forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::live::Key;

/// Maximum wait for a socket to close. A socket that is still open then means that the machine is stalled.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(1);
/// Number of origins beyond which origins without open sockets are removed.
const ORIGINS_SWEEP: usize = 1_024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Closing(Mutex<HashMap<Key, Vec<AbortHandle>>>);

impl Closing {
    /// Registers the aborted tasks of a connection to this origin.
    pub(crate) fn note(&self, key: &Key, tasks: impl IntoIterator<Item = AbortHandle>) {
        let mut open = tasks.into_iter().filter(|task| !task.is_finished()).peekable();
        if open.peek().is_none() {
            return;
        }
        let mut closing = self.lock();
        if closing.len() >= ORIGINS_SWEEP {
            closing.retain(|_, tasks| tasks.iter().any(|task| !task.is_finished()));
        }
        closing.entry(key.clone()).or_default().extend(open);
    }

    /// Waits until no socket of this origin is left to close.
    pub(crate) async fn over(&self, key: &str) {
        let began = Instant::now();
        while self.is_open(key) && began.elapsed() < WAIT_MAX {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn is_open(&self, key: &str) -> bool {
        let mut closing = self.lock();
        let Some(tasks) = closing.get_mut(key) else { return false };
        tasks.retain(|task| !task.is_finished());
        let is_open = !tasks.is_empty();
        if !is_open {
            closing.remove(key);
        }
        is_open
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<AbortHandle>>> {
        self.0.lock().expect("nobody panics holding it")
    }
}

/// Where a dropped connection registers its tasks.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) key: Key,
    pub(crate) closing: Arc<Closing>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets a flag when dropped, after a delay, like a busy thread.
    struct Late(Arc<Mutex<bool>>);

    impl Drop for Late {
        fn drop(&mut self) {
            std::thread::sleep(Duration::from_millis(50));
            *self.0.lock().unwrap() = true;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_asks_again_waits_until_the_socket_is_closed() {
        let (closing, closed) = (Closing::default(), Arc::new(Mutex::new(false)));
        let late = Late(closed.clone());
        let task = tokio::spawn(async move {
            let _late = late;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        task.abort();
        let key: Key = "http://a.test".into();
        closing.note(&key, [task.abort_handle()]);
        closing.over("http://b.test").await;
        closing.over(&key).await;
        assert!(*closed.lock().unwrap(), "it was waited for");
        assert!(closing.lock().is_empty(), "and is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let closing = Closing::default();
        let task = tokio::spawn(std::future::pending::<()>());
        let key: Key = "http://a.test".into();
        closing.note(&key, [task.abort_handle()]);
        closing.over(&key).await;
        assert!(!task.is_finished());
    }
}
