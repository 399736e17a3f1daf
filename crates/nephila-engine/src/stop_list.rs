//! The operator's stop list (`nephila stop`) in force for a crawl or a node.
//!
//! A crawl on one machine has orders in a file of its folder, `stops.json`, which a running crawl reads again every
//! second; a cluster has orders in a record that every node reads every two seconds. Both are read before the first
//! request is sent.
//!
//! Invariants: the file and the record are replaced as a whole; a writer of the file holds its lock; if new orders
//! cannot be read, the previous orders stay in force.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::Context;
use nephila_core::entry::HostChange;
use nephila_core::stop_list::{StopList, StopOrder, Target};
use nephila_core::text::shown;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use serde::{Deserialize, Serialize};

use crate::folder::Folder;
use crate::worker::{Command, Handle, Stopped};

/// Polling interval of the file during a crawl.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of hosts with their own crawl delay.
pub const DELAYS_MAX: usize = 10_000;
/// Maximum crawl delay in milliseconds.
pub const DELAY_MS_MAX: u32 = 24 * 3_600 * 1_000;
/// Maximum size of the file in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// The stop list in its stored form.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Stopped hosts, domains and so on.
    pub stops: Vec<StopOrder>,
    /// Crawl delays of hosts in milliseconds, by origin. 0 removes a delay. Only in the file: a cluster has delays in
    /// its logs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delays: BTreeMap<String, u32>,
}

impl Written {
    /// Converts to the stored form.
    pub fn of(stop_list: &StopList) -> Written {
        Written { stops: stop_list.iter().cloned().collect(), delays: BTreeMap::new() }
    }

    /// Converts from the stored form.
    pub fn stop_list(self) -> StopList {
        StopList::of(self.stops)
    }
}

/// A change of the stop list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds orders.
    Add(Vec<StopOrder>),
    /// Removes orders.
    Remove(Vec<Target>),
}

impl Change {
    /// Applies the change. Returns the number of added or removed orders.
    pub fn apply(&self, stop_list: &mut StopList) -> anyhow::Result<usize> {
        match self {
            Change::Add(new) => {
                for order in new {
                    stop_list.add(order.clone())?;
                }
                Ok(new.len())
            }
            Change::Remove(gone) => {
                Ok(gone.iter().filter(|target| stop_list.remove(target).is_some()).count())
            }
        }
    }
}

/// There are too many hosts with their own crawl delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {DELAYS_MAX} hosts with a crawl delay of their own already")]
pub struct DelaysFull;

/// The stop list in force, shared by everything that is about to send a request.
#[derive(Debug, Default)]
pub struct LiveStopList(RwLock<Arc<StopList>>);

impl LiveStopList {
    /// The current stop list.
    pub fn get(&self) -> Arc<StopList> {
        self.0.read().expect("nobody panics holding it").clone()
    }

    /// Replaces the stop list.
    pub fn set(&self, stop_list: StopList) {
        let mut held = self.0.write().expect("nobody panics holding it");
        if **held != stop_list {
            *held = Arc::new(stop_list);
        }
    }
}

/// Path of the file with the stop list of a folder.
pub fn path(folder: &Folder) -> PathBuf {
    folder.dir().join("stops.json")
}

/// Reads the stop list of a folder.
pub fn read(folder: &Folder) -> anyhow::Result<StopList> {
    Ok(read_all(folder)?.stop_list())
}

/// Reads the whole file.
pub fn read_all(folder: &Folder) -> anyhow::Result<Written> {
    let path = path(folder);
    let what = || path.display().to_string();
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Written::default()),
        file => anyhow::ensure!(file.with_context(what)?.len() <= FILE_BYTES_MAX, "{} is too long", what()),
    }
    serde_json::from_slice(&fs::read(&path).with_context(what)?).with_context(what)
}

/// Changes the stop list of a folder, even while a crawl runs there.
pub fn change(folder: &Folder, change: &Change) -> anyhow::Result<usize> {
    rewrite(folder, |written| {
        let mut stop_list = StopList::of(std::mem::take(&mut written.stops));
        let changed = change.apply(&mut stop_list)?;
        written.stops = Written::of(&stop_list).stops;
        Ok(changed)
    })
}

/// Sets the crawl delay of hosts in a folder.
pub fn set_delays(folder: &Folder, urls: &[CrawlUrl], delay_ms: u32) -> anyhow::Result<()> {
    rewrite(folder, |written| {
        written.delays.extend(urls.iter().map(|url| (url.origin().to_owned(), delay_ms)));
        anyhow::ensure!(written.delays.len() <= DELAYS_MAX, DelaysFull);
        Ok(())
    })
}

