//! Buffers a body while it arrives: in memory while the budget lasts, otherwise in an unnamed temporary file.
//!
//! All open fetches share one [`Budget`]. A body that finds the budget spent moves to a file, which disappears with the
//! body. So two thousand endless bodies cost disk for a moment and never memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use nephila_core::store::Payload;

/// Maximum capacity reserved at once for a body that declares its length, also if the declaration is a lie.
const EXPECTED_BYTES_MAX: u64 = 64 * 1024;

/// Memory for bodies, in bytes, shared by all fetches of a spider.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
}

impl Budget {
    /// A budget of this number of bytes.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Budget { left: AtomicUsize::new(bytes) })
    }

    fn take(&self, bytes: usize) -> bool {
        self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes not taken.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }
}

/// A body that is still arriving.
#[derive(Debug)]
pub struct Spool {
    budget: Arc<Budget>,
    taken: usize,
    held: BytesMut,
    expected: usize,
    file: Option<File>,
    len: u64,
}

impl Spool {
    /// A body that should have `expected` bytes.
    pub(crate) fn new(budget: Arc<Budget>, expected: Option<u64>) -> Self {
        let expected = expected.map_or(0, |bytes| bytes.min(EXPECTED_BYTES_MAX) as usize);
        Spool { budget, taken: 0, held: BytesMut::new(), expected, file: None, len: 0 }
    }

    /// Appends the next piece. An error comes from our own disk.
    ///
    /// A piece is a view of the connection's read buffer, so the bytes are copied. Keeping the view would keep the
    /// whole buffer, which the budget does not count, for a body of a few bytes, and the connection would need a new
    /// buffer.
    pub fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        self.len += piece.len() as u64;
        if let Some(file) = &mut self.file {
            return file.write_all(piece);
        }
        if !self.budget.take(piece.len()) {
            let mut file = tempfile::tempfile()?;
            file.write_all(&self.held)?;
            file.write_all(piece)?;
            self.held = BytesMut::new();
            self.budget.give_back(std::mem::take(&mut self.taken));
            self.file = Some(file);
            return Ok(());
        }
        self.taken += piece.len();
        if self.held.is_empty() {
            self.held.reserve(self.expected);
        }
        self.held.extend_from_slice(piece);
        Ok(())
    }

    /// The body has arrived.
    pub fn finish(mut self) -> Body {
        let kept = match self.file.take() {
            Some(file) => Kept::File(file),
            None => Kept::Memory(std::mem::take(&mut self.held).freeze()),
        };
        let taken = std::mem::take(&mut self.taken);
        Body(Arc::new(Held { kept, len: self.len, taken, budget: self.budget.clone() }))
    }
}

/// Lets a decoder write into the spool like into a file.
impl Write for Spool {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.push(piece)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

/// A body that has arrived. Clones share its bytes.
#[derive(Clone, Debug)]
pub struct Body(Arc<Held>);

#[derive(Debug)]
struct Held {
    kept: Kept,
    len: u64,
    taken: usize,
    budget: Arc<Budget>,
}

#[derive(Debug)]
enum Kept {
    Memory(Bytes),
    File(File),
}

impl From<Bytes> for Body {
    /// A body that is in memory already and takes nothing of the memory budget.
    fn from(bytes: Bytes) -> Body {
        let (len, budget) = (bytes.len() as u64, Budget::new(0));
        Body(Arc::new(Held { kept: Kept::Memory(bytes), len, taken: 0, budget }))
    }
}

impl Body {
    /// The first `max` bytes, in memory. An error comes from our own disk.
    pub fn start(&self, max: usize) -> io::Result<Bytes> {
        if let Kept::Memory(bytes) = &self.0.kept {
            return Ok(bytes.slice(..bytes.len().min(max)));
        }
        let mut start = Vec::new();
        self.reader()?.take(max as u64).read_to_end(&mut start)?;
        Ok(start.into())
    }
}

impl Payload for Body {
    fn len(&self) -> u64 {
        self.0.len
    }

    fn in_memory(&self) -> Option<&[u8]> {
        match &self.0.kept {
            Kept::Memory(bytes) => Some(bytes),
            Kept::File(_) => None,
        }
    }

    fn reader(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(match &self.0.kept {
            Kept::Memory(bytes) => Box::new(&bytes[..]),
            Kept::File(file) => Box::new(FileReader { file, at: 0 }),
        })
    }

    fn piece(&self, from: u64, len: usize) -> io::Result<Bytes> {
        match &self.0.kept {
            Kept::Memory(bytes) => {
                let from = bytes.len().min(usize::try_from(from).unwrap_or(usize::MAX));
                Ok(bytes.slice(from..bytes.len().min(from.saturating_add(len))))
            }
            Kept::File(file) => {
                let mut bytes = Vec::with_capacity(len);
                FileReader { file, at: from }.take(len as u64).read_to_end(&mut bytes)?;
                Ok(bytes.into())
            }
        }
    }

    fn share(&self) -> Box<dyn Payload> {
        Box::new(self.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.give_back(self.taken);
    }
}

/// Reads by position, so that several readers are independent.
struct FileReader<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buf, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for FileReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().saturating_add_signed(by),
        };
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Body) -> Vec<u8> {
        let mut all = Vec::new();
        body.reader().unwrap().read_to_end(&mut all).unwrap();
        all
    }

    #[test]
    fn a_body_moves_to_a_file_when_memory_is_spent() {
        let budget = Budget::new(10);
        let mut spool = Spool::new(budget.clone(), Some(5));
        spool.push(b"12345").unwrap();
        spool.push(b"67890").unwrap();
        assert_eq!(budget.left(), 0);
        spool.push(b"abc").unwrap();
        assert_eq!(budget.left(), 10);
        let body = spool.finish();
        assert!(body.in_memory().is_none());
        assert_eq!((read(&body), read(&body)), (b"1234567890abc".to_vec(), b"1234567890abc".to_vec()));
    }

    #[test]
    fn memory_comes_back_with_the_body() {
        let budget = Budget::new(10);
        let mut spool = Spool::new(budget.clone(), Some(5));
        spool.push(b"12345").unwrap();
        let body = spool.finish();
        assert_eq!((budget.left(), body.in_memory(), Payload::len(&body)), (5, Some(&b"12345"[..]), 5));
        drop(body);
        assert_eq!(budget.left(), 10);
        let mut spool = Spool::new(budget.clone(), Some(5));
        spool.push(b"12345").unwrap();
        drop(spool);
        assert_eq!(budget.left(), 10);
    }
}
