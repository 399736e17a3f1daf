//! The lines between a node and a spider of version 1, in both dialects.
//!
//! | dialect | node to spider | spider to node |
//! |---|---|---|
//! | push | `TRANS DOC IP URL` | `TRANS DONE`, `TRANS WORKING` |
//! | pull | `TRANS DOC IP HOSTNAME URL` | `GET n`, `DONE TRANS`, `WORKING TRANS` |
//!
//! Invariants: any bytes are lines or named errors; [`Lines`] holds at most [`LINE_BYTES_MAX`] bytes and looks at each
//! byte a constant number of times; how the bytes were cut into chunks changes nothing; what is read, written again in
//! the same order of fields, gives the same bytes.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use super::{URL_BYTES_MAX, is_field};

/// Maximum length of a line in bytes, without the LF that ends it.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// Maximum number of URLs in one `GET`.
pub const GET_MAX: u32 = 10_000;

/// Which of the two protocols a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The node sends URLs as they come.
    Push,
    /// The spider asks for a number of URLs with `GET`.
    Pull,
}

/// Why a line cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum LineError {
    /// More than [`LINE_BYTES_MAX`] bytes without LF.
    #[error("the line is longer than 16 KiB")]
    TooLong,
    /// Nothing between two line ends.
    #[error("the line is empty")]
    Empty,
    /// Not the number of fields that the line needs, or fields that are not apart by one space.
    #[error("the line has a wrong number of fields")]
    Fields,
    /// Neither `DONE`, `WORKING` nor `GET` where one of them must stand.
    #[error("the line has an unknown word")]
    Word,
    /// TRANS is not a decimal number of 64 bits.
    #[error("TRANS is not a number")]
    Trans,
    /// DOC is not a decimal number of 32 bits.
    #[error("DOC is not a number")]
    Doc,
    /// The count of `GET` is not a number from 1 to [`GET_MAX`].
    #[error("the count of GET is not a number from 1 to 10,000")]
    Count,
    /// IP is not an address.
    #[error("IP is not an address")]
    Ip,
    /// HOSTNAME is empty or has a space or a byte that is not visible ASCII.
    #[error("HOSTNAME has bytes that cannot stand in a line")]
    Host,
    /// URL is empty, longer than [`URL_BYTES_MAX`], or has a byte that is not visible ASCII.
    #[error("URL is too long or has bytes that cannot stand in a line")]
    Url,
}

/// A line of a spider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The fetch is over, well or not.
    Done(u64),
    /// The fetch goes on.
    Working(u64),
    /// The spider has room for this many more URLs.
    Get(u32),
}

impl Reply {
    /// Reads a line without its end. Both orders of `DONE` and `WORKING` are taken: a first field that begins with a
    /// digit is a TRANS.
    pub fn read(line: &[u8]) -> Result<Reply, LineError> {
        let [first, second] = fields(line)?;
        if first.first().is_some_and(u8::is_ascii_digit) {
            return Reply::of_word(second, first);
        }
        match first {
            b"GET" => {
                let count = number(second).and_then(|count| u32::try_from(count).ok());
                let count = count.filter(|count| (1..=GET_MAX).contains(count));
                count.map(Reply::Get).ok_or(LineError::Count)
            }
            _ => Reply::of_word(first, second),
        }
    }

    fn of_word(word: &[u8], trans: &[u8]) -> Result<Reply, LineError> {
        let reply = match word {
            b"DONE" => Reply::Done,
            b"WORKING" => Reply::Working,
            _ => return Err(LineError::Word),
        };
        number(trans).map(reply).ok_or(LineError::Trans)
    }

    /// The line, with its LF, in the order of this dialect.
    pub fn to_line(self, dialect: Dialect) -> String {
        let (word, number) = match self {
            Reply::Done(trans) => ("DONE", trans),
            Reply::Working(trans) => ("WORKING", trans),
            Reply::Get(count) => return format!("GET {count}\n"),
        };
        match dialect {
            Dialect::Push => format!("{number} {word}\n"),
            Dialect::Pull => format!("{word} {number}\n"),
        }
    }
}

/// A line of the node: a URL to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlLine<'a> {
    /// Names this sending of the URL; the spider repeats it in its replies.
    pub trans: u64,
    /// Names the document; the spider repeats it in the record.
    pub doc: u32,
    /// The only address that the spider may dial.
    pub ip: IpAddr,
    /// The name of the host. Only in the pull dialect.
    pub hostname: Option<&'a str>,
    /// The URL.
    pub url: &'a str,
}

