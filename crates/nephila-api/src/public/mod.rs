//! Pages for people without a token, by signed links: the progress of one job, and our requests to one host.
//!
//! | path | answer |
//! |---|---|
//! | `POST /api/v1/links` | makes a link (role operate) |
//! | `/public/job/NAME?until=…&key=…`, `/public/host/NAME?…` | the page, without data |
//! | `/public/v1/job/NAME?…`, `/public/v1/host/NAME?…` | the data of the page, as JSON |
//! | `/public/ui/FILE` | scripts and style of both pages |
//!
//! Data is made from the answers of other operations, asked by the server itself ([`Own`]), so that a node answers for
//! its whole cluster.
//!
//! Invariants: a link opens one page and its data until its end, and nothing else; a wrong link, a changed one and one
//! that is over get the same answer ([`closed`]); links are kept nowhere; what readers cost is bounded (`shelf`).

mod host;
mod job;
mod link;
mod page;
mod secret;
mod shelf;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header;
use nephila_core::time::Timestamp;
use nephila_engine::clock::Clock;
use nephila_engine::folder::Folder;
use nephila_engine::settings::{Role, Settings};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::{Ask, Own};
use crate::client::{NoAnswer, Question, Reply};
use crate::explain::HostView;
use crate::operation::{Kind as Values, Operation, Parameter, Verb, change, get, part, query};
use crate::politeness::PolitenessSaid;
use crate::problem::{HttpAnswer, Instead, ok, problem, reply, retry_after};
use crate::question::{HttpQuestion, escaped};
use crate::routes::{Answers, Route, route};
use crate::status::StatusSaid;
use crate::timeline::TimelineSaid;
use host::Seen;
use page::{closed, guarded};
use shelf::{Busy, Pace, Shelf};

pub use host::{PublicHost, PublicRequest, PublicRobots, PublicSite};
pub use job::PublicJob;
pub(crate) use link::is_public;
pub use link::{Kind, LIFE_MAX, LIFE_MIN, LIFE_USUAL, LinkKey, NAME_BYTES_MAX, PREFIX, Subject};
pub use secret::LinkSecret;

/// Maximum size in bytes of an answer that data is made from.
const PART_BYTES_MAX: usize = 16 << 20;
/// Timeout of such an answer.
const PART_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the answer about the queue of a host. Without that answer, the page shows the requests and says what is
/// missing. Together with [`PART_TIMEOUT`] less than a reader waits.
const HOST_TIMEOUT: Duration = Duration::from_secs(4);
/// `Retry-After` in seconds while an answer cannot be made.
const RETRY: u64 = 5;

const UNTIL: Parameter =
    query("until", Values::Text, "End of the link, in seconds since 1970, as the link names it.");
const KEY: Parameter = query("key", Values::Text, "Signature of the link.");
const JOB_NAME: Parameter = part("job", "Name of the job.");
const HOST_NAME: Parameter = part("host", "Name of the host, with its port if that is not the usual one.");

/// `POST /api/v1/links`.
pub static CREATE: Operation = change(
    Verb::Post,
    Role::Operate,
    "createLink",
    "/api/v1/links",
    "Makes a link by which people without a token see one job or one host, and nothing else.",
)
.tag("public")
.takes::<LinkWanted>()
.gives::<LinkSaid>();
/// `GET /public/job/{job}`.
pub static JOB_PAGE: Operation =
    get("getPublicJobPage", "/public/job/{job}", "The page of a job, for the holder of its link.")
        .tag("public")
        .by_link()
        .with(&[JOB_NAME, UNTIL, KEY])
        .gives_text(&["text/html"]);
/// `GET /public/host/{host}`.
pub static HOST_PAGE: Operation =
    get("getPublicHostPage", "/public/host/{host}", "The page of a host, for the holder of its link.")
        .tag("public")
        .by_link()
        .with(&[HOST_NAME, UNTIL, KEY])
        .gives_text(&["text/html"]);
/// `GET /public/v1/job/{job}`.
pub static JOB: Operation =
    get("getPublicJob", "/public/v1/job/{job}", "The progress of a job, for the holder of its link.")
        .tag("public")
        .by_link()
        .with(&[JOB_NAME, UNTIL, KEY])
        .gives::<PublicJob>();
/// `GET /public/v1/host/{host}`.
pub static HOST: Operation =
    get("getPublicHost", "/public/v1/host/{host}", "Our requests to a host, for the holder of its link.")
        .tag("public")
        .by_link()
        .with(&[HOST_NAME, UNTIL, KEY])
        .gives::<PublicHost>();
/// `GET /public/ui/{file}`.
pub static FILE: Operation = get("getPublicFile", "/public/ui/{file}", "A file of the public pages.")
    .tag("public")
    .by_link()
    .with(&[part("file", "Name of the file.")])
    .gives_text(&["text/javascript", "text/css"])
    .or(&[(304, "The file has not changed since `If-None-Match`.")]);

