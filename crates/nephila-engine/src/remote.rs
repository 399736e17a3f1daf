//! Remote spiders of version 1: other programs fetch, by the protocols of `docs/store-v1.md`.
//!
//! [`Remote`] stands in the place of the built-in spider ([`Fetch`]): a request becomes an ask of the [`Desk`], which
//! decides, and ends with the record of a spider or as `spider-lost`. [`connections`] carries the lines, [`records`]
//! receives the records, [`answer`] turns a record into what the crawl knows as a fetch. Names are resolved and addresses
//! and ports checked here, before a URL is sent.
//!
//! Invariants: a record is believed for its ask alone; its data is complete when the desk learns of it; the bodies of
//! records that wait take at most [`HELD_BYTES_MAX`] bytes.

mod answer;
mod connections;
mod records;
#[cfg(test)]
mod tests;
pub mod v2;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nephila_core::remote::desk::{self, Action, Ask, AskError, Desk, End};
use nephila_core::spider::Outcome;
use nephila_core::spider::door::Doors;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Request, Spider};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::records::Data;
use crate::BoxFuture;
use crate::crawl::stage::{Fetch, FetchMeasured, RemoteUrls};
use crate::settings::{Settings, TICKET_MARGIN, usage};

/// Maximum number of bytes of records whose fetch has not ended. Further records wait in their connections.
pub const HELD_BYTES_MAX: usize = 256 << 20;

/// Fetches by remote spiders.
pub struct Remote {
    desk: Arc<Shared>,
    /// Resolves names and checks addresses; sends nothing.
    local: Spider,
    /// Maximum time of an ask.
    ask_timeout: Duration,
    /// The connections end with this value.
    _tasks: JoinSet<()>,
}

/// The desk, and what its actions need.
struct Shared {
    state: Mutex<State>,
    /// Something has changed that may have to be done earlier than planned.
    changed: Notify,
    began: Instant,
}

struct State {
    desk: Desk<Data>,
    /// The waiting requests, by the number of their ask.
    asks: HashMap<u64, oneshot::Sender<End<Data>>>,
    /// What is to be written, by the number of the connection. Dropping the sender closes the connection.
    connections: HashMap<u64, mpsc::UnboundedSender<Vec<u8>>>,
    next: u64,
}

