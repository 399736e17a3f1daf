//! Archive files in the object store: files that this node has sent and removed, and files of dead nodes.
//!
//! The indexes of a dead node are downloaded once each, and searched like our own; of its WARC files only the requested
//! records are read.
//!
//! Invariants: a local index is complete; nothing of another node is changed.

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
use crate::objects::Objects;
use nephila_api::captures::Archive;
use nephila_api::media::ReadMedia;
use nephila_engine::settings::ArchiveUpload;

/// Folder of archives in the object store, and local folder of their indexes.
pub(crate) const ARCHIVES: &str = "archive";
pub(crate) const KEPT: &str = "stored";
/// Suffix of an index.
pub(crate) const INDEX: &str = ".cdxj";
/// Interval between listings of new indexes.
pub(crate) const LIST_EVERY: Duration = Duration::from_secs(30);
/// Maximum number of local indexes per node: the latest. Each belongs to one WARC file.
pub(crate) const INDEXES_MAX: usize = 20_000;
/// Maximum size in bytes of a downloaded index.
pub(crate) const INDEX_BYTES_MAX: u64 = 1 << 30;
/// Part size for downloading an index.
pub(crate) const PART_BYTES: u64 = 8 << 20;

/// Files of one node in the object store.
#[derive(Debug)]
pub(crate) struct Files {
    objects: Objects,
    /// Reads block on a separate thread.
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
pub(crate) struct Stored {
    /// The archives of all nodes.
    objects: Objects,
    kept: PathBuf,
    /// The bodies that are not in archives.
    media: Option<Arc<dyn ReadMedia>>,
    known: Mutex<Known>,
}

/// Archives of nodes that were dead at the last listing.
#[derive(Debug, Default)]
pub(crate) struct Known {
    looked: Option<Instant>,
    archives: BTreeMap<String, Arc<Archive>>,
}

impl Stored {
    /// Opens the archives, if the settings send archives to an object store.
    pub(crate) fn of(node: &Node) -> anyhow::Result<Option<Stored>> {
        let settings = &node.settings.cluster;
        if settings.archive_upload == ArchiveUpload::No {
            return Ok(None);
        }
        let objects = node.cluster.objects(settings)?.map(|objects| objects.within(ARCHIVES));
        let kept = node.folder.dir().join(KEPT);
        let media = crate::media::reader(&node.settings)?;
        Ok(objects.map(|objects| Stored { objects, kept, media, known: Mutex::default() }))
    }

    /// The files that one node has sent.
    pub(crate) fn files(&self, node: &str) -> Arc<dyn Elsewhere> {
        Arc::new(Files { objects: self.objects.within(node), runtime: Handle::current() })
    }

    /// The archives of dead nodes, with the recently listed indexes.
    pub(crate) async fn archives(&self, lives: impl Fn(&str) -> bool) -> anyhow::Result<Vec<Arc<Archive>>> {
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
                let made = || {
                    let archive = Archive::new(&dir, node).with_elsewhere(Some(self.files(node)));
                    Arc::new(archive.with_media(self.media.clone()))
                };
                known.archives.entry(node.to_owned()).or_insert_with(made);
            }
            known.looked = Some(Instant::now());
        }
        let gone = known.archives.iter().filter(|(node, _)| !lives(node));
        Ok(gone.map(|(_, archive)| archive.clone()).collect())
    }

    /// Downloads the missing indexes.
    pub(crate) async fn bring(&self, node: &str, dir: &Path, indexes: &[(&str, u64)]) -> anyhow::Result<()> {
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
