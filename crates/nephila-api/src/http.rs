//! HTTP/1.1 server for all sockets: connections, heads, bodies and times are bounded, problems follow RFC 9457.
//!
//! [`serve`] connects a listener ([`Accept`]) with a request handler ([`Answers`]). A [`Guard`] checks the head of each
//! request before the body is read (authentication and authorization).
//!
//! Invariants: a request that the guard refuses costs no more than its head; no answer takes longer than the connection
//! timeout; idle or slow clients block no others (`room`).

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use super::proof::{self, Nonce, Once};
use super::room::{Place, Room};

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum duration of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a request's head in bytes. A URL has at most 8 KiB, and three times as much percent-encoded.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The same without a token, where people browse the archive: a captured page can set cookies for this machine, and
/// browsers send up to 180 of 4 KiB with each request.
const HEAD_BYTES_MAX_BROWSER: usize = 1 << 20;
/// Maximum size of all cookies of a request in bytes. We use none, and servers with the usual limits refuse more: then
/// the browser is told to delete them.
const COOKIE_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of a request's body in bytes. A client with more data sends several requests.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Pause before a failed `accept` (too many open files) is retried.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Liveness and readiness probes, which need no token.
const PROBES: [&str; 2] = ["/livez", "/readyz"];

/// Header field of a request that another node has forwarded: `owner` or `archive`.
pub const FORWARDED: &str = "nephila-forwarded";

/// An HTTP answer.
pub type HttpAnswer = Response<Full<Bytes>>;

/// A request with its complete body.
#[derive(Debug)]
pub struct HttpQuestion {
    /// HTTP method of the request.
    pub method: Method,
    /// Path and query, as received.
    pub target: String,
    /// Path of the target, without the query.
    pub path: String,
    query: String,
    /// Header fields of the request.
    pub headers: HeaderMap,
    /// Complete body of the request; empty for a request without a body.
    pub body: Bytes,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
}

impl HttpQuestion {
    /// A request without a body.
    pub fn new(method: Method, target: &str, headers: HeaderMap, is_tls: bool) -> HttpQuestion {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        HttpQuestion {
            method,
            target: target.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: Bytes::new(),
            is_tls,
        }
    }

    /// The value of a query parameter. A plus sign stays a plus sign: URLs contain plus signs.
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.values(name).next()
    }

    /// The values of a query parameter that may be repeated.
    pub fn parameters(&self, name: &str) -> Vec<String> {
        self.values(name).collect()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(move |(other, _)| *other == name).map(|(_, value)| unescaped(value))
    }

    /// A header field, if its value is text.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A handler of requests.
pub trait Answers: Send + Sync + 'static {
    /// Answers one request.
    fn answer(&self, asked: HttpQuestion) -> impl Future<Output = HttpAnswer> + Send;
}

/// A listener.
pub trait Accept: Send {
    /// The type of a connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Accepts the next connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Accept for UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

impl Accept for TcpListener {
    type Stream = tokio::net::TcpStream;

    async fn next(&self) -> io::Result<Self::Stream> {
        Ok(self.accept().await?.0)
    }
}

/// Access control: which clients may send requests.
#[derive(Clone, Debug)]
pub enum Guard {
    /// Every client that can open the socket: the folder's owner.
    Owner,
    /// Every client on this machine, except pages in a browser.
    Local,
    /// Like `Local`, but a page of another origin may have `/` in a frame; the policy of `/` says which.
    Framed,
    /// Clients with a token; the token determines the permissions.
    Token {
        /// Token with full permissions for clients other than nodes.
        token: Arc<str>,
        /// Shared secret of the nodes, for read requests only. A node proves knowledge of the secret and never sends
        /// the secret.
        nodes: Arc<str>,
        /// Token for read requests only, if configured.
        reads: Option<Arc<str>>,
        /// The name of this node.
        node: Arc<str>,
        /// Recent nonces of nodes, to reject replays.
        once: Arc<Once>,
    },
}

/// The authenticated client, as far as the answer depends on the client.
#[derive(Debug, PartialEq, Eq)]
enum Asker {
    /// A client with permission.
    Any,
    /// Another node; the answer carries a proof over this nonce.
    Node(Nonce),
}

impl Guard {
    fn lets_in(&self, head: &request::Parts) -> Result<Asker, Box<HttpAnswer>> {
        if let Guard::Token { nodes, reads, node, once, .. } = self
            && let Some(credentials) =
                head.headers.get(header::AUTHORIZATION).and_then(|text| text.to_str().ok())
        {
            let target = head.uri.path_and_query().map_or("", |target| target.as_str());
            let asker = proof::check_request(nodes, node, (&head.method, target), credentials, seconds());
            if let Some(nonce) = asker.filter(|nonce| once.is_first(nonce, seconds())) {
                return Ok(Asker::Node(nonce));
            }
            if reads.as_ref().is_some_and(|reads| is_bearer(&head.headers, reads)) {
                return match head.method {
                    Method::GET | Method::HEAD => Ok(Asker::Any),
                    _ => {
                        let detail =
                            "this token only asks; what changes something needs that of api.token_file";
                        Err(Box::new(problem(StatusCode::FORBIDDEN, "forbidden for this token", detail)))
                    }
                };
            }
        }
        self.refuses(head.uri.path(), &head.headers).map_or(Ok(Asker::Any), |refused| Err(Box::new(refused)))
    }

