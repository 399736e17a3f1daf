//! The media kind of a body, from its label and its first bytes.
//!
//! Labels are missing, repeated, malformed or false, so the bytes have the last word where they are clear: a JPEG is a
//! JPEG under any label, and a page labelled `image/png` is a page. Where the bytes are only text, the label decides
//! the kind of text (MIME Sniffing standard). The label itself is stored verbatim; the kind is our interpretation.
//!
//! Invariant: at most [`SNIFF_BYTES_MAX`] bytes of a body and [`LABEL_BYTES_MAX`] of a label are read.

/// Number of bytes of a body that are examined.
pub const SNIFF_BYTES_MAX: usize = 1024;

/// Number of bytes of a `Content-Type` that are examined.
pub const LABEL_BYTES_MAX: usize = 4 * 1024;

/// Maximum length of a media type: no registered one comes close (RFC 6838, 4.2 allows 127 for each half).
const ESSENCE_BYTES_MAX: usize = 255;

/// At one control character in this number of bytes, text counts as binary. Random bytes have one in ten.
const CONTROLS_ONE_IN: usize = 32;

/// The media kind of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A page: HTML or XHTML.
    Html,
    /// RSS, Atom or RDF.
    Feed,
    /// A sitemap or an index of sitemaps.
    Sitemap,
    /// Other XML.
    Xml,
    /// JSON, a JSON feed included.
    Json,
    /// A style sheet.
    Css,
    /// A script.
    Script,
    /// Other text.
    Text,
    /// A PDF.
    Pdf,
    /// An image.
    Image,
    /// Audio or video.
    Media,
    /// A font.
    Font,
    /// A compressed or packed file: zip and formats based on zip, gzip and so on.
    Archive,
    /// Bytes that are no text and no known format.
    Binary,
    /// There is no body, and the label is missing or unknown.
    Empty,
}

impl Kind {
    /// All kinds, in the order of their numbers in messages: new ones go to the end.
    pub const ALL: [Kind; 15] = [
        Kind::Html,
        Kind::Feed,
        Kind::Sitemap,
        Kind::Xml,
        Kind::Json,
        Kind::Css,
        Kind::Script,
        Kind::Text,
        Kind::Pdf,
        Kind::Image,
        Kind::Media,
        Kind::Font,
        Kind::Archive,
        Kind::Binary,
        Kind::Empty,
    ];

    /// Whether one of our parsers may read the body. Everything else is stored only.
    pub const fn is_text(self) -> bool {
        matches!(
            self,
            Kind::Html
                | Kind::Feed
                | Kind::Sitemap
                | Kind::Xml
                | Kind::Json
                | Kind::Css
                | Kind::Script
                | Kind::Text
        )
    }
}

/// The kind and the label of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sniffed {
    /// The media kind.
    pub kind: Kind,
    /// The media type of the label, in lower case and without parameters, if there is a valid one.
    pub label: Option<String>,
}

impl Sniffed {
    /// The media type by the bytes of the body. Where they only tell the family, the label decides if it is of that
    /// family. None for an empty body.
    pub fn media_type(&self, body: &[u8]) -> Option<String> {
        if body.is_empty() {
            return None;
        }
        let label = self.label.as_deref().unwrap_or_default();
        let of_family = |family: &str| label.starts_with(family).then_some(label);
        let named = match self.kind {
            Kind::Html if label == "application/xhtml+xml" => label,
            Kind::Html => "text/html",
            Kind::Feed => feed_type(label, body),
            Kind::Sitemap | Kind::Xml if label.ends_with("+xml") => label,
            Kind::Sitemap | Kind::Xml => "application/xml",
            Kind::Json if label.ends_with("+json") => label,
            Kind::Json => "application/json",
            Kind::Css => "text/css",
            Kind::Script => "text/javascript",
            Kind::Text => of_family("text/").filter(|label| *label != "text/html").unwrap_or("text/plain"),
            Kind::Pdf => "application/pdf",
            Kind::Image => of_family("image/").unwrap_or("application/octet-stream"),
            Kind::Media => of_family("video/").or(of_family("audio/")).unwrap_or("application/octet-stream"),
            Kind::Font => of_family("font/").unwrap_or("application/octet-stream"),
            Kind::Archive => of_family("application/").unwrap_or("application/octet-stream"),
            Kind::Binary => "application/octet-stream",
            Kind::Empty => return None,
        };
        Some(named.to_owned())
    }
}

