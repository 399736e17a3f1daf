//! HTTP API of a crawl, on a Unix socket in the crawl's folder while the crawl runs.
//!
//! An operation is described once, as data ([`operation`], [`operations`]). Each kind of server lists the operations that
//! it answers with their handlers ([`Routes`]): the crawl of one machine (`one`), an archive alone ([`web`]), a node of a
//! cluster (the crate `nephila-cluster`). Routing, roles, the check of parameters and the OpenAPI document come from this
//! list. `http` serves a list as HTTP/1.1; `guard` decides which clients may ask for which operations.
//!
//! [`Questions`] holds everything needed to answer a request about a crawl. A command that finds no socket opens the
//! folder and calls the same [`Questions`] directly. `client` is the HTTP client of nodes and commands, `proof`
//! authenticates nodes to each other, `tls` encrypts the connections. `/web/` is the archive in the formats of other
//! programs ([`web`]), `/` the dashboard ([`dashboard`]).
//!
//! Invariants: a GET request changes nothing in a crawl; the number and duration of connections and the size and
//! duration of requests are bounded.

pub mod about;
pub mod agent;
pub mod alarms;
pub mod answers;
mod apart;
pub mod archive_view;
mod cache;
pub mod captures;
mod client;
mod content;
mod costly;
pub mod dashboard;
mod document;
pub mod event_pages;
mod events;
mod explain;
mod feeds;
mod foreseen;
mod guard;
pub mod history;
pub mod hosts;
mod http;
mod hub;
mod idempotency;
pub mod jobs;
pub mod judge;
mod lines;
mod lists;
pub mod live;
pub mod log_view;
pub mod media;
pub mod metrics;
pub mod monitor;
pub mod more_jobs;
mod one;
pub mod operation;
pub mod operations;
pub mod politeness;
mod popular;
mod problem;
mod proof;
pub mod public;
mod question;
mod rate;
pub mod ready;
mod room;
mod routes;
pub mod sampler;
mod scope;
pub mod scope_test;
pub mod search;
pub mod session;
pub mod settings_view;
pub mod shapes;
pub mod status;
pub mod stops;
pub mod timeline;
mod times;
pub mod tls;
mod tokens;
pub mod views;
pub mod web;
pub mod webhooks;
pub mod whole_page;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixListener;

pub use apart::Apart;
pub use client::{NoAnswer, Peer, Question, Reply};
pub use content::Content;
pub use document::Access;
pub use events::wait_of;
pub use explain::{Explained, HostView, LastView, Questions, RobotsView, ScopeView, StatsView, Summary};
pub use feeds::{FeedSaid, FeedsSaid, HEALTHS, PollSaid, is_ill};
pub use foreseen::{ForeseenSaid, NamedSaid, VisitsSaid};
pub use guard::{Guard, Keys};
pub use http::{STREAM_TIMEOUT, STREAMS_MAX, serve};
pub use hub::{LaterStatus, Lines, Live};
pub use lists::PAGE_MAX;
pub use lists::{DownloadSaid, ListSaid, StorySaid};
pub use problem::{HttpAnswer, Instead, ok, problem, reply, retry_after};
pub use question::{FORWARDED, HttpQuestion, escaped, unescaped};
pub use routes::{Answers, Found, Handler, Later, Route, Routes, route};
pub use tokens::Token;

use nephila_engine::folder::Folder;

/// Maximum number of connections to the folder's socket that are served at the same time; further connections wait.
pub const CONNECTIONS_MAX: usize = 16;
/// Socket paths longer than this are opened through a handle of their directory: the kernel takes at most 107 bytes.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// Listens on the folder's socket. The caller holds the folder's lock, so an existing socket file is a leftover and is
/// removed.
pub fn listen(folder: &Folder) -> io::Result<UnixListener> {
    let path = folder.socket();
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = through(&path, |path| UnixListener::bind(path))?;
    // The state of a crawl is private to its owner.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Calls `call` with a path that fits into a socket address. A long path is reached through a handle of its directory.
pub fn through<T>(path: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return call(path);
    }
    let folder = std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().unwrap_or_default();
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    call(&short)
}

/// Serves the API of a crawl until dropped.
#[derive(Debug)]
pub struct Server {
    task: tokio::task::JoinHandle<()>,
    socket: PathBuf,
}

impl Server {
    /// Starts the server. A crawl runs even if no socket can be created; then commands wait for the end of the process.
    pub fn start(folder: &Folder, answers: Arc<impl Answers>) -> Option<Server> {
        match listen(folder) {
            Ok(listener) => {
                let task = tokio::spawn(serve(listener, answers, Guard::Owner, None, CONNECTIONS_MAX));
                Some(Server { task, socket: folder.socket() })
            }
            Err(error) => {
                let socket = folder.socket();
                tracing::warn!(
                    %error,
                    "{}: {error}; `nephila explain -o` waits for the end of this process",
                    socket.display()
                );
                None
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        _ = std::fs::remove_file(&self.socket);
    }
}

#[cfg(test)]
mod tests;
