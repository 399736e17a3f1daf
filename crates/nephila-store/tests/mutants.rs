//! Files with planted defects: each must be reported under its name, and good files must stay silent. The tables define
//! the defects; the reasons stand beside each row.

use std::io::Write as _;

use nephila_core::store::Digest;
use nephila_store::verify::{Report, verify_path};

const DATE: &str = "2026-11-14T22:58:09Z";
const IDENTICAL: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
const NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";
const PAGE: &[u8] = b"<html><body>x</body></html>";

/// A record to write.
#[derive(Clone, Default)]
struct Rec {
    kind: &'static str,
    fields: Vec<(&'static str, String)>,
    block: Vec<u8>,
    /// Replaces the real length.
    content_length: Option<usize>,
    /// Replaces the real end.
    end: Option<&'static [u8]>,
}

impl Rec {
    fn new(kind: &'static str, uri: &str, block: Vec<u8>) -> Self {
        let id = uuid(&[kind.as_bytes(), uri.as_bytes(), &block]);
        let content_type = match kind {
            "warcinfo" | "metadata" => "application/warc-fields".to_owned(),
            "resource" => "text/dns".to_owned(),
            "revisit" => "application/http;msgtype=response".to_owned(),
            _ => format!("application/http;msgtype={kind}"),
        };
        let mut rec = Rec { kind, block, ..Rec::default() };
        rec.set("WARC-Record-ID", &format!("<urn:uuid:{id}>"));
        rec.set("WARC-Date", DATE);
        if !uri.is_empty() {
            rec.set("WARC-Target-URI", uri);
        }
        rec.set("Content-Type", &content_type);
        let digest = Digest::of(&[&rec.block]).to_string();
        rec.set("WARC-Block-Digest", &digest);
        rec
    }

    fn set(&mut self, name: &'static str, value: &str) {
        self.fields.retain(|(n, _)| *n != name);
        self.fields.push((name, value.to_owned()));
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(n, _)| *n != name);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = format!("WARC/1.1\r\nWARC-Type: {}\r\n", self.kind);
        for (name, value) in &self.fields {
            out += &format!("{name}: {value}\r\n");
        }
        out += &format!("Content-Length: {}\r\n\r\n", self.content_length.unwrap_or(self.block.len()));
        [out.as_bytes(), &self.block, self.end.unwrap_or(b"\r\n\r\n")].concat()
    }
}

fn uuid(parts: &[&[u8]]) -> String {
    let d = Digest::of(parts).0.map(|byte| format!("{byte:02x}")).concat();
    format!("{}-{}-4{}-8{}-{}", &d[..8], &d[8..12], &d[12..15], &d[15..18], &d[18..30])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn chunked(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n0\r\n\r\n"].concat()
}

fn warcinfo() -> Rec {
    Rec::new("warcinfo", "", b"software: x\r\n".to_vec())
}

/// A response whose payload digest is that of `payload`.
fn response(status: &str, head: &str, body: &[u8], payload: &[u8]) -> Rec {
    let block = [format!("{status}\r\nContent-Type: text/html\r\n{head}\r\n").as_bytes(), body].concat();
    Rec::new("response", "http://site.test/p", block)
        .with("WARC-Payload-Digest", &Digest::of(&[payload]).to_string())
}

fn length(body: &[u8]) -> String {
    format!("Content-Length: {}\r\n", body.len())
}

fn plain_response() -> Rec {
    response("HTTP/1.1 200 OK", &length(PAGE), PAGE, PAGE)
}

fn revisit(profile: &str, block: &[u8]) -> Rec {
    Rec::new("revisit", "http://site.test/p", block.to_vec())
        .with("WARC-Profile", profile)
        .with("WARC-Refers-To-Target-URI", "http://site.test/p")
        .with("WARC-Refers-To-Date", DATE)
        .with("WARC-Payload-Digest", &Digest::of(&[PAGE]).to_string())
}

fn head200() -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{}\r\n", length(PAGE)).into_bytes()
}

const HEAD304: &[u8] = b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n";

