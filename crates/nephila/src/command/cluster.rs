//! Commands for a cluster: jobs, URLs, status, drain. A command speaks to a node (`--node`), or directly to the servers
//! as a node does, and then needs no node.
//!
//! Invariants: both ways have the same effect, by the same code; text of third parties is sanitized before printing.

mod change;
mod map;
mod pins;
mod seeding;
mod sites;
mod spiders;
mod spread;
mod wait;

use std::io::Write as _;
use std::pin::Pin;
use std::time::Duration;

use nephila_core::job::{Limits, Schedule, State};
use nephila_core::text::shown;

use super::inputs::{self, Piece};
use crate::cli::cluster::{AddArgs, ClusterCommand, JobCommand, KeysArgs, LookArgs};
use crate::cli::{Common, Remote as RemoteArgs};
use nephila_api::views::Added;
use nephila_cluster::admin::{self, Adding, Error};
use nephila_cluster::jobs::JobRecord;
use nephila_cluster::remote::Remote;
use nephila_cluster::views::{ClusterView, JobChange, JobSaid, JobView, NodeSaid, PartitionView};
use nephila_cluster::{Cluster, alarm, away, heal, keys};
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::process::{block_on, small_runtime};
use nephila_engine::settings::{Settings, usage};

pub(crate) use sites::{host_set, stop};

/// Timeout of `cluster status`: unreachable servers are an answer too.
const STATUS_MAX: Duration = Duration::from_secs(10);

/// Timeout for the connection to the servers: longer than the election of a leader.
const CONNECT_MAX: Duration = Duration::from_secs(20);

/// Runs `nephila job`.
pub(crate) fn job(command: JobCommand) -> anyhow::Result<Exit> {
    match command {
        JobCommand::Create(args) => seeding::create(&args),
        JobCommand::List(LookArgs { json, remote, common }) => {
            with_existing(&common, &remote, async |who| list(&who.jobs().await?, json))
        }
        JobCommand::Show { json, job } => {
            with_existing(&job.common, &job.remote, async |who| show(&who.job(&job.name).await?, json))
        }
        JobCommand::Wait { timeout, job } => {
            let patience = timeout.unwrap_or(Duration::MAX);
            with_existing(&job.common, &job.remote, async |who| wait::wait(&who, &job.name, patience).await)
        }
        JobCommand::Set(args) => change::set(&args),
        JobCommand::Pause(args) => change::set_state(&args, State::Paused),
        JobCommand::Resume(args) => change::set_state(&args, State::Running),
        JobCommand::Stop(args) => change::set_state(&args, State::Stopped),
    }
}

/// Runs `nephila cluster`.
pub(crate) fn cluster(command: ClusterCommand) -> anyhow::Result<Exit> {
    match command {
        ClusterCommand::Status(LookArgs { json, remote, common }) => {
            within(STATUS_MAX, true, &common, &remote, async |who| status(&who.status().await?, json))
        }
        ClusterCommand::Nodes(LookArgs { json, remote, common }) => {
            with_existing(&common, &remote, async |who| nodes(&who.nodes().await?, json))
        }
        ClusterCommand::Partitions(LookArgs { json, remote, common }) => {
            with_existing(&common, &remote, async |who| partitions(&who.partitions().await?, json))
        }
        ClusterCommand::Spiders(args) => spiders::run(&args),
        ClusterCommand::Drain { name, remote, common } => with_existing(&common, &remote, async |who| {
            who.drain(&name).await?;
            say(&format!("node {name} is asked to hand everything over; see `nephila cluster status`"));
            Ok(Exit::Done)
        }),
        ClusterCommand::Pin { domain, to, remote, common } => {
            with(&common, &remote, async |who| pins::pin(&who, &domain, Some(&to)).await)
        }
        ClusterCommand::Unpin { domain, remote, common } => {
            with_existing(&common, &remote, async |who| pins::pin(&who, &domain, None).await)
        }
        ClusterCommand::Pins(LookArgs { json, remote, common }) => {
            with_existing(&common, &remote, async |who| pins::list(&who, json).await)
        }
        ClusterCommand::Spread(LookArgs { json, remote, common }) => {
            with_existing(&common, &remote, async |who| spread::list(&who, json).await)
        }
        ClusterCommand::Map { format, remote, common } => map::run(format, &remote, &common),
        ClusterCommand::Keys(args) => make_keys(args),
        ClusterCommand::Heal { partition, common, .. } => {
            with_existing(&common, &RemoteArgs::default(), async |who| who.accept_loss(partition).await)
        }
    }
}

