//! Pages that crash the process, identified because they were being read each time the process ended.
//!
//! Some faults cannot be caught: a stack overflow, memory exhaustion. The page that triggers one is not reported, so
//! the page would come back after every restart and crash the process again. Therefore a page is **marked** in a small
//! file before reading, and unmarked afterwards. A mark found at the start of a process belongs to a page that was
//! being read when the previous process ended: a **suspect**. A suspect that was met [`TIMES_MAX`] times is no longer
//! requested, and is reported as crashed. A page whose reader was abandoned by the watchdog (`readers.rs`) is a suspect
//! too, and counts [`GIVEN_UP_TIMES`]: the second time is its last. In a cluster the suspects of all nodes are counted
//! together, since the page moves from one node to the next.
//!
//! A mark is the URL itself with a checksum, in one small write: the digest by which nodes name a suspect is computed
//! only for suspects. A mark that was written in part has another checksum and means nothing.
//!
//! Invariants: a page that was read to its end is no longer a suspect; killing a process while it reads has no effect,
//! unless the same page is met three times in a row; no page waits for the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;

use anyhow::Context;
use nephila_core::url::URL_BYTES_MAX;
use nephila_log::Leases;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of crashes after which a page is no longer requested.
pub(crate) const TIMES_MAX: u32 = 3;
/// Number of crashes for which an abandoned reader counts.
pub(crate) const GIVEN_UP_TIMES: u32 = 2;
/// Maximum number of marks: as many as pages are read at once.
pub(crate) const MARKS_MAX: usize = 64;
/// Maximum number of suspects. Beyond, the suspects met least often are evicted.
pub(crate) const SUSPECTS_MAX: usize = 1_000;
/// Size in bytes of the head of a mark: the length of the URL, and a checksum. All zeros: no page is being read.
const HEAD_BYTES: usize = 16;
/// Size in bytes of the place of a mark. The file has holes: only what was written takes room.
const MARK_BYTES: usize = HEAD_BYTES + URL_BYTES_MAX;
/// Length of a suspect's name: hexadecimal digits of a digest of the URL.
const NAME_BYTES: usize = 32;
/// The name of the shared record of all nodes.
pub(crate) const SUSPECTS: &str = "suspects";

pub(crate) type Times = BTreeMap<String, u32>;

/// See the module.
#[derive(Debug)]
pub struct Suspects {
    marks: Option<File>,
    counts: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
pub struct Inner {
    /// Free slots for marks in the file.
    free: Vec<usize>,
    /// How often each suspect was met here, and by all nodes as of the last exchange.
    here: Times,
    everywhere: Times,
    /// News for the other nodes: suspects met, and suspects read without a crash.
    met: Vec<String>,
    read: Vec<String>,
}

/// A page that is being read. Dropping this unmarks the page.
#[derive(Debug)]
pub struct Reading<'a> {
    suspects: &'a Suspects,
    place: usize,
    url: &'a str,
}

pub(crate) fn name_of(url: &str) -> String {
    let hash = digest(&SHA256, url.as_bytes());
    let mut name = HEXLOWER.encode(hash.as_ref());
    name.truncate(NAME_BYTES);
    name
}

/// The place of a mark in the file.
fn offset_of(place: usize) -> u64 {
    (place * MARK_BYTES) as u64
}

/// The head of a mark. The checksum covers the place as well.
fn head_of(url: &[u8], place: usize) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&(url.len() as u64).to_be_bytes());
    head[8..].copy_from_slice(&xxh3_64_with_seed(url, place as u64).to_be_bytes());
    head
}

/// The URL of a mark; none if the place is free or the mark is torn.
fn marked(file: &File, place: usize) -> Option<String> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, offset_of(place)).ok()?;
    let len = usize::try_from(u64::from_be_bytes(head[..8].try_into().ok()?)).ok()?;
    if len == 0 || len > URL_BYTES_MAX {
        return None;
    }
    let mut url = vec![0; len];
    file.read_exact_at(&mut url, offset_of(place) + HEAD_BYTES as u64).ok()?;
    if head_of(&url, place) != head {
        return None;
    }
    String::from_utf8(url).ok()
}