fn good() -> Vec<Rec> {
    let zipped = gzip(PAGE);
    let request = b"GET /p HTTP/1.1\r\nHost: site.test\r\nCookie: [redacted]\r\n\r\n";
    vec![
        warcinfo(),
        Rec::new("resource", "dns:site.test", b"20261114225809\nsite.test. 300 IN A 127.0.0.1\n".to_vec()),
        plain_response(),
        Rec::new("request", "http://site.test/p", request.to_vec()),
        Rec::new("metadata", "http://site.test/p", b"fetchTimeMs: 1\r\n".to_vec()),
        response(
            "HTTP/1.1 200 OK",
            &format!("Content-Encoding: gzip\r\nX-Crawler-Transfer-Encoding: chunked\r\n{}", length(&zipped)),
            &zipped,
            &zipped,
        ),
        response("HTTP/1.1 301 Moved", "Location: /a\r\nContent-Length: 0\r\n", b"", b""),
        revisit(IDENTICAL, &head200()).with("WARC-Date", "2026-11-14T23:58:09Z"),
        revisit(NOT_MODIFIED, b"").with("WARC-Date", "2026-11-15T00:58:09Z"),
    ]
}

fn verify(name: &str, bytes: &[u8]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    verify_path(&path).unwrap()
}

fn names(report: &Report) -> Vec<&'static str> {
    report.findings.iter().map(|finding| finding.kind.name()).collect()
}

/// `wanted` are the findings, blank-separated; none for a good file.
fn check(what: &str, records: &[Rec], wanted: &str) {
    let members: Vec<Vec<u8>> = records.iter().map(|record| gzip(&record.bytes())).collect();
    let report = verify("x.warc.gz", &members.concat());
    assert_eq!(names(&report).join(" "), wanted, "{what}: {:#?}", report.findings);
    // The same without compression and with the other one; a wrong length then also spoils the next records.
    if records.iter().all(|record| record.content_length.is_none() && record.end.is_none()) {
        let members: Vec<Vec<u8>> = records.iter().map(Rec::bytes).collect();
        assert_eq!(names(&verify("x.warc", &members.concat())).join(" "), wanted, "{what}, plain");
        let frames: Vec<Vec<u8>> =
            members.iter().map(|member| zstd::stream::encode_all(&member[..], 1).unwrap()).collect();
        assert_eq!(names(&verify("x.warc.zst", &frames.concat())).join(" "), wanted, "{what}, zstd");
    }
}

fn check_one(what: &str, record: Rec, wanted: &str) {
    check(what, &[warcinfo(), record], wanted);
}

#[test]
fn good_files_are_silent() {
    check("m00, m01: a file of everything", &good(), "");
    check_one(
        "m11: a fraction of a second is legal in 1.1",
        plain_response().with("WARC-Date", "2026-11-14T22:58:09.123456Z"),
        "",
    );
    let sha256 = format!("sha256:{}", "0".repeat(64));
    check_one(
        "m15: other digests are legal; we do not recompute them",
        plain_response().with("WARC-Payload-Digest", &sha256),
        "",
    );
    let report = verify("x.warc.gz", &gzip(&plain_response().with("WARC-Payload-Digest", &sha256).bytes()));
    assert_eq!(report.unchecked, 1);
}

#[test]
fn planted_defects_have_names() {
    check_one("m02", response("HTTP/1.1 200 OK", &length(PAGE), PAGE, b"other"), "payload-digest");
    let wrong = Digest::of(&[b"other"]).to_string();
    check_one("m03", plain_response().with("WARC-Block-Digest", &wrong), "block-digest");
    let short = Rec { content_length: Some(58), ..plain_response() };
    // The block is cut within the HTTP head, so its digest, its head and its payload are wrong as well.
    check_one("m05", short, "separator block-digest http-head content-length payload-digest");
    check_one(
        "m07",
        response("HTTP/1.1 200 OK", "Transfer-Encoding: chunked\r\n", PAGE, PAGE),
        "transfer-encoding",
    );
    let coded = format!("Content-Encoding: gzip\r\n{}", length(PAGE));
    check_one("m08", response("HTTP/1.1 200 OK", &coded, PAGE, PAGE), "content-encoding");
    check_one("m09", plain_response().without("WARC-Record-ID"), "record-id-missing");
    check_one("m10", plain_response().with("WARC-Date", "2026-11-14 22:58:09"), "date");
    check_one("m12", plain_response().with("WARC-Target-URI", "<http://site.test/p>"), "target-form");
    let lost =
        revisit(IDENTICAL, &head200()).without("WARC-Refers-To-Target-URI").without("WARC-Refers-To-Date");
    check_one("m13", lost, "revisit-target");
    let old = response("HTTP/1.1 200 OK", &length(&[0; 99]), PAGE, PAGE).with("WARC-Truncated", "length");
    check_one("m14", old, "content-length");
    check_one("m16", response("HTTP/2 200", &length(PAGE), PAGE, PAGE), "status-line");
    check_one("m17", Rec { end: Some(b"\r\n"), ..plain_response() }, "separator");
}

