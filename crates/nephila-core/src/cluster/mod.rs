//! Many equal nodes: which node owns which partition, and how links found on one node reach another.
//!
//! A **node** holds one **lease** with a time to live and publishes its load in the lease ([`member`], [`load`]). For
//! each partition there is one **owner record** without a time to live. The record changes by compare-and-swap alone,
//! and its revision is the **epoch** of the ownership. From the live leases and the owner records every node computes
//! by itself which node should own which partition ([`placement`]). A node gives up partitions that should be
//! another's. A node claims a partition that should be its own once the record says that the partition is released,
//! or once its owner's lease is gone. There is no master, and no node compares the clocks of two machines: a node
//! stops by itself, on its own clock, before its lease can pass on.
//!
//! A link belongs to the partition of the linked host. Links to other partitions go through the **outbox**
//! ([`outbox`]). Links sent lately are dropped (deduplication); the others wait in one buffer per destination and
//! travel as a [`message`] to the destination's inbox. A page may be reported once every parcel that carries one of
//! its links is acknowledged; until then a crash repeats the page, and nothing is lost. Links to hosts that reject
//! every link do not travel at all, and partitions that cannot keep up are sent less (backpressure): their owners
//! publish both ([`crate::frontier::feedback`]). Nodes also publish and add up the counts of a job ([`count`]) and the work left of a job
//! ([`completion`]).
//!
//! Hosts of several nodes may be one machine. A second ring decides which node may send requests to an address
//! ([`slots`]). When a robots.txt redirects to a host of another node, that node fetches the target and sends back
//! the result ([`errand`]).
//!
//! All hosts of a registrable domain are of one partition, unless an operator spreads the domain ([`crate::spread`]).
//!
//! No code here touches a socket, a file or a clock. A shell carries out the actions decided here and reports the
//! results.
//!
//! Invariants: at no time two nodes that are not fenced hold one partition; a page is called safe only when every
//! link of the page stands in an inbox; every buffer has a limit.

pub mod completion;
pub mod count;
pub mod errand;
pub mod load;
pub mod member;
pub mod message;
pub mod outbox;
pub mod placement;
pub mod slots;
mod spread;

pub use crate::key::NodeId;

/// One life of a node's lease: a new number each time the lease is acquired, never used again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// How often a partition has changed owners: the revision of its owner record. Later owners have higher epochs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);
