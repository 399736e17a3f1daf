//! How the rest of the program speaks to a worker: a handle that is cheap to clone and hides the channels.
//!
//! Invariants: every channel is bounded, so a caller that is faster than the worker waits (backpressure). After the end
//! of the worker every call returns an error and none hangs.

mod ask;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use nephila_core::cluster::errand::Said;
use nephila_core::cluster::slots::Event as SlotEvent;
use nephila_core::entry::{DomainChange, Entry, HostChange};
use nephila_core::feed;
use nephila_core::feed::source::{Sighted, SourceKey};
pub use nephila_core::follow::Link;
use nephila_core::frontier::Action;
use nephila_core::frontier::downloads::{self, Cursor, Wanted};
use nephila_core::frontier::explain::Explanation;
use nephila_core::frontier::feedback::FeedbackReason;
use nephila_core::frontier::feeds::{FeedView, StoryView};
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::frontier::outlook::{Left, Outlook};
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::rows::HostRow;
use nephila_core::frontier::slot::SlotKey;
use nephila_core::frontier::streams::Foreseen;
use nephila_core::frontier::ticket::{Report, TicketId};
use nephila_core::frontier::views::{HostView, Known, SlotView, Standings};
use nephila_core::job::{Job, JobId};
use nephila_core::key::{DomainKey, HostKey, Prefixes, Secret, UrlKey};
use nephila_core::reflog;
use nephila_core::reflog::part::{Named, Part};
use nephila_core::spider::outcome::Outcome;
use nephila_core::spread::Spread;
use nephila_core::state::record::HostRecord;
use nephila_core::state::totals::Work;
use nephila_core::time::Seconds;
use nephila_core::url::CrawlUrl;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Closed, OFFERS_IN_BATCH_MAX, Stats};

/// The worker has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker has ended{}", .why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
pub struct Stopped {
    /// The error that ended the worker, if there was one.
    pub why: Option<Arc<str>>,
}

/// A command of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A change to a host.
    Host(HostChange),
    /// A change to a domain.
    Domain(DomainChange),
    /// A new or changed job.
    Job(Box<Job>),
    /// A removed job.
    JobRemoved(JobId),
    /// A part of a stream, of one partition.
    Stream(Box<Part>),
    /// A feed showed something to its source, which is in another partition.
    Sighted(Box<Sighted>),
    /// Fetches these pages again: their archived copies are lost, or this job wants them.
    Again(Vec<CrawlUrl>, Option<JobId>),
}

/// Converts a link to an offer.
pub fn offered(link: &Link, secret: &Secret) -> OfferedUrl {
    OfferedUrl::new(&link.url, link.want.clone(), secret)
}

/// A batch of offers on the way to the worker.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) offers: Vec<OfferedUrl>,
    /// Answered once all offers are durable, with the indexes of the offers whose partition is not here.
    pub(super) reply: Option<oneshot::Sender<Vec<u32>>>,
    /// The inbox that the offers were read from; none for offers of this process.
    pub(super) from: Option<FromInbox>,
}

/// Input read from the inbox of a partition.
#[derive(Debug)]
pub(super) struct FromInbox {
    pub(super) prefixes: Prefixes,
    /// Once this input is durable, the inbox is read up to this position.
    pub(super) position: u64,
    /// An entry to be written behind the offers.
    pub(super) said: Option<Entry>,
}

