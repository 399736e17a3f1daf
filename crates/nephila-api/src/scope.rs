//! Scope decisions: whether a URL is in scope and by which rule, for the plan of a folder or the jobs of a node.
//!
//! Invariant: a decision uses the same rules as fetching, in their current version.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::Context;
use nephila_core::feed::opml::Outline;
use nephila_core::job::{FoundBy, Rule, Rules, ScopeVerdict, State};
use nephila_core::spider::door::Doors;
use nephila_core::state::record::UrlRecord;
use nephila_core::url::{CrawlUrl, KeyRules};

use super::explain::ScopeView;
use nephila_engine::crawl::jobs::{InForce, Jobs};
use nephila_engine::folder::Folder;

/// Source of the scopes.
#[derive(Debug)]
pub(super) enum Scopes {
    /// The one job of a folder, cached with the modification time of the plan.
    Plan(Folder, Mutex<Option<(SystemTime, Arc<Scope>)>>),
    /// The jobs of a cluster.
    Jobs(Arc<Jobs>),
}

/// The scope of the folder's job.
#[derive(Debug)]
pub(super) struct Scope {
    rules: Rules,
    job: String,
    state: State,
    /// Keys of the seeds.
    seeds: HashSet<String>,
}

/// Decision about a URL.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// The verdict and the job. None if there is no job.
    pub(super) view: Option<ScopeView>,
    /// State of that job.
    pub(super) state: State,
    /// Whether an `exclude` rejects the URL. An `exclude` applies to queued URLs too.
    pub(super) is_excluded: bool,
}

impl Scopes {
    /// The scope of a folder's plan.
    pub(super) fn of_folder(folder: Folder) -> Scopes {
        Scopes::Plan(folder, Mutex::new(None))
    }

    /// The current job of the folder.
    pub(super) fn in_force(&self) -> anyhow::Result<InForce> {
        let Scopes::Plan(folder, _) = self else { anyhow::bail!("there are several jobs: name one") };
        let plan = folder.plan()?.context("there is no job yet")?;
        InForce::new(&plan.job, &plan.moved)
    }

    /// The current job of the folder, and its seeds.
    pub(super) fn plan_in_force(&self) -> anyhow::Result<(InForce, Vec<String>)> {
        let Scopes::Plan(folder, _) = self else { anyhow::bail!("there are several jobs: name one") };
        let plan = folder.plan()?.context("there is no job yet")?;
        Ok((InForce::new(&plan.job, &plan.moved)?, plan.job.scope.seeds))
    }

    /// The feeds in the list of a folder, including removed ones.
    pub(super) fn feeds(&self) -> anyhow::Result<Vec<Outline>> {
        match self {
            Scopes::Plan(folder, _) => folder.listed_feeds(),
            Scopes::Jobs(_) => Ok(Vec::new()),
        }
    }

    /// Private addresses that people permitted for a folder by typing them.
    pub(super) fn doors(&self) -> anyhow::Result<Doors> {
        match self {
            Scopes::Plan(folder, _) => folder.doors(),
            Scopes::Jobs(_) => Ok(Doors::default()),
        }
    }

    /// Decides whether a URL with this stored record is in scope.
    pub(super) fn judge(&self, url: &CrawlUrl, record: Option<&UrlRecord>) -> anyhow::Result<Judged> {
        let link = match record {
            Some(record) => FoundBy::link(record.depth, record.hops.out().saturating_sub(1)),
            None => FoundBy::link(1, 0),
        };
        match self {
            Scopes::Plan(folder, known) => {
                let scope = scope_of(folder, known)?;
                let found = if scope.seeds.contains(url.key()) { FoundBy::seed() } else { link };
                let verdict = scope.rules.verdict(url, found);
                Ok(Judged::of(&scope.rules, &scope.job, &verdict, scope.state))
            }
            Scopes::Jobs(jobs) => {
                // A URL at depth 0 was offered from outside, as a seed.
                let found =
                    if record.is_some_and(|record| record.depth == 0) { FoundBy::seed() } else { link };
                let judge = |job: &InForce| {
                    let verdict = job.rules.verdict(url, found);
                    Judged::of(&job.rules, &job.name, &verdict, job.state)
                };
                if let Some(job) = record.and_then(|record| jobs.get(record.job)) {
                    return Ok(judge(&job));
                }
                // The URL was never offered: look for a job that would want the URL.
                let mut all: Vec<Judged> = jobs.all().iter().map(|job| judge(job)).collect();
                let is_wanted = |judged: &Judged| judged.view.as_ref().is_some_and(|view| view.wanted);
                all.sort_by_key(|judged| (!is_wanted(judged), judged.state));
                Ok(all.into_iter().next().unwrap_or_default())
            }
        }
    }
}

impl Judged {
    /// The verdict of a further job of a folder. A URL at depth 0 was offered from outside.
    pub(super) fn by(job: &InForce, url: &CrawlUrl, record: Option<&UrlRecord>) -> Judged {
        let found = match record {
            Some(record) if record.depth > 0 => {
                FoundBy::link(record.depth, record.hops.out().saturating_sub(1))
            }
            _ => FoundBy::seed(),
        };
        Judged::of(&job.rules, &job.name, &job.rules.verdict(url, found), job.state)
    }

    fn of(rules: &Rules, job: &str, verdict: &ScopeVerdict, state: State) -> Judged {
        let view = ScopeView {
            wanted: verdict.is_in(),
            rule: rules.text(verdict.rule),
            origin: rules.origin(verdict.rule),
            job: job.to_owned(),
        };
        Judged { view: Some(view), state, is_excluded: matches!(verdict.rule, Rule::Exclude(_)) }
    }
}

/// The scope of the plan, cached until the plan changes: a seed that moved widens the scope.
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
    let scope = Arc::new(Scope { rules, job: plan.job.name, state: plan.job.state, seeds });
    *known = Some((changed, scope.clone()));
    Ok(scope)
}
