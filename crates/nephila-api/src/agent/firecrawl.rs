//! `/v2/scrape`, `/v2/map` and `/v2/crawl`: the operations of Firecrawl, so that its clients work with this server.
//!
//! Bodies and answers are in the form of Firecrawl's API, version 2; errors too (`{"success": false, "error": …}`), also
//! those that the server makes before an operation is found ([`shaped`]).
//!
//! Invariants: an option that is not understood and would change the answer is refused; at most [`AT_ONCE`] clients wait
//! for a page at the same time, and [`LISTS_AT_ONCE`] for a map or for the pages of a crawl.

use http::header;
use nephila_engine::settings::Role;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::ask::Own;
use super::failure::{Failure, Kind};
use super::options::{CrawlBody, MapBody, ScrapeBody};
use super::{CrawlState, Link, Scraped};
use crate::client::Reply;
use crate::operation::{Kind as Values, Operation, Parameter, Verb, change, get, part, query};
use crate::problem::{HttpAnswer, PROBLEM_TYPE, ok, reply, retry_after};
use crate::question::HttpQuestion;
use crate::routes::{Answers, Route, route};

/// Group of these operations in the document.
pub(crate) const TAG: &str = "firecrawl";
/// First part of the paths.
pub(crate) const PREFIX: &str = "/v2/";
/// Maximum number of clients that wait for a page at the same time: others have to find a place too.
const AT_ONCE: usize = 16;
/// Maximum number of clients that wait for a map or for a crawl at the same time: each takes many requests and much memory.
const LISTS_AT_ONCE: usize = 8;
/// `Retry-After` in seconds while all places are taken.
const BUSY_RETRY: u64 = 2;

/// Places of [`AT_ONCE`].
static ROOM: Semaphore = Semaphore::const_new(AT_ONCE);
/// Places of [`LISTS_AT_ONCE`].
pub(crate) static LISTS: Semaphore = Semaphore::const_new(LISTS_AT_ONCE);

const ID: Parameter = part("id", "The id, as beginning the crawl answered it.");

/// `POST /v2/scrape`.
static SCRAPE: Operation = change(
    Verb::Post,
    Role::Operate,
    "scrape",
    "/v2/scrape",
    "A page as text: the newest capture if it is young enough, else as it is fetched now.",
)
.tag(TAG)
.takes::<ScrapeBody>()
.gives::<ScrapeAnswer>();
/// `POST /v2/map`.
static MAP: Operation =
    change(Verb::Post, Role::Read, "mapSite", "/v2/map", "The known URLs of a site. Nothing is fetched.")
        .tag(TAG)
        .takes::<MapBody>()
        .gives::<MapAnswer>();
/// `POST /v2/crawl`.
static CRAWL: Operation = change(
    Verb::Post,
    Role::Operate,
    "beginCrawl",
    "/v2/crawl",
    "Begins a crawl around a seed, as a job of its own.",
)
.tag(TAG)
.takes::<CrawlBody>()
.gives::<CrawlAnswer>();
/// `GET /v2/crawl/{id}`.
static STATUS: Operation =
    get("getCrawl", "/v2/crawl/{id}", "How far a crawl is, and its pages, the oldest capture first.")
        .tag(TAG)
        .with(&[ID, query("skip", Values::Number(0, u32::MAX as u64), "Number of pages that are left out.")])
        .gives::<StatusAnswer>();
/// `GET /v2/crawl/{id}/errors`.
static ERRORS: Operation =
    get("getCrawlErrors", "/v2/crawl/{id}/errors", "The URLs of a crawl that could not be fetched.")
        .tag(TAG)
        .with(&[ID])
        .gives::<ErrorsAnswer>();
/// `DELETE /v2/crawl/{id}`.
static CANCEL: Operation = change(
    Verb::Delete,
    Role::Operate,
    "cancelCrawl",
    "/v2/crawl/{id}",
    "Stops a crawl; 409 if it has ended.",
)
.tag(TAG)
.with(&[ID])
.gives::<CancelAnswer>();

/// What Firecrawl knows of a page beside its text.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(skip_serializing_if = "String::is_empty")]
    title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    language: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    author: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    published_time: String,
    /// The URL of the request.
    #[serde(rename = "sourceURL")]
    source_url: String,
    /// The URL of the page, after redirects.
    url: String,
    status_code: u16,
    content_type: String,
    /// `hit` for a capture that was there before the request.
    cache_state: &'static str,
    /// Time of the capture.
    #[serde(skip_serializing_if = "String::is_empty")]
    cached_at: String,
}

/// A page.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    markdown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    images: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    metadata: Metadata,
}

