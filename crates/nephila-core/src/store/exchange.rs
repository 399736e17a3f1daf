//! What was said on the wire, ready to be archived: the hand-over between the spider and the store.
//!
//! The spider fills an [`Exchange`] while it fetches; the store turns it into WARC records. Neither knows the other,
//! so the type lives here. The body may lie in memory or in a file of the spider's: the store only reads it.

use std::fmt;
use std::io::{self, Read};
use std::net::IpAddr;

use bytes::Bytes;

use crate::time::Timestamp;

/// One request and its answer.
#[derive(Debug)]
pub struct Exchange {
    /// The URL asked for, without user information and fragment.
    pub url: String,
    /// When the request was written.
    pub started: Timestamp,
    /// From the start of the fetch to its last byte.
    pub elapsed_ms: u64,
    /// The address really dialled; `None` behind a proxy that hides it.
    pub address: Option<IpAddr>,
    /// For `WARC-Protocol`, one field each: `http/1.1` or `h2`, then `tls/1.3` or the like.
    pub protocols: Vec<&'static str>,
    /// Request line and fields as sent, up to and with the blank line. Secrets are still in it: the record maker
    /// redacts them.
    pub request_head: Bytes,
    /// Status line and fields as received, up to and with the blank line. For HTTP/2 an equal head in HTTP/1.1 form.
    pub response_head: Bytes,
    /// The body as received: transfer coding removed, content coding kept.
    pub body: Box<dyn Payload>,
    /// Why the body is not whole, if it is not.
    pub truncated: Option<Truncation>,
    /// Lines for the metadata record (`via`, `hopsFromSeed`, `outcome`, the result of a TLS check, …).
    pub notes: Vec<(&'static str, String)>,
    /// The main text of the page, for a conversion record; empty if there is none.
    pub text: String,
}

/// Why a stored body ends before its time. The words are WARC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    /// A size limit of ours.
    Length,
    /// A deadline of ours, or the minimum speed.
    Time,
    /// The other side went away, or broke its own framing.
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

/// The bytes of a body, wherever they are kept.
#[allow(clippy::len_without_is_empty, reason = "nobody asks; a length of zero says it")]
pub trait Payload: fmt::Debug + Send + Sync {
    /// How many bytes there are.
    fn len(&self) -> u64;
    /// All of them, if they lie in memory.
    fn in_memory(&self) -> Option<&[u8]>;
    /// Reads them from the start; may be called more than once.
    fn reader(&self) -> io::Result<Box<dyn Read + Send + '_>>;
    /// The same bytes for somebody else, without copying them.
    fn share(&self) -> Box<dyn Payload>;
}

impl Exchange {
    /// Is it a feed that names the same URLs as the one before it? Then its bytes are not kept again (SEEDS D7), only
    /// what the notes say.
    pub fn is_redundant(&self) -> bool {
        self.notes.iter().any(|(name, value)| *name == "feed" && value == crate::feed::REDUNDANT)
    }

    /// The same exchange again: an archive that could not take the first one is given this one later.
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
