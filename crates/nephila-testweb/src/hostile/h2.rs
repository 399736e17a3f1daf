//! H2-01 to H2-14: frames that flood, lie or never come.
//!
//! Raw cases answer every request, `/robots.txt` included, with their misbehaviour and choose the variant by label:
//! they do not decode header blocks. Cases that need the path, and all good servers over HTTP/2, use the `h2` crate. A
//! client that offers only `http/1.1` gets good pages from all of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{Request, Response};
use tokio::task::JoinSet;

use super::conn::{Conn, Next};
use super::h2frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, HTTP_1_1_REQUIRED,
    INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, NEWEST, PING, PRIORITY, PUSH_PROMISE, REFUSED_STREAM,
    RST_STREAM, SETTINGS, STATUS_200, WINDOW_UPDATE, frame, html_block, indexed_literal, literal, page,
    read_frame, read_preface, settings,
};
use super::{BODY_BYTES_MAX, Case, LIFE_MAX, Shared, good};

const PAGE: &[(&str, &str)] = &[("/page", "a page, if it ever comes")];

pub(super) const CASES: &[Case] = &[
    Case::https("h2-01", PAGE).labels(&[("empty", "the CONTINUATION frames are empty")]),
    Case::https("h2-02", PAGE),
    Case::https("h2-03", PAGE),
    Case::https("h2-04", PAGE).labels(&[
        ("ping", "PING flood"),
        ("window", "WINDOW_UPDATE flood"),
        ("priority", "PRIORITY flood"),
        ("ack", "SETTINGS flood whose acknowledgements are never read"),
    ]),
    Case::https("h2-05", PAGE).labels(&[("queue", "frames that force resets, while nothing is read")]),
    Case::https("h2-06", &[("/page", "GOAWAY for everything on the first connection, good on later ones")]),
    Case::https("h2-07", PAGE).labels(&[
        ("window", "initial window 0, the answer's DATA never comes"),
        ("headers", "not even HEADERS come"),
    ]),
    Case::https("h2-08", &[("/never", "no answer, ever"), ("/page", "an answer at once")]),
    Case::https("h2-09", &[("/page", "a page after 200 ms; 100 streams are allowed")]),
    Case::https(
        "h2-10",
        &[
            ("/page", "421 for a name the connection was not opened for"),
            ("/misdirected", "421 on the first connection that asks"),
        ],
    ),
    Case::https("h2-11", PAGE),
    Case::https("h2-12", PAGE).labels(&[
        ("trailers", "a pseudo-header in the trailers"),
        ("short", "content-length 100, 5 bytes of DATA"),
        ("long", "content-length 5, 100 bytes of DATA"),
    ]),
    Case::https("h2-13", PAGE).labels(&[("headers", "a HEADERS frame of 20,000 bytes")]),
    Case::https("h2-14", PAGE).labels(&[("goaway", "as GOAWAY")]),
];

const STREAMS_MAX: u32 = 100;
/// Reset streams a good server remembers; above the 1,024 of H2-08.
const RESETS_MAX: usize = 4096;
const SLOW: Duration = Duration::from_millis(200);
const FRAME_OVERSIZE: usize = 20_000;
/// Size of the header of H2-03; with its name and overhead the header just fits the dynamic table of 4,096 bytes.
const BOMB_VALUE: usize = 4_000;
/// How often the header is repeated, one byte each: 64 MB of headers in one frame.
const BOMB_REPEATS: usize = 16_000;

/// Serves a connection on which HTTP/2 was agreed.
pub(super) async fn serve(conn: Conn) -> io::Result<()> {
    let good = match conn.id() {
        "h2-06" => conn.number > 1,
        "h2-08" | "h2-09" | "h2-10" => true,
        id => !id.starts_with("h2-"),
    };
    if good { serve_good(conn).await } else { serve_raw(conn).await }
}

async fn serve_good(conn: Conn) -> io::Result<()> {
    let Conn { io, case, number, local, shared, server_name, _open, .. } = conn;
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(STREAMS_MAX);
    // A client of H2-08 resets more streams than the defaults allow, and the server must not be the one to give up.
    builder.max_concurrent_reset_streams(RESETS_MAX).max_pending_accept_reset_streams(RESETS_MAX);
    builder.max_local_error_reset_streams(None);
    let mut connection = builder.handshake::<_, Bytes>(io).await.map_err(io::Error::other)?;
    let mut streams = JoinSet::new();
    let mut requests = 0;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted.map_err(io::Error::other)?;
        while streams.try_join_next().is_some() {}
        requests += 1;
        shared.journal.request(case.id, seen(&shared, &request, number, requests, local));
        let asked =
            Asked { request, id: case.id, number, server_name: server_name.clone(), shared: shared.clone() };
        streams.spawn(asked.answer(respond));
    }
    Ok(())
}

struct Asked {
    request: Request<h2::RecvStream>,
    id: &'static str,
    number: u64,
    server_name: Option<String>,
    shared: Arc<Shared>,
}