impl Shared {
    fn new(settings: desk::Settings) -> Shared {
        let state =
            State { desk: Desk::new(settings), asks: HashMap::new(), connections: HashMap::new(), next: 1 };
        Shared { state: Mutex::new(state), changed: Notify::new(), began: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the desk with the time, and does what it says.
    fn with<T>(&self, call: impl FnOnce(&mut State, u64) -> T) -> T {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut state = self.state();
        let result = call(&mut state, now);
        state.act();
        drop(state);
        self.changed.notify_one();
        result
    }

    /// Calls the desk whenever something is due.
    async fn run(self: Arc<Shared>) {
        loop {
            let next = self.state().desk.next();
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(self.began + Duration::from_millis(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => self.with(|state, now| state.desk.tick(now)),
                () = self.changed.notified() => {}
            }
        }
    }
}

impl State {
    fn act(&mut self) {
        while let Some(action) = self.desk.poll() {
            match action {
                // A connection that has ended is known to the desk in a moment.
                Action::Send { connection, bytes } => {
                    if let Some(lines) = self.connections.get(&connection) {
                        _ = lines.send(bytes);
                    }
                }
                Action::End { ask, end } => {
                    if let Some(waits) = self.asks.remove(&ask) {
                        // Nobody waits any more: the guard of the request is about to take the ask back.
                        _ = waits.send(end);
                    }
                }
                Action::Close { connection, why } => {
                    self.connections.remove(&connection);
                    tracing::warn!(?why, "the connection of a spider is closed");
                }
                Action::Alarm => tracing::error!(
                    "spiders sent many records for URLs that they were not asked for; such records are dropped: \
                     look for a spider that mixes up documents"
                ),
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Remote {
    /// Listens for spiders, and connects to those of the settings. `local` resolves names.
    pub async fn start(settings: &Settings, local: Spider) -> anyhow::Result<Remote> {
        let spiders = &settings.spiders;
        let desk = spiders.desk(settings.spider.total_timeout, settings.crawl.concurrency.max(1));
        let shared = Arc::new(Shared::new(desk));
        let mut tasks = JoinSet::new();
        let gate = connections::Gate::new(spiders);
        let body_bytes_max = u32::try_from(settings.spider.body_bytes_max).unwrap_or(u32::MAX);
        let listener = listen("spiders.store_listen", &spiders.store_listen).await?;
        tasks.spawn(records::serve(listener, gate.clone(), shared.clone(), body_bytes_max));
        if !spiders.v1_listen.is_empty() {
            let listener = listen("spiders.v1_listen", &spiders.v1_listen).await?;
            tasks.spawn(connections::serve(listener, gate.clone(), shared.clone()));
        }
        for address in &spiders.connect {
            gate.check(address.ip()).map_err(|why| usage(anyhow::anyhow!("spiders.connect: {why}")))?;
            tasks.spawn(connections::dial(*address, gate.clone(), shared.clone()));
        }
        tasks.spawn(shared.clone().run());
        let ask_timeout = settings.frontier.ticket_timeout.saturating_sub(TICKET_MARGIN);
        Ok(Remote { desk: shared, local, ask_timeout, _tasks: tasks })
    }

    async fn ask(&self, request: &Request) -> Fetched {
        let refused = |outcome: Outcome, why: &str| Fetched::not_sent(outcome, why.to_owned());
        if request.head_only {
            return refused(Outcome::ClientError, "spiders of version 1 send no HEAD requests");
        }
        let ip = match address_of(&self.local, request) {
            Ok(ip) => ip,
            Err(refused) => return *refused,
        };
        let (ends, ended) = oneshot::channel();
        let began = Instant::now();
        let asked = self.desk.with(|state, now| {
            let id = state.number();
            let ask = Ask { id, url: request.url.as_str().to_owned(), ip, rest: request.rest };
            state.desk.ask(now, ask).map(|()| {
                state.asks.insert(id, ends);
                id
            })
        });
        let id = match asked {
            Ok(id) => id,
            Err(AskError::Url) => return refused(Outcome::UrlTooLong, &AskError::Url.to_string()),
            Err(error) => return refused(Outcome::SpiderLost, &error.to_string()),
        };
        let guard = Taken { desk: &self.desk, id };
        match tokio::time::timeout(self.ask_timeout, ended).await {
            Ok(Ok(end)) => answer::fetched(request, ip, began.elapsed(), end),
            // Dropping the guard takes the ask back.
            Ok(Err(_)) | Err(_) => {
                drop(guard);
                refused(Outcome::SpiderLost, "no spider fetched it in time")
            }
        }
    }
}

/// The address that a spider may dial for a request; otherwise how the request ends without being sent.
fn address_of(local: &Spider, request: &Request) -> Result<IpAddr, Box<Fetched>> {
    let refused = |outcome, why| Box::new(Fetched::not_sent(outcome, why));
    local.check_port(&request.url).map_err(|denied| refused(Outcome::PortDenied, denied.to_string()))?;
    let no_address = || refused(Outcome::SpiderLost, "no address was chosen for this URL".into());
    let ip = request.address.ok_or_else(no_address)?;
    match local.may_dial(&request.url, ip) {
        true => Ok(ip),
        false => Err(refused(Outcome::AddressPrivate, format!("{ip} is not opened"))),
    }
}

/// An ask that is taken back when nobody waits for it any more.
struct Taken<'a> {
    desk: &'a Shared,
    id: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.desk.with(|state, now| {
            if state.asks.remove(&self.id).is_some() {
                state.desk.cancel(now, self.id);
            }
        });
    }
}

impl Fetch for Remote {
    fn fetch(&self, request: Request) -> BoxFuture<'_, Fetched> {
        Box::pin(async move { self.ask(&request).await })
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<[IpAddr]>, Outcome>> {
        self.local.resolve(name)
    }

    fn may_dial(&self, url: &CrawlUrl, address: IpAddr) -> bool {
        Fetch::may_dial(&self.local, url, address)
    }

    fn set_doors(&self, doors: Doors) {
        Fetch::set_doors(&self.local, doors);
    }

    fn measured(&self) -> Option<FetchMeasured> {
        Some(FetchMeasured::of(&self.local))
    }

    fn remote_urls(&self) -> Option<RemoteUrls> {
        let (counters, open, connected) = {
            let state = self.desk.state();
            (state.desk.counters(), state.asks.len(), state.connections.len())
        };
        let desk::Counters { sent, recorded, lost, cancelled, refused, .. } = counters;
        Some(RemoteUrls { sent, fetched: recorded, lost, cancelled, refused, open, connected })
    }
}

async fn listen(setting: &str, address: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| usage(anyhow::anyhow!("{setting} {address:?} cannot be listened on: {error}")))
}
