//! `GET /api/v1/events?from=&kind=&wait=`: a page of events as lines of JSON, the last of which has the next position.
//! Any node answers for the whole cluster.
//!
//! Invariants: a page is bounded in size and time; the number of followers is bounded, and they take no capacity from
//! other requests.

use http::StatusCode;
use tokio::sync::Semaphore;

use super::{AWAY_RETRY, Api, Instead};
use crate::event_stream::{Place, Stream};
use nephila_api::event_pages::{From, Shelf, Wanted};
use nephila_api::{HttpAnswer, HttpQuestion, problem, reply, retry_after, wait_of};

pub(super) const PATH: &str = "/api/v1/events";
/// Maximum number of concurrent requests for events; further requests get 503 with `Retry-After`.
pub(super) const FOLLOWERS_MAX: usize = 32;

/// Clients that follow the events, and their cached readers.
#[derive(Debug)]
pub(super) struct Followers {
    room: Semaphore,
    shelf: Shelf<Stream>,
}

impl Default for Followers {
    fn default() -> Self {
        Followers { room: Semaphore::new(FOLLOWERS_MAX), shelf: Shelf::default() }
    }
}

impl Api {
    /// `GET events?from=&kind=`: the next events as lines of JSON. Status 404 without events, 503 on a busy node.
    pub async fn events(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let Some(telling) = &self.node.events else {
            let detail = "set cluster.events = true on the nodes";
            return Err(problem(StatusCode::NOT_FOUND, "events are disabled", detail).into());
        };
        let Ok(_room) = self.followers.room.try_acquire() else {
            let detail = format!("{FOLLOWERS_MAX} programs follow its events");
            let busy = problem(StatusCode::SERVICE_UNAVAILABLE, "node busy", detail);
            return Err(retry_after(busy, AWAY_RETRY).into());
        };
        let bad = |error: anyhow::Error| {
            Instead::from(problem(StatusCode::BAD_REQUEST, "invalid request", format!("{error:#}")))
        };
        let wanted = Wanted::parse([&*asked.parameter("kind").unwrap_or_default()]).map_err(bad)?;
        let position = asked.parameter("from").unwrap_or_default();
        let wait = wait_of(asked).map_err(bad)?;
        let away = |error: anyhow::Error| {
            let title = "servers unavailable";
            let away = problem(StatusCode::SERVICE_UNAVAILABLE, title, format!("{error:#}"));
            Instead::from(retry_after(away, AWAY_RETRY))
        };
        let mut stream = match self.followers.shelf.take(&position) {
            Some(stream) => stream,
            None => {
                let place = Place::of(&From::parse(&position)).map_err(bad)?;
                Stream::open(&telling.stream, place).await.map_err(away)?
            }
        };
        let page = stream.read(&wanted, wait).await.map_err(away)?;
        self.followers.shelf.put(&page.position, stream);
        Ok(reply(StatusCode::OK, "application/x-ndjson", page.whole()))
    }
}
