//! When pages are read: the state of a node decides, if `api.reads` says so, and clients can wait for it (SEEDS E9).
//!
//! `GET /readyz?for=reads` answers 200 once nothing is left to crawl, and 503 with `Retry-After` before. With `wait=20s`
//! the answer comes as soon as nothing is left, after that time at the latest.

use std::time::Duration;

use http::StatusCode;
use nephila_engine::settings::Reads;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::events::wait_of;
use super::problem::{HttpAnswer, ok, problem, retry_after};
use super::question::HttpQuestion;
use super::views::NodeState;

/// Maximum number of clients that wait at the same time. Further ones get the state at once: probes need no token, and
/// must not take all connections.
const WAITERS_MAX: usize = 8;
/// Interval at which the state is looked at for those who wait.
const LOOK: Duration = Duration::from_millis(200);
/// `Retry-After` in seconds while a node crawls.
const READY_RETRY: u64 = 5;

/// An error answer, sent instead of the requested one.
type Instead = Box<HttpAnswer>;

/// A crawl or a node whose pages are read.
pub trait Readable: Sync {
    /// The state at this moment. Fails with status 503 if it is unknown.
    fn state_now(&self) -> impl Future<Output = Result<NodeState, Instead>> + Send;
    /// The clients that wait for it.
    fn waiters(&self) -> &Waiters;
}

/// Clients that wait until a node is ready.
#[derive(Debug)]
pub struct Waiters(Semaphore);

impl Default for Waiters {
    fn default() -> Self {
        Waiters(Semaphore::new(WAITERS_MAX))
    }
}

/// Whether the state for reads is requested. Fails with status 400 for any other purpose.
pub fn is_for_reads(asked: &HttpQuestion) -> Result<bool, Instead> {
    match asked.parameter("for").as_deref() {
        None => Ok(false),
        Some("reads") => Ok(true),
        Some(other) => Err(problem(StatusCode::BAD_REQUEST, "invalid parameter for: reads", other).into()),
    }
}

/// Answers `GET /readyz?for=reads`.
pub async fn answer(asked: &HttpQuestion, node: &impl Readable) -> Result<HttpAnswer, Instead> {
    let wait = wait_of(asked)
        .map_err(|error| problem(StatusCode::BAD_REQUEST, "invalid parameter wait", format!("{error:#}")))?;
    let place = node.waiters().0.try_acquire();
    let until = Instant::now() + if place.is_ok() { wait } else { Duration::ZERO };
    loop {
        match node.state_now().await? {
            NodeState::Ready => return Ok(ok(&NodeState::Ready)),
            state if Instant::now() >= until => return Err(not_ready(state)),
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Fails with status 503 while pages are not to be read.
pub async fn may_read(reads: Reads, node: &impl Readable) -> Result<(), Instead> {
    match reads {
        Reads::Partial => Ok(()),
        Reads::WhenReady => match node.state_now().await? {
            NodeState::Ready => Ok(()),
            state => Err(not_ready(state)),
        },
    }
}

fn not_ready(state: NodeState) -> Instead {
    let detail = format!("{}: URLs are queued, or due soon", state.name());
    retry_after(problem(StatusCode::SERVICE_UNAVAILABLE, "not ready for reads", detail), READY_RETRY).into()
}
