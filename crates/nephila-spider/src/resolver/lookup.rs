//! One lookup: questions to a recursive resolver over UDP, over TCP where an answer does not fit, aliases followed.
//!
//! The wire format is hickory's. The exchange is ours, because every failure must have its own name and its own bound
//! (`docs/decisions/0002-stub-resolver.md`). Each question leaves from a port of its own with a random id. An answer
//! counts only if address, port, id and question are right, and only records reached through the chain of aliases are
//! used.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, RecordType};
use nephila_core::spider::{Outcome, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum addresses kept per name.
pub const ADDRESSES_MAX: usize = 8;
/// Maximum aliases followed. Real chains have up to nine.
const ALIASES_MAX: usize = 16;
/// Maximum questions for one family of one name, however many aliases each answer adds.
const QUESTIONS_MAX: usize = 16;
/// Maximum unrelated datagrams before a question is given up.
const STRAY_DATAGRAMS_MAX: usize = 256;
/// Maximum datagram size announced to the resolver: larger datagrams get lost in fragments.
const DATAGRAM_BYTES_MAX: usize = 1232;
/// When one family has answered, the other gets this much longer.
const OTHER_FAMILY_WAIT: Duration = Duration::from_millis(50);
/// Timeout of a probe to a silent resolver, and how long an answer counts as a sign of life.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Lifetime of "does not exist" when the zone does not say.
const NEGATIVE_TTL: Duration = Duration::from_secs(60);

/// Result of a lookup, and its lifetime.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) answer: super::DnsAnswer,
    pub(super) ttl: Duration,
}

impl Found {
    pub(super) fn failed(outcome: Outcome) -> Self {
        Found { answer: Err(outcome), ttl: NEGATIVE_TTL }
    }
}

/// Queries the resolvers.
#[derive(Debug)]
pub(super) struct Client {
    servers: Vec<SocketAddr>,
    timeout: Duration,
    attempts: u32,
    total: Duration,
    ipv6: bool,
    /// Time of the last answer of any resolver.
    heard: Mutex<Option<Instant>>,
}

type Records = Result<(Vec<IpAddr>, Duration), (Outcome, Duration)>;

impl Client {
    pub(super) fn new(servers: Vec<SocketAddr>, settings: &Settings) -> Self {
        Client {
            servers,
            timeout: settings.dns_timeout,
            attempts: settings.dns_attempts.max(1),
            total: settings.dns_total_timeout,
            ipv6: has_ipv6(),
            heard: Mutex::default(),
        }
    }

    pub(super) async fn look_up(&self, name: &str) -> Found {
        let mut absolute = match Name::from_labels(name.split('.').map(str::as_bytes)) {
            Ok(absolute) => absolute,
            Err(_) => return Found::failed(Outcome::UrlBadHost),
        };
        absolute.set_fqdn(true);
        self.both_families(&absolute, Instant::now() + self.total).await
    }

    async fn both_families(&self, name: &Name, deadline: Instant) -> Found {
        let v4 = self.records(name, RecordType::A, deadline);
        if !self.ipv6 {
            return join(v4.await, None);
        }
        let mut v4 = std::pin::pin!(v4);
        let mut v6 = std::pin::pin!(self.records(name, RecordType::AAAA, deadline));
        tokio::select! {
            v4 = &mut v4 => match v4 {
                Ok(_) => join(v4, timeout(OTHER_FAMILY_WAIT, v6).await.ok()),
                Err(_) => join(v4, Some(v6.await)),
            },
            v6 = &mut v6 => match v6 {
                Ok(_) => match timeout(OTHER_FAMILY_WAIT, v4).await {
                    Ok(v4) => join(v4, Some(v6)),
                    Err(_) => join(v6, None),
                },
                Err(_) => join(v4.await, Some(v6)),
            },
        }
    }

