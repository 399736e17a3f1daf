//! How the rest of the program speaks to a worker: a handle that is cheap to clone and hides the channels.
//!
//! What always holds: every channel is bounded, so whoever is faster than the worker waits. When the worker has ended,
//! every call says so and nothing hangs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use nephila_core::cluster::errand::Said;
use nephila_core::cluster::slots::Event as TurnEvent;
use nephila_core::entry::{DomainChange, Entry, HostChange};
use nephila_core::feed;
use nephila_core::feed::source::{Sighted, SourceKey};
use nephila_core::frontier::Action;
use nephila_core::frontier::downloads::{self, Cursor, Wanted};
use nephila_core::frontier::explain::Explanation;
use nephila_core::frontier::feedback::Why;
use nephila_core::frontier::feeds::{FeedView, StoryView};
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::frontier::outlook::Outlook;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::slot::SlotKey;
use nephila_core::frontier::streams::Foreseen;
use nephila_core::frontier::ticket::{Report, TicketId};
use nephila_core::frontier::views::{HostView, Known, SlotView};
use nephila_core::handler::ReadAs;
use nephila_core::job::{Hops, Job, JobId, Via};
use nephila_core::key::{DomainKey, Prefixes, Secret, UrlKey};
use nephila_core::reflog;
use nephila_core::reflog::part::{Named, Part};
use nephila_core::refusal::Refusal;
use nephila_core::spider::outcome::Outcome;
use nephila_core::state::record::HostRecord;
use nephila_core::state::totals::Work;
use nephila_core::time::Seconds;
use nephila_core::url::CrawlUrl;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Closed, HostKey, OFFERS_IN_BATCH_MAX, Stats};

/// The worker has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker has ended{}", .why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
pub struct Stopped {
    /// What went wrong, if something did.
    pub why: Option<Arc<str>>,
}

/// A URL that somebody found.
#[derive(Clone, Debug)]
pub struct Link {
    /// The URL.
    pub url: CrawlUrl,
    /// Who wants it.
    pub job: JobId,
    /// Links from a seed.
    pub depth: u8,
    /// Links out of scope and redirects that led to it.
    pub hops: Hops,
    /// How what comes back is to be read.
    pub read_as: ReadAs,
    /// 0 is the most urgent.
    pub priority: u8,
    /// How often a stream named it.
    pub hits: u32,
    /// The rule that turns it away, if there is one.
    pub refusal: Option<Refusal>,
    /// Where it was found, if that is known.
    pub via: Option<Arc<Via>>,
}

/// What an operator can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// About a host.
    Host(HostChange),
    /// About a domain.
    Domain(DomainChange),
    /// A job is new or has changed.
    Job(Box<Job>),
    /// A job is gone.
    JobRemoved(JobId),
    /// A part of a stream, of one partition.
    Stream(Box<Part>),
    /// A feed showed something to its source, which is of another partition.
    Sighted(Box<Sighted>),
    /// Pages that were fetched are wanted once more: what was kept of them is lost.
    Again(Vec<CrawlUrl>),
}

/// A link on its way to the worker.
pub(crate) fn offered(link: &Link, secret: &Secret) -> OfferedUrl {
    OfferedUrl {
        key: UrlKey::of(&link.url, secret),
        origin: link.url.origin().into(),
        text: link.url.path_and_query().into(),
        job: link.job,
        depth: link.depth,
        hops: link.hops,
        read_as: link.read_as,
        priority: link.priority,
        hits: link.hits,
        refusal: link.refusal,
        via: link.via.clone(),
    }
}

/// URLs on their way to the worker.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) offers: Vec<OfferedUrl>,
    /// Told once all of them are durable, and which are not of a partition here.
    pub(super) reply: Option<oneshot::Sender<Vec<u32>>>,
    /// Where they come from, if not from here.
    pub(super) from: Option<FromInbox>,
}

/// What was read from the inbox of a partition.
#[derive(Debug)]
pub(super) struct FromInbox {
    pub(super) prefixes: Prefixes,
    /// The inbox was read up to here once this is durable.
    pub(super) position: u64,
    /// What somebody said, to be written behind the offers.
    pub(super) said: Option<Entry>,
}

