//! One page of the made-up web, carried through the decisions of the core ([`nephila_core::follow`]): conditions before
//! the request, then redirect or links. Each decision is shown to its checker before anything follows from the decision.

use http::header::IF_NONE_MATCH;
use nephila_core::entry::{Entry, Group, NO_FETCH};
use nephila_core::follow::{self, Judge, Known, Stored, Unwitnessed};
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{Counts, Findings, FoundLink, PageRobots, sniff};
use nephila_core::job::{JobId, Via};
use nephila_core::spider::Outcome;
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;

use crate::facts::Fact;
use crate::harness::Sim;
use crate::scope::Scopes;
use crate::site::{Answer, Version};
use crate::web::Ending;
use crate::{Checker, Violation};

/// The archive remembers the last capture of a page, except one in this number.
const FORGOTTEN: u64 = 10;

/// How often a page has changed when the page is requested again: once in this number of requests.
const CHANGED: u64 = 3;

/// How a URL that a person named is wanted.
pub(crate) fn seed(job: JobId) -> Want {
    Want { via: Some(Via::seed()), ..Want::of(job) }
}

impl Sim {
    /// The validators that a request carries.
    pub(crate) fn conditions(&self, url: u32, ticket: &Ticket) -> Result<Version, Violation> {
        let stored = self.archive[url as usize].as_ref();
        let stored = stored.map(|last| Stored { etag: &last.etag, last_modified: &last.last_modified });
        let mut sent = Version::default();
        for (name, value) in follow::conditions(ticket.known.as_deref(), stored, false) {
            let field = if name == IF_NONE_MATCH { &mut sent.etag } else { &mut sent.last_modified };
            value.to_str().expect("validators of ours are text").clone_into(field);
        }
        self.asked.check_request(url, ticket, &sent)?;
        Ok(sent)
    }

    /// A group records ends without a request: of a site that was given up, or by robots.txt.
    pub(crate) fn note_unasked(&mut self, partition: usize, group: &Group) {
        for entry in &group.entries {
            let Entry::Ended(ended) = entry else { continue };
            let url = self.world.by_path.get(&ended.key.path).filter(|_| ended.fetch & NO_FETCH != 0);
            self.parts[partition].facts.extend(url.map(|url| Fact::Unasked(*url)));
        }
    }

    /// A page answers, and nothing fails: stores the capture and chooses its links.
    pub(crate) fn receive(&mut self, at: usize, url: u32) -> Result<Ending, Violation> {
        let (ticket, sent) = (self.finished[at].ticket.clone(), self.finished[at].sent.clone());
        let answer = self.world.answer(url);
        if answer != Answer::Content {
            let outcome = self.redirect(at, url, &ticket, answer)?;
            return Ok(Ending { outcome, status: 301, rest: 0, version: Version::default() });
        }
        let number = &mut self.versions[url as usize];
        *number += u32::from(self.rng.one_in(CHANGED));
        let version = self.world.version(url, *number);
        let unchanged = match sent.etag.is_empty() {
            false => sent.etag == version.etag,
            true => !sent.is_empty() && sent.last_modified == version.last_modified,
        };
        if unchanged {
            self.figures.unchanged += 1;
            let version = Version::default();
            return Ok(Ending { outcome: Outcome::NotModified, status: 304, rest: 0, version });
        }
        let stored = (!self.rng.one_in(FORGOTTEN)).then(|| version.clone());
        self.asked.handle_stored(url, stored.clone());
        self.archive[url as usize] = stored;
        self.choose(at, url, &ticket, None)?;
        Ok(Ending { outcome: Outcome::Fetched, status: 200, rest: 0, version })
    }

    fn redirect(
        &mut self,
        at: usize,
        url: u32,
        ticket: &Ticket,
        answer: Answer,
    ) -> Result<Outcome, Violation> {
        self.figures.redirects += 1;
        let (to, target, cookie) = match answer {
            Answer::Moved(to) => (to, self.world.urls[to as usize].url.clone(), self.rng.one_in(2)),
            Answer::Itself { cookie } => {
                let itself = format!("{}#again", self.world.url(url));
                (url, CrawlUrl::parse(&itself).expect("a URL of ours"), cookie)
            }
            Answer::Content => unreachable!("no redirect"),
        };
        let (page, max) = (&self.world.urls[url as usize].url, self.world.redirects_max);
        let outcome = follow::redirect(page, &target, ticket.hops, cookie, max).unwrap_or(Outcome::Redirect);
        let expected = Scopes::redirect(ticket, answer, max);
        if outcome != expected {
            let what = format!("{} redirects to {}: {outcome}, not {expected}", ticket.url, target.as_str());
            return Err(Violation::new(Checker::Redirects, what));
        }
        if outcome == Outcome::Redirect {
            self.choose(at, url, ticket, Some(to))?;
        }
        Ok(outcome)
    }

    /// Chooses the links of a page, or the target of its redirect.
    fn choose(&mut self, at: usize, url: u32, ticket: &Ticket, to: Option<u32>) -> Result<(), Violation> {
        let Sim { world, rules, scopes, clock, finished, .. } = self;
        let job = ticket.job.0 as usize - 1;
        let judge = Judge {
            rules: &rules[job],
            priority: world.jobs[job].priority,
            follow: world.follow,
            traps: &world.config.rules.trap,
            secret: &world.secret,
            now: clock.now().wall,
            witness: &Unwitnessed,
        };
        let page = &world.urls[url as usize].url;
        let target = to.map(|to| &world.urls[to as usize].url);
        let findings = to.is_none().then(|| {
            let body = world.body(url);
            let found = body.links.iter().map(|named| FoundLink {
                url: world.urls[named.to as usize].url.clone(),
                kind: named.kind,
                place: "a/@href",
                nofollow: named.nofollow,
                embedded: false,
                words: None,
            });
            findings(found.collect(), body.closed)
        });
        let links = follow::links(&judge, &Known::from(ticket), page, target, findings.as_ref());
        let wanted = scopes.handle_chosen(url, ticket, to, &links, world)?;
        for moved in &links.moved {
            rules[job].widen(moved, 0);
        }
        finished[at].links = wanted.into_iter().zip(links.wanted.into_iter().map(|link| link.want)).collect();
        self.figures.moved += links.moved.len() as u64;
        self.figures.links_out += u64::from(links.counts.out);
        Ok(())
    }
}

fn findings(links: Vec<FoundLink>, closed: bool) -> Findings {
    Findings {
        kind: sniff::Kind::Html,
        charset: None,
        links,
        base_used: None,
        counts: Counts::default(),
        title: None,
        details: None,
        page_robots: PageRobots { nofollow: closed, ..PageRobots::default() },
        refresh: None,
        sitemap: None,
        cut: false,
        notes: Vec::new(),
    }
}
