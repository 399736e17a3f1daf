//! The loop of a crawl: takes actions from the frontier, starts them, and decides when to stop.
//!
//! Invariants: an action that is taken is started at once; no more fetches run than `crawl.concurrency`; a limit of the
//! job is never exceeded, since a page is begun only while done and open pages together are below the limit.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use nephila_core::frontier::Action;
use nephila_core::frontier::outlook::{Left, Outlook};
use nephila_core::frontier::ticket::{Purpose, Report, Ticket};
use nephila_core::job::{Counts, Limit, Limits, State};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Class;
use nephila_core::text::shown;
use nephila_core::time::{Now, Seconds, Timestamp};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

use super::ending::End;
use super::looks::Looks;
use super::room::Room;
use super::shared::{JOB, Shared};
use super::{halt, late, more_jobs, page, resolve, robots};
use crate::folder::disk_free;
use crate::process::Signals;
use crate::settings;
use crate::worker::{Actions, Stats};

/// Interval at which the running time of a crawl is saved.
pub const NOTE_TIME: Duration = Duration::from_secs(10);
/// Interval at which the list of feeds is reloaded: an operator may have added some.
pub const FEEDS_EVERY: Duration = Duration::from_secs(2);
/// Number of consecutive checks that must find nothing left before a crawl ends.
pub const DONE_LOOKS: u32 = 2;

/// Interval at which the free space of the disk is checked.
pub const SPACE_EVERY: Duration = Duration::from_secs(1);

/// Longer than any planned wait: a crawl with this horizon does not end by itself.
pub const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

/// Shows the progress of a crawl, from its loop.
pub trait Progress: Send {
    /// Called a few times a second.
    fn show(&mut self, shared: &Shared, outlook: &Outlook, stats: &Stats, limits: &Limits);
    /// A message that a person should see now.
    fn note(&mut self, text: &str);
    /// No more fetches begin; this many are open.
    fn ending(&mut self, end: &End, open: usize);
    /// The crawl is over.
    fn clear(&mut self);
}

/// A crawl that shows no progress.
pub struct Silent;

impl Progress for Silent {
    fn show(&mut self, _: &Shared, _: &Outlook, _: &Stats, _: &Limits) {}
    fn note(&mut self, _: &str) {}
    fn ending(&mut self, _: &End, _: usize) {}
    fn clear(&mut self) {}
}

/// The free space of the disk.
#[derive(Debug)]
pub struct Space {
    looked: Option<Instant>,
    /// Whether the free space was below `crawl.disk_free_min` at the last check.
    pub is_low: bool,
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

impl Space {
    /// Starts with enough space, until the first check.
    pub fn new() -> Space {
        Space { looked: None, is_low: false }
    }

    /// Checks the free space at most once per [`SPACE_EVERY`], and publishes the result in the counters of the run.
    pub fn look(&mut self, shared: &Shared) {
        if self.looked.is_some_and(|looked| looked.elapsed() < SPACE_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        // Where the file system does not report free space, a failing write is the signal.
        let free = disk_free(shared.folder.dir());
        self.is_low = free.is_ok_and(|free| free < shared.settings.crawl.disk_free_min);
        shared.counts.disk_low.store(self.is_low, Ordering::Relaxed);
    }
}

/// Progress of a job before this run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    pages: u64,
    bytes: u64,
    ran: Duration,
}

/// Conditions that end a crawl early, beside the limits of its job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// This number of failures.
    pub errors_max: Option<u64>,
    /// The first seed that cannot be fetched.
    pub fail_on_seed_error: bool,
    /// The process serves queries: not even limits end the crawl, since the results are still queried.
    pub serves: bool,
}

/// How long a crawl has only waited for resting hosts.
#[derive(Debug)]
pub struct Waited {
    /// Since when no page was fetched, on the monotonic clock, in milliseconds.
    since: u64,
    /// Number of pages fetched by then.
    fetched: u64,
}

impl Waited {
    /// Whether the crawl has waited `wait_max`, or will have before any host may be requested. False while other work
    /// is left.
    pub fn is_enough(&mut self, fetched: u64, outlook: &Outlook, wait_max: Duration, now: Now) -> bool {
        if fetched != self.fetched {
            (self.since, self.fetched) = (now.mono, fetched);
        }
        if wait_max.is_zero() || outlook.left != Left::Held {
            return false;
        }
        let ends = self.since.saturating_add(u64::try_from(wait_max.as_millis()).unwrap_or(u64::MAX));
        let next =
            outlook.held.first.as_ref().map_or(now.mono, |(until, _)| {
                now.mono + Timestamp::from(*until).0.saturating_sub(now.wall.0)
            });
        now.mono >= ends || next > ends
    }
}

