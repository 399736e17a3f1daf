//! Frames of version 2: `length u32 | type u8 | flags u8 | reserved u16 | payload`, big-endian, the length being that of the
//! payload. A frame of an unknown type with the flag [`MAY_SKIP`] is skipped; another one ends the connection.
//!
//! Invariants: a frame takes at most [`PAYLOAD_BYTES_MAX`] bytes and its head; reading looks at every byte once; what
//! was written is read as the same frame.

use bytes::{Buf, Bytes, BytesMut};

use super::message::Wanted;
use crate::codec::{Damaged, Reader, put_bytes, put_u64};

/// Maximum number of bytes after the head of a frame.
pub const PAYLOAD_BYTES_MAX: usize = 128 << 10;
/// Number of bytes before the payload.
pub const HEAD_BYTES: usize = 8;
/// Maximum number of bytes of a result in one frame.
pub const DATA_BYTES_MAX: usize = 64 << 10;
/// Maximum number of URLs at one spider: a list of them fits into a frame.
pub const CAPACITY_MAX: u32 = 8_192;
/// Maximum length of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Flag of a frame that a reader may skip if it does not know the type.
pub const MAY_SKIP: u8 = 1;

/// What one side says to the other. The first eight are said by spiders, the others by nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame of a spider.
    Hello {
        /// [`super::VERSION`].
        version: u32,
        /// What proves that the spider may fetch for this node.
        token: String,
        /// Its name, for people.
        name: String,
        /// Maximum number of URLs that it holds at the same time.
        capacity: u32,
        /// The session that it had with this node, to go on with; 0 for a new one.
        session: u64,
    },
    /// Asks for a lease.
    Beat {
        /// Number of the beat, from 1.
        number: u64,
    },
    /// Changes the number of URLs that the spider holds at most.
    Room {
        /// The new number.
        capacity: u32,
    },
    /// A fetch has ended: its result begins.
    Done {
        /// The URL's number.
        id: u64,
        /// Number of bytes of the facts ([`super::message::Facts`]).
        facts: u32,
        /// Number of bytes of the body, which follow the facts.
        body: u64,
        /// The first bytes of facts and body.
        start: Bytes,
    },
    /// More bytes of a result.
    Data {
        /// The URL's number.
        id: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// The end of a result.
    End {
        /// The URL's number.
        id: u64,
        /// XXH3 (64 bits) of facts and body.
        check: u64,
    },
    /// A URL was not asked for and will not be.
    Return {
        /// The URL's number.
        id: u64,
    },
    /// The spider ends. It asks no site any more.
    Bye,
    /// The answer to `Hello`.
    Welcome {
        /// The session.
        session: u64,
        /// Whether the session goes on.
        resumed: bool,
        /// The URLs that the node waits for, if the session goes on. The spider drops all others.
        open: Vec<u64>,
        /// Number of bytes of results that the spider may send before it is told of more.
        window: u64,
        /// Settings of fetches, in JSON.
        settings: String,
    },
    /// The answer to `Beat`.
    Lease {
        /// The beat that it answers.
        number: u64,
        /// The lease in milliseconds, from the sending of that beat.
        ms: u64,
    },
    /// A URL to fetch.
    Fetch {
        /// Its number.
        id: u64,
        /// What to fetch, and how.
        wanted: Box<Wanted>,
    },
    /// The node does not wait for this URL any more.
    Cancel {
        /// The URL's number.
        id: u64,
    },
    /// These results are durable.
    Stored {
        /// The URLs' numbers.
        ids: Vec<u64>,
    },
    /// The spider may send more bytes of results.
    Window {
        /// This many more.
        bytes: u64,
    },
    /// Something is wrong. The connection is closed after this frame.
    Error {
        /// What.
        code: Code,
        /// In words.
        text: String,
    },
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// A frame that cannot be read, or that this side does not take now.
    Frame,
    /// The other side speaks another version.
    Version,
    /// The token is not known.
    Token,
    /// The address of the spider is not in the networks of its token.
    Network,
    /// Too many spiders.
    Full,
    /// The spider sent what a result cannot be.
    Result,
    /// A reason that this version does not know.
    Other,
}

