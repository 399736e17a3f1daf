//! One line of the outcome log. The names of its fields are an interface: new ones may come, none changes its meaning.

use std::net::IpAddr;

use nephila_core::handler::ReadAs;
use nephila_core::spider::Outcome;
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
    /// Requests that were sent: 1, since a second try is a request of its own. Logs of earlier versions have 2 where the first
    /// had no answer that counts and was repeated without a rest.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub requests: u32,
    /// Was robots.txt obeyed?
    #[serde(default = "yes")]
    pub robots_obeyed: bool,
    /// Links from a seed.
    #[serde(default)]
    pub depth: u8,
    /// The page that named it first, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The hops from a seed to it, in the letters of Heritrix; empty for a seed, or if they are not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hops: String,
    /// As what it was asked for, if not as a page: `sitemap`, `feed`, `story`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read_as: String,
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
    /// The head of a page, before the page itself: the next line of the same fetch.
    Head,
}

/// What an answer to keep counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A page: HTML, or another document that people read.
    Page,
    /// A sitemap or a feed.
    List,
    /// Anything else: images, styles, scripts, data.
    File,
}

impl Counted {
    /// By how it was asked for, and its type.
    pub fn of(read_as: ReadAs, mime: &str) -> Counted {
        match read_as {
            ReadAs::Sitemap | ReadAs::Feed => Counted::List,
            ReadAs::Page | ReadAs::Story if is_document(mime) => Counted::Page,
            ReadAs::Page | ReadAs::Story | ReadAs::Style => Counted::File,
        }
    }
}

/// Does a type say that people read it? What says nothing is taken for a page, as it is read like one.
fn is_document(mime: &str) -> bool {
    let mime = mime.to_ascii_lowercase();
    const DOCUMENTS: &[&str] = &[
        "",
        "text/html",
        "application/xhtml+xml",
        "text/plain",
        "text/markdown",
        "text/rtf",
        "application/rtf",
        "application/pdf",
        "application/postscript",
        "application/epub+zip",
        "application/msword",
    ];
    // Word, Excel, PowerPoint and what OpenDocument calls them.
    const OFFICE: &[&str] =
        &["application/vnd.ms-", "application/vnd.openxmlformats-", "application/vnd.oasis.opendocument."];
    DOCUMENTS.contains(&&*mime) || OFFICE.iter().any(|start| mime.starts_with(start))
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
    /// What it counts as. None if there was no answer to keep.
    pub fn counted(&self) -> Option<Counted> {
        if self.purpose != Purpose::Page || self.class != "ok" || self.outcome == Outcome::Redirect.name() {
            return None;
        }
        let read_as = ReadAs::ALL.iter().find(|read_as| read_as.name() == self.read_as);
        Some(Counted::of(read_as.copied().unwrap_or_default(), &self.mime))
    }

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
