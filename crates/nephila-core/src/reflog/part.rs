//! A part of a batch on its way to the partition that decides, and the log entry of the decision.
//!
//! A [`Part`] travels: a part holds the lines that were read, and no decision. The owner of the partition compares the
//! part with the records, and writes a [`Streamed`]: the batch, and the new record of each URL. URLs that are worth a
//! fetch stand as findings in the same group of the log.
//!
//! Invariants: reading the written bytes gives an equal value; the URLs of a part are sorted by key, each once.

use std::collections::BTreeMap;

use super::{Batch, BatchKey, Grouped, Record, group};
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::intake::reflog;
use crate::job::JobId;
use crate::key::{Secret, UrlKey};
use crate::time::Timestamp;
use crate::url::CrawlUrl;

/// Maximum number of lines in one part; a longer batch is cut.
pub const PART_LINES: usize = 4_000;

/// Size of one part in bytes: the part is cut behind the line that reaches this size.
pub const PART_BYTES: usize = 512 * 1024;

/// One URL of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The key of the URL.
    pub key: UrlKey,
    /// Scheme and authority.
    pub origin: Box<str>,
    /// Path and query.
    pub text: Box<str>,
    /// The time of the last line.
    pub at: Timestamp,
    /// The sum of hits of all lines.
    pub hits: u64,
    /// The last tag that is not empty; empty if all are.
    pub tag: Box<str>,
    /// The last page id that is not empty; empty if all are.
    pub page: Box<str>,
}

impl Named {
    /// From all lines of one URL.
    pub fn of(grouped: &Grouped, secret: &Secret) -> Named {
        let origin = grouped.url.origin();
        Named {
            key: UrlKey::with_origin(&grouped.url, origin, secret),
            origin: origin.into(),
            text: grouped.url.path_and_query().into(),
            at: grouped.at,
            hits: grouped.hits,
            tag: grouped.tag.clone(),
            page: grouped.page.clone(),
        }
    }
}

/// The share of one partition in a part of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part and its batch.
    pub key: BatchKey,
    /// The job of the stream.
    pub job: JobId,
    /// The URLs, in the order of their keys.
    pub urls: Vec<Named>,
}

/// Statistics of parsing the lines of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinesRead {
    /// Number of readable lines.
    pub lines: u64,
    /// Number of URLs in these lines.
    pub urls: u64,
    /// Number of URLs that the job does not want.
    pub unwanted: u64,
    /// Number of malformed lines.
    pub unreadable: u64,
}

impl Part {
    /// Parses the lines of a part of a batch, given the batch's id and the part's number; URLs that are not wanted are
    /// left out.
    pub fn of_lines(
        text: &[u8],
        (batch, number): (&str, u32),
        job: JobId,
        secret: &Secret,
        wanted: impl Fn(&CrawlUrl) -> bool,
    ) -> (Part, LinesRead) {
        let reading = reflog::read(text);
        let lines = u32::try_from(text.split(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX);
        let mut read = LinesRead {
            lines: reading.entries.len() as u64,
            unreadable: reading.bad.values().sum(),
            ..LinesRead::default()
        };
        let groups = group(reading.entries);
        read.urls = groups.len() as u64;
        let mut urls = Vec::with_capacity(groups.len());
        urls.extend(groups.iter().filter(|group| wanted(&group.url)).map(|group| Named::of(group, secret)));
        read.unwanted = read.urls - urls.len() as u64;
        urls.sort_by_key(|url| url.key);
        urls.dedup_by_key(|url| url.key);
        (Part { key: BatchKey::of(batch, number, lines), job, urls }, read)
    }

    /// Divides the part into shares, one for each value of `place`.
    pub fn divided<K: Ord>(self, place: impl Fn(&Named) -> K) -> Vec<(K, Part)> {
        let Part { key, job, urls } = self;
        let mut shares = BTreeMap::<K, Vec<Named>>::new();
        for url in urls {
            shares.entry(place(&url)).or_default().push(url);
        }
        shares.into_iter().map(|(to, urls)| (to, Part { key, job, urls })).collect()
    }

    /// The approximate size in memory in bytes.
    pub fn bytes(&self) -> usize {
        let url = |url: &Named| {
            size_of::<Named>() + url.origin.len() + url.text.len() + url.tag.len() + url.page.len()
        };
        self.urls.iter().map(url).sum()
    }

    /// Appends the encoded part to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.key.0.to_be_bytes());
        put_u64(out, self.job.0.into());
        put_u64(out, self.urls.len() as u64);
        let mut origin = "";
        for url in &self.urls {
            out.extend(url.key.to_bytes());
            // URLs of one host are adjacent.
            let same = *url.origin == *origin;
            put_bytes(out, if same { b"" } else { url.origin.as_bytes() });
            origin = &url.origin;
            put_bytes(out, url.text.as_bytes());
            put_u64(out, url.at.0);
            put_u64(out, url.hits);
            put_bytes(out, url.tag.as_bytes());
        }
    }

