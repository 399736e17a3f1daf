//! What a fetch brings back.

use std::net::SocketAddr;
use std::time::Duration;

use http::HeaderMap;
use nephila_core::spider::Outcome;
use nephila_core::store::{Exchange, Truncation};
use nephila_core::url::CrawlUrl;

use crate::body::Body;
use crate::decode;
use crate::tls::TlsInfo;

/// One fetch, ended.
#[derive(Debug)]
pub struct Fetched {
    /// How it ended.
    pub outcome: Outcome,
    /// What happened, for people. Empty if the outcome says it all.
    pub detail: String,
    /// The status of the answer, if there is one.
    pub status: Option<u16>,
    /// Its fields.
    pub fields: HeaderMap,
    /// The address really dialled.
    pub address: Option<SocketAddr>,
    /// `http/1.0`, `http/1.1` or `h2`.
    pub protocol: Option<&'static str>,
    /// What is known about TLS.
    pub tls: Option<TlsInfo>,
    /// Whether the connection was kept from an earlier fetch.
    pub reused: bool,
    /// Requests sent: 1, or 0 if it did not come to that.
    pub requests: u32,
    /// The server cannot have answered, or wants to be asked another way: one more request may follow once host and
    /// address have rested ([`crate::Request::second`]). Nothing of the answer was read.
    pub again: bool,
    /// How long each phase took.
    pub timings: Timings,
    /// Bytes of the head, as received.
    pub head_bytes: u64,
    /// Bytes of the body, as received.
    pub body_bytes: u64,
    /// Bytes of the body after its content codings were undone; the same as `body_bytes` if there were none.
    pub decoded_bytes: u64,
    /// How undoing the content codings went, if there were any.
    pub decoding: Option<decode::Note>,
    /// Where the answer sends us.
    pub redirect: Option<CrawlUrl>,
    /// Why the body is not whole.
    pub truncated: Option<Truncation>,
    /// How long the site asks us to wait.
    pub retry_after: Option<Duration>,
    /// SHA-1 of the body as received, if it was asked for.
    pub sha1: Option<[u8; 20]>,
    /// What to archive, if it was asked for and there is an answer.
    pub exchange: Option<Exchange>,
    /// The decoded body, if it was asked for.
    pub decoded: Option<Body>,
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
        }
    }
}

/// How long each phase took. `None`: there was no such phase, or it was never reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Name to addresses.
    pub resolve: Option<Duration>,
    /// To the connection.
    pub connect: Option<Duration>,
    /// To the end of the TLS handshake.
    pub tls: Option<Duration>,
    /// From the request to the end of the head.
    pub head: Option<Duration>,
    /// From the head to the end of the body.
    pub body: Option<Duration>,
    /// The whole fetch.
    pub total: Duration,
}