/// Runs `nephila add`.
pub(crate) fn add(args: &AddArgs) -> anyhow::Result<Exit> {
    with(&args.common, &args.remote, async |who| {
        let mut added = Added::default();
        let mut pieces = inputs::read(args);
        while let Some(piece) = pieces.recv().await {
            match piece? {
                Piece::Lines(lines) => added.plus(who.add(&args.job, args.as_seeds, &lines).await?),
                Piece::Bad(place, why) => added.refuse(&place, why),
            }
        }
        say_added(&added, args.json)
    })
}

/// Prints the result of adding URLs.
pub(crate) fn say_added(added: &Added, json: bool) -> anyhow::Result<Exit> {
    if json {
        say(&serde_json::to_string(added)?);
    } else {
        for refused in &added.refusals {
            eprintln!("nephila: {}: {}", shown(&refused.url), shown(&refused.why));
        }
        let named = added.refusals.len() as u64;
        if added.refused > named {
            eprintln!("nephila: and {} more", added.refused - named);
        }
        say(&format!("{} taken, {} refused", added.taken, added.refused));
    }
    Ok(if added.refused == 0 { Exit::Done } else { Exit::Failed })
}

/// The peer of a command: the servers, or a node.
enum Who {
    Servers(Box<(Cluster, Settings)>),
    Node(Remote),
}

/// Connects to the peer and runs `work`.
fn with(
    common: &Common,
    remote: &RemoteArgs,
    work: impl AsyncFnOnce(Who) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    within(Duration::MAX, false, common, remote, work)
}

/// Like [`with`], for a cluster that must exist: for commands that read or change one. Creates none.
fn with_existing(
    common: &Common,
    remote: &RemoteArgs,
    work: impl AsyncFnOnce(Who) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    within(Duration::MAX, true, common, remote, work)
}

/// Like [`with`], with a timeout.
fn within(
    patience: Duration,
    looks: bool,
    common: &Common,
    remote: &RemoteArgs,
    work: impl AsyncFnOnce(Who) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    within_boxed(patience, looks, common, remote, Box::new(|who| Box::pin(async move { work(who).await })))
}

/// The work of a command. Boxed: a generic connection would be compiled once for each command.
type Work<'a> = Box<dyn FnOnce(Who) -> Pin<Box<dyn Future<Output = anyhow::Result<Exit>> + 'a>> + 'a>;

fn within_boxed(
    patience: Duration,
    looks: bool,
    common: &Common,
    remote: &RemoteArgs,
    work: Work,
) -> anyhow::Result<Exit> {
    let runtime = small_runtime()?;
    if let Some(node) = remote.open()? {
        return block_on(&runtime, work(Who::Node(node)));
    }
    let settings = common.load()?;
    let servers = settings.cluster.servers.join(", ");
    block_on(&runtime, async {
        let silent = |waited: Duration| {
            away(format!(
                "the NATS servers ({servers}) do not answer within {} s. Without them nodes stop fetching before their \
                 leases end; they go on by themselves when a majority of the servers is back",
                waited.as_secs()
            ))
        };
        let all = async {
            let connect = async {
                match looks {
                    true => Cluster::look(&settings.cluster).await,
                    false => Cluster::connect(&settings.cluster).await,
                }
            };
            let cluster =
                tokio::time::timeout(CONNECT_MAX, connect).await.map_err(|_| silent(CONNECT_MAX))??;
            work(Who::Servers(Box::new((cluster, settings)))).await
        };
        tokio::time::timeout(patience, all).await.unwrap_or_else(|_| Err(silent(patience)))
    })
}

impl Who {
    /// Heals a partition by accepting the loss of data.
    async fn accept_loss(&self, partition: u32) -> anyhow::Result<Exit> {
        let Who::Servers(to) = self else { anyhow::bail!("this is said to the servers") };
        accept_loss(&to.0, partition).await
    }

    async fn jobs(&self) -> anyhow::Result<Vec<JobView>> {
        match self {
            Who::Node(node) => node.jobs().await,
            Who::Servers(to) => to.0.said_of_all().await.map_err(said),
        }
    }

    async fn job(&self, name: &str) -> anyhow::Result<JobSaid> {
        match self {
            Who::Node(node) => node.job(name).await,
            Who::Servers(to) => to.0.said_of(name).await.map_err(said),
        }
    }

