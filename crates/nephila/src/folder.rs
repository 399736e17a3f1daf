//! A crawl is a folder. What lies where in it, and who may open it.
//!
//! ```text
//! DIR/archive/*.warc.gz *.cdxj     captures and their indexes
//! DIR/indexes/index.cdxj           all of them, merged when a crawl ends
//! DIR/logs/outcomes-*.jsonl        one line per request
//! DIR/state/partition-NNNN/        what the frontier knows
//! DIR/state/secret                 the key under which URLs are hashed
//! DIR/state/control                the socket of the process that crawls, while one does
//! DIR/job.json                     seeds, scope, limits
//! DIR/feeds.opml                   the feeds that are followed
//! DIR/stops.json                   who is not asked any more (`nephila stop`)
//! DIR/doors.txt                    hosts and ports that were typed, so that they may be asked although private
//! DIR/node.json                    instead of it: which node of which cluster works here
//! DIR/settings.toml                the settings in force when it was last crawled
//! DIR/contents                     what belongs to it: the key's fingerprint, partitions, archive files and their sums
//! DIR/lost                         captures that were lost with an archive file, until they are asked for again
//! DIR/state/marks                  how far each partition's journal was durable
//! DIR/state/papers/                copies of job.json, settings.toml, stops.json and doors.txt, with their sums
//! ```
//!
//! What always holds: one process at a time holds a folder open; files that are replaced are replaced as a whole.

pub(crate) mod copy;
pub(crate) mod inspect;
mod judged;
mod papers;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nephila_core::feed::opml::{self, Outline};
use nephila_core::frontier::key::Secret;
use nephila_core::job::Job;
use nephila_core::spider::door::Doors;
use nephila_core::url::CrawlUrl;
use nephila_store::contents::{self, Contents, Key};
use nephila_store::disk::RealDisk;
use serde::{Deserialize, Serialize};

pub use judged::Judged;

use crate::exit::Exit;
use crate::settings::Settings;

/// Partitions of a crawl on one machine. Fixed when the folder is made.
const PARTITIONS: usize = 16;

/// Where a crawl lies.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

/// Held while a process works in a folder.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// What is kept of a job between two runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The job.
    pub job: Job,
    /// Where seeds redirected to, so that the scope lies around these as well.
    #[serde(default)]
    pub moved: Vec<String>,
    /// How many seeds had been offered when the list was last read to its end.
    #[serde(default)]
    pub seeds_offered: u64,
    /// Milliseconds for which the crawl has run.
    #[serde(default)]
    pub ran_ms: u64,
    /// The rules by which the links in the archive were judged; none if there is no archive yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
}

impl Folder {
    /// This folder, whether or not there is a crawl in it.
    pub fn new(dir: impl Into<PathBuf>) -> Folder {
        Folder { dir: dir.into() }
    }

