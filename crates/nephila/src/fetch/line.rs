//! The output of `nephila fetch`: a JSON line for programs, a readable line for people.

use std::fmt::Write as _;

use data_encoding::BASE32;
use nephila_core::spider::{Class, Outcome};
use nephila_core::text::shown;
use nephila_spider::Fetched;
use nephila_store::archive::{Kind, Receipt};
use serde::Serialize;

use nephila_engine::human::size;

/// One fetch as JSON. Empty fields are left out.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    url: &'a str,
    outcome: &'static str,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<std::net::SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<Tls<'a>>,
    reused: bool,
    requests: u32,
    timings_ms: Timings,
    head_bytes: u64,
    body_bytes: u64,
    decoded_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    decoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<std::borrow::Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redirect: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_s: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warc: Option<Warc<'a>>,
}

#[derive(Debug, Serialize)]
struct Tls<'a> {
    version: &'static str,
    cipher: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Timings {
    #[serde(skip_serializing_if = "Option::is_none")]
    resolve: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connect: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<f64>,
    total: f64,
}

#[derive(Debug, Serialize)]
struct Warc<'a> {
    file: &'a str,
    offset: u64,
    length: u64,
    kind: &'static str,
}

impl<'a> Line<'a> {
    pub(super) fn new(
        url: &'a str,
        via: Option<&'a str>,
        fetched: &'a Fetched,
        receipt: Option<&'a Receipt>,
    ) -> Self {
        let ms = |time: std::time::Duration| (time.as_micros() as f64) / 1_000.0;
        let timings = &fetched.timings;
        Line {
            url,
            outcome: fetched.outcome.name(),
            class: fetched.outcome.class().as_str(),
            status: fetched.status,
            detail: &fetched.detail,
            via,
            address: fetched.address,
            protocol: fetched.protocol,
            tls: fetched.tls.as_ref().map(|tls| Tls {
                version: tls.version,
                cipher: &tls.cipher,
                certificate: tls.certificate.map(Outcome::name),
            }),
            reused: fetched.reused,
            requests: fetched.requests,
            timings_ms: Timings {
                resolve: timings.resolve.map(ms),
                connect: timings.connect.map(ms),
                tls: timings.tls.map(ms),
                head: timings.head.map(ms),
                body: timings.body.map(ms),
                total: ms(timings.total),
            },
            head_bytes: fetched.head_bytes,
            body_bytes: fetched.body_bytes,
            decoded_bytes: fetched.decoded_bytes,
            decoding: fetched.decoding.map(|note| note.as_str()),
            content_type: fetched
                .fields
                .get("content-type")
                .map(|value| String::from_utf8_lossy(value.as_bytes())),
            redirect: fetched.redirect.as_ref().map(|target| target.as_str()),
            truncated: fetched.truncated.map(|truncation| truncation.as_str()),
            retry_after_s: fetched.retry_after.map(|wait| wait.as_secs()),
            digest: match receipt {
                Some(receipt) => Some(receipt.payload_digest.to_string()),
                None => fetched.sha1.map(|sha1| format!("sha1:{}", BASE32.encode(&sha1))),
            },
            warc: receipt.map(|receipt| Warc {
                file: &receipt.file,
                offset: receipt.offset,
                length: receipt.length,
                kind: match receipt.kind {
                    Kind::Response => "response",
                    Kind::Resource => "resource",
                    Kind::Revisit => "revisit",
                    Kind::NotModified => "not-modified",
                    Kind::Redundant => "redundant",
                },
            }),
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(512);
        serde_json::to_writer(&mut line, self).expect("strings and numbers can be written");
        line.push(b'\n');
        line
    }

    /// For people: the outcome first, then the most useful fields. Text from a server is shown with its control
    /// characters made visible.
    pub(super) fn readable(&self, colour: bool) -> Vec<u8> {
        let mut line = String::new();
        let (on, off) = match (colour, self.class) {
            (false, _) => ("", ""),
            (true, class) if class == Class::Ok.as_str() => ("\x1b[32m", "\x1b[0m"),
            (true, _) => ("\x1b[31m", "\x1b[0m"),
        };
        let status = self.status.map(|status| status.to_string()).unwrap_or_else(|| "-".into());
        write!(
            line,
            "{on}{:<16}{off} {status:>3}  {:>9}  {:>8.1} ms  {}",
            self.outcome,
            size(self.body_bytes),
            self.timings_ms.total,
            shown(self.url)
        )
        .expect("a string takes text");
        if let Some(target) = self.redirect {
            write!(line, " -> {}", shown(target)).expect("a string takes text");
        }
        let mut notes = Vec::new();
        notes.extend(self.protocol.filter(|protocol| *protocol != "http/1.1").map(str::to_owned));
        notes.extend(self.truncated.map(|why| format!("cut: {why}")));
        notes.extend(self.decoding.filter(|note| *note != "whole").map(|note| format!("decoding: {note}")));
        notes.extend((!self.detail.is_empty()).then(|| shown(self.detail).to_string()));
        if !notes.is_empty() {
            write!(line, "  ({})", notes.join(", ")).expect("a string takes text");
        }
        line.push('\n');
        line.into_bytes()
    }
}
