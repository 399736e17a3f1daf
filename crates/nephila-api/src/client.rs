//! HTTP client for nodes: used among nodes and by commands with `--node`.
//!
//! Invariants: an answer is bounded in size and time, and so is the connection setup; no request is retried; with TLS,
//! nothing is sent before the server has proved its name.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::guard::seconds;
use super::problem::{HttpAnswer, whole};
use super::proof::{self, Nonce};
use super::tls::{Among, HTTPS, Proved, Trust};

/// Timeout of the TCP connect.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of the TLS handshake.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Default port of a node.
pub(crate) const PORT: u16 = 6374;

/// A node that requests are sent to.
#[derive(Clone, Debug)]
pub struct Peer {
    /// `HOST:PORT`.
    address: String,
    token: Option<Arc<str>>,
    /// Expected name of the node; none if a person gave the address.
    node: Option<String>,
    /// Trust and server name for TLS, verified before anything is sent; none without TLS.
    proved: Option<Proved>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Question {
    /// HTTP method of the request.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// Further header fields.
    pub fields: Vec<(&'static str, String)>,
    /// Body of the request; empty for a request without a body.
    pub body: Bytes,
    /// Maximum size of the answer in bytes.
    pub bytes_max: usize,
    /// Timeout for the whole answer.
    pub timeout: Duration,
}

impl Question {
    /// A GET request.
    pub fn get(target: impl Into<String>, bytes_max: usize, timeout: Duration) -> Question {
        let (fields, body) = (Vec::new(), Bytes::new());
        Question { method: Method::GET, target: target.into(), fields, body, bytes_max, timeout }
    }

    /// Sets the method, the content type and the body.
    pub fn saying(mut self, method: Method, content_type: &'static str, body: impl Into<Bytes>) -> Question {
        self.method = method;
        self.body = body.into();
        self.with("content-type", content_type)
    }

    /// Adds a header field.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Question {
        self.fields.push((name, value.into()));
        self
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// HTTP status of the answer.
    pub status: StatusCode,
    /// Header fields of the answer.
    pub headers: HeaderMap,
    /// Complete body of the answer.
    pub body: Bytes,
}

impl Reply {
    /// An answer of this process, as if another had sent it.
    pub async fn of(answer: HttpAnswer) -> Reply {
        let (head, body) = whole(answer).await;
        Reply { status: head.status, headers: head.headers, body }
    }

    /// A header field of the answer, if its value is text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Parses the body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// Title and detail of an RFC 9457 problem.
    pub fn problem(&self) -> (String, String) {
        let problem: serde_json::Value = self.json().unwrap_or_default();
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        (text("title"), text("detail"))
    }
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// No connection could be made, or the TLS handshake failed.
    #[error("{address} cannot be reached: {why}")]
    Unreachable {
        /// The address.
        address: String,
        /// The reason.
        why: String,
    },
    /// The connection was made, and no valid answer came.
    #[error("{address} does not answer: {why}")]
    Silent {
        /// The address.
        address: String,
        /// The reason.
        why: String,
    },
}

impl Peer {
    /// A node of the cluster, at the address in the node's lease. Leases may be forged. So the token is not sent: both
    /// sides prove that they know the token, and with TLS the node first proves its name.
    pub fn node(name: &str, address: &str, token: Option<Arc<str>>, among: &Among) -> Result<Peer, String> {
        let (address, proved) = among.way(name, address)?;
        Ok(Peer { address: address.to_owned(), token, node: Some(name.to_owned()), proved })
    }

    /// A node as a person names one: `https://HOST:PORT`, `http://HOST:PORT`, `HOST:PORT` or `HOST`. Given trust
    /// implies TLS.
    pub fn named(url: &str, token: Option<Arc<str>>, trust: Option<&Trust>) -> Result<Peer, String> {
        let rest = url.trim();
        let (rest, is_tls) = match (rest.strip_prefix(HTTPS), rest.strip_prefix("http://")) {
            (Some(rest), _) => (rest, true),
            (None, Some(_)) if trust.is_some() => {
                return Err(format!("{url:?} is without TLS, for which --ca-file says whom to believe"));
            }
            (None, Some(rest)) => (rest, false),
            (None, None) => (rest, trust.is_some()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains("://") || rest.is_empty() || rest.contains(['/', '?', '#', '@', ' ']) {
            return Err(format!("{url:?} names no node: it is https://HOST:PORT or http://HOST:PORT"));
        }
        let port = match rest.rfind(']') {
            Some(end) => rest[end..].find(':').map(|at| end + at),
            None => rest.find(':'),
        };
        let address = if port.is_some() { rest.to_owned() } else { format!("{rest}:{PORT}") };
        let proved = match is_tls {
            false => None,
            true => {
                let host = rest[..port.unwrap_or(rest.len())].trim_matches(['[', ']']);
                let name = ServerName::try_from(host.to_owned())
                    .map_err(|_| format!("{url:?}: no certificate can prove the name {host:?}"))?;
                Some((trust.cloned().unwrap_or_else(Trust::public), name))
            }
        };
        Ok(Peer { address, token, node: None, proved })
    }

    /// The address, `HOST:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and waits for the answer.
    pub async fn ask(&self, question: Question) -> Result<Reply, NoAnswer> {
        let address = self.address.clone();
        let connect = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(&*self.address)).await;
        let stream = match connect {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(NoAnswer::Unreachable { address, why: error.to_string() }),
            Err(_) => {
                let why = format!("no connection within {} s", CONNECT_TIMEOUT.as_secs());
                return Err(NoAnswer::Unreachable { address, why });
            }
        };
        let timeout = question.timeout;
        let answer = match &self.proved {
            None => tokio::time::timeout(timeout, self.exchange(stream, question)).await,
            Some((trust, name)) => {
                let shaken = trust.connect(name.clone(), stream);
                let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, shaken).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => {
                        let why = format!("TLS with {}: {error}", name.to_str());
                        return Err(NoAnswer::Unreachable { address, why });
                    }
                    Err(_) => {
                        let why = format!("no TLS within {} s", HANDSHAKE_TIMEOUT.as_secs());
                        return Err(NoAnswer::Unreachable { address, why });
                    }
                };
                tokio::time::timeout(timeout, self.exchange(stream, question)).await
            }
        };
        match answer {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(why)) => Err(NoAnswer::Silent { address, why }),
            Err(_) => {
                Err(NoAnswer::Silent { address, why: format!("nothing came within {} s", timeout.as_secs()) })
            }
        }
    }

