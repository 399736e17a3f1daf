//! A buffered stream that knows its offset, can look ahead beyond its buffer and can pass over bytes.

use std::io::{self, BufRead, Read};

use super::invalid;

pub(super) const BUFFER_BYTES: usize = 64 * 1024;

/// A buffered stream with its offset.
#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    pub(super) offset: u64,
}

impl<R: Read> Input<R> {
    pub(super) fn new(inner: R, offset: u64) -> Self {
        Input { inner, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, offset }
    }

    /// At least this number of the next bytes, fewer only at the end of the stream.
    pub(super) fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        debug_assert!(wanted <= BUFFER_BYTES, "more than fits");
        if self.end - self.start < wanted {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < wanted {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Passes over the bytes before this offset.
    pub(super) fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        if offset < self.offset {
            return Err(invalid("it is longer than its index says"));
        }
        while self.offset < offset {
            let left = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
            let n = self.fill_buf()?.len().min(left);
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.consume(n);
        }
        Ok(())
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let n = available.len().min(out.len());
        out[..n].copy_from_slice(&available[..n]);
        self.consume(n);
        Ok(n)
    }
}

impl<R: Read> BufRead for Input<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.peek(1)
    }

    fn consume(&mut self, n: usize) {
        self.start += n;
        self.offset += n as u64;
    }
}
