//! Leases and owner records as bytes: JSON, so that an operator can read them with any tool.
//!
//! Invariants: an earlier version skips a field that a later version adds, and a missing field has its default; so
//! nodes of two versions can live in one cluster.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cluster::{Incarnation, NodeId};
use crate::codec::Damaged;

/// The content of a node's lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub node: NodeId,
    /// The incarnation of the node.
    pub incarnation: Incarnation,
    /// Its name, for people.
    #[serde(default)]
    pub name: String,
    /// Address of its API.
    #[serde(default)]
    pub address: String,
    /// Whether the node is leaving.
    #[serde(default)]
    pub draining: bool,
    /// The load of each of its partitions.
    #[serde(default)]
    pub loads: BTreeMap<u32, u32>,
    /// The latest cluster format that this node supports; 0 if its version does not say so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub format: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The content of a partition's owner record. Its revision is the epoch of the ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// The node that wrote the record.
    pub node: NodeId,
    /// The incarnation of this node.
    pub incarnation: Incarnation,
    /// Whether the node owns the partition or has released it.
    pub state: OwnerState,
    /// The partition's load when the record was written. All nodes use this load while no owner's lease has a newer
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<u32>,
}

/// Whether the writer of an owner record owns the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnerState {
    /// The writer owns the partition as long as its lease lives.
    Owned,
    /// The writer has released the partition.
    Released,
}

impl NodeRecord {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has no maps with odd keys")
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<NodeRecord, Damaged> {
        serde_json::from_slice(bytes).map_err(|_| Damaged("lease of a node"))
    }
}

impl OwnerRecord {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("it has no maps")
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<OwnerRecord, Damaged> {
        serde_json::from_slice(bytes).map_err(|_| Damaged("owner of a partition"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = r#"{"node":18446744073709551615,"incarnation":3,"name":"a","address":"10.0.0.1:7700","draining":true,"loads":{"7":12}}"#;
    const OWNER: &str = r#"{"node":5,"incarnation":3,"state":"released"}"#;

    #[test]
    fn what_is_stored_is_read_and_stays_as_it_is() {
        let node = NodeRecord::decode(NODE.as_bytes()).unwrap();
        assert_eq!((node.node, node.draining, node.loads[&7]), (NodeId(u64::MAX), true, 12));
        assert_eq!(String::from_utf8(node.encode()).unwrap(), NODE);
        let owner = OwnerRecord::decode(OWNER.as_bytes()).unwrap();
        assert_eq!((owner.incarnation, owner.state), (Incarnation(3), OwnerState::Released));
        assert_eq!(String::from_utf8(owner.encode()).unwrap(), OWNER);
        let busy = OwnerRecord { load: Some(77), ..owner };
        assert_eq!(OwnerRecord::decode(&busy.encode()).unwrap(), busy);
    }

    #[test]
    fn other_versions_are_read_and_damage_is_an_error() {
        let later = r#"{"node":5,"incarnation":3,"colour":"blue"}"#;
        assert_eq!(NodeRecord::decode(later.as_bytes()).unwrap().node, NodeId(5));
        assert!(NodeRecord::decode(&NODE.as_bytes()[..20]).is_err());
        assert!(OwnerRecord::decode(br#"{"node":5,"incarnation":3,"state":"mine"}"#).is_err());
    }
}
