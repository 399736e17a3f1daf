//! Links on their way to other partitions, and which pages wait for them.
//!
//! A link that was sent lately is dropped (deduplication). The others are collected per destination and leave as a
//! **parcel** when 64 kB are together, when the oldest has waited long enough, or at once if one is urgent. While a
//! node is busy a small parcel waits longer, since no fetch depends on its links soon, unless too many pages wait for
//! parcels. A destination has one parcel in flight at a time. A parcel without an acknowledgement is sent again
//! (retry), with the same number and the same bytes, so that the inbox can drop the repeat.
//!
//! A page is **safe** once the page was [finished](Outbox::finish) and every parcel that carries one of its links is
//! acknowledged. A link that was dropped because another page named the same link a moment ago is carried by that
//! page's parcel: both pages wait for this parcel.
//!
//! Usage: [`Outbox::push`] for each link of a page (on [`Pushed::Full`], send first), then [`Outbox::finish`];
//! [`Outbox::poll`] until there is nothing, sleep until [`Outbox::poll_timeout`]; call [`Outbox::handle_acked`] or
//! [`Outbox::handle_failed`] for each parcel; [`Outbox::poll_safe`] gives the pages that may be reported.
//!
//! A destination that cannot keep up ([`Outbox::set_slow`]) is sent one parcel now and then (backpressure); callers
//! with more links for this destination wait.
//!
//! Invariants: per destination at most [`Settings::waiting_bytes_max`] and one link wait, in all at most
//! [`Settings::bytes_max`] and one link; parcels of a destination leave in the order of their numbers.

mod recent;
#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use recent::{Recent, mark};

use super::NodeId;
use super::message::Message;
use crate::frontier::URGENT;
use crate::frontier::offers::OfferedUrl;
use crate::key::Secret;

/// The first wait before a parcel is sent again, in milliseconds; each next one is twice as long (exponential
/// backoff).
const AGAIN_AFTER: u64 = 500;

/// The longest wait before a parcel is sent again, in milliseconds.
const AGAIN_AFTER_MAX: u64 = 8_000;

/// Interval between two parcels to a destination that lags, in milliseconds.
const SLOW_AFTER: u64 = 4_000;

/// A small parcel of a busy node waits for this multiple of [`Settings::parcel_age`].
const PATIENCE: u64 = 6;

/// A parcel is small below [`Settings::parcel_bytes`] divided by this number.
const SMALL_SHARE: usize = 2;

/// Window over which links are counted, in milliseconds. A node that is no longer busy sends its waiting parcels
/// after this time.
const PACE_WINDOW: u64 = 1_000;

/// After a hand-over of a partition began, small parcels do not wait longer for this time, in milliseconds.
const HURRY: u64 = 10_000;

/// From this number of waiting pages on, small parcels do not wait longer: fetching would be held up. Below half of
/// this number they may wait longer again.
const PAGES_MANY: usize = 1_024;

/// How links to other partitions are collected. Section `[cluster.outbox]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// A parcel leaves when it holds this number of bytes, before packing.
    pub parcel_bytes: usize,
    /// A parcel leaves when its oldest link has waited this long. A small parcel of a busy node waits six times as
    /// long. A longer wait means fewer and better packed messages; pages are reported later by the same time.
    #[serde(with = "humantime_serde")]
    pub parcel_age: Duration,
    /// A node whose pages name this number of links a second is busy: links found a moment ago are not fetched next.
    pub busy_links: u64,
    /// Maximum number of bytes that wait for one destination, the parcel in flight included. Callers with more links
    /// wait.
    pub waiting_bytes_max: usize,
    /// Maximum number of bytes that wait for all destinations together.
    pub bytes_max: usize,
    /// Number of links remembered as sent lately. A remembered link that is found again is dropped here and costs
    /// nothing.
    pub recent_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            parcel_bytes: 64 << 10,
            parcel_age: Duration::from_secs(1),
            busy_links: 1_000,
            waiting_bytes_max: 512 << 10,
            bytes_max: 64 << 20,
            recent_max: 1 << 18,
        }
    }
}

/// The result of pushing a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The link will be sent.
    Taken,
    /// The link was sent or is about to be: nothing more to do.
    Recent,
    /// The buffer of this destination is full: send first, then push the link again.
    Full,
}

