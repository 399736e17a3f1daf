//! Each decision by its own example; the simulation compares them with a second statement of the rules.

use crate::follow::{
    Follow, Judge, Known, Link, Links, Source, Stored, Unwitnessed, conditions, is_stored, links, redirect,
};
use crate::frontier::ticket::Validators;
use crate::handler::{Findings, Limits, Page, ReadAs, read_page};
use crate::job::{Hops, JobId, Kind, Rules, Scope, Trail, Via};
use crate::key::{DomainKey, Secret, UrlKey};
use crate::spider::Outcome;
use crate::time::Timestamp;
use crate::trap;
use crate::url::{CrawlUrl, KeyRules};

fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap()
}

fn rules() -> Rules {
    let scope = Scope {
        kind: Kind::Host,
        seeds: vec!["http://a.test/".into()],
        exclude: vec!["/no".into()],
        depth_max: 2,
        ..Scope::default()
    };
    scope.resolve(&KeyRules::default()).unwrap()
}

fn seed() -> Known {
    Known { job: JobId(7), depth: 0, hops: Hops::NONE, read_as: ReadAs::Page, via: Some(Via::seed()) }
}

fn read(body: &str) -> Findings {
    let (page, fields, keys) = (url("http://a.test/"), http::HeaderMap::new(), KeyRules::default());
    let body = format!("<!doctype html><html>{body}");
    let limits = Limits { requisites: true, ..Limits::default() };
    let page = Page {
        url: &page,
        fields: &fields,
        body: body.as_bytes(),
        read_as: ReadAs::Page,
        agent: "",
        keys: &keys,
    };
    read_page(&page, &limits)
}

fn chosen(known: &Known, to: Option<&CrawlUrl>, findings: Option<&Findings>) -> Links {
    let (rules, traps) = (rules(), trap::Settings::default());
    let judge = Judge {
        rules: &rules,
        priority: 3,
        follow: Follow { nofollow: true, page_requisites: true, ..Follow::default() },
        traps: &traps,
        secret: &Secret([7; 16]),
        now: Timestamp(0),
        witness: &Unwitnessed,
    };
    links(&judge, known, &url("http://a.test/"), to, findings)
}

fn texts(links: &[Link]) -> Vec<&str> {
    links.iter().map(|link| link.url.as_str()).collect()
}

#[test]
fn links_in_scope_and_requisites_of_any_host_are_wanted_and_the_others_are_counted() {
    let findings = read(
        "<a href=/x>x</a><a href=/no>n</a><a href=http://b.test/>b</a><a rel=nofollow href=/y>y</a>\
         <img src=http://b.test/i.png><img src=http://b.test/no.png><a href=/a/a/a/a/a/a/a/a>t</a>",
    );
    let links = chosen(&seed(), None, Some(&findings));
    let wanted = ["http://a.test/x", "http://a.test/a/a/a/a/a/a/a/a", "http://b.test/i.png"];
    assert_eq!(texts(&links.wanted), wanted);
    assert_eq!((links.counts.wanted, links.counts.out, links.counts.traps), (2, 3, 1));
    let first = &links.wanted[0];
    assert_eq!(
        (first.want.job, first.want.depth, first.want.priority, first.want.hops),
        (JobId(7), 1, 3, Hops::NONE)
    );
    assert_eq!(first.want.via.as_ref().unwrap().trail.to_string(), "L");
    assert!(links.wanted[1].want.refusal.is_some() && links.moved.is_empty());
    let deepest = chosen(&Known { depth: 2, ..seed() }, None, Some(&findings));
    assert_eq!(texts(&deepest.wanted), ["http://b.test/i.png"], "beyond the depth only the page's own parts");
}