    /// The addresses of one family, aliases followed.
    async fn records(&self, name: &Name, kind: RecordType, deadline: Instant) -> Records {
        let mut chain = vec![name.clone()];
        let mut ttl = u32::MAX;
        for _ in 0..QUESTIONS_MAX {
            let asked = chain.last().expect("never empty").clone();
            let message =
                self.ask(&asked, kind, deadline).await.map_err(|outcome| (outcome, NEGATIVE_TTL))?;
            let negative = negative_ttl(&message);
            match message.metadata.response_code {
                ResponseCode::NoError => {}
                ResponseCode::NXDomain => {
                    return Err((Outcome::DnsNxdomain, negative.unwrap_or(NEGATIVE_TTL)));
                }
                ResponseCode::Refused | ResponseCode::NotAuth => {
                    return Err((Outcome::DnsRefused, NEGATIVE_TTL));
                }
                _ => return Err((Outcome::DnsServfail, NEGATIVE_TTL)),
            }
            let before = chain.len();
            while let Some((target, its_ttl)) = alias(&message, chain.last().expect("never empty")) {
                if chain.contains(&target) || chain.len() > ALIASES_MAX {
                    return Err((Outcome::DnsCnameLoop, NEGATIVE_TTL));
                }
                ttl = ttl.min(its_ttl);
                chain.push(target);
            }
            let addresses = addresses(&message, chain.last().expect("never empty"), &mut ttl);
            if !addresses.is_empty() {
                return Ok((addresses, Duration::from_secs(ttl.into())));
            }
            // An alias without its target: ask for the target, unless the zone says that there is none.
            if chain.len() == before || negative.is_some() {
                return Err((Outcome::DnsNodata, negative.unwrap_or(NEGATIVE_TTL)));
            }
        }
        Err((Outcome::DnsCnameLoop, NEGATIVE_TTL))
    }

    /// One question, to each resolver in turn, as often as the settings say.
    async fn ask(&self, name: &Name, kind: RecordType, deadline: Instant) -> Result<Message, Outcome> {
        let mut worst = Outcome::DnsUnreachable;
        // A silent zone is blamed only if the resolver answered after each timeout: a resolver that goes away or comes
        // back during the wait is to blame itself.
        let mut is_alive = true;
        for attempt in 0..self.attempts {
            for (nth, server) in self.servers.iter().enumerate() {
                match ask_server(*server, name, kind, self.timeout, deadline).await {
                    Ok(message) => {
                        self.note_answer();
                        let servfail = message.metadata.response_code == ResponseCode::ServFail;
                        // Another resolver may know better; the same resolver is not asked twice, its answer stands.
                        if servfail && attempt == 0 && nth + 1 < self.servers.len() {
                            worst = Outcome::DnsServfail;
                            continue;
                        }
                        return Ok(message);
                    }
                    Err(Failed::Final(outcome)) => return Err(outcome),
                    Err(Failed::Away) => {}
                    Err(Failed::Silent) => {
                        worst = Outcome::DnsTimeout;
                        is_alive = is_alive && self.is_alive().await;
                    }
                }
                if Instant::now() >= deadline {
                    break;
                }
            }
        }
        match worst {
            Outcome::DnsTimeout if !is_alive => Err(Outcome::DnsUnreachable),
            other => Err(other),
        }
    }

    /// Whether our resolver answers at all. Without a recent answer to any question, the resolver gets a question that
    /// every resolver can answer.
    async fn is_alive(&self) -> bool {
        if self.last_answer().is_some_and(|heard| heard.elapsed() < PROBE_TIMEOUT) {
            return true;
        }
        for server in &self.servers {
            let until = Instant::now() + PROBE_TIMEOUT;
            if ask_server(*server, &Name::root(), RecordType::NS, PROBE_TIMEOUT, until).await.is_ok() {
                self.note_answer();
                return true;
            }
        }
        false
    }

    fn note_answer(&self) {
        *self.heard.lock().expect("nobody panics holding it") = Some(Instant::now());
    }

    fn last_answer(&self) -> Option<Instant> {
        *self.heard.lock().expect("nobody panics holding it")
    }
}

enum Failed {
    /// The resolver cannot be reached.
    Away,
    /// The resolver did not answer in time.
    Silent,
    /// Asking elsewhere would not help.
    Final(Outcome),
}

/// One question to one resolver. Each transport gets `within`, both together end at the deadline.
async fn ask_server(
    server: SocketAddr,
    name: &Name,
    kind: RecordType,
    within: Duration,
    deadline: Instant,
) -> Result<Message, Failed> {
    let until = || (Instant::now() + within).min(deadline);
    let mut question = Message::query();
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(name.clone(), kind));
    let mut edns = hickory_proto::op::Edns::new();
    edns.set_max_payload(DATAGRAM_BYTES_MAX as u16);
    question.set_edns(edns);
    let bytes = question.to_vec().map_err(|_| Failed::Final(Outcome::UrlBadHost))?;
    let answer =
        timeout_at(until(), over_udp(server, &question, &bytes)).await.map_err(|_| Failed::Silent)??;
    if !answer.metadata.truncation {
        return Ok(answer);
    }
    let whole = timeout_at(until(), over_tcp(server, &question, &bytes)).await;
    whole.unwrap_or(Err(Failed::Final(Outcome::DnsTruncated)))
}