/// A message to a partition's inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// Its number, for deduplication: the inbox stores each number once. A retry has the same number.
    pub id: u128,
    /// The destination.
    pub partition: u32,
    /// The message.
    pub bytes: Bytes,
    /// Number of pages that wait for this parcel.
    pub pages: usize,
}

/// Counters of the outbox. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Links that were pushed and not turned back.
    pub pushed: u64,
    /// Of these, links sent lately.
    pub recent: u64,
    /// Links turned back because the buffer was full.
    pub full: u64,
    /// Parcels that were acknowledged.
    pub parcels: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Parcels sent again.
    pub again: u64,
}

/// Links on their way to other partitions.
#[derive(Debug)]
pub struct Outbox {
    settings: Settings,
    from: NodeId,
    secret: Secret,
    /// The high half of each parcel's number: no other outbox has the same.
    nonce: u64,
    next: u64,
    to: BTreeMap<u32, Destination>,
    /// When a destination without a parcel in flight has a parcel to send.
    due: BTreeSet<(u64, u32)>,
    /// Destinations that cannot keep up, and when the last parcel left for them.
    slow: BTreeMap<u32, u64>,
    bytes: usize,
    pace: Pace,
    recent: Recent,
    /// Pages that are not safe.
    pages: BTreeMap<u64, Page>,
    safe: VecDeque<u64>,
    stats: Stats,
}

#[derive(Debug, Default)]
struct Destination {
    /// The first batch is in flight or the next to leave; the last is being filled unless packed.
    batches: VecDeque<Batch>,
    bytes: usize,
    on_its_way: bool,
    /// The entry in `Outbox::due`, if there is one.
    due: Option<u64>,
    tries: u32,
    /// After a failure: the earliest time of the retry.
    not_before: u64,
}

#[derive(Debug)]
struct Batch {
    number: u64,
    links: Vec<OfferedUrl>,
    bytes: usize,
    /// When its first link came.
    began: u64,
    urgent: bool,
    pages: BTreeSet<u64>,
    /// The bytes that were sent; they never change again.
    packed: Option<Bytes>,
}

/// How busy the node is.
#[derive(Debug, Default)]
struct Pace {
    /// Since when links are counted, and how many came.
    since: u64,
    links: u64,
    busy: bool,
    /// Until then a hand-over waits for the last pages of a partition.
    hurry_until: u64,
    /// Whether small parcels may wait longer.
    patient: bool,
}

#[derive(Debug, Default)]
struct Page {
    /// Batches that carry one of its links and are not acknowledged.
    batches: usize,
    finished: bool,
}

