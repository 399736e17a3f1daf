//! One URL through all stages: robots, politeness, spider, archive, and then perhaps the next hop.
//!
//! A hop is a fetch of its own: with the crawl delay of its host, its robots.txt and its address check, and with its
//! own capture and line. Header fields and credentials that were given for one origin never go to another.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;
use http::header::{COOKIE, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, SET_COOKIE};
use nephila_core::frontier::slot::SlotKey;
use nephila_core::spider::answer::validator;
use nephila_core::spider::cookie::Jar;
use nephila_core::spider::door::Doors;
use nephila_core::spider::{Action, Outcome};
use nephila_core::store::Exchange;
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, Host, UrlId};
use nephila_engine::crawl::stage::Fetch;
use nephila_spider::{Fetched, Keep, Request, Spider};
use nephila_store::archive::Archive;
use tokio::time::Instant;

use super::gate::Gates;
use super::robots::RobotsCache;
use super::shelf::Limits;
use crate::cli::{FetchArgs, FollowScope};
use nephila_engine::credentials::Credentials;
use nephila_engine::exit::Exit;
use nephila_engine::introduce::{DISTURBS, Introduction};
use nephila_engine::settings::{Settings, usage};
use nephila_engine::wire;

/// Maximum number of retries after a local shortage (file handles, ports, a resolver).
const PAUSES_MAX: u32 = 40;
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Maximum number of redirect targets that are remembered, for deduplication: each is fetched once.
const TARGETS_MAX: usize = 10_000_000;

/// Carries URLs through all stages.
pub(super) struct Runner {
    spider: Spider,
    archive: Option<Archive>,
    robots: Option<RobotsCache>,
    hosts: Gates<String>,
    slots: Gates<SlotKey>,
    politeness: nephila_core::frontier::Settings,
    crawl_delay_max: Duration,
    challenge_rest: Duration,
    fields: Vec<(HeaderName, HeaderValue)>,
    introduction: Introduction,
    credentials: Credentials,
    jar: Option<Mutex<Jar>>,
    targets: Mutex<HashSet<UrlId>>,
    follow: Option<FollowScope>,
    redirects_max: u32,
    head_only: bool,
    conditional: bool,
    digest: bool,
    /// Whether the decoded body is kept.
    decoded: bool,
}

/// A URL and the hops behind it.
pub(super) struct Chain {
    next: Option<CrawlUrl>,
    bad: Option<(String, Outcome, String)>,
    /// The origin to which the given header fields belong.
    origin: String,
    passed: Vec<String>,
    via: Option<String>,
    cookie_tried: bool,
}

/// One finished hop.
pub(super) struct Done {
    pub(super) url: String,
    pub(super) via: Option<String>,
    pub(super) fetched: Fetched,
    /// The exchange to archive.
    pub(super) exchange: Option<Exchange>,
}

impl Runner {
    pub(super) fn new(
        args: &FetchArgs,
        settings: &Settings,
        archive: Option<Archive>,
    ) -> anyhow::Result<Self> {
        Ok(Runner {
            spider: wire::spider(settings)?,
            archive,
            robots: settings
                .robots
                .obey
                .then(|| RobotsCache::new(&settings.identity.agent, &settings.robots)),
            hosts: Gates::new(settings.frontier.host_connections as usize),
            slots: Gates::new(settings.frontier.slot_connections as usize),
            politeness: settings.frontier.clone(),
            crawl_delay_max: settings.robots.crawl_delay_max,
            challenge_rest: settings.retry.challenge_rest,
            fields: args.headers.iter().map(|field| parse_field(field)).collect::<anyhow::Result<_>>()?,
            introduction: Introduction::new(settings)?,
            credentials: Credentials::new(&settings.credentials)?,
            jar: args.cookies.then(|| Mutex::new(Jar::default())),
            targets: Mutex::default(),
            follow: args.follow.then_some(args.follow_scope),
            redirects_max: settings.spider.redirects_max,
            head_only: args.head,
            conditional: args.conditional,
            digest: args.digest,
            decoded: false,
        })
    }

    /// Keeps the decoded body, and permits the private addresses of these URLs.
    pub(super) fn for_reading(self, doors: Doors) -> Runner {
        self.spider.set_doors(doors);
        Runner { decoded: true, ..self }
    }

