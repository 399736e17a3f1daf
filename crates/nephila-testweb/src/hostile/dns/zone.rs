//! The answers of the name server: right answers for every case, and the wrong ones of DNS-01 to DNS-21 and SSR-01 to
//! SSR-16.
//!
//! Invariant: the memory of earlier queries is bounded by [`NAMES_MAX`].

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::case::{self, address_of_host, split_host};
use super::super::journal::Transport;
use super::super::{INSIDE_ADDRESS, Shared, TRAP_ZONE, ZONE, host};
use super::wire::{self, A, AAAA, Answer, HTTPS, NOERROR, NXDOMAIN, Query, Record, SERVFAIL, SVCB};

/// Names whose queries are counted; when one more comes, counting starts anew.
const NAMES_MAX: usize = 65_536;
/// TTL of ordinary answers.
const TTL: u32 = 60;
/// Negative TTL of ordinary answers, and of DNS-01.
const NEGATIVE_TTL: u32 = 300;
/// TTL of DNS-12, the largest there is.
const TTL_LONGEST: u32 = (1 << 31) - 1;
/// How late DNS-17 answers.
const LATE: Duration = Duration::from_secs(8);
/// When the late zone of DNS-03 is repaired.
const REPAIRED: Duration = Duration::from_secs(120);
/// CNAMEs of DNS-06.
const CHAIN: usize = 9;
/// A records of DNS-09.
const MANY: usize = 4_000;

/// The reaction to a query.
#[derive(Debug)]
pub(super) enum Reaction {
    /// Answer at once.
    Answer(Vec<u8>),
    /// Answer after this time, before scaling.
    Late(Duration, Vec<u8>),
    /// Over UDP: one answer from a port that was not asked, false ones from the right port, then the right one.
    Spoofed { strange: Vec<u8>, false_answers: Vec<Vec<u8>>, right: Vec<u8> },
    /// Never answer.
    Silence,
    /// Over TCP: reset the connection.
    Reset,
}

/// The name server's memory.
#[derive(Debug)]
pub(in super::super) struct Zone {
    up: AtomicBool,
    asked: Mutex<HashMap<(String, u16), Asked>>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    times: u64,
    first: Instant,
}

impl Zone {
    pub(in super::super) fn new() -> Zone {
        Zone { up: AtomicBool::new(true), asked: Mutex::default() }
    }

