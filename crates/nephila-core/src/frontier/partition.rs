//! One partition: its state, its buffered offers, and the entries in flight to its log.
//!
//! Work runs in a cycle. Offers are **sifted** against the state: known URLs are dropped (deduplication), new URLs are
//! queued, parked or refused. These decisions and the outcomes that arrived meanwhile become a group of entries. The
//! owner commits the group to the log, and only then is the group **folded** into the state. One group is in flight at
//! a time. Meanwhile a queue is read only up to the first place where that group inserts a URL, and neither plans nor
//! parked URLs are read. So a URL is never inserted at a place that the reader has already passed.

mod again;
mod sift;
mod spread;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::event_context::EventContextBuilder;
use super::offers::{Buffered, Offer, Offers};
use super::outlook::Held;
use super::recrawl::LastmodQueue;
use super::workbench::{HostIndex, Workbench};
use crate::budget;
use crate::entry::{Admission, Entry, FoundUrl, Group, seal};
use crate::fold::fold;
use crate::frontier::feedback::Hot;
use crate::frontier::offers::OfferedUrl;
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::reflog::part::Part;
use crate::state::queue::{LaterKey, PARKED, QueueKey};
use crate::state::record::HostRecord;
use crate::state::{Position, State, StateError};
use crate::time::{Now, Seconds};
use crate::trap;

pub(crate) use spread::Home;

/// Offers of this priority are examined even if the URL is known: the URL may wait further back in the queue.
pub const URGENT: u8 = 0;

/// Maximum number of remembered domains that have URLs parked as keys alone. Such a URL is admitted when the URL is
/// offered again.
const BARE_DOMAINS_MAX: usize = 100_000;

/// Maximum number of unloaded hosts whose next plan is remembered; others are examined more often than necessary.
const SLEPT_MAX: usize = 100_000;

/// Maximum number of URLs to fetch once more after the fetch under way; further ones count as already wanted. Larger
/// than the number of tickets that are ever open.
const ONCE_MORE_MAX: usize = 100_000;

/// Maximum number of entries that wait behind the group in flight. Beyond that (backpressure) hosts of the partition
/// receive no URLs until the group is folded.
pub(crate) const PENDING_MAX: usize = 8_192;

/// The rules of a sift.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Budgets of domains.
    pub budget: budget::Settings,
    /// Traps.
    pub trap: trap::Settings,
}

/// A group in flight to the log.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) group: Group,
    pub(crate) behind: Position,
    /// For each host the first queue place where the group inserts a URL, sorted by host.
    places: Vec<(HostKey, QueueKey)>,
    /// Known URLs that the group moves, sorted.
    moved: Vec<UrlKey>,
    /// Domains that the group spreads.
    spread: Vec<DomainKey>,
}

impl InFlight {
    fn new(group: Group, behind: Position) -> InFlight {
        let mut places: Vec<(HostKey, QueueKey)> = Vec::new();
        let mut moved: Vec<UrlKey> = Vec::new();
        let mut spread = Vec::new();
        for entry in &group.entries {
            if let Entry::Spread(decided) = entry {
                spread.push(decided.domain);
            }
            let Entry::Found(found) = entry else { continue };
            for host in &found.hosts {
                let first = host.urls.iter().filter_map(|url| url.admission.place()).min();
                places.extend(first.map(|first| (host.key, first)));
                let is_moved =
                    |url: &&FoundUrl| matches!(url.admission, Admission::Raise(_) | Admission::Again(_));
                let of_host = host.urls.iter().filter(is_moved);
                moved.extend(of_host.map(|url| UrlKey { host: host.key, path: url.path }));
            }
        }
        places.sort_unstable();
        moved.sort_unstable();
        InFlight { group, behind, places, moved, spread }
    }

    /// The first place of this host's queue that may not be read until the group is folded.
    fn first_place(&self, host: &HostKey) -> Option<QueueKey> {
        let at = self.places.partition_point(|(key, _)| key < host);
        self.places.get(at).filter(|(key, _)| key == host).map(|(_, first)| *first)
    }
}

