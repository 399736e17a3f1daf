//! From an accepted socket to the right misbehaviour.
//!
//! Order: misbehaviour decided by the address alone (resets, silence), then TLS, then one request after another, each
//! handed to the file of its area. Unless a case says otherwise, `/robots.txt` allows everything, so that a crawler
//! gets as far as the misbehaviour, and `/` links to every path of the case.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::conn::{self, Conn, Head, Next, Open, Stream};
use super::listen::Door;
use super::{Shared, compression, dns, encoding, fields, framing, good, h2, redirect, ssrf, tcp, tls, urls};

/// Cases whose `/robots.txt` is part of the misbehaviour.
const OWN_ROBOTS: &[&str] = &["red-03", "ssr-05", "red-13"];

/// Serves one accepted connection to its end.
pub(super) async fn connection(stream: TcpStream, door: Door, shared: Arc<Shared>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let conn = Conn::open(stream, door, shared)?;
    let Some(mut conn) = tcp::before_first_byte(conn).await? else { return Ok(()) };
    // TLS-14 speaks plain HTTP on the TLS port and TLS on the plain one.
    let wants_tls = door.tls != (door.case.id == "tls-14");
    if !wants_tls {
        if door.tls && conn.starts_with_tls().await? {
            // The usual answer of web servers to a TLS hello on a plain port.
            conn.send(conn::response("400 Bad Request", "Connection: close\r\n", "plain HTTP only")).await?;
            return conn.end(Next::Close).await;
        }
        return requests(conn).await;
    }
    let Some((conn, protocol)) = tls::handshake(conn).await? else { return Ok(()) };
    match protocol {
        tls::Protocol::Http1 => requests(conn).await,
        tls::Protocol::Http2 => h2::serve(conn).await,
    }
}

impl Conn {
    fn open(stream: TcpStream, door: Door, shared: Arc<Shared>) -> io::Result<Conn> {
        let local = stream.local_addr()?;
        let (guard, number, open) = Open::new(&shared, door.case.id);
        Ok(Conn {
            io: Box::new(stream) as Box<dyn Stream>,
            case: door.case,
            label: door.label,
            number,
            open,
            local,
            tls: false,
            requests: 0,
            shared,
            unread: Vec::new(),
            server_name: None,
            _open: guard,
        })
    }
}

impl Conn {
    /// Whether the client's first byte is that of a TLS handshake record.
    async fn starts_with_tls(&mut self) -> io::Result<bool> {
        self.io.read_buf(&mut self.unread).await?;
        Ok(self.unread.first() == Some(&0x16))
    }
}

/// Answers requests until the client or the case ends the connection.
async fn requests(mut conn: Conn) -> io::Result<()> {
    while let Some(head) = conn.read_head().await? {
        let next = answer(&mut conn, &head).await?;
        if next != Next::Keep {
            return conn.end(next).await;
        }
        if conn.id() == "tcp-09" && !tcp::still_kept(&mut conn).await {
            return conn.end(Next::Close).await;
        }
    }
    Ok(())
}

async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    let id = conn.id();
    let listed = |path: &str| conn.case.paths.iter().any(|(listed, _)| *listed == path);
    if head.path == "/robots.txt" && !OWN_ROBOTS.contains(&id) && !tcp::breaks_everything(id) {
        // The good one states the permitted uses of its pages.
        let words = if id == "good" { "Content-Signal: ai-train=no\n" } else { "" };
        conn.send(robots(words)).await?;
        return Ok(Next::Keep);
    }
    if head.path == "/" && !listed("/") {
        let index = conn::links(id, conn.case.paths.iter().map(|(path, _)| path));
        conn.send(conn::page(index)).await?;
        return Ok(Next::Keep);
    }
    match id.split('-').next().unwrap_or_default() {
        "dns" => dns::answer(conn, head).await,
        "tcp" => tcp::answer(conn, head).await,
        "tls" => tls::answer(conn, head).await,
        "h1" if fields::owns(id) => fields::answer(conn, head).await,
        "h1" => framing::answer(conn, head).await,
        "red" => redirect::answer(conn, head).await,
        "enc" => encoding::answer(conn, head).await,
        "cmp" => compression::answer(conn, head).await,
        "url" => urls::answer(conn, head).await,
        "ssr" => ssrf::answer(conn, head).await,
        // `good`, the tripwire, and HTTP/2 cases asked over HTTP/1.1.
        _ => good::answer(conn, head).await,
    }
}

/// A robots.txt for everybody with these further lines.
pub(super) fn robots(lines: &str) -> Vec<u8> {
    conn::response("200 OK", "Content-Type: text/plain\r\n", format!("User-agent: *\n{lines}Allow: /\n"))
}
