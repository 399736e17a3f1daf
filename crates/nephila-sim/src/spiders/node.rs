//! The node: the real pool, a plain frontier of one request at a time for each site, and an archive that takes its time.

use std::collections::{BTreeMap, BTreeSet};

use nephila_core::remote::v2::frame::Frame;
use nephila_core::remote::v2::message::Wanted;
use nephila_core::remote::v2::pool::{Action, Ask, End, Hello, Pool, Settings};

use super::books::URLS_OF_SITE;
use super::net::Side;
use super::{Event, Planted, Sim};
use crate::Checker;

/// Bytes of results that a spider may send: less than what is shipped, so that large bodies meet the limit.
const WINDOW_BYTES: u64 = 16 << 10;
/// How long a node may have sites asked after it was told so, in milliseconds.
const AUTHORITY_MS: u64 = 20_000;
/// Time between two renewals of it.
const RENEW_EVERY_MS: u64 = 4_000;

/// A process of the node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) life: u64,
    pub(super) pool: Pool,
    /// What its clock is ahead.
    ahead: u64,
    tick_at: Option<u64>,
    next_id: u64,
    /// Asks that are open: URL and bytes of the body so far.
    pub(super) asks: BTreeMap<u64, (u64, Vec<u8>)>,
    /// The URLs of all asks of this life.
    urls: BTreeMap<u64, u64>,
    /// URLs that are asked for, or whose results are not durable.
    under_way: BTreeSet<u64>,
    /// Sites that are asked, or rest.
    busy: BTreeSet<usize>,
    greeted: BTreeSet<u64>,
}

pub(super) fn settings() -> Settings {
    Settings { window_bytes: WINDOW_BYTES, ..Settings::default() }
}

/// The shipped time for which a spider keeps a connection, in milliseconds.
pub(super) fn kept_for() -> u64 {
    settings().kept_for.as_millis() as u64
}

impl Sim {
    pub(super) fn node_starts(&mut self) {
        self.node_lives += 1;
        let (life, ahead) = (self.node_lives, self.rng.below(1 << 40));
        let lease = settings().lease_ms();
        let quiet = (life > 1).then_some(self.t + lease);
        let pool = Pool::new(settings(), quiet.map(|at| at + ahead));
        self.tell(|| format!("node {life} starts"));
        self.node = Some(Node {
            life,
            pool,
            ahead,
            tick_at: None,
            next_id: life << 32,
            asks: BTreeMap::new(),
            urls: BTreeMap::new(),
            under_way: BTreeSet::new(),
            busy: BTreeSet::new(),
            greeted: BTreeSet::new(),
        });
        // The rests of sites count from the end of the quiet time: spiders of the last process may ask until then.
        for site in 0..self.books.sites.len() {
            let at = quiet.map_or(self.t, |at| at + self.books.sites[site].rest);
            self.at(at, Event::Rested { life, site });
        }
        if self.has_authority {
            self.renew(life);
        }
        if !self.is_calm() {
            let at = self.t + self.rng.within(20_000, 240_000);
            self.at(at, Event::NodeDies { life });
        }
    }

    pub(super) fn node_dies(&mut self, life: u64) {
        if self.is_calm() || self.node.as_ref().is_none_or(|node| node.life != life) {
            return;
        }
        let Some(node) = self.node.take() else { return };
        self.tell(|| format!("node {life} dies"));
        self.figures.node_deaths += 1;
        node.under_way.iter().for_each(|url| self.books.excuse(*url));
        let links: Vec<u64> =
            self.links.iter().filter(|(_, link)| link.node_life == life).map(|(id, _)| *id).collect();
        for link in links {
            match self.rng.one_in(4) {
                true => self.cut(link, &[]),
                false => self.cut(link, &[Side::Spider]),
            }
        }
        let at = self.t + self.rng.within(200, 30_000);
        self.at(at, Event::NodeStarts);
    }

