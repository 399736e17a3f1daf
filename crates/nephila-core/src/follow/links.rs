//! From the findings of a page to the offers for the frontier: scope, depth, page requisites, redirects, moved seeds and
//! traps.

use super::source::{Known, Source};
use crate::frontier::URGENT;
use crate::handler::{Findings, LinkKind, ReadAs};
use crate::job::{Decision, FoundBy, Hops, Rule, Rules, ScopeVerdict};
use crate::key::Secret;
use crate::planted::{self, Bug};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::trap;
use crate::url::CrawlUrl;
use crate::want::Want;

/// Maximum number of hops over which page requisites are fetched out of scope: a style sheet that imports one that
/// imports one. Beyond, the scope decides.
const REQUISITE_HOPS_MAX: u32 = 5;

/// A discovered URL, to be offered to the frontier.
#[derive(Clone, Debug)]
pub struct Link {
    /// The URL.
    pub url: CrawlUrl,
    /// How the URL is wanted.
    pub want: Want,
}

/// Links to offer, and counts of the links left out.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The links to offer, in the order of the page.
    pub wanted: Vec<Link>,
    /// Counts of all links.
    pub counts: Counts,
    /// New locations of moved seeds: their surroundings are in scope.
    pub moved: Vec<CrawlUrl>,
}

/// Counts of the links of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Links in scope.
    pub wanted: u32,
    /// Links out of scope.
    pub out: u32,
    /// Links rejected as traps.
    pub traps: u32,
}

/// The kinds of links that are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Follow {
    /// Obey `nofollow` of links and pages.
    pub nofollow: bool,
    /// Fetch images, scripts, styles and frames of a page, also of hosts out of scope.
    pub page_requisites: bool,
    /// Follow the targets of forms that use GET.
    pub forms: bool,
    /// Read sitemaps.
    pub sitemaps: bool,
}

impl Follow {
    /// Whether links of this kind are followed.
    fn takes(self, kind: LinkKind) -> bool {
        match kind {
            LinkKind::Style | LinkKind::Requisite => self.page_requisites,
            LinkKind::Form => self.forms,
            LinkKind::Sitemap => self.sitemaps,
            _ => true,
        }
    }
}

/// Hears of each decision about a link.
pub trait Witness {
    /// The scope has judged a URL that was found in this way.
    fn judged(&self, url: &CrawlUrl, rules: &Rules, verdict: &ScopeVerdict, via: &str) {
        _ = (url, rules, verdict, via);
    }

    /// A URL in scope was rejected as a trap.
    fn trapped(&self, url: &CrawlUrl, trap: trap::Trap) {
        _ = (url, trap);
    }

    /// A page in scope needs this URL for display; the URL is fetched although out of scope.
    fn needed(&self, url: &CrawlUrl) {
        _ = url;
    }

    /// Whether a link in scope goes to the frontier. A dry run lets one page of each host pass.
    fn lets_pass(&self, url: &CrawlUrl) -> bool {
        _ = url;
        true
    }
}

/// No witness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwitnessed;

impl Witness for Unwitnessed {}

/// The rules for the links of one page.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The scope of the page's job.
    pub rules: &'a Rules,
    /// The priority of the page's job.
    pub priority: u8,
    /// The kinds of links that are followed.
    pub follow: Follow,
    /// The settings for traps.
    pub traps: &'a trap::Settings,
    /// The key under which URLs are hashed.
    pub secret: &'a Secret,
    /// The wall clock.
    pub now: Timestamp,
    /// Hears of the decisions.
    pub witness: &'a dyn Witness,
}

/// The links of a page, and the target of its redirect.
pub fn links(
    judge: &Judge<'_>,
    known: &Known,
    page: &CrawlUrl,
    redirect_to: Option<&CrawlUrl>,
    findings: Option<&Findings>,
) -> Links {
    let mut choice = Choice::of(judge, known, page);
    if let Some(target) = redirect_to {
        choice.redirect(target);
    }
    let Some(findings) = findings else { return choice.links };
    let obeys = judge.follow.nofollow;
    let page_closed = obeys && findings.page_robots.nofollow;
    for found in &findings.links {
        if found.kind == LinkKind::Redirect {
            choice.redirect(&found.url);
        } else if !(page_closed || obeys && found.nofollow) && judge.follow.takes(found.kind) {
            choice.link(&found.url, found.kind);
        }
    }
    if let Some(sitemap) = &findings.sitemap {
        for entry in &sitemap.urls {
            choice.link(&entry.url, LinkKind::Listed);
            entry.alternates.iter().for_each(|alternate| choice.link(alternate, LinkKind::Alternate));
        }
        sitemap.sitemaps.iter().for_each(|index| choice.link(index, LinkKind::Sitemap));
    }
    choice.links
}

