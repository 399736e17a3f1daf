//! The state of a partition, and the small trait behind which the state may be larger than memory.
//!
//! State is the fold of the partition's log (see [`crate::fold`]) and nothing else: the same entries give the same
//! state in every implementation. The frontier reads the state in batches, sorted by key, because that makes 10^8
//! URLs cheap. The state changes only by [`State::apply`], which takes the changes of a whole group of entries and
//! the position behind the group at once.
//!
//! Invariants: after [`State::apply`] returned, every read agrees with the entries up to [`State::position`]; after a
//! crash every read agrees with an earlier position, never with half an entry.

pub mod memory;
pub mod queue;
pub mod record;
mod robots;
pub mod totals;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codec::Damaged;
use crate::job::Job;
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::reflog::{Batch, BatchKey, Batches};
use crate::spread::Spread;
use queue::{LaterKey, QueueKey};
use record::{DomainRecord, HostRecord, UrlRecord};
use totals::{Counted, Totals};

pub use memory::MemoryState;

/// A position in a partition's log: the number of groups before the position, and the hash chain up to there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Groups folded.
    pub sequence: u64,
    /// The hash of the last of them, which covers the hash of the group before.
    pub chain: u64,
}

/// Why the state could not be read or changed. Unless the disk was only full, the partition stops; its log is intact,
/// so the partition can be opened again.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The disk failed.
    #[error("the state cannot be read or written: {0}")]
    Disk(String),
    /// The disk is full. Nothing is lost: retry once there is room.
    #[error("there is no room for the state: {0}")]
    Full(String),
    /// The bytes read differ from the bytes written.
    #[error("the state is damaged: {0}")]
    Damaged(String),
}

impl From<Damaged> for StateError {
    fn from(damaged: Damaged) -> Self {
        StateError::Damaged(damaged.to_string())
    }
}

/// A URL in a host's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its place.
    pub place: QueueKey,
    /// Path and query.
    pub text: Box<str>,
}

/// A URL planned for a time of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its place.
    pub place: LaterKey,
    /// Path and query.
    pub text: Box<str>,
}

/// Tables beside the URL records: few URLs have such a record, and the record may be large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Beside {
    /// The record of a feed ([`crate::feed::record::Record`]).
    Feed,
    /// The record of a URL named by a stream ([`crate::reflog::Record`]).
    Stream,
    /// The record of a source of feeds ([`crate::feed::source::Record`]), by its own key.
    Source,
    /// A story of a source ([`crate::feed::source::StoryRecord`]), by the source and the time.
    Story,
}

impl Beside {
    /// All kinds of tables.
    pub const ALL: [Beside; 4] = [Beside::Feed, Beside::Stream, Beside::Source, Beside::Story];
}

/// The metadata of a partition: small, and always in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Jobs by id.
    pub jobs: BTreeMap<u32, Job>,
    /// Hosts whose 32 bits another host of their domain already had, by domain and origin.
    pub displaced: BTreeMap<(DomainKey, Box<str>), u32>,
    /// How far each inbox has been read, by its name.
    pub inboxes: BTreeMap<Box<str>, u64>,
    /// The highest epoch that has written; entries of an older epoch are ignored (fencing).
    pub epoch: u64,
    /// The prefixes of the partition.
    pub prefixes: Option<Prefixes>,
    /// The counters of the partition.
    pub totals: Totals,
    /// Parts of streams that were taken in.
    pub batches: Arc<Batches>,
    /// Domains of the partition that are spread.
    pub spread: Spread,
}

/// The changes of a group of entries. Later ones of the same key replace earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// URLs, as they are now.
    pub urls: Vec<(UrlKey, UrlRecord)>,
    /// URLs added to queues.
    pub queued: Vec<(HostKey, Queued)>,
    /// URLs planned for later.
    pub planned: Vec<(HostKey, Planned)>,
    /// Hosts, as they are now.
    pub hosts: BTreeMap<HostKey, HostRecord>,
    /// Domains, as they are now.
    pub domains: BTreeMap<DomainKey, DomainRecord>,
    /// The bytes of a robots.txt.
    pub robots: Vec<(HostKey, Box<[u8]>)>,
    /// Records beside URLs, as they are now.
    pub beside: Vec<(Beside, UrlKey, Box<[u8]>)>,
    /// The metadata, if they changed.
    pub meta: Option<Meta>,
    /// Parts of streams that were taken in; added to the batches of the metadata, new or old.
    pub batches: Vec<(BatchKey, Batch)>,
    /// Counts of the group; added to the totals of the metadata, new or old.
    pub counted: Counted,
}

