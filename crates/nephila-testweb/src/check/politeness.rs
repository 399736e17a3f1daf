//! Politeness: requests and connections at once, and rests, per host and per address.
//!
//! A rest runs from the moment the server had handed out the last byte of an answer to the head of the next request.
//! The crawler gets that last byte a little later, so the server sees rests a little longer than the crawler does,
//! never shorter.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::{Fault, Report, host_key, is_robots};
use crate::journal::{Log, Request};
use crate::model::World;

/// The requirements on a polite crawler.
#[derive(Clone, Debug)]
pub struct Politeness {
    /// Rest of a host (scheme and authority) between two requests. Judged where one request at once is allowed.
    pub host_rest: Duration,
    /// Longer rests of single hosts, by `http://name:port`, as `Crawl-delay` asks for.
    pub longer_rests: HashMap<String, Duration>,
    /// Rest of an address between two requests. Judged where one request at once is allowed.
    pub address_rest: Duration,
    /// Requests a host may have at once.
    pub host_requests_max: usize,
    /// Requests an address may have at once.
    pub address_requests_max: usize,
    /// Connections a host may have at once, idle ones included.
    pub host_connections_max: usize,
    /// Connections an address may have at once, idle ones included.
    pub address_connections_max: usize,
    /// How much too short a rest may be, for the jitter of this machine.
    pub tolerance: Duration,
    /// How much later than its client a server may notice that a connection was closed, or an answer given up. No
    /// connection ends before its last answer by this, and no answer that was taken whole.
    pub closing_grace: Duration,
    /// Whether robots.txt counts like any other request.
    pub counts_robots: bool,
}

impl Default for Politeness {
    fn default() -> Politeness {
        Politeness {
            host_rest: Duration::ZERO,
            longer_rests: HashMap::new(),
            address_rest: Duration::ZERO,
            host_requests_max: 1,
            address_requests_max: 1,
            host_connections_max: 1,
            address_connections_max: usize::MAX,
            tolerance: Duration::from_millis(2),
            closing_grace: Duration::ZERO,
            counts_robots: true,
        }
    }
}

impl Politeness {
    /// Also requires the `Crawl-delay` of every host in a journal, as its robots.txt gives to this crawler at the
    /// current virtual time.
    pub fn with_crawl_delays(mut self, world: &World, agent: &str, log: &Log) -> Politeness {
        let now = world.clock().now();
        for request in &log.requests {
            let key = host_key(request);
            if !self.longer_rests.contains_key(&key)
                && let Some(host) = world.host_of(&request.host)
                && let Some(delay) = world.robots_rules(host, agent, now).crawl_delay()
            {
                self.longer_rests.insert(key, delay);
            }
        }
        self
    }

    /// Judges a journal.
    pub fn check(&self, log: &Log) -> Report {
        let mut report = Report::new(log);
        let mut hosts: HashMap<String, Vec<&Request>> = HashMap::new();
        let mut addresses: HashMap<IpAddr, Vec<&Request>> = HashMap::new();
        for request in log.requests.iter().filter(|request| self.counts_robots || !is_robots(request)) {
            report.judged += 1;
            hosts.entry(host_key(request)).or_default().push(request);
            addresses.entry(request.local).or_default().push(request);
        }
        for (host, requests) in &hosts {
            let rest = self.longer_rests.get(host).copied().unwrap_or_default().max(self.host_rest);
            let max = self.host_requests_max;
            self.check_rests(&mut report, host, requests, rest, max, |had_us, needed_us| Fault::HostRest {
                had_us,
                needed_us,
            });
            self.check_at_once(&mut report, host, requests, max, Fault::HostBusy);
        }
        for (address, requests) in &addresses {
            let subject = address.to_string();
            let (rest, max) = (self.address_rest, self.address_requests_max);
            self.check_rests(&mut report, &subject, requests, rest, max, |had_us, needed_us| {
                Fault::AddressRest { had_us, needed_us }
            });
            self.check_at_once(&mut report, &subject, requests, max, Fault::AddressBusy);
        }
        self.check_connections(&mut report, log);
        report.violations.sort_by_key(|violation| violation.at_us);
        report
    }

