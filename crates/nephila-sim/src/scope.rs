//! Checks scope and redirects of pages, by a second statement of the rules over the texts of the URLs.
//!
//! The rules, from the documentation: an `exclude` keeps a URL out; a URL deeper than `depth_max` is out; a URL around a
//! seed is in, and so is one that an `include` names; a seed may redirect within its domain, and the surroundings of the
//! new location are then in; `extra_hops` links in a row may lead out, and redirects from there are no links; the parts of a page are fetched wherever they lie,
//! five hops far, unless excluded. A redirect costs no depth, and at most `redirects_max` of them follow each other.
//!
//! Books are kept of every way in which a URL was found. A request without a way is outside of the scope. The links of
//! each page are compared with the links that the rules give, so none is missing and none is too many.

use nephila_core::follow::Links;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{LinkKind, ReadAs};
use nephila_core::job::{Job, JobId, Kind};
use nephila_core::spider::Outcome;

use crate::site::{Answer, domain};
use crate::world::World;
use crate::{Checker, Violation};

/// Hops over which the parts of a page are fetched out of scope.
const PARTS_HOPS_MAX: usize = 5;
/// Redirects in a row that can be counted.
const REDIRECTS_MOST: u32 = 15;
/// Hops of a trail that are kept.
const TRAIL_MOST: usize = 20;

/// One way in which a URL was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    job: JobId,
    depth: u8,
    /// Links in a row out of scope, and redirects in a row.
    hops: (u8, u8),
    read_as: ReadAs,
    /// The letters of the hops from the seed.
    trail: String,
}

impl Way {
    /// The way of a seed.
    fn seed(job: JobId) -> Way {
        Way { job, depth: 0, hops: (0, 0), read_as: ReadAs::Page, trail: String::new() }
    }

    fn of(ticket: &Ticket) -> Way {
        let Ticket { job, depth, hops, read_as, .. } = *ticket;
        let trail = ticket.via.as_ref().map_or_else(String::new, |via| via.trail.to_string());
        Way { job, depth, hops: (hops.out(), hops.redirects()), read_as, trail }
    }

    fn hop(&self, depth: u8, hops: (u8, u8), read_as: ReadAs, letter: char) -> Way {
        let mut letters: String = self.trail.trim_start_matches('+').to_owned();
        letters.push(letter);
        let over = letters.len().saturating_sub(TRAIL_MOST);
        let mark = if over > 0 || self.trail.starts_with('+') { "+" } else { "" };
        let hops = (hops.0.min(15), hops.1.min(15));
        Way { job: self.job, depth, hops, read_as, trail: format!("{mark}{}", &letters[over..]) }
    }
}

/// The links that the rules give.
#[derive(Debug, Default)]
pub struct Expected {
    /// The URLs, in the order of the page, with the way to each.
    pub wanted: Vec<(u32, Way)>,
    out: u32,
    moved: Vec<u32>,
}

/// Books about ways, by URL, and the places that moved seeds have added to the scope of each job.
#[derive(Debug)]
pub struct Scopes {
    ways: Vec<Vec<Way>>,
    moved: Vec<(JobId, String)>,
}

impl Scopes {
    /// Empty books.
    pub fn new(urls: usize) -> Scopes {
        Scopes { ways: vec![Vec::new(); urls], moved: Vec::new() }
    }

    /// A person named the URL.
    pub fn handle_seed(&mut self, url: u32, job: JobId) {
        self.note(url, Way::seed(job));
    }

    fn note(&mut self, url: u32, way: Way) {
        let ways = &mut self.ways[url as usize];
        if !ways.contains(&way) {
            ways.push(way);
        }
    }

    /// A page is requested: some way must lead there. Of two ways to a URL that waits the better depth, hops and reading
    /// count.
    pub fn check_ticket(&self, url: u32, ticket: &Ticket) -> Result<(), Violation> {
        let (is, ways) = (Way::of(ticket), &self.ways[url as usize]);
        let is_found = ways.iter().any(|way| {
            let same = (way.job, &way.trail) == (is.job, &is.trail);
            same && way.depth >= is.depth && way.hops >= is.hops && way.read_as <= is.read_as
        });
        let has = |same: &dyn Fn(&Way) -> bool| ways.iter().any(same);
        let has_rest = has(&|way| way.depth == is.depth)
            && has(&|way| way.hops == is.hops)
            && has(&|way| way.read_as == is.read_as);
        if is_found && has_rest {
            return Ok(());
        }
        let what = format!("{} is asked for as {is:?}, the ways are {ways:?}", ticket.url);
        Err(Violation::new(Checker::Scope, what))
    }

