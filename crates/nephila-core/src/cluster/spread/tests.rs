//! A model of partitions, inboxes and nodes in which everything happens one step at a time, in any order.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::*;
use crate::codec::Reader;
use crate::entry::Entry;
use crate::frontier::{Config, Frontier, Offered};
use crate::job::JobId;
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::spread::DomainSpread;
use crate::state::{MemoryState, State};
use crate::time::{Now, Timestamp};
use crate::url::CrawlUrl;
use crate::want::Want;

const SECRET: Secret = Secret([5; 16]);
const PARTITIONS: u32 = 5;
const NODES: usize = 3;
const DOMAINS: [&str; 3] = ["one.test", "two.test", "three.test"];

fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap()
}

fn partition(host: HostKey) -> usize {
    let holds = |number: &u32| Prefixes::share(*number, PARTITIONS).holds(host.domain);
    (0..PARTITIONS).find(holds).expect("shares have no gaps") as usize
}

fn decided(name: &str, staying: &[&str]) -> DomainSpread {
    let stays = staying.iter().map(|text| UrlKey::of(&url(text), &SECRET).host.host).collect();
    DomainSpread { staying: Arc::new(stays), ..DomainSpread::wish(name, &SECRET) }
}

#[test]
fn a_host_of_a_spread_domain_has_a_key_of_its_own_unless_the_host_stays() {
    let mut spread = Spread::default();
    spread.add(decided("one.test", &["https://old.one.test/"]));
    let natural = |text: &str| UrlKey::of(&url(text), &SECRET);
    let key = |text: &str| spread.key(&url(text), &SECRET);
    for same in ["https://old.one.test/a", "https://a.two.test/", "http://one.test/", "http://[::1]:80/"] {
        assert_eq!(key(same), natural(same), "{same}");
    }
    for other in ["https://new.one.test/a", "http://old.one.test/", "https://old.one.test:8443/"] {
        let (now, before) = (key(other), natural(other));
        assert_ne!(now.host.domain, before.host.domain, "{other}");
        assert_eq!((now.host.host, now.path), (before.host.host, before.path), "{other}");
        let url = url(other);
        let origin = url.origin();
        assert_eq!(spread.host_of(before.host, origin, &SECRET), now.host, "{origin}");
        assert_eq!(spread.host_of(now.host, origin, &SECRET), now.host, "a key of its own stays");
    }
    // Schemes and ports of one name are together.
    assert_eq!(key("http://new.one.test/").host.domain, key("https://new.one.test:8443/").host.domain);
}

#[test]
fn the_first_decision_stands() {
    let mut spread = Spread::default();
    spread.add(decided("one.test", &["http://a.one.test/"]));
    let before = spread.clone();
    spread.add(decided("one.test", &[]));
    assert_eq!(spread, before);
}

// The bytes outlive us: a log of today is read by the node of tomorrow.
#[test]
fn golden_spread() {
    let staying = Arc::new(BTreeSet::from([1, 0x0203_0405]));
    let one = DomainSpread { domain: DomainKey(0x0102), name: "a.b".into(), staying };
    let mut out = Vec::new();
    one.put(&mut out);
    let golden = [&[0, 0, 0, 0, 0, 0, 1, 2, 3][..], b"a.b", &[2, 0, 0, 0, 1, 2, 3, 4, 5]].concat();
    assert_eq!(out, golden);
    assert_eq!(DomainSpread::read(&mut Reader::new(&out)), Ok(one));
    for cut in 0..out.len() {
        assert!(DomainSpread::read(&mut Reader::new(&out[..cut])).is_err(), "cut at {cut}");
    }
}

/// The part that a faulty program leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Nodes go by a wish, before the home has decided.
    TooEarly,
    /// The home keeps what belongs elsewhere.
    NotSentOn,
    /// The reader of the home's inbox does not wait for the decision.
    NotWaited,
}

#[derive(Clone, Debug)]
enum Mail {
    Offer(OfferedUrl),
    Wish(&'static str),
}

struct Model {
    state: u64,
    fault: Fault,
    partitions: Vec<Frontier<MemoryState>>,
    inboxes: Vec<VecDeque<Mail>>,
    /// An offer that the worker of a partition holds until there is room.
    held: Vec<Option<OfferedUrl>>,
    /// Domains whose decision the reader of an inbox waits for.
    waits: Vec<Option<DomainKey>>,
    /// Whether a group is in flight.
    writes: Vec<bool>,
    /// What each node has read.
    tables: Vec<Spread>,
    sent: BTreeSet<String>,
    lost: u64,
}

impl Model {
    fn new(seed: u64, fault: Fault) -> Model {
        let count = PARTITIONS as usize;
        let one = |number| {
            let state = (Prefixes::share(number, PARTITIONS), MemoryState::new());
            Frontier::new(Config::default(), SECRET, vec![state], None)
        };
        Model {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            fault,
            partitions: (0..PARTITIONS).map(one).collect(),
            inboxes: vec![VecDeque::new(); count],
            held: vec![None; count],
            waits: vec![None; count],
            writes: vec![false; count],
            tables: vec![Spread::default(); NODES],
            sent: BTreeSet::new(),
            lost: 0,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % bound as u64) as usize
    }

    fn now() -> Now {
        Now { mono: 1_000, wall: Timestamp(2_000_000_000_000) }
    }

    fn offered(&self, node: usize, text: &str) -> OfferedUrl {
        let mut offer = OfferedUrl::new(&url(text), Want::of(JobId(1)), &SECRET);
        offer.key = self.tables[node].key(&url(text), &SECRET);
        offer
    }

