//! The operations of a node of a cluster.

use std::sync::LazyLock;

use nephila_api::operation::{Kind, Operation, Parameter, Verb, change, get, part, query};
use nephila_api::views::Changed;
use nephila_api::{FORWARDED, HttpAnswer, HttpQuestion, Route, Routes, ok, operations as of, route, shapes};
use nephila_api::{agent, dashboard, live, public, ready, session, web, whole_page};
use nephila_engine::settings::Role;

use super::super::jobs::JobRecord;
use super::super::views::{
    ClusterView, Created, JobChange, JobView, MapView, NodeSaid, PartitionView, PinView, SpreadView,
};
use super::overview::JobWhole;
use super::{Api, Instead, SelfView};

/// The domain of an operation.
const DOMAIN: Parameter = part("domain", "The registrable domain.");

static NODE: Operation = get("getNode", "/api/v1/node", "This node: its lease, its faults, its statistics.")
    .tag("cluster")
    .gives::<SelfView>();
static CLUSTER: Operation = get("getCluster", "/api/v1/cluster", "The cluster with its alarms.")
    .tag("cluster")
    .gives::<ClusterView>();
static NODES: Operation =
    get("listNodes", "/api/v1/cluster/nodes", "The live nodes, each with its own report.")
        .tag("cluster")
        .gives::<Vec<NodeSaid>>()
        .rows("");
static PARTITIONS: Operation =
    get("listPartitions", "/api/v1/cluster/partitions", "All partitions, each with its owner.")
        .tag("cluster")
        .gives::<Vec<PartitionView>>()
        .rows("");
static MAP: Operation =
    get("listDomains", "/api/v1/cluster/map", "Which node crawls which domain, page by page.")
        .tag("cluster")
        .with(&[query("from", Kind::Text, "The cursor `next` of the page before.")])
        .gives::<MapView>()
        .rows("domains");
static DRAIN: Operation = change(
    Verb::Post,
    Role::Admin,
    "drainNode",
    "/api/v1/cluster/drain/{node}",
    "Asks a node to hand over its partitions and leave.",
)
.tag("cluster")
.with(&[part("node", "Name of the node.")])
.gives::<Draining>();
static PINS: Operation = get("listPins", "/api/v1/cluster/pins", "Domains that operators assigned to nodes.")
    .tag("cluster")
    .gives::<Vec<PinView>>()
    .rows("");
static PIN: Operation = change(
    Verb::Post,
    Role::Admin,
    "pinDomain",
    "/api/v1/cluster/pins/{domain}",
    "Assigns a domain to a node.",
)
.tag("cluster")
.with(&[DOMAIN, query("to", Kind::Text, "Name of the node.").required()])
.gives::<PinView>();
static UNPIN: Operation = change(
    Verb::Delete,
    Role::Admin,
    "unpinDomain",
    "/api/v1/cluster/pins/{domain}",
    "Takes an assignment back.",
)
.tag("cluster")
.with(&[DOMAIN])
.gives::<PinView>();
static SPREADS: Operation =
    get("listSpreads", "/api/v1/cluster/spread", "Domains whose hosts are divided over all nodes.")
        .tag("cluster")
        .gives::<Vec<SpreadView>>()
        .rows("");
static SPREAD: Operation = change(
    Verb::Post,
    Role::Admin,
    "spreadDomain",
    "/api/v1/cluster/spread/{domain}",
    "Divides the hosts of a domain over all nodes.",
)
.tag("cluster")
.with(&[DOMAIN])
.gives::<SpreadView>();
static JOBS: Operation = get("listJobs", "/api/v1/jobs", "All jobs, each with its progress.")
    .tag("jobs")
    .gives::<Vec<JobView>>()
    .rows("");
static CREATE: Operation = change(
    Verb::Post,
    Role::Operate,
    "createJob",
    "/api/v1/jobs",
    "Creates a job. With `list=true` the seeds follow as a list.",
)
.tag("jobs")
.with(&[query(
    "list",
    Kind::Word(&["true", "false"]),
    "Whether the seeds follow, with addSeeds and endSeeds.",
)])
.takes::<shapes::Job>()
.gives::<Created>()
.status(201);
static JOB_OF: Operation = get("getJob", "/api/v1/jobs/{job}", "A job with its progress.")
    .tag("jobs")
    .with(&[of::JOB_NAME])
    .gives::<JobWhole>();
