//! The archive in a cluster: closed files are sent to the object store, and may then be removed from this disk.
//!
//! A page is done once stored on the disk of the node that fetched the page; files are sent later, when closed. So
//! unsent files are lost with that disk: at most the open file (`store.bytes_max`, `store.age_max`) and files that wait
//! for an unreachable object store. Each file has a small note in `uploads/` beside the archive: its content, the
//! progress of its upload, and whether the file is stored. A restarted process resumes from the notes. If the node
//! writes tables, those of a file are written and sent after it: a disk that takes no tables keeps no page here.
//!
//! Invariants: a WARC file is stored before its index and its tables, so these refer to an existing file; a
//! local file is removed only after the stored object was read back and is equal; at most [`FILES_AT_ONCE`] files are
//! sent at a time, and no waiting file is in memory.

mod paths;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use futures_util::StreamExt as _;
use nephila_store::archive::ENDINGS;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::alarm::Trouble;
use super::metrics::Oldest;
use crate::objects::{Content, Objects, Sent};
use nephila_engine::crawl::tables::Writer;
use nephila_engine::folder::Folder;

/// Maximum number of files sent concurrently.
pub(crate) const FILES_AT_ONCE: usize = 2;
/// Interval between checks for closed files.
pub(crate) const LOOK: Duration = Duration::from_secs(5);
/// First backoff after a failure; doubles up to [`AGAIN_MAX`].
pub(crate) const AGAIN_FIRST: Duration = Duration::from_secs(5);
pub(crate) const AGAIN_MAX: Duration = Duration::from_secs(60);

/// Note about a file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Note {
    /// Length and digest of the file.
    content: Content,
    /// Progress of the multipart upload.
    #[serde(default)]
    sent: Sent,
    /// Whether the file and its index are stored; its tables may be missing.
    #[serde(default)]
    has_archive: bool,
    /// When the file and its tables were stored, in milliseconds since 1970; 0 if not stored.
    #[serde(default)]
    stored_ms: u64,
    /// The names of its tables in the object store.
    #[serde(default)]
    tables: Vec<String>,
    /// Whether the file was verified in the object store and removed here.
    #[serde(default)]
    is_removed: bool,
}

/// Sends the archive of one node.
#[derive(Clone, Debug)]
pub struct Uploads {
    archive: PathBuf,
    notes: PathBuf,
    objects: Objects,
    /// Where tables of all nodes are, and who writes those of this node.
    tables: Option<(Objects, Writer)>,
    /// Where the path lists of this node are.
    paths: Objects,
    /// How long a stored file is kept here; forever at zero.
    keep_local: Duration,
    /// When the oldest file that waits was closed.
    oldest: Arc<Oldest>,
}

impl Uploads {
    pub fn new(
        folder: &Folder,
        objects: &Objects,
        node: &str,
        tables: Option<Writer>,
        keep_local: Duration,
    ) -> Uploads {
        Uploads {
            tables: tables.map(|writer| (objects.within("table"), writer)),
            paths: objects.within("paths").within(node),
            archive: folder.archive(),
            notes: folder.dir().join("uploads"),
            objects: objects.within("archive").within(node),
            keep_local,
            oldest: Arc::default(),
        }
    }

    /// Notes there when the oldest file that waits was closed.
    pub(crate) fn measured(self, oldest: Arc<Oldest>) -> Uploads {
        Uploads { oldest, ..self }
    }

    /// Sends closed files, until dropped.
    pub async fn run(self, trouble: Trouble) {
        let mut rest = AGAIN_FIRST;
        // A process that was killed may have stored files without listing them.
        let mut are_listed = false;
        loop {
            let mut passed = self.pass().await;
            if passed.as_ref().is_ok_and(|count| *count == 0) && !are_listed {
                passed = self.write_paths().await.map(|()| 0);
                are_listed = passed.is_ok();
            }
            match passed {
                Ok(0) => sleep(LOOK).await,
                Ok(_) => {
                    are_listed = false;
                    rest = AGAIN_FIRST;
                    trouble.note("an archive file", &Ok(())).await;
                }
                Err(_) => {
                    trouble.note("an archive file", &passed.map(|_| ())).await;
                    sleep(rest).await;
                    rest = AGAIN_MAX.min(rest * 2);
                }
            }
        }
    }

