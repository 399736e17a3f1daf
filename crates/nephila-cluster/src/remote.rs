//! Client for the nodes given with `--node`: typed requests, and errors with advice. If one node does not answer, the
//! next one is tried.
//!
//! Invariants: only idempotent requests are retried after a lost answer: queries, and URLs, which are deduplicated; so
//! any other command without an answer may have been executed.

use std::path::Path;
use std::time::Duration;

use http::{Method, StatusCode};
use nephila_core::job::Job;
use nephila_core::stop_list::StopList;
use nephila_core::url::CrawlUrl;
use serde::de::DeserializeOwned;

use super::api::token;
use super::jobs::JobRecord;
use super::views::{
    ClusterView, Created, JobChange, JobSaid, JobView, MapView, NodeSaid, PartitionView, PinView, SpreadView,
};
use nephila_api::public::{LinkSaid, LinkWanted};
use nephila_api::tls::Trust;
use nephila_api::views::{Added, Changed};
use nephila_api::{Explained, FeedSaid, FeedsSaid, HostView, NoAnswer, Peer, Question, Reply, escaped};
use nephila_engine::crawl::stage::SpiderSaid;
use nephila_engine::crawl::stream::StreamSaid;
use nephila_engine::exit::Exit;
use nephila_engine::settings::usage;
use nephila_engine::stop_list::{Change, Written};

/// Timeout of an answer: a node may query others first.
pub const ANSWER_MAX: Duration = Duration::from_secs(50);
/// Maximum number of nodes tried; further ones are ignored.
pub const PEERS_MAX: usize = 16;
/// Maximum size of an answer in bytes.
pub const ANSWER_BYTES_MAX: usize = 80 << 20;

/// Maximum size of a page with its resources in bytes: 64 MiB in base64, and their heads.
pub const WHOLE_PAGE_BYTES_MAX: usize = 96 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct Remote {
    /// At least one node, in the order of tries.
    peers: Vec<Peer>,
}

impl Remote {
    /// The nodes at these URLs, with commas between them.
    pub fn open(urls: &str, token_file: Option<&Path>, ca_file: Option<&Path>) -> anyhow::Result<Remote> {
        let token = token(token_file.unwrap_or(Path::new("")))?;
        let trust = ca_file.map(Trust::in_file).transpose().map_err(usage)?;
        let named = |url: &str| Peer::named(url.trim(), token.clone(), trust.as_ref());
        let peers: Result<Vec<Peer>, _> = urls.split(',').take(PEERS_MAX).map(named).collect();
        Ok(Remote { peers: peers.map_err(|error| usage(anyhow::anyhow!(error)))? })
    }

    /// Explains a URL.
    pub async fn explain(&self, url: &str) -> anyhow::Result<Explained> {
        self.get(&format!("explain?url={}", escaped(url))).await
    }

    /// State of a host.
    pub async fn host(&self, url: &str) -> anyhow::Result<Option<HostView>> {
        self.get(&format!("host?url={}", escaped(url))).await
    }

    /// The feeds of the whole cluster.
    pub async fn feeds(&self) -> anyhow::Result<FeedsSaid> {
        self.get("feeds").await
    }

    /// One feed.
    pub async fn feed(&self, url: &str) -> anyhow::Result<Option<FeedSaid>> {
        self.get(&format!("feed?url={}", escaped(url))).await
    }

    /// Sends parts of a stream for a job, numbered from `first`.
    pub async fn stream(
        &self,
        job: &str,
        batch: Option<&str>,
        first: u32,
        text: Vec<u8>,
    ) -> anyhow::Result<StreamSaid> {
        let batch = batch.map(|batch| format!("&batch={}", escaped(batch))).unwrap_or_default();
        let target = format!("reflog?job={}&part={first}{batch}", escaped(job));
        self.say(Again::Always, Method::POST, &target, "text/plain", text).await
    }

    /// A capture, or the error answer.
    pub async fn page(&self, url: &str, part: &str, at: Option<&str>) -> anyhow::Result<Reply> {
        let at = at.map(|at| format!("&at={at}")).unwrap_or_default();
        let target = format!("/api/v1/pages?as={part}&inline=1&url={}{at}", escaped(url));
        let (_, reply) =
            self.ask(Again::Always, || Question::get(target.clone(), ANSWER_BYTES_MAX, ANSWER_MAX)).await?;
        Ok(reply)
    }

    /// A page with its resources, or the error answer.
    pub async fn whole_page(&self, target: String) -> anyhow::Result<Reply> {
        let question = || Question::get(target.clone(), WHOLE_PAGE_BYTES_MAX, ANSWER_MAX);
        Ok(self.ask(Again::Always, question).await?.1)
    }

    /// A page of events.
    pub async fn events(&self, target: &str) -> anyhow::Result<Vec<u8>> {
        let question = || Question::get(target.to_owned(), ANSWER_BYTES_MAX, ANSWER_MAX);
        let (_, reply) = self.ask(Again::Always, question).await?;
        if reply.status.is_success() { Ok(reply.body.to_vec()) } else { Err(refused(&reply)) }
    }