    async fn change(&self, name: &str, change: &JobChange) -> anyhow::Result<JobRecord> {
        match self {
            Who::Node(node) => node.change(name, change).await,
            Who::Servers(to) => to.0.change(name, change).await.map_err(said),
        }
    }

    async fn add(&self, job: &str, as_seeds: bool, lines: &str) -> anyhow::Result<Added> {
        match self {
            Who::Node(node) => node.add(job, as_seeds, lines).await,
            Who::Servers(to) => {
                let (cluster, settings) = &**to;
                let adding = Adding { job: Some(job.to_owned()), as_seeds };
                let now = Clock::new().now().wall;
                cluster.add(&adding, lines.lines(), settings, now).await.map_err(said)
            }
        }
    }

    async fn status(&self) -> anyhow::Result<ClusterView> {
        match self {
            Who::Node(node) => node.status().await,
            Who::Servers(to) => to.0.counted().await.map_err(said),
        }
    }

    async fn nodes(&self) -> anyhow::Result<Vec<NodeSaid>> {
        match self {
            Who::Node(node) => node.nodes().await,
            Who::Servers(_) => {
                let nodes = self.status().await?.nodes.into_iter();
                Ok(nodes.map(|node| NodeSaid { node, alarms: Vec::new(), stats: None }).collect())
            }
        }
    }

    async fn partitions(&self) -> anyhow::Result<Vec<PartitionView>> {
        match self {
            Who::Node(node) => node.partitions().await,
            Who::Servers(to) => {
                let view = to.0.view().await.map_err(said)?;
                Ok(admin::partitions(&view, to.0.partitions))
            }
        }
    }

    async fn drain(&self, name: &str) -> anyhow::Result<()> {
        match self {
            Who::Node(node) => node.drain(name).await,
            Who::Servers(to) => to.0.drain(name).await.map_err(said),
        }
    }
}

fn said(error: Error) -> anyhow::Error {
    match error {
        Error::Away(error) => {
            let is_away = |cause: &(dyn std::error::Error + 'static)| {
                cause.downcast_ref::<nephila_log::Error>().is_some_and(nephila_log::Error::is_unavailable)
            };
            if error.chain().any(is_away) { away(format!("{error:#}")) } else { error }
        }
        error => usage(error.into()),
    }
}

fn list(jobs: &[JobView], json: bool) -> anyhow::Result<Exit> {
    for job in jobs {
        match json {
            true => say(&serde_json::to_string(job)?),
            false => say(&format!(
                "{:>4}  {:<24} {:<8} {} seeds, scope {:?}, {} pages, {} URLs left",
                job.id.to_string(),
                shown(&job.name),
                wait::state(job.state, &job.progress),
                job.seeds,
                job.kind,
                job.progress.pages,
                job.progress.left
            )),
        }
    }
    Ok(Exit::Done)
}

fn show(said: &JobSaid, json: bool) -> anyhow::Result<Exit> {
    if json {
        say(&serde_json::to_string(said)?);
        return Ok(Exit::Done);
    }
    let JobSaid { record, progress } = said;
    let JobRecord { job, moved, ended, .. } = record;
    let state = wait::state(job.state, progress);
    say(&format!("job {} ({}): {state}, priority {}", shown(&job.name), job.id, job.priority));
    wait::describe(record, progress).iter().for_each(|line| say(line));
    if let Some(ended) = ended {
        say(&format!(
            "  ended      at its {}: {} pages, {} bytes, {} s",
            ended.limit, ended.pages, ended.bytes, ended.seconds
        ));
    }
    let depth = match job.scope.depth_max {
        u8::MAX => "any depth".to_owned(),
        depth => format!("{depth} links deep"),
    };
    say(&format!("  scope      {:?} around {} seeds, {depth}", job.scope.kind, record.seeds()));
    if job.scope.extra_hops > 0 {
        say(&format!("  extra      {} links out of scope", job.scope.extra_hops));
    }
    let time = humantime::format_duration;
    match job.schedule {
        Schedule::Once => {}
        Schedule::Every(interval) => say(&format!("  again      every {}", time(interval))),
        Schedule::Adaptive(of) => say(&format!(
            "  again      by how often a page changes: {} to {}, at first {}",
            time(of.interval_min),
            time(of.interval_max),
            time(of.interval)
        )),
    }
    let lists = [("include", &job.scope.include), ("exclude", &job.scope.exclude), ("moved to", moved)];
    for (name, texts) in lists {
        for text in texts {
            say(&format!("  {name:<10} {}", shown(text)));
        }
    }
    let Limits { pages_max, bytes_max, time_max, pages_per_host_max, pages_per_domain_max } = job.limits;
    for (name, limit, unit) in [
        ("limit", pages_max, "pages"),
        ("limit", bytes_max, "bytes"),
        ("limit", time_max.as_secs(), "s"),
        ("per host", pages_per_host_max, "pages"),
        ("per domain", pages_per_domain_max, "pages"),
    ] {
        if limit > 0 {
            say(&format!("  {name:<10} {limit} {unit}"));
        }
    }
    Ok(Exit::Done)
}

