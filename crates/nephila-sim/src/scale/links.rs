//! The links of one node's pages, through the core's own [`Outbox`]: how many messages and bytes they make on their way to
//! the other partitions.
//!
//! Invariants: links and destinations are drawn as in our capacity model; every parcel arrives, a moment later.

use std::collections::VecDeque;

use nephila_core::cluster::NodeId;
use nephila_core::cluster::outbox::{Outbox, Pushed, Settings, Stats};
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::job::JobId;
use nephila_core::key::{Secret, UrlKey};
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;

use super::super::rng::{Rng, mix};

/// Links of a page that lead to other domains: 105, of which 21 in a hundred.
const LINKS: u64 = 22;
/// One in this number of links names a new URL; the others were named lately.
const ONE_NEW_IN: u64 = 5;
/// Links that are named again.
const KNOWN_MAX: usize = 50_000;
/// Hosts that are linked to.
const HOSTS: u64 = 2_000_000;
/// A parcel has arrived after this time, in milliseconds.
const WAY: u64 = 20;
const SECRET: Secret = Secret([9; 16]);

/// The links of one node.
pub(super) struct Links {
    outbox: Outbox,
    partitions: u32,
    rng: Rng,
    known: VecDeque<(u32, OfferedUrl)>,
    on_their_way: VecDeque<(u64, u128)>,
    pages: u64,
    named: u64,
}

impl Links {
    pub(super) fn new(node: NodeId, partitions: u32, seed: u64) -> Links {
        Links {
            outbox: Outbox::new(Settings::default(), node, SECRET, seed),
            partitions,
            rng: Rng::new(seed),
            known: VecDeque::with_capacity(KNOWN_MAX),
            on_their_way: VecDeque::new(),
            pages: 0,
            named: 0,
        }
    }

    /// Pages read, and the statistics of their links.
    pub(super) fn figures(&self) -> (u64, Stats) {
        (self.pages, self.outbox.stats())
    }

    fn next(&mut self) -> (u32, OfferedUrl) {
        if !self.known.is_empty() && !self.rng.one_in(ONE_NEW_IN) {
            let at = self.rng.index(self.known.len());
            return self.known[at].clone();
        }
        self.named += 1;
        let host = self.rng.below(HOSTS);
        let (word, page) = (mix(host) >> 44, mix(self.named) >> 24);
        let url =
            CrawlUrl::parse(&format!("https://www.site-{word:05x}.example/articles/2026/{page:010x}.html"));
        let url = url.expect("a URL of ours");
        let key = UrlKey::of(&url, &SECRET);
        let partition = (u32::from(key.host.domain.prefix()) * self.partitions) >> 16;
        let link = OfferedUrl {
            key,
            origin: url.origin().into(),
            text: url.path_and_query().into(),
            want: Want::of(JobId(1)).at(3),
        };
        if self.known.len() == KNOWN_MAX {
            self.known.pop_front();
        }
        self.known.push_back((partition, link.clone()));
        (partition, link)
    }

    /// A page was read.
    pub(super) fn read(&mut self, t: u64) {
        self.pages += 1;
        for _ in 0..LINKS {
            let (partition, link) = self.next();
            let pushed = self.outbox.push(t, partition, &link, self.pages);
            debug_assert_ne!(pushed, Pushed::Full, "one node's links are few");
        }
        self.outbox.finish(self.pages);
    }

    /// Sends the parcels that are due, and acknowledges the parcels that have arrived.
    pub(super) fn tick(&mut self, t: u64) {
        while self.on_their_way.front().is_some_and(|(at, _)| *at <= t) {
            let (_, id) = self.on_their_way.pop_front().expect("just seen");
            self.outbox.handle_acked(t, id);
        }
        while let Some(parcel) = self.outbox.poll(t) {
            self.on_their_way.push_back((t + WAY, parcel.id));
        }
        while self.outbox.poll_safe().is_some() {}
    }
}
