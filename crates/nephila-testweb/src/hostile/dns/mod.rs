//! DNS-01 to DNS-21: the name server, its sockets and the web servers behind its names.
//!
//! A query is recorded in the journal first, then [`zone`] decides the [`Reaction`] and the loops here carry the
//! reaction out, over UDP and TCP. Invariant: at most [`WAITING_MAX`] answers wait; one more is dropped.

mod wire;
mod zone;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{JoinHandle, JoinSet};

use self::zone::Reaction;
pub(super) use self::zone::Zone;
use super::conn::{Conn, Head, Next, links, page, reset};
use super::journal::{QuerySeen, Transport};
use super::listen::DnsSockets;
use super::{Case, LIFE_MAX, Shared, TRAP_ZONE, good};

/// Answers and TCP connections waiting at once.
const WAITING_MAX: usize = 4096;
/// Queries one TCP connection may ask.
const TCP_QUERIES_MAX: usize = 10_000;
const DATAGRAM_MAX: usize = 4096;
/// Rest after a socket error, so that one that stays does not spin.
const ERROR_REST: Duration = Duration::from_millis(20);
/// New names each page of the wildcard trap links to (DNS-15).
const TRAP_LINKS: usize = 100;

const PAGE: &[(&str, &str)] = &[("/page", "an ordinary page, once the name is resolved")];
/// A 63-byte label, the longest there is.
const LONGEST: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

pub(super) const CASES: &[Case] = &[
    Case::http("dns-01", PAGE)
        .labels(&[("any", "NXDOMAIN with SOA, negative TTL 300 s, for every name below")]),
    Case::http("dns-02", PAGE).labels(&[("any", "SERVFAIL for every name below")]),
    Case::http("dns-03", PAGE).labels(&[
        ("nx", "NXDOMAIN (negative TTL 1 s) for the first query of each type, then good"),
        ("late", "SERVFAIL for 120 s after the first query, then good"),
    ]),
    Case::http("dns-04", PAGE).labels(&[("v6", "AAAA ::, no A")]),
    Case::http("dns-05", PAGE).labels(&[
        ("across", "each answer is one CNAME to the other of two names"),
        ("self", "a CNAME to itself"),
        ("endless", "each answer is one CNAME to a new name"),
    ]),
    Case::http("dns-06", PAGE).labels(&[("step", "the same chain, one CNAME per answer")]),
    Case::http("dns-07", PAGE).labels(&[
        ("ok", "truncated, TCP gives the whole set"),
        ("refused", "truncated, TCP is reset (see also `dns_udp_only_addr`)"),
        ("hang", "truncated, TCP never answers"),
        ("partial", "the address of the truncated answer: nobody should come here"),
    ]),
    Case::http("dns-08", PAGE)
        .labels(&[("spoofed", "the address of the false answers: nobody should come here")]),
    Case::http("dns-09", PAGE).labels(&[
        ("many", "4,000 A records over TCP"),
        ("compressed", "64 KB of names that point at long names, over TCP"),
    ]),
    Case::http("dns-10", PAGE),
    Case::http("dns-11", PAGE),
    Case::http("dns-12", PAGE).labels(&[("moved", "where the name lives after `move_dns_12`")]),
    Case::http("dns-13", PAGE).labels(&[
        ("dead", "the first address: refuses"),
        ("blackhole", "the first address of this name drops every SYN, the second works"),
    ]),
    Case::http("dns-14", PAGE),
    Case::http("dns-15", &[("/page", "links to 100 new labels, here and below trap.test")]),
    Case::http("dns-16", &[("/page", "n0 to n9999 in front of the name live on this one address")]),
    Case::http("dns-17", &[("/page", "this name and z0 to z499 in front of it are answered after 8 s")]),
    Case::http("dns-18", &[("/page", "the single label `intranet`, as an absolute name, lives here")])
        .labels(&[("searched", "what `intranet` in our zone gives: nobody should come here")]),
    Case::http("dns-19", PAGE).labels(&[
        ("under_score", "an underscore"),
        ("xn--i-7iq", "an emoji label, in its ASCII form"),
        (LONGEST, "a 63-byte label"),
    ]),
    Case::both("dns-20", PAGE),
    Case::http("dns-21", PAGE),
];

