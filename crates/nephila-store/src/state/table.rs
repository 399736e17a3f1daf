//! The tables of a state on disk: the layout of their runs, and the encoding of records as keys and values.

use nephila_core::key::{DomainKey, HostKey, UrlKey};
use nephila_core::state::Beside;
use nephila_core::state::queue::{LaterKey, QueueKey};

use crate::runs::{Filter, KeyColumn, Options, Shape};

/// One kind of record. The numbers are stored in manifests and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    /// Records of URLs, by their key.
    Urls = 0,
    /// URLs in queues, by host and place; the value is the text.
    Queued = 1,
    /// URLs planned for later, by host and place; the value is the text.
    Planned = 2,
    /// Records of hosts.
    Hosts = 3,
    /// Records of domains.
    Domains = 4,
    /// The bytes of a robots.txt.
    Robots = 5,
    /// Records of feeds, by the key of their URL.
    Feeds = 6,
    /// Statements of a stream about a URL, by its key.
    Streams = 7,
    /// Records of sources of feeds, by their key.
    Sources = 8,
    /// Stories, by their source and the time.
    Stories = 9,
}

impl Table {
    pub(super) const ALL: [Table; 10] = [
        Table::Urls,
        Table::Queued,
        Table::Planned,
        Table::Hosts,
        Table::Domains,
        Table::Robots,
        Table::Feeds,
        Table::Streams,
        Table::Sources,
        Table::Stories,
    ];

    pub(super) fn beside(kind: Beside) -> Table {
        match kind {
            Beside::Feed => Table::Feeds,
            Beside::Stream => Table::Streams,
            Beside::Source => Table::Sources,
            Beside::Story => Table::Stories,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Urls => "urls",
            Table::Queued => "queue",
            Table::Planned => "later",
            Table::Hosts => "hosts",
            Table::Domains => "domains",
            Table::Robots => "robots",
            Table::Feeds => "feeds",
            Table::Streams => "streams",
            Table::Sources => "sources",
            Table::Stories => "stories",
        }
    }

    pub(super) fn by_code(code: u8) -> Option<Table> {
        Table::ALL.into_iter().find(|table| *table as u8 == code)
    }

    /// Layout of a table's runs. URLs are tested in large batches and rarely read one by one; hosts and queues are read
    /// a few at a time, so their blocks are small.
    pub(super) fn options(self) -> Options {
        let shape = |group, suffix| Options::new(Shape { group, suffix });
        match self {
            Table::Urls => shape(HostKey::BYTES, UrlKey::BYTES - HostKey::BYTES),
            Table::Queued => Options {
                keys: KeyColumn::Zstd,
                filter: Filter::Group,
                duplicates: true,
                block_entries: 1_024,
                piece_bytes: 32 << 10,
                ..shape(HostKey::BYTES, QueueKey::BYTES)
            },
            Table::Planned => Options {
                keys: KeyColumn::Zstd,
                filter: Filter::Group,
                block_entries: 1_024,
                piece_bytes: 32 << 10,
                ..shape(HostKey::BYTES, LaterKey::BYTES)
            },
            Table::Hosts => Options { block_entries: 256, piece_bytes: 16 << 10, ..shape(HostKey::BYTES, 0) },
            Table::Domains => Options { block_entries: 512, piece_bytes: 16 << 10, ..shape(8, 0) },
            Table::Robots => Options { block_entries: 64, piece_bytes: 64 << 10, ..shape(HostKey::BYTES, 0) },
            Table::Feeds | Table::Sources => Options {
                block_entries: 64,
                piece_bytes: 64 << 10,
                ..shape(HostKey::BYTES, UrlKey::BYTES - HostKey::BYTES)
            },
            Table::Streams | Table::Stories => shape(HostKey::BYTES, UrlKey::BYTES - HostKey::BYTES),
        }
    }
}

/// The domain at the beginning of a key of any table.
pub(super) fn domain_of(key: &[u8]) -> DomainKey {
    DomainKey(u64::from_be_bytes(key[..8].try_into().expect("every key begins with a domain")))
}

/// The host at the beginning of a key of most tables.
pub(super) fn host_of(key: &[u8]) -> HostKey {
    HostKey::from_bytes(key[..HostKey::BYTES].try_into().expect("the key begins with a host"))
}

/// The URL key of some tables.
pub(super) fn url_of(key: &[u8]) -> UrlKey {
    UrlKey::from_bytes(key.try_into().expect("as wide as a URL's key"))
}

pub(super) fn queue_key(host: &HostKey, place: &QueueKey) -> [u8; HostKey::BYTES + QueueKey::BYTES] {
    let mut key = [0; HostKey::BYTES + QueueKey::BYTES];
    key[..HostKey::BYTES].copy_from_slice(&host.to_bytes());
    key[HostKey::BYTES..].copy_from_slice(&place.to_bytes());
    key
}

pub(super) fn later_key(host: &HostKey, place: &LaterKey) -> [u8; HostKey::BYTES + LaterKey::BYTES] {
    let mut key = [0; HostKey::BYTES + LaterKey::BYTES];
    key[..HostKey::BYTES].copy_from_slice(&host.to_bytes());
    key[HostKey::BYTES..].copy_from_slice(&place.to_bytes());
    key
}
