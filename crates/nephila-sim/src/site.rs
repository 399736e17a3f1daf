//! The pages of the made-up web: how each answers, and the URLs that each names.
//!
//! Invariant: everything follows from the seed of the world, so the same page answers the same at every request, except
//! that its versions count up.

use nephila_core::handler::LinkKind;
use nephila_core::job::Kind;

use crate::rng::{Rng, mix};
use crate::world::World;

/// How a page answers if nothing fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With a page.
    Content,
    /// With a redirect to another page.
    Moved(u32),
    /// With a redirect to the same page, spelled otherwise, with or without a cookie.
    Itself {
        /// Whether the answer sets a cookie.
        cookie: bool,
    },
}

/// A URL that a page names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The named page.
    pub to: u32,
    /// How the page is named.
    pub kind: LinkKind,
    /// The page asks not to follow the link.
    pub nofollow: bool,
}

/// The links of a page.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The page asks not to follow its links.
    pub closed: bool,
    /// The named URLs.
    pub links: Vec<Named>,
}

/// The validators of one version of a page; empty for a field that the server does not send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// The `ETag` header field.
    pub etag: String,
    /// The `Last-Modified` header field.
    pub last_modified: String,
}

impl Version {
    /// Whether the server sends neither field.
    pub fn is_empty(&self) -> bool {
        self.etag.is_empty() && self.last_modified.is_empty()
    }
}

impl World {
    fn dice(&self, url: u32, salt: u64) -> Rng {
        Rng::new(mix(self.seed ^ u64::from(url) ^ (salt << 40)))
    }

    /// How a page answers.
    pub fn answer(&self, url: u32) -> Answer {
        let host = self.urls[url as usize].host;
        let own = self.hosts[host].pages.clone();
        let mut rng = self.dice(url, 2);
        let to = if self.dice(url / self.chain_pages, 1).one_in(self.moved_rate) {
            // Pages in a row redirect to the next one, and the last of the site to the first.
            if url + 1 < own.end { url + 1 } else { own.start }
        } else if !rng.one_in(self.moved_rate) {
            return Answer::Content;
        } else {
            match rng.below(5) {
                0 => return Answer::Itself { cookie: rng.one_in(2) },
                1 => rng.below(self.urls.len() as u64) as u32,
                2 => rng.within(own.start.into(), u64::from(own.end) - 1) as u32,
                // Another site of the same domain: a site that moves to `www.`
                _ => {
                    let own = domain(&self.hosts[host].origin);
                    let near = self.hosts.iter().filter(|other| domain(&other.origin) == own);
                    let pages = &rng.pick(&near.collect::<Vec<_>>()).pages;
                    rng.within(pages.start.into(), u64::from(pages.end) - 1) as u32
                }
            }
        };
        if to == url { Answer::Itself { cookie: false } } else { Answer::Moved(to) }
    }

    /// The URLs that a page names.
    pub fn body(&self, url: u32) -> Body {
        let mut rng = self.dice(url, 0);
        let own = self.hosts[self.urls[url as usize].host].pages.clone();
        let count = rng.below(7);
        let links = (0..count).map(|_| {
            let to = match rng.one_in(3) {
                true => rng.below(self.urls.len() as u64) as u32,
                false => rng.within(own.start.into(), u64::from(own.end) - 1) as u32,
            };
            let kind = match rng.below(24) {
                0 => LinkKind::Redirect,
                1 => LinkKind::Iframe,
                2 | 3 => LinkKind::Style,
                4..7 => LinkKind::Requisite,
                _ => LinkKind::Link,
            };
            Named { to, kind, nofollow: rng.one_in(20) }
        });
        let links = links.collect();
        Body { closed: rng.one_in(30), links }
    }

    /// The validators of a version of a page.
    pub fn version(&self, url: u32, number: u32) -> Version {
        let [etag, dated] = match self.dice(url, 3).below(6) {
            0 => [false, false],
            1 => [false, true],
            2 => [true, true],
            _ => [true, false],
        };
        Version {
            etag: if etag { format!("\"{url}-{number}\"") } else { String::new() },
            last_modified: if dated { format!("version {number}") } else { String::new() },
        }
    }

    /// Draws the scopes of the jobs.
    pub(crate) fn draw_scopes(&mut self, rng: &mut Rng) {
        use Kind::{Any, Domain, Host, Page, Prefix};
        for job in 0..self.jobs.len() {
            let seeds = (0..rng.within(1, 4)).map(|_| self.url(rng.below(self.urls.len() as u64) as u32));
            let seeds = seeds.collect();
            let scope = &mut self.jobs[job].scope;
            scope.seeds = seeds;
            scope.kind = *rng.pick(&[Any, Any, Any, Any, Domain, Domain, Host, Host, Prefix, Page]);
            scope.depth_max = *rng.pick(&[0, 1, 2, 4, 20, 20, 255, 255]);
            scope.extra_hops = *rng.pick(&[0, 0, 1, 2]);
            let patterns = |rng: &mut Rng| -> Vec<String> {
                let some: &[&[&str]] = &[&[], &[], &["/private/"], &["/p1", "/a/b/"]];
                rng.pick(some).iter().map(|text| (*text).to_owned()).collect()
            };
            (scope.exclude, scope.include) = (patterns(rng), patterns(rng));
        }
    }
}

/// The registrable domain of an origin: the last two labels of its name.
pub(crate) fn domain(origin: &str) -> &str {
    let name = origin.split_once("://").map_or(origin, |(_, name)| name);
    let name = name.split('/').next().unwrap_or(name);
    let mut dots = name.rmatch_indices('.').skip(1);
    dots.next().map_or(name, |(dot, _)| &name[dot + 1..])
}