    /// Requests the state of the cluster as a whole.
    pub async fn status(&self) -> anyhow::Result<ClusterView> {
        self.get("cluster").await
    }

    /// Requests the live nodes, each with its own report.
    pub async fn nodes(&self) -> anyhow::Result<Vec<NodeSaid>> {
        self.get("cluster/nodes").await
    }

    /// The remote spiders of all nodes.
    pub async fn spiders(&self) -> anyhow::Result<Vec<SpiderSaid>> {
        self.get("spiders").await
    }

    /// Requests all partitions, each with its owner.
    pub async fn partitions(&self) -> anyhow::Result<Vec<PartitionView>> {
        self.get("cluster/partitions").await
    }

    /// Asks a live node to leave the cluster.
    pub async fn drain(&self, node: &str) -> anyhow::Result<()> {
        let target = format!("cluster/drain/{}", escaped(node));
        let _: serde_json::Value =
            self.say(Again::Unheard, Method::POST, &target, "application/json", Vec::new()).await?;
        Ok(())
    }

    /// A page of the map of domains.
    pub async fn map(&self, from: Option<&str>) -> anyhow::Result<MapView> {
        let from = from.map(|from| format!("?from={}", escaped(from))).unwrap_or_default();
        self.get(&format!("cluster/map{from}")).await
    }

    /// The pins.
    pub async fn pins(&self) -> anyhow::Result<Vec<PinView>> {
        self.get("cluster/pins").await
    }

    /// Pins a domain to a node, or removes the pin with none.
    pub async fn pin(&self, domain: &str, node: Option<&str>) -> anyhow::Result<PinView> {
        let node = node.map(|node| format!("?to={}", escaped(node))).unwrap_or_default();
        let target = format!("cluster/pins/{}{node}", escaped(domain));
        // A pin that is gone cannot be let go a second time.
        let (method, again) = match node.is_empty() {
            true => (Method::DELETE, Again::Unheard),
            false => (Method::POST, Again::Always),
        };
        self.say(again, method, &target, "application/json", Vec::new()).await
    }

    /// The spread domains.
    pub async fn spreads(&self) -> anyhow::Result<Vec<SpreadView>> {
        self.get("cluster/spread").await
    }

    /// Spreads a domain.
    pub async fn spread(&self, domain: &str) -> anyhow::Result<SpreadView> {
        let target = format!("cluster/spread/{}", escaped(domain));
        self.say(Again::Always, Method::POST, &target, "application/json", Vec::new()).await
    }

    /// Requests all jobs, each with its progress.
    pub async fn jobs(&self) -> anyhow::Result<Vec<JobView>> {
        self.get("jobs").await
    }

    /// Requests a job by name, with its progress.
    pub async fn job(&self, name: &str) -> anyhow::Result<JobSaid> {
        self.get(&format!("jobs/{}", escaped(name))).await
    }

    /// Makes a link to a public page.
    pub async fn link(&self, wanted: &LinkWanted) -> anyhow::Result<LinkSaid> {
        let wanted = serde_json::to_vec(wanted)?;
        self.say(Again::Always, Method::POST, "links", "application/json", wanted).await
    }

    /// Creates a job with its seeds in one request.
    pub async fn create(&self, job: &Job) -> anyhow::Result<Created> {
        self.say(Again::Unheard, Method::POST, "jobs", "application/json", serde_json::to_vec(job)?).await
    }

    /// The first step of a job with many seeds.
    pub async fn begin(&self, job: &Job) -> anyhow::Result<Created> {
        let job = serde_json::to_vec(job)?;
        self.say(Again::Always, Method::POST, "jobs?list=true", "application/json", job).await
    }

    /// The second step: seeds, one per line.
    pub async fn list(&self, name: &str, lines: &str) -> anyhow::Result<Added> {
        let (target, lines) = (format!("jobs/{}/seeds", escaped(name)), lines.to_owned().into_bytes());
        self.say(Again::Always, Method::POST, &target, "text/plain", lines).await
    }

    /// A later step, by its name.
    pub async fn seeding(&self, name: &str, step: &str) -> anyhow::Result<()> {
        let target = format!("jobs/{}/{step}", escaped(name));
        let Changed { .. } = self.say(Again::Always, Method::POST, &target, "text/plain", Vec::new()).await?;
        Ok(())
    }

    /// Changes a job, and returns its new record.
    pub async fn change(&self, name: &str, change: &JobChange) -> anyhow::Result<JobRecord> {
        let target = format!("jobs/{}", escaped(name));
        let change = serde_json::to_vec(change)?;
        self.say(Again::Unheard, Method::PATCH, &target, "application/merge-patch+json", change).await
    }

    /// Adds URLs to a job, one per line, as seeds or as plain links. Returns the numbers of taken and refused URLs.
    pub async fn add(&self, job: &str, as_seeds: bool, lines: &str) -> anyhow::Result<Added> {
        let target = format!("urls?job={}&seed={as_seeds}", escaped(job));
        self.say(Again::Always, Method::POST, &target, "text/plain", lines.to_owned().into_bytes()).await
    }

