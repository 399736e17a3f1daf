//! What a person says to a cluster: jobs, status, drain. It speaks to the servers as a node does, and needs none.

use std::io::Write as _;

use anyhow::Context;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::member::OwnerState;
use nephila_core::cluster::message::{Message, OfferedUrl};
use nephila_core::entry::Entry;
use nephila_core::job::{Hops, Job, State};
use nephila_core::url::CrawlUrl;
use tokio::task::JoinSet;

use super::Cluster;
use super::jobs::{JobRecord, JobStore};
use super::route::partition_of;
use super::session::DRAIN;
use super::shell::view;
use crate::cli::Common;
use crate::cli::cluster::{ClusterCommand, JobCommand, JobCreateArgs};
use crate::crawl::meant;
use crate::exit::Exit;
use crate::settings::{self, usage};
use crate::worker::{Link, offered};

/// Messages under way at once.
const SENDS_MAX: usize = 32;
/// Seeds in one message.
const SEEDS_IN_MESSAGE: usize = 500;

/// Runs `nephila job`.
pub(crate) fn job(command: JobCommand) -> anyhow::Result<Exit> {
    match command {
        JobCommand::Create(args) => with(&args.common.clone(), async |cluster| create(&cluster, &args).await),
        JobCommand::List { json, common } => with(&common, async |cluster| list(&cluster, json).await),
        JobCommand::Pause(args) => {
            with(&args.common, async |cluster| set(&cluster, &args.name, State::Paused).await)
        }
        JobCommand::Resume(args) => {
            with(&args.common, async |cluster| set(&cluster, &args.name, State::Running).await)
        }
        JobCommand::Stop(args) => {
            with(&args.common, async |cluster| set(&cluster, &args.name, State::Stopped).await)
        }
    }
}

/// Runs `nephila cluster`.
pub(crate) fn cluster(command: ClusterCommand) -> anyhow::Result<Exit> {
    match command {
        ClusterCommand::Status { json, common } => {
            with(&common, async |cluster| status(&cluster, json).await)
        }
        ClusterCommand::Drain { node, common } => with(&common, async |cluster| drain(&cluster, &node).await),
    }
}

/// Connects and does something.
fn with(common: &Common, work: impl AsyncFnOnce(Cluster) -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    let settings = settings::load(common)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async { work(Cluster::connect(&settings.cluster).await?).await })
}

async fn create(cluster: &Cluster, args: &JobCreateArgs) -> anyhow::Result<Exit> {
    let job = meant::job(&args.name, &args.urls, &args.seeds, &args.what)?;
    let job = JobStore::new(cluster.leases.clone()).create(job).await?;
    tell(cluster, &job).await?;
    let sent = send_seeds(cluster, &job).await?;
    say(&format!("job {} ({}): {sent} seeds sent", job.name, job.id));
    Ok(Exit::Done)
}

/// Every partition learns of a job, without its seeds: those are for who judges links.
async fn tell(cluster: &Cluster, job: &Job) -> anyhow::Result<()> {
    let mut told = job.clone();
    told.scope.seeds.clear();
    let message = Message::Command(Box::new(Entry::Job(Box::new(told)))).encode(&cluster.secret);
    send(cluster, (0..cluster.partitions).map(|partition| (partition, message.clone()))).await
}

async fn send_seeds(cluster: &Cluster, job: &Job) -> anyhow::Result<usize> {
    let mut by_partition: std::collections::BTreeMap<u32, Vec<OfferedUrl>> = Default::default();
    let mut count = 0;
    for url in job.scope.seeds.iter().filter_map(|seed| CrawlUrl::parse(seed).ok()) {
        let link = Link {
            url,
            job: job.id,
            depth: 0,
            priority: job.priority,
            hits: 0,
            hops: Hops::NONE,
            read_as: Default::default(),
            refusal: None,
        };
        let offered = offered(&link, &cluster.secret);
        let partition = partition_of(offered.key.host.domain, cluster.partitions);
        by_partition.entry(partition).or_default().push(offered);
        count += 1;
    }
    let mut messages = Vec::new();
    for (partition, seeds) in by_partition {
        for offers in seeds.chunks(SEEDS_IN_MESSAGE) {
            let message = Message::Offers { from: NodeId::default(), offers: offers.to_vec() };
            messages.push((partition, message.encode(&cluster.secret)));
        }
    }
    send(cluster, messages).await?;
    Ok(count)
}

