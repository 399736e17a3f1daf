//! Logs, inboxes and leases on NATS JetStream.
//!
//! A cluster has a few **streams** that hold the subjects of all partitions, `neph.CLUSTER.STREAM.log.PARTITION` and
//! `neph.CLUSTER.STREAM.in.PARTITION` with STREAM = PARTITION modulo the number of streams. Two more streams hold
//! leases (with a maximum age) and records, and an optional one holds events (`events`). Direct messages between nodes
//! (`neph.CLUSTER.talk.NODE`) are in no stream. [`Engine::connect`] creates the streams or checks the configuration of
//! the existing ones; [`JetEvents::ensure`] does the same for the event stream.
//!
//! Invariants: a full stream refuses new messages and never drops old ones, except the event stream; the number of
//! streams of a cluster never changes, since partitions would move between streams; every request has a deadline.

mod beside;
mod check;
mod events;
mod inbox;
mod leases;
mod link;
mod log;
mod marks;
mod message;
mod peer;
mod reader;
mod replay;
mod watch;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::{CreateStreamErrorKind, GetStreamError, GetStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{Context, ContextBuilder, ErrorCode};
use tokio::runtime::Handle;

use crate::Error;
use link::Link;
use write::Place;

pub use beside::{Beside, LogReader};
pub use check::{Finding, Level};
pub use events::{EventReader, JetEvents};
pub use inbox::JetInbox;
pub use leases::JetLeases;
pub use log::JetLog;
pub use peer::PeerMessages;
pub use watch::Watch;

/// Maximum number of streams for partitions.
pub const STREAMS_MAX: u32 = 32;
/// Minimum server version. Older servers sync per message and not once per append.
pub const SERVER_VERSION_MIN: (u64, u64) = (2, 15);
/// Timeout of one request to the engine before a retry.
pub(crate) const ASK_WAIT: Duration = Duration::from_secs(5);
/// Retry deadline for connecting, with an election in between.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum publishes that wait for their acknowledgement.
const ACKS_MAX: usize = 4_096;
/// First and longest backoff between two attempts.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Metadata key under which a stream stores the number of streams.
const STREAMS_META: &str = "nephila-streams";

/// Credentials for the server.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials {
    /// No credentials.
    #[default]
    None,
    /// A token.
    Token(String),
    /// A user name and a password.
    User(String, String),
    /// A user name, and a file with the password.
    UserFile(String, PathBuf),
    /// A credentials file: a signed token and its key.
    File(PathBuf),
    /// A file with the seed of an nkey. The server knows the public key, and the seed never leaves this machine.
    NkeyFile(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::None => "None",
            Credentials::Token(_) => "Token(…)",
            Credentials::User(..) => "User(…)",
            Credentials::UserFile(..) => "UserFile(…)",
            Credentials::File(_) => "File(…)",
            Credentials::NkeyFile(_) => "NkeyFile(…)",
        })
    }
}

/// TLS settings of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// File with trusted root certificates, in addition to the system's.
    pub roots: Option<PathBuf>,
    /// Client certificate and its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Start TLS before the server's first message.
    pub first: bool,
}

/// Settings of the connection and the streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Addresses of servers, `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// Name of the cluster: 1 to 32 letters, digits, `-` and `_`.
    pub cluster: String,
    /// Number of streams for partitions, 1 to 32. Fixed for the life of a cluster.
    pub streams: u32,
    /// Number of replicas of every stream: 1 or 3.
    pub replicas: usize,
    /// Time to live of a lease without renewal.
    pub lease_ttl: Duration,
    /// Deduplication window: a message id that is repeated within this time is stored once.
    pub dedup_window: Duration,
    /// Maximum size of a stream in bytes; 0 for the limit of the server.
    pub stream_bytes_max: u64,
    /// Credentials for the servers.
    pub credentials: Credentials,
    /// TLS settings; unencrypted if absent.
    pub tls: Option<Tls>,
    /// Also use servers that the configured servers announce.
    pub discover: bool,
    /// Monitoring addresses of the servers, `http://HOST:PORT`, for [`Engine::check`].
    pub monitors: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            servers: Vec::new(),
            cluster: "nephila".to_owned(),
            streams: 8,
            replicas: 3,
            lease_ttl: Duration::from_secs(15),
            dedup_window: Duration::from_secs(120),
            stream_bytes_max: 0,
            credentials: Credentials::None,
            tls: None,
            discover: true,
            monitors: Vec::new(),
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::Refused(why.to_owned()));
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if self.servers.is_empty() {
            return refuse("no servers are given");
        }
        if !(1..=32).contains(&self.cluster.len()) || !self.cluster.bytes().all(is_name) {
            return refuse("a cluster's name has 1 to 32 letters, digits, - and _");
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return refuse("a cluster has 1 to 32 streams");
        }
        if ![1, 3].contains(&self.replicas) {
            return refuse("there are 1 or 3 replicas");
        }
        if self.lease_ttl < Duration::from_secs(1) || self.dedup_window < Duration::from_secs(1) {
            return refuse("a lease and the window for repeated messages last at least a second");
        }
        Ok(())
    }
}