/// The links of a poll: the new location of the feed, pages of new stories, or the feeds of a page that was added as a
/// feed. An operator's feed brings its stories into scope, wherever they lie; an `exclude` keeps them out.
pub fn links_of_feed<'a>(
    judge: &Judge<'_>,
    known: &Known,
    page: &CrawlUrl,
    redirect_to: Option<&CrawlUrl>,
    stories: impl Iterator<Item = &'a CrawlUrl>,
    feeds: impl Iterator<Item = &'a CrawlUrl>,
) -> Links {
    let mut choice = Choice::of(judge, known, page);
    if let Some(target) = redirect_to {
        let hops = Hops::new(known.hops.out(), known.hops.redirects() + 1);
        choice.news(target, known.depth, hops, ReadAs::Feed, 'R');
    }
    for story in stories {
        choice.news(story, known.depth.saturating_add(1), Hops::NONE, ReadAs::Story, 'L');
    }
    for feed in feeds {
        choice.news(feed, known.depth, Hops::NONE, ReadAs::Feed, 'L');
    }
    choice.links
}

/// The links of one page while they are judged.
struct Choice<'a> {
    judge: &'a Judge<'a>,
    known: &'a Known,
    source: Source<'a>,
    links: Links,
}

impl<'a> Choice<'a> {
    fn of(judge: &'a Judge<'a>, known: &'a Known, page: &'a CrawlUrl) -> Choice<'a> {
        Choice { judge, known, source: Source::of(known, page, judge.secret), links: Links::default() }
    }

    fn link(&mut self, url: &CrawlUrl, kind: LinkKind) {
        let Judge { rules, priority, witness, .. } = *self.judge;
        let deeper = u8::from(!planted::is(Bug::LinksKeepDepth));
        let depth = self.known.depth.saturating_add(deeper);
        let verdict = rules.verdict(url, FoundBy::link(depth, self.known.hops.out()));
        // Page requisites belong to the page, wherever they lie: images, styles, scripts and frames.
        let is_part = kind.is_requisite() || kind == LinkKind::Iframe;
        let requisite = is_part && self.takes_requisite(&verdict);
        let hops_out = match verdict.decision {
            Decision::In { hops_out } => {
                witness.judged(url, rules, &verdict, kind.name());
                hops_out
            }
            Decision::Out if requisite => {
                witness.needed(url);
                self.known.hops.out()
            }
            Decision::Out => {
                self.links.counts.out += 1;
                return witness.judged(url, rules, &verdict, kind.name());
            }
        };
        self.push(url, depth, Hops::new(hops_out, 0), kind.read_as(), priority, kind.letter());
    }

    /// The target of a redirect, at the same depth as the page.
    fn redirect(&mut self, target: &CrawlUrl) {
        let Judge { rules, priority, witness, .. } = *self.judge;
        let known = self.known;
        let found = match known.is_seed() {
            true => FoundBy::seed_redirect(self.source.page, known.depth),
            false => FoundBy::redirect(known.depth, known.hops.out()),
        };
        let verdict = rules.verdict(target, found);
        let hops_out = match verdict.decision {
            Decision::In { hops_out } => {
                witness.judged(target, rules, &verdict, "redirect");
                hops_out
            }
            // A requisite that has moved to another host is still one.
            Decision::Out if self.source.trail.is_embedded() && self.takes_requisite(&verdict) => {
                witness.needed(target);
                known.hops.out()
            }
            Decision::Out => {
                self.links.counts.out += 1;
                return witness.judged(target, rules, &verdict, "redirect");
            }
        };
        if verdict.rule == Rule::SeedRedirect {
            // The site has moved: the surroundings of the new location are in scope.
            self.links.moved.push(target.clone());
        }
        let more = u8::from(!planted::is(Bug::RedirectsUncounted));
        let hops = Hops::new(hops_out, known.hops.redirects() + more);
        self.push(target, known.depth, hops, known.read_as, priority, 'R');
    }

    /// Whether a requisite out of scope is fetched. A style sheet may import another, but not without end.
    fn takes_requisite(&self, verdict: &ScopeVerdict) -> bool {
        self.judge.follow.page_requisites
            && self.source.trail.embeds() < REQUISITE_HOPS_MAX
            && !matches!(verdict.rule, Rule::Exclude(_))
    }

    /// A URL of a followed feed: in scope unless excluded, and urgent.
    fn news(&mut self, url: &CrawlUrl, depth: u8, hops: Hops, read_as: ReadAs, letter: char) {
        if self.judge.rules.excludes(url) {
            self.links.counts.out += 1;
        } else {
            self.push(url, depth, hops, read_as, URGENT, letter);
        }
    }

    fn push(&mut self, url: &CrawlUrl, depth: u8, hops: Hops, read_as: ReadAs, priority: u8, letter: char) {
        // A dry run fetches only sitemaps and redirects, and one page of each host to learn its robots.txt.
        let leads_on = read_as == ReadAs::Sitemap || hops.redirects() > 0;
        if !leads_on && !self.judge.witness.lets_pass(url) {
            return;
        }
        let trap = trap::judge_at(url, self.judge.traps, self.judge.now);
        if let Some(trap) = trap {
            self.judge.witness.trapped(url, trap);
        }
        let refusal = trap.map(Refusal::from);
        let counts = &mut self.links.counts;
        *(if refusal.is_some() { &mut counts.traps } else { &mut counts.wanted }) += 1;
        let (via, source) = self.source.of_link(url, letter);
        let via = Some(via);
        let want = Want { depth, hops, read_as, priority, refusal, via, source, ..Want::of(self.known.job) };
        self.links.wanted.push(Link { url: url.clone(), want });
    }
}