    /// Begins a chain with a URL as given.
    pub(super) fn start(&self, text: &str) -> Chain {
        let mut chain = Chain {
            next: None,
            bad: None,
            origin: String::new(),
            passed: Vec::new(),
            via: None,
            cookie_tried: false,
        };
        match CrawlUrl::parse(text) {
            Ok(url) => {
                chain.origin = url.origin().to_owned();
                // Only a given URL provides credentials; a redirect target does not.
                self.credentials.give(&url);
                if self.follow.is_some() {
                    // A redirect to a URL of the list need not fetch that URL again.
                    self.is_new(&url);
                }
                chain.next = Some(url);
            }
            Err(error) => chain.bad = Some((text.to_owned(), error.outcome(), error.to_string())),
        }
        chain
    }

    /// Maximum numbers of concurrent requests to a host and to an address.
    pub(super) fn limits(&self) -> Limits {
        let politeness = &self.politeness;
        Limits {
            host: politeness.host_connections.max(1) as usize,
            slot: politeness.slot_connections.max(1) as usize,
        }
    }

    /// The address for a URL of the list, if there is one.
    pub(super) async fn slot_of(&self, text: &str) -> Option<SlotKey> {
        let url = CrawlUrl::parse(text).ok()?;
        self.address_of(&url).await.map(SlotKey::of)
    }

    /// The end of the crawl delays of a URL's host and of its address.
    pub(super) fn rested(&self, text: &str, slot: Option<SlotKey>) -> (Instant, Instant) {
        let host = CrawlUrl::parse(text).map(|url| self.hosts.rested(url.authority()));
        (
            host.unwrap_or_else(|_| Instant::now()),
            slot.map_or_else(Instant::now, |slot| self.slots.rested(&slot)),
        )
    }

    async fn address_of(&self, url: &CrawlUrl) -> Option<IpAddr> {
        match url.host() {
            Host::Ip(address) => Some(address),
            Host::Name(name) => {
                let found = self.spider.resolver().resolve(name).await.0.ok()?;
                found.first().copied()
            }
        }
    }

    /// Fetches the next hop of a chain.
    pub(super) async fn next(&self, chain: &mut Chain) -> anyhow::Result<Option<Done>> {
        if let Some((url, outcome, detail)) = chain.bad.take() {
            let fetched = Fetched::not_sent(outcome, detail);
            return Ok(Some(Done { url, via: chain.via.clone(), fetched, exchange: None }));
        }
        let Some(url) = chain.next.take() else { return Ok(None) };
        let mut fetched = self.fetch(&url, chain).await?;
        let mut exchange = fetched.exchange.take();
        let target = fetched.redirect.clone();
        if let (Some(_), Some(target)) = (self.follow, target) {
            self.decide(&url, target, chain, &mut fetched);
        }
        let via = chain.via.take();
        if let Some(exchange) = &mut exchange {
            // The chain may have reclassified the redirect.
            exchange.notes.set("outcome", fetched.outcome.name());
            exchange.notes.extend(via.as_ref().map(|via| ("via", via)));
        }
        if self.follow.is_some() {
            chain.via = Some(url.as_str().to_owned());
        }
        Ok(Some(Done { url: url.as_str().to_owned(), via, fetched, exchange }))
    }

    /// Decides about a redirect that is to be followed.
    fn decide(&self, url: &CrawlUrl, target: CrawlUrl, chain: &mut Chain, fetched: &mut Fetched) {
        chain.passed.push(url.key().to_owned());
        if target.key() == url.key() && fetched.fields.contains_key(SET_COOKIE) {
            if self.jar.is_some() && !chain.cookie_tried {
                chain.cookie_tried = true;
                chain.next = Some(target);
            } else {
                fetched.outcome = Outcome::CookieWall;
            }
        } else if chain.passed.iter().any(|key| key == target.key()) {
            fetched.outcome = Outcome::RedirectLoop;
        } else if chain.passed.len() > self.redirects_max as usize {
            fetched.outcome = Outcome::RedirectLimit;
            fetched.detail = format!("more than {} redirects", self.redirects_max);
        } else if !self.in_scope(url, &target) {
            let detail = "the redirect leaves the scope of --follow-scope".to_owned();
            chain.bad = Some((target.as_str().to_owned(), Outcome::OutOfScope, detail));
        } else if self.is_new(&target) {
            chain.next = Some(target);
        }
    }

