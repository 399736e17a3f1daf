//! What came in: offers, reports, answers, commands and questions, fed to the frontier.
//!
//! What always holds: an offer is never dropped because there is no room; what is there is written first.

use nephila_core::entry::{DomainChange, Entry, HostChange};
use nephila_core::frontier::{Offered, URGENT};
use nephila_core::state::Durable;
use tokio::sync::oneshot;

use super::handle::{Batch, Event};
use super::{Command, Error, Worker};

impl<S: Durable> Worker<S> {
    pub(super) fn handle(&mut self, event: Event) -> Result<(), Error> {
        self.stats.events += 1;
        let now = self.clock.now();
        match event {
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
            Event::Stats(reply) => _ = reply.send(Box::new(self.stats())),
            Event::Stop(_) => {}
        }
        Ok(())
    }

    pub(super) fn offered(&mut self, batch: Batch) -> Result<(), Error> {
        let mut touched = Vec::new();
        for offered in &batch.offers {
            let offer = offered.offer();
            let Some(partition) = self.partition_of(offer.key.host.domain) else {
                self.stats.elsewhere += 1;
                continue;
            };
            self.stats.offers += 1;
            if !touched.contains(&partition) {
                touched.push(partition);
            }
            if self.frontier.offer(offer) == Offered::Full {
                self.commit(&[partition])?;
                let again = self.frontier.offer(offer);
                debug_assert_ne!(again, Offered::Full, "there is room after a commit");
            }
            self.logs[partition].urgent |= offer.priority == URGENT;
            self.fed_bytes += offered.bytes();
        }
        if let Some(reply) = batch.reply {
            // Also for those that were offered a moment ago: the first of them may not be durable yet.
            self.wait_for(touched, reply);
        }
        Ok(())
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
