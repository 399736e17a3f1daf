//! URLs of a list that are not in memory: a temporary file for each share of all hosts, written and read once, in order.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;

use super::{Host, host_of};

/// Number of shares of all hosts, each with a spool file.
pub(super) const BUCKETS: usize = 256;
/// Buffer size in bytes of a share before a write.
const TAIL_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a share read at once: more than the longest line.
const READ_BYTES: usize = 128 * 1024;
/// Maximum number of hosts with a line counter of their own; all others are counted by share.
const HOSTS_COUNTED_MAX: usize = 200_000;

/// The URLs that are not in memory.
#[derive(Debug)]
pub(super) struct Spool {
    hasher: RandomState,
    buckets: Vec<Bucket>,
    /// Lower bound of the lines of a host: some more may be counted by share.
    counted: HashMap<Host, u64>,
    pub(super) lines: u64,
    /// Bytes in the files.
    pub(super) bytes: u64,
}

/// A share of all hosts: lines read ahead, lines in the file, and lines not written yet.
#[derive(Debug, Default)]
struct Bucket {
    head: VecDeque<(u64, Host, String)>,
    file: Option<File>,
    start: u64,
    end: u64,
    tail: Vec<u8>,
    /// Lines that are not counted by host.
    uncounted: u64,
}

impl Spool {
    pub(super) fn new() -> Spool {
        let buckets = (0..BUCKETS).map(|_| Bucket::default()).collect();
        Spool { hasher: RandomState::new(), buckets, counted: HashMap::new(), lines: 0, bytes: 0 }
    }

    fn bucket(&self, host: &Host) -> usize {
        (self.hasher.hash_one(host) % BUCKETS as u64) as usize
    }

    /// Whether URLs of this host may be here. Then later URLs of the host queue behind them.
    pub(super) fn has(&self, host: &Host) -> bool {
        self.counted.contains_key(host) || self.buckets[self.bucket(host)].uncounted > 0
    }

    pub(super) fn push(&mut self, host: &Host, number: u64, url: &str) -> io::Result<()> {
        let at = self.bucket(host);
        let bucket = &mut self.buckets[at];
        bucket.tail.extend(format!("{number} {url}\n").into_bytes());
        self.lines += 1;
        if let Some(count) = self.counted.get_mut(host) {
            *count += 1;
        } else if self.counted.len() < HOSTS_COUNTED_MAX {
            self.counted.insert(host.clone(), 1);
        } else {
            bucket.uncounted += 1;
        }
        if bucket.tail.len() >= TAIL_BYTES_MAX {
            if bucket.file.is_none() {
                bucket.file = Some(tempfile::tempfile()?);
            }
            let file = bucket.file.as_ref().expect("made above");
            file.write_all_at(&bucket.tail, bucket.end)?;
            bucket.end += bucket.tail.len() as u64;
            self.bytes += bucket.tail.len() as u64;
            bucket.tail.clear();
        }
        Ok(())
    }

    pub(super) fn peek(&mut self, at: usize) -> io::Result<Option<&(u64, Host, String)>> {
        let bucket = &mut self.buckets[at];
        if bucket.head.is_empty() {
            let mut bytes = Vec::new();
            if let Some(file) = bucket.file.as_ref().filter(|_| bucket.start < bucket.end) {
                bytes.resize(READ_BYTES.min((bucket.end - bucket.start) as usize), 0);
                file.read_exact_at(&mut bytes, bucket.start)?;
                let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
                bytes.truncate(whole);
                bucket.start += whole as u64;
                self.bytes -= whole as u64;
                if bucket.start == bucket.end {
                    // The file is empty: writing restarts at its beginning.
                    file.set_len(0)?;
                    (bucket.start, bucket.end) = (0, 0);
                }
            } else {
                bytes = std::mem::take(&mut bucket.tail);
            }
            for line in String::from_utf8_lossy(&bytes).lines() {
                if let Some((number, url)) = line.split_once(' ')
                    && let Ok(number) = number.parse()
                {
                    bucket.head.push_back((number, host_of(url), url.to_owned()));
                }
            }
        }
        Ok(bucket.head.front())
    }

    pub(super) fn pop(&mut self, at: usize) -> Option<(u64, Host, String)> {
        let bucket = &mut self.buckets[at];
        let popped = bucket.head.pop_front()?;
        self.lines -= 1;
        match self.counted.get_mut(&popped.1) {
            Some(1) => _ = self.counted.remove(&popped.1),
            Some(count) => *count -= 1,
            None => bucket.uncounted = bucket.uncounted.saturating_sub(1),
        }
        Some(popped)
    }
}