    fn in_scope(&self, url: &CrawlUrl, target: &CrawlUrl) -> bool {
        match self.follow {
            Some(FollowScope::Host) => url.host_str() == target.host_str(),
            Some(FollowScope::Domain) => {
                url.host_str() == target.host_str()
                    || url
                        .registrable_domain()
                        .is_some_and(|domain| target.registrable_domain() == Some(domain))
            }
            _ => true,
        }
    }

    /// Whether this target has not been fetched in this run.
    fn is_new(&self, target: &CrawlUrl) -> bool {
        let mut targets = self.targets.lock().expect("nobody panics holding it");
        if targets.len() >= TARGETS_MAX {
            targets.clear();
        }
        targets.insert(target.id())
    }

    /// Fetches one URL, if robots.txt allows it.
    async fn fetch(&self, url: &CrawlUrl, chain: &Chain) -> anyhow::Result<Fetched> {
        let mut crawl_delay = Duration::ZERO;
        if let Some(robots) = &self.robots {
            // Before the host's gate is taken: the robots.txt request passes the gate by itself, as do its redirects.
            match robots.verdict(url, self).await? {
                Ok(Some(delay)) if delay > self.crawl_delay_max => {
                    let detail = format!("robots.txt asks for {} s between two fetches", delay.as_secs());
                    return Ok(Fetched::not_sent(Outcome::RobotsDenied, detail));
                }
                Ok(delay) => crawl_delay = delay.unwrap_or_default(),
                Err((outcome, detail)) => return Ok(Fetched::not_sent(outcome, detail)),
            }
        }
        let request = Request {
            url: url.clone(),
            head_only: self.head_only,
            fields: self.fields_for(url, chain),
            keep: Keep {
                // A HEAD response proves nothing about the page, so it is no capture.
                exchange: self.archive.is_some() && !self.head_only,
                decoded: self.decoded,
                sha1: self.digest && self.archive.is_none(),
            },
            body_bytes_max: None,
            address: None,
            connections_max: 0,
            second: false,
            rest: Duration::ZERO,
            read_as: None,
        };
        let fetched = self.fetch_politely(&request, crawl_delay).await?;
        self.remember_cookies(url, &fetched);
        Ok(fetched)
    }

    /// Fetches, and once more with credentials if the site demands them and we have some: a request like any other.
    pub(super) async fn fetch_politely(
        &self,
        request: &Request,
        crawl_delay: Duration,
    ) -> anyhow::Result<Fetched> {
        let (url, head_only) = (&request.url, request.head_only);
        let with_field = |field: &Option<(HeaderName, HeaderValue)>| {
            let mut request = request.clone();
            request.fields.extend(field.clone());
            request
        };
        let field = self.credentials.field(url, head_only);
        let fetched = self.fetch_twice(&with_field(&field), crawl_delay).await?;
        let sent = field.as_ref().map(|(_, value)| value);
        if fetched.status == Some(401) && self.credentials.may_ask_again(url, sent, &fetched.fields) {
            let field = self.credentials.field(url, head_only);
            let mut second = self.fetch_twice(&with_field(&field), crawl_delay).await?;
            second.requests += fetched.requests;
            return Ok(second);
        }
        Ok(fetched)
    }

    /// Fetches when host and address may be requested. A retry is a request like any other, with the same crawl delay.
    async fn fetch_twice(&self, request: &Request, crawl_delay: Duration) -> anyhow::Result<Fetched> {
        let first = self.fetch_once(request, crawl_delay).await?;
        if !first.again {
            return Ok(first);
        }
        let mut fetched = self.fetch_once(&Request { second: true, ..request.clone() }, crawl_delay).await?;
        fetched.requests += first.requests;
        Ok(fetched)
    }

