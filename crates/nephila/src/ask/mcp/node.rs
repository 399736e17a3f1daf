//! Who answers the tools: nodes, the process of a folder, or the folder itself.
//!
//! Invariants: each request is bounded in size and time; a folder without a process is only read, and is held no longer
//! than its state is opened and a question is answered from it. A crawl that begins meanwhile is refused.

use std::io;
use std::path::Path;
use std::sync::Arc;

use http::{Method, StatusCode};
use nephila_api::agent::{Ask, Own};
use nephila_api::monitor::Monitor;
use nephila_api::tls::Trust;
use nephila_api::web::ReadOnly;
use nephila_api::{Answers, Found, NoAnswer, Peer, Question, Questions, Reply, problem};
use nephila_engine::folder::Folder;
use nephila_engine::settings::usage;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::ask::settings_of;
use crate::ask::socket::Opened;
use crate::cli::mcp::McpArgs;

/// Maximum number of nodes tried; further ones are ignored.
const PEERS_MAX: usize = 16;
/// Name of the process of a folder in the header field `Host`.
const SOCKET_HOST: &str = "nephila";

/// See the module.
#[derive(Debug)]
pub(super) enum Node {
    /// Nodes, in the order of tries.
    Nodes(Vec<Peer>),
    /// The process of a folder, or the folder; the lock is held while the state of the crawl is open.
    Folder(Folder, Arc<Mutex<()>>),
}

impl Node {
    pub(super) fn open(args: &McpArgs) -> anyhow::Result<Node> {
        let Some(urls) = &args.node else {
            let folder = Folder::find(args.output.as_deref());
            if !folder.archive().is_dir() {
                folder.expect_crawl_or_node()?;
            }
            return Ok(Node::Folder(folder, Arc::default()));
        };
        let token = nephila_cluster::api::token(args.token_file.as_deref().unwrap_or(Path::new("")))?;
        let trust = args.ca_file.as_deref().map(Trust::in_file).transpose().map_err(usage)?;
        let named = |url: &str| Peer::named(url.trim(), token.clone(), trust.as_ref());
        let peers: Result<Vec<Peer>, _> = urls.split(',').take(PEERS_MAX).map(named).collect();
        Ok(Node::Nodes(peers.map_err(|error| usage(anyhow::anyhow!(error)))?))
    }

    /// Who answers, in words.
    pub(super) fn name(&self) -> String {
        match self {
            Node::Nodes(peers) => peers.iter().map(Peer::address).collect::<Vec<_>>().join(", "),
            Node::Folder(folder, _) => folder.dir().display().to_string(),
        }
    }
}

impl Ask for Node {
    async fn ask(&self, question: Question) -> Result<Reply, NoAnswer> {
        match self {
            Node::Nodes(peers) => ask_one_of(peers, question).await,
            Node::Folder(folder, turn) => match connect(folder).await {
                Ok(stream) => ask_socket(stream, question).await,
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
                {
                    ask_folder(folder, turn, question).await
                }
                Err(error) => {
                    let address = folder.socket().display().to_string();
                    Err(NoAnswer::Unreachable { address, why: error.to_string() })
                }
            },
        }
    }
}

/// Tries one node after the other. A request that may have been executed is not repeated, unless it changes nothing.
async fn ask_one_of(peers: &[Peer], question: Question) -> Result<Reply, NoAnswer> {
    let mut last = None;
    for peer in peers {
        match peer.ask(question.clone()).await {
            Ok(reply) => return Ok(reply),
            Err(error @ NoAnswer::Silent { .. }) if question.method != Method::GET => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    Err(last.expect("at least one was named"))
}

async fn connect(folder: &Folder) -> io::Result<UnixStream> {
    // Connecting to a Unix socket takes no time.
    let stream =
        nephila_api::through(&folder.socket(), |path| std::os::unix::net::UnixStream::connect(path))?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

async fn ask_socket(stream: UnixStream, question: Question) -> Result<Reply, NoAnswer> {
    let silent = |why| NoAnswer::Silent { address: "the process of the folder".to_owned(), why };
    let peer = Peer::named(SOCKET_HOST, None, None).map_err(silent)?;
    let timeout = question.timeout;
    match tokio::time::timeout(timeout, peer.exchange(stream, question)).await {
        Ok(answer) => answer.map_err(silent),
        Err(_) => Err(silent(format!("nothing came within {} s", timeout.as_secs()))),
    }
}

/// Answers from the folder alone. What is known of URLs needs the state of the crawl; everything else is read from files.
async fn ask_folder(folder: &Folder, turn: &Arc<Mutex<()>>, question: Question) -> Result<Reply, NoAnswer> {
    let path = question.target.split('?').next().unwrap_or_default();
    let dir = folder.dir().display();
    if matches!(ReadOnly::routes().find(&question.method, path), Found::Route(..)) {
        let archive = match archive(folder) {
            Ok(archive) => archive,
            Err(error) => return Ok(refusal(&format!("{error:#}")).await),
        };
        return Own(&archive).ask(question).await;
    }
    let is_known = matches!(Questions::routes().find(&question.method, path), Found::Route(..));
    if question.method != Method::GET || !is_known {
        let detail = format!(
            "the folder {dir} is only read: begin a crawl with `nephila serve -o {dir}`, then ask again"
        );
        return Ok(refusal(&detail).await);
    }
    let opening = async {
        let turn = turn.clone().lock_owned().await;
        let folder = folder.clone();
        // With its turn, so that a folder that opens too late is closed before the next opening.
        let open = move || anyhow::Ok((Opened::new(folder, true)?, turn));
        let opened = tokio::task::spawn_blocking(open).await;
        opened.unwrap_or_else(|panic| Err(anyhow::anyhow!("opening failed: {panic}")))
    };
    match tokio::time::timeout(question.timeout, opening).await {
        Ok(Ok(held)) => Own(&held.0.questions).ask(question).await,
        Ok(Err(error)) => Ok(refusal(&format!("{error:#}")).await),
        Err(_) => {
            let seconds = question.timeout.as_secs();
            let detail = format!(
                "the state of the crawl in {dir} did not open within {seconds} s: ask `nephila serve -o {dir}`"
            );
            Ok(refusal(&detail).await)
        }
    }
}

fn archive(folder: &Folder) -> anyhow::Result<ReadOnly> {
    let settings = settings_of(folder)?;
    let media = nephila_cluster::media::reader(&settings)?;
    let dir = folder.dir().canonicalize().unwrap_or_else(|_| folder.dir().to_owned());
    let title = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let monitor = Monitor::new(folder.clone(), settings, &title, "archive");
    Ok(ReadOnly::new(folder.dir(), &title).with_media(media).with_monitor(monitor))
}

async fn refusal(detail: &str) -> Reply {
    Reply::of(problem(StatusCode::SERVICE_UNAVAILABLE, "no crawl runs here", detail)).await
}