fn feed_type<'a>(label: &'a str, body: &[u8]) -> &'a str {
    let start = &body[..body.len().min(SNIFF_BYTES_MAX)];
    let has = |tag: &[u8]| start.windows(tag.len()).any(|window| window.eq_ignore_ascii_case(tag));
    match () {
        () if has(b"<feed") => "application/atom+xml",
        () if has(b"<rdf") => "application/rdf+xml",
        () if has(b"<rss") => "application/rss+xml",
        () if label.contains("xml") => label,
        () => "application/xml",
    }
}

/// Decides the kind of a body. `labels` are the values of all `Content-Type` fields, in order: the last valid one
/// counts (Fetch standard, "extract a MIME type").
pub fn sniff<'a>(labels: impl IntoIterator<Item = &'a [u8]>, body: &[u8]) -> Sniffed {
    let (label, field) = labels.into_iter().filter_map(|field| Some((essence(field)?, field))).last().unzip();
    let named = label.as_deref().and_then(kind_of_label);
    let wide = field.and_then(charset_label).is_some_and(|label| {
        let encoding = encoding_rs::Encoding::for_label(&label);
        encoding == Some(encoding_rs::UTF_16LE) || encoding == Some(encoding_rs::UTF_16BE)
    });
    let body = &body[..body.len().min(SNIFF_BYTES_MAX)];
    Sniffed { kind: decide(named, wide, body), label }
}

fn decide(named: Option<Kind>, wide: bool, body: &[u8]) -> Kind {
    if body.is_empty() {
        return named.unwrap_or(Kind::Empty);
    }
    let binary = !wide && is_binary(body);
    if let Some(kind) = kind_of_magic(body, binary) {
        return kind;
    }
    if binary {
        return named.filter(|kind| !kind.is_text() && *kind != Kind::Empty).unwrap_or(Kind::Binary);
    }
    let markup = kind_of_markup(body);
    match (named, markup) {
        // Text that is labelled as plain text, script or style stays that: browsers do not look further.
        (Some(Kind::Text | Kind::Script | Kind::Css | Kind::Json), _) => named.unwrap_or(Kind::Text),
        // XML has one label for many formats.
        (Some(Kind::Html), Some(Kind::Feed | Kind::Sitemap)) => markup.unwrap_or(Kind::Html),
        (Some(Kind::Html), _) => Kind::Html,
        (_, Some(kind)) => kind,
        (Some(kind), None) if kind.is_text() => kind,
        // The label says image, font or nothing, and the bytes are text.
        (_, None) if matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')) => Kind::Json,
        (_, None) => Kind::Text,
    }
}

/// Whether the bytes are no text. Decided by control characters that no text has; UTF-16 must have its byte order mark.
pub fn is_binary(body: &[u8]) -> bool {
    let body = &body[..body.len().min(SNIFF_BYTES_MAX)];
    if body.starts_with(b"\xff\xfe") || body.starts_with(b"\xfe\xff") {
        return false;
    }
    // XML in UTF-16 without a mark.
    if body.starts_with(b"<\0?\0") || body.starts_with(b"\0<\0?") {
        return false;
    }
    let controls = body.iter().filter(|b| matches!(b, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f)).count();
    controls > 0 && controls * CONTROLS_ONE_IN >= body.len()
}

/// The media type in a `Content-Type`, without parameters, in lower case. None if malformed.
pub fn essence(field: &[u8]) -> Option<String> {
    let field = &field[..field.len().min(LABEL_BYTES_MAX)];
    let essence = field.split(|b| *b == b';').next()?.trim_ascii();
    let token = |part: &[u8]| {
        !part.is_empty() && part.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
    };
    let slash = essence.iter().position(|b| *b == b'/')?;
    let valid =
        token(&essence[..slash]) && token(&essence[slash + 1..]) && essence.len() <= ESSENCE_BYTES_MAX;
    valid.then(|| String::from_utf8_lossy(essence).to_ascii_lowercase())
}