/// One item of a state, when the state is walked through.
#[derive(Debug)]
pub enum Item<'a> {
    /// A URL.
    Url(&'a UrlKey, &'a UrlRecord),
    /// A host.
    Host(&'a HostKey, &'a HostRecord),
    /// A domain.
    Domain(&'a DomainKey, &'a DomainRecord),
    /// A host's robots.txt.
    Robots(&'a HostKey, &'a [u8]),
    /// A URL in a queue, not yet behind its host's floor.
    Queued(&'a HostKey, &'a Queued),
    /// A URL planned, not yet behind its host's floor.
    Planned(&'a HostKey, &'a Planned),
    /// A record beside a URL.
    Beside(Beside, &'a UrlKey, &'a [u8]),
}

/// The state of a partition. Synchronous: the owner of a state has a thread for blocking calls.
pub trait State {
    /// The position up to which entries are applied.
    fn position(&self) -> Position;

    /// The metadata.
    fn meta(&self) -> &Meta;

    /// Sets for each key whether the URL is known. The keys are sorted and distinct; `known` has the same length.
    fn known(&mut self, keys: &[UrlKey], known: &mut [bool]) -> Result<(), StateError>;

    /// Several URLs; the keys are sorted and distinct. `found` gets one answer for each.
    fn urls(&mut self, keys: &[UrlKey], found: &mut Vec<Option<UrlRecord>>) -> Result<(), StateError>;

    /// Several hosts; the keys are sorted and distinct. `found` gets one answer for each.
    fn hosts(&mut self, keys: &[HostKey], found: &mut Vec<Option<HostRecord>>) -> Result<(), StateError>;

    /// Several domains; the keys are sorted and distinct.
    fn domains(
        &mut self,
        keys: &[DomainKey],
        found: &mut Vec<Option<DomainRecord>>,
    ) -> Result<(), StateError>;

    /// The bytes of a host's robots.txt.
    fn robots(&mut self, host: &HostKey) -> Result<Option<Box<[u8]>>, StateError>;

    /// The first `max` URLs of a host's queue behind a place.
    fn queued(
        &mut self,
        host: &HostKey,
        behind: QueueKey,
        max: usize,
        out: &mut Vec<Queued>,
    ) -> Result<(), StateError>;

    /// The first `max` URLs planned for a host behind a place.
    fn planned(
        &mut self,
        host: &HostKey,
        behind: LaterKey,
        max: usize,
        out: &mut Vec<Planned>,
    ) -> Result<(), StateError>;

    /// The first `max` hosts from a key on, in the order of keys, with or without work.
    fn hosts_from(
        &mut self,
        from: HostKey,
        max: usize,
        out: &mut Vec<(HostKey, HostRecord)>,
    ) -> Result<(), StateError>;

