//! `GET pages`: the capture of a URL from an archive, in the requested representation (content negotiation by `as=`).
//!
//! Invariant: bytes of third parties are never sent with a content type that a browser would execute.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use nephila_core::frontier::outlook::Left;
use nephila_core::store::cdxj::Line;
use nephila_core::store::{Media, head};
use nephila_core::url::CrawlUrl;
use nephila_engine::crawl::work::ready_horizon;
use nephila_store::captures::{Capture, Captures, Elsewhere, seconds};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::about::About;
use super::cache::Hot;
use super::media::ReadMedia;
use super::problem::{HttpAnswer, ok, problem, reply, retry_after};
use super::question::HttpQuestion;
use super::ready::{self, Readable, Waiters};
use super::search;
use super::views::NodeState;
use super::web::ReadPages;
use super::whole_page::{self, PAGES_AT_ONCE};
use super::{Explained, Questions, Summary};

/// Maximum size in bytes of a capture's body, or of its record, in an answer.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// Size in bytes that the heads of a record may have in addition to its body.
const HEADS_BYTES: u64 = 2 << 20;
/// Maximum number of concurrent reads from the archive.
const READS_MAX: usize = 4;
/// `Retry-After` in seconds for a URL whose next fetch time is unknown.
const SOME_TIME: u64 = 3_600;
/// `Retry-After` in seconds while a node or the servers are unreachable.
pub const AWAY_RETRY: u64 = 5;

/// An error answer, sent instead of the requested one.
type Instead = Box<HttpAnswer>;

/// The requested representation of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Head and body, as a server would send them.
    Http,
    Headers,
    Body,
    /// The WARC record.
    Record,
    /// Metadata of the capture, as JSON.
    Json,
    /// Only whether a capture exists, for another node.
    Found,
}

impl Part {
    fn named(name: &str) -> Option<Part> {
        Some(match name {
            "http" => Part::Http,
            "headers" => Part::Headers,
            "body" => Part::Body,
            "record" => Part::Record,
            "json" => Part::Json,
            "found" => Part::Found,
            _ => return None,
        })
    }
}

/// The best capture that a node has of a URL.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FoundCapture {
    /// URL of the capture, as the index of the archive has the URL.
    pub url: String,
    /// Capture time in up to fourteen digits (`YYYYMMDDhhmmss`).
    pub timestamp: String,
}

impl FoundCapture {
    fn of(line: &Line) -> FoundCapture {
        FoundCapture { url: line.capture.url.clone(), timestamp: line.capture.digits14.clone() }
    }

    /// Sort key for the best match, lower is better: the exact URL first, then the nearest to a time, or the newest.
    pub fn rank(&self, url: &str, at: Option<&str>) -> (bool, u64) {
        let time = seconds(&self.timestamp);
        (self.url != url, at.map_or(u64::MAX - time, |at| seconds(at).abs_diff(time)))
    }
}

/// A parsed request for a capture.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Requested URL in canonical form.
    pub url: String,
    /// Requested capture time in 4 to 14 digits (`YYYYMMDDhhmmss`, cut at the end); none for the newest capture.
    pub at: Option<String>,
    pub(crate) part: Part,
    /// Whether a body in an object store is sent through this node, instead of a redirect.
    pub(crate) inline: bool,
    /// Maximum size in bytes of the body; a longer one is answered with status 413.
    pub(crate) body_bytes_max: u64,
}

impl Wanted {
    /// Parses a request: the URL as written, the URL in canonical form, and the request itself.
    pub fn of(asked: &HttpQuestion) -> Result<(String, CrawlUrl, Wanted), Instead> {
        let wrong = |title, detail: String| problem(StatusCode::BAD_REQUEST, title, detail);
        let text = asked.parameter("url").ok_or_else(|| wrong("missing parameter url", String::new()))?;
        let url = CrawlUrl::parse(&text).map_err(|error| wrong("invalid URL", error.to_string()))?;
        let part = asked.parameter("as").unwrap_or_else(|| "http".into());
        let part = Part::named(&part).ok_or_else(|| {
            wrong("invalid parameter as: http, headers, body, record or json", part.clone())
        })?;
        let at = asked.parameter("at");
        let is_time =
            |at: &String| (4..=14).contains(&at.len()) && at.bytes().all(|byte| byte.is_ascii_digit());
        if at.as_ref().is_some_and(|at| !is_time(at)) {
            return Err(wrong("invalid parameter at: 4 to 14 digits, such as 20261115", String::new()).into());
        }
        let bytes_max = asked.parameter("bytes_max").map(|text| text.parse::<u64>()).transpose();
        let bytes_max = bytes_max.map_err(|error| wrong("invalid parameter bytes_max", error.to_string()))?;
        let body_bytes_max = bytes_max.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
        let inline = asked.parameter("inline").as_deref() == Some("1");
        let wanted = Wanted { url: url.as_str().to_owned(), at, part, inline, body_bytes_max };
        Ok((text, url, wanted))
    }
}

