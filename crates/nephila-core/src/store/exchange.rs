//! One request and its response, ready for the archive: the hand-over between the spider and the store.
//!
//! The spider fills an [`Exchange`] during a fetch; the store turns an exchange into WARC records. Neither crate
//! depends on the other, so the type is here. The body may be in memory or in a file of the spider: the store only
//! reads the body.

use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::{Media, Notes};
use crate::time::Timestamp;

/// One request and its response.
#[derive(Debug)]
pub struct Exchange {
    /// The requested URL, without user information and fragment.
    pub url: String,
    /// When the request was written.
    pub started: Timestamp,
    /// Time from the start of the fetch to its last byte.
    pub elapsed_ms: u64,
    /// The address that was dialled; `None` behind a proxy that hides the address.
    pub address: Option<IpAddr>,
    /// For `WARC-Protocol`, one field each: `http/1.1` or `h2`, then `tls/1.3` or similar.
    pub protocols: Vec<&'static str>,
    /// Request line and fields as sent, including the blank line. Still with secrets: the record maker redacts them.
    pub request_head: Bytes,
    /// Status line and fields as received, including the blank line. For HTTP/2 an equivalent head in HTTP/1.1 form. Empty
    /// if only the body is known: then a `resource` record is stored.
    pub response_head: Bytes,
    /// The body as received: transfer coding removed, content coding kept.
    pub body: Box<dyn Payload>,
    /// Why the body is incomplete, if so.
    pub truncated: Option<Truncation>,
    /// Lines for the metadata record (`via`, `hopsFromSeed`, `outcome`, the result of a TLS check, …).
    pub notes: Notes,
    /// The main text of the page, for a conversion record; empty if there is none.
    pub text: Arc<str>,
    /// The object that holds the body, durably: then the archive stores the head alone.
    pub media: Option<Media>,
}

/// Why a stored body is incomplete. The words are WARC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// A size limit of ours.
    Length,
    /// A deadline of ours, or the minimum speed.
    Time,
    /// The server closed the connection, or broke its own framing.
    Disconnect,
}

impl Truncation {
    /// The value of `WARC-Truncated`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Truncation::Length => "length",
            Truncation::Time => "time",
            Truncation::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The bytes of a body, in memory or in a file.
#[allow(clippy::len_without_is_empty, reason = "nobody asks; a length of zero says it")]
pub trait Payload: fmt::Debug + Send + Sync {
    /// Number of bytes.
    fn len(&self) -> u64;
    /// All bytes, if they are in memory.
    fn in_memory(&self) -> Option<&[u8]>;
    /// Reads the bytes from the start; may be called more than once.
    fn reader(&self) -> io::Result<Box<dyn Read + Send + '_>>;
    /// At most `len` bytes from this place on. Of a body that is not in memory, all bytes before are read too.
    fn piece(&self, from: u64, len: usize) -> io::Result<Bytes> {
        let mut reader = self.reader()?;
        io::copy(&mut reader.by_ref().take(from), &mut io::sink())?;
        let mut bytes = Vec::with_capacity(len);
        reader.take(len as u64).read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
    /// A second handle to the same bytes, without copying them.
    fn share(&self) -> Box<dyn Payload>;
}

impl Exchange {
    /// Whether this is a feed with the same URLs as the one before. If so, the bytes are not stored again (SEEDS D7),
    /// only the notes.
    pub fn is_redundant(&self) -> bool {
        self.notes.iter().any(|(name, value)| name == "feed" && value == crate::feed::REDUNDANT)
    }

    /// A second handle to the same exchange: for an archive that rejected the first one and gets this one later.
    pub fn share(&self) -> Exchange {
        Exchange {
            url: self.url.clone(),
            started: self.started,
            elapsed_ms: self.elapsed_ms,
            address: self.address,
            protocols: self.protocols.clone(),
            request_head: self.request_head.clone(),
            response_head: self.response_head.clone(),
            body: self.body.share(),
            truncated: self.truncated,
            notes: self.notes.clone(),
            text: self.text.clone(),
            media: self.media,
        }
    }
}

impl Payload for Bytes {
    fn len(&self) -> u64 {
        Bytes::len(self) as u64
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(self)
    }

    fn reader(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(&self[..]))
    }

    fn share(&self) -> Box<dyn Payload> {
        Box::new(self.clone())
    }
}