/// The first non-empty `charset` of a `Content-Type`, unquoted.
pub fn charset_label(field: &[u8]) -> Option<Vec<u8>> {
    let field = &field[..field.len().min(LABEL_BYTES_MAX)];
    let mut rest = field.get(field.iter().position(|b| *b == b';')? + 1..)?;
    loop {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|b| matches!(b, b';' | b'=')).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let mut value = Vec::new();
        rest = match after.strip_prefix(b"=") {
            None => after,
            Some(after) if after.first() == Some(&b'"') => {
                let mut at = 1;
                while at < after.len() && after[at] != b'"' {
                    at += usize::from(after[at] == b'\\' && at + 1 < after.len());
                    value.push(after[at]);
                    at += 1;
                }
                &after[at..]
            }
            Some(after) => {
                let end = after.iter().position(|b| *b == b';').unwrap_or(after.len());
                value = after[..end].trim_ascii().to_vec();
                &after[end..]
            }
        };
        if name.trim_ascii().eq_ignore_ascii_case(b"charset") && !value.is_empty() {
            return Some(value);
        }
        rest = &rest[rest.iter().position(|b| *b == b';')? + 1..];
    }
}

fn kind_of_label(label: &str) -> Option<Kind> {
    let (family, name) = label.split_once('/')?;
    Some(match (family, name) {
        (_, "html" | "xhtml+xml" | "vnd.wap.xhtml+xml") => Kind::Html,
        (_, "rss+xml" | "atom+xml" | "rdf+xml") => Kind::Feed,
        (_, "javascript" | "x-javascript" | "ecmascript") => Kind::Script,
        (_, "css") => Kind::Css,
        (_, "pdf" | "x-pdf") => Kind::Pdf,
        (_, "xml") => Kind::Xml,
        (_, "json") => Kind::Json,
        ("image", _) => Kind::Image,
        ("audio" | "video", _) => Kind::Media,
        ("font", _) => Kind::Font,
        (_, name) if name.ends_with("+json") => Kind::Json,
        (_, name) if name.ends_with("+xml") => Kind::Xml,
        ("application", "zip" | "gzip" | "x-gzip" | "zstd" | "x-tar" | "x-7z-compressed" | "vnd.rar") => {
            Kind::Archive
        }
        ("application", "font-woff" | "font-woff2") => Kind::Font,
        ("application", "octet-stream") => Kind::Binary,
        ("text", _) => Kind::Text,
        _ => return None,
    })
}

/// Signatures at a fixed offset. Signatures that a word could begin with count only if the body is no text.
fn kind_of_magic(body: &[u8], binary: bool) -> Option<Kind> {
    const STRONG: &[(&[u8], Kind)] = &[
        (b"%PDF-", Kind::Pdf),
        (b"\x89PNG\r\n\x1a\n", Kind::Image),
        (b"\xff\xd8\xff", Kind::Image),
        (b"GIF87a", Kind::Image),
        (b"GIF89a", Kind::Image),
        (b"II*\0", Kind::Image),
        (b"MM\0*", Kind::Image),
        (b"\0\0\x01\0", Kind::Image),
        (b"\0\0\x02\0", Kind::Image),
        (b"PK\x03\x04", Kind::Archive),
        (b"PK\x05\x06", Kind::Archive),
        (b"\x1f\x8b\x08", Kind::Archive),
        (b"\x28\xb5\x2f\xfd", Kind::Archive),
        (b"\xfd7zXZ\0", Kind::Archive),
        (b"7z\xbc\xaf\x27\x1c", Kind::Archive),
        (b"Rar!\x1a\x07", Kind::Archive),
        (b"\x1aE\xdf\xa3", Kind::Media),
        (b"OggS\0", Kind::Media),
        (b"wOFF", Kind::Font),
        (b"wOF2", Kind::Font),
        (b"\x7fELF", Kind::Binary),
        (b"\0asm", Kind::Binary),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind::Binary),
    ];
    const WEAK: &[(&[u8], Kind)] = &[
        (b"BM", Kind::Image),
        (b"ID3", Kind::Media),
        (b"fLaC", Kind::Media),
        (b"BZh", Kind::Archive),
        (b"MZ", Kind::Binary),
        (b"OTTO", Kind::Font),
        (b"\0\x01\0\0", Kind::Font),
        (b"\xff\xfb", Kind::Media),
    ];
    let find = |table: &[(&[u8], Kind)]| {
        table.iter().find(|(start, _)| body.starts_with(start)).map(|(_, kind)| *kind)
    };
    find(STRONG)
        .or_else(|| find(WEAK).filter(|_| binary))
        .or_else(|| (body.get(4..8) == Some(b"ftyp") && binary).then_some(Kind::Media))
        .or_else(|| match (body.get(..4), body.get(8..12)) {
            (Some(b"RIFF"), Some(b"WEBP")) => Some(Kind::Image),
            (Some(b"RIFF"), Some(b"WAVE" | b"AVI ")) => Some(Kind::Media),
            _ => None,
        })
}

