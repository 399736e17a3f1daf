//! HTTP API of a node: any node answers for any URL, by forwarding the request to the owner.
//!
//! The same [`Api`] serves the folder's socket and TCP. A request about a URL goes to the owner of the URL's partition,
//! with one hop at most: a node that receives a forwarded request answers or fails (`others`). Pages come from the
//! archive of the owner, or from the archives of other nodes (`pages`). Requests about jobs and the cluster go to the
//! servers, whichever node receives the request (`said`).
//!
//! Invariants: a request is forwarded at most once; an answer about a URL comes from a node that held the partition
//! before and after the query; a request that cannot be answered now gets 503 with `Retry-After`.

pub mod bind;
mod events;
mod map;
mod others;
mod overview;
mod pages;
mod said;
mod table;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderValue, StatusCode};
use nephila_core::url::CrawlUrl;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::Node;
use super::admin::{Error, count};
use super::completion::is_ready;
use super::stored::Stored;
use super::upload::now_ms;
use nephila_api::captures::{AWAY_RETRY, Archive};
use nephila_api::log_view::Filter;
use nephila_api::metrics::{self, gauge};
use nephila_api::monitor::{Monitor, Sampling};
use nephila_api::public::{LinkSecret, Public, Publishes};
use nephila_api::ready::{Readable, Waiters};
use nephila_api::tls::Among;
use nephila_api::views::NodeState;
use nephila_api::{
    Answers, Apart, Explained, FORWARDED, FeedsSaid, Guard, HttpAnswer, HttpQuestion, LaterStatus, Lines,
    Live, Question, Questions, Routes, Server, StatsView, ok, problem, retry_after,
};
use nephila_engine::crawl::shared::Shared;
use nephila_engine::crawl::stage::SpiderSaid;
use nephila_engine::settings::Settings;

pub use bind::{Bound, among, bind, token};

/// Maximum number of TCP connections served at the same time, including other nodes; further connections wait.
/// Enough for two hundred dashboards that open at once: a connection that has not asked yet makes room for later ones.
pub const CONNECTIONS_MAX: usize = 512;
/// Maximum number of concurrent requests that were not forwarded. Lower than the number of connections, so that
/// forwarded requests find capacity and two nodes never wait for each other (no deadlock).
pub const CLIENTS_MAX: usize = 32;
/// Maximum waiting time for capacity; then the client gets 503 with `Retry-After`.
pub const CLIENT_WAIT: Duration = Duration::from_secs(5);
/// Timeout for an answer from the worker.
pub const WORKER_MAX: Duration = Duration::from_secs(10);
/// `Retry-After` in seconds while a partition changes its owner.
pub const MOVING_RETRY: u64 = 3;
/// Maximum size in bytes of the feeds of one node.
pub const FEEDS_BYTES_MAX: usize = 64 << 20;
/// Header field with the name of the answering node.
pub const NODE: &str = "nephila-node";

/// An error answer, sent instead of the requested one.
type Instead = Box<HttpAnswer>;

/// See the module.
#[derive(Debug)]
pub struct Api {
    node: Arc<Node>,
    /// Shared secret of the nodes.
    token: Option<Arc<str>>,
    /// TLS configuration for connections to other nodes.
    among: Among,
    clients: Semaphore,
    archive: Archive,
    /// Archives in the object store.
    stored: Option<Stored>,
    /// Clients that wait for events.
    followers: events::Followers,
    /// Clients that wait until this node is ready.
    waiters: Waiters,
    /// What is known about the crawl as a whole.
    overview: overview::Overview,
    /// The pages for people without a token.
    public: Public,
}

/// State of a node, as reported by the node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct SelfView {
    /// Name of the node.
    pub(crate) node: String,
    /// Whether the node holds its lease.
    pub(crate) holds_lease: bool,
    /// Active faults, in sentences.
    #[serde(default)]
    pub(crate) alarms: Vec<String>,
    /// Statistics of the worker; none without a worker.
    #[serde(default)]
    pub(crate) stats: Option<StatsView>,
}

/// Serves until dropped.
#[derive(Debug)]
pub struct Serving {
    _folder: Option<Server>,
    _sampling: Sampling,
    _tcp: Option<Apart>,
}