/// The archive of a folder.
#[derive(Debug)]
pub struct Archive {
    dir: PathBuf,
    /// Name of the folder or node that owns the archive, for messages.
    name: String,
    /// Storage for files that the folder no longer has.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Storage for bodies that are not in the archive.
    media: Option<Arc<dyn ReadMedia>>,
    reads: Arc<Semaphore>,
    /// Whole pages that are being put together.
    pub(crate) whole_pages: Semaphore,
    /// Searches that are being answered.
    pub(crate) searches: Arc<Semaphore>,
    hot: Hot,
}

impl Archive {
    /// Opens the archive of this folder.
    pub fn new(dir: &Path, name: &str) -> Archive {
        let (dir, name) = (dir.to_owned(), name.to_owned());
        let (elsewhere, media) = (None, None);
        let reads = Arc::new(Semaphore::new(READS_MAX));
        let whole_pages = Semaphore::new(PAGES_AT_ONCE);
        let searches = Arc::new(Semaphore::new(search::AT_ONCE));
        Archive { dir, name, elsewhere, media, reads, whole_pages, searches, hot: Hot::new(0) }
    }

    /// Sets the storage from which files are read that the folder does not have.
    pub fn with_elsewhere(mut self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Archive {
        self.elsewhere = elsewhere;
        self
    }

    /// Sets the object store of bodies that are not in the archive.
    pub fn with_media(mut self, media: Option<Arc<dyn ReadMedia>>) -> Archive {
        self.media = media;
        self
    }

    /// Keeps up to this many bytes of captures in memory.
    pub fn with_cache(mut self, bytes_max: usize) -> Archive {
        self.hot = Hot::new(bytes_max);
        self
    }

    /// Numbers of captures that were read from memory, and from the archive.
    pub fn cache_counts(&self) -> [u64; 2] {
        self.hot.counts()
    }

    /// Finds the best capture for a request.
    pub async fn found(&self, wanted: &Wanted) -> Result<Option<FoundCapture>, Instead> {
        Ok(self.line(wanted).await?.map(|line| FoundCapture::of(&line)))
    }

    async fn line(&self, wanted: &Wanted) -> Result<Option<Arc<Line>>, Instead> {
        let asked = (wanted.url.clone(), wanted.at.clone());
        let (url, at) = asked.clone();
        self.hot.line(&asked, self.read(move |captures| Ok(captures.nearest(&url, at.as_deref())?))).await
    }

    /// Reads the best capture in the requested representation.
    pub async fn given(&self, wanted: &Wanted) -> Result<Option<HttpAnswer>, Instead> {
        let Some(line) = self.line(wanted).await? else { return Ok(None) };
        match wanted.part {
            Part::Found => return Ok(Some(ok(&FoundCapture::of(&line)))),
            Part::Record => {
                let of = line.clone();
                let read = self.read(move |captures| {
                    let mut record = Capped(Vec::new());
                    captures.copy_record(&of, &mut record)?;
                    Ok(record.0)
                });
                return Ok(Some(self.described("application/warc", read.await?, &line, false)));
            }
            Part::Json | Part::Http | Part::Headers | Part::Body => {}
        }
        let too_large = || {
            let detail = format!("its body has more than {} bytes", wanted.body_bytes_max);
            problem(StatusCode::PAYLOAD_TOO_LARGE, "content too large", detail)
        };
        // A record is about as long as its body, or shorter: the body need not be read.
        if wanted.body_bytes_max < BODY_BYTES_MAX && line.length > wanted.body_bytes_max + HEADS_BYTES {
            return Err(too_large().into());
        }
        let of = line.clone();
        let read = self.read(move |captures| Ok(captures.read(&of, BODY_BYTES_MAX)?));
        let (capture, is_hot) = self.hot.capture(&line, read).await?;
        if let (Some(media), Part::Http | Part::Body) = (&capture.media, wanted.part) {
            return Ok(Some(self.media_answer(wanted, media, &capture, &line).await?));
        }
        if capture.body.len() as u64 > wanted.body_bytes_max {
            return Err(too_large().into());
        }
        let (kind, body) = match wanted.part {
            Part::Json => return Ok(Some(ok(&About::of(&line, &capture)))),
            Part::Headers => ("text/plain", capture.http.clone()),
            Part::Body => ("application/octet-stream", capture.body.clone()),
            _ => ("application/http", as_http(&capture)),
        };
        Ok(Some(self.described(kind, body, &line, is_hot)))
    }

    /// The answer for a capture whose body is in an object store: a redirect to the body, or the body itself.
    async fn media_answer(
        &self,
        wanted: &Wanted,
        media: &Media,
        capture: &Capture,
        line: &Line,
    ) -> Result<HttpAnswer, Instead> {
        let away = |error: anyhow::Error| {
            let detail = format!("{error:#}");
            retry_after(
                problem(StatusCode::SERVICE_UNAVAILABLE, "object store unavailable", detail),
                AWAY_RETRY,
            )
        };
        let store = self.media.as_ref().ok_or_else(|| {
            away(anyhow::anyhow!("its body is the object {}, and media.to is not set here", media.key()))
        })?;
        if !wanted.inline
            && let Some(url) = store.url(media).await.map_err(away)?
            && let Ok(location) = HeaderValue::from_str(&url)
        {
            let mut answer = self.described("text/plain", Vec::new(), line, false);
            *answer.status_mut() = StatusCode::FOUND;
            answer.headers_mut().insert(header::LOCATION, location);
            return Ok(answer);
        }
        if media.bytes > BODY_BYTES_MAX {
            let detail =
                format!("its body has {} bytes: ask without inline=1, or `nephila read -o`", media.bytes);
            return Err(
                problem(StatusCode::INTERNAL_SERVER_ERROR, "the capture cannot be read", detail).into()
            );
        }
        let _room = self.reads.acquire().await.expect("it is never closed");
        let body = store.body(media).await.map_err(away)?;
        let (kind, body) = match wanted.part {
            Part::Body => ("application/octet-stream", body.into()),
            _ => ("application/http", [&capture.http[..], &body[..]].concat()),
        };
        Ok(self.described(kind, body, line, false))
    }

    /// An answer with bytes of a capture, and with what is known of it.
    fn described(&self, kind: &'static str, body: Vec<u8>, line: &Line, is_hot: bool) -> HttpAnswer {
        let mut answer = reply(StatusCode::OK, kind, body);
        let fields = answer.headers_mut();
        // An archived page must not run as a page of ours.
        for (name, value) in
            [(header::CONTENT_SECURITY_POLICY, "sandbox"), (header::CONTENT_DISPOSITION, "attachment")]
        {
            fields.insert(name, HeaderValue::from_static(value));
        }
        let said = [
            ("nephila-url", Some(line.capture.url.as_str())),
            ("nephila-captured", Some(&line.capture.digits14)),
            ("nephila-status", line.capture.status.as_deref()),
            ("nephila-mime", line.capture.mime.as_deref()),
            ("nephila-archive", Some(&self.name)),
            ("nephila-cache", Some(if is_hot { "hit" } else { "miss" })),
        ];
        for (name, value) in said {
            // A value that is not valid in a header field is left out.
            if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
                fields.insert(HeaderName::from_static(name), value);
            }
        }
        answer
    }