    /// The outcome that a redirect of this page has.
    pub fn redirect(ticket: &Ticket, answer: Answer, redirects_max: u32) -> Outcome {
        let so_far = u32::from(Way::of(ticket).hops.1);
        match answer {
            Answer::Itself { cookie: true } => Outcome::CookieWall,
            Answer::Itself { cookie: false } => Outcome::RedirectLoop,
            _ if so_far >= redirects_max.min(REDIRECTS_MOST) => Outcome::RedirectLimit,
            _ => Outcome::Redirect,
        }
    }

    /// The links of a page were chosen: they must be the links that the rules give. `to` is the target of its redirect;
    /// the page was read if there is none. Returns the wanted URLs.
    pub fn handle_chosen(
        &mut self,
        page: u32,
        ticket: &Ticket,
        to: Option<u32>,
        chosen: &Links,
        world: &World,
    ) -> Result<Vec<u32>, Violation> {
        let way = Way::of(ticket);
        let expected = self.expected(page, &way, to, world);
        compare(&expected, chosen, world, self.job(world, way.job)).map_err(|(letter, what)| {
            let checker = if letter == Some('R') { Checker::Redirects } else { Checker::Scope };
            Violation::new(checker, format!("{}, found as {way:?}: {what}", world.url(page)))
        })?;
        self.moved.extend(expected.moved.iter().map(|url| (way.job, world.url(*url))));
        let urls = expected.wanted.iter().map(|(url, _)| *url).collect();
        for (url, way) in expected.wanted {
            self.note(url, way);
        }
        Ok(urls)
    }

    fn job<'a>(&self, world: &'a World, job: JobId) -> &'a Job {
        world.jobs.iter().find(|known| known.id == job).expect("a job of this world")
    }

    fn expected(&self, page: u32, way: &Way, to: Option<u32>, world: &World) -> Expected {
        let mut expected = Expected::default();
        if let Some(to) = to {
            self.redirected(page, way, to, world, &mut expected);
            return expected;
        }
        let body = world.body(page);
        let obeys = world.follow.nofollow;
        for link in &body.links {
            let part = matches!(link.kind, LinkKind::Style | LinkKind::Requisite);
            if link.kind == LinkKind::Redirect {
                self.redirected(page, way, link.to, world, &mut expected);
            } else if !(obeys && (body.closed || link.nofollow)) && (!part || world.follow.page_requisites) {
                self.linked(way, (link.to, link.kind), part, world, &mut expected);
            }
        }
        expected
    }

    fn linked(
        &self,
        way: &Way,
        (to, kind): (u32, LinkKind),
        part: bool,
        world: &World,
        expected: &mut Expected,
    ) {
        let job = self.job(world, way.job);
        let depth = way.depth.saturating_add(1);
        let is_shown = part || kind == LinkKind::Iframe;
        let out = match self.judge(job, &world.url(to), depth, way.hops.0, None, false) {
            Some((out, _)) => out,
            None if is_shown && is_part(job, way, to, world) => way.hops.0,
            None => return expected.out += 1,
        };
        let letter = if part || kind == LinkKind::Iframe { 'E' } else { 'L' };
        let read_as = if kind == LinkKind::Style { ReadAs::Style } else { ReadAs::Page };
        expected.wanted.push((to, way.hop(depth, (out, 0), read_as, letter)));
    }

    fn redirected(&self, page: u32, way: &Way, to: u32, world: &World, expected: &mut Expected) {
        let job = self.job(world, way.job);
        let page = world.url(page);
        let is_seed = way.depth == 0 && way.read_as == ReadAs::Page;
        let (seed, out) = if is_seed { (Some(&*page), 0) } else { (None, way.hops.0) };
        // The last hop that is no redirect tells whether a page shows this.
        let is_shown = way.trail.chars().rev().find(|letter| *letter != 'R') == Some('E');
        let (out, moved) = match self.judge(job, &world.url(to), way.depth, out, seed, true) {
            Some(judged) => judged,
            None if is_shown && is_part(job, way, to, world) => (way.hops.0, false),
            None => return expected.out += 1,
        };
        expected.moved.extend(moved.then_some(to));
        expected.wanted.push((to, way.hop(way.depth, (out, way.hops.1 + 1), way.read_as, 'R')));
    }

    /// Whether a job wants a URL: the number of links in a row out of scope, and whether a seed has moved there.
    fn judge(
        &self,
        job: &Job,
        url: &str,
        depth: u8,
        out: u8,
        seed: Option<&str>,
        redirects: bool,
    ) -> Option<(u8, bool)> {
        let scope = &job.scope;
        if is_named(&scope.exclude, url) || depth > scope.depth_max {
            return None;
        }
        if self.is_near(job, url) || is_named(&scope.include, url) {
            return Some((0, false));
        }
        if seed.is_some_and(|seed| domain(seed) == domain(url)) {
            return Some((0, true));
        }
        let links = out + u8::from(out == 0 || !redirects);
        (links <= scope.extra_hops).then_some((links, false))
    }

    /// Whether a URL lies around a seed of the job, or around the new location of a seed.
    fn is_near(&self, job: &Job, url: &str) -> bool {
        let moved = self.moved.iter().filter(|(of, _)| *of == job.id).map(|(_, place)| place);
        job.scope.seeds.iter().chain(moved).any(|seed| is_around(job.scope.kind, seed, url))
    }

    /// Whether a person may add the URL to the job.
    pub fn is_welcome(&self, job: &Job, url: &str) -> bool {
        !is_named(&job.scope.exclude, url) && self.is_near(job, url)
    }
}

