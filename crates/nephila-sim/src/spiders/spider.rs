//! A spider: the real agent, the connections that it has to sites, and its lies if it is a liar.

use std::collections::BTreeMap;

use bytes::Bytes;
use nephila_core::remote::v2::agent::{Action, Agent, Closed, Identity, Piece};
use nephila_core::remote::v2::frame::Frame;
use nephila_core::remote::v2::message::{Facts, Wanted};
use nephila_core::spider::Outcome;
use xxhash_rust::xxh3::xxh3_64;

use super::books::{URLS_OF_SITE, content};
use super::net::{Link, Side};
use super::node::kept_for;
use super::{Event, Sim};
use crate::Checker;

/// A spider that leaves is done after this time, or killed, in milliseconds.
const LEAVE_MAX: u64 = 20_000;

/// A process of a spider.
#[derive(Debug)]
pub(super) struct Spider {
    pub(super) life: u64,
    pub(super) is_alive: bool,
    agent: Agent,
    /// What its clock is ahead.
    ahead: u64,
    tick_at: Option<u64>,
    pub(super) link: Option<u64>,
    /// Whether it is on its way to a connection.
    is_dialling: bool,
    pub(super) no_network_until: u64,
    /// Fetches: URL and connection.
    running: BTreeMap<u64, (u64, u64)>,
    /// Results: URL, bytes of facts, and all bytes.
    results: BTreeMap<u64, (u64, u32, Bytes)>,
    connections: Vec<Connection>,
    is_liar: bool,
    /// Results that are sent with a wrong check.
    bad_checks: Vec<u64>,
}

/// A connection to a site.
#[derive(Debug)]
struct Connection {
    number: u64,
    site: usize,
    address: usize,
    /// Since when it is not in use.
    idle: Option<u64>,
}

impl Spider {
    pub(super) fn new() -> Spider {
        Spider {
            life: 0,
            is_alive: false,
            agent: Agent::new(Identity {
                name: String::new(),
                token: String::new(),
                capacity: 0,
                held_bytes_max: 0,
            }),
            ahead: 0,
            tick_at: None,
            link: None,
            is_dialling: false,
            no_network_until: 0,
            running: BTreeMap::new(),
            results: BTreeMap::new(),
            connections: Vec::new(),
            is_liar: false,
            bad_checks: Vec::new(),
        }
    }
}

/// The facts and the body of a result.
fn result_of(url: u64, body: &[u8]) -> (u32, Bytes) {
    let facts = Facts {
        outcome: Outcome::Fetched,
        detail: url.to_string(),
        status: Some(200),
        fields: vec![("content-length".to_owned(), body.len().to_string().into_bytes())],
        address: None,
        protocol: "http/1.1".to_owned(),
        tls: (String::new(), String::new()),
        certificate: None,
        reused: false,
        requests: 1,
        again: false,
        phases: [None; 5],
        total: 1,
        head_bytes: 0,
        body_bytes: body.len() as u64,
        decoded_bytes: body.len() as u64,
        decoding: String::new(),
        redirect: String::new(),
        truncated: None,
        retry_after: None,
        found: Vec::new(),
        exchange: None,
    };
    let facts = facts.to_bytes();
    (facts.len() as u32, [&facts, body].concat().into())
}

impl Sim {
    pub(super) fn spider_starts(&mut self, number: usize) {
        let identity = Identity {
            name: format!("spider-{number}"),
            token: "token".to_owned(),
            capacity: self.rng.within(1, 12) as u32,
            held_bytes_max: 50_000,
        };
        let (ahead, is_liar) = (self.rng.below(1 << 40), self.liars && self.rng.one_in(4));
        let spider = &mut self.spiders[number];
        let life = spider.life + 1;
        *spider =
            Spider { life, is_alive: true, agent: Agent::new(identity), ahead, is_liar, ..Spider::new() };
        self.tell(|| format!("spider {number}: life {life}"));
        self.dial_later(number, 100);
        let at = self.t + self.rng.within(self.life_ms / 5, 2 * self.life_ms);
        self.at(at, Event::SpiderDies { spider: number, life });
    }