    /// Renews what lets the node have sites asked; now and then, it is not renewed for a while.
    pub(super) fn renew(&mut self, life: u64) {
        let until = self.t + AUTHORITY_MS;
        let is_paused = !self.is_calm() && self.rng.one_in(15);
        let next = if is_paused { self.rng.within(10_000, 60_000) } else { RENEW_EVERY_MS };
        let Some(node) = self.node.as_mut().filter(|node| node.life == life) else { return };
        node.pool.set_authority(Some(until + node.ahead));
        self.books.set_authority(until);
        self.at(until, Event::AuthorityEnds);
        self.at(self.t + next, Event::Renew { life });
    }

    /// A site has rested.
    pub(super) fn rested(&mut self, life: u64, site: usize) {
        let is_calm = self.is_calm();
        let Some(node) = self.node.as_mut().filter(|node| node.life == life) else { return };
        let next = |sim: &super::Books, node: &Node| {
            sim.sites[site].left.iter().copied().find(|url| !node.under_way.contains(url))
        };
        if node.busy.contains(&site) {
            return;
        }
        let mut url = next(&self.books, node);
        if url.is_none() && !is_calm {
            self.books.make(site);
            url = next(&self.books, node);
        }
        let Some(url) = url else {
            // Something may come back from the archive.
            return self.at(self.t + 1_000, Event::Rested { life, site });
        };
        let id = node.next_id;
        node.next_id += 1;
        let address = self.books.sites[site].address;
        let ask = Ask {
            id,
            wanted: Wanted {
                url: format!("http://site{site}.test/{url}"),
                address: [192, 0, 2, address as u8].into(),
                connections_max: self.books.addresses[address].limit,
                head_only: false,
                keep_exchange: true,
                second: false,
                is_typed: false,
                keep_connection: true,
                body_bytes_max: None,
                read_as: None,
                fields: Vec::new(),
            },
        };
        node.busy.insert(site);
        node.under_way.insert(url);
        node.asks.insert(id, (url, Vec::new()));
        node.urls.insert(id, url);
        if !node.pool.ask(self.t + node.ahead, ask) {
            self.books.found(Checker::Bounds, "the pool takes no ask although few wait");
        }
        self.flush_node();
    }

    /// The site may be asked again after its rest from `from` on.
    fn rest(&mut self, life: u64, url: u64, from: u64) {
        let site = (url / URLS_OF_SITE) as usize;
        if let Some(node) = &mut self.node {
            node.busy.remove(&site);
        }
        self.at(from + self.books.sites[site].rest, Event::Rested { life, site });
    }

    pub(super) fn cancel(&mut self, ask: u64) {
        let Some(node) = &mut self.node else { return };
        let Some((url, _)) = node.asks.remove(&ask) else { return };
        let life = node.life;
        node.pool.cancel(self.t + node.ahead, ask);
        node.under_way.remove(&url);
        self.figures.cancels += 1;
        self.tell(|| format!("ask {ask} is cancelled"));
        self.books.excuse(url);
        // A spider may ask the site until it hears of it, or its lease ends.
        let lease = settings().lease_ms();
        self.site_waits(life, url, lease);
        self.flush_node();
    }

    /// The site stays busy for a while, then rests.
    fn site_waits(&mut self, life: u64, url: u64, ms: u64) {
        self.at(self.t + ms, Event::Free { life, url });
    }

    pub(super) fn free(&mut self, life: u64, url: u64) {
        if self.node.as_ref().is_some_and(|node| node.life == life) {
            self.rest(life, url, self.t);
        }
    }

    pub(super) fn node_tick(&mut self, life: u64) {
        let Some(node) = self.node.as_mut().filter(|node| node.life == life) else { return };
        if node.tick_at != Some(self.t) {
            return;
        }
        node.tick_at = None;
        let now = self.t + node.ahead;
        node.pool.tick(now);
        if node.pool.next().is_some_and(|next| next <= now) {
            self.books.found(Checker::Liveness, "the pool wants a tick again at once");
        }
        self.flush_node();
    }

