//! One POST to a receiver, over a connection of its own.
//!
//! Invariants: redirects are not followed; the head of an answer is bounded in size, and of its body only a bounded part
//! is read; with TLS, nothing is sent before the receiver has proved its name; the time to the head of an answer is
//! bounded by the caller, and a head that came in time counts, whatever happens to the body.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::response::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::super::tls::{ALPN, certificates};

/// Maximum size of the head of an answer in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of the body of an answer that are read, so that the receiver can end in order. They are not used.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Time for these bytes.
const BODY_TIME_MAX: Duration = Duration::from_secs(2);

/// Where deliveries go.
pub(super) struct Receiver {
    /// Name or address, and port.
    address: (String, u16),
    /// The field `Host`.
    authority: String,
    /// Path and query.
    target: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Receiver {
    /// The receiver at this URL, with these CA certificates or the public ones.
    pub(super) fn new(url: &Url, ca_file: &Path) -> anyhow::Result<Receiver> {
        let host = match url.host().context("no host")? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        let port = url.port_or_known_default().context("no port")?;
        let name = url.host_str().unwrap_or_default();
        let authority = url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{}{query}", url.path());
        let tls = match url.scheme() {
            "https" => {
                let proved = ServerName::try_from(host.clone()).context("no certificate has such a name")?;
                Some((connector(ca_file)?, proved))
            }
            _ => None,
        };
        Ok(Receiver { address: (host, port), authority, target, tls })
    }

    /// Sends a delivery, and returns status and fields of the answer, or the reason for a missing one. The head of the
    /// answer comes within `timeout`; the end of the body may take [`BODY_TIME_MAX`] more.
    pub(super) async fn post(
        &self,
        fields: [(&'static str, String); 3],
        body: Bytes,
        timeout: Duration,
    ) -> Result<(StatusCode, HeaderMap), String> {
        match tokio::time::timeout(timeout, self.answer(fields, body)).await {
            Ok(answer) => Ok(answer?.end().await),
            Err(_) => Err(format!("no answer within {}", humantime::format_duration(timeout))),
        }
    }

    async fn answer(&self, fields: [(&'static str, String); 3], body: Bytes) -> Result<Answer, String> {
        let (host, port) = &self.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| format!("no connection: {error}"))?;
        let mut request = Request::builder().method(Method::POST).uri(&self.target);
        request = request.header(header::HOST, &self.authority).header(header::CONNECTION, "close");
        request = request.header(header::CONTENT_TYPE, "application/json");
        request = request.header(header::USER_AGENT, concat!("nephila/", env!("CARGO_PKG_VERSION")));
        for (name, value) in fields {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        match &self.tls {
            None => exchange(stream, request).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                exchange(stream.map_err(|error| format!("no TLS: {error}"))?, request).await
            }
        }
    }
}

/// An answer whose body may still come.
struct Answer {
    head: Parts,
    body: Incoming,
    /// The connection ends when these are dropped.
    _sender: SendRequest<Full<Bytes>>,
    _driving: JoinSet<hyper::Result<()>>,
}

impl Answer {
    /// Reads a bounded part of the body.
    async fn end(self) -> (StatusCode, HeaderMap) {
        let Answer { head, body, _sender, _driving } = self;
        // The status has said everything.
        _ = tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await;
        (head.status, head.headers)
    }
}

async fn exchange<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let handshake = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let mut driving = JoinSet::new();
    driving.spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| format!("no answer: {error}"))?;
    let (head, body) = response.into_parts();
    Ok(Answer { head, body, _sender: sender, _driving: driving })
}

/// TLS 1.2 and 1.3: receivers are programs of others.
fn connector(ca_file: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    match ca_file.as_os_str().is_empty() {
        true => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        false => {
            let what = || format!("ca_file {}", ca_file.display());
            for certificate in certificates(ca_file).with_context(what)? {
                roots.add(certificate).with_context(what)?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