/// Everything but offers that wakes a worker.
#[derive(Debug)]
pub(super) enum Event {
    Released(TicketId, Duration),
    Report(TicketId, Box<Report>),
    Robots(TicketId, Box<RobotsReport>),
    Resolved(HostKey, Box<[IpAddr]>),
    Unresolved(HostKey, Outcome),
    Turn(TurnEvent),
    Errand(Said),
    Command(Command, oneshot::Sender<()>),
    /// Of one partition, or of all.
    Settled(Option<Prefixes>, oneshot::Sender<()>),
    Explain(Box<CrawlUrl>, oneshot::Sender<Box<Explanation>>),
    Outlook(Seconds, oneshot::Sender<Outlook>),
    Known(Vec<CrawlUrl>, oneshot::Sender<Vec<Known>>),
    SecondTries(oneshot::Sender<(u64, Option<Seconds>)>),
    Host(Box<CrawlUrl>, oneshot::Sender<Option<Box<HostView>>>),
    Slot(SlotKey, oneshot::Sender<Box<SlotView>>),
    Hosts(Option<HostKey>, usize, oneshot::Sender<Vec<(HostKey, HostRecord)>>),
    Feed(UrlKey, oneshot::Sender<Box<feed::record::Record>>),
    Feeds(Option<UrlKey>, usize, oneshot::Sender<Vec<FeedView>>),
    Source(SourceKey, oneshot::Sender<Box<feed::source::Record>>),
    Stories(Option<UrlKey>, usize, oneshot::Sender<Vec<StoryView>>),
    Downloads(Cursor, Wanted, usize, oneshot::Sender<downloads::Page>),
    Streamed(UrlKey, oneshot::Sender<Option<reflog::Record>>),
    Foresee(Box<Part>, oneshot::Sender<Foreseen>),
    Stats(oneshot::Sender<Box<Stats>>),
    Closed(Prefixes, oneshot::Sender<Vec<(HostKey, Why)>>),
    Tallies(oneshot::Sender<Vec<Tallied>>),
    Close(Prefixes, oneshot::Sender<Closed>),
    Stop(oneshot::Sender<Box<Stats>>),
}

/// What a partition has counted, as far as its log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tallied {
    /// Which.
    pub prefixes: Prefixes,
    /// Its inbox is read up to here.
    pub inbox: u64,
    /// What was done and is left of each job.
    pub jobs: BTreeMap<u32, Work>,
}

/// Speaks to a worker.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) events: mpsc::Sender<Event>,
    pub(super) offers: mpsc::Sender<Batch>,
    pub(super) shared: Arc<Shared>,
}

/// What all handles of a worker share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) secret: Secret,
    pub(super) prefixes: RwLock<Vec<Prefixes>>,
    pub(super) failure: OnceLock<Arc<str>>,
    /// The worker has ended, and its channels with it.
    pub(super) over: watch::Sender<bool>,
}

/// Says that a worker has ended, however it did, when it is dropped behind the worker's channels.
#[derive(Debug)]
pub(super) struct SaysOver(pub(super) Arc<Shared>);

impl Drop for SaysOver {
    fn drop(&mut self) {
        self.0.over.send_replace(true);
    }
}

