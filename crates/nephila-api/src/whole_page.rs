//! `GET pages?with=resources`: a page and the resources that it shows, in one answer (MHTML, SEEDS E10).
//!
//! The node that gets the request reads the page, finds the images, scripts, style sheets and frames in it, and asks
//! for each like a client would ([`ReadPages`]): in a cluster the owner of each answers, wherever its capture lies.
//! Style sheets are read for the resources that they name, one level deep. `gather` decides what is asked for next.
//!
//! Invariants: an answer comes within [`TIME_MAX`] (and the wait for a place) however slow an owner is; bodies have
//! [`BYTES_MAX`] together, and as much again may be on its way; every resource is a part, with its bytes or with the
//! status that says why there are none.

mod gather;

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use nephila_core::handler::sniff::{self, Kind};
use nephila_core::handler::{FoundLink, Limits, LinkKind, Page, ReadAs, read_page};
use nephila_core::store::head;
use nephila_core::store::mhtml::{self, Mhtml, Part};
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_engine::crawl::decoded;
use nephila_store::captures::Capture;
use tokio::time::{Instant, timeout, timeout_at};

use super::captures::{AWAY_RETRY, Archive, Wanted};
use super::problem::{HttpAnswer, problem, reply, retry_after, whole};
use super::question::{HttpQuestion, escaped};
use super::web::{ReadPages, http_date};
use gather::{Gathering, Missing, Request};

/// Maximum duration of reading a page and its resources.
pub const TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of resources that are read concurrently.
pub const AT_ONCE: usize = 16;
/// Maximum number of resources of a page; the others are counted.
pub const RESOURCES_MAX: usize = 300;
/// Maximum size in bytes of the page and its resources, without content codings.
pub const BYTES_MAX: u64 = 64 << 20;
/// Maximum number of whole pages that are put together concurrently: each takes up to three times [`BYTES_MAX`].
pub(crate) const PAGES_AT_ONCE: usize = 2;
/// Maximum wait for others to be put together.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// Maximum number of redirects from the URL of a resource to its bytes.
const REDIRECTS_MAX: usize = 5;
/// Maximum number of URLs of a page among which resources are looked for: links come first.
const LINKS_MAX: usize = 20_000;

/// An error answer, sent instead of the requested one.
type Instead = Box<HttpAnswer>;

/// Whether a whole page is requested. Fails with status 400 if something else is to come with the page.
pub fn is_wanted(asked: &HttpQuestion) -> Result<bool, Instead> {
    match asked.parameter("with").as_deref() {
        None => Ok(false),
        Some("resources") if asked.parameter("as").is_none() => Ok(true),
        Some("resources") => {
            let detail = "a page with its resources has one form: leave out as";
            Err(problem(StatusCode::BAD_REQUEST, "invalid parameter as", detail).into())
        }
        Some(other) => {
            Err(problem(StatusCode::BAD_REQUEST, "invalid parameter with: resources", other).into())
        }
    }
}

/// The target of a request for a whole page, of the newest capture or of the one nearest to a time.
pub fn whole_page_target(url: &str, at: Option<&str>) -> String {
    let at = at.map(|at| format!("&at={at}")).unwrap_or_default();
    format!("/api/v1/pages?with=resources&url={}{at}", escaped(url))
}

