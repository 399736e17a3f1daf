//! DNS messages as bytes: just enough to read one question and to write any answer, right or wrong (RFC 1035, 4).

use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) const A: u16 = 1;
pub(super) const SOA: u16 = 6;
pub(super) const CNAME: u16 = 5;
pub(super) const AAAA: u16 = 28;
pub(super) const SVCB: u16 = 64;
pub(super) const HTTPS: u16 = 65;

pub(super) const NOERROR: u8 = 0;
pub(super) const SERVFAIL: u8 = 2;
pub(super) const NXDOMAIN: u8 = 3;

const HEADER_BYTES: usize = 12;
/// The most labels a name of 255 bytes can have.
const LABELS_MAX: usize = 127;
/// A pointer to the name of the question, which stands right after the header.
const TO_QUESTION: [u8; 2] = [0xc0, HEADER_BYTES as u8];

/// One question.
#[derive(Clone, Debug)]
pub(super) struct Query {
    pub(super) id: u16,
    /// Lower case, without the final dot.
    pub(super) name: String,
    pub(super) record_type: u16,
    /// Whether recursion was requested; the answer repeats the flag.
    recursion: bool,
    /// Name, type and class as sent, so that the answer repeats the spelling.
    question: Vec<u8>,
}

impl Query {
    /// Reads the first question of a message; `None` when there is none or the message is an answer.
    pub(super) fn parse(bytes: &[u8]) -> Option<Query> {
        let header = bytes.get(..HEADER_BYTES)?;
        let questions = u16::from_be_bytes([header[4], header[5]]);
        if header[2] & 0x80 != 0 || questions == 0 {
            return None;
        }
        let (mut at, mut labels) = (HEADER_BYTES, Vec::new());
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            if length > 63 || labels.len() >= LABELS_MAX {
                return None;
            }
            labels.push(String::from_utf8_lossy(bytes.get(at..at + length)?).to_ascii_lowercase());
            at += length;
        }
        let record_type = u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]);
        Some(Query {
            id: u16::from_be_bytes([header[0], header[1]]),
            name: labels.join("."),
            record_type,
            recursion: header[2] & 1 != 0,
            question: bytes.get(HEADER_BYTES..at + 4)?.to_vec(),
        })
    }

    /// The same question about another name, for a forged answer.
    pub(super) fn renamed(&self, name: &str) -> Query {
        let mut question = name_bytes(name);
        question.extend(self.record_type.to_be_bytes());
        question.extend([0, 1]);
        Query { name: name.to_owned(), question, ..self.clone() }
    }
}

/// One record.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) record_type: u16,
    pub(super) ttl: u32,
    pub(super) data: Vec<u8>,
}

impl Record {
    pub(super) fn a(name: &str, ttl: u32, address: Ipv4Addr) -> Record {
        Record { name: name.to_owned(), record_type: A, ttl, data: address.octets().to_vec() }
    }

    pub(super) fn aaaa(name: &str, ttl: u32, address: Ipv6Addr) -> Record {
        Record { name: name.to_owned(), record_type: AAAA, ttl, data: address.octets().to_vec() }
    }

    pub(super) fn cname(name: &str, ttl: u32, target: &str) -> Record {
        Record { name: name.to_owned(), record_type: CNAME, ttl, data: name_bytes(target) }
    }

    /// A start of authority whose negative TTL (RFC 2308, 5) is `ttl`.
    pub(super) fn soa(zone: &str, ttl: u32) -> Record {
        let mut data = name_bytes(&format!("ns.{zone}"));
        data.extend(name_bytes(&format!("root.{zone}")));
        for number in [1, 3600, 600, 86_400, ttl] {
            data.extend(u32::to_be_bytes(number));
        }
        Record { name: zone.to_owned(), record_type: SOA, ttl, data }
    }
}

/// An answer before serialization.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) code: u8,
    pub(super) truncated: bool,
    pub(super) answers: Vec<Record>,
    pub(super) authority: Vec<Record>,
    pub(super) additional: Vec<Record>,
}

impl Answer {
    /// These records and nothing else.
    pub(super) fn of(answers: Vec<Record>) -> Answer {
        Answer { answers, ..Answer::default() }
    }

    /// No such name, or no such record (`NOERROR`), for `ttl` seconds.
    pub(super) fn nothing(code: u8, zone: &str, ttl: u32) -> Answer {
        Answer { code, authority: vec![Record::soa(zone, ttl)], ..Answer::default() }
    }

    /// The message.
    pub(super) fn bytes(&self, query: &Query) -> Vec<u8> {
        let counts = [1, self.answers.len(), self.authority.len(), self.additional.len()];
        let mut bytes = header(query, self.code, self.truncated, counts);
        bytes.extend(&query.question);
        for record in self.answers.iter().chain(&self.authority).chain(&self.additional) {
            // Our own name is written as a pointer, which also keeps its spelling.
            if record.name == query.name {
                bytes.extend(TO_QUESTION);
            } else {
                bytes.extend(name_bytes(&record.name));
            }
            bytes.extend(record.record_type.to_be_bytes());
            bytes.extend([0, 1]);
            bytes.extend(record.ttl.to_be_bytes());
            bytes.extend((record.data.len() as u16).to_be_bytes());
            bytes.extend(&record.data);
        }
        bytes
    }
}

fn header(query: &Query, code: u8, truncated: bool, counts: [usize; 4]) -> Vec<u8> {
    let mut bytes = query.id.to_be_bytes().to_vec();
    // An authoritative answer that also claims recursion, so that stub resolvers accept the answer as final.
    bytes.push(0x84 | u8::from(truncated) << 1 | u8::from(query.recursion));
    bytes.push(0x80 | code);
    bytes.extend(counts.into_iter().flat_map(|count| (count as u16).to_be_bytes()));
    bytes
}

/// A message of nearly 64 KB with the right address first, and then thousands of records whose names are one
/// pointer to a name of 127 labels, each label reached by a pointer of its own (DNS-09).
pub(super) fn heavy(query: &Query, address: Ipv4Addr) -> Vec<u8> {
    const MESSAGE_MAX: usize = 65_000;
    const RECORD_TAIL: [u8; 14] = [0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 81, 9, 1];
    let mut body = query.question.clone();
    let mut count = 1usize;
    body.extend(TO_QUESTION);
    body.extend([0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
    body.extend(address.octets());
    // A chain: each record's name is one new label and a pointer to the name of the record before.
    let mut deepest = HEADER_BYTES + body.len();
    body.extend([1, b'x', 0]);
    body.extend(RECORD_TAIL);
    count += 1;
    for _ in 1..LABELS_MAX - 1 {
        let here = HEADER_BYTES + body.len();
        body.extend([1, b'x']);
        body.extend((0xc000 | deepest as u16).to_be_bytes());
        body.extend(RECORD_TAIL);
        deepest = here;
        count += 1;
    }
    while HEADER_BYTES + body.len() < MESSAGE_MAX {
        body.extend((0xc000 | deepest as u16).to_be_bytes());
        body.extend(RECORD_TAIL);
        count += 1;
    }
    let mut bytes = header(query, NOERROR, false, [1, count, 0, 0]);
    bytes.extend(body);
    bytes
}

/// A name as labels. Labels longer than 63 bytes cannot be written and are cut.
pub(super) fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let label = &label.as_bytes()[..label.len().min(63)];
        bytes.push(label.len() as u8);
        bytes.extend(label);
    }
    bytes.push(0);
    bytes
}
