//! A request for one fetch, and its HTTP message.

use std::net::IpAddr;
use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http_body_util::Empty;
use nephila_core::handler::ReadAs;
use nephila_core::spider::Outcome;
use nephila_core::spider::answer::ExpectedResponse;
use nephila_core::url::CrawlUrl;

use super::{Failed, Inner};
use crate::connection;

/// Maximum size of a request head we send. More header fields are a mistake of the caller.
const REQUEST_BYTES_MAX: usize = 32 * 1024;

/// A request for one fetch.
#[derive(Clone, Debug)]
pub struct Request {
    /// The URL.
    pub url: CrawlUrl,
    /// GET, or HEAD.
    pub head_only: bool,
    /// Additional header fields. The caller decides which fields may go to this origin.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Parts to keep in addition to the outcome.
    pub keep: Keep,
    /// A size limit below that of the settings, for the body as received and as decoded: robots.txt has one.
    pub body_bytes_max: Option<u64>,
    /// The only address to dial: politeness counts by address. With `None` the resolver is asked.
    pub address: Option<IpAddr>,
    /// Maximum open connections to an address, including connections kept for other names; 0 for no limit. Kept
    /// connections are closed before another is opened.
    pub connections_max: u32,
    /// This is the second attempt of a request that may have had no answer: uses a new connection, and no third
    /// follows.
    pub second: bool,
    /// Rest of host and address between two requests. The spider sends one request and needs no rest; another program
    /// that repeats the request waits for this long.
    pub rest: Duration,
    /// Another program that fetches this reads the page as this, and the decoded body is not needed then
    /// ([`crate::Fetched::findings`]). The spider itself does not read.
    pub read_as: Option<ReadAs>,
}

/// Parts of a fetch to keep in addition to the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Head and body as received, for the archive.
    pub exchange: bool,
    /// The decoded body.
    pub decoded: bool,
    /// The SHA-1 of the body as received.
    pub sha1: bool,
}

impl Request {
    /// A plain GET that keeps nothing.
    pub fn get(url: CrawlUrl) -> Self {
        Request {
            url,
            head_only: false,
            fields: Vec::new(),
            keep: Keep::default(),
            body_bytes_max: None,
            address: None,
            connections_max: 0,
            second: false,
            rest: Duration::ZERO,
            read_as: None,
        }
    }

    pub(super) fn asked(&self) -> ExpectedResponse {
        let has = |name: &HeaderName| self.fields.iter().any(|(other, _)| other == name);
        ExpectedResponse {
            head_only: self.head_only,
            conditional: has(&header::IF_NONE_MATCH) || has(&header::IF_MODIFIED_SINCE),
            range: has(&header::RANGE),
        }
    }
}

impl Inner {
    /// The message to send: the fields that every request has, then the fields of this one, then the signature.
    pub(super) fn message(
        &self,
        request: &Request,
        proof: &[(HeaderName, HeaderValue)],
        h2: bool,
    ) -> Result<connection::Request, Failed> {
        let url = &request.url;
        let target = if h2 { url.as_str() } else { url.path_and_query() };
        let bad = |e: http::Error| Failed::new(Outcome::UrlBad, e.to_string());
        let mut message = http::Request::builder()
            .method(if request.head_only { "HEAD" } else { "GET" })
            .uri(target)
            .body(Empty::new())
            .map_err(bad)?;
        let fields = message.headers_mut();
        if !h2 {
            fields.insert(header::HOST, HeaderValue::from_str(url.authority()).map_err(|e| bad(e.into()))?);
        }
        for (name, value) in self.common.iter().chain(&request.fields).chain(proof) {
            fields.insert(name, value.clone());
        }
        let size: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size + target.len() > REQUEST_BYTES_MAX {
            return Err(Failed::new(Outcome::UrlTooLong, "the request would be too large"));
        }
        Ok(message)
    }
}