/// Every input of a worker except offers.
#[derive(Debug)]
pub(super) enum Event {
    Released(TicketId, Duration),
    Report(TicketId, Box<Report>),
    Robots(TicketId, Box<RobotsReport>),
    Resolved(HostKey, Box<[IpAddr]>),
    Unresolved(HostKey, Outcome),
    Turn(SlotEvent),
    Errand(Said),
    Command(Command, oneshot::Sender<()>),
    /// For one partition, or for all.
    Settled(Option<Prefixes>, oneshot::Sender<()>),
    Explain(Box<CrawlUrl>, oneshot::Sender<Box<Explanation>>),
    Outlook(Seconds, oneshot::Sender<Outlook>),
    Left(Seconds, oneshot::Sender<Left>),
    /// Answered as soon as nothing is left.
    NothingLeft(Seconds, oneshot::Sender<()>),
    Known(Vec<CrawlUrl>, oneshot::Sender<Vec<Known>>),
    SecondTries(oneshot::Sender<(u64, Option<Seconds>)>),
    Host(Box<CrawlUrl>, oneshot::Sender<Option<Box<HostView>>>),
    Slot(SlotKey, oneshot::Sender<Box<SlotView>>),
    Hosts(Option<HostKey>, usize, oneshot::Sender<Vec<(HostKey, HostRecord)>>),
    HostRows(Option<HostKey>, usize, oneshot::Sender<Vec<HostRow>>),
    Feed(UrlKey, oneshot::Sender<Box<feed::record::Record>>),
    Feeds(Option<UrlKey>, usize, oneshot::Sender<Vec<FeedView>>),
    Source(SourceKey, oneshot::Sender<Box<feed::source::Record>>),
    Stories(Option<UrlKey>, usize, oneshot::Sender<Vec<StoryView>>),
    Downloads(Cursor, Wanted, usize, oneshot::Sender<downloads::Page>),
    Streamed(UrlKey, oneshot::Sender<Option<reflog::Record>>),
    Foresee(Box<Part>, oneshot::Sender<Foreseen>),
    Stats(oneshot::Sender<Box<Stats>>),
    Standings(oneshot::Sender<Standings>),
    Closed(Prefixes, oneshot::Sender<Vec<(HostKey, FeedbackReason)>>),
    Spread(Arc<Spread>),
    SpreadOf(Prefixes, oneshot::Sender<Option<Spread>>),
    Tallies(oneshot::Sender<Vec<Tallied>>),
    Close(Prefixes, oneshot::Sender<Closed>),
    Stop(oneshot::Sender<Box<Stats>>),
}

/// The counters of a partition, as of the end of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallied {
    /// The partition.
    pub prefixes: Prefixes,
    /// Position up to which the inbox is read.
    pub inbox: u64,
    /// Work done and left, by job.
    pub jobs: BTreeMap<u32, Work>,
}

/// A handle for calls to a worker.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) offers: mpsc::Sender<Batch>,
    pub(super) shared: Arc<Shared>,
}

/// State shared by all handles of a worker.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) secret: Secret,
    /// Spread domains of the cluster.
    pub(super) spread: RwLock<Arc<Spread>>,
    pub(super) prefixes: RwLock<Vec<Prefixes>>,
    pub(super) failure: OnceLock<Arc<str>>,
    /// Whether the worker and its channels have ended.
    pub(super) over: watch::Sender<bool>,
}

/// Signals the end of a worker, whatever the cause, when dropped after the worker's channels.
#[derive(Debug)]
pub(super) struct SaysOver(pub(super) Arc<Shared>);

impl Drop for SaysOver {
    fn drop(&mut self) {
        self.0.over.send_replace(true);
    }
}

