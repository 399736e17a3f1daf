//! Answers questions about a crawl, over a socket of its folder while it runs.
//!
//! [`Questions`] holds what is needed to answer; [`serve`] offers it as HTTP/1.1 on `state/control`:
//! `GET /api/v1/explain?url=`, `GET /api/v1/host?url=`, `GET /api/v1/stats`, all as JSON. A command that finds no such
//! socket opens the folder itself and asks the same [`Questions`].
//!
//! What always holds: nothing is changed by a question; connections, requests and their time are bounded.

mod explain;

use std::convert::Infallible;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

pub use explain::{Explained, HostView, LastView, Questions, RobotsView, ScopeView, StatsView, Summary};

use crate::folder::Folder;

/// Connections answered at once; more wait.
const CONNECTIONS_MAX: usize = 16;
/// A request's head has this long to come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection ends after this time.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// A request's head has at most so many bytes; a URL has at most half of them, escaped three times as many.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The kernel takes paths of sockets up to 107 bytes; longer ones go another way.
const SOCKET_PATH_BYTES_MAX: usize = 100;
/// A listener that fails (too many files open) is tried again after this time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on the folder's socket. The caller holds the folder's lock, so what lies there is left over.
pub fn listen(folder: &Folder) -> io::Result<UnixListener> {
    let path = folder.socket();
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = through(&path, |path| UnixListener::bind(path))?;
    // What a crawl knows is its owner's business.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Calls with a path that a socket can have: a long one is reached through its folder's handle.
pub(crate) fn through<T>(path: &Path, call: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return call(path);
    }
    let folder = std::fs::File::open(path.parent().unwrap_or(Path::new(".")))?;
    let name = path.file_name().unwrap_or_default();
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    call(&short)
}

/// Answers about a crawl until it is dropped.
#[derive(Debug)]
pub struct Server {
    task: tokio::task::JoinHandle<()>,
    socket: PathBuf,
}

impl Server {
    /// Begins to answer. Where no socket can be, a crawl runs all the same: only questions have to wait for its end.
    pub fn start(folder: &Folder, questions: Questions) -> Option<Server> {
        match listen(folder) {
            Ok(listener) => {
                let task = tokio::spawn(serve(listener, Arc::new(questions)));
                Some(Server { task, socket: folder.socket() })
            }
            Err(error) => {
                let socket = folder.socket();
                eprintln!(
                    "nephila: {}: {error}; `nephila explain` waits for the end of this crawl",
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

/// Answers until it is dropped.
pub async fn serve(listener: UnixListener, questions: Arc<Questions>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let place = room.clone().acquire_owned().await.expect("it is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let questions = questions.clone();
        // They end with this task: a set that is dropped ends what is in it.
        connections.spawn(async move {
            _ = tokio::time::timeout(CONNECTION_TIMEOUT, answer(stream, questions)).await;
            drop(place);
        });
    }
}

async fn answer(stream: UnixStream, questions: Arc<Questions>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let questions = questions.clone();
        async move { Ok::<_, Infallible>(respond(&request, &questions).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    // Whoever goes away in the middle does not want an answer.
    _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// What went wrong, as RFC 9457 has it.
#[derive(Serialize)]
struct Problem<'a> {
    title: &'a str,
    status: u16,
    detail: String,
}

async fn respond<B>(request: &Request<B>, questions: &Questions) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return problem(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered", String::new());
    }
    let url = request.uri().query().and_then(|query| parameter(query, "url"));
    let answered = match (request.uri().path(), url) {
        ("/api/v1/stats", _) => questions.stats().await.map(|stats| json(&stats)),
        ("/api/v1/explain", Some(url)) => questions.explain(&url).await.map(|explained| json(&explained)),
        ("/api/v1/host", Some(url)) => questions.host(&url).await.map(|host| json(&host)),
        ("/api/v1/explain" | "/api/v1/host", None) => {
            return problem(StatusCode::BAD_REQUEST, "the parameter url is missing", String::new());
        }
        (path, _) => return problem(StatusCode::NOT_FOUND, "no such question", path.to_owned()),
    };
    match answered {
        Ok(body) => reply(StatusCode::OK, "application/json", body),
        Err(error) => {
            problem(StatusCode::SERVICE_UNAVAILABLE, "the crawl cannot answer", format!("{error:#}"))
        }
    }
}

fn problem(status: StatusCode, title: &str, detail: String) -> Response<Full<Bytes>> {
    let body = json(&Problem { title, status: status.as_u16(), detail });
    reply(status, "application/problem+json", body)
}

fn reply(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers can be written")
}

/// The value of a parameter of a query. A plus sign is a plus sign: URLs have them.
fn parameter(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.split_once('=').filter(|(n, _)| *n == name))?.1;
    let bytes = nephila_core::url::percent_decode(value.as_bytes());
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Text as the value of a parameter.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
