//! The archive: accepts exchanges and acknowledges each once its records are durable.
//!
//! An [`Exchange`] waits in a bounded queue, is digested and compressed by one of a few threads, and reaches the one
//! writer, which appends its records to the open WARC file. All exchanges that arrive within the commit interval share
//! one sync (group commit); only then is each acknowledged with a [`Receipt`]. A full or old file is closed: the ending
//! `.open` is removed, and the CDXJ index appears beside the file. [`Archive::close`] merges all indexes into one.
//!
//! Folders: `DIR/archive/NAME.warc.gz`, `DIR/archive/NAME.cdxj`, `DIR/indexes/index.cdxj`. The list `DIR/contents`
//! names the expected files; missing or damaged files are reported ([`Recovered::damage`]).
//!
//! Invariants: an acknowledged record survives every crash, once. A record without acknowledgement may exist or not,
//! but never in part: torn records are cut when the archive is opened. After a failed write or sync no affected record
//! is acknowledged, and the archive continues with a new file as soon as the disk allows.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc as threads};

use nephila_core::store::{Digest, Exchange};
use tokio::sync::{mpsc, oneshot};

mod acked;
mod compress;
pub mod damage;
mod digests;
mod id;
mod memory;
mod pack;
mod recover;
mod settings;
mod writer;

pub use id::new_id;
pub use memory::LastCapture;
pub use nephila_core::store::record::WarcInfo;
pub use pack::Packer;
pub use recover::Recovered;
pub use settings::{Compression, Dedup, ENDINGS, Settings};

use crate::disk::{Disk, RealDisk};
use compress::{Ready, Worker};
use memory::Memory;
use writer::Writer;

/// Capacity of the queue before compression. When the queue is full, [`Archive::append`] waits (backpressure).
pub const QUEUE_EXCHANGES_MAX: usize = 64;
/// Capacity of the queue from compression to the writer, which empties it every few milliseconds.
pub const READY_EXCHANGES_MAX: usize = 128;
/// Maximum threads that compress: more than the writer can serve.
pub const COMPRESS_THREADS_MAX: usize = 64;

/// A handle to the archive; cheap to clone.
#[derive(Clone, Debug)]
pub struct Archive(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    memory: Arc<Mutex<Memory>>,
    folder: PathBuf,
    recovered: Recovered,
    summary: Mutex<Option<oneshot::Receiver<Result<Summary, Error>>>>,
}

type Reply = oneshot::Sender<Result<Receipt, Error>>;

#[derive(Debug)]
struct Job {
    exchange: Exchange,
    reply: Reply,
}

/// Source text of the settings `[store]`: its comments are the comments of the settings file.
#[doc(hidden)]
pub const SETTINGS_SOURCE: &str = include_str!("archive/settings.rs");

/// Proof that an exchange is in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Final name of the WARC file; while open, the file has `.open` after this name.
    pub file: Arc<str>,
    /// Offset of the record with the response.
    pub offset: u64,
    /// Compressed length of the record in bytes.
    pub length: u64,
    /// How the exchange was stored.
    pub kind: Kind,
    /// Digest of the payload; for a revisit, of the payload referred to.
    pub payload_digest: Digest,
    /// Digest of the record's block.
    pub block_digest: Digest,
}

impl Receipt {
    /// The receipt of a store other than the archive, which has this name. The digest lets the frontier recognize
    /// equal pages.
    pub fn elsewhere(store: &str, body: &[u8]) -> Receipt {
        let digest = Digest::of(&[body]);
        let (file, length) = (store.into(), body.len() as u64);
        Receipt {
            file,
            offset: 0,
            length,
            kind: Kind::Response,
            payload_digest: digest,
            block_digest: digest,
        }
    }
}

/// How an exchange was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Head and body are stored.
    Response,
    /// The body is stored; it came without a head.
    Resource,
    /// The payload was in the archive already; only the head is stored.
    Revisit,
    /// The server answered 304; only this fact is stored.
    NotModified,
    /// A feed with the URLs of its previous version; only a note about that is stored.
    Redundant,
}