    /// The process ends: by itself, or at once.
    pub(super) fn spider_dies(&mut self, number: usize, life: u64) {
        if self.is_calm() || self.spiders[number].life != life || !self.spiders[number].is_alive {
            return;
        }
        if self.rng.one_in(6) {
            self.tell(|| format!("spider {number} leaves"));
            let spider = &mut self.spiders[number];
            spider.agent.leave(self.t + spider.ahead);
            let at = self.t + LEAVE_MAX;
            self.at(at, Event::SpiderDies { spider: number, life });
            return self.flush_spider(number);
        }
        self.tell(|| format!("spider {number} dies"));
        self.figures.spider_deaths += 1;
        let link = self.spiders[number].link;
        if let Some(link) = link {
            match self.rng.one_in(3) {
                true => self.cut(link, &[]),
                false => self.cut(link, &[Side::Node]),
            }
        }
        self.spider_ends(number);
    }

    fn spider_ends(&mut self, number: usize) {
        let spider = &mut self.spiders[number];
        (spider.is_alive, spider.link) = (false, None);
        let (running, results) = (std::mem::take(&mut spider.running), std::mem::take(&mut spider.results));
        let connections = std::mem::take(&mut spider.connections);
        for (url, _) in running.into_values() {
            self.books.ends(self.t, url);
            self.books.excuse(url);
        }
        results.into_values().for_each(|(url, ..)| self.books.excuse(url));
        connections.into_iter().for_each(|connection| self.books.closed(connection.address));
        let at = self.t + self.rng.within(200, 10_000);
        self.at(at, Event::SpiderStarts { spider: number });
    }

    fn dial_later(&mut self, number: usize, ms_max: u64) {
        let at = self.t + self.rng.within(1, ms_max);
        let spider = &mut self.spiders[number];
        if !spider.is_dialling {
            spider.is_dialling = true;
            let life = spider.life;
            self.at(at, Event::Dial { spider: number, life });
        }
    }

    pub(super) fn dial(&mut self, number: usize, life: u64) {
        let spider = &mut self.spiders[number];
        if !spider.is_alive || spider.life != life {
            return;
        }
        spider.is_dialling = false;
        let Some(node) = self.node.as_ref().filter(|_| spider.no_network_until <= self.t) else {
            return self.dial_later(number, 2_000);
        };
        let id = self.next_link;
        self.next_link += 1;
        spider.link = Some(id);
        spider.agent.connected(self.t + spider.ahead);
        self.links.insert(id, Link::new(&mut self.rng, number, node.life));
        self.flush_spider(number);
    }

    pub(super) fn spider_closed(&mut self, link: u64) {
        let number = self.links[&link].spider;
        let spider = &mut self.spiders[number];
        if spider.link == Some(link) {
            spider.link = None;
            spider.agent.closed(self.t + spider.ahead);
            self.dial_later(number, 3_000);
            self.flush_spider(number);
        }
    }

    pub(super) fn spider_frame(&mut self, link: u64, frame: Frame) {
        let number = self.links[&link].spider;
        let spider = &mut self.spiders[number];
        if spider.link == Some(link) {
            spider.agent.frame(self.t + spider.ahead, frame);
            self.flush_spider(number);
        }
    }

    pub(super) fn spider_tick(&mut self, number: usize, life: u64) {
        let spider = &mut self.spiders[number];
        if !spider.is_alive || spider.life != life || spider.tick_at != Some(self.t) {
            return;
        }
        spider.tick_at = None;
        let now = self.t + spider.ahead;
        spider.agent.tick(now);
        if spider.agent.next().is_some_and(|next| next <= now) {
            self.books.found(Checker::Liveness, "the agent wants a tick again at once");
        }
        self.flush_spider(number);
    }

    fn flush_spider(&mut self, number: usize) {
        while let Some(action) = self.spiders[number].agent.poll() {
            self.spider_does(number, action);
        }
        while let Some(piece) = self.spiders[number].agent.next_piece() {
            self.write(number, piece);
        }
        let spider = &mut self.spiders[number];
        if let Some(next) = spider.agent.next().filter(|_| spider.is_alive) {
            let at = next.saturating_sub(spider.ahead).max(self.t);
            if spider.tick_at.is_none_or(|tick| at < tick) {
                spider.tick_at = Some(at);
                let life = spider.life;
                self.at(at, Event::SpiderTick { spider: number, life });
            }
        }
    }