/// A wanted link.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LinkWanted {
    /// What the link shows.
    pub kind: Kind,
    /// Name of the job; name of the host, or a URL of the host.
    #[schemars(length(min = 1, max = NAME_BYTES_MAX))]
    pub name: String,
    /// How long the link is valid, in seconds: a minute to 90 days. Without it 7 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = LIFE_MIN, max = LIFE_MAX))]
    pub for_s: Option<u64>,
}

/// A link.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct LinkSaid {
    /// What the link shows.
    pub kind: Kind,
    /// Name of the job or the host.
    pub name: String,
    /// End of the link.
    pub until: String,
    /// Path and query of the page.
    pub path: String,
    /// The link: `api.public_url`, or else the address of the request, with this path.
    pub url: String,
}

/// Who crawls, for the people whose sites are crawled.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Crawler {
    /// Name of the crawler in robots.txt.
    pub agent: String,
    /// The `User-Agent` of requests.
    pub user_agent: String,
    /// Contact: a URL or a mail address; empty if the operator names none.
    pub contact: String,
}

/// A server with public pages.
pub trait Publishes: Answers {
    /// The public pages; none where nothing is published.
    fn public(&self) -> Option<&Public>;
}

/// What a server needs for its public pages.
#[derive(Debug)]
pub struct Public {
    secret: Arc<LinkSecret>,
    crawler: Crawler,
    /// The usual pause between two requests to a host.
    usual_ms: u64,
    base: Base,
    shelf: Shelf,
    clock: Clock,
}

/// Where links lead.
#[derive(Clone, Debug, Default)]
struct Base {
    /// `api.public_url`; empty if it is not set.
    set: String,
    /// The address at which the server answers; empty if it is not known.
    own: String,
}

impl Base {
    fn of(settings: &Settings) -> Base {
        let api = &settings.api;
        let scheme = if api.tls_cert_file.as_os_str().is_empty() { "http" } else { "https" };
        let place = if api.advertise.is_empty() { &api.listen } else { &api.advertise };
        let own = if place.is_empty() { String::new() } else { format!("{scheme}://{place}") };
        Base { set: api.public_url.trim_end_matches('/').to_owned(), own }
    }

    /// The address for an answer to this request.
    fn url(&self, asked: Option<&HttpQuestion>, path: &str) -> String {
        let is_plain =
            |host: &&str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte));
        let host = asked.and_then(|asked| asked.field(header::HOST.as_str()));
        // Commands that ask over the socket of a folder name no address.
        let host = host.filter(|host| !host.is_empty() && *host != "nephila").filter(is_plain);
        let scheme = if asked.is_some_and(|asked| asked.is_tls) { "https" } else { "http" };
        match host {
            _ if !self.set.is_empty() => format!("{}{path}", self.set),
            Some(host) => format!("{scheme}://{host}{path}"),
            None => format!("{}{path}", self.own),
        }
    }
}

impl Public {
    /// The public pages of a server with these settings.
    pub fn new(secret: LinkSecret, settings: &Settings) -> Public {
        let identity = &settings.identity;
        let crawler = Crawler {
            agent: identity.agent.clone(),
            user_agent: identity.user_agent(),
            contact: identity.contact.clone(),
        };
        let usual_ms = u64::try_from(settings.frontier.host_delay.as_millis()).unwrap_or(u64::MAX);
        let (base, shelf, clock) = (Base::of(settings), Shelf::default(), Clock::new());
        Public { secret: Arc::new(secret), crawler, usual_ms, base, shelf, clock }
    }

    /// Sets the address at which the server answers.
    #[must_use]
    pub fn at(mut self, url: Option<String>) -> Public {
        self.base.own = url.unwrap_or(self.base.own);
        self
    }

    /// The subject of a request, if its link opens it.
    fn opened(&self, subject: Subject, asked: &HttpQuestion) -> Result<Option<Subject>, Instead> {
        let [until, key] = ["until", "key"].map(|name| asked.parameter(name).unwrap_or_default());
        let secret = self.secret.known().map_err(|error| {
            tracing::error!("the secret of links cannot be read: {error:#}");
            problem(StatusCode::SERVICE_UNAVAILABLE, "links unavailable", "see the log of the server")
        })?;
        let now = self.now().0 / 1_000;
        Ok(secret.is_some_and(|secret| secret.opens(&subject, &until, &key, now)).then_some(subject))
    }

    fn now(&self) -> Timestamp {
        self.clock.now().wall
    }
}