/// The web servers behind the names.
pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    static LABELS: AtomicU64 = AtomicU64::new(0);
    if conn.id() != "dns-15" {
        return good::answer(conn, head).await;
    }
    // The counter makes labels new; the multiplication makes them look random.
    let first = LABELS.fetch_add(TRAP_LINKS as u64, Ordering::Relaxed);
    let port = conn.shared.ports.plain;
    let places = (first..first + TRAP_LINKS as u64).map(|n| {
        let label = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let zone = if n % 2 == 0 { TRAP_ZONE } else { "dns-15.hostile.test" };
        format!("http://r{label:016x}.{zone}:{port}/page")
    });
    conn.send(page(links("a trap", places))).await?;
    Ok(Next::Keep)
}

/// Starts the name server.
pub(super) fn spawn(sockets: DnsSockets, shared: &Arc<Shared>) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let stranger = Arc::new(UdpSocket::from_std(sockets.stranger)?);
    let tcp = TcpListener::from_std(sockets.tcp)?;
    let mut tasks = Vec::new();
    for socket in [sockets.udp, sockets.udp_only] {
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        tasks.push(tokio::spawn(serve_udp(socket, stranger.clone(), shared.clone())));
    }
    tasks.push(tokio::spawn(serve_tcp(tcp, shared.clone())));
    Ok(tasks)
}

async fn serve_udp(socket: Arc<UdpSocket>, stranger: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut waiting = JoinSet::new();
    let mut buffer = [0; DATAGRAM_MAX];
    loop {
        while waiting.try_join_next().is_some() {}
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else {
            tokio::time::sleep(ERROR_REST).await;
            continue;
        };
        match react(&shared, &buffer[..length], Transport::Udp) {
            Reaction::Answer(bytes) => drop(socket.send_to(&bytes, peer).await),
            Reaction::Late(time, bytes) if waiting.len() < WAITING_MAX => {
                let (socket, time) = (socket.clone(), shared.dns_time(time));
                waiting.spawn(async move {
                    tokio::time::sleep(time).await;
                    drop(socket.send_to(&bytes, peer).await);
                });
            }
            Reaction::Spoofed { strange, false_answers, right } => {
                drop(stranger.send_to(&strange, peer).await);
                for bytes in false_answers {
                    drop(socket.send_to(&bytes, peer).await);
                }
                drop(socket.send_to(&right, peer).await);
            }
            Reaction::Silence | Reaction::Late(..) | Reaction::Reset => {}
        }
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    let mut waiting = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if waiting.len() < WAITING_MAX => {
                let Ok((stream, _)) = accepted else {
                    // Out of descriptors: try again when some have been given back.
                    tokio::time::sleep(ERROR_REST).await;
                    continue;
                };
                let life = tokio::time::timeout(LIFE_MAX, tcp_queries(stream, shared.clone()));
                waiting.spawn(async move { drop(life.await) });
            }
            Some(_) = waiting.join_next(), if !waiting.is_empty() => {}
        }
    }
}

async fn tcp_queries(mut stream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    for _ in 0..TCP_QUERIES_MAX {
        let length = stream.read_u16().await?;
        let mut query = vec![0; usize::from(length)];
        stream.read_exact(&mut query).await?;
        let bytes = match react(&shared, &query, Transport::Tcp) {
            Reaction::Answer(bytes) | Reaction::Spoofed { right: bytes, .. } => bytes,
            Reaction::Late(time, bytes) => {
                tokio::time::sleep(shared.dns_time(time)).await;
                bytes
            }
            Reaction::Silence => {
                tokio::time::sleep(LIFE_MAX).await;
                return Ok(());
            }
            Reaction::Reset => return reset(&stream),
        };
        let mut framed = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
        framed.extend(&bytes[..bytes.len().min(usize::from(u16::MAX))]);
        stream.write_all(&framed).await?;
    }
    Ok(())
}

/// Records the query and asks the zone.
fn react(shared: &Shared, bytes: &[u8], transport: Transport) -> Reaction {
    let Some(query) = wire::Query::parse(bytes) else { return Reaction::Silence };
    let up = shared.dns.is_up();
    shared.journal.query(QuerySeen {
        at: shared.journal.now(),
        name: query.name.clone(),
        record_type: query.record_type,
        transport,
        answered: up,
    });
    if !up {
        return if transport == Transport::Tcp { Reaction::Reset } else { Reaction::Silence };
    }
    shared.dns.react(shared, &query, transport)
}