/// Starts serving.
pub fn start(node: &Arc<Node>, bound: Option<Bound>) -> anyhow::Result<Serving> {
    let token = match bound.as_ref().map(|bound| &bound.guard) {
        Some(Guard::Token(keys)) => Some(keys.nodes.clone()),
        Some(_) => None,
        // The other nodes have it: they know this one by it, and open the links that are made here.
        None => among_nodes(&node.settings)?,
    };
    let clients = Semaphore::new(CLIENTS_MAX);
    let stored = Stored::of(node)?;
    let archive = Archive::new(node.folder.dir(), &node.name)
        .with_elsewhere(stored.as_ref().map(|stored| stored.files(&node.name)))
        .with_media(crate::media::reader(&node.settings)?)
        .with_cache(node.settings.api.cache_bytes());
    let (followers, waiters) = Default::default();
    let among = among(&node.settings)?;
    let monitor = Monitor::new(node.folder.clone(), node.settings.clone(), &node.name, "cluster");
    let overview = overview::Overview::new(monitor);
    let sampled = node.clone();
    let sampling = overview.monitor.start(move || sampled.known.session());
    let secret = LinkSecret::of_cluster(&node.cluster.secret.0, token.as_deref().unwrap_or_default());
    let public = Public::new(secret, &node.settings).at(bound.as_ref().map(Bound::url));
    let this = node.clone();
    let node_api =
        Api { node: this, token, among, clients, archive, stored, followers, waiters, overview, public };
    let api = Arc::new(node_api);
    let tcp = bound.map(|bound| {
        tracing::info!(node = %node.name, "node {} answers at {}", node.name, bound.url());
        let Bound { listener, guard, tls, .. } = bound;
        Apart::serve(listener, api.clone(), guard, tls, CONNECTIONS_MAX)
            .context("starting threads that answer")
    });
    Ok(Serving { _folder: Server::start(&node.folder, api), _sampling: sampling, _tcp: tcp.transpose()? })
}

/// The secret among the nodes as the settings name it, for a node without an address of its own.
fn among_nodes(settings: &Settings) -> anyhow::Result<Option<Arc<str>>> {
    let api = &settings.api;
    for file in [&api.node_token_file, &api.token_file] {
        if let Some(secret) = token(file)? {
            return Ok(Some(secret));
        }
    }
    let secret = api.token.trim();
    Ok((!secret.is_empty()).then(|| secret.into()))
}

impl Answers for Api {
    fn routes() -> &'static Routes<Api> {
        &table::ROUTES
    }

    fn live(self: &Arc<Self>) -> Option<Arc<dyn Live>> {
        Some(self.clone())
    }

    async fn answer(&self, asked: HttpQuestion) -> HttpAnswer {
        // Followers of events have separate capacity, because they may stay long. A busy node is still live.
        // What readers of links cost is bounded by itself.
        let has_room = asked.field(FORWARDED).is_some()
            || asked.path == events::PATH
            || asked.path == "/livez"
            || asked.path.starts_with(nephila_api::public::PREFIX);
        let mut answer = if has_room {
            table::ROUTES.answer(self, asked).await
        } else {
            match tokio::time::timeout(CLIENT_WAIT, self.clients.acquire()).await {
                Ok(_room) => table::ROUTES.answer(self, asked).await,
                Err(_) => {
                    let detail = format!("{CLIENTS_MAX} requests are being answered");
                    retry_after(problem(StatusCode::SERVICE_UNAVAILABLE, "node busy", detail), MOVING_RETRY)
                }
            }
        };
        // A name has letters, digits, `-` and `_` alone.
        if let Ok(name) = HeaderValue::from_str(&self.node.name) {
            answer.headers_mut().insert(NODE, name);
        }
        answer
    }
}

impl Publishes for Api {
    fn public(&self) -> Option<&Public> {
        Some(&self.public)
    }
}

impl Live for Api {
    fn status(&self) -> LaterStatus<'_> {
        Box::pin(async move {
            let said = self.whole_status().await.map_err(|_| "the cluster does not answer".to_owned())?;
            serde_json::to_value(&*said).map_err(|error| error.to_string())
        })
    }

    /// The log of this node: `GET log` has those of all nodes.
    fn log(&self) -> Option<Box<dyn Lines>> {
        let tail = self.overview.monitor.tail(Filter::of_host(None)).ok()?;
        Some(Box::new(tail))
    }
}

impl Api {
    /// `GET /metrics` of this node alone. Without a lease, the answer says so and has no metrics of a frontier.
    pub async fn metrics(&self) -> HttpAnswer {
        let mut families = match self.session() {
            Ok(shared) => {
                let families = async { Ok(metrics::of_crawl(&shared.handle, Some(&shared)).await?) };
                self.bounded(families).await.unwrap_or_default()
            }
            Err(_) => Vec::new(),
        };
        let view = self.node.known.view().map(|(view, _)| count(&view, self.node.cluster.partitions));
        let number = |yes: bool| u64::from(yes);
        let holds_lease = !families.is_empty();
        if families.is_empty() {
            families.push(gauge("nephila_partition_owned", "Partitions this node works on.", 0));
        }
        let more = [
            metrics::of_cache(self.archive.cache_counts()),
            table::ROUTES.times(),
            gauge("nephila_node_holds_lease", "Does it hold its lease?", number(holds_lease)),
            gauge(
                "nephila_node_crawling",
                "Is something left of a job on its partitions?",
                number(self.node.known.state() == NodeState::Crawling),
            ),
            gauge(
                "nephila_partition_without_owner",
                "Partitions of the cluster that no live node owns, as this one sees it.",
                view.as_ref().map_or(0, |view| view.without_owner.into()),
            ),
            gauge("nephila_cluster_nodes", "Nodes that live, as this one sees it.", {
                view.as_ref().map_or(0, |view| view.nodes.len() as u64)
            }),
        ];
        families.extend(more);
        families.extend(self.node.known.measured.families(now_ms()));
        metrics::answer("cluster", families)
    }

