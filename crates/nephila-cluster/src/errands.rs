//! Carries errands between nodes: the robots.txt of one host that redirects to a host of another node is fetched by
//! that node.
//!
//! [`frontier::away`](nephila_core::frontier::away) decides about requests and answers. Messages may be lost; the
//! waiting side has a timeout. While a partition has no owner, or the addressed node no longer owns the partition,
//! errands wait here and are retried. A node of a version without errands does not listen, and never answers: the
//! robots.txt then counts as unreachable, and is retried later.
//!
//! Invariants: the worker never waits for this loop, and this loop waits for the worker alone; an errand is kept here
//! for [`KEPT`] at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::errand::Said;
use nephila_core::frontier::away::{AwayAsker, ErrandAction};
use nephila_core::url::CrawlUrl;
use nephila_log::jetstream::PeerMessages;
use tokio::sync::mpsc;

use super::Node;
use super::admin::owner;
use super::route::partition_of;
use nephila_engine::worker::{Handle, Stopped};

/// Capacity of the channel from the worker. The worker keeps further errands.
pub(crate) const WISHES_MAX: usize = 64;
/// Delay before an errand without a recipient is retried.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);
/// Maximum time an errand waits for its answer. The frontier bounds the number of errands.
pub(crate) const KEPT: Duration = Duration::from_secs(600);

/// The subject on which a node listens for errands.
pub(crate) fn name(node: NodeId) -> String {
    format!("{node}-errands")
}

/// Subscribes to errands and answers from other nodes.
pub(crate) async fn subscribe(node: &Node) -> anyhow::Result<PeerMessages> {
    node.cluster.engine.subscribe(&name(NodeId::of(&node.name))).await.context("listening to other nodes")
}

/// An errand without an answer.
pub(crate) struct AskedErrand {
    url: Box<CrawlUrl>,
    since: Instant,
    /// Whether no owner was found, so that the errand is sent again.
    again: bool,
}

/// See the module.
pub(crate) struct Errands {
    node: Arc<Node>,
    handle: Handle,
    /// Open errands by number.
    asked: BTreeMap<u64, AskedErrand>,
}

/// Runs until dropped, or until the worker has ended.
pub(crate) async fn run(
    node: Arc<Node>,
    mut messages: PeerMessages,
    mut wishes: mpsc::Receiver<ErrandAction>,
    handle: Handle,
) {
    let mut errands = Errands { node, handle, asked: BTreeMap::new() };
    let mut looks = tokio::time::interval(AGAIN);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            wish = wishes.recv() => match wish {
                Some(wish) => errands.carry(wish).await,
                None => return,
            },
            message = messages.next() => match message.as_deref().map(Said::decode) {
                Some(Ok(said)) => {
                    if errands.hear(said).await.is_err() {
                        return;
                    }
                }
                // An unreadable message counts as lost.
                Some(Err(_)) => {}
                None => return,
            },
            _ = looks.tick() => errands.send_again().await,
        }
    }
}

impl Errands {
    /// Sends an errand or an answer of the worker to its recipient.
    pub(crate) async fn carry(&mut self, wish: ErrandAction) {
        let (to, said) = match wish {
            ErrandAction::Ask { number, url } => {
                self.asked.insert(number, AskedErrand { url, since: Instant::now(), again: false });
                return self.ask(number).await;
            }
            ErrandAction::Answer { to, report } => (to, Said::Answer { number: to.number, report }),
            ErrandAction::NotHere { to } => (to, Said::NotHere { number: to.number }),
        };
        self.node.cluster.engine.send(&name(to.node), said.encode().into()).await;
    }

    /// Sends an errand to the current owner of a URL, if any.
    pub(crate) async fn ask(&mut self, number: u64) {
        let Some(asked) = self.asked.get_mut(&number) else { return };
        let node = &self.node;
        let partition = partition_of(self.handle.key(&asked.url).host.domain, node.cluster.partitions);
        let view = node.known.view();
        let to = view.as_ref().and_then(|(view, _)| owner(view, partition)).map(|owner| owner.node);
        asked.again = to.is_none();
        let Some(to) = to else { return };
        let asker = AwayAsker { node: NodeId::of(&node.name), number };
        let said = Said::Ask { asker, url: asked.url.clone() };
        node.cluster.engine.send(&name(to), said.encode().into()).await;
    }

    /// Handles a message from another node.
    pub(crate) async fn hear(&mut self, said: Said) -> Result<(), Stopped> {
        match said {
            Said::NotHere { number } => {
                if let Some(asked) = self.asked.get_mut(&number) {
                    asked.again = true;
                }
                return Ok(());
            }
            Said::Answer { number, .. } => _ = self.asked.remove(&number),
            Said::Ask { .. } => {}
        }
        self.handle.errand(said).await
    }

    /// Retries errands without a recipient, and drops errands after their timeout.
    pub(crate) async fn send_again(&mut self) {
        self.asked.retain(|_, asked| asked.since.elapsed() < KEPT);
        let again = self.asked.iter().filter(|(_, asked)| asked.again).map(|(number, _)| *number);
        for number in Vec::from_iter(again) {
            self.ask(number).await;
        }
    }
}