static CHANGE: Operation = change(
    Verb::Patch,
    Role::Operate,
    "changeJob",
    "/api/v1/jobs/{job}",
    "Changes a job; fields that are not named stay.",
)
.tag("jobs")
.with(&[of::JOB_NAME])
.takes::<JobChange>()
.gives::<JobRecord>();
static PAUSE: Operation = of::PAUSE_JOB.gives::<JobRecord>();
static RESUME: Operation = of::RESUME_JOB.gives::<JobRecord>();
static STOP: Operation = of::STOP_JOB.gives::<JobRecord>();
static SEEDS: Operation = change(
    Verb::Post,
    Role::Operate,
    "addSeeds",
    "/api/v1/jobs/{job}/seeds",
    "Seeds of a job created with `list=true`, one per line.",
)
.tag("jobs")
.with(&[of::JOB_NAME])
.takes_text(&["text/plain"])
.gives_text(&["application/json"]);
static LISTED: Operation = change(
    Verb::Post,
    Role::Operate,
    "endSeeds",
    "/api/v1/jobs/{job}/listed",
    "The list of seeds is complete.",
)
.tag("jobs")
.with(&[of::JOB_NAME])
.gives::<Changed>();
static SEEDED: Operation = change(
    Verb::Post,
    Role::Operate,
    "endSeeding",
    "/api/v1/jobs/{job}/seeded",
    "All seeds were sent with addUrls too.",
)
.tag("jobs")
.with(&[of::JOB_NAME])
.gives::<Changed>();

/// A node that was asked to leave.
#[derive(schemars::JsonSchema, serde::Serialize)]
struct Draining<'a> {
    /// Name of the node.
    node: &'a str,
    /// True.
    draining: bool,
}

/// See the module.
pub(super) static ROUTES: LazyLock<Routes<Api>> = LazyLock::new(|| {
    let common = dashboard::routes().into_iter().chain(session::routes()).chain(live::routes());
    let common = common.chain(public::routes());
    Routes::new(
        "Nephila, a node of a cluster",
        reads().into_iter().chain(jobs()).chain(changes()).chain(common).chain(agent::routes()),
    )
});

/// An answer, or the problem instead.
fn said(answered: Result<HttpAnswer, Instead>) -> HttpAnswer {
    answered.unwrap_or_else(|instead| *instead)
}

fn reads() -> Vec<Route<Api>> {
    vec![
        route::<Api>(&of::LIVEZ, |_, _| Box::pin(async { ok(&"alive") })),
        route(&of::READYZ, |api, asked| Box::pin(async move { said(api.readyz(&asked).await) })),
        route(&of::METRICS, |api, _| Box::pin(api.metrics())),
        route(&of::DOCUMENT, |_, asked| Box::pin(async move { ROUTES.document_for(&asked) })),
        route(&of::EXPLAIN, |api, asked| Box::pin(async move { said(api.explain(&asked).await) })),
        route(&of::HOST, |api, asked| Box::pin(async move { said(api.host(&asked).await) })),
        route(&of::FEEDS, |api, asked| Box::pin(async move { said(api.feeds(&asked).await) })),
        route(&of::FEED, |api, asked| Box::pin(async move { said(api.feed(&asked).await) })),
        route(&of::EVENTS, |api, asked| Box::pin(async move { said(api.events(&asked).await) })),
        route(&of::PAGES, |api, asked| Box::pin(async move { said(api.page_or_whole(&asked).await) })),
        route(&of::SEARCH, |api, asked| Box::pin(async move { said(api.search(&asked).await) })),
        route(&of::STATS, |api, _| Box::pin(async move { said(api.stats().await) })),
        route(&of::STATUS, |api, asked| Box::pin(async move { said(api.status(&asked).await) })),
        route(&of::HISTORY, |api, asked| Box::pin(async move { said(api.history(&asked).await) })),
        route(&of::HOSTS, |api, asked| Box::pin(async move { said(api.hosts(&asked).await) })),
        route(&of::TIMELINE, |api, asked| Box::pin(async move { said(api.timeline(&asked).await) })),
        route(&of::POLITENESS, |api, asked| Box::pin(async move { said(api.politeness(&asked).await) })),
        route(&of::ARCHIVE, |api, asked| Box::pin(async move { said(api.archive_files(&asked).await) })),
        route(&of::SETTINGS, |api, _| Box::pin(async move { said(api.settings()) })),
        route(&of::LOG, |api, asked| Box::pin(async move { said(api.log(&asked).await) })),
        route(&of::SCOPE_TEST, |api, asked| Box::pin(async move { said(api.scope_test(&asked).await) })),
        route(&of::SPIDERS, |api, asked| Box::pin(async move { said(api.spiders(&asked).await) })),
        route(&of::CDX, |api, asked| Box::pin(async move { web::answer(&asked, &api.archive, api).await })),
        route(&of::WEB, |api, asked| Box::pin(async move { web::answer(&asked, &api.archive, api).await })),
        route(&NODE, |api, _| Box::pin(async move { ok(&api.about_itself().await) })),
        route(&CLUSTER, |api, asked| Box::pin(async move { said(api.cluster(&asked).await) })),
        route(&NODES, |api, _| Box::pin(async move { said(api.nodes().await) })),
        route(&PARTITIONS, |api, _| Box::pin(async move { said(api.partitions().await) })),
        route(&MAP, |api, asked| Box::pin(async move { said(api.map(&asked).await) })),
        route(&PINS, |api, _| Box::pin(async move { said(api.pins().await) })),
        route(&SPREADS, |api, _| Box::pin(async move { said(api.spreads().await) })),
        route(&of::STOPS, |api, _| Box::pin(async move { said(api.stops().await) })),
    ]
}

