//! `GET /api/v1/events` of a crawl: a page of events, read from the journals like any other reader would.
//!
//! Invariants: the worker is not involved; a page is bounded in size and time; journals are read on blocking threads,
//! never on a thread that fetches; a read holds its permit until the read has ended, even if the client has gone.

use std::sync::Arc;
use std::time::Duration;

use ::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{HttpAnswer, HttpQuestion, Questions, problem, reply, retry_after};
use crate::event_pages::local::Local;
use crate::event_pages::{From, LOOK, Page, Shelf, WAIT_MAX, Wanted};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;

/// Maximum number of concurrent requests for events. Further requests get 503 with `Retry-After`, so that connections
/// remain for other requests.
const FOLLOWERS_MAX: usize = 8;

/// Clients that follow the events, and their cached readers.
#[derive(Debug)]
pub(super) struct Followers {
    folder: Option<Folder>,
    room: Arc<Semaphore>,
    shelf: Shelf<Local>,
}

impl Followers {
    pub(super) fn of(folder: Option<Folder>) -> Followers {
        Followers { folder, room: Arc::new(Semaphore::new(FOLLOWERS_MAX)), shelf: Shelf::default() }
    }
}

/// How long a request waits for the first event of an empty page.
pub fn wait_of(asked: &HttpQuestion) -> anyhow::Result<Duration> {
    match asked.parameter("wait") {
        None => Ok(Duration::ZERO),
        Some(text) => Ok(humantime::parse_duration(&text)?.min(WAIT_MAX)),
    }
}

impl Questions {
    pub(super) async fn events(&self, asked: &HttpQuestion) -> HttpAnswer {
        let Ok(room) = self.followers.room.clone().try_acquire_owned() else {
            let detail =
                format!("{FOLLOWERS_MAX} programs follow its events; `nephila log -f` needs no room");
            return retry_after(problem(StatusCode::SERVICE_UNAVAILABLE, "crawl busy", detail), 5);
        };
        match self.page(asked, room).await {
            Ok(page) => reply(StatusCode::OK, "application/x-ndjson", page.whole()),
            Err(error) => match error.downcast_ref() {
                Some(Exit::Usage) => {
                    problem(StatusCode::BAD_REQUEST, "invalid request", format!("{error:#}"))
                }
                // The journals cannot be read, which is no fault of the client.
                _ => problem(StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable", format!("{error:#}")),
            },
        }
    }

    async fn page(&self, asked: &HttpQuestion, mut room: OwnedSemaphorePermit) -> anyhow::Result<Page> {
        let Some(folder) = &self.followers.folder else { anyhow::bail!("a node is asked elsewhere") };
        let wanted = Wanted::parse([&*asked.parameter("kind").unwrap_or_default()])?;
        let position = asked.parameter("from").unwrap_or_default();
        let until = tokio::time::Instant::now() + wait_of(asked)?;
        let mut kept = self.followers.shelf.take(&position);
        loop {
            let (folder, from, wanted) = (folder.clone(), From::parse(&position), wanted.clone());
            let read = move || -> anyhow::Result<_> {
                let mut local = match kept {
                    Some(local) => local,
                    None => Local::open(&folder, from)?,
                };
                let page = local.read(&wanted)?;
                Ok((local, page, room))
            };
            let (local, page, place) = tokio::task::spawn_blocking(read).await??;
            if !page.lines.is_empty() || tokio::time::Instant::now() >= until {
                self.followers.shelf.put(&page.position, local);
                return Ok(page);
            }
            if !page.moved {
                tokio::time::sleep(LOOK).await;
            }
            (kept, room) = (Some(local), place);
        }
    }
}
