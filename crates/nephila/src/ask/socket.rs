//! Asks the process that crawls in a folder, or, if none does, opens the folder and answers itself.
//!
//! What always holds: an answer of the socket is bounded in size and time; while this process answers itself it holds
//! the folder's lock, and takes no action of the frontier.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context;
use serde::de::DeserializeOwned;

use super::settings_of;
use crate::api::{self, Explained, FeedSaid, FeedsSaid, HostView, Questions, StatsView};
use crate::crawl::stream::StreamSaid;
use crate::exit::Exit;
use crate::folder::{Folder, Lock};
use crate::node::remote::Remote;
use crate::node::views::Added;
use crate::settings::StateKind;
use crate::wire;
use crate::worker::{Running, Taken};

/// A question is answered within this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// An answer has at most so many bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// So much of a stream is given at once, and a part more: a request's body has at most 4 MiB, a part at most 1.
pub(super) const STREAM_BYTES: usize = 3 << 20;
/// Parts of a stream that wait to be durable while this process reads the next.
const PENDING_MAX: usize = 64;

/// Who answers.
pub(super) enum Source {
    /// The process that crawls.
    Crawl(Folder),
    /// A node of a cluster.
    Node(tokio::runtime::Runtime, Remote),
    /// This one.
    Here(Box<Here>),
}

/// A folder that this process has opened.
pub(super) struct Here {
    runtime: tokio::runtime::Runtime,
    questions: Questions,
    /// Parts of a stream that may not be durable yet.
    pending: RefCell<VecDeque<Taken>>,
    _lock: Lock,
}

