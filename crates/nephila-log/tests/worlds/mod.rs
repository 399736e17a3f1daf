//! The implementations, each as a world for the conformance checks.
#![allow(dead_code, reason = "each file of tests uses some of it")]

use std::sync::Arc;
use std::time::Duration;

use nephila_log::conformance::World;
use nephila_log::jetstream::{Engine, Settings};
use nephila_log::local::{LocalInbox, LocalLeases, LocalLog};
use nephila_log::{Fence, GroupLog, Inbox, Leases, Reply, memory};
use nephila_store::disk::RealDisk;
use nephila_store::journal;
use nephila_testnats::{Nats, Options};
use tempfile::TempDir;

/// Time to live of leases: short enough to wait for, long enough for a busy machine.
pub(crate) const LEASE_TTL: Duration = Duration::from_secs(5);

/// In memory.
pub(crate) struct Memory(pub(crate) memory::Engine);

impl Memory {
    pub(crate) fn new() -> Self {
        Memory(memory::Engine::new(LEASE_TTL))
    }
}

impl World for Memory {
    fn log(&self, partition: u32, epoch: u64, fence: Fence) -> Reply<'_, Box<dyn GroupLog>> {
        Box::pin(async move { Ok(Box::new(self.0.log(partition, epoch, fence)?) as Box<dyn GroupLog>) })
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(self.0.inbox())
    }

    fn leases(&self) -> Arc<dyn Leases> {
        Arc::new(self.0.leases())
    }

    fn lease_ttl(&self) -> Duration {
        LEASE_TTL
    }
}

/// In files.
pub(crate) struct Local {
    folder: TempDir,
    inbox: LocalInbox,
    leases: LocalLeases,
}

impl Local {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let inbox = LocalInbox::new(Arc::new(RealDisk), &folder.path().join("inbox"));
        let leases =
            LocalLeases::open(Arc::new(RealDisk), &folder.path().join("records"), LEASE_TTL).unwrap();
        Local { folder, inbox, leases }
    }

    /// Opens the same files again, like another process.
    pub(crate) fn again(self) -> Self {
        let Local { folder, .. } = self;
        let inbox = LocalInbox::new(Arc::new(RealDisk), &folder.path().join("inbox"));
        let leases =
            LocalLeases::open(Arc::new(RealDisk), &folder.path().join("records"), LEASE_TTL).unwrap();
        Local { folder, inbox, leases }
    }
}

impl World for Local {
    fn log(&self, partition: u32, _epoch: u64, fence: Fence) -> Reply<'_, Box<dyn GroupLog>> {
        Box::pin(async move {
            let folder = self.folder.path().join(format!("log-{partition}"));
            let settings = journal::Settings { segment_bytes_max: 50_000, keep_bytes: 0 };
            let (log, _) = LocalLog::open(Arc::new(RealDisk), &folder, settings, fence)?;
            Ok(Box::new(log) as Box<dyn GroupLog>)
        })
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(self.inbox.clone())
    }

    fn leases(&self) -> Arc<dyn Leases> {
        Arc::new(self.leases.clone())
    }

    fn lease_ttl(&self) -> Duration {
        LEASE_TTL
    }

    fn shuts_out(&self) -> bool {
        false
    }

    fn removes_groups(&self) -> bool {
        false
    }
}

/// On servers of its own.
pub(crate) struct Jet {
    pub(crate) engine: Engine,
    pub(crate) nats: Nats,
}

/// Settings for these servers.
pub(crate) fn settings(servers: Vec<String>, replicas: usize) -> Settings {
    Settings {
        servers,
        cluster: "test".to_owned(),
        streams: 2,
        replicas,
        lease_ttl: LEASE_TTL,
        ..Settings::default()
    }
}

impl Jet {
    pub(crate) async fn one() -> Self {
        Jet::with(Options::default()).await
    }

    pub(crate) async fn three() -> Self {
        Jet::with(Options { servers: 3, ..Options::default() }).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let nats = tokio::task::spawn_blocking(move || Nats::with(options)).await.unwrap().unwrap();
        let engine = Engine::connect(settings(nats.urls(), nats.servers())).await.unwrap();
        Jet { engine, nats }
    }
}

impl World for Jet {
    fn log(&self, partition: u32, epoch: u64, fence: Fence) -> Reply<'_, Box<dyn GroupLog>> {
        Box::pin(
            async move { Ok(Box::new(self.engine.log(partition, epoch, fence).await?) as Box<dyn GroupLog>) },
        )
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(self.engine.inbox())
    }

    fn leases(&self) -> Arc<dyn Leases> {
        Arc::new(self.engine.leases())
    }

    fn lease_ttl(&self) -> Duration {
        LEASE_TTL
    }
}
