//! A message from a node of a newer version in the inbox of a partition, by the protocol of NATS.
//!
//! A node does not skip what it cannot read: all later messages of the partition wait until the node is upgraded, which here
//! means until the message is taken out of the stream again.
//!
//! Invariant: every wait for the server has a timeout.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nephila_core::cluster::NodeId;
use serde_json::{Value, json};

/// Timeout of an answer of the server.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// A version that no program of today has.
const VERSION: char = '\u{7f}';
/// Where answers go.
const REPLY: &str = "_INBOX.alerts";

/// A message that was sent.
pub(super) struct Newer {
    server: SocketAddr,
    stream: String,
    position: u64,
}

/// The bytes: mark, version, something, and the hash of all of it, which is the one that names of nodes have too.
fn bytes() -> Vec<u8> {
    let body = format!("NM{VERSION}what a later version says");
    let hash = NodeId::of(&body).0;
    [body.as_bytes(), &hash.to_be_bytes()].concat()
}

impl Newer {
    /// Sends the message to the inbox of a partition.
    pub(super) fn send(server: SocketAddr, cluster: &str, streams: u32, partition: u32) -> Result<Newer> {
        let at = partition % streams;
        let subject = format!("neph.{cluster}.{at}.in.{partition}");
        let said = request(server, &subject, &bytes())?;
        let stream = said["stream"].as_str().with_context(|| format!("{subject}: {said}"))?.to_owned();
        let position = said["seq"].as_u64().with_context(|| said.to_string())?;
        Ok(Newer { server, stream, position })
    }

    /// Takes the message out again.
    pub(super) fn remove(self) -> Result<()> {
        let subject = format!("$JS.API.STREAM.MSG.DELETE.{}", self.stream);
        let said = request(self.server, &subject, json!({"seq": self.position}).to_string().as_bytes())?;
        ensure!(said["success"] == true, "{subject}: {said}");
        Ok(())
    }
}

/// One request and its answer.
fn request(server: SocketAddr, subject: &str, message: &[u8]) -> Result<Value> {
    let mut stream = TcpStream::connect_timeout(&server, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let hello = r#"CONNECT {"verbose":false,"pedantic":false,"lang":"none","version":"0","protocol":0}"#;
    write!(stream, "{hello}\r\nSUB {REPLY} 1\r\nPUB {subject} {REPLY} {}\r\n", message.len())?;
    stream.write_all(message)?;
    stream.write_all(b"\r\n")?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        ensure!(reader.read_line(&mut line)? > 0, "{subject}: the server ended the connection");
        ensure!(!line.starts_with("-ERR"), "{subject}: {line}");
        let Some(rest) = line.strip_prefix("MSG ") else { continue };
        let length: usize = rest.split_whitespace().last().context("a length")?.parse()?;
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        return serde_json::from_slice(&answer)
            .with_context(|| String::from_utf8_lossy(&answer).into_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nephila_core::cluster::message::Message;

    #[test]
    fn a_node_takes_the_message_for_one_of_a_newer_version() {
        assert_eq!(Message::newer(&bytes()), Some(VERSION as u8));
        let mut damaged = bytes();
        damaged[5] ^= 1;
        assert_eq!(Message::newer(&damaged), None, "damaged bytes are left out, and nothing waits");
    }
}
