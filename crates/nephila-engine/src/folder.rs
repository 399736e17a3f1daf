//! The folder of a crawl: its layout, and its lock.
//!
//! ```text
//! DIR/archive/*.warc.gz *.cdxj     captures and their indexes
//! DIR/indexes/index.cdxj           all indexes, merged when a crawl ends
//! DIR/table/captures, links        tables of both, in Parquet
//! DIR/logs/outcomes-*.jsonl        one line per request
//! DIR/state/partition-NNNN/        state of the frontier
//! DIR/state/secret                 the key under which URLs are hashed
//! DIR/state/control                the socket of the crawling process, while one runs
//! DIR/job.json                     seeds, scope, limits
//! DIR/jobs.json                    further jobs, which clients of the API made
//! DIR/feeds.opml                   the feeds that are followed
//! DIR/links.key                    the secret of links to public pages (`nephila link`)
//! DIR/stops.json                   stopped hosts, domains and so on (`nephila stop`)
//! DIR/webhooks/NAME.json           up to where events were delivered to a webhook
//! DIR/doors.txt                    hosts and ports that were typed, and so are permitted although private
//! DIR/node.json                    instead of job.json: node and cluster that use this folder
//! DIR/settings.toml                settings of the last run
//! DIR/contents                     inventory: the key's fingerprint, partitions, archive files and their checksums
//! DIR/lost                         captures that were lost with an archive file, until they are requested again
//! DIR/state/marks                  how far each partition's journal was durable
//! DIR/state/papers/                copies of job.json, jobs.json, settings.toml, stops.json, doors.txt
//! ```
//!
//! Invariants: one process at a time holds the lock of a folder; files are replaced as a whole.

pub mod copy;
pub mod inspect;
mod judged;
mod links;
mod more;
mod papers;
mod plan;
mod webhooks;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nephila_core::feed::opml::{self, Outline};
use nephila_core::key::Secret;
use nephila_core::spider::door::Doors;
use nephila_core::url::CrawlUrl;
use nephila_store::contents::{self, Contents, Key};
use nephila_store::disk::RealDisk;

pub use judged::Judged;
pub use more::{MoreJob, MoreJobs};
pub use plan::Plan;

use crate::exit::Exit;
use crate::settings::Settings;

/// Number of partitions of a crawl on one machine. Fixed when the folder is created.
const PARTITIONS: usize = 16;

/// Path of a crawl's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

