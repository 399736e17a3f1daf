//! The links of a page, judged by the rules of its job ([`nephila_core::follow`]), and counted.

use std::sync::atomic::Ordering;

use nephila_core::follow::{self, Counts, Follow, Judge, Known, Links, Witness};
use nephila_core::handler::Findings;
use nephila_core::job::{Rules, ScopeVerdict};
use nephila_core::trap::Trap;
use nephila_core::url::CrawlUrl;

use super::jobs::InForce;
use super::shared::Shared;
use super::stage::Stages;
use crate::log;

/// A witness that counts for a job, and tells the observer of the crawl.
pub(crate) struct Counting<'a> {
    pub(crate) stages: &'a Stages,
    pub(crate) job: &'a InForce,
}

impl Witness for Counting<'_> {
    fn judged(&self, url: &CrawlUrl, rules: &Rules, verdict: &ScopeVerdict, via: &str) {
        self.job.verdicts.judged(url, verdict);
        self.stages.judged(url, rules, verdict, via);
    }

    fn trapped(&self, url: &CrawlUrl, trap: Trap) {
        self.job.verdicts.trapped(url, trap);
    }

    fn needed(&self, url: &CrawlUrl) {
        self.stages.needed(url);
    }

    fn lets_pass(&self, url: &CrawlUrl) -> bool {
        self.stages.lets_pass(url)
    }
}

/// The rules for the links of a page of this job, and the witness of the decisions.
pub(crate) fn judge<'a>(shared: &'a Shared, job: &'a InForce, witness: &'a Counting<'a>) -> Judge<'a> {
    let settings = &shared.settings.handler;
    Judge {
        rules: &job.rules,
        priority: job.priority,
        follow: Follow {
            nofollow: settings.nofollow,
            page_requisites: settings.page_requisites,
            forms: settings.forms,
            sitemaps: settings.sitemaps,
        },
        traps: &shared.settings.trap,
        secret: shared.handle.secret(),
        now: shared.clock.now().wall,
        witness,
    }
}

/// The links of a page, and the target of its redirect.
pub(crate) fn links(
    shared: &Shared,
    known: &Known,
    url: &CrawlUrl,
    redirect_to: Option<&CrawlUrl>,
    findings: Option<&Findings>,
) -> Links {
    // A removed job wants no more links.
    let Some(job) = &shared.jobs.get(known.job) else { return Links::default() };
    let witness = Counting { stages: &shared.stages, job };
    let links = follow::links(&judge(shared, job, &witness), known, url, redirect_to, findings);
    let (counts, Counts { wanted, out, traps }) = (&shared.counts, links.counts);
    counts.links_wanted.fetch_add(wanted.into(), Ordering::Relaxed);
    counts.links_out.fetch_add(out.into(), Ordering::Relaxed);
    counts.links_traps.fetch_add(traps.into(), Ordering::Relaxed);
    links
}

impl From<Counts> for log::Links {
    fn from(Counts { wanted, out, traps }: Counts) -> log::Links {
        log::Links { wanted, out, traps }
    }
}
