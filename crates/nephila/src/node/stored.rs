//! Archive files that are in the object store: those that this node has sent and removed, and those of nodes that are gone.
//!
//! Of a node that does not live the indexes are brought here, once each, and searched like our own; of its WARC files only
//! the records that somebody asks for are read.
//!
//! What always holds: an index that is here is whole; nothing of another node is changed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_store::captures::Elsewhere;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::Node;
use crate::api::captures::Archive;
use crate::objects::Objects;
use crate::settings::ArchiveUpload;

/// Archives of nodes, in the object store and where their indexes are kept here.
const ARCHIVES: &str = "archive";
const KEPT: &str = "stored";
/// An index ends like this.
const INDEX: &str = ".cdxj";
/// It is looked for new indexes this often.
const LIST_EVERY: Duration = Duration::from_secs(30);
/// Indexes of one node that are kept here at most: the latest. Each is of one WARC file.
const INDEXES_MAX: usize = 20_000;
/// The longest index that is brought here.
const INDEX_BYTES_MAX: u64 = 1 << 30;
/// A part of an index that is read at once.
const PART_BYTES: u64 = 8 << 20;

/// Files of one node in the object store.
#[derive(Debug)]
struct Files {
    objects: Objects,
    /// Whoever reads waits on a thread of its own.
    runtime: Handle,
}

impl Elsewhere for Files {
    fn read(&self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let read = self.runtime.block_on(self.objects.get_range(name, offset, length));
        read.map(|bytes| bytes.to_vec()).map_err(io::Error::other)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stored {
    /// The archives of all nodes.
    objects: Objects,
    kept: PathBuf,
    known: Mutex<Known>,
}

/// Archives of nodes that did not live when it was looked.
#[derive(Debug, Default)]
struct Known {
    looked: Option<Instant>,
    archives: BTreeMap<String, Arc<Archive>>,
}

impl Stored {
    /// If archives are sent to an object store.
    pub(super) fn of(node: &Node) -> anyhow::Result<Option<Stored>> {
        let settings = &node.settings.cluster;
        if settings.archive_upload == ArchiveUpload::No {
            return Ok(None);
        }
        let objects = node.cluster.objects(settings)?.map(|objects| objects.within(ARCHIVES));
        let kept = node.folder.dir().join(KEPT);
        Ok(objects.map(|objects| Stored { objects, kept, known: Mutex::default() }))
    }

    /// The files that one node has sent.
    pub(super) fn files(&self, node: &str) -> Arc<dyn Elsewhere> {
        Arc::new(Files { objects: self.objects.within(node), runtime: Handle::current() })
    }

    /// The archives of nodes that do not live, with the indexes that there were a moment ago.
    pub(super) async fn archives(&self, lives: impl Fn(&str) -> bool) -> anyhow::Result<Vec<Arc<Archive>>> {
        let mut known = self.known.lock().await;
        if known.looked.is_none_or(|looked| looked.elapsed() >= LIST_EVERY) {
            let listed = self.objects.list("").await.context("listing the archives in the object store")?;
            let mut indexes: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
            for (name, bytes) in &listed {
                if let Some((node, file)) = name.split_once('/')
                    && file.ends_with(INDEX)
                    && !lives(node)
                {
                    indexes.entry(node).or_default().push((file, *bytes));
                }
            }
            for (node, indexes) in indexes {
                let dir = self.kept.join(node);
                self.bring(node, &dir.join(ARCHIVES), &indexes).await?;
                let made = || Arc::new(Archive::new(&dir, node).with_elsewhere(Some(self.files(node))));
                known.archives.entry(node.to_owned()).or_insert_with(made);
            }
            known.looked = Some(Instant::now());
        }
        let gone = known.archives.iter().filter(|(node, _)| !lives(node));
        Ok(gone.map(|(_, archive)| archive.clone()).collect())
    }

    /// Brings the indexes here that are not yet.
    async fn bring(&self, node: &str, dir: &Path, indexes: &[(&str, u64)]) -> anyhow::Result<()> {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        // Their names have the time in them.
        for (name, bytes) in indexes.iter().rev().take(INDEXES_MAX) {
            let (path, new) = (dir.join(name), dir.join(format!("{name}.new")));
            if path.exists() || *bytes > INDEX_BYTES_MAX {
                continue;
            }
            let mut whole = Vec::new();
            while (whole.len() as u64) < *bytes {
                let at = whole.len() as u64;
                let part = self.objects.within(node).get_range(name, at, PART_BYTES.min(bytes - at)).await?;
                anyhow::ensure!(!part.is_empty(), "the index {name} of node {node} is shorter than it was");
                whole.extend_from_slice(&part);
            }
            std::fs::write(&new, &whole).with_context(|| new.display().to_string())?;
            std::fs::rename(&new, &path).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}
