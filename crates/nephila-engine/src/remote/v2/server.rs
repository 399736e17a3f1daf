//! The node's side of the connections of spiders: who may connect, frames in, frames out.
//!
//! Invariants: a connection that is not a spider's after [`HELLO_TIMEOUT`] is closed; so is one that does not read what it
//! is sent for [`WRITE_TIMEOUT`]; a connection holds at most the frames of its open URLs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::BytesMut;
use ipnet::IpNet;
use nephila_core::remote::v2::VERSION;
use nephila_core::remote::v2::frame::{Code, Frame, NAME_BYTES_MAX};
use nephila_core::remote::v2::pool::Hello;
use nephila_core::text::shown;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::super::connections::{ACCEPT_PAUSE, WRITE_TIMEOUT};
use super::Shared;
use super::tls;
use super::told::Told;
use crate::settings::{Settings, usage};

/// Maximum time from a connection to its `HELLO`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;
/// Frames are written together up to this many bytes.
const WRITE_BYTES: usize = 64 << 10;

/// Who may fetch for this node.
struct Allowed {
    name: String,
    token: String,
    networks: Vec<IpNet>,
}

pub(super) struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    /// Empty: everybody on this machine.
    allowed: Vec<Allowed>,
    connections_max: usize,
    fetch_settings: String,
    shared: Arc<Shared>,
}

impl Server {
    pub(super) async fn bind(settings: &Settings, shared: Arc<Shared>) -> anyhow::Result<Server> {
        let spiders = &settings.spiders;
        let tls = match (&spiders.tls_cert, &spiders.tls_key) {
            (Some(certificate), Some(key)) => Some(tls::acceptor(certificate, key).map_err(usage)?),
            _ => None,
        };
        let allowed = spiders.allow.iter().map(|entry| {
            let token = token(&entry.token_file)?;
            anyhow::Ok(Allowed { name: entry.name.clone(), token, networks: entry.networks.clone() })
        });
        let allowed = allowed.collect::<Result<_, _>>().map_err(usage)?;
        let listener = super::super::listen("spiders.listen", &spiders.listen).await?;
        let fetch_settings = Told::of(settings).to_json()?;
        let connections_max = spiders.connections_max;
        Ok(Server { listener, tls, allowed, connections_max, fetch_settings, shared })
    }

    pub(super) async fn run(self) {
        let server = Arc::new(self);
        let room = Arc::new(Semaphore::new(server.connections_max));
        let mut connections = JoinSet::new();
        loop {
            let Ok((stream, peer)) = server.listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            let Ok(permit) = room.clone().try_acquire_owned() else {
                let max = server.connections_max;
                tracing::warn!(%peer, "a spider is refused: there are {max} connections (spiders.connections_max)");
                continue;
            };
            let server = server.clone();
            connections.spawn(async move {
                let _permit = permit;
                if let Err(why) = server.serve(stream, peer).await {
                    tracing::warn!(%peer, "the connection of a spider at {peer} has ended: {why:#}");
                }
            });
        }
    }

