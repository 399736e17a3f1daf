//! Visits pages again that were fetched before the crawl had its revisit interval (`crawl.again_every`, `recrawl`).
//!
//! A page gets its next visit when it is fetched: by the schedule of that moment. So pages that were fetched under no
//! schedule have no next visit, and those fetched under a longer interval have one too late. When the interval of the
//! crawl is new, every URL of the archive is looked up: pages that are due are queued at once, and the others by a later
//! pass, when they are due and the rest after the last pass is over. The plan records the interval only when no page is
//! left over: an interrupted run starts over, and loses nothing. A page that is queued twice is fetched once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use nephila_core::job::Schedule;
use nephila_core::spider::outcome::Action;
use nephila_core::state::record::{UrlRecord, UrlState};
use nephila_core::time::{Seconds, Timestamp};
use nephila_core::url::CrawlUrl;
use nephila_store::captures::Captures;
use tokio::sync::mpsc;

use super::shared::{JOB, Shared};
use crate::human::count;
use crate::worker::Command;

/// Number of URLs that are looked up in one call.
pub const URLS_AT_ONCE: usize = 512;
/// Shortest wait before the archive is gone through once more for pages that were not due.
pub const AGAIN_MIN: Duration = Duration::from_secs(60);
/// The wait is at least this multiple of the time that the pass before took: one hundredth of the time goes into passes,
/// however large the archive is.
pub const AGAIN_REST: u32 = 100;

/// Result of one pass through the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    /// Number of pages that were queued.
    queued: u64,
    /// Number of pages that are due later.
    later: u64,
    /// When the first of them is due.
    next: Option<Seconds>,
    /// Length of the pass.
    took: Duration,
}

/// Time until the next pass: until the next page is due, but at least the rest after the pass before.
fn wait(next: Seconds, now: Timestamp, took: Duration) -> Duration {
    let until_due = Duration::from_millis(Timestamp::from(next).0.saturating_sub(now.0));
    until_due.max(AGAIN_MIN).max(took.saturating_mul(AGAIN_REST))
}

/// When a page is due that an earlier schedule left without a visit, or with a later one. None for a page that has its
/// visit, and for a URL that is not visited again.
fn due(record: &UrlRecord, schedule: Schedule) -> Option<Seconds> {
    let last = record.last.as_ref().filter(|_| record.job == JOB)?;
    let is_visited =
        matches!(last.outcome.action(), Action::Keep | Action::Offer | Action::KeepUnread | Action::Done);
    let due = last.at.plus(schedule.interval().filter(|_| is_visited)?);
    match (record.state, schedule) {
        (UrlState::Ended, _) => Some(due),
        (UrlState::Later(planned), Schedule::Every(_)) if planned > due => Some(due),
        _ => None,
    }
}

/// Queues pages again if the interval is new, and follows those that are not due yet, until the crawl ends.
pub async fn run(shared: &Arc<Shared>, quiet: bool) -> anyhow::Result<()> {
    let (schedule, known) = {
        let plan = shared.plan();
        (plan.job.schedule, plan.visits)
    };
    let Some(interval) = schedule.interval() else {
        return known.map_or(Ok(()), |_| keep(shared, None));
    };
    if known == Some(schedule) {
        return Ok(());
    }
    let passed = pass(shared, schedule).await?;
    if !quiet && passed.queued + passed.later > 0 {
        let later = match passed.next {
            Some(next) => {
                format!(", {} later, the first at {}", count(passed.later), Timestamp::from(next).warc_date())
            }
            None => String::new(),
        };
        let every = humantime::format_duration(interval);
        tracing::info!(
            "pages that were fetched before are visited again every {every}: {} now{later}",
            count(passed.queued)
        );
    }
    match passed.next {
        None => keep(shared, Some(schedule)),
        Some(next) => {
            tokio::spawn(follow(Arc::downgrade(shared), schedule, next, passed.took));
            Ok(())
        }
    }
}