    /// Runs a read from the archive on a blocking thread; at most [`READS_MAX`] reads run concurrently.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Captures) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, Instead> {
        let place = self.reads.clone().acquire_owned().await.expect("it is never closed");
        self.blocking(place, read).await
    }

    /// Runs a read from the archive on a blocking thread. The thread keeps the place of the read until its end, also
    /// when nobody waits for the result any more.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        place: OwnedSemaphorePermit,
        read: impl FnOnce(&Captures) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, Instead> {
        let captures = Captures::new(&self.dir).with_elsewhere(self.elsewhere.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            read(&captures)
        });
        let done = done.await.unwrap_or_else(|panic| Err(anyhow::anyhow!("reading failed: {panic}")));
        Ok(done.map_err(|error| {
            let detail = format!("{error:#}; `nephila read -o` at {} may say more", self.name);
            problem(StatusCode::INTERNAL_SERVER_ERROR, "the capture cannot be read", detail)
        })?)
    }
}

/// Head and body of a capture, as a server would send them.
fn as_http(capture: &Capture) -> Vec<u8> {
    let mut bytes = match capture.header.get("WARC-Type") {
        Some("resource") => head::of_resource(capture.header.get("Content-Type").unwrap_or_default()),
        _ => capture.http.clone(),
    };
    bytes.extend_from_slice(&capture.body);
    bytes
}

