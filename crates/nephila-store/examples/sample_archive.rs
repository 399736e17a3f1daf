//! Makes an archive that holds every kind of capture, for `cargo xtask interop`.
//!
//!     sample_archive DIR [gzip|zstd|none]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nephila_core::store::{Exchange, Payload, Truncation};
use nephila_core::time::Timestamp;
use nephila_store::archive::{Archive, Kind, Settings, WarcInfo};

/// Small files, so that there are several.
const BYTES_MAX: u64 = 150_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("DIR"));
    let compression = args.next().unwrap_or_else(|| "gzip".into()).parse().expect("gzip, zstd or none");
    let settings =
        Settings { bytes_max: BYTES_MAX, prefix: "SAMPLE".into(), compression, ..Settings::default() };
    let info = WarcInfo {
        software: format!("nephila/{}", env!("CARGO_PKG_VERSION")),
        user_agent: "Mozilla/5.0 (compatible; ExampleBot/0.1; +https://example.org/bot)".into(),
        robots: "obey".into(),
        operator: "https://example.org/".into(),
        is_part_of: "sample".into(),
        settings_digest: String::new(),
    };
    let archive = Archive::open(&dir, settings, info).expect("the archive opens");
    let mut sample = Sample { archive, second: 0, captures: 0, revisits: 0 };
    sample.pages().await;
    sample.codings().await;
    sample.statuses().await;
    sample.cut().await;
    sample.heads().await;
    sample.addresses().await;
    sample.large(&dir).await;
    sample.again().await;
    let summary = sample.archive.close().await.expect("the archive closes");
    println!("{} captures, {} revisits, {} files", sample.captures, sample.revisits, summary.files);
}

struct Sample {
    archive: Archive,
    second: u64,
    captures: u32,
    revisits: u32,
}

impl Sample {
    /// Stores one capture, a minute after the last.
    async fn add(
        &mut self,
        url: &str,
        head: &[u8],
        body: impl Into<Body>,
        change: impl FnOnce(&mut Exchange),
    ) -> Kind {
        self.second += 60;
        let host = url.split('/').nth(2).unwrap_or_default().to_owned();
        let mut exchange = Exchange {
            url: url.into(),
            started: Timestamp::from_secs(1_794_600_000 + self.second),
            elapsed_ms: 42,
            address: Some("127.0.0.1".parse().expect("an address")),
            protocols: vec!["http/1.1"],
            request_head: Bytes::from(format!(
                "GET / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ExampleBot/0.1\r\nCookie: secret=1\r\nAccept: */*\r\n\r\n"
            )),
            response_head: Bytes::copy_from_slice(head),
            body: body.into().0,
            truncated: None,
            notes: [("via", "http://site.test/"), ("hopsFromSeed", "L")].into(),
            text: "".into(),
            media: None,
        };
        change(&mut exchange);
        let receipt = self.archive.append(exchange).await.expect("stored");
        self.captures += 1;
        self.revisits += u32::from(receipt.kind != Kind::Response);
        receipt.kind
    }

    async fn page(&mut self, url: &str, text: &str) -> Kind {
        let body = page(text);
        let head = html(&format!("Content-Length: {}\r\nETag: \"1\"\r\n", body.len()));
        self.add(url, &head, body, |_| ()).await
    }

    async fn pages(&mut self) {
        for n in 0..60 {
            self.page(&format!("http://site.test/page/{n}?b=2&a={n}"), &format!("page {n}")).await;
        }
        for n in 0..10 {
            let body = page(&format!("secure {n}"));
            self.add(
                &format!("https://secure.test/{n}"),
                b"HTTP/2 200\r\ncontent-type: text/html\r\n\r\n",
                body,
                |e| {
                    e.protocols = vec!["h2", "tls/1.3"];
                    e.address = Some("::1".parse().expect("an address"));
                },
            )
            .await;
        }
    }

