//! The store message of version 1: the result of one fetch, as a spider sends it.
//!
//! 20 bytes, all numbers with the highest byte first, then the URLs and the data:
//!
//! ```text
//! doc u32 | success u8 | specific u8 | http u8 | 0 u8 | ms u32 | url_len u16 | new_url_len u16 | data_len u32
//! url | new_url | data
//! ```
//!
//! Messages follow each other on a connection, and nothing is answered. A [`Reader`] takes the bytes as they come and
//! never holds data: it hands them on in chunks and drops what exceeds a limit.
//!
//! Invariants: any bytes are records or a named error; after an error the reader gives the same error for ever, since
//! the place of the next record is unknown; memory is bounded by two URLs; how the bytes were cut into chunks changes
//! nothing; a record that is read, written again, gives the same bytes.

mod http;
#[cfg(test)]
mod tests;

use super::{URL_BYTES_MAX, is_field};
use crate::spider::outcome::{Class, Outcome};

pub use http::{Http, STATUS_CODES};

/// Length of the fixed part of a record in bytes.
pub const HEAD_BYTES: usize = 20;

/// The number of [`Specific::Followed`].
pub const FOLLOWED: u8 = 254;

/// Why a record cannot be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum RecordError {
    /// The eighth byte is not 0.
    #[error("the padding byte is {0}, not 0")]
    Padding(u8),
    /// `success` is neither 0 nor 1.
    #[error("success is {0}, neither 0 nor 1")]
    Success(u8),
    /// `specific` is not in the table of outcomes.
    #[error("{0} is not the number of an outcome")]
    Specific(u8),
    /// `http` is not in the table of status codes.
    #[error("{0} is not the number of an HTTP status")]
    Http(u8),
    /// `success` is not what the table of outcomes says about `specific`.
    #[error("success is {0}, but the outcome says otherwise")]
    Disagrees(u8),
    /// `url_len` is 0.
    #[error("the record has no URL")]
    NoUrl,
    /// `url_len` or `new_url_len` exceeds [`URL_BYTES_MAX`].
    #[error("a URL of {0} bytes; the limit is 8,192")]
    UrlTooLong(usize),
    /// A URL has a space or a byte that is not visible ASCII.
    #[error("a URL has bytes that are not visible ASCII")]
    UrlBytes,
    /// `specific` is "followed", but there is no new URL.
    #[error("the redirect was followed, but there is no new URL")]
    FollowedNowhere,
}

/// How the fetch ended: the `specific` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specific {
    /// One of the outcomes, by its stored number.
    Outcome(Outcome),
    /// The spider followed a redirect itself: the data is that of the new URL.
    Followed,
}

impl Specific {
    /// The number in the record.
    pub fn number(self) -> u8 {
        match self {
            Specific::Outcome(outcome) => outcome.code(),
            Specific::Followed => FOLLOWED,
        }
    }

    /// The end with this number.
    pub fn by_number(number: u8) -> Option<Specific> {
        match number {
            FOLLOWED => Some(Specific::Followed),
            _ => Outcome::by_code(number).map(Specific::Outcome),
        }
    }

    /// The value that `success` must have. `None`: either.
    pub fn success(self) -> Option<bool> {
        match self {
            Specific::Outcome(outcome) => Some(outcome.class() == Class::Ok),
            Specific::Followed => None,
        }
    }
}

/// A record without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The DOC of the line that asked for the URL.
    pub doc: u32,
    /// Whether there is a document worth keeping.
    pub success: bool,
    /// How the fetch ended.
    pub specific: Specific,
    /// The HTTP status.
    pub http: Http,
    /// Duration of the request in milliseconds, by the spider's clock.
    pub ms: u32,
    /// The URL of the line, unchanged.
    pub url: String,
    /// The target of a redirect; empty if there is none.
    pub new_url: String,
    /// Length of the data in bytes.
    pub data_len: u32,
}

impl Record {
    /// Appends everything but the data, which must follow with [`Record::data_len`] bytes.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<(), RecordError> {
        let head = Head {
            record: Record { url: String::new(), new_url: String::new(), ..self.clone() },
            url_len: length(&self.url)?,
            new_url_len: length(&self.new_url)?,
        };
        head.check()?;
        check_bytes(self.url.as_bytes())?;
        check_bytes(self.new_url.as_bytes())?;
        out.extend_from_slice(&head.to_bytes());
        out.extend_from_slice(self.url.as_bytes());
        out.extend_from_slice(self.new_url.as_bytes());
        Ok(())
    }
}

fn length(url: &str) -> Result<u16, RecordError> {
    u16::try_from(url.len()).map_err(|_| RecordError::UrlTooLong(url.len()))
}

fn check_bytes(url: &[u8]) -> Result<(), RecordError> {
    if url.is_empty() || is_field(url) { Ok(()) } else { Err(RecordError::UrlBytes) }
}

/// The 20 bytes: a record whose URLs are still to come.
#[derive(Clone, Debug)]
struct Head {
    record: Record,
    url_len: u16,
    new_url_len: u16,
}

