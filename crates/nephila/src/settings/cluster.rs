//! Section `[cluster]`: the servers, a node's place among others, snapshots, the object store.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A cluster of equal nodes on NATS JetStream. Section `[cluster]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// The name of the cluster, the same on all its nodes: 1 to 32 letters, digits, `-` and `_`.
    pub name: String,
    /// The name of this node, unlike all others. Empty: the name of the machine.
    pub node: String,
    /// The NATS servers, `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// Copies that the servers keep of everything: 1 or 3. With 1 the loss of a server's disk is the loss of the crawl.
    pub replicas: usize,
    /// Streams on the servers, 1 to 32. Fixed for the life of a cluster.
    pub streams: u32,
    /// Partitions, at least 16 for each node there will be. Fixed for the life of a cluster.
    pub partitions: u32,
    /// A node that was not heard of for this long is taken for dead. The servers' own fail-over takes 6 to 13 s.
    #[serde(with = "humantime_serde")]
    pub lease_ttl: Duration,
    /// A node says this often that it lives.
    #[serde(with = "humantime_serde")]
    pub heartbeat: Duration,
    /// A node that cannot say so stops this long before the others take it for dead.
    #[serde(with = "humantime_serde")]
    pub margin: Duration,
    /// What became true is durable after this time; while a node has more to fetch than it can, what is little after four
    /// times as long. Longer: fewer and better packed messages; a page is done later.
    #[serde(with = "humantime_serde")]
    pub group_delay: Duration,
    /// Links to partitions of other nodes are sent after this time, or when 64 kB are together; while a node is busy, what
    /// is little after six times as long.
    #[serde(with = "humantime_serde")]
    pub parcel_age: Duration,
    /// Who we are to the servers: a user, with `password`. Empty: nobody asks.
    pub user: String,
    /// See `user`.
    pub password: String,
    /// Also use servers that the given ones tell of.
    pub discover: bool,
    /// Monitoring addresses of the servers, `http://HOST:PORT`, for `nephila doctor`.
    pub monitors: Vec<String>,
    /// Where snapshots and archives go: `s3://BUCKET/PREFIX`, with the usual `AWS_*` variables for who we are, or
    /// `file:///FOLDER`, which all nodes have to see. Empty: nowhere; the log is then kept whole.
    pub objects: String,
    /// The address of an object store that is not Amazon's, `https://HOST:PORT`. Empty: `AWS_ENDPOINT`, or Amazon's.
    pub objects_endpoint: String,
    /// Its region. Empty: `AWS_REGION`, or `us-east-1`.
    pub objects_region: String,
    /// May it be spoken to without encryption? Everybody on the way can then read and change what is stored.
    pub objects_http: bool,
    /// The owner of a partition puts a snapshot of it into the object store this often, if anything has changed. Shorter:
    /// the log is shorter, and a node without the partition opens it sooner; more bytes are sent.
    #[serde(with = "humantime_serde")]
    pub snapshot_every: Duration,
    /// The same as soon as so many bytes of log stand behind the last one.
    pub snapshot_log_bytes: u64,
    /// Do archive files go to the object store? `no`, or `closed`: once they are full or old (`store.bytes_max`,
    /// `store.age_max`). A page is done when it is on this node's disk: what was not sent when that disk is lost is lost.
    pub archive_upload: ArchiveUpload,
    /// An archive file that is in the object store, read back and equal, is removed here after this time; never at `0s`.
    /// Its index stays.
    #[serde(with = "humantime_serde")]
    pub archive_keep_local: Duration,
    /// Does every owner of a partition tell what happens there, in the stream `NEPH_NAME_EVENTS`, for programs of others and
    /// `nephila log --events`? See `docs/events.md`.
    pub events: bool,
    /// That stream drops what is oldest when it has so many bytes.
    pub events_bytes: u64,
}

/// Which archive files go to the object store.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArchiveUpload {
    /// None.
    #[default]
    No,
    /// Those that are closed.
    Closed,
}

impl Default for Cluster {
    fn default() -> Self {
        Cluster {
            name: "nephila".into(),
            node: String::new(),
            servers: Vec::new(),
            replicas: 3,
            streams: 8,
            partitions: 256,
            lease_ttl: Duration::from_secs(15),
            heartbeat: Duration::from_secs(4),
            margin: Duration::from_secs(3),
            group_delay: Duration::from_millis(500),
            parcel_age: Duration::from_secs(1),
            user: String::new(),
            password: String::new(),
            discover: true,
            monitors: Vec::new(),
            objects: String::new(),
            objects_endpoint: String::new(),
            objects_region: String::new(),
            objects_http: false,
            snapshot_every: Duration::from_secs(600),
            snapshot_log_bytes: 64 << 20,
            archive_upload: ArchiveUpload::No,
            archive_keep_local: Duration::ZERO,
            events: false,
            events_bytes: 1 << 30,
        }
    }
}

impl Cluster {
    /// How the servers are spoken to.
    pub fn engine(&self) -> nephila_log::jetstream::Settings {
        use nephila_log::jetstream::{Credentials, Settings};
        let credentials = match &*self.user {
            "" => Credentials::None,
            user => Credentials::User(user.into(), self.password.clone()),
        };
        Settings {
            servers: self.servers.clone(),
            cluster: self.name.clone(),
            streams: self.streams,
            replicas: self.replicas,
            lease_ttl: self.lease_ttl,
            credentials,
            discover: self.discover,
            monitors: self.monitors.clone(),
            ..Settings::default()
        }
    }

    /// How a node keeps its place.
    pub fn member(&self) -> nephila_core::cluster::member::Settings {
        nephila_core::cluster::member::Settings {
            ttl: self.lease_ttl,
            heartbeat: self.heartbeat,
            margin: self.margin,
            ..Default::default()
        }
    }

    /// How links to other nodes are collected.
    pub fn outbox(&self) -> nephila_core::cluster::outbox::Settings {
        nephila_core::cluster::outbox::Settings { parcel_age: self.parcel_age, ..Default::default() }
    }
}