    /// Adds the proof to an answer for a node.
    async fn prove(&self, asker: &Asker, answer: HttpAnswer) -> HttpAnswer {
        let (Guard::Token { nodes, .. }, Asker::Node(nonce)) = (self, asker) else { return answer };
        let (mut head, body) = answer.into_parts();
        let body = body.collect().await.unwrap_or_else(|never| match never {}).to_bytes();
        let mac = proof::of_answer(nodes, nonce, head.status, &head.headers, &body);
        let mac = HeaderValue::from_str(&mac).expect("it is base64");
        head.headers.insert(proof::PROOF, mac);
        Response::from_parts(head, Full::new(body))
    }

    fn refuses(&self, path: &str, headers: &HeaderMap) -> Option<HttpAnswer> {
        match self {
            Guard::Owner => None,
            Guard::Token { .. } if PROBES.contains(&path) => None,
            // A page of another site can make a browser send requests to us. The browser says so in `Origin` or
            // `Sec-Fetch-Site`, or (DNS rebinding) sends a `Host` name that we do not have.
            Guard::Local | Guard::Framed => {
                let is_frame = path == "/" && headers.get("sec-fetch-dest").is_some_and(|it| it == "iframe");
                let may_be_elsewhere = is_frame && matches!(self, Guard::Framed);
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
                let is_strange = headers.contains_key(header::ORIGIN)
                    || (is_from_elsewhere(headers) && !may_be_elsewhere)
                    || !is_literal(host);
                is_strange.then(|| {
                    let detail =
                        "ask by address, such as 127.0.0.1, and not from a page; or set api.token_file";
                    problem(StatusCode::FORBIDDEN, "forbidden for web pages", detail)
                })
            }
            Guard::Token { token, .. } => {
                if is_bearer(headers, token) {
                    return None;
                }
                let detail = "send `Authorization: Bearer TOKEN`; commands do with --token-file FILE";
                let mut answer = problem(StatusCode::UNAUTHORIZED, "missing or invalid token", detail);
                let realm = HeaderValue::from_static("Bearer realm=\"nephila\"");
                answer.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
                Some(answer)
            }
        }
    }
}

/// Whether a request carries this bearer token.
fn is_bearer(headers: &HeaderMap, token: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    is_same(given.strip_prefix(b"Bearer ").unwrap_or_default(), token.as_bytes())
}

/// Whether the browser reports a request from a page of another site. For typed addresses and our own pages the field
/// is `none` or `same-origin`.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    site.is_some_and(|site| site != b"none" && site != b"same-origin")
}

/// Whether a `Host` field is an IP address or `localhost`.
fn is_literal(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

/// Compares in constant time, so that the duration does not tell how much of the token was right.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let mut other = given.len() ^ token.len();
    for (number, byte) in token.iter().enumerate() {
        other |= usize::from(byte ^ given.get(number).copied().unwrap_or(0));
    }
    other == 0
}

/// Serves until dropped, with or without TLS, at most `connections_max` connections at the same time. Further
/// connections wait while all others are being answered.
pub async fn serve<A: Answers>(
    listener: impl Accept,
    answers: Arc<A>,
    guard: Guard,
    tls: Option<TlsAcceptor>,
    connections_max: usize,
) {
    let room = Room::new(connections_max);
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(stream) = listener.next().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let place = room.enter().await;
        while connections.try_join_next().is_some() {}
        let (number, answers, guard, tls) = (place.number(), answers.clone(), guard.clone(), tls.clone());
        // The connections end with this task: dropping the set aborts its tasks.
        let task = connections.spawn(async move {
            let answering = async {
                let Some(tls) = tls else { return connection(stream, answers, guard, place, false).await };
                // A client without a completed handshake is unauthenticated, and can be evicted.
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                    connection(stream, answers, guard, place, true).await;
                }
            };
            _ = tokio::time::timeout(CONNECTION_TIMEOUT, answering).await;
        });
        room.task(number, task);
    }
}