    /// The first `max` URLs from a key on, in the order of keys.
    fn urls_from(
        &mut self,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, UrlRecord)>,
    ) -> Result<(), StateError>;

    /// The records beside several URLs; the keys are sorted and distinct. `found` gets one answer for each.
    fn beside(
        &mut self,
        kind: Beside,
        keys: &[UrlKey],
        found: &mut Vec<Option<Box<[u8]>>>,
    ) -> Result<(), StateError>;

    /// The first `max` URLs from a key on with such a record beside them, in the order of keys.
    fn beside_from(
        &mut self,
        kind: Beside,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, Box<[u8]>)>,
    ) -> Result<(), StateError>;

    /// Applies the changes of a group of entries, and moves to the position behind the group.
    fn apply(&mut self, changes: Changes, position: Position) -> Result<(), StateError>;

    /// Walks through everything within these prefixes: each kind in turn, sorted by key.
    fn walk(&mut self, prefixes: Prefixes, each: &mut dyn FnMut(Item<'_>)) -> Result<(), StateError>;

    /// One URL.
    fn url(&mut self, key: &UrlKey) -> Result<Option<UrlRecord>, StateError> {
        let mut found = Vec::with_capacity(1);
        self.urls(std::slice::from_ref(key), &mut found)?;
        Ok(found.pop().flatten())
    }

    /// One host.
    fn host(&mut self, key: &HostKey) -> Result<Option<HostRecord>, StateError> {
        let mut found = Vec::with_capacity(1);
        self.hosts(std::slice::from_ref(key), &mut found)?;
        Ok(found.pop().flatten())
    }

    /// One domain.
    fn domain(&mut self, key: DomainKey) -> Result<Option<DomainRecord>, StateError> {
        let mut found = Vec::with_capacity(1);
        self.domains(std::slice::from_ref(&key), &mut found)?;
        Ok(found.pop().flatten())
    }

    /// A hash of everything within these prefixes: two states with the same content have the same hash.
    fn hash(&mut self, prefixes: Prefixes) -> Result<u64, StateError> {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        let mut bytes = Vec::new();
        self.walk(prefixes, &mut |item| {
            bytes.clear();
            match item {
                Item::Url(key, record) => {
                    bytes.push(b'u');
                    bytes.extend(key.to_bytes());
                    record.encode(&mut bytes);
                }
                Item::Host(key, record) => {
                    bytes.push(b'h');
                    bytes.extend(key.to_bytes());
                    record.encode(&mut bytes);
                }
                Item::Domain(key, record) => {
                    bytes.push(b'd');
                    bytes.extend(key.0.to_be_bytes());
                    record.encode(&mut bytes);
                }
                Item::Robots(key, body) => {
                    bytes.push(b'r');
                    bytes.extend(key.to_bytes());
                    bytes.extend(body);
                }
                Item::Queued(key, queued) => {
                    bytes.push(b'q');
                    bytes.extend(key.to_bytes());
                    bytes.extend(queued.place.to_bytes());
                    bytes.extend(queued.text.as_bytes());
                }
                Item::Planned(key, planned) => {
                    bytes.push(b'p');
                    bytes.extend(key.to_bytes());
                    bytes.extend(planned.place.to_bytes());
                    bytes.extend(planned.text.as_bytes());
                }
                Item::Beside(kind, key, value) => {
                    bytes.push(match kind {
                        Beside::Feed => b'f',
                        Beside::Stream => b's',
                        Beside::Source => b'o',
                        Beside::Story => b't',
                    });
                    bytes.extend(key.to_bytes());
                    bytes.extend(value);
                }
            }
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        })?;
        hasher.update(&self.meta().encode());
        Ok(hasher.digest())
    }
}

/// A state that survives its process.
pub trait Durable: State {
    /// Makes all applied changes durable; the log up to the returned position is no longer needed.
    fn checkpoint(&mut self) -> Result<Position, StateError>;

    /// Begins to make all applied changes durable, and may return earlier; the log up to the returned position is no
    /// longer needed.
    fn checkpoint_soon(&mut self) -> Result<Position, StateError> {
        self.checkpoint()
    }

    /// Approximate number of bytes that are not durable yet.
    fn dirty_bytes(&self) -> usize;
}

/// The layout of [`Meta`]. Version 1 had no totals, and is read as well.
const META_VERSION: u8 = 2;
const META_VERSION_OLDEST: u8 = 1;

impl Meta {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        use crate::codec::{put_bytes, put_u64};
        let mut out = vec![META_VERSION];
        put_u64(&mut out, self.jobs.len() as u64);
        for job in self.jobs.values() {
            put_bytes(&mut out, &serde_json::to_vec(job).expect("a job has no maps with odd keys"));
        }
        put_u64(&mut out, self.displaced.len() as u64);
        for ((domain, origin), host) in &self.displaced {
            put_u64(&mut out, domain.0);
            put_bytes(&mut out, origin.as_bytes());
            put_u64(&mut out, (*host).into());
        }
        put_u64(&mut out, self.inboxes.len() as u64);
        for (name, position) in &self.inboxes {
            put_bytes(&mut out, name.as_bytes());
            put_u64(&mut out, *position);
        }
        put_u64(&mut out, self.epoch);
        match self.prefixes {
            None => out.push(0),
            Some(prefixes) => {
                out.push(1);
                put_u64(&mut out, prefixes.first.into());
                put_u64(&mut out, prefixes.last.into());
            }
        }
        self.totals.encode(&mut out);
        // These fields were added later, one after the other: absent in older data, and not read by older programs.
        put_bytes(&mut out, &self.batches.to_bytes());
        self.totals.encode_open(&mut out);
        if !self.spread.is_empty() {
            self.spread.put(&mut out);
        }
        out
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Meta, Damaged> {
        Ok(Meta::decode_all(bytes)?.0)
    }

    /// Whether these bytes were written before open URLs were counted by job. They can be counted
    /// ([`totals::recount_open`]).
    pub fn lacks_open(bytes: &[u8]) -> bool {
        Meta::decode_all(bytes).is_ok_and(|(_, counts_open)| !counts_open)
    }

    /// Also returns whether the bytes have the number of open URLs of each job.
    fn decode_all(bytes: &[u8]) -> Result<(Meta, bool), Damaged> {
        let mut reader = crate::codec::Reader::new(bytes);
        let version = reader.u8("version of the small things")?;
        if !(META_VERSION_OLDEST..=META_VERSION).contains(&version) {
            return Err(Damaged("version of the small things"));
        }
        let mut meta = Meta::default();
        for _ in 0..reader.u64("number of jobs")? {
            let job: Job = serde_json::from_slice(reader.bytes("job")?).map_err(|_| Damaged("job"))?;
            meta.jobs.insert(job.id.0, job);
        }
        for _ in 0..reader.u64("number of displaced hosts")? {
            let domain = DomainKey(reader.u64("displaced host")?);
            let origin = reader.text("displaced host")?.into();
            meta.displaced.insert((domain, origin), reader.u32("displaced host")?);
        }
        for _ in 0..reader.u64("number of inboxes")? {
            let name = reader.text("inbox")?.into();
            meta.inboxes.insert(name, reader.u64("inbox")?);
        }
        meta.epoch = reader.u64("epoch")?;
        if reader.u8("prefixes")? == 1 {
            let mut prefix = || u16::try_from(reader.u64("prefixes")?).map_err(|_| Damaged("prefixes"));
            meta.prefixes = Some(Prefixes { first: prefix()?, last: prefix()? });
        }
        if version > 1 {
            meta.totals = Totals::decode(&mut reader)?;
        }
        if !reader.is_empty() {
            meta.batches = Arc::new(Batches::from_bytes(reader.bytes("batches")?)?);
        }
        let counts_open = !reader.is_empty();
        if counts_open {
            meta.totals.decode_open(&mut reader)?;
        }
        if !reader.is_empty() {
            meta.spread = Spread::read(&mut reader)?;
        }
        Ok((meta, counts_open))
    }

    /// Takes in these parts of streams.
    pub fn take_batches(&mut self, taken: &[(BatchKey, Batch)]) {
        if !taken.is_empty() {
            // Copied only if another reader holds them right now.
            let batches = Arc::make_mut(&mut self.batches);
            taken.iter().for_each(|(key, batch)| batches.fold(*key, batch));
        }
    }

    /// Whether these bytes were written before there were totals. The tallies then begin at zero, since they are
    /// lost; the URLs left can be counted ([`totals::recount`]).
    pub fn lacks_totals(bytes: &[u8]) -> bool {
        bytes.first() == Some(&1)
    }

    /// Restricts the partition to these prefixes. `left` and `open` are the URLs left there, in all and of each job.
    /// The tallies go to the side that holds the first prefix, so that both sides together have the counts of the
    /// whole.
    pub fn split(&mut self, prefixes: Prefixes, left: totals::Left, open: BTreeMap<u32, u64>) {
        let whole = self.prefixes.unwrap_or(Prefixes::ALL);
        if prefixes.first != whole.first {
            self.totals.tally.clear();
        }
        self.totals.set_left(left);
        self.totals.open = open;
        self.prefixes = Some(prefixes);
    }
}
