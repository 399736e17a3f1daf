//! A crawl of an imaginary web in virtual time, the same for the same seed, over any state.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nephila_core::entry::open;
use nephila_core::fold::fold;
use nephila_core::frontier::offers::Offer;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report};
use nephila_core::frontier::{Action, Config, Frontier};
use nephila_core::job::JobId;
use nephila_core::key::{DomainKey, HostKey, Prefixes, Secret, UrlKey};
use nephila_core::robots::RobotsResult;
use nephila_core::spider::Outcome;
use nephila_core::state::State;
use nephila_core::time::{Now, Timestamp};
use nephila_core::want::Want;

const SECRET: Secret = Secret([3; 16]);

/// A crawl and its log.
pub(super) struct Crawl<S> {
    frontier: Frontier<S>,
    pub(super) log: Vec<Vec<u8>>,
    pub(super) fetched: u64,
    now: Now,
    random: u64,
}

impl<S: State> Crawl<S> {
    pub(super) fn new(state: S, seed: u64) -> Self {
        let mut config = Config { agent: "nephila".into(), ..Config::default() };
        config.frontier.host_delay = Duration::from_millis(500);
        config.frontier.slot_delay = Duration::from_millis(100);
        config.rules.budget.domain_urls = 60;
        config.rules.budget.parked_text_max = 20;
        let now = Now { mono: 1_000, wall: Timestamp::from_secs(1_790_000_000) };
        let frontier = Frontier::new(config, SECRET, vec![(Prefixes::ALL, state)], Some(now));
        let mut crawl = Crawl { frontier, log: Vec::new(), fetched: 0, now, random: seed };
        for domain in 0..8 {
            crawl.offer(domain, 0, 0, 0);
        }
        crawl
    }

    pub(super) fn state(&mut self) -> &mut S {
        self.frontier.state(0)
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn offer(&mut self, domain: u64, host: u64, page: u64, depth: u8) {
        let origin = format!("http://h{host}.d{domain}.test");
        let text = format!("/section-{}/page-{page}?from=list", page % 7);
        let domain = DomainKey::of(&format!("d{domain}.test"), &SECRET);
        let url = format!("{origin}{text}");
        let path = UrlKey::path_of(nephila_core::url::CrawlUrl::parse(&url).unwrap().key(), &SECRET);
        let key = UrlKey { host: HostKey::of(domain, &origin, &SECRET), path };
        let offer =
            Offer { key, origin: &origin, text: &text, want: &Want { depth, hits: 1, ..Want::of(JobId(1)) } };
        self.frontier.offer(offer);
    }

    /// Commits pending entries, takes up to `tickets` tickets, reports each at once with some links, and advances the
    /// clock.
    pub(super) fn round(&mut self, tickets: usize) {
        for _ in 0..tickets {
            if let Some(bytes) = self.frontier.poll_group(0, self.now).unwrap() {
                self.log.push(bytes);
                self.frontier.handle_committed(0, self.now).unwrap();
            }
            self.frontier.handle_timeout(self.now).unwrap();
            match self.frontier.poll_action(self.now).unwrap() {
                None => {
                    let step = 50 + self.random(20_000);
                    self.now.mono += step;
                    self.now.wall.0 += step;
                }
                Some(Action::Resolve { host, .. }) => {
                    let last = (host.host % 5) as u8;
                    self.frontier.handle_resolved(
                        host,
                        &[IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))],
                        self.now,
                    );
                }
                Some(Action::Fetch(ticket)) if ticket.purpose == Purpose::Robots => {
                    let status = if self.random(4) == 0 { 200 } else { 404 };
                    let mut report = RobotsReport::of(RobotsResult::Status(status), Duration::from_millis(5));
                    report.body = Box::from(&b"User-agent: *\nDisallow: /section-3\n"[..]);
                    self.frontier.handle_robots(ticket.id, report, self.now).unwrap();
                }
                Some(Action::Fetch(ticket)) => {
                    self.fetched += 1;
                    for _ in 0..self.random(8) {
                        let (domain, host, page) = (self.random(8), self.random(4), self.random(200));
                        self.offer(domain, host, page, ticket.depth.saturating_add(1));
                    }
                    let (outcome, status) = match self.random(60) {
                        0..6 => (Outcome::NotFound, 404),
                        6..12 => (Outcome::ServerError, 500),
                        12 => (Outcome::ConnectTimeout, 0),
                        _ => (Outcome::Fetched, 200),
                    };
                    let mut report = Report::of(outcome, status, Duration::from_millis(20));
                    report.digest = 1 + self.random(1_000);
                    report.etag = "\"tag\"".into();
                    self.frontier.handle_report(ticket.id, &report, self.now).unwrap();
                }
            }
        }
    }
}

/// Folds the groups of a log that a state does not hold yet.
pub(super) fn replay(state: &mut impl State, log: &[Vec<u8>]) {
    for bytes in &log[state.position().sequence as usize..] {
        let (group, behind) = open(bytes, state.position()).unwrap();
        fold(state, &group, behind).unwrap();
    }
}