impl Head {
    fn to_bytes(&self) -> [u8; HEAD_BYTES] {
        let record = &self.record;
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&record.doc.to_be_bytes());
        bytes[4] = u8::from(record.success);
        bytes[5] = record.specific.number();
        bytes[6] = record.http.number();
        bytes[8..12].copy_from_slice(&record.ms.to_be_bytes());
        bytes[12..14].copy_from_slice(&self.url_len.to_be_bytes());
        bytes[14..16].copy_from_slice(&self.new_url_len.to_be_bytes());
        bytes[16..].copy_from_slice(&record.data_len.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Head, RecordError> {
        let [d0, d1, d2, d3, success, specific, http, padding, rest @ ..] = *bytes;
        let [m0, m1, m2, m3, u0, u1, n0, n1, l0, l1, l2, l3] = rest;
        if padding != 0 {
            return Err(RecordError::Padding(padding));
        }
        if success > 1 {
            return Err(RecordError::Success(success));
        }
        let record = Record {
            doc: u32::from_be_bytes([d0, d1, d2, d3]),
            success: success == 1,
            specific: Specific::by_number(specific).ok_or(RecordError::Specific(specific))?,
            http: Http::by_number(http).ok_or(RecordError::Http(http))?,
            ms: u32::from_be_bytes([m0, m1, m2, m3]),
            url: String::new(),
            new_url: String::new(),
            data_len: u32::from_be_bytes([l0, l1, l2, l3]),
        };
        let (url_len, new_url_len) = (u16::from_be_bytes([u0, u1]), u16::from_be_bytes([n0, n1]));
        let head = Head { record, url_len, new_url_len };
        head.check()?;
        Ok(head)
    }

    fn check(&self) -> Result<(), RecordError> {
        let Record { success, specific, .. } = self.record;
        if specific.success().is_some_and(|expected| expected != success) {
            return Err(RecordError::Disagrees(u8::from(success)));
        }
        if self.url_len == 0 {
            return Err(RecordError::NoUrl);
        }
        for length in [self.url_len, self.new_url_len].map(usize::from) {
            if length > URL_BYTES_MAX {
                return Err(RecordError::UrlTooLong(length));
            }
        }
        if specific == Specific::Followed && self.new_url_len == 0 {
            return Err(RecordError::FollowedNowhere);
        }
        Ok(())
    }

    fn urls_len(&self) -> usize {
        usize::from(self.url_len) + usize::from(self.new_url_len)
    }

    fn with_urls(self, urls: &[u8]) -> Result<Record, RecordError> {
        let (url, new_url) = urls.split_at(usize::from(self.url_len).min(urls.len()));
        check_bytes(url)?;
        check_bytes(new_url)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| RecordError::UrlBytes);
        Ok(Record { url: text(url)?, new_url: text(new_url)?, ..self.record })
    }
}

/// What a [`Reader`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// A record begins.
    Begin(Record),
    /// The next bytes of its data.
    Data(&'a [u8]),
    /// The record is complete.
    End {
        /// Number of bytes over the limit that were dropped.
        dropped: u32,
    },
}

/// Reads records from the bytes of a connection as they come.
#[derive(Debug)]
pub struct Reader {
    data_bytes_max: u32,
    /// The part of a head or of URLs that has come.
    held: Vec<u8>,
    state: State,
}

#[derive(Debug)]
enum State {
    Head,
    Urls(Head),
    Data {
        /// Bytes that are still handed on.
        keep: u32,
        /// Bytes that are still dropped.
        drop: u32,
        dropped: u32,
    },
    Failed(RecordError),
}

impl Reader {
    /// A reader at the start of a connection that hands on at most this much data of a record.
    pub fn new(data_bytes_max: u32) -> Reader {
        Reader { data_bytes_max, held: Vec::new(), state: State::Head }
    }

    /// The next part of a record, taken from the front of `bytes`. `None`: all bytes are used, and more are needed.
    pub fn read<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Part<'a>>, RecordError> {
        let part = self.step(bytes);
        if let Err(error) = part {
            self.state = State::Failed(error);
            self.held = Vec::new();
        }
        part
    }

    /// Whether the last record is complete, so that the connection may end here. A record that is cut by the end of
    /// its connection is never stored.
    pub fn is_between_records(&self) -> bool {
        matches!(self.state, State::Head) && self.held.is_empty()
    }

    fn step<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Part<'a>>, RecordError> {
        loop {
            match &mut self.state {
                State::Failed(error) => return Err(*error),
                State::Head => {
                    if !hold(&mut self.held, HEAD_BYTES, bytes) {
                        return Ok(None);
                    }
                    let mut head = [0; HEAD_BYTES];
                    head.copy_from_slice(&self.held);
                    self.held.clear();
                    self.state = State::Urls(Head::read(&head)?);
                }
                State::Urls(head) => {
                    if !hold(&mut self.held, head.urls_len(), bytes) {
                        return Ok(None);
                    }
                    let record = head.clone().with_urls(&self.held)?;
                    self.held.clear();
                    let keep = record.data_len.min(self.data_bytes_max);
                    let drop = record.data_len - keep;
                    self.state = State::Data { keep, drop, dropped: drop };
                    return Ok(Some(Part::Begin(record)));
                }
                State::Data { keep: 0, drop: 0, dropped } => {
                    let dropped = *dropped;
                    self.state = State::Head;
                    return Ok(Some(Part::End { dropped }));
                }
                State::Data { keep: 0, drop, .. } => {
                    if take(bytes, drop).is_empty() {
                        return Ok(None);
                    }
                }
                State::Data { keep, .. } => {
                    let data = take(bytes, keep);
                    return Ok((!data.is_empty()).then_some(Part::Data(data)));
                }
            }
        }
    }
}

/// Moves bytes to `held` until it has this length. Whether it has.
fn hold(held: &mut Vec<u8>, length: usize, bytes: &mut &[u8]) -> bool {
    let missing = length.saturating_sub(held.len()).min(bytes.len());
    let (taken, rest) = bytes.split_at(missing);
    held.extend_from_slice(taken);
    *bytes = rest;
    held.len() == length
}

/// Takes up to this many bytes and counts them down.
fn take<'a>(bytes: &mut &'a [u8], left: &mut u32) -> &'a [u8] {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(*left);
    let (taken, rest) = bytes.split_at(length as usize);
    *bytes = rest;
    *left -= length;
    taken
}