#[test]
fn a_requisite_may_lie_behind_a_redirect_or_in_a_frame() {
    let embedded = |letters: &str| {
        let mut via = Via::clone(&Via::seed());
        via.trail = letters.chars().fold(via.trail, |trail, letter| trail.hop(letter));
        Known { depth: 1, via: Some(via.into()), ..seed() }
    };
    let (far, excluded) = (url("http://b.test/moved.png"), url("http://b.test/no.png"));
    let taken = |letters: &str, to: &CrawlUrl| {
        let links = chosen(&embedded(letters), Some(to), None);
        (links.wanted.len(), links.counts.out)
    };
    assert_eq!((taken("E", &far), taken("LER", &far)), ((1, 0), (1, 0)));
    assert_eq!(taken("L", &far), (0, 1), "a page that moved out of scope");
    assert_eq!(taken("E", &excluded), (0, 1));
    assert_eq!(taken("ERERE", &far), (0, 1), "not without end");
    let frame = read("<iframe src=http://b.test/frame></iframe><a href=http://b.test/page>p</a>");
    assert_eq!(texts(&chosen(&seed(), None, Some(&frame)).wanted), ["http://b.test/frame"]);
}

#[test]
fn a_seed_that_moved_widens_the_scope_within_its_domain_and_a_redirect_costs_no_depth() {
    let (near, far) = (url("http://www.a.test/new"), url("http://c.test/"));
    let moved = chosen(&seed(), Some(&near), None);
    assert_eq!((texts(&moved.wanted), &moved.moved[..]), (vec![near.as_str()], &[near.clone()][..]));
    assert_eq!((moved.wanted[0].want.depth, moved.wanted[0].want.hops), (0, Hops::new(0, 1)));
    assert_eq!(chosen(&seed(), Some(&far), None).counts.out, 1);
    let deeper = Known { depth: 1, ..seed() };
    assert_eq!(chosen(&deeper, Some(&near), None).counts.out, 1, "only a seed moves");
    let own = chosen(&deeper, Some(&url("http://a.test/x")), None);
    assert_eq!((own.wanted[0].want.depth, own.wanted[0].want.hops, own.moved.len()), (1, Hops::new(0, 1), 0));
}

#[test]
fn a_redirect_to_itself_or_behind_too_many_ends() {
    let (page, other) = (url("http://a.test/"), url("http://a.test/x"));
    let same = url("http://a.test/#top");
    let judged =
        |target, redirects, cookie, max| redirect(&page, target, Hops::new(0, redirects), cookie, max);
    assert_eq!(judged(&same, 0, false, 10), Some(Outcome::RedirectLoop));
    assert_eq!(judged(&same, 0, true, 10), Some(Outcome::CookieWall));
    assert_eq!(
        (judged(&other, 2, true, 3), judged(&other, 3, true, 3)),
        (None, Some(Outcome::RedirectLimit))
    );
    assert_eq!(
        judged(&other, Hops::MOST, false, 1_000),
        Some(Outcome::RedirectLimit),
        "as far as hops count"
    );
}

#[test]
fn a_request_is_conditional_if_the_archive_has_the_known_version() {
    let known = Validators { etag: "\"1\"".into(), last_modified: "".into() };
    let stored = |etag| Some(Stored { etag, last_modified: "" });
    let fields = conditions(Some(&known), stored("\"1\""), false);
    assert_eq!(fields, [(http::header::IF_NONE_MATCH, http::HeaderValue::from_static("\"1\""))]);
    assert!(conditions(Some(&known), stored("\"2\""), false).is_empty(), "stored and not reported");
    assert!(conditions(Some(&known), None, false).is_empty() && !is_stored(Some(&known), None));
    assert!(conditions(None, stored("\"1\""), true).is_empty());
    assert_eq!(conditions(Some(&known), None, true).len(), 1, "the known version of a feed was parsed");
}

#[test]
fn a_link_from_another_domain_has_that_domain_as_its_source() {
    let (page, secret) = (url("https://www.paper.co.uk/front"), Secret([7; 16]));
    let key = UrlKey::of(&page, &secret).host.domain;
    let mut source = Source::new(&page, &secret, Trail::SEED);
    let mut of = |text: &str| source.of_link(&url(text), 'L').1;
    assert_eq!(of("https://other.co.uk/"), key);
    assert_eq!(of("http://192.0.2.1/"), key);
    assert_eq!(of("http://sport.paper.co.uk/"), DomainKey(0), "another host of the same domain");
    assert_eq!(of("https://www.paper.co.uk/back"), DomainKey(0));
}
