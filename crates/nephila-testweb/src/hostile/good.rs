//! `good.hostile.test`: ordinary pages, for mixing with the others and for archives.
//!
//! Invariant: every answer is correct HTTP, over HTTP/1.1 and over HTTP/2.

use std::io::{self, Write};

use super::Case;
use super::conn::{Conn, Head, Next};

pub(super) const CASES: &[Case] = &[Case::both(
    "good",
    &[
        ("/page", "an HTML page with links"),
        ("/gzip", "the page, gzip"),
        ("/deflate", "the page, zlib"),
        ("/br", "the page, brotli"),
        ("/zstd", "the page, zstd"),
        ("/chunked", "the page in chunks, with a trailer"),
        ("/close", "the page, ended by the end of the connection"),
        ("/redirect", "302 to /page"),
        ("/404", "404"),
        ("/410", "410"),
        ("/500", "500"),
        ("/503", "503 with Retry-After: 120"),
        ("/429", "429 with Retry-After: 60"),
        ("/etag", "a page with ETag and Last-Modified; 304 when If-None-Match or If-Modified-Since says so"),
        ("/large", "1,000,000 bytes of text"),
        ("/empty", "200 with no bytes"),
        ("/text", "text/plain"),
        ("/png", "a small image"),
        ("/feed", "an RSS feed with three items"),
        ("/sitemap.xml", "a sitemap with two pages"),
        ("/signed", "403 with Accept-Signature, until a request is signed"),
        ("/usage", "a page that says what it may be used for, in a field and in itself"),
        ("/h2", "says which protocol it was asked over"),
    ],
)];

/// The validators of `/etag`.
const ETAG: &str = "\"v1\"";
const LAST_MODIFIED: &str = "Sun, 01 Nov 2026 10:00:00 GMT";
const LARGE_BYTES: usize = 1_000_000;

/// How a body is framed over HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Chunked,
    Close,
    None,
}

/// An answer before serialization.
#[derive(Debug)]
pub(super) struct Good {
    pub(super) status: u16,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    framing: Framing,
}

impl Good {
    fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Good {
        let fields = vec![("content-type", content_type.to_owned())];
        Good { status, fields, body: body.into(), framing: Framing::Length }
    }

    fn field(mut self, name: &'static str, value: impl Into<String>) -> Good {
        self.fields.push((name, value.into()));
        self
    }

    fn framing(self, framing: Framing) -> Good {
        Good { framing, ..self }
    }
}

/// The answer to one request; `field` looks up a request field.
pub(super) fn good(path: &str, protocol: &str, field: impl Fn(&str) -> Option<String>) -> Good {
    const HTML: &str = "text/html; charset=utf-8";
    let coded = |body: Vec<u8>, coding: &str| Good::new(200, HTML, body).field("content-encoding", coding);
    match path {
        // The last two are paths of HTTP/2 cases that may end well, or are asked over HTTP/1.1.
        "/" | "/page" | "/misdirected" | "/never" => Good::new(200, HTML, html()),
        "/gzip" => coded(gzip(html().as_bytes()), "gzip"),
        "/deflate" => coded(zlib(html().as_bytes()), "deflate"),
        "/br" => coded(brotli(html().as_bytes()), "br"),
        "/zstd" => coded(zstd::encode_all(html().as_bytes(), 3).expect("memory does not fail"), "zstd"),
        "/chunked" => Good::new(200, HTML, html()).framing(Framing::Chunked),
        "/close" => Good::new(200, HTML, html()).framing(Framing::Close),
        "/redirect" => Good::new(302, "text/plain", "moved").field("location", "/page"),
        "/410" => Good::new(410, "text/plain", "gone"),
        "/500" => Good::new(500, "text/plain", "broken"),
        "/503" => Good::new(503, "text/plain", "busy").field("retry-after", "120"),
        "/429" => Good::new(429, "text/plain", "slower").field("retry-after", "60"),
        "/etag" => {
            let unchanged = match field("if-none-match") {
                Some(tags) => tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == ETAG),
                None => field("if-modified-since").is_some_and(|since| since == LAST_MODIFIED),
            };
            let good = if unchanged {
                Good::new(304, HTML, "").framing(Framing::None)
            } else {
                Good::new(200, HTML, html())
            };
            good.field("etag", ETAG).field("last-modified", LAST_MODIFIED)
        }
        "/large" => Good::new(200, "text/plain", b"0123456789".repeat(LARGE_BYTES / 10)),
        "/empty" => Good::new(200, HTML, ""),
        "/text" => Good::new(200, "text/plain; charset=utf-8", "plain text\n"),
        "/png" => Good::new(200, "image/png", PNG),
        "/feed" => Good::new(200, "application/rss+xml", FEED),
        "/sitemap.xml" => Good::new(200, "application/xml", SITEMAP),
        "/robots.txt" => {
            Good::new(200, "text/plain", "User-agent: *\nAllow: /\nContent-Signal: ai-train=no\n")
        }
        "/signed" if field("signature").is_none() => Good::new(403, "text/plain", "who are you?")
            .field("accept-signature", "proof=(\"@authority\");created;expires;tag=\"web-bot-auth\""),
        "/signed" => Good::new(200, HTML, html()),
        "/usage" => Good::new(200, HTML, "<meta name=tdm-reservation content=1><p>mine</p>")
            .field("content-usage", "train-ai=n"),
        "/h2" => Good::new(200, HTML, format!("<p>asked over {protocol}</p>")),
        _ => Good::new(404, "text/plain", "no such page"),
    }
}