    fn step(&mut self) {
        let number = self.below(PARTITIONS as usize);
        match self.below(16) {
            // A page of a node names a URL. Partitions that are on the node are offered the URL directly.
            0..6 => {
                let (domain, host) = (DOMAINS[self.below(3)], self.below(8));
                let host = if host == 0 { domain.to_owned() } else { format!("h{host}.{domain}") };
                let text = format!("http://{host}/{}", self.below(4));
                let node = self.below(NODES);
                let offer = self.offered(node, &text);
                let to = partition(offer.key.host);
                self.sent.insert(text);
                let directly = to % NODES == node
                    && matches!(self.partitions[to].offer(offer.offer()), Offered::Taken | Offered::Recent);
                if !directly {
                    self.inboxes[to].push_back(Mail::Offer(offer));
                }
            }
            6 => {
                let name = DOMAINS[self.below(3)];
                let home = partition(HostKey { domain: DomainKey::of(name, &SECRET), host: 0 });
                self.inboxes[home].push_back(Mail::Wish(name));
                if self.fault == Fault::TooEarly {
                    let node = self.below(NODES);
                    self.tables[node].add(DomainSpread::wish(name, &SECRET));
                }
            }
            7..11 => self.read(number),
            11..13 => self.write(number),
            13..15 => self.commit(number),
            _ => {
                let node = self.below(NODES);
                let own = self.partitions[number].spread_of(0).clone();
                own.iter().for_each(|decided| self.tables[node].add(decided.clone()));
            }
        }
    }

    /// The reader of an inbox takes one message.
    fn read(&mut self, number: usize) {
        if let Some(domain) = self.waits[number] {
            if self.partitions[number].spread_of(0).get(domain).is_none() {
                return;
            }
            self.waits[number] = None;
        }
        if let Some(held) = self.held[number].take() {
            return self.take(number, held);
        }
        match self.inboxes[number].pop_front() {
            None => {}
            Some(Mail::Wish(name)) => {
                let wish = DomainSpread::wish(name, &SECRET);
                if self.fault != Fault::NotWaited {
                    self.waits[number] = Some(wish.domain);
                }
                self.partitions[number].handle_command(0, Entry::Spread(wish));
            }
            Some(Mail::Offer(offer)) => {
                let (here, elsewhere) = self.partitions[number].spread_of(0).divide(vec![offer], &SECRET);
                for on in elsewhere.into_iter().filter(|_| self.fault != Fault::NotSentOn) {
                    self.inboxes[partition(on.key.host)].push_back(Mail::Offer(on));
                }
                here.into_iter().for_each(|offer| self.take(number, offer));
            }
        }
    }

    /// The worker takes an offer from the inbox.
    fn take(&mut self, number: usize, offer: OfferedUrl) {
        match self.partitions[number].offer(offer.offer()) {
            Offered::Taken | Offered::Recent => {}
            Offered::Full => self.held[number] = Some(offer),
            // The position of the inbox moves on: nobody offers this URL again.
            Offered::Elsewhere => self.lost += 1,
        }
    }

    fn write(&mut self, number: usize) {
        self.writes[number] |= self.partitions[number].poll_group(0, Model::now()).unwrap().is_some();
    }

    fn commit(&mut self, number: usize) {
        if std::mem::take(&mut self.writes[number]) {
            self.partitions[number].handle_committed(0, Model::now()).unwrap();
        }
    }

    /// Each origin and each URL is of one partition. Returns the number of URLs.
    fn check(&mut self) -> Result<usize, String> {
        let (mut hosts, mut urls) = (BTreeSet::new(), 0);
        for (number, frontier) in self.partitions.iter_mut().enumerate() {
            let mut some = Vec::new();
            frontier.state(0).hosts_from(HostKey::MIN, 1_000, &mut some).unwrap();
            for (key, record) in some {
                if !hosts.insert(record.origin.clone()) {
                    return Err(format!("{} has two owners", record.origin));
                }
                if partition(key) != number {
                    return Err(format!("{} is not of partition {number}", record.origin));
                }
            }
            let mut some = Vec::new();
            frontier.state(0).urls_from(UrlKey::default(), 10_000, &mut some).unwrap();
            urls += some.len();
        }
        Ok(urls)
    }

    fn run(&mut self) -> Result<usize, String> {
        let steps = 50 + self.below(400);
        for _ in 0..steps {
            self.step();
            self.check()?;
        }
        // Nothing new comes; everything under way arrives.
        for _ in 0..2_000 {
            let number = self.below(PARTITIONS as usize);
            self.read(number);
            self.write(number);
            self.commit(number);
        }
        let urls = self.check()?;
        match urls == self.sent.len() && self.lost == 0 {
            true => Ok(self.partitions.iter().map(|home| home.spread_of(0).iter().count()).sum()),
            false => Err(format!("{urls} of {} URLs are known, {} lost", self.sent.len(), self.lost)),
        }
    }
}

#[test]
fn every_url_is_of_one_partition_at_every_position_and_accepted_once() {
    let mut spreads = 0;
    for seed in 0..400 {
        spreads += Model::new(seed, Fault::None).run().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    assert!(spreads > 400, "only {spreads} domains were spread");
}

#[test]
fn a_program_that_leaves_out_a_part_of_the_rule_is_noticed() {
    for fault in [Fault::TooEarly, Fault::NotSentOn, Fault::NotWaited] {
        let noticed = (0..400).filter(|seed| Model::new(*seed, fault).run().is_err()).count();
        assert!(noticed > 0, "{fault:?}");
    }
}
