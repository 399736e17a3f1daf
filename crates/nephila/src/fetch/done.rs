//! The finished URLs of a list, so that the same command resumes where an earlier run ended (`-o DIR`).
//!
//! `DIR/fetched` begins with a checksum of its list; then follow the positions of the finished URLs in the list, eight
//! bytes each, in any order. A URL that failed and may succeed later is not among them, and is requested again.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;

use nephila_engine::settings::usage;

const MARK: &[u8; 8] = b"NPHLIST1";
/// Size in bytes of the write buffer.
const BUFFER_BYTES_MAX: usize = 4 * 1024;
/// Maximum number of positions: a bit each, 512 MiB in all.
const PLACES_MAX: u64 = 1 << 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Fetched {
    before: Vec<u64>,
    file: Mutex<(File, Vec<u8>)>,
}

impl Fetched {
    /// Opens the record of the list that these arguments name.
    pub(super) fn open(dir: &Path, list: &str) -> anyhow::Result<Fetched> {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        let path = dir.join("fetched");
        let what = || path.display().to_string();
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .append(true)
            .open(&path)
            .with_context(what)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(what)?;
        let head = [&MARK[..], &nephila_store::contents::sum(list.as_bytes()).to_be_bytes()].concat();
        if bytes.is_empty() {
            file.write_all(&head).with_context(what)?;
        } else if !bytes.starts_with(&head) {
            return Err(usage(anyhow::anyhow!(
                "{} is of another list: name the same URLs and files in the same order, or another folder with -o",
                path.display()
            )));
        }
        let mut before = Vec::new();
        for place in bytes.get(head.len()..).unwrap_or_default().as_chunks::<8>().0 {
            let place = u64::from_be_bytes(*place);
            if place < PLACES_MAX {
                let at = (place / 64) as usize;
                if before.len() <= at {
                    before.resize(at + 1, 0);
                }
                before[at] |= 1 << (place % 64);
            }
        }
        Ok(Fetched { before, file: Mutex::new((file, Vec::new())) })
    }

    /// Whether an earlier run finished this position.
    pub(super) fn is_before(&self, place: u64) -> bool {
        self.before.get((place / 64) as usize).is_some_and(|bits| bits & (1 << (place % 64)) != 0)
    }

    /// Records a finished position. If a crash loses the record, the URL is requested again.
    pub(super) fn add(&self, place: u64) {
        let mut file = self.file.lock().expect("nobody panics holding it");
        let (file, buffer) = &mut *file;
        buffer.extend(place.to_be_bytes());
        if buffer.len() >= BUFFER_BYTES_MAX {
            _ = file.write_all(buffer);
            buffer.clear();
        }
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        let (file, buffer) = self.file.get_mut().expect("nobody panics holding it");
        _ = file.write_all(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fin_09_what_was_answered_for_is_known_again_and_another_list_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..3u64 {
            let fetched = Fetched::open(dir.path(), "list").unwrap();
            assert!((0..round * 1_000).all(|place| fetched.is_before(place)));
            assert!(!fetched.is_before(round * 1_000));
            (round * 1_000..(round + 1) * 1_000).for_each(|place| fetched.add(place));
        }
        assert!(format!("{:#}", Fetched::open(dir.path(), "other").unwrap_err()).contains("another list"));
    }
}
