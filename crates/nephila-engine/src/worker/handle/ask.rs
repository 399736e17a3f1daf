//! Questions to a worker, each answered from one moment of its frontier and its states.

use std::net::IpAddr;

use nephila_core::feed::source::SourceKey;
use nephila_core::frontier::downloads::{self, Cursor, Wanted};
use nephila_core::frontier::explain::Explanation;
use nephila_core::frontier::feedback::FeedbackReason;
use nephila_core::frontier::feeds::{FeedView, StoryView};
use nephila_core::frontier::outlook::{Left, Outlook};
use nephila_core::frontier::rows::HostRow;
use nephila_core::frontier::slot::SlotKey;
use nephila_core::frontier::views::{HostView, Known, SlotView, Standings};
use nephila_core::key::{HostKey, Prefixes, UrlKey};
use nephila_core::state::record::HostRecord;
use nephila_core::time::Seconds;
use nephila_core::url::CrawlUrl;
use nephila_core::{feed, reflog};

use super::super::Stats;
use super::{Event, Handle, Stopped, Tallied};

impl Handle {
    /// The record of a URL that a stream named.
    pub async fn streamed(&self, key: UrlKey) -> Result<Option<reflog::Record>, Stopped> {
        self.ask(|reply| Event::Streamed(key, reply)).await
    }

    /// Explains the status of a URL.
    pub async fn explain(&self, url: &CrawlUrl) -> Result<Explanation, Stopped> {
        self.ask(|reply| Event::Explain(Box::new(url.clone()), reply)).await.map(|explanation| *explanation)
    }

    /// The host of a URL. None if the host is unknown here.
    pub async fn host(&self, url: &CrawlUrl) -> Result<Option<HostView>, Stopped> {
        self.ask(|reply| Event::Host(Box::new(url.clone()), reply)).await.map(|view| view.map(|view| *view))
    }

    /// An address: its hosts, and the time of the next permitted request.
    pub async fn slot(&self, address: IpAddr) -> Result<SlotView, Stopped> {
        self.ask(|reply| Event::Slot(SlotKey::of(address), reply)).await.map(|view| *view)
    }

    /// The first page of hosts from a key on, in the order of keys
    /// ([`Frontier::hosts_page`](nephila_core::frontier::Frontier::hosts_page)).
    pub async fn hosts(
        &self,
        from: Option<HostKey>,
        max: usize,
    ) -> Result<Vec<(HostKey, HostRecord)>, Stopped> {
        self.ask(|reply| Event::Hosts(from, max, reply)).await
    }

    /// The same page of hosts as rows of a list, each with its standing on the workbench
    /// ([`Frontier::host_rows`](nephila_core::frontier::Frontier::host_rows)).
    pub async fn host_rows(&self, from: Option<HostKey>, max: usize) -> Result<Vec<HostRow>, Stopped> {
        self.ask(|reply| Event::HostRows(from, max, reply)).await
    }

    /// The record of each of these URLs and of its host.
    pub async fn known(&self, urls: Vec<CrawlUrl>) -> Result<Vec<Known>, Stopped> {
        self.ask(|reply| Event::Known(urls, reply)).await
    }

    /// The number of failed URLs that wait for a retry, and the time of the first retry
    /// ([`Frontier::second_tries`](nephila_core::frontier::Frontier::second_tries)).
    pub async fn second_tries(&self) -> Result<(u64, Option<Seconds>), Stopped> {
        self.ask(Event::SecondTries).await
    }

    /// The record of a feed.
    pub async fn feed(&self, key: UrlKey) -> Result<feed::record::Record, Stopped> {
        self.ask(|reply| Event::Feed(key, reply)).await.map(|record| *record)
    }

    /// The first page of feeds from a key on, in the order of keys.
    pub async fn feeds(&self, from: Option<UrlKey>, max: usize) -> Result<Vec<FeedView>, Stopped> {
        self.ask(|reply| Event::Feeds(from, max, reply)).await
    }

    /// The record of a source.
    pub async fn source(&self, key: SourceKey) -> Result<feed::source::Record, Stopped> {
        self.ask(|reply| Event::Source(key, reply)).await.map(|record| *record)
    }

    /// The first page of stories from a key on, in the order of keys: the stories of a source together, the oldest
    /// first.
    pub async fn stories(&self, from: Option<UrlKey>, max: usize) -> Result<Vec<StoryView>, Stopped> {
        self.ask(|reply| Event::Stories(from, max, reply)).await
    }

    /// A page of downloads from a cursor on, and the cursor of the next page
    /// ([`Frontier::downloads_page`](nephila_core::frontier::Frontier::downloads_page)).
    pub async fn downloads(
        &self,
        from: Cursor,
        wanted: Wanted,
        max: usize,
    ) -> Result<downloads::Page, Stopped> {
        self.ask(|reply| Event::Downloads(from, wanted, max, reply)).await
    }

    /// What the frontier waits for, and whether there is nothing left before the horizon
    /// ([`Frontier::left`](nephila_core::frontier::Frontier::left)). Offers that are not durable yet are not counted: a
    /// caller that wants to end the crawl must have offered durably.
    pub async fn outlook(&self, horizon: Seconds) -> Result<Outlook, Stopped> {
        self.ask(|reply| Event::Outlook(horizon, reply)).await
    }

    /// Whether there is nothing left before the horizon, like [`Handle::outlook`] says, but cheap while there is much to
    /// do. Offers that the worker has taken count, durable or not.
    pub async fn left(&self, horizon: Seconds) -> Result<Left, Stopped> {
        self.ask(|reply| Event::Left(horizon, reply)).await
    }

    /// Returns as soon as nothing is left before the horizon, like [`Handle::left`] says. May return late while URLs that
    /// were never tried wait for stopped hosts: a caller also asks [`Handle::outlook`] now and then. Cancel safe.
    pub async fn nothing_left(&self, horizon: Seconds) -> Result<(), Stopped> {
        self.ask(|reply| Event::NothingLeft(horizon, reply)).await
    }

    /// Hosts of a partition that reject a large number of links, so that senders need not send them. Empty if the
    /// partition is not here.
    pub async fn closed_hosts(&self, prefixes: Prefixes) -> Result<Vec<(HostKey, FeedbackReason)>, Stopped> {
        self.ask(|reply| Event::Closed(prefixes, reply)).await
    }

    /// Work done and left of each job, by partition.
    pub async fn tallies(&self) -> Result<Vec<Tallied>, Stopped> {
        self.ask(Event::Tallies).await
    }

    /// The counters and gauges of the worker.
    pub async fn stats(&self) -> Result<Stats, Stopped> {
        self.ask(Event::Stats).await.map(|stats| *stats)
    }

    /// The number of hosts and addresses in memory, by state. Visits every host: not for every look.
    pub async fn standings(&self) -> Result<Standings, Stopped> {
        self.ask(Event::Standings).await
    }
}
