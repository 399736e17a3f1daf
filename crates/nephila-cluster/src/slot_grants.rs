//! Carries messages between a worker that requests turns for slots (IP addresses), the core that decides about turns
//! ([`Slots`]), and the other nodes.
//!
//! Invariants: this loop lives as long as its session, so a node without a lease has no turn; the loop waits neither
//! for the worker nor for the network, because other nodes wait for this loop.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nephila_core::cluster::slots::{Event, Slots};
use nephila_core::cluster::{Incarnation, NodeId};
use nephila_core::frontier::SlotAction;
use nephila_log::jetstream::PeerMessages;
use tokio::sync::mpsc;

use super::Node;
use nephila_engine::clock::awake_or_not as now;
use nephila_engine::worker::Handle;

/// Capacity of the channel from a worker. The worker keeps further requests.
pub(crate) const WISHES_MAX: usize = 4_096;
/// Maximum number of requests and messages handled before other work gets a chance.
pub(crate) const AT_ONCE: usize = 256;
/// Maximum sleep of the loop.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Subscribes to messages from other nodes.
pub(crate) async fn subscribe(node: &Node) -> anyhow::Result<PeerMessages> {
    let name = NodeId::of(&node.name).to_string();
    node.cluster.engine.subscribe(&name).await.context("listening to other nodes")
}

/// Runs until dropped, or until the worker has ended.
pub(crate) async fn run(
    node: Arc<Node>,
    incarnation: Incarnation,
    mut messages: PeerMessages,
    mut wishes: mpsc::Receiver<SlotAction>,
    handle: Handle,
) {
    let mut slots =
        Slots::new(NodeId::of(&node.name), incarnation, RandomState::new().hash_one(incarnation.0));
    let mut live = node.known.live();
    // The last view is from before our lease, or contains this node.
    live.mark_changed();
    let mut events: VecDeque<Event> = VecDeque::new();
    let mut taken = Vec::with_capacity(AT_ONCE);
    loop {
        events.extend(std::iter::from_fn(|| slots.poll_event()));
        while let Some(parcel) = slots.poll_packet(now()) {
            node.cluster.engine.send(&parcel.to.to_string(), parcel.bytes.into()).await;
        }
        node.known.set_turns(slots.stats());
        let at = now();
        let sleep = slots
            .next_wake()
            .map_or(SLEEP_MAX, |wake| Duration::from_millis(wake.saturating_sub(at)).min(SLEEP_MAX));
        tokio::select! {
            place = handle.room_for_turn(), if !events.is_empty() => {
                let Ok(place) = place else { return };
                if let Some(event) = events.pop_front() {
                    place.say(event);
                }
            }
            changed = live.changed() => {
                if changed.is_err() {
                    return;
                }
                let seen = live.borrow_and_update().clone();
                slots.handle_view(now(), &seen);
            }
            count = wishes.recv_many(&mut taken, AT_ONCE) => {
                if count == 0 {
                    return;
                }
                for wish in taken.drain(..) {
                    match wish {
                        SlotAction::Ask(slot) => slots.ask(now(), slot),
                        SlotAction::GiveBack { slot, rested } => slots.give_back(now(), slot, rested),
                    }
                }
            }
            message = messages.next() => {
                let Some(message) = message else { return };
                // An unreadable message counts as lost.
                _ = slots.handle_packet(now(), &message);
            }
            () = tokio::time::sleep(sleep) => {}
        }
    }
}