    async fn codings(&mut self) {
        for n in 0..5 {
            let plain = page(&format!("coded {n}"));
            for (coding, body) in [
                ("gzip", gzip(&plain)),
                ("x-gzip", gzip(&plain)),
                ("deflate", zlib(&plain)),
                ("br", brotli(&plain)),
                ("zstd", zstd::encode_all(&plain[..], 3).expect("zstd")),
            ] {
                let chunked = if n % 2 == 0 { "Transfer-Encoding: chunked\r\n" } else { "" };
                let head = html(&format!("Content-Encoding: {coding}\r\n{chunked}"));
                self.add(&format!("http://coded.test/{coding}/{n}"), &head, body, |_| ()).await;
            }
        }
        // It says gzip and is not.
        self.add("http://coded.test/liar", &html("Content-Encoding: gzip\r\n"), page("not gzip"), |_| ())
            .await;
        self.add(
            "http://site.test/chunked",
            &html("Transfer-Encoding: chunked\r\n"),
            page("chunked"),
            |_| (),
        )
        .await;
    }

    async fn statuses(&mut self) {
        for (status, reason) in
            [(404, "Not Found"), (410, "Gone"), (403, "Forbidden"), (500, "Oops"), (503, "Busy")]
        {
            let head =
                format!("HTTP/1.1 {status} {reason}\r\nContent-Type: text/html\r\nRetry-After: 9\r\n\r\n");
            self.add(&format!("http://status.test/{status}"), head.as_bytes(), page(reason), |_| ()).await;
        }
        for status in [301, 302, 303, 307, 308] {
            let head = format!(
                "HTTP/1.1 {status} Moved\r\nLocation: http://site.test/page/1?b=2&a=1\r\nContent-Length: 0\r\n\r\n"
            );
            self.add(&format!("http://status.test/{status}"), head.as_bytes(), vec![], |_| ()).await;
        }
        self.add("http://status.test/204", b"HTTP/1.1 204 No Content\r\n\r\n", vec![], |_| ()).await;
        self.add("http://status.test/empty", &html("Content-Length: 0\r\n"), vec![], |_| ()).await;
        let old = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n";
        self.add("http://status.test/old", old, b"from 1996\n".to_vec(), |_| ()).await;
    }

    async fn cut(&mut self) {
        for why in [Truncation::Length, Truncation::Time, Truncation::Disconnect] {
            let head = html("Content-Length: 1000000\r\n");
            self.add(&format!("http://cut.test/{why}"), &head, page(&format!("cut by {why}")), |e| {
                e.truncated = Some(why);
            })
            .await;
            let head = html("Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n");
            let mut body = gzip(&page(&format!("coded, cut by {why}")));
            body.truncate(body.len() / 2);
            self.add(&format!("http://cut.test/coded/{why}"), &head, body, |e| e.truncated = Some(why)).await;
        }
    }

    async fn heads(&mut self) {
        let latin = b"HTTP/1.1 200 Gr\xfc\xdfe\r\nContent-Type: text/html\r\nX-Name: caf\xe9\r\nSet-Cookie: a=\xe4\r\n\r\n";
        self.add("http://heads.test/latin1", latin, page("latin1"), |_| ()).await;
        let utf8 = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Name: \u{1f578}\u{e9}\r\n\r\n";
        self.add("http://heads.test/utf8", utf8.as_bytes(), page("utf8"), |_| ()).await;
        let broken =
            b"HTTP/1.1 200 OK\nContent-Type: text/html\nX-Fold: a\n  b\nno field here\nX-Nul: a\0b\n\n";
        self.add("http://heads.test/broken", broken, page("broken"), |_| ()).await;
        let twice = html("Content-Length: 5\r\nContent-Length: 6\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n");
        self.add("http://heads.test/twice", &twice, page("twice"), |_| ()).await;
        let none = b"HTTP/1.1 200 OK\r\n\r\n";
        self.add("http://heads.test/none", none, b"\x00\x01\x02 bytes without a type".to_vec(), |_| ()).await;
        let warc = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n".repeat(3);
        self.add("http://heads.test/warc-in-warc", &html(""), warc, |_| ()).await;
    }

