//! The DNS server of the web: resolves every host by name, over UDP and TCP on one loopback port.
//!
//! Invariants: an answer is made from the question and the model alone; a name that is not a host does not exist, a
//! host without an address of the asked kind has an empty answer, and an answer too long for UDP is cut with the
//! truncation bit set. At most [`CONNECTIONS_MAX`] TCP connections are served at once, each for [`CONNECTION_FOR`] at
//! most.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, SOA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::journal::{Event, Journal, Lookup};
use crate::model::{Fate, World};

/// TCP connections served at once.
const CONNECTIONS_MAX: usize = 64;
/// How long one TCP connection is served.
const CONNECTION_FOR: Duration = Duration::from_secs(30);
/// Maximum size in bytes of a UDP message that is read.
const UDP_BYTES_MAX: usize = 4096;
/// Maximum number of attempts to find a port that is free for UDP and TCP.
const PORT_TRIES_MAX: u32 = 16;

/// A bound DNS server that does not answer yet.
pub struct Dns {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Dns {
    /// Binds one port of 127.0.0.1 for UDP and TCP; any free one at 0.
    pub async fn bind(port: u16) -> anyhow::Result<Dns> {
        let mut tries = 0;
        loop {
            let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).await.context("bind DNS port for UDP")?;
            match TcpListener::bind(udp.local_addr()?).await {
                Ok(tcp) => return Ok(Dns { udp, tcp }),
                // The port was free for UDP only: look for another one.
                Err(_) if port == 0 && tries < PORT_TRIES_MAX => tries += 1,
                Err(error) => return Err(error).context("bind DNS port for TCP"),
            }
        }
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.tcp.local_addr().expect("a bound socket has an address")
    }

    /// Answers until the future is dropped; gives no answers while `silent` is set.
    pub async fn run(self, world: Arc<World>, journal: Journal, silent: Arc<AtomicBool>) {
        let answerer = Answerer { world, journal, silent };
        let udp = answer_udp(self.udp, answerer.clone());
        let tcp = answer_tcp(self.tcp, answerer);
        tokio::join!(udp, tcp);
    }
}

async fn answer_udp(socket: UdpSocket, answerer: Answerer) {
    let mut buffer = [0u8; UDP_BYTES_MAX];
    loop {
        // An error here is about an earlier answer (its port was closed), never about the socket.
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else { continue };
        if let Some(answer) = answerer.answer(&buffer[..len], false) {
            socket.send_to(&answer, from).await.ok();
        }
    }
}

async fn answer_tcp(listener: TcpListener, answerer: Answerer) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut open = JoinSet::new();
    loop {
        let permit = room.clone().acquire_owned().await.expect("nobody closes it");
        while open.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let answerer = answerer.clone();
        open.spawn(async move {
            tokio::time::timeout(CONNECTION_FOR, answer_stream(stream, answerer)).await.ok();
            drop(permit);
        });
    }
}

async fn answer_stream(mut stream: TcpStream, answerer: Answerer) -> std::io::Result<()> {
    loop {
        let len = stream.read_u16().await?;
        let mut question = vec![0u8; usize::from(len)];
        stream.read_exact(&mut question).await?;
        let Some(answer) = answerer.answer(&question, true) else { return Ok(()) };
        let mut framed = Vec::with_capacity(answer.len() + 2);
        framed.extend_from_slice(&(answer.len() as u16).to_be_bytes());
        framed.extend_from_slice(&answer);
        stream.write_all(&framed).await?;
    }
}

#[derive(Clone)]
struct Answerer {
    world: Arc<World>,
    journal: Journal,
    silent: Arc<AtomicBool>,
}

impl Answerer {
    /// The answer to one message; `None` for bytes that are not a question.
    fn answer(&self, bytes: &[u8], tcp: bool) -> Option<Vec<u8>> {
        if self.silent.load(Ordering::Relaxed) {
            return None;
        }
        let question = Message::from_vec(bytes).ok()?;
        if question.metadata.message_type != MessageType::Query {
            return None;
        }
        let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
        answer.metadata.recursion_desired = question.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        answer.metadata.authoritative = true;
        if question.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(UDP_BYTES_MAX as u16);
            answer.set_edns(edns);
        }
        match question.queries.as_slice() {
            [query] if question.metadata.op_code == OpCode::Query => {
                answer.add_query(query.clone());
                self.fill(&mut answer, query, tcp);
            }
            _ => answer.metadata.response_code = ResponseCode::NotImp,
        }
        let bytes = answer.to_vec().ok()?;
        if !tcp && bytes.len() > usize::from(question.max_payload()) {
            return answer.truncate().to_vec().ok();
        }
        Some(bytes)
    }

    fn fill(&self, answer: &mut Message, query: &Query, tcp: bool) {
        let name = query.name().to_ascii().to_ascii_lowercase();
        let name = name.trim_end_matches('.');
        let addresses = self.addresses(name, query);
        match &addresses {
            None => answer.metadata.response_code = ResponseCode::NXDomain,
            Some(addresses) => {
                let ttl = self.world.settings().dns_ttl.as_secs() as u32;
                for address in addresses {
                    let data = match address {
                        IpAddr::V4(address) => RData::A(A(*address)),
                        IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
                    };
                    answer.add_answer(Record::from_rdata(query.name().clone(), ttl, data));
                }
            }
        }
        let answers = addresses.map_or(0, |addresses| addresses.len() as u32);
        if answers == 0 {
            answer.add_authority(start_of_authority(self.world.settings().dns_ttl.as_secs() as u32));
        }
        if self.journal.is_on() {
            let lookup = Lookup {
                start_us: self.journal.now_us(),
                name: name.to_owned(),
                kind: query.query_type().to_string(),
                tcp,
                answers,
            };
            self.journal.note(lookup.start_us, Event::Lookup(lookup));
        }
    }

    /// The addresses of a name; `None` when there is no such name.
    fn addresses(&self, name: &str, query: &Query) -> Option<Vec<IpAddr>> {
        if self.world.is_domain(name) {
            // The name exists because hosts lie below, but has no address (RFC 8020).
            return Some(Vec::new());
        }
        let host = self.world.host_of(name).filter(|_| !name.contains(':'))?;
        if self.world.fate(host) == Fate::Nameless {
            return None;
        }
        if query.query_class() != DNSClass::IN {
            return Some(Vec::new());
        }
        Some(match query.query_type() {
            RecordType::A => {
                let mut all: Vec<_> = self.world.addresses(host).into_iter().map(IpAddr::V4).collect();
                let period = self.world.settings().addresses_move.as_micros() as u64;
                if let Some(turn) = self.journal.now_us().checked_div(period).filter(|_| all.len() > 1) {
                    let at = ((turn + u64::from(host)) % all.len() as u64) as usize;
                    all = vec![all[at]];
                }
                all
            }
            RecordType::AAAA => self.world.addresses_v6(host).into_iter().map(IpAddr::V6).collect(),
            _ => Vec::new(),
        })
    }
}

/// The SOA record of an empty answer, which tells a resolver how long to cache the answer (RFC 2308).
fn start_of_authority(ttl: u32) -> Record {
    let zone = Name::from_ascii("test.").expect("a good name");
    let server = Name::from_ascii("ns.test.").expect("a good name");
    let soa = SOA::new(server.clone(), server, 1, 3600, 600, 86_400, ttl);
    Record::from_rdata(zone, ttl, RData::SOA(soa))
}
