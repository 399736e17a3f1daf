//! `nephila serve`: one node of a cluster.
//!
//! `shell` executes the decisions of [`Member`](nephila_core::cluster::member::Member): the lease (`lease`), the view,
//! claims, and which partitions are opened and given up. A node works in **sessions**: from acquiring its lease to
//! losing the lease ([`session`]). A session has a worker, a loop that fetches, and a fence. When the lease may expire
//! the fence falls, everything of the session ends at once as if the process had been killed, and the node starts again
//! as another incarnation. `parts` opens partitions and reads their inboxes, `snapshot` stores copies of partitions in
//! the object store, `tails` records how far their logs go, `alarm` reports faults to the operator, `events` publishes
//! events for programs, `heal` records accepted losses, `upload` sends the archive, `stored` reads sent archives,
//! `feedback` publishes which hosts reject links and which partitions lag (backpressure), `slot_grants` agrees with
//! other nodes on the use of IP addresses, `errands` requests robots.txt files on hosts of other nodes, `route` sends
//! links to partitions of other nodes, `jobs` stores the jobs, `limits` ends a job at its limits, `completion` detects
//! that a job is complete, `stop_list` knows the stopped sites, `pins` the domains that an operator assigned to a node,
//! `equal` compares settings, `admin` implements the administration of a cluster, `command` its commands, `keys`
//! creates the keys of a cluster, `api` is the HTTP API of a node.
//!
//! Invariant: nothing is fetched and nothing is written for a partition unless the lease is held, on a clock that
//! continues while the machine sleeps.

pub mod admin;
pub mod alarm;
pub mod api;
mod completion;
mod equal;
mod errands;
pub mod event_stream;
mod events;
mod feedback;
pub mod heal;
pub mod jobs;
pub mod keys;
pub(crate) mod known;
mod lease;
mod limits;
mod lists;
pub mod media;
mod metrics;
pub mod objects;
mod parts;
mod pins;
mod record;
pub mod remote;
mod route;
pub mod seeding;
pub mod servers;
mod session;
mod shell;
mod slot_grants;
mod snapshot;
mod spread;
mod stop_list;
mod stored;
mod tails;
mod upload;
pub mod views;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use nephila_core::key::{PREFIXES, Secret};
use nephila_log::jetstream::Engine;
use nephila_log::{Inbox, Leases};
use serde::{Deserialize, Serialize};

use crate::objects::{Content, Objects};
use nephila_engine::clock::Gate;
use nephila_engine::crawl::tables::{Tables, Writer};
use nephila_engine::exit::Exit;
use nephila_engine::folder::{Folder, new_secret};
use nephila_engine::service::Service;
use nephila_engine::settings::{self, ArchiveUpload, Settings, usage};
use nephila_engine::{log, wire};

pub use route::Router;

/// Parameters that are fixed for the life of a cluster, as stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Foundation {
    partitions: u32,
    /// The key under which URLs are hashed, in hexadecimal.
    secret: String,
    /// Format of the data in this cluster. A program that does not know the format does not join.
    #[serde(default = "first_format")]
    format: u32,
}

/// The format that this program reads and writes. The number grows when an earlier program would misread new data; new
/// data that an earlier program recognizes as unknown does not count.
pub const FORMAT: u32 = 3;

/// With this format jobs may have their seeds in lists: an earlier program would read such a job as one without seeds.
pub(crate) const LISTS_FORMAT: u32 = 2;

/// With this format domains may be spread: an earlier program would take in hosts that belong elsewhere.
pub(crate) const SPREAD_FORMAT: u32 = 3;

/// Format of a new cluster, and of a cluster from before formats were counted. The format is raised on demand.
fn first_format() -> u32 {
    1
}

