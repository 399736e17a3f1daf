//! Checks that no URL is lost. Every URL whose offer is in the log stays known for ever; when the world is quiet each
//! URL has been fetched, or is planned, parked or refused for a reason. No URL is fetched again unless the fetch was
//! planned, or its ticket died with its process.

use std::collections::{BTreeMap, BTreeSet};

use nephila_core::key::{HostKey, Prefixes};
use nephila_core::spider::outcome::Outcome;
use nephila_core::state::record::{DomainRecord, HostRecord, UrlRecord, UrlState};
use nephila_core::state::{Item, MemoryState, State};

use crate::clock::Clock;
use crate::reach::Reach;
use crate::robots::Obedience;
use crate::world::World;
use crate::{Checker, Violation};

/// When a URL may be requested again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Never.
    Never,
    /// When the wall clock reads this, in milliseconds; counted from this moment of the world.
    NotBefore {
        /// On the wall.
        wall: u64,
        /// Since when.
        since: u64,
    },
}

/// The state of a URL, as far as this process knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    /// Nothing is known of a fetch.
    #[default]
    Unasked,
    /// A fetch is open.
    Open,
    /// The fetch has ended.
    Ended(Plan),
}

#[derive(Clone, Copy, Debug, Default)]
struct Book {
    offered: bool,
    /// Its offer is in the log.
    known: bool,
    standing: Standing,
    /// How the URL ended according to the log.
    ended: Option<(Plan, Outcome)>,
}

/// Books about URLs.
#[derive(Debug)]
pub struct Completeness {
    urls: Vec<Book>,
}

impl Completeness {
    /// Empty books.
    pub fn new(urls: usize) -> Completeness {
        Completeness { urls: vec![Book::default(); urls] }
    }

    /// The URL was offered and the frontier accepted the offer for sifting.
    pub fn handle_offered(&mut self, url: u32) {
        self.urls[url as usize].offered = true;
    }

    /// The offer is in the log.
    pub fn handle_known(&mut self, url: u32) {
        self.urls[url as usize].known = true;
    }

    /// Whether the URL's offer is in the log.
    pub fn is_known(&self, url: u32) -> bool {
        self.urls[url as usize].known
    }

    /// The number of URLs whose offers are in the log.
    pub fn known(&self) -> usize {
        self.urls.iter().filter(|book| book.known).count()
    }

    /// A ticket for this URL was given out.
    pub fn handle_ticket(&mut self, url: u32, world: &World, clock: &Clock) -> Result<(), Violation> {
        let book = &mut self.urls[url as usize];
        let again = |why: String| Violation::new(Checker::Repeats, format!("{} {why}", world.url(url)));
        if !book.known {
            return Err(again("is asked for before its offer is in the log".to_owned()));
        }
        if world.urls[url as usize].is_trap {
            return Err(again("is asked for although it was refused".to_owned()));
        }
        match book.standing {
            Standing::Open => return Err(again("is asked for twice at once".to_owned())),
            Standing::Ended(Plan::Never) => {
                return Err(again("is asked for again without a plan".to_owned()));
            }
            Standing::Ended(Plan::NotBefore { wall, since }) => {
                let shown = clock.wall_max_since(since);
                if shown < wall {
                    return Err(again(format!("is asked for again at {shown}, planned for {wall}")));
                }
            }
            Standing::Unasked => {}
        }
        book.standing = Standing::Open;
        Ok(())
    }

    /// The frontier accepted a report, or gave the ticket up.
    pub fn handle_ended(&mut self, url: u32, plan: Plan) {
        self.urls[url as usize].standing = Standing::Ended(plan);
    }

    /// The report is in the log.
    pub fn handle_ended_known(&mut self, url: u32, plan: Plan, outcome: Outcome) {
        self.urls[url as usize].ended = Some((plan, outcome));
    }

    /// A page's outcome is in the log: its links must be, too.
    pub fn check_links(&self, url: u32, links: &[u32], world: &World) -> Result<(), Violation> {
        match links.iter().find(|link| !self.is_known(**link)) {
            None => Ok(()),
            Some(link) => {
                let (page, link) = (world.url(url), world.url(*link));
                Err(missing(format!("{page} is done in the log, its link {link} is not there")))
            }
        }
    }

    /// The process died: only the facts in the log remain.
    pub fn handle_crash(&mut self) {
        for book in &mut self.urls {
            book.standing = book.ended.map_or(Standing::Unasked, |(plan, _)| Standing::Ended(plan));
            book.offered = book.known;
        }
    }

