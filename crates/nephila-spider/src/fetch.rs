//! One fetch, from a URL to an outcome.
//!
//! The phases follow each other: a kept connection or resolve, dial, TLS; then the request, the head, the body, and
//! content decoding. Each phase has a deadline and the whole fetch has one; each failure is a value. The spider never
//! queues, never follows a redirect and never retries: the result names the redirect target, and whether a second
//! attempt is worthwhile.
//!
//! Invariant: a fetch ends before its total deadline plus the time of one buffer, regardless of the server.

mod elsewhere;
mod open;
mod receive;
mod request;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use http::header::{self, HeaderName, HeaderValue};
use hyper::body::Incoming;
use nephila_core::identity::signature;
use nephila_core::spider::answer::{self, ExpectedResponse, HeadVerdict};
use nephila_core::spider::attempt::{self, Second, Tried};
use nephila_core::spider::door::{Doors, Opened};
use nephila_core::spider::{HttpVersion, Outcome, Settings};
use nephila_core::time::{Forward, Timestamp};
use nephila_core::url::{CrawlUrl, PortDenied, PortRule};
use tokio::time::{Instant, timeout_at};

use crate::body::{Body, Budget, Spool};
use crate::closing::{Closing, Noted};
use crate::connection::{self, Connection};
use crate::decoders::Decoders;
use crate::dial::{Dialler, NotDialled};
use crate::error::Hints;
use crate::fetched::{Fetched, Timings};
use crate::pool::{Connections, Pool};
use crate::proxy::Proxies;
use crate::resolver::Resolver;
use crate::sign::Signer;
use crate::tls::Tls;

pub use request::{Keep, Request};

/// Maximum hosts remembered as unable to speak HTTP/2. Forgetting a host costs one retry, nothing else.
const H1_ONLY_HOSTS_MAX: usize = 100_000;

/// Fetches URLs. Cheap to clone; clones share connections, names and memory.
#[derive(Clone, Debug)]
pub struct Spider(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) settings: Settings,
    common: Vec<(HeaderName, HeaderValue)>,
    ports: PortRule,
    doors: RwLock<Doors>,
    resolver: Resolver,
    dialler: Dialler,
    tls: Tls,
    proxies: Proxies,
    signer: Option<Signer>,
    pool: Arc<Pool>,
    closing: Arc<Closing>,
    h1_only: Mutex<HashSet<String>>,
    dates: Mutex<Forward>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) decoders: Arc<Decoders>,
}

/// A setting has an unusable value.
#[derive(Debug, thiserror::Error)]
#[error("spider settings: {0}")]
pub struct Error(String);

/// The requested signature label if a response demands a signature.
fn wanted_signature(status: u16, fields: &http::HeaderMap) -> Option<String> {
    let turned_away = matches!(status, 401 | 403 | 429);
    let field = fields.get("accept-signature").filter(|_| turned_away)?;
    signature::wanted(field.to_str().ok()?).map(str::to_owned)
}

/// A failed attempt without a response to judge.
struct Failed {
    outcome: Outcome,
    detail: String,
    hints: Hints,
    reused: bool,
    h2: bool,
}

impl Failed {
    fn new(outcome: Outcome, detail: impl Into<String>) -> Self {
        Failed { outcome, detail: detail.into(), hints: Hints::default(), reused: false, h2: false }
    }
}

impl From<NotDialled> for Failed {
    fn from(failed: NotDialled) -> Self {
        Failed::new(failed.outcome, failed.detail)
    }
}

/// A response whose head has arrived.
pub(crate) struct Answered {
    pub(crate) connection: Connection,
    pub(crate) response: http::Response<Incoming>,
    pub(crate) answer: HeadVerdict,
    pub(crate) asked: ExpectedResponse,
    /// When the request was written.
    pub(crate) sent: Instant,
    /// The signature fields sent.
    pub(crate) proof: Vec<(HeaderName, HeaderValue)>,
    /// The signature label that the site requests.
    pub(crate) wanted: Option<String>,
}

impl Spider {
    /// Creates a spider with these settings and this user agent.
    pub fn new(settings: Settings, user_agent: &str) -> Result<Self, Error> {
        Spider::signed(settings, user_agent, None)
    }