/// HTML or XML by its first tag; an XML file by its root.
fn kind_of_markup(body: &[u8]) -> Option<Kind> {
    // Tags of HTML that stand alone at the start of a page (MIME Sniffing standard, 7.1).
    const HTML: &[&[u8]] = &[
        b"<!doctype html",
        b"<html",
        b"<head",
        b"<script",
        b"<iframe",
        b"<h1",
        b"<div",
        b"<font",
        b"<table",
        b"<a",
        b"<style",
        b"<title",
        b"<b",
        b"<body",
        b"<br",
        b"<p",
        b"<meta",
        b"<link",
    ];
    const ROOTS: &[(&[u8], Kind)] = &[
        (b"<rss", Kind::Feed),
        (b"<feed", Kind::Feed),
        (b"<rdf:rdf", Kind::Feed),
        (b"<urlset", Kind::Sitemap),
        (b"<sitemapindex", Kind::Sitemap),
        (b"<html", Kind::Html),
    ];
    // In UTF-16 every other byte of a tag is zero; without the zero bytes the tags can be read.
    let wide = body.starts_with(b"\xff\xfe") || body.starts_with(b"\xfe\xff") || body.get(1) == Some(&0);
    let text: Vec<u8> = body.iter().copied().filter(|b| !(wide && matches!(b, 0 | 0xfe | 0xff))).collect();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text).trim_ascii_start();
    let tag_at = |at: &[u8], tag: &[u8]| {
        at.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag))
            && at
                .get(tag.len())
                .is_none_or(|b| matches!(b, b'\t' | b'\n' | 0x0c | b'\r' | b' ' | b'>' | b'/'))
    };
    let root_at = |at: &[u8]| ROOTS.iter().find(|(tag, _)| tag_at(at, tag)).map(|(_, kind)| *kind);
    if let Some(kind) = root_at(text) {
        return Some(kind);
    }
    if HTML.iter().any(|tag| tag_at(text, tag)) {
        return Some(Kind::Html);
    }
    let xml = text.starts_with(b"<?xml");
    if xml || text.starts_with(b"<!--") {
        let root = memchr::memchr_iter(b'<', text).find_map(|at| root_at(&text[at..]));
        return Some(root.unwrap_or(if xml { Kind::Xml } else { Kind::Html }));
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(labels: &[&str], body: &[u8], want: Kind) {
        let got = sniff(labels.iter().map(|l| l.as_bytes()), body);
        assert_eq!(got.kind, want, "{labels:?} {}", body[..body.len().min(40)].escape_ascii());
    }

    #[test]
    fn h1_32_labels_missing_or_false_are_seen_through() {
        let page = b"\n<!DOCTYPE html><title>x</title>";
        let long = format!("text/html; x={}", "y".repeat(4_096));
        let longer = "t".repeat(4_096);
        for labels in [
            &[][..],
            &[""],
            &["text/html", "text/html"],
            &["image/png", ""],
            &["nonsense", "text/html; charset"],
            &["text/html; charset"],
            &[&long],
            &[&longer],
            &["image/png"],
            &["application/octet-stream"],
            &["*/*"],
            &["text/html, text/html"],
        ] {
            check(labels, page, Kind::Html);
        }
        // The stored field stays as received: the label is a value beside the field.
        let field = b"Image/PNG ; x=\xff".to_vec();
        let read = sniff([field.as_slice()], page);
        assert_eq!(read.label.as_deref(), Some("image/png"));
        assert_eq!(field, b"Image/PNG ; x=\xff");
        // The prefix is bounded: bytes behind the prefix change nothing.
        let mut far = vec![b' '; SNIFF_BYTES_MAX];
        far.extend_from_slice(page);
        check(&[], &far, Kind::Text);
        assert_eq!(
            sniff([b"text/plain".as_slice(), b"text/css"], b"x").kind,
            Kind::Css,
            "the last label counts"
        );
    }

    #[test]
    fn enc_08_binary_labelled_as_a_page_is_found_in_its_first_bytes() {
        let jpeg = [b"\xff\xd8\xff\xe0\0\x10JFIF".as_slice(), &[7; 2_000]].concat();
        check(&["text/html"], &jpeg, Kind::Image);
        let zeros = vec![0; 10 << 20];
        check(&["text/html; charset=utf-8"], &zeros, Kind::Binary);
        let noise: Vec<u8> = (0..4_096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        check(&["text/html"], &noise, Kind::Binary);
        for kind in [Kind::Image, Kind::Binary] {
            assert!(!kind.is_text(), "not parsed");
        }
        check(&["text/html"], b"%PDF-1.7\n...", Kind::Pdf);
        check(&["text/html"], b"PK\x03\x04....", Kind::Archive);
        // A page with a stray control character is still a page.
        let page = format!("<html>{}\0{}", "a".repeat(100), "b".repeat(900));
        check(&["text/html"], page.as_bytes(), Kind::Html);
        let wide: Vec<u8> = "<html>wide".encode_utf16().flat_map(u16::to_le_bytes).collect();
        check(&["text/html; charset=utf-16le"], &wide, Kind::Html);
        check(&["text/html"], &[b"\xff\xfe".as_slice(), &wide].concat(), Kind::Html);
        check(&["text/html"], "<p>Привет日本".as_bytes(), Kind::Html);
    }

    #[test]
    fn text_is_what_its_label_and_its_root_say() {
        check(&["text/plain"], b"<html>", Kind::Text);
        check(&["text/css"], b"a{}", Kind::Css);
        check(&["text/html"], b"just words", Kind::Html);
        check(&["text/html"], b"<?xml version='1.0'?><rss version='2.0'>", Kind::Feed);
        check(&["application/xml"], b"<?xml version='1.0'?>\n<!-- x -->\n<urlset xmlns='x'>", Kind::Sitemap);
        check(&["text/xml"], b"<?xml version='1.0'?><feed>", Kind::Feed);
        check(&["text/xml"], b"<?xml version='1.0'?><svg>", Kind::Xml);
        check(&["application/xhtml+xml"], b"<?xml version='1.0'?><html>", Kind::Html);
        check(&["application/rss+xml"], b"  ", Kind::Feed);
        check(&["application/ld+json"], b"{}", Kind::Json);
        check(&[], b"{\"a\":1}", Kind::Json);
        check(&[], b"words", Kind::Text);
        check(&[], b"", Kind::Empty);
        check(&["image/gif"], b"", Kind::Image);
        check(&["video/mp4"], b"\0\0\0\x20ftypisom\0\0", Kind::Media);
        check(&["application/x-unknown"], b"\0\x01\x02\x03\x04", Kind::Binary);
        check(&["audio/x-thing"], b"\0\x01\x02\x03\x04", Kind::Media);
    }

    proptest! {
        #[test]
        fn no_label_and_no_body_panics(label in proptest::collection::vec(any::<u8>(), 0..80),
                                       tail in "[;=\"\\\\ charsetCHARSET]{0,40}",
                                       body in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            let label = [label, tail.into_bytes()].concat();
            sniff([label.as_slice()], &body);
            charset_label(&label);
        }
    }
}
