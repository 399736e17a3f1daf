//! HTTP API of a crawl, on a Unix socket in the crawl's folder while the crawl runs.
//!
//! [`Questions`] holds everything needed to answer a request; `http` serves the answers as HTTP/1.1 on `state/control`:
//! `GET /api/v1/explain?url=`, `GET /api/v1/host?url=`, `GET /api/v1/stats`, all as JSON. A command that finds no such
//! socket opens the folder and calls the same [`Questions`] directly. `nephila serve` without a cluster answers the
//! same requests over TCP as well. A node of a cluster has more endpoints, on the same socket and over TCP
//! (`node::api`). `client` is the HTTP client of nodes and commands, `proof` authenticates nodes to each other, `tls`
//! encrypts the connections.
//!
//! `GET /api/v1/events` returns pages of events, `GET /api/v1/pages?url=` the captures of a URL in the archive. `/web/`
//! is the archive in the formats of other programs ([`web`]).
//!
//! `POST /api/v1/urls` adds URLs, as lines of plain text or JSON. `POST /api/v1/reflog?batch=&part=` adds lines of a
//! stream of visited URLs; both parameters are optional.
//!
//! Invariants: a GET request changes nothing in a crawl; the number and duration of connections and the size and
//! duration of requests are bounded.

pub mod about;
mod cache;
pub mod captures;
mod client;
pub mod event_pages;
mod events;
mod explain;
mod feeds;
mod foreseen;
mod http;
mod lists;
pub mod media;
pub mod metrics;
mod proof;
mod room;
mod scope;
pub mod tls;
pub mod views;
pub mod web;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::http::{Method, StatusCode};
use tokio::net::UnixListener;

pub use client::{NoAnswer, Peer, Question, Reply};
pub use events::wait_of;
pub use explain::{Explained, HostView, LastView, Questions, RobotsView, ScopeView, StatsView, Summary};
pub use feeds::{FeedSaid, FeedsSaid, HEALTHS, PollSaid, is_ill};
pub use foreseen::{ForeseenSaid, NamedSaid};
pub use http::{
    Answers, FORWARDED, Guard, HttpAnswer, HttpQuestion, escaped, ok, problem, reply, retry_after, serve,
    unescaped,
};
pub use lists::PAGE_MAX;
pub use lists::{DownloadSaid, ListSaid, StorySaid};

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

impl Answers for Questions {
    async fn answer(&self, asked: HttpQuestion) -> HttpAnswer {
        if asked.method == Method::POST && asked.path == "/api/v1/reflog" {
            let batch = asked.parameter("batch");
            let part = asked.parameter("part").and_then(|part| part.parse().ok()).unwrap_or(0);
            if asked.parameter("dry").is_some() {
                return match self.foresee(batch.as_deref(), part, &asked.body).await {
                    Ok(said) => ok(&said),
                    Err(error) => {
                        let why = format!("{error:#}");
                        problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", why)
                    }
                };
            }
            return match self.stream(batch.as_deref(), part, &asked.body).await {
                Ok(said) => ok(&said),
                Err(error) => {
                    let why = format!("{error:#}");
                    problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", why)
                }
            };
        }
        if asked.method == Method::POST && asked.path == "/api/v1/urls" {
            return match self.add(&String::from_utf8_lossy(&asked.body)).await {
                Ok(added) => ok(&added),
                Err(error) => {
                    let why = format!("{error:#}");
                    problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", why)
                }
            };
        }
        if asked.path.starts_with(web::PREFIX) {
            return match &self.archive {
                Some(archive) => web::answer(&asked, archive, self).await,
                None => problem(StatusCode::NOT_FOUND, "there is no archive here", ""),
            };
        }
        if asked.method != Method::GET {
            return problem(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", "only GET is answered");
        }
        let answered = match (&*asked.path, asked.parameter("url")) {
            ("/livez", _) => return ok(&"alive"),
            ("/metrics", _) => {
                let crawl = self.crawl.upgrade();
                let families = metrics::of_crawl(&self.handle, crawl.as_deref()).await;
                let cache = self.archive.as_ref().map(|archive| metrics::of_cache(archive.cache_counts()));
                families
                    .map(|families| metrics::answer("single", families.into_iter().chain(cache).collect()))
                    .map_err(Into::into)
            }
            ("/readyz", _) => self.state().await.map(|state| ok(&state)),
            ("/api/v1/events", _) => return self.events(&asked).await,
            ("/api/v1/pages", _) => return self.pages(&asked).await.unwrap_or_else(|instead| *instead),
            ("/api/v1/spiders", _) => {
                let spiders = self.crawl.upgrade().map(|crawl| crawl.spiders());
                return ok(&spiders.unwrap_or_default());
            }
            ("/api/v1/stats", _) => self.stats().await.map(|stats| ok(&stats)),
            ("/api/v1/explain", Some(url)) => self.explain(&url).await.map(|explained| ok(&explained)),
            ("/api/v1/host", Some(url)) => self.host(&url).await.map(|host| ok(&host)),
            ("/api/v1/feeds", _) => self.feeds().await.map(|feeds| ok(&feeds)),
            ("/api/v1/feed", Some(url)) => self.feed(&url).await.map(|feed| ok(&feed)),
            ("/api/v1/downloads", _) => {
                let (state, of) = (asked.parameter("state"), asked.parameter("type"));
                let (from, max) = (asked.parameter("from"), max_of(&asked));
                let said = self.downloads(state.as_deref(), of.as_deref(), from.as_deref(), max).await;
                said.map(|said| ok(&said))
            }
            ("/api/v1/stories", _) => {
                let (source, from) = (asked.parameter("source"), asked.parameter("from"));
                let said = self.stories(source.as_deref(), from.as_deref(), max_of(&asked)).await;
                said.map(|said| ok(&said))
            }
            ("/api/v1/explain" | "/api/v1/host" | "/api/v1/feed", None) => {
                return problem(StatusCode::BAD_REQUEST, "missing parameter url", "");
            }
            (path, _) => return problem(StatusCode::NOT_FOUND, "not found", path),
        };
        answered.unwrap_or_else(|error| {
            problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", format!("{error:#}"))
        })
    }
}

/// The number of rows that a list request asks for.
fn max_of(asked: &HttpQuestion) -> usize {
    asked.parameter("max").and_then(|max| max.parse().ok()).unwrap_or(lists::PAGE_MAX)
}

#[cfg(test)]
mod tests;