impl Suspects {
    /// Opens the suspects of a folder. If the files cannot be read or written, the crawl goes on without marks.
    pub fn open(folder: &Path) -> Suspects {
        let counts = folder.join("suspects.json");
        // The first places are taken first.
        let mut inner = Inner { free: (0..MARKS_MAX).rev().collect(), ..Inner::default() };
        inner.here = std::fs::read(&counts)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let file = std::fs::create_dir_all(folder).and_then(|()| {
            File::options().read(true).write(true).create(true).truncate(false).open(folder.join("reading"))
        });
        let marks = file.ok();
        let is_used = marks.as_ref().is_some_and(|file| file.metadata().is_ok_and(|file| file.len() > 0));
        if let Some(file) = marks.as_ref().filter(|_| is_used) {
            for url in (0..MARKS_MAX).filter_map(|place| marked(file, place)) {
                let name = name_of(&url);
                if !inner.met.contains(&name) {
                    *inner.here.entry(name.clone()).or_default() += 1;
                    inner.met.push(name);
                }
            }
        }
        keep_most(&mut inner.here);
        let suspects = Suspects { marks, counts, inner: Mutex::new(inner) };
        if is_used {
            suspects.write_counts();
            if let Some(file) = &suspects.marks {
                _ = file.set_len(0);
            }
        }
        suspects
    }

    pub fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn write_counts(&self) {
        let here = self.inner().here.clone();
        if !here.is_empty() || self.counts.exists() {
            // After a torn write, suspects are met once more.
            _ = std::fs::write(&self.counts, serde_json::to_vec(&here).unwrap_or_default());
        }
    }

    /// Whether this page has crashed the process so often that the page is no longer requested.
    pub fn is_poison(&self, url: &str) -> bool {
        let inner = self.inner();
        if inner.here.is_empty() && inner.everywhere.is_empty() {
            return false;
        }
        let name = name_of(url);
        let times = |of: &Times| of.get(&name).copied().unwrap_or(0);
        times(&inner.here).max(times(&inner.everywhere)) >= TIMES_MAX
    }

    /// Marks a page before reading.
    pub fn mark<'a>(&'a self, url: &'a str) -> Option<Reading<'a>> {
        let file = self.marks.as_ref().filter(|_| url.len() <= URL_BYTES_MAX)?;
        let place = self.inner().free.pop()?;
        let mut mark = Vec::with_capacity(HEAD_BYTES + url.len());
        mark.extend_from_slice(&head_of(url.as_bytes(), place));
        mark.extend_from_slice(url.as_bytes());
        _ = file.write_all_at(&mark, offset_of(place));
        Some(Reading { suspects: self, place, url })
    }

    /// Sends the suspects met and read here to the other nodes, and receives theirs.
    pub async fn share(&self, leases: &dyn Leases) -> anyhow::Result<()> {
        let (met, read) = {
            let inner = self.inner();
            (inner.met.clone(), inner.read.clone())
        };
        let item = leases.record(SUSPECTS).await.context("reading the suspects")?;
        let before: Times =
            item.as_ref().and_then(|item| serde_json::from_slice(&item.value).ok()).unwrap_or_default();
        let mut all = before.clone();
        met.iter().for_each(|name| *all.entry(name.clone()).or_default() += 1);
        read.iter().for_each(|name| _ = all.remove(name));
        keep_most(&mut all);
        if all != before {
            let value = serde_json::to_vec(&all).context("suspects as JSON")?;
            let put = leases.put(SUSPECTS, item.map(|item| item.revision), value.into()).await;
            anyhow::ensure!(put.context("writing the suspects")?.is_some(), "others write the suspects");
        }
        let mut inner = self.inner();
        inner.met.drain(..met.len());
        inner.read.drain(..read.len());
        inner.everywhere = all;
        Ok(())
    }
}

/// Evicts the suspects met least often beyond [`SUSPECTS_MAX`].
pub(crate) fn keep_most(times: &mut Times) {
    while times.len() > SUSPECTS_MAX {
        let least = times.iter().min_by_key(|(_, times)| **times).map(|(name, _)| name.clone());
        least.iter().for_each(|name| _ = times.remove(name));
    }
}

impl Reading<'_> {
    /// The reader was abandoned.
    pub fn given_up(self) {
        let name = name_of(self.url);
        let mut inner = self.suspects.inner();
        *inner.here.entry(name.clone()).or_default() += GIVEN_UP_TIMES;
        keep_most(&mut inner.here);
        let told = std::iter::repeat_n(name, GIVEN_UP_TIMES as usize);
        if inner.met.len() < SUSPECTS_MAX {
            inner.met.extend(told);
        }
        drop(inner);
        self.suspects.write_counts();
    }

    /// The page was read without a crash: no longer a suspect.
    pub fn ended(self) {
        let mut inner = self.suspects.inner();
        if inner.here.is_empty() && inner.everywhere.is_empty() {
            return;
        }
        let name = name_of(self.url);
        let was_here = inner.here.remove(&name).is_some();
        let was_known = inner.everywhere.remove(&name).is_some();
        if was_known && inner.read.len() < SUSPECTS_MAX {
            inner.read.push(name);
        }
        drop(inner);
        if was_here {
            self.suspects.write_counts();
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.suspects.marks {
            _ = file.write_all_at(&[0; HEAD_BYTES], offset_of(self.place));
        }
        self.suspects.inner().free.push(self.place);
    }
}

