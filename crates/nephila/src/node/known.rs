//! What the shell of a node lets others know: its session, its last view of the cluster, and what went wrong.
//!
//! What always holds: nothing here keeps a session alive; whoever asks through it lets go of it soon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use nephila_core::cluster::member::View;
use nephila_core::cluster::slots;
use nephila_core::cluster::{Incarnation, NodeId};
use tokio::sync::watch;

use crate::api::views::NodeState;
use crate::crawl::shared::Shared;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Known {
    inner: Mutex<Inner>,
    /// The nodes that lived when they were last looked at.
    live: watch::Sender<Live>,
    turns: Mutex<slots::Stats>,
    /// What it does.
    state: Mutex<NodeState>,
}

/// Nodes that live.
pub(super) type Live = Arc<[(NodeId, Incarnation)]>;

#[derive(Debug, Default)]
struct Inner {
    session: Weak<Shared>,
    view: Option<(Arc<View>, Instant)>,
    /// Partitions that cannot be opened, and why.
    unopened: BTreeMap<u32, String>,
    /// Partitions that hold nothing yet.
    empty: BTreeSet<u32>,
}

impl Known {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics holding it")
    }

    /// A session has begun.
    pub(super) fn begun(&self, session: &Arc<Shared>) {
        let mut inner = self.inner();
        inner.session = Arc::downgrade(session);
        inner.unopened.clear();
        inner.empty.clear();
    }

    /// These partitions hold nothing yet.
    pub(super) fn set_empty(&self, empty: BTreeSet<u32>) {
        self.inner().empty = empty;
    }

    /// Partitions that held nothing when they were last looked at.
    pub(super) fn empty(&self) -> BTreeSet<u32> {
        self.inner().empty.clone()
    }

    /// The cluster was looked at.
    pub(super) fn seen(&self, view: View) {
        self.live.send_replace(view.nodes.iter().map(|node| (node.node, node.incarnation)).collect());
        self.inner().view = Some((Arc::new(view), Instant::now()));
    }

    /// Follows who lives.
    pub(super) fn live(&self) -> watch::Receiver<Live> {
        self.live.subscribe()
    }

    /// What the session did about turns so far.
    pub(super) fn set_turns(&self, stats: slots::Stats) {
        *self.turns.lock().expect("nobody panics holding it") = stats;
    }

    /// What this session, or the last one, did about turns.
    pub(crate) fn turns(&self) -> slots::Stats {
        *self.turns.lock().expect("nobody panics holding it")
    }

    /// This is what the node does now.
    pub(super) fn set_state(&self, state: NodeState) {
        *self.state.lock().expect("nobody panics holding it") = state;
    }

    /// What the node does.
    pub(crate) fn state(&self) -> NodeState {
        *self.state.lock().expect("nobody panics holding it")
    }

    /// A partition was opened, or could not be.
    pub(super) fn opened(&self, partition: u32, error: Option<String>) {
        let unopened = &mut self.inner().unopened;
        match error {
            Some(error) => _ = unopened.insert(partition, error),
            None => _ = unopened.remove(&partition),
        }
    }

    /// The session, if there is one.
    pub(crate) fn session(&self) -> Option<Arc<Shared>> {
        self.inner().session.upgrade()
    }

    /// The cluster as it was last seen, and when that was.
    pub(crate) fn view(&self) -> Option<(Arc<View>, Instant)> {
        self.inner().view.clone()
    }

    /// Partitions that cannot be opened, and why.
    pub(crate) fn unopened(&self) -> BTreeMap<u32, String> {
        self.inner().unopened.clone()
    }
}
