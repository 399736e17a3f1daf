//! From what a page says to what the frontier is offered: scope, traps and the rules of the page itself.
//!
//! What always holds: a link that is left out is counted under the rule that left it out; the same page and rules give
//! the same links.

use std::sync::atomic::Ordering;

use nephila_core::frontier::refusal::Refusal;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::frontier::trap;
use nephila_core::handler::{Findings, LinkKind, ReadAs};
use nephila_core::job::{Decision, Found, Hops, Rule};
use nephila_core::recrawl::claims::{LISTED_MAX, Listed};
use nephila_core::spider::Outcome;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_spider::Fetched;

use super::jobs::InForce;
use super::shared::Shared;
use crate::log;
use crate::worker::Link;

/// What is offered, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) wanted: Vec<Link>,
    pub(crate) counts: log::Links,
    /// Where a seed has moved to: around it lies what is wanted.
    pub(crate) moved: Vec<CrawlUrl>,
}

/// The links of a page, and where it redirects to.
pub(crate) fn links(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    fetched: &Fetched,
    findings: Option<&Findings>,
) -> Links {
    let mut links = Links::default();
    // A job that is gone wants nothing more.
    let Some(job) = &shared.jobs.get(ticket.job) else { return links };
    if let (Outcome::Redirect, Some(target)) = (fetched.outcome, &fetched.redirect) {
        redirect(shared, job, ticket, url, target, &mut links);
    }
    let Some(findings) = findings else { return links };
    let obeys = shared.settings.handler.nofollow;
    let page_closed = obeys && findings.page_robots.nofollow;
    for found in &findings.links {
        if found.kind == LinkKind::Redirect {
            redirect(shared, job, ticket, url, &found.url, &mut links);
        } else if !(page_closed || obeys && found.nofollow) && shared.follows(found.kind) {
            link(shared, job, ticket, &found.url, found.kind, &mut links);
        }
    }
    if let Some(sitemap) = &findings.sitemap {
        for entry in &sitemap.urls {
            link(shared, job, ticket, &entry.url, LinkKind::Listed, &mut links);
            for alternate in &entry.alternates {
                link(shared, job, ticket, alternate, LinkKind::Alternate, &mut links);
            }
        }
        for index in &sitemap.sitemaps {
            link(shared, job, ticket, index, LinkKind::Sitemap, &mut links);
        }
    }
    let counts = &shared.counts;
    counts.links_wanted.fetch_add(links.counts.wanted.into(), Ordering::Relaxed);
    counts.links_out.fetch_add(links.counts.out.into(), Ordering::Relaxed);
    counts.links_traps.fetch_add(links.counts.traps.into(), Ordering::Relaxed);
    links
}

/// When pages of its own host were changed, by the word of a sitemap. Of other hosts nobody has a say here.
pub(crate) fn listed(shared: &Shared, url: &CrawlUrl, findings: Option<&Findings>) -> Box<[Listed]> {
    let sitemap = findings.and_then(|findings| findings.sitemap.as_ref());
    let entries = sitemap.iter().flat_map(|sitemap| &sitemap.urls);
    said(shared, url, entries.filter_map(|entry| Some((&entry.url, entry.lastmod?))))
}

/// The same of any pages and times.
pub(crate) fn said<'a>(
    shared: &Shared,
    url: &CrawlUrl,
    pages: impl Iterator<Item = (&'a CrawlUrl, Timestamp)>,
) -> Box<[Listed]> {
    let origin = url.origin();
    let own = pages.filter(|(page, _)| page.origin() == origin).take(LISTED_MAX);
    own.map(|(page, at)| Listed { path: shared.handle.key(page).path, modified: at.into() }).collect()
}

fn link(shared: &Shared, job: &InForce, ticket: &Ticket, url: &CrawlUrl, kind: LinkKind, links: &mut Links) {
    let depth = ticket.depth.saturating_add(1);
    let verdict = job.rules.verdict(url, Found::link(depth, ticket.hops.out()));
    let read_as = kind.read_as();
    // What a page needs to be shown belongs to it, wherever it lies.
    let requisite = kind == LinkKind::Requisite && !matches!(verdict.rule, Rule::Exclude(_));
    let hops_out = match verdict.decision {
        Decision::In { hops_out } => hops_out,
        Decision::Out if requisite => ticket.hops.out(),
        Decision::Out => {
            links.counts.out += 1;
            return shared.show(job, url, &verdict, kind.name());
        }
    };
    shared.show(job, url, &verdict, kind.name());
    links.push(shared, job, url.clone(), depth, Hops::new(hops_out, 0), read_as);
}

/// Where a page leads to: as deep as the page itself.
fn redirect(
    shared: &Shared,
    job: &InForce,
    ticket: &Ticket,
    url: &CrawlUrl,
    target: &CrawlUrl,
    links: &mut Links,
) {
    let is_seed = ticket.depth == 0 && ticket.read_as == ReadAs::Page;
    let found = match is_seed {
        true => Found::seed_redirect(url, ticket.depth),
        false => Found::link(ticket.depth, ticket.hops.out()),
    };
    let verdict = job.rules.verdict(target, found);
    shared.show(job, target, &verdict, "redirect");
    let Decision::In { hops_out } = verdict.decision else {
        links.counts.out += 1;
        return;
    };
    if verdict.rule == Rule::SeedRedirect {
        // The site has moved: what lies around its new place is wanted.
        links.moved.push(target.clone());
    }
    let hops = Hops::new(hops_out, ticket.hops.redirects() + 1);
    links.push(shared, job, target.clone(), ticket.depth, hops, ticket.read_as);
}

impl Links {
    pub(crate) fn push(
        &mut self,
        shared: &Shared,
        job: &InForce,
        url: CrawlUrl,
        depth: u8,
        hops: Hops,
        read_as: ReadAs,
    ) {
        if shared.map.is_some() && read_as != ReadAs::Sitemap && hops.redirects() == 0 {
            return;
        }
        let refusal = trap::judge_at(&url, &shared.settings.trap, shared.clock.now().wall).map(Refusal::from);
        if refusal.is_some() {
            self.counts.traps += 1;
        } else {
            self.counts.wanted += 1;
        }
        let priority = job.priority;
        self.wanted.push(Link { url, job: job.id, depth, priority, hits: 0, hops, read_as, refusal });
    }
}