    fn say(&mut self, number: usize, frame: &Frame) {
        if let Some(link) = self.spiders[number].link {
            self.send(link, Side::Node, frame);
        }
    }

    fn spider_does(&mut self, number: usize, action: Action) {
        match action {
            Action::Send(frame) => self.say(number, &frame),
            Action::Start { id, wanted } => self.start(number, id, &wanted),
            Action::Abort { id } => {
                let Some((url, connection)) = self.spiders[number].running.remove(&id) else {
                    return self.books.found(Checker::Error, "the agent aborts what does not run");
                };
                self.books.ends(self.t, url);
                self.books.excuse(url);
                self.hang_up(number, connection);
            }
            Action::Forget { id } => {
                let Some((url, ..)) = self.spiders[number].results.remove(&id) else {
                    return self.books.found(Checker::Error, "the agent forgets what it does not have");
                };
                self.books.excuse(url);
            }
            Action::Begin { .. } => {
                let spider = &self.spiders[number];
                if !spider.running.is_empty() || !spider.connections.is_empty() {
                    self.books.found(Checker::Owners, "a session begins with what an earlier one has opened");
                }
            }
            Action::CloseSites => {
                let numbers: Vec<u64> =
                    self.spiders[number].connections.iter().map(|connection| connection.number).collect();
                numbers.into_iter().for_each(|connection| self.hang_up(number, connection));
            }
            Action::Close(why) => {
                if let Some(link) = self.spiders[number].link.take() {
                    self.close(link, Side::Spider);
                }
                self.tell(|| format!("spider {number} closes: {why:?}"));
                match why {
                    Closed::Left => {
                        self.figures.leaves += 1;
                        self.spider_ends(number);
                    }
                    Closed::Frame => self.books.found(Checker::Error, "a frame that a node does not send"),
                    Closed::Refused(..) | Closed::Silent => self.dial_later(number, 3_000),
                }
            }
        }
    }

    /// A fetch begins: on a connection that was kept, or on a new one.
    fn start(&mut self, number: usize, id: u64, wanted: &Wanted) {
        let url: u64 = wanted.url.rsplit('/').next().and_then(|url| url.parse().ok()).expect("a URL of ours");
        let site = (url / URLS_OF_SITE) as usize;
        let address = self.books.sites[site].address;
        let max = wanted.connections_max as usize;
        let spider = &mut self.spiders[number];
        let kept = spider.connections.iter_mut().find(|one| one.site == site && one.idle.is_some());
        let connection = if let Some(kept) = kept {
            kept.idle = None;
            kept.number
        } else {
            let there = || spider.connections.iter().filter(|one| one.address == address);
            if max != 0 && there().count() >= max {
                match there().find(|one| one.idle.is_some()).map(|one| one.number) {
                    Some(kept) => self.hang_up(number, kept),
                    None => self.books.found(Checker::Politeness, "a spider gets more URLs than connections"),
                }
            }
            self.next_connection += 1;
            let new = Connection { number: self.next_connection, site, address, idle: None };
            self.spiders[number].connections.push(new);
            self.books.opened(address);
            self.next_connection
        };
        self.books.begins(self.t, url);
        self.tell(|| format!("spider {number} asks for {url} as {id}"));
        let life = self.spiders[number].life;
        self.spiders[number].running.insert(id, (url, connection));
        let ms = match self.books.sites[site].is_slow {
            true => self.rng.within(2_000, 40_000),
            false => self.rng.within(20, 1_500),
        };
        self.at(self.t + ms, Event::Fetched { spider: number, life, id, connection });
    }

    fn hang_up(&mut self, number: usize, connection: u64) {
        let connections = &mut self.spiders[number].connections;
        if let Some(place) = connections.iter().position(|one| one.number == connection) {
            let one = connections.remove(place);
            self.books.closed(one.address);
        }
    }