    /// Requests the operator's stop list.
    pub async fn stop_list(&self) -> anyhow::Result<StopList> {
        Ok(self.get::<Written>("stops").await?.stop_list())
    }

    /// Sets the crawl delay of a host.
    pub async fn set_delay(&self, url: &CrawlUrl, delay_ms: u32) -> anyhow::Result<()> {
        let target = format!("host?url={}&delay_ms={delay_ms}", escaped(url.as_str()));
        let Changed { .. } =
            self.say(Again::Always, Method::POST, &target, "application/json", Vec::new()).await?;
        Ok(())
    }

    /// Changes the stops. Returns the number of added or removed stops.
    pub async fn change_stop_list(&self, change: &Change) -> anyhow::Result<usize> {
        match change {
            Change::Add(stop_list) => {
                let said = serde_json::to_vec(&Written { stops: stop_list.clone(), ..Written::default() })?;
                let Changed { changed } =
                    self.say(Again::Always, Method::POST, "stops", "application/json", said).await?;
                Ok(changed)
            }
            Change::Remove(targets) => {
                let mut gone = 0;
                for target in targets {
                    let path = format!("/api/v1/stops/{}", escaped(&target.to_string()));
                    let question = || {
                        let question = Question::get(path.clone(), ANSWER_BYTES_MAX, ANSWER_MAX);
                        question.saying(Method::DELETE, "application/json", Vec::new())
                    };
                    match self.ask(Again::Always, question).await? {
                        (_, reply) if reply.status == StatusCode::NOT_FOUND => {}
                        (peer, reply) => gone += read::<Changed>(peer, &reply)?.changed,
                    }
                }
                Ok(gone)
            }
        }
    }

    /// Sends a GET request below `/api/v1/` to the first node that answers, and parses the JSON of the answer.
    pub async fn get<T: DeserializeOwned>(&self, target: &str) -> anyhow::Result<T> {
        let target = format!("/api/v1/{target}");
        let question = || Question::get(target.clone(), ANSWER_BYTES_MAX, ANSWER_MAX);
        let (peer, reply) = self.ask(Again::Always, question).await?;
        read(peer, &reply)
    }

    /// Sends a request with a body below `/api/v1/`, and parses the JSON of the answer. `again` governs retries.
    pub async fn say<T: DeserializeOwned>(
        &self,
        again: Again,
        method: Method,
        target: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> anyhow::Result<T> {
        let target = format!("/api/v1/{target}");
        let question = || {
            let question = Question::get(target.clone(), ANSWER_BYTES_MAX, ANSWER_MAX);
            question.saying(method.clone(), content_type, body.clone())
        };
        let (peer, reply) = self.ask(again, question).await?;
        read(peer, &reply)
    }

    /// Tries one node after the other until one answers.
    pub async fn ask(&self, again: Again, question: impl Fn() -> Question) -> anyhow::Result<(&Peer, Reply)> {
        let mut last = None;
        for peer in &self.peers {
            let error = match peer.ask(question()).await {
                Ok(reply) => return Ok((peer, reply)),
                Err(error) => error,
            };
            let (what, unheard) = match &error {
                NoAnswer::Unreachable { .. } => (
                    "does `nephila serve` run there, does its api.listen name an address that is reached from here \
                     (127.0.0.1 is reached on its own machine alone), and is the port open? With https, does --ca-file name \
                     the certificate that has signed its own, and has that one the name by which you call it?",
                    true,
                ),
                NoAnswer::Silent { .. } => (
                    "is it a node, of the same version, and is it to be called https? Its standard error may say more",
                    false,
                ),
            };
            last = Some(anyhow::Error::new(Exit::Unreachable).context(format!("{error}: {what}")));
            if !unheard && again == Again::Unheard {
                break;
            }
        }
        Err(last.expect("at least one was named"))
    }
}

/// When to retry with the next node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// After any failure: the request is idempotent.
    Always,
    /// Only if no node can have received the request.
    Unheard,
}

/// Parses the JSON of an answer. Fails if the node refused the request, or if the JSON does not fit the type.
pub fn read<T: DeserializeOwned>(peer: &Peer, reply: &Reply) -> anyhow::Result<T> {
    if reply.status.is_success() {
        let other = |error| anyhow::anyhow!("{} is of another version, or no node: {error}", peer.address());
        return reply.json().map_err(other);
    }
    Err(refused(reply))
}

/// The error for an error answer of a node.
pub fn refused(reply: &Reply) -> anyhow::Error {
    let (title, detail) = reply.problem();
    let again = match reply.field("retry-after") {
        Some(seconds) => format!(" (ask again in {seconds} s)"),
        None => String::new(),
    };
    let text = format!("{} {title}: {detail}{again}", reply.status.as_u16());
    match reply.status {
        StatusCode::SERVICE_UNAVAILABLE => anyhow::Error::new(Exit::Unreachable).context(text),
        status if status.is_client_error() => usage(anyhow::anyhow!(text)),
        _ => anyhow::anyhow!(text),
    }
}
