//! The fence: how a node that may not write any more tells everything that still would.
//!
//! What always holds: a fence that fell never rises; every call that was given it ends with
//! [`Error::Fenced`], also one that waits at that moment.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Error;

/// Stands while its owner may write. Cheap to clone; all clones are the same fence.
#[derive(Clone, Debug)]
pub struct Fence(Arc<watch::Sender<bool>>);

impl Fence {
    /// One that stands.
    pub fn new() -> Self {
        Fence(Arc::new(watch::Sender::new(false)))
    }

    /// From now on nothing is written.
    pub fn fall(&self) {
        self.0.send_replace(true);
    }

    /// Has it fallen?
    pub fn is_down(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it falls.
    pub async fn fallen(&self) {
        // The sender is ours, so it cannot go away while we wait.
        _ = self.0.subscribe().wait_for(|is_down| *is_down).await;
    }

    /// An error if it has fallen.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_down() { Err(told_to_stop()) } else { Ok(()) }
    }

    /// Does this unless the fence falls first.
    pub(crate) async fn unless_fallen<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.fallen() => Err(told_to_stop()),
            result = work => result,
        }
    }
}

impl Default for Fence {
    fn default() -> Self {
        Fence::new()
    }
}

fn told_to_stop() -> Error {
    Error::Fenced("this node was told to stop".to_owned())
}
