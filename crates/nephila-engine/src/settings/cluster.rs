//! Section `[cluster]`: NATS servers, leases, snapshots, the object store.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A cluster of equal nodes on NATS JetStream. Section `[cluster]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cluster {
    /// Name of the cluster, the same on all nodes: 1 to 32 letters, digits, `-` and `_`.
    pub name: String,
    /// Unique name of this node. Empty: the name of the machine.
    pub node: String,
    /// NATS servers, `nats://HOST:PORT`, or `tls://HOST:PORT` for connections over TLS only.
    pub servers: Vec<String>,
    /// Number of replicas of all data on the servers: 1 or 3. With 1, the loss of a server's disk is the loss of the
    /// crawl.
    pub replicas: usize,
    /// Number of streams on the servers, 1 to 32. Fixed for the life of a cluster.
    pub streams: u32,
    /// Number of partitions, at least 16 for each future node. Fixed for the life of a cluster.
    pub partitions: u32,
    /// Lease time: a node without a heartbeat for this time counts as dead. The servers' own fail-over takes 6 to 13 s.
    #[serde(with = "humantime_serde")]
    pub lease_ttl: Duration,
    /// Heartbeat interval of a node.
    #[serde(with = "humantime_serde")]
    pub heartbeat: Duration,
    /// A node that cannot renew its lease stops this long before the lease expires.
    #[serde(with = "humantime_serde")]
    pub margin: Duration,
    /// Maximum delay until new entries are durable; on a busy node, small groups wait up to four times as long. A
    /// longer delay gives fewer and better compressed messages, and pages are done later.
    #[serde(with = "humantime_serde")]
    pub group_delay: Duration,
    /// Maximum delay of links to partitions of other nodes; 64 kB are sent at once. On a busy node, small parcels wait
    /// up to six times as long.
    #[serde(with = "humantime_serde")]
    pub parcel_age: Duration,
    /// Login at the servers: a user, with `password_file` or `password`. Empty: see `nkey_file`.
    pub user: String,
    /// Password of `user`; stored nowhere. A file is safer.
    pub password: String,
    /// File with the password of `user`.
    pub password_file: PathBuf,
    /// Login at the servers: a file with the seed of an nkey, created by `nephila cluster keys`. The seed never leaves
    /// this machine. Empty, without `user` and `credentials_file`: anonymous.
    pub nkey_file: PathBuf,
    /// Login at the servers: a file with a signed token and its key, created by the tools of NATS.
    pub credentials_file: PathBuf,
    /// Connect to the servers over TLS only. Implied by `tls_ca_file`, `tls_cert_file` and `tls_first`.
    pub tls: bool,
    /// File with the CA certificates of the servers. Empty: those of the system.
    pub tls_ca_file: PathBuf,
    /// Client certificate, for servers that require one, with `tls_key_file`.
    pub tls_cert_file: PathBuf,
    /// Private key of `tls_cert_file`.
    pub tls_key_file: PathBuf,
    /// Start TLS before the first message of the server, for servers with `handshake_first`.
    pub tls_first: bool,
    /// Use servers that the given servers announce as well.
    pub discover: bool,
    /// Monitoring addresses of the servers, `http://HOST:PORT`, for `nephila doctor`.
    pub monitors: Vec<String>,
    /// Object store for snapshots and archives: `s3://BUCKET/PREFIX`, with credentials in the usual `AWS_*` variables,
    /// or `file:///FOLDER`, a folder that all nodes share. Empty: none; the whole log is then kept.
    pub objects: String,
    /// Endpoint of an object store other than Amazon's, `https://HOST:PORT`. Empty: `AWS_ENDPOINT`, or Amazon's.
    pub objects_endpoint: String,
    /// Region of the object store. Empty: `AWS_REGION`, or `us-east-1`.
    pub objects_region: String,
    /// Permit an object store without encryption. Everybody on the way can then read and change the stored data.
    pub objects_http: bool,
    /// Interval of snapshots of a partition to the object store, if anything has changed. A shorter interval gives a
    /// shorter log and a faster take-over by another node, and sends more bytes.
    #[serde(with = "humantime_serde")]
    pub snapshot_every: Duration,
    /// Bytes of log after the last snapshot that trigger the next snapshot.
    pub snapshot_log_bytes: u64,
    /// Upload of archive files to the object store: `no`, or `closed`: as soon as a file is full or old
    /// (`store.bytes_max`, `store.age_max`). A page is done as soon as stored on this node's disk: if the disk is lost,
    /// files not yet uploaded are lost.
    pub archive_upload: ArchiveUpload,
    /// Time after which an archive file is removed from this node, once uploaded, read back and found equal (`0s`:
    /// never). The index stays.
    #[serde(with = "humantime_serde")]
    pub archive_keep_local: Duration,
    /// Publish the events of all partitions in the stream `NEPH_NAME_EVENTS`, for other programs and `nephila log
    /// --events`. See `docs/events.md`.
    pub events: bool,
    /// Maximum size of that stream in bytes; the oldest events are dropped.
    pub events_bytes: u64,
}

/// Which archive files go to the object store.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArchiveUpload {
    /// None.
    #[default]
    No,
    /// Closed files.
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
            password_file: PathBuf::new(),
            nkey_file: PathBuf::new(),
            credentials_file: PathBuf::new(),
            tls: false,
            tls_ca_file: PathBuf::new(),
            tls_cert_file: PathBuf::new(),
            tls_key_file: PathBuf::new(),
            tls_first: false,
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
    /// Checks constraints that types cannot express.
    pub fn check(&self) -> Result<(), String> {
        if self.archive_upload != ArchiveUpload::No && self.objects.is_empty() {
            return Err("cluster.archive_upload needs cluster.objects, which says where to".into());
        }
        let ways = [
            ("user", !self.user.is_empty()),
            ("nkey_file", given(&self.nkey_file).is_some()),
            ("credentials_file", given(&self.credentials_file).is_some()),
        ];
        let said: Vec<&str> = ways.iter().filter(|(_, is_said)| *is_said).map(|(name, _)| *name).collect();
        if said.len() > 1 {
            return Err(format!("cluster.{} say who we are: only one can", said.join(" and cluster.")));
        }
        let passwords = [!self.password.is_empty(), given(&self.password_file).is_some()];
        if self.user.is_empty() && passwords.contains(&true) {
            return Err("a password of cluster needs cluster.user, which says whose it is".into());
        }
        if passwords == [true, true] {
            return Err("cluster.password and cluster.password_file are both set: only one can be".into());
        }
        if given(&self.tls_cert_file).is_some() != given(&self.tls_key_file).is_some() {
            return Err(
                "cluster.tls_cert_file and cluster.tls_key_file belong together: one is missing".into()
            );
        }
        Ok(())
    }

    /// Settings of leases and heartbeats.
    pub fn member(&self) -> nephila_core::cluster::member::Settings {
        nephila_core::cluster::member::Settings {
            ttl: self.lease_ttl,
            heartbeat: self.heartbeat,
            margin: self.margin,
            ..Default::default()
        }
    }

    /// Settings of the outbox for links to other nodes.
    pub fn outbox(&self) -> nephila_core::cluster::outbox::Settings {
        nephila_core::cluster::outbox::Settings { parcel_age: self.parcel_age, ..Default::default() }
    }
}

/// The path, if not empty.
pub fn given(path: &std::path::Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}
