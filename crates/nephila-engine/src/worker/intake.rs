//! Input of the worker: offers, reports, answers, commands and questions, fed to the frontier.
//!
//! Invariant: an offer is never dropped for lack of room; the worker first writes the pending offers, and if that is
//! impossible, the rest of the batch waits.

use std::collections::VecDeque;

use nephila_core::cluster::errand::Said;
use nephila_core::cluster::slots::Event as SlotEvent;
use nephila_core::entry::{DomainChange, Entry, HostChange};
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::frontier::outlook::Left;
use nephila_core::frontier::ticket::{Report, TicketId};
use nephila_core::frontier::{Offered, URGENT};
use nephila_core::state::Durable;
use tokio::sync::oneshot;

use super::handle::{Batch, Event, FromInbox};
use super::log::Reply;
use super::{Command, Error, Tallied, Worker};

/// The name of a partition's inbox in its log.
pub const INBOX: &str = "in";

/// Approximate size in memory of a report until the report is durable, without its lists.
const REPORT_BYTES: usize = 512;

/// The same with the lists: a sitemap may list 50,000 pages.
fn report_bytes(report: &Report) -> usize {
    let sighted = report.feed.as_ref().and_then(|feed| feed.sighted.as_ref());
    REPORT_BYTES + size_of_val(&*report.listed) + sighted.map_or(0, |sighted| sighted.bytes())
}

/// The result of feeding an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fed {
    Taken,
    /// The partition is not here, or is being handed over.
    Elsewhere,
    /// There is no room until the group under way has landed.
    NoRoom,
}

/// A batch of offers that is being fed to the frontier.
#[derive(Debug)]
pub(super) struct Feeding {
    offers: VecDeque<OfferedUrl>,
    /// Partitions of the offers fed so far.
    touched: Vec<usize>,
    /// Number of offers processed, and the indexes of the offers whose partition is not here.
    looked_at: u32,
    elsewhere: Vec<u32>,
    reply: Option<oneshot::Sender<Vec<u32>>>,
    from: Option<FromInbox>,
}

impl Feeding {
    pub(super) fn of(batch: Batch) -> Feeding {
        let Batch { offers, reply, from } = batch;
        Feeding {
            offers: offers.into(),
            touched: Vec::new(),
            looked_at: 0,
            elsewhere: Vec::new(),
            reply,
            from,
        }
    }

    /// Whether the batch only says how far an inbox was read.
    fn is_position(&self) -> bool {
        self.offers.is_empty() && self.from.as_ref().is_some_and(|from| from.said.is_none())
    }

    /// Renumbers the partitions.
    pub(super) fn move_numbers(&mut self, new: impl Fn(usize) -> usize) {
        self.touched.iter_mut().for_each(|number| *number = new(*number));
    }
}

