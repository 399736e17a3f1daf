//! Snapshots of partitions in the object store: their format, and which of them are valid.
//!
//! A snapshot is a copy of a partition's state at one position of its log: immutable files, then a **manifest** that
//! lists them with their lengths and digests. A snapshot is valid once the **pointer** of the partition names the
//! snapshot. The pointer is a record that changes by compare-and-swap alone, and also names the previous snapshot.
//! [`take`] makes snapshots while the owner works, `restore` restores one.
//!
//! Names contain partition, epoch and content digest, so two owners never write different bytes under one name, and a
//! replaced owner can at most add files that no manifest lists. A replaced owner removes no file that a later owner
//! uses: such files are of a later epoch, or listed by a snapshot that the replaced owner saw.
//!
//! Invariants: the log is kept from the older of the two snapshots on; everything that the pointer names is stored
//! completely.

mod restore;
mod take;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use anyhow::Context;
use nephila_core::state::Position;
use nephila_log::Leases;
use serde::{Deserialize, Serialize};

use crate::objects::{Content, Objects};

pub(super) use restore::restore;
pub(super) use take::{AT_ONCE, Keeper, Progress, RetainedLog};

/// Prefix of pointer records.
pub(crate) const POINTER: &str = "snapshot.";
/// Format version of manifests.
pub(crate) const VERSION: u32 = 1;
/// Suffix of an object that marks the object without this suffix as damaged.
pub(crate) const DAMAGED: &str = ".damaged";
/// Length of the digest in a name: enough that no two contents ever share one.
pub(crate) const NAME_DIGEST: usize = 40;

/// One snapshot, as named by the pointer.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The object with the manifest.
    pub(super) manifest: String,
    /// Length and digest of the manifest.
    pub(super) content: Content,
    /// The last group of the log in the snapshot.
    pub(super) sequence: u64,
    /// The hash of that group, with which the next one begins.
    pub(super) chain: u64,
    /// The epoch in which the snapshot was made.
    pub(super) epoch: u64,
    /// The node that made the snapshot.
    pub(super) node: String,
    /// Time in milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Total size of the files in bytes.
    pub(super) bytes: u64,
}

impl Point {
    pub fn position(&self) -> Position {
        Position { sequence: self.sequence, chain: self.chain }
    }
}

/// The valid snapshots of a partition.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Pointer {
    pub(super) latest: Point,
    pub(super) before: Option<Point>,
}

impl Pointer {
    /// The pointer after a new snapshot: the new one and the newest of the others.
    pub(crate) fn with(old: Option<&Pointer>, new: Point) -> Pointer {
        Pointer { before: old.map(|old| old.latest.clone()), latest: new }
    }

    /// The first group of the log that is needed; none with only one snapshot, where the whole log is needed.
    pub(crate) fn floor(&self) -> Option<u64> {
        self.before.as_ref().map(|before| before.sequence + 1)
    }
}

/// A pointer and the revision of its record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pointed {
    pub(super) revision: Option<u64>,
    pub(super) pointer: Option<Pointer>,
}

/// A file of a snapshot.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Listing {
    /// Name in the state's folder.
    name: String,
    /// The object with the content.
    object: String,
    #[serde(flatten)]
    content: Content,
}

/// The stored manifest of a snapshot.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Manifest {
    version: u32,
    partition: u32,
    partitions: u32,
    epoch: u64,
    sequence: u64,
    chain: u64,
    /// Position up to which the inbox was read.
    inbox: u64,
    /// The files; the state's own manifest last.
    files: Vec<Listing>,
}

/// Snapshots of one cluster.
#[derive(Clone, Debug)]
pub struct Snapshots {
    objects: Objects,
    leases: Arc<dyn Leases>,
    partitions: u32,
}

impl Snapshots {
    pub fn new(objects: Objects, leases: Arc<dyn Leases>, partitions: u32) -> Snapshots {
        Snapshots { objects, leases, partitions }
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    pub async fn manifest(&self, partition: u32, point: &Point) -> Result<Manifest, crate::objects::Error> {
        let damaged = |why: String| crate::objects::Error::Damaged {
            name: point.manifest.clone(),
            store: self.objects.place().into(),
            why,
        };
        let bytes = self.objects.get(&point.manifest).await?;
        if Content::of(&bytes) != point.content {
            return Err(damaged("its digest is another".into()));
        }
        let manifest: Manifest =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if manifest.version != VERSION {
            return Err(damaged(format!(
                "it is of version {}, which this program does not read",
                manifest.version
            )));
        }
        let is_right = manifest.partition == partition
            && manifest.partitions == self.partitions
            && (manifest.sequence, manifest.chain) == (point.sequence, point.chain);
        if is_right { Ok(manifest) } else { Err(damaged("it is of another partition or position".into())) }
    }
}

/// Reads the pointer of a partition.
pub(crate) async fn pointed(leases: &dyn Leases, partition: u32) -> anyhow::Result<Pointed> {
    let item = leases.record(&key(partition)).await.context("reading the pointer to its snapshots")?;
    let Some(item) = item else { return Ok(Pointed::default()) };
    let pointer = serde_json::from_slice(&item.value);
    let pointer = pointer.with_context(|| format!("the record {}", item.key))?;
    Ok(Pointed { revision: Some(item.revision), pointer: Some(pointer) })
}

pub(crate) fn key(partition: u32) -> String {
    format!("{POINTER}{partition:05}")
}

/// The folder of a partition's objects.
pub(crate) fn folder(partition: u32) -> String {
    format!("{partition:05}")
}

/// The name of an object of a partition.
pub(crate) fn object_name(partition: u32, epoch: u64, content: &Content, ending: &str) -> String {
    let digest = content.sha256.get(..NAME_DIGEST).unwrap_or(&content.sha256);
    format!("{}/{epoch:016x}-{digest}.{ending}", folder(partition))
}

/// The epoch in the name of an object.
pub(crate) fn epoch_of(object: &str) -> Option<u64> {
    let name = object.rsplit('/').next()?;
    u64::from_str_radix(name.split_once('-')?.0, 16).ok()
}