/// Answers over HTTP/1.1.
pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    let protocol = if conn.tls { "HTTP/1.1 with TLS" } else { "HTTP/1.1" };
    let good = good(&head.path, protocol, |name| head.field(name));
    let reason = http::StatusCode::from_u16(good.status).ok().and_then(|status| status.canonical_reason());
    let mut bytes = format!("HTTP/1.1 {} {}\r\n", good.status, reason.unwrap_or_default());
    for (name, value) in &good.fields {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut bytes = bytes.into_bytes();
    let bodyless = head.method == "HEAD";
    match good.framing {
        Framing::Length => {
            bytes.extend(format!("content-length: {}\r\n\r\n", good.body.len()).bytes());
            if !bodyless {
                bytes.extend(&good.body);
            }
        }
        Framing::Chunked => {
            bytes.extend(b"transfer-encoding: chunked\r\ntrailer: x-trailer\r\n\r\n");
            if !bodyless {
                for piece in good.body.chunks(100) {
                    bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
                    bytes.extend(piece);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\nx-trailer: yes\r\n\r\n");
            }
        }
        Framing::Close => {
            bytes.extend(b"connection: close\r\n\r\n");
            if !bodyless {
                bytes.extend(&good.body);
            }
        }
        Framing::None => bytes.extend(b"\r\n"),
    }
    conn.send(bytes).await?;
    Ok(if good.framing == Framing::Close { Next::Close } else { Next::Keep })
}

/// The HTML page most paths serve.
pub(super) fn html() -> String {
    let sentence = "<p>The quick brown fox jumps over the lazy dog.</p>\n".repeat(20);
    format!(
        "<!doctype html><html lang=\"en\"><head><title>A good page</title></head><body>\n<h1>Good</h1>\n\
         <a href=\"/text\">text</a> <a href=\"/etag\">etag</a> <a href=\"/404\">gone</a>\n{sentence}</body></html>\n"
    )
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory does not fail")
}

pub(super) fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory does not fail")
}

pub(super) fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory does not fail")
}

pub(super) fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut writer = brotli::CompressorWriter::new(&mut coded, 4096, 5, 22);
    writer.write_all(bytes).expect("memory does not fail");
    drop(writer);
    coded
}

/// The head of a PNG, enough for any sniffer.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

const FEED: &str = "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>Good</title><link>/</link>\
<item><title>One</title><link>/page</link></item><item><title>Two</title><link>/text</link></item>\
<item><title>Three</title><link>/etag</link></item></channel></rss>\n";

const SITEMAP: &str = "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\
<url><loc>http://good.hostile.test/page</loc></url><url><loc>http://good.hostile.test/text</loc></url></urlset>\n";