impl Handle {
    /// The same of many URLs at once, by their keys.
    pub(crate) fn holds_each<'a>(&self, domains: impl Iterator<Item = DomainKey> + 'a) -> Vec<bool> {
        let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
        domains.map(|domain| prefixes.iter().any(|prefixes| prefixes.holds(domain))).collect()
    }

    /// Is this URL of one of the worker's partitions? Those that are not come back when offered durably.
    pub fn holds(&self, url: &CrawlUrl) -> bool {
        self.holds_domain(UrlKey::of(url, &self.shared.secret).host.domain)
    }

    /// Is this domain of one of the worker's partitions?
    pub(crate) fn holds_domain(&self, domain: DomainKey) -> bool {
        let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
        prefixes.iter().any(|prefixes| prefixes.holds(domain))
    }

    /// The key of a URL, in this crawl.
    pub fn key(&self, url: &CrawlUrl) -> UrlKey {
        UrlKey::of(url, &self.shared.secret)
    }

    /// Offers URLs, waiting while the worker is behind. They are durable some time later.
    pub async fn offer(&self, links: &[Link]) -> Result<(), Stopped> {
        for links in links.chunks(OFFERS_IN_BATCH_MAX) {
            let offers = links.iter().map(|link| offered(link, &self.shared.secret)).collect();
            let batch = Batch { offers, reply: None, from: None };
            self.offers.send(batch).await.map_err(|_| self.stopped())?;
        }
        Ok(())
    }

    /// The same with links that have their keys already.
    pub(crate) async fn offer_urls_durably(&self, mut urls: Vec<OfferedUrl>) -> Result<Vec<usize>, Stopped> {
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

    /// Offers URLs and waits until all of them are durable. The links of a page are offered like this before the page
    /// is reported: otherwise a crash between the two would lose them. Gives the numbers of those that are of partitions
    /// which are not here: nothing was done about them.
    pub async fn offer_durably(&self, links: &[Link]) -> Result<Vec<usize>, Stopped> {
        // Keys are made here: hashing is spread over those who find links.
        self.offer_urls_durably(links.iter().map(|link| offered(link, &self.shared.secret)).collect()).await
    }

    /// Feeds what was read from the inbox of a partition, up to this position. Returns when it was taken, which is before
    /// it is durable: the inbox is read again from the position in the state. If the partition is not here any
    /// more, nothing is taken of it.
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

    /// Returns once everything that was fed from the inbox of a partition, up to this position, is durable: it may then be
    /// removed there. False if the partition is not here any more.
    pub async fn inbox_is_durable(&self, prefixes: Prefixes, position: u64) -> Result<bool, Stopped> {
        let (reply, answer) = oneshot::channel();
        // The same way as what was fed, so that it comes behind all of it.
        let from = Some(FromInbox { prefixes, position, said: None });
        let batch = Batch { offers: Vec::new(), reply: Some(reply), from };
        self.offers.send(batch).await.map_err(|_| self.stopped())?;
        match self.heard(answer).await {
            Some(_) => Ok(true),
            None if self.offers.is_closed() => Err(self.stopped()),
            None => Ok(false),
        }
    }

    /// Hands a partition over: returns when nothing of it is under way here and its state is durable. None if it is not
    /// here.
    pub async fn close(&self, prefixes: Prefixes) -> Result<Option<Closed>, Stopped> {
        let (reply, answer) = oneshot::channel();
        self.send(Event::Close(prefixes, reply)).await?;
        match self.heard(answer).await {
            Some(closed) => Ok(Some(closed)),
            None if self.events.is_closed() => Err(self.stopped()),
            None => Ok(None),
        }
    }

    /// A page was fetched, and its report will follow once it is stored: its host may be asked again when it has rested.
    pub async fn released(&self, id: TicketId, took: Duration) -> Result<(), Stopped> {
        self.send(Event::Released(id, took)).await
    }

    /// A page was fetched, or was not.
    pub async fn report(&self, id: TicketId, report: Report) -> Result<(), Stopped> {
        self.send(Event::Report(id, Box::new(report))).await
    }

    /// A robots.txt was asked for.
    pub async fn robots(&self, id: TicketId, report: RobotsReport) -> Result<(), Stopped> {
        self.send(Event::Robots(id, Box::new(report))).await
    }

    /// The addresses of a host; there is at least one.
    pub async fn resolved(&self, host: HostKey, addresses: &[IpAddr]) -> Result<(), Stopped> {
        self.send(Event::Resolved(host, addresses.into())).await
    }

    /// The name of a host could not be resolved.
    pub async fn unresolved(&self, host: HostKey, outcome: Outcome) -> Result<(), Stopped> {
        self.send(Event::Unresolved(host, outcome)).await
    }

    /// An operator's word. Returns once it is durable and in force.
    pub async fn command(&self, command: Command) -> Result<(), Stopped> {
        self.ask(|reply| Event::Command(command, reply)).await
    }

    /// Returns once everything that was reported or said before is durable.
    pub async fn settled(&self) -> Result<(), Stopped> {
        self.ask(|reply| Event::Settled(None, reply)).await
    }

    /// The same for one partition alone, whatever the others wait for. At once if it is not here.
    pub async fn settled_in(&self, prefixes: Prefixes) -> Result<(), Stopped> {
        self.ask(|reply| Event::Settled(Some(prefixes), reply)).await
    }

    /// The secret under which URLs are hashed.
    pub(crate) fn secret(&self) -> &Secret {
        &self.shared.secret
    }

    /// Gives a part of a stream to the partitions of its URLs, behind all that were given before it. Returns when it was
    /// taken; it is durable when [`Taken::durable`] says so, so that the next can be read meanwhile. What is of partitions
    /// that are not here is left out.
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

    /// What would be decided about a part of a stream, without deciding it: for each URL that is of a partition here, what is
    /// remembered of it, and the batch that it would come in, none if that was taken in before.
    pub(crate) async fn foresee(
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

    /// What is remembered of a URL that a stream named.
    pub async fn streamed(&self, key: UrlKey) -> Result<Option<reflog::Record>, Stopped> {
        self.ask(|reply| Event::Streamed(key, reply)).await
    }

    /// Why a URL is where it is.
    pub async fn explain(&self, url: &CrawlUrl) -> Result<Explanation, Stopped> {
        self.ask(|reply| Event::Explain(Box::new(url.clone()), reply)).await.map(|explanation| *explanation)
    }

    /// The host of a URL. None if nothing is known of it here.
    pub async fn host(&self, url: &CrawlUrl) -> Result<Option<HostView>, Stopped> {
        self.ask(|reply| Event::Host(Box::new(url.clone()), reply)).await.map(|view| view.map(|view| *view))
    }

    /// An address: who is reached there, and when it may be asked.
    pub async fn slot(&self, address: IpAddr) -> Result<SlotView, Stopped> {
        self.ask(|reply| Event::Slot(SlotKey::of(address), reply)).await.map(|view| *view)
    }

    /// The first hosts from a key on, in the order of keys
    /// ([`Frontier::hosts_page`](nephila_core::frontier::Frontier::hosts_page)).
    pub async fn hosts(
        &self,
        from: Option<HostKey>,
        max: usize,
    ) -> Result<Vec<(HostKey, HostRecord)>, Stopped> {
        self.ask(|reply| Event::Hosts(from, max, reply)).await
    }

    /// What is remembered of each of these URLs and of its host.
    pub async fn known(&self, urls: Vec<CrawlUrl>) -> Result<Vec<Known>, Stopped> {
        self.ask(|reply| Event::Known(urls, reply)).await
    }

    /// How many URLs failed and are to be tried again, and when the first of them is
    /// ([`Frontier::second_tries`](nephila_core::frontier::Frontier::second_tries)).
    pub async fn second_tries(&self) -> Result<(u64, Option<Seconds>), Stopped> {
        self.ask(Event::SecondTries).await
    }

    /// What is remembered of a feed.
    pub async fn feed(&self, key: UrlKey) -> Result<feed::record::Record, Stopped> {
        self.ask(|reply| Event::Feed(key, reply)).await.map(|record| *record)
    }

    /// The first feeds from a key on, in the order of keys.
    pub async fn feeds(&self, from: Option<UrlKey>, max: usize) -> Result<Vec<FeedView>, Stopped> {
        self.ask(|reply| Event::Feeds(from, max, reply)).await
    }

    /// What is remembered of a source.
    pub async fn source(&self, key: SourceKey) -> Result<feed::source::Record, Stopped> {
        self.ask(|reply| Event::Source(key, reply)).await.map(|record| *record)
    }

    /// The first stories from a key on, in the order of keys: those of a source together, the oldest first.
    pub async fn stories(&self, from: Option<UrlKey>, max: usize) -> Result<Vec<StoryView>, Stopped> {
        self.ask(|reply| Event::Stories(from, max, reply)).await
    }

    /// Downloads from a cursor on, and where the next page begins
    /// ([`Frontier::downloads_page`](nephila_core::frontier::Frontier::downloads_page)).
    pub async fn downloads(
        &self,
        from: Cursor,
        wanted: Wanted,
        max: usize,
    ) -> Result<downloads::Page, Stopped> {
        self.ask(|reply| Event::Downloads(from, wanted, max, reply)).await
    }

    /// Are the partitions of two keys the same one, and here?
    pub(crate) fn are_together(&self, one: DomainKey, other: DomainKey) -> bool {
        let prefixes = self.shared.prefixes.read().expect("nobody panics holding it");
        prefixes.iter().any(|prefixes| prefixes.holds(one) && prefixes.holds(other))
    }

    /// Returns once everything that was reported before about this domain is durable and can be read.
    pub(crate) async fn settled_of(&self, domain: DomainKey) -> Result<(), Stopped> {
        let of = |prefixes: &&Prefixes| prefixes.holds(domain);
        let prefixes =
            self.shared.prefixes.read().expect("nobody panics holding it").iter().find(of).copied();
        match prefixes {
            Some(prefixes) => self.settled_in(prefixes).await,
            None => Ok(()),
        }
    }

    /// What the frontier waits for, and whether there is nothing left before the horizon
    /// ([`Frontier::left`](nephila_core::frontier::Frontier::left)). What was offered and is not durable yet may
    /// still be on its way here: whoever asks in order to end has offered durably.
    pub async fn outlook(&self, horizon: Seconds) -> Result<Outlook, Stopped> {
        self.ask(|reply| Event::Outlook(horizon, reply)).await
    }

    /// Hosts of a partition that turn so many links away that nobody need send any. None if it is not here.
    pub async fn closed_hosts(&self, prefixes: Prefixes) -> Result<Vec<(HostKey, Why)>, Stopped> {
        self.ask(|reply| Event::Closed(prefixes, reply)).await
    }

    /// What each partition has done and has left of each job.
    pub async fn tallies(&self) -> Result<Vec<Tallied>, Stopped> {
        self.ask(Event::Tallies).await
    }

    /// What the worker did and holds.
    pub async fn stats(&self) -> Result<Stats, Stopped> {
        self.ask(Event::Stats).await.map(|stats| *stats)
    }

    /// Ends the worker: what was said before is taken in and made durable, the states are checkpointed. Tickets that
    /// are still open are given out again by whoever opens the partitions next. If there is no answer, ask
    /// [`Stopped::why`].
    pub async fn stop(&self) -> Result<Stats, Stopped> {
        self.ask(Event::Stop).await.map(|stats| *stats)
    }

    /// Waits until the worker has room for a word about a turn. Whoever waits may give up and wait again.
    pub(crate) async fn room_for_turn(&self) -> Result<TurnPlace<'_>, Stopped> {
        self.events.reserve().await.map(TurnPlace).map_err(|_| self.stopped())
    }

    /// Another node asks for an errand, or answers one.
    pub(crate) async fn errand(&self, said: Said) -> Result<(), Stopped> {
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

    /// What the worker answers, if it does. Somebody may find room in a channel just before the worker ends and put a
    /// question in just after: it stays there as long as anybody holds the channel, and nobody takes it out any more.
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

/// A part of a stream that the worker has, and that may not be durable yet.
#[derive(Debug)]
pub struct Taken {
    answers: Vec<oneshot::Receiver<()>>,
    handle: Handle,
}

impl Taken {
    /// Returns once all of it is durable.
    pub async fn durable(self) -> Result<(), Stopped> {
        for answer in self.answers {
            self.handle.heard(answer).await.ok_or_else(|| self.handle.stopped())?;
        }
        Ok(())
    }
}

/// Room for a word about a turn.
#[derive(Debug)]
pub(crate) struct TurnPlace<'a>(mpsc::Permit<'a, Event>);

impl TurnPlace<'_> {
    /// Says it.
    pub(crate) fn say(self, event: TurnEvent) {
        self.0.send(Event::Turn(event));
    }
}

/// What the worker wants done. Whoever takes an action starts it at once: rests are counted from the moment it was
/// handed out.
#[derive(Debug)]
pub struct Actions(pub(super) mpsc::Receiver<Action>);

impl Actions {
    /// The next one; none when the worker has ended.
    pub async fn next(&mut self) -> Option<Action> {
        self.0.recv().await
    }
}
