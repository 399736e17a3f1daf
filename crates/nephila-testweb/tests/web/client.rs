//! A raw client. The client knows a web only by its ports, its DNS server and its authority.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nephila_testweb::RunningWeb;
use nephila_testweb::tls::provider;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// Timeout of one answer.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(crate) struct Client {
    pub(crate) dns: SocketAddr,
    pub(crate) tls: tokio_rustls::TlsConnector,
    pub(crate) user_agent: &'static str,
    pub(crate) answer_max: Duration,
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: hyper::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) http2: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body without its content coding.
    pub(crate) fn decoded(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        match self.header("content-encoding") {
            None => plain.extend_from_slice(&self.body),
            Some("gzip") => {
                flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut plain).map(drop).unwrap();
            }
            Some("br") => {
                brotli::Decompressor::new(&self.body[..], 4096).read_to_end(&mut plain).map(drop).unwrap();
            }
            Some("zstd") => plain = zstd::decode_all(&self.body[..]).unwrap(),
            Some(other) => panic!("unknown coding {other}"),
        }
        plain
    }
}

impl Client {
    pub(crate) fn new(web: &RunningWeb) -> Client {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(web.ca().der()).unwrap();
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Client {
            dns: web.dns_addr(),
            tls: tokio_rustls::TlsConnector::from(Arc::new(config)),
            user_agent: "test",
            answer_max: ANSWER_MAX,
        }
    }

    /// Gets a URL over a connection of its own.
    pub(crate) async fn get(&self, url: &str) -> anyhow::Result<Answer> {
        self.get_with(url, &[]).await
    }

    /// Gets a URL with more headers.
    pub(crate) async fn get_with(&self, url: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
        tokio::time::timeout(self.answer_max, self.get_slowly(url, headers))
            .await
            .context("no answer in time")?
    }

    async fn get_slowly(&self, url: &str, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
        let uri: hyper::Uri = url.parse()?;
        let name = uri.host().context("no host")?;
        let https = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if https { 443 } else { 80 });
        let address = *self.resolve(name, RecordType::A).await?.first().context("no address")?;
        let stream = TcpStream::connect((address, port)).await?;
        let mut request = Request::get(url).header("user-agent", self.user_agent);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !https {
            return http1(TokioIo::new(stream), request, &uri).await;
        }
        let stream = self.tls.connect(ServerName::try_from(name.to_owned())?, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return http1(TokioIo::new(stream), request, &uri).await;
        }
        let io = TokioIo::new(stream);
        let (mut send, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
        let running = tokio::spawn(connection);
        let response = send.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let answer = whole(response, true).await;
        drop(send);
        running.await.ok();
        answer
    }

    /// The addresses of a name, asked over UDP.
    pub(crate) async fn resolve(&self, name: &str, kind: RecordType) -> anyhow::Result<Vec<IpAddr>> {
        let message = ask_udp(self.dns, name, kind).await?;
        if message.metadata.response_code != ResponseCode::NoError {
            bail!("{name}: {}", message.metadata.response_code);
        }
        Ok(addresses(&message))
    }
}

async fn http1<S>(io: TokioIo<S>, request: http::request::Builder, uri: &hyper::Uri) -> anyhow::Result<Answer>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (mut send, connection) = hyper::client::conn::http1::handshake(io).await?;
    let running = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = request.uri(path).header("host", uri.authority().context("no authority")?.as_str());
    let response = send.send_request(request.body(Empty::<Bytes>::new())?).await?;
    let answer = whole(response, false).await;
    drop(send);
    running.await.ok();
    answer
}

/// Reads an answer to its end.
pub(crate) async fn whole(response: Response<hyper::body::Incoming>, http2: bool) -> anyhow::Result<Answer> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: head.status, headers: head.headers, body, http2 })
}

pub(crate) fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    let mut name = Name::from_ascii(name).unwrap();
    name.set_fqdn(true);
    message.add_query(Query::query(name, kind));
    message
}

pub(crate) async fn ask_udp(dns: SocketAddr, name: &str, kind: RecordType) -> anyhow::Result<Message> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let question = question(name, kind);
    socket.send_to(&question.to_vec()?, dns).await?;
    let mut buffer = [0u8; 4096];
    let len = tokio::time::timeout(ANSWER_MAX, socket.recv(&mut buffer)).await??;
    let answer = Message::from_vec(&buffer[..len])?;
    assert_eq!(answer.metadata.id, question.metadata.id);
    Ok(answer)
}

pub(crate) async fn ask_tcp(stream: &mut TcpStream, name: &str, kind: RecordType) -> anyhow::Result<Message> {
    let question = question(name, kind).to_vec()?;
    stream.write_u16(question.len() as u16).await?;
    stream.write_all(&question).await?;
    let len = tokio::time::timeout(ANSWER_MAX, stream.read_u16()).await??;
    let mut answer = vec![0u8; usize::from(len)];
    stream.read_exact(&mut answer).await?;
    Ok(Message::from_vec(&answer)?)
}

pub(crate) fn addresses(message: &Message) -> Vec<IpAddr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    };
    message.answers.iter().filter_map(|record| address(&record.data)).collect()
}