/// Answers a request for a whole page.
pub async fn whole_page(
    asked: &HttpQuestion,
    archive: &Archive,
    pages: &impl ReadPages,
) -> Result<HttpAnswer, Instead> {
    let (_, url, wanted) = Wanted::of(asked)?;
    let Ok(_place) = timeout(ROOM_WAIT, archive.whole_pages.acquire()).await else {
        let detail = format!("{PAGES_AT_ONCE} whole pages are being put together");
        let busy = problem(StatusCode::SERVICE_UNAVAILABLE, "node busy", detail);
        return Err(retry_after(busy, AWAY_RETRY).into());
    };
    let until = Instant::now() + TIME_MAX;
    let reader = Reader { pages, at: wanted.at.map(|at| format!("&at={at}")).unwrap_or_default() };
    let Ok(page) = timeout_at(until, reader.read(&url, Looks::Inside, BYTES_MAX)).await else {
        let detail = format!("its owner gave no answer within {} s", TIME_MAX.as_secs());
        let slow = problem(StatusCode::SERVICE_UNAVAILABLE, "owner unavailable", detail);
        return Err(retry_after(slow, AWAY_RETRY).into());
    };
    let mut page = page?;
    let mut gathering = Gathering::new([url.as_str(), page.url.as_str()], page.body.len() as u64);
    gathering.add(std::mem::take(&mut page.embedded));
    let mut open = FuturesUnordered::new();
    loop {
        while let Some(request) = gathering.next(open.len()) {
            open.push(reader.answer(request));
        }
        match timeout_at(until, open.next()).await {
            Ok(Some((request, found))) => gathering.take(&request, found),
            Ok(None) | Err(_) => break,
        }
    }
    drop(open);
    let written = tokio::task::spawn_blocking(move || written(&page, &gathering)).await;
    written.map_err(|panic| {
        let detail = panic.to_string();
        problem(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be written", detail).into()
    })
}

/// The answer with a page and everything that was found for it.
fn written(page: &Stored, gathering: &Gathering) -> HttpAnswer {
    let date = http_date(&page.captured).unwrap_or_default();
    let mut mhtml = Mhtml::new(page.url.as_str(), &page.content_type, &date);
    page.put(page.url.as_str(), &mut mhtml);
    let mut missing = 0_u64;
    for (url, found) in gathering.found() {
        match found {
            Ok(stored) => stored.put(url, &mut mhtml),
            Err(why) => {
                missing += 1;
                why.put(url, &mut mhtml);
            }
        }
    }
    let mut answer = reply(StatusCode::OK, "multipart/related", mhtml.end());
    let fields = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, mhtml::content_type(&page.content_type)),
        // An archived page must not run as a page of ours.
        (header::CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"page.mht\"".to_owned()),
        (HeaderName::from_static("nephila-url"), page.url.as_str().to_owned()),
        (HeaderName::from_static("nephila-captured"), page.captured.clone()),
        (HeaderName::from_static("nephila-resources"), gathering.found().count().to_string()),
        (HeaderName::from_static("nephila-missing"), missing.to_string()),
        (HeaderName::from_static("nephila-omitted"), gathering.omitted.to_string()),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            fields.insert(name, value);
        }
    }
    answer
}

/// A capture as a part of a page.
#[derive(Debug)]
struct Stored {
    /// URL of the capture, after redirects.
    url: CrawlUrl,
    status: u16,
    /// Time of the capture in fourteen digits.
    captured: String,
    content_type: String,
    /// The body, without content codings.
    body: Bytes,
    /// The resources that it names, if they were looked for.
    embedded: Vec<FoundLink>,
    /// Target of a redirect.
    redirect: Option<CrawlUrl>,
}

impl Stored {
    /// Reads a capture with its head. Decompresses and parses: not for a thread that serves.
    fn of(
        url: &CrawlUrl,
        captured: String,
        http: Bytes,
        looks: Looks,
        bytes_max: u64,
    ) -> Result<Stored, Instead> {
        let end = head::end(&http).unwrap_or(0);
        let (head, body) = (http[..end].to_vec(), http[end..].to_vec());
        drop(http);
        let capture = Capture { header: Default::default(), http: head, body, origin: None, media: None };
        let response = decoded::response(&capture, bytes_max.saturating_add(1)).map_err(|error| {
            problem(StatusCode::NOT_FOUND, "no HTTP response", format!("{}: {error:#}", url.as_str()))
        })?;
        drop(capture);
        let (head, body) = response.into_parts();
        if body.len() as u64 > bytes_max {
            let detail = format!("its body has more than {bytes_max} bytes");
            return Err(problem(StatusCode::PAYLOAD_TOO_LARGE, "content too large", detail).into());
        }
        let labels = || head.headers.get_all(header::CONTENT_TYPE).iter();
        let sniffed = sniff::sniff(labels().map(HeaderValue::as_bytes), &body);
        let label = labels().next_back().and_then(|label| label.to_str().ok()).map(str::to_owned);
        let content_type = label.or_else(|| sniffed.media_type(&body)).unwrap_or_default();
        let location = head.headers.get(header::LOCATION).filter(|_| head.status.is_redirection());
        let redirect = location.and_then(|to| url.join(to.to_str().ok()?).ok());
        let read_as = match (looks, sniffed.kind) {
            (Looks::Inside, _) => Some(ReadAs::Page),
            // An error page in place of a style sheet names nothing that the page shows.
            (Looks::AsStyle, Kind::Html) => None,
            (Looks::AsStyle, _) | (Looks::IfStyle, Kind::Css) => Some(ReadAs::Style),
            (Looks::IfStyle | Looks::Not, _) => None,
        };
        let embedded = read_as.filter(|_| redirect.is_none()).map_or_else(Vec::new, |read_as| {
            let keys = KeyRules::default();
            let page = Page { url, fields: &head.headers, body: &body, read_as, agent: "", keys: &keys };
            let limits = Limits { links_max: LINKS_MAX, ..Limits::default() };
            read_page(&page, &limits).links.into_iter().filter(|link| link.embedded).collect()
        });
        let (url, status) = (url.clone(), head.status.as_u16());
        Ok(Stored { url, status, captured, content_type, body, embedded, redirect })
    }

