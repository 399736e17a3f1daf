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
//! DIR/node.json                    instead of it: which node of which cluster works here
//! DIR/settings.toml                the settings in force when it was last crawled
//! ```
//!
//! What always holds: one process at a time holds a folder open; files that are replaced are replaced as a whole.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nephila_core::feed::opml::{self, Outline};
use nephila_core::frontier::key::Secret;
use nephila_core::job::Job;
use nephila_core::url::CrawlUrl;
use serde::{Deserialize, Serialize};

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
        // What is kept is for questions, which need no secrets.
        let mut kept = settings.clone();
        kept.cluster.password.clear();
        kept.api.token.clear();
        self.set_settings(&crate::settings::page(&kept)?)
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
        replace(&self.plan_path(), &bytes)
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
        let path = self.feeds_path();
        match fs::read(&path) {
            Ok(bytes) => Ok(opml::read(&bytes).feeds),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Puts feeds on the list; says how many were not there. A crawl that runs here notices.
    pub fn add_feeds(&self, new: &[Outline]) -> anyhow::Result<usize> {
        let state = self.state();
        fs::create_dir_all(&state).with_context(|| format!("making {}", state.display()))?;
        // Two commands at once must not undo each other.
        let path = state.join("feeds.lock");
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        file.lock().with_context(|| path.display().to_string())?;
        let mut feeds = self.feeds()?;
        let before = feeds.len();
        let mut known: HashSet<CrawlUrl> = feeds.iter().map(|feed| feed.url.clone()).collect();
        feeds.extend(new.iter().filter(|feed| known.insert(feed.url.clone())).cloned());
        if feeds.len() > before {
            replace(&self.feeds_path(), opml::write("Feeds followed by Nephila", &feeds).as_bytes())?;
        }
        Ok(feeds.len() - before)
    }

    /// Writes the settings down.
    pub fn set_settings(&self, text: &str) -> anyhow::Result<()> {
        replace(&self.settings(), text.as_bytes())
    }

    /// The secret of this crawl, made when it is first asked for.
    pub fn secret(&self) -> anyhow::Result<Secret> {
        let path = self.state().join("secret");
        match fs::read(&path) {
            Ok(bytes) => {
                let bytes: [u8; 16] =
                    bytes.try_into().map_err(|_| anyhow::anyhow!("{} must have 16 bytes", path.display()))?;
                return Ok(Secret(bytes));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
        let secret = new_secret()?;
        replace(&path, &secret.0)?;
        Ok(secret)
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