    pub(super) fn kept(&mut self, number: usize, life: u64, connection: u64, since: u64) {
        let spider = &self.spiders[number];
        let is_it = |one: &Connection| one.number == connection && one.idle == Some(since);
        if spider.life == life && spider.connections.iter().any(is_it) {
            self.hang_up(number, connection);
        }
    }

    pub(super) fn fetched(&mut self, number: usize, life: u64, id: u64, connection: u64) {
        let spider = &mut self.spiders[number];
        if spider.life != life || spider.running.get(&id).is_none_or(|(_, at)| *at != connection) {
            return;
        }
        let Some((url, _)) = spider.running.remove(&id) else { return };
        self.books.ends(self.t, url);
        match self.rng.one_in(4) {
            true => self.hang_up(number, connection),
            false => {
                let since = self.t;
                let spider = &mut self.spiders[number];
                if let Some(one) = spider.connections.iter_mut().find(|one| one.number == connection) {
                    one.idle = Some(since);
                }
                let over = Event::Kept { spider: number, life, connection, since };
                self.at(since + kept_for(), over);
            }
        }
        let (facts, bytes) = result_of(url, &content(url));
        let (len, now) = (bytes.len() as u64, self.t + self.spiders[number].ahead);
        let spider = &mut self.spiders[number];
        spider.results.insert(id, (url, facts, bytes));
        if !spider.agent.ended(now, id, facts, len - u64::from(facts)) {
            self.books.found(Checker::Error, "the agent does not want the result of a fetch that it began");
        }
        self.flush_spider(number);
    }

    /// Writes a piece of a result; a liar now and then something else.
    fn write(&mut self, number: usize, piece: Piece) {
        let Piece { id, begins, from, len, ends } = piece;
        let spider = &self.spiders[number];
        let Some((_, _, bytes)) = spider.results.get(&id) else {
            return self.books.found(Checker::Error, "a piece of a result that the agent has forgotten");
        };
        let bytes = bytes.clone();
        let part = bytes.slice(from as usize..from as usize + len);
        let lie = (begins.is_some() && spider.is_liar && !self.is_calm() && self.rng.one_in(15))
            .then(|| self.rng.below(7));
        self.figures.lies += u64::from(lie.is_some());
        match begins {
            Some((facts, all)) => {
                let body = all - u64::from(facts);
                let body = match lie {
                    Some(0) => body + 1,
                    Some(1) => body.saturating_sub(1),
                    _ => body,
                };
                self.say(number, &Frame::Done { id, facts, body, start: part });
            }
            None => self.say(number, &Frame::Data { id, bytes: part }),
        }
        match lie {
            Some(2) => self.spiders[number].bad_checks.push(id),
            Some(3) => self.say(number, &Frame::Return { id }),
            Some(4) => self.say(number, &Frame::Data { id, bytes: vec![7; 60_000].into() }),
            Some(5) => self.lie_of_another(number),
            _ => {}
        }
        if ends {
            let is_bad = self.spiders[number].bad_checks.contains(&id);
            let check = xxh3_64(&bytes) ^ u64::from(is_bad);
            self.say(number, &Frame::End { id, check });
        }
        if ends && lie == Some(6) {
            // A second result.
            self.say_false(number, id);
        }
    }

    /// A result of a URL that another spider fetches.
    fn lie_of_another(&mut self, number: usize) {
        let others = self.spiders.iter().enumerate().filter(|(other, _)| *other != number);
        let ids: Vec<u64> = others.flat_map(|(_, spider)| spider.running.keys().copied()).collect();
        if !ids.is_empty() {
            let id = *self.rng.pick(&ids);
            self.say_false(number, id);
        }
    }

    fn say_false(&mut self, number: usize, id: u64) {
        let url = self.node.as_ref().and_then(|node| node.asks.get(&id)).map_or(0, |(url, _)| *url);
        let (facts, bytes) = result_of(url, b"false");
        let check = xxh3_64(&bytes);
        let body = bytes.len() as u64 - u64::from(facts);
        self.say(number, &Frame::Done { id, facts, body, start: bytes });
        self.say(number, &Frame::End { id, check });
    }
}