    pub(in super::super) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::SeqCst)
    }

    /// Counts this query and returns how often the name was asked, this query included, and since when.
    fn asked(&self, query: &Query) -> Asked {
        let mut asked = self.asked.lock().expect("nobody panics while holding the counts");
        let key = (query.name.clone(), query.record_type);
        if asked.len() >= NAMES_MAX && !asked.contains_key(&key) {
            asked.clear();
        }
        let entry = asked.entry(key).or_insert(Asked { times: 0, first: Instant::now() });
        entry.times += 1;
        *entry
    }

    pub(super) fn react(&self, shared: &Shared, query: &Query, transport: Transport) -> Reaction {
        let name = query.name.as_str();
        let say = |answer: Answer| Reaction::Answer(answer.bytes(query));
        if name == TRAP_ZONE || name.strip_suffix(TRAP_ZONE).is_some_and(|rest| rest.ends_with('.')) {
            return say(addresses(query, TTL, &[address("dns-15")], &[]));
        }
        if name == "intranet" {
            return say(addresses(query, TTL, &[address("dns-18")], &[]));
        }
        if name.starts_with("intranet.") {
            return say(addresses(query, TTL, &[address("searched.dns-18")], &[]));
        }
        let Some((label, id)) = split_host(name) else {
            let zone = if name == ZONE { ZONE } else { "test" };
            return say(Answer::nothing(if name == ZONE { NOERROR } else { NXDOMAIN }, zone, NEGATIVE_TTL));
        };
        if id == super::super::INSIDE {
            return say(addresses(query, TTL, &[INSIDE_ADDRESS], &[]));
        }
        let Some(own) = address_of_host(&name[..name.len() - ZONE.len() - 1]) else {
            return say(Answer::nothing(NXDOMAIN, ZONE, NEGATIVE_TTL));
        };
        let udp = transport == Transport::Udp;
        match (id, label) {
            ("dns-01", _) => say(Answer::nothing(NXDOMAIN, ZONE, NEGATIVE_TTL)),
            ("dns-02", _) => say(failure()),
            ("dns-03", "late") if self.asked(query).first.elapsed() < shared.dns_time(REPAIRED) => {
                say(failure())
            }
            ("dns-03", "" | "nx") if self.asked(query).times == 1 => {
                say(if label == "nx" { Answer::nothing(NXDOMAIN, ZONE, 1) } else { failure() })
            }
            ("dns-04", "v6") => say(addresses(query, TTL, &[], &[Ipv6Addr::UNSPECIFIED])),
            ("dns-04", _) => say(addresses(query, TTL, &[Ipv4Addr::UNSPECIFIED], &[])),
            ("dns-05", _) => say(loops(query, label)),
            ("dns-06", _) => say(chain(query, label, own)),
            ("dns-07", _) if udp && label != "partial" => {
                let partial = addresses(query, TTL, &[address("partial.dns-07")], &[]);
                say(Answer { truncated: true, ..partial })
            }
            ("dns-07", "refused") => Reaction::Reset,
            ("dns-07", "hang") => Reaction::Silence,
            ("dns-08", "") => spoofed(query, own),
            ("dns-09", "many" | "compressed") if query.record_type == A => {
                if udp {
                    say(Answer { truncated: true, ..Answer::default() })
                } else if label == "many" {
                    let many = (0..MANY).map(|n| match n {
                        0 => own,
                        _ => Ipv4Addr::new(127, 95, (n >> 8) as u8, n as u8),
                    });
                    say(Answer::of(many.map(|address| Record::a(name, TTL, address)).collect()))
                } else {
                    Reaction::Answer(wire::heavy(query, own))
                }
            }
            ("dns-10", _) => {
                let cname = Record::cname(name, TTL, "host.signed.test");
                say(Answer {
                    answers: vec![cname],
                    ..Answer::nothing(NOERROR, "elsewhere.test", NEGATIVE_TTL)
                })
            }
            ("dns-11", _) => say(addresses(query, 0, &[own], &[])),
            ("dns-12", "") => {
                let now = if *shared.moved.borrow() { address("moved.dns-12") } else { own };
                say(addresses(query, TTL_LONGEST, &[now], &[]))
            }
            ("dns-13", "") => say(addresses(query, TTL, &[address("dead.dns-13"), own], &[])),
            ("dns-13", "blackhole") => say(addresses(query, TTL, &[own, address("dns-13")], &[])),
            ("dns-14", _) => say(addresses(query, TTL, &[own], &[Ipv6Addr::LOCALHOST])),
            ("dns-17", _) => Reaction::Late(LATE, addresses(query, TTL, &[own], &[]).bytes(query)),
            ("dns-20", _) if matches!(query.record_type, HTTPS | SVCB) => say(service(query)),
            ("ssr-01", _) => {
                match label.strip_prefix("a-").and_then(|text| text.replace('-', ".").parse().ok()) {
                    Some(address) => say(addresses(query, TTL, &[address], &[])),
                    None => say(addresses(query, TTL, &[own], &[])),
                }
            }
            ("ssr-02" | "ssr-16", _) => {
                match label.strip_prefix("aaaa-").and_then(|text| text.replace('-', ":").parse().ok()) {
                    Some(address) => say(addresses(query, TTL, &[], &[address])),
                    None if id == "ssr-02" => say(addresses(query, TTL, &[own], &[])),
                    None => {
                        let inner = if label == "public" { own } else { INSIDE_ADDRESS };
                        say(addresses(query, TTL, &[], &[nat64(inner)]))
                    }
                }
            }
            ("ssr-03", "two") => say(addresses(query, 0, &[own, INSIDE_ADDRESS], &[])),
            ("ssr-03", _) => {
                let times = self.asked(query).times;
                let inside = if label == "second" { times > 1 } else { times.is_multiple_of(2) };
                say(addresses(query, 0, &[if inside { INSIDE_ADDRESS } else { own }], &[]))
            }
            _ => say(addresses(query, TTL, &[own], &[])),
        }
    }
}

fn address(name: &str) -> Ipv4Addr {
    case::address_of_host(name).expect("a case of our own table")
}

fn failure() -> Answer {
    Answer { code: SERVFAIL, ..Answer::default() }
}