    /// Like [`Spider::new`], with signed requests.
    pub fn signed(settings: Settings, user_agent: &str, signer: Option<Signer>) -> Result<Self, Error> {
        let mut common = Vec::new();
        for (name, value) in [
            (header::USER_AGENT, user_agent),
            (header::ACCEPT, &settings.accept),
            (header::ACCEPT_ENCODING, &settings.accept_encoding),
        ] {
            if !value.is_empty() {
                let sendable = HeaderValue::from_str(value)
                    .map_err(|_| Error(format!("{name} {value:?} cannot be sent")))?;
                common.push((name, sendable));
            }
        }
        let mut own = settings.deny_addresses.clone();
        own.extend(crate::own::addresses());
        let filter = nephila_core::spider::address::AddressFilter::new(settings.allow_addresses.clone(), own);
        Ok(Spider(Arc::new(Inner {
            common,
            ports: PortRule { allowed: settings.ports.clone() },
            doors: RwLock::default(),
            resolver: Resolver::new(&settings).map_err(|e| Error(e.to_string()))?,
            dialler: Dialler {
                filter,
                timeout: settings.connect_timeout,
                fallback: settings.connect_fallback,
            },
            tls: Tls::new(&settings).map_err(|e| Error(e.to_string()))?,
            proxies: Proxies::new(&settings.proxy, |name| std::env::var(name).ok()).map_err(Error)?,
            signer,
            pool: Pool::new(settings.idle_timeout, settings.idle_max),
            closing: Arc::default(),
            h1_only: Mutex::default(),
            dates: Mutex::default(),
            budget: Budget::new(settings.body_memory_max),
            decoders: Decoders::new(settings.decoders_max),
            settings,
        })))
    }

    /// Fetches a URL. Never fails: every failure is an outcome.
    pub async fn fetch(&self, request: Request) -> Fetched {
        let began = Instant::now();
        let mut fetched = Fetched::not_sent(Outcome::Cancelled, String::new());
        self.run(&request, began, &mut fetched).await;
        fetched.timings.total = began.elapsed();
        if let Some(exchange) = &mut fetched.exchange {
            exchange.elapsed_ms = fetched.timings.total.as_millis() as u64;
        }
        fetched
    }

    /// Closes idle connections to these origins, which another node takes over.
    pub fn close_idle(&self, which: impl Fn(&str) -> bool) {
        self.0.pool.close(which);
    }

    /// The connections that are open now.
    pub fn connections(&self) -> Connections {
        self.0.pool.connections()
    }

    /// Replaces the exceptions from the address filter: the URLs that people have typed.
    pub fn set_doors(&self, doors: Doors) {
        *self.0.doors.write().unwrap_or_else(PoisonError::into_inner) = doors;
    }

    /// Whether this address may be dialled for this URL. An address that the operator has not opened is never
    /// requested.
    pub fn may_dial(&self, url: &CrawlUrl, address: IpAddr) -> bool {
        self.0.dialler.check(address, self.0.opened(url)).is_ok()
    }

    /// Whether a person typed the host and the port of this URL.
    pub fn is_typed(&self, url: &CrawlUrl) -> bool {
        self.0.opened(url) != Opened::Nothing
    }

    /// Whether the port of this URL may be dialled; otherwise the reason.
    pub fn check_port(&self, url: &CrawlUrl) -> Result<(), PortDenied> {
        self.0.opened(url).check_port(&self.0.ports, url.port())
    }

    /// A body that arrives by another way than a fetch, and takes part in the memory budget.
    pub fn spool(&self, expected: u64) -> Spool {
        Spool::new(self.0.budget.clone(), Some(expected))
    }

    /// Decodes the content codings of a body that another program fetched for this URL. The body itself without codings;
    /// `None` if the codings cannot be undone, or not in time.
    pub async fn decoded(&self, request: &Request, fields: &http::HeaderMap, body: &Body) -> Option<Body> {
        receive::decoded(&self.0, request, fields, body).await
    }

    /// The signature for a request that another program sends, if it is to be signed. The key stays here.
    pub fn signed_fields(&self, request: &Request) -> Vec<(HeaderName, HeaderValue)> {
        self.0.proof(request, now())
    }

    /// Whether the site demands a signature that a request of another program did not have. All further requests to the
    /// site carry one.
    pub fn owes_signature(
        &self,
        url: &CrawlUrl,
        status: u16,
        fields: &http::HeaderMap,
        had_one: bool,
    ) -> bool {
        let Some(label) = wanted_signature(status, fields) else { return false };
        self.0.signer.as_ref().is_some_and(|signer| signer.note(url, &label)) && !had_one
    }

    /// The resolver, for callers that need an address before the fetch.
    pub fn resolver(&self) -> &Resolver {
        &self.0.resolver
    }