impl<S: Durable + Send> Worker<S> {
    pub(super) fn handle(&mut self, event: Event) -> Result<(), Error> {
        self.stats.events += 1;
        let now = self.clock.now();
        match event {
            Event::Released(id, took) => _ = self.frontier.handle_released(id, took, now),
            Event::Report(id, report) => {
                self.note_fed(id, report_bytes(&report));
                self.frontier.handle_report(id, &report, now)?;
            }
            Event::Robots(id, report) => {
                self.note_fed(id, REPORT_BYTES + report.body.len());
                self.frontier.handle_robots(id, *report, now)?;
            }
            Event::Resolved(host, addresses) => self.frontier.handle_resolved(host, &addresses, now),
            Event::Unresolved(host, outcome) => self.frontier.handle_unresolved(host, outcome, now)?,
            Event::Turn(SlotEvent::Granted { slot, rested, wanted }) => {
                self.frontier.handle_granted(slot, rested, wanted, now);
            }
            Event::Turn(SlotEvent::Wanted { slot }) => self.frontier.handle_wanted(slot),
            Event::Errand(Said::Ask { asker, url }) => self.frontier.handle_errand(asker, &url, now)?,
            // The carrier sends the errand again.
            Event::Errand(Said::NotHere { .. }) => {}
            Event::Errand(Said::Answer { number, report }) => {
                self.frontier.handle_errand_answered(number, *report, now)?;
            }
            Event::Command(Command::Again(urls, job), reply) => {
                let mut partitions = Vec::new();
                for url in &urls {
                    partitions.extend(self.frontier.fetch_again(url, job)?);
                }
                partitions.sort_unstable();
                partitions.dedup();
                self.wait_for(partitions, Reply::Done(reply));
            }
            Event::Command(command, reply) => self.command(command, reply),
            Event::Settled(only, reply) => {
                let wanted = |at: &usize| only.is_none_or(|prefixes| self.logs[*at].prefixes == prefixes);
                let partitions = (0..self.logs.len()).filter(wanted).collect();
                self.wait_for(partitions, Reply::Done(reply));
            }
            Event::Explain(url, reply) => _ = reply.send(Box::new(self.frontier.explain(&url, now)?)),
            Event::Host(url, reply) => {
                let key = self.frontier.host_key(&url);
                let view = key.map(|key| self.frontier.host_view(&key, now)).transpose()?;
                // A different host may have the key of this one.
                let view = view.flatten().filter(|view| *view.origin == *url.origin());
                _ = reply.send(view.map(Box::new));
            }
            Event::Slot(slot, reply) => _ = reply.send(Box::new(self.frontier.slot_view(slot, now))),
            Event::Hosts(from, max, reply) => _ = reply.send(self.frontier.hosts_page(from, max)?),
            Event::HostRows(from, max, reply) => {
                _ = reply.send(self.frontier.host_rows(from, max, now)?);
            }
            Event::Outlook(horizon, reply) => _ = reply.send(self.frontier.outlook(horizon, now)?),
            Event::Left(horizon, reply) => {
                let is_fed = self.feeding.iter().all(Feeding::is_position);
                _ = reply.send(if is_fed { self.frontier.left(horizon, now)? } else { Left::Work });
            }
            Event::NothingLeft(horizon, reply) => {
                self.ends.retain(|(_, reply)| !reply.is_closed());
                self.ends.push((horizon, reply));
            }
            Event::Known(urls, reply) => {
                let known = urls.iter().map(|url| self.frontier.known_of(url));
                _ = reply.send(known.collect::<Result<_, _>>()?);
            }
            Event::SecondTries(reply) => _ = reply.send(self.frontier.second_tries(now)?),
            Event::Feed(key, reply) => _ = reply.send(Box::new(self.frontier.feed(&key)?)),
            Event::Feeds(from, max, reply) => _ = reply.send(self.frontier.feeds_page(from, max)?),
            Event::Source(key, reply) => _ = reply.send(Box::new(self.frontier.source(key)?)),
            Event::Stories(from, max, reply) => _ = reply.send(self.frontier.stories_page(from, max)?),
            Event::Downloads(from, wanted, max, reply) => {
                _ = reply.send(self.frontier.downloads_page(from, wanted, max)?);
            }
            Event::Streamed(key, reply) => _ = reply.send(self.frontier.streamed(&key)?),
            Event::Foresee(part, reply) => _ = reply.send(self.frontier.foresee(&part, now)?),
            Event::Stats(reply) => _ = reply.send(Box::new(self.stats())),
            Event::Standings(reply) => _ = reply.send(self.frontier.standings(now)),
            Event::Closed(prefixes, reply) => {
                let at = self.logs.iter().position(|log| log.prefixes == prefixes);
                _ = reply.send(at.map(|at| self.frontier.closed_hosts(at, now)).unwrap_or_default());
            }
            Event::Spread(spread) => self.frontier.set_spread(spread),
            Event::SpreadOf(prefixes, reply) => {
                let at = self.logs.iter().position(|log| log.prefixes == prefixes);
                _ = reply.send(at.map(|at| self.frontier.spread_of(at).clone()));
            }
            Event::Tallies(reply) => {
                let of = |at: usize| Tallied {
                    prefixes: self.logs[at].prefixes,
                    inbox: self.frontier.inbox_read(at, INBOX),
                    jobs: self.frontier.work(at),
                };
                _ = reply.send((0..self.logs.len()).map(of).collect());
            }
            Event::Close(prefixes, reply) => self.close_part(prefixes, reply),
            Event::Stop(_) => {}
        }
        Ok(())
    }

    /// Counts the bytes of a message about a ticket.
    fn note_fed(&mut self, id: TicketId, bytes: usize) {
        if let Some(partition) = self.frontier.partition_of_ticket(id) {
            self.logs[partition].fed_bytes += bytes;
        }
    }

    /// Feeds the received offers to the frontier, as far as there is room. A batch without room waits; other batches
    /// overtake the waiting one, except batches from the same inbox.
    pub(super) fn feed(&mut self) -> Result<(), Error> {
        let mut held: VecDeque<Feeding> = VecDeque::new();
        while !self.is_full()
            && let Some(feeding) = self.feeding.pop_front()
        {
            let is_of = |from: &FromInbox, other: &Feeding| {
                other.from.as_ref().is_some_and(|other| other.prefixes == from.prefixes)
            };
            if feeding.from.as_ref().is_some_and(|from| held.iter().any(|other| is_of(from, other))) {
                held.push_back(feeding);
            } else {
                held.extend(self.feed_one(feeding)?);
            }
        }
        held.append(&mut self.feeding);
        self.feeding = held;
        Ok(())
    }

