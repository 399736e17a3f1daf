//! Remote spiders of version 2: `nephila spider` on other machines fetches for this node.
//!
//! [`Spiders`] stands in the place of the built-in spider ([`Fetch`]): a request becomes an ask of the [`Pool`], which
//! decides, and ends with the result of a spider or as `spider-lost`. [`server`] has the connections, [`spider`] is the
//! other side of them, [`translate`] says what requests and results are as messages, [`told`] how the node wants
//! pages fetched and read, [`tls`] who is who. Names are
//! resolved, addresses and ports checked, and requests signed here, before a URL is sent.
//!
//! Invariants: a result is believed for its ask alone, and is complete when the ask ends; bodies take part in the memory
//! budget of the built-in spider; a spider hears that a page is stored after its outcome is durable.

mod server;
pub mod spider;
#[cfg(test)]
mod tests;
mod tls;
mod told;
mod translate;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nephila_core::remote::v2::found;
use nephila_core::remote::v2::message::Facts;
use nephila_core::remote::v2::pool::{self, Action, Ask, End, Pool, SpiderView};
use nephila_core::spider::Outcome;
use nephila_core::spider::door::Doors;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Ack, Body, Fetched, Request, Spider, Spool};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::BoxFuture;
use crate::clock::{Gate, awake_or_not};
use crate::crawl::stage::{Fetch, FetchMeasured, RemoteUrls, SpiderSaid};
use crate::settings::{Settings, TICKET_MARGIN};

/// Fetches by spiders of version 2.
pub struct Spiders {
    shared: Arc<Shared>,
    /// Resolves names, checks addresses, signs; sends nothing.
    local: Spider,
    /// Maximum time of an ask.
    ask_timeout: Duration,
    /// How long a spider may go on with a URL that was taken back.
    lease: Duration,
    /// Maximum number of connections to a host.
    host_connections: u32,
    /// Maximum number of links of a page.
    links_max: usize,
    /// The connections end with this value.
    _tasks: JoinSet<()>,
}

/// The pool, and what its actions need.
struct Shared {
    state: Mutex<State>,
    /// Something has changed that may have to be done earlier than planned.
    changed: Notify,
    /// For the bodies of results.
    local: Spider,
    /// The lease of this node in its cluster.
    gate: Option<Gate>,
}

struct State {
    pool: Pool,
    /// The waiting requests, by the number of their ask.
    asks: HashMap<u64, Waiting>,
    /// What is to be written, by the number of the connection. Dropping the sender closes the connection.
    connections: HashMap<u64, mpsc::UnboundedSender<Vec<u8>>>,
    next: u64,
}

/// A request that waits for its result.
struct Waiting {
    ends: oneshot::Sender<Ended>,
    body: Option<Spool>,
}

/// The end of an ask, and the body.
struct Ended {
    end: End,
    body: Option<Spool>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the pool with the time, and does what it says. The clock goes on while the machine sleeps, as leases do.
    fn with<T>(&self, call: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.state();
        state.pool.set_authority(self.gate.as_ref().map(Gate::until));
        let result = call(&mut state, awake_or_not());
        state.act(&self.local);
        drop(state);
        self.changed.notify_one();
        result
    }

