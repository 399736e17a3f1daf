//! The archive as other programs read it, below `/web/`: CDX server API and Memento (RFC 7089).
//!
//! | path | answer |
//! |---|---|
//! | `/web/cdx?url=…` | index lines, in pages (`cdx`) |
//! | `/web/URL` | TimeGate: a redirect to the capture nearest to `Accept-Datetime` (`memento`) |
//! | `/web/20261115id_/URL` | the capture nearest to a time, bytes as stored |
//! | `/web/timemap/link/URL` | TimeMap: all captures of a URL, also as `json` and `cdxj` |
//!
//! [`ReadOnly`] answers for an archive without its crawl; `replay` has pages for browsing it.
//!
//! Invariant: a captured page runs no script here, has no origin and submits nothing: each answer with bytes of third
//! parties has the policy [`POLICY`].

mod cdx;
mod filter;
mod memento;
mod replay;

use std::path::Path;
use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Method, StatusCode};

use super::captures::{Archive, Wanted};
use super::http::{Answers, HttpAnswer, HttpQuestion, ok, problem};
use super::media::ReadMedia;
use super::views::NodeState;

pub use replay::{Browse, Replay};

/// First part of the paths.
pub const PREFIX: &str = "/web/";
/// Content security policy of captured bytes: a sandbox without permissions, which loads nothing.
pub const POLICY: &str = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/// An error answer, sent instead of the requested one.
type Instead = Box<HttpAnswer>;

/// Answers `GET /api/v1/pages`, from the archive of a folder or of a whole cluster.
pub trait ReadPages: Sync {
    /// Answers one request.
    fn read_page(&self, asked: HttpQuestion) -> impl Future<Output = HttpAnswer> + Send;
}

/// Answers a request below [`PREFIX`]. Lists come from `archive`, captures from `pages`.
pub async fn answer(asked: &HttpQuestion, archive: &Archive, pages: &impl ReadPages) -> HttpAnswer {
    route(asked, archive, pages).await.unwrap_or_else(|instead| *instead)
}

async fn route(
    asked: &HttpQuestion,
    archive: &Archive,
    pages: &impl ReadPages,
) -> Result<HttpAnswer, Instead> {
    if asked.method != Method::GET && asked.method != Method::HEAD {
        let detail = "an archive is read with GET and HEAD";
        return Err(problem(StatusCode::METHOD_NOT_ALLOWED, "method not allowed", detail).into());
    }
    // A captured script must not become the service worker of this origin.
    if asked.headers.contains_key("service-worker") {
        let detail = "an archived script cannot be a service worker";
        return Err(problem(StatusCode::FORBIDDEN, "forbidden for service workers", detail).into());
    }
    let rest = asked.target.strip_prefix(PREFIX).unwrap_or_default();
    if rest == "cdx" || rest.starts_with("cdx?") {
        return cdx::answer(asked, archive).await;
    }
    if let Some(rest) = rest.strip_prefix("timemap/") {
        return memento::time_map(asked, archive, rest).await;
    }
    memento::capture(asked, rest, pages).await
}

/// Answers from the archive of a folder alone, without its crawl.
#[derive(Debug)]
pub struct ReadOnly {
    archive: Archive,
    browse: Option<Browse>,
}

impl ReadOnly {
    /// Opens the archive of a folder with this name.
    pub fn new(dir: &Path, name: &str) -> ReadOnly {
        ReadOnly { archive: Archive::new(dir, name), browse: None }
    }

    /// Keeps up to this many bytes of captures in memory.
    #[must_use]
    pub fn with_cache(mut self, bytes_max: usize) -> ReadOnly {
        self.archive = self.archive.with_cache(bytes_max);
        self
    }

    /// Sets the object store of bodies that are not in the archive.
    #[must_use]
    pub fn with_media(mut self, media: Option<Arc<dyn ReadMedia>>) -> ReadOnly {
        self.archive = self.archive.with_media(media);
        self
    }

    /// Also answers with pages for people.
    #[must_use]
    pub fn with_replay(mut self, browse: Browse) -> ReadOnly {
        self.browse = Some(browse);
        self
    }
}

impl ReadPages for ReadOnly {
    async fn read_page(&self, asked: HttpQuestion) -> HttpAnswer {
        let wanted = match Wanted::of(&asked) {
            Ok((_, _, wanted)) => wanted,
            Err(instead) => return *instead,
        };
        match self.archive.given(&wanted).await {
            Ok(Some(answer)) => answer,
            Ok(None) => problem(StatusCode::NOT_FOUND, "there is no capture", wanted.url),
            Err(instead) => *instead,
        }
    }
}

impl Answers for ReadOnly {
    async fn answer(&self, asked: HttpQuestion) -> HttpAnswer {
        match (&*asked.path, &self.browse) {
            (path, _) if path.starts_with(PREFIX) => answer(&asked, &self.archive, self).await,
            ("/api/v1/pages", _) if asked.method == Method::GET => self.read_page(asked).await,
            (replay::PATH, Some(browse)) if asked.method == Method::GET => {
                browse.answer(&asked, &self.archive).await
            }
            ("/livez", _) => ok(&"alive"),
            ("/readyz", _) => ok(&NodeState::Ready),
            (path, _) => {
                let detail = format!("{path}: this server only reads an archive, below {PREFIX}");
                problem(StatusCode::NOT_FOUND, "not found", detail)
            }
        }
    }
}

/// Adds the policy of captured bytes.
fn locked_in(mut answer: HttpAnswer) -> HttpAnswer {
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer
}

#[cfg(test)]
mod tests;