impl<'a> UrlLine<'a> {
    /// Reads a line without its end. The number of fields tells the dialect, since no field contains a space.
    pub fn read(line: &'a [u8]) -> Result<UrlLine<'a>, LineError> {
        let (front, hostname, url) = match fields::<4>(line) {
            Ok([trans, doc, ip, url]) => ([trans, doc, ip], None, url),
            Err(LineError::Fields) => {
                let [trans, doc, ip, hostname, url] = fields::<5>(line)?;
                ([trans, doc, ip], Some(text(hostname).ok_or(LineError::Host)?), url)
            }
            Err(other) => return Err(other),
        };
        let [trans, doc, ip] = front;
        Ok(UrlLine {
            trans: number(trans).ok_or(LineError::Trans)?,
            doc: number(doc).and_then(|doc| u32::try_from(doc).ok()).ok_or(LineError::Doc)?,
            ip: address(ip).ok_or(LineError::Ip)?,
            hostname,
            url: text(url).filter(|url| url.len() <= URL_BYTES_MAX).ok_or(LineError::Url)?,
        })
    }

    /// Which dialect this line belongs to.
    pub fn dialect(&self) -> Dialect {
        if self.hostname.is_some() { Dialect::Pull } else { Dialect::Push }
    }

    /// The line, with its LF. An error if a field cannot stand in a line.
    pub fn to_line(&self) -> Result<String, LineError> {
        check_url(self.url)?;
        let UrlLine { trans, doc, ip, hostname, url } = self;
        let line = match hostname {
            Some(hostname) if !is_field(hostname.as_bytes()) => return Err(LineError::Host),
            Some(hostname) => format!("{trans} {doc} {ip} {hostname} {url}\n"),
            None => format!("{trans} {doc} {ip} {url}\n"),
        };
        if line.len() > LINE_BYTES_MAX + 1 { Err(LineError::TooLong) } else { Ok(line) }
    }
}

/// Whether a URL can stand in a line and in a record.
pub fn check_url(url: &str) -> Result<(), LineError> {
    match is_field(url.as_bytes()) && url.len() <= URL_BYTES_MAX {
        true => Ok(()),
        false => Err(LineError::Url),
    }
}

/// The name of the host in a URL, without user and port; an IPv6 address keeps its brackets.
pub fn hostname(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.rfind(']') {
        Some(end) => &host[..=end],
        None => host.split(':').next().unwrap_or_default(),
    }
}

/// The fields of a line, exactly this many, apart by one space.
fn fields<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], LineError> {
    if line.is_empty() {
        return Err(LineError::Empty);
    }
    let mut parts = line.split(|byte| *byte == b' ');
    let mut fields = [&line[..0]; N];
    for field in &mut fields {
        *field = parts.next().filter(|part| !part.is_empty()).ok_or(LineError::Fields)?;
    }
    if parts.next().is_some() { Err(LineError::Fields) } else { Ok(fields) }
}

/// A decimal number as we write it: digits alone, no zero in front.
fn number(field: &[u8]) -> Option<u64> {
    let is_plain = field.iter().all(u8::is_ascii_digit) && (field.len() == 1 || field.first() != Some(&b'0'));
    let digits = std::str::from_utf8(field).ok().filter(|_| is_plain)?;
    digits.parse().ok()
}

/// An address as we write it; other ways to write the same address are not taken.
fn address(field: &[u8]) -> Option<IpAddr> {
    let text = text(field)?;
    text.parse().ok().filter(|ip: &IpAddr| ip.to_string() == text)
}

fn text(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok().filter(|field| is_field(field.as_bytes()))
}

/// Cuts the bytes of a connection into lines. LF ends a line; a CR before the LF is dropped.
#[derive(Debug, Default)]
pub struct Lines {
    /// The start of a line whose end has not come yet.
    held: Vec<u8>,
    /// Whether the rest of a line that was too long is being dropped.
    drops: bool,
}

impl Lines {
    /// Takes the next bytes of the connection and calls `each` for every line that they end, in order. A line that is
    /// too long is given once as an error, as soon as that is known, and the rest of it is dropped.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Result<&[u8], LineError>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.hold(&bytes[..end], &mut each);
            bytes = &bytes[end + 1..];
            if !std::mem::take(&mut self.drops) {
                let line = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
                each(Ok(line));
            }
            self.held.clear();
        }
        self.hold(bytes, &mut each);
    }

    fn hold(&mut self, bytes: &[u8], each: &mut impl FnMut(Result<&[u8], LineError>)) {
        if self.drops {
            return;
        }
        if self.held.len() + bytes.len() > LINE_BYTES_MAX {
            self.drops = true;
            self.held.clear();
            return each(Err(LineError::TooLong));
        }
        self.held.extend_from_slice(bytes);
    }

    /// Number of bytes of a line that has not ended yet. When the connection ends, they are no line.
    pub fn unfinished(&self) -> usize {
        self.held.len()
    }
}
