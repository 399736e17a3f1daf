//! One line of the outcome log. The field names are an interface: fields may be added, no field changes its meaning.

use std::net::IpAddr;

use nephila_core::handler::ReadAs;
use nephila_core::spider::Outcome;
use nephila_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// One request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Line {
    /// Start of the request, in milliseconds since 1970.
    pub at: u64,
    /// Id of the ticket.
    pub fetch: u64,
    /// The URL.
    pub url: String,
    /// The outcome, by the name in `docs/outcomes.md`.
    pub outcome: String,
    /// Class of the outcome: `ok`, `gone`, `refused`, `retry`, `broken`.
    pub class: String,
    /// The HTTP status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Purpose of the request.
    #[serde(default)]
    pub purpose: Purpose,
    /// Scheme, host and port: the host for politeness.
    pub origin: String,
    /// The IP address of the connection; none if nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Duration of the request.
    pub took_ms: u64,
    /// Promised crawl delay of the host: the host's last fetch ended at least this long before this request began.
    pub host_rest_ms: u64,
    /// Promised crawl delay of the slot (IP address).
    pub slot_rest_ms: u64,
    /// Number of requests sent: 1, since a retry is a separate request. Logs of earlier versions have 2 where the first
    /// request had no usable answer and was repeated without a delay.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub requests: u32,
    /// Whether robots.txt was obeyed.
    #[serde(default = "yes")]
    pub robots_obeyed: bool,
    /// Number of links from a seed.
    #[serde(default)]
    pub depth: u8,
    /// The page with the first discovered link to this URL, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The hops from a seed to the URL, in the letters of Heritrix; empty for a seed, or if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hops: String,
    /// Expected content, if not a page: `sitemap`, `feed`, `story`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read_as: String,
    /// Number of earlier tries.
    #[serde(default)]
    pub retries: u8,
    /// Sniffed media type of the answer: `text/html`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mime: String,
    /// Size of the body as received, in bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Target of a redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect: Option<String>,
    /// The title of a page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Digest of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Location of the capture in the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warc: Option<Stored>,
    /// Counts of the links in the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Links>,
    /// Id of the ticket's trace, if the ticket is traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Further details, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Purpose of a request.
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

/// How a stored answer is counted.
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
    /// Classifies by expected content and media type.
    pub fn of(read_as: ReadAs, mime: &str) -> Counted {
        match read_as {
            ReadAs::Sitemap | ReadAs::Feed => Counted::List,
            ReadAs::Page | ReadAs::Story if is_document(mime) => Counted::Page,
            ReadAs::Page | ReadAs::Story | ReadAs::Style => Counted::File,
        }
    }
}

/// Whether a media type is a document for people. An empty type counts as a page, because the body is parsed like one.
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

/// Location of a capture in the archive.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Stored {
    /// The file, in `archive/`.
    pub file: String,
    /// Offset of the record in bytes.
    pub offset: u64,
    /// Length of the record in bytes.
    pub length: u64,
    /// `response`, `revisit` or `not-modified`.
    pub kind: String,
}

/// Counts of the links in a page.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Links {
    /// Links in scope.
    pub wanted: u32,
    /// Links out of scope.
    pub out: u32,
    /// Links rejected as traps.
    pub traps: u32,
}

impl Line {
    /// How the answer is counted. None if there was no answer to store.
    pub fn counted(&self) -> Option<Counted> {
        if self.purpose != Purpose::Page || self.class != "ok" || self.outcome == Outcome::Redirect.name() {
            return None;
        }
        let read_as = ReadAs::ALL.iter().find(|read_as| read_as.name() == self.read_as);
        Some(Counted::of(read_as.copied().unwrap_or_default(), &self.mime))
    }

    /// Start of the request.
    pub fn began(&self) -> Timestamp {
        Timestamp(self.at)
    }

    /// End of the request.
    pub fn ended(&self) -> Timestamp {
        Timestamp(self.at + self.took_ms)
    }

    /// The JSON text of the line, with the newline.
    pub fn json(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(512);
        self.write_json(&mut line);
        line
    }

    /// Appends the JSON text of the line, with the newline.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(&mut *out, self).expect("strings and numbers can be written");
        out.push(b'\n');
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