    fn put(&self, url: &str, mhtml: &mut Mhtml) {
        let mut fields =
            vec![("Nephila-Status", self.status.to_string()), ("Nephila-Captured", self.captured.clone())];
        if url != self.url.as_str() {
            fields.push(("Nephila-Url", self.url.as_str().to_owned()));
        }
        mhtml.put(&Part { url, content_type: &self.content_type, fields: &fields, body: &self.body });
    }
}

/// Whether resources are looked for in a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    /// In the page.
    Inside,
    /// In a style sheet of the page.
    AsStyle,
    /// If the capture says that it is a style sheet.
    IfStyle,
    Not,
}

impl Looks {
    /// For a resource that a page (level 1) or its style sheet names.
    fn at(level: u8, kind: LinkKind) -> Looks {
        match (level, kind) {
            (1, LinkKind::Style) => Looks::AsStyle,
            (1, _) => Looks::IfStyle,
            _ => Looks::Not,
        }
    }
}

/// Reads captures, all for the same time.
struct Reader<'a, P> {
    pages: &'a P,
    /// The parameter with the requested time, if any.
    at: String,
}

impl<P: ReadPages> Reader<'_, P> {
    /// Reads a capture, over redirects.
    async fn read(&self, url: &CrawlUrl, looks: Looks, bytes_max: u64) -> Result<Stored, Instead> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let target = format!(
                "/api/v1/pages?as=http&inline=1&bytes_max={bytes_max}&url={}{}",
                escaped(url.as_str()),
                self.at
            );
            let asked = HttpQuestion::new(Method::GET, &target, HeaderMap::new(), false);
            let answer = self.pages.read_page(asked).await;
            if answer.status() != StatusCode::OK {
                return Err(answer.into());
            }
            let (head, body) = whole(answer).await;
            let captured = head.headers.get("nephila-captured").and_then(|at| at.to_str().ok());
            let captured = captured.unwrap_or_default().to_owned();
            let of = url.clone();
            let read = tokio::task::spawn_blocking(move || Stored::of(&of, captured, body, looks, bytes_max));
            let mut stored = read.await.unwrap_or_else(|panic| {
                let detail = panic.to_string();
                Err(problem(StatusCode::INTERNAL_SERVER_ERROR, "the capture cannot be read", detail).into())
            })?;
            match stored.redirect.take() {
                Some(to) => url = to,
                None => return Ok(stored),
            }
        }
        let detail = format!("more than {REDIRECTS_MAX} redirects, the last to {}", url.as_str());
        Err(problem(StatusCode::NOT_FOUND, "too many redirects", detail).into())
    }

    /// Reads a resource.
    async fn answer(&self, request: Request) -> (Request, Result<Stored, Missing>) {
        let looks = Looks::at(request.level, request.kind);
        let found = match self.read(&request.url, looks, request.bytes_max).await {
            Ok(stored) => Ok(stored),
            Err(instead) => Err(Missing::of(*instead).await),
        };
        (request, found)
    }
}

#[cfg(test)]
mod tests;
