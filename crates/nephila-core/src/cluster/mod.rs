//! Many equal nodes: who works on which partition, and how what one finds reaches the other.
//!
//! A **node** holds one **lease** with a time to live and says in it how busy it is ([`member`],
//! [`load`]). For each partition
//! there is one **owner record** without a time to live; it is changed by compare-and-swap alone, and its revision is
//! the **epoch** of the ownership. From the live leases and the owner records every node computes by itself who should
//! own what ([`placement`]): it gives up what should be another's, and claims what should be its own once the record
//! says that it was given up, or once its owner's lease is gone. There is no master, and nobody compares the clocks of
//! two machines: a node stops by itself, on its own clock, before its lease can pass on.
//!
//! What a page names belongs to the partition of the named host. Links to other partitions go through the **outbox**
//! ([`outbox`]): those sent lately are dropped, the others wait in one buffer per destination and travel as a
//! [`message`] to the destination's inbox. A page may be reported once every parcel that carries one of its links is
//! acknowledged; until then a crash repeats the page, and nothing is lost. Links to hosts that turn everything away do not
//! travel at all, and partitions that cannot keep up are sent less: their owners say so ([`word`]). How far a job is over all
//! nodes is said and added up as well ([`count`]), and so is what is left of it ([`completion`]).
//!
//! Hosts of several nodes may be one machine. Which node may ask an address is decided by a second ring ([`slots`]).
//! A robots.txt that redirects to a host of another node is asked for by that node, which sends back what came ([`errand`]).
//!
//! Nothing here touches a socket, a file or a clock. A shell carries out what is decided here and says what came of it.
//!
//! Invariants: at no time two nodes that are not fenced hold one partition; a page is called safe only when everything
//! it named stands in an inbox; every buffer has a limit.

pub mod completion;
pub mod count;
pub mod errand;
pub mod load;
pub mod member;
pub mod message;
pub mod outbox;
pub mod placement;
pub mod slots;
pub mod word;

use std::fmt;

/// A node, by a hash of its name. It keeps it over restarts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The node of this name.
    pub fn of(name: &str) -> NodeId {
        NodeId(xxhash_rust::xxh3::xxh3_64(name.as_bytes()))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// One life of a node's lease: a new number each time the lease is acquired, never used again.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// How often a partition has changed hands: the revision of its owner record. Later owners have higher ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);
