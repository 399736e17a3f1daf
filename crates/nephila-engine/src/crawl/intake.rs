//! From the findings of a page to the offers for the frontier: scope, traps and the rules of the page.
//!
//! Invariants: a link that is left out is counted under the rule that excluded the link; the same page and rules give
//! the same links, whether the page was just fetched or is read again from the archive.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{Findings, LinkKind, ReadAs};
use nephila_core::job::{Decision, Found, Hops, JobId, Rule, Trail, Via};
use nephila_core::key::DomainKey;
use nephila_core::recrawl::claims::{LISTED_MAX, Listed};
use nephila_core::refusal::Refusal;
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;

use super::jobs::InForce;
use super::shared::Shared;
use crate::log;
use crate::worker::Link;

/// Maximum number of hops over which page requisites are fetched out of scope: a style sheet that imports one that
/// imports one. Beyond, the scope decides.
pub(crate) const REQUISITE_HOPS_MAX: u32 = 5;

/// Links to offer, and counts of the links left out.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) wanted: Vec<Link>,
    pub(crate) counts: log::Links,
    /// New locations of moved seeds: their surroundings are in scope.
    pub(crate) moved: Vec<CrawlUrl>,
}

/// The part of a page's record on which its links depend.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) job: JobId,
    pub(crate) depth: u8,
    pub(crate) hops: Hops,
    pub(crate) read_as: ReadAs,
    pub(crate) via: Option<Arc<Via>>,
}

impl From<&Ticket> for Known {
    fn from(ticket: &Ticket) -> Known {
        let Ticket { job, depth, hops, read_as, .. } = *ticket;
        Known { job, depth, hops, read_as, via: ticket.via.clone() }
    }
}

/// The page with the links: the data that all links of one page share.
pub(crate) struct Source<'a> {
    shared: &'a Shared,
    page: &'a CrawlUrl,
    /// The domain of the page, by name and by key.
    domain: (&'a str, DomainKey),
    origin: String,
    trail: Trail,
    /// Cache of `Via`, by hop and by whether the target has the same origin as the page.
    made: Vec<(char, bool, Arc<Via>)>,
}

impl<'a> Source<'a> {
    /// A page that the frontier knows.
    pub(crate) fn of(shared: &'a Shared, known: &Known, page: &'a CrawlUrl) -> Source<'a> {
        // A folder of an older version does not record how its URLs were found; a page at depth 0 without redirects is
        // a seed.
        let is_seed = known.depth == 0 && known.hops.redirects() == 0 && known.read_as == ReadAs::Page;
        let unknown = if is_seed { Trail::SEED } else { Trail::UNKNOWN };
        Source::new(shared, page, known.via.as_ref().map_or(unknown, |via| via.trail))
    }

    /// A page at the end of this trail of hops.
    pub(crate) fn new(shared: &'a Shared, page: &'a CrawlUrl, trail: Trail) -> Source<'a> {
        let domain = (domain(page), shared.handle.key(page).host.domain);
        Source { shared, page, domain, origin: page.origin(), trail, made: Vec::new() }
    }

    /// How a job wants a URL that is one more hop away.
    pub(crate) fn want(&mut self, job: &InForce, url: &CrawlUrl, letter: char) -> Want {
        let near = url.origin() == self.origin;
        let source = if near { DomainKey(0) } else { source(self.domain, url) };
        Want { priority: job.priority, via: Some(self.via(near, letter)), source, ..Want::of(job.id) }
    }

    /// The `Via` of a URL that is one more hop away; `near` tells whether page and URL have the same origin.
    fn via(&mut self, near: bool, letter: char) -> Arc<Via> {
        if let Some((.., via)) = self.made.iter().find(|(l, n, _)| (*l, *n) == (letter, near)) {
            return via.clone();
        }
        let via = Arc::new(Via::of(self.page, self.trail.hop(letter), near));
        self.made.push((letter, near, via.clone()));
        via
    }
}

/// The name of a URL's domain, as in the key of the URL.
fn domain(url: &CrawlUrl) -> &str {
    url.registrable_domain().unwrap_or(url.host_str())
}

/// The domain of a page as the source of a link: zero for a link within the domain.
fn source((name, key): (&str, DomainKey), url: &CrawlUrl) -> DomainKey {
    if domain(url) == name { DomainKey(0) } else { key }
}

/// The links of a page, and the target of its redirect.
pub(crate) fn links(
    shared: &Shared,
    known: &Known,
    url: &CrawlUrl,
    redirect_to: Option<&CrawlUrl>,
    findings: Option<&Findings>,
) -> Links {
    let mut links = Links::default();
    // A removed job wants no more links.
    let Some(job) = &shared.jobs.get(known.job) else { return links };
    let source = &mut Source::of(shared, known, url);
    if let Some(target) = redirect_to {
        redirect(job, known, source, target, &mut links);
    }
    let Some(findings) = findings else { return links };
    let obeys = shared.settings.handler.nofollow;
    let page_closed = obeys && findings.page_robots.nofollow;
    for found in &findings.links {
        if found.kind == LinkKind::Redirect {
            redirect(job, known, source, &found.url, &mut links);
        } else if !(page_closed || obeys && found.nofollow) && shared.follows(found.kind) {
            link(job, known, source, (&found.url, found.kind), &mut links);
        }
    }
    if let Some(sitemap) = &findings.sitemap {
        for entry in &sitemap.urls {
            link(job, known, source, (&entry.url, LinkKind::Listed), &mut links);
            for alternate in &entry.alternates {
                link(job, known, source, (alternate, LinkKind::Alternate), &mut links);
            }
        }
        for index in &sitemap.sitemaps {
            link(job, known, source, (index, LinkKind::Sitemap), &mut links);
        }
    }
    let counts = &shared.counts;
    counts.links_wanted.fetch_add(links.counts.wanted.into(), Ordering::Relaxed);
    counts.links_out.fetch_add(links.counts.out.into(), Ordering::Relaxed);
    counts.links_traps.fetch_add(links.counts.traps.into(), Ordering::Relaxed);
    links
}