    /// Checks rests between requests that do not overlap; `check_at_once` names the ones that do.
    fn check_rests(
        &self,
        report: &mut Report,
        subject: &str,
        requests: &[&Request],
        rest: Duration,
        at_once_max: usize,
        fault: impl Fn(u64, u64) -> Fault,
    ) {
        if rest.is_zero() || at_once_max > 1 {
            return;
        }
        let needed = rest.as_micros() as u64;
        let tolerance = self.tolerance.as_micros() as u64;
        let mut latest_end: Option<u64> = None;
        for request in requests {
            if let Some(end) = latest_end
                && request.start_us >= end
                && request.start_us - end + tolerance < needed
            {
                report.add(request.start_us, subject, fault(request.start_us - end, needed));
            }
            latest_end = latest_end.max(Some(self.end_of(request)));
        }
    }

    fn check_at_once(
        &self,
        report: &mut Report,
        subject: &str,
        requests: &[&Request],
        max: usize,
        fault: impl Fn(usize) -> Fault,
    ) {
        let spans = requests.iter().map(|request| (request.start_us, self.end_of(request))).collect();
        for (at, open) in crowds(spans, max) {
            report.add(at, subject, fault(open));
        }
    }

    /// When a request ended for its client, as far as the server can tell.
    fn end_of(&self, request: &Request) -> u64 {
        let grace = if request.is_complete { 0 } else { self.closing_grace.as_micros() as u64 };
        request.end_us.saturating_sub(grace).max(request.start_us)
    }

    fn check_connections(&self, report: &mut Report, log: &Log) {
        let last = log.requests.iter().map(|request| request.end_us).max().unwrap_or(0);
        let mut ends: HashMap<u64, u64> = HashMap::new();
        let mut by_address: HashMap<IpAddr, Vec<(u64, u64)>> = HashMap::new();
        let mut answered: HashMap<u64, u64> = HashMap::new();
        for request in &log.requests {
            let end = answered.entry(request.connection).or_default();
            *end = (*end).max(self.end_of(request));
        }
        let grace = self.closing_grace.as_micros() as u64;
        for connection in &log.connections {
            let answered = answered.get(&connection.id).copied().unwrap_or(connection.start_us);
            let end = connection.end_us.saturating_sub(grace).max(answered).min(connection.end_us);
            ends.insert(connection.id, end);
            by_address.entry(connection.local).or_default().push((connection.start_us, end));
        }
        // The first request of each connection for each host; connections that are not closed yet last to the end.
        let mut by_host: HashMap<String, HashMap<u64, (u64, u64)>> = HashMap::new();
        let mut unclosed: HashMap<u64, (IpAddr, u64)> = HashMap::new();
        for request in &log.requests {
            let end = ends.get(&request.connection).copied();
            by_host
                .entry(host_key(request))
                .or_default()
                .entry(request.connection)
                .or_insert((request.start_us, end.unwrap_or(last + 1)));
            if end.is_none() {
                unclosed.entry(request.connection).or_insert((request.local, request.start_us));
            }
        }
        for (local, start) in unclosed.into_values() {
            by_address.entry(local).or_default().push((start, last + 1));
        }
        for (host, spans) in by_host {
            let spans: Vec<_> = spans.into_values().collect();
            for (at, open) in crowds(spans, self.host_connections_max) {
                report.add(at, host.as_str(), Fault::HostConnections(open));
            }
        }
        for (address, spans) in by_address {
            for (at, open) in crowds(spans, self.address_connections_max) {
                report.add(at, address.to_string(), Fault::AddressConnections(open));
            }
        }
    }
}

