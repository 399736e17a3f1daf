//! The list of a crawl's folder: its key, its partitions and its archive files.
//!
//! Files that vanish or change leave no trace of themselves. So the folder keeps a list, `DIR/contents`, which is
//! compared with the folder at every opening: the fingerprint of the key under which URLs are hashed (and the key once
//! more, as a backup), the number of partitions, and each archive file with its length and its checksum. A folder
//! without a list is from an earlier version: the folder is accepted unchanged, and gets a list.
//!
//! The list is text, a line for each item, and ends with the checksum of all earlier lines:
//!
//! ```text
//! nephila contents 1
//! key FINGERPRINT KEY
//! partitions NUMBER
//! file BYTES SUM INDEX-BYTES INDEX-SUM NAME
//! open NAME
//! sum SUM
//! ```
//!
//! Checksums are xxh3 in sixteen hexadecimal digits; `-` means not computed.
//!
//! Invariants: the list is replaced as a whole; a file is listed after its creation, and unlisted before its removal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::disk::Disk;

/// The name of the list in a crawl's folder.
pub const NAME: &str = "contents";
/// Name of a new list before the rename.
const NAME_NEW: &str = "contents.new";
/// Maximum size of a list in bytes: a line has some 150 bytes.
const BYTES_MAX: u64 = 256 << 20;
const FIRST_LINE: &str = "nephila contents 1";
const READ_BYTES: usize = 256 * 1024;

/// The list of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The key under which URLs are hashed.
    pub key: Option<Key>,
    /// Number of partitions of the frontier; 0 if they are not on disk.
    pub partitions: u32,
    /// Archive files by their final names.
    pub files: BTreeMap<String, Listed>,
}

/// A key for hashing URLs. Its debug output shows only the fingerprint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 16]);

/// An archive file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The file is being written, or was when the process ended.
    Open,
    /// The file is closed and no longer changes.
    Closed(Closed),
}

/// A closed archive file and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Checksum of the file; `None` if closed by a version without checksums.
    pub sum: Option<u64>,
    /// Length of the index in bytes.
    pub index_bytes: u64,
    /// Checksum of the index.
    pub index_sum: Option<u64>,
}

impl Key {
    /// Fingerprint of the key, which reveals nothing about the key.
    pub fn print(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(b"nephila key");
        hash.update(&self.0);
        hash.digest()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:016x})", self.print())
    }
}