    /// `GET explain?url=`: the state of a URL, as its owner knows the URL.
    pub async fn explain(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let text = url_of(asked)?;
        let url = match CrawlUrl::parse(&text) {
            Ok(url) => url,
            Err(error) => return Ok(ok(&Explained::bad(&text, error.to_string()))),
        };
        let shared = match self.owner(asked, &url).await? {
            Place::Here(shared) => shared,
            Place::Answered(answer) => return Ok(answer),
        };
        Ok(ok(&self.explained(&shared, &text, &url).await?))
    }

    /// Explains a URL of a partition that this node holds.
    pub async fn explained(&self, shared: &Shared, text: &str, url: &CrawlUrl) -> Result<Explained, Instead> {
        let explained = self.bounded(self.questions(shared).explain(text)).await?;
        // The partition may have left during the query: then the answer is void.
        if shared.handle.holds(url) { Ok(explained) } else { Err(self.moving("its partition has just left")) }
    }

    /// `GET host?url=`: the state of a host, as its owner knows the host. A bare host name is accepted.
    pub async fn host(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let text = url_of(asked)?;
        let with_scheme = if text.contains("://") { text.clone() } else { format!("http://{text}/") };
        let url = CrawlUrl::parse(&with_scheme)
            .map_err(|error| problem(StatusCode::BAD_REQUEST, "invalid host", error.to_string()))?;
        let shared = match self.owner(asked, &url).await? {
            Place::Here(shared) => shared,
            Place::Answered(answer) => return Ok(answer),
        };
        let host = self.bounded(self.questions(&shared).host(&text)).await?;
        if shared.handle.holds(&url) {
            Ok(ok(&host))
        } else {
            Err(self.moving("its partition has just left"))
        }
    }

    /// `GET feeds`: the feeds of all nodes.
    pub async fn feeds(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let mut said = match self.node.known.session() {
            Some(shared) => self.bounded(self.questions(&shared).feeds()).await?,
            None => FeedsSaid::default(),
        };
        if asked.field(FORWARDED).is_none() {
            let question =
                Question::get("/api/v1/feeds", FEEDS_BYTES_MAX, WORKER_MAX).with(FORWARDED, "owner");
            for (_, answer) in self.ask_all(&question).await {
                let others = answer.and_then(|reply| reply.json::<FeedsSaid>().map_err(|e| e.to_string()));
                let others = others.map_err(|why| self.moving(&why))?;
                said.feeds.extend(others.feeds);
                said.cut |= others.cut;
            }
            said.feeds.sort_by(|a, b| a.url.cmp(&b.url));
        }
        Ok(ok(&said))
    }

    /// `GET spiders`: the remote spiders of all nodes.
    pub async fn spiders(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let name = &self.node.name;
        let own = self.node.fetch.spiders().into_iter();
        let mut said: Vec<SpiderSaid> =
            own.map(|spider| SpiderSaid { node: name.clone(), ..spider }).collect();
        if asked.field(FORWARDED).is_none() {
            let question =
                Question::get("/api/v1/spiders", FEEDS_BYTES_MAX, WORKER_MAX).with(FORWARDED, "owner");
            for (_, answer) in self.ask_all(&question).await {
                let others =
                    answer.and_then(|reply| reply.json::<Vec<SpiderSaid>>().map_err(|e| e.to_string()));
                said.extend(others.map_err(|why| self.moving(&why))?);
            }
            said.sort_by(|a, b| (&a.node, &a.name).cmp(&(&b.node, &b.name)));
        }
        Ok(ok(&said))
    }

    /// `GET feed?url=`.
    pub async fn feed(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let text = url_of(asked)?;
        let url = CrawlUrl::parse(&text)
            .map_err(|error| problem(StatusCode::BAD_REQUEST, "invalid URL", error.to_string()))?;
        let shared = match self.owner(asked, &url).await? {
            Place::Here(shared) => shared,
            Place::Answered(answer) => return Ok(answer),
        };
        Ok(ok(&self.bounded(self.questions(&shared).feed(&text)).await?))
    }