    async fn run(&self, request: &Request, began: Instant, fetched: &mut Fetched) {
        let inner = &*self.0;
        let deadline = began + inner.settings.total_timeout;
        if let Err(denied) = self.check_port(&request.url) {
            fetched.outcome = Outcome::PortDenied;
            fetched.detail = denied.to_string();
            return;
        }
        let h2 = inner.speaks_h2(&request.url);
        let tried = match inner.ask(request, deadline, h2, fetched).await {
            Ok(answered) => {
                let tried = Tried {
                    outcome: answered.answer.outcome,
                    reused: fetched.reused,
                    h2: answered.connection.is_h2(),
                    wants_h1: false,
                    unprocessed: false,
                    wants_proof: inner.owes_proof(&request.url, &answered),
                    again: request.second,
                };
                if attempt::second_try(tried).is_none() {
                    return receive::receive(inner, request, answered, deadline, fetched).await;
                }
                fetched.outcome = answered.answer.outcome;
                fetched.status = Some(answered.response.status().as_u16());
                tried
            }
            Err(failed) => {
                fetched.outcome = failed.outcome;
                fetched.detail = failed.detail;
                Tried {
                    outcome: failed.outcome,
                    reused: failed.reused,
                    h2: failed.h2,
                    wants_h1: failed.hints.wants_h1,
                    unprocessed: failed.hints.unprocessed,
                    wants_proof: false,
                    again: request.second,
                }
            }
        };
        let second = attempt::second_try(tried);
        fetched.again = second.is_some();
        if second == Some(Second::Http11) {
            inner.remember_h1_only(&request.url);
        }
    }
}

impl Inner {
    /// The exceptions from the address filter for a URL that a person typed.
    fn opened(&self, url: &CrawlUrl) -> Opened {
        self.doors.read().unwrap_or_else(PoisonError::into_inner).opened(url)
    }

    /// Sends the request once and judges the head of the response.
    async fn ask(
        &self,
        request: &Request,
        deadline: Instant,
        h2: bool,
        fetched: &mut Fetched,
    ) -> Result<Answered, Failed> {
        let kept = self.kept(request).await;
        // A second attempt uses a new connection in place of the kept one: together they would be too many.
        let kept = kept.filter(|_| !request.second);
        fetched.reused = kept.is_some();
        let mut connection = match kept {
            Some(connection) => connection,
            None => {
                let key: Arc<str> = request.url.origin().into();
                // The previous connection may still be closing.
                self.closing.over(&key).await;
                let mut opened =
                    self.open(request, deadline, h2, &mut fetched.timings, &mut fetched.address).await;
                if opened.as_ref().is_err_and(|failed| failed.outcome == Outcome::LocalFiles) {
                    self.pool.shed();
                }
                if let Ok(connection) = &mut opened {
                    connection.live = Some(self.pool.count(connection.address.ip(), connection.is_h2()));
                    connection.noted = Some(Noted { key, closing: self.closing.clone() });
                }
                opened?
            }
        };
        let is_h2 = connection.is_h2();
        fetched.address = Some(connection.address);
        fetched.tls = connection.tls.clone();
        let proof = self.proof(request, now());
        let message = self.message(request, &proof, is_h2)?;
        let sent = Instant::now();
        fetched.timings.starts.request = Some(self.after_begin(deadline, sent));
        fetched.requests += 1;
        let mut response = self.send(&mut connection, message, deadline).await.map_err(|mut failed| {
            failed.reused = fetched.reused;
            failed.h2 = is_h2;
            failed
        })?;
        self.note_head(&mut fetched.timings, &connection, sent, deadline);
        if !is_h2 && response.status().is_redirection() {
            for location in answer::locations_with_controls(connection.witness.seen().scan.head()) {
                response.headers_mut().append(header::LOCATION, location);
            }
        }
        let asked = request.asked();
        let answer = answer::judge(asked, &request.url, response.status().as_u16(), response.headers());
        let wanted = wanted_signature(response.status().as_u16(), response.headers());
        Ok(Answered { connection, response, answer, asked, sent, proof, wanted })
    }

    /// Notes the times of the request and of the head, which has just ended.
    fn note_head(&self, timings: &mut Timings, connection: &Connection, sent: Instant, deadline: Instant) {
        let now = Instant::now();
        timings.head = Some(now.saturating_duration_since(sent));
        timings.starts.head_end = Some(self.after_begin(deadline, now));
        if !connection.is_h2() {
            // Frames of HTTP/2 come and go beside the request.
            let (written, first_byte) = connection.witness.seen().times();
            timings.starts.written = written.map(|moment| self.after_begin(deadline, moment));
            timings.starts.first_byte = first_byte.map(|moment| self.after_begin(deadline, moment));
        }
    }

    /// The time from the begin of a fetch with this deadline to a moment.
    fn after_begin(&self, deadline: Instant, moment: Instant) -> Duration {
        let left = deadline.saturating_duration_since(moment);
        self.settings.total_timeout.saturating_sub(left)
    }

