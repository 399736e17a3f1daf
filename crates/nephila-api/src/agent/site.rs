//! The URLs of a site that the server knows: from the index of the archive, the crawl log and the frontier.
//!
//! Invariant: the number of requests, their bytes and the number of URLs are bounded; a source that the server does not
//! have is left out.

use std::time::Duration;

use http::{Method, StatusCode};
use nephila_core::job::{FoundBy, Kind as Around, Rules, Scope};
use nephila_core::spider::Outcome;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_engine::crawl::typed::with_scheme;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ask::Ask;
use super::failure::{Failure, Kind};
use crate::client::{Question, Reply};
use crate::lists::{DownloadSaid, ListSaid, PAGE_MAX};
use crate::log_view::{LogLine, LogSaid};
use crate::question::escaped;

/// Timeout of one request to the server.
pub(super) const ASK_MAX: Duration = Duration::from_secs(12);
/// Maximum size of a list in bytes.
pub(super) const LIST_BYTES_MAX: usize = 16 << 20;
/// Maximum number of pages of the index, of the log, and of the downloads of all states and of errors that are read.
const CDX_PAGES_MAX: u64 = 20;
const LOG_PAGES_MAX: usize = 12;
const DOWNLOAD_PAGES_MAX: usize = 5;
const ERROR_PAGES_MAX: usize = 20;
/// Type of a capture whose body another capture has.
const REVISIT: &str = "warc/revisit";

/// Parses the URL of a request.
pub(super) fn parsed(text: &str) -> Result<CrawlUrl, Failure> {
    let text = text.trim();
    let error = |why: String| Failure::wrong(format!("{}: {why}", nephila_core::text::shown(text)));
    CrawlUrl::parse(&with_scheme(text)).map_err(|why| error(why.to_string()))
}

/// Sends a request and expects an answer of success.
pub(super) async fn asked(ask: &impl Ask, question: Question) -> Result<Reply, Failure> {
    let reply = ask.ask(question).await?;
    if reply.status.is_success() { Ok(reply) } else { Err(Failure::of(&reply)) }
}

/// Reads JSON.
pub(super) async fn json<T: DeserializeOwned>(ask: &impl Ask, target: String) -> Result<T, Failure> {
    Ok(asked(ask, Question::get(target, LIST_BYTES_MAX, ASK_MAX)).await?.json()?)
}

/// Sends JSON, or lines of text.
pub(super) async fn post(
    ask: &impl Ask,
    target: String,
    content_type: &'static str,
    body: impl Into<bytes::Bytes>,
) -> Result<Reply, Failure> {
    let question = Question::get(target, LIST_BYTES_MAX, ASK_MAX);
    asked(ask, question.saying(Method::POST, content_type, body)).await
}

/// A site: the hosts and URLs around a seed.
pub(super) struct Site {
    /// The seed.
    pub(super) seed: CrawlUrl,
    rules: Rules,
    /// All hosts of the registrable domain.
    pub(super) is_wide: bool,
}

/// A URL that the server knows.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) url: CrawlUrl,
    /// Time of the newest capture in up to 14 digits; empty without one.
    pub(super) captured: String,
    /// HTTP status of the newest capture; 0 without one.
    pub(super) status: u16,
    pub(super) mime: String,
    pub(super) title: String,
}

impl Seen {
    /// Whether it is a page with an own body.
    pub(super) fn is_page(&self) -> bool {
        let is_text = self.mime.is_empty()
            || ["html", "text/plain", "markdown", "pdf", "xhtml"].iter().any(|part| self.mime.contains(part));
        (200..300).contains(&self.status) && is_text && self.url.path() != "/robots.txt"
    }
}

#[derive(Deserialize)]
struct Listed {
    url: String,
    #[serde(default)]
    timestamp: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    mime: String,
}

impl Site {
    /// The host of a URL, or its registrable domain.
    pub(super) fn around(seed: &CrawlUrl, is_wide: bool) -> Result<Site, Failure> {
        let kind = if is_wide { Around::Domain } else { Around::Host };
        let scope = Scope { kind, seeds: vec![seed.as_str().to_owned()], depth_max: 255, ..Scope::default() };
        Site::of_scope(&scope, &[])
    }

    /// The URLs that a job wants.
    pub(super) fn of_scope(scope: &Scope, moved: &[String]) -> Result<Site, Failure> {
        let failed = |why: String| Failure::new(Kind::Away, format!("the scope of the job: {why}"));
        let seed = scope.seeds.first().ok_or_else(|| failed("it has no seed".into()))?;
        let seed = parsed(seed)?;
        let scope = Scope { depth_max: 255, ..scope.clone() };
        let mut rules = scope.resolve(&KeyRules::default()).map_err(|error| failed(error.to_string()))?;
        for target in moved.iter().filter_map(|moved| CrawlUrl::parse(moved).ok()) {
            rules.widen(&target, 0);
        }
        // Includes may name other hosts of the domain, and a redirect may have led there.
        let is_wide = scope.kind == Around::Domain || !scope.include.is_empty() || !moved.is_empty();
        Ok(Site { seed, rules, is_wide })
    }

    /// Whether a URL belongs to the site.
    pub(super) fn holds(&self, url: &CrawlUrl) -> bool {
        url.key() == self.seed.key() || self.rules.verdict(url, FoundBy::link(1, 0)).is_in()
    }

    fn parse(&self, text: &str) -> Option<CrawlUrl> {
        CrawlUrl::parse(text).ok().filter(|url| self.holds(url))
    }

