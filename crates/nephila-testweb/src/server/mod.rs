//! The HTTP servers: listeners on every address of the web, connections, and the processing of a request.
//!
//! Up to [`LISTENERS_MAX`] addresses have a listener each. Above that, one listener takes connections to any address
//! but only from the loopback device, so that a web may have tens of thousands of addresses with two sockets. A
//! connection speaks HTTP/1.1, or HTTP/2 after TLS negotiation (ALPN) or after the preface of HTTP/2.
//!
//! Invariants: nothing here is reachable from outside this machine; a connection ends when the web is dropped; at most
//! [`CONNECTIONS_MAX`] are open.

mod bare;
mod body;
mod listen;
mod open;
mod service;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use bare::serve_bare;
pub(crate) use listen::bind;

use crate::journal::Journal;
use crate::render::Renderer;
pub(crate) use open::Registry;
use open::{Open, Parting, Wire};
use service::Caller;

/// Addresses that have a listener each.
pub const LISTENERS_MAX: u32 = 64;
/// Connections open at once; more are closed as they come.
pub const CONNECTIONS_MAX: usize = 50_000;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// How long a client may take until the first bytes, and for the TLS handshake.
const GREETING_MAX: Duration = Duration::from_secs(30);
/// Rest after a failed accept, which means we are out of files.
const ACCEPT_REST: Duration = Duration::from_millis(10);

/// State shared by all connections of one web.
pub(crate) struct Shared {
    pub(crate) renderer: Renderer,
    pub(crate) journal: Journal,
    pub(crate) tls: TlsAcceptor,
    pub(crate) connections: AtomicU64,
    pub(crate) open: AtomicUsize,
    pub(crate) left: Registry,
}

/// Accepts on one listener until `stop` changes or is dropped.
pub(crate) async fn accept(listener: TcpListener, tls: bool, shared: Arc<Shared>, stop: watch::Receiver<()>) {
    let mut stopped = stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        let Ok(local) = stream.local_addr() else { continue };
        let local = local.ip().to_canonical();
        if !shared.renderer.world().is_ours(local) || shared.open.load(Ordering::Relaxed) >= CONNECTIONS_MAX {
            // The address of a dead host, reached through the listener for all addresses: reset, like a closed port.
            stream.set_zero_linger().ok();
            continue;
        }
        stream.set_nodelay(true).ok();
        let (shared, mut stop) = (shared.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = serve(stream, local, tls, shared) => {}
                _ = stop.changed() => {}
            }
        });
    }
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, local: IpAddr, tls: bool, shared: Arc<Shared>) {
    let stream = Arc::new(stream);
    // Declared after the socket, so dropped first: the journal has the end before the client sees the close.
    let (open, _ending) = Open::new(shared, &stream, local, tls);
    let wire = Wire(stream.clone());
    if tls {
        let handshake = open.shared.tls.accept(wire);
        let Ok(Ok(stream)) = tokio::time::timeout(GREETING_MAX, handshake).await else { return };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        speak(stream, http2, open).await;
    } else {
        // The preface of HTTP/2 is a request that no client would send: `PRI * HTTP/2.0`.
        let mut first = [0u8; 3];
        let Ok(Ok(len)) = tokio::time::timeout(GREETING_MAX, stream.peek(&mut first)).await else { return };
        let http2 = len == first.len() && &first == b"PRI";
        speak(wire, http2, open).await;
    }
}

/// Speaks HTTP on a stream. Errors are ignored: the client left, or spoke nonsense.
async fn speak(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, http2: bool, open: Arc<Open>) {
    let io = TokioIo::new(Parting::new(stream, open.clone()));
    let caller = Arc::new(Caller::new(open, http2));
    let service = service_fn(move |request| {
        let caller = caller.clone();
        async move { caller.answer(request).await }
    });
    if http2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await.ok();
    } else {
        http1::Builder::new().serve_connection(io, service).await.ok();
    }
}
