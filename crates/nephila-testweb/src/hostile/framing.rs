//! H1-01 to H1-28: status lines, fields and framing that are wrong.
//!
//! Most answers are fixed bytes followed by a close; the few that are endless or depend on earlier requests are in
//! [`answer`]. Bodies name themselves, so that a page kept by mistake is found by its text.

use std::io;
use std::time::Duration;

use super::conn::{Conn, Head, Next, not_found, page, response};
use super::good::gzip;
use super::{BODY_BYTES_MAX, Case};

/// Between two of the endless 103 responses of H1-25.
const HINT_REST: Duration = Duration::from_millis(1);
const BIG_VALUE: usize = 300 * 1024;
const HUGE_VALUE: usize = 2 * 1024 * 1024;
const EXTENSION_BYTES: usize = 8 * 1024 * 1024;

/// Cases whose connection is left open by the server.
const CLIENT_CLOSES: &[&str] = &["h1-12", "h1-14", "h1-15", "h1-16", "h1-19"];

pub(super) const CASES: &[Case] = &[
    Case::http("h1-01", &[("/", "a head line without a colon"), ("/first", "the same as the first line")]),
    Case::http(
        "h1-02",
        &[("/", "space before the colon"), ("/length", "in Content-Length"), ("/tab", "a tab")],
    ),
    Case::http("h1-03", &[("/", "a folded field"), ("/first", "a fold right after the status line")]),
    Case::http("h1-04", &[("/", "bare LF in the whole head"), ("/mixed", "LF and CRLF mixed")]),
    Case::http(
        "h1-05",
        &[
            ("/none", "no reason"),
            ("/nospace", "no space either"),
            ("/latin1", "Latin-1 in the reason"),
            ("/utf8", "UTF-8 in it"),
        ],
    ),
    Case::http(
        "h1-06",
        &[
            ("/icy", "ICY 200 OK"),
            ("/09", "HTTP/0.9: a body, no head"),
            ("/12", "HTTP/1.2"),
            ("/20", "HTTP/2.0"),
        ],
    ),
    Case::http("h1-07", &[("/", "HTTP/1.0, close-delimited")]),
    Case::http(
        "h1-08",
        &[
            ("/999", "status 999"),
            ("/000", "status 000"),
            ("/099", "status 099"),
            ("/1000", "status 1000"),
            ("/600", "status 600"),
            ("/abc", "status abc"),
        ],
    ),
    Case::http(
        "h1-09",
        &[
            ("/nul", "NUL in a value"),
            ("/control", "other control bytes"),
            ("/length", "NUL in Content-Length"),
            ("/cr", "a bare CR in a value"),
        ],
    ),
    Case::http("h1-10", &[("/utf8", "raw UTF-8 in values"), ("/latin1", "raw Latin-1")]),
    Case::http("h1-11", &[("/twice", "Content-Length twice, the same"), ("/list", "Content-Length: 5, 5")]),
    Case::http(
        "h1-12",
        &[
            ("/two", "two different lengths"),
            ("/list", "5, 6"),
            ("/negative", "-5"),
            ("/plus", "+5"),
            ("/digits", "23 digits"),
            ("/hex", "0x5"),
            ("/empty", "no digits"),
        ],
    ),
    Case::http("h1-13", &[("/", "500 of 1,000 bytes, then FIN"), ("/none", "0 of 1,000 bytes")]),
    Case::http("h1-14", &[("/", "1,000 bytes under a length of 500")]),
    Case::http("h1-15", &[("/", "length and chunked"), ("/reverse", "chunked first, then a length")]),
    Case::http("h1-16", &[("/", "Transfer-Encoding: gzip, chunked"), ("/two", "in two fields")]),
    Case::http(
        "h1-17",
        &[
            ("/unknown", "Transfer-Encoding: brazil"),
            ("/http10", "chunked on HTTP/1.0"),
            ("/wide", "a full-width colon"),
            ("/identity", "Transfer-Encoding: identity"),
            ("/notlast", "chunked, gzip"),
        ],
    ),
    Case::http(
        "h1-18",
        &[("/", "no zero chunk"), ("/mid", "ends inside a chunk"), ("/size", "inside a size")],
    ),
    Case::http(
        "h1-19",
        &[
            ("/nothex", "size 'zz'"),
            ("/17", "17 hex digits"),
            ("/padded", "spaces around the size"),
            ("/lf", "bare LF after the size"),
            ("/negative", "size -5"),
            ("/prefix", "size 0x5"),
            ("/nocrlf", "no line end after the chunk"),
        ],
    ),
    Case::http(
        "h1-20",
        &[("/", "3,000 chunks with 200 bytes of extension"), ("/mega", "8 MB of extensions")],
    ),
    Case::http(
        "h1-21",
        &[("/", "20,000 trailer fields"), ("/smuggle", "a trailer Content-Length and Set-Cookie")],
    ),
    Case::http("h1-22", &[("/101", "101 fields"), ("/150", "150"), ("/256", "256"), ("/5000", "5,000")]),
    Case::http("h1-23", &[("/300k", "a value of 300 KB"), ("/2m", "2 MB"), ("/endless", "without an end")]),
    Case::http("h1-24", &[("/", "ten 103 before the answer"), ("/100", "a 100 nobody asked for before it")]),
    Case::http("h1-25", &[("/", "endless 103 responses")]),
    Case::http("h1-26", &[("/", "101 nobody asked for, then noise"), ("/h2c", "101 to h2c")]),
    Case::http(
        "h1-27",
        &[
            ("/204", "204 with a body"),
            ("/304", "304 with a body"),
            ("/unasked304", "304 to an unconditional request"),
            ("/206", "206 without a range asked for"),
        ],
    ),
    Case::http("h1-28", &[("/", "one CRLF before the status line"), ("/ten", "ten"), ("/many", "10,000")]),
];

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    match (conn.id(), head.path.as_str()) {
        ("h1-20", "/mega") => {
            conn.send(chunked_head()).await?;
            conn.send("1;x=").await?;
            conn.repeat_up_to(&[b'e'; 16 * 1024], EXTENSION_BYTES as u64).await?;
            conn.send("\r\na\r\n0\r\n\r\n").await?;
            Ok(Next::Close)
        }
        ("h1-23", "/endless") => {
            conn.send("HTTP/1.1 200 OK\r\nX-Endless: ").await?;
            conn.repeat(&[b'h'; 16 * 1024]).await?;
            Ok(Next::Close)
        }
        ("h1-25", _) => {
            let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
            for _ in 0..BODY_BYTES_MAX / hint.len() as u64 {
                conn.send(hint).await?;
                conn.rest(HINT_REST).await;
            }
            Ok(Next::Close)
        }
        ("h1-26", path) => {
            let token = if path == "/h2c" { "h2c" } else { "websocket" };
            conn.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {token}\r\n\r\n"
            ))
            .await?;
            conn.send([0x81, 0x05, b'h', b'e', b'l', b'l', b'o']).await?;
            conn.hold().await?;
            Ok(Next::Close)
        }
        // The bytes after a bodyless answer wait on a kept connection to be taken for the next one.
        ("h1-27", "/204" | "/304") => {
            let status = if head.path == "/204" { "204 No Content" } else { "304 Not Modified" };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 15\r\n\r\n<p>bleeding</p>")).await?;
            Ok(Next::Keep)
        }
        ("h1-27", "/unasked304") => {
            conn.send("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n").await?;
            Ok(Next::Keep)
        }
        (id, path) => match fixed(id, path) {
            Some(bytes) => {
                conn.send(bytes).await?;
                // Where the client must close, the server does not, so that a kept connection would be seen.
                Ok(if CLIENT_CLOSES.contains(&id) { Next::Keep } else { Next::Close })
            }
            None => {
                conn.send(not_found()).await?;
                Ok(Next::Keep)
            }
        },
    }
}

