//! Ground truth: the places that an honest and complete crawl from given seeds finds, and how each place ends.
//!
//! The walk is the same as a crawler's: from the seeds along links, redirects and, on request, feeds and sitemaps;
//! places that are out of scope, closed by robots.txt, dead or tarpits are not followed. The walk uses the model and
//! not the server, so a crawl is compared with an independent result.
//!
//! Invariant: the walk ends after `places_max` places, and the result says so.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use super::{FEED_ITEMS, Fate, PageKind, Place, SITEMAP_URLS, What, World};
use crate::rules::Rules;

/// How a place that a crawl discovers ends.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Reach {
    /// Answers 200.
    Page,
    /// Redirects.
    Redirect,
    /// Answers with this status.
    Error(u16),
    /// Out of scope: must not be requested.
    OutOfScope,
    /// Closed by robots.txt: must not be requested.
    Disallowed,
    /// Its host cannot be connected to.
    Dead,
    /// Its host never ends an answer: the place may be requested, but without a result.
    Tarpit,
}

impl Reach {
    /// Whether a complete crawl has requested such a place.
    pub fn is_expected(self) -> bool {
        matches!(self, Reach::Page | Reach::Redirect | Reach::Error(_))
    }
}

/// From where, how far and by which rules the walk goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TruthOptions {
    /// Seeds of the walk; the home pages of all hosts when empty.
    pub seeds: Vec<Place>,
    /// The hosts in scope; all when `None`.
    pub scope: Option<Vec<u32>>,
    /// Whether robots.txt is obeyed, in the version of the current virtual time.
    pub obeys_robots: bool,
    /// Whether sitemaps named in robots.txt are read.
    pub reads_sitemaps: bool,
    /// Whether feeds named on home pages are read.
    pub reads_feeds: bool,
    /// The walk stops after this many places.
    pub places_max: usize,
}

impl Default for TruthOptions {
    fn default() -> TruthOptions {
        TruthOptions {
            seeds: Vec::new(),
            scope: None,
            obeys_robots: true,
            reads_sitemaps: false,
            reads_feeds: false,
            places_max: 50_000_000,
        }
    }
}

/// Every place that a crawl discovers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Truth {
    places: HashMap<Place, Reach>,
    /// Whether the walk is complete; otherwise `places_max` stopped the walk.
    pub is_whole: bool,
    /// The options of the walk.
    pub options: TruthOptions,
}

impl Truth {
    /// How a place ends; `None` for a place that a crawl never discovers.
    pub fn reach(&self, place: Place) -> Option<Reach> {
        self.places.get(&place).copied()
    }

    /// All places with their end, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Place, Reach)> + '_ {
        self.places.iter().map(|(place, reach)| (*place, *reach))
    }

    /// The places that a complete crawl has requested, in no particular order.
    pub fn expected(&self) -> impl Iterator<Item = Place> + '_ {
        self.iter().filter(|(_, reach)| reach.is_expected()).map(|(place, _)| place)
    }

    /// Number of places by end.
    pub fn counts(&self) -> BTreeMap<Reach, u64> {
        let mut counts = BTreeMap::new();
        for (_, reach) in self.iter() {
            *counts.entry(reach).or_default() += 1;
        }
        counts
    }
}

impl World {
    /// Walks the web; see [`TruthOptions`].
    pub fn truth(&self, options: &TruthOptions) -> Truth {
        let mut walk = Walk {
            world: self,
            options,
            scope: options.scope.as_ref().map(|hosts| hosts.iter().copied().collect()),
            now: self.clock().now(),
            rules: HashMap::new(),
            places: HashMap::new(),
            queue: VecDeque::new(),
            is_whole: true,
        };
        if options.seeds.is_empty() {
            (0..self.settings.hosts).for_each(|host| walk.hear(Place { host, what: What::Page(0) }));
        }
        options.seeds.iter().for_each(|seed| walk.hear(*seed));
        while let Some(place) = walk.queue.pop_front() {
            walk.read(place);
        }
        Truth { places: walk.places, is_whole: walk.is_whole, options: options.clone() }
    }
}

struct Walk<'a> {
    world: &'a World,
    options: &'a TruthOptions,
    scope: Option<HashSet<u32>>,
    now: u64,
    /// The rules of robots.txt, per host seen.
    rules: HashMap<u32, Rules>,
    places: HashMap<Place, Reach>,
    queue: VecDeque<Place>,
    is_whole: bool,
}

