//! State that the shell of a node shares with other tasks: its session, its last view of the cluster, and faults.
//!
//! Invariant: nothing here keeps a session alive; a caller drops the session soon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use nephila_core::cluster::member::View;
use nephila_core::cluster::slots;
use nephila_core::cluster::{Incarnation, NodeId};
use tokio::sync::watch;

use super::metrics::Measured;
use super::spread::SentOn;
use nephila_api::views::NodeState;
use nephila_engine::crawl::shared::Shared;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Known {
    inner: Mutex<Inner>,
    /// The live nodes of the last view.
    live: watch::Sender<Live>,
    turns: Mutex<slots::Stats>,
    /// State of the node.
    state: Mutex<NodeState>,
    /// Links sent on by this node.
    pub(crate) sent_on: SentOn,
    /// Measurements of the node.
    pub(crate) measured: Measured,
}

/// Live nodes.
pub(crate) type Live = Arc<[(NodeId, Incarnation)]>;

#[derive(Debug, Default)]
pub(crate) struct Inner {
    session: Weak<Shared>,
    view: Option<(Arc<View>, Instant)>,
    /// Partitions that cannot be opened, with the reason.
    unopened: BTreeMap<u32, String>,
    /// Partitions without any data.
    empty: BTreeSet<u32>,
    /// Partitions whose inboxes may have unread messages.
    inboxes: BTreeSet<u32>,
}

impl Known {
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics holding it")
    }

    /// Sets the session of this node.
    pub(crate) fn begun(&self, session: &Arc<Shared>) {
        let mut inner = self.inner();
        inner.session = Arc::downgrade(session);
        inner.unopened.clear();
        inner.empty.clear();
        inner.inboxes.clear();
    }

    /// Records whether an inbox may have unread messages.
    pub(crate) fn set_inbox(&self, partition: u32, waits: bool) {
        let inboxes = &mut self.inner().inboxes;
        match waits {
            true => inboxes.insert(partition),
            false => inboxes.remove(&partition),
        };
    }

    /// Whether an inbox may have unread messages.
    pub(crate) fn inbox_waits(&self) -> bool {
        !self.inner().inboxes.is_empty()
    }

    /// Sets the partitions without any data.
    pub(crate) fn set_empty(&self, empty: BTreeSet<u32>) {
        self.inner().empty = empty;
    }

    /// Partitions without any data at the last check.
    pub(crate) fn empty(&self) -> BTreeSet<u32> {
        self.inner().empty.clone()
    }

    /// Sets the view of the cluster.
    pub(crate) fn seen(&self, view: View) {
        self.measured.seen(&view, Instant::now());
        self.live.send_replace(view.nodes.iter().map(|node| (node.node, node.incarnation)).collect());
        self.inner().view = Some((Arc::new(view), Instant::now()));
    }

    /// Subscribes to the live nodes.
    pub(crate) fn live(&self) -> watch::Receiver<Live> {
        self.live.subscribe()
    }

    /// Sets the statistics of turns.
    pub(crate) fn set_turns(&self, stats: slots::Stats) {
        *self.turns.lock().expect("nobody panics holding it") = stats;
    }

    /// Statistics of turns of this session, or of the last one.
    pub(crate) fn turns(&self) -> slots::Stats {
        *self.turns.lock().expect("nobody panics holding it")
    }

    /// Sets the state of the node.
    pub(crate) fn set_state(&self, state: NodeState) {
        *self.state.lock().expect("nobody panics holding it") = state;
    }

    /// State of the node.
    pub(crate) fn state(&self) -> NodeState {
        *self.state.lock().expect("nobody panics holding it")
    }

    /// Records that a partition was opened, or the error.
    pub(crate) fn opened(&self, partition: u32, error: Option<String>) {
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

    /// The last view of the cluster, and its time.
    pub(crate) fn view(&self) -> Option<(Arc<View>, Instant)> {
        self.inner().view.clone()
    }

    /// Partitions that cannot be opened, with the reason.
    pub(crate) fn unopened(&self) -> BTreeMap<u32, String> {
        self.inner().unopened.clone()
    }
}
