//! One fetch, from a URL to an outcome.
//!
//! The phases follow each other: a kept connection or resolve, dial, TLS; then the request, the head, the body, and
//! content decoding. Each phase has a deadline and the whole fetch has one; each failure is a value. The spider never
//! queues, never follows a redirect and never retries: the result names the redirect target, and whether a second
//! attempt is worthwhile.
//!
//! Invariant: a fetch ends before its total deadline plus the time of one buffer, regardless of the server.

mod receive;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use http::header::{self, HeaderName, HeaderValue};
use http_body_util::Empty;
use hyper::body::Incoming;
use nephila_core::identity::signature;
use nephila_core::spider::answer::{self, Answer, Asked};
use nephila_core::spider::attempt::{self, Second, Tried};
use nephila_core::spider::door::{Doors, Opened};
use nephila_core::spider::{HttpVersion, Outcome, Settings};
use nephila_core::time::{Forward, Timestamp};
use nephila_core::url::{CrawlUrl, Host, PortDenied, PortRule};
use tokio::time::{Instant, timeout_at};

use crate::body::Budget;
use crate::closing::{Closing, Noted};
use crate::connection::{self, Connection, Facts};
use crate::decoders::Decoders;
use crate::dial::{Dialled, Dialler, NotDialled};
use crate::error::Hints;
use crate::fetched::{Fetched, Timings};
use crate::pool::Pool;
use crate::proxy::{Proxies, Proxy};
use crate::resolver::Resolver;
use crate::sign::Signer;
use crate::tls::Tls;

/// Maximum hosts remembered as unable to speak HTTP/2. Forgetting a host costs one retry, nothing else.
const H1_ONLY_HOSTS_MAX: usize = 100_000;
/// Maximum size of a request head we send. More header fields are a mistake of the caller.
const REQUEST_BYTES_MAX: usize = 32 * 1024;

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

/// A request for one fetch.
#[derive(Clone, Debug)]
pub struct Request {
    /// The URL.
    pub url: CrawlUrl,
    /// GET, or HEAD.
    pub head_only: bool,
    /// Additional header fields. The caller decides which fields may go to this origin.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// Parts to keep in addition to the outcome.
    pub keep: Keep,
    /// A size limit below that of the settings, for the body as received and as decoded: robots.txt has one.
    pub body_bytes_max: Option<u64>,
    /// The only address to dial: politeness counts by address. With `None` the resolver is asked.
    pub address: Option<IpAddr>,
    /// Maximum open connections to an address, including connections kept for other names; 0 for no limit. Kept
    /// connections are closed before another is opened.
    pub connections_max: u32,
    /// This is the second attempt of a request that may have had no answer: uses a new connection, and no third
    /// follows.
    pub second: bool,
}

/// Parts of a fetch to keep in addition to the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Head and body as received, for the archive.
    pub exchange: bool,
    /// The decoded body.
    pub decoded: bool,
    /// The SHA-1 of the body as received.
    pub sha1: bool,
}

impl Request {
    /// A plain GET that keeps nothing.
    pub fn get(url: CrawlUrl) -> Self {
        Request {
            url,
            head_only: false,
            fields: Vec::new(),
            keep: Keep::default(),
            body_bytes_max: None,
            address: None,
            connections_max: 0,
            second: false,
        }
    }

    fn asked(&self) -> Asked {
        let has = |name: &HeaderName| self.fields.iter().any(|(other, _)| other == name);
        Asked {
            head_only: self.head_only,
            conditional: has(&header::IF_NONE_MATCH) || has(&header::IF_MODIFIED_SINCE),
            range: has(&header::RANGE),
        }
    }
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
    pub(crate) answer: Answer,
    pub(crate) asked: Asked,
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

    /// Replaces the exceptions from the address filter: the URLs that people have typed.
    pub fn set_doors(&self, doors: Doors) {
        *self.0.doors.write().unwrap_or_else(PoisonError::into_inner) = doors;
    }

    /// Whether this address may be dialled for this URL. An address that the operator has not opened is never
    /// requested.
    pub fn may_dial(&self, url: &CrawlUrl, address: IpAddr) -> bool {
        self.0.dialler.check(address, self.0.opened(url)).is_ok()
    }

    /// The resolver, for callers that need an address before the fetch.
    pub fn resolver(&self) -> &Resolver {
        &self.0.resolver
    }

