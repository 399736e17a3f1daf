//! The page with the links: the facts that all links of one page share.

use std::sync::Arc;

use crate::frontier::ticket::Ticket;
use crate::handler::ReadAs;
use crate::job::{Hops, JobId, Trail, Via};
use crate::key::{DomainKey, Secret, UrlKey};
use crate::url::CrawlUrl;

/// The part of a page's record on which its links depend.
#[derive(Clone, Debug)]
pub struct Known {
    /// The job that wants the page.
    pub job: JobId,
    /// Links between a seed and the page.
    pub depth: u8,
    /// Links out of scope and redirects that led to the page.
    pub hops: Hops,
    /// How the page is read.
    pub read_as: ReadAs,
    /// Where the page was found, if known.
    pub via: Option<Arc<Via>>,
}

impl Known {
    /// Whether a person named the page, or a redirect of such a page led here.
    pub fn is_seed(&self) -> bool {
        self.depth == 0 && self.read_as == ReadAs::Page
    }
}

impl From<&Ticket> for Known {
    fn from(ticket: &Ticket) -> Known {
        let Ticket { job, depth, hops, read_as, .. } = *ticket;
        Known { job, depth, hops, read_as, via: ticket.via.clone() }
    }
}

/// A page, and the hops that led to the page.
#[derive(Debug)]
pub struct Source<'a> {
    pub(super) page: &'a CrawlUrl,
    /// The domain of the page, by name and by key.
    domain: (&'a str, DomainKey),
    origin: &'a str,
    pub(super) trail: Trail,
    /// Cache of `Via`, by hop and by whether the target has the same origin as the page.
    made: Vec<(char, bool, Arc<Via>)>,
}

impl<'a> Source<'a> {
    /// A page that the frontier knows.
    pub fn of(known: &Known, page: &'a CrawlUrl, secret: &Secret) -> Source<'a> {
        // A folder of an older version does not record how its URLs were found; a page at depth 0 without redirects is
        // a seed.
        let unknown =
            if known.is_seed() && known.hops.redirects() == 0 { Trail::SEED } else { Trail::UNKNOWN };
        Source::new(page, secret, known.via.as_ref().map_or(unknown, |via| via.trail))
    }

    /// A page at the end of this trail of hops.
    pub fn new(page: &'a CrawlUrl, secret: &Secret, trail: Trail) -> Source<'a> {
        let domain = (domain(page), UrlKey::of(page, secret).host.domain);
        Source { page, domain, origin: page.origin(), trail, made: Vec::new() }
    }

    /// The `Via` of a URL that is one more hop away, and the domain of the page if the URL lies in another domain.
    pub fn of_link(&mut self, url: &CrawlUrl, letter: char) -> (Arc<Via>, DomainKey) {
        let near = url.origin() == self.origin;
        let source = if near || domain(url) == self.domain.0 { DomainKey(0) } else { self.domain.1 };
        (self.via(near, letter), source)
    }

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