/// A connection to the engine and the streams of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    link: Link,
    context: Context,
    settings: Settings,
    handle: Handle,
}

impl Engine {
    /// Connects, and creates or checks the streams. Call this on the runtime that is to carry the connection. Logs hand
    /// their work to that runtime, so it must run while a worker's thread blocks.
    pub async fn connect(settings: Settings) -> Result<Engine, Error> {
        let engine = Engine::look(settings).await?;
        for config in engine.0.configs() {
            engine.0.ensure(&config).await?;
        }
        Ok(engine)
    }

    /// Connects and creates nothing: for read-only use. [`Engine::is_there`] tells whether the cluster exists.
    pub async fn look(settings: Settings) -> Result<Engine, Error> {
        settings.check()?;
        let link = Link::dial(&settings).await?;
        let context = ContextBuilder::new()
            .timeout(ASK_WAIT)
            .ack_timeout(ASK_WAIT)
            .max_ack_inflight(ACKS_MAX)
            .backpressure_on_inflight(true)
            .build(link.client.clone());
        Ok(Engine(Arc::new(Inner { link, context, settings, handle: Handle::current() })))
    }

    /// Whether the cluster exists, judged by its records. Other missing parts are reported by the calls that need them.
    pub async fn is_there(&self) -> Result<bool, Error> {
        let name = format!("NEPH_{}_{}", self.0.settings.cluster, KeyKind::Record.stream());
        self.0
            .patiently("looking for the cluster", CONNECT_PATIENCE, async || {
                match self.0.link.answer(self.0.context.get_stream(&name)).await? {
                    Ok(_) => Ok(true),
                    Err(error) if is_missing(&error) => Ok(false),
                    Err(error) => Err(error.to_string()),
                }
            })
            .await
    }

    /// The settings of this engine.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Whether a server is connected at this moment.
    pub fn is_connected(&self) -> bool {
        self.0.link.is_up()
    }

    /// Name and version of the current or last connected server.
    pub fn server(&self) -> Option<(String, String)> {
        self.0.link.client.try_server_info().map(|info| (info.server_name, info.version))
    }

    /// The inboxes of all partitions.
    pub fn inbox(&self) -> JetInbox {
        JetInbox::new(self.0.clone())
    }

    /// Leases and records.
    pub fn leases(&self) -> JetLeases {
        JetLeases::new(self.0.clone())
    }

    /// Opens a partition's log for writing. Once this returns, the previous owner is fenced out. An owner of a later
    /// epoch than this is not replaced: [`Error::Fenced`].
    pub async fn log(&self, partition: u32, epoch: u64, fence: crate::Fence) -> Result<JetLog, Error> {
        JetLog::open(self.0.clone(), partition, epoch, fence).await
    }
}

impl Inner {
    fn stream_of(&self, partition: u32) -> u32 {
        partition % self.settings.streams
    }

    fn partition_place(&self, kind: &str, partition: u32) -> Place {
        let stream = self.stream_of(partition);
        let cluster = &self.settings.cluster;
        self.place(format!("NEPH_{cluster}_{stream}"), format!("neph.{cluster}.{stream}.{kind}.{partition}"))
    }

    fn log_place(&self, partition: u32) -> Place {
        self.partition_place("log", partition)
    }

    fn inbox_place(&self, partition: u32) -> Place {
        self.partition_place("in", partition)
    }

    fn key_place(&self, kind: KeyKind, key: &str) -> Place {
        let cluster = &self.settings.cluster;
        self.place(
            format!("NEPH_{cluster}_{}", kind.stream()),
            format!("neph.{cluster}.{}.{key}", kind.token()),
        )
    }

    fn place(&self, stream_name: String, subject: String) -> Place {
        let stream = futures_util::FutureExt::now_or_never(self.context.get_stream_no_info(&stream_name));
        let stream = stream.and_then(Result::ok).expect("it asks nobody, and the name is a good one");
        Place { stream, stream_name, subject, link: self.link.clone() }
    }