/// Statistics of an archive from opening to closing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// WARC files closed.
    pub files: u64,
    /// Records, of all types.
    pub records: u64,
    /// Exchanges stored as responses.
    pub responses: u64,
    /// Exchanges stored as revisits, 304 included.
    pub revisits: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Lines of the merged index.
    pub index_lines: u64,
}

/// Errors of the archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No space left: the exchange is not stored. Free some space and append again; the archive continues by itself.
    #[error("disk full at {path}: nothing was stored, free space and append again", path = .path.display())]
    Full {
        /// The file being written.
        path: PathBuf,
        /// The error of the disk.
        #[source]
        source: Arc<io::Error>,
    },
    /// A write failed: the exchange is not stored and its partial record is cut. Append the exchange again.
    #[error("writing {path} failed: nothing was stored, append again", path = .path.display())]
    Write {
        /// The file being written.
        path: PathBuf,
        /// The error of the disk.
        #[source]
        source: Arc<io::Error>,
    },
    /// A sync failed: treat the exchange as lost. Append the exchange again; a new file is used. Replace a disk that
    /// fails twice.
    #[error("syncing {path} failed: nothing since the last sync is stored, append again", path = .path.display())]
    Sync {
        /// The file being synced.
        path: PathBuf,
        /// The error of the disk.
        #[source]
        source: Arc<io::Error>,
    },
    /// The body could not be read, or was shorter than declared. Only this exchange is affected: fetch the URL again.
    #[error("reading the body failed")]
    Body(#[source] Arc<io::Error>),
    /// The archive is closed, or its threads are gone: open the archive again.
    #[error("the archive is closed")]
    Closed,
    /// Another process writes to this archive: do not retry.
    #[error("{path} is in use by another process", path = .path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The archive could not be opened or closed. Nothing acknowledged is lost: open the archive again when the cause
    /// is gone.
    #[error("{action} {path} failed", path = .path.display())]
    Disk {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the disk.
        #[source]
        source: Arc<io::Error>,
    },
}

impl Error {
    /// Whether the same append may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Error::Full { .. } | Error::Write { .. } | Error::Sync { .. })
    }

    fn disk(action: &'static str, path: &Path, source: io::Error) -> Self {
        Error::Disk { action, path: path.into(), source: Arc::new(source) }
    }

    /// A copy of the error for another caller: one failed sync fails all waiting appends.
    fn again(&self) -> Self {
        match self {
            Error::Full { path, source } => Error::Full { path: path.clone(), source: source.clone() },
            Error::Write { path, source } => Error::Write { path: path.clone(), source: source.clone() },
            Error::Sync { path, source } => Error::Sync { path: path.clone(), source: source.clone() },
            Error::Body(source) => Error::Body(source.clone()),
            Error::Closed => Error::Closed,
            Error::Locked { path } => Error::Locked { path: path.clone() },
            Error::Disk { action, path, source } => {
                Error::Disk { action, path: path.clone(), source: source.clone() }
            }
        }
    }
}

impl Archive {
    /// Opens the archive in a crawl's folder, or creates an empty archive, and repairs the effects of a crash. Reads
    /// the open files and all indexes, so this may take seconds: do not call this on a thread with other work.
    pub fn open(dir: &Path, settings: Settings, info: WarcInfo) -> Result<Self, Error> {
        Self::open_on(Arc::new(RealDisk), dir, settings, info)
    }

