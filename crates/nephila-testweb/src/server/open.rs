//! Open connections: their bytes, the end of each, and a registry of the connections of each host.
//!
//! A server sees a client's close only when the server checks, and on a busy machine that may be after a request from
//! the client's next connection. So the server checks when the order matters: before the first request of a connection
//! to a host is recorded, the server asks the kernel for every other connection with that host whether the client's
//! side is shut. Likewise a connection that the server itself ends is over before the first sign of that end goes out,
//! since a client that waits for that sign may come back at once.
//!
//! Invariants: a connection is recorded once; a client that closed, or saw us close, before its next connect is never
//! found with two connections to a host; an answer that was handed out whole is never recorded as ended too early.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::Shared;
use crate::journal::{Connection, Event};

/// Shards of the registry, so that threads seldom meet.
const SHARDS: usize = 16;
/// The end time of a connection that has not ended.
const NOT_YET: u64 = u64::MAX;

/// A host as connections reach the server: whether by TLS, and the authority.
type Key = (bool, Arc<str>);

/// The connections that have carried requests, by host.
#[derive(Default)]
pub(crate) struct Registry {
    shards: [Mutex<HashMap<Key, Vec<Weak<Open>>>>; SHARDS],
}

impl Registry {
    /// Registers a connection under the host of its request, after a check whether the other connections there are
    /// still open.
    fn enter(&self, open: &Arc<Open>, host: &Arc<str>) {
        let mut shard = self.shard(host).lock().expect("nobody panics while holding a shard");
        let others = shard.entry((open.tls, host.clone())).or_default();
        others.retain(|other| match other.upgrade() {
            Some(other) => other.id != open.id && !other.has_left(),
            None => false,
        });
        others.push(Arc::downgrade(open));
    }

    fn leave(&self, open: &Open) {
        let hosts = std::mem::take(&mut *open.hosts.lock().expect("nobody panics while holding the hosts"));
        for host in hosts {
            let mut shard = self.shard(&host).lock().expect("nobody panics while holding a shard");
            let key = (open.tls, host);
            if let Some(here) = shard.get_mut(&key) {
                here.retain(|other| other.upgrade().is_some_and(|other| other.id != open.id));
                if here.is_empty() {
                    shard.remove(&key);
                }
            }
        }
    }

    fn shard(&self, host: &str) -> &Mutex<HashMap<Key, Vec<Weak<Open>>>> {
        &self.shards[xxhash_rust::xxh3::xxh3_64(host.as_bytes()) as usize % SHARDS]
    }
}

/// A connection, as its requests and the registry see it. Recorded in the journal at its end.
pub(super) struct Open {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u64,
    pub(super) local: IpAddr,
    pub(super) tls: bool,
    pub(super) requests: AtomicU64,
    start_us: u64,
    left_us: AtomicU64,
    is_noted: AtomicBool,
    stream: Weak<TcpStream>,
    hosts: Mutex<Vec<Arc<str>>>,
}

impl Open {
    /// A connection that has just been accepted, and the guard that ends the connection when dropped.
    pub(super) fn new(
        shared: Arc<Shared>,
        stream: &Arc<TcpStream>,
        local: IpAddr,
        tls: bool,
    ) -> (Arc<Open>, Ending) {
        let id = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
        shared.open.fetch_add(1, Ordering::Relaxed);
        let start_us = shared.journal.now_us();
        let open = Arc::new(Open {
            shared,
            id,
            local,
            tls,
            requests: AtomicU64::new(0),
            start_us,
            left_us: AtomicU64::new(NOT_YET),
            is_noted: AtomicBool::new(false),
            stream: Arc::downgrade(stream),
            hosts: Mutex::default(),
        });
        (open.clone(), Ending(open))
    }

    /// A request to a host comes by this connection. Must be called before the request's start time is taken.
    pub(super) fn carries(self: &Arc<Open>, host: &Arc<str>) {
        let mut hosts = self.hosts.lock().expect("nobody panics while holding the hosts");
        if hosts.contains(host) {
            return;
        }
        hosts.push(host.clone());
        drop(hosts);
        self.shared.left.enter(self, host);
    }

    /// When an answer that was given up now ended: no later than the moment at which the client was seen to have left.
    pub(super) fn given_up_us(&self) -> u64 {
        self.shared.journal.now_us().min(self.left_us.load(Ordering::Relaxed))
    }

