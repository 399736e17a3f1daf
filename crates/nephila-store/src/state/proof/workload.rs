//! An endless log, generated from a seed: discoveries on hosts of very different size, outcomes, robots.txt.
//!
//! The life of a URL: some URLs are refused or parked at discovery. The others wait for [`Workload::lag`] groups, then
//! their fetch ends; some fail first and are fetched again a little later. A host's floors follow.
//!
//! Invariant: group `n` depends on the seed and on `n` alone, so a killed process can continue after group `n` without
//! a difference.

use std::collections::BTreeMap;

use nephila_core::entry::{
    Admission, Ended, Entry, FoundHost, FoundUrl, FoundUrls, Group, Origin, RobotsRead, seal,
};
use nephila_core::handler::ReadAs;
use nephila_core::job::JobId;
use nephila_core::key::{DomainKey, HostKey, Secret, UrlKey};
use nephila_core::refusal::Refusal;
use nephila_core::spider::Outcome;
use nephila_core::state::Position;
use nephila_core::state::queue::{LaterKey, QueueKey, band};
use nephila_core::state::record::{RobotsPolicy, RobotsRecord};
use nephila_core::time::{Seconds, Timestamp};
use nephila_core::want::Want;

/// The secret of all keys.
pub const SECRET: Secret = Secret([9; 16]);

/// The time of the first group, in seconds since 1970.
const BEGIN: u32 = 1_794_700_000;
/// Groups from a failed fetch to the next.
const RETRY_LAG: u64 = 3;
/// Hosts of a domain.
const DOMAIN_HOSTS: u64 = 3;
/// Average number of URLs per host.
const HOST_URLS: u32 = 12;
/// The same for all URLs, so that they leave their queues in order of arrival.
const PRIORITY: u8 = 5;
/// The same for all URLs, like the priority.
const DEPTH: u8 = 1;
/// Number of equal pages that closes a shape.
const ALIKE_MAX: u16 = 20;
/// The robots.txt of some hosts.
const ROBOTS: &[u8] = b"User-agent: *\nDisallow: /private\nCrawl-delay: 2\n";

/// A log. See the module.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Determines the whole log.
    pub seed: u64,
    /// New URLs per group.
    pub urls: u32,
    /// Groups from the discovery of a URL to the end of its fetch.
    pub lag: u64,
}

/// Fate of a URL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Refused,
    Parked,
    Bare,
    FailsFirst,
    Fetched,
}

/// A URL of the log.
struct Url {
    key: UrlKey,
    host: u64,
    text: Box<str>,
    number: u64,
    hash: u64,
}

impl Url {
    fn fate(&self) -> Fate {
        match self.hash % 32 {
            0 => Fate::Refused,
            1 => Fate::Parked,
            2 => Fate::Bare,
            3 | 4 => Fate::FailsFirst,
            _ => Fate::Fetched,
        }
    }
}

impl Workload {
    /// Small groups, for tests that fold each group many times.
    pub const SMALL: Workload = Workload { seed: 1, urls: 6, lag: 5 };

    /// The group with this number; the first has number 1.
    pub fn group(&self, number: u64) -> Group {
        let mut entries = vec![Entry::Found(self.found(number))];
        if number > 1 {
            let hosts = self.hosts(number - 2)..self.hosts(number - 1);
            entries.extend(hosts.filter(|host| host.is_multiple_of(2)).map(|host| self.robots(host, number)));
        }
        if let Some(first) = number.checked_sub(self.lag).filter(|first| *first > 0) {
            let ended = self.urls_of(first).into_iter();
            let ended = ended.filter(|url| matches!(url.fate(), Fate::FailsFirst | Fate::Fetched));
            entries.extend(ended.map(|url| self.ended(url, number, first)));
        }
        if let Some(first) = number.checked_sub(self.lag + RETRY_LAG).filter(|first| *first > 0) {
            let again = self.urls_of(first).into_iter().filter(|url| url.fate() == Fate::FailsFirst);
            entries.extend(again.map(|url| self.ended_again(url, number)));
        }
        entries.push(Entry::Inbox { name: "links".into(), position: number });
        Group { epoch: 1, entries }
    }

    /// The sealed group after a position, and its own position.
    pub fn sealed(&self, behind: Position) -> (Vec<u8>, Position) {
        seal(&self.group(behind.sequence + 1), behind)
    }

    /// The first groups of the log.
    pub fn log(&self, groups: usize) -> Vec<Vec<u8>> {
        let mut position = Position::default();
        (0..groups)
            .map(|_| {
                let (bytes, behind) = self.sealed(position);
                position = behind;
                bytes
            })
            .collect()
    }