    /// Like [`Archive::open`], on another disk, for tests.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        dir: &Path,
        settings: Settings,
        info: WarcInfo,
    ) -> Result<Self, Error> {
        let folder = dir.join("archive");
        let indexes = dir.join("indexes");
        for path in [&folder, &indexes] {
            disk.create_dir(path).map_err(|e| Error::disk("making", path, e))?;
        }
        let lock = lock(&folder)?;
        let (recovered, contents) = recover::recover(&*disk, dir)?;
        let mut memory = Memory::new();
        recover::learn(&folder, &recovered.damage, &mut memory)
            .map_err(|e| Error::disk("reading", &folder, e))?;
        let memory = Arc::new(Mutex::new(memory));
        let settings = Arc::new(settings);

        let (queue, jobs) = mpsc::channel(QUEUE_EXCHANGES_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        let (ready, inbox) = threads::sync_channel(READY_EXCHANGES_MAX);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        for number in 0..compress_threads(cores) {
            let (jobs, ready) = (jobs.clone(), ready.clone());
            let (settings, memory) = (settings.clone(), memory.clone());
            spawn(&format!("compress-{number}"), move || compress_all(&jobs, &ready, &settings, &memory))
                .map_err(|e| Error::disk("starting threads for", &folder, e))?;
        }
        drop(ready);
        let (done, summary) = oneshot::channel();
        let writer = Writer::new(disk, dir, contents, settings, info, memory.clone())
            .map_err(|e| Error::disk("opening", &folder, e))?;
        spawn("archive-writer", move || {
            let result = writer.run(&inbox);
            // Held until the last write.
            drop(lock);
            let _ = done.send(result);
        })
        .map_err(|e| Error::disk("starting threads for", &folder, e))?;
        Ok(Archive(Arc::new(Inner {
            queue: Mutex::new(Some(queue)),
            memory,
            folder,
            recovered,
            summary: Mutex::new(Some(summary)),
        })))
    }

    /// Results of recovery.
    pub fn recovered(&self) -> &Recovered {
        &self.0.recovered
    }

    /// Stores an exchange. Waits while the queue is full, and then until the records are durable.
    pub async fn append(&self, exchange: Exchange) -> Result<Receipt, Error> {
        let queue = guard(&self.0.queue).clone().ok_or(Error::Closed)?;
        let (reply, answer) = oneshot::channel();
        queue.send(Job { exchange, reply }).await.map_err(|_| Error::Closed)?;
        drop(queue);
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// The last good capture of a URL, for a conditional request. May read one record's head from disk.
    pub fn last_capture(&self, url: &str) -> Option<LastCapture> {
        let url = nephila_core::store::record::target_uri(url);
        let (mut last, place) = guard(&self.0.memory).last(&url)?;
        if let Some(place) = place {
            let found = memory::validators(&self.0.folder, &place);
            last.etag = found.etag;
            last.last_modified = found.last_modified;
        }
        Some(last)
    }

    /// Stores all appended exchanges, closes the file, sorts and merges the indexes. Later appends are refused.
    pub async fn close(&self) -> Result<Summary, Error> {
        drop(guard(&self.0.queue).take());
        let summary = guard(&self.0.summary).take().ok_or(Error::Closed)?;
        summary.await.unwrap_or(Err(Error::Closed))
    }
}

/// Number of threads that compress on a machine with this many cores: half of them, and both of two. A thread without
/// work costs some kilobytes. A page of 185 KB takes less time to compress than to fetch and to read.
pub fn compress_threads(cores: usize) -> usize {
    cores.div_ceil(2).max(cores.min(2)).clamp(1, COMPRESS_THREADS_MAX)
}

fn compress_all(
    jobs: &Mutex<mpsc::Receiver<Job>>,
    ready: &threads::SyncSender<(Ready, Reply)>,
    settings: &Settings,
    memory: &Mutex<Memory>,
) {
    let Ok(mut worker) = Worker::new(settings, memory) else { return };
    loop {
        let Some(Job { exchange, reply }) = guard(jobs).blocking_recv() else { return };
        match worker.work(exchange) {
            Ok(made) => {
                // The writer is gone: dropping the reply tells the caller.
                if ready.send((made, reply)).is_err() {
                    return;
                }
            }
            Err(error) => drop(reply.send(Err(Error::Body(Arc::new(error))))),
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

pub(crate) fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(".lock");
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|e| Error::disk("opening", &path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path }),
        Err(TryLockError::Error(error)) => Err(Error::disk("locking", &path, error)),
    }
}

fn guard<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A thread that panicked with the lock leaves plain maps and options, which are consistent at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_compress_follow_the_cores() {
        for (cores, threads) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (16, 8), (64, 32), (512, 64)]
        {
            assert_eq!(compress_threads(cores), threads, "{cores} cores");
        }
        // 8,000 pages of 185 KB a second, at 1.6 ms each, leave no thread of 64 cores out of breath.
        assert!(compress_threads(64) as f64 > 8_000.0 * 0.001_6);
    }
}