    /// Sends all closed files that are not stored yet, and removes files that were kept long enough. Returns the number
    /// of processed files.
    pub async fn pass(&self) -> anyhow::Result<usize> {
        let (archive, notes, keep) = (self.archive.clone(), self.notes.clone(), self.keep_local);
        let due =
            tokio::task::spawn_blocking(move || due(&archive, &notes, keep)).await.context("listing")??;
        let count = due.len();
        let mut waiting: BTreeMap<String, u64> = due
            .iter()
            .filter(|(_, note)| note.stored_ms == 0)
            .map(|(name, _)| (name.clone(), closed_at(&self.archive, name)))
            .collect();
        self.oldest.set(waiting.values().copied().min());
        let works = due.into_iter().map(|(name, note)| {
            let uploads = self.clone();
            async move {
                let result = match note.stored_ms {
                    0 => uploads.send(&name, note).await,
                    _ => uploads.remove(&name, note).await,
                };
                (name.clone(), result.with_context(|| name))
            }
        });
        let mut works = futures_util::stream::iter(works.collect::<Vec<_>>()).buffer_unordered(FILES_AT_ONCE);
        let mut failed = None;
        while let Some((name, done)) = works.next().await {
            let Err(error) = done else {
                waiting.remove(&name);
                self.oldest.set(waiting.values().copied().min());
                continue;
            };
            // A store that is away is so for all of them; a file that cannot be read must not keep the others here.
            let is_away = matches!(error.downcast_ref(), Some(crate::objects::Error::Away { .. }));
            failed = Some(error);
            if is_away {
                break;
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(count)
    }

    pub async fn send(&self, name: &str, mut note: Note) -> anyhow::Result<()> {
        let warc = self.archive.join(name);
        if note.content == Content::default() {
            let path = warc.clone();
            note.content =
                tokio::task::spawn_blocking(move || Content::of_file(&path)).await.context("reading")??;
            self.write(name, &note)?;
        }
        if !note.has_archive {
            self.send_archive(name, &warc, &note).await?;
            note.has_archive = true;
            self.write(name, &note)?;
        }
        note.tables = self.send_tables(warc).await?;
        note.sent = Sent::default();
        note.stored_ms = now_ms();
        self.write(name, &note)
    }

    /// Sends a WARC file and then its index.
    async fn send_archive(&self, name: &str, warc: &Path, note: &Note) -> anyhow::Result<()> {
        let index_object = index_name(name).context("no archive file")?;
        let (mut kept, mut failed) = (note.clone(), None);
        let noted = |sent: &Sent| {
            kept.sent = sent.clone();
            failed = self.write(name, &kept).err().or(failed.take());
        };
        self.objects.put_file(name, warc, note.sent.clone(), noted).await?;
        if let Some(error) = failed {
            return Err(error);
        }
        let index = self.archive.join(&index_object);
        self.objects.put_file(&index_object, &index, Sent::default(), |_| {}).await?;
        Ok(())
    }

    /// Sends the tables of a WARC file. Their names contain the node's, so two nodes never write the same object.
    /// Returns the names of the objects.
    async fn send_tables(&self, warc: PathBuf) -> anyhow::Result<Vec<String>> {
        let Some((objects, writer)) = self.tables.clone() else { return Ok(Vec::new()) };
        let written = tokio::task::spawn_blocking(move || writer.write(&warc)).await;
        let mut names = Vec::new();
        for (name, path) in written.context("writing tables")?? {
            objects.put_file(&name, &path, Sent::default(), |_| {}).await?;
            names.push(name);
        }
        Ok(names)
    }

    pub async fn remove(&self, name: &str, mut note: Note) -> anyhow::Result<()> {
        if let Err(error) = self.objects.verify(name, &note.content).await {
            if error.is_lost() {
                // The stored object differs from the file: send the file again.
                (note.stored_ms, note.has_archive) = (0, false);
                self.write(name, &note)?;
            }
            return Err(error.into());
        }
        let warc = self.archive.join(name);
        std::fs::remove_file(&warc).with_context(|| warc.display().to_string())?;
        note.is_removed = true;
        self.write(name, &note)
    }

    pub fn write(&self, name: &str, note: &Note) -> anyhow::Result<()> {
        let (path, new) = (self.notes.join(format!("{name}.json")), self.notes.join(format!("{name}.new")));
        let json = serde_json::to_vec(note).context("a note as JSON")?;
        let write = || {
            std::fs::create_dir_all(&self.notes)?;
            std::fs::write(&new, &json)?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, &path)
        };
        write().with_context(|| path.display().to_string())
    }
}

/// Files with pending work, oldest first: their names contain the time.
pub(crate) fn due(archive: &Path, notes: &Path, keep_local: Duration) -> anyhow::Result<Vec<(String, Note)>> {
    let mut due = Vec::new();
    for entry in std::fs::read_dir(archive).with_context(|| archive.display().to_string())? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(index) = index_name(name) else { continue };
        // The index is written first; without an index the file is still being repaired.
        if !archive.join(index).exists() {
            continue;
        }
        let note = read_note(&notes.join(format!("{name}.json")))?;
        let keep_ms = u64::try_from(keep_local.as_millis()).unwrap_or(u64::MAX);
        let is_kept = keep_ms == 0 || now_ms() < note.stored_ms.saturating_add(keep_ms);
        if note.stored_ms == 0 || !is_kept {
            due.push((name.to_owned(), note));
        }
    }
    due.sort_by(|(one, _), (two, _)| one.cmp(two));
    Ok(due)
}

