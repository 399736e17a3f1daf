//! Checks politeness (crawl delays and connection limits), counted at the servers: when a request began, when the
//! request ended, on which host and which address.
//!
//! The rest in force is computed here, from the settings and from the wishes of sites and operators once these are in
//! the log. Requests that were open when a process died may still run for a moment; these alone are exempt.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nephila_core::frontier::Settings;

use crate::clock::Clock;
use crate::{Checker, Violation};

/// A rest that was written down holds at most this long after a restart, in milliseconds: a clock may have been wrong.
const DURABLE_REST_MAX: u64 = 7 * 24 * 3_600 * 1_000;

/// Books about requests.
#[derive(Debug)]
pub struct Politeness {
    settings: Settings,
    hosts: Vec<HostBook>,
    slots: BTreeMap<Slot, Busy>,
    crashed_at: Option<u64>,
}

/// A machine: an IPv4 address, or a network of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(u128);

impl Slot {
    /// The machine at an address.
    pub fn of(address: IpAddr) -> Slot {
        match address {
            IpAddr::V4(v4) => Slot(u32::from(v4).into()),
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => Slot(u32::from(v4).into()),
                None => Slot(u128::from(v6) & !u128::from(u64::MAX)),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    open: u32,
    started: Option<u64>,
    ended: Option<u64>,
}

impl Busy {
    fn check(&self, what: &str, at: u64, connections: u32, rest: u64) -> Result<(), Violation> {
        if self.open >= connections {
            let open = self.open;
            return Err(rude(format!(
                "{what}: a request at {at} with {open} open, {connections} are allowed"
            )));
        }
        if let Some(started) = self.started.filter(|started| at < started + rest) {
            return Err(rude(format!(
                "{what}: started at {at}, the one before at {started}, the rest is {rest}"
            )));
        }
        if let Some(ended) = self.ended.filter(|ended| at < ended + rest) {
            return Err(rude(format!("{what}: started at {at}, one ended at {ended}, the rest is {rest}")));
        }
        Ok(())
    }

    fn start(&mut self, at: u64) {
        self.open += 1;
        self.started = Some(at);
    }

    fn end(&mut self) {
        self.open -= 1;
    }

    fn report(&mut self, at: u64) {
        self.ended = Some(at);
    }
}

fn rude(what: String) -> Violation {
    Violation::new(Checker::Politeness, what)
}

#[derive(Clone, Debug, Default)]
struct HostBook {
    busy: Busy,
    /// The crawl delay of the site's robots.txt, in milliseconds, once the file is in the log.
    crawl_delay: u64,
    /// The delay set by the operator, once the command is in the log.
    delay: u64,
    /// A rest that this process knows of.
    rests_until: u64,
    /// A rest that is in the log, on the time of day.
    rests_until_wall: u64,
    /// The same when the last process died.
    slept_until_wall: u64,
}

impl Politeness {
    /// Empty books.
    pub fn new(settings: Settings, hosts: usize) -> Politeness {
        Politeness {
            settings,
            hosts: vec![HostBook::default(); hosts],
            slots: BTreeMap::new(),
            crashed_at: None,
        }
    }

    /// A request begins.
    pub fn handle_start(&mut self, host: usize, address: IpAddr, clock: &Clock) -> Result<(), Violation> {
        let at = clock.t;
        let book = &mut self.hosts[host];
        // From the definition of a rate, not from the frontier's computation.
        let by_rate = match self.settings.host_per_second {
            rate if rate > 0.0 => (1_000.0 / rate).ceil() as u64,
            _ => 0,
        };
        let own = self.settings.host_delay.as_millis() as u64;
        let rest = own.max(by_rate).max(book.crawl_delay).max(book.delay);
        book.busy.check(&format!("host {host}"), at, self.settings.host_connections, rest)?;
        if at < book.rests_until {
            let until = book.rests_until;
            return Err(rude(format!("host {host}: a request at {at}, it rests until {until}")));
        }
        if let Some(crashed_at) = self.crashed_at {
            let until = book.slept_until_wall;
            let wall = clock.wall_believed_since(crashed_at);
            if wall < until && at < crashed_at + DURABLE_REST_MAX {
                return Err(rude(format!(
                    "host {host}: {wall} on the wall, it rests until {until}, over a restart"
                )));
            }
        }
        book.busy.start(at);
        let slot = self.slots.entry(Slot::of(address)).or_default();
        let rest = self.settings.slot_delay.as_millis() as u64;
        slot.check(&format!("address {address}"), at, self.settings.slot_connections, rest)?;
        slot.start(at);
        Ok(())
    }

    /// A request ended, at the server.
    pub fn handle_end(&mut self, host: usize, address: IpAddr) {
        self.hosts[host].busy.end();
        self.slots.get_mut(&Slot::of(address)).expect("it began").end();
    }

    /// The frontier knows that a request ended, and the rests count from here. The slower the answer, the longer the
    /// rest; the site may also have requested one.
    pub fn handle_report(&mut self, host: usize, address: IpAddr, took: u64, rest: u64, at: u64) {
        let slow = took * u64::from(self.settings.host_delay_factor);
        let slow = slow.min(self.settings.host_delay_max.as_millis() as u64);
        self.slots.get_mut(&Slot::of(address)).expect("it began").report(at);
        let book = &mut self.hosts[host];
        book.busy.report(at);
        book.rests_until = book.rests_until.max(at + slow).max(at + rest);
    }

    /// A site rests because of another site's answer about its robots.txt.
    pub fn handle_rest_now(&mut self, host: usize, rest: u64, at: u64) {
        let book = &mut self.hosts[host];
        book.rests_until = book.rests_until.max(at + rest);
    }

    /// A rest is in the log.
    pub fn handle_rest(&mut self, host: usize, until_wall: u64) {
        let book = &mut self.hosts[host];
        book.rests_until_wall = book.rests_until_wall.max(until_wall);
    }

    /// A robots.txt's crawl delay is in the log.
    pub fn handle_crawl_delay(&mut self, host: usize, delay: u64) {
        self.hosts[host].crawl_delay = delay;
    }

    /// An operator's delay is in the log.
    pub fn handle_delay(&mut self, host: usize, delay: u64) {
        self.hosts[host].delay = delay;
    }

    /// The process died. Its open requests may run on and no longer count.
    pub fn handle_crash(&mut self, at: u64) {
        self.crashed_at = Some(at);
        for book in &mut self.hosts {
            book.busy.open = 0;
            book.rests_until = 0;
            book.slept_until_wall = book.rests_until_wall;
        }
        self.slots.values_mut().for_each(|slot| slot.open = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books() -> Politeness {
        let settings = Settings { host_delay: std::time::Duration::from_secs(2), ..Settings::default() };
        Politeness::new(settings, 2)
    }

    fn at(t: u64) -> Clock {
        Clock::at(t)
    }

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 2));

    #[test]
    fn two_at_once_on_a_host_are_noticed_whatever_the_address() {
        let mut books = books();
        books.handle_start(0, A, &at(10_000)).unwrap();
        assert!(books.handle_start(0, B, &at(19_000)).is_err());
    }

    #[test]
    fn a_rest_that_is_too_short_is_noticed_on_host_and_address() {
        let mut books = books();
        books.handle_start(0, A, &at(10_000)).unwrap();
        books.handle_end(0, A);
        books.handle_report(0, A, 0, 0, 11_000);
        assert!(books.handle_start(1, A, &at(11_499)).is_err(), "the address rests half a second");
        assert!(books.handle_start(0, B, &at(12_999)).is_err());
        books.handle_start(0, B, &at(13_000)).unwrap();
    }

    #[test]
    fn a_rest_in_the_log_outlives_the_process() {
        let mut books = books();
        books.handle_rest(0, at(50_000).wall());
        books.handle_crash(10_000);
        assert!(books.handle_start(0, A, &at(49_999)).is_err());
        books.handle_start(0, A, &at(50_000)).unwrap();
    }
}