/// The moments at which one span more than `max` begins, with how many are open then. A span that begins as another
/// ends does not overlap the other.
fn crowds(spans: Vec<(u64, u64)>, max: usize) -> Vec<(u64, usize)> {
    let mut edges: Vec<(u64, bool)> = Vec::with_capacity(spans.len() * 2);
    for (start, end) in spans {
        edges.push((start, true));
        // A span without length still overlaps its neighbours.
        edges.push((end.max(start + 1), false));
    }
    edges.sort_unstable();
    let mut open = 0;
    let mut crowds = Vec::new();
    for (at, begins) in edges {
        if begins {
            open += 1;
            if open > max {
                crowds.push((at, open));
            }
        } else {
            open -= 1;
        }
    }
    crowds
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::journal::{Connection, Event};

    fn rules() -> Politeness {
        Politeness {
            host_rest: Duration::from_micros(100),
            address_rest: Duration::from_micros(50),
            address_connections_max: 2,
            tolerance: Duration::ZERO,
            ..Politeness::default()
        }
    }

    fn connection(id: u64, start_us: u64, end_us: u64) -> Event {
        let local = IpAddr::from([127, 77, 0, 1]);
        Event::Connection(Connection { id, start_us, end_us, local, tls: false, requests: 1 })
    }

    /// Two hosts on one address, in turn, each connection closed before the next one of its host.
    fn clean() -> Vec<Event> {
        let mut events = Vec::new();
        for n in 0..10u64 {
            let (at, host) = (n * 100, if n % 2 == 0 { "a.test" } else { "b.test" });
            events.push(Event::Request(sample(host, &format!("/{n}"), n, at, at + 40)));
            events.push(connection(n, at - at.min(5), at + 45));
        }
        events
    }

    fn faults(rules: &Politeness, events: Vec<Event>) -> Vec<Fault> {
        let report = rules.check(&Log::new(events, 0));
        report.violations.into_iter().map(|violation| violation.fault).collect()
    }

    fn with(more: Event) -> Vec<Event> {
        let mut events = clean();
        events.push(more);
        events
    }

    #[test]
    fn a_polite_journal_is_clean() {
        let report = rules().check(&Log::new(clean(), 0));
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.judged, 10);
    }

    #[test]
    fn a_host_asked_too_soon_is_caught() {
        let rules = Politeness { address_rest: Duration::ZERO, host_connections_max: 9, ..rules() };
        let early = Event::Request(sample("b.test", "/x", 50, 1000, 1010));
        let fault = Fault::HostRest { had_us: 60, needed_us: 100 };
        assert_eq!(faults(&rules, with(early)), [fault]);
    }

    #[test]
    fn a_longer_rest_of_one_host_is_held_against_it() {
        let mut rules = rules();
        rules.longer_rests.insert("http://a.test".to_owned(), Duration::from_micros(165));
        let fault = Fault::HostRest { had_us: 160, needed_us: 165 };
        assert_eq!(faults(&rules, clean()), [fault.clone(), fault.clone(), fault.clone(), fault]);
    }

    #[test]
    fn the_crawl_delays_of_a_web_are_held_against_its_crawler() {
        let robots = crate::settings::RobotsShares { delay: 1.0, ..Default::default() };
        let settings =
            crate::Settings { robots, crawl_delay: Duration::from_micros(300), ..Default::default() };
        let world = World::new(settings, 80, 443);
        let request = |host: &str, at| Event::Request(sample(host, "/", 1, at, at + 10));
        // Host 0 asks for no delay.
        let events = ["h0.d0.test", "h1.d0.test"].map(|host| [request(host, 0), request(host, 200)]);
        let log = Log::new(events.into_iter().flatten(), 0);
        let rules =
            Politeness { address_requests_max: 9, tolerance: Duration::ZERO, ..Politeness::default() };
        assert!(rules.check(&log).is_clean());
        let report = rules.with_crawl_delays(&world, "nephila", &log).check(&log);
        assert_eq!(report.total, 1);
        assert_eq!(report.violations[0].fault, Fault::HostRest { had_us: 190, needed_us: 300 });
    }

    #[test]
    fn an_address_asked_too_soon_under_another_name_is_caught() {
        let early = Event::Request(sample("c.test", "/x", 50, 960, 970));
        let fault = Fault::AddressRest { had_us: 20, needed_us: 50 };
        assert_eq!(faults(&rules(), with(early)), [fault]);
    }

    #[test]
    fn two_requests_of_a_host_at_once_are_caught() {
        let rules = Politeness { address_requests_max: 2, host_connections_max: 9, ..rules() };
        let second = Event::Request(sample("b.test", "/x", 50, 920, 930));
        assert_eq!(faults(&rules, with(second)), [Fault::HostBusy(2)]);
    }

    #[test]
    fn two_requests_of_an_address_at_once_are_caught() {
        let second = Event::Request(sample("c.test", "/x", 50, 920, 930));
        assert_eq!(faults(&rules(), with(second)), [Fault::AddressBusy(2)]);
    }

    #[test]
    fn a_server_may_be_late_to_see_an_idle_connection_close_but_not_a_busy_one() {
        let late = |end: u64, rules: &Politeness| {
            let events = [
                Event::Request(sample("a.test", "/1", 1, 0, 40)),
                connection(1, 0, end),
                Event::Request(sample("a.test", "/2", 2, 200, 240)),
                connection(2, 195, 245),
            ];
            faults(rules, events.into())
        };
        let rules = Politeness { closing_grace: Duration::from_micros(20), ..rules() };
        assert_eq!(late(210, &rules), []);
        assert_eq!(late(230, &rules), [Fault::HostConnections(2)]);
        let long = Politeness { closing_grace: Duration::from_secs(1), host_requests_max: 9, ..rules };
        let busy = [sample("a.test", "/1", 1, 0, 220), sample("a.test", "/2", 2, 200, 240)];
        let events =
            busy.map(Event::Request).into_iter().chain([connection(1, 0, 225), connection(2, 195, 245)]);
        assert!(faults(&long, events.collect()).contains(&Fault::HostConnections(2)));
    }

    #[test]
    fn a_second_connection_to_a_host_is_caught_even_when_idle() {
        let mut events = clean();
        // The connection of request 8 stays open while request 10 of the same host comes by another one.
        events.retain(|event| !matches!(event, Event::Connection(connection) if connection.id == 8));
        events.push(connection(8, 800, 2000));
        events.push(Event::Request(sample("a.test", "/x", 50, 1000, 1010)));
        events.push(connection(50, 1000, 1020));
        assert_eq!(faults(&rules(), events), [Fault::HostConnections(2)]);
    }

    #[test]
    fn a_third_connection_to_an_address_is_caught() {
        let mut events = with(connection(60, 910, 930));
        assert_eq!(faults(&rules(), events.clone()), []);
        events.push(connection(61, 920, 925));
        assert_eq!(faults(&rules(), events), [Fault::AddressConnections(3)]);
    }

    #[test]
    fn a_connection_that_never_closed_counts_to_the_end() {
        let mut events = clean();
        events.retain(|event| !matches!(event, Event::Connection(connection) if connection.id == 0));
        let found = faults(&rules(), events);
        assert_eq!(found.iter().filter(|fault| matches!(fault, Fault::HostConnections(2))).count(), 4);
    }

    #[test]
    fn a_journal_with_losses_is_not_clean() {
        let report = rules().check(&Log::new(clean(), 1));
        assert_eq!(report.violations[0].fault, Fault::Lost(1));
        assert!(!rules().check(&Log::default()).is_clean(), "nothing judged proves nothing");
    }

    #[test]
    fn robots_txt_counts_unless_told_otherwise() {
        let rules = Politeness { address_rest: Duration::ZERO, host_connections_max: 9, ..rules() };
        let early = Event::Request(sample("b.test", "/robots.txt", 50, 1000, 1010));
        assert_eq!(faults(&rules, with(early.clone())).len(), 1);
        let lax = Politeness { counts_robots: false, ..rules };
        assert_eq!(faults(&lax, with(early)), []);
    }
}
