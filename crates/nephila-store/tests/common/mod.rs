//! Exchanges for tests, and a reader of the resulting records.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use nephila_core::store::{Digest, Exchange, Payload, Truncation};
use nephila_core::time::Timestamp;
use nephila_store::archive::{Receipt, Settings, WarcInfo};
use nephila_store::warc::{self, Collect, Reader};

pub fn info() -> WarcInfo {
    WarcInfo {
        software: "nephila-test/0".into(),
        user_agent: "Bot/0".into(),
        robots: "obey".into(),
        operator: "a test".into(),
        is_part_of: "tests".into(),
        settings_digest: String::new(),
    }
}

/// Settings without waiting, so that tests are quick.
pub fn settings() -> Settings {
    Settings { commit_interval: std::time::Duration::ZERO, ..Settings::default() }
}

pub fn page(n: u64) -> Exchange {
    exchange(&format!("http://site.test/{n}"), &format!("<p>page {n}</p>").repeat(100))
}

pub fn exchange(url: &str, body: &str) -> Exchange {
    answer(
        url,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nETag: \"v1\"\r\n\
         Last-Modified: Sat, 14 Nov 2026 22:58:09 GMT\r\n\r\n",
        body.as_bytes().to_vec(),
    )
}

pub fn answer(url: &str, head: &str, body: Vec<u8>) -> Exchange {
    Exchange {
        url: url.into(),
        started: Timestamp::from_secs(1_794_697_089),
        elapsed_ms: 7,
        address: Some("127.0.0.1".parse().unwrap()),
        protocols: vec!["http/1.1"],
        request_head: Bytes::from_static(
            b"GET / HTTP/1.1\r\nHost: site.test\r\nCookie: SECRET\r\nUser-Agent: Bot/0\r\n\r\n",
        ),
        response_head: Bytes::copy_from_slice(head.as_bytes()),
        body: Box::new(Bytes::from(body)),
        truncated: None,
        notes: [("via", "http://site.test/")].into(),
        text: "".into(),
        media: None,
    }
}

pub fn cut(mut exchange: Exchange, why: Truncation) -> Exchange {
    exchange.truncated = Some(why);
    exchange
}

/// A body in a file.
#[derive(Debug)]
pub struct InFile(pub std::path::PathBuf, pub u64);

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

/// Checks that a receipt's record is on disk, whole, with its digest; returns its block.
pub fn redeem(dir: &Path, receipt: &Receipt) -> Vec<u8> {
    let closed = dir.join("archive").join(&*receipt.file);
    let open = dir.join("archive").join(format!("{}.open", receipt.file));
    let path = if closed.exists() { closed } else { open };
    let (record, block) = warc::read_at(&path, receipt.offset, receipt.length, 1 << 30)
        .unwrap_or_else(|error| panic!("{receipt:?}: {error}"));
    assert_eq!(record.length, receipt.length);
    assert!(record.separator && !record.shares_member);
    assert_eq!(Digest::of(&[&block]), receipt.block_digest);
    assert_eq!(record.header.get("WARC-Block-Digest"), Some(receipt.block_digest.to_string().as_str()));
    block
}

/// Number of responses per URL in the closed files of an archive; every record must be whole.
pub fn answers(dir: &Path) -> HashMap<String, u32> {
    let mut seen = HashMap::new();
    for entry in std::fs::read_dir(dir.join("archive")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains(".warc") || name.ends_with(".acked") {
            continue;
        }
        assert!(!name.ends_with(".open"), "{name} is still open");
        let mut reader = Reader::new(std::fs::File::open(&path).unwrap());
        loop {
            let mut block = Collect::default();
            let Some(record) = reader.read(&mut block).unwrap_or_else(|e| panic!("{name}: {e}")) else {
                break;
            };
            assert!(record.separator && !record.shares_member, "{name}");
            let digest = Digest::of(&[&block.0]).to_string();
            assert_eq!(record.header.get("WARC-Block-Digest"), Some(digest.as_str()), "{name}");
            if matches!(record.header.get("WARC-Type"), Some("response" | "revisit")) {
                *seen.entry(record.header.get("WARC-Target-URI").unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    seen
}

pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name != ".lock")
        .collect();
    names.sort();
    names
}