impl Code {
    const ALL: [(Code, u64); 7] = [
        (Code::Other, 0),
        (Code::Frame, 1),
        (Code::Version, 2),
        (Code::Token, 3),
        (Code::Network, 4),
        (Code::Full, 5),
        (Code::Result, 6),
    ];

    fn number(self) -> u64 {
        Code::ALL.iter().find(|(code, _)| *code == self).map_or(0, |(_, number)| *number)
    }

    fn of(number: u64) -> Code {
        Code::ALL.iter().find(|(_, other)| *other == number).map_or(Code::Other, |(code, _)| *code)
    }
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than a frame may be.
    #[error("a frame of {0} bytes is longer than {PAYLOAD_BYTES_MAX}")]
    Long(u32),
    /// Of a type that this version does not know and that may not be skipped.
    #[error("a frame of the unknown type {0}")]
    Type(u8),
    /// Reserved bytes are not 0.
    #[error("reserved bytes of a frame are not 0")]
    Reserved,
    /// The payload cannot be read.
    #[error("{0} in a frame")]
    Payload(#[from] Damaged),
    /// There is more in the payload than belongs there.
    #[error("a frame of the type {0} has too many bytes")]
    Rest(u8),
}

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Frame::Hello { .. } => 1,
            Frame::Beat { .. } => 2,
            Frame::Room { .. } => 3,
            Frame::Done { .. } => 4,
            Frame::Data { .. } => 5,
            Frame::End { .. } => 6,
            Frame::Return { .. } => 7,
            Frame::Bye => 8,
            Frame::Welcome { .. } => 65,
            Frame::Lease { .. } => 66,
            Frame::Fetch { .. } => 67,
            Frame::Cancel { .. } => 68,
            Frame::Stored { .. } => 69,
            Frame::Window { .. } => 70,
            Frame::Error { .. } => 71,
        }
    }

    /// Appends the bytes of the frame.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0, 0, 0, 0, self.kind(), 0, 0, 0]);
        match self {
            Frame::Hello { version, token, name, capacity, session } => {
                put_u64(out, u64::from(*version));
                put_bytes(out, token.as_bytes());
                put_bytes(out, name.as_bytes());
                put_u64(out, u64::from(*capacity));
                put_u64(out, *session);
            }
            Frame::Beat { number } => put_u64(out, *number),
            Frame::Room { capacity } => put_u64(out, u64::from(*capacity)),
            Frame::Done { id, facts, body, start } => {
                put_u64(out, *id);
                put_u64(out, u64::from(*facts));
                put_u64(out, *body);
                out.extend_from_slice(start);
            }
            Frame::Data { id, bytes } => {
                put_u64(out, *id);
                out.extend_from_slice(bytes);
            }
            Frame::End { id, check } => {
                put_u64(out, *id);
                out.extend_from_slice(&check.to_be_bytes());
            }
            Frame::Return { id } | Frame::Cancel { id } => put_u64(out, *id),
            Frame::Bye => {}
            Frame::Welcome { session, resumed, open, window, settings } => {
                put_u64(out, *session);
                out.push(u8::from(*resumed));
                put_u64(out, *window);
                put_bytes(out, settings.as_bytes());
                open.iter().for_each(|id| put_u64(out, *id));
            }
            Frame::Lease { number, ms } => {
                put_u64(out, *number);
                put_u64(out, *ms);
            }
            Frame::Fetch { id, wanted } => {
                put_u64(out, *id);
                wanted.put(out);
            }
            Frame::Stored { ids } => ids.iter().for_each(|id| put_u64(out, *id)),
            Frame::Window { bytes } => put_u64(out, *bytes),
            Frame::Error { code, text } => {
                put_u64(out, code.number());
                out.extend_from_slice(text.as_bytes());
            }
        }
        let len = (out.len() - start - HEAD_BYTES) as u32;
        out[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }

    /// The bytes of the frame.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// Takes the next frame out of the bytes that have come. `None`: more bytes are needed.
    pub fn take(bytes: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        while let Some(head) = bytes.first_chunk::<HEAD_BYTES>().copied() {
            let [a, b, c, d, kind, flags, e, f] = head;
            let len = u32::from_be_bytes([a, b, c, d]);
            if len as usize > PAYLOAD_BYTES_MAX {
                return Err(FrameError::Long(len));
            }
            if bytes.len() < HEAD_BYTES + len as usize {
                return Ok(None);
            }
            if (e, f) != (0, 0) {
                return Err(FrameError::Reserved);
            }
            bytes.advance(HEAD_BYTES);
            let payload = bytes.split_to(len as usize).freeze();
            match Frame::read(kind, &payload)? {
                Some(frame) => return Ok(Some(frame)),
                None if flags & MAY_SKIP != 0 => {}
                None => return Err(FrameError::Type(kind)),
            }
        }
        Ok(None)
    }

    /// Reads a payload. `None`: the type is not known.
    fn read(kind: u8, payload: &Bytes) -> Result<Option<Frame>, FrameError> {
        let mut reader = Reader::new(payload);
        // The last part of a frame may be bytes without a length before them.
        let rest = |reader: &mut Reader<'_>| {
            let len = reader.rest().len();
            *reader = Reader::new(&[]);
            payload.slice(payload.len() - len..)
        };
        let frame = match kind {
            1 => Frame::Hello {
                version: reader.u32("version")?,
                token: reader.text("token")?.to_owned(),
                name: reader.text("name")?.to_owned(),
                capacity: reader.u32("capacity")?,
                session: reader.u64("session")?,
            },
            2 => Frame::Beat { number: reader.u64("number")? },
            3 => Frame::Room { capacity: reader.u32("capacity")? },
            4 => Frame::Done {
                id: reader.u64("id")?,
                facts: reader.u32("facts")?,
                body: reader.u64("body")?,
                start: rest(&mut reader),
            },
            5 => Frame::Data { id: reader.u64("id")?, bytes: rest(&mut reader) },
            6 => Frame::End { id: reader.u64("id")?, check: reader.fixed_u64("check")? },
            7 => Frame::Return { id: reader.u64("id")? },
            8 => Frame::Bye,
            65 => Frame::Welcome {
                session: reader.u64("session")?,
                resumed: match reader.u8("resumed")? {
                    flag @ (0 | 1) => flag == 1,
                    _ => return Err(Damaged("resumed").into()),
                },
                window: reader.u64("window")?,
                settings: reader.text("settings")?.to_owned(),
                open: ids(&mut reader)?,
            },
            66 => Frame::Lease { number: reader.u64("number")?, ms: reader.u64("ms")? },
            67 => Frame::Fetch { id: reader.u64("id")?, wanted: Box::new(Wanted::read(&mut reader)?) },
            68 => Frame::Cancel { id: reader.u64("id")? },
            69 => Frame::Stored { ids: ids(&mut reader)? },
            70 => Frame::Window { bytes: reader.u64("bytes")? },
            71 => Frame::Error {
                code: Code::of(reader.u64("code")?),
                text: String::from_utf8_lossy(&rest(&mut reader)).into_owned(),
            },
            _ => return Ok(None),
        };
        match reader.is_empty() {
            true => Ok(Some(frame)),
            false => Err(FrameError::Rest(kind)),
        }
    }
}

fn ids(reader: &mut Reader<'_>) -> Result<Vec<u64>, Damaged> {
    let mut ids = Vec::new();
    while !reader.is_empty() {
        ids.push(reader.u64("id")?);
    }
    Ok(ids)
}