/// Lock of a folder, held while a process works there.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Folder {
    /// This folder, whether or not it contains a crawl.
    pub fn new(dir: impl Into<PathBuf>) -> Folder {
        Folder { dir: dir.into() }
    }

    /// The folder for a query: the named one, or the current one if it contains a crawl or a node, or `nephila-data`.
    pub fn find(named: Option<&Path>) -> Folder {
        match named {
            Some(dir) => Folder::new(dir),
            None if Folder::new(".").is_crawl() || Folder::new(".").is_node() => Folder::new("."),
            None => Folder::new("nephila-data"),
        }
    }

    /// The path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the folder contains a crawl.
    pub fn is_crawl(&self) -> bool {
        self.plan_path().is_file()
    }

    /// Whether the folder belongs to a node.
    pub fn is_node(&self) -> bool {
        self.node_path().is_file()
    }

    /// Requires a crawl or a node, for queries that its files answer. The error says what to do.
    pub fn expect_crawl_or_node(&self) -> anyhow::Result<()> {
        if self.is_node() { Ok(()) } else { self.expect_crawl() }
    }

    /// Requires a crawl. The error says what to do.
    pub fn expect_crawl(&self) -> anyhow::Result<()> {
        if self.is_crawl() {
            return Ok(());
        }
        let dir = self.dir.display();
        let text = match self.has_feeds() {
            true => format!(
                "{dir} has feeds and no crawl yet: `nephila crawl -o {dir}` begins it and follows them"
            ),
            false => {
                format!(
                    "{dir} holds no crawl: name its folder with -o DIR, or begin one with `nephila crawl URL`"
                )
            }
        };
        Err(crate::settings::usage(anyhow::anyhow!(text)))
    }

    /// The captures and their indexes.
    pub fn archive(&self) -> PathBuf {
        self.dir.join("archive")
    }

    /// The outcome log.
    pub fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// State of the frontier.
    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The socket of the crawling process.
    pub fn socket(&self) -> PathBuf {
        self.state().join("control")
    }

    /// The settings of the last run.
    pub fn settings(&self) -> PathBuf {
        self.dir.join("settings.toml")
    }

    fn node_path(&self) -> PathBuf {
        self.dir.join("node.json")
    }

    /// Marks the folder as a node's, with these settings.
    pub fn set_node(&self, name: &str, settings: &Settings) -> anyhow::Result<()> {
        let about = serde_json::json!({"cluster": settings.cluster.name, "node": name});
        replace(&self.node_path(), format!("{about}\n").as_bytes())?;
        self.set_settings(settings)
    }

    fn plan_path(&self) -> PathBuf {
        self.dir.join("job.json")
    }

    /// Locks the folder for this process, and creates the folder if necessary.
    pub fn lock(&self) -> anyhow::Result<Lock> {
        let state = self.state();
        fs::create_dir_all(&state).with_context(|| format!("making {}", state.display()))?;
        let path = state.join("lock");
        let file = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(anyhow::Error::new(Exit::Held)
                .context(format!("{} is being crawled by another process", self.dir.display()))),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("locking {}", path.display()))
            }
        }
    }

    /// Whether a process holds the lock. Creates no file.
    pub fn is_held(&self) -> bool {
        let file = fs::File::open(self.state().join("lock"));
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The plan of the crawl, if there is one.
    pub fn plan(&self) -> anyhow::Result<Option<Plan>> {
        let path = self.plan_path();
        match fs::read(&path) {
            Ok(bytes) => {
                Ok(Some(serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Modification time of the plan.
    pub fn plan_changed(&self) -> anyhow::Result<std::time::SystemTime> {
        let path = self.plan_path();
        fs::metadata(&path).and_then(|file| file.modified()).with_context(|| path.display().to_string())
    }

    /// Writes the plan.
    pub fn set_plan(&self, plan: &Plan) -> anyhow::Result<()> {
        let bytes = serde_json::to_vec_pretty(plan).context("the plan as JSON")?;
        self.write_paper("job.json", &bytes)
    }

    fn feeds_path(&self) -> PathBuf {
        self.dir.join("feeds.opml")
    }

    /// Whether the folder has a list of feeds.
    pub fn has_feeds(&self) -> bool {
        self.feeds_path().is_file()
    }

    /// Modification time of the list of feeds; none without a list.
    pub fn feeds_changed(&self) -> Option<std::time::SystemTime> {
        fs::metadata(self.feeds_path()).and_then(|file| file.modified()).ok()
    }

    /// The feeds that are followed.
    pub fn feeds(&self) -> anyhow::Result<Vec<Outline>> {
        Ok(self.listed_feeds()?.into_iter().filter(|feed| !feed.removed).collect())
    }

    /// All feeds of the list, including removed ones.
    pub fn listed_feeds(&self) -> anyhow::Result<Vec<Outline>> {
        let path = self.feeds_path();
        match fs::read(&path) {
            Ok(bytes) => Ok(opml::read(&bytes).feeds),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Adds feeds to the list. Returns the number of new feeds. A feed already on the list gets the source named now. A
    /// running crawl notices the change.
    pub fn add_feeds(&self, new: &[Outline]) -> anyhow::Result<usize> {
        self.change_feeds(|feeds| {
            let mut places: HashMap<CrawlUrl, usize> =
                feeds.iter().enumerate().map(|(place, feed)| (feed.url.clone(), place)).collect();
            let mut added = 0;
            for feed in new {
                match places.get(&feed.url) {
                    Some(&place) => {
                        let known = &mut feeds[place];
                        added += usize::from(std::mem::take(&mut known.removed));
                        if feed.source.is_some() {
                            known.source.clone_from(&feed.source);
                        }
                    }
                    None => {
                        places.insert(feed.url.clone(), feeds.len());
                        feeds.push(feed.clone());
                        added += 1;
                    }
                }
            }
            added
        })
    }

    /// Marks feeds as removed. Returns for each whether the feed was on the list as followed. A feed not on the list,
    /// because a page led to it, is added as removed.
    pub fn remove_feeds(&self, urls: &[CrawlUrl]) -> anyhow::Result<Vec<bool>> {
        self.change_feeds(|feeds| {
            let mut places: HashMap<CrawlUrl, usize> =
                feeds.iter().enumerate().map(|(place, feed)| (feed.url.clone(), place)).collect();
            let remove = |url: &CrawlUrl| match places.get(url) {
                Some(&place) => !std::mem::replace(&mut feeds[place].removed, true),
                None => {
                    places.insert(url.clone(), feeds.len());
                    feeds.push(Outline { removed: true, ..Outline::new(url.clone()) });
                    false
                }
            };
            urls.iter().map(remove).collect()
        })
    }

    /// Changes the list of feeds under a lock, and writes only a changed list.
    fn change_feeds<T>(&self, change: impl FnOnce(&mut Vec<Outline>) -> T) -> anyhow::Result<T> {
        let state = self.state();
        fs::create_dir_all(&state).with_context(|| format!("making {}", state.display()))?;
        // Two commands at once must not undo each other.
        let path = state.join("feeds.lock");
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        file.lock().with_context(|| path.display().to_string())?;
        let mut feeds = self.listed_feeds()?;
        let before = feeds.clone();
        let changed = change(&mut feeds);
        if feeds != before {
            replace(&self.feeds_path(), opml::write("Feeds followed by Nephila", &feeds).as_bytes())?;
        }
        Ok(changed)
    }

    /// Hosts and ports that people typed for this crawl.
    pub fn doors(&self) -> anyhow::Result<Doors> {
        let path = self.dir.join("doors.txt");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Doors::read(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Doors::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Permits the addresses and ports of URLs that a person typed, also for a running crawl.
    pub fn open_doors(&self, typed: &[CrawlUrl]) -> anyhow::Result<Doors> {
        let state = self.state();
        fs::create_dir_all(&state).with_context(|| format!("making {}", state.display()))?;
        let path = state.join("doors.lock");
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        file.lock().with_context(|| path.display().to_string())?;
        let mut doors = self.doors()?;
        // All of them, so no early end.
        if typed.iter().fold(false, |new, url| doors.open(url) | new) {
            self.write_paper("doors.txt", doors.lines().as_bytes())?;
        }
        Ok(doors)
    }

    /// Writes the settings, without their secrets.
    pub fn set_settings(&self, settings: &Settings) -> anyhow::Result<()> {
        self.write_paper("settings.toml", crate::settings::kept_page(settings)?.as_bytes())
    }

    /// Path of the marks: how far the journals were durable.
    pub fn marks(&self) -> PathBuf {
        self.state().join("marks")
    }

    /// Whether a frontier exists on disk.
    pub fn has_partitions(&self) -> bool {
        let entries = fs::read_dir(self.state()).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("partition-"))
    }

    /// The inventory of the folder. A damaged inventory is reported and treated as missing.
    pub fn contents(&self) -> anyhow::Result<Contents> {
        match Contents::read(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let path = self.dir.join(contents::NAME);
                tracing::warn!(
                    path = %path.display(),
                    "{} was damaged; it is made again from what is there, and what was missing before cannot be told",
                    path.display()
                );
                Ok(Contents::default())
            }
            Ok(None) if self.marks().exists() => {
                tracing::warn!(
                    "{} was gone; it is made again from what is there, and what was missing before cannot be told",
                    self.dir.join(contents::NAME).display()
                );
                Ok(Contents::default())
            }
            read => Ok(read
                .with_context(|| self.dir.join(contents::NAME).display().to_string())?
                .unwrap_or_default()),
        }
    }

    /// Writes the inventory if changed.
    pub fn set_contents(&self, contents: &Contents) -> anyhow::Result<()> {
        if Contents::read(&self.dir).ok().flatten().as_ref() == Some(contents) {
            return Ok(());
        }
        contents
            .write(&RealDisk, &self.dir)
            .with_context(|| self.dir.join(contents::NAME).display().to_string())
    }

    /// Renames the state directory, so that the frontier starts anew.
    pub fn set_state_aside(&self) -> anyhow::Result<PathBuf> {
        let state = self.state();
        let aside = (1..)
            .map(|number| self.dir.join(format!("state.damaged-{number}")))
            .find(|path| !path.exists())
            .context("a name for the old state")?;
        fs::rename(&state, &aside).with_context(|| format!("setting {} aside", state.display()))?;
        let mut contents = self.contents()?;
        (contents.key, contents.partitions) = (None, 0);
        self.set_contents(&contents)?;
        Ok(aside)
    }

    /// The secret of this crawl, created on the first call. A missing or damaged secret is restored from the inventory.
    pub fn secret(&self, contents: &Contents) -> anyhow::Result<Secret> {
        let path = self.state().join("secret");
        let found: Option<[u8; 16]> = match fs::read(&path) {
            Ok(bytes) => Some(bytes.try_into().unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        match (found, contents.key) {
            (Some(found), Some(Key(key))) if found == key => Ok(Secret(key)),
            (found, Some(Key(key))) => {
                let what = if found.is_some() { "damaged" } else { "gone" };
                tracing::warn!(
                    path = %path.display(),
                    "{} was {what}; it is put back from the list of the folder",
                    path.display()
                );
                replace(&path, &key)?;
                Ok(Secret(key))
            }
            (Some(found), None) if found == [0; 16] => {
                Err(damaged(format!("{} must have 16 bytes: put it back from a copy", path.display())))
            }
            (Some(found), None) => Ok(Secret(found)),
            (None, None) if self.has_journals() => Err(damaged(format!(
                "{} is gone: put it back from a copy, nothing is found without it",
                path.display()
            ))),
            (None, None) => {
                let secret = new_secret()?;
                replace(&path, &secret.0)?;
                Ok(secret)
            }
        }
    }

    /// Whether any partition has written to its journal.
    fn has_journals(&self) -> bool {
        let folders = fs::read_dir(self.state()).into_iter().flatten().flatten();
        let logs = folders.map(|entry| entry.path().join("log")).filter(|log| log.is_dir());
        logs.into_iter().any(|log| fs::read_dir(log).is_ok_and(|mut files| files.next().is_some()))
    }

    /// The folders of the partitions, in order. Their number is fixed when the crawl begins.
    pub fn partitions(&self) -> anyhow::Result<Vec<PathBuf>> {
        let state = self.state();
        let mut count = 0;
        let entries = fs::read_dir(&state).with_context(|| state.display().to_string())?;
        for entry in entries {
            let name = entry.with_context(|| state.display().to_string())?.file_name();
            count += usize::from(name.to_string_lossy().starts_with("partition-"));
        }
        // They are made one after the other: a crash meanwhile leaves fewer, and nothing in them.
        let count = if self.is_crawl() && count > 0 { count.max(PARTITIONS) } else { PARTITIONS };
        let folders: Vec<_> = (0..count).map(|number| state.join(format!("partition-{number:04}"))).collect();
        for folder in &folders {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        Ok(folders)
    }
}

/// An error for a damaged folder, where going on would lose pages.
pub(crate) fn damaged(text: String) -> anyhow::Error {
    anyhow::Error::new(Exit::Damaged).context(text)
}

/// A random secret for a new crawl or a new cluster.
pub fn new_secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| io::Read::read_exact(&mut random, &mut bytes))
        .context("random bytes for a new secret")?;
    Ok(Secret(bytes))
}

/// Free bytes on the disk of a folder.
pub fn disk_free(dir: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Replaces a file atomically and durably.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    write().with_context(|| format!("writing {}", path.display()))
}
