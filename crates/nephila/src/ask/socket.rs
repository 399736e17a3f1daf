//! Client for a folder: sends requests to the crawling process, or, if none runs, opens the folder and answers in this
//! process.
//!
//! Invariants: an answer from the socket is bounded in size and time; while this process answers, it holds the folder's
//! lock and takes no action of the frontier. A folder that is not writable is only queried, in a copy.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::settings_of;
use nephila_api::views::Added;
use nephila_api::{
    self, DownloadSaid, Explained, FeedSaid, FeedsSaid, ForeseenSaid, HostView, ListSaid, Questions,
    StatsView, StorySaid,
};
use nephila_cluster::remote::Remote;
use nephila_engine::crawl::stream::StreamSaid;
use nephila_engine::exit::Exit;
use nephila_engine::folder::copy::is_unwritable;
use nephila_engine::folder::{Folder, Lock};
use nephila_engine::process::{block_on, small_runtime};
use nephila_engine::settings::StateKind;
use nephila_engine::wire;
use nephila_engine::worker::{Running, Taken};

/// Timeout of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Size in bytes of one request for a stream, plus at most one part: a request's body has at most 4 MiB, a part at most
/// 1 MiB.
pub(super) const STREAM_BYTES: usize = 3 << 20;
/// Maximum number of parts of a stream that are not yet durable while this process reads on.
const PENDING_MAX: usize = 64;

/// The process that answers.
pub(super) enum Source {
    /// The crawling process of this folder.
    Crawl(Folder),
    /// A node of a cluster.
    Node(tokio::runtime::Runtime, Remote),
    /// This process.
    Here(Box<Here>),
}

/// A folder that this process has opened, and a runtime for its answers.
pub(super) struct Here {
    runtime: tokio::runtime::Runtime,
    /// Parts of a stream that may not be durable yet.
    pending: RefCell<VecDeque<Taken>>,
    opened: Opened,
}

/// A folder that this process has opened.
pub(super) struct Opened {
    /// Answers about the crawl.
    pub(super) questions: Questions,
    _lock: Lock,
    /// The temporary copy of a folder that is not writable. Dropped last.
    _copy: Option<TempDir>,
}

impl Opened {
    /// Opens a folder in which no process runs. With `reads`, the folder may be read-only.
    pub(super) fn new(folder: Folder, reads: bool) -> anyhow::Result<Opened> {
        if folder.is_node() {
            anyhow::bail!(
                "{} is the folder of a node that does not run: ask another with --node URL; `nephila log`, `cdx` and `read` \
                 know what this one did",
                folder.dir().display()
            );
        }
        let (folder, lock, copy) = match folder.lock() {
            Ok(lock) => (folder, lock, None),
            Err(error) if reads && is_unwritable(&error) => {
                let (place, folder) = folder.copy_to_read()?;
                let lock = folder.lock()?;
                (folder, lock, Some(place))
            }
            Err(error) if error.downcast_ref() == Some(&Exit::Held) => {
                let what = "another process has the folder open and does not answer: try again in a moment";
                return Err(error.context(what));
            }
            Err(error) => return Err(error),
        };
        let settings = settings_of(&folder)?;
        if settings.crawl.state == StateKind::Memory {
            anyhow::bail!(
                "this crawl kept its state in memory, which is gone; `nephila log` and `nephila cdx` know what it did"
            );
        }
        // No receiver takes actions, so the worker decides none.
        let Running { handle, actions, thread: _ } = wire::worker(&folder, &settings, false)?;
        drop(actions);
        Ok(Opened { questions: Questions::new(handle, folder, settings), _lock: lock, _copy: copy })
    }
}

impl Source {
    /// Selects the named node, or the process that answers for a folder.
    pub(super) fn open(folder: Folder, remote: &crate::cli::Remote) -> anyhow::Result<Source> {
        Source::find(folder, remote, false)
    }

    /// The same for a command that changes nothing: the folder may be read-only.
    pub(super) fn to_read(folder: Folder, remote: &crate::cli::Remote) -> anyhow::Result<Source> {
        Source::find(folder, remote, true)
    }

    fn find(folder: Folder, remote: &crate::cli::Remote, reads: bool) -> anyhow::Result<Source> {
        if let Some(node) = remote.open()? {
            let runtime = small_runtime()?;
            return Ok(Source::Node(runtime, node));
        }
        folder.expect_crawl_or_node()?;
        if is_answered(&folder)? {
            return Ok(Source::Crawl(folder));
        }
        let opened = Opened::new(folder, reads)?;
        Ok(Source::Here(Box::new(Here { runtime: small_runtime()?, pending: RefCell::default(), opened })))
    }

    /// Whether another, running process answers.
    pub(super) fn is_running(&self) -> bool {
        !matches!(self, Source::Here(_))
    }

    /// Explains a URL.
    pub(super) fn explain(&self, url: &str) -> anyhow::Result<Explained> {
        match self {
            Source::Crawl(folder) => {
                get(folder, &format!("/api/v1/explain?url={}", nephila_api::escaped(url)))
            }
            Source::Node(runtime, node) => block_on(runtime, node.explain(url)),
            Source::Here(here) => block_on(&here.runtime, here.opened.questions.explain(url)),
        }
    }

    /// The feeds that are followed.
    pub(super) fn feeds(&self) -> anyhow::Result<FeedsSaid> {
        match self {
            Source::Crawl(folder) => get(folder, "/api/v1/feeds"),
            Source::Node(runtime, node) => block_on(runtime, node.feeds()),
            Source::Here(here) => block_on(&here.runtime, here.opened.questions.feeds()),
        }
    }

