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
use std::sync::{Arc, LazyLock};

use http::header::{self, HeaderValue};
use http::{Method, StatusCode};

use super::answers;
use super::captures::{Archive, Wanted};
use super::media::ReadMedia;
use super::monitor::Monitor;
use super::operations;
use super::problem::{HttpAnswer, ok, problem};
use super::question::HttpQuestion;
use super::routes::{Answers, Routes, route};
use super::views::NodeState;
use super::whole_page;
use super::{dashboard, live, session};

pub(crate) use filter::ALL_FIELDS as CDX_FIELDS;
pub(crate) use memento::http_date;
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
    answered(asked, archive, pages).await.unwrap_or_else(|instead| *instead)
}

async fn answered(
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
    /// What else is known about the folder.
    monitor: Option<Arc<Monitor>>,
    browse: Option<Browse>,
}

impl ReadOnly {
    /// Opens the archive of a folder with this name.
    pub fn new(dir: &Path, name: &str) -> ReadOnly {
        ReadOnly { archive: Archive::new(dir, name), monitor: None, browse: None }
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

    /// Also answers about the log and the files of the folder.
    #[must_use]
    pub fn with_monitor(mut self, monitor: Monitor) -> ReadOnly {
        self.monitor = Some(Arc::new(monitor));
        self
    }

    /// Also answers with pages for people.
    #[must_use]
    pub fn with_replay(mut self, browse: Browse) -> ReadOnly {
        self.browse = Some(browse);
        self
    }
}

impl ReadOnly {
    /// Answers a request for a page with its resources.
    pub async fn whole_page(&self, asked: &HttpQuestion) -> HttpAnswer {
        whole_page::whole_page(asked, &self.archive, self).await.unwrap_or_else(|instead| *instead)
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

impl ReadOnly {
    /// What is known of an archive as a whole.
    async fn said(&self, asked: HttpQuestion) -> HttpAnswer {
        let answered = match &self.monitor {
            Some(monitor) => answers::of_archive(monitor, &asked).await,
            None => None,
        };
        let none =
            || Err(problem(StatusCode::NOT_FOUND, "not found", "this server reads captures alone").into());
        answered.unwrap_or_else(none).unwrap_or_else(|instead| *instead)
    }
}

/// The operations of an archive alone.
static ROUTES: LazyLock<Routes<ReadOnly>> = LazyLock::new(|| {
    let own = [
        route::<ReadOnly>(&operations::LIVEZ, |_, _| Box::pin(async { ok(&"alive") })),
        route(&operations::READYZ, |_, _| Box::pin(async { ok(&NodeState::Ready) })),
        route(&operations::DOCUMENT, |_, asked| Box::pin(async move { ROUTES.document_for(&asked) })),
        route(&operations::PAGES, |server, asked| {
            Box::pin(async move {
                match whole_page::is_wanted(&asked) {
                    Ok(false) => server.read_page(asked).await,
                    Ok(true) => server.whole_page(&asked).await,
                    Err(instead) => *instead,
                }
            })
        }),
        route(&operations::SEARCH, |server, asked| {
            Box::pin(
                async move { server.archive.search_answer(&asked).await.unwrap_or_else(|instead| *instead) },
            )
        }),
        route(&operations::CDX, |server, asked| {
            Box::pin(async move { answer(&asked, &server.archive, server).await })
        }),
        route(&operations::WEB, |server, asked| {
            Box::pin(async move { answer(&asked, &server.archive, server).await })
        }),
        route(&operations::STATUS, |server, asked| Box::pin(server.said(asked))),
        route(&operations::HISTORY, |server, asked| Box::pin(server.said(asked))),
        route(&operations::LOG, |server, asked| Box::pin(server.said(asked))),
        route(&operations::TIMELINE, |server, asked| Box::pin(server.said(asked))),
        route(&operations::POLITENESS, |server, asked| Box::pin(server.said(asked))),
        route(&operations::ARCHIVE, |server, asked| Box::pin(server.said(asked))),
        route(&operations::SETTINGS, |server, asked| Box::pin(server.said(asked))),
        route(&operations::REPLAY, |server, asked| {
            Box::pin(async move {
                match &server.browse {
                    Some(browse) => browse.answer(&asked, &server.archive).await,
                    None => {
                        let detail = "begin the server with --replay FOLDER";
                        problem(StatusCode::NOT_FOUND, "replay is not enabled", detail)
                    }
                }
            })
        }),
    ];
    let common = dashboard::routes().into_iter().chain(session::routes()).chain(live::routes());
    Routes::new("Nephila, an archive", own.into_iter().chain(common))
});

impl Answers for ReadOnly {
    fn routes() -> &'static Routes<ReadOnly> {
        &ROUTES
    }
}

/// Adds the policy of captured bytes.
fn locked_in(mut answer: HttpAnswer) -> HttpAnswer {
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer
}

#[cfg(test)]
mod tests;