    /// Calls the pool whenever something is due.
    async fn run(self: Arc<Shared>) {
        loop {
            let next = self.state().pool.next();
            let due = async {
                match next {
                    Some(at) => {
                        tokio::time::sleep(Duration::from_millis(at.saturating_sub(awake_or_not()))).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.with(|state, now| state.pool.tick(now)),
                () = self.changed.notified() => {}
            }
        }
    }
}

impl State {
    fn act(&mut self, local: &Spider) {
        while let Some(action) = self.pool.poll() {
            match action {
                // A connection that has ended is known to the pool in a moment.
                Action::Send { connection, frame } => {
                    if let Some(frames) = self.connections.get(&connection) {
                        _ = frames.send(frame.to_bytes());
                    }
                }
                Action::Close { connection } => _ = self.connections.remove(&connection),
                Action::Part { ask, bytes } => {
                    let Some(waits) = self.asks.get_mut(&ask) else { continue };
                    let body = waits.body.get_or_insert_with(|| local.spool(bytes.len() as u64));
                    if let Err(error) = body.push(&bytes) {
                        // Without its bytes the page is no page: it is asked for again.
                        tracing::error!("a body cannot be kept: a temporary file: {error}");
                        self.asks.remove(&ask);
                        self.pool.cancel(awake_or_not(), ask);
                    }
                }
                Action::Restart { ask } => {
                    if let Some(waits) = self.asks.get_mut(&ask) {
                        waits.body = None;
                    }
                }
                Action::End { ask, end } => {
                    if let Some(Waiting { ends, body }) = self.asks.remove(&ask) {
                        // Nobody waits any more.
                        if let Err(Ended { end: End::Came { session, .. }, .. }) =
                            ends.send(Ended { end, body })
                        {
                            self.pool.stored(ask, session, false);
                        }
                    }
                }
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Spiders {
    /// Listens for spiders. `local` resolves names and signs; `gate` is the lease of this node in its cluster.
    pub async fn start(settings: &Settings, local: Spider, gate: Option<Gate>) -> anyhow::Result<Spiders> {
        let pool = settings.spiders.pool(&settings.spider, settings.crawl.concurrency.max(1));
        let state = State {
            // Spiders of an earlier process were outwaited ([`crate::wire::outwait_spiders`]).
            pool: Pool::new(pool, None),
            asks: HashMap::new(),
            connections: HashMap::new(),
            // Numbers of an earlier process mean nothing to this one.
            next: u64::from(uuid::Uuid::new_v4().as_u128() as u32) << 24,
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), local: local.clone(), gate });
        let mut tasks = JoinSet::new();
        tasks.spawn(server::Server::bind(settings, shared.clone()).await?.run());
        tasks.spawn(shared.clone().run());
        let lease = settings.spiders.lease;
        let ask_timeout = settings.frontier.ticket_timeout.saturating_sub(TICKET_MARGIN + lease);
        let host_connections = settings.frontier.host_connections;
        let links_max = settings.handler.links_per_page_max;
        Ok(Spiders { shared, local, ask_timeout, lease, host_connections, links_max, _tasks: tasks })
    }

    /// What happened so far, in numbers.
    pub fn counters(&self) -> pool::Counters {
        self.shared.state().pool.counters()
    }

    async fn ask(&self, request: &Request) -> Fetched {
        let lost = |why: &str| Fetched::not_sent(Outcome::SpiderLost, why.to_owned());
        let ip = match super::address_of(&self.local, request) {
            Ok(ip) => ip,
            Err(refused) => return *refused,
        };
        let signature = self.local.signed_fields(request);
        let is_typed = self.local.is_typed(&request.url);
        let wanted = translate::wanted(request, ip, is_typed, self.host_connections, &signature);
        let (ends, ended) = oneshot::channel();
        let began = Instant::now();
        let asked = self.shared.with(|state, now| {
            let id = state.number();
            state.asks.insert(id, Waiting { ends, body: None });
            match state.pool.ask(now, Ask { id, wanted }) {
                true => Some(id),
                false => {
                    state.asks.remove(&id);
                    None
                }
            }
        });
        let Some(id) = asked else { return lost("too many URLs wait for a spider") };
        let guard = Taken { shared: &self.shared, id };
        let Ok(Ok(Ended { end, body })) = tokio::time::timeout(self.ask_timeout, ended).await else {
            // Dropping the guard takes the ask back. The spider may ask the site until it has heard of it.
            drop(guard);
            tokio::time::sleep(self.lease).await;
            return lost("no spider fetched it in time");
        };
        match end {
            End::Lost { why, spider, sent } => {
                let detail = format!("{} (spider {spider}); sent {sent} times", why.as_str());
                Fetched { requests: sent, ..Fetched::not_sent(Outcome::SpiderLost, detail) }
            }
            End::Came { facts, spider, session, .. } => {
                let shared = self.shared.clone();
                let ack = Ack::new(move |is_stored| {
                    shared.with(|state, _| state.pool.stored(id, session, is_stored));
                });
                let body = body.map_or_else(|| Body::from(bytes::Bytes::new()), Spool::finish);
                let waited = began.elapsed();
                self.came(request, *facts, body, &spider, waited, !signature.is_empty(), ack).await
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one result")]
    async fn came(
        &self,
        request: &Request,
        facts: Facts,
        body: Body,
        spider: &str,
        waited: Duration,
        is_signed: bool,
        ack: Ack,
    ) -> Fetched {
        let found = facts.found.clone();
        let mut fetched = translate::fetched(request, facts, body.clone(), spider, waited);
        fetched.ack = Some(ack);
        if let Some(status) = fetched.status
            && self.local.owes_signature(&request.url, status, &fetched.fields, is_signed)
        {
            fetched.again = !request.second;
        }
        if is_signed && let Some(exchange) = &mut fetched.exchange {
            exchange.notes.push("signature", "sent");
        }
        if request.read_as.is_some() && !found.is_empty() {
            match found::read(&found, self.links_max) {
                Ok(findings) => fetched.findings = Some(Box::new(findings)),
                Err(error) => {
                    tracing::warn!(
                        "the spider {spider} sent links that are none, so the node reads the page itself: {error}"
                    );
                }
            }
        }
        if request.keep.decoded && !request.head_only && fetched.findings.is_none() {
            fetched.decoded = self.local.decoded(request, &fetched.fields, &body).await;
            if fetched.decoded.is_none() && fetched.outcome == Outcome::Fetched {
                fetched.outcome = Outcome::DecodeLimit;
            }
        }
        fetched
    }
}

/// An ask that is taken back when nobody waits for it any more.
struct Taken<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.shared.with(|state, now| {
            if state.asks.remove(&self.id).is_some() {
                state.pool.cancel(now, self.id);
            }
        });
    }
}

impl Fetch for Spiders {
    fn fetch(&self, request: Request) -> BoxFuture<'_, Fetched> {
        Box::pin(async move { self.ask(&request).await })
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<[IpAddr]>, Outcome>> {
        Fetch::resolve(&self.local, name)
    }

    fn may_dial(&self, url: &CrawlUrl, address: IpAddr) -> bool {
        Fetch::may_dial(&self.local, url, address)
    }

    fn set_doors(&self, doors: Doors) {
        Fetch::set_doors(&self.local, doors);
    }

    fn spiders(&self) -> Vec<SpiderSaid> {
        let said = |spider: SpiderView| SpiderSaid {
            node: String::new(),
            name: spider.name.to_string(),
            connected: spider.is_connected,
            capacity: spider.capacity,
            open: spider.open,
            fetched: spider.fetched,
        };
        self.shared.state().pool.spiders().map(said).collect()
    }

    fn measured(&self) -> Option<FetchMeasured> {
        Some(FetchMeasured::of(&self.local))
    }

    fn remote_urls(&self) -> Option<RemoteUrls> {
        let (counters, open, connected) = {
            let state = self.shared.state();
            let connected = state.pool.spiders().filter(|spider| spider.is_connected).count();
            (state.pool.counters(), state.asks.len(), connected)
        };
        let pool::Counters { sent, came, lost, cancelled, refused, .. } = counters;
        Some(RemoteUrls { sent, fetched: came, lost, cancelled, refused, open, connected })
    }
}