/// Crawls until nothing is left, a limit is reached, or `signals` stop the crawl.
pub async fn work(
    shared: &Arc<Shared>,
    mut actions: Actions,
    until: Until,
    progress: &mut dyn Progress,
    signals: &mut Signals,
) -> anyhow::Result<End> {
    let limits = shared.limits();
    let before = before(shared).await?;
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let mut pages_open = 0;
    let mut looks = Looks::new(shared);
    let mut noted = Instant::now();
    let mut done_looks = 0;
    let mut waited = Waited { since: shared.clock.now().mono, fetched: 0 };
    let mut space = Space::new();
    let mut is_enough = false;
    let mut late = late::Pass::default();
    let mut feeds = (shared.folder.feeds_changed(), Instant::now());
    let end = loop {
        let room = limits.pages_max == 0 || before.pages + pages(shared) + pages_open < limits.pages_max;
        // No fetch begins while the disk is nearly full; open fetches may use the remaining space.
        let room = room && !space.is_low && !is_enough;
        tokio::select! {
            biased;
            () = signals.next() => break End::Stopped,
            Some(ended) = tasks.join_next() => {
                pages_open = pages_open.saturating_sub(1);
                if let Err(error) = ended.unwrap_or_else(|panic| Err(anyhow::anyhow!("a task failed: {panic}"))) {
                    break End::Failed(error);
                }
                let is_full = limits.pages_max > 0 && before.pages + pages(shared) >= limits.pages_max;
                if is_full && !until.serves {
                    looks.now();
                } else if tasks.is_empty() && !until.serves {
                    looks.wait_for_end(shared);
                }
            }
            taken = take(&shared.room, &mut actions), if room => {
                let Some((action, permit)) = taken else { break End::Failed(why(shared).await) };
                pages_open += 1;
                start(shared, &mut tasks, action, permit);
            }
            () = looks.next() => {
                space.look(shared);
                let counts = counts(shared, before);
                let limit = limits.reached(&counts).filter(|limit| limit.ends_job());
                is_enough = until.serves && limit.is_some();
                shared.counts.at_limit.store(is_enough, Ordering::Relaxed);
                if let Some(limit) = limit.filter(|_| !until.serves) {
                    break End::Limit(limit);
                }
                if until.errors_max.is_some_and(|max| shared.counts.failed.load(Ordering::Relaxed) >= max) {
                    break End::TooManyFailures;
                }
                let (notices, seed_failed) = shared.troubles.news();
                notices.iter().for_each(|notice| progress.note(notice));
                if seed_failed && until.fail_on_seed_error {
                    break End::SeedFailed;
                }
                let state = halt::state(shared);
                if state == State::Stopped && !until.serves {
                    break End::Stopped;
                }
                let (outlook, stats) = look(shared).await?;
                more_jobs::look(shared, &stats.totals).await?;
                let own_is_busy = more_jobs::work(&stats.totals, JOB).left > 0;
                shared.counts.own_job_busy.store(own_is_busy, Ordering::Relaxed);
                late.look(shared).await?;
                progress.show(shared, &outlook, &stats, &limits);
                let ends = !until.serves && shared.settings.crawl.retry_wait_max < FOREVER && tasks.is_empty() && !late.is_busy();
                // Somebody paused it to go on with it.
                let ends = ends && state != State::Paused;
                let answers = shared.counts.answers();
                let enough =
                    waited.is_enough(answers, &outlook, shared.settings.crawl.wait_max, shared.clock.now());
                let over = ends && (outlook.left == Left::Nothing || enough);
                done_looks = if over { done_looks + 1 } else { 0 };
                if done_looks >= DONE_LOOKS {
                    break if outlook.left == Left::Nothing { End::Done } else { End::Waited(outlook.held) };
                }
                if over {
                    looks.once_more();
                }
                if feeds.1.elapsed() >= FEEDS_EVERY {
                    let changed = shared.folder.feeds_changed();
                    if changed != feeds.0 {
                        shared.offer_feeds().await?;
                    }
                    feeds = (changed, Instant::now());
                }
                if noted.elapsed() >= NOTE_TIME {
                    noted = Instant::now();
                    note_time(shared, before)?;
                }
            }
        }
    };
    // No more fetches begin; open ones may finish.
    drop(actions);
    shared.counts.stopping.store(true, Ordering::Relaxed);
    progress.ending(&end, tasks.len());
    let end = drain(shared, tasks, signals, end).await;
    note_time(shared, before)?;
    progress.clear();
    Ok(end)
}

