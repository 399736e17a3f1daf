//! Which URLs of a list were answered for, so that the same command goes on where it ended (`-o DIR`).
//!
//! `DIR/fetched` begins with what list it is about; then follow the places in the list of what was answered for, eight bytes
//! each, in any order. A URL that failed and may do better later is not among them, and is asked for again.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;

use crate::settings::usage;

const MARK: &[u8; 8] = b"NPHLIST1";
/// Bytes gathered before they are written.
const BUFFER_BYTES_MAX: usize = 4 * 1024;
/// Places in a list that can be remembered: a bit each, 512 MiB in all.
const PLACES_MAX: u64 = 1 << 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Fetched {
    before: Vec<u64>,
    file: Mutex<(File, Vec<u8>)>,
}

impl Fetched {
    /// Of the list that these arguments name.
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

    /// Was this place answered for by a run before?
    pub(super) fn is_before(&self, place: u64) -> bool {
        self.before.get((place / 64) as usize).is_some_and(|bits| bits & (1 << (place % 64)) != 0)
    }

    /// It is answered for. Should that be lost in a crash, it is asked for again.
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
