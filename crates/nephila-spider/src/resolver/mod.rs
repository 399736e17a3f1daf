//! Names to addresses: one question per name and lifetime, for any number of callers.
//!
//! A caller joins a lookup of the same name that is under way, or gets the cached answer. Good answers are cached for
//! their time to live within our own bounds. Failures are cached too: a name that does not exist for the zone's
//! negative time to live, a zone that does not work for a backoff that doubles. So ten thousand URLs of a dead host
//! cost one question.
//!
//! Addresses come in dialling order: addresses that recently could not be reached go behind the others, for every name
//! that leads to them ([`Reach`]).
//!
//! Invariants: names are asked unchanged, never with a search list; at most [`ADDRESSES_MAX`] addresses of a name are
//! kept; a slow zone does not hold back the others.

mod lookup;
mod system;

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nephila_core::histogram::{Buckets, Histogram};
use nephila_core::spider::reach::Reach;
use nephila_core::spider::{Outcome, Settings};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub use lookup::ADDRESSES_MAX;

/// Maximum cached names. Eviction takes expired names first, then any.
const NAMES_MAX: usize = 200_000;
/// Maximum concurrent lookups in their quick phase.
const QUICK_LOOKUPS_MAX: usize = 512;
/// A lookup that takes longer than this is slow, and releases its quick place. So this is also the longest that a burst
/// of slow zones holds back a quick lookup.
const QUICK_TIME: Duration = Duration::from_millis(100);
/// Maximum concurrent slow lookups. A further one ends as an unreachable resolver and is retried later.
const SLOW_LOOKUPS_MAX: usize = 2_048;
/// First backoff after a failure of the zone; doubles up to [`FAILURE_PAUSE_MAX`].
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
const FAILURE_PAUSE_MAX: Duration = Duration::from_secs(300);
/// Pause after a failure of our own (resolver away, no handles, no ports).
const OWN_FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// Bounds for the lifetime of "does not exist".
const NEGATIVE_TTL_MIN: Duration = Duration::from_secs(1);
const NEGATIVE_TTL_MAX: Duration = Duration::from_secs(3600);

/// How long the result of the IPv6 route check is cached.
const ROUTE_KNOWN_FOR: Duration = Duration::from_secs(60);

/// The addresses of a name, or the failure.
pub type DnsAnswer = Result<Arc<[IpAddr]>, Outcome>;

/// Resolves names. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Resolver(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    client: lookup::Client,
    fixed: HashMap<String, Arc<[IpAddr]>>,
    names: Mutex<HashMap<Arc<str>, Entry>>,
    reach: Mutex<Reached>,
    began: Instant,
    quick: Semaphore,
    slow: AtomicUsize,
    ttl_min: Duration,
    ttl_max: Duration,
    /// How long lookups took.
    took: Histogram,
}

#[derive(Debug, Default)]
struct Reached {
    reach: Reach,
    /// Whether IPv6 leads out of this machine, and the time of that check.
    v6_leads_out: Option<(bool, Instant)>,
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Failures in a row.
    failures: u32,
}

#[derive(Debug)]
enum State {
    Asking(watch::Receiver<Option<DnsAnswer>>),
    Known { answer: DnsAnswer, until: Instant },
}

/// A setting has an unusable value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadSettings(String);

impl Resolver {
    /// A resolver with these settings; system files are read where the settings leave a choice open.
    pub fn new(settings: &Settings) -> Result<Self, BadSettings> {
        let servers = match settings.dns_servers.as_slice() {
            [] => system::name_servers(),
            servers => servers.to_vec(),
        };
        let mut fixed = system::hosts();
        for line in &settings.dns_fixed {
            let parsed =
                line.split_once('=').and_then(|(name, address)| Some((name, address.trim().parse().ok()?)));
            let Some((name, address)) = parsed else {
                return Err(BadSettings(format!("spider.dns_fixed: {line:?} is not `name=address`")));
            };
            fixed.insert(fold(name.trim()).into_owned(), Arc::from([address]));
        }
        Ok(Resolver(Arc::new(Inner {
            client: lookup::Client::new(servers, settings),
            fixed,
            names: Mutex::default(),
            reach: Mutex::default(),
            began: Instant::now(),
            quick: Semaphore::new(QUICK_LOOKUPS_MAX),
            slow: AtomicUsize::new(0),
            ttl_min: settings.dns_ttl_min,
            ttl_max: settings.dns_ttl_max,
            took: Histogram::default(),
        })))
    }

    /// The addresses of a name, in dialling order. The second value tells whether they come from an earlier lookup.
    pub async fn resolve(&self, name: &str) -> (DnsAnswer, bool) {
        let (answer, old) = self.resolve_unordered(name).await;
        (answer.map(|addresses| self.ordered(addresses)), old)
    }

    async fn resolve_unordered(&self, name: &str) -> (DnsAnswer, bool) {
        let name = fold(name);
        if let Some(addresses) = self.0.fixed.get(&*name) {
            return (Ok(addresses.clone()), false);
        }
        let (mut asking, joined) = match self.ask(&name) {
            Asked::Known(answer) => return (answer, true),
            Asked::Under(asking, joined) => (asking, joined),
        };
        let answer = match asking.wait_for(Option::is_some).await {
            Ok(answer) => answer.clone().expect("waited for it"),
            // The lookup died with its runtime.
            Err(_) => Err(Outcome::Cancelled),
        };
        (answer, joined)
    }

