//! What the same offers cost elsewhere: in an embedded store, and in a bare merge of sorted keys.
//!
//! Both get the web, the offers and the buffer that the frontier had, and do less: no hosts, no queues, no tickets.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use fjall::config::CompressionPolicy;
use fjall::{CompressionType, Database, KeyspaceCreateOptions, PersistMode};
use nephila_core::key::UrlKey;
use nephila_core::state::queue::QueueKey;
use nephila_core::state::record::{UrlRecord, UrlState};
use nephila_core::time::Seconds;
use nephila_core::want::Want;

use crate::drive::Failure;
use crate::meter::{Meter, Used};
use crate::web::{Chunk, Web};

/// What both are given.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The seed of the web.
    pub seed: u64,
    /// URLs known before.
    pub known: u64,
    /// Out of 100 offers, those of known URLs.
    pub known_share: u64,
    /// Offers measured.
    pub offers: u64,
    /// Offers looked at together.
    pub buffer: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Result {
    /// Time and CPU.
    pub used: Used,
    /// Offers made.
    pub offers: u64,
    /// Of these, new.
    pub new: u64,
    /// Bytes on disk at the end.
    pub disk: u64,
}

impl Result {
    /// Offers a second.
    pub fn rate(&self) -> f64 {
        self.offers as f64 / self.used.wall.as_secs_f64()
    }

    /// CPU microseconds per offer.
    pub fn cpu(&self) -> f64 {
        self.used.cpu.as_secs_f64() * 1e6 / self.offers as f64
    }
}

type Key = [u8; UrlKey::BYTES];

/// Memory for blocks that were read.
const CACHE_BYTES: u64 = 512 << 20;
const MEMTABLE_BYTES: u64 = 64 << 20;
/// When everything was found.
const FOUND: Seconds = Seconds(200_000_000);

/// fjall: one keyspace, keys of 20 bytes, values of about 50, look-ups and inserts sorted by key.
pub fn store(load: Load, folder: &Path) -> std::result::Result<Result, Failure> {
    let database = Database::builder(folder).cache_size(CACHE_BYTES).open()?;
    let urls = database.keyspace("urls", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(MEMTABLE_BYTES)
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
    })?;
    let mut value = Vec::new();
    let mut insert = |chunk: &Chunk, look_up: bool| -> std::result::Result<u64, Failure> {
        let mut offers: Vec<_> = chunk.offers().collect();
        offers.sort_unstable_by_key(|offer| offer.key);
        offers.dedup_by_key(|offer| offer.key);
        let mut batch = database.batch();
        let mut new = 0;
        for offer in offers {
            let key = offer.key.to_bytes();
            if look_up && urls.contains_key(key)? {
                continue;
            }
            new += 1;
            value.clear();
            // What we keep as well: where it stands, its place in the queue, its text.
            let Want { job, depth, priority, .. } = *offer.want;
            UrlRecord::new(UrlState::Waiting, job, depth, priority, FOUND).encode(&mut value);
            value.extend(QueueKey::of(priority, depth, offer.key.path, FOUND).to_bytes());
            value.extend_from_slice(offer.text.as_bytes());
            batch.insert(&urls, key, value.as_slice());
        }
        batch.commit()?;
        Ok(new)
    };
    let mut web = Web::new(load.seed, load.known, load.known_share);
    let (mut all, mut chunk) = (web.all(1), Chunk::default());
    loop {
        chunk.clear();
        let more = web.next_known(&mut all, load.buffer, &mut chunk);
        insert(&chunk, false)?;
        if !more {
            break;
        }
    }
    database.persist(PersistMode::SyncData)?;
    urls.rotate_memtable_and_wait()?;
    while database.active_compactions() > 0 || database.outstanding_flushes() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut meter = Meter::start();
    let (mut offers, mut new) = (0, 0);
    while offers < load.offers {
        meter.pause(|| {
            chunk.clear();
            web.links(load.buffer, &mut chunk);
        });
        new += insert(&chunk, true)?;
        database.persist(PersistMode::SyncData)?;
        offers += chunk.len() as u64;
    }
    let used = meter.stop();
    Ok(Result { used, offers, new, disk: urls.disk_space() })
}

const FILE_BUFFER: usize = 1 << 20;

/// A merge: the batch is sorted and merged with one file of all keys into the next file. Keys only.
pub fn merge(load: Load, folder: &Path) -> std::result::Result<Result, Failure> {
    let (path, next) = (folder.join("keys"), folder.join("keys.next"));
    let mut web = Web::new(load.seed, load.known, load.known_share);
    let (mut all, mut chunk) = (web.all(1), Chunk::default());
    let mut keys: Vec<Key> = Vec::with_capacity(load.known as usize);
    loop {
        chunk.clear();
        let more = web.next_known(&mut all, load.buffer, &mut chunk);
        keys.extend(chunk.offers().map(|offer| offer.key.to_bytes()));
        if !more {
            break;
        }
    }
    keys.sort_unstable();
    let mut out = BufWriter::with_capacity(FILE_BUFFER, File::create(&path)?);
    keys.iter().try_for_each(|key| out.write_all(key))?;
    out.flush()?;
    drop(keys);

    let mut meter = Meter::start();
    let (mut offers, mut new) = (0, 0);
    let mut batch: Vec<Key> = Vec::new();
    while offers < load.offers {
        meter.pause(|| {
            chunk.clear();
            web.links(load.buffer, &mut chunk);
        });
        batch.clear();
        batch.extend(chunk.offers().map(|offer| offer.key.to_bytes()));
        batch.sort_unstable();
        batch.dedup();
        new += merge_into(&path, &next, &batch)?;
        std::fs::rename(&next, &path)?;
        offers += chunk.len() as u64;
    }
    let used = meter.stop();
    Ok(Result { used, offers, new, disk: std::fs::metadata(&path)?.len() })
}

fn merge_into(from: &Path, to: &Path, batch: &[Key]) -> std::result::Result<u64, Failure> {
    let mut input = BufReader::with_capacity(FILE_BUFFER, File::open(from)?);
    let mut out = BufWriter::with_capacity(FILE_BUFFER, File::create(to)?);
    let mut key: Key = [0; UrlKey::BYTES];
    let mut new = 0;
    let mut batch = batch.iter().peekable();
    while read_key(&mut input, &mut key)? {
        while let Some(offered) = batch.next_if(|offered| **offered <= key) {
            if *offered < key {
                out.write_all(offered)?;
                new += 1;
            }
        }
        out.write_all(&key)?;
    }
    for offered in batch {
        out.write_all(offered)?;
        new += 1;
    }
    out.into_inner().map_err(|error| error.into_error())?.sync_data()?;
    Ok(new)
}

fn read_key(input: &mut BufReader<File>, key: &mut Key) -> std::result::Result<bool, Failure> {
    match input.read_exact(key) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error.into()),
    }
}