impl Source {
    /// Finds out who answers: the node that was named, or whoever answers about a folder.
    pub(super) fn open(folder: Folder, remote: &crate::cli::Remote) -> anyhow::Result<Source> {
        if let Some(node) = Remote::open(remote)? {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            return Ok(Source::Node(runtime, node));
        }
        folder.expect_crawl_or_node()?;
        match connect(&folder) {
            Ok(_) => return Ok(Source::Crawl(folder)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(error).context("asking the process that crawls"),
        }
        if folder.is_node() {
            anyhow::bail!(
                "{} is the folder of a node that does not run: ask another with --node URL; `nephila log`, `cdx` and `read` \
                 know what this one did",
                folder.dir().display()
            );
        }
        let lock = folder.lock().map_err(|error| match error.downcast_ref() {
            Some(Exit::Held) => error
                .context("another process has the folder open and does not answer: try again in a moment"),
            _ => error,
        })?;
        let settings = settings_of(&folder)?;
        if settings.crawl.state == StateKind::Memory {
            anyhow::bail!(
                "this crawl kept its state in memory, which is gone; `nephila log` and `nephila cdx` know what it did"
            );
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Nobody takes actions, so none are decided.
        let Running { handle, actions, thread: _ } = wire::worker(&folder, &settings)?;
        drop(actions);
        let questions = Questions::new(handle, folder, settings);
        Ok(Source::Here(Box::new(Here { runtime, questions, pending: RefCell::default(), _lock: lock })))
    }

    /// Is it a process that crawls?
    pub(super) fn is_running(&self) -> bool {
        !matches!(self, Source::Here(_))
    }

    /// Explains a URL.
    pub(super) fn explain(&self, url: &str) -> anyhow::Result<Explained> {
        match self {
            Source::Crawl(folder) => get(folder, &format!("/api/v1/explain?url={}", api::escaped(url))),
            Source::Node(runtime, node) => runtime.block_on(node.explain(url)),
            Source::Here(here) => here.runtime.block_on(here.questions.explain(url)),
        }
    }

    /// The feeds that are followed.
    pub(super) fn feeds(&self) -> anyhow::Result<FeedsSaid> {
        match self {
            Source::Crawl(folder) => get(folder, "/api/v1/feeds"),
            Source::Node(runtime, node) => runtime.block_on(node.feeds()),
            Source::Here(here) => here.runtime.block_on(here.questions.feeds()),
        }
    }

    /// One of them.
    pub(super) fn feed(&self, url: &str) -> anyhow::Result<Option<FeedSaid>> {
        match self {
            Source::Crawl(folder) => get(folder, &format!("/api/v1/feed?url={}", api::escaped(url))),
            Source::Node(runtime, node) => runtime.block_on(node.feed(url)),
            Source::Here(here) => here.runtime.block_on(here.questions.feed(url)),
        }
    }

    /// Adds lines of URLs to a job. Returns when they are durable.
    pub(super) fn add(&self, job: &str, lines: &str) -> anyhow::Result<Added> {
        match self {
            Source::Crawl(folder) => ask(folder, "POST /api/v1/urls", lines.as_bytes()),
            Source::Node(runtime, node) => runtime.block_on(node.add(job, false, lines)),
            Source::Here(here) => here.runtime.block_on(here.questions.add(lines)),
        }
    }

    /// Gives parts of a stream, numbered from this on, to a job. They are durable when [`Source::settled`] says so.
    pub(super) fn stream(
        &self,
        job: &str,
        batch: Option<&str>,
        first: u32,
        text: Vec<u8>,
    ) -> anyhow::Result<StreamSaid> {
        match self {
            Source::Crawl(folder) => {
                let batch = batch.map(|batch| format!("&batch={}", api::escaped(batch))).unwrap_or_default();
                let target = format!("/api/v1/reflog?part={first}{batch}");
                ask(folder, &format!("POST {target}"), &text)
            }
            Source::Node(runtime, node) => runtime.block_on(node.stream(job, batch, first, text)),
            Source::Here(here) => here.runtime.block_on(async {
                let (said, taken) = here.questions.begin_stream(batch, first, &text).await?;
                let mut pending = here.pending.take();
                pending.extend(taken);
                // Some wait while others are read, but not all of them.
                while pending.len() > PENDING_MAX {
                    pending.pop_front().expect("there are some").durable().await?;
                }
                here.pending.replace(pending);
                Ok(said)
            }),
        }
    }

    /// Returns when everything that was given is durable.
    pub(super) fn settled(&self) -> anyhow::Result<()> {
        let Source::Here(here) = self else { return Ok(()) };
        here.runtime.block_on(async {
            for part in here.pending.take() {
                part.durable().await?;
            }
            Ok(())
        })
    }

    /// What is known of a host.
    pub(super) fn host(&self, url: &str) -> anyhow::Result<Option<HostView>> {
        match self {
            Source::Crawl(folder) => get(folder, &format!("/api/v1/host?url={}", api::escaped(url))),
            Source::Node(runtime, node) => runtime.block_on(node.host(url)),
            Source::Here(here) => here.runtime.block_on(here.questions.host(url)),
        }
    }
}

/// The numbers of the process that crawls; none if none does.
pub(super) fn running_stats(folder: &Folder) -> anyhow::Result<Option<StatsView>> {
    match connect(folder) {
        Ok(_) => get(folder, "/api/v1/stats").map(Some),
        Err(_) => Ok(None),
    }
}

fn connect(folder: &Folder) -> io::Result<UnixStream> {
    let stream = api::through(&folder.socket(), |path| UnixStream::connect(path))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

fn get<T: DeserializeOwned>(folder: &Folder, target: &str) -> anyhow::Result<T> {
    ask(folder, &format!("GET {target}"), b"")
}

fn ask<T: DeserializeOwned>(folder: &Folder, line: &str, body: &[u8]) -> anyhow::Result<T> {
    let body = ask_bytes(folder, line, body)?;
    serde_json::from_slice(&body)
        .context("the process that crawls is of another version: use its own program")
}

/// What the process that works in a folder answers.
pub(super) fn ask_bytes(folder: &Folder, line: &str, body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut stream = connect(folder).context("asking the process that crawls")?;
    let length = body.len();
    write!(
        stream,
        "{line} HTTP/1.1\r\nhost: nephila\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    )?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut answer)
        .context("the process that crawls does not answer")?;
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let end = end.context("the process that crawls gave no answer: try again")?;
    let (head, body) = (String::from_utf8_lossy(&answer[..end]), &answer[end + 4..]);
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        anyhow::bail!("{} {}: {}", status, text("title"), text("detail"));
    }
    Ok(body.to_vec())
}