    /// How long lookups took, in milliseconds. Answers from memory and joined lookups are not counted.
    pub fn took(&self) -> Buckets {
        self.0.took.get()
    }

    /// Drops a cached name whose addresses did not work, so that the next caller starts a new lookup.
    pub fn forget(&self, name: &str) {
        let mut names = self.names();
        let name = fold(name);
        if names.get(&*name).is_some_and(|entry| matches!(entry.state, State::Known { .. })) {
            names.remove(&*name);
        }
    }

    /// Records that an address could not be reached: for a while the address goes behind the others of its names.
    pub fn note_failed(&self, address: IpAddr) {
        let now = self.mono();
        self.reached().reach.handle_failed(address, now);
    }

    /// Records that an address was reached.
    pub fn note_reached(&self, address: IpAddr) {
        self.reached().reach.handle_reached(address);
    }

    fn ordered(&self, addresses: Arc<[IpAddr]>) -> Arc<[IpAddr]> {
        if addresses.len() < 2 {
            return addresses;
        }
        let now = self.mono();
        let mut reached = self.reached();
        let leads_out = match reached.v6_leads_out {
            Some((leads_out, at)) if at.elapsed() < ROUTE_KNOWN_FOR => leads_out,
            _ => {
                let leads_out = system::ipv6_leads_out();
                reached.v6_leads_out = Some((leads_out, Instant::now()));
                leads_out
            }
        };
        reached.reach.order(&addresses, leads_out, now).into()
    }

    /// Milliseconds since the resolver was made.
    fn mono(&self) -> u64 {
        u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.0.reach.lock().expect("nobody panics holding it")
    }

    fn ask(&self, name: &str) -> Asked {
        let mut names = self.names();
        let now = Instant::now();
        let mut failures = 0;
        match names.get(name) {
            Some(Entry { state: State::Known { answer, until }, .. }) if *until > now => {
                return Asked::Known(answer.clone());
            }
            Some(Entry { state: State::Asking(asking), .. }) => return Asked::Under(asking.clone(), true),
            Some(expired) => failures = expired.failures,
            None if names.len() >= NAMES_MAX => make_room(&mut names, now),
            None => {}
        }
        let (tell, asking) = watch::channel(None);
        let name: Arc<str> = name.into();
        names.insert(name.clone(), Entry { state: State::Asking(asking.clone()), failures });
        drop(names);
        let inner = self.clone();
        // A task of its own: the first caller may be cancelled while others still wait.
        tokio::spawn(async move {
            let began = Instant::now();
            let found = inner.look_up(&name).await;
            inner.0.took.add(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
            let answer = inner.keep(name, found, failures);
            tell.send_replace(Some(answer));
        });
        Asked::Under(asking, false)
    }

    async fn look_up(&self, name: &str) -> lookup::Found {
        let quick = self.0.quick.acquire().await.expect("never closed");
        let mut lookup = std::pin::pin!(self.0.client.look_up(name));
        if let Ok(found) = tokio::time::timeout(QUICK_TIME, &mut lookup).await {
            return found;
        }
        drop(quick);
        if self.0.slow.fetch_add(1, Ordering::Relaxed) >= SLOW_LOOKUPS_MAX {
            self.0.slow.fetch_sub(1, Ordering::Relaxed);
            // Too many waiting lookups: the shortage is ours.
            return lookup::Found::failed(Outcome::DnsUnreachable);
        }
        let found = lookup.await;
        self.0.slow.fetch_sub(1, Ordering::Relaxed);
        found
    }

    fn keep(&self, name: Arc<str>, found: lookup::Found, failures: u32) -> DnsAnswer {
        let (keep, failures) = match &found.answer {
            Ok(_) => (found.ttl.clamp(self.0.ttl_min, self.0.ttl_max), 0),
            Err(Outcome::DnsNxdomain | Outcome::DnsNodata) => {
                (found.ttl.clamp(NEGATIVE_TTL_MIN, NEGATIVE_TTL_MAX), 0)
            }
            Err(Outcome::DnsUnreachable | Outcome::LocalFiles | Outcome::LocalPorts | Outcome::Cancelled) => {
                (OWN_FAILURE_PAUSE, failures)
            }
            Err(_) => {
                let pause = FAILURE_PAUSE.saturating_mul(1 << failures.min(10)).min(FAILURE_PAUSE_MAX);
                (pause, failures + 1)
            }
        };
        let answer = found.answer;
        let state = State::Known { answer: answer.clone(), until: Instant::now() + keep };
        self.names().insert(name, Entry { state, failures });
        answer
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.0.names.lock().expect("nobody panics while holding the names")
    }
}

enum Asked {
    Known(DnsAnswer),
    Under(watch::Receiver<Option<DnsAnswer>>, bool),
}

/// Canonical form of a name: lower case, without the final dot (names are always absolute).
fn fold(name: &str) -> Cow<'_, str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.bytes().any(|b| b.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

/// Evicts names from the full table: the expired ones, and if the table stays full, an eighth of the others.
fn make_room(names: &mut HashMap<Arc<str>, Entry>, now: Instant) {
    names.retain(|_, entry| !matches!(&entry.state, State::Known { until, .. } if *until <= now));
    if names.len() >= NAMES_MAX {
        let mut nth = 0usize;
        names.retain(|_, entry| {
            nth += 1;
            matches!(entry.state, State::Asking(_)) || !nth.is_multiple_of(8)
        });
    }
}