    /// Number of discoveries and outcomes in a group.
    pub fn entries(group: &Group) -> u64 {
        let count = |entry: &Entry| match entry {
            Entry::Found(found) => found.hosts.iter().map(|host| host.urls.len() as u64).sum(),
            Entry::Ended(_) => 1,
            _ => 0,
        };
        group.entries.iter().map(count).sum()
    }

    /// Time of a group.
    pub fn at(number: u64) -> Seconds {
        Seconds(BEGIN + number as u32)
    }

    fn new_hosts(&self) -> u32 {
        (self.urls / HOST_URLS).max(1)
    }

    /// Number of hosts after a group.
    fn hosts(&self, number: u64) -> u64 {
        number * u64::from(self.new_hosts())
    }

    fn urls_of(&self, group: u64) -> Vec<Url> {
        (0..self.urls).map(|index| self.url(group, index)).collect()
    }

    fn url(&self, group: u64, index: u32) -> Url {
        let number = group * u64::from(self.urls) + u64::from(index);
        let hash = mix(self.seed ^ mix(number));
        let (host, text) = if index < self.new_hosts() {
            (self.hosts(group - 1) + u64::from(index), "/".into())
        } else {
            // Few hosts have many URLs and many have few: the oldest of a million has about one URL in a hundred.
            let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
            let host = (self.hosts(group) as f64 * unit * unit * unit) as u64;
            (
                host,
                format!(
                    "/{}/{}-{number:x}.html",
                    SECTIONS[(hash >> 8) as usize % 8],
                    SECTIONS[(hash >> 4) as usize % 8]
                ),
            )
        };
        let origin = origin(host);
        let path = UrlKey::path_of(&[&*origin, &*text].concat(), &SECRET);
        Url { key: UrlKey { host: host_key(host, &origin), path }, host, text: text.into(), number, hash }
    }

    fn found(&self, number: u64) -> FoundUrls {
        let at = Workload::at(number);
        let mut hosts: BTreeMap<HostKey, FoundHost> = BTreeMap::new();
        for url in self.urls_of(number) {
            let place = QueueKey::of(PRIORITY, DEPTH, url.key.path, at);
            let admission = match url.fate() {
                Fate::Refused => {
                    Admission::Refuse(Refusal::ALL[(url.hash >> 5) as usize % Refusal::ALL.len()])
                }
                Fate::Parked => Admission::Park(QueueKey::parked(PRIORITY, DEPTH, url.key.path, at)),
                Fate::Bare => Admission::ParkBare,
                Fate::FailsFirst | Fate::Fetched => Admission::Queue(place),
            };
            let is_new = url.host >= self.hosts(number - 1);
            let of_host = hosts.entry(url.key.host).or_insert_with(|| FoundHost {
                key: url.key.host,
                origin: is_new.then(|| origin(url.host).into()),
                displaced: false,
                urls: Vec::new(),
            });
            of_host.urls.push(FoundUrl {
                path: url.key.path,
                text: url.text,
                admission,
                want: Want {
                    depth: DEPTH,
                    hops: nephila_core::job::Hops::by_code(u8::from((url.hash >> 50).is_multiple_of(9))),
                    read_as: if (url.hash >> 54).is_multiple_of(9) { ReadAs::Feed } else { ReadAs::Page },
                    priority: PRIORITY,
                    hits: (url.hash >> 40) as u32 % 3,
                    ..Want::of(JobId(1))
                },
            });
        }
        FoundUrls { at, hosts: hosts.into_values().collect() }
    }

    /// The first fetch of a URL that was discovered in group `first`.
    fn ended(&self, url: Url, number: u64, first: u64) -> Entry {
        let fails = url.fate() == Fate::FailsFirst;
        let floor = QueueKey { band: band(PRIORITY, DEPTH), age: Workload::at(first), low: u32::MAX };
        Entry::Ended(Box::new(Ended {
            fetch: 2 * url.number,
            at: Workload::at(number),
            outcome: if fails { Outcome::ServerError } else { Outcome::Fetched },
            status: if fails { 503 } else { 200 },
            digest: if fails { 0 } else { url.hash | 1 },
            simhash: 0,
            bytes: if fails { 0 } else { url.hash >> 44 },
            shapes: if url.hash & 0x700 == 0 { [mix(url.host) | 1, 0] } else { [0; 2] },
            alike_max: ALIKE_MAX,
            etag: if url.hash & 0x1000 == 0 {
                format!("\"{:x}\"", url.hash >> 32).into()
            } else {
                Box::default()
            },
            last_modified: Box::default(),
            from: Origin::Queue,
            next: fails.then(|| Workload::at(number + RETRY_LAG)),
            retries: u8::from(fails),
            floor,
            later_floor: LaterKey::MIN,
            rest_until: Timestamp(0),
            failures: u8::from(fails),
            key: url.key,
            text: url.text,
        }))
    }

