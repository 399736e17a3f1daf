//! What a URL to fetch and the result of a fetch say, in the frames of version 2.

use std::net::{IpAddr, SocketAddr};

use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::handler::ReadAs;
use crate::spider::Outcome;
use crate::store::Truncation;

/// Maximum number of header fields in a message.
pub const FIELDS_MAX: usize = 512;
/// Maximum number of notes in a message.
pub const NOTES_MAX: usize = 16;
/// Maximum number of bytes of facts: head of the response in two forms, head of the request, what was found on the page
/// ([`super::found::FOUND_BYTES_MAX`]), and numbers.
pub const FACTS_BYTES_MAX: u32 = 4 << 20;

/// A header field: its name and its value.
pub type Field = (String, Vec<u8>);

/// A URL to fetch, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The URL.
    pub url: String,
    /// The only address to dial.
    pub address: IpAddr,
    /// Maximum number of open connections of this spider to the address, kept ones included; 0 for no limit.
    pub connections_max: u32,
    /// HEAD instead of GET.
    pub head_only: bool,
    /// Whether head and body are sent back as received, for the archive.
    pub keep_exchange: bool,
    /// Whether this is the second attempt of a request that may have had no answer.
    pub second: bool,
    /// Whether a person typed the host and the port of this URL, which may then be private.
    pub is_typed: bool,
    /// Whether the connection may be kept for the next URL of the host. Not where a host may have fewer connections than its
    /// address: another spider may get that URL.
    pub keep_connection: bool,
    /// A size limit of the body below that of the settings.
    pub body_bytes_max: Option<u64>,
    /// The spider reads the page as this and sends what it found ([`super::found`]); `None`: the node reads it.
    pub read_as: Option<ReadAs>,
    /// Header fields besides those that every request has.
    pub fields: Vec<Field>,
}

impl Wanted {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.url.as_bytes());
        put_ip(out, self.address);
        put_u64(out, u64::from(self.connections_max));
        let Wanted { head_only, keep_exchange, second, is_typed, keep_connection, .. } = *self;
        out.push(flags([head_only, keep_exchange, second, is_typed, keep_connection]));
        put_option(out, self.body_bytes_max);
        out.push(self.read_as.map_or(0, |read_as| 1 + read_as.code()));
        put_fields(out, &self.fields);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Wanted, Damaged> {
        let url = reader.text("url")?.to_owned();
        let address = ip(reader)?;
        let connections_max = reader.u32("connections")?;
        let [head_only, keep_exchange, second, is_typed, keep_connection] = read_flags(reader)?;
        let body_bytes_max = option(reader)?;
        let read_as = match reader.u8("read as")? {
            0 => None,
            code => Some(ReadAs::by_code(code - 1).ok_or(Damaged("read as"))?),
        };
        let fields = read_fields(reader)?;
        Ok(Wanted {
            url,
            address,
            connections_max,
            head_only,
            keep_exchange,
            second,
            is_typed,
            keep_connection,
            body_bytes_max,
            read_as,
            fields,
        })
    }
}

/// The result of a fetch without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How it ended.
    pub outcome: Outcome,
    /// Details for people.
    pub detail: String,
    /// The status of the response.
    pub status: Option<u16>,
    /// The header fields of the response.
    pub fields: Vec<Field>,
    /// The address that was dialled.
    pub address: Option<SocketAddr>,
    /// `http/1.0`, `http/1.1`, `h2`, or empty.
    pub protocol: String,
    /// Version and cipher suite of TLS; empty without.
    pub tls: (String, String),
    /// The fault of the certificate.
    pub certificate: Option<Outcome>,
    /// Whether the connection was kept from an earlier fetch.
    pub reused: bool,
    /// Number of requests sent.
    pub requests: u32,
    /// Whether one retry is allowed.
    pub again: bool,
    /// Microseconds of the phases: resolve, connect, TLS, head, body.
    pub phases: [Option<u64>; 5],
    /// Microseconds of the whole fetch.
    pub total: u64,
    /// Bytes of the head, as received.
    pub head_bytes: u64,
    /// Bytes of the body, as received.
    pub body_bytes: u64,
    /// Bytes of the body after decoding.
    pub decoded_bytes: u64,
    /// Result of decoding, one word; empty without content codings.
    pub decoding: String,
    /// Redirect target; empty without.
    pub redirect: String,
    /// Why the body is incomplete.
    pub truncated: Option<Truncation>,
    /// Delay requested by the site, in seconds.
    pub retry_after: Option<u64>,
    /// What the spider found on the page ([`super::found`]); empty if the node is to read it.
    pub found: Vec<u8>,
    /// What the archive needs besides the body.
    pub exchange: Option<ExchangeFacts>,
}

