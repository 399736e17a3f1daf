//! Everything that changes a disk, as a small trait: the real one here, one that fails on demand in `faulty`.
//!
//! Reading is not part of it: a read that fails loses nothing.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(any(test, feature = "test-util"))]
pub mod faulty;

/// Changes to folders.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes a folder and those above it.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes a new file; fails if there is one of that name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file that is there, to write or cut it.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, over another if there is one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

/// Changes to one file.
pub trait DiskFile: fmt::Debug + Send {
    /// Writes all of these bytes at this place.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes the file's bytes durable. After a failure nothing written since the last success may be trusted.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file to this length.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().write(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl DiskFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// Does this mean that there is no room, on the disk or for us?
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Bytes gathered before each write by a [`Sink`].
const SINK_BYTES: usize = 256 * 1024;

/// Writes a stream into a [`DiskFile`] from some place on, in large pieces.
#[derive(Debug)]
pub struct Sink<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    buffer: Vec<u8>,
}

impl<'a> Sink<'a> {
    /// Begins at this place.
    pub fn new(file: &'a dyn DiskFile, offset: u64) -> Self {
        Sink { file, offset, buffer: Vec::with_capacity(SINK_BYTES) }
    }

    /// Writes what is left; returns where the stream ended.
    pub fn finish(mut self) -> io::Result<u64> {
        io::Write::flush(&mut self)?;
        Ok(self.offset)
    }
}

impl io::Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > SINK_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.write_at(self.offset, &self.buffer)?;
            self.offset += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}
