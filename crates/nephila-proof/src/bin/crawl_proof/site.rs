//! The webs that are crawled, and their ground truth.
//!
//! Invariants: a web lives until its [`Site`] is dropped or stopped; the same hosts define the crawler's seeds and the
//! ground truth.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use nephila_testweb::journal::Log;
use nephila_testweb::model::{Fate, Place, Truth, TruthOptions, What, World};
use nephila_testweb::settings::{Encoding, RobotsShares};
use nephila_testweb::{RunningWeb, Settings, Web};
use tokio::runtime::Runtime;

/// Events the journal may hold.
const JOURNAL_MAX: usize = 8_000_000;
/// One domain in this number is out of scope.
const OUTSIDE_EVERY: u32 = 12;
/// Seeds tried until one has its slow and dead hosts among the small ones.
const SEEDS_TRIED_MAX: u64 = 100_000;
/// Pages that a tarpit may have, as a share of all and within bounds: each costs the time-out of a body, twice.
const TARPIT_SHARE: u64 = 100;
const TARPIT_PAGES: (u64, u64) = (20, 400);

/// A web that answers.
pub struct Site {
    web: RunningWeb,
    runtime: Runtime,
    ca: PathBuf,
}

/// The task of the crawl, and the expected result.
pub struct Wanted {
    /// One URL per line.
    pub seeds: PathBuf,
    /// The ground truth of a complete crawl.
    pub truth: Truth,
}

impl Site {
    /// Starts a web; its certificate goes into this folder.
    pub fn start(settings: Settings, folder: &Path) -> anyhow::Result<Site> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let web = runtime.block_on(Web::builder().settings(settings).start())?;
        let ca = folder.join("ca.pem");
        std::fs::write(&ca, web.ca_pem()).with_context(|| ca.display().to_string())?;
        Ok(Site { web, runtime, ca })
    }

    /// The web itself.
    pub fn web(&self) -> &RunningWeb {
        &self.web
    }

    /// The web as a function.
    pub fn world(&self) -> &World {
        self.web.world()
    }

    /// The certificate to trust.
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// Seeds around which `--scope domain` wants all domains but a few, and the truth for them.
    pub fn most_domains(&self, folder: &Path) -> anyhow::Result<Wanted> {
        let world = self.world();
        let settings = world.settings();
        let is_inside = |host: u32| host / settings.hosts_per_domain % OUTSIDE_EVERY != OUTSIDE_EVERY - 1;
        let scope: Vec<u32> = (0..settings.hosts).filter(|host| is_inside(*host)).collect();
        let firsts = scope.iter().copied().filter(|host| host % settings.hosts_per_domain == 0);
        let seeds: Vec<Place> = firsts.map(|host| Place { host, what: What::Page(0) }).collect();
        self.wanted(folder, seeds, Some(scope))
    }

    /// One seed, from which everything is wanted: for `--scope any`.
    pub fn everything(&self, folder: &Path) -> anyhow::Result<Wanted> {
        self.wanted(folder, vec![Place { host: 0, what: What::Page(0) }], None)
    }

    /// All home pages as seeds, for `--scope any`.
    pub fn all_homes(&self, folder: &Path) -> anyhow::Result<Wanted> {
        let hosts = 0..self.world().settings().hosts;
        self.wanted(folder, hosts.map(|host| Place { host, what: What::Page(0) }).collect(), None)
    }

    /// The URLs of all home pages.
    pub fn homes(&self) -> impl Iterator<Item = String> + '_ {
        let hosts = 0..self.world().settings().hosts;
        hosts.map(|host| self.world().url(Place { host, what: What::Page(0) }))
    }

    fn wanted(&self, folder: &Path, seeds: Vec<Place>, scope: Option<Vec<u32>>) -> anyhow::Result<Wanted> {
        let world = self.world();
        let text: String = seeds.iter().map(|seed| format!("{}\n", world.url(*seed))).collect();
        let path = folder.join("seeds.txt");
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
        // The crawler reads the sitemaps that robots.txt names and the feeds that pages name.
        let options =
            TruthOptions { seeds, scope, reads_sitemaps: true, reads_feeds: true, ..TruthOptions::default() };
        let truth = world.truth(&options);
        ensure!(truth.is_whole, "the ground truth is not whole");
        Ok(Wanted { seeds: path, truth })
    }

    /// Stops the web and returns its journal.
    pub fn stop(self) -> Log {
        self.runtime.block_on(self.web.stop())
    }
}

/// A web with some of everything: power-law sizes, duplicates, redirects, errors, all kinds of robots.txt, sitemaps,
/// feeds, https on half of the hosts, and one host in twenty dead or a tarpit. Its time stands still, so every page has
/// one content. The seed is the first from `seed` on that makes all tarpits small.
pub fn mixed(seed: u64, hosts: u32, pages: u64) -> anyhow::Result<Settings> {
    let settings = Settings { hosts, pages, addresses: (hosts * 2 / 3).max(1), ..with_everything() };
    let fits = |seed: &u64| {
        let world = World::new(Settings { seed: *seed, ..settings.clone() }, 80, 443);
        let of = |fate| (0..hosts).filter(|host| world.fate(*host) == fate).collect::<Vec<_>>();
        let tarpits = of(Fate::Tarpit);
        let most = (pages / TARPIT_SHARE).clamp(TARPIT_PAGES.0, TARPIT_PAGES.1);
        let small = tarpits.iter().all(|host| world.host_pages(*host) <= most);
        let some = !tarpits.is_empty() && !of(Fate::Nameless).is_empty() && !of(Fate::Refusing).is_empty();
        small && (some || hosts < 20)
    };
    let seed = (seed..seed + SEEDS_TRIED_MAX).find(fits).context("no seed makes such a web")?;
    Ok(Settings { seed, ..settings })
}

/// Some of everything, without a size yet.
pub fn with_everything() -> Settings {
    Settings {
        // Half of the mean of the real web: the proof does not depend on the size, the time does.
        page_bytes: 8_000,
        private_share: 0.06,
        duplicate_share: 0.08,
        redirect_share: 0.06,
        error_share: 0.03,
        dead_share: 0.03,
        tarpit_share: 0.02,
        tarpit_pace: Duration::from_secs(2),
        https_share: 0.5,
        sitemap_share: 0.6,
        feed_share: 0.3,
        robots: RobotsShares::mixed(),
        crawl_delay: Duration::from_millis(40),
        // No `Retry-After`: a second is the shortest time there is, and one page in three hundred would cost a second.
        retry_after: Duration::ZERO,
        encodings: vec![Encoding::Gzip],
        journal_max: JOURNAL_MAX,
        threads: 1,
        ..Settings::default()
    }
}
