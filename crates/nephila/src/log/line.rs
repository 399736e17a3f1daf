//! One line of the outcome log. The names of its fields are an interface: new ones may come, none changes its meaning.

use std::net::IpAddr;

use nephila_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// One request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Line {
    /// When the request began, in milliseconds since 1970.
    pub at: u64,
    /// Which fetch it was: the id of its ticket.
    pub fetch: u64,
    /// The URL.
    pub url: String,
    /// How it ended, by the name in `docs/outcomes.md`.
    pub outcome: String,
    /// The kind of that end: `ok`, `gone`, `refused`, `retry`, `broken`.
    pub class: String,
    /// The status of the answer, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What was asked for.
    #[serde(default)]
    pub purpose: Purpose,
    /// Scheme, host and port: what politeness counts as a host.
    pub origin: String,
    /// The address that was dialled; none if nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// From the start of the request to its end.
    pub took_ms: u64,
    /// The rest promised to the host when this began: its last fetch had ended at least so long before.
    pub host_rest_ms: u64,
    /// The rest promised to the address.
    pub slot_rest_ms: u64,
    /// Requests that were sent: 2 if the first had no answer that counts (a connection that had died, 421, a signature
    /// that was asked for) and was repeated at once.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub requests: u32,
    /// Was robots.txt obeyed?
    #[serde(default = "yes")]
    pub robots_obeyed: bool,
    /// Links from a seed.
    #[serde(default)]
    pub depth: u8,
    /// How often it had been tried before.
    #[serde(default)]
    pub retries: u8,
    /// What the answer is, sniffed: `text/html`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mime: String,
    /// Bytes of the body as received.
    #[serde(default)]
    pub bytes: u64,
    /// Where it leads to, if it is a redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
    /// The title of a page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Digest of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Where it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warc: Option<Stored>,
    /// What was found in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Links>,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A page.
    #[default]
    Page,
    /// A host's robots.txt.
    Robots,
}

/// Where a capture is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// The file, in `archive/`.
    pub file: String,
    /// Where its record begins.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
    /// `response`, `revisit` or `not-modified`.
    pub kind: String,
}

/// What was found in a page.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Links {
    /// Links that are wanted.
    pub wanted: u32,
    /// Links out of scope.
    pub out: u32,
    /// Links that are traps.
    pub traps: u32,
}

impl Line {
    /// When the request began.
    pub fn began(&self) -> Timestamp {
        Timestamp(self.at)
    }

    /// When it ended.
    pub fn ended(&self) -> Timestamp {
        Timestamp(self.at + self.took_ms)
    }

    /// As it is written, with the line's end.
    pub fn json(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(512);
        serde_json::to_writer(&mut line, self).expect("strings and numbers can be written");
        line.push(b'\n');
        line
    }
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

fn yes() -> bool {
    true
}