/// One partition of the frontier.
#[derive(Debug)]
pub(crate) struct Partition<S> {
    pub(crate) prefixes: Prefixes,
    pub(crate) state: S,
    pub(crate) offers: Offers,
    /// Entries to be committed next, in this order.
    pub(crate) pending: Vec<Entry>,
    /// Parts of streams that are not decided yet, in this order.
    pub(crate) streams: VecDeque<Part>,
    /// Additional facts about the pending entries, for readers of the log.
    pub(crate) event_context: EventContextBuilder,
    /// Claims of sites about their pages, not decided yet.
    pub(crate) listed: LastmodQueue,
    pub(crate) in_flight: Option<InFlight>,
    /// Hosts that need URLs and receive them when the group in flight is folded.
    pub(crate) waiting: Vec<HostIndex>,
    pub(crate) epoch: u64,
    /// Whether the epoch stands in the log. Until then the next owner would use the same epoch (fencing).
    pub(crate) claimed: bool,
    /// Where the search for hosts with work continues.
    pub(crate) scan_from: HostKey,
    /// No search before this time (wall clock, whole seconds) unless something new arrives.
    pub(crate) scan_after: Option<Seconds>,
    /// The earliest due time that the current round has seen.
    pub(crate) scan_next: Option<Seconds>,
    /// Work came up at a host that the current round may have passed already: another round follows.
    pub(crate) scan_again: bool,
    /// The last round skipped hosts with work because their domain had its maximum of hosts on the workbench.
    pub(crate) passed_over: bool,
    /// The wall clock at the end of the last round.
    pub(crate) scanned_at: Seconds,
    /// URLs seen in the current round that wait for a resting host.
    pub(crate) scan_held: Held,
    /// The same, as of the last complete round.
    pub(crate) held: Held,
    /// When the next plan of an unloaded host is due, where the host's record holds only a lower bound.
    slept: BTreeMap<HostKey, Seconds>,
    bare: BTreeSet<DomainKey>,
    /// URLs requested again while a fetch was under way: the running fetch may return an older version than wanted.
    /// They are offered together with their outcome, so that both stand in one group. As long as the log has no
    /// outcome, the next owner that replays the log fetches them anyway.
    once_more: BTreeMap<UrlKey, OfferedUrl>,
    /// Hosts that reject links.
    pub(crate) hot: Hot,
    /// The partition is being handed over to another owner.
    pub(crate) closing: bool,
    pub(crate) sifted: Sifted,
}

/// Counters of sifting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sifted {
    /// URLs sifted.
    pub looked_at: u64,
    /// Of these, already known (deduplicated).
    pub known: u64,
    /// Queued.
    pub queued: u64,
    /// Parked, with text or without.
    pub parked: u64,
    /// Refused.
    pub refused: u64,
    /// URLs named by streams.
    pub streamed: u64,
    /// Of these, suppressed: sent within the hour, so not fetched again.
    pub suppressed: u64,
    /// Parts of streams taken in before.
    pub stream_repeats: u64,
    /// Pages whose visit was brought forward by a claim of their site.
    pub forward: u64,
}

impl Sifted {
    /// Adds the counters of another sift.
    pub(crate) fn add(&mut self, other: &Sifted) {
        let Sifted {
            looked_at,
            known,
            queued,
            parked,
            refused,
            streamed,
            suppressed,
            stream_repeats,
            forward,
        } = *other;
        self.looked_at += looked_at;
        self.known += known;
        self.queued += queued;
        self.parked += parked;
        self.refused += refused;
        self.streamed += streamed;
        self.suppressed += suppressed;
        self.stream_repeats += stream_repeats;
        self.forward += forward;
    }
}

impl<S: State> Partition<S> {
    pub(crate) fn new(prefixes: Prefixes, state: S) -> Self {
        let epoch = state.meta().epoch + 1;
        let claimed = state.position().sequence == 0;
        Partition {
            prefixes,
            state,
            offers: Offers::default(),
            pending: Vec::new(),
            streams: VecDeque::new(),
            event_context: EventContextBuilder::default(),
            listed: LastmodQueue::default(),
            in_flight: None,
            waiting: Vec::new(),
            epoch,
            // A partition without a written group has never issued a ticket.
            claimed,
            scan_from: HostKey { domain: prefixes.first_domain(), host: 0 },
            scan_after: None,
            scan_next: None,
            scan_again: false,
            passed_over: false,
            scanned_at: Seconds(0),
            scan_held: Held::default(),
            held: Held::default(),
            slept: BTreeMap::new(),
            bare: BTreeSet::new(),
            once_more: BTreeMap::new(),
            hot: Hot::default(),
            closing: false,
            sifted: Sifted::default(),
        }
    }

    /// Requests a new search from the beginning: a host may have work that no search has seen.
    pub(crate) fn search(&mut self) {
        self.scan_after = None;
        self.scan_again = true;
    }

    /// A host left the workbench, and its next plan is due at `until`.
    pub(crate) fn sleeps(&mut self, host: HostKey, until: Seconds) {
        if self.slept.len() < SLEPT_MAX {
            self.slept.insert(host, until);
        }
    }

    /// A host came back, or has another plan.
    pub(crate) fn awakes(&mut self, host: &HostKey) {
        self.slept.remove(host);
    }

    /// When the next plan of a host outside the workbench is due.
    pub(crate) fn plans_due(&self, host: &HostKey, record: &HostRecord) -> Option<Seconds> {
        let slept = self.slept.get(host).copied().unwrap_or_default();
        (record.later > 0).then_some(record.later_next.max(slept))
    }