    /// Fetches when host and address may be requested, and retries after a local shortage.
    async fn fetch_once(&self, request: &Request, crawl_delay: Duration) -> anyhow::Result<Fetched> {
        // Connections kept for other names on the same address count too, and are closed when there are too many.
        let request = &Request { connections_max: self.politeness.slot_connections, ..request.clone() };
        let url = &request.url;
        let address = self.address_of(url).await;
        self.introduce(url, address)?;
        let by_rate = Duration::from_millis(self.politeness.rate_rest_ms());
        let rest = self.politeness.host_delay.max(by_rate).max(crawl_delay);
        let mut host = self.hosts.pass(url.authority(), rest).await;
        let _slot = match address {
            Some(address) => Some(self.slots.pass(&SlotKey::of(address), self.politeness.slot_delay).await),
            None => None,
        };
        let mut fetched = Fetch::fetch(&self.spider, request.clone()).await;
        let mut pause = PAUSE;
        for _ in 0..PAUSES_MAX {
            if fetched.outcome.action() != Action::Pause {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            fetched = Fetch::fetch(&self.spider, request.clone()).await;
        }
        // The first address of a name may be dead. The crawl delay applies to the address that answered instead.
        if let Some(used) = fetched.address.map(|used| SlotKey::of(used.ip()))
            && address.map(SlotKey::of) != Some(used)
        {
            self.slots.rest(&used, self.politeness.slot_delay);
        }
        if let Some(wait) = fetched.retry_after.filter(|_| fetched.outcome.action() == Action::BackOffHost) {
            host.rest_at_least(wait);
        }
        if fetched.outcome == Outcome::Challenged {
            host.rest_at_least(self.challenge_rest);
        }
        Ok(fetched)
    }

    /// Checks our identification: a public site may know its visitor. Without a contact only addresses that the
    /// operator permitted are requested.
    fn introduce(&self, url: &CrawlUrl, address: Option<IpAddr>) -> anyhow::Result<()> {
        let why = address.and_then(|address| self.introduction.may_ask(address).err());
        if why == Some(Outcome::NotOwnSite) {
            return Err(usage(anyhow::anyhow!("{}: {DISTURBS}", url.as_str())));
        }
        if why.is_none() {
            return Ok(());
        }
        let wanted = "a public site wants to know who asks: add --contact URL (or identity.contact = \"URL\" in nephila.toml)";
        Err(usage(anyhow::anyhow!("{}: {wanted}", url.as_str())))
    }

    /// The header fields for this URL that other URLs would not get.
    fn fields_for(&self, url: &CrawlUrl, chain: &Chain) -> Vec<(HeaderName, HeaderValue)> {
        let mut fields = Vec::new();
        fields.extend(self.introduction.from());
        if !self.fields.is_empty() && url.origin() == chain.origin {
            fields.extend(self.fields.iter().cloned());
        }
        if let Some(jar) = &self.jar {
            let cookies = jar.lock().expect("nobody panics holding it").field(url, now());
            fields
                .extend(cookies.and_then(|cookies| Some((COOKIE, HeaderValue::from_bytes(&cookies).ok()?))));
        }
        if self.conditional
            && let Some(last) = self.archive.as_ref().and_then(|archive| archive.last_capture(url.as_str()))
        {
            let mut add = |name, value: Option<String>| {
                fields.extend(value.and_then(|value| Some((name, validator(&value)?))));
            };
            add(IF_NONE_MATCH, last.etag);
            add(IF_MODIFIED_SINCE, last.last_modified);
        }
        fields
    }

    fn remember_cookies(&self, url: &CrawlUrl, fetched: &Fetched) {
        let Some(jar) = &self.jar else { return };
        let mut jar = jar.lock().expect("nobody panics holding it");
        for cookie in fetched.fields.get_all(SET_COOKIE) {
            // A rejected cookie is not sent later; the page is not affected.
            let _ = jar.handle_set_cookie(url, cookie.as_bytes(), now());
        }
    }
}

fn now() -> Timestamp {
    let since =
        std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as u64)
}

pub(crate) fn parse_field(text: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let parse = || {
        let (name, value) = text.split_once(':').context("there is no colon")?;
        Ok::<_, anyhow::Error>((name.trim().parse()?, value.trim().parse()?))
    };
    parse().map_err(|error| usage(anyhow::anyhow!("-H {text:?}: {error}")))
}

/// The archive failed: no more lines can be promised.
pub(super) fn archive_failed(error: nephila_store::archive::Error) -> anyhow::Error {
    let exit = if matches!(error, nephila_store::archive::Error::Full { .. }) {
        Exit::DiskFull
    } else {
        Exit::Failed
    };
    anyhow::Error::new(exit).context(format!("archive: {error}"))
}
