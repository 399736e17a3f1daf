//! What came in: offers, reports, answers, commands and questions, fed to the frontier.
//!
//! What always holds: an offer is never dropped because there is no room; what is there is written first, and if
//! that cannot be, what is not fed yet waits.

use std::collections::VecDeque;

use nephila_core::entry::{DomainChange, Entry, HostChange};
use nephila_core::frontier::{Offered, URGENT};
use nephila_core::state::Durable;
use tokio::sync::oneshot;

use super::handle::{self, Batch, Event};
use super::{Command, Error, Worker};

/// A batch of offers that is being fed to the frontier.
#[derive(Debug)]
pub(super) struct Feeding {
    offers: VecDeque<handle::Offered>,
    /// Partitions that those before went to.
    touched: Vec<usize>,
    reply: Option<oneshot::Sender<()>>,
}

impl Feeding {
    pub(super) fn of(batch: Batch) -> Feeding {
        Feeding { offers: batch.offers.into(), touched: Vec::new(), reply: batch.reply }
    }
}

impl<S: Durable> Worker<S> {
    pub(super) fn handle(&mut self, event: Event) -> Result<(), Error> {
        self.stats.events += 1;
        let now = self.clock.now();
        match event {
            Event::Released(id, took) => _ = self.frontier.handle_released(id, took, now),
            Event::Report(id, report) => _ = self.frontier.handle_report(id, &report, now)?,
            Event::Robots(id, report) => {
                self.fed_bytes += report.body.len();
                self.frontier.handle_robots(id, *report, now)?;
            }
            Event::Resolved(host, addresses) => self.frontier.handle_resolved(host, &addresses, now),
            Event::Unresolved(host, outcome) => self.frontier.handle_unresolved(host, outcome, now)?,
            Event::Command(command, reply) => self.command(command, reply),
            Event::Settled(reply) => self.wait_for(Vec::from_iter(0..self.logs.len()), reply),
            Event::Explain(url, reply) => _ = reply.send(Box::new(self.frontier.explain(&url, now)?)),
            Event::Host(url, reply) => {
                let key = self.frontier.host_key(&url);
                let view = key.map(|key| self.frontier.host_view(&key, now)).transpose()?;
                // Another host may have the key that this one would get.
                let view = view.flatten().filter(|view| *view.origin == *url.origin());
                _ = reply.send(view.map(Box::new));
            }
            Event::Slot(slot, reply) => _ = reply.send(Box::new(self.frontier.slot_view(slot, now))),
            Event::Hosts(from, max, reply) => _ = reply.send(self.frontier.hosts_page(from, max)?),
            Event::Outlook(horizon, reply) => _ = reply.send(self.frontier.outlook(horizon, now)),
            Event::Stats(reply) => _ = reply.send(Box::new(self.stats())),
            Event::Stop(_) => {}
        }
        Ok(())
    }

    /// Feeds the offers that were taken to the frontier, as far as there is room.
    pub(super) fn feed(&mut self) -> Result<(), Error> {
        while self.full_until.is_none()
            && let Some(mut feeding) = self.feeding.pop_front()
        {
            while let Some(offered) = feeding.offers.pop_front() {
                if !self.offered(&offered, &mut feeding.touched)? {
                    feeding.offers.push_front(offered);
                    self.feeding.push_front(feeding);
                    return Ok(());
                }
            }
            if let Some(reply) = feeding.reply {
                // Also for those that were offered a moment ago: the first of them may not be durable yet.
                self.wait_for(feeding.touched, reply);
            }
        }
        Ok(())
    }

    /// Feeds one offer. False if there is no room for it, nor for writing what is there.
    fn offered(&mut self, offered: &handle::Offered, touched: &mut Vec<usize>) -> Result<bool, Error> {
        let offer = offered.offer();
        let Some(partition) = self.partition_of(offer.key.host.domain) else {
            self.stats.elsewhere += 1;
            return Ok(true);
        };
        if self.frontier.offer(offer) == Offered::Full {
            self.commit(&[partition])?;
            if self.frontier.offer(offer) == Offered::Full {
                debug_assert!(self.full_until.is_some(), "there is room after a commit");
                return Ok(false);
            }
        }
        self.stats.offers += 1;
        if !touched.contains(&partition) {
            touched.push(partition);
        }
        self.logs[partition].urgent |= offer.priority == URGENT;
        self.fed_bytes += offered.bytes();
        Ok(true)
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
        };
        let partitions = match domain {
            Some(domain) => Vec::from_iter(self.partition_of(domain)),
            // Every partition knows every job.
            None => Vec::from_iter(0..self.logs.len()),
        };
        for &partition in &partitions {
            self.frontier.handle_command(partition, entry.clone());
            self.logs[partition].urgent = true;
        }
        self.wait_for(partitions, reply);
    }
}