/// Sends messages, some at once; returns when all of them have arrived.
async fn send(cluster: &Cluster, messages: impl IntoIterator<Item = (u32, Vec<u8>)>) -> anyhow::Result<()> {
    let mut sends = JoinSet::new();
    for (partition, message) in messages {
        if sends.len() >= SENDS_MAX {
            sends.join_next().await.expect("there are some")??;
        }
        let inbox = cluster.inbox.clone();
        let id = uuid::Uuid::now_v7().as_u128();
        sends.spawn(async move {
            let sent = inbox.publish(partition, id, message.into()).await;
            sent.map(|_| ()).with_context(|| format!("telling partition {partition}"))
        });
    }
    while let Some(sent) = sends.join_next().await {
        sent??;
    }
    Ok(())
}

async fn list(cluster: &Cluster, json: bool) -> anyhow::Result<Exit> {
    for JobRecord { job, .. } in JobStore::new(cluster.leases.clone()).all().await? {
        match json {
            true => say(&serde_json::to_string(&job).context("the job as JSON")?),
            false => say(&format!(
                "{:>4}  {:<24} {:<8} {} seeds, scope {:?}",
                job.id,
                job.name,
                job.state.name(),
                job.scope.seeds.len(),
                job.scope.kind
            )),
        }
    }
    Ok(Exit::Done)
}

async fn set(cluster: &Cluster, name: &str, state: State) -> anyhow::Result<Exit> {
    let store = JobStore::new(cluster.leases.clone());
    let all = store.all().await?;
    let Some(record) = all.iter().find(|record| record.job.name == name) else {
        return Err(usage(anyhow::anyhow!("there is no job {name}: see `nephila job list`")));
    };
    let changed = store.change(record.job.id, |record| record.job.state = state).await?;
    let changed = changed.context("the job is gone")?;
    tell(cluster, &changed.job).await?;
    say(&format!("job {name}: {}", state.name()));
    Ok(Exit::Done)
}

async fn status(cluster: &Cluster, json: bool) -> anyhow::Result<Exit> {
    let view = view(&*cluster.leases).await.context("the servers do not answer")?;
    let live = |node, incarnation| {
        view.nodes.iter().find(|lives| lives.node == node && lives.incarnation == incarnation)
    };
    let mut owned = std::collections::BTreeMap::<&str, u32>::new();
    for (_, record) in view.owners.values() {
        if let (OwnerState::Owned, Some(node)) = (record.state, live(record.node, record.incarnation)) {
            *owned.entry(&node.name).or_default() += 1;
        }
    }
    let without = cluster.partitions - owned.values().sum::<u32>();
    if json {
        let nodes: Vec<_> = view
            .nodes
            .iter()
            .map(|node| {
                let partitions = owned.get(&*node.name).copied().unwrap_or(0);
                serde_json::json!({"name": node.name, "draining": node.draining, "partitions": partitions})
            })
            .collect();
        let status = serde_json::json!({
            "partitions": cluster.partitions,
            "without_owner": without,
            "nodes": nodes,
        });
        say(&status.to_string());
    } else {
        say(&format!("{} partitions, {} nodes", cluster.partitions, view.nodes.len()));
        for node in &view.nodes {
            let partitions = owned.get(&*node.name).copied().unwrap_or(0);
            let leaving = if node.draining { ", leaving" } else { "" };
            say(&format!("  {:<24} {partitions} partitions{leaving}", node.name));
        }
        if without > 0 {
            say(&format!("  {without} partitions have no live owner: start a node, or wait for a take-over"));
        }
    }
    Ok(if without == 0 { Exit::Done } else { Exit::Failed })
}

async fn drain(cluster: &Cluster, node: &str) -> anyhow::Result<Exit> {
    let key = format!("{DRAIN}{node}");
    let expected = cluster.leases.record(&key).await.context("reading")?.map(|item| item.revision);
    let put = cluster.leases.put(&key, expected, "now".into()).await.context("writing")?;
    anyhow::ensure!(put.is_some(), "somebody else said the same at this moment: try again");
    say(&format!("node {node} is asked to hand everything over; see `nephila cluster status`"));
    Ok(Exit::Done)
}

fn say(line: &str) {
    // Nobody may be listening.
    _ = writeln!(std::io::stdout(), "{line}");
}