async fn connection<A: Answers>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answers: Arc<A>,
    guard: Guard,
    place: Place,
    is_tls: bool,
) {
    let place = Arc::new(place);
    let head_bytes_max = match guard {
        Guard::Token { .. } => HEAD_BYTES_MAX,
        _ => HEAD_BYTES_MAX_BROWSER,
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (answers, guard, place) = (answers.clone(), guard.clone(), place.clone());
        async move {
            let flooded = is_flooded(request.headers());
            let answer = respond(request, &*answers, &guard, &place, is_tls).await;
            Ok::<_, Infallible>(if flooded { without_cookies(answer) } else { answer })
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(head_bytes_max);
    // An error means that the client has gone.
    _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// Whether a browser sends so many cookies that servers refuse its requests.
fn is_flooded(headers: &HeaderMap) -> bool {
    headers.get_all(header::COOKIE).iter().map(HeaderValue::len).sum::<usize>() > COOKIE_BYTES_MAX
}

/// The answer, with the demand to delete all cookies of this host.
fn without_cookies(mut answer: HttpAnswer) -> HttpAnswer {
    answer.headers_mut().insert("clear-site-data", HeaderValue::from_static("\"cookies\""));
    answer
}

async fn respond<B>(
    request: Request<B>,
    answers: &impl Answers,
    guard: &Guard,
    place: &Place,
    is_tls: bool,
) -> HttpAnswer
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let (mut head, body) = request.into_parts();
    let asker = match guard.lets_in(&head) {
        Ok(asker) => asker,
        Err(refused) => return *refused,
    };
    if matches!(guard, Guard::Token { .. }) {
        if !PROBES.contains(&head.uri.path()) {
            place.waits();
        }
        // Forwarded requests have reserved capacity, which only nodes may use.
        if asker == Asker::Any {
            head.headers.remove(FORWARDED);
        }
    }
    let body = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Err(_) => {
            let detail = format!("a body has {} s: say it in several requests", BODY_TIMEOUT.as_secs());
            return problem(StatusCode::REQUEST_TIMEOUT, "request timeout", detail);
        }
        Ok(Err(_)) => {
            let detail = format!("a body has at most {BODY_BYTES_MAX} bytes: say it in several requests");
            return problem(StatusCode::PAYLOAD_TOO_LARGE, "content too large", detail);
        }
    };
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let mut asked = HttpQuestion::new(head.method, target, head.headers, is_tls);
    asked.body = body;
    place.is_answered();
    let answer = guard.prove(&asker, answers.answer(asked).await).await;
    place.waits();
    answer
}

/// Unix time in seconds.
pub(super) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// An RFC 9457 problem.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: String,
}

/// Prefix of the `type` of every problem. The types are stable; titles may change.
const PROBLEM: &str = "urn:nephila:problem:";

/// The kind of a problem, the last part of its `type`. Listed in docs/operating.md.
fn problem_kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "invalid-request",
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not-found",
        StatusCode::METHOD_NOT_ALLOWED => "method-not-allowed",
        StatusCode::REQUEST_TIMEOUT => "request-timeout",
        StatusCode::CONFLICT => "conflict",
        StatusCode::PAYLOAD_TOO_LARGE => "content-too-large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        _ => "internal-error",
    }
}

/// An error answer (RFC 9457): a `type` by the status, title, and detail with advice.
pub fn problem(status: StatusCode, title: &str, detail: impl Into<String>) -> HttpAnswer {
    let body = json(&Problem {
        r#type: format!("{PROBLEM}{}", problem_kind(status)),
        title,
        status: status.as_u16(),
        detail: detail.into(),
    });
    reply(status, "application/problem+json", body)
}

/// Adds `Retry-After` to an answer.
pub fn retry_after(mut answer: HttpAnswer, seconds: u64) -> HttpAnswer {
    answer.headers_mut().insert(header::RETRY_AFTER, seconds.max(1).into());
    answer
}

/// A JSON answer.
pub fn ok(value: &impl Serialize) -> HttpAnswer {
    reply(StatusCode::OK, "application/json", json(value))
}

/// Builds an answer with a status, a content type and a body, and forbids content sniffing (`nosniff`).
pub fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> HttpAnswer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // Text of third parties is never interpreted as another type.
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers can be written")
}

/// Percent-decodes a text.
pub fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&nephila_core::url::percent_decode(text.as_bytes())).into_owned()
}

/// Percent-encodes a text as the value of a parameter.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