/// What the archive needs of an exchange besides its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExchangeFacts {
    /// Milliseconds from the request to the end of the fetch.
    pub started_ago: u64,
    /// The address; `None` behind a proxy.
    pub address: Option<IpAddr>,
    /// Head of the request, as sent.
    pub request_head: Vec<u8>,
    /// Head of the response, as received.
    pub response_head: Vec<u8>,
    /// Lines for the metadata record.
    pub notes: Vec<(String, String)>,
}

impl Facts {
    /// The bytes of these facts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.push(self.outcome.code());
        put_bytes(&mut out, self.detail.as_bytes());
        put_option(&mut out, self.status.map(u64::from));
        put_fields(&mut out, &self.fields);
        match self.address {
            Some(address) => {
                out.push(1);
                put_ip(&mut out, address.ip());
                put_u64(&mut out, u64::from(address.port()));
            }
            None => out.push(0),
        }
        for text in [&self.protocol, &self.tls.0, &self.tls.1, &self.decoding, &self.redirect] {
            put_bytes(&mut out, text.as_bytes());
        }
        put_option(&mut out, self.certificate.map(|outcome| u64::from(outcome.code())));
        out.push(flags([self.reused, self.again, self.exchange.is_some()]));
        put_u64(&mut out, u64::from(self.requests));
        self.phases.iter().for_each(|phase| put_option(&mut out, *phase));
        for number in [self.total, self.head_bytes, self.body_bytes, self.decoded_bytes] {
            put_u64(&mut out, number);
        }
        out.push(match self.truncated {
            None => 0,
            Some(Truncation::Length) => 1,
            Some(Truncation::Time) => 2,
            Some(Truncation::Disconnect) => 3,
        });
        put_option(&mut out, self.retry_after);
        put_bytes(&mut out, &self.found);
        if let Some(exchange) = &self.exchange {
            put_u64(&mut out, exchange.started_ago);
            match exchange.address {
                Some(address) => {
                    out.push(1);
                    put_ip(&mut out, address);
                }
                None => out.push(0),
            }
            put_bytes(&mut out, &exchange.request_head);
            put_bytes(&mut out, &exchange.response_head);
            put_u64(&mut out, exchange.notes.len() as u64);
            for (name, value) in &exchange.notes {
                put_bytes(&mut out, name.as_bytes());
                put_bytes(&mut out, value.as_bytes());
            }
        }
        out
    }

    /// Reads what [`Facts::to_bytes`] wrote.
    pub fn read(bytes: &[u8]) -> Result<Facts, Damaged> {
        let reader = &mut Reader::new(bytes);
        let outcome = outcome(reader.u8("outcome")?)?;
        let detail = text(reader, "detail")?;
        let status = option(reader)?.map(u16::try_from).transpose().map_err(|_| Damaged("status"))?;
        let fields = read_fields(reader)?;
        let address = match flag(reader)? {
            true => {
                let ip = ip(reader)?;
                let port = u16::try_from(reader.u64("port")?).map_err(|_| Damaged("port"))?;
                Some(SocketAddr::new(ip, port))
            }
            false => None,
        };
        let protocol = text(reader, "protocol")?;
        let tls = (text(reader, "tls")?, text(reader, "cipher")?);
        let decoding = text(reader, "decoding")?;
        let redirect = text(reader, "redirect")?;
        let certificate = match option(reader)? {
            Some(code) => Some(self::outcome(u8::try_from(code).map_err(|_| Damaged("certificate"))?)?),
            None => None,
        };
        let [reused, again, has_exchange] = read_flags(reader)?;
        let requests = reader.u32("requests")?;
        let mut phases = [None; 5];
        for phase in &mut phases {
            *phase = option(reader)?;
        }
        let mut number = |what| reader.u64(what);
        let [total, head_bytes, body_bytes, decoded_bytes] =
            [number("total")?, number("head")?, number("body")?, number("decoded")?];
        let truncated = match reader.u8("truncated")? {
            0 => None,
            1 => Some(Truncation::Length),
            2 => Some(Truncation::Time),
            3 => Some(Truncation::Disconnect),
            _ => return Err(Damaged("truncated")),
        };
        let retry_after = option(reader)?;
        let found = reader.bytes("what was found")?.to_owned();
        let exchange = has_exchange.then(|| read_exchange(reader)).transpose()?;
        if !reader.is_empty() {
            return Err(Damaged("the end of the facts"));
        }
        Ok(Facts {
            outcome,
            detail,
            status,
            fields,
            address,
            protocol,
            tls,
            certificate,
            reused,
            requests,
            again,
            phases,
            total,
            head_bytes,
            body_bytes,
            decoded_bytes,
            decoding,
            redirect,
            truncated,
            retry_after,
            found,
            exchange,
        })
    }
}