    /// Feeds a batch. Returns the remainder for which there is no room.
    fn feed_one(&mut self, mut feeding: Feeding) -> Result<Option<Feeding>, Error> {
        // Input for a partition that has left since is read again by the new owner.
        let gone = |from: &FromInbox| {
            self.logs.iter().all(|log| log.prefixes != from.prefixes || log.closing.is_some())
        };
        if feeding.from.as_ref().is_some_and(gone) {
            return Ok(None);
        }
        while let Some(offered) = feeding.offers.pop_front() {
            match self.offered(&offered, &mut feeding.touched)? {
                Fed::Taken => {}
                Fed::Elsewhere => feeding.elsewhere.push(feeding.looked_at),
                Fed::NoRoom => {
                    feeding.offers.push_front(offered);
                    return Ok(Some(feeding));
                }
            }
            feeding.looked_at += 1;
        }
        if let Some(from) = feeding.from
            && feeding.elsewhere.is_empty()
        {
            feeding.touched.extend(self.read_up_to(from));
        }
        if let Some(reply) = feeding.reply {
            // Duplicates wait as well: the first offer of the same URL may not be durable yet.
            self.wait_for(feeding.touched, Reply::Offered(reply, feeding.elsewhere));
        }
        Ok(None)
    }

    /// Records the position of the inbox. In the log, offers come first, then the entry from the inbox, then the
    /// position. Returns the partition.
    fn read_up_to(&mut self, from: FromInbox) -> Option<usize> {
        let partition = self.logs.iter().position(|log| log.prefixes == from.prefixes)?;
        if let Some(entry) = from.said {
            self.say(partition, entry);
        }
        let read = Entry::Inbox { name: INBOX.into(), position: from.position };
        self.frontier.handle_command(partition, read);
        Some(partition)
    }

    fn say(&mut self, partition: usize, entry: Entry) {
        match &entry {
            // These entries may be many, and they are large: they wait for others of their group.
            Entry::Stream(part) => self.logs[partition].fed_bytes += part.bytes(),
            _ => self.logs[partition].urgent = true,
        }
        self.frontier.handle_command(partition, entry);
    }

    /// Feeds one offer.
    fn offered(&mut self, offered: &OfferedUrl, touched: &mut Vec<usize>) -> Result<Fed, Error> {
        let offer = offered.offer();
        let Some(partition) = self.partition_of(offer.key.host.domain) else {
            self.stats.elsewhere += 1;
            return Ok(Fed::Elsewhere);
        };
        let mut fed = self.frontier.offer(offer);
        if fed == Offered::Full {
            // Writes the waiting offers, unless a group is under way.
            self.begin(&[partition])?;
            fed = self.frontier.offer(offer);
            if fed == Offered::Full {
                return Ok(Fed::NoRoom);
            }
        }
        if fed == Offered::Elsewhere {
            self.stats.elsewhere += 1;
            return Ok(Fed::Elsewhere);
        }
        self.stats.offers += 1;
        if !touched.contains(&partition) {
            touched.push(partition);
        }
        self.logs[partition].urgent |= offer.want.priority == URGENT;
        self.logs[partition].fed_bytes += offered.bytes();
        Ok(Fed::Taken)
    }

    fn command(&mut self, command: Command, reply: oneshot::Sender<()>) {
        let (domain, entry) = match command {
            Command::Host(change) => {
                let (HostChange::Stop(host, _) | HostChange::Resume(host) | HostChange::Delay(host, _)) =
                    &change;
                (Some(host.domain), Entry::Host(change))
            }
            Command::Domain(change) => {
                let DomainChange::Budget(domain, _) = &change;
                (Some(*domain), Entry::Domain(change))
            }
            Command::Job(job) => (None, Entry::Job(job)),
            Command::JobRemoved(job) => (None, Entry::JobRemoved(job)),
            Command::Sighted(sighted) => (Some(sighted.source.0.domain), Entry::Sighted(sighted)),
            Command::Again(..) => {
                _ = reply.send(());
                return;
            }
            Command::Stream(part) => {
                let Some(first) = part.urls.first() else {
                    _ = reply.send(());
                    return;
                };
                (Some(first.key.host.domain), Entry::Stream(part))
            }
        };
        let partitions = match domain {
            Some(domain) => Vec::from_iter(self.partition_of(domain)),
            // Every partition knows every job.
            None => Vec::from_iter(0..self.logs.len()),
        };
        for &partition in &partitions {
            self.say(partition, entry.clone());
        }
        self.wait_for(partitions, Reply::Done(reply));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nephila_core::recrawl::claims::{LISTED_MAX, Listed};
    use nephila_core::spider::Outcome;
    use nephila_core::time::Seconds;

    use super::*;

    #[test]
    fn a_report_counts_with_what_is_listed_in_it() {
        let mut report = Report::of(Outcome::Fetched, 200, Duration::ZERO);
        assert_eq!(report_bytes(&report), REPORT_BYTES);
        report.listed = vec![Listed { path: 1, modified: Seconds(1) }; LISTED_MAX].into();
        assert!(report_bytes(&report) >= 12 * LISTED_MAX, "{}", report_bytes(&report));
    }
}