const TYPE: &str = "Content-Type: text/html\r\n";

/// A five-byte page with these head lines, which must bring the framing themselves.
fn five(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{TYPE}{lines}\r\n<b>5\n").into_bytes()
}

fn with_head(head: &[u8], body: &str) -> Vec<u8> {
    let mut bytes = head.to_vec();
    bytes.extend(body.bytes());
    bytes
}

fn chunked_head() -> String {
    format!("HTTP/1.1 200 OK\r\n{TYPE}Transfer-Encoding: chunked\r\n\r\n")
}

/// A page whose chunks are these bytes.
fn chunks(bytes: &str) -> Vec<u8> {
    (chunked_head() + bytes).into_bytes()
}

/// A chunked page whose head has these two lines.
fn both_lengths(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{TYPE}{lines}\r\n\r\n5\r\n<b>5\n\r\n0\r\n\r\n").into_bytes()
}

/// A page with a correct length and these further lines in its head.
fn lines(lines: &str) -> Vec<u8> {
    response("200 OK", &format!("{TYPE}{lines}"), "<p>kept</p>")
}

/// The same with bytes that are not text.
fn line_bytes(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{TYPE}{name}: ").into_bytes();
    bytes.extend(value);
    bytes.extend(b"\r\nContent-Length: 11\r\n\r\n<p>kept</p>");
    bytes
}

