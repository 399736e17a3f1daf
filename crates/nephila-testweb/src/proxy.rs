//! A small proxy on loopback that records the requested tunnels: HTTP CONNECT and SOCKS5 on one port.
//!
//! Invariants: the proxy listens and connects on loopback only; targets may be names as well as addresses, so that a
//! test can see which of them a client sends; records and lifetimes are bounded.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Maximum size in bytes of the head of a CONNECT.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of recorded tunnels; later ones are served without a record.
const ASKED_MAX: usize = 10_000;
/// Maximum lifetime of a connection.
const LIFE_MAX: Duration = Duration::from_secs(60);
/// One piece of the endless head of a babbling proxy.
const BABBLE: [u8; 1024] = [b'x'; 1024];
const BABBLES_MAX: usize = 4096;

/// How a proxy behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Opens every tunnel to loopback.
    Helpful,
    /// Opens none: 407, or the SOCKS code for "not allowed".
    Refuses,
    /// Never answers.
    Silent,
    /// Answers with a head that does not end.
    Babbles,
}

/// One tunnel that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// `connect` or `socks5`.
    pub kind: &'static str,
    /// The target, as the client wrote: `address:port` or `name:port`.
    pub target: String,
    /// User and password, if there were any; for CONNECT the value of `Proxy-Authorization` and nothing.
    pub credentials: Option<(String, String)>,
    /// The head of a CONNECT; empty for SOCKS5.
    pub head: String,
}

/// A running proxy. Dropping the value ends the proxy and all its tunnels.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts to listen on a free port of 127.0.0.1.
    pub async fn start(manner: Manner) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let list = asked.clone();
        let task = tokio::spawn(async move {
            let mut tunnels = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = tokio::time::timeout(LIFE_MAX, serve(stream, manner, list.clone()));
                // A client that leaves is not our concern.
                tunnels.spawn(async move { drop(served.await) });
                while tunnels.try_join_next().is_some() {}
            }
        });
        Ok(Proxy { addr, asked, task })
    }

    /// The listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The tunnels that were requested, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("nobody panics holding it").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut client: TcpStream, manner: Manner, list: Arc<Mutex<Vec<Asked>>>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut first = [0];
    client.peek(&mut first).await?;
    let asked = if first == [5] { read_socks(&mut client).await? } else { read_connect(&mut client).await? };
    {
        let mut list = list.lock().expect("nobody panics holding it");
        if list.len() < ASKED_MAX {
            list.push(asked.clone());
        }
    }
    let socks = asked.kind == "socks5";
    match manner {
        Manner::Helpful => {}
        Manner::Refuses => {
            let refusal: &[u8] =
                if socks { &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0] } else { b"HTTP/1.1 407 Who?\r\n\r\n" };
            return client.write_all(refusal).await;
        }
        Manner::Silent => return std::future::pending().await,
        Manner::Babbles => {
            client.write_all(b"HTTP/1.1 200 OK\r\nX: ").await?;
            for _ in 0..BABBLES_MAX {
                client.write_all(&BABBLE).await?;
            }
            return Ok(());
        }
    }
    let found = tokio::net::lookup_host(&asked.target).await?.find(|address| address.ip().is_loopback());
    let target = found.ok_or_else(|| io::Error::other("only loopback is served"))?;
    let mut server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    let opened: &[u8] = if socks { &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0] } else { b"HTTP/1.1 200 Go on\r\n\r\n" };
    client.write_all(opened).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn read_connect(client: &mut TcpStream) -> io::Result<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES_MAX {
            return Err(io::Error::other("a head without an end"));
        }
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split_whitespace();
    if words.next() != Some("CONNECT") {
        return Err(io::Error::other("not a CONNECT"));
    }
    let target = words.next().unwrap_or_default().to_owned();
    let field = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("proxy-authorization").then(|| value.trim().to_owned())
    });
    Ok(Asked { kind: "connect", target, credentials: field.map(|value| (value, String::new())), head })
}

/// RFC 1928 and RFC 1929, as much as a client needs.
async fn read_socks(client: &mut TcpStream) -> io::Result<Asked> {
    let mut start = [0; 2];
    client.read_exact(&mut start).await?;
    let mut methods = vec![0; start[1].into()];
    client.read_exact(&mut methods).await?;
    let password = methods.contains(&2);
    client.write_all(&[5, if password { 2 } else { 0 }]).await?;
    let mut credentials = None;
    if password {
        client.read_u8().await?;
        credentials = Some((read_text(client).await?, read_text(client).await?));
        client.write_all(&[1, 0]).await?;
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => {
            let mut octets = [0; 4];
            client.read_exact(&mut octets).await?;
            Ipv4Addr::from(octets).to_string()
        }
        4 => {
            let mut octets = [0; 16];
            client.read_exact(&mut octets).await?;
            format!("[{}]", IpAddr::from(Ipv6Addr::from(octets)))
        }
        _ => read_text(client).await?,
    };
    let port = client.read_u16().await?;
    Ok(Asked { kind: "socks5", target: format!("{host}:{port}"), credentials, head: String::new() })
}

/// A length in one byte and as many bytes of text.
async fn read_text(client: &mut TcpStream) -> io::Result<String> {
    let mut text = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut text).await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