/// The addresses of the asked type; when there are none, an empty answer with a SOA.
fn addresses(query: &Query, ttl: u32, v4: &[Ipv4Addr], v6: &[Ipv6Addr]) -> Answer {
    let name = &query.name;
    let records: Vec<Record> = match query.record_type {
        A => v4.iter().map(|address| Record::a(name, ttl, *address)).collect(),
        AAAA => v6.iter().map(|address| Record::aaaa(name, ttl, *address)).collect(),
        _ => Vec::new(),
    };
    if records.is_empty() {
        Answer::nothing(NOERROR, ZONE, ttl.min(NEGATIVE_TTL))
    } else {
        Answer::of(records)
    }
}

/// DNS-05.
fn loops(query: &Query, label: &str) -> Answer {
    let name = query.name.as_str();
    let (across, back) = (host("across.dns-05"), host("back.dns-05"));
    match label {
        "self" => Answer::of(vec![Record::cname(name, TTL, name)]),
        "across" => Answer::of(vec![Record::cname(name, TTL, &back)]),
        "back" => Answer::of(vec![Record::cname(name, TTL, &across)]),
        _ if label.ends_with("endless") => {
            let hop: u64 = label.split('.').next().and_then(|hop| hop.parse().ok()).unwrap_or(0);
            Answer::of(vec![Record::cname(name, TTL, &host(&format!("{}.endless.dns-05", hop + 1)))])
        }
        _ => {
            let other = host("b.dns-05");
            Answer::of(vec![Record::cname(name, TTL, &other), Record::cname(&other, TTL, name)])
        }
    }
}

/// DNS-06: in one answer below the case's own name, in steps below `step`. Names are `cN` and `cN.step`.
fn chain(query: &Query, label: &str, own: Ipv4Addr) -> Answer {
    let steps = label.ends_with("step");
    let link = |n: usize| host(&if steps { format!("c{n}.step.dns-06") } else { format!("c{n}.dns-06") });
    let from: usize =
        label.strip_prefix('c').and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0);
    if from >= CHAIN {
        return addresses(query, TTL, &[own], &[]);
    }
    let first = Record::cname(&query.name, TTL, &link(from + 1));
    if steps {
        return Answer::of(vec![first]);
    }
    let mut records = vec![first];
    records.extend((from + 1..CHAIN).map(|n| Record::cname(&link(n), TTL, &link(n + 1))));
    if query.record_type == A {
        records.push(Record::a(&link(CHAIN), TTL, own));
    }
    Answer::of(records)
}

/// DNS-08. Every false answer leads to the `spoofed` address, and tries to plant that address for `good` as well.
fn spoofed(query: &Query, own: Ipv4Addr) -> Reaction {
    let lie = address("spoofed.dns-08");
    let answer = addresses(query, TTL, &[lie], &[]);
    let planted = vec![Record::a(&host("good"), TTL, lie), Record::a("ns.victim.test", TTL, lie)];
    let mut wrong_id = query.clone();
    wrong_id.id = query.id.wrapping_add(1);
    let wrong_name = query.renamed(&host("good"));
    let false_answers = vec![
        answer.bytes(&wrong_id),
        addresses(&wrong_name, TTL, &[lie], &[]).bytes(&wrong_name),
        // Too short to be a message at all.
        answer.bytes(query)[..7].to_vec(),
    ];
    let right = addresses(query, TTL, &[own], &[]);
    let right = Answer { additional: planted.clone(), authority: planted, ..right };
    Reaction::Spoofed { strange: answer.bytes(query), false_answers, right: right.bytes(query) }
}

/// DNS-20: priority 1, target itself, port 8444, ipv4hint 10.0.0.1, ipv6hint ::1 (RFC 9460, 2.2 and 7).
fn service(query: &Query) -> Answer {
    let mut data = vec![0, 1, 0];
    data.extend([0, 3, 0, 2]);
    data.extend(8444u16.to_be_bytes());
    data.extend([0, 4, 0, 4, 10, 0, 0, 1]);
    data.extend([0, 6, 0, 16]);
    data.extend(Ipv6Addr::LOCALHOST.octets());
    Answer::of(vec![Record { name: query.name.clone(), record_type: query.record_type, ttl: TTL, data }])
}

/// An IPv4 address in the prefix of NAT64 (RFC 6052, 2.1).
fn nat64(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}