/// Changes the stop list of a folder under an exclusive file lock. An error of `change` leaves the file unchanged.
pub fn rewrite<T>(
    folder: &Folder,
    change: impl FnOnce(&mut Written) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    // Concurrent writers would overwrite each other's changes.
    let lock_path = folder.state().join("stops.lock");
    let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
    let lock = lock.with_context(|| lock_path.display().to_string())?;
    lock.lock().with_context(|| lock_path.display().to_string())?;
    let mut written = read_all(folder)?;
    let changed = change(&mut written)?;
    let bytes = serde_json::to_vec_pretty(&written).context("the stops as JSON")?;
    folder.write_paper("stops.json", &bytes)?;
    Ok(changed)
}

/// Sends changed crawl delays of hosts to the frontier.
pub async fn tell(
    handle: &Handle,
    delays: BTreeMap<String, u32>,
    told: &mut BTreeMap<String, u32>,
) -> Result<(), Stopped> {
    for (origin, delay_ms) in &delays {
        if told.get(origin) != Some(delay_ms)
            && let Ok(url) = CrawlUrl::parse(origin)
        {
            let host = handle.key(&url).host;
            let delay_ms = (*delay_ms).min(DELAY_MS_MAX);
            handle.command(Command::Host(HostChange::Delay(host, delay_ms))).await?;
        }
    }
    *told = delays;
    Ok(())
}

/// Polls the stop list of a folder until dropped, or until the worker ends.
pub async fn follow(folder: Folder, live: Arc<LiveStopList>, handle: Handle) {
    let mut told = BTreeMap::new();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut complained = false;
    loop {
        looks.tick().await;
        match read_all(&folder) {
            Ok(mut written) => {
                let delays = std::mem::take(&mut written.delays);
                live.set(written.stop_list());
                if tell(&handle, delays, &mut told).await.is_err() {
                    return;
                }
                complained = false;
            }
            Err(error) if !complained => {
                tracing::warn!(error = %format_args!("{error:#}"), "the stops stay as they were: {error:#}");
                complained = true;
            }
            Err(_) => {}
        }
    }
}

/// Default author of an order.
pub fn author() -> String {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_default()
}

/// Formats a stop list for output.
pub fn listed(stop_list: &StopList, json: bool) -> anyhow::Result<Vec<String>> {
    let line = |order: &StopOrder| {
        if json {
            return serde_json::to_string(order).context("an order as JSON");
        }
        let by = if order.author.is_empty() { "-" } else { &order.author };
        Ok(format!(
            "{:<32} {}  {:<12} {}",
            shown(&order.target.to_string()).to_string(),
            Timestamp(order.at).warc_date(),
            shown(by).to_string(),
            shown(&order.reason)
        ))
    };
    stop_list.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(target: &str) -> StopOrder {
        StopOrder::new(target.parse().unwrap(), "it complained", "me", Timestamp(5))
    }

    #[test]
    fn what_is_said_to_a_folder_is_read_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let _lock = folder.lock().unwrap();
        assert!(read(&folder).unwrap().is_empty());
        let add = Change::Add(vec![order("a.example"), order("*.b.example"), order("192.0.2.0/24")]);
        assert_eq!(change(&folder, &add).unwrap(), 3);
        let remove = Change::Remove(vec!["a.example".parse().unwrap(), "c.example".parse().unwrap()]);
        assert_eq!(change(&folder, &remove).unwrap(), 1);
        let stop_list = read(&folder).unwrap();
        assert_eq!(stop_list.len(), 2);
        assert_eq!(stop_list.stop_of_host("x.b.example"), Some(&order("*.b.example")));
        let lines = listed(&stop_list, false).unwrap();
        assert!(
            lines[0].starts_with("*.b.example ") && lines[0].ends_with("me           it complained"),
            "{lines:?}"
        );
    }

    #[test]
    fn many_who_say_something_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        drop(folder.lock().unwrap());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let folder = folder.clone();
                scope.spawn(move || {
                    change(&folder, &Change::Add(vec![order(&format!("h{number}.example"))])).unwrap();
                });
            }
        });
        assert_eq!(read(&folder).unwrap().len(), 8);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_rests_are_kept_beside_stops() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        drop(folder.lock().unwrap());
        let url = CrawlUrl::parse("https://a.example:8443/x").unwrap();
        set_delays(&folder, &[url], 9_000).unwrap();
        change(&folder, &Change::Add(vec![order("a.example")])).unwrap();
        let written = read_all(&folder).unwrap();
        assert_eq!(written.delays, BTreeMap::from([("https://a.example:8443".to_owned(), 9_000)]));
        assert_eq!(written.stops.len(), 1);
        fs::write(path(&folder), "{").unwrap();
        assert!(read(&folder).is_err());
    }
}
