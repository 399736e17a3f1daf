//! The jobs that are crawled for: what each of them wants, ready to be asked for every link.
//!
//! What always holds: whoever asks for a job's rules gets them as they are at that moment, and keeps them for one page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use anyhow::Context;
use nephila_core::job::{Found, Job, JobId, Kind, Rules, State};
use nephila_core::url::{CrawlUrl, KeyRules};

/// One job in force.
#[derive(Debug)]
pub(crate) struct InForce {
    pub(crate) id: JobId,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) rules: Rules,
    pub(crate) priority: u8,
    /// Are sitemaps of use to it?
    sitemaps: bool,
    /// The version of the job that this was made of.
    pub(crate) revision: u64,
}

impl InForce {
    /// A job, and where its seeds have moved to.
    pub(crate) fn new(job: &Job, moved: &[String]) -> anyhow::Result<InForce> {
        let mut rules = job.scope.resolve(&KeyRules::default()).context("scope")?;
        for target in moved {
            if let Ok(url) = CrawlUrl::parse(target) {
                rules.widen(&url, 0);
            }
        }
        let sitemaps = job.scope.kind != Kind::Page && job.scope.depth_max > 0;
        let (id, name, state) = (job.id, job.name.clone(), job.state);
        Ok(InForce { id, name, state, rules, priority: job.priority, sitemaps, revision: 0 })
    }

    /// Is a URL kept out by an `exclude`?
    pub(crate) fn excludes(&self, url: &CrawlUrl) -> bool {
        self.rules.excludes(url)
    }

    /// Does it want the sitemaps of a host? Those of a host that it would never ask are none of its business.
    pub(crate) fn wants_sitemaps_of(&self, root: &CrawlUrl) -> bool {
        self.sitemaps && self.rules.verdict(root, Found::link(0, 0)).is_in()
    }

    /// The same, whatever the host.
    pub(crate) fn wants_sitemaps(&self) -> bool {
        self.sitemaps
    }
}

/// All jobs in force, by number.
#[derive(Debug, Default)]
pub struct Jobs {
    known: RwLock<BTreeMap<u32, Arc<InForce>>>,
    /// Jobs whose rules cannot be read.
    unreadable: RwLock<BTreeSet<u32>>,
    /// They are at least as they were then.
    refreshed: Mutex<Option<Instant>>,
}

impl Jobs {
    /// A job is new or has changed.
    pub(crate) fn set(&self, job: InForce) {
        self.known.write().expect("nobody panics holding it").insert(job.id.0, Arc::new(job));
    }

    /// One of them.
    pub(crate) fn get(&self, id: JobId) -> Option<Arc<InForce>> {
        self.known.read().expect("nobody panics holding it").get(&id.0).cloned()
    }

    /// The rules of these jobs cannot be read, and those of no others.
    pub(crate) fn set_unreadable(&self, jobs: impl Iterator<Item = JobId>) {
        *self.unreadable.write().expect("nobody panics holding it") = jobs.map(|id| id.0).collect();
    }

    /// Is nothing known of a job because its rules cannot be read? What a page of it leads to would be lost.
    pub(crate) fn is_unreadable(&self, id: JobId) -> bool {
        self.get(id).is_none() && self.unreadable.read().expect("nobody panics holding it").contains(&id.0)
    }

    /// They are as they were at this time.
    pub(crate) fn set_refreshed(&self, began: Instant) {
        *self.refreshed.lock().expect("nobody panics holding it") = Some(began);
    }

    /// Were they read since this moment?
    pub(crate) fn is_fresh(&self, since: Instant) -> bool {
        self.refreshed.lock().expect("nobody panics holding it").is_some_and(|at| at >= since)
    }

    /// Is a page in no scope of its job? One that no link led to was wanted by somebody: the rules are older than that.
    pub(crate) fn is_outside(&self, id: JobId, page: &CrawlUrl) -> bool {
        self.get(id).is_none_or(|job| !job.rules.verdict(page, Found::link(0, 0)).is_in())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<InForce>> {
        self.known.read().expect("nobody panics holding it").values().cloned().collect()
    }

    /// A seed of a job has moved: its new place is in scope from now on.
    pub(crate) fn widen(&self, id: JobId, target: &CrawlUrl) {
        let mut jobs = self.known.write().expect("nobody panics holding it");
        if let Some(job) = jobs.get_mut(&id.0) {
            let mut rules = job.rules.clone();
            rules.widen(target, 0);
            let InForce { state, priority, sitemaps, revision, .. } = **job;
            let name = job.name.clone();
            *job = Arc::new(InForce { id, name, state, rules, priority, sitemaps, revision });
        }
    }
}
