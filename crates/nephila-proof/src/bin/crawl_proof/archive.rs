//! The archive on disk: the index of a crawl and its records, read by code of our own.
//!
//! The reader here is small and trusts nothing: a record is cut out by its index line, unpacked, taken apart, and its
//! payload is digested again. Invariant: the reader shares no code with the writer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use data_encoding::BASE32;
use flate2::read::GzDecoder;
use nephila_testweb::journal::Log;
use nephila_testweb::model::{Reach, Truth, World};
use nephila_testweb::render::Renderer;
use serde::Deserialize;
use sha1::{Digest, Sha1};

use crate::crawler::Crawler;
use crate::judge::Verdict;

/// Unpacked records larger than this are none of ours.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Faults of one kind that are named.
const NAMED_MAX: usize = 5;

/// One line of the index.
#[derive(Clone, Debug, Deserialize)]
pub struct Capture {
    #[serde(skip)]
    folder: usize,
    url: String,
    #[serde(default)]
    mime: String,
    #[serde(default)]
    digest: String,
    length: String,
    offset: String,
    filename: String,
}

/// The index by URL.
pub struct Index {
    folders: Vec<PathBuf>,
    by_url: HashMap<String, Vec<Capture>>,
    lines: usize,
}

/// How often a page may be in the archive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Copies {
    /// Once, and once more for each failed try.
    Once,
    /// At least once, and no more often than the number of requests.
    AsAsked,
}

/// A record taken apart.
struct Record {
    head: String,
    payload: Vec<u8>,
    coding: Option<String>,
}

impl Index {
    /// The merged index of a crawl that has ended.
    pub fn read(dir: &Path) -> anyhow::Result<Index> {
        Index::read_all(&[dir.to_owned()])
    }

    /// The merged indexes of all nodes of a crawl.
    pub fn read_all(dirs: &[PathBuf]) -> anyhow::Result<Index> {
        let folders = dirs.iter().map(|dir| dir.join("archive")).collect();
        let mut index = Index { folders, by_url: HashMap::new(), lines: 0 };
        for (number, dir) in dirs.iter().enumerate() {
            let path = dir.join("indexes/index.cdxj");
            let file = File::open(&path).with_context(|| path.display().to_string())?;
            for line in BufReader::new(file).lines() {
                let line = line?;
                let json = line.splitn(3, ' ').nth(2).context("a line of the index has three parts")?;
                let mut capture: Capture = serde_json::from_str(json).with_context(|| line.clone())?;
                capture.folder = number;
                index.lines += 1;
                index.by_url.entry(capture.url.clone()).or_default().push(capture);
            }
        }
        Ok(index)
    }

    /// Captures in all.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// How often a URL was captured.
    pub fn times(&self, url: &str) -> usize {
        self.by_url.get(url).map_or(0, Vec::len)
    }

    fn record(&self, capture: &Capture) -> anyhow::Result<Record> {
        let (offset, length): (u64, u64) = (capture.offset.parse()?, capture.length.parse()?);
        let mut file = File::open(self.folders[capture.folder].join(&capture.filename))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        GzDecoder::new(file.take(length)).take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
        let at = find(&bytes, b"\r\n\r\n").context("no end of the record's head")?;
        let head = String::from_utf8(bytes[..at].to_vec())?;
        ensure!(head.starts_with("WARC/1."), "not a record");
        let said: usize = field(&head, "content-length").context("no length")?.parse()?;
        let block = bytes.get(at + 4..at + 4 + said).context("the block is cut")?;
        ensure!(&bytes[at + 4 + said..] == b"\r\n\r\n", "the record does not end as it should");
        let at = find(block, b"\r\n\r\n").context("no end of the answer's head")?;
        let http = String::from_utf8_lossy(&block[..at]).into_owned();
        let mut payload = block[at + 4..].to_vec();
        if field(&http, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            payload = dechunked(&payload).context("bad chunks")?;
        }
        Ok(Record { head, payload, coding: field(&http, "content-encoding").map(str::to_owned) })
    }

    /// Reads a capture again: its digest, and the bytes of the page.
    fn reread(&self, capture: &Capture) -> anyhow::Result<Vec<u8>> {
        let record = self.record(capture)?;
        ensure!(field(&record.head, "warc-target-uri") == Some(&*capture.url), "it is of another URL");
        ensure!(field(&record.head, "warc-payload-digest") == Some(&*capture.digest), "another digest");
        if capture.mime == "warc/revisit" {
            let of = field(&record.head, "warc-refers-to-target-uri").context("a revisit of nothing")?;
            let mut first = self.by_url.get(of).into_iter().flatten();
            let first = first
                .find(|other| other.digest == capture.digest && other.mime != "warc/revisit")
                .with_context(|| format!("a revisit of {of}, which is not there"))?;
            return self.reread(first);
        }
        let digest = format!("sha1:{}", BASE32.encode(&Sha1::digest(&record.payload)));
        ensure!(digest == capture.digest, "the payload has digest {digest}, not {}", capture.digest);
        match record.coding.as_deref() {
            None => Ok(record.payload),
            Some("gzip") => {
                let mut page = Vec::new();
                GzDecoder::new(&record.payload[..]).take(RECORD_BYTES_MAX).read_to_end(&mut page)?;
                Ok(page)
            }
            Some(other) => anyhow::bail!("the web does not speak {other}"),
        }
    }
}