/// First a permit among the fetches, then the action: an action that is taken is started at once.
pub async fn take(room: &Room, actions: &mut Actions) -> Option<(Action, OwnedSemaphorePermit)> {
    let permit = room.fetching.clone().acquire_owned().await.expect("never closed");
    let _idle = room.idle();
    Some((actions.next().await?, permit))
}

/// Spawns the task of an action.
pub fn start(
    shared: &Arc<Shared>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    action: Action,
    permit: OwnedSemaphorePermit,
) {
    let shared = shared.clone();
    match action {
        Action::Resolve { host, origin } => {
            drop(permit);
            tasks.spawn(async move { Ok(resolve::resolve(&shared, host, &origin).await?) });
        }
        Action::Fetch(ticket) => _ = tasks.spawn(carry(shared, ticket, permit)),
    }
}

/// Carries a ticket through all steps. A panic is caught, and reported as a crash. The work is in a box of its own: the
/// future of a task is moved a few times, and lies in memory until somebody has joined the task.
fn carry(
    shared: Arc<Shared>,
    ticket: Ticket,
    permit: OwnedSemaphorePermit,
) -> impl Future<Output = anyhow::Result<()>> + Send + 'static {
    let (id, url, own) = (ticket.id, ticket.url.clone(), shared.clone());
    let work: BoxFuture<'static, anyhow::Result<()>> = match ticket.purpose {
        Purpose::Robots => Box::pin(async move {
            let _permit = permit;
            robots::robots(&own, ticket).await
        }),
        Purpose::Page => Box::pin(async move { page::page(&own, ticket, permit).await }),
    };
    async move {
        match survive(work).await {
            Ok(ended) => ended,
            Err(Panicked) => {
                tracing::warn!(
                    url = %shown(&url),
                    "a fault of ours ended the fetch of {}: please report it",
                    shown(&url)
                );
                shared.counts.ended(Outcome::Crashed, 0);
                Ok(shared.handle.report(id, Report::of(Outcome::Crashed, 0, Duration::ZERO)).await?)
            }
        }
    }
}

/// A task panicked.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked;

/// Catches panics: a page that triggers a bug costs that page, not the crawl, which would meet the page after every
/// restart.
pub async fn survive<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| Panicked)
}

/// Waits for open fetches, until the deadline or a second signal.
pub async fn drain(
    shared: &Shared,
    mut tasks: JoinSet<anyhow::Result<()>>,
    signals: &mut Signals,
    mut end: End,
) -> End {
    let deadline = tokio::time::sleep(shared.settings.crawl.drain_timeout);
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            ended = tasks.join_next() => match ended {
                None => return end,
                Some(Ok(Err(error))) if !matches!(end, End::Failed(_)) => end = End::Failed(error),
                Some(_) => {}
            },
            // The next run fetches the open tickets again.
            () = &mut deadline => return end,
            () = signals.next() => return End::StoppedHard,
        }
    }
}

/// Whether an outcome counts for `--limit`.
pub fn is_page(outcome: Outcome) -> bool {
    outcome.class() == Class::Ok && outcome != Outcome::Redirect
}

/// Number of kept answers in this run, except robots.txt and redirects.
pub fn pages(shared: &Shared) -> u64 {
    shared.counts.ok.load(Ordering::Relaxed)
}

/// Returns the pages, bytes and running time of the job, over this run and the runs before.
pub fn counts(shared: &Shared, before: Before) -> Counts {
    Counts {
        pages: before.pages + pages(shared),
        bytes: before.bytes + shared.counts.bytes.load(Ordering::Relaxed),
        time: before.ran + shared.counts.began.elapsed(),
        ..Counts::default()
    }
}

/// Progress of the job at the beginning of this run.
pub async fn before(shared: &Shared) -> anyhow::Result<Before> {
    let all = shared.handle.stats().await?.totals.all_jobs();
    Ok(Before {
        pages: all.ended_as(is_page),
        bytes: all.bytes,
        ran: Duration::from_millis(shared.plan().ran_ms),
    })
}