/// Whether a URL out of scope is fetched because a page shows it.
fn is_part(job: &Job, way: &Way, to: u32, world: &World) -> bool {
    let parts = way.trail.chars().rev().take_while(|letter| "ER".contains(*letter)).count();
    world.follow.page_requisites && parts < PARTS_HOPS_MAX && !is_named(&job.scope.exclude, &world.url(to))
}

/// The patterns of the worlds are plain text.
fn is_named(patterns: &[String], url: &str) -> bool {
    patterns.iter().any(|pattern| url.contains(pattern))
}

fn is_around(kind: Kind, seed: &str, url: &str) -> bool {
    let origin = |text: &str| text.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    match kind {
        Kind::Any => true,
        Kind::Page => seed == url,
        Kind::Prefix => {
            let path = seed.split('?').next().unwrap_or(seed);
            url.starts_with(&path[..=path.rfind('/').expect("a URL has a path")])
        }
        Kind::Host => origin(seed) == origin(url),
        Kind::Domain => domain(seed) == domain(url),
    }
}

/// Compares the chosen links with the expected ones. A difference is returned with the letter of the hop.
fn compare(
    expected: &Expected,
    chosen: &Links,
    world: &World,
    job: &Job,
) -> Result<(), (Option<char>, String)> {
    let shown: Vec<(&str, Way)> = chosen
        .wanted
        .iter()
        .map(|link| {
            let trail = link.want.via.as_ref().map_or_else(String::new, |via| via.trail.to_string());
            let hops = (link.want.hops.out(), link.want.hops.redirects());
            let (job, depth, read_as) = (link.want.job, link.want.depth, link.want.read_as);
            (link.url.as_str(), Way { job, depth, hops, read_as, trail })
        })
        .collect();
    let wanted: Vec<(String, &Way)> =
        expected.wanted.iter().map(|(url, way)| (world.url(*url), way)).collect();
    let differs = |at: &usize| match (wanted.get(*at), shown.get(*at)) {
        (Some((wanted, way)), Some((shown, is))) => wanted != shown || *way != is,
        _ => true,
    };
    if let Some(at) = (0..wanted.len().max(shown.len())).find(differs) {
        let way = wanted.get(at).map(|(_, way)| *way).or(shown.get(at).map(|(_, way)| way));
        let letter = way.and_then(|way| way.trail.chars().last());
        return Err((letter, format!("the links are {shown:?}, the rules give {wanted:?}")));
    }
    let is_right = chosen.wanted.iter().zip(&expected.wanted).all(|(link, (url, _))| {
        link.want.refusal.is_some() == world.urls[*url as usize].is_trap && link.want.priority == job.priority
    });
    let traps = chosen.wanted.iter().filter(|link| link.want.refusal.is_some()).count() as u32;
    let counts = (chosen.counts.out, chosen.counts.traps, chosen.counts.wanted);
    if !is_right || counts != (expected.out, traps, chosen.wanted.len() as u32 - traps) {
        let what = format!("{counts:?} links are out, traps and wanted; {} are to be out", expected.out);
        return Err((None, what));
    }
    let moved: Vec<String> = expected.moved.iter().map(|url| world.url(*url)).collect();
    match chosen.moved.iter().map(|url| url.as_str()).eq(moved.iter().map(String::as_str)) {
        true => Ok(()),
        false => Err((Some('R'), format!("seeds moved to {:?}, the rules give {moved:?}", chosen.moved))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surroundings_are_told_by_text_alone() {
        let seed = "http://h0.d1.test/a/b/3?q=1/2";
        let around = |kind, url| is_around(kind, seed, url);
        assert!(
            around(Kind::Prefix, "http://h0.d1.test/a/b/") && !around(Kind::Prefix, "http://h0.d1.test/a/bc")
        );
        assert!(around(Kind::Host, "http://h0.d1.test/") && !around(Kind::Host, "http://h1.d1.test/a/b/3"));
        assert!(around(Kind::Domain, "http://h1.d1.test/") && !around(Kind::Domain, "http://h0.d2.test/"));
        assert!(around(Kind::Page, seed) && !around(Kind::Page, "http://h0.d1.test/a/b/3"));
    }
}
