//! HTTP/2 frames and header blocks written by hand (RFC 9113, 4 and 6; RFC 7541, 5 and 6).

use std::io;

use tokio::io::AsyncReadExt;

use super::conn::Conn;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(super) const HTTP_1_1_REQUIRED: u32 = 13;
pub(super) const REFUSED_STREAM: u32 = 7;

/// `:status: 200` from the static table.
pub(super) const STATUS_200: u8 = 0x88;
/// The newest entry of the dynamic table.
pub(super) const NEWEST: u8 = 0xbe;

/// The longest frame of a client that is read.
const FRAME_MAX: usize = 1 << 20;
const PREFACE: usize = 24;

/// A frame that was read; the payload is discarded except for a ping.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// A frame as bytes.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A SETTINGS frame.
pub(super) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = values
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(SETTINGS, 0, 0, &payload)
}

/// A whole good answer on one stream.
pub(super) fn page(stream: u32, body: &str) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &html_block());
    bytes.extend(frame(DATA, END_STREAM, stream, body.as_bytes()));
    bytes
}

/// The header block of an HTML page.
pub(super) fn html_block() -> Vec<u8> {
    let mut block = vec![STATUS_200];
    block.extend(literal("content-type", "text/html"));
    block
}

/// A header that is not indexed, name and value written out.
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
    with_first(0x00, name, value)
}

/// A header that enters the dynamic table.
pub(super) fn indexed_literal(name: &str, value: &str) -> Vec<u8> {
    with_first(0x40, name, value)
}

fn with_first(first: u8, name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![first];
    for text in [name, value] {
        let mut length = text.len();
        if length < 127 {
            bytes.push(length as u8);
        } else {
            bytes.push(127);
            length -= 127;
            while length >= 128 {
                bytes.push((length % 128) as u8 | 128);
                length /= 128;
            }
            bytes.push(length as u8);
        }
        bytes.extend(text.bytes());
    }
    bytes
}

/// Reads the client's preface.
pub(super) async fn read_preface(conn: &mut Conn) -> io::Result<()> {
    let mut preface = [0; PREFACE];
    conn.io.read_exact(&mut preface).await.map(drop)
}

/// Reads one frame.
pub(super) async fn read_frame(conn: &mut Conn) -> io::Result<Frame> {
    let mut header = [0; 9];
    conn.io.read_exact(&mut header).await?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
    if length > FRAME_MAX {
        return Err(io::Error::other("a client's frame is too long"));
    }
    let mut payload = vec![0; length];
    conn.io.read_exact(&mut payload).await?;
    let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
    Ok(Frame { kind: header[3], flags: header[4], stream, payload })
}