/// Key of the foundation record.
const FOUNDATION: &str = "cluster";
/// The record whose revisions number the sessions.
pub const SESSIONS: &str = "session";
/// Maximum number of tries when other writers change a record.
const TRIES_MAX: usize = 20;
/// Delay before a retry, while the first node of a new cluster may still be writing.
pub const TRY_AGAIN: Duration = Duration::from_millis(100);
/// Delay before a message that the servers are being waited for.
pub const SAY_AFTER: Duration = Duration::from_secs(2);

/// Maximum delay of small groups on a busy node, in multiples of `cluster.group_delay`.
pub const GROUP_PATIENCE: u32 = 4;
/// Timeout for the last archive uploads of a node that leaves.
pub const LAST_UPLOADS_MAX: Duration = Duration::from_secs(60);
/// Length of the digest of the secret that distinguishes two clusters of one name.
pub const ID_CHARS: usize = 12;

/// A connection to a cluster, and its fixed parameters.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) engine: Engine,
    pub(crate) inbox: Arc<dyn Inbox>,
    /// Store of the shared records of the cluster: leases, owners, jobs, alarms.
    pub leases: Arc<dyn Leases>,
    /// Seeds outside of job records.
    lists: Arc<lists::SeedLists>,
    /// Spread domains, as last read.
    pub(crate) spread: Arc<spread::Table>,
    pub(crate) secret: Secret,
    /// Number of partitions of the cluster, fixed when the cluster was founded.
    pub partitions: u32,
}

impl Cluster {
    /// Connects, and founds the cluster if necessary.
    pub async fn connect(settings: &settings::Cluster) -> anyhow::Result<Cluster> {
        check(settings)?;
        let engine = connected(settings, Engine::connect(servers::settings(settings))).await?;
        let founded = found(&engine.leases(), settings.partitions).await?;
        if founded.partitions != settings.partitions {
            tracing::info!(
                "the cluster {} has {} partitions, whatever the settings say",
                settings.name,
                founded.partitions
            );
        }
        Cluster::read(engine, &founded).await
    }

    /// Connects to an existing cluster, and creates nothing.
    pub async fn look(settings: &settings::Cluster) -> anyhow::Result<Cluster> {
        check(settings)?;
        let engine = connected(settings, Engine::look(servers::settings(settings))).await?;
        let nobody = || {
            let (name, servers) = (&settings.name, settings.servers.join(", "));
            anyhow::anyhow!(
                "there is no cluster {name} on the NATS servers ({servers}) yet: `nephila serve` on the first node makes it"
            )
        };
        let is_there = engine.is_there().await.context("looking for the cluster")?;
        anyhow::ensure!(is_there, nobody());
        let founded = founded(&engine.leases()).await?.ok_or_else(nobody)?;
        Cluster::read(engine, &founded).await
    }

    /// Like [`Cluster::of`], with the spread domains.
    async fn read(engine: Engine, founded: &Foundation) -> anyhow::Result<Cluster> {
        let cluster = Cluster::of(engine, founded)?;
        cluster.refresh_spread().await?;
        Ok(cluster)
    }

    /// Builds the access to a founded cluster. Fails if the secret in the foundation is malformed.
    pub fn of(engine: Engine, founded: &Foundation) -> anyhow::Result<Cluster> {
        let leases: Arc<dyn Leases> = Arc::new(engine.leases());
        let inbox: Arc<dyn Inbox> = Arc::new(engine.inbox());
        let secret = parse_secret(&founded.secret).context("the secret of the cluster")?;
        let lists = Arc::new(lists::SeedLists::new(inbox.clone(), secret));
        let (spread, partitions) = (Arc::default(), founded.partitions);
        Ok(Cluster { engine, inbox, leases, lists, spread, secret, partitions })
    }

    /// The object store of this cluster, if configured. Another cluster of the same name has another secret, and so
    /// another folder.
    pub fn objects(&self, settings: &settings::Cluster) -> anyhow::Result<Option<Objects>> {
        let id: String = Content::of(&self.secret.0).sha256.chars().take(ID_CHARS).collect();
        Ok(Objects::open(settings)?.map(|objects| objects.within(&format!("{}-{id}", settings.name))))
    }