/// Guard that counts a stream as open.
struct OpenStream {
    shared: Arc<Shared>,
    id: &'static str,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.shared.journal.stream_closed(self.id);
    }
}

impl Asked {
    async fn answer(self, mut respond: SendResponse<Bytes>) {
        self.shared.journal.stream_opened(self.id);
        let _open = OpenStream { shared: self.shared.clone(), id: self.id };
        let path = self.request.uri().path();
        if self.id == "h2-09" {
            tokio::time::sleep(self.shared.web_time(SLOW)).await;
        }
        if self.id == "h2-08" && path == "/never" {
            // Until the client resets the stream, or the connection's life is over.
            let gone = std::future::poll_fn(|context| respond.poll_reset(context));
            drop(tokio::time::timeout(LIFE_MAX, gone).await);
            return;
        }
        let misdirected = self.id == "h2-10" && self.is_misdirected(path);
        let answer = if misdirected {
            (421, vec![("content-type", "text/plain".to_owned())], b"another connection, please".to_vec())
        } else {
            let field = |name: &str| Some(self.request.headers().get(name)?.to_str().ok()?.to_owned());
            let good = good::good(path, "HTTP/2", field);
            (good.status, good.fields, good.body)
        };
        drop(send(&mut respond, answer, self.request.method() == http::Method::HEAD));
    }

    /// Whether H2-10 sends this request away.
    fn is_misdirected(&self, path: &str) -> bool {
        if path == "/misdirected" {
            let asked = self.shared.journal.requests(self.id);
            return asked
                .iter()
                .find(|seen| seen.path == path)
                .is_some_and(|first| first.connection == self.number);
        }
        self.request.uri().host() != self.server_name.as_deref()
    }
}

fn send(
    respond: &mut SendResponse<Bytes>,
    (status, fields, body): (u16, Vec<(&'static str, String)>, Vec<u8>),
    bodyless: bool,
) -> anyhow::Result<()> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(name, value);
    }
    let empty = bodyless || body.is_empty();
    let mut stream = respond.send_response(response.body(())?, empty)?;
    if !empty {
        stream.send_data(Bytes::from(body), true)?;
    }
    Ok(())
}

fn seen(
    shared: &Shared,
    request: &Request<h2::RecvStream>,
    connection: u64,
    number: u64,
    local: std::net::SocketAddr,
) -> super::Seen {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let mut head = format!(
        "{} {path} HTTP/2\r\n:authority: {}\r\n",
        request.method(),
        uri.authority().map_or("", |it| it.as_str())
    );
    for (name, value) in request.headers() {
        head.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
    }
    head.truncate(head.floor_char_boundary(super::SEEN_HEAD_BYTES_MAX));
    let (at, method) = (shared.journal.now(), request.method().to_string());
    super::Seen { at, connection, number, local, tls: true, method, path, head: head.into_bytes() }
}

async fn serve_raw(mut conn: Conn) -> io::Result<()> {
    read_preface(&mut conn).await?;
    let first = match (conn.id(), conn.label) {
        ("h2-07", "") => settings(&[(MAX_CONCURRENT_STREAMS, 0)]),
        ("h2-07", "window") => settings(&[(INITIAL_WINDOW_SIZE, 0)]),
        _ => settings(&[]),
    };
    conn.send(first).await?;
    loop {
        let read = read_frame(&mut conn).await?;
        match read.kind {
            SETTINGS if read.flags & ACK == 0 => {
                conn.send(frame(SETTINGS, ACK, 0, &[])).await?;
            }
            PING if read.flags & ACK == 0 => conn.send(frame(PING, ACK, 0, &read.payload)).await?,
            HEADERS => {
                conn.requests += 1;
                conn.note("(h2)".to_owned(), String::new(), b"");
                if misbehave(&mut conn, read.stream).await? == Next::Close {
                    return conn.end(Next::Close).await;
                }
            }
            GOAWAY => return conn.end(Next::Close).await,
            _ => {}
        }
    }
}