impl Questions {
    /// `GET pages`: a capture, or a whole page.
    pub(super) async fn page_or_whole(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        match (whole_page::is_wanted(asked)?, &self.archive) {
            (true, Some(archive)) => whole_page::whole_page(asked, archive, self).await,
            _ => self.pages(asked).await,
        }
    }

    /// `GET search`: answers from the archive of the folder.
    pub(super) async fn search_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        ready::may_read(self.settings.api.reads, self).await?;
        let none = || problem(StatusCode::NOT_FOUND, "there is no archive here", "");
        self.archive.as_ref().ok_or_else(none)?.search_answer(asked).await
    }

    /// `GET pages`: answers from the archive of the folder.
    pub(super) async fn pages(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let (text, _, wanted) = Wanted::of(asked)?;
        ready::may_read(self.settings.api.reads, self).await?;
        let archive = self.archive.as_ref();
        let none = || problem(StatusCode::NOT_FOUND, "there is no archive here", &*wanted.url);
        if let Some(answer) = archive.ok_or_else(none)?.given(&wanted).await? {
            return Ok(answer);
        }
        let held_up = |error: anyhow::Error| {
            problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", format!("{error:#}"))
        };
        Err(missing(&self.explain(&text).await.map_err(held_up)?, &[]).into())
    }

    /// Whether anything is left to crawl, as a state of a node.
    async fn state(&self) -> anyhow::Result<NodeState> {
        let horizon = ready_horizon(&self.settings.crawl, self.clock.now().wall);
        let is_begun = self.is_begun.load(Ordering::Acquire);
        if is_begun && self.handle.left(horizon).await? == Left::Nothing {
            return Ok(NodeState::Ready);
        }
        // At its limit, a crawl leaves the rest in its queues.
        let at_limit =
            self.crawl.upgrade().is_some_and(|crawl| crawl.counts.at_limit.load(Ordering::Relaxed));
        let is_over = at_limit && self.stats().await?.tickets_open == 0;
        Ok(if is_over { NodeState::Ready } else { NodeState::Crawling })
    }

    /// `GET /readyz`.
    pub(super) async fn readyz(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        match ready::is_for_reads(asked)? {
            true => ready::answer(asked, self).await,
            false => Ok(ok(&self.state_now().await?)),
        }
    }
}

impl Readable for Questions {
    async fn state_now(&self) -> Result<NodeState, Instead> {
        Ok(self.state().await.map_err(|error| {
            problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", format!("{error:#}"))
        })?)
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

impl ReadPages for Questions {
    async fn read_page(&self, asked: HttpQuestion) -> HttpAnswer {
        self.pages(&asked).await.unwrap_or_else(|instead| *instead)
    }
}

/// The answer for a URL without a capture.
pub fn missing(explained: &Explained, silent: &[String]) -> HttpAnswer {
    let because = format!("{}: {}", explained.summary.name(), explained.because);
    let later = |seconds: u64, title: &str, detail: String| {
        retry_after(problem(StatusCode::SERVICE_UNAVAILABLE, title, detail), seconds)
    };
    match explained.summary {
        Summary::Queued | Summary::Fetching | Summary::Parked => {
            let seconds = explained.expected_s.unwrap_or(SOME_TIME);
            later(seconds, "it is wanted and not there yet", because)
        }
        _ if !silent.is_empty() => {
            later(AWAY_RETRY, "its capture may lie at a node that does not answer", silent.join("; "))
        }
        Summary::Fetched | Summary::Redirected => {
            let detail = format!("{because}; no live node has it: it lies at one that is away, or was lost");
            later(SOME_TIME, "its capture is not here", detail)
        }
        _ => problem(StatusCode::NOT_FOUND, "there is no capture", because),
    }
}

/// A buffer for a record that fails when the record exceeds [`BODY_BYTES_MAX`].
struct Capped(Vec<u8>);

impl std::io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > BODY_BYTES_MAX {
            return Err(std::io::Error::other(format!("a record is given up to {BODY_BYTES_MAX} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A time of 14 digits as RFC 3339; empty for anything else.
pub(crate) fn date(digits: &str) -> String {
    if digits.len() < 14 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return String::new();
    }
    let part = |from: usize, to: usize| &digits[from..to];
    format!("{}-{}-{}T{}:{}:{}Z", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 12), part(12, 14))
}

#[cfg(test)]
mod tests;