/// Reads a note. An unreadable note counts as missing: the file is sent again, which is idempotent.
pub(crate) fn read_note(path: &Path) -> anyhow::Result<Note> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Note::default()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// When a file was closed, in milliseconds since 1970: its index is written last. The present if that cannot be read.
fn closed_at(archive: &Path, name: &str) -> u64 {
    let index = index_name(name).map(|index| archive.join(index));
    let modified = index.and_then(|index| std::fs::metadata(index).and_then(|data| data.modified()).ok());
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or_else(now_ms, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The name of the index of a closed archive file; none for other files.
pub(crate) fn index_name(name: &str) -> Option<String> {
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending))?;
    Some(format!("{stem}.cdxj"))
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::PART_BYTES;
    use nephila_engine::settings::Cluster;

    fn uploads(dir: &Path, keep_local: Duration) -> Uploads {
        let objects = format!("file://{}/store", dir.display());
        let objects = Objects::open(&Cluster { objects, ..Default::default() }).unwrap().unwrap();
        let folder = Folder::new(dir.join("node"));
        std::fs::create_dir_all(folder.archive()).unwrap();
        Uploads::new(&folder, &objects, "n1", None, keep_local)
    }

    fn close(uploads: &Uploads, stem: &str, bytes: usize) -> Content {
        let warc: Vec<u8> = (0..bytes).map(|n| (n % 253) as u8).collect();
        std::fs::write(uploads.archive.join(format!("{stem}.cdxj")), b"line\n").unwrap();
        std::fs::write(uploads.archive.join(format!("{stem}.warc.gz")), &warc).unwrap();
        Content::of(&warc)
    }

    #[tokio::test]
    async fn closed_files_are_sent_once_with_their_indexes_and_open_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = uploads(dir.path(), Duration::ZERO);
        let one = close(&uploads, "A-1", 1_000);
        let two = close(&uploads, "A-2", PART_BYTES as usize + 5);
        std::fs::write(uploads.archive.join("A-3.warc.gz.open"), b"open").unwrap();
        assert_eq!(uploads.pass().await.unwrap(), 2);
        let listed = uploads.objects.list("").await.unwrap();
        let names: Vec<&str> = listed.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["A-1.cdxj", "A-1.warc.gz", "A-2.cdxj", "A-2.warc.gz"]);
        uploads.objects.verify("A-1.warc.gz", &one).await.unwrap();
        uploads.objects.verify("A-2.warc.gz", &two).await.unwrap();
        assert_eq!(uploads.pass().await.unwrap(), 0);
        uploads.write_paths().await.unwrap();
        let listed = |name: &str| {
            let file = std::fs::File::open(dir.path().join("store/paths/n1").join(name)).ok()?;
            std::io::read_to_string(flate2::read::GzDecoder::new(file)).ok()
        };
        let warcs = "archive/n1/A-1.warc.gz\narchive/n1/A-2.warc.gz\n";
        assert_eq!(listed("warc.paths.gz").as_deref(), Some(warcs));
        let indexes = "archive/n1/A-1.cdxj\narchive/n1/A-2.cdxj\n";
        assert_eq!((listed("cc-index.paths.gz").as_deref(), listed("links.paths.gz")), (Some(indexes), None));
        assert!(uploads.archive.join("A-1.warc.gz").exists());
    }

    #[tokio::test]
    async fn while_the_store_is_away_files_wait_and_are_sent_when_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = uploads(dir.path(), Duration::ZERO);
        let content = close(&uploads, "A-1", 1_000);
        let (store, aside) = (dir.path().join("store"), dir.path().join("aside"));
        std::fs::rename(&store, &aside).unwrap();
        std::fs::write(&store, b"").unwrap();
        let error = uploads.pass().await.unwrap_err();
        assert!(format!("{error:#}").contains("A-1.warc.gz"), "{error:#}");
        let age = uploads.oldest.age(now_ms() + 60_000);
        assert!((60_000..120_000).contains(&age), "it was closed just now: {age} ms, and a minute");
        std::fs::remove_file(&store).unwrap();
        std::fs::rename(&aside, &store).unwrap();
        assert_eq!(uploads.pass().await.unwrap(), 1);
        assert_eq!(uploads.oldest.age(now_ms() + 60_000), 0, "nothing waits");
        uploads.objects.verify("A-1.warc.gz", &content).await.unwrap();
    }

    #[tokio::test]
    async fn a_disk_that_takes_no_tables_keeps_no_file_here_and_sends_none_twice() {
        let dir = tempfile::tempdir().unwrap();
        let mut uploads = uploads(dir.path(), Duration::ZERO);
        let mut settings = nephila_engine::settings::Settings::default();
        settings.tables.write = true;
        let writer = Writer::new(&dir.path().join("node"), &settings).unwrap().unwrap();
        uploads.tables = Some((uploads.objects.clone(), writer));
        let warc = "WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:uuid:c3a1e6b0-5f0e-4d8e-9f5a-2b1d3c4e5f60>\r\n\
            WARC-Date: 2026-11-18T00:00:00Z\r\nContent-Length: 0\r\n\r\n\r\n\r\n";
        std::fs::write(uploads.archive.join("A-1.cdxj"), b"").unwrap();
        std::fs::write(uploads.archive.join("A-1.warc"), warc).unwrap();
        let tables = dir.path().join("node/table");
        std::fs::write(&tables, b"no folder").unwrap();
        let error = uploads.pass().await.unwrap_err();
        assert!(format!("{error:#}").contains("writing tables"), "{error:#}");
        let stored = dir.path().join("store/archive/n1/A-1.warc");
        assert!(stored.exists(), "the file is stored all the same");
        std::fs::remove_file(&stored).unwrap();
        std::fs::remove_file(&tables).unwrap();
        assert_eq!(uploads.pass().await.unwrap(), 1);
        assert!(!stored.exists(), "it is not sent again for the sake of its tables");
        assert_eq!(uploads.pass().await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_file_is_removed_only_when_what_is_stored_is_equal() {
        let dir = tempfile::tempdir().unwrap();
        let uploads = uploads(dir.path(), Duration::from_millis(1));
        close(&uploads, "A-1", 1_000);
        let warc = uploads.archive.join("A-1.warc.gz");
        assert_eq!(uploads.pass().await.unwrap(), 1);
        uploads.objects.put("A-1.warc.gz", bytes::Bytes::from(vec![0; 1_000])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(uploads.pass().await.is_err() && warc.exists(), "it is damaged");
        assert_eq!(uploads.pass().await.unwrap(), 1, "and sent again");
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(uploads.pass().await.unwrap(), 1, "and then removed");
        assert!(!warc.exists() && uploads.archive.join("A-1.cdxj").exists());
        assert_eq!(uploads.pass().await.unwrap(), 0);
    }
}
