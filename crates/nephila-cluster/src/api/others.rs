//! Finds the owner of a URL, and sends requests to other nodes.
//!
//! Invariants: an answer counts only if the expected node sent the answer and, with a token, only if the node proves
//! that it knows the token; the token itself is never sent. With TLS, nothing is sent before the server has proved the
//! name of that node.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use nephila_core::cluster::NodeId;
use nephila_core::cluster::member::NodeRecord;
use nephila_core::key::DomainKey;
use nephila_core::url::CrawlUrl;
use tokio::task::JoinSet;

use super::super::admin;
use super::super::route::partition_of;
use super::{Api, Instead, NODE, Place};
use nephila_api::tls::Among;
use nephila_api::{
    Content, FORWARDED, HttpAnswer, HttpQuestion, Peer, Question, Reply, problem, retry_after,
};

/// Timeout for another node.
pub(super) const OTHER_MAX: Duration = Duration::from_secs(20);
/// Maximum number of nodes queried concurrently.
pub(super) const OTHERS_AT_ONCE: usize = 32;
/// Maximum size of another node's answer in bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 80 << 20;
/// Header fields of one connection (hop-by-hop), or set anew.
pub(super) const OWN_FIELDS: [&str; 5] = ["connection", "transfer-encoding", "content-length", "date", NODE];

impl Api {
    /// Finds the place that answers a request about a URL: this node, or the owner, to which the request is forwarded.
    pub async fn owner(&self, asked: &HttpQuestion, url: &CrawlUrl) -> Result<Place, Instead> {
        let cluster = &self.node.cluster;
        self.owner_of(asked, cluster.spread.get().key(url, &cluster.secret).host.domain).await
    }

    /// The same for a request about a domain.
    pub async fn owner_of(&self, asked: &HttpQuestion, domain: DomainKey) -> Result<Place, Instead> {
        let node = &self.node;
        if let Some(shared) = node.known.session().filter(|shared| shared.handle.holds_domain(domain)) {
            return Ok(Place::Here(shared));
        }
        let partition = partition_of(domain, node.cluster.partitions);
        if asked.field(FORWARDED).is_some() {
            return Err(self.moving(&format!("partition {partition} is not at node {}", node.name)));
        }
        let Some((view, _)) = node.known.view() else {
            return Err(self.moving("this node does not know the others yet"));
        };
        let Some(owner) = admin::owner(&view, partition) else {
            return Err(self.moving(&format!("partition {partition} has no live owner right now")));
        };
        if owner.node == NodeId::of(&node.name) {
            return Err(self.moving(&format!("partition {partition} is being opened or handed over")));
        }
        let reply = self.ask(owner, asked, "owner").await?;
        Ok(Place::Answered(passed_on(reply)))
    }

    /// Forwards a request to another node.
    pub async fn ask(
        &self,
        other: &NodeRecord,
        asked: &HttpQuestion,
        as_what: &'static str,
    ) -> Result<Reply, Instead> {
        let question = Question::get(&*asked.target, ANSWER_BYTES_MAX, OTHER_MAX).with(FORWARDED, as_what);
        let reply = ask_of(self.token.clone(), &self.among, other, question).await.map_err(|why| {
            // A node that does not answer may be dead: then its partitions are taken over when its lease expires.
            let answer = problem(StatusCode::SERVICE_UNAVAILABLE, "owner unavailable", why);
            retry_after(answer, self.node.settings.cluster.lease_ttl.as_secs())
        })?;
        Ok(reply)
    }

    /// Sends a request to all other live nodes, some concurrently. Returns the answer of each.
    pub async fn ask_all(&self, question: &Question) -> Vec<(NodeRecord, Result<Reply, String>)> {
        let Some((view, _)) = self.node.known.view() else { return Vec::new() };
        let me = NodeId::of(&self.node.name);
        let mut others = view.nodes.iter().filter(|other| other.node != me).cloned();
        let (mut asking, mut answers) = (JoinSet::new(), Vec::new());
        loop {
            while asking.len() < OTHERS_AT_ONCE
                && let Some(other) = others.next()
            {
                let (token, among, question) = (self.token.clone(), self.among.clone(), question.clone());
                asking.spawn(async move {
                    let answer = ask_of(token, &among, &other, question).await;
                    (other, answer)
                });
            }
            match asking.join_next().await {
                Some(Ok(answer)) => answers.push(answer),
                // A task that panicked has no answer.
                Some(Err(_)) => {}
                None => return answers,
            }
        }
    }
}

/// Sends a request to another node. The error is the reason for a missing answer.
pub(super) async fn ask_of(
    token: Option<Arc<str>>,
    among: &Among,
    other: &NodeRecord,
    question: Question,
) -> Result<Reply, String> {
    let name = &other.name;
    if other.address.is_empty() {
        return Err(format!("node {name} has no API: set api.listen there"));
    }
    let peer =
        Peer::node(name, &other.address, token, among).map_err(|error| format!("node {name}: {error}"))?;
    let reply = peer.ask(question).await.map_err(|error| format!("node {name}: {error}"))?;
    match reply.field(NODE) {
        Some(who) if who == name => {}
        _ if reply.status == StatusCode::UNAUTHORIZED => {
            return Err(format!(
                "node {name} does not know us: api.node_token_file (or api.token_file, without it) is the same on all \
                 nodes, and their clocks differ by less than two minutes"
            ));
        }
        who => {
            let who = who.unwrap_or("somebody else");
            return Err(format!(
                "at {}, where node {name} should be, {who} answers: set api.listen and api.advertise to addresses \
                     that the other nodes reach",
                other.address
            ));
        }
    }
    Ok(reply)
}

/// Another node's answer, as our own.
pub(super) fn passed_on(reply: Reply) -> HttpAnswer {
    let Reply { status, headers, body } = reply;
    let mut answer = HttpAnswer::new(Content::whole(body));
    *answer.status_mut() = status;
    let mut kept = HeaderMap::new();
    for (name, value) in &headers {
        if !OWN_FIELDS.contains(&name.as_str()) {
            kept.append(name.clone(), value.clone());
        }
    }
    *answer.headers_mut() = kept;
    answer
}