    /// The URLs of the archive's index, each with its newest capture, at most `max`.
    pub(super) async fn captured(&self, ask: &impl Ask, max: usize) -> Result<Vec<Seen>, Failure> {
        let (name, matches) = match self.seed.registrable_domain().filter(|_| self.is_wide) {
            Some(domain) => (format!("http://{domain}/"), "domain"),
            None => (format!("{}/", self.seed.origin()), "host"),
        };
        let mut seen: Vec<Seen> = Vec::new();
        for page in 0..CDX_PAGES_MAX {
            let target = format!(
                "/web/cdx?url={}&matchType={matches}&output=json&fl=url,timestamp,status,mime&page={page}",
                escaped(&name)
            );
            let reply = ask.ask(Question::get(target, 4 * LIST_BYTES_MAX, ASK_MAX)).await?;
            match reply.status {
                StatusCode::OK => {}
                // Nothing there, or no index; 400 is a page behind the last one.
                StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => break,
                _ => return Err(Failure::of(&reply)),
            }
            for line in reply.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let Ok(line) = serde_json::from_slice::<Listed>(line) else { continue };
                let Some(url) = self.parse(&line.url) else { continue };
                let status = line.status.parse().unwrap_or(0);
                // Captures of a URL stand together, the oldest first.
                let Listed { timestamp: captured, mime, .. } = line;
                if let Some(last) = seen.last_mut()
                    && last.url.key() == url.key()
                {
                    last.captured = captured;
                    // A revisit says that the page is as it was.
                    if mime != REVISIT {
                        (last.status, last.mime) = (status, mime);
                    }
                    continue;
                }
                if seen.len() >= max {
                    return Ok(seen);
                }
                // The type of a body that another page has too is not said here.
                let mime = if mime == REVISIT { String::new() } else { mime };
                seen.push(Seen { url, captured, status, mime, title: String::new() });
            }
            if reply.field("link").is_none() {
                break;
            }
        }
        Ok(seen)
    }

    /// Lines of the crawl log for URLs of the site, the newest first: back to a time, and over a bounded part of the log.
    pub(super) async fn logged(&self, ask: &impl Ask, since_ms: u64) -> Result<Vec<LogLine>, Failure> {
        let host = match self.is_wide {
            true => String::new(),
            false => format!("&host={}", escaped(self.seed.authority())),
        };
        let (mut lines, mut cursor) = (Vec::new(), String::new());
        for _ in 0..LOG_PAGES_MAX {
            let target = format!("/api/v1/log?limit=1000{host}{cursor}");
            let said: LogSaid = match json(ask, target).await {
                Err(failure) if failure.kind == Kind::NotFound => break,
                said => said?,
            };
            // Requests end in another order than they begin: a line may be a few minutes older than its neighbours.
            let is_old = said.lines.last().is_some_and(|line| line.at_ms + 600_000 < since_ms);
            let wanted = |line: &LogLine| line.at_ms >= since_ms && self.parse(&line.url).is_some();
            lines.extend(said.lines.into_iter().filter(wanted));
            match said.cursor.filter(|_| !is_old) {
                Some(next) => cursor = format!("&cursor={}", escaped(&next)),
                None => break,
            }
        }
        Ok(lines)
    }

    /// URLs of the site in the frontier of a crawl on one machine, fetched or not; a part of them, if it is large.
    pub(super) async fn queued(&self, ask: &impl Ask) -> Result<Vec<CrawlUrl>, Failure> {
        let rows = self.downloads(ask, "", DOWNLOAD_PAGES_MAX).await?;
        Ok(rows.into_iter().map(|(url, _)| url).collect())
    }

    /// URLs of the site that robots.txt forbids, by the frontier of a crawl on one machine: no request is made for them,
    /// so no log has them. A part of them, if there are many failures.
    pub(super) async fn denied(&self, ask: &impl Ask) -> Result<Vec<DownloadSaid>, Failure> {
        let rows = self.downloads(ask, "&state=error", ERROR_PAGES_MAX).await?;
        let denied = |row: &DownloadSaid| row.outcome.as_deref() == Some(Outcome::RobotsDenied.name());
        Ok(rows.into_iter().map(|(_, row)| row).filter(denied).collect())
    }

    async fn downloads(
        &self,
        ask: &impl Ask,
        which: &str,
        pages_max: usize,
    ) -> Result<Vec<(CrawlUrl, DownloadSaid)>, Failure> {
        let (mut found, mut from) = (Vec::new(), String::new());
        for _ in 0..pages_max {
            let target = format!("/api/v1/downloads?type=content{which}&max={PAGE_MAX}{from}");
            let said: ListSaid<DownloadSaid> = match json(ask, target).await {
                // A node of a cluster has no such list.
                Err(failure) if failure.kind == Kind::NotFound => break,
                said => said?,
            };
            found.extend(said.rows.into_iter().filter_map(|row| Some((self.parse(&row.url)?, row))));
            match said.next {
                Some(next) => from = format!("&from={}", escaped(&next)),
                None => break,
            }
        }
        Ok(found)
    }
}

/// What the log says about a fetched page; none of a page that has not changed since its capture.
pub(super) fn seen_in(line: LogLine) -> Option<Seen> {
    let url = CrawlUrl::parse(&line.url).ok()?;
    let digits = line.at.bytes().filter(u8::is_ascii_digit).take(14).map(char::from).collect();
    let is_page = line.purpose == "page" && line.status != Some(304);
    is_page.then(|| Seen {
        url,
        captured: digits,
        status: line.status.unwrap_or(0),
        mime: line.mime,
        title: line.title,
    })
}