    /// Returns the snapshots of partitions in the object store; none without an object store in the settings.
    pub fn snapshots(&self, settings: &settings::Cluster) -> anyhow::Result<Option<snapshot::Snapshots>> {
        let objects = self.objects(settings)?.map(|objects| objects.within("snapshots"));
        Ok(objects.map(|objects| snapshot::Snapshots::new(objects, self.leases.clone(), self.partitions)))
    }

    /// A number that no session of any node ever had.
    pub async fn session_number(&self) -> anyhow::Result<u64> {
        for _ in 0..TRIES_MAX {
            let item = self.leases.record(SESSIONS).await.context("reading the sessions")?;
            let expected = item.map(|item| item.revision);
            let put = self.leases.put(SESSIONS, expected, Bytes::new()).await;
            if let Some(revision) = put.context("counting the sessions")? {
                return Ok(revision);
            }
        }
        anyhow::bail!("others begin sessions all the time")
    }
}

/// Validates the settings of a cluster.
pub fn check(settings: &settings::Cluster) -> anyhow::Result<()> {
    if settings.servers.is_empty() {
        let text = "no NATS servers: name them in [cluster] servers, or with \
                    --set 'cluster.servers=[\"nats://HOST:4222\"]'";
        return Err(usage(anyhow::anyhow!(text)));
    }
    if !(1..=PREFIXES).contains(&settings.partitions) {
        return Err(usage(anyhow::anyhow!("cluster.partitions is a number from 1 to {PREFIXES}")));
    }
    Ok(())
}

/// Connects; prints a message while waiting for the servers.
pub async fn connected(
    settings: &settings::Cluster,
    connecting: impl Future<Output = Result<Engine, nephila_log::Error>>,
) -> anyhow::Result<Engine> {
    let servers = settings.servers.join(", ");
    tokio::pin!(connecting);
    let connected = tokio::select! {
        connected = &mut connecting => connected,
        () = tokio::time::sleep(SAY_AFTER) => {
            tracing::info!("waiting for the NATS servers ({servers}), which do not answer yet: nothing is done without them");
            connecting.await
        }
    };
    connected.map_err(|error| match error.is_unavailable() {
        true => away(format!("the NATS servers ({servers}) do not answer: {error}")),
        false => anyhow::Error::new(error).context("connecting to NATS"),
    })
}

/// An error for unreachable servers: exit code 8, a retry may help.
pub fn away(text: String) -> anyhow::Error {
    anyhow::Error::new(Exit::Unreachable).context(text)
}

impl Foundation {
    /// Fails if the format of the cluster is newer than the formats that this program knows.
    pub fn check(&self) -> anyhow::Result<()> {
        let format = self.format;
        anyhow::ensure!(
            format <= FORMAT,
            "this cluster is of format {format}, and this program knows formats up to {FORMAT}: a newer nephila has raised \
             it. Install the version that the other nodes have"
        );
        Ok(())
    }
}

/// The foundation, if the cluster is founded.
pub async fn founded(leases: &dyn Leases) -> anyhow::Result<Option<Foundation>> {
    let Some(item) = leases.record(FOUNDATION).await.context("reading the cluster's record")? else {
        return Ok(None);
    };
    let founded: Foundation = serde_json::from_slice(&item.value).context("the cluster's record")?;
    founded.check()?;
    Ok(Some(founded))
}

