//! `GET /api/v1/pages`: the capture of a URL, wherever in the cluster.
//!
//! The owner of a URL knows whether and when the URL was fetched. The capture is in the archive of the node that
//! fetched the URL, which is another node after a take-over. If the owner does not have the newest capture, the owner
//! queries all other nodes and forwards the best result. If no live node has a capture, the object store is searched,
//! which receives the archives (`stored`). A URL without a capture gets 404 if no fetch is planned, and 503 with the
//! expected time if a fetch is still to come.
//!
//! Invariant: an answer names the archive that the capture comes from.

use std::time::Duration;

use http::StatusCode;

use super::others::passed_on;
use super::{AWAY_RETRY, Api, FORWARDED, HttpQuestion, Instead, Place};
use nephila_api::captures::{FoundCapture, Wanted, missing};
use nephila_api::ready;
use nephila_api::web::ReadPages;
use nephila_api::{Explained, HttpAnswer, Question, escaped, problem, retry_after};
use nephila_store::captures::seconds;

/// Timeout for another node's search result.
pub(super) const FIND_MAX: Duration = Duration::from_secs(10);
/// Maximum size of a search result in bytes.
pub(super) const FOUND_BYTES_MAX: usize = 256 << 10;
/// A capture of our own belongs to the last fetch if the capture began at most this number of seconds before the fetch
/// ended.
pub(super) const FETCH_SECONDS_MAX: u64 = 600;

impl Api {
    /// `GET pages?url=&at=&as=`: the best capture of a URL in the archives of all nodes.
    pub async fn pages(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let (text, url, wanted) = Wanted::of(asked)?;
        if asked.field(FORWARDED) == Some("archive") {
            let found = self.archive.given(&wanted).await?;
            let none = || problem(StatusCode::NOT_FOUND, "there is no capture here", &*wanted.url);
            return Ok(found.ok_or_else(none)?);
        }
        let shared = match self.owner(asked, &url).await? {
            Place::Here(shared) => shared,
            Place::Answered(answer) => return Ok(answer),
        };
        ready::may_read(self.node.settings.api.reads, self).await?;
        let explained = self.explained(&shared, &text, &url).await?;
        drop(shared);
        let own = self.archive.found(&wanted).await?;
        if wanted.at.is_none() && own.as_ref().is_some_and(|own| is_newest(own, &wanted.url, &explained)) {
            return self
                .archive
                .given(&wanted)
                .await?
                .ok_or_else(|| self.moving("its capture has just moved"));
        }
        // A URL that was never requested has no capture.
        if own.is_none() && explained.last.is_none() {
            return Err(missing(&explained, &[]).into());
        }
        self.best(asked, &wanted, own, &explained).await
    }

    /// Returns the best capture of all nodes.
    pub async fn best(
        &self,
        asked: &HttpQuestion,
        wanted: &Wanted,
        own: Option<FoundCapture>,
        explained: &Explained,
    ) -> Result<HttpAnswer, Instead> {
        let mut target = format!("/api/v1/pages?as=found&url={}", escaped(&wanted.url));
        if let Some(at) = &wanted.at {
            target.push_str(&format!("&at={at}"));
        }
        let question = Question::get(target, FOUND_BYTES_MAX, FIND_MAX).with(FORWARDED, "archive");
        let rank = |found: &FoundCapture| found.rank(&wanted.url, wanted.at.as_deref());
        let mut best = own.map(|own| (rank(&own), None));
        let mut silent = Vec::new();
        for (other, answer) in self.ask_all(&question).await {
            match answer {
                Err(why) => silent.push(why),
                Ok(reply) if reply.status == StatusCode::OK => {
                    let Ok(found) = reply.json::<FoundCapture>() else { continue };
                    let rank = rank(&found);
                    if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                        best = Some((rank, Some(other)));
                    }
                }
                Ok(_) => {}
            }
        }
        // Captures of dead nodes may be in the object store.
        let is_with_another = best.as_ref().is_some_and(|(_, whose)| whose.is_some());
        if !(is_with_another && wanted.at.is_none())
            && let Some(answer) = self.stored(wanted, best.as_ref().map(|(rank, _)| *rank)).await?
        {
            return Ok(answer);
        }
        match best {
            None => Err(missing(explained, &silent).into()),
            Some((_, None)) => {
                self.archive.given(wanted).await?.ok_or_else(|| self.moving("its capture has just moved"))
            }
            Some((_, Some(other))) => Ok(passed_on(self.ask(&other, asked, "archive").await?)),
        }
    }

    /// Searches the archives of dead nodes in the object store for a better capture than rank `than`.
    pub async fn stored(
        &self,
        wanted: &Wanted,
        than: Option<(bool, u64)>,
    ) -> Result<Option<HttpAnswer>, Instead> {
        let Some(stored) = &self.stored else { return Ok(None) };
        let Some((view, _)) = self.node.known.view() else { return Ok(None) };
        let away = |error: anyhow::Error| {
            let detail = format!("{error:#}");
            let answer = problem(StatusCode::SERVICE_UNAVAILABLE, "object store unavailable", detail);
            retry_after(answer, AWAY_RETRY)
        };
        let lives = |node: &str| view.nodes.iter().any(|lives| lives.name == node);
        let mut best = None;
        for archive in stored.archives(lives).await.map_err(away)? {
            let Some(found) = archive.found(wanted).await? else { continue };
            let rank = found.rank(&wanted.url, wanted.at.as_deref());
            let is_better = |than: (bool, u64)| rank < than;
            if than.is_none_or(is_better) && best.as_ref().is_none_or(|(best, _)| is_better(*best)) {
                best = Some((rank, archive));
            }
        }
        match best {
            Some((_, archive)) => archive.given(wanted).await,
            None => Ok(None),
        }
    }
}

impl ReadPages for Api {
    async fn read_page(&self, asked: HttpQuestion) -> HttpAnswer {
        self.pages(&asked).await.unwrap_or_else(|instead| *instead)
    }
}

/// Whether our capture is the one of the last fetch. Then no other node has a newer one.
pub(super) fn is_newest(own: &FoundCapture, url: &str, explained: &Explained) -> bool {
    let Some(last) = &explained.last else { return own.url == url };
    let ended: String = last.at.chars().filter(char::is_ascii_digit).take(14).collect();
    own.url == url && seconds(&own.timestamp) + FETCH_SECONDS_MAX >= seconds(&ended)
}