fn fixed(id: &str, path: &str) -> Option<Vec<u8>> {
    Some(match (id, path) {
        ("h1-01", "/") => lines("this line has no colon\r\n"),
        ("h1-01", "/first") => {
            b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 11\r\n\r\n<p>kept</p>".to_vec()
        }
        ("h1-02", "/") => lines("X-Spaced : yes\r\n"),
        ("h1-02", "/length") => five("Content-Length : 5\r\n"),
        ("h1-02", "/tab") => lines("X-Tabbed\t: yes\r\n"),
        ("h1-03", "/") => lines("X-Folded: one\r\n two\r\n\tthree\r\n"),
        ("h1-03", "/first") => {
            b"HTTP/1.1 200 OK\r\n X-Fold: yes\r\nContent-Length: 11\r\n\r\n<p>kept</p>".to_vec()
        }
        ("h1-04", "/") => {
            b"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 11\n\n<p>kept</p>".to_vec()
        }
        ("h1-04", "/mixed") => {
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\nContent-Length: 11\r\n\n<p>kept</p>".to_vec()
        }
        ("h1-05", "/none") => response("200 ", TYPE, "<p>kept</p>"),
        ("h1-05", "/nospace") => response("200", TYPE, "<p>kept</p>"),
        ("h1-05", "/latin1") => {
            with_head(b"HTTP/1.1 200 Tr\xe8s bien\r\nContent-Length: 11\r\n\r\n", "<p>kept</p>")
        }
        ("h1-05", "/utf8") => response("200 Très bien ✓", TYPE, "<p>kept</p>"),
        ("h1-06", "/icy") => {
            b"ICY 200 OK\r\nicy-name: radio\r\nContent-Type: audio/mpeg\r\n\r\nnot a page".to_vec()
        }
        ("h1-06", "/09") => b"<html><body>HTTP/0.9 has no head</body></html>".to_vec(),
        ("h1-06", "/12") => b"HTTP/1.2 200 OK\r\nContent-Length: 11\r\n\r\n<p>kept</p>".to_vec(),
        ("h1-06", "/20") => b"HTTP/2.0 200 OK\r\nContent-Length: 10\r\n\r\n<p>two</p>".to_vec(),
        ("h1-07", "/") => b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>kept</p>".to_vec(),
        ("h1-08", "/999") => response("999 Request denied", TYPE, "denied"),
        ("h1-08", "/000") => response("000 Nothing", TYPE, "nothing"),
        ("h1-08", "/099") => response("099 Small", TYPE, "small"),
        ("h1-08", "/1000") => response("1000 Large", TYPE, "large"),
        ("h1-08", "/600") => response("600 Unknown", TYPE, "unknown"),
        ("h1-08", "/abc") => response("abc Letters", TYPE, "letters"),
        ("h1-09", "/nul") => line_bytes("X-Nul", b"a\0b"),
        ("h1-09", "/control") => line_bytes("X-Control", b"a\x01\x08\x7fb"),
        ("h1-09", "/length") => b"HTTP/1.1 200 OK\r\nContent-Length: 1\x001\r\n\r\n<p>kept</p>".to_vec(),
        ("h1-09", "/cr") => line_bytes("X-Cr", b"a\rb"),
        ("h1-10", "/utf8") => lines("X-Utf8: Grüße ✓\r\n"),
        ("h1-10", "/latin1") => line_bytes("X-Latin1", b"Gr\xfc\xdfe"),
        ("h1-11", "/twice") => five("Content-Length: 5\r\nContent-Length: 5\r\n"),
        ("h1-11", "/list") => five("Content-Length: 5, 5\r\n"),
        ("h1-12", "/two") => five("Content-Length: 5\r\nContent-Length: 3\r\n"),
        ("h1-12", "/list") => five("Content-Length: 5, 6\r\n"),
        ("h1-12", "/negative") => five("Content-Length: -5\r\n"),
        ("h1-12", "/plus") => five("Content-Length: +5\r\n"),
        ("h1-12", "/digits") => five("Content-Length: 10000000000000000000005\r\n"),
        ("h1-12", "/hex") => five("Content-Length: 0x5\r\n"),
        ("h1-12", "/empty") => five("Content-Length:\r\n"),
        ("h1-13", "/") => with_head(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", &"s".repeat(500)),
        ("h1-13", "/none") => b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec(),
        ("h1-14", "/") => with_head(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", &"l".repeat(1000)),
        ("h1-15", "/") => both_lengths("Content-Length: 3\r\nTransfer-Encoding: chunked"),
        ("h1-15", "/reverse") => both_lengths("Transfer-Encoding: chunked\r\nContent-Length: 3"),
        ("h1-16", "/" | "/two") => {
            let coding = match path {
                "/" => "Transfer-Encoding: gzip, chunked",
                _ => "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
            };
            let body = gzip(b"<p>decoded from a transfer coding</p>");
            let mut bytes =
                format!("HTTP/1.1 200 OK\r\n{TYPE}{coding}\r\n\r\n{:x}\r\n", body.len()).into_bytes();
            bytes.extend(body);
            bytes.extend(b"\r\n0\r\n\r\n");
            bytes
        }
        ("h1-17", "/unknown") => five("Transfer-Encoding: brazil\r\n"),
        ("h1-17", "/identity") => five("Transfer-Encoding: identity\r\n"),
        ("h1-17", "/notlast") => five("Transfer-Encoding: chunked, gzip\r\n"),
        ("h1-17", "/http10") => {
            b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<b>5\n\r\n0\r\n\r\n".to_vec()
        }
        ("h1-17", "/wide") => five("Transfer-Encoding\u{ff1a} chunked\r\nContent-Length: 5\r\n"),
        ("h1-18", "/") => chunks("5\r\n<b>5\n\r\n"),
        ("h1-18", "/mid") => chunks("64\r\n<b>5\n"),
        ("h1-18", "/size") => chunks("5\r\n<b>5\n\r\n1"),
        ("h1-19", "/nothex") => chunks("zz\r\n<b>5\n\r\n0\r\n\r\n"),
        ("h1-19", "/17") => chunks("10000000000000005\r\n<b>5\n\r\n0\r\n\r\n"),
        ("h1-19", "/padded") => chunks("  5  \r\n<b>5\n\r\n0\r\n\r\n"),
        ("h1-19", "/lf") => chunks("5\n<b>5\n\n0\n\n"),
        ("h1-19", "/negative") => chunks("-5\r\n<b>5\n\r\n0\r\n\r\n"),
        ("h1-19", "/prefix") => chunks("0x5\r\n<b>5\n\r\n0\r\n\r\n"),
        ("h1-19", "/nocrlf") => chunks("5\r\n<b>5\n5\r\n<b>5\n0\r\n\r\n"),
        ("h1-20", "/") => {
            let chunk = format!("1;x={}\r\na\r\n", "e".repeat(198));
            chunks(&(chunk.repeat(3_000) + "0\r\n\r\n"))
        }
        ("h1-21", "/") => {
            let trailers: String = (0..20_000).map(|n| format!("X-Trailer-{n}: {n}\r\n")).collect();
            chunks(&format!("5\r\n<b>5\n\r\n0\r\n{trailers}\r\n"))
        }
        ("h1-21", "/smuggle") => {
            chunks("5\r\n<b>5\n\r\n0\r\nContent-Length: 1\r\nSet-Cookie: trailer=1\r\nLocation: /no\r\n\r\n")
        }
        // The two fields every page has are counted.
        ("h1-22", count) => {
            let count: usize = count.trim_start_matches('/').parse().ok()?;
            lines(&(2..count.min(5_000)).map(|n| format!("X-Field-{n}: {n}\r\n")).collect::<String>())
        }
        ("h1-23", "/300k") => lines(&format!("X-Big: {}\r\n", "b".repeat(BIG_VALUE))),
        ("h1-23", "/2m") => lines(&format!("X-Big: {}\r\n", "b".repeat(HUGE_VALUE))),
        ("h1-24", "/") => {
            let mut bytes = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n".repeat(10);
            bytes.extend(page("<p>kept</p>"));
            bytes
        }
        ("h1-24", "/100") => {
            with_head(b"HTTP/1.1 100 Continue\r\n\r\n", &String::from_utf8_lossy(&page("<p>kept</p>")))
        }
        ("h1-27", "/206") => response(
            "206 Partial Content",
            "Content-Type: text/html\r\nContent-Range: bytes 0-9/1000\r\n",
            "0123456789",
        ),
        ("h1-28", "/") => with_head(b"\r\n", &String::from_utf8_lossy(&page("<p>kept</p>"))),
        ("h1-28", "/ten") => with_head(&b"\r\n".repeat(10), &String::from_utf8_lossy(&page("<p>kept</p>"))),
        ("h1-28", "/many") => {
            with_head(&b"\r\n".repeat(10_000), &String::from_utf8_lossy(&page("<p>kept</p>")))
        }
        _ => return None,
    })
}
