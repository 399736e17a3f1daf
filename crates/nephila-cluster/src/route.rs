//! Sends links to partitions of other nodes: through the outbox, into the inbox of the partition.
//!
//! Invariants: [`Router::send`] returns once every given link is stored in an inbox, or with an error, except for links
//! that an owner has asked to drop, which are counted; a caller with more links than the outbox holds waits
//! (backpressure).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::outbox::{self, Outbox, Pushed};
use nephila_core::frontier::feedback::{FeedbackReason, FeedbackTable, PartitionFeedback};
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::job::JobId;
use nephila_core::key::{DomainKey, PREFIXES, Secret};
use nephila_core::url::CrawlUrl;
use nephila_log::Inbox;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use super::jobs::JobStore;
use super::spread::Table;
use nephila_engine::crawl::jobs::Jobs;
use nephila_engine::crawl::stage::PassOn;
use nephila_engine::worker::{Handle, Link, offered};

/// Polling interval while the outbox is full.
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// Delay before a retry while the servers are unreachable.
const AWAY_PAUSE: Duration = Duration::from_secs(1);
/// Polling interval of the outbox without other events.
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// The node is stopping: the next fetch of the page sends its links again.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this node has stopped sending")]
pub(crate) struct NotSent;

#[derive(Debug)]
struct Inner {
    outbox: Outbox,
    feedback: FeedbackTable,
    waiting: HashMap<u64, oneshot::Sender<()>>,
    next_page: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Router {
    inner: Mutex<Inner>,
    began: Instant,
    /// Signals that a link was pushed.
    pushed: Notify,
    /// Signals an acknowledgement: the outbox may have capacity.
    room: Notify,
    secret: Secret,
    partitions: u32,
    spread: Arc<Table>,
    jobs: JobStore,
}

/// The partition of a domain, for this number of partitions.
pub(crate) fn partition_of(domain: DomainKey, partitions: u32) -> u32 {
    // Shares are cut by rounding down, so the first guess may be one too low or too high.
    let guess = (u64::from(domain.prefix()) * u64::from(partitions) / u64::from(PREFIXES)) as u32;
    let holds = |number: &u32| {
        *number < partitions && nephila_core::key::Prefixes::share(*number, partitions).holds(domain)
    };
    [guess, guess + 1, guess.saturating_sub(1)].into_iter().find(holds).expect("shares have no gaps")
}

impl Router {
    /// Creates a router with an empty outbox for the links to partitions of other nodes.
    pub(crate) fn new(
        settings: outbox::Settings,
        node: NodeId,
        nonce: u64,
        secret: Secret,
        (partitions, spread): (u32, Arc<Table>),
        jobs: JobStore,
    ) -> Router {
        let outbox = Outbox::new(settings, node, secret, nonce);
        Router {
            inner: Mutex::new(Inner {
                outbox,
                feedback: FeedbackTable::default(),
                waiting: HashMap::new(),
                next_page: 1,
            }),
            began: Instant::now(),
            pushed: Notify::new(),
            room: Notify::new(),
            secret,
            partitions,
            spread,
            jobs,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics holding it")
    }

    /// Offers links of partitions that are here to the worker, and sends the others.
    async fn offer_or_send(&self, handle: &Handle, links: &[Link]) -> anyhow::Result<()> {
        let keyed = |link: &Link| {
            let mut url = offered(link, &self.secret);
            self.spread.get().rekey(&mut url, &self.secret);
            url
        };
        // Keys are made once, for either way.
        let urls: Vec<OfferedUrl> = links.iter().map(keyed).collect();
        let holds = handle.holds_each(urls.iter().map(|url| url.key.host.domain));
        let (mut here, mut numbers, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (url, is_here)) in urls.into_iter().zip(holds).enumerate() {
            if is_here {
                here.push(url);
                numbers.push(number);
            } else {
                elsewhere.push(url);
            }
        }
        let (left, sent) = tokio::join!(handle.offer_urls_durably(here), self.send(&elsewhere));
        sent?;
        // A partition may have left between the question and the offer.
        let left: Vec<OfferedUrl> = left?.into_iter().map(|number| keyed(&links[numbers[number]])).collect();
        Ok(self.send(&left).await?)
    }

    /// Sends links to their partitions. Returns when all of them are stored, except dropped ones.
    async fn send(&self, urls: &[OfferedUrl]) -> Result<(), NotSent> {
        if urls.is_empty() {
            return Ok(());
        }
        let (told, safe) = oneshot::channel();
        let page = {
            let mut inner = self.inner();
            let page = inner.next_page;
            inner.next_page += 1;
            inner.waiting.insert(page, told);
            page
        };
        let forget = ForgetOnDrop { router: self, page };
        let mut rest = urls;
        loop {
            let room = self.room.notified();
            rest = self.push(rest, page);
            self.pushed.notify_one();
            if rest.is_empty() {
                break;
            }
            _ = tokio::time::timeout(FULL_PAUSE, room).await;
        }
        let arrived = safe.await;
        std::mem::forget(forget);
        arrived.map_err(|_| NotSent)
    }

    /// Puts links into the outbox up to its capacity. Returns the rest.
    fn push<'a>(&self, urls: &'a [OfferedUrl], page: u64) -> &'a [OfferedUrl] {
        let now = self.now();
        let mut inner = self.inner();
        let Inner { outbox, feedback, .. } = &mut *inner;
        for (number, url) in urls.iter().enumerate() {
            let partition = partition_of(url.key.host.domain, self.partitions);
            if feedback.drops(partition, url).is_none()
                && outbox.push(now, partition, url, page) == Pushed::Full
            {
                return &urls[number..];
            }
        }
        outbox.finish(page);
        &[]
    }

