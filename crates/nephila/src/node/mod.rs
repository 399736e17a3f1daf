//! `nephila serve`: one node of a cluster.
//!
//! `shell` carries out what [`Member`](nephila_core::cluster::member::Member) decides: the lease, the view, claims, and
//! which partitions are opened and given up. A node works in **sessions**: from the moment its lease is acquired to the
//! moment it is lost ([`session`]). A session has a worker, a loop that fetches, and a fence; when the lease may run out
//! the fence falls, everything of the session ends at once as if the process had been killed, and the node begins again as
//! another incarnation. `parts` opens partitions and reads their inboxes, `route` sends links to the partitions of others,
//! `jobs` knows what is crawled for, `command` is what a person says to a cluster.
//!
//! What always holds: nothing is fetched and nothing is written in the name of a partition unless the lease is held, on a
//! clock that goes on while the machine sleeps.

pub(crate) mod command;
mod jobs;
mod parts;
mod route;
mod session;
mod shell;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use nephila_core::frontier::key::{PREFIXES, Secret};
use nephila_log::jetstream::Engine;
use nephila_log::{Inbox, Leases};
use serde::{Deserialize, Serialize};

use crate::cli::cluster::ServeArgs;
use crate::clock::Gate;
use crate::exit::Exit;
use crate::folder::{Folder, new_secret};
use crate::settings::{Settings, usage};
use crate::{log, settings, wire};

pub use route::Router;

/// What is fixed for the life of a cluster, as it is written down.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
struct Foundation {
    partitions: u32,
    /// The key under which URLs are hashed, in hexadecimal.
    secret: String,
}

/// The record of it.
const FOUNDATION: &str = "cluster";
/// The record whose revisions number the sessions.
const SESSIONS: &str = "session";
/// How often a record is tried while others write it.
const TRIES_MAX: usize = 20;
/// A new cluster's first node may still be writing.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// A connection to a cluster, and what is fixed there.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) engine: Engine,
    pub(crate) inbox: Arc<dyn Inbox>,
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) secret: Secret,
    pub(crate) partitions: u32,
}

impl Cluster {
    /// Connects, and founds the cluster if nobody has.
    pub(crate) async fn connect(settings: &settings::Cluster) -> anyhow::Result<Cluster> {
        if settings.servers.is_empty() {
            let text = "no NATS servers: name them in [cluster] servers, or with \
                        --set 'cluster.servers=[\"nats://HOST:4222\"]'";
            return Err(usage(anyhow::anyhow!(text)));
        }
        if !(1..=PREFIXES).contains(&settings.partitions) {
            return Err(usage(anyhow::anyhow!("cluster.partitions is a number from 1 to {PREFIXES}")));
        }
        let engine = Engine::connect(settings.engine()).await.context("connecting to NATS")?;
        let leases: Arc<dyn Leases> = Arc::new(engine.leases());
        let inbox: Arc<dyn Inbox> = Arc::new(engine.inbox());
        let Foundation { partitions, secret } = found(&*leases, settings.partitions).await?;
        if partitions != settings.partitions {
            eprintln!(
                "nephila: the cluster {} has {partitions} partitions, whatever the settings say",
                settings.name
            );
        }
        let secret = parse_secret(&secret).context("the secret of the cluster")?;
        Ok(Cluster { engine, inbox, leases, secret, partitions })
    }

    /// A number that no session of any node ever had.
    pub(crate) async fn session_number(&self) -> anyhow::Result<u64> {
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

async fn found(leases: &dyn Leases, partitions: u32) -> anyhow::Result<Foundation> {
    for _ in 0..TRIES_MAX {
        if let Some(item) = leases.record(FOUNDATION).await.context("reading the cluster's record")? {
            return serde_json::from_slice(&item.value).context("the cluster's record");
        }
        let secret = new_secret()?.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let founded = Foundation { partitions, secret };
        let value = serde_json::to_vec(&founded).context("the cluster's record as JSON")?;
        let put = leases.put(FOUNDATION, None, value.into()).await;
        if put.context("writing the cluster's record")?.is_some() {
            return Ok(founded);
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
    anyhow::bail!("the cluster's record can be neither read nor written")
}

fn parse_secret(text: &str) -> Option<Secret> {
    let mut secret = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in secret.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(Secret(secret))
}

/// Everything that a node has from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    pub(crate) folder: Folder,
    pub(crate) cluster: Cluster,
    pub(crate) archive: nephila_store::archive::Archive,
    pub(crate) spider: nephila_spider::Spider,
    pub(crate) log: log::Writer,
    pub(crate) jobs: Arc<crate::crawl::jobs::Jobs>,
    /// Open while the lease is held.
    pub(crate) gate: Gate,
}

/// Runs the command.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.output.as_deref());
    let mut settings = settings::load(&args.common)?;
    if let Some(node) = &args.node {
        settings.cluster.node.clone_from(node);
    }
    // What is committed waits for a server's disk, not for ours: small groups would be many messages.
    settings.worker.group_delay = settings.cluster.group_delay;
    let name = match &*settings.cluster.node {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
    let _lock = folder.lock()?;
    crate::fetch::raise_handle_limit(u32::try_from(settings.crawl.concurrency).unwrap_or(u32::MAX));
    let runtime = crate::crawl::runtime(settings.crawl.threads)?;
    let exit = runtime.block_on(async {
        let cluster = Cluster::connect(&settings.cluster).await?;
        let archive = wire::archive(folder.dir(), &settings)?;
        let (log, _log_thread) = log::Writer::open(&folder.logs()).context("opening the log")?;
        let spider = wire::spider(&settings)?;
        let jobs = Arc::default();
        let gate = Gate::default();
        let node = Arc::new(Node { name, settings, folder, cluster, archive, spider, log, jobs, gate });
        let exit = shell::run(&node).await?;
        node.archive.close().await.context("closing the archive")?;
        Ok(exit)
    });
    runtime.shutdown_background();
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_as_it_was_written_and_nothing_else() {
        let secret = parse_secret("000102030405060708090a0b0c0d0eff").unwrap();
        assert_eq!((secret.0[1], secret.0[15]), (1, 255));
        for wrong in ["", "00", "zz0102030405060708090a0b0c0d0eff", "é00102030405060708090a0b0c0d0eff"] {
            assert!(parse_secret(wrong).is_none(), "{wrong}");
        }
    }
}
