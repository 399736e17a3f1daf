//! Caches of the archive: the payloads stored, for deduplication, and the last good capture of each URL.
//!
//! Both caches are bounded. A full cache evicts entries that were not used lately. Then a payload is stored once more,
//! or a page is fetched without a condition: more bytes, never wrong ones.
//!
//! Invariant: only durable records are remembered, so no record ever refers to one that a crash can take away.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;

use nephila_core::store::record::Origin;
use nephila_core::store::{Digest, cdxj, head};

use crate::warc;

/// Entries that fit into a generation's table of 2^17 places; one more doubles the table.
const TABLE_MAX: usize = (1 << 17) / 8 * 7;
/// Maximum payloads remembered; about 130 bytes each.
pub(super) const PAYLOADS_MAX: usize = 2 * TABLE_MAX;
/// Maximum URLs remembered; about 150 bytes each, more with validators.
pub(super) const CAPTURES_MAX: usize = 2 * TABLE_MAX;
/// Longer validators are not remembered; the next fetch has no condition.
pub(super) const VALIDATOR_BYTES_MAX: usize = 256;
/// Maximum bytes of a record read to find its validators again: WARC head and HTTP head.
const HEAD_BYTES_MAX: u64 = 1024 * 1024;

/// The last good capture of a URL, for a conditional request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCapture {
    /// Date of the capture, in WARC format.
    pub date: String,
    /// The digest of its payload.
    pub payload_digest: Digest,
    /// Its `ETag`.
    pub etag: Option<String>,
    /// Its `Last-Modified`.
    pub last_modified: Option<String>,
}

#[derive(Debug)]
pub(super) struct Memory {
    payloads: Generations<Digest, (Box<str>, u64)>,
    captures: Generations<[u8; 16], Capture>,
}

/// File, offset, length.
pub(super) type Place = (Arc<str>, u64, u64);

#[derive(Clone, Debug)]
struct Capture {
    digits14: u64,
    digest: Digest,
    place: Place,
    /// The payload of a revisit is in another record.
    is_revisit: bool,
    /// Present for records of this process; read from disk for others.
    validators: Option<Box<Validators>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Validators {
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
}

/// Facts to remember about a durable record.
#[derive(Debug)]
pub(super) struct Remembered {
    pub(super) url: String,
    pub(super) digits14: u64,
    pub(super) digest: Digest,
    /// Whether the record holds the whole payload.
    pub(super) holds_payload: bool,
    /// Whether a later fetch of the URL may be conditional on this capture.
    pub(super) is_good: bool,
    pub(super) is_revisit: bool,
    pub(super) validators: Validators,
}

impl Memory {
    pub(super) fn new() -> Self {
        Memory { payloads: Generations::new(PAYLOADS_MAX), captures: Generations::new(CAPTURES_MAX) }
    }

    /// The record that holds this payload, if known.
    pub(super) fn payload(&mut self, digest: &Digest) -> Option<Origin> {
        let (url, digits14) = self.payloads.get(digest)?;
        Some(Origin { url: url.to_string(), digits14: *digits14 })
    }

    /// The record that a 304 for this URL refers to, and the digest of its payload.
    pub(super) fn not_modified(&mut self, url: &str) -> Option<(Origin, Digest)> {
        let capture = self.captures.get(&key(url))?.clone();
        let itself = Origin { url: url.to_owned(), digits14: capture.digits14 };
        let origin =
            if capture.is_revisit { self.payload(&capture.digest).unwrap_or(itself) } else { itself };
        Some((origin, capture.digest))
    }

    pub(super) fn remember(&mut self, file: &Arc<str>, offset: u64, length: u64, seen: Remembered) {
        if seen.is_good {
            let fits = |text: &String| text.len() <= VALIDATOR_BYTES_MAX;
            let capture = Capture {
                digits14: seen.digits14,
                digest: seen.digest,
                place: (file.clone(), offset, length),
                is_revisit: seen.is_revisit,
                validators: Some(Box::new(Validators {
                    etag: seen.validators.etag.filter(fits),
                    last_modified: seen.validators.last_modified.filter(fits),
                })),
            };
            self.insert_capture(&seen.url, capture);
        }
        if seen.holds_payload && self.payloads.get(&seen.digest).is_none() {
            self.payloads.insert(seen.digest, (seen.url.into(), seen.digits14));
        }
    }