async fn over_udp(server: SocketAddr, question: &Message, bytes: &[u8]) -> Result<Message, Failed> {
    let from: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(from).await.map_err(ours_or_away)?;
    socket.connect(server).await.map_err(ours_or_away)?;
    socket.send(bytes).await.map_err(ours_or_away)?;
    let mut buffer = [0; 4096];
    for _ in 0..STRAY_DATAGRAMS_MAX {
        let length = socket.recv(&mut buffer).await.map_err(ours_or_away)?;
        // A late, forged or broken datagram does not answer this question.
        if let Ok(answer) = Message::from_vec(&buffer[..length])
            && answers(&answer, question)
        {
            return Ok(answer);
        }
    }
    Err(Failed::Final(Outcome::DnsBadAnswer))
}

async fn over_tcp(server: SocketAddr, question: &Message, bytes: &[u8]) -> Result<Message, Failed> {
    let talk = async {
        let mut stream = TcpStream::connect(server).await?;
        let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes()[..], bytes].concat()).await?;
        let mut answer = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    // A truncated answer is never used as if complete.
    let answer = talk.await.map_err(|error| match ours_or_away(error) {
        Failed::Final(ours) => Failed::Final(ours),
        _ => Failed::Final(Outcome::DnsTruncated),
    })?;
    match Message::from_vec(&answer) {
        Ok(answer) if answers(&answer, question) && !answer.metadata.truncation => Ok(answer),
        _ => Err(Failed::Final(Outcome::DnsBadAnswer)),
    }
}

fn answers(answer: &Message, question: &Message) -> bool {
    let asked = &question.queries[0];
    answer.metadata.id == question.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.metadata.op_code == OpCode::Query
        && matches!(answer.queries.as_slice(), [echoed] if echoed.query_type() == asked.query_type()
            && echoed.query_class() == DNSClass::IN
            && echoed.name() == asked.name())
}

fn ours_or_away(error: io::Error) -> Failed {
    match crate::error::of_socket(&error) {
        Outcome::LocalFiles => Failed::Final(Outcome::LocalFiles),
        Outcome::LocalPorts => Failed::Final(Outcome::LocalPorts),
        _ => Failed::Away,
    }
}

fn alias(message: &Message, name: &Name) -> Option<(Name, u32)> {
    message.answers.iter().find_map(|record| match &record.data {
        RData::CNAME(target) if record.name == *name => Some((target.0.clone(), record.ttl)),
        _ => None,
    })
}

fn addresses(message: &Message, name: &Name, ttl: &mut u32) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for record in message.answers.iter().filter(|record| record.name == *name) {
        let address: IpAddr = match &record.data {
            RData::A(address) => address.0.into(),
            RData::AAAA(address) => address.0.into(),
            _ => continue,
        };
        *ttl = (*ttl).min(record.ttl);
        if found.len() < ADDRESSES_MAX && !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// The zone's negative time to live (RFC 2308).
fn negative_ttl(message: &Message) -> Option<Duration> {
    message.authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) => Some(Duration::from_secs(soa.minimum.min(record.ttl).into())),
        _ => None,
    })
}

/// Merges both families alternately, so that neither is cut off. The order of the families is decided later, per
/// request.
fn join(first: Records, second: Option<Records>) -> Found {
    let mut families = [Some(first), second].into_iter().flatten().collect::<Vec<_>>();
    let mut failure = (Outcome::DnsNodata, NEGATIVE_TTL);
    let mut ttl = Duration::MAX;
    let mut lists = Vec::new();
    for records in families.drain(..) {
        match records {
            Ok((addresses, its_ttl)) => {
                ttl = ttl.min(its_ttl);
                lists.push(addresses);
            }
            // "No such record" says less than any other failure.
            Err(other) if failure.0 == Outcome::DnsNodata => failure = other,
            Err(_) => {}
        }
    }
    if lists.is_empty() {
        return Found { answer: Err(failure.0), ttl: failure.1 };
    }
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) =
        lists.concat().into_iter().filter(|a| !a.is_unspecified()).partition(IpAddr::is_ipv6);
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    let mut order = Vec::new();
    while order.len() < ADDRESSES_MAX {
        let before = order.len();
        order.extend(v6.next());
        order.extend(v4.next());
        if order.len() == before {
            break;
        }
    }
    order.truncate(ADDRESSES_MAX);
    if order.is_empty() {
        return Found { answer: Err(Outcome::DnsNullAddress), ttl };
    }
    Found { answer: Ok(Arc::from(order)), ttl }
}

/// Whether the machine has any IPv6 address: without one the second question of every lookup would be useless.
fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| !text.trim().is_empty())
}
