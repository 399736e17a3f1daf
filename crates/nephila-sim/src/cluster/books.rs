//! The books of the checkers: they see requests at the servers, and groups and captures as they arrive, and ask no node
//! anything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use nephila_core::cluster::Epoch;
use nephila_core::entry::Entry;
use nephila_core::frontier::Settings;
use nephila_core::spider::outcome::Outcome;

use super::engine::Engine;
use super::web::Web;
use crate::{Checker, Violation};

#[derive(Clone, Copy, Debug, Default)]
struct HostBook {
    open: u32,
    started: Option<u64>,
    ended: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PageBook {
    requests: u32,
    /// Requests that the server answered with 500.
    failed: u32,
    /// Times the page may be requested again because its ticket was open at a fault.
    excused: u32,
    /// A final outcome is in the log.
    done: bool,
}

/// Books about requests, owners and outcomes.
#[derive(Debug)]
pub(crate) struct Books {
    rest: u64,
    slot_rest: u64,
    slot_open_max: u32,
    hosts: Vec<HostBook>,
    /// By address.
    slots: BTreeMap<IpAddr, HostBook>,
    addresses: Vec<IpAddr>,
    pages: Vec<PageBook>,
    /// The highest epoch that acted, by partition.
    acted: BTreeMap<u32, Epoch>,
    /// Outcomes in the logs, by partition and ticket.
    ended: BTreeSet<(u32, u64)>,
    pub(crate) done: usize,
}

impl Books {
    pub(crate) fn new(settings: &Settings, web: &Web) -> Books {
        Books {
            rest: settings.host_delay.as_millis() as u64,
            slot_rest: settings.slot_delay.as_millis() as u64,
            slot_open_max: settings.slot_connections,
            hosts: vec![HostBook::default(); web.hosts.len()],
            slots: BTreeMap::new(),
            addresses: web.hosts.iter().map(|host| host.address).collect(),
            pages: vec![PageBook::default(); web.pages.len()],
            acted: BTreeMap::new(),
            ended: BTreeSet::new(),
            done: 0,
        }
    }

    /// A node acts in the name of a partition.
    pub(crate) fn handle_act(
        &mut self,
        partition: u32,
        epoch: Epoch,
        what: &str,
        t: u64,
    ) -> Result<(), Violation> {
        let acted = self.acted.entry(partition).or_insert(epoch);
        if *acted > epoch {
            let what =
                format!("{what} at {t} of partition {partition} under {epoch:?}, {acted:?} has acted before");
            return Err(Violation::new(Checker::Owners, what));
        }
        *acted = epoch;
        Ok(())
    }

    /// A request arrives at a server.
    pub(crate) fn handle_start(&mut self, host: usize, page: Option<u32>, t: u64) -> Result<(), Violation> {
        let book = &mut self.hosts[host];
        let rude =
            |what: String| Err(Violation::new(Checker::Politeness, format!("host {host} at {t}: {what}")));
        if book.open > 0 {
            return rude(format!("{} requests are open", book.open));
        }
        if let Some(before) = book.started.max(book.ended).filter(|before| t < before + self.rest) {
            return rude(format!("the one before was at {before}, the rest is {}", self.rest));
        }
        book.open += 1;
        book.started = Some(t);
        self.start_on_slot(self.addresses[host], t)?;
        let Some(page) = page else { return Ok(()) };
        let book = &mut self.pages[page as usize];
        book.requests += 1;
        if book.requests > 1 + book.failed + book.excused {
            let what = format!("page {page} is asked for the {}. time at {t}: {book:?}", book.requests);
            return Err(Violation::new(Checker::Repeats, what));
        }
        Ok(())
    }

    /// A request arrives at this address, from any node.
    fn start_on_slot(&mut self, address: IpAddr, t: u64) -> Result<(), Violation> {
        let book = self.slots.entry(address).or_default();
        let rude = |what: String| {
            Err(Violation::new(Checker::Politeness, format!("address {address} at {t}: {what}")))
        };
        if book.open >= self.slot_open_max {
            return rude(format!("{} requests are open", book.open));
        }
        if let Some(before) = book.started.max(book.ended).filter(|before| t < before + self.slot_rest) {
            return rude(format!("the one before was at {before}, the rest is {}", self.slot_rest));
        }
        book.open += 1;
        book.started = Some(t);
        Ok(())
    }

    /// A request is over at the server. No node is responsible for a request whose node sleeps.
    pub(crate) fn handle_end(&mut self, host: usize, t: Option<u64>) {
        let slot = self.slots.get_mut(&self.addresses[host]).expect("it was asked");
        for book in [&mut self.hosts[host], slot] {
            book.open -= 1;
            book.ended = book.ended.max(t);
        }
    }

    /// Whether the outcome of this ticket is in the log.
    pub(crate) fn has_ended(&self, partition: u32, ticket: u64) -> bool {
        self.ended.contains(&(partition, ticket))
    }

    /// The server answered with 500.
    pub(crate) fn handle_failed(&mut self, page: u32) {
        self.pages[page as usize].failed += 1;
    }

    pub(crate) fn failed(&self, page: u32) -> u32 {
        self.pages[page as usize].failed
    }