    async fn run(&self, request: &Request, began: Instant, fetched: &mut Fetched) {
        let inner = &*self.0;
        let deadline = began + inner.settings.total_timeout;
        if let Err(denied) = inner.ports.check(request.url.port())
            && (matches!(denied, PortDenied::Bad(_)) || !inner.opened(&request.url).port())
        {
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
                    connection.live = Some(self.pool.count(connection.address.ip()));
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
        fetched.requests += 1;
        let mut response = self.send(&mut connection, message, deadline).await.map_err(|mut failed| {
            failed.reused = fetched.reused;
            failed.h2 = is_h2;
            failed
        })?;
        fetched.timings.head = Some(sent.elapsed());
        if !is_h2 && response.status().is_redirection() {
            for location in answer::locations_with_controls(connection.witness.seen().scan.head()) {
                response.headers_mut().append(header::LOCATION, location);
            }
        }
        let asked = request.asked();
        let answer = answer::judge(asked, &request.url, response.status().as_u16(), response.headers());
        let wanted = self.wants_proof(&response);
        Ok(Answered { connection, response, answer, asked, sent, proof, wanted })
    }

    /// The signature fields: made anew for every request sent, also for the second request of a fetch.
    fn proof(&self, request: &Request, now: Timestamp) -> Vec<(HeaderName, HeaderValue)> {
        let method = if request.head_only { "HEAD" } else { "GET" };
        let fields = self.signer.as_ref().and_then(|signer| signer.fields(method, &request.url, now));
        fields.map_or_else(Vec::new, Vec::from)
    }

    /// Returns the requested signature label if this response demands a signature.
    fn wants_proof(&self, response: &http::Response<Incoming>) -> Option<String> {
        let turned_away = matches!(response.status().as_u16(), 401 | 403 | 429);
        let field = response.headers().get("accept-signature").filter(|_| turned_away)?;
        signature::wanted(field.to_str().ok()?).map(str::to_owned)
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
        while let Some(mut connection) = self.pool.take(&key) {
            // The host may have moved to another address since.
            let there = request.address.is_none_or(|address| connection.address.ip() == address);
            if (there || connection.proxied) && connection.is_usable().await {
                return Some(connection);
            }
        }
        None
    }

    pub(crate) fn keep(&self, url: &CrawlUrl, connection: Connection) {
        self.pool.put(url.origin().into(), connection);
    }

    /// Opens a new connection: resolve, dial, TLS.
    async fn open(
        &self,
        request: &Request,
        deadline: Instant,
        h2: bool,
        timings: &mut Timings,
        address: &mut Option<SocketAddr>,
    ) -> Result<Connection, Failed> {
        let url = &request.url;
        let dialled = match request.address {
            Some(address) => {
                self.make_room(&[address], request.connections_max).await;
                self.reach_at(url, address, deadline, timings).await?
            }
            None => self.reach(request, deadline, timings).await?,
        };
        *address = Some(dialled.address);
        let proxied = self.proxies.of(url.is_https(), url.host_str()).is_some();
        let mut facts = Facts { address: dialled.address, proxied, tls: None };
        let start = |e: (Outcome, String, Hints)| Failed { hints: e.2, h2, ..Failed::new(e.0, e.1) };
        if !url.is_https() {
            return Connection::start(dialled.stream, false, facts, &self.settings).await.map_err(start);
        }
        let began = Instant::now();
        let until = (began + self.settings.tls_timeout).min(deadline);
        let shaken = timeout_at(until, self.tls.connect(url.host_str(), dialled.stream, h2)).await;
        timings.tls = Some(began.elapsed());
        let (stream, is_h2, info) = match shaken {
            Ok(Ok(shaken)) => shaken,
            Ok(Err((outcome, detail))) => return Err(Failed::new(outcome, detail)),
            Err(_) => return Err(Failed::new(Outcome::TlsTimeout, "the handshake did not end in time")),
        };
        facts.tls = Some(info);
        let started = timeout_at(deadline, Connection::start(stream, is_h2, facts, &self.settings)).await;
        started
            .map_err(|_| Failed::new(Outcome::TotalTimeout, "no connection before the end of the fetch"))?
            .map_err(start)
    }

    /// Opens a stream to the host, directly or through a proxy.
    async fn reach(
        &self,
        request: &Request,
        deadline: Instant,
        timings: &mut Timings,
    ) -> Result<Dialled, Failed> {
        let url = &request.url;
        let (addresses, old) = self.addresses(url, deadline, timings).await?;
        self.make_room(&addresses, request.connections_max).await;
        let began = Instant::now();
        let result = match self.proxies.of(url.is_https(), url.host_str()) {
            Some(proxy) => self.through(proxy, &addresses, url, deadline).await,
            None => match self.dialler.dial(&addresses, url.port(), self.opened(url)).await {
                Err(failed) if old && self.names_a_host(url) && failed.outcome != Outcome::AddressPrivate => {
                    // The host may have moved since: resolve again, once, and dial only new addresses.
                    self.resolver.forget(url.host_str());
                    let (now_at, _) = self.addresses(url, deadline, timings).await?;
                    let moved = now_at.iter().any(|address| !addresses.contains(address));
                    if moved {
                        self.dialler.dial(&now_at, url.port(), self.opened(url)).await.map_err(Failed::from)
                    } else {
                        Err(failed.into())
                    }
                }
                other => other.map_err(Failed::from),
            },
        };
        timings.connect = Some(began.elapsed());
        if let Ok(dialled) = &result {
            for dead in &dialled.dead {
                self.resolver.note_failed(*dead);
            }
            self.resolver.note_reached(dialled.address.ip());
        }
        result
    }

    /// Closes connections kept for other names of these addresses if one more would exceed the limit there, and waits
    /// until they are closed.
    async fn make_room(&self, addresses: &[IpAddr], connections_max: u32) {
        if connections_max == 0 {
            return;
        }
        let connections_max = usize::try_from(connections_max).unwrap_or(usize::MAX);
        for address in addresses {
            for key in self.pool.make_room(*address, connections_max) {
                self.closing.over(&key).await;
            }
        }
    }

    /// Like [`Inner::reach`], at this address only.
    async fn reach_at(
        &self,
        url: &CrawlUrl,
        address: IpAddr,
        deadline: Instant,
        timings: &mut Timings,
    ) -> Result<Dialled, Failed> {
        let began = Instant::now();
        let result = match self.proxies.of(url.is_https(), url.host_str()) {
            Some(proxy) => self.through(proxy, &[address], url, deadline).await,
            None => {
                let opened = self.opened(url);
                let dialled = self.dialler.dial(&[address], url.port(), opened).await.map_err(Failed::from);
                match &dialled {
                    Ok(_) => self.resolver.note_reached(address),
                    Err(failed) if failed.outcome.is_unconnected() => self.resolver.note_failed(address),
                    Err(_) => {}
                }
                dialled
            }
        };
        timings.connect = Some(began.elapsed());
        result
    }

    async fn addresses(
        &self,
        url: &CrawlUrl,
        deadline: Instant,
        timings: &mut Timings,
    ) -> Result<(Arc<[IpAddr]>, bool), Failed> {
        let name = match url.host() {
            Host::Ip(address) => return Ok((Arc::from([address]), false)),
            Host::Name(name) => name,
        };
        let began = Instant::now();
        let (answer, old) = timeout_at(deadline, self.resolver.resolve(name))
            .await
            .map_err(|_| Failed::new(Outcome::TotalTimeout, "no address before the end of the fetch"))?;
        timings.resolve = Some(began.elapsed());
        answer
            .map(|addresses| (addresses, old))
            .map_err(|outcome| Failed::new(outcome, format!("{name}: {}", outcome.meaning().trim())))
    }

    /// The operator configures the proxy, so its address is not filtered; the target's address is.
    async fn through(
        &self,
        proxy: &Proxy,
        addresses: &[IpAddr],
        url: &CrawlUrl,
        deadline: Instant,
    ) -> Result<Dialled, Failed> {
        let opened = self.opened(url);
        let mut target = Err(Failed::new(Outcome::DnsNodata, "no address"));
        for address in addresses {
            target = self
                .dialler
                .check(*address, opened)
                .map(|()| SocketAddr::from((*address, url.port())))
                .map_err(Failed::from);
            if target.is_ok() {
                break;
            }
        }
        let target = target?;
        let away = |error: std::io::Error| Failed::new(Outcome::ProxyFailed, format!("{proxy:?}: {error}"));
        let until = (Instant::now() + self.settings.connect_timeout).min(deadline);
        let reached = timeout_at(until, async {
            let mut stream = tokio::net::TcpStream::connect((proxy.host.as_str(), proxy.port)).await?;
            stream.set_nodelay(true)?;
            proxy.tunnel(&mut stream, target).await?;
            Ok(stream)
        });
        let stream = reached.await.map_err(|_| away(std::io::ErrorKind::TimedOut.into()))?.map_err(away)?;
        Ok(Dialled { stream, address: target, dead: Vec::new() })
    }

    fn message(
        &self,
        request: &Request,
        proof: &[(HeaderName, HeaderValue)],
        h2: bool,
    ) -> Result<connection::Request, Failed> {
        let url = &request.url;
        let target = if h2 { url.as_str() } else { url.path_and_query() };
        let bad = |e: http::Error| Failed::new(Outcome::UrlBad, e.to_string());
        let mut message = http::Request::builder()
            .method(if request.head_only { "HEAD" } else { "GET" })
            .uri(target)
            .body(Empty::new())
            .map_err(bad)?;
        let fields = message.headers_mut();
        if !h2 {
            fields.insert(header::HOST, HeaderValue::from_str(url.authority()).map_err(|e| bad(e.into()))?);
        }
        for (name, value) in self.common.iter().chain(&request.fields).chain(proof) {
            fields.insert(name, value.clone());
        }
        let size: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        if size + target.len() > REQUEST_BYTES_MAX {
            return Err(Failed::new(Outcome::UrlTooLong, "the request would be too large"));
        }
        Ok(message)
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

    fn names_a_host(&self, url: &CrawlUrl) -> bool {
        matches!(url.host(), Host::Name(_))
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