    /// Sends a request over a stream and reads the answer. Fails if the peer does not prove to be the named node.
    pub async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin,
        question: Question,
    ) -> Result<Reply, String> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
        let mut request = Request::builder().method(question.method).uri(&*question.target);
        request = request.header(header::HOST, &*self.address).header(header::CONNECTION, "close");
        let nonce = Nonce::new();
        if let Some(token) = &self.token {
            let credentials = match &self.node {
                Some(node) => proof::of_request(token, node, &question.target, seconds(), &nonce),
                None => format!("Bearer {token}"),
            };
            let mut value = HeaderValue::from_str(&credentials).map_err(|e| e.to_string())?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        for (name, value) in &question.fields {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(question.body)).map_err(|e| e.to_string())?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, question.bytes_max).collect().await.map_err(|e| e.to_string())?;
            let reply = Reply { status: head.status, headers: head.headers, body: body.to_bytes() };
            match (&self.token, &self.node) {
                // A refusal needs no proof, because its content is not used.
                (Some(token), Some(node))
                    if reply.status != StatusCode::UNAUTHORIZED
                        && !proof::check_answer(token, &nonce, reply.status, &reply.headers, &reply.body) =>
                {
                    Err(format!(
                        "whoever is there does not prove to be node {node}; api.node_token_file (or api.token_file, without it) is \
                         the same on all nodes"
                    ))
                }
                _ => Ok(reply),
            }
        };
        tokio::pin!(connection, exchange);
        // The connection is polled by the task that waits for the answer, and ends with the answer.
        tokio::select! {
            reply = &mut exchange => reply,
            ended = &mut connection => match ended {
                // The connection has ended with everything received.
                Ok(()) => exchange.await,
                Err(error) => Err(error.to_string()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_as_people_write_it() {
        for (url, address) in [
            ("http://127.0.0.1:6374", "127.0.0.1:6374"),
            ("http://one:7000/", "one:7000"),
            ("one", "one:6374"),
            ("[::1]", "[::1]:6374"),
            ("[::1]:80", "[::1]:80"),
        ] {
            let peer = Peer::named(url, None, None).unwrap();
            assert_eq!((peer.address(), peer.proved.is_none()), (address, true), "{url}");
        }
        for url in
            ["ftp://one", "", "http://one/api", "http://u:p@one", "http://one two", "https://", "https://:80"]
        {
            assert!(Peer::named(url, None, None).is_err(), "{url}");
        }
        let trust = Trust::public();
        for (url, trust, name) in [
            ("https://one:7000", None, "one"),
            ("https://[::1]:80", None, "::1"),
            ("https://[::1]", None, "::1"),
            ("127.0.0.1:80", Some(&trust), "127.0.0.1"),
            ("one", Some(&trust), "one"),
        ] {
            let peer = Peer::named(url, None, trust).unwrap();
            assert_eq!(
                peer.proved.map(|(_, name)| name.to_str().into_owned()).as_deref(),
                Some(name),
                "{url}"
            );
        }
        assert!(Peer::named("http://one", None, Some(&trust)).is_err(), "TLS is wanted, and is not");
    }
}