    /// Decodes a part.
    pub fn read(reader: &mut Reader<'_>) -> Result<Part, Damaged> {
        const WHAT: &str = "part of a stream";
        let key = BatchKey(reader.fixed_u64(WHAT)?);
        let job = JobId(reader.u32(WHAT)?);
        let mut urls: Vec<Named> = Vec::new();
        for _ in 0..reader.u64(WHAT)? {
            let key = get_key(reader)?;
            let origin = match reader.text(WHAT)? {
                "" => urls.last().map(|last| last.origin.clone()).ok_or(Damaged(WHAT))?,
                origin => origin.into(),
            };
            let text = reader.text(WHAT)?.into();
            let (at, hits) = (Timestamp(reader.u64(WHAT)?), reader.u64(WHAT)?);
            let tag = reader.text(WHAT)?.into();
            urls.push(Named { key, origin, text, at, hits, tag, page: Box::default() });
        }
        Ok(Part { key, job, urls })
    }

    /// Whether one of the URLs has a page id. If so, [`Part::put_pages`] follows the part.
    pub fn has_pages(&self) -> bool {
        self.urls.iter().any(|url| !url.page.is_empty())
    }

    /// Appends the page ids, one for each URL.
    pub fn put_pages(&self, out: &mut Vec<u8>) {
        self.urls.iter().for_each(|url| put_bytes(out, url.page.as_bytes()));
    }

    /// Decodes a part with page ids.
    pub fn read_with_pages(reader: &mut Reader<'_>) -> Result<Part, Damaged> {
        let mut part = Part::read(reader)?;
        for url in &mut part.urls {
            url.page = reader.text("page id of a stream")?.into();
        }
        Ok(part)
    }
}

/// Log entry: a part was taken in, with the new records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    /// The part and its batch.
    pub key: BatchKey,
    /// The batch values of the decision.
    pub batch: Batch,
    /// The new records of the URLs.
    pub records: Vec<(UrlKey, Record)>,
}

impl Streamed {
    /// Appends the encoded entry to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.key.0.to_be_bytes());
        for number in [self.batch.number, self.batch.at.0, self.batch.previous.0, self.records.len() as u64] {
            put_u64(out, number);
        }
        let mut bytes = Vec::new();
        for (key, record) in &self.records {
            out.extend(key.to_bytes());
            bytes.clear();
            record.put(&mut bytes);
            put_bytes(out, &bytes);
        }
    }

    /// Decodes an entry.
    pub fn read(reader: &mut Reader<'_>) -> Result<Streamed, Damaged> {
        const WHAT: &str = "batch of a stream";
        let key = BatchKey(reader.fixed_u64(WHAT)?);
        let number = reader.u64(WHAT)?;
        let (at, previous) = (Timestamp(reader.u64(WHAT)?), Timestamp(reader.u64(WHAT)?));
        let mut records = Vec::new();
        for _ in 0..reader.u64(WHAT)? {
            records.push((get_key(reader)?, Record::from_bytes(reader.bytes(WHAT)?)?));
        }
        Ok(Streamed { key, batch: Batch { number, at, previous }, records })
    }
}

fn get_key(reader: &mut Reader<'_>) -> Result<UrlKey, Damaged> {
    let bytes = reader.take(UrlKey::BYTES, "key of a URL in a stream")?;
    Ok(UrlKey::from_bytes(bytes.try_into().expect("as many were taken")))
}

/// The id of a batch that has no other: a hash of its contents. The same lines are the same batch, from any sender.
pub fn id_of(text: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text))
}