impl Outbox {
    /// An empty outbox. `nonce` is a number that no other outbox ever had: the parcels of two outboxes differ by the
    /// nonce.
    pub fn new(settings: Settings, from: NodeId, secret: Secret, nonce: u64) -> Outbox {
        Outbox {
            recent: Recent::new(settings.recent_max),
            settings,
            from,
            secret,
            nonce,
            next: 1,
            to: BTreeMap::new(),
            due: BTreeSet::new(),
            slow: BTreeMap::new(),
            bytes: 0,
            pace: Pace::default(),
            pages: BTreeMap::new(),
            safe: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Bytes that wait, the parcels in flight included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Pages that are not safe yet.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Whether the buffer of this destination is full, so that no more links are taken.
    pub fn is_full(&self, partition: u32) -> bool {
        let waiting = self.to.get(&partition).map_or(0, |to| to.bytes);
        waiting >= self.settings.waiting_bytes_max || self.bytes >= self.settings.bytes_max
    }

    /// Sets the destinations that cannot keep up: they are sent a parcel now and then. Callers with links for them
    /// wait when the buffer is full.
    pub fn set_slow(&mut self, now: u64, slow: &BTreeSet<u32>) {
        let before: BTreeSet<u32> = self.slow.keys().copied().collect();
        for partition in before.symmetric_difference(slow) {
            match slow.contains(partition) {
                true => _ = self.slow.insert(*partition, now),
                false => _ = self.slow.remove(partition),
            }
            self.schedule(*partition, now);
        }
    }

    /// A partition is being handed over, and the hand-over waits for its last pages: small parcels do not wait longer
    /// for a while.
    pub fn hurry(&mut self, now: u64) {
        self.pace.hurry_until = now + HURRY;
        self.look_at_pace(now);
    }

    /// Takes a URL of another partition that a page names.
    pub fn push(&mut self, now: u64, partition: u32, url: impl Borrow<OfferedUrl>, page: u64) -> Pushed {
        let url = url.borrow();
        let mark = mark(url);
        let urgent = url.want.priority == URGENT;
        self.pace.links += 1;
        self.look_at_pace(now);
        if !urgent && let Some(number) = self.recent.batch_of(mark) {
            self.wait_for(partition, number, page);
            self.stats.pushed += 1;
            self.stats.recent += 1;
            return Pushed::Recent;
        }
        if self.is_full(partition) {
            self.stats.full += 1;
            return Pushed::Full;
        }
        self.stats.pushed += 1;
        let size = url.bytes();
        let to = self.to.entry(partition).or_default();
        let open = to
            .batches
            .back()
            .is_some_and(|batch| batch.packed.is_none() && batch.bytes < self.settings.parcel_bytes);
        if !open {
            let number = self.next;
            self.next += 1;
            let (links, pages) = (Vec::new(), BTreeSet::new());
            let batch = Batch { number, links, bytes: 0, began: now, urgent: false, pages, packed: None };
            to.batches.push_back(batch);
        }
        let batch = to.batches.back_mut().expect("there is one now");
        batch.links.push(url.clone());
        batch.bytes += size;
        batch.urgent |= urgent;
        to.bytes += size;
        self.bytes += size;
        let number = batch.number;
        self.recent.note(mark, number);
        self.wait_for(partition, number, page);
        self.schedule(partition, now);
        Pushed::Taken
    }

    /// A page waits for a batch, unless the batch is acknowledged.
    fn wait_for(&mut self, partition: u32, number: u64, page: u64) {
        let to = self.to.get_mut(&partition);
        let batch = to.and_then(|to| to.batches.iter_mut().find(|batch| batch.number == number));
        if let Some(batch) = batch
            && batch.pages.insert(page)
        {
            self.pages.entry(page).or_default().batches += 1;
        }
    }

    /// All links of this page were pushed.
    pub fn finish(&mut self, page: u64) {
        let entry = self.pages.entry(page).or_default();
        entry.finished = true;
        if entry.batches == 0 {
            self.pages.remove(&page);
            self.safe.push_back(page);
        }
    }

    /// The ticket of this page is gone, so the page is not reported. Its links travel all the same.
    pub fn forget(&mut self, page: u64) {
        if self.pages.remove(&page).is_some() {
            for to in self.to.values_mut() {
                to.batches.iter_mut().for_each(|batch| _ = batch.pages.remove(&page));
            }
        }
        self.safe.retain(|safe| *safe != page);
    }

    /// A page whose links have all arrived.
    pub fn poll_safe(&mut self) -> Option<u64> {
        self.safe.pop_front()
    }

    /// A parcel to send now.
    pub fn poll(&mut self, now: u64) -> Option<Parcel> {
        self.look_at_pace(now);
        let &(due, partition) = self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        let to = self.to.get_mut(&partition).expect("it has something to send");
        to.due = None;
        to.on_its_way = true;
        if let Some(left) = self.slow.get_mut(&partition) {
            *left = now;
        }
        let batch = to.batches.front_mut().expect("it has something to send");
        let bytes = match &batch.packed {
            Some(packed) => packed.clone(),
            None => {
                let offers = std::mem::take(&mut batch.links);
                let message = Message::Offers { from: self.from, offers };
                let packed = Bytes::from(message.encode(&self.secret));
                // From here on the batch takes its packed size.
                let size = packed.len().min(batch.bytes);
                let saved = batch.bytes - size;
                (batch.bytes, to.bytes, self.bytes) = (size, to.bytes - saved, self.bytes - saved);
                batch.packed.insert(packed).clone()
            }
        };
        Some(Parcel { id: id(self.nonce, batch.number), partition, bytes, pages: batch.pages.len() })
    }

    /// When to call [`Outbox::poll`] again if nothing happens, in milliseconds on the clock of `push` and `poll`.
    pub fn poll_timeout(&self) -> Option<u64> {
        let &(at, _) = self.due.first()?;
        // Parcels that wait because the node is busy wait no longer once the node is not.
        Some(if self.pace.patient { at.min(self.pace.since + PACE_WINDOW) } else { at })
    }

    /// A parcel is in its inbox. Idempotent; an unknown parcel changes nothing.
    pub fn handle_acked(&mut self, now: u64, id: u128) {
        let Some((partition, to)) = self.on_its_way(id) else { return };
        let batch = to.batches.pop_front().expect("it is on its way");
        (to.on_its_way, to.tries, to.not_before) = (false, 0, 0);
        to.bytes -= batch.bytes;
        self.bytes -= batch.bytes;
        self.stats.parcels += 1;
        self.stats.bytes += batch.packed.map_or(0, |packed| packed.len() as u64);
        for page in batch.pages {
            let Some(entry) = self.pages.get_mut(&page) else { continue };
            entry.batches -= 1;
            if entry.batches == 0 && entry.finished {
                self.pages.remove(&page);
                self.safe.push_back(page);
            }
        }
        if self.to.get(&partition).is_some_and(|to| to.batches.is_empty()) {
            self.to.remove(&partition);
        }
        self.schedule(partition, now);
    }

    /// A parcel may or may not have arrived: the parcel is sent again after a backoff.
    pub fn handle_failed(&mut self, now: u64, id: u128) {
        let Some((partition, to)) = self.on_its_way(id) else { return };
        to.on_its_way = false;
        to.not_before = now + (AGAIN_AFTER << to.tries.min(8)).min(AGAIN_AFTER_MAX);
        to.tries += 1;
        self.stats.again += 1;
        self.schedule(partition, now);
    }

    /// The destination of a parcel in flight.
    fn on_its_way(&mut self, id: u128) -> Option<(u32, &mut Destination)> {
        if (id >> 64) as u64 != self.nonce {
            return None;
        }
        let number = id as u64;
        let this = |to: &Destination| {
            to.on_its_way && to.batches.front().is_some_and(|batch| batch.number == number)
        };
        self.to.iter_mut().find(|(_, to)| this(to)).map(|(partition, to)| (*partition, to))
    }

    /// Decides whether small parcels may wait longer. When they no longer may, all destinations are scheduled anew.
    fn look_at_pace(&mut self, now: u64) {
        let Pace { since, links, busy, hurry_until, patient } = &mut self.pace;
        let passed = now.saturating_sub(*since);
        if passed >= PACE_WINDOW {
            *busy = links.saturating_mul(1_000) >= self.settings.busy_links.saturating_mul(passed);
            (*since, *links) = (now, 0);
        }
        let pages_max = if *patient { PAGES_MANY } else { PAGES_MANY / 2 };
        let may = *busy && self.pages.len() < pages_max && now >= *hurry_until;
        let was = std::mem::replace(patient, may);
        if was && !*patient {
            let all: Vec<u32> = self.to.keys().copied().collect();
            all.into_iter().for_each(|partition| self.schedule(partition, now));
        }
    }

    /// Schedules the first batch of a destination.
    fn schedule(&mut self, partition: u32, now: u64) {
        let Some(to) = self.to.get_mut(&partition) else { return };
        if to.on_its_way {
            return;
        }
        let Some(batch) = to.batches.front() else { return };
        let at_once = batch.urgent
            || batch.packed.is_some()
            || batch.bytes >= self.settings.parcel_bytes
            || to.batches.iter().any(|batch| batch.urgent);
        let mut age = u64::try_from(self.settings.parcel_age.as_millis()).unwrap_or(u64::MAX);
        if self.pace.patient && batch.bytes < self.settings.parcel_bytes / SMALL_SHARE {
            age = age.saturating_mul(PATIENCE);
        }
        let mut due = if at_once { now } else { batch.began.saturating_add(age) }.max(to.not_before);
        if let Some(left) = self.slow.get(&partition)
            && !to.batches.iter().any(|batch| batch.urgent)
        {
            due = due.max(left.saturating_add(SLOW_AFTER));
        }
        if let Some(before) = to.due.replace(due) {
            self.due.remove(&(before, partition));
        }
        self.due.insert((due, partition));
    }
}

fn id(nonce: u64, number: u64) -> u128 {
    u128::from(nonce) << 64 | u128::from(number)
}
