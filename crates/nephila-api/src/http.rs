//! HTTP/1.1 server for all sockets: connections, heads, bodies and times are bounded.
//!
//! [`serve`] connects a listener ([`Accept`]) with a server of operations ([`Answers`]). A [`Guard`] checks the head of
//! each request before the body is read (authentication, and the role that the operation needs).
//!
//! Invariants: a request that the guard refuses costs no more than its head; a connection is cut [`CONNECTION_TIMEOUT`]
//! after its beginning and after the last request that was let in and came as a whole, except during a stream, which ends
//! after [`STREAM_TIMEOUT`] and as soon as its client takes nothing for [`SLOW_TIMEOUT`]; idle or slow clients block no
//! others (`room`), and streams are counted apart.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nephila_engine::settings::Role;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::agent;
use super::content::Content;
use super::guard::{Asker, Guard, Who, seconds};
use super::hub::Hub;
use super::idempotency::Memory;
use super::popular::{Look, Popular};
use super::problem::{HttpAnswer, problem, retry_after};
use super::question::{FORWARDED, HttpQuestion};
use super::room::{Place, Room};
use super::routes::Answers;

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum duration of a connection before its first whole request, and from each whole request on: the answer and the
/// time until the next request. Longer than every wait that a request may ask for.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum duration of a stream. Clients begin a new one.
pub const STREAM_TIMEOUT: Duration = Duration::from_secs(600);
/// A client that takes no piece of a stream for this time is cut off.
const SLOW_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of clients of a listener that follow a stream.
pub const STREAMS_MAX: usize = 256;
/// `Retry-After` in seconds while all places for streams are taken.
const STREAMS_RETRY: u64 = 5;
/// Maximum size of a request's head in bytes. A URL has at most 8 KiB, and three times as much percent-encoded.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The same without a token, where people browse the archive: a captured page can set cookies for this machine, and
/// browsers send up to 180 of 4 KiB with each request.
const HEAD_BYTES_MAX_BROWSER: usize = 1 << 20;
/// Maximum size of all cookies of a request in bytes. Ours has 200, and servers with the usual limits refuse more: then
/// the browser is told to delete them.
const COOKIE_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of a request's body in bytes. A client with more data sends several requests.
const BODY_BYTES_MAX: usize = 4 << 20;
/// Pause before a failed `accept` (too many open files) is retried.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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

/// What all connections of a listener share.
struct Shell<A> {
    answers: Arc<A>,
    guard: Guard,
    /// Answers by `Idempotency-Key`.
    memory: Memory,
    /// Answers that many ask for.
    popular: Popular,
    /// Places of clients that follow a stream.
    streams: Arc<Semaphore>,
    hub: Option<Arc<Hub>>,
}

/// Serves until dropped, with or without TLS, at most `connections_max` connections at the same time, and besides at most
/// [`STREAMS_MAX`] that follow a stream. Further connections wait while all others are being answered.
pub async fn serve<A: Answers>(
    listener: impl Accept,
    answers: Arc<A>,
    guard: Guard,
    tls: Option<TlsAcceptor>,
    connections_max: usize,
) {
    let room = Room::new(connections_max);
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let hub = answers.live().map(|source| Arc::new(Hub::new(source)));
    let (memory, popular) = (Memory::default(), Popular::default());
    let shell = Arc::new(Shell { answers, guard, memory, popular, streams, hub });
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(stream) = listener.next().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let place = room.enter().await;
        while connections.try_join_next().is_some() {}
        let (number, shell, tls) = (place.number(), shell.clone(), tls.clone());
        // The connections end with this task: dropping the set aborts its tasks.
        let task = connections.spawn(async move {
            let deadline = Arc::new(Deadline::new(CONNECTION_TIMEOUT));
            let answering = async {
                let is_tls = tls.is_some();
                let client = Client { place, deadline: deadline.clone(), is_tls };
                let Some(tls) = tls else { return connection(stream, shell, client).await };
                // A client without a completed handshake is unauthenticated, and can be evicted.
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
                    connection(stream, shell, client).await;
                }
            };
            tokio::select! {
                () = answering => {}
                () = deadline.passed() => {}
            }
        });
        room.task(number, task);
    }
}

/// A connection, as its requests see it.
struct Client {
    place: Place,
    /// When the connection is cut.
    deadline: Arc<Deadline>,
    is_tls: bool,
}