    /// The second fetch of a URL whose first fetch failed.
    fn ended_again(&self, url: Url, number: u64) -> Entry {
        let at = Workload::at(number);
        Entry::Ended(Box::new(Ended {
            fetch: 2 * url.number + 1,
            at,
            outcome: Outcome::Fetched,
            status: 200,
            digest: url.hash | 1,
            simhash: 0,
            bytes: url.hash >> 48,
            shapes: [0; 2],
            alike_max: ALIKE_MAX,
            etag: Box::default(),
            last_modified: "Sun, 15 Nov 2026 06:00:00 GMT".into(),
            from: Origin::Later,
            next: None,
            retries: 0,
            floor: QueueKey::MIN,
            later_floor: LaterKey { due: at, path: u64::MAX },
            rest_until: Timestamp(0),
            failures: 0,
            key: url.key,
            text: url.text,
        }))
    }

    fn robots(&self, host: u64, number: u64) -> Entry {
        let at = Workload::at(number);
        let rules = host.is_multiple_of(8);
        let policy = if rules { RobotsPolicy::Rules } else { RobotsPolicy::AllowAll };
        let record =
            RobotsRecord { policy, fetched: at, expires: Seconds(at.0 + 86_400), ..RobotsRecord::default() };
        Entry::Robots(Box::new(RobotsRead {
            host: host_key(host, &origin(host)),
            record,
            body: rules.then(|| ROBOTS.into()),
            rest_until: Timestamp(0),
            failures: 0,
        }))
    }
}

fn origin(host: u64) -> String {
    format!("http://h{host}.d{}.test", host / DOMAIN_HOSTS)
}

fn host_key(host: u64, origin: &str) -> HostKey {
    HostKey::of(DomainKey::of(&format!("d{}.test", host / DOMAIN_HOSTS), &SECRET), origin, &SECRET)
}

/// Spreads the bits of a number (the finish of SplitMix64).
pub fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const SECTIONS: [&str; 8] = ["news", "shop", "people", "archive", "2026", "reviews", "forum", "images"];

#[cfg(test)]
mod tests {
    use nephila_core::entry::open;
    use nephila_core::fold::fold;
    use nephila_core::state::{Item, MemoryState, State};
    use nephila_core::url::CrawlUrl;

    use super::*;

    #[test]
    fn keys_are_those_of_the_urls() {
        for url in Workload::SMALL.urls_of(40) {
            let whole = CrawlUrl::parse(&[&*origin(url.host), &*url.text].concat()).unwrap();
            assert_eq!(UrlKey::of(&whole, &SECRET), url.key, "{}", whole.as_str());
        }
    }

    #[test]
    fn every_kind_of_thing_is_in_the_state_and_what_has_ended_left_its_queue() {
        let mut state = MemoryState::new();
        for bytes in Workload::SMALL.log(100) {
            let (group, behind) = open(&bytes, state.position()).unwrap();
            fold(&mut state, &group, behind).unwrap();
        }
        let mut kinds = BTreeMap::new();
        let (mut waiting, mut ended) = (0, 0);
        state
            .walk(nephila_core::key::Prefixes::ALL, &mut |item| {
                let kind = match item {
                    Item::Url(..) => "url",
                    Item::Host(_, host) => {
                        waiting += host.waiting;
                        ended += host.ended;
                        "host"
                    }
                    Item::Domain(..) => "domain",
                    Item::Robots(..) => "robots",
                    Item::Queued(..) => "queued",
                    Item::Planned(..) => "planned",
                    Item::Beside(..) => "beside",
                };
                *kinds.entry(kind).or_insert(0u64) += 1;
            })
            .unwrap();
        assert_eq!(kinds.len(), 6, "{kinds:?}");
        assert_eq!(kinds["url"], 600);
        assert!(waiting > 10 && waiting < 40 && ended > 500, "{waiting} waiting, {ended} ended");
        assert!(kinds["queued"] >= waiting && kinds["queued"] < waiting + 40, "{kinds:?}, {waiting} waiting");
    }
}
