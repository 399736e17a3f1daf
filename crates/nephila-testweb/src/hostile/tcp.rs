//! TCP-01 to TCP-12: silence, drips, resets and closes at the wrong moment.
//!
//! TCP-01 (dropped SYN) and the refusing address of TCP-02 need no code here: see `listen`.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::Case;
use super::conn::{Conn, Head, Next, not_found, page, response};

/// Between two bytes of a drip (TCP-04, TCP-05).
const DRIP: Duration = Duration::from_millis(500);
/// How long TCP-09 keeps an idle connection.
const IDLE: Duration = Duration::from_secs(5);
/// The `Content-Length` of TCP-05.
const DRIP_BODY: usize = 1_000_000;
/// How much of a body is sent before the reset of TCP-02.
const BYTES_BEFORE_RESET: usize = 10_000;

pub(super) const CASES: &[Case] = &[
    Case::both("tcp-01", &[("/", "SYN is dropped, the connect never ends")]),
    Case::http(
        "tcp-02",
        &[("/body", "RST after 10,000 of 100,000 body bytes"), ("/head", "RST inside the head")],
    )
    .labels(&[("refused", "nobody listens"), ("accept", "RST right after accept, nothing is read")]),
    Case::http("tcp-03", &[("/", "reads the request and never sends a byte")]),
    Case::http("tcp-04", &[("/", "the head, one byte every 0.5 s")]),
    Case::http(
        "tcp-05",
        &[
            ("/", "the body, one byte every 0.5 s, length 1,000,000"),
            ("/chunked", "the same in one-byte chunks"),
        ],
    ),
    Case::http(
        "tcp-06",
        &[
            ("/close", "endless close-delimited body"),
            ("/chunked", "endless chunks"),
            ("/length", "length 2^62"),
        ],
    ),
    Case::http("tcp-07", &[("/", "never reads: a request longer than its small window cannot be written")]),
    Case::http(
        "tcp-08",
        &[
            ("/fresh", "always closes without an answer"),
            ("/reused", "answers the first request of a connection, closes on the second"),
            ("/page", "an ordinary page, to warm a connection"),
        ],
    ),
    Case::http("tcp-09", &[("/", "a page; an idle connection is closed after exactly 5 s")]),
    Case::http(
        "tcp-10",
        &[("/", "a page; later requests on the same connection are swallowed, as by a NAT")],
    ),
    Case::http("tcp-11", &[("/", "a page after a moment; a second connection open meanwhile is reset")]),
    Case::http(
        "tcp-12",
        &[("/", "a page, and a second response glued to it"), ("/garbage", "a page and 100 bytes of noise")],
    ),
];

/// Whether even robots.txt meets the misbehaviour, because the choice falls before a path is known.
pub(super) fn breaks_everything(id: &str) -> bool {
    matches!(id, "tcp-03" | "tcp-07" | "tcp-10" | "tcp-11")
}

/// Misbehaviour decided by the address alone. `None` when the connection has come to its end.
pub(super) async fn before_first_byte(conn: Conn) -> io::Result<Option<Conn>> {
    match (conn.id(), conn.label) {
        ("tcp-02", "accept") => conn.end(Next::Reset).await.map(|()| None),
        ("tcp-07", _) => {
            conn.hold_unread().await;
            Ok(None)
        }
        ("tcp-11", _) if conn.open > 1 => conn.end(Next::Reset).await.map(|()| None),
        _ => Ok(Some(conn)),
    }
}

/// Whether another request came before the idle time of TCP-09 was over.
pub(super) async fn still_kept(conn: &mut Conn) -> bool {
    if !conn.unread.is_empty() {
        return true;
    }
    let idle = conn.shared.web_time(IDLE);
    let more = tokio::time::timeout(idle, conn.io.read_buf(&mut conn.unread)).await;
    matches!(more, Ok(Ok(bytes)) if bytes > 0)
}

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    match (conn.id(), head.path.as_str()) {
        ("tcp-02", "/body") => {
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n").await?;
            conn.send(vec![b'a'; BYTES_BEFORE_RESET]).await?;
            // The bytes must arrive before the RST discards the queued rest.
            conn.rest(Duration::from_millis(100)).await;
            Ok(Next::Reset)
        }
        ("tcp-02", "/head") => {
            conn.send("HTTP/1.1 200 OK\r\nContent-Ty").await?;
            conn.rest(Duration::from_millis(100)).await;
            Ok(Next::Reset)
        }
        ("tcp-03", _) => conn.hold().await.map(|()| Next::Close),
        ("tcp-04", _) => {
            // Long enough to drip for longer than any head deadline.
            let padding = "X-Padding: 0123456789012345678901234567890123456789\r\n".repeat(20);
            let bytes = response("200 OK", &padding, "the head took long");
            conn.drip(&bytes, DRIP).await?;
            Ok(Next::Close)
        }
        ("tcp-05", "/chunked") => {
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await?;
            for _ in 0..DRIP_BODY {
                conn.send("1\r\na\r\n").await?;
                conn.rest(DRIP).await;
            }
            Ok(Next::Close)
        }
        ("tcp-05", _) => {
            let start =
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {DRIP_BODY}\r\n\r\n");
            conn.send(start).await?;
            conn.drip(&vec![b'a'; DRIP_BODY], DRIP).await?;
            Ok(Next::Close)
        }
        ("tcp-06", "/close") => {
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n").await?;
            conn.repeat(&[b'a'; 16 * 1024]).await?;
            Ok(Next::Close)
        }
        ("tcp-06", "/chunked") => {
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await?;
            conn.repeat(format!("4000\r\n{}\r\n", "a".repeat(0x4000)).as_bytes()).await?;
            Ok(Next::Close)
        }
        ("tcp-06", "/length") => {
            let length = 1u64 << 62;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n"
            ))
            .await?;
            conn.repeat(&[b'a'; 16 * 1024]).await?;
            Ok(Next::Close)
        }
        ("tcp-08", "/fresh") => Ok(Next::Close),
        ("tcp-08", "/reused") if conn.requests > 1 => Ok(Next::Close),
        ("tcp-08", "/reused" | "/page") | ("tcp-09", _) => {
            conn.send(page("<p>an ordinary page</p>")).await?;
            Ok(Next::Keep)
        }
        ("tcp-10", _) if conn.requests > 1 => conn.hold().await.map(|()| Next::Close),
        ("tcp-10", _) => {
            conn.send(page("<p>the first request is answered</p>")).await?;
            Ok(Next::Keep)
        }
        ("tcp-11", _) => {
            conn.rest(Duration::from_millis(300)).await;
            conn.send(page("<p>one connection at a time</p>")).await?;
            Ok(Next::Keep)
        }
        ("tcp-12", "/") => {
            let mut bytes = page("<p>the page that was asked for</p>");
            bytes.extend(page("<p>SECOND RESPONSE NOBODY ASKED FOR</p>"));
            conn.send(bytes).await?;
            Ok(Next::Keep)
        }
        ("tcp-12", "/garbage") => {
            let mut bytes = page("<p>the page that was asked for</p>");
            bytes.extend([b'#'; 100]);
            conn.send(bytes).await?;
            Ok(Next::Keep)
        }
        _ => {
            conn.send(not_found()).await?;
            Ok(Next::Keep)
        }
    }
}
