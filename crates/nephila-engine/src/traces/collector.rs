//! The HTTP client for the collector: one POST on a connection of its own.
//!
//! The operator names the collector, so its address is not filtered. Redirects are not followed: the header fields of the
//! operator go to the named server alone.
//!
//! Invariants: a request ends within [`CONNECT_TIMEOUT`] and [`POST_TIMEOUT`]; at most [`ANSWER_BYTES_MAX`] bytes of an
//! answer are read; the values of the operator's header fields are in no message.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use nephila_core::spider::answer;
use nephila_core::trace::delivery::Answer;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::clock::Clock;
use crate::settings::{Traces, usage};

/// Timeout of the connection, with TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of the request and its answer.
const POST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Maximum size in bytes of a file with header fields or certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Fields that belong to the exporter.
const OWN_FIELDS: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONNECTION,
];

/// See the module.
pub(super) struct Collector {
    host: String,
    port: u16,
    authority: String,
    target: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    fields: HeaderMap,
}

impl Collector {
    /// The collector of these settings. Reads the files that they name.
    pub(super) fn new(settings: &Traces) -> anyhow::Result<Collector> {
        let url = settings.url().map_err(|error| usage(anyhow::anyhow!(error)))?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let tls = match url.scheme() {
            "https" => Some((connector(&settings.ca_file).map_err(usage)?, name_of(&host).map_err(usage)?)),
            _ => None,
        };
        let fields = match settings.headers_file.as_os_str().is_empty() {
            true => HeaderMap::new(),
            false => fields(&settings.headers_file)
                .with_context(|| format!("traces.headers_file {}", settings.headers_file.display()))
                .map_err(usage)?,
        };
        Ok(Collector {
            port: url.port_or_known_default().unwrap_or(443),
            authority: url.authority().to_owned(),
            target: url.path().to_owned(),
            host,
            tls,
            fields,
        })
    }

    /// The collector, for people.
    pub(super) fn name(&self) -> &str {
        &self.authority
    }

    /// Sends a body. Returns the answer, and the answer in words.
    pub(super) async fn post(&self, body: Bytes) -> (Answer, String) {
        match self.try_post(body).await {
            Ok(answer) => (answer, words(answer)),
            Err(why) => (Answer::None, format!("{why:#}")),
        }
    }

    async fn try_post(&self, body: Bytes) -> anyhow::Result<Answer> {
        let connect = async {
            let stream = TcpStream::connect((&*self.host, self.port)).await?;
            stream.set_nodelay(true)?;
            anyhow::Ok(match &self.tls {
                None => Stream::Plain(stream),
                Some((connector, name)) => {
                    Stream::Tls(Box::new(connector.connect(name.clone(), stream).await.context("TLS")?))
                }
            })
        };
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connect)
            .await
            .with_context(|| format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))??;
        let exchange = async {
            match stream {
                Stream::Plain(stream) => self.exchange(stream, body).await,
                Stream::Tls(stream) => self.exchange(stream, body).await,
            }
        };
        tokio::time::timeout(POST_TIMEOUT, exchange)
            .await
            .with_context(|| format!("no answer within {} s", POST_TIMEOUT.as_secs()))?
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin,
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.target)
            .body(Full::new(body))
            .context("request")?;
        let own = [
            (header::HOST, &*self.authority),
            (header::CONTENT_TYPE, "application/json"),
            (header::CONNECTION, "close"),
            (header::USER_AGENT, concat!("nephila/", env!("CARGO_PKG_VERSION"))),
        ];
        for (name, value) in own {
            request.headers_mut().insert(name, HeaderValue::from_str(value).context("a field")?);
        }
        request.headers_mut().extend(self.fields.clone());
        let answer = async {
            let response = sender.send_request(request).await?;
            let (head, body) = response.into_parts();
            let retry_after = answer::retry_after(&head.headers, Clock::new().now().wall);
            // A body that is too long or broken does not change what the status says.
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
            let rejected = body.map_or(0, |body| rejected(&body.to_bytes()));
            anyhow::Ok(Answer::Status { status: head.status.as_u16(), retry_after, rejected })
        };
        // The connection is driven until the answer is whole. One that fails tells the request, unless the answer was there
        // before: then the answer counts.
        tokio::pin!(answer, connection);
        tokio::select! {
            biased;
            answer = &mut answer => answer,
            _ = &mut connection => answer.await,
        }
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// An answer in words.
fn words(answer: Answer) -> String {
    match answer {
        Answer::None => "no answer".into(),
        Answer::Status { status, rejected: 0, .. } => format!("status {status}"),
        Answer::Status { rejected, .. } => format!("{rejected} spans were rejected"),
    }
}

/// The number of spans that an answer says were rejected.
fn rejected(body: &[u8]) -> u64 {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let number = &body["partialSuccess"]["rejectedSpans"];
    // 64-bit numbers are strings; some servers write numbers.
    number.as_u64().or_else(|| number.as_str()?.parse().ok()).unwrap_or(0)
}

fn name_of(host: &str) -> anyhow::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned())
        .with_context(|| format!("traces.to: no certificate proves {host:?}"))
}

/// TLS with the roots in this file, or with those of browsers.
fn connector(ca_file: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if !ca_file.as_os_str().is_empty() {
        let what = || format!("traces.ca_file {}", ca_file.display());
        roots = RootCertStore::empty();
        let text = read(ca_file).with_context(what)?;
        for certificate in CertificateDer::pem_slice_iter(&text) {
            roots.add(certificate.with_context(what)?).with_context(what)?;
        }
        anyhow::ensure!(!roots.is_empty(), "{}: there is no certificate in it", what());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(text)
}

/// The header fields in a file. Faults name the line, not its text.
fn fields(path: &Path) -> anyhow::Result<HeaderMap> {
    let mode = std::fs::metadata(path)?.permissions().mode();
    anyhow::ensure!(mode & 0o077 == 0, "it can be read by others: chmod 600 it");
    let text = String::from_utf8(read(path)?).ok().context("it is no text")?;
    let mut fields = HeaderMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || format!("line {}: it is not `Name: value`", number + 1);
        let (name, value) = line.split_once(':').with_context(wrong)?;
        let name: HeaderName = name.trim().parse().ok().with_context(wrong)?;
        anyhow::ensure!(!OWN_FIELDS.contains(&name), "line {}: {name} is set by the exporter", number + 1);
        let mut value = HeaderValue::from_str(value.trim()).ok().with_context(wrong)?;
        value.set_sensitive(true);
        fields.append(name, value);
    }
    Ok(fields)
}