fn jobs() -> Vec<Route<Api>> {
    vec![
        route::<Api>(&JOBS, |api, _| Box::pin(async move { said(api.jobs().await) })),
        route(&CREATE, |api, asked| Box::pin(async move { said(api.create(&asked).await) })),
        route(&JOB_OF, |api, asked| {
            Box::pin(async move { said(api.job_whole(asked.part("job"), &asked).await) })
        }),
        route(&CHANGE, |api, asked| {
            Box::pin(async move { said(api.change(asked.part("job"), &asked).await) })
        }),
        route(&PAUSE, |api, asked| Box::pin(async move { said(api.set(asked.part("job"), "pause").await) })),
        route(&RESUME, |api, asked| {
            Box::pin(async move { said(api.set(asked.part("job"), "resume").await) })
        }),
        route(&STOP, |api, asked| Box::pin(async move { said(api.set(asked.part("job"), "stop").await) })),
        route(&SEEDS, |api, asked| {
            Box::pin(async move { said(api.seed(asked.part("job"), "seeds", &asked).await) })
        }),
        route(&LISTED, |api, asked| {
            Box::pin(async move { said(api.seed(asked.part("job"), "listed", &asked).await) })
        }),
        route(&SEEDED, |api, asked| {
            Box::pin(async move { said(api.seed(asked.part("job"), "seeded", &asked).await) })
        }),
    ]
}

fn changes() -> Vec<Route<Api>> {
    vec![
        route::<Api>(&of::ADD, |api, asked| Box::pin(async move { said(api.add(&asked).await) })),
        route(&of::REFLOG, |api, asked| Box::pin(async move { said(api.stream(&asked).await) })),
        route(&of::SET_HOST, |api, asked| Box::pin(async move { said(api.set_host(&asked).await) })),
        route(&DRAIN, |api, asked| Box::pin(async move { said(api.drain(asked.part("node")).await) })),
        route(&PIN, |api, asked| Box::pin(async move { said(api.pin(asked.part("domain"), &asked).await) })),
        route(&UNPIN, |api, asked| Box::pin(async move { said(api.unpin(asked.part("domain")).await) })),
        route(&SPREAD, |api, asked| Box::pin(async move { said(api.spread(asked.part("domain")).await) })),
        route(&of::ADD_STOPS, |api, asked| Box::pin(async move { said(api.stop(&asked).await) })),
        route(&of::END_STOP, |api, asked| Box::pin(async move { said(api.unstop(&asked).await) })),
    ]
}

impl Api {
    /// `GET /readyz`.
    async fn readyz(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        match ready::is_for_reads(asked)? {
            true => ready::answer(asked, self).await,
            false => self.session().map(|_| ok(&self.node.known.state())),
        }
    }

    /// `GET pages`: a capture, or a whole page.
    async fn page_or_whole(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        match asked.field(FORWARDED).is_none() && whole_page::is_wanted(asked)? {
            true => whole_page::whole_page(asked, &self.archive, self).await,
            false => self.pages(asked).await,
        }
    }

    /// `GET stats`.
    async fn stats(&self) -> Result<HttpAnswer, Instead> {
        let questions = self.questions(&*self.session()?);
        Ok(ok(&self.bounded(questions.stats()).await?))
    }

    /// `GET cluster/spread`.
    async fn spreads(&self) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.node.cluster.spreads().await?))
    }

    /// `POST cluster/spread/DOMAIN`.
    async fn spread(&self, domain: &str) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.node.cluster.spread(domain).await?))
    }
}

#[cfg(test)]
mod tests;