/// The times of change of pages on the sitemap's own host, as the sitemap claims. Entries of other hosts are ignored.
pub(crate) fn listed(shared: &Shared, url: &CrawlUrl, findings: Option<&Findings>) -> Box<[Listed]> {
    let sitemap = findings.and_then(|findings| findings.sitemap.as_ref());
    let entries = sitemap.iter().flat_map(|sitemap| &sitemap.urls);
    said(shared, url, entries.filter_map(|entry| Some((&entry.url, entry.lastmod?))))
}

/// Like [`listed`], for any pages and times.
pub(crate) fn said<'a>(
    shared: &Shared,
    url: &CrawlUrl,
    pages: impl Iterator<Item = (&'a CrawlUrl, Timestamp)>,
) -> Box<[Listed]> {
    let origin = url.origin();
    let own = pages.filter(|(page, _)| page.origin() == origin).take(LISTED_MAX);
    own.map(|(page, at)| Listed { path: shared.handle.key(page).path, modified: at.into() }).collect()
}

fn link(
    job: &InForce,
    known: &Known,
    source: &mut Source<'_>,
    (url, kind): (&CrawlUrl, LinkKind),
    links: &mut Links,
) {
    let shared = source.shared;
    let depth = known.depth.saturating_add(1);
    let verdict = job.rules.verdict(url, Found::link(depth, known.hops.out()));
    let read_as = kind.read_as();
    // Page requisites belong to the page, wherever they lie. A style sheet may import another, but not without end.
    let requisite = kind.is_requisite()
        && source.trail.embeds() < REQUISITE_HOPS_MAX
        && !matches!(verdict.rule, Rule::Exclude(_));
    let hops_out = match verdict.decision {
        Decision::In { hops_out } => hops_out,
        Decision::Out if requisite => {
            shared.stages.observe.needed(url);
            known.hops.out()
        }
        Decision::Out => {
            links.counts.out += 1;
            return shared.stages.observe.judged(url, &job.rules, &verdict, kind.name());
        }
    };
    if verdict.is_in() {
        shared.stages.observe.judged(url, &job.rules, &verdict, kind.name());
    }
    let hops = Hops::new(hops_out, 0);
    let want = Want { depth, hops, read_as, ..source.want(job, url, kind.letter()) };
    links.push(shared, url.clone(), want);
}

/// The target of a redirect, at the same depth as the page.
fn redirect(job: &InForce, known: &Known, source: &mut Source<'_>, target: &CrawlUrl, links: &mut Links) {
    let shared = source.shared;
    let is_seed = known.depth == 0 && known.read_as == ReadAs::Page;
    let found = match is_seed {
        true => Found::seed_redirect(source.page, known.depth),
        false => Found::link(known.depth, known.hops.out()),
    };
    let verdict = job.rules.verdict(target, found);
    shared.stages.observe.judged(target, &job.rules, &verdict, "redirect");
    let Decision::In { hops_out } = verdict.decision else {
        links.counts.out += 1;
        return;
    };
    if verdict.rule == Rule::SeedRedirect {
        // The site has moved: the surroundings of the new location are in scope.
        links.moved.push(target.clone());
    }
    let hops = Hops::new(hops_out, known.hops.redirects() + 1);
    let Known { depth, read_as, .. } = *known;
    let want = Want { depth, hops, read_as, ..source.want(job, target, 'R') };
    links.push(shared, target.clone(), want);
}

impl Links {
    pub(crate) fn push(&mut self, shared: &Shared, url: CrawlUrl, mut want: Want) {
        // A dry run fetches only sitemaps and redirects, and one page of each host to learn its robots.txt.
        let leads_on = want.read_as == ReadAs::Sitemap || want.hops.redirects() > 0;
        if !leads_on && !shared.stages.observe.lets_pass(&url) {
            return;
        }
        let trap = trap::judge_at(&url, &shared.settings.trap, shared.clock.now().wall);
        want.refusal = trap.map(Refusal::from);
        if trap.is_some() {
            self.counts.traps += 1;
        } else {
            self.counts.wanted += 1;
        }
        self.wanted.push(Link { url, want });
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::key::{Secret, UrlKey};

    use super::*;

    #[test]
    fn a_link_from_another_domain_has_that_domain_as_its_source() {
        let url = |text: &str| CrawlUrl::parse(text).unwrap();
        let page = url("https://www.paper.co.uk/front");
        let key = UrlKey::of(&page, &Secret([7; 16])).host.domain;
        let of = |text: &str| source((domain(&page), key), &url(text));
        assert_eq!(of("https://other.co.uk/"), key);
        assert_eq!(of("http://192.0.2.1/"), key);
        assert_eq!(of("http://sport.paper.co.uk/"), DomainKey(0), "another host of the same domain");
    }
}
