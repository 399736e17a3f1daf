//! All changes to a disk, as a small trait: the real disk here, a disk with fault injection in `faulty`.
//!
//! Reading is not part of the trait: a failed read loses nothing.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[cfg(any(test, feature = "test-util"))]
pub mod faulty;

/// Changes to folders.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Creates a folder and its parents.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Creates a new file; fails if the name exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens an existing file for writing or truncation.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, and replaces an existing target.
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
    /// Truncates the file to this length.
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

/// Whether the error means that the disk or our quota is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Bytes buffered before each write by a [`Sink`].
const SINK_BYTES: usize = 256 * 1024;

/// Writes a stream into a [`DiskFile`] from an offset on, in large pieces.
#[derive(Debug)]
pub struct Sink<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
    buffer: Vec<u8>,
}

impl<'a> Sink<'a> {
    /// Begins at this offset.
    pub fn new(file: &'a dyn DiskFile, offset: u64) -> Self {
        Sink { file, offset, buffer: Vec::with_capacity(SINK_BYTES) }
    }

    /// Flushes the buffer; returns the end offset of the stream.
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