    /// Buffers an offer under the key by which its host is known here.
    pub(crate) fn offer(&mut self, mut offer: Offer<'_>) {
        let displaced = &self.state.meta().displaced;
        if !displaced.is_empty() {
            let origin = (offer.key.host.domain, Box::from(offer.origin));
            if let Some(&host) = displaced.get(&origin) {
                offer.key.host.host = host;
            }
        }
        self.offers.push(&offer);
    }

    /// Buffers an offer of a URL to fetch now, even if the URL was fetched before.
    pub(crate) fn offer_again(&mut self, offer: Offer<'_>) {
        self.offer(offer);
        if let Some(last) = self.offers.items.last_mut() {
            last.again = true;
        }
    }

    /// The outcome of a URL is about to be written. If the URL was requested again meanwhile, that offer is written
    /// behind the outcome.
    pub(crate) fn handle_ended(&mut self, key: &UrlKey) {
        if let Some(offered) = self.once_more.remove(key) {
            self.offer_again(offered.offer());
        }
    }

    /// Notes that a URL under way is to be fetched once more.
    fn want_once_more(&mut self, item: &Buffered) {
        let room = self.once_more.len() < ONCE_MORE_MAX;
        match self.once_more.get_mut(&item.key) {
            Some(known) => {
                known.want.join(&item.want);
                known.want.depth = known.want.depth.min(item.want.depth);
            }
            None if room => _ = self.once_more.insert(item.key, self.offers.owned(item)),
            None => {}
        }
    }

    /// The next group for the log. `None` if there is nothing to write or a group is in flight.
    pub(crate) fn poll_group(
        &mut self,
        rules: &Rules,
        bench: &Workbench,
        now: Now,
    ) -> Result<Option<Vec<u8>>, StateError> {
        if self.in_flight.is_some() {
            return Ok(None);
        }
        let mut entries = std::mem::take(&mut self.pending);
        entries.extend(self.decide_streams(now)?);
        entries.extend(self.decide_listed(bench.offers_max(), now)?);
        if !self.offers.is_empty() {
            let found = self.sift(rules, bench, now)?;
            if !found.hosts.is_empty() {
                entries.push(Entry::Found(found));
            }
            self.offers.clear();
        }
        self.decide_spread(&mut entries, bench)?;
        // The first group of an owner claims the epoch, even if there is no other entry.
        if entries.is_empty() && self.claimed {
            return Ok(None);
        }
        for entry in &mut entries {
            plan_ahead(entry, bench);
        }
        let context = std::mem::take(&mut self.event_context).of(&entries, &mut self.state, bench, now)?;
        entries.extend(context.map(|context| Entry::EventContext(Box::new(context))));
        let group = Group { epoch: self.epoch, entries };
        let (bytes, behind) = seal(&group, self.state.position());
        self.in_flight = Some(InFlight::new(group, behind));
        Ok(Some(bytes))
    }

    /// The place before which the queue of a host may be read now; `None` if there is no limit.
    pub(crate) fn readable(&self, host: &HostKey) -> Option<QueueKey> {
        let parked = QueueKey { band: PARKED, ..QueueKey::MIN };
        let group = self.in_flight.as_ref()?;
        Some(group.first_place(host).map_or(parked, |first| first.min(parked)))
    }

    /// Whether the group in flight moves this URL. The URL is then read at its new place, with the properties recorded
    /// by then.
    pub(crate) fn is_moving(&self, key: &UrlKey) -> bool {
        self.in_flight.as_ref().is_some_and(|group| group.moved.binary_search(key).is_ok())
    }

    /// Backpressure: whether too many entries wait behind the group in flight to start new work.
    pub(crate) fn is_behind(&self) -> bool {
        self.in_flight.is_some() && self.pending.len() >= PENDING_MAX
    }

    /// The group in flight is durable: folds the group into the state.
    pub(crate) fn committed(&mut self) -> Result<Group, StateError> {
        let InFlight { group, behind, .. } = self.in_flight.take().expect("a group is on its way");
        fold(&mut self.state, &group, behind)?;
        self.claimed = true;
        Ok(group)
    }
}

/// Moves a plan made when the outcome arrived past the current read position of the host's plans.
fn plan_ahead(entry: &mut Entry, bench: &Workbench) {
    let Entry::Ended(ended) = entry else { return };
    let (Some(due), Some(index)) = (ended.next, bench.index(&ended.key.host)) else { return };
    let passed = bench.host(index).later_cursor;
    if (LaterKey { due, path: ended.key.path }) <= passed {
        ended.next = Some(Seconds(passed.due.0.saturating_add(1)));
    }
}
