//! Section `[cluster]`: the servers, a node's place among others, snapshots, the object store.

use std::path::PathBuf;
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
    /// The NATS servers, `nats://HOST:PORT`, or `tls://HOST:PORT` to speak to them over TLS alone.
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
    /// Who we are to the servers: a user, with `password_file` or `password`. Empty: see `nkey_file`.
    pub user: String,
    /// See `user`; kept nowhere. A file is safer.
    pub password: String,
    /// A file with the password of `user`.
    pub password_file: PathBuf,
    /// Who we are to the servers: a file with the seed of an nkey, which `nephila cluster keys` makes. It never leaves this
    /// machine. Empty, with no `user` and no `credentials_file`: nobody in particular.
    pub nkey_file: PathBuf,
    /// Who we are to the servers: a file with a signed token and its key, as NATS' own tools make it.
    pub credentials_file: PathBuf,
    /// Speak to the servers over TLS alone. So do those who set `tls_ca_file` or `tls_cert_file`.
    pub tls: bool,
    /// A file with the certificates that sign those of the servers. Empty: those of the system.
    pub tls_ca_file: PathBuf,
    /// Our own certificate, for servers that ask for one, with `tls_key_file`.
    pub tls_cert_file: PathBuf,
    /// See `tls_cert_file`.
    pub tls_key_file: PathBuf,
    /// Encrypt before the server says a word, for servers with `handshake_first`.
    pub tls_first: bool,
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
    /// What no type can say.
    pub(super) fn check(&self) -> Result<(), String> {
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

    /// How the servers are spoken to.
    pub fn engine(&self) -> nephila_log::jetstream::Settings {
        use nephila_log::jetstream::{Credentials, Settings, Tls};
        let credentials = match (&*self.user, given(&self.nkey_file), given(&self.credentials_file)) {
            ("", None, None) => Credentials::None,
            ("", Some(path), _) => Credentials::NkeyFile(path),
            ("", None, Some(path)) => Credentials::File(path),
            (user, ..) => match given(&self.password_file) {
                Some(path) => Credentials::UserFile(user.into(), path),
                None => Credentials::User(user.into(), self.password.clone()),
            },
        };
        let tls = Tls {
            roots: given(&self.tls_ca_file),
            identity: given(&self.tls_cert_file).zip(given(&self.tls_key_file)),
            first: self.tls_first,
        };
        let is_encrypted = self.tls || tls != Tls::default();
        Settings {
            servers: self.servers.clone(),
            cluster: self.name.clone(),
            streams: self.streams,
            replicas: self.replicas,
            lease_ttl: self.lease_ttl,
            credentials,
            tls: is_encrypted.then_some(tls),
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

/// A path that was given.
fn given(path: &std::path::Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use nephila_log::jetstream::Credentials;

    use super::*;

    #[test]
    fn sec_04_one_way_to_say_who_we_are_is_taken_and_two_are_refused() {
        let nkey = Cluster { nkey_file: "node.nk".into(), ..Cluster::default() };
        assert_eq!(nkey.check(), Ok(()));
        assert_eq!(nkey.engine().credentials, Credentials::NkeyFile("node.nk".into()));
        assert_eq!(nkey.engine().tls, None);
        let two = Cluster { user: "ali".into(), ..nkey.clone() };
        let said = two.check().unwrap_err();
        assert!(said.contains("cluster.user and cluster.nkey_file"), "{said}");
        let file = Cluster { user: "ali".into(), password_file: "secret".into(), ..Cluster::default() };
        assert_eq!(file.engine().credentials, Credentials::UserFile("ali".into(), "secret".into()));
        assert!(Cluster { password: "baba".into(), ..file.clone() }.check().is_err(), "which of them?");
        assert!(Cluster { user: String::new(), ..file }.check().is_err(), "whose is it?");
        let half = Cluster { tls_cert_file: "node.pem".into(), ..Cluster::default() };
        assert!(half.check().unwrap_err().contains("tls_key_file"));
    }

    #[test]
    fn sec_04_whoever_names_a_certificate_speaks_over_tls() {
        let trusting = Cluster { tls_ca_file: "ca.pem".into(), ..Cluster::default() };
        assert_eq!(trusting.engine().tls.unwrap().roots, Some("ca.pem".into()));
        assert!(Cluster { tls: true, ..Cluster::default() }.engine().tls.is_some());
    }
}