    /// Adds a line of an index of an earlier run.
    pub(super) fn learn(&mut self, line: cdxj::Line, names: &mut HashMap<String, Arc<str>>) {
        let (Some(digest), Ok(digits14)) =
            (line.capture.digest.as_deref().and_then(Digest::parse), line.capture.digits14.parse::<u64>())
        else {
            return;
        };
        // A truncated capture is no reference; one whose body is in an object store is whole.
        if line.capture.truncated.is_some() && line.capture.media.is_none() {
            return;
        }
        let is_revisit = line.capture.mime.as_deref() == Some("warc/revisit");
        if line.capture.status.as_deref() == Some("200") {
            let name = names.entry(line.filename).or_insert_with_key(|name| name.as_str().into()).clone();
            let place = (name, line.offset, line.length);
            self.insert_capture(
                &line.capture.url,
                Capture { digits14, digest, place, is_revisit, validators: None },
            );
        }
        if !is_revisit && line.capture.status.is_some() && self.payloads.get(&digest).is_none() {
            self.payloads.insert(digest, (line.capture.url.into(), digits14));
        }
    }

    fn insert_capture(&mut self, url: &str, capture: Capture) {
        let key = key(url);
        if self.captures.get(&key).is_none_or(|known| known.digits14 <= capture.digits14) {
            self.captures.insert(key, capture);
        }
    }

    /// The capture, and the place of its validators if they are not in memory.
    pub(super) fn last(&mut self, url: &str) -> Option<(LastCapture, Option<Place>)> {
        let capture = self.captures.get(&key(url))?;
        let known = capture.validators.as_deref().cloned();
        let place = known.is_none().then(|| capture.place.clone());
        let Validators { etag, last_modified } = known.unwrap_or_default();
        let date = Origin { url: String::new(), digits14: capture.digits14 }.warc_date();
        let last = LastCapture { date, payload_digest: capture.digest, etag, last_modified };
        Some((last, place))
    }
}

/// Reads the validators of a record on disk. An unreadable record has none.
pub(super) fn validators(folder: &Path, place: &Place) -> Validators {
    let (name, offset, length) = place;
    let mut http = HttpHead::default();
    let Ok(mut file) = std::fs::File::open(folder.join(&**name)) else { return Validators::default() };
    if std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(*offset)).is_err() {
        return Validators::default();
    }
    // A long record is not read to its end: the limit stops the read after the head.
    let limits = warc::Limits { record_bytes_max: HEAD_BYTES_MAX, ..warc::Limits::default() };
    let input = std::io::Read::take(file, *length);
    let _ = warc::Reader::with_limits(input, *offset, limits).read(&mut http);
    Validators { etag: head::field(&http.0, "etag"), last_modified: head::field(&http.0, "last-modified") }
}

/// Keeps the HTTP head at the start of a block.
#[derive(Default)]
struct HttpHead(Vec<u8>);

impl warc::Visitor for HttpHead {
    fn header(&mut self, _: &warc::Header) {}

    fn block(&mut self, bytes: &[u8]) {
        if head::end(&self.0).is_none() {
            self.0.extend_from_slice(bytes);
        }
    }
}

/// URLs are stored as half a digest; collisions are negligible.
fn key(url: &str) -> [u8; 16] {
    let digest = Digest::of(&[url.as_bytes()]);
    digest.0[..16].try_into().expect("a digest has 20 bytes")
}

/// A bounded map with two generations. An entry that is used moves to the young generation. When the young generation
/// reaches half of the capacity, the old one is evicted and the young one becomes old.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
}

impl<K: Eq + Hash + Clone, V> Generations<K, V> {
    fn new(entries_max: usize) -> Self {
        Generations { young: HashMap::new(), old: HashMap::new(), half: (entries_max / 2).max(1) }
    }

    fn get(&mut self, key: &K) -> Option<&V> {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert(key, value);
        }
        self.young.get(key)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut map = Generations::new(100);
        for n in 0..1_000 {
            map.insert(n, n);
            assert_eq!(map.get(&0), Some(&0), "asked for every time, at {n}");
            assert!(map.young.len() + map.old.len() <= 100);
        }
        assert_eq!(map.get(&1), None);
        assert_eq!(map.get(&999), Some(&999));
    }
}
