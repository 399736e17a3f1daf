//! A node that a command speaks to with `--node`: typed questions, and errors that say what to check.
//!
//! What always holds: nothing is said twice, so a command that got no answer may have been obeyed.

use std::time::Duration;

use http::{Method, StatusCode};
use nephila_core::job::Job;
use serde::de::DeserializeOwned;

use super::api::token;
use super::jobs::JobRecord;
use super::views::{Added, ClusterView, Created, JobChange, JobView, NodeSaid, PartitionView};
use crate::api::{Explained, HostView, NoAnswer, Peer, Question, Reply, escaped};
use crate::cli::Remote as Args;
use crate::exit::Exit;
use crate::settings::usage;

/// A node answers within this time: it may ask others first.
const ANSWER_MAX: Duration = Duration::from_secs(50);
/// An answer has at most so many bytes.
const ANSWER_BYTES_MAX: usize = 80 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    peer: Peer,
}

impl Remote {
    /// The node that was named, if one was.
    pub(crate) fn open(args: &Args) -> anyhow::Result<Option<Remote>> {
        let Some(url) = &args.node else { return Ok(None) };
        let token = token(args.token_file.as_deref().unwrap_or(std::path::Path::new("")))?;
        let peer = Peer::named(url, token).map_err(|error| usage(anyhow::anyhow!(error)))?;
        Ok(Some(Remote { peer }))
    }

    /// Explains a URL.
    pub(crate) async fn explain(&self, url: &str) -> anyhow::Result<Explained> {
        self.get(&format!("explain?url={}", escaped(url))).await
    }

    /// What is known of a host.
    pub(crate) async fn host(&self, url: &str) -> anyhow::Result<Option<HostView>> {
        self.get(&format!("host?url={}", escaped(url))).await
    }

    /// A capture, or what is said instead of it.
    pub(crate) async fn page(&self, url: &str, part: &str, at: Option<&str>) -> anyhow::Result<Reply> {
        let at = at.map(|at| format!("&at={at}")).unwrap_or_default();
        self.ask(Question::get(
            format!("/api/v1/pages?as={part}&url={}{at}", escaped(url)),
            ANSWER_BYTES_MAX,
            ANSWER_MAX,
        ))
        .await
    }

    pub(crate) async fn status(&self) -> anyhow::Result<ClusterView> {
        self.get("cluster").await
    }

    pub(crate) async fn nodes(&self) -> anyhow::Result<Vec<NodeSaid>> {
        self.get("cluster/nodes").await
    }

    pub(crate) async fn partitions(&self) -> anyhow::Result<Vec<PartitionView>> {
        self.get("cluster/partitions").await
    }

    pub(crate) async fn drain(&self, node: &str) -> anyhow::Result<()> {
        let target = format!("cluster/drain/{}", escaped(node));
        let _: serde_json::Value = self.say(Method::POST, &target, "application/json", Vec::new()).await?;
        Ok(())
    }

    pub(crate) async fn jobs(&self) -> anyhow::Result<Vec<JobView>> {
        self.get("jobs").await
    }

    pub(crate) async fn job(&self, name: &str) -> anyhow::Result<JobRecord> {
        self.get(&format!("jobs/{}", escaped(name))).await
    }

    pub(crate) async fn create(&self, job: &Job) -> anyhow::Result<Created> {
        self.say(Method::POST, "jobs", "application/json", serde_json::to_vec(job)?).await
    }

    pub(crate) async fn change(&self, name: &str, change: &JobChange) -> anyhow::Result<JobRecord> {
        let target = format!("jobs/{}", escaped(name));
        self.say(Method::PATCH, &target, "application/merge-patch+json", serde_json::to_vec(change)?).await
    }

    pub(crate) async fn add(&self, job: &str, as_seeds: bool, lines: &str) -> anyhow::Result<Added> {
        let target = format!("urls?job={}&seed={as_seeds}", escaped(job));
        self.say(Method::POST, &target, "text/plain", lines.to_owned().into_bytes()).await
    }

    async fn get<T: DeserializeOwned>(&self, target: &str) -> anyhow::Result<T> {
        let question = Question::get(format!("/api/v1/{target}"), ANSWER_BYTES_MAX, ANSWER_MAX);
        self.read(self.ask(question).await?)
    }

    async fn say<T: DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> anyhow::Result<T> {
        let question = Question::get(format!("/api/v1/{target}"), ANSWER_BYTES_MAX, ANSWER_MAX);
        self.read(self.ask(question.saying(method, content_type, body)).await?)
    }

    async fn ask(&self, question: Question) -> anyhow::Result<Reply> {
        self.peer.ask(question).await.map_err(|error| {
            let what = match &error {
                NoAnswer::Unreachable { .. } => {
                    "does `nephila serve` run there, does its api.listen name an address that is reached from here \
                     (127.0.0.1 is reached on its own machine alone), and is the port open?"
                }
                NoAnswer::Silent { .. } => "is it a node, and of the same version? Its standard error may say more",
            };
            anyhow::Error::new(Exit::Unreachable).context(format!("{error}: {what}"))
        })
    }

    fn read<T: DeserializeOwned>(&self, reply: Reply) -> anyhow::Result<T> {
        if reply.status.is_success() {
            return reply.json().map_err(|error| {
                anyhow::anyhow!("{} is of another version, or no node: {error}", self.peer.address())
            });
        }
        Err(refused(&reply))
    }
}

/// What a node says instead of an answer.
pub(crate) fn refused(reply: &Reply) -> anyhow::Error {
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
