//! The result of a fetch.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use http::HeaderMap;
use nephila_core::handler::Findings;
use nephila_core::spider::Outcome;
use nephila_core::store::{Exchange, Truncation};
use nephila_core::url::CrawlUrl;

use crate::body::Body;
use crate::decode;
use crate::tls::TlsInfo;

/// One finished fetch.
#[derive(Debug)]
pub struct Fetched {
    /// How the fetch ended.
    pub outcome: Outcome,
    /// Details for people. Empty if the outcome says everything.
    pub detail: String,
    /// The status of the response, if there is one.
    pub status: Option<u16>,
    /// The header fields of the response.
    pub fields: HeaderMap,
    /// The address actually dialled.
    pub address: Option<SocketAddr>,
    /// `http/1.0`, `http/1.1` or `h2`.
    pub protocol: Option<&'static str>,
    /// TLS parameters of the connection.
    pub tls: Option<TlsInfo>,
    /// Whether the connection was kept from an earlier fetch.
    pub reused: bool,
    /// Number of requests sent: 1, or 0 if the fetch ended before.
    pub requests: u32,
    /// Whether one retry is allowed: the server cannot have answered, or wants another protocol or a signature. The
    /// retry follows once the crawl delay of host and address has passed ([`crate::Request::second`]). No part of the
    /// response was read.
    pub again: bool,
    /// How long each phase took.
    pub timings: Timings,
    /// Bytes of the head, as received.
    pub head_bytes: u64,
    /// Bytes of the body, as received.
    pub body_bytes: u64,
    /// Bytes of the body after decoding; equals `body_bytes` without content codings.
    pub decoded_bytes: u64,
    /// Result of decoding the content codings, if there were any.
    pub decoding: Option<decode::Note>,
    /// Redirect target.
    pub redirect: Option<CrawlUrl>,
    /// Why the body is incomplete.
    pub truncated: Option<Truncation>,
    /// Delay requested by the site (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// SHA-1 of the body as received, if requested.
    pub sha1: Option<[u8; 20]>,
    /// The exchange to archive, if requested and if there is a response.
    pub exchange: Option<Exchange>,
    /// The decoded body, if requested.
    pub decoded: Option<Body>,
    /// What another program that fetched the page found on it. Then `decoded` is missing.
    pub findings: Option<Box<Findings>>,
    /// Whom to tell that the page is stored, if another program fetched it.
    pub ack: Option<Ack>,
}

/// Tells whoever fetched a page that it is stored. Dropped before, it tells that the page will not be.
pub struct Ack(Option<Box<dyn FnOnce(bool) + Send + Sync>>);

impl Ack {
    /// Calls this with whether the page is stored.
    pub fn new(tell: impl FnOnce(bool) + Send + Sync + 'static) -> Ack {
        Ack(Some(Box::new(tell)))
    }

    /// The page is stored, and its outcome is durable.
    pub fn stored(mut self) {
        if let Some(tell) = self.0.take() {
            tell(true);
        }
    }
}

impl Drop for Ack {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(false);
        }
    }
}

impl fmt::Debug for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ack")
    }
}

impl Fetched {
    /// A fetch that ended before anything was sent.
    pub fn not_sent(outcome: Outcome, detail: String) -> Self {
        Fetched {
            outcome,
            detail,
            status: None,
            fields: HeaderMap::new(),
            address: None,
            protocol: None,
            tls: None,
            reused: false,
            requests: 0,
            again: false,
            timings: Timings::default(),
            head_bytes: 0,
            body_bytes: 0,
            decoded_bytes: 0,
            decoding: None,
            redirect: None,
            truncated: None,
            retry_after: None,
            sha1: None,
            exchange: None,
            decoded: None,
            findings: None,
            ack: None,
        }
    }
}

/// Duration of each phase. `None`: there was no such phase, or the fetch ended before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Name resolution.
    pub resolve: Option<Duration>,
    /// Connecting.
    pub connect: Option<Duration>,
    /// TLS handshake.
    pub tls: Option<Duration>,
    /// From the request to the end of the head.
    pub head: Option<Duration>,
    /// From the head to the end of the body.
    pub body: Option<Duration>,
    /// The whole fetch.
    pub total: Duration,
    /// When each phase began.
    pub starts: Starts,
}

/// The begin of each phase, counted from the begin of the fetch. `None`: there was no such phase, the fetch ended before,
/// or another program made the fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    /// Name resolution.
    pub resolve: Option<Duration>,
    /// Connecting.
    pub connect: Option<Duration>,
    /// TLS handshake.
    pub tls: Option<Duration>,
    /// Sending the request.
    pub request: Option<Duration>,
    /// The request was written. Not over HTTP/2.
    pub written: Option<Duration>,
    /// The first byte of the answer. Not over HTTP/2.
    pub first_byte: Option<Duration>,
    /// The end of the head.
    pub head_end: Option<Duration>,
    /// Reading the body.
    pub body: Option<Duration>,
}