fn keep(shared: &Shared, visits: Option<Schedule>) -> anyhow::Result<()> {
    let mut plan = shared.plan();
    plan.visits = visits;
    shared.folder.set_plan(&plan)
}

/// Goes through the archive again when the next page is due, until none is left over or the crawl ends.
async fn follow(shared: Weak<Shared>, schedule: Schedule, mut next: Seconds, mut took: Duration) {
    loop {
        let wait = {
            let Some(shared) = shared.upgrade() else { return };
            wait(next, shared.clock.now().wall, took)
        };
        tokio::time::sleep(wait).await;
        let Some(shared) = shared.upgrade() else { return };
        let passed = match pass(&shared, schedule).await {
            Ok(passed) => passed,
            Err(error) => {
                tracing::warn!(error = %format_args!("{error:#}"), "pages to be visited again: {error:#}");
                return;
            }
        };
        match passed.next {
            Some(later) => (next, took) = (later, passed.took),
            None => {
                if let Err(error) = keep(&shared, Some(schedule)) {
                    tracing::warn!(error = %format_args!("{error:#}"), "the plan of the crawl: {error:#}");
                }
                return;
            }
        }
    }
}

/// Queues all pages of the archive that are due.
async fn pass(shared: &Shared, schedule: Schedule) -> anyhow::Result<Passed> {
    let began = tokio::time::Instant::now();
    let captures = Captures::new(shared.folder.dir());
    let (sender, mut found) = mpsc::channel(1);
    let reading = tokio::task::spawn_blocking(move || urls(&captures, &sender));
    let mut passed = Passed::default();
    while let Some(urls) = found.recv().await {
        let known = shared.handle.known(Vec::clone(&urls)).await?;
        let now = Seconds::from(shared.clock.now().wall);
        let mut again = Vec::new();
        for (url, known) in urls.into_iter().zip(known) {
            // A followed feed has a schedule of its own.
            let record = known.url.filter(|url| !shared.settings.feed.follows(url.read_as, url.depth));
            match record.and_then(|record| due(&record, schedule)) {
                Some(due) if due <= now => again.push(url),
                Some(due) => {
                    passed.later += 1;
                    passed.next = Some(passed.next.map_or(due, |next| next.min(due)));
                }
                None => {}
            }
        }
        if !again.is_empty() {
            passed.queued += again.len() as u64;
            shared.handle.command(Command::Again(again, None)).await?;
        }
    }
    reading.await??;
    passed.took = began.elapsed();
    Ok(passed)
}

/// Sends every URL of the archive once, some at a time.
fn urls(captures: &Captures, sender: &mpsc::Sender<Vec<CrawlUrl>>) -> anyhow::Result<()> {
    let (mut some, mut last) = (Vec::new(), String::new());
    for line in captures.all()? {
        let line = line?;
        if line.capture.url == last {
            continue;
        }
        some.extend(CrawlUrl::parse(&line.capture.url).ok());
        last = line.capture.url;
        if some.len() >= URLS_AT_ONCE && sender.blocking_send(std::mem::take(&mut some)).is_err() {
            return Ok(());
        }
    }
    if !some.is_empty() {
        // Nobody waits for them any more if the crawl ends.
        _ = sender.blocking_send(some);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_take_at_most_a_hundredth_of_the_time_and_come_no_earlier_than_a_page_is_due() {
        let (now, ms) = (Timestamp::from_secs(1_800_000_000), Duration::from_millis);
        let due = |seconds: u64| Seconds::from(now).plus(Duration::from_secs(seconds));
        assert_eq!(wait(due(3600), now, ms(5)), Duration::from_secs(3600));
        assert_eq!(wait(due(1), now, ms(5)), AGAIN_MIN);
        assert_eq!(wait(Seconds::from(Timestamp(0)), now, ms(5)), AGAIN_MIN, "due long ago");
        for took in [ms(601), Duration::from_secs(90), Duration::MAX] {
            assert_eq!(wait(due(1), now, took), took.saturating_mul(AGAIN_REST));
        }
    }
}