impl Handle {
    /// Like [`Handle::holds_domain`], for many domains at once.
    pub fn holds_each<'a>(&self, domains: impl Iterator<Item = DomainKey> + 'a) -> Vec<bool> {
        let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
        domains.map(|domain| prefixes.iter().any(|prefixes| prefixes.holds(domain))).collect()
    }

    /// Whether this URL belongs to one of the worker's partitions. Other URLs are returned when offered durably.
    pub fn holds(&self, url: &CrawlUrl) -> bool {
        self.holds_domain(self.key(url).host.domain)
    }

    /// Whether this domain belongs to one of the worker's partitions.
    pub fn holds_domain(&self, domain: DomainKey) -> bool {
        let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
        prefixes.iter().any(|prefixes| prefixes.holds(domain))
    }

    /// The key of a URL, in this crawl.
    pub fn key(&self, url: &CrawlUrl) -> UrlKey {
        self.spread().key(url, &self.shared.secret)
    }

    /// Spread domains of the cluster, as last set.
    fn spread(&self) -> Arc<Spread> {
        self.shared.spread.read().expect("nobody panics holding it").clone()
    }

    /// Sets the spread domains of the cluster.
    pub async fn set_spread(&self, spread: Arc<Spread>) -> Result<(), Stopped> {
        self.shared.spread.write().expect("nobody panics holding it").clone_from(&spread);
        self.send(Event::Spread(spread)).await
    }

    /// The spread domains whose home is this partition, as of the end of its log. None if the partition is not here.
    pub async fn spread_of(&self, prefixes: Prefixes) -> Result<Option<Spread>, Stopped> {
        self.ask(|reply| Event::SpreadOf(prefixes, reply)).await
    }

    /// Offers URLs, waiting while the worker is behind (backpressure). The offers become durable later.
    pub async fn offer(&self, links: &[Link]) -> Result<(), Stopped> {
        for links in links.chunks(OFFERS_IN_BATCH_MAX) {
            let offers = links.iter().map(|link| offered(link, &self.shared.secret)).collect();
            let batch = Batch { offers, reply: None, from: None };
            self.offers.send(batch).await.map_err(|_| self.stopped())?;
        }
        Ok(())
    }

    /// Like [`Handle::offer_durably`], for offers with known keys.
    pub async fn offer_urls_durably(&self, mut urls: Vec<OfferedUrl>) -> Result<Vec<usize>, Stopped> {
        let mut replies = Vec::new();
        while !urls.is_empty() {
            let others = urls.split_off(urls.len().min(OFFERS_IN_BATCH_MAX));
            let (reply, answer) = oneshot::channel();
            let offers = std::mem::replace(&mut urls, others);
            let batch = Batch { offers, reply: Some(reply), from: None };
            self.offers.send(batch).await.map_err(|_| self.stopped())?;
            replies.push(answer);
        }
        let mut elsewhere = Vec::new();
        for (chunk, answer) in replies.into_iter().enumerate() {
            let numbers = self.heard(answer).await.ok_or_else(|| self.stopped())?;
            elsewhere.extend(numbers.into_iter().map(|number| chunk * OFFERS_IN_BATCH_MAX + number as usize));
        }
        Ok(elsewhere)
    }

    /// Offers URLs and waits until all of them are durable. The links of a page are offered this way before the page is
    /// reported: otherwise a crash between the two would lose the links. Returns the indexes of the links whose
    /// partition is not here: these are not offered.
    pub async fn offer_durably(&self, links: &[Link]) -> Result<Vec<usize>, Stopped> {
        // Keys are computed here: this spreads the hashing over the tasks that find links.
        self.offer_urls_durably(links.iter().map(|link| offered(link, &self.shared.secret)).collect()).await
    }

    /// Feeds input from the inbox of a partition, up to this position. Returns when the worker has received the input,
    /// before durability: after a crash the inbox is read again from the position in the state. If the partition is no
    /// longer here, the input is ignored.
    pub async fn from_inbox(
        &self,
        prefixes: Prefixes,
        position: u64,
        offers: Vec<OfferedUrl>,
        said: Option<Entry>,
    ) -> Result<(), Stopped> {
        let from = Some(FromInbox { prefixes, position, said });
        self.offers.send(Batch { offers, reply: None, from }).await.map_err(|_| self.stopped())
    }

    /// Returns once everything fed from the inbox of a partition, up to this position, is durable: the inbox may then
    /// delete these messages. False if the partition is no longer here.
    pub async fn inbox_is_durable(&self, prefixes: Prefixes, position: u64) -> Result<bool, Stopped> {
        let (reply, answer) = oneshot::channel();
        // Through the same channel as the offers, so that this request follows all of them.
        let from = Some(FromInbox { prefixes, position, said: None });
        let batch = Batch { offers: Vec::new(), reply: Some(reply), from };
        self.offers.send(batch).await.map_err(|_| self.stopped())?;
        match self.heard(answer).await {
            Some(_) => Ok(true),
            None if self.offers.is_closed() => Err(self.stopped()),
            None => Ok(false),
        }
    }

    /// Hands a partition over: returns when nothing of the partition is under way here and its state is durable. None
    /// if the partition is not here.
    pub async fn close(&self, prefixes: Prefixes) -> Result<Option<Closed>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Event::Close(prefixes, reply)).await?;
        match self.heard(answer).await {
            Some(closed) => Ok(Some(closed)),
            None if self.events.is_closed() => Err(self.stopped()),
            None => Ok(None),
        }
    }

    /// A page was fetched, and the report follows once the page is stored: the crawl delay of the host begins now.
    pub async fn released(&self, id: TicketId, took: Duration) -> Result<(), Stopped> {
        self.send(Event::Released(id, took)).await
    }

    /// Reports the outcome of a ticket.
    pub fn report(&self, id: TicketId, report: Report) -> impl Future<Output = Result<(), Stopped>> {
        // Boxed here: a future that holds a report is large.
        self.send(Event::Report(id, Box::new(report)))
    }

    /// Reports the result of a robots.txt request.
    pub fn robots(&self, id: TicketId, report: RobotsReport) -> impl Future<Output = Result<(), Stopped>> {
        self.send(Event::Robots(id, Box::new(report)))
    }

    /// Reports the addresses of a host; there is at least one.
    pub async fn resolved(&self, host: HostKey, addresses: &[IpAddr]) -> Result<(), Stopped> {
        self.send(Event::Resolved(host, addresses.into())).await
    }

    /// Reports that the name of a host could not be resolved.
    pub async fn unresolved(&self, host: HostKey, outcome: Outcome) -> Result<(), Stopped> {
        self.send(Event::Unresolved(host, outcome)).await
    }

    /// Runs an operator's command. Returns once the command is durable and in force.
    pub async fn command(&self, command: Command) -> Result<(), Stopped> {
        self.ask(|reply| Event::Command(command, reply)).await
    }

    /// Returns once everything reported or commanded before is durable.
    pub async fn settled(&self) -> Result<(), Stopped> {
        self.ask(|reply| Event::Settled(None, reply)).await
    }

    /// Like [`Handle::settled`], for one partition alone, regardless of the others. Returns at once if the partition is
    /// not here.
    pub async fn settled_in(&self, prefixes: Prefixes) -> Result<(), Stopped> {
        self.ask(|reply| Event::Settled(Some(prefixes), reply)).await
    }

    /// The secret under which URLs are hashed.
    pub fn secret(&self) -> &Secret {
        &self.shared.secret
    }

    /// Gives a part of a stream to the partitions of its URLs, behind all earlier parts. Returns when the worker has
    /// received the part; [`Taken::durable`] waits for durability, so that the next part can be read meanwhile. URLs
    /// whose partition is not here are left out.
    pub async fn stream(&self, part: Part) -> Result<Taken, Stopped> {
        let shares = {
            let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
            part.divided(|url: &Named| prefixes.iter().position(|here| here.holds(url.key.host.domain)))
        };
        let mut answers = Vec::with_capacity(shares.len());
        for (_, part) in shares.into_iter().filter(|(place, _)| place.is_some()) {
            let (reply, answer) = oneshot::channel();
            self.send(Event::Command(Command::Stream(Box::new(part)), reply)).await?;
            answers.push(answer);
        }
        Ok(Taken { answers, handle: self.clone() })
    }

    /// Dry run of a part of a stream: for each URL of a partition here, the record of the URL and the batch that would
    /// contain the URL; no batch if that one was taken before.
    pub async fn foresee(
        &self,
        part: Part,
    ) -> Result<Vec<(Named, Option<reflog::Batch>, Option<reflog::Record>)>, Stopped> {
        let shares = {
            let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
            part.divided(|url: &Named| prefixes.iter().position(|here| here.holds(url.key.host.domain)))
        };
        let mut all = Vec::new();
        for (_, part) in shares.into_iter().filter(|(place, _)| place.is_some()) {
            let urls = part.urls.clone();
            let foreseen = self.ask(|reply| Event::Foresee(Box::new(part), reply)).await?;
            let batch = foreseen.batch;
            all.extend(urls.into_iter().zip(foreseen.records).map(|(url, record)| (url, batch, record)));
        }
        Ok(all)
    }

    /// Whether two keys belong to the same partition, and that partition is here.
    pub fn are_together(&self, one: DomainKey, other: DomainKey) -> bool {
        let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
        prefixes.iter().any(|prefixes| prefixes.holds(one) && prefixes.holds(other))
    }

    /// Returns once everything reported before about this domain is durable and readable.
    pub async fn settled_of(&self, domain: DomainKey) -> Result<(), Stopped> {
        let of = |prefixes: &&Prefixes| prefixes.holds(domain);
        let prefixes =
            self.shared.prefixes.read().expect("nobody panics holding it").iter().find(of).copied();
        match prefixes {
            Some(prefixes) => self.settled_in(prefixes).await,
            None => Ok(()),
        }
    }

    /// Stops the worker: all earlier input is taken and made durable, and the states are checkpointed. The next owner
    /// of the partitions hands out tickets that are still open again. If the worker fails instead, [`Stopped::why`] has
    /// the cause.
    pub async fn stop(&self) -> Result<Stats, Stopped> {
        self.ask(Event::Stop).await.map(|stats| *stats)
    }

    /// Waits for room in the channel for a message about a turn. Cancel safe: a caller may drop this future and wait
    /// again.
    pub async fn room_for_turn(&self) -> Result<TurnPlace<'_>, Stopped> {
        self.events.reserve().await.map(TurnPlace).map_err(|_| self.stopped())
    }

    /// Delivers an errand of another node, or the answer to an errand.
    pub async fn errand(&self, said: Said) -> Result<(), Stopped> {
        self.send(Event::Errand(said)).await
    }

    async fn send(&self, event: Event) -> Result<(), Stopped> {
        self.events.send(event).await.map_err(|_| self.stopped())
    }

    async fn ask<T>(&self, event: impl FnOnce(oneshot::Sender<T>) -> Event) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(event(reply)).await?;
        self.heard(answer).await.ok_or_else(|| self.stopped())
    }

    /// Waits for the worker's answer; none if the worker ends first. A caller may reserve a place in a channel just
    /// before the worker ends and send a question just after: the question stays in the channel as long as a sender
    /// exists, and is never answered.
    pub(super) async fn heard<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        let mut over = self.shared.over.subscribe();
        tokio::select! {
            biased;
            heard = &mut answer => heard.ok(),
            _ = over.wait_for(|over| *over) => answer.try_recv().ok(),
        }
    }

    fn stopped(&self) -> Stopped {
        Stopped { why: self.shared.failure.get().cloned() }
    }
}

/// A part of a stream that the worker has received, and that may not be durable yet.
#[derive(Debug)]
pub struct Taken {
    answers: Vec<oneshot::Receiver<()>>,
    handle: Handle,
}

impl Taken {
    /// Returns once the whole part is durable.
    pub async fn durable(self) -> Result<(), Stopped> {
        for answer in self.answers {
            self.handle.heard(answer).await.ok_or_else(|| self.handle.stopped())?;
        }
        Ok(())
    }
}

/// A permit to send one message about a turn.
#[derive(Debug)]
pub struct TurnPlace<'a>(mpsc::Permit<'a, Event>);

impl TurnPlace<'_> {
    /// Sends the message.
    pub fn say(self, event: SlotEvent) {
        self.0.send(Event::Turn(event));
    }
}

/// The receiver of the worker's actions. The receiver starts an action at once: crawl delays count from the hand-out.
#[derive(Debug)]
pub struct Actions(pub(super) mpsc::Receiver<Action>);

impl Actions {
    /// The next action; none when the worker has ended.
    pub async fn next(&mut self) -> Option<Action> {
        self.0.recv().await
    }
}