    /// Everything that is in the log is in the states.
    pub fn check_known(&self, states: &mut [&mut MemoryState], world: &World) -> Result<(), Violation> {
        let held: usize = states.iter().map(|state| state.tables.urls.len()).sum();
        let known = self.known();
        if held < known {
            let paths: BTreeSet<u64> =
                states.iter().flat_map(|state| state.tables.urls.keys().map(|key| key.path)).collect();
            let is_lost =
                |url: &u32| self.is_known(*url) && !paths.contains(&world.urls[*url as usize].key.path);
            let lost = (0..self.urls.len() as u32).find(is_lost);
            let lost = lost.map_or("some share a key".to_owned(), |url| world.url(url));
            return Err(missing(format!("{known} URLs are in the log, {held} in the state: {lost}")));
        }
        Ok(())
    }

    /// The world is quiet: every URL has come to its end, and every host's counts are right.
    pub fn check_quiet(
        &self,
        state: &mut MemoryState,
        obedience: &Obedience,
        reach: &Reach,
        world: &World,
        clock: &Clock,
    ) -> Result<(), Violation> {
        let mut counts: BTreeMap<HostKey, [u64; 3]> = BTreeMap::new();
        let mut urls: Vec<(HostKey, u64, UrlRecord)> = Vec::new();
        let mut hosts: BTreeMap<HostKey, HostRecord> = BTreeMap::new();
        let mut domains: BTreeMap<u64, DomainRecord> = BTreeMap::new();
        let walked = state.walk(Prefixes::ALL, &mut |item| match item {
            Item::Url(key, record) => urls.push((key.host, key.path, record.clone())),
            Item::Host(key, record) => _ = hosts.insert(*key, record.clone()),
            Item::Domain(key, record) => _ = domains.insert(key.0, record.clone()),
            _ => {}
        });
        walked.map_err(|error| Violation::new(Checker::Error, error.to_string()))?;
        for (host, path, record) in &urls {
            let Some(&url) = world.by_path.get(path) else {
                return Err(missing(format!("{path:x} is known and nobody ever offered it")));
            };
            let book = &self.urls[url as usize];
            if !book.known {
                return Err(missing(format!("{} is known, its offer is not in the log", world.url(url))));
            }
            let count = counts.entry(*host).or_default();
            match record.state {
                UrlState::Waiting => {
                    count[0] += 1;
                    return Err(stuck(format!("{} waits in a quiet world: {record:?}", world.url(url))));
                }
                UrlState::Later(due) => {
                    count[1] += 1;
                    if due.0 <= clock.wall_seconds() {
                        return Err(stuck(format!("{} is due in a quiet world: {record:?}", world.url(url))));
                    }
                }
                UrlState::Parked => {
                    count[2] += 1;
                    let domain = domains.get(&host.domain.0).cloned().unwrap_or_default();
                    let budget = &world.config.rules.budget;
                    let allowed = budget.allowed(domain.found.0, clock.wall_seconds(), domain.budget);
                    if domain.admitted < allowed {
                        let room = allowed - domain.admitted;
                        return Err(stuck(format!("{} is parked with room for {room}", world.url(url))));
                    }
                }
                UrlState::Ended => self.check_ended(url, record, obedience, reach, world)?,
                UrlState::ParkedBare | UrlState::Refused(_) => {}
            }
        }
        for (key, host) in &hosts {
            let count = counts.get(key).copied().unwrap_or_default();
            if [host.waiting, host.later, host.parked] != count {
                let says = [host.waiting, host.later, host.parked];
                let what = format!("{}: waiting, later, parked are {says:?}, counted {count:?}", host.origin);
                return Err(missing(what));
            }
        }
        Ok(())
    }

    fn check_ended(
        &self,
        url: u32,
        record: &UrlRecord,
        obedience: &Obedience,
        reach: &Reach,
        world: &World,
    ) -> Result<(), Violation> {
        let last = record.last.as_ref().map(|last| last.outcome);
        let page = &world.urls[url as usize];
        let ours = self.urls[url as usize].ended.map(|(_, outcome)| outcome);
        let fine = match last {
            Some(Outcome::RobotsDenied) => obedience.was_forbidden(page.host, &page.text),
            // Told without a fetch if its site was given up.
            Some(outcome) => ours == Some(outcome) || reach.was_given_up(page.host, outcome),
            None => false,
        };
        if fine {
            return Ok(());
        }
        Err(missing(format!("{} ended with {last:?}, we saw {ours:?}", world.url(url))))
    }
}

fn missing(what: String) -> Violation {
    Violation::new(Checker::Completeness, what)
}

fn stuck(what: String) -> Violation {
    Violation::new(Checker::Liveness, what)
}