    /// The node of an open ticket is gone, with everything in its memory.
    pub(crate) fn handle_lost(&mut self, partition: u32, ticket: u64, page: u32) {
        if !self.ended.contains(&(partition, ticket)) {
            self.pages[page as usize].excused += 1;
        }
    }

    /// A group is in a log.
    pub(crate) fn handle_group(
        &mut self,
        partition: u32,
        entries: &[Entry],
        web: &Web,
        engine: &Engine,
    ) -> Result<(), Violation> {
        for entry in entries {
            let Entry::Ended(ended) = entry else { continue };
            self.ended.insert((partition, ended.fetch));
            let Some(&page) = web.by_key.get(&ended.key) else {
                let what = format!("an outcome of {} that does not exist", ended.text);
                return Err(Violation::new(Checker::Completeness, what));
            };
            if !matches!(ended.outcome, Outcome::Fetched | Outcome::NotFound) {
                continue;
            }
            let of_ticket = (partition, ended.fetch, 0)..=(partition, ended.fetch, u32::MAX);
            if engine.objects.range(of_ticket).next().is_none() {
                let what = format!("the outcome of page {page} is in the log, its capture is nowhere");
                return Err(Violation::new(Checker::Archive, what));
            }
            if !std::mem::replace(&mut self.pages[page as usize].done, true) {
                self.done += 1;
            }
        }
        Ok(())
    }

    /// Everything is quiet: every page that can be reached was fetched, and nothing else.
    pub(crate) fn check_end(&self, web: &Web, engine: &Engine) -> Result<(), Violation> {
        let truth = web.truth();
        for (page, book) in self.pages.iter().enumerate() {
            let wanted = truth.contains(&(page as u32));
            if wanted != book.done || (!wanted && book.requests > 0) {
                let what = format!("page {page} can be reached: {wanted}; {book:?}");
                return Err(Violation::new(Checker::Completeness, what));
            }
        }
        let mut before = None;
        for (partition, ticket, _) in &engine.objects {
            if before.replace((partition, ticket)) == Some((partition, ticket)) {
                let what = format!("ticket {ticket:x} of partition {partition} has two captures");
                return Err(Violation::new(Checker::Archive, what));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::key::Secret;

    use super::*;
    use crate::rng::Rng;

    fn books() -> Books {
        let ms = std::time::Duration::from_millis;
        let settings = Settings { host_delay: ms(1_000), slot_delay: ms(100), ..Settings::default() };
        Books::new(&settings, &Web::new(&mut Rng::new(1), &Secret([1; 16]), 2, 6))
    }

    #[test]
    fn two_hosts_on_one_address_must_not_be_asked_at_once_nor_too_soon() {
        let mut books = books();
        books.addresses[1] = books.addresses[0];
        books.handle_start(0, None, 5_000).unwrap();
        assert_eq!(books.handle_start(1, None, 5_400).unwrap_err().checker, Checker::Politeness);
        books.handle_end(0, Some(5_500));
        let mut again = self::books();
        again.addresses[1] = again.addresses[0];
        again.handle_start(0, None, 5_000).unwrap();
        again.handle_end(0, Some(5_500));
        assert_eq!(again.handle_start(1, None, 5_599).unwrap_err().checker, Checker::Politeness);
        let mut right = self::books();
        right.addresses[1] = right.addresses[0];
        right.handle_start(0, None, 5_000).unwrap();
        right.handle_end(0, Some(5_500));
        right.handle_start(1, None, 5_600).unwrap();
    }

    #[test]
    fn a_second_request_a_short_rest_and_a_repeat_are_noticed() {
        let mut books = books();
        books.handle_start(0, Some(0), 5_000).unwrap();
        assert_eq!(books.handle_start(0, None, 9_000).unwrap_err().checker, Checker::Politeness);
        books.handle_end(0, Some(5_500));
        assert_eq!(books.handle_start(0, None, 6_499).unwrap_err().checker, Checker::Politeness);
        books.handle_start(0, None, 6_500).unwrap();
        books.handle_end(0, Some(6_500));
        assert_eq!(books.handle_start(0, Some(0), 20_000).unwrap_err().checker, Checker::Repeats);
    }

    #[test]
    fn a_ticket_that_was_open_at_a_fault_excuses_one_repeat() {
        let mut books = books();
        books.handle_start(0, Some(0), 0).unwrap();
        books.handle_end(0, Some(10));
        books.handle_lost(0, 77, 0);
        books.handle_start(0, Some(0), 5_000).unwrap();
        books.handle_end(0, Some(5_010));
        assert_eq!(books.handle_start(0, Some(0), 9_000).unwrap_err().checker, Checker::Repeats);
    }

    #[test]
    fn whoever_acts_after_a_later_owner_is_noticed() {
        let mut books = books();
        books.handle_act(1, Epoch(5), "a fetch", 0).unwrap();
        books.handle_act(1, Epoch(8), "a fetch", 0).unwrap();
        assert_eq!(books.handle_act(1, Epoch(5), "a fetch", 1).unwrap_err().checker, Checker::Owners);
    }
}