/// Makes a link: its subject, its end, and its path.
fn made(secret: &LinkKey, subject: &Subject, life_s: u64, now: Timestamp) -> (u64, String) {
    let until = now.0 / 1_000 + life_s;
    let signature = secret.sign(subject, until);
    (until, subject.target(until, &signature))
}

/// The life of a link. The error says which ones are possible.
fn life(wanted: Option<u64>) -> Result<u64, String> {
    let life = wanted.unwrap_or(LIFE_USUAL);
    let is_bounded = (LIFE_MIN..=LIFE_MAX).contains(&life);
    is_bounded
        .then_some(life)
        .ok_or_else(|| format!("a link is valid for {LIFE_MIN} s to {} days", LIFE_MAX / 86_400))
}

/// Makes a link for a folder in which no process runs. The caller knows that the job exists.
pub fn link_of_folder(folder: &Folder, settings: &Settings, wanted: &LinkWanted) -> anyhow::Result<LinkSaid> {
    let subject = Subject::named(wanted.kind, &wanted.name).map_err(anyhow::Error::msg)?;
    let life = life(wanted.for_s).map_err(anyhow::Error::msg)?;
    let secret = LinkSecret::in_folder(folder.clone()).made()?;
    let (until, path) = made(&secret, &subject, life, Clock::new().now().wall);
    let until = Timestamp::from_secs(until).warc_date();
    let url = Base::of(settings).url(None, &path);
    Ok(LinkSaid { kind: subject.kind, name: subject.name, until, path, url })
}

/// The operations of a server with public pages.
pub fn routes<A: Publishes>() -> [Route<A>; 6] {
    [
        route::<A>(&CREATE, |server, asked| {
            Box::pin(async move { create(server, &asked).await.unwrap_or_else(|instead| *instead) })
        }),
        route(&JOB_PAGE, |server, asked| {
            Box::pin(async move { shell(server, Subject::in_path(Kind::Job, asked.part("job")), &asked) })
        }),
        route(&HOST_PAGE, |server, asked| {
            Box::pin(async move { shell(server, Subject::in_path(Kind::Host, asked.part("host")), &asked) })
        }),
        route(&JOB, |server, asked| {
            Box::pin(
                async move { data(server, Subject::in_path(Kind::Job, asked.part("job")), &asked).await },
            )
        }),
        route(&HOST, |server, asked| {
            Box::pin(
                async move { data(server, Subject::in_path(Kind::Host, asked.part("host")), &asked).await },
            )
        }),
        route(&FILE, |_, asked| Box::pin(async move { page::file(asked.part("file"), &asked) })),
    ]
}

/// `POST links`.
async fn create<A: Publishes>(server: &A, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
    let wrong = |why: String| problem(StatusCode::BAD_REQUEST, "invalid link", why);
    let wanted: LinkWanted = asked.object().map_err(wrong)?;
    let subject = Subject::named(wanted.kind, &wanted.name).map_err(wrong)?;
    let life = life(wanted.for_s).map_err(wrong)?;
    let none = || problem(StatusCode::NOT_FOUND, "no links here", "this server publishes nothing");
    let public = server.public().ok_or_else(none)?;
    if subject.kind == Kind::Job {
        let target = format!("/api/v1/jobs/{}", escaped(&subject.name));
        let reply = ask(server, target, PART_TIMEOUT).await;
        match reply.map(|reply| (reply.status, reply.problem())) {
            Ok((StatusCode::OK, _)) => {}
            Ok((StatusCode::NOT_FOUND, (_, detail))) => {
                return Err(problem(StatusCode::NOT_FOUND, "no such job", detail).into());
            }
            Ok((_, (_, detail))) => return Err(unavailable(detail)),
            Err(error) => return Err(unavailable(error.to_string())),
        }
    }
    let secret = public.secret.clone();
    let secret = match tokio::task::spawn_blocking(move || secret.made()).await {
        Ok(made) => made.map_err(|error| unavailable(format!("{error:#}")))?,
        Err(error) => return Err(unavailable(error.to_string())),
    };
    let (until, path) = made(&secret, &subject, life, public.now());
    let (until, url) = (Timestamp::from_secs(until).warc_date(), public.base.url(Some(asked), &path));
    let Subject { kind, name } = subject;
    Ok(guarded(ok(&LinkSaid { kind, name, until, path, url })))
}

fn unavailable(detail: String) -> Instead {
    problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", detail).into()
}

/// The page of a subject, without data.
fn shell<A: Publishes>(server: &A, subject: Subject, asked: &HttpQuestion) -> HttpAnswer {
    match server.public().map_or(Ok(None), |public| public.opened(subject, asked)) {
        Ok(Some(_)) => page::shell(asked),
        Ok(None) => closed(asked, true),
        Err(instead) => guarded(*instead),
    }
}