#[test]
fn a_whole_file_in_one_member_and_a_torn_tail_are_found() {
    let records: Vec<Vec<u8>> = good().iter().map(Rec::bytes).collect();
    assert_eq!(names(&verify("m04.warc.gz", &gzip(&records.concat()))), ["shared-member"]);
    let members: Vec<Vec<u8>> = records.iter().map(|record| gzip(record)).collect();
    let whole = members.concat();
    let last = members.last().unwrap().len();
    for cut in 1..last {
        assert_eq!(
            names(&verify("m06.warc.gz", &whole[..whole.len() - cut])),
            ["torn-record"],
            "{cut} bytes"
        );
    }
}

#[test]
fn bodies_and_their_codings() {
    let zipped = gzip(PAGE);
    let (coding, framing) = ("Content-Encoding: gzip\r\n", "Transfer-Encoding: chunked\r\n");
    let both = format!("{coding}{framing}");
    let case = |name: &str, head: &str, body: &[u8], payload: &[u8], wanted: &str| {
        check_one(name, response("HTTP/1.1 200 OK", head, body, payload), wanted);
    };
    // Bodies are stored without chunk framing; with it no two readers agree what the payload digest is of, so the
    // framing is the finding and the digest is not looked at.
    case("c1: digest of the wire", &both, &chunked(&zipped), &chunked(&zipped), "chunk-framing");
    case("c2: digest without chunks", &both, &chunked(&zipped), &zipped, "chunk-framing");
    case("c3: digest of the page", &both, &chunked(&zipped), PAGE, "chunk-framing");
    case("c4: chunks alone, digest of the wire", framing, &chunked(PAGE), &chunked(PAGE), "chunk-framing");
    case("c5: chunks alone, digest without", framing, &chunked(PAGE), PAGE, "chunk-framing");
    let zipped_head = format!("{coding}{}", length(&zipped));
    case("c6: gzip, digest of the gzip", &zipped_head, &zipped, &zipped, "");
    // The payload is the stored body, with its content coding.
    case("c7: gzip, digest of the page", &zipped_head, &zipped, PAGE, "payload-digest");
    let decoded = format!(
        "X-Crawler-Content-Encoding: gzip\r\nX-Crawler-Transfer-Encoding: chunked\r\nX-Crawler-Content-Length: {}\r\n{}",
        zipped.len(),
        length(PAGE)
    );
    // Common Crawl's way: the fields that no longer hold are renamed, so nothing is claimed that is not there.
    case("c8: decoded, fields renamed", &decoded, PAGE, PAGE, "");
    let ours = format!("{coding}X-Crawler-Transfer-Encoding: chunked\r\n{}", length(&zipped));
    case("c9: our way", &ours, &zipped, &zipped, "");
}

#[test]
fn revisits() {
    let with = |record: Rec| vec![warcinfo(), plain_response(), record];
    let bare = revisit(NOT_MODIFIED, HEAD304).without("WARC-Payload-Digest");
    // pywb shows a blank page for a stored 304 and needs the digest to find the original.
    check("r1: 304 with block, no digest", &with(bare), "revisit-digest revisit-block");
    check("r2: 304 with block", &with(revisit(NOT_MODIFIED, HEAD304)), "revisit-block");
    check("r3: 304, empty", &with(revisit(NOT_MODIFIED, b"")), "");
    check("r4: same payload, head", &with(revisit(IDENTICAL, &head200())), "");
    check("r5: same payload, but a 304", &with(revisit(IDENTICAL, HEAD304)), "revisit-block");
    // Legal: readers take the head of the original.
    check("r6: same payload, empty", &with(revisit(IDENTICAL, b"").without("Content-Type")), "");
    let body = [head200(), PAGE.to_vec()].concat();
    check("a revisit with a body", &with(revisit(IDENTICAL, &body)), "revisit-body");
    check("no profile", &with(revisit("", b"")), "revisit-profile");
}