async fn connection<A: Answers>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    shell: Arc<Shell<A>>,
    client: Client,
) {
    let client = Arc::new(client);
    let head_bytes_max = match shell.guard {
        Guard::Token(_) => HEAD_BYTES_MAX,
        _ => HEAD_BYTES_MAX_BROWSER,
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let (shell, client) = (shell.clone(), client.clone());
        async move {
            let flooded = is_flooded(request.headers());
            let path = request.uri().path().to_owned();
            let answer = agent::shaped(&path, respond(request, &shell, &client).await).await;
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

async fn respond<A: Answers, B>(request: Request<B>, shell: &Shell<A>, client: &Client) -> HttpAnswer
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let (needed, route) = A::routes().place(request.method(), request.uri().path());
    let mut began = Instant::now();
    let answer = answered(request, shell, client, needed, &mut began).await;
    A::routes().took(route, answer.status(), began.elapsed());
    answer
}

/// Answers a request that needs this role. `began` is set when the request has arrived with its body.
async fn answered<A: Answers, B>(
    request: Request<B>,
    shell: &Shell<A>,
    client: &Client,
    needed: Option<Role>,
    began: &mut Instant,
) -> HttpAnswer
where
    B: Body<Data = Bytes> + Send,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let (mut head, body) = request.into_parts();
    let asker = match shell.guard.lets_in(&head, needed, client.is_tls) {
        Ok(asker) => Arc::new(asker),
        Err(refused) => return *refused,
    };
    if matches!(shell.guard, Guard::Token(_)) {
        if needed.is_some() {
            client.place.waits();
        }
        // Forwarded requests have reserved capacity, which only nodes may use.
        if !matches!(asker.who, Who::Node(_)) {
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
    *began = Instant::now();
    client.deadline.set(*began + CONNECTION_TIMEOUT);
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let mut asked = HttpQuestion::new(head.method, target, head.headers, client.is_tls);
    (asked.body, asked.asker, asked.hub) = (body, Some(asker.clone()), shell.hub.clone());
    client.place.is_answered();
    let answer = asker.prove(shell.answer(&asker, asked).await).await;
    if answer.body().is_stream() {
        return shell.stream(answer, client);
    }
    client.place.waits();
    answer
}

impl<A: Answers> Shell<A> {
    /// Answers a request, or repeats the answer to the same request.
    async fn answer(&self, asker: &Asker, asked: HttpQuestion) -> HttpAnswer {
        let changes = !matches!(asked.method, Method::GET | Method::HEAD);
        let look = self.popular.look(asker.name(), &asked, Instant::now());
        let answer = match self.memory.open(asker.name(), &asked, seconds()) {
            Ok(None) => match look {
                Look::Known(answer) => answer,
                Look::Make(None) => self.answers.answer(asked).await,
                Look::Make(Some(wanted)) => self.popular.keep(wanted, self.answers.answer(asked).await).await,
            },
            Ok(Some(open)) => open.keep(self.answers.answer(asked).await).await,
            Err(instead) => *instead,
        };
        if changes {
            self.popular.forget();
        }
        answer
    }

    /// Sends a stream, for as long as the client takes its pieces. The connection leaves its place to others.
    fn stream(&self, answer: HttpAnswer, client: &Client) -> HttpAnswer {
        let Ok(seat) = self.streams.clone().try_acquire_owned() else {
            let detail =
                format!("{STREAMS_MAX} clients follow a stream: ask again, or ask for single answers");
            let busy = problem(StatusCode::SERVICE_UNAVAILABLE, "too many streams", detail);
            client.place.waits();
            return retry_after(busy, STREAMS_RETRY);
        };
        client.place.leave();
        let (mut head, mut body) = answer.into_parts();
        head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        let deadline = client.deadline.clone();
        let end = Instant::now() + STREAM_TIMEOUT;
        let pieces = futures_util::stream::poll_fn(move |context| {
            let _seat = &seat;
            let now = Instant::now();
            // The body is polled while the client reads: a client that does not is cut off.
            deadline.set(now + SLOW_TIMEOUT);
            match Pin::new(&mut body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) if now < end => Poll::Ready(frame.into_data().ok()),
                Poll::Pending => Poll::Pending,
                _ => Poll::Ready(None),
            }
        });
        HttpAnswer::from_parts(head, Content::pieces(pieces))
    }
}

/// The moment at which a connection is cut, which may move.
#[derive(Debug)]
struct Deadline(Mutex<Instant>);

impl Deadline {
    fn new(after: Duration) -> Deadline {
        Deadline(Mutex::new(Instant::now() + after))
    }

    fn set(&self, at: Instant) {
        *self.0.lock().expect("nobody panics holding it") = at;
    }

    /// Returns once the moment has passed. A moment that moves back is noticed at the old moment.
    async fn passed(&self) {
        loop {
            let at = *self.0.lock().expect("nobody panics holding it");
            if at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(at).await;
        }
    }
}

#[cfg(test)]
mod tests;