    /// The wanted configuration of every stream.
    fn configs(&self) -> Vec<Config> {
        let settings = &self.settings;
        let cluster = &settings.cluster;
        let base = Config {
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            // A full stream refuses new messages; dropping old messages would lose data.
            discard: DiscardPolicy::New,
            num_replicas: settings.replicas,
            allow_direct: true,
            duplicate_window: settings.dedup_window,
            max_bytes: i64::try_from(settings.stream_bytes_max).ok().filter(|&max| max > 0).unwrap_or(-1),
            metadata: HashMap::from([(STREAMS_META.to_owned(), settings.streams.to_string())]),
            ..Config::default()
        };
        let mut configs: Vec<Config> = (0..settings.streams)
            .map(|stream| Config {
                name: format!("NEPH_{cluster}_{stream}"),
                subjects: vec![format!("neph.{cluster}.{stream}.>")],
                ..base.clone()
            })
            .collect();
        for kind in [KeyKind::Lease, KeyKind::Record] {
            let max_age = if kind == KeyKind::Lease { settings.lease_ttl } else { Duration::ZERO };
            let duplicate_window =
                if max_age.is_zero() { base.duplicate_window } else { base.duplicate_window.min(max_age) };
            configs.push(Config {
                name: format!("NEPH_{cluster}_{}", kind.stream()),
                subjects: vec![format!("neph.{cluster}.{}.>", kind.token())],
                max_messages_per_subject: 1,
                max_age,
                duplicate_window,
                max_bytes: -1,
                ..base.clone()
            });
        }
        configs
    }

    /// Creates a stream, or checks the existing stream and updates the settings that may change.
    async fn ensure(&self, config: &Config) -> Result<(), Error> {
        self.patiently("making the streams", CONNECT_PATIENCE, async || {
            let found = match self.link.answer(self.context.get_stream(&config.name)).await? {
                Ok(stream) => stream.cached_info().config.clone(),
                Err(error) if !is_missing(&error) => return Err(error.to_string()),
                Err(_) => {
                    return match self.link.answer(self.context.create_stream(config.clone())).await? {
                        Ok(_) => Ok(Ok(())),
                        // Another node created the stream at the same moment: retry.
                        Err(error) => match error.kind() {
                            // Servers that start together need a moment to find each other.
                            CreateStreamErrorKind::JetStream(refusal)
                                if refusal.code() == 400 && refusal.error_code() != NO_PEERS =>
                            {
                                Ok(Err(Error::Refused(format!("stream {}: {refusal}", config.name))))
                            }
                            _ => Err(error.to_string()),
                        },
                    };
                }
            };
            if let Some(why) = mismatch(&found, config) {
                return Ok(Err(Error::Refused(format!("stream {} {why}", config.name))));
            }
            if is_as_wanted(&found, config) {
                return Ok(Ok(()));
            }
            let wanted = Config {
                num_replicas: config.num_replicas,
                max_age: config.max_age,
                duplicate_window: config.duplicate_window,
                max_bytes: config.max_bytes,
                ..found
            };
            let updated = self.link.answer(self.context.update_stream(wanted)).await?;
            updated.map(|_| Ok(())).map_err(|error| error.to_string())
        })
        .await?
    }
}

/// Not enough servers for a stream's replicas.
const NO_PEERS: ErrorCode = ErrorCode(10_005);

/// Whether the stream does not exist.
fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(refusal)
        if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// Describes a wrong setting that cannot be changed.
fn mismatch(found: &Config, wanted: &Config) -> Option<String> {
    let streams = |config: &Config| config.metadata.get(STREAMS_META).cloned().unwrap_or_default();
    if streams(found) != streams(wanted) {
        return Some(format!(
            "was made for a cluster of {} streams, the settings say {}: the number cannot change",
            streams(found),
            streams(wanted)
        ));
    }
    if found.subjects != wanted.subjects {
        return Some(format!("holds {:?}, not {:?}", found.subjects, wanted.subjects));
    }
    if found.discard != wanted.discard || found.retention != wanted.retention {
        return Some("drops what is old when it is full: it is not ours".to_owned());
    }
    (found.storage != wanted.storage).then(|| "is not kept in files".to_owned())
}

fn is_as_wanted(found: &Config, wanted: &Config) -> bool {
    found.num_replicas == wanted.num_replicas
        && found.max_age == wanted.max_age
        && found.duplicate_window == wanted.duplicate_window
        && found.max_bytes == wanted.max_bytes
}

/// The two kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyKind {
    Lease,
    Record,
}

impl KeyKind {
    fn token(self) -> &'static str {
        match self {
            KeyKind::Lease => "lease",
            KeyKind::Record => "record",
        }
    }

    fn stream(self) -> &'static str {
        match self {
            KeyKind::Lease => "LEASES",
            KeyKind::Record => "RECORDS",
        }
    }
}

/// Exponential backoff between attempts.
struct Backoff(Duration);

impl Backoff {
    fn new() -> Self {
        Backoff(BACKOFF_FIRST)
    }

    fn next(&mut self) -> Duration {
        let rest = self.0;
        self.0 = BACKOFF_MAX.min(rest * 2);
        rest
    }
}