impl Walk<'_> {
    /// Discovers a place: judges the place once, and queues pages and redirects.
    fn hear(&mut self, place: Place) {
        if self.places.contains_key(&place) {
            return;
        }
        if self.places.len() >= self.options.places_max {
            self.is_whole = false;
            return;
        }
        let reach = self.judge(place);
        self.places.insert(place, reach);
        if matches!(reach, Reach::Page | Reach::Redirect) {
            self.queue.push_back(place);
        }
    }

    fn judge(&mut self, place: Place) -> Reach {
        let Place { host, what } = place;
        if self.scope.as_ref().is_some_and(|scope| !scope.contains(&host)) {
            return Reach::OutOfScope;
        }
        let fate = self.world.fate(host);
        if matches!(fate, Fate::Nameless | Fate::Refusing) {
            return Reach::Dead;
        }
        if self.options.obeys_robots {
            let (world, now) = (self.world, self.now);
            let first = !self.rules.contains_key(&host);
            let rules = self
                .rules
                .entry(host)
                .or_insert_with(|| world.robots_rules(host, &world.settings.agent, now));
            let allowed = rules.allows(&world.path(place));
            if first {
                self.hear_sitemaps(host);
            }
            if !allowed {
                return Reach::Disallowed;
            }
        }
        if fate == Fate::Tarpit {
            return Reach::Tarpit;
        }
        let What::Page(page) = what else { return Reach::Page };
        match self.world.page_kind(host, page) {
            PageKind::Normal | PageKind::Duplicate(_) => Reach::Page,
            PageKind::Redirect { .. } => Reach::Redirect,
            PageKind::Error(status) => Reach::Error(status),
        }
    }

    /// Discovers the sitemaps that a robots.txt names, if there is a file.
    fn hear_sitemaps(&mut self, host: u32) {
        let named = self.world.robots_text(host, self.now).contains("Sitemap:");
        if self.options.reads_sitemaps && named {
            self.hear(Place { host, what: What::Sitemaps });
        }
    }

    /// Reads a place and discovers all places that it names.
    fn read(&mut self, place: Place) {
        let Place { host, what } = place;
        match what {
            What::Page(page) => self.read_page(host, page),
            What::News(_) => self.hear(Place { host, what: What::Page(0) }),
            What::Feed => {
                let count = self.world.news_count(host, self.now);
                for item in count - FEED_ITEMS..count {
                    self.hear(Place { host, what: What::News(item) });
                }
            }
            What::Sitemaps => {
                for file in 0..self.world.sitemap_count(host) {
                    self.hear(Place { host, what: What::Sitemap(file) });
                }
            }
            What::Sitemap(file) => {
                let end = ((file + 1) * SITEMAP_URLS).min(self.world.host_pages(host));
                for page in file * SITEMAP_URLS..end {
                    self.hear(Place { host, what: What::Page(page) });
                }
            }
            What::Robots | What::RobotsReal => {}
        }
    }

    fn read_page(&mut self, host: u32, page: u64) {
        let (host, page) = match self.world.page_kind(host, page) {
            PageKind::Normal => (host, page),
            PageKind::Duplicate(Place { host, what: What::Page(page) }) => (host, page),
            PageKind::Redirect { to, .. } => return self.hear(to),
            PageKind::Duplicate(_) | PageKind::Error(_) => return,
        };
        let world = self.world;
        world.each_link(host, page, |to| self.hear(to));
        if self.options.reads_feeds && page == 0 && world.has_feed(host) {
            self.hear(Place { host, what: What::Feed });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn a_plain_web_is_reached_whole_from_its_first_page() {
        let world = World::new(Settings { hosts: 50, pages: 5000, ..Settings::default() }, 80, 443);
        let seeds = vec![Place { host: 0, what: What::Page(0) }];
        let truth = world.truth(&TruthOptions { seeds, ..TruthOptions::default() });
        assert_eq!(truth.expected().count(), world.pages().count());
        assert!(truth.is_whole);
    }

    #[test]
    fn scope_robots_and_death_end_the_walk_where_they_stand() {
        let world = World::new(Settings { hosts: 200, pages: 20_000, ..Settings::mixed() }, 80, 443);
        let whole = world.truth(&TruthOptions::default());
        let counts = whole.counts();
        for reach in [Reach::Page, Reach::Redirect, Reach::Disallowed, Reach::Dead, Reach::Tarpit] {
            assert!(counts.get(&reach).is_some_and(|count| *count > 0), "no {reach:?} in {counts:?}");
        }
        let rude = world.truth(&TruthOptions { obeys_robots: false, ..TruthOptions::default() });
        assert!(rude.expected().count() > whole.expected().count());
        let one = world.truth(&TruthOptions { scope: Some(vec![0]), ..TruthOptions::default() });
        assert!(one.expected().all(|place| place.host == 0));
        assert!(one.counts()[&Reach::OutOfScope] >= 199);
    }

    #[test]
    fn sitemaps_and_feeds_are_read_when_asked_for() {
        let world = World::new(Settings { hosts: 50, ..Settings::mixed() }, 80, 443);
        let plain = world.truth(&TruthOptions::default());
        assert!(plain.iter().all(|(place, _)| matches!(place.what, What::Page(_))));
        let options = TruthOptions { reads_sitemaps: true, reads_feeds: true, ..TruthOptions::default() };
        let more = world.truth(&options);
        for kind in [What::Feed, What::Sitemaps] {
            assert!(more.iter().any(|(place, _)| place.what == kind));
        }
        assert!(more.iter().any(|(place, _)| matches!(place.what, What::News(_))));
        assert!(plain.expected().all(|place| more.reach(place).is_some()));
    }

    #[test]
    fn a_walk_that_is_cut_off_says_so() {
        let world = World::new(Settings::default(), 80, 443);
        let truth = world.truth(&TruthOptions { places_max: 100, ..TruthOptions::default() });
        assert!(!truth.is_whole && truth.iter().count() == 100);
    }
}