#[test]
fn status_lines() {
    let case = |line: &str, wanted: &str| check_one(line, response(line, &length(PAGE), PAGE, PAGE), wanted);
    case("HTTP/2 200", "status-line");
    case("HTTP/2 200 OK", "status-line");
    case("HTTP/2.0 200 OK", "status-line");
    case("HTTP/1.1 200 OK", "");
    case("HTTP/1.1 200 ", "");
    // RFC 9112 wants the blank even without a reason. Readers take it; we never write it.
    case("HTTP/1.1 200", "status-line");
    case("HTTP/1.0 200 OK", "");
}

#[test]
fn other_defects() {
    check("an id twice", &[warcinfo(), plain_response(), plain_response()], "record-id-repeated");
    check_one(
        "an id without brackets",
        plain_response().with("WARC-Record-ID", "urn:uuid:1"),
        "record-id-form",
    );
    check_one(
        "no target",
        plain_response().without("WARC-Target-URI").without("WARC-Payload-Digest"),
        "target-missing",
    );
    check_one("an unknown reason", plain_response().with("WARC-Truncated", "boredom"), "truncated-reason");
    check_one(
        "no digest at all is legal",
        plain_response().without("WARC-Block-Digest").without("WARC-Payload-Digest"),
        "",
    );
    check_one(
        "a digest that is none",
        plain_response().with("WARC-Block-Digest", "sha1:short"),
        "digest-form",
    );
    check_one("an unknown type", Rec { kind: "poem", ..plain_response() }, "type");
    check_one("a request as a response", plain_response().with("Content-Type", "text/html"), "content-type");
    let request = b"GET / HTTP/1.1\r\nAuthorization: Basic Zm9v\r\n\r\n".to_vec();
    check_one("a secret", Rec::new("request", "http://site.test/p", request), "secret");
    check_one("a bare line feed", response("HTTP/1.1 200 OK", "A: b\nC: d\r\n", PAGE, PAGE), "http-head");
}

#[test]
fn a_flipped_byte_is_found_and_the_rest_is_read() {
    let members: Vec<Vec<u8>> = good().iter().map(|record| gzip(&record.bytes())).collect();
    let start: usize = members[..2].iter().map(Vec::len).sum();
    let mut bytes = members.concat();
    bytes[start + members[2].len() / 2] ^= 0x55;
    let report = verify("x.warc.gz", &bytes);
    assert!(!report.findings.is_empty());
    assert!(report.findings.iter().any(|finding| finding.offset == start as u64), "{:#?}", report.findings);
    assert_eq!(report.records, members.len() as u64 - 1, "the others are still read");
}

#[test]
fn an_index_that_disagrees_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let members: Vec<Vec<u8>> = good().iter().map(|record| gzip(&record.bytes())).collect();
    let warc = dir.path().join("x.warc.gz");
    std::fs::write(&warc, members.concat()).unwrap();
    let index = dir.path().join("x.cdxj");
    std::fs::write(&index, "").unwrap();
    let empty = verify_path(&warc).unwrap();
    assert_eq!(names(&empty), ["index-missing"; 6], "{:#?}", empty.findings);
    let line = "test,site)/p 20261114225809 {\"url\": \"http://site.test/p\", \"length\": \"1\", \"offset\": \"2\", \
                \"filename\": \"x.warc.gz\"}\n";
    std::fs::write(&index, format!("zzz\n{line}")).unwrap();
    let report = verify_path(&warc).unwrap();
    for kind in ["index-form", "index-order", "index-extra", "index-missing"] {
        assert!(names(&report).contains(&kind), "{kind}");
    }
}