fn status(status: &ClusterView, json: bool) -> anyhow::Result<Exit> {
    if json {
        say(&serde_json::to_string(status)?);
    } else {
        say(&format!("{} partitions, {} nodes", status.partitions, status.nodes.len()));
        for node in &status.nodes {
            let leaving = if node.draining { ", leaving" } else { "" };
            say(&format!("  {:<24} {} partitions{leaving}", shown(&node.name), node.partitions));
        }
        for alarm in &status.alarms {
            say(&format!("  ! {}", shown(alarm)));
        }
    }
    Ok(if status.without_owner == 0 && status.alarms.is_empty() { Exit::Done } else { Exit::Failed })
}

fn nodes(nodes: &[NodeSaid], json: bool) -> anyhow::Result<Exit> {
    for NodeSaid { node, alarms, stats } in nodes {
        if json {
            say(&serde_json::to_string(&NodeSaid {
                node: node.clone(),
                alarms: alarms.clone(),
                stats: stats.clone(),
            })?);
            continue;
        }
        let leaving = if node.draining { ", leaving" } else { "" };
        let address = if node.address.is_empty() { "no API" } else { &*node.address };
        say(&format!(
            "{:<24} {:<22} {:<8} {} partitions{leaving}",
            shown(&node.name),
            shown(address),
            node.state.name(),
            node.partitions
        ));
        if let Some(stats) = stats {
            say(&format!(
                "  {} pages ended, {} fetches open, {} URLs queued, {} planned, {} parked",
                stats.ended, stats.tickets_open, stats.urls_waiting, stats.urls_later, stats.urls_parked
            ));
        }
        for alarm in alarms {
            say(&format!("  ! {}", shown(alarm)));
        }
    }
    Ok(if nodes.is_empty() { Exit::Failed } else { Exit::Done })
}

fn partitions(partitions: &[PartitionView], json: bool) -> anyhow::Result<Exit> {
    for partition in partitions {
        if json {
            say(&serde_json::to_string(partition)?);
            continue;
        }
        let node = partition.node.as_deref().unwrap_or("no live owner");
        say(&format!("{:>5}  {:<24} epoch {}", partition.partition, shown(node), partition.epoch));
    }
    let all = partitions.iter().all(|partition| partition.node.is_some());
    Ok(if all { Exit::Done } else { Exit::Failed })
}

async fn accept_loss(cluster: &Cluster, partition: u32) -> anyhow::Result<Exit> {
    if partition >= cluster.partitions {
        let last = cluster.partitions - 1;
        return Err(usage(anyhow::anyhow!("there is no partition {partition}: they go from 0 to {last}")));
    }
    let about = alarm::of_partition(partition);
    if !alarm::all(&*cluster.leases).await?.iter().any(|alarm| alarm.about == about) {
        let text = format!("there is no alarm about partition {partition}: see `nephila cluster status`");
        return Err(usage(anyhow::anyhow!(text)));
    }
    heal::ask(&*cluster.leases, partition).await?;
    say(&format!("partition {partition} goes on with what is left when it is next opened, which is soon"));
    Ok(Exit::Done)
}

fn say(line: &str) {
    // Standard output may be closed.
    _ = writeln!(std::io::stdout(), "{line}");
}

/// `nephila cluster keys`.
fn make_keys(args: KeysArgs) -> anyhow::Result<Exit> {
    let KeysArgs { dir, servers, nodes, common } = args;
    let cluster = common.load()?.cluster.name;
    print!("{}", keys::make(&keys::Wanted { dir, cluster, servers, nodes })?);
    Ok(Exit::Done)
}