/// Returns the foundation, and writes a new one with a random secret if the cluster is not founded yet.
pub async fn found(leases: &dyn Leases, partitions: u32) -> anyhow::Result<Foundation> {
    for _ in 0..TRIES_MAX {
        if let Some(founded) = founded(leases).await? {
            return Ok(founded);
        }
        let secret = new_secret()?.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let founded = Foundation { partitions, secret, format: first_format() };
        let value = serde_json::to_vec(&founded).context("the cluster's record as JSON")?;
        let put = leases.put(FOUNDATION, None, value.into()).await;
        if put.context("writing the cluster's record")?.is_some() {
            return Ok(founded);
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
    anyhow::bail!("the cluster's record can be neither read nor written")
}

/// Raises the format of a cluster, if lower: programs that do not know the new format can no longer join.
async fn raise(leases: &dyn Leases, format: u32) -> anyhow::Result<()> {
    for _ in 0..TRIES_MAX {
        let item = leases.record(FOUNDATION).await.context("reading the cluster's record")?;
        let item = item.context("the cluster's record is gone")?;
        let founded: Foundation = serde_json::from_slice(&item.value).context("the cluster's record")?;
        if founded.format >= format {
            return Ok(());
        }
        // Fields of a newer program are preserved.
        let mut raised: serde_json::Value = serde_json::from_slice(&item.value)?;
        raised["format"] = format.into();
        let value = serde_json::to_vec(&raised).context("the cluster's record as JSON")?;
        let put = leases.put(FOUNDATION, Some(item.revision), value.into()).await;
        if put.context("writing the cluster's record")?.is_some() {
            return Ok(());
        }
    }
    anyhow::bail!("others write the cluster's record all the time: try again")
}

/// Parses a secret of 32 hexadecimal digits; none for any other text.
pub fn parse_secret(text: &str) -> Option<Secret> {
    let mut secret = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in secret.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(Secret(secret))
}

/// Everything that a node has from start to end.
#[derive(Debug)]
pub struct Node {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    pub(crate) cluster: Cluster,
    pub(crate) archive: nephila_store::archive::Archive,
    pub(crate) spider: nephila_spider::Spider,
    pub(crate) fetch: Arc<dyn nephila_engine::crawl::stage::Fetch>,
    pub(crate) log: log::Writer,
    pub(crate) jobs: Arc<nephila_engine::crawl::jobs::Jobs>,
    /// The stop list in force: sites that are never requested.
    pub(crate) stop_list: Arc<nephila_engine::stop_list::LiveStopList>,
    /// Open while the lease is held.
    pub(crate) gate: Gate,
    /// Address of the API; empty without one.
    pub(crate) address: String,
    /// State shared with other tasks.
    pub(crate) known: known::Known,
    /// Snapshots of partitions, if there is an object store.
    snapshots: Option<snapshot::Snapshots>,
    /// Permits for taking snapshots.
    snapshot_permits: Arc<tokio::sync::Semaphore>,
    /// Outage state of the snapshots.
    trouble: Arc<alarm::Trouble>,
    /// How far logs go.
    tails: tails::Tails,
    /// The event stream, if configured.
    pub(crate) events: Option<events::Telling>,
}

impl Node {
    /// The uploader of the archive, if configured.
    pub fn uploads(&self) -> anyhow::Result<Option<upload::Uploads>> {
        let settings = &self.settings.cluster;
        let objects = match settings.archive_upload {
            ArchiveUpload::No => None,
            ArchiveUpload::Closed => self.cluster.objects(settings)?,
        };
        let keep = settings.archive_keep_local;
        let tables = Writer::new(self.folder.dir(), &self.settings)?;
        let waits = |uploads: upload::Uploads| uploads.measured(self.known.measured.uploads());
        let uploads =
            objects.map(|objects| upload::Uploads::new(&self.folder, &objects, &self.name, tables, keep));
        Ok(uploads.map(waits))
    }
}

/// Names archive files after the node, unless the settings have a name: so two nodes never write files of one name.
pub fn name_files(store: &mut nephila_store::archive::Settings, node: &str) {
    if store.node == nephila_store::archive::Settings::default().node {
        node.clone_into(&mut store.node);
    }
}

/// The name of this node: the one in the settings, or else the machine's.
pub fn name_in(settings: &Settings) -> String {
    let name = match &*settings.cluster.node {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect()
}

/// Runs a node until a signal or its drain ends it.
pub fn run(folder: Folder, mut settings: Settings) -> anyhow::Result<Exit> {
    let name = name_in(&settings);
    // What is committed waits for a server's disk, not for ours: small groups would be many messages.
    settings.worker.group_delay = settings.cluster.group_delay;
    settings.worker.group_delay_max = settings.cluster.group_delay * GROUP_PATIENCE;
    name_files(&mut settings.store, &name);
    let _lock = folder.lock()?;
    nephila_engine::private::tighten(folder.dir());
    nephila_engine::process::raise_handle_limit(
        u32::try_from(settings.crawl.concurrency).unwrap_or(u32::MAX),
    );
    let runtime = nephila_engine::process::runtime(settings.crawl.threads)?;
    let exit = nephila_engine::process::block_on(&runtime, async {
        let bound = api::bind(&settings, &name).await?;
        let address = bound.as_ref().map(|bound| bound.address.clone()).unwrap_or_default();
        folder.set_node(&name, &settings)?;
        let cluster = Cluster::connect(&settings.cluster).await?;
        let archive = wire::archive(folder.dir(), &settings)?;
        let (log, _log_thread) = log::Writer::open(&folder.logs()).context("opening the log")?;
        let spider = wire::spider(&settings)?;
        let (jobs, stop_list, known, gate): (_, _, _, Gate) = Default::default();
        let fetch = wire::fetch(&settings, &spider, Some(gate.clone())).await?;
        let snapshots = cluster.snapshots(&settings.cluster)?;
        let snapshot_permits = Arc::new(tokio::sync::Semaphore::new(snapshot::AT_ONCE));
        let trouble = Arc::new(alarm::Trouble::new(cluster.leases.clone(), "snapshots", &name));
        let tails = tails::Tails::new(&name);
        let events = match settings.cluster.events {
            true => Some(events::Telling::begin(&cluster, settings.cluster.events_bytes, &name).await?),
            false => None,
        };
        let node = Arc::new(Node {
            name,
            settings,
            folder,
            cluster,
            archive,
            spider,
            fetch,
            log,
            jobs,
            stop_list,
            gate,
            address,
            known,
            snapshots,
            snapshot_permits,
            trouble,
            tails,
            events,
        });
        // Before the first answer: whoever reads it may send a signal at once.
        let mut signals = nephila_engine::process::Signals::new()?;
        let _serving = api::start(&node, bound)?;
        let uploads = node.uploads()?;
        // Tables are sent with the archive; without an upload, a thread writes them.
        let tables = match uploads {
            None => Some(Tables::start(node.folder.dir(), &node.settings)?),
            Some(_) => None,
        };
        let trouble = alarm::Trouble::new(node.cluster.leases.clone(), "archive", &node.name);
        let sending = uploads.clone().map(|uploads| session::Task::spawn(uploads.run(trouble)));
        let exit = shell::run(&node, &mut signals, &Service::of_environment()).await?;
        node.archive.close().await.context("closing the archive")?;
        if let Some(tables) = tables {
            tables.finish(&mut signals).await?;
        }
        drop(sending);
        if let Some(uploads) = uploads {
            // Files not sent by then are sent by the next process.
            let last = async {
                uploads.pass().await?;
                uploads.write_paths().await
            };
            match tokio::time::timeout(LAST_UPLOADS_MAX, last).await {
                Ok(Err(error)) => tracing::warn!(
                    error = %format_args!("{error:#}"),
                    "not everything of the archive is stored: {error:#}"
                ),
                Err(_) => tracing::warn!("not everything of the archive is stored yet"),
                Ok(Ok(())) => {}
            }
        }
        Ok(exit)
    });
    runtime.shutdown_background();
    exit
}

#[cfg(test)]
mod tests;