impl Contents {
    /// Reads the list of a folder; `None` if there is no list. A damaged list is an `InvalidData` error.
    pub fn read(dir: &Path) -> io::Result<Option<Contents>> {
        let mut text = String::new();
        let file = match File::open(dir.join(NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let read = file.take(BYTES_MAX).read_to_string(&mut text);
        match read {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged()),
            Err(error) => Err(error),
            Ok(_) => Contents::parse(&text).map(Some).ok_or_else(damaged),
        }
    }

    fn parse(text: &str) -> Option<Contents> {
        let (lines, sum) = text.trim_end_matches('\n').rsplit_once('\n')?;
        let sum = hex(sum.strip_prefix("sum ")?)?;
        if xxh3_64(lines.as_bytes()) != sum {
            return None;
        }
        let mut lines = lines.split('\n');
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let mut contents = Contents::default();
        for line in lines {
            let (kind, rest) = line.split_once(' ')?;
            match kind {
                "key" => {
                    let (print, key) = rest.split_once(' ')?;
                    let key = Key(u128::from_str_radix(key, 16).ok()?.to_be_bytes());
                    contents.key = (key.print() == hex(print)?).then_some(key);
                    contents.key?;
                }
                "partitions" => contents.partitions = rest.parse().ok()?,
                "open" => _ = contents.files.insert(rest.to_owned(), Listed::Open),
                "file" => {
                    let mut parts = rest.splitn(5, ' ');
                    let mut next = || parts.next();
                    let closed = Closed {
                        bytes: next()?.parse().ok()?,
                        sum: sum_of(next()?)?,
                        index_bytes: next()?.parse().ok()?,
                        index_sum: sum_of(next()?)?,
                    };
                    contents.files.insert(next()?.to_owned(), Listed::Closed(closed));
                }
                // A later version may have other lines.
                _ => {}
            }
        }
        Some(contents)
    }

    fn text(&self) -> String {
        let mut out = FIRST_LINE.to_owned();
        if let Some(key) = &self.key {
            let _ = write!(out, "\nkey {:016x} {:032x}", key.print(), u128::from_be_bytes(key.0));
        }
        if self.partitions > 0 {
            let _ = write!(out, "\npartitions {}", self.partitions);
        }
        let shown = |sum: Option<u64>| sum.map_or_else(|| "-".to_owned(), |sum| format!("{sum:016x}"));
        for (name, listed) in &self.files {
            let _ = match listed {
                Listed::Open => write!(out, "\nopen {name}"),
                Listed::Closed(Closed { bytes, sum, index_bytes, index_sum }) => {
                    let (sum, index_sum) = (shown(*sum), shown(*index_sum));
                    write!(out, "\nfile {bytes} {sum} {index_bytes} {index_sum} {name}")
                }
            };
        }
        let sum = xxh3_64(out.as_bytes());
        let _ = writeln!(out, "\nsum {sum:016x}");
        out
    }

    /// Replaces the list of a folder, durably.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let new = dir.join(NAME_NEW);
        // Left by a crash.
        if new.exists() {
            disk.remove(&new)?;
        }
        let file = disk.create(&new)?;
        file.write_at(0, self.text().as_bytes())?;
        file.sync()?;
        drop(file);
        disk.rename(&new, &dir.join(NAME))?;
        disk.sync_dir(dir)
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the list is not as it was written")
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn sum_of(text: &str) -> Option<Option<u64>> {
    if text == "-" { Some(None) } else { hex(text).map(Some) }
}

/// Checksum of bytes.
pub fn sum(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Length and checksum of a file.
pub fn sum_file(path: &Path) -> io::Result<(u64, u64)> {
    let mut file = File::open(path)?;
    let mut hash = Xxh3::new();
    let mut piece = vec![0; READ_BYTES];
    let mut bytes = 0;
    loop {
        let n = match file.read(&mut piece) {
            Ok(0) => return Ok((bytes, hash.digest())),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&piece[..n]);
        bytes += n as u64;
    }
}

/// Whether this archive file is in an object store, by the note that a node keeps about its upload.
pub(crate) fn is_stored_elsewhere(dir: &Path, name: &str) -> bool {
    let note = fs::read_to_string(dir.join("uploads").join(format!("{name}.json"))).unwrap_or_default();
    let note: String = note.split_ascii_whitespace().collect();
    let at = note.split_once("\"stored_ms\":").map(|(_, rest)| rest);
    at.is_some_and(|rest| rest.starts_with(|digit: char| matches!(digit, '1'..='9')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    fn some() -> Contents {
        let closed = Closed { bytes: 12, sum: Some(7), index_bytes: 3, index_sum: None };
        Contents {
            key: Some(Key([7; 16])),
            partitions: 16,
            files: [
                ("a b.warc.gz".to_owned(), Listed::Closed(closed)),
                ("c.warc.gz".to_owned(), Listed::Open),
            ]
            .into(),
        }
    }

    #[test]
    fn pro_02_a_list_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Contents::read(dir.path()).unwrap(), None);
        for contents in [some(), Contents::default()] {
            contents.write(&RealDisk, dir.path()).unwrap();
            assert_eq!(Contents::read(dir.path()).unwrap(), Some(contents));
        }
        let golden = "nephila contents 1\nkey 1c2d6a7a2f6b2e2d 0707\n";
        assert_eq!(Contents::parse(golden), None, "it has no sum");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn pro_02_every_flipped_bit_of_a_list_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        some().write(&RealDisk, dir.path()).unwrap();
        let path = dir.path().join(NAME);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() - 1 {
            for bit in [0x01, 0x20, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] ^= bit;
                fs::write(&path, &bytes).unwrap();
                // The case of a hexadecimal digit is not significant.
                let read = Contents::read(dir.path());
                assert!(
                    read.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::InvalidData)
                        || read.unwrap() == Some(some()),
                    "byte {at}"
                );
            }
            fs::write(&path, &whole[..at]).unwrap();
            assert!(Contents::read(dir.path()).is_err(), "cut at {at}");
        }
    }
}