impl From<Scraped> for Document {
    fn from(page: Scraped) -> Document {
        let Scraped { markdown, html, raw_html, links, images, warning, .. } = page;
        let metadata = Metadata {
            title: page.title,
            description: page.description,
            language: page.language,
            author: page.author,
            published_time: page.published,
            source_url: page.asked,
            url: page.url,
            status_code: page.status,
            content_type: page.content_type,
            cache_state: if page.cached { "hit" } else { "miss" },
            cached_at: page.captured,
        };
        Document { markdown, html, raw_html, links, images, warning, metadata }
    }
}

#[derive(JsonSchema, Serialize)]
struct ScrapeAnswer {
    /// True.
    success: bool,
    data: Document,
}

#[derive(JsonSchema, Serialize)]
struct MapAnswer {
    /// True.
    success: bool,
    links: Vec<Link>,
}

#[derive(JsonSchema, Serialize)]
struct CrawlAnswer {
    /// True.
    success: bool,
    id: String,
    /// Where the crawl answers.
    url: String,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusAnswer {
    /// True.
    success: bool,
    /// `scraping`, `completed`, `cancelled` or `failed`.
    status: CrawlState,
    /// Number of pages that are there.
    completed: u64,
    /// Number of pages that are there or wanted.
    total: u64,
    /// 0: nothing is counted here.
    credits_used: u64,
    /// Where the next pages are; absent if there are no more so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    data: Vec<Document>,
}

#[derive(JsonSchema, Serialize)]
struct ErrorRow {
    /// The URL.
    id: String,
    timestamp: String,
    url: String,
    /// Outcome, by the name in `docs/outcomes.md`.
    code: String,
    error: String,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorsAnswer {
    errors: Vec<ErrorRow>,
    /// URLs that robots.txt forbids.
    robots_blocked: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct CancelAnswer {
    /// True.
    success: bool,
    /// `cancelled`.
    status: CrawlState,
}

/// The operations, for any server that has the operations that they stand on.
pub fn routes<H: Answers>() -> Vec<Route<H>> {
    vec![
        route::<H>(&SCRAPE, |server, asked| Box::pin(async move { said(scrape(server, &asked).await) })),
        route(&MAP, |server, asked| Box::pin(async move { said(map(server, &asked).await) })),
        route(&CRAWL, |server, asked| Box::pin(async move { said(crawl(server, &asked).await) })),
        route(&STATUS, |server, asked| Box::pin(async move { said(status(server, &asked).await) })),
        route(&ERRORS, |server, asked| Box::pin(async move { said(errors(server, &asked).await) })),
        route(&CANCEL, |server, asked| Box::pin(async move { said(cancel(server, &asked).await) })),
    ]
}

/// An answer, or the failure in the form of Firecrawl.
fn said(answered: Result<HttpAnswer, Failure>) -> HttpAnswer {
    answered.unwrap_or_else(|failure| failed(&failure))
}

fn failed(failure: &Failure) -> HttpAnswer {
    let mut body = Map::from_iter([
        ("success".to_owned(), Value::Bool(false)),
        ("error".to_owned(), failure.message.clone().into()),
    ]);
    if let Some(code) = failure.code {
        body.insert("code".to_owned(), code.into());
    }
    let body = Value::Object(body).to_string();
    let answer = reply(failure.kind.status(), "application/json", body);
    match failure.retry_after {
        Some(seconds) => retry_after(answer, seconds),
        None if matches!(failure.kind, Kind::Busy | Kind::Away) => retry_after(answer, BUSY_RETRY),
        None => answer,
    }
}

/// A problem of a path of Firecrawl in its form; any other answer as it is.
pub(crate) async fn shaped(path: &str, answer: HttpAnswer) -> HttpAnswer {
    let is_problem = answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == PROBLEM_TYPE);
    if !path.starts_with(PREFIX) || !is_problem {
        return answer;
    }
    let found = Reply::of(answer).await;
    let (title, detail) = found.problem();
    let error = if detail.is_empty() { title } else { format!("{title}: {detail}") };
    let body = json!({"success": false, "error": error}).to_string();
    let mut answer = reply(found.status, "application/json", body);
    let own = [header::CONTENT_TYPE, header::CONTENT_LENGTH];
    for (name, value) in found.headers.iter().filter(|(name, _)| !own.contains(name)) {
        answer.headers_mut().insert(name, value.clone());
    }
    answer
}

fn body<T: DeserializeOwned>(asked: &HttpQuestion) -> Result<T, Failure> {
    asked.object().map_err(|why| Failure::wrong(format!("invalid body: {why}")))
}

/// Takes a place until the result is dropped; or says what takes all of them.
fn place(room: &'static Semaphore, taken: &str) -> Result<SemaphorePermit<'static>, Failure> {
    room.try_acquire().map_err(|_| {
        let text = format!("{taken}: ask again in a moment");
        Failure { retry_after: Some(BUSY_RETRY), ..Failure::new(Kind::Busy, text) }
    })
}

fn list_place() -> Result<SemaphorePermit<'static>, Failure> {
    place(&LISTS, &format!("{LISTS_AT_ONCE} clients wait for maps and crawls"))
}

async fn scrape<H: Answers>(server: &H, asked: &HttpQuestion) -> Result<HttpAnswer, Failure> {
    let body: ScrapeBody = body(asked)?;
    let options = body.page.options()?;
    let _place = place(&ROOM, &format!("{AT_ONCE} clients wait for pages"))?;
    let page = match body.page.lockdown.unwrap_or(false) {
        true => super::read(&Own(server), &body.url, options.wants, None).await?,
        false => super::scrape(&Own(server), &body.url, &options).await?,
    };
    Ok(ok(&ScrapeAnswer { success: true, data: page.into() }))
}

async fn map<H: Answers>(server: &H, asked: &HttpQuestion) -> Result<HttpAnswer, Failure> {
    let body: MapBody = body(asked)?;
    let options = body.options()?;
    let _place = list_place()?;
    let links = super::map(&Own(server), &body.url, &options).await?;
    Ok(ok(&MapAnswer { success: true, links }))
}

/// The address of a crawl, as the client reaches this server.
fn address(asked: &HttpQuestion, id: &str) -> String {
    let scheme = if asked.is_tls { "https" } else { "http" };
    format!("{scheme}://{}/v2/crawl/{id}", asked.field("host").unwrap_or("localhost"))
}

async fn crawl<H: Answers>(server: &H, asked: &HttpQuestion) -> Result<HttpAnswer, Failure> {
    let body: CrawlBody = body(asked)?;
    let id = super::crawl(&Own(server), &body.url, &body.options()?).await?;
    Ok(ok(&CrawlAnswer { success: true, url: address(asked, &id), id }))
}

async fn status<H: Answers>(server: &H, asked: &HttpQuestion) -> Result<HttpAnswer, Failure> {
    let id = asked.part("id");
    let _place = list_place()?;
    let found = super::crawl_status(&Own(server), id, asked.parameter("skip").as_deref()).await?;
    Ok(ok(&StatusAnswer {
        success: true,
        status: found.state,
        completed: found.completed,
        total: found.total,
        credits_used: 0,
        next: found.next.map(|next| format!("{}?skip={next}", address(asked, id))),
        warning: found.warning,
        data: found.pages.into_iter().map(Document::from).collect(),
    }))
}

async fn errors<H: Answers>(server: &H, asked: &HttpQuestion) -> Result<HttpAnswer, Failure> {
    let _place = list_place()?;
    let all = super::crawl_errors(&Own(server), asked.part("id")).await?;
    let (blocked, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|error| error.by_robots);
    let row = |error: super::CrawlError| ErrorRow {
        id: error.url.clone(),
        timestamp: error.at,
        url: error.url,
        code: error.outcome,
        error: error.why,
    };
    let robots_blocked = blocked.into_iter().map(|error| error.url).collect();
    Ok(ok(&ErrorsAnswer { errors: others.into_iter().map(row).collect(), robots_blocked }))
}

async fn cancel<H: Answers>(server: &H, asked: &HttpQuestion) -> Result<HttpAnswer, Failure> {
    super::crawl_cancel(&Own(server), asked.part("id")).await?;
    Ok(ok(&CancelAnswer { success: true, status: CrawlState::Cancelled }))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use http::header::HeaderValue;

    use super::*;
    use crate::problem::problem;

    #[tokio::test]
    async fn a_problem_of_these_paths_has_the_form_of_firecrawl() {
        let refused = || {
            let mut answer = problem(StatusCode::UNAUTHORIZED, "missing token", "send one");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            answer
        };
        let said = Reply::of(shaped("/v2/scrape", refused()).await).await;
        assert_eq!((said.status, said.field("www-authenticate")), (StatusCode::UNAUTHORIZED, Some("Bearer")));
        let body: Value = said.json().unwrap();
        assert_eq!(body, json!({"success": false, "error": "missing token: send one"}));
        let other = Reply::of(shaped("/api/v1/stats", refused()).await).await;
        assert_eq!(other.field("content-type"), Some(PROBLEM_TYPE));
    }

    #[test]
    fn a_failure_says_when_to_ask_again() {
        let busy = failed(&Failure::new(Kind::Busy, "x"));
        assert_eq!((busy.status().as_u16(), &busy.headers()["retry-after"]), (429, &HeaderValue::from(2)));
        let wrong = failed(&Failure::wrong("x").code("Y"));
        assert!(wrong.status() == 400 && !wrong.headers().contains_key("retry-after"));
    }
}
