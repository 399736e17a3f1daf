//! Logs, inboxes and leases on NATS JetStream.
//!
//! A cluster has a few **streams** that hold the subjects of all partitions, `neph.CLUSTER.STREAM.log.PARTITION` and
//! `neph.CLUSTER.STREAM.in.PARTITION` with STREAM = PARTITION modulo their number, and two more for leases (with a
//! greatest age) and records; where events are wanted, one for these (`events`). What nodes say to each other directly
//! (`neph.CLUSTER.talk.NODE`) is in no stream. [`Engine::connect`] makes them, or checks that those there are as they
//! should be; [`JetEvents::ensure`] does for that of the events.
//!
//! What always holds: a full stream refuses, it never drops what is old, but for that of the events; the number of streams
//! of a cluster never changes, since partitions would move between them; every request has a deadline.

mod beside;
mod check;
mod events;
mod inbox;
mod leases;
mod link;
mod log;
mod marks;
mod message;
mod reader;
mod replay;
mod talk;
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
pub use talk::Heard;
pub use watch::Watch;

/// Most streams for partitions.
pub const STREAMS_MAX: u32 = 32;
/// The oldest server that syncs once per append and not per message.
pub const SERVER_VERSION_MIN: (u64, u64) = (2, 15);
/// How long one question to the engine may take before it is asked again.
pub(crate) const ASK_WAIT: Duration = Duration::from_secs(5);
/// How long connecting may take, with an election in between.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(60);
/// Publishes that wait for their acknowledgement.
const ACKS_MAX: usize = 4_096;
/// First and longest rest between two tries.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Under this name a stream remembers how many there are.
const STREAMS_META: &str = "nephila-streams";

/// Who we are for the server.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials {
    /// Nobody in particular.
    #[default]
    None,
    /// A token.
    Token(String),
    /// A name and a password.
    User(String, String),
    /// A name, and a file with the password.
    UserFile(String, PathBuf),
    /// A file with a signed token and its key.
    File(PathBuf),
    /// A file with the seed of an nkey: the server knows the public half, and the seed never leaves this machine.
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

/// How the connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates to trust besides those of the system.
    pub roots: Option<PathBuf>,
    /// Our own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Encrypt before the server says a word.
    pub first: bool,
}

/// Which engine, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Addresses of servers, `nats://HOST:PORT`.
    pub servers: Vec<String>,
    /// The name of the cluster: 1 to 32 letters, digits, `-` and `_`.
    pub cluster: String,
    /// Streams for partitions, 1 to 32. Fixed for the life of a cluster.
    pub streams: u32,
    /// Copies of everything: 1 or 3.
    pub replicas: usize,
    /// A lease that is not renewed for this long ends.
    pub lease_ttl: Duration,
    /// A message id that comes again within this time is stored once.
    pub dedup_window: Duration,
    /// A stream takes no more than this; 0 for as much as the server lets it.
    pub stream_bytes_max: u64,
    /// Who we are.
    pub credentials: Credentials,
    /// Encryption; none if this is not given.
    pub tls: Option<Tls>,
    /// Also use servers that the given ones tell of.
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

/// A connection to the engine with everything that a cluster needs there. Cheap to clone.
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
    /// Connects, and makes or checks the streams. Has to be called on the runtime that will carry the connection; logs
    /// hand their work to it, so it must go on while a worker's thread waits.
    pub async fn connect(settings: Settings) -> Result<Engine, Error> {
        let engine = Engine::look(settings).await?;
        for config in engine.0.configs() {
            engine.0.ensure(&config).await?;
        }
        Ok(engine)
    }

    /// Connects and makes nothing: for those who only look. Is there a cluster at all? [`Engine::is_there`] says so.
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

    /// Has somebody made this cluster? Its records are there then; what else of it is gone is named by whoever needs it.
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

    /// The settings it was made with.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Is there a connection to a server at this moment?
    pub fn is_connected(&self) -> bool {
        self.0.link.is_up()
    }

    /// The server that is connected, or was last: its name and its version.
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

    /// Opens a partition's log to write it. Whoever wrote it before cannot any more, once this has returned. An owner
    /// of a later epoch than this is not replaced: [`Error::Fenced`].
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

    /// Every stream as it should be.
    fn configs(&self) -> Vec<Config> {
        let settings = &self.settings;
        let cluster = &settings.cluster;
        let base = Config {
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            // A stream that is full says so; dropping what is old would lose it.
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

    /// Makes a stream, or checks the one that is there and changes what may change.
    async fn ensure(&self, config: &Config) -> Result<(), Error> {
        self.patiently("making the streams", CONNECT_PATIENCE, async || {
            let found = match self.link.answer(self.context.get_stream(&config.name)).await? {
                Ok(stream) => stream.cached_info().config.clone(),
                Err(error) if !is_missing(&error) => return Err(error.to_string()),
                Err(_) => {
                    return match self.link.answer(self.context.create_stream(config.clone())).await? {
                        Ok(_) => Ok(Ok(())),
                        // Another node made it at the same moment: look again.
                        Err(error) => match error.kind() {
                            // Servers that start together do not know each other at once: they will.
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

/// Not enough servers for a stream's copies.
const NO_PEERS: ErrorCode = ErrorCode(10_005);

/// Is there no such stream?
fn is_missing(error: &GetStreamError) -> bool {
    matches!(error.kind(), GetStreamErrorKind::JetStream(refusal)
        if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND)
}

/// What cannot be changed and is not as it should be.
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

/// Rests between tries, longer each time.
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