    async fn serve(&self, stream: TcpStream, peer: SocketAddr) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        match &self.tls {
            Some(tls) => {
                let stream = tokio::time::timeout(HELLO_TIMEOUT, tls.accept(stream)).await;
                let stream = stream.context("no TLS handshake in time")?.context("TLS")?;
                self.talk(stream, peer).await
            }
            None => self.talk(stream, peer).await,
        }
    }

    async fn talk(&self, stream: impl AsyncRead + AsyncWrite, peer: SocketAddr) -> anyhow::Result<()> {
        let (mut read, mut write) = tokio::io::split(stream);
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        let hello = tokio::time::timeout(HELLO_TIMEOUT, next(&mut read, &mut bytes)).await;
        let hello = match hello.context("no HELLO in time")? {
            Ok(Some(frame)) => self.judge(frame, peer),
            Ok(None) => return Ok(()),
            Err(error) => Err((Code::Frame, format!("{error:#}"))),
        };
        let hello = match hello {
            Ok(hello) => hello,
            Err((code, text)) => {
                let frame = Frame::Error { code, text: text.clone() }.to_bytes();
                _ = tokio::time::timeout(WRITE_TIMEOUT, write.write_all(&frame)).await;
                _ = write.shutdown().await;
                anyhow::bail!("refused: {text}");
            }
        };
        let name = hello.name.clone();
        tracing::info!(spider = %name, %peer, "the spider {name} is connected from {peer}");
        let (send, frames) = mpsc::unbounded_channel();
        let number = self.shared.with(|state, now| {
            let number = state.number();
            state.connections.insert(number, send);
            let fresh = uuid::Uuid::new_v4().as_u128() as u64 | 1;
            state.pool.hello(now, number, hello, fresh, &self.fetch_settings);
            number
        });
        let ended = tokio::select! {
            ended = write_all(&mut write, frames) => ended,
            ended = self.read_all(&mut read, bytes, number) => ended,
        };
        self.shared.with(|state, now| {
            state.connections.remove(&number);
            state.pool.closed(now, number);
        });
        tracing::info!(spider = %name, "the connection to the spider {name} has ended");
        ended
    }

    /// Whether whoever says this may fetch for this node.
    fn judge(&self, frame: Frame, peer: SocketAddr) -> Result<Hello, (Code, String)> {
        let Frame::Hello { version, token, name, capacity, session } = frame else {
            return Err((Code::Frame, "the first frame is not HELLO".into()));
        };
        if version != VERSION {
            let text = format!(
                "this node speaks version {VERSION} and the spider version {version}: use the same release of nephila on both"
            );
            return Err((Code::Version, text));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_name) {
            let text = format!(
                "{:?} is no name of a spider: use 1 to {NAME_BYTES_MAX} letters, digits and -_.",
                shown(&name).to_string()
            );
            return Err((Code::Frame, text));
        }
        if self.allowed.is_empty() {
            return Ok(Hello { name: name.into(), capacity, session });
        }
        let Some(entry) = self
            .allowed
            .iter()
            .find(|entry| verify_slices_are_equal(entry.token.as_bytes(), token.as_bytes()).is_ok())
        else {
            return Err((
                Code::Token,
                "the token is none of spiders.allow: give the spider the right --token-file".into(),
            ));
        };
        let ip = peer.ip().to_canonical();
        if !entry.networks.is_empty() && !entry.networks.iter().any(|network| network.contains(&ip)) {
            let text = format!("{ip} is in no network that spiders.allow gives to {}", entry.name);
            return Err((Code::Network, text));
        }
        let name = match entry.name == name {
            true => name,
            false => format!("{}/{name}", entry.name),
        };
        Ok(Hello { name: name.into(), capacity, session })
    }

    async fn read_all(
        &self,
        read: &mut (impl AsyncRead + Unpin),
        mut bytes: BytesMut,
        number: u64,
    ) -> anyhow::Result<()> {
        while let Some(frame) = next(read, &mut bytes).await? {
            self.shared.with(|state, now| state.pool.frame(now, number, frame));
        }
        Ok(())
    }
}

/// The secret in a file, without the end of the line.
pub(super) fn token(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("the token file {}", file.display()))?;
    let token = text.trim();
    anyhow::ensure!(!token.is_empty(), "the token file {} is empty", file.display());
    Ok(token.to_owned())
}

/// The next frame. `None`: the connection has ended between two frames.
pub(super) async fn next(
    read: &mut (impl AsyncRead + Unpin),
    bytes: &mut BytesMut,
) -> anyhow::Result<Option<Frame>> {
    loop {
        if let Some(frame) = Frame::take(bytes)? {
            return Ok(Some(frame));
        }
        bytes.reserve(READ_BYTES);
        if read.read_buf(bytes).await? == 0 {
            anyhow::ensure!(bytes.is_empty(), "the connection ended within a frame");
            return Ok(None);
        }
    }
}

/// Writes frames until the sender is dropped, as many at a time as there are.
async fn write_all(
    write: &mut (impl AsyncWrite + Unpin),
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
) -> anyhow::Result<()> {
    while let Some(mut bytes) = frames.recv().await {
        while bytes.len() < WRITE_BYTES
            && let Ok(more) = frames.try_recv()
        {
            bytes.extend_from_slice(&more);
        }
        let written = async {
            write.write_all(&bytes).await?;
            write.flush().await
        };
        tokio::time::timeout(WRITE_TIMEOUT, written).await.context("the spider does not read")??;
    }
    _ = tokio::time::timeout(WRITE_TIMEOUT, write.shutdown()).await;
    Ok(())
}