/// Answers one request of a raw case.
async fn misbehave(conn: &mut Conn, stream: u32) -> io::Result<Next> {
    let block = html_block();
    match (conn.id(), conn.label) {
        ("h2-01", label) => {
            conn.send(frame(HEADERS, 0, stream, &block)).await?;
            let more = if label == "empty" { Vec::new() } else { literal("x-more", &"m".repeat(100)) };
            return flood(conn, &frame(CONTINUATION, 0, stream, &more)).await;
        }
        ("h2-02", _) => {
            conn.send(frame(HEADERS, END_HEADERS, stream, &block)).await?;
            return flood(conn, &frame(DATA, 0, stream, &[])).await;
        }
        ("h2-03", _) => {
            let mut bomb = vec![STATUS_200];
            bomb.extend(indexed_literal("x", &"b".repeat(BOMB_VALUE)));
            // Two frames, because one may have at most 16,384 bytes.
            let mut bytes = frame(HEADERS, END_STREAM, stream, &bomb);
            bytes.extend(frame(CONTINUATION, END_HEADERS, stream, &[NEWEST; BOMB_REPEATS]));
            conn.send(bytes).await?;
        }
        ("h2-04", label) => {
            let one = match label {
                "ping" => frame(PING, 0, 0, &[7; 8]),
                "window" => frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes()),
                "priority" => frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 16]),
                "ack" => settings(&[(INITIAL_WINDOW_SIZE, 65_535)]),
                _ => settings(&[]),
            };
            return if label == "ack" {
                conn.repeat(&one.repeat(64)).await.map(|()| Next::Close)
            } else {
                flood(conn, &one).await
            };
        }
        ("h2-05", "queue") => {
            // A body of the wrong length makes the client reset the stream; every later frame is one more error on a
            // closed stream (RFC 9113, 5.1), and the resets they force are never read.
            conn.send(malformed("short", stream)).await?;
            conn.repeat(&frame(DATA, 0, stream, b"x").repeat(64)).await?;
            return Ok(Next::Close);
        }
        ("h2-05", _) => conn.send(frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes())).await?,
        ("h2-06", _) => conn.send(frame(GOAWAY, 0, 0, &[0; 8])).await?,
        ("h2-07", "window") => conn.send(frame(HEADERS, END_HEADERS, stream, &block)).await?,
        ("h2-07", _) => {}
        ("h2-11", _) => {
            let mut promise = 2u32.to_be_bytes().to_vec();
            // GET, https and / from the static table, the authority written out.
            promise.extend([0x82, 0x87, 0x84]);
            promise.extend(literal(":authority", &super::host("h2-11")));
            let mut bytes = frame(PUSH_PROMISE, END_HEADERS, stream, &promise);
            bytes.extend(page(2, "<p>PUSHED</p>"));
            bytes.extend(page(stream, "<p>asked for</p>"));
            conn.send(bytes).await?;
        }
        ("h2-12", label) => conn.send(malformed(label, stream)).await?,
        ("h2-13", "headers") => {
            let mut wide = block;
            wide.extend(literal("x-wide", &"w".repeat(FRAME_OVERSIZE)));
            let mut bytes = frame(HEADERS, END_HEADERS, stream, &wide);
            bytes.extend(frame(DATA, END_STREAM, stream, b"<p>late</p>"));
            conn.send(bytes).await?;
        }
        ("h2-13", _) => {
            let mut bytes = frame(HEADERS, END_HEADERS, stream, &block);
            bytes.extend(frame(DATA, END_STREAM, stream, &[b'o'; FRAME_OVERSIZE]));
            conn.send(bytes).await?;
        }
        ("h2-14", "goaway") => {
            let mut last = 0u32.to_be_bytes().to_vec();
            last.extend(HTTP_1_1_REQUIRED.to_be_bytes());
            conn.send(frame(GOAWAY, 0, 0, &last)).await?;
            return Ok(Next::Close);
        }
        _ => conn.send(frame(RST_STREAM, 0, stream, &HTTP_1_1_REQUIRED.to_be_bytes())).await?,
    }
    Ok(Next::Keep)
}

/// H2-12.
fn malformed(label: &str, stream: u32) -> Vec<u8> {
    let mut block = html_block();
    let (length, body) = match label {
        "short" => (Some("100"), "short".to_owned()),
        "long" => (Some("5"), "l".repeat(100)),
        _ => (None, "<p>malformed</p>".to_owned()),
    };
    if let Some(length) = length {
        block.extend(literal("content-length", length));
    } else if label.is_empty() {
        block.extend(literal("X-Upper-Case", "yes"));
    }
    let trailers = label == "trailers";
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &block);
    bytes.extend(frame(DATA, if trailers { 0 } else { END_STREAM }, stream, body.as_bytes()));
    if trailers {
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &literal(":status", "200")));
    }
    bytes
}

/// Sends one frame again and again, and discards the client's frames, until the client leaves.
async fn flood(conn: &mut Conn, one: &[u8]) -> io::Result<Next> {
    // A batch near a TLS record's size: one frame per record would measure our own overhead.
    let batch = one.repeat((16_384 / one.len()).max(1));
    let (mut reader, mut writer) = tokio::io::split(&mut conn.io);
    let mut sent = 0;
    let mut swallowed = [0; 16_384];
    let write = async {
        while sent < BODY_BYTES_MAX {
            tokio::io::AsyncWriteExt::write_all(&mut writer, &batch).await?;
            tokio::io::AsyncWriteExt::flush(&mut writer).await?;
            sent += batch.len() as u64;
        }
        io::Result::Ok(())
    };
    let read = async {
        while tokio::io::AsyncReadExt::read(&mut reader, &mut swallowed).await? > 0 {}
        io::Result::Ok(())
    };
    tokio::select! {
        written = write => written?,
        read = read => read?,
    }
    Ok(Next::Close)
}
