//! Carries errands between nodes: a robots.txt that redirects to a host of another node is asked for by that node.
//!
//! What is asked and answered is decided in [`frontier::away`](nephila_core::frontier::away). Messages may be lost; whoever
//! waits for one gives up by itself. While a partition has no owner, or is asked for at one that has given it up, its errands
//! wait here and are sent again. A node of a version that does not know errands does not listen to them, and is waited for in
//! vain: the robots.txt then counts as not reached, and is asked for again later.
//!
//! What always holds: the worker never waits for this loop, and this loop waits for the worker alone; an errand is kept here
//! for [`KEPT`] at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::errand::Said;
use nephila_core::frontier::away::{AwayAsker, ErrandAction};
use nephila_core::url::CrawlUrl;
use nephila_log::jetstream::Heard;
use tokio::sync::mpsc;

use super::Node;
use super::admin::owner;
use super::route::partition_of;
use crate::worker::{Handle, Stopped};

/// What the worker wants sent. With more it keeps it.
pub(super) const WISHES_MAX: usize = 64;
/// An errand that found nobody is sent again after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// Whoever asked waits no longer than this. The frontier bounds how many there are.
const KEPT: Duration = Duration::from_secs(600);

/// The name under which a node listens to errands.
fn name(node: NodeId) -> String {
    format!("{node}-errands")
}

/// Listens to what other nodes want, and to their answers.
pub(super) async fn hear(node: &Node) -> anyhow::Result<Heard> {
    node.cluster.engine.hear(&name(NodeId::of(&node.name))).await.context("listening to other nodes")
}

/// An errand that was not answered yet.
struct Asked {
    url: Box<CrawlUrl>,
    since: Instant,
    /// It found nobody, and is sent again.
    again: bool,
}

/// See the module.
struct Errands {
    node: Arc<Node>,
    handle: Handle,
    /// By number.
    asked: BTreeMap<u64, Asked>,
}

/// Goes on until it is dropped, or the worker has ended.
pub(super) async fn run(
    node: Arc<Node>,
    mut heard: Heard,
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
            message = heard.next() => match message.as_deref().map(Said::decode) {
                Some(Ok(said)) => {
                    if errands.hear(said).await.is_err() {
                        return;
                    }
                }
                // What cannot be read is as if it had been lost.
                Some(Err(_)) => {}
                None => return,
            },
            _ = looks.tick() => errands.send_again().await,
        }
    }
}

impl Errands {
    /// Sends what the worker wants sent to where it belongs.
    async fn carry(&mut self, wish: ErrandAction) {
        let (to, said) = match wish {
            ErrandAction::Ask { number, url } => {
                self.asked.insert(number, Asked { url, since: Instant::now(), again: false });
                return self.ask(number).await;
            }
            ErrandAction::Answer { to, report } => (to, Said::Answer { number: to.number, report }),
            ErrandAction::NotHere { to } => (to, Said::NotHere { number: to.number }),
        };
        self.node.cluster.engine.say(&name(to.node), said.encode().into()).await;
    }

    /// Asks the owner of a URL, if it has one now.
    async fn ask(&mut self, number: u64) {
        let Some(asked) = self.asked.get_mut(&number) else { return };
        let node = &self.node;
        let partition = partition_of(self.handle.key(&asked.url).host.domain, node.cluster.partitions);
        let view = node.known.view();
        let to = view.as_ref().and_then(|(view, _)| owner(view, partition)).map(|owner| owner.node);
        asked.again = to.is_none();
        let Some(to) = to else { return };
        let asker = AwayAsker { node: NodeId::of(&node.name), number };
        let said = Said::Ask { asker, url: asked.url.clone() };
        node.cluster.engine.say(&name(to), said.encode().into()).await;
    }

    /// Takes what another node says.
    async fn hear(&mut self, said: Said) -> Result<(), Stopped> {
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

    /// Asks once more where nobody was found; forgets those that nobody waits for any more.
    async fn send_again(&mut self) {
        self.asked.retain(|_, asked| asked.since.elapsed() < KEPT);
        let again = self.asked.iter().filter(|(_, asked)| asked.again).map(|(number, _)| *number);
        for number in Vec::from_iter(again) {
            self.ask(number).await;
        }
    }
}
