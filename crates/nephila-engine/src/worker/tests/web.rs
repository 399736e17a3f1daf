//! An imaginary web and a spider for it: every host is a tree of pages, and page `n` links to page `n` of the next host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nephila_core::frontier::Action;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report, Ticket};
use nephila_core::job::JobId;
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::outcome::Outcome;
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;
use tokio::task::JoinSet;

use crate::worker::{Actions, Handle, Link, Stopped};

/// The requests that the web received.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How often each page was fetched.
    pub(super) fetched: BTreeMap<String, u32>,
    /// Pages whose report is known to be durable.
    pub(super) sure: BTreeSet<String>,
    /// Hosts with a request under way.
    busy: BTreeSet<String>,
}

/// The web.
#[derive(Clone, Debug)]
pub(super) struct Web {
    pub(super) hosts: usize,
    pub(super) pages: usize,
    /// Latency of a response.
    pub(super) took: Duration,
    pub(super) seen: Arc<Mutex<Seen>>,
    /// Workers that own the other partitions.
    pub(super) others: Vec<Handle>,
}

pub(super) fn link(host: usize, page: usize) -> Link {
    let url = CrawlUrl::parse(&format!("http://h{host}.test/{page}")).unwrap();
    Link { url, want: Want::of(JobId(1)) }
}

impl Web {
    pub(super) fn new(hosts: usize, pages: usize) -> Web {
        Web { hosts, pages, took: Duration::from_millis(1), seen: Arc::default(), others: Vec::new() }
    }

    pub(super) fn fetches(&self) -> usize {
        self.seen.lock().unwrap().fetched.values().map(|count| *count as usize).sum()
    }

    /// Whether the report of every page is durable.
    pub(super) fn is_done(&self) -> bool {
        self.seen.lock().unwrap().sure.len() == self.hosts * self.pages
    }

    fn links(&self, url: &str) -> Vec<Link> {
        let (host, page) = url.strip_prefix("http://h").unwrap().split_once(".test/").unwrap();
        let (host, page): (usize, usize) = (host.parse().unwrap(), page.parse().unwrap());
        let below = [2 * page + 1, 2 * page + 2].into_iter().filter(|page| *page < self.pages);
        below.map(|page| link(host, page)).chain([link((host + 1) % self.hosts, page)]).collect()
    }

    /// Runs the worker's actions until the worker ends or this future is dropped.
    pub(super) async fn crawl(self, handle: Handle, mut actions: Actions) {
        let mut tasks = JoinSet::new();
        while let Some(action) = actions.next().await {
            while tasks.try_join_next().is_some() {}
            let (web, handle) = (self.clone(), handle.clone());
            tasks.spawn(async move {
                // The worker may end at any time; a report that is lost then leads to a second fetch.
                _ = web.act(action, handle).await;
            });
        }
    }

    async fn act(self, action: Action, handle: Handle) -> Result<(), Stopped> {
        match action {
            Action::Resolve { host, origin } => {
                let number: u32 =
                    origin.strip_prefix("http://h").unwrap().strip_suffix(".test").unwrap().parse().unwrap();
                let address = IpAddr::V4(Ipv4Addr::from_bits(0x7f01_0000 + number));
                handle.resolved(host, &[address]).await
            }
            Action::Fetch(ticket) if ticket.purpose == Purpose::Robots => {
                tokio::time::sleep(self.took).await;
                let report = RobotsReport::of(RobotsResult::Status(404), self.took);
                handle.robots(ticket.id, report).await
            }
            Action::Fetch(ticket) => self.page(ticket, handle).await,
        }
    }

    async fn page(self, ticket: Ticket, handle: Handle) -> Result<(), Stopped> {
        let host = ticket.url.rsplit_once('/').unwrap().0.to_string();
        {
            let mut seen = self.seen.lock().unwrap();
            assert!(!seen.sure.contains(&ticket.url), "{} was done for sure", ticket.url);
            *seen.fetched.entry(ticket.url.clone()).or_default() += 1;
            assert!(seen.busy.insert(host.clone()), "{host} is asked twice at once");
        }
        tokio::time::sleep(self.took).await;
        self.seen.lock().unwrap().busy.remove(&host);
        self.offer(&handle, self.links(&ticket.url)).await?;
        handle.report(ticket.id, Report::of(Outcome::Fetched, 200, self.took)).await?;
        handle.settled().await?;
        self.seen.lock().unwrap().sure.insert(ticket.url);
        Ok(())
    }

    /// Offers links to the workers that own them. During a hand-over a partition has no owner.
    async fn offer(&self, handle: &Handle, mut links: Vec<Link>) -> Result<(), Stopped> {
        loop {
            for handle in std::iter::once(handle).chain(&self.others) {
                let elsewhere = handle.offer_durably(&links).await?;
                links = elsewhere.into_iter().map(|number| links[number].clone()).collect();
            }
            if links.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Drops all connections, as after the loss of the crawling machine.
    pub(super) fn hang_up(&self) {
        self.seen.lock().unwrap().busy.clear();
    }
}