    pub(super) fn node_closed(&mut self, link: u64) {
        let Some(node) = self.node.as_mut() else { return };
        if node.greeted.remove(&link) {
            node.pool.closed(self.t + node.ahead, link);
        }
        self.flush_node();
    }

    pub(super) fn node_frame(&mut self, link: u64, frame: Frame) {
        let Some(node) = self.node.as_mut() else { return };
        let now = self.t + node.ahead;
        match frame {
            Frame::Hello { name, capacity, session, .. } if node.greeted.insert(link) => {
                self.next_session += 1;
                let hello = Hello { name: name.into(), capacity, session };
                node.pool.hello(now, link, hello, self.next_session, "{}");
            }
            frame => node.pool.frame(now, link, frame),
        }
        self.flush_node();
    }

    fn flush_node(&mut self) {
        while let Some(action) = self.node.as_mut().and_then(|node| node.pool.poll()) {
            self.node_does(action);
        }
        let Some(node) = &mut self.node else { return };
        if let Some(next) = node.pool.next() {
            let at = next.saturating_sub(node.ahead).max(self.t);
            if node.tick_at.is_none_or(|tick| at < tick) {
                node.tick_at = Some(at);
                let life = node.life;
                self.at(at, Event::NodeTick { life });
            }
        }
    }

    fn node_does(&mut self, action: Action) {
        let Some(node) = &mut self.node else { return };
        let life = node.life;
        match action {
            Action::Send { connection, frame } => {
                if let Frame::Stored { ids } = &frame {
                    let early = ids.iter().find(|id| !self.books.is_durable(node.urls[id]));
                    if early.is_some() {
                        self.books.found(Checker::Archive, "STORED is said of a page that is not durable");
                    }
                }
                self.send(connection, Side::Spider, &frame);
            }
            Action::Close { connection } => self.close(connection, Side::Node),
            Action::Part { ask, bytes } => match node.asks.get_mut(&ask) {
                Some((_, body)) => body.extend_from_slice(&bytes),
                None => {
                    self.books.found(Checker::Completeness, format!("a part of ask {ask}, which has ended"))
                }
            },
            Action::Restart { ask } => {
                if let Some((_, body)) = node.asks.get_mut(&ask) {
                    body.clear();
                }
            }
            Action::End { ask, end } => {
                let Some((url, body)) = node.asks.remove(&ask) else {
                    return self.books.found(Checker::Completeness, format!("ask {ask} ends twice"));
                };
                self.rest(life, url, self.t);
                match end {
                    End::Lost { why, .. } => {
                        self.figures.lost += 1;
                        self.tell(|| format!("ask {ask} of {url} is lost: {}", why.as_str()));
                        self.books.excuse(url);
                        if let Some(node) = &mut self.node {
                            node.under_way.remove(&url);
                        }
                    }
                    End::Came { facts, session, .. } => {
                        if facts.detail != url.to_string() {
                            self.books.found(Checker::Archive, format!("{url} has the facts of another"));
                        }
                        if self.planted == Planted::StoredEarly {
                            node_stored(self, ask, session, true);
                        }
                        let at = self.t + self.rng.within(1, 800);
                        self.at(at, Event::Written { life, ask, session, body });
                    }
                }
            }
        }
    }

    /// A page is durable; or not, and is asked for again.
    pub(super) fn written(&mut self, life: u64, ask: u64, session: u64, body: &[u8]) {
        let is_stored = !self.rng.one_in(200);
        let Some(node) = self.node.as_mut().filter(|node| node.life == life) else { return };
        let url = node.urls[&ask];
        node.under_way.remove(&url);
        match is_stored {
            true => self.books.durable(url, body),
            false => self.books.excuse(url),
        }
        node_stored(self, ask, session, is_stored);
        self.flush_node();
    }
}

fn node_stored(sim: &mut Sim, ask: u64, session: u64, is_stored: bool) {
    if let Some(node) = &mut sim.node {
        node.pool.stored(ask, session, is_stored);
    }
}
