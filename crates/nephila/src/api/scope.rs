//! Whether a URL is wanted, and by which rule: by the plan of a folder, or by the jobs that a node crawls for.
//!
//! What always holds: it is judged by the rules that fetching goes by, as they are at that moment.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::Context;
use nephila_core::feed::opml::Outline;
use nephila_core::job::{Found, Rule, Rules, State, Verdict};
use nephila_core::spider::door::Doors;
use nephila_core::state::record::UrlRecord;
use nephila_core::url::{CrawlUrl, KeyRules};

use super::explain::ScopeView;
use crate::crawl::jobs::{InForce, Jobs};
use crate::folder::Folder;

/// Where scopes come from.
#[derive(Debug)]
pub(super) enum Scopes {
    /// The one job of a folder, as it was last read.
    Plan(Folder, Mutex<Option<(SystemTime, Arc<Scope>)>>),
    /// The jobs of a cluster.
    Jobs(Arc<Jobs>),
}

/// The scope of the folder's job.
#[derive(Debug)]
pub(super) struct Scope {
    rules: Rules,
    job: String,
    /// Keys of the seeds.
    seeds: HashSet<String>,
}

/// What was decided about a URL.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// By whom, and how. None if there is no job.
    pub(super) view: Option<ScopeView>,
    /// Whether that job runs.
    pub(super) state: State,
    /// Is it kept out by an `exclude`? That counts also for what is queued.
    pub(super) is_excluded: bool,
}

impl Scopes {
    /// The scope of a folder's plan.
    pub(super) fn of_folder(folder: Folder) -> Scopes {
        Scopes::Plan(folder, Mutex::new(None))
    }

    /// The folder's job, as it is now.
    pub(super) fn in_force(&self) -> anyhow::Result<InForce> {
        let Scopes::Plan(folder, _) = self else { anyhow::bail!("there are several jobs: name one") };
        let plan = folder.plan()?.context("there is no job yet")?;
        InForce::new(&plan.job, &plan.moved)
    }

    /// The feeds that a folder lists, also those that are not followed any more.
    pub(super) fn feeds(&self) -> anyhow::Result<Vec<Outline>> {
        match self {
            Scopes::Plan(folder, _) => folder.listed_feeds(),
            Scopes::Jobs(_) => Ok(Vec::new()),
        }
    }

    /// What people typed for a folder.
    pub(super) fn doors(&self) -> anyhow::Result<Doors> {
        match self {
            Scopes::Plan(folder, _) => folder.doors(),
            Scopes::Jobs(_) => Ok(Doors::default()),
        }
    }

    /// Is a URL wanted, of which this is remembered?
    pub(super) fn judge(&self, url: &CrawlUrl, record: Option<&UrlRecord>) -> anyhow::Result<Judged> {
        let link = match record {
            Some(record) => Found::link(record.depth, record.hops.out().saturating_sub(1)),
            None => Found::link(1, 0),
        };
        match self {
            Scopes::Plan(folder, known) => {
                let scope = scope_of(folder, known)?;
                let found = if scope.seeds.contains(url.key()) { Found::seed() } else { link };
                let verdict = scope.rules.verdict(url, found);
                Ok(Judged::of(&scope.rules, &scope.job, &verdict, State::Running))
            }
            Scopes::Jobs(jobs) => {
                // Whoever offered it from outside meant it.
                let found = if record.is_some_and(|record| record.depth == 0) { Found::seed() } else { link };
                let judge = |job: &InForce| {
                    let verdict = job.rules.verdict(url, found);
                    Judged::of(&job.rules, &job.name, &verdict, job.state)
                };
                if let Some(job) = record.and_then(|record| jobs.get(record.job)) {
                    return Ok(judge(&job));
                }
                // Nobody has offered it: would somebody want it?
                let mut all: Vec<Judged> = jobs.all().iter().map(|job| judge(job)).collect();
                let is_wanted = |judged: &Judged| judged.view.as_ref().is_some_and(|view| view.wanted);
                all.sort_by_key(|judged| (!is_wanted(judged), judged.state));
                Ok(all.into_iter().next().unwrap_or_default())
            }
        }
    }
}

impl Judged {
    fn of(rules: &Rules, job: &str, verdict: &Verdict, state: State) -> Judged {
        let view = ScopeView {
            wanted: verdict.is_in(),
            rule: rules.text(verdict.rule),
            origin: rules.origin(verdict.rule),
            job: job.to_owned(),
        };
        Judged { view: Some(view), state, is_excluded: matches!(verdict.rule, Rule::Exclude(_)) }
    }
}

/// The scope of the plan, read again when the plan has changed: a seed that moved widens it.
fn scope_of(folder: &Folder, known: &Mutex<Option<(SystemTime, Arc<Scope>)>>) -> anyhow::Result<Arc<Scope>> {
    let changed = folder.plan_changed()?;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, scope)) = &*known
        && *at == changed
    {
        return Ok(scope.clone());
    }
    let plan = folder.plan()?.context("the folder holds no crawl")?;
    let mut rules = plan.job.scope.resolve(&KeyRules::default()).context("scope")?;
    for moved in plan.moved.iter().filter_map(|moved| CrawlUrl::parse(moved).ok()) {
        rules.widen(&moved, 0);
    }
    let seeds = plan.job.scope.seeds.iter().filter_map(|seed| CrawlUrl::parse(seed).ok());
    let seeds = seeds.map(|seed| seed.key().to_owned()).collect();
    let scope = Arc::new(Scope { rules, job: plan.job.name, seeds });
    *known = Some((changed, scope.clone()));
    Ok(scope)
}