fn read_exchange(reader: &mut Reader<'_>) -> Result<ExchangeFacts, Damaged> {
    let started_ago = reader.u64("started")?;
    let address = match flag(reader)? {
        true => Some(ip(reader)?),
        false => None,
    };
    let request_head = reader.bytes("request head")?.to_owned();
    let response_head = reader.bytes("response head")?.to_owned();
    let count = reader.u64("notes")?;
    if count > NOTES_MAX as u64 {
        return Err(Damaged("notes"));
    }
    let mut notes = Vec::new();
    for _ in 0..count {
        notes.push((text(reader, "note")?, text(reader, "note")?));
    }
    Ok(ExchangeFacts { started_ago, address, request_head, response_head, notes })
}

fn text(reader: &mut Reader<'_>, what: &'static str) -> Result<String, Damaged> {
    reader.text(what).map(str::to_owned)
}

fn outcome(code: u8) -> Result<Outcome, Damaged> {
    Outcome::by_code(code).ok_or(Damaged("outcome"))
}

fn flags<const N: usize>(flags: [bool; N]) -> u8 {
    flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag))
}

fn read_flags<const N: usize>(reader: &mut Reader<'_>) -> Result<[bool; N], Damaged> {
    let bits = reader.u8("flags")?;
    match bits >> N {
        0 => Ok(std::array::from_fn(|at| bits >> at & 1 == 1)),
        _ => Err(Damaged("flags")),
    }
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, Damaged> {
    match reader.u8("flag")? {
        bit @ (0 | 1) => Ok(bit == 1),
        _ => Err(Damaged("flag")),
    }
}

fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    value.into_iter().for_each(|value| put_u64(out, value));
}

fn option(reader: &mut Reader<'_>) -> Result<Option<u64>, Damaged> {
    match flag(reader)? {
        true => reader.u64("number").map(Some),
        false => Ok(None),
    }
}

fn put_fields(out: &mut Vec<u8>, fields: &[Field]) {
    put_u64(out, fields.len() as u64);
    for (name, value) in fields {
        put_bytes(out, name.as_bytes());
        put_bytes(out, value);
    }
}

fn read_fields(reader: &mut Reader<'_>) -> Result<Vec<Field>, Damaged> {
    let count = reader.u64("fields")?;
    if count > FIELDS_MAX as u64 {
        return Err(Damaged("fields"));
    }
    let mut fields = Vec::new();
    for _ in 0..count {
        fields.push((text(reader, "field")?, reader.bytes("field")?.to_owned()));
    }
    Ok(fields)
}

fn put_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => put_bytes(out, &ip.octets()),
        IpAddr::V6(ip) => put_bytes(out, &ip.octets()),
    }
}

fn ip(reader: &mut Reader<'_>) -> Result<IpAddr, Damaged> {
    let bytes = reader.bytes("address")?;
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::from(four));
    }
    <[u8; 16]>::try_from(bytes).map(IpAddr::from).map_err(|_| Damaged("address"))
}
