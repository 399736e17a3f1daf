//! Pages that end the process: told apart by having been read each time it ended.
//!
//! Some faults cannot be caught: a stack that overflows, memory that runs out. The page that brings one out is not reported, so
//! it would come back with every restart and end the process again. Before a page is read it is therefore **marked** in a small
//! file, and unmarked when it was read. A mark that is there when a process begins is of a page that was being read when the
//! one before ended: a **suspect**. One that was met so [`TIMES_MAX`] times is not asked for any more, and reported as crashed.
//! A page whose reading did not end and was given up (`readers.rs`) is one too, and counts [`GIVEN_UP_TIMES`]: the second time is
//! its last.
//! In a cluster the suspects of all nodes are counted together, since the page goes from one to the next.
//!
//! What always holds: a page that was read to its end is no suspect any more; a process that is killed while it reads harms
//! nobody, unless it is the same page three times in a row; the file is never waited for.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context;
use nephila_log::Leases;

use crate::objects::Content;

/// A page that was being read this often when the process ended is not asked for any more.
pub(crate) const TIMES_MAX: u32 = 3;
/// A page that was given up counts so often.
const GIVEN_UP_TIMES: u32 = 2;
/// Pages that can be marked at once: as many as are read at once.
const MARKS_MAX: usize = 64;
/// Suspects that are remembered. With more, those met least often are forgotten.
const SUSPECTS_MAX: usize = 1_000;
/// Bytes of a mark: hexadecimal digits of a digest of the URL.
const MARK_BYTES: usize = 32;
/// The record of what all nodes have met.
const SUSPECTS: &str = "suspects";

type Times = BTreeMap<String, u32>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Suspects {
    marks: Option<File>,
    counts: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Places that hold no mark.
    free: Vec<usize>,
    /// How often each was met here, and by all nodes as it was read last.
    here: Times,
    everywhere: Times,
    /// What the other nodes have to hear: met, and read.
    met: Vec<String>,
    read: Vec<String>,
}

/// A page that is being read. Dropped, it is unmarked.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    suspects: &'a Suspects,
    place: usize,
    name: String,
}

fn name_of(url: &str) -> String {
    let mut name = Content::of(url.as_bytes()).sha256;
    name.truncate(MARK_BYTES);
    name
}

impl Suspects {
    /// Those of a folder. What cannot be read or written there costs no crawl: then nothing is marked.
    pub(crate) fn open(folder: &Path) -> Suspects {
        let counts = folder.join("suspects.json");
        let mut inner = Inner { free: (0..MARKS_MAX).collect(), ..Inner::default() };
        inner.here = std::fs::read(&counts)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let file = std::fs::create_dir_all(folder).and_then(|()| {
            File::options().read(true).write(true).create(true).truncate(false).open(folder.join("reading"))
        });
        let marks = file.ok();
        let mut bytes = vec![0; MARKS_MAX * MARK_BYTES];
        let found = marks.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        for mark in bytes[..found].chunks_exact(MARK_BYTES) {
            let Ok(name) = std::str::from_utf8(mark) else { continue };
            if name.bytes().all(|byte| byte.is_ascii_hexdigit()) && !inner.met.iter().any(|met| met == name) {
                *inner.here.entry(name.to_owned()).or_default() += 1;
                inner.met.push(name.to_owned());
            }
        }
        keep_most(&mut inner.here);
        let suspects = Suspects { marks, counts, inner: Mutex::new(inner) };
        if found > 0 {
            suspects.write_counts();
            if let Some(file) = &suspects.marks {
                _ = file.write_all_at(&vec![0; MARKS_MAX * MARK_BYTES], 0);
            }
        }
        suspects
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write_counts(&self) {
        let here = self.inner().here.clone();
        if !here.is_empty() || self.counts.exists() {
            // Should it be torn, suspects are met once more.
            _ = std::fs::write(&self.counts, serde_json::to_vec(&here).unwrap_or_default());
        }
    }

    /// Has this page ended the process so often that it is not asked for any more?
    pub(crate) fn is_poison(&self, url: &str) -> bool {
        let inner = self.inner();
        if inner.here.is_empty() && inner.everywhere.is_empty() {
            return false;
        }
        let name = name_of(url);
        let times = |of: &Times| of.get(&name).copied().unwrap_or(0);
        times(&inner.here).max(times(&inner.everywhere)) >= TIMES_MAX
    }

    /// A page is about to be read.
    pub(crate) fn mark(&self, url: &str) -> Option<Reading<'_>> {
        let file = self.marks.as_ref()?;
        let place = self.inner().free.pop()?;
        let name = name_of(url);
        _ = file.write_all_at(name.as_bytes(), (place * MARK_BYTES) as u64);
        Some(Reading { suspects: self, place, name })
    }

    /// Tells the other nodes what was met here and what was read, and hears what they say.
    pub(crate) async fn share(&self, leases: &dyn Leases) -> anyhow::Result<()> {
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

/// Forgets those met least often when there are too many.
fn keep_most(times: &mut Times) {
    while times.len() > SUSPECTS_MAX {
        let least = times.iter().min_by_key(|(_, times)| **times).map(|(name, _)| name.clone());
        least.iter().for_each(|name| _ = times.remove(name));
    }
}

impl Reading<'_> {
    /// Its reading did not end.
    pub(crate) fn given_up(self) {
        let mut inner = self.suspects.inner();
        *inner.here.entry(self.name.clone()).or_default() += GIVEN_UP_TIMES;
        keep_most(&mut inner.here);
        let told = std::iter::repeat_n(self.name.clone(), GIVEN_UP_TIMES as usize);
        if inner.met.len() < SUSPECTS_MAX {
            inner.met.extend(told);
        }
        drop(inner);
        self.suspects.write_counts();
    }

    /// It was read, and nothing happened: it is no suspect any more.
    pub(crate) fn ended(self) {
        let mut inner = self.suspects.inner();
        let was_here = inner.here.remove(&self.name).is_some();
        let was_known = inner.everywhere.remove(&self.name).is_some();
        if was_known && inner.read.len() < SUSPECTS_MAX {
            inner.read.push(self.name.clone());
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
            _ = file.write_all_at(&[0; MARK_BYTES], (self.place * MARK_BYTES) as u64);
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

    /// A process that ends while it reads these.
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
            // The good one is read in the next process; here it shares the fate of the bad one.
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
    fn what_was_read_or_given_up_in_order_is_no_suspect() {
        let dir = tempfile::tempdir().unwrap();
        for _ in 0..5 {
            let suspects = Suspects::open(dir.path());
            suspects.mark(GOOD).unwrap().ended();
            drop(suspects.mark(BAD));
        }
        let suspects = Suspects::open(dir.path());
        assert!(suspects.inner().here.is_empty());
        let all: Vec<_> = (0..MARKS_MAX).map(|n| suspects.mark(&format!("http://a.test/{n}"))).collect();
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
        // A node that never met it knows of it.
        let other = tempfile::tempdir().unwrap();
        let other = Suspects::open(other.path());
        other.share(&leases).await.unwrap();
        assert!(other.is_poison(BAD) && !other.is_poison(GOOD));
    }
}