#[cfg(test)]
mod tests {
    use nephila_log::memory::Engine;

    use super::*;

    const BAD: &str = "http://a.test/bad";
    const GOOD: &str = "http://a.test/good";

    /// A process that ends while reading these URLs.
    fn ends_while_reading(folder: &Path, urls: &[&str]) -> Suspects {
        let suspects = Suspects::open(folder);
        urls.iter().for_each(|url| std::mem::forget(suspects.mark(url)));
        suspects
    }

    #[test]
    fn clu_19_a_page_that_ends_the_process_three_times_is_not_asked_for_any_more() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..TIMES_MAX {
            let suspects = ends_while_reading(dir.path(), &[BAD, GOOD]);
            assert!(!suspects.is_poison(BAD), "not before");
            // The good page is read in the next process; in this one it shares the fate of the bad page.
            drop(suspects);
            let again = Suspects::open(dir.path());
            again.mark(GOOD).unwrap().ended();
            std::mem::forget(again.mark(GOOD));
        }
        let last = Suspects::open(dir.path());
        assert!(last.is_poison(BAD) && !last.is_poison(GOOD));
        assert!(Suspects::open(dir.path()).is_poison(BAD), "it stays");
    }

    #[test]
    fn sec_10_a_page_that_is_given_up_again_after_a_restart_is_not_asked_for_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let suspects = Suspects::open(dir.path());
        suspects.mark(BAD).unwrap().given_up();
        assert!(!suspects.is_poison(BAD), "once may be the machine's fault");
        suspects.mark(GOOD).unwrap().given_up();
        drop(suspects);
        let again = Suspects::open(dir.path());
        assert!(!again.is_poison(BAD), "it gets a second chance");
        again.mark(BAD).unwrap().given_up();
        again.mark(GOOD).unwrap().ended();
        assert!(again.is_poison(BAD) && !again.is_poison(GOOD));
        assert!(Suspects::open(dir.path()).is_poison(BAD), "it stays");
    }

    #[test]
    fn sec_10_a_mark_that_was_written_in_part_or_by_another_version_means_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reading");
        drop(ends_while_reading(dir.path(), &[BAD]));
        let mark = std::fs::read(&path).unwrap();
        let met_in = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let suspects = Suspects::open(dir.path());
            let met = suspects.inner().met.len();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "it counts once");
            met
        };
        assert_eq!(met_in(&mark), 1);
        assert_eq!(mark.len(), HEAD_BYTES + BAD.len());
        for at in 0..mark.len() {
            let mut torn = mark.clone();
            torn[at] ^= 1;
            assert_eq!(met_in(&torn), 0, "byte {at}");
        }
        for len in 1..mark.len() {
            assert_eq!(met_in(&mark[..len]), 0, "{len} bytes");
        }
        assert_eq!(met_in(HEXLOWER.encode(&[7; 1_024]).as_bytes()), 0, "marks were digests once");
    }

    #[test]
    fn what_was_read_or_given_up_in_order_is_no_suspect() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..5 {
            let suspects = Suspects::open(dir.path());
            suspects.mark(GOOD).unwrap().ended();
            drop(suspects.mark(BAD));
        }
        let suspects = Suspects::open(dir.path());
        assert!(suspects.inner().here.is_empty());
        let urls: Vec<String> = (0..MARKS_MAX).map(|n| format!("http://a.test/{n}")).collect();
        let all: Vec<_> = urls.iter().map(|url| suspects.mark(url)).collect();
        assert!(
            all.iter().all(Option::is_some) && suspects.mark(GOOD).is_none(),
            "no more than are read at once"
        );
        drop(all);
        assert!(suspects.mark(GOOD).is_some());
        assert!(Suspects::open(Path::new("/proc/none")).mark(GOOD).is_none(), "where nothing can be written");
    }

    #[tokio::test]
    async fn clu_19_a_page_that_goes_from_node_to_node_is_counted_by_all_of_them() {
        let leases = Engine::new(std::time::Duration::from_secs(15)).leases();
        let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        for (at, dir) in dirs.iter().enumerate() {
            let before = ends_while_reading(dir.path(), &[BAD, GOOD]);
            before.share(&leases).await.unwrap();
            assert!(!before.is_poison(BAD), "node {at}");
            let after = Suspects::open(dir.path());
            after.share(&leases).await.unwrap();
            after.mark(GOOD).unwrap().ended();
            after.share(&leases).await.unwrap();
            assert_eq!(after.is_poison(BAD), at == 2, "node {at}");
        }
        // A node that never met the page knows of it.
        let other = tempfile::tempdir().unwrap();
        let other = Suspects::open(other.path());
        other.share(&leases).await.unwrap();
        assert!(other.is_poison(BAD) && !other.is_poison(GOOD));
    }
}
