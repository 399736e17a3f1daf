//! Fencing: stops all writes of a node that lost its ownership.
//!
//! Invariants: a fallen fence never rises; every call that was given the fence ends with [`Error::Fenced`], also a call
//! that is waiting at that moment.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Error;

/// Stands while its owner may write. Cheap to clone; all clones are the same fence.
#[derive(Clone, Debug)]
pub struct Fence(Arc<watch::Sender<bool>>);

impl Fence {
    /// Creates a standing fence.
    pub fn new() -> Self {
        Fence(Arc::new(watch::Sender::new(false)))
    }

    /// Lowers the fence: no write starts after this call.
    pub fn fall(&self) {
        self.0.send_replace(true);
    }

    /// Whether the fence has fallen.
    pub fn is_down(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the fence falls.
    pub async fn fallen(&self) {
        // `self` owns the sender, so the channel stays open while we wait.
        _ = self.0.subscribe().wait_for(|is_down| *is_down).await;
    }

    /// Returns [`Error::Fenced`] if the fence has fallen.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_down() { Err(told_to_stop()) } else { Ok(()) }
    }

    /// Runs a future unless the fence falls first.
    #[cfg(feature = "jetstream")]
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
