//! TLS messages written by hand, for handshakes no library would make (RFC 5246, 6.2 and 7).

use std::io;

use tokio::io::AsyncReadExt;

use super::conn::Conn;

pub(super) const WARNING: u8 = 1;
pub(super) const FATAL: u8 = 2;
pub(super) const CLOSE_NOTIFY: u8 = 0;
pub(super) const PROTOCOL_VERSION: u8 = 70;
pub(super) const UNRECOGNIZED_NAME: u8 = 112;

/// TLS_RSA_WITH_RC4_128_SHA.
pub(super) const RC4_SHA: u16 = 0x0005;
/// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, which every client of today offers.
pub(super) const ECDHE_AES128: u16 = 0xc02f;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
const RECORD_MAX: usize = 16_384;
/// The certificate of TLS-07.
const BIG_CERTIFICATE: usize = 1024 * 1024;

/// Reads and discards the client's first record.
pub(super) async fn read_hello(conn: &mut Conn) -> io::Result<()> {
    let mut header = [0; 5];
    conn.io.read_exact(&mut header).await?;
    let mut record = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    conn.io.read_exact(&mut record).await?;
    Ok(())
}

/// One alert in a record of TLS 1.2.
pub(super) fn alert(level: u8, description: u8) -> Vec<u8> {
    records(0x0303, ALERT, &[level, description])
}

/// A ServerHello of this version that chooses this suite.
pub(super) fn server_hello(version: u16, suite: u16) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    body.extend([0x5a; 32]); // random
    body.push(0); // no session id
    body.extend(suite.to_be_bytes());
    body.push(0); // no compression
    records(version, HANDSHAKE, &message(SERVER_HELLO, &body))
}

/// A Certificate message of one megabyte.
pub(super) fn big_certificate() -> Vec<u8> {
    let mut list = u24(BIG_CERTIFICATE).to_vec();
    list.extend(std::iter::repeat_n(0x30, BIG_CERTIFICATE));
    let mut body = u24(list.len()).to_vec();
    body.extend(list);
    records(0x0303, HANDSHAKE, &message(CERTIFICATE, &body))
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(u24(body.len()));
    bytes.extend(body);
    bytes
}

fn records(version: u16, kind: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in bytes.chunks(RECORD_MAX) {
        out.push(kind);
        out.extend(version.to_be_bytes());
        out.extend((piece.len() as u16).to_be_bytes());
        out.extend(piece);
    }
    out
}

fn u24(length: usize) -> [u8; 3] {
    let bytes = (length as u32).to_be_bytes();
    [bytes[1], bytes[2], bytes[3]]
}