    /// Whether the client has shut its side, or the connection is gone. The end is recorded.
    fn has_left(&self) -> bool {
        let Some(stream) = self.stream.upgrade() else { return true };
        let mut asked = [PollFd::new(&*stream, PollFlags::RDHUP)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_shut = rustix::event::poll(&mut asked, Some(&at_once)).is_ok_and(|events| events > 0);
        if is_shut {
            self.end();
        }
        is_shut
    }

    /// The connection is over for its client. The first call counts.
    fn end(&self) {
        if self.is_noted.swap(true, Ordering::Relaxed) {
            return;
        }
        let end_us = self.shared.journal.now_us();
        self.left_us.store(end_us, Ordering::Relaxed);
        if !self.shared.journal.is_on() {
            return;
        }
        let connection = Connection {
            id: self.id,
            start_us: self.start_us,
            end_us,
            local: self.local,
            tls: self.tls,
            requests: self.requests.load(Ordering::Relaxed),
        };
        self.shared.journal.note(self.id, Event::Connection(connection));
    }
}

/// Guard that records the end of a connection when dropped.
pub(super) struct Ending(Arc<Open>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end();
        self.0.shared.left.leave(&self.0);
        self.0.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The socket of a connection, shared with the checks whether its client has left.
pub(super) struct Wire(pub(super) Arc<TcpStream>);

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read_buf(buffer) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Wire {
    fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match write(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |stream| stream.try_write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(socket2::SockRef::from(&*self.0).shutdown(std::net::Shutdown::Write))
    }
}

/// A stream whose connection is recorded as ended before its client can see that the server closes.
pub(super) struct Parting<S> {
    stream: S,
    open: Arc<Open>,
}

impl<S> Parting<S> {
    pub(super) fn new(stream: S, open: Arc<Open>) -> Parting<S> {
        Parting { stream, open }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Parting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Parting<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open.end();
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::journal::Journal;
    use crate::model::World;
    use crate::render::Renderer;
    use crate::tls::{ALPN_BOTH, Ca};

    /// A client's bytes reach the other side of this machine within this time.
    const ARRIVAL_MAX: Duration = Duration::from_secs(20);

    fn shared() -> Arc<Shared> {
        let world = Arc::new(World::new(crate::Settings::default(), 80, 443));
        Arc::new(Shared {
            renderer: Renderer::new(world),
            journal: Journal::in_memory(100),
            tls: TlsAcceptor::from(Ca::new().server_config(ALPN_BOTH)),
            connections: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            left: Registry::default(),
        })
    }

    /// A client, and its connection on the server's side. The server's side is not read.
    async fn connect(shared: &Arc<Shared>) -> (std::net::TcpStream, Arc<TcpStream>, Arc<Open>, Ending) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = Arc::new(listener.accept().await.unwrap().0);
        let (open, ending) = Open::new(shared.clone(), &stream, IpAddr::from([127, 0, 0, 1]), false);
        (client, stream, open, ending)
    }

    /// Closed connections in the journal.
    fn ended(shared: &Shared) -> Vec<u64> {
        shared.journal.log().connections.iter().map(|connection| connection.id).collect()
    }

    #[tokio::test]
    async fn a_close_that_nobody_has_read_yet_counts_before_the_next_request() {
        let shared = shared();
        let host: Arc<str> = "a.test".into();
        let (client, _stream, first, _ending) = connect(&shared).await;
        first.carries(&host);
        let (_other_client, _other_stream, second, _other_ending) = connect(&shared).await;
        second.carries(&host);
        assert!(ended(&shared).is_empty(), "both are open");

        drop(client);
        let before = Instant::now();
        // The kernel may take a moment to carry the close across; the server never reads.
        while !ended(&shared).contains(&1) {
            assert!(before.elapsed() < ARRIVAL_MAX, "the close was not seen");
            let (_client, _stream, third, _ending) = connect(&shared).await;
            third.carries(&"b.test".into());
            assert!(!ended(&shared).contains(&1), "another host's request says nothing about it");
            third.carries(&host);
        }
        assert!(first.given_up_us() <= shared.journal.now_us());
        assert_eq!(second.left_us.load(Ordering::Relaxed), NOT_YET);
    }

    #[tokio::test]
    async fn a_connection_that_the_server_ends_is_over_before_its_client_can_know() {
        let shared = shared();
        let (_client, stream, open, _ending) = connect(&shared).await;
        let mut parting = Parting::new(Wire(stream), open.clone());
        parting.write_all(b"the last answer").await.unwrap();
        assert!(ended(&shared).is_empty());
        parting.shutdown().await.unwrap();
        assert_eq!(ended(&shared), [1]);
    }

    #[tokio::test]
    async fn a_connection_is_noted_once_and_leaves_nothing_behind() {
        let shared = shared();
        let (_client, _stream, open, ending) = connect(&shared).await;
        open.carries(&"a.test".into());
        open.end();
        drop(ending);
        assert_eq!((ended(&shared).len(), shared.open.load(Ordering::Relaxed)), (1, 0));
        assert!(shared.left.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