    /// `GET node`: the report of this node, with its lease, its active faults and its statistics.
    pub async fn about_itself(&self) -> SelfView {
        let node = &self.node;
        let session = node.known.session();
        let mut alarms = Vec::new();
        let holds_lease = node.gate.is_open();
        if !holds_lease {
            alarms
                .push("it holds no lease, so it fetches nothing: do the NATS servers answer it?".to_owned());
        }
        for (partition, error) in node.known.unopened() {
            alarms.push(format!("partition {partition} cannot be opened: {error}"));
        }
        let mut stats = None;
        if let Some(shared) = session {
            use std::sync::atomic::Ordering::Relaxed;
            if shared.counts.disk_full.load(Relaxed) || shared.counts.disk_low.load(Relaxed) {
                alarms.push("its disk is full: it fetches nothing until there is room".to_owned());
            }
            let away = shared.counts.objects_away.load(Relaxed);
            if away > 0 {
                alarms.push(format!("the object store does not take media: {away} pages wait for it"));
            }
            stats = self.bounded(self.questions(&shared).stats()).await.ok();
            if stats.is_none() {
                alarms
                    .push("its worker does not answer: it waits for the NATS servers or the disk".to_owned());
            }
        }
        SelfView { node: node.name.clone(), holds_lease, alarms, stats }
    }

    /// Returns the interface for queries to the worker of a session.
    pub fn questions(&self, shared: &Shared) -> Questions {
        Questions::of_node(shared.handle.clone(), self.node.jobs.clone(), self.node.settings.clone())
    }

    /// Returns the current session. Fails with status 503 while this node has no lease.
    pub fn session(&self) -> Result<Arc<Shared>, Instead> {
        self.node.known.session().ok_or_else(|| self.moving("this node has no lease right now"))
    }

    /// Awaits a query for at most [`WORKER_MAX`]. Fails with status 503 after an error or a timeout.
    pub async fn bounded<T>(&self, question: impl Future<Output = anyhow::Result<T>>) -> Result<T, Instead> {
        let why = match tokio::time::timeout(WORKER_MAX, question).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "its worker does not answer: it waits for the servers or the disk".to_owned(),
        };
        let answer = problem(StatusCode::SERVICE_UNAVAILABLE, "node unavailable", why);
        Err(retry_after(answer, AWAY_RETRY).into())
    }

    /// Builds an answer with status 503 and a retry time, for a partition or a lease that is moving.
    pub fn moving(&self, detail: &str) -> Instead {
        let answer = problem(StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable", detail);
        retry_after(answer, MOVING_RETRY).into()
    }
}

impl Readable for Api {
    async fn state_now(&self) -> Result<NodeState, Instead> {
        let shared = self.session()?;
        Ok(match self.bounded(is_ready(&self.node, &shared.handle)).await? {
            true => NodeState::Ready,
            false => NodeState::Crawling,
        })
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// Where a request is answered.
pub enum Place {
    /// By the worker of this session.
    Here(Arc<Shared>),
    /// By another node, with this answer.
    Answered(HttpAnswer),
}

/// Returns the query parameter `url`. Fails with status 400 if the parameter is missing.
pub fn url_of(asked: &HttpQuestion) -> Result<String, Instead> {
    let missing = || problem(StatusCode::BAD_REQUEST, "missing parameter url", "");
    Ok(asked.parameter("url").ok_or_else(missing)?)
}

impl From<Error> for Instead {
    fn from(error: Error) -> Instead {
        let detail = error.to_string();
        let answer = match error {
            Error::NotFound(_) => problem(StatusCode::NOT_FOUND, "not found", detail),
            Error::Wrong(_) => problem(StatusCode::BAD_REQUEST, "invalid request", detail),
            Error::Exists(_) => problem(StatusCode::CONFLICT, "already exists", detail),
            Error::Away(_) => {
                let answer = problem(StatusCode::SERVICE_UNAVAILABLE, "servers unavailable", detail);
                retry_after(answer, AWAY_RETRY)
            }
        };
        answer.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_without_an_address_has_the_secret_that_it_would_have_with_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, format!("{name}-secret\n")).unwrap();
            file
        };
        let is_same = async |settings: &Settings, secret: Option<&str>| {
            let bound = bind(settings, "one").await.unwrap().unwrap();
            let keys = if let Guard::Token(keys) = &bound.guard { Some(&*keys.nodes) } else { None };
            assert_eq!((keys, among_nodes(settings).unwrap().as_deref()), (secret, secret));
        };
        let mut settings = Settings::default();
        settings.api.listen = "127.0.0.1:0".into();
        is_same(&settings, None).await;
        settings.api.token = " written ".into();
        is_same(&settings, Some("written")).await;
        settings.api.token_file = file("all");
        is_same(&settings, Some("all-secret")).await;
        settings.api.node_token_file = file("nodes");
        is_same(&settings, Some("nodes-secret")).await;
    }
}