    /// Sets the feedback of the owners of partitions.
    pub fn set_feedback(&self, feedback: BTreeMap<u32, PartitionFeedback>) {
        let now = self.now();
        let mut inner = self.inner();
        inner.feedback.set(feedback);
        let slow = inner.feedback.lagging().collect();
        inner.outbox.set_slow(now, &slow);
        drop(inner);
        self.pushed.notify_one();
    }

    /// Flushes the outbox: a partition is being handed over, and waits for its last pages.
    pub fn hurry(&self) {
        let now = self.now();
        self.inner().outbox.hurry(now);
        self.pushed.notify_one();
    }

    /// Numbers of dropped links, by reason.
    pub fn dropped(&self) -> Vec<(FeedbackReason, u64)> {
        self.inner().feedback.dropped().collect()
    }

    /// Statistics and size of the outbox.
    pub fn stats(&self) -> (outbox::Stats, usize) {
        let inner = self.inner();
        (inner.outbox.stats(), inner.outbox.bytes())
    }

    /// Sends parcels until dropped.
    pub async fn run(self: Arc<Self>, inbox: Arc<dyn Inbox>) {
        let mut sends: JoinSet<(u128, bool)> = JoinSet::new();
        loop {
            let now = self.now();
            let (parcels, wake) = {
                let mut inner = self.inner();
                let parcels: Vec<_> = std::iter::from_fn(|| inner.outbox.poll(now)).collect();
                (parcels, inner.outbox.poll_timeout())
            };
            for parcel in parcels {
                let inbox = inbox.clone();
                sends.spawn(async move {
                    let sent = inbox.publish(parcel.partition, parcel.id, parcel.bytes).await;
                    (parcel.id, sent.is_ok())
                });
            }
            let sleep = wake.map_or(LOOK, |at| Duration::from_millis(at.saturating_sub(now)).min(LOOK));
            tokio::select! {
                Some(sent) = sends.join_next() => {
                    // A task that panicked has sent nothing that we know of; its parcel is sent again.
                    if let Ok((id, ok)) = sent {
                        self.sent(id, ok);
                    }
                }
                () = self.pushed.notified() => {}
                () = tokio::time::sleep(sleep) => {}
            }
            let mut inner = self.inner();
            while let Some(page) = inner.outbox.poll_safe() {
                if let Some(told) = inner.waiting.remove(&page) {
                    _ = told.send(());
                }
            }
        }
    }

    /// Records whether the message with this id was stored, and wakes the tasks that wait for room in the outbox.
    pub fn sent(&self, id: u128, ok: bool) {
        let now = self.now();
        let mut inner = self.inner();
        match ok {
            true => inner.outbox.handle_acked(now, id),
            false => inner.outbox.handle_failed(now, id),
        }
        drop(inner);
        self.room.notify_waiters();
    }
}

impl PassOn for Router {
    fn offer<'a>(&'a self, handle: &'a Handle, links: &'a [Link]) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(self.offer_or_send(handle, links))
    }

    /// Retries while the servers are unreachable; the caller is aborted with its session.
    fn refresh<'a>(&'a self, jobs: &'a Jobs, since: Instant) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            while self.jobs.refresh_since(jobs, since).await.is_err() {
                tokio::time::sleep(AWAY_PAUSE).await;
            }
        })
    }

    /// On this node at once, on the others soon. Retries while the servers are unreachable.
    fn widen<'a>(
        &'a self,
        jobs: &'a Jobs,
        job: JobId,
        target: &'a CrawlUrl,
    ) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            while self.jobs.widen(job, target).await.is_err() {
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            jobs.widen(job, target);
            Ok(())
        })
    }

    fn is_alone(&self) -> bool {
        false
    }
}

/// Removes a page from the outbox whose task was aborted.
struct ForgetOnDrop<'a> {
    router: &'a Router,
    page: u64,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        let mut inner = self.router.inner();
        inner.waiting.remove(&self.page);
        inner.outbox.forget(self.page);
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::key::Prefixes;

    use super::*;

    #[test]
    fn every_prefix_is_of_the_partition_that_holds_it() {
        for partitions in [1, 3, 16, 100, 256, 4_096] {
            for prefix in (0..=u16::MAX).step_by(7).chain([u16::MAX]) {
                let domain = DomainKey(u64::from(prefix) << 48);
                let number = partition_of(domain, partitions);
                assert!(Prefixes::share(number, partitions).holds(domain), "{prefix} of {partitions}");
            }
        }
    }
}
