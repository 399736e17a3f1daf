//! Each kind of record, byte for byte, against the files in `tests/golden/store`. A reader of tomorrow opens these
//! records; a change here is a change of the format. `NEPHILA_GOLDEN=write` writes the files anew.

use bytes::Bytes;

use super::*;
use crate::store::{Truncation, cdxj, head};

const ANSWER: &str = "urn:uuid:00000000-0000-4000-8000-000000000001";
const BESIDE: &str = "urn:uuid:00000000-0000-4000-8000-000000000002";

fn golden(name: &str, bytes: &[u8]) {
    let path = format!("tests/golden/store/{name}");
    if std::env::var_os("NEPHILA_GOLDEN").is_some() {
        std::fs::write(&path, bytes).unwrap();
    }
    let want = std::fs::read(&path).expect("golden file");
    assert_eq!(String::from_utf8_lossy(bytes), String::from_utf8_lossy(&want), "{name}");
    assert_eq!(bytes, want, "{name}");
}

fn exchange() -> Exchange {
    Exchange {
        url: "https://site.test/a?b=c".into(),
        started: Timestamp::from_secs(1_794_696_689),
        elapsed_ms: 42,
        address: Some("::ffff:192.0.2.7".parse().unwrap()),
        protocols: vec!["h2", "tls/1.3"],
        request_head: Bytes::from_static(
            b"GET /a?b=c HTTP/1.1\r\nHost: site.test\r\nCookie: secret=1\r\nUser-Agent: Bot/1\r\n\r\n",
        ),
        response_head: Bytes::from_static(
            b"HTTP/2 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: 99\r\netag: \"x\"\r\n\r\n",
        ),
        body: Box::new(Bytes::from_static(b"<p>hello</p>")),
        truncated: None,
        notes: [("via", "http://me:pw@site.test/"), ("hopsFromSeed", "L"), ("note", "a\r\nb")].into(),
        text: "".into(),
        media: None,
    }
}

fn whole(head: Vec<u8>, block: &[&[u8]]) -> Vec<u8> {
    [head, block.concat(), END.to_vec()].concat()
}

fn answer_bytes(exchange: &Exchange, kind: &Kind) -> Vec<u8> {
    let body = exchange.body.in_memory().unwrap();
    let http = head::response(&exchange.response_head, body.len() as u64, body).bytes;
    let block: Vec<&[u8]> = match kind {
        Kind::Response => vec![&http, body],
        Kind::Resource(_) => vec![body],
        Kind::Revisit(_) => vec![&http],
        Kind::NotModified(_) => vec![],
    };
    let len = block.iter().map(|part| part.len() as u64).sum();
    let head = answer(exchange, kind, ANSWER, Some(&Digest::of(&[body])), &Digest::of(&block), len);
    whole(head, &block)
}

fn origin() -> Origin {
    Origin { url: "https://site.test/first".into(), digits14: 20_261_113_010_203 }
}

#[test]
fn a_body_without_a_head_is_a_resource() {
    let exchange =
        Exchange { request_head: Bytes::new(), response_head: Bytes::new(), protocols: vec![], ..exchange() };
    let record = answer_bytes(&exchange, &Kind::Resource("text/html".into()));
    let text = String::from_utf8(record).unwrap();
    assert!(text.starts_with("WARC/1.1\r\nWARC-Type: resource\r\n"), "{text}");
    assert!(text.contains("\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n<p>hello</p>"), "{text}");
}

#[test]
fn a_response() {
    golden("response.warc", &answer_bytes(&exchange(), &Kind::Response));
}

#[test]
fn a_cut_response_says_why() {
    let exchange = Exchange { truncated: Some(Truncation::Time), ..exchange() };
    golden("response-truncated.warc", &answer_bytes(&exchange, &Kind::Response));
}

#[test]
fn a_revisit_with_the_same_payload() {
    golden("revisit-identical.warc", &answer_bytes(&exchange(), &Kind::Revisit(origin())));
}

#[test]
fn a_revisit_answered_with_304() {
    golden("revisit-not-modified.warc", &answer_bytes(&exchange(), &Kind::NotModified(origin())));
}

#[test]
fn a_request_without_its_secrets() {
    let exchange = exchange();
    let block = redact::request(&exchange.request_head, &[], &[]);
    let head = request(&exchange, BESIDE, ANSWER, &Digest::of(&[&block]), block.len() as u64);
    golden("request.warc", &whole(head, &[&block]));
}

#[test]
fn metadata_lines() {
    let exchange = exchange();
    let block = metadata_block(&exchange);
    let head = metadata(&exchange, BESIDE, ANSWER, &Digest::of(&[&block]), block.len() as u64);
    golden("metadata.warc", &whole(head, &[&block]));
}

#[test]
fn a_warcinfo() {
    let info = WarcInfo {
        software: "nephila/0.1.0".into(),
        user_agent: "Mozilla/5.0 (compatible; Bot/0.1; +https://example.org/bot)".into(),
        robots: "obey".into(),
        operator: "A. Person, https://example.org/".into(),
        is_part_of: "demo".into(),
        settings_digest: String::new(),
    };
    let block = info.block();
    let now = exchange().started;
    let head = warcinfo(ANSWER, now, "X.warc.gz", &Digest::of(&[&block]), block.len() as u64);
    golden("warcinfo.warc", &whole(head, &[&block]));
}

#[test]
fn index_lines() {
    let mut lines = String::new();
    for (url, mime, status) in [
        ("http://site.test/", Some("text/html"), Some("200")),
        ("http://site.test/?q=\u{fc}", None, Some("301")),
        ("https://www.site.test:8443/A/b", Some("warc/revisit"), None),
    ] {
        let capture = cdxj::Capture {
            url: url.into(),
            digits14: exchange().started.digits14(),
            mime: mime.map(Into::into),
            status: status.map(Into::into),
            digest: Some(Digest::of(&[b"x"]).to_string()),
            truncated: None,
            media: None,
        };
        let place = cdxj::Place { length: 10, offset: 20, filename: "X.warc.gz" };
        lines += &cdxj::finish(capture.begin(), &place, None);
        lines.push('\n');
    }
    golden("index.cdxj", lines.as_bytes());
}

#[test]
fn no_value_brings_a_line_of_its_own() {
    let exchange = Exchange { url: "http://h.test/\r\nWARC-Type: warcinfo\r\n<\u{e9}>".into(), ..exchange() };
    let head = String::from_utf8(answer_bytes(&exchange, &Kind::Response)).unwrap();
    assert!(
        head.contains("WARC-Target-URI: http://h.test/%0D%0AWARC-Type:%20warcinfo%0D%0A%3C%C3%A9%3E\r\n")
    );
    assert_eq!(target_uri("http://u:p@h.test/"), "http://h.test/");
}