    async fn addresses(&mut self) {
        for url in [
            "http://xn--bcher-kva.test/%C3%BC?q=%C3%A4",
            "http://site.test/a%20b/%E4",
            "http://WWW.Site.test:8080/CaseD/Path",
            "http://site.test/?z=1&a=2&m=%26",
            "http://127.0.0.1:8080/x",
            "http://[::1]:8080/x",
            "http://site.test//double//slash/",
            "http://site.test/robots.txt",
            "http://site.test/long?q=",
        ] {
            let url = if url.ends_with("q=") { format!("{url}{}", "x".repeat(1500)) } else { url.to_owned() };
            self.page(&url, &url).await;
        }
    }

    async fn large(&mut self, dir: &Path) {
        let path = dir.join("large-body");
        let body: Vec<u8> =
            (0..6_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 27) as u8 + b'A').collect();
        std::fs::write(&path, &body).expect("written");
        let file = Body(Box::new(InFile(path.clone(), body.len() as u64)));
        self.add("http://large.test/file", &html(""), file, |_| ()).await;
        std::fs::remove_file(path).expect("removed");
        self.add("http://large.test/memory", &html(""), body[..1_000_000].to_vec(), |_| ()).await;
    }

    /// Pages seen before: the same payload under the same and another URL, and 304.
    async fn again(&mut self) {
        for n in 0..5 {
            let url = format!("http://site.test/page/{n}?b=2&a={n}");
            assert_eq!(self.page(&url, &format!("page {n}")).await, Kind::Revisit);
            let other = format!("http://mirror.test/page/{n}");
            assert_eq!(self.page(&other, &format!("page {n}")).await, Kind::Revisit);
            for url in [url, other] {
                let head = b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n";
                assert_eq!(self.add(&url, head, vec![], |_| ()).await, Kind::NotModified);
            }
        }
        let plain = page("coded 0");
        let head = html("Content-Encoding: gzip\r\n");
        assert_eq!(self.add("http://mirror.test/gzip", &head, gzip(&plain), |_| ()).await, Kind::Revisit);
        let head = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n";
        assert_eq!(self.add("http://mirror.test/404", head, page("Not Found"), |_| ()).await, Kind::Revisit);
    }
}

struct Body(Box<dyn Payload>);

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body(Box::new(Bytes::from(bytes)))
    }
}

#[derive(Debug)]
struct InFile(PathBuf, u64);

impl Payload for InFile {
    fn len(&self) -> u64 {
        self.1
    }

    fn in_memory(&self) -> Option<&[u8]> {
        None
    }

    fn reader(&self) -> std::io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(std::fs::File::open(&self.0)?))
    }

    fn share(&self) -> Box<dyn Payload> {
        Box::new(InFile(self.0.clone(), self.1))
    }
}

fn html(more: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nServer: sample\r\nContent-Type: text/html; charset=utf-8\r\n{more}\r\n")
        .into_bytes()
}

/// A page of some 3 KB, different for each text.
fn page(text: &str) -> Vec<u8> {
    let mut out = format!("<!doctype html><title>{text}</title><a href='/a'>a</a> Gr\u{fc}\u{df}e\n");
    for n in 0..60u64 {
        out += &format!("<p id={n}>{text}, paragraph {:x}</p>\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
    out.into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).and_then(|()| out.finish()).expect("gzip")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).and_then(|()| out.finish()).expect("zlib")
}

fn brotli(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = brotli::CompressorWriter::new(&mut out, 4096, 4, 20);
    writer.write_all(bytes).and_then(|()| writer.flush()).expect("brotli");
    drop(writer);
    out
}