    /// The signature fields: made anew for every request sent, also for the second request of a fetch.
    fn proof(&self, request: &Request, now: Timestamp) -> Vec<(HeaderName, HeaderValue)> {
        let method = if request.head_only { "HEAD" } else { "GET" };
        let fields = self.signer.as_ref().and_then(|signer| signer.fields(method, &request.url, now));
        fields.map_or_else(Vec::new, Vec::from)
    }

    /// Whether the site demands a signature that it has not seen. All further requests to the site carry one.
    fn owes_proof(&self, url: &CrawlUrl, answered: &Answered) -> bool {
        let (Some(signer), Some(label)) = (&self.signer, &answered.wanted) else { return false };
        signer.note(url, label) && answered.proof.is_empty()
    }

    /// Writes the request and waits for the head: a short deadline for the request, a longer one for the head.
    async fn send(
        &self,
        connection: &mut Connection,
        message: connection::Request,
        deadline: Instant,
    ) -> Result<http::Response<Incoming>, Failed> {
        let now = Instant::now();
        let write_until = (now + self.settings.write_timeout).min(deadline);
        let head_until = (now + self.settings.head_timeout).min(deadline);
        let witness = connection.witness.clone();
        let mut answer = std::pin::pin!(connection.send(message));
        let result = match timeout_at(write_until.min(head_until), &mut answer).await {
            Ok(result) => result,
            Err(_)
                if !witness.seen().request.ends_with(b"\r\n\r\n") && witness.seen().frames_left.is_none() =>
            {
                return Err(Failed::new(Outcome::WriteTimeout, "the request could not be written"));
            }
            Err(_) => match timeout_at(head_until, &mut answer).await {
                Ok(result) => result,
                Err(_) if head_until == deadline => {
                    return Err(Failed::new(Outcome::TotalTimeout, "no head before the end of the fetch"));
                }
                Err(_) => return Err(Failed::new(Outcome::HeadTimeout, "no whole head in time")),
            },
        };
        result.map_err(|(outcome, detail, hints)| Failed { hints, ..Failed::new(outcome, detail) })
    }

    async fn kept(&self, request: &Request) -> Option<Connection> {
        let key = request.url.origin();
        while let Some(mut connection) = self.pool.take(key) {
            // The host may have moved to another address since.
            let there = request.address.is_none_or(|address| connection.address.ip() == address);
            if (there || connection.proxied) && connection.is_usable().await {
                return Some(connection);
            }
        }
        None
    }

    pub(crate) fn keep(&self, url: &CrawlUrl, connection: Connection) {
        let key = connection.noted.as_ref().map(|noted| noted.key.clone());
        self.pool.put(key.unwrap_or_else(|| url.origin().into()), connection);
    }

    /// The date of a moment in a fetch that ends now: the wall clock time minus the monotonic time since that moment.
    /// So all fetches that end after a clock adjustment have dates of the same clock, whenever they began.
    pub(crate) fn date_of(&self, moment: Instant) -> Timestamp {
        let ago = u64::try_from(moment.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut dates = self.dates.lock().expect("nobody panics holding it");
        // Read under the lock: a time read before waiting for the lock would be older than the last date.
        let end = dates.date(now());
        Timestamp(end.0.saturating_sub(ago))
    }

    /// The fields that every request has.
    pub(crate) fn common_fields(&self) -> &[(HeaderName, HeaderValue)] {
        &self.common
    }

    fn speaks_h2(&self, url: &CrawlUrl) -> bool {
        url.is_https()
            && self.settings.http_versions.contains(&HttpVersion::H2)
            && !self.h1_only.lock().expect("nobody panics holding it").contains(url.authority())
    }

    pub(crate) fn remember_h1_only(&self, url: &CrawlUrl) {
        let mut hosts = self.h1_only.lock().expect("nobody panics holding it");
        if hosts.len() >= H1_ONLY_HOSTS_MAX {
            hosts.clear();
        }
        hosts.insert(url.authority().to_owned());
    }
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MINUTE: u64 = 60_000;

    #[tokio::test]
    async fn sto_22_a_fetch_has_the_date_it_began_by_the_clock_at_its_end() {
        let spider = Spider::new(Settings::default(), "Bot/0").unwrap();
        let clock_was = |time: u64| spider.0.dates.lock().unwrap().date(Timestamp(time));
        let before = now().0;
        let date = spider.0.date_of(Instant::now() - Duration::from_millis(MINUTE)).0;
        assert!((before - MINUTE..=now().0 - MINUTE).contains(&date));
        clock_was(before + MINUTE);
        assert!(spider.0.date_of(Instant::now()).0 >= before + MINUTE - 1_000, "held: set back a little");
        clock_was(before + 24 * 60 * MINUTE);
        assert!(spider.0.date_of(Instant::now()).0 < before + MINUTE, "followed: it was wrong");
    }
}
