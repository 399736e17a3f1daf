//! The jobs in force and their scope rules, ready to judge every link.
//!
//! Invariant: a caller gets a job's current rules, and keeps them for one page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::Instant;

use anyhow::Context;
use nephila_core::job::{FoundBy, Job, JobId, Kind, Rules, State};
use nephila_core::url::{CrawlUrl, KeyRules};

use super::verdicts::Verdicts;

/// One job in force.
#[derive(Debug)]
pub struct InForce {
    /// Number of the job.
    pub id: JobId,
    /// Unique name of the job.
    pub name: String,
    /// Whether the job runs, is paused or is stopped.
    pub state: State,
    /// Resolved scope, which judges URLs.
    pub rules: Rules,
    /// Priority among jobs: 0 before 9.
    pub priority: u8,
    /// Whether the job uses sitemaps.
    sitemaps: bool,
    /// The revision of the job from which this was built.
    pub revision: u64,
    /// How often each rule decided, since the rules last changed.
    pub verdicts: Arc<Verdicts>,
}

impl InForce {
    /// A job, with the new locations of its moved seeds.
    pub fn new(job: &Job, moved: &[String]) -> anyhow::Result<InForce> {
        let mut rules = job.scope.resolve(&KeyRules::default()).context("scope")?;
        for target in moved {
            if let Ok(url) = CrawlUrl::parse(target) {
                rules.widen(&url, 0);
            }
        }
        let sitemaps = job.scope.kind != Kind::Page && job.scope.depth_max > 0;
        let (id, name, state) = (job.id, job.name.clone(), job.state);
        let verdicts = Arc::default();
        Ok(InForce { id, name, state, rules, priority: job.priority, sitemaps, revision: 0, verdicts })
    }

    /// Whether an `exclude` rejects a URL.
    pub fn excludes(&self, url: &CrawlUrl) -> bool {
        self.rules.excludes(url)
    }

    /// Whether the job wants the sitemaps of a host. Sitemaps of a host without a page in scope are not wanted.
    pub fn wants_sitemaps_of(&self, root: &CrawlUrl) -> bool {
        let is_in =
            || self.rules.verdict(root, FoundBy::link(0, 0)).is_in() || self.rules.has_seed_below(root);
        self.sitemaps && is_in()
    }

    /// Like [`InForce::wants_sitemaps_of`], for any host.
    pub fn wants_sitemaps(&self) -> bool {
        self.sitemaps
    }
}

/// The set of jobs by which a page is judged is fixed as long as the page holds this.
#[derive(Debug, Default)]
pub struct Judging;

/// All jobs in force, by number.
#[derive(Debug, Default)]
pub struct Jobs {
    known: RwLock<BTreeMap<u32, Arc<InForce>>>,
    /// Jobs whose rules cannot be read.
    unreadable: RwLock<BTreeSet<u32>>,
    /// The time of the last refresh: the jobs are at least this recent.
    refreshed: Mutex<Option<Instant>>,
    /// Held by every page from before its links are judged until its capture is stored.
    judging: Mutex<Arc<Judging>>,
}

impl Jobs {
    /// Replaces a job whose rules have not changed: the counts of its rules go on.
    pub fn set_again(&self, job: InForce) {
        let before = self.get(job.id).map(|before| before.verdicts.clone());
        self.set(InForce { verdicts: before.unwrap_or_default(), ..job });
    }

    /// Adds or replaces a job.
    pub fn set(&self, job: InForce) {
        self.known.write().expect("nobody panics holding it").insert(job.id.0, Arc::new(job));
    }

    /// The job with this number.
    pub fn get(&self, id: JobId) -> Option<Arc<InForce>> {
        self.known.read().expect("nobody panics holding it").get(&id.0).cloned()
    }

    /// Replaces the set of jobs whose rules cannot be read.
    pub fn set_unreadable(&self, jobs: impl Iterator<Item = JobId>) {
        *self.unreadable.write().expect("nobody panics holding it") = jobs.map(|id| id.0).collect();
    }

    /// Whether a job is unknown because its rules cannot be read. The links of its pages would be lost.
    pub fn is_unreadable(&self, id: JobId) -> bool {
        self.get(id).is_none() && self.unreadable.read().expect("nobody panics holding it").contains(&id.0)
    }

    /// Records that the jobs were refreshed at this time.
    pub fn set_refreshed(&self, began: Instant) {
        *self.refreshed.lock().expect("nobody panics holding it") = Some(began);
    }

    /// Whether the jobs were refreshed since this moment.
    pub fn is_fresh(&self, since: Instant) -> bool {
        self.refreshed.lock().expect("nobody panics holding it").is_some_and(|at| at >= since)
    }

    /// Whether a page is outside the scope of its job. For a page at depth 0 this means that the rules here are
    /// outdated: a caller added the page.
    pub fn is_outside(&self, id: JobId, page: &CrawlUrl) -> bool {
        self.get(id).is_none_or(|job| !job.rules.verdict(page, FoundBy::link(0, 0)).is_in())
    }

    /// To be held by a page while its links are judged and its capture is stored.
    pub fn judging(&self) -> Arc<Judging> {
        self.judging.lock().expect("nobody panics holding it").clone()
    }

    /// The pages that are judged now, perhaps without the newest job: once all of them are stored, nobody holds this.
    pub fn judged_before(&self) -> Weak<Judging> {
        let mut judging = self.judging.lock().expect("nobody panics holding it");
        Arc::downgrade(&std::mem::take(&mut *judging))
    }

    /// Whether there is one job alone.
    pub fn is_single(&self) -> bool {
        self.known.read().expect("nobody panics holding it").len() == 1
    }

    /// All jobs in force.
    pub fn all(&self) -> Vec<Arc<InForce>> {
        self.known.read().expect("nobody panics holding it").values().cloned().collect()
    }

    /// A seed of a job has moved: adds the new location to the scope.
    pub fn widen(&self, id: JobId, target: &CrawlUrl) {
        let mut jobs = self.known.write().expect("nobody panics holding it");
        if let Some(job) = jobs.get_mut(&id.0) {
            let mut rules = job.rules.clone();
            rules.widen(target, 0);
            let InForce { state, priority, sitemaps, revision, .. } = **job;
            let (name, verdicts) = (job.name.clone(), job.verdicts.clone());
            *job = Arc::new(InForce { id, name, state, rules, priority, sitemaps, revision, verdicts });
        }
    }
}