/// Queries the coming work up to `crawl.retry_wait_max` from now, and the statistics of the worker.
pub async fn look(shared: &Shared) -> anyhow::Result<(Outlook, Stats)> {
    let horizon = Seconds::from(shared.clock.now().wall).plus(shared.settings.crawl.retry_wait_max);
    Ok((shared.handle.outlook(horizon).await?, shared.handle.stats().await?))
}

/// The time up to which planned work keeps a crawl from being ready for reads: `crawl.retry_wait_max` from now. A crawl
/// without end is ready like one with the usual value.
pub fn ready_horizon(crawl: &settings::Crawl, now: Timestamp) -> Seconds {
    let wait_max = match crawl.retry_wait_max < FOREVER {
        true => crawl.retry_wait_max,
        false => settings::Crawl::default().retry_wait_max,
    };
    Seconds::from(now).plus(wait_max)
}

/// Saves the running time of the job in the plan. A full disk is no error.
pub fn note_time(shared: &Shared, before: Before) -> anyhow::Result<()> {
    let ran = before.ran + shared.counts.began.elapsed();
    let mut plan = shared.plan();
    plan.ran_ms = u64::try_from(ran.as_millis()).unwrap_or(u64::MAX);
    match shared.folder.set_plan(&plan) {
        // The next interval saves the time; a crawl does not end for lack of disk space.
        Err(error) if is_full(&error) => Ok(()),
        written => written,
    }
}

/// Whether a full disk is among the causes of an error.
pub fn is_full(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|error| error.downcast_ref()).any(nephila_store::disk::is_full)
}

/// Why the frontier hands out no more actions.
pub async fn why(shared: &Shared) -> anyhow::Error {
    match shared.handle.settled().await {
        Err(stopped) => stopped.into(),
        Ok(()) => anyhow::anyhow!("the frontier gives nothing out any more"),
    }
}

/// The name of the limit that ended a job.
pub fn name(limit: Limit, limits: &Limits) -> String {
    match limit {
        Limit::Pages => format!("limit of {} pages", limits.pages_max),
        Limit::Bytes => format!("limit of {} bytes", limits.bytes_max),
        Limit::Time => format!("limit of {}", humantime::format_duration(limits.time_max)),
        Limit::HostPages | Limit::DomainPages => limit.name().into(),
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::frontier::outlook::Held;

    use super::*;

    #[test]
    fn fin_01_waiting_ends_when_nobody_can_be_asked_in_time() {
        // The crawl began 1,000 seconds after the epoch of `Seconds`.
        let began = Timestamp::from(Seconds(1_000)).0;
        let at = |seconds: u64| Now { mono: seconds * 1_000, wall: Timestamp(began + seconds * 1_000) };
        let held = |until| Held { hosts: 1, urls: 9, first: Some((Seconds(until), "http://a.test".into())) };
        let outlook = |left, until| Outlook { left, held: held(until), ..Outlook::default() };
        let hour = Duration::from_secs(3_600);
        let mut waited = Waited { since: 0, fetched: 0 };
        assert!(!waited.is_enough(0, &outlook(Left::Held, 1_900), hour, at(10)), "somebody is asked before");
        assert!(waited.is_enough(0, &outlook(Left::Held, 9_000), hour, at(10)), "nobody is");
        assert!(!waited.is_enough(0, &outlook(Left::Held, 9_000), Duration::ZERO, at(10)), "without end");
        assert!(!waited.is_enough(0, &outlook(Left::Work, 9_000), hour, at(9_999)), "there is work");
        assert!(!waited.is_enough(1, &outlook(Left::Held, 5_700), hour, at(4_000)), "a page came just now");
        assert!(waited.is_enough(1, &outlook(Left::Held, 5_700), hour, at(7_700)), "that was an hour ago");
    }

    #[test]
    fn pro_07_a_task_of_a_page_is_small() {
        fn bytes<F>(_: impl Fn(Arc<Shared>, Ticket, OwnedSemaphorePermit) -> F) -> usize {
            size_of::<F>()
        }
        let bytes = bytes(carry);
        assert!(bytes <= 1_024, "{bytes} bytes, and the runtime moves them");
    }

    #[tokio::test]
    async fn a_fault_of_ours_is_an_answer() {
        assert_eq!(survive(async { 7 }).await, Ok(7));
        let late = async {
            tokio::task::yield_now().await;
            Vec::<u8>::new()[0]
        };
        assert_eq!(survive(late).await, Err(Panicked));
    }
}