/// The data of a page.
async fn data<A: Publishes>(server: &A, subject: Subject, asked: &HttpQuestion) -> HttpAnswer {
    let Some(public) = server.public() else { return closed(asked, false) };
    let subject = match public.opened(subject, asked) {
        Ok(Some(subject)) => subject,
        Ok(None) => return closed(asked, false),
        Err(instead) => return guarded(*instead),
    };
    let subject = &subject;
    let found = public.shelf.get(subject, |pace| async move {
        match subject.kind {
            Kind::Job => find_job(server, public, subject, &pace).await,
            Kind::Host => find_host(server, public, subject).await,
        }
    });
    guarded(match found.await {
        Ok(Some(said)) => reply(StatusCode::OK, "application/json", said),
        Ok(None) => return closed(asked, false),
        Err(Busy::TooMany(wait)) => {
            let detail =
                format!("all readers of a link together get {} answers per second", shelf::PER_SECOND);
            retry_after(problem(StatusCode::TOO_MANY_REQUESTS, "too many requests", detail), wait)
        }
        Err(Busy::NotNow) => {
            let detail = "the crawl does not answer right now, or too many ask at the same time";
            retry_after(problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", detail), RETRY)
        }
    })
}

async fn ask<A: Answers>(server: &A, target: String, timeout: Duration) -> Result<Reply, NoAnswer> {
    Own(server).ask(Question::get(target, PART_BYTES_MAX, timeout)).await
}

/// The answer of another operation; `Err` if there is none, with whether the thing does not exist.
async fn part_of<A: Answers, T: DeserializeOwned>(
    server: &A,
    target: String,
    timeout: Duration,
) -> Result<T, bool> {
    let reply = ask(server, target, timeout).await.map_err(|_| false)?;
    match reply.status {
        StatusCode::OK => reply.json().map_err(|_| false),
        status => Err(status == StatusCode::NOT_FOUND),
    }
}

fn as_json(said: &impl Serialize) -> Option<Bytes> {
    serde_json::to_vec(said).ok().map(Bytes::from)
}

async fn find_job<A: Publishes>(
    server: &A,
    public: &Public,
    subject: &Subject,
    pace: &Mutex<Pace>,
) -> Result<Option<Bytes>, Busy> {
    let target = format!("/api/v1/jobs/{}", escaped(&subject.name));
    let whole = match part_of::<A, job::Whole>(server, target, PART_TIMEOUT).await {
        Ok(whole) => whole,
        Err(true) => return Ok(None),
        Err(false) => return Err(Busy::NotNow),
    };
    let now = public.now();
    let measured = pace.lock().unwrap_or_else(PoisonError::into_inner).note(now.0, whole.pages());
    let rate = match measured {
        Some(rate) => Some(rate),
        // The rate of a crawl is the one of its only job.
        None => part_of::<A, StatusSaid>(server, "/api/v1/status".to_owned(), PART_TIMEOUT)
            .await
            .ok()
            .filter(|status| status.jobs.len() == 1)
            .map(|status| status.rates_60s.pages_per_s),
    };
    Ok(as_json(&PublicJob::of(whole, public.crawler.clone(), now, rate)))
}

async fn find_host<A: Publishes>(
    server: &A,
    public: &Public,
    subject: &Subject,
) -> Result<Option<Bytes>, Busy> {
    let finding = subject.origins().into_iter().map(|origin| find_origin(server, origin));
    let all = futures_util::future::try_join_all(finding).await?;
    let (crawler, now) = (public.crawler.clone(), public.now());
    Ok(as_json(&PublicHost::of(&subject.name, crawler, all, now, public.usual_ms)))
}

/// What is known of a host over one scheme. Without its requests nothing is said: none would be a false statement.
async fn find_origin<A: Answers>(server: &A, origin: String) -> Result<Seen, Busy> {
    let url = escaped(&format!("{origin}/"));
    let target = format!("/api/v1/host?url={url}");
    let host = part_of::<A, Option<HostView>>(server, target, HOST_TIMEOUT).await.ok();
    // Nothing was requested from a host that nobody knows: its log need not be looked for.
    if matches!(host, Some(None)) {
        return Ok(Seen { origin, host, ..Seen::default() });
    }
    let limit = host::REQUESTS_MAX;
    let (timeline, polite) = tokio::join!(
        part_of::<A, TimelineSaid>(
            server,
            format!("/api/v1/host/timeline?url={url}&limit={limit}"),
            PART_TIMEOUT
        ),
        part_of::<A, PolitenessSaid>(server, format!("/api/v1/politeness?url={url}"), PART_TIMEOUT),
    );
    match (timeline, polite) {
        (Ok(timeline), Ok(polite)) => Ok(Seen { origin, host, timeline, polite }),
        _ => Err(Busy::NotNow),
    }
}

#[cfg(test)]
mod tests;
