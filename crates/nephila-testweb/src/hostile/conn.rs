//! One connection of a hostile server: reading heads, writing slowly, ending rudely.
//!
//! Invariant: bytes read are bounded by [`HEAD_BYTES_MAX`], bytes written by `BODY_BYTES_MAX`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::journal::{SEEN_HEAD_BYTES_MAX, Seen};
use super::{BODY_BYTES_MAX, Case, LIFE_MAX, Shared};

/// The longest request head that is read; a longer one ends the connection.
pub(super) const HEAD_BYTES_MAX: usize = 256 * 1024;
/// How long we wait for the client to close after we did, so that our last bytes are not lost to a reset.
const FAREWELL: Duration = Duration::from_secs(2);

/// A byte stream over one TCP connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {
    /// The socket below.
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Stream for TlsStream<Box<dyn Stream>> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0.tcp()
    }
}

/// The fate of a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The connection stays open for the next request.
    Keep,
    /// The connection is closed properly: FIN, and over TLS close_notify before.
    Close,
    /// The socket is closed without close_notify.
    Cut,
    /// RST.
    Reset,
}

/// One accepted connection.
pub(super) struct Conn {
    pub(super) io: Box<dyn Stream>,
    pub(super) case: &'static Case,
    pub(super) label: &'static str,
    /// Which connection of the case this is, from 1.
    pub(super) number: u64,
    /// How many connections of the case were open when this one came, itself included.
    pub(super) open: u64,
    pub(super) local: SocketAddr,
    pub(super) tls: bool,
    /// Requests read so far.
    pub(super) requests: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) unread: Vec<u8>,
    /// The name the client asked for in its TLS hello.
    pub(super) server_name: Option<String>,
    /// Guard that counts the connection as open.
    pub(super) _open: Open,
}

/// A connection that is open, in the journal of its case.
pub(super) struct Open {
    shared: Arc<Shared>,
    id: &'static str,
}

impl Open {
    /// Counts a new connection: the guard, its number, and how many are open now.
    pub(super) fn new(shared: &Arc<Shared>, id: &'static str) -> (Open, u64, u64) {
        let (number, open) = shared.journal.opened(id);
        (Open { shared: shared.clone(), id }, number, open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.journal.closed(self.id);
    }
}

/// A request head.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) raw: Vec<u8>,
    pub(super) method: String,
    /// Path and query as sent.
    pub(super) target: String,
    /// The target without its query.
    pub(super) path: String,
}

impl Head {
    fn parse(raw: Vec<u8>) -> Head {
        let line = raw.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let mut words = line.split_whitespace();
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().to_owned();
        let path = target.split('?').next().unwrap_or_default().to_owned();
        Head { raw, method, target, path }
    }

    /// The first value of a field, trimmed.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.raw).into_owned();
        text.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.trim().eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

impl Conn {
    /// The case's id.
    pub(super) fn id(&self) -> &'static str {
        self.case.id
    }

    /// Reads one request head and records the head in the journal; `None` when the client is done or sends too much.
    pub(super) async fn read_head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = head_end(&self.unread) {
                let rest = self.unread.split_off(end);
                let head = Head::parse(std::mem::replace(&mut self.unread, rest));
                self.requests += 1;
                self.note(head.method.clone(), head.target.clone(), &head.raw);
                return Ok(Some(head));
            }
            if self.unread.len() > HEAD_BYTES_MAX || self.io.read_buf(&mut self.unread).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Writes a request into the journal.
    pub(super) fn note(&self, method: String, path: String, head: &[u8]) {
        let seen = Seen {
            at: self.shared.journal.now(),
            connection: self.number,
            number: self.requests,
            local: self.local,
            tls: self.tls,
            method,
            path,
            head: head[..head.len().min(SEEN_HEAD_BYTES_MAX)].to_vec(),
        };
        self.shared.journal.request(self.id(), seen);
    }

    /// Writes bytes and flushes them.
    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.io.write_all(bytes.as_ref()).await?;
        self.io.flush().await
    }

    /// Writes bytes one at a time with a rest after each; the rest is scaled by the settings.
    pub(super) async fn drip(&mut self, bytes: &[u8], rest: Duration) -> io::Result<()> {
        let rest = self.shared.web_time(rest);
        for byte in bytes {
            self.send([*byte]).await?;
            tokio::time::sleep(rest).await;
        }
        Ok(())
    }

    /// Writes the same bytes again and again until the client leaves or `BODY_BYTES_MAX` is reached.
    pub(super) async fn repeat(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.repeat_up_to(bytes, BODY_BYTES_MAX).await
    }

    /// Writes the same bytes again and again until at least `total` have gone out.
    pub(super) async fn repeat_up_to(&mut self, bytes: &[u8], total: u64) -> io::Result<()> {
        let mut sent = 0;
        while sent < total {
            self.io.write_all(bytes).await?;
            sent += bytes.len() as u64;
        }
        self.io.flush().await
    }

    /// Waits for a scaled time.
    pub(super) async fn rest(&self, time: Duration) {
        tokio::time::sleep(self.shared.web_time(time)).await;
    }

    /// Holds the connection in silence until the client leaves or `LIFE_MAX` is over; received bytes are discarded.
    pub(super) async fn hold(&mut self) -> io::Result<()> {
        let mut swallowed = [0; 4096];
        while self.io.read(&mut swallowed).await? > 0 {}
        Ok(())
    }

    /// Holds the connection without reading a byte, until its life is over.
    pub(super) async fn hold_unread(&self) {
        tokio::time::sleep(LIFE_MAX).await;
    }

    /// Ends the connection in the given way.
    pub(super) async fn end(mut self, how: Next) -> io::Result<()> {
        match how {
            Next::Keep | Next::Close => {
                self.io.shutdown().await?;
                let _ = tokio::time::timeout(FAREWELL, self.hold()).await;
            }
            Next::Cut => {
                socket2::SockRef::from(self.io.tcp()).shutdown(std::net::Shutdown::Write)?;
                let _ = tokio::time::timeout(FAREWELL, self.hold()).await;
            }
            Next::Reset => reset(self.io.tcp())?,
        }
        Ok(())
    }
}

/// Makes the socket answer with RST when dropped.
pub(super) fn reset(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// Where the head ends, one past its empty line.
fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// A response as bytes: status line, fields, `Content-Length` and body.
pub(super) fn response(status: &str, fields: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes =
        format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// An HTML page as a response.
pub(super) fn page(body: impl AsRef<[u8]>) -> Vec<u8> {
    response("200 OK", "Content-Type: text/html; charset=utf-8\r\n", body)
}

/// A redirect as a response.
pub(super) fn redirect(status: &str, location: &str) -> Vec<u8> {
    response(status, &format!("Location: {location}\r\nContent-Type: text/plain\r\n"), "moved")
}

/// A page that does not exist.
pub(super) fn not_found() -> Vec<u8> {
    response("404 Not Found", "Content-Type: text/plain\r\n", "no such page")
}

/// An HTML text with links to these places.
pub(super) fn links<I>(title: &str, places: I) -> String
where
    I: IntoIterator,
    I::Item: std::fmt::Display,
{
    let links: String =
        places.into_iter().map(|place| format!("<p><a href=\"{place}\">link</a></p>\n")).collect();
    format!("<!doctype html><html><head><title>{title}</title></head><body>\n{links}</body></html>\n")
}