    /// The folder that a question is about: the named one, or the current one if it is a crawl, or `nephila-data`.
    pub fn find(named: Option<&Path>) -> Folder {
        match named {
            Some(dir) => Folder::new(dir),
            None if Folder::new(".").is_crawl() || Folder::new(".").is_node() => Folder::new("."),
            None => Folder::new("nephila-data"),
        }
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Is there a crawl in it?
    pub fn is_crawl(&self) -> bool {
        self.plan_path().is_file()
    }

    /// Is it the folder of a node?
    pub fn is_node(&self) -> bool {
        self.node_path().is_file()
    }

    /// Either of them, for questions that its files answer; or an error that says what to do.
    pub fn expect_crawl_or_node(&self) -> anyhow::Result<()> {
        if self.is_node() { Ok(()) } else { self.expect_crawl() }
    }

    /// Is there a crawl in it? An error that says what to do, if not.
    pub fn expect_crawl(&self) -> anyhow::Result<()> {
        if self.is_crawl() {
            return Ok(());
        }
        let text = format!(
            "{} holds no crawl: name its folder with -o DIR, or begin one with `nephila crawl URL`",
            self.dir.display()
        );
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

    /// What the frontier knows.
    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The socket of the process that crawls.
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

    /// A node works here, with these settings.
    pub(crate) fn set_node(&self, name: &str, settings: &Settings) -> anyhow::Result<()> {
        let about = serde_json::json!({"cluster": settings.cluster.name, "node": name});
        replace(&self.node_path(), format!("{about}\n").as_bytes())?;
        self.set_settings(settings)
    }

    fn plan_path(&self) -> PathBuf {
        self.dir.join("job.json")
    }

    /// Takes the folder for this process, making it if there is none.
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

    /// Does a process work here? Nothing is made to find out.
    pub(crate) fn is_held(&self) -> bool {
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

    /// When the plan last changed.
    pub fn plan_changed(&self) -> anyhow::Result<std::time::SystemTime> {
        let path = self.plan_path();
        fs::metadata(&path).and_then(|file| file.modified()).with_context(|| path.display().to_string())
    }

    /// Writes the plan down.
    pub fn set_plan(&self, plan: &Plan) -> anyhow::Result<()> {
        let bytes = serde_json::to_vec_pretty(plan).context("the plan as JSON")?;
        self.write_paper("job.json", &bytes)
    }

    fn feeds_path(&self) -> PathBuf {
        self.dir.join("feeds.opml")
    }

    /// Is there a list of feeds?
    pub fn has_feeds(&self) -> bool {
        self.feeds_path().is_file()
    }

    /// When the list of feeds last changed; none if there is none.
    pub fn feeds_changed(&self) -> Option<std::time::SystemTime> {
        fs::metadata(self.feeds_path()).and_then(|file| file.modified()).ok()
    }

    /// The feeds that are followed.
    pub fn feeds(&self) -> anyhow::Result<Vec<Outline>> {
        Ok(self.listed_feeds()?.into_iter().filter(|feed| !feed.removed).collect())
    }

    /// All feeds of the list, also those that are not followed any more.
    pub fn listed_feeds(&self) -> anyhow::Result<Vec<Outline>> {
        let path = self.feeds_path();
        match fs::read(&path) {
            Ok(bytes) => Ok(opml::read(&bytes).feeds),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Puts feeds on the list; says how many were not there. One that was there gets the source that is named now. A
    /// crawl that runs here notices.
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

    /// Marks feeds as not followed any more; says which of them were on the list as followed. Those that were not, since a page
    /// led to them, are put there as removed.
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

    /// Changes the list of feeds, if anything of it is to be changed.
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

    /// Somebody typed these URLs. Their addresses and ports are open from now on, also to a crawl that runs here.
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

    /// Writes the settings down, without their secrets.
    pub fn set_settings(&self, settings: &Settings) -> anyhow::Result<()> {
        self.write_paper("settings.toml", crate::settings::kept_page(settings)?.as_bytes())
    }

    /// How far the journals were durable.
    pub(crate) fn marks(&self) -> PathBuf {
        self.state().join("marks")
    }

    /// Is there a frontier on disk?
    pub(crate) fn has_partitions(&self) -> bool {
        let entries = fs::read_dir(self.state()).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("partition-"))
    }

    /// The list of what belongs to the folder. One that is damaged is said to be so, and is none.
    pub(crate) fn contents(&self) -> anyhow::Result<Contents> {
        match Contents::read(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let path = self.dir.join(contents::NAME);
                eprintln!(
                    "nephila: {} was damaged; it is made again from what is there, and what was missing before cannot be told",
                    path.display()
                );
                Ok(Contents::default())
            }
            Ok(None) if self.marks().exists() => {
                eprintln!(
                    "nephila: {} was gone; it is made again from what is there, and what was missing before cannot be told",
                    self.dir.join(contents::NAME).display()
                );
                Ok(Contents::default())
            }
            read => Ok(read
                .with_context(|| self.dir.join(contents::NAME).display().to_string())?
                .unwrap_or_default()),
        }
    }

    /// Writes the list down if it has changed.
    pub(crate) fn set_contents(&self, contents: &Contents) -> anyhow::Result<()> {
        if Contents::read(&self.dir).ok().flatten().as_ref() == Some(contents) {
            return Ok(());
        }
        contents
            .write(&RealDisk, &self.dir)
            .with_context(|| self.dir.join(contents::NAME).display().to_string())
    }

    /// Sets the frontier aside, which begins anew.
    pub(crate) fn set_state_aside(&self) -> anyhow::Result<PathBuf> {
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

    /// The secret of this crawl, made when it is first asked for. One that is gone or damaged is put back from the list.
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
                eprintln!(
                    "nephila: {} was {what}; it is put back from the list of the folder",
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

    /// Has a partition written anything?
    fn has_journals(&self) -> bool {
        let folders = fs::read_dir(self.state()).into_iter().flatten().flatten();
        let logs = folders.map(|entry| entry.path().join("log")).filter(|log| log.is_dir());
        logs.into_iter().any(|log| fs::read_dir(log).is_ok_and(|mut files| files.next().is_some()))
    }

    /// The folders of the partitions, in their order. Their number is fixed when the crawl begins.
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

/// An error that says that the folder is damaged: going on would lose pages.
pub(crate) fn damaged(text: String) -> anyhow::Error {
    anyhow::Error::new(Exit::Damaged).context(text)
}

/// A secret for a new crawl or a new cluster.
pub(crate) fn new_secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut random| io::Read::read_exact(&mut random, &mut bytes))
        .context("random bytes for a new secret")?;
    Ok(Secret(bytes))
}

/// Bytes that are free on the disk of a folder.
pub(crate) fn disk_free(dir: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Replaces a file as a whole, durably.
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