/// Judges the archive of a crawl that has ended: strictly by `nephila verify`, page by page against the truth, and a
/// sample byte by byte against the content of the web. Returns the number of records that were read again.
pub fn check(
    verdict: &mut Verdict,
    crawler: &Crawler,
    world: &Arc<World>,
    truth: &Truth,
    log: &Log,
    copies: Copies,
    sample: usize,
) -> anyhow::Result<(usize, usize)> {
    check_all(verdict, crawler, &[crawler.dir().to_owned()], world, truth, log, copies, sample)
}

/// The same for the archives of all nodes together.
#[allow(clippy::too_many_arguments)]
pub fn check_all(
    verdict: &mut Verdict,
    crawler: &Crawler,
    dirs: &[PathBuf],
    world: &Arc<World>,
    truth: &Truth,
    log: &Log,
    copies: Copies,
    sample: usize,
) -> anyhow::Result<(usize, usize)> {
    for dir in dirs {
        let (status, said) = crawler.ask(&["verify", &dir.display().to_string()])?;
        verdict.expect(status.success(), || format!("nephila verify: {status}: {said}"));
    }
    let index = Index::read_all(dirs)?;
    let mut asked: HashMap<String, u32> = HashMap::new();
    for request in &log.requests {
        let scheme = if request.tls { "https" } else { "http" };
        *asked.entry(format!("{scheme}://{}{}", request.host, request.path)).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for (place, reach) in truth.iter().filter(|(_, reach)| reach.is_expected()) {
        let url = world.url(place);
        let there = index.by_url.get(&url).map_or(0, Vec::len);
        let asked = asked.get(&url).map_or(0, |asked| *asked as usize);
        let fits = match (copies, reach) {
            (Copies::Once, Reach::Error(500..)) | (Copies::AsAsked, _) => (1..=asked).contains(&there),
            (Copies::Once, _) => there == 1,
        };
        if !fits {
            wrong.push(format!("{url} is there {there} times, asked for {asked} times"));
        }
    }
    let unasked = index.by_url.keys().filter(|url| !asked.contains_key(*url));
    wrong.extend(unasked.map(|url| format!("{url} is there and was never asked for")));
    verdict.expect(wrong.is_empty(), || format!("archive: {} faults: {}", wrong.len(), some(&wrong)));

    let renderer = Renderer::new(world.clone());
    let mut pages: Vec<_> =
        truth.iter().filter(|(_, reach)| *reach == Reach::Page).map(|(place, _)| place).collect();
    pages.sort_unstable();
    let step = pages.len().div_ceil(sample.max(1)).max(1);
    let mut read = 0;
    let mut unreadable = Vec::new();
    for place in pages.iter().step_by(step) {
        let url = world.url(*place);
        let served = renderer.answer(*place, world.clock().now()).body.concat();
        for capture in index.by_url.get(&url).into_iter().flatten() {
            read += 1;
            match index.reread(capture) {
                Ok(page) if page == served => {}
                Ok(_) => unreadable.push(format!("{url}: not the bytes that were served")),
                Err(error) => unreadable.push(format!("{url}: {error:#}")),
            }
        }
    }
    verdict.expect(unreadable.is_empty(), || {
        format!("records: {} of {read} cannot be read back: {}", unreadable.len(), some(&unreadable))
    });
    Ok((index.lines(), read))
}

/// Takes the first page out of the archive of a crawl, as damage would: the rest of its file moves up.
pub fn remove_record(dir: &Path) -> anyhow::Result<()> {
    let index = Index::read(dir)?;
    let pages = index.by_url.values().flatten().filter(|capture| capture.url.contains("/p/"));
    // After the last record nothing would move, and half of the damage would be missing.
    let gone = pages.min_by_key(|capture| capture.offset.parse::<u64>().unwrap_or(u64::MAX));
    let gone = gone.context("the archive has a page")?;
    let path = index.folders[gone.folder].join(&gone.filename);
    let mut bytes = std::fs::read(&path)?;
    let (offset, length): (usize, usize) = (gone.offset.parse()?, gone.length.parse()?);
    bytes.drain(offset..offset + length);
    Ok(std::fs::write(&path, bytes)?)
}

fn some(list: &[String]) -> String {
    list.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ")
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// The value of a field in a head, by its name in lower case.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.split("\r\n").skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// A body without its chunks (RFC 9112, 7.1).
fn dechunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = find(rest, b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}