    /// One feed.
    pub(super) fn feed(&self, url: &str) -> anyhow::Result<Option<FeedSaid>> {
        match self {
            Source::Crawl(folder) => get(folder, &format!("/api/v1/feed?url={}", nephila_api::escaped(url))),
            Source::Node(runtime, node) => block_on(runtime, node.feed(url)),
            Source::Here(here) => block_on(&here.runtime, here.opened.questions.feed(url)),
        }
    }

    /// A page of the downloads.
    pub(super) fn downloads(
        &self,
        state: Option<&str>,
        of: Option<&str>,
        from: Option<&str>,
        max: usize,
    ) -> anyhow::Result<ListSaid<DownloadSaid>> {
        match self {
            Source::Crawl(folder) => {
                let asked = parameters(&[("state", state), ("type", of), ("from", from)], max);
                get(folder, &format!("/api/v1/downloads{asked}"))
            }
            Source::Node(..) => anyhow::bail!("a cluster has no such list: ask the folder of a crawl"),
            Source::Here(here) => {
                block_on(&here.runtime, here.opened.questions.downloads(state, of, from, max))
            }
        }
    }

    /// A page of the stories.
    pub(super) fn stories(
        &self,
        source: Option<&str>,
        from: Option<&str>,
        max: usize,
    ) -> anyhow::Result<ListSaid<StorySaid>> {
        match self {
            Source::Crawl(folder) => {
                let asked = parameters(&[("source", source), ("from", from)], max);
                get(folder, &format!("/api/v1/stories{asked}"))
            }
            Source::Node(..) => anyhow::bail!("a cluster has no such list: ask the folder of a crawl"),
            Source::Here(here) => block_on(&here.runtime, here.opened.questions.stories(source, from, max)),
        }
    }

    /// Adds URLs to a job, one per line. Returns when the URLs are durable.
    pub(super) fn add(&self, job: &str, lines: &str) -> anyhow::Result<Added> {
        match self {
            Source::Crawl(folder) => ask(folder, "POST /api/v1/urls", lines.as_bytes()),
            Source::Node(runtime, node) => block_on(runtime, node.add(job, false, lines)),
            Source::Here(here) => block_on(&here.runtime, here.opened.questions.add(lines)),
        }
    }

    /// Adds parts of a stream, numbered from `first`, to a job. All parts are durable when [`Source::settled`] returns.
    pub(super) fn stream(
        &self,
        job: &str,
        batch: Option<&str>,
        first: u32,
        text: Vec<u8>,
    ) -> anyhow::Result<StreamSaid> {
        match self {
            Source::Crawl(folder) => {
                let batch =
                    batch.map(|batch| format!("&batch={}", nephila_api::escaped(batch))).unwrap_or_default();
                let target = format!("/api/v1/reflog?part={first}{batch}");
                ask(folder, &format!("POST {target}"), &text)
            }
            Source::Node(runtime, node) => block_on(runtime, node.stream(job, batch, first, text)),
            Source::Here(here) => block_on(&here.runtime, async {
                let (said, taken) = here.opened.questions.begin_stream(batch, first, &text).await?;
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

    /// Dry run of parts of a stream, numbered from `first`.
    pub(super) fn foresee(
        &self,
        batch: Option<&str>,
        first: u32,
        text: &[u8],
    ) -> anyhow::Result<ForeseenSaid> {
        match self {
            Source::Crawl(folder) => {
                let batch =
                    batch.map(|batch| format!("&batch={}", nephila_api::escaped(batch))).unwrap_or_default();
                ask(folder, &format!("POST /api/v1/reflog?dry=1&part={first}{batch}"), text)
            }
            Source::Node(..) => anyhow::bail!("a dry run is for the folder of a crawl"),
            Source::Here(here) => block_on(&here.runtime, here.opened.questions.foresee(batch, first, text)),
        }
    }

    /// Returns when everything added is durable.
    pub(super) fn settled(&self) -> anyhow::Result<()> {
        let Source::Here(here) = self else { return Ok(()) };
        block_on(&here.runtime, async {
            for part in here.pending.take() {
                part.durable().await?;
            }
            Ok(())
        })
    }

    /// State of a host.
    pub(super) fn host(&self, url: &str) -> anyhow::Result<Option<HostView>> {
        match self {
            Source::Crawl(folder) => get(folder, &format!("/api/v1/host?url={}", nephila_api::escaped(url))),
            Source::Node(runtime, node) => block_on(runtime, node.host(url)),
            Source::Here(here) => block_on(&here.runtime, here.opened.questions.host(url)),
        }
    }
}

/// The query string of a request.
fn parameters(named: &[(&str, Option<&str>)], max: usize) -> String {
    let said =
        named.iter().filter_map(|(name, value)| Some(format!("&{name}={}", nephila_api::escaped((*value)?))));
    format!("?max={max}{}", said.collect::<String>())
}

/// Counters of the crawling process; none if none runs.
pub(super) fn running_stats(folder: &Folder) -> anyhow::Result<Option<StatsView>> {
    match connect(folder) {
        Ok(_) => get(folder, "/api/v1/stats").map(Some),
        Err(_) => Ok(None),
    }
}

/// Whether a process answers for a folder.
pub(super) fn is_answered(folder: &Folder) -> anyhow::Result<bool> {
    match connect(folder) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            Ok(false)
        }
        Err(error) => Err(error).context("asking the process that crawls"),
    }
}

fn connect(folder: &Folder) -> io::Result<UnixStream> {
    let stream = nephila_api::through(&folder.socket(), |path| UnixStream::connect(path))?;
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

/// Sends a request to the process of a folder and returns the body of the answer.
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
