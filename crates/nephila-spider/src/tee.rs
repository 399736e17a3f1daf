//! A socket with a witness, which records the head of the response and of the request, byte for byte.
//!
//! The HTTP library returns parsed fields; the archive needs the bytes. So every connection runs through a [`Tee`]. The
//! tee passes read bytes to a [`HeadScan`] (which also enforces the limits that the library lacks) and keeps written
//! bytes until the request is out. Between two requests on a kept connection the witness restarts.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use nephila_core::spider::head::{HeadFault, HeadLimits, HeadScan};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Maximum bytes per read. A read that fills the library's buffer makes the library double the buffer, and a kept
/// connection keeps the larger buffer. Reads of less than 16 kB never grow the buffer beyond that size.
const READ_BYTES_MAX: usize = 16 * 1024 - 1;
/// Maximum bytes of a request head that are kept; ours have a few hundred bytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// HTTP/2: maximum bytes of frames without progress of the response.
const FRAMES_BYTES_MAX: u64 = 1024 * 1024;

/// Recorded since the last request on a connection began.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) scan: HeadScan,
    pub(crate) fault: Option<HeadFault>,
    pub(crate) request: Vec<u8>,
    /// The kind of the last error of the socket, which the HTTP library may hide.
    pub(crate) error: Option<io::ErrorKind>,
    pub(crate) eof: bool,
    /// HTTP/2 only: bytes that may still be read without progress of the response. A flood of frames uses this up.
    pub(crate) frames_left: Option<u64>,
    /// HTTP/1 only: when the last bytes were written and the first ones read. Frames come and go beside the request.
    written: Option<Instant>,
    first_read: Option<Instant>,
}

impl Seen {
    /// When the request was written, and when the first byte of its answer came; neither is known with HTTP/2.
    pub(crate) fn times(&self) -> (Option<Instant>, Option<Instant>) {
        (self.written, self.first_read)
    }
}

/// The witness of one connection, shared between the socket and the fetch.
#[derive(Clone, Debug)]
pub(crate) struct Witness(Arc<Mutex<Seen>>);

impl Witness {
    pub(crate) fn new(limits: HeadLimits) -> Self {
        let scan = HeadScan::new(limits);
        Witness(Arc::new(Mutex::new(Seen {
            scan,
            fault: None,
            request: Vec::new(),
            error: None,
            eof: false,
            frames_left: None,
            written: None,
            first_read: None,
        })))
    }

    /// The record so far.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().expect("nobody panics while holding the witness")
    }

    /// Switches to HTTP/2: there is no text head to scan, but frames are counted.
    pub(crate) fn count_frames(&self) {
        self.seen().frames_left = Some(FRAMES_BYTES_MAX);
    }

    /// Records progress of the response by this number of body bytes.
    pub(crate) fn frames_earned(&self, bytes: usize) {
        if let Some(left) = &mut self.seen().frames_left {
            *left = (*left + 2 * bytes as u64).min(FRAMES_BYTES_MAX);
        }
    }

    /// Starts the record of a new request.
    pub(crate) fn restart(&self) {
        let mut seen = self.seen();
        seen.scan.reset();
        seen.request.clear();
        seen.fault = None;
        (seen.written, seen.first_read) = (None, None);
        if seen.frames_left.is_some() {
            seen.frames_left = Some(FRAMES_BYTES_MAX);
        }
    }
}

/// The socket itself.
#[derive(Debug)]
pub(crate) struct Tee<S> {
    inner: S,
    witness: Witness,
}

impl<S> Tee<S> {
    pub(crate) fn new(inner: S, witness: Witness) -> Self {
        Tee { inner, witness }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tee<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut part = buf.take(READ_BYTES_MAX);
        let result = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part));
        let read = part.filled().len();
        let mut seen = self.witness.seen();
        if let Err(error) = result {
            seen.error = Some(error.kind());
            return Poll::Ready(Err(error));
        }
        if read == 0 {
            seen.eof = true;
            return Poll::Ready(Ok(()));
        }
        if seen.frames_left.is_none() && seen.first_read.is_none() {
            seen.first_read = Some(Instant::now());
        }
        let fed = match &mut seen.frames_left {
            None => seen.scan.feed(part.filled()),
            Some(left) => match left.checked_sub(read as u64) {
                Some(rest) => {
                    *left = rest;
                    Ok(())
                }
                None => Err(HeadFault::TooLarge),
            },
        };
        if let Err(fault) = fed {
            seen.fault = Some(fault);
            return Poll::Ready(Err(io::Error::other("more bytes than an answer needs")));
        }
        drop(seen);
        advance(buf, read);
        Poll::Ready(Ok(()))
    }
}

/// Marks bytes as filled in `buf` that were read into its unfilled part through a smaller view.
#[allow(unsafe_code, reason = "ReadBuf has no safe way to say that a sub-buffer was filled")]
fn advance(buf: &mut ReadBuf<'_>, read: usize) {
    // SAFETY: `read` bytes at the start of the unfilled part were just initialised by the inner read, through
    // `buf.take`, whose own bookkeeping counted them as filled.
    unsafe { buf.assume_init(read) };
    buf.advance(read);
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tee<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, data));
        let mut seen = self.witness.seen();
        match &written {
            Ok(n) => {
                keep(&mut seen.request, &data[..*n]);
                if seen.frames_left.is_none() {
                    seen.written = Some(Instant::now());
                }
            }
            Err(error) => seen.error = Some(error.kind()),
        }
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

fn keep(request: &mut Vec<u8>, data: &[u8]) {
    let room = REQUEST_BYTES_MAX.saturating_sub(request.len());
    request.extend_from_slice(&data[..data.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn both_sides_are_witnessed_and_nothing_is_changed() {
        let (ours, mut theirs) = tokio::io::duplex(256);
        let limits = HeadLimits { bytes_max: 1_000, fields_max: 10, informational_max: 3 };
        let witness = Witness::new(limits);
        let mut tee = Tee::new(ours, witness.clone());
        tee.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        theirs.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").await.unwrap();
        drop(theirs);
        let mut all = Vec::new();
        tee.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"HTTP/1.1 200 OK\r\n\r\nhello");
        let seen = witness.seen();
        assert_eq!(seen.request, b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(seen.scan.head(), b"HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(seen.scan.bytes_after(), 5);
        assert!(seen.eof);
        let (written, first_read) = seen.times();
        assert!(written.is_some() && written <= first_read, "{written:?} {first_read:?}");
        drop(seen);
        witness.restart();
        assert_eq!(witness.seen().times(), (None, None), "another request");
    }

    #[tokio::test]
    async fn a_head_over_its_limit_ends_the_reading() {
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let witness = Witness::new(HeadLimits { bytes_max: 100, fields_max: 10, informational_max: 3 });
        let mut tee = Tee::new(ours, witness.clone());
        theirs.write_all(&[b'x'; 200]).await.unwrap();
        assert!(tee.read_to_end(&mut Vec::new()).await.is_err());
        assert_eq!(witness.seen().fault, Some(HeadFault::TooLarge));
    }
}