/// Cuts text into parts, deterministically: behind [`PART_LINES`] lines or [`PART_BYTES`] bytes. Returns the size of
/// the first part in bytes; at the end, all bytes.
pub fn first_part(text: &[u8], is_end: bool) -> Option<usize> {
    let mut lines = 0;
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        lines += 1;
        if lines >= PART_LINES || at + 1 >= PART_BYTES {
            return Some(at + 1);
        }
    }
    // A line that never ends is cut as well: such a line is malformed.
    (text.len() >= 2 * PART_BYTES)
        .then_some(PART_BYTES)
        .or((is_end && !text.is_empty()).then_some(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{DomainKey, HostKey};

    fn key(host: u32, path: u64) -> UrlKey {
        UrlKey { host: HostKey { domain: DomainKey(0x0102_0304), host }, path }
    }

    fn part() -> Part {
        let named = |host, path, tag: &str| Named {
            key: key(host, path),
            origin: format!("http://h{host}.test").into(),
            text: format!("/{path}").into(),
            at: Timestamp(1_794_830_400_000 + path),
            hits: path,
            tag: tag.into(),
            page: Box::default(),
        };
        Part {
            key: BatchKey(7),
            job: JobId(3),
            urls: vec![named(1, 5, "x"), named(1, 300, ""), named(2, 9, "\u{e9}")],
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    // The encoding is durable: a log of today is folded by a node of tomorrow.
    #[test]
    fn golden_stream() {
        let (mut out, mut reader);
        out = Vec::new();
        part().put(&mut out);
        assert_eq!(hex(&out), GOLDEN_PART);
        reader = Reader::new(&out);
        assert_eq!((Part::read(&mut reader), reader.is_empty()), (Ok(part()), true));
        let mut with_pages = part();
        with_pages.urls[1].page = "2310".into();
        let mut bytes = Vec::new();
        with_pages.put(&mut bytes);
        with_pages.put_pages(&mut bytes);
        assert_eq!(hex(&bytes), [GOLDEN_PART, "00043233313000"].concat());
        assert_eq!(Part::read_with_pages(&mut Reader::new(&bytes)), Ok(with_pages));
        let batch = Batch { number: 4, at: Timestamp(1_794_830_401_000), previous: Timestamp(9) };
        let record = Record { sent: Timestamp(5), hits: 2, tag: "t".into(), ..Record::default() };
        let streamed = Streamed { key: BatchKey(7), batch, records: vec![(key(1, 5), record)] };
        let mut out = Vec::new();
        streamed.put(&mut out);
        assert_eq!(hex(&out), GOLDEN_STREAMED);
        assert_eq!(Streamed::read(&mut Reader::new(&out)), Ok(streamed));
    }

    const GOLDEN_PART: &str = concat!(
        "0000000000000007030300000000010203040000000100000000000000050e687474703a2f2f68312e74657374",
        "022f3585f4e9a19e34050178000000000102030400000001000000000000012c00042f333030acf6e9a19e34ac",
        "020000000000010203040000000200000000000000090e687474703a2f2f68322e74657374022f3989f4e9a19e",
        "340902c3a9",
    );
    const GOLDEN_STREAMED: &str =
        "000000000000000704e8fbe9a19e34090100000000010203040000000100000000000000050705000000020174";

    #[test]
    fn row_12_the_page_id_of_a_line_is_kept_in_the_record() {
        let line = |page: &str, tag: &str| {
            format!("b\t5\t20110727200841\t{page}\thttp://a.test/x?newsid=1\t1\t{tag}\n")
        };
        let text = [line("2310", "0"), line("", "1"), line("4599", "")].concat();
        let secret = Secret([7; 16]);
        let (part, read) = Part::of_lines(text.as_bytes(), ("b", 0), JobId(1), &secret, |_| true);
        assert_eq!((read.lines, &*part.urls[0].page, part.urls[0].hits), (3, "4599", 3));
        let batch = Batch { number: 1, at: Timestamp(9), previous: Timestamp(0) };
        let mut record = Record::default();
        let url = &part.urls[0];
        record.handle_named(url.at, url.hits, &url.tag, &batch);
        record.handle_page(&url.page);
        record.handle_page("");
        assert_eq!((&*record.page, Record::from_bytes(&record.to_bytes())), ("4599", Ok(record.clone())));
        // A record from before there were page ids is still decoded.
        let old = Record { page: Box::default(), ..record };
        assert_eq!(Record::from_bytes(&old.to_bytes()), Ok(old));
    }

    #[test]
    fn text_is_cut_alike_however_it_arrives() {
        let text: Vec<u8> = (0..9_500).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let cut = |chunk: usize| {
            let (mut held, mut parts) = (Vec::new(), Vec::new());
            for piece in text.chunks(chunk) {
                held.extend_from_slice(piece);
                while let Some(end) = first_part(&held, false) {
                    parts.push(held.drain(..end).collect::<Vec<u8>>());
                }
            }
            parts.extend(first_part(&held, true).map(|end| held[..end].to_vec()));
            parts
        };
        let parts = cut(usize::MAX);
        let lines = |part: &Vec<u8>| part.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(parts.iter().map(lines).collect::<Vec<_>>(), [4_000, 4_000, 1_500]);
        assert_eq!(cut(1_000), parts);
        assert_eq!(first_part(&vec![b'x'; 3 * PART_BYTES], false), Some(PART_BYTES));
        assert_eq!((first_part(b"", true), first_part(b"x", false)), (None, None));
    }
}
