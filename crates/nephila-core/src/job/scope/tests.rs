//! Which URLs are in scope, and which rule says so.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::key::Secret;

const LINK: FoundBy<'static> = FoundBy::link(1, 0);

fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap()
}

fn scope(kind: Kind, seeds: &[&str]) -> Scope {
    Scope { kind, seeds: seeds.iter().map(|seed| (*seed).to_owned()).collect(), ..Scope::default() }
}

fn rules(scope: &Scope) -> Rules {
    scope.resolve(&KeyRules::default()).unwrap()
}

fn check(kind: Kind, seed: &str, within: &[&str], outside: &[&str]) {
    let rules = rules(&scope(kind, &[seed]));
    for text in within {
        assert_eq!(
            rules.verdict(&url(text), LINK).rule,
            Rule::Within(1),
            "{text} in {} of {seed}",
            kind.name()
        );
    }
    for text in outside {
        assert_eq!(
            rules.verdict(&url(text), LINK).rule,
            Rule::Outside,
            "{text} in {} of {seed}",
            kind.name()
        );
    }
}

#[test]
fn a_page_is_itself_whatever_its_scheme() {
    check(
        Kind::Page,
        "http://a.test/x?y=1",
        &["http://a.test/x?y=1", "https://a.test/x?y=1", "http://a.test/%78?y=1#z"],
        &["http://a.test/x", "http://a.test/x?y=2", "http://a.test/x?y=1&z", "http://a.test:8080/x?y=1"],
    );
}

#[test]
fn a_prefix_is_the_folder_of_the_seed() {
    check(
        Kind::Prefix,
        "https://a.test/docs/index.html?x=/y/z",
        &[
            "https://a.test/docs/",
            "http://a.test/docs/deep/er?q",
            "https://a.test/%64ocs/x",
            "https://A.test/docs/",
        ],
        &[
            "https://a.test/docs",
            "https://a.test/docs2/",
            "https://a.test/",
            "https://b.a.test/docs/",
            "https://a.test:8443/docs/",
        ],
    );
    check(
        Kind::Prefix,
        "https://a.test",
        &["https://a.test/", "https://a.test/x"],
        &["https://a.test.evil.test/"],
    );
}

#[test]
fn a_host_is_one_name_and_port() {
    check(
        Kind::Host,
        "https://a.test/docs/",
        &["https://a.test/", "http://a.test/x", "https://a.test.:443/"],
        &["https://www.a.test/", "https://a.test:8443/", "https://xa.test/"],
    );
    check(
        Kind::Host,
        "http://[::1]:8080/",
        &["http://[0:0::1]:8080/x"],
        &["http://[::1]/", "http://127.0.0.1:8080/"],
    );
}

#[test]
fn a_domain_is_everything_that_was_registered_together() {
    check(
        Kind::Domain,
        "https://www.a.co.uk/docs/",
        &["https://a.co.uk/", "http://x.y.a.co.uk:8080/"],
        &["https://b.co.uk/", "https://co.uk/", "https://xa.co.uk/", "https://a.co.uk.b.test/"],
    );
    check(Kind::Domain, "https://me.github.io/", &["https://x.me.github.io/"], &["https://you.github.io/"]);
    check(
        Kind::Domain,
        "http://127.0.0.1:81/",
        &["http://127.0.0.1:82/"],
        &["http://1.127.0.0/", "http://10.0.0.1/"],
    );
    check(Kind::Domain, "http://localhost/", &["http://localhost:8080/"], &["http://b.test/"]);
}

#[test]
fn any_is_everything_and_no_seeds_are_nothing() {
    let rule = |kind| rules(&scope(kind, &[])).verdict(&url("http://b.test/"), LINK).rule;
    assert_eq!(rule(Kind::Any), Rule::Any);
    for kind in [Kind::Page, Kind::Prefix, Kind::Host, Kind::Domain] {
        assert_eq!(rule(kind), Rule::Outside);
    }
}

#[test]
fn exclude_wins_over_everything_and_include_widens() {
    let scope = Scope {
        include: vec!["^https://cdn.test/".into(), "*.pdf$".into()],
        exclude: vec!["/private".into(), "/cart".into()],
        ..scope(Kind::Host, &["https://a.test/"])
    };
    let rules = rules(&scope);
    for (text, want) in [
        ("https://a.test/x", Rule::Within(1)),
        ("https://a.test/cart", Rule::Exclude(2)),
        ("https://a.test/c%61rt", Rule::Exclude(2)),
        ("https://cdn.test/x.js", Rule::Include(1)),
        ("https://cdn.test/private/x.js", Rule::Exclude(1)),
        ("https://b.test/x.pdf", Rule::Include(2)),
        ("https://b.test/x", Rule::Outside),
    ] {
        assert_eq!(rules.verdict(&url(text), LINK).rule, want, "{text}");
    }
    assert_eq!(rules.verdict(&url("https://b.test/"), FoundBy::seed()).rule, Rule::Seed);
    assert_eq!(rules.verdict(&url("https://b.test/cart"), FoundBy::seed()).rule, Rule::Exclude(2));
}

#[test]
fn depth_ends_a_scope_and_not_a_seed() {
    let rules = rules(&Scope { depth_max: 2, ..scope(Kind::Any, &[]) });
    let rule = |depth| rules.verdict(&url("http://a.test/"), FoundBy::link(depth, 0)).rule;
    assert_eq!((rule(0), rule(2), rule(3)), (Rule::Any, Rule::Any, Rule::Depth));
    assert_eq!(
        rules.verdict(&url("http://a.test/"), FoundBy { depth: 9, ..FoundBy::seed() }).rule,
        Rule::Seed
    );
}

#[test]
fn extra_hops_are_counted_in_a_row() {
    let rules = rules(&Scope { extra_hops: 2, ..scope(Kind::Host, &["https://a.test/"]) });
    let decision = |text, hops_out| rules.verdict(&url(text), FoundBy::link(1, hops_out)).decision;
    assert_eq!(decision("https://b.test/", 0), Decision::In { hops_out: 1 });
    assert_eq!(decision("https://c.test/", 1), Decision::In { hops_out: 2 });
    assert_eq!(decision("https://d.test/", 2), Decision::Out);
    assert_eq!(decision("https://a.test/", 2), Decision::In { hops_out: 0 }, "back in scope");
    let moved = |text, hops_out| rules.verdict(&url(text), FoundBy::redirect(1, hops_out)).decision;
    assert_eq!(moved("https://b.test/", 0), Decision::In { hops_out: 1 }, "leads out like a link");
    assert_eq!(moved("https://d.test/", 2), Decision::In { hops_out: 2 }, "no further link");
    assert_eq!(moved("https://a.test/", 2), Decision::In { hops_out: 0 }, "back in scope");
    assert_eq!(moved("https://d.test/", 3), Decision::Out, "from rules that were wider once");
    assert_eq!(decision("https://d.test/", u8::MAX), Decision::Out);
}

#[test]
fn a_seed_may_redirect_within_its_domain_and_nowhere_else() {
    let mut rules = rules(&scope(Kind::Prefix, &["http://a.test/", "http://127.0.0.1:81/"]));
    let seed = url("http://a.test/");
    let moved = url("https://www.a.test/home");
    assert_eq!(rules.verdict(&moved, LINK).rule, Rule::Outside, "a link is no redirect");
    assert_eq!(rules.verdict(&moved, FoundBy::seed_redirect(&seed, 0)).rule, Rule::SeedRedirect);
    assert_eq!(rules.verdict(&url("https://b.test/"), FoundBy::seed_redirect(&seed, 0)).rule, Rule::Outside);
    let address = url("http://127.0.0.1:81/");
    assert_eq!(
        rules.verdict(&url("http://127.0.0.2/"), FoundBy::seed_redirect(&address, 0)).rule,
        Rule::Outside
    );

    rules.widen(&moved, 1);
    assert_eq!(rules.verdict(&url("https://www.a.test/more"), LINK).rule, Rule::Within(1));
}

#[test]
fn a_bad_seed_is_named_and_the_others_stand() {
    let rules =
        rules(&scope(Kind::Host, &[" https://a.test/ ", "no url", "mailto:x@a.test", "https://b.test/"]));
    let numbers: Vec<_> = rules.bad_seeds().iter().map(|bad| bad.number).collect();
    assert_eq!(numbers, [2, 3]);
    assert_eq!(rules.verdict(&url("https://b.test/x"), LINK).rule, Rule::Within(4));
}

#[test]
fn the_rule_is_told_in_words() {
    let scope = Scope { exclude: vec!["/cart".into()], ..scope(Kind::Prefix, &["https://shop.test/"]) };
    let one = rules(&scope);
    for (text, rule, origin) in [
        ("https://shop.test/a", "scope=prefix", "seed 1"),
        ("https://shop.test/cart", "exclude /cart", "exclude #1"),
        ("https://cdn.test/x.js", "scope=prefix shop.test/", "scope"),
    ] {
        let verdict = one.verdict(&url(text), LINK);
        assert_eq!((one.text(verdict.rule).as_str(), one.origin(verdict.rule).as_str()), (rule, origin));
    }
    let two = rules(&self::scope(Kind::Host, &["https://a.test/", "https://b.test/"]));
    assert_eq!(two.text(Rule::Outside), "scope=host of 2 places");
    assert_eq!(two.text(Rule::Exclude(0)), "exclude ");
    assert_eq!(two.text(Rule::Depth), "depth_max 20");
}

#[test]
fn rules_for_keys_reach_the_seeds() {
    let keys = KeyRules { query_drop: vec!["sid".into()], ..KeyRules::default() };
    let rules = scope(Kind::Page, &["http://a.test/x?sid=1"]).resolve(&keys).unwrap();
    assert!(rules.verdict(&CrawlUrl::parse_with("http://a.test/x?sid=2", &keys).unwrap(), LINK).is_in());
}

#[test]
fn too_much_is_refused() {
    let patterns = vec!["a".to_owned(); PATTERNS_MAX + 1];
    assert_eq!(Scope { include: patterns.clone(), ..Scope::default() }.check(), Err(ScopeError::Patterns));
    assert_eq!(Scope { exclude: patterns, ..Scope::default() }.check(), Err(ScopeError::Patterns));
    let seeds = vec![String::new(); SEEDS_MAX + 1];
    assert_eq!(Scope { seeds, ..Scope::default() }.check(), Err(ScopeError::Seeds));
    assert!(serde_json::from_str::<Scope>(r#"{"kind": "site"}"#).is_err());
    assert!(serde_json::from_str::<Scope>(r#"{"depth": 1}"#).is_err());
}

#[test]
fn a_hundred_thousand_seeds_are_one_look_up() {
    for kind in [Kind::Page, Kind::Prefix, Kind::Host, Kind::Domain] {
        let seeds = (0..100_000).map(|i| format!("https://www.site-{i}.test/docs/{i}/")).collect();
        let rules = rules(&Scope { seeds, ..scope(kind, &[]) });
        let within = url("https://www.site-77777.test/docs/77777/");
        let outside = url(&format!("https://www.site-77777x.test/{}", "docs/".repeat(1_500)));
        let started = Instant::now();
        for _ in 0..10_000 {
            assert_eq!(rules.verdict(&within, LINK).rule, Rule::Within(77_778));
            assert_eq!(rules.verdict(&outside, LINK).rule, Rule::Outside);
        }
        // 20,000 verdicts, unoptimised; a loop over the seeds would make two thousand million comparisons.
        assert!(started.elapsed() < Duration::from_secs(5), "{}: {:?}", kind.name(), started.elapsed());
    }
}

proptest! {
    #[test]
    fn one_search_finds_what_a_loop_finds(
        seeds in prop::collection::vec("[ab]\\.test(/[ab]{1,2}){0,4}/?", 0..20), path in "[ab]\\.test(/[ab]{1,2}){0,5}/?",
    ) {
        let full: Vec<String> = seeds.iter().map(|seed| format!("http://{seed}")).collect();
        let rules = rules(&Scope { seeds: full.clone(), ..scope(Kind::Prefix, &[]) });
        let url = url(&format!("http://{path}"));
        let slow = full.iter().any(|seed| {
            let seed = CrawlUrl::parse(seed).unwrap();
            let folder = &seed.key()[..=seed.key().rfind('/').unwrap()];
            url.key().starts_with(folder)
        });
        prop_assert_eq!(rules.verdict(&url, LINK).is_in(), slow);
    }
}

/// The same scope, with its seeds in a list.
fn listed(scope: &Scope) -> Rules {
    let rules = rules(&Scope { seeds: Vec::new(), ..scope.clone() });
    let list = Listed::new(scope.kind, Secret([7; 16]));
    // In two goes, as a node reads them.
    let places: Vec<(u64, u32)> =
        (1..).zip(&scope.seeds).map(|(n, seed)| (list.place(&url(seed)), n)).collect();
    let (first, second) = places.split_at(places.len() / 2);
    rules.with_listed(Arc::new(list.with(second.to_vec()).with(first.to_vec())))
}

#[test]
fn ops_01_a_seed_in_a_list_is_worth_as_much_as_one_in_the_scope() {
    let seeds = ["https://a.test/docs/x", "http://b.test/", "http://www.c.test:8080/p?q=/r/"];
    let urls = [
        "http://a.test/docs/",
        "http://a.test/docs/deep/er?q=1",
        "http://a.test/docs",
        "http://a.test/do/cs/",
        "https://a.test/docs/x",
        "https://b.test/any/thing",
        "http://b.test:81/",
        "http://www.c.test:8080/p?q=/r/",
        "http://www.c.test:8080/p",
        "http://other.c.test/",
        "http://d.test/docs/",
    ];
    for kind in [Kind::Page, Kind::Prefix, Kind::Host, Kind::Domain, Kind::Any] {
        let scope = scope(kind, &seeds);
        let (text, list) = (rules(&scope), listed(&scope));
        for one in urls {
            let (text, list) = (text.verdict(&url(one), LINK), list.verdict(&url(one), LINK));
            assert_eq!(text, list, "{} {one}", kind.name());
        }
    }
    let list = listed(&scope(Kind::Host, &seeds));
    assert_eq!(list.text(Rule::Outside), "scope=host of 3 places");
    // The target of a seed's redirect comes behind the seeds.
    let one = Listed::new(Kind::Host, Secret([7; 16]));
    let place = one.place(&url("http://a.test/"));
    assert_eq!(
        one.with(vec![(place, 0), (place, 9)]).with(vec![(place, 4)]).find(&url("http://a.test/x")),
        Some(4)
    );
}

#[test]
fn ops_01_a_million_seeds_take_sixteen_megabytes_and_one_search() {
    let list = Listed::new(Kind::Host, Secret([7; 16]));
    let place = |n: u32| list.place(&url(&format!("https://site-{n}.test/")));
    let places: Vec<(u64, u32)> = (0..SEEDS_MAX as u32).step_by(10).map(|n| (place(n), n + 1)).collect();
    let list = list.with(places);
    assert_eq!(list.len(), SEEDS_MAX / 10);
    assert_eq!(size_of::<(u64, u32)>(), 16);
    assert_eq!(list.find(&url("http://site-77770.test/x")), Some(77_771));
    assert_eq!(list.find(&url("http://site-77771.test/x")), None);
    // A URL of nothing but folders is read once.
    let list = Listed::new(Kind::Prefix, Secret([7; 16]));
    let list = list.with((0..SEEDS_MAX as u64 / 10).map(|n| (n, 1)).collect());
    let long = url(&format!("http://a.test{}", "/x".repeat(1_000)));
    let started = Instant::now();
    for _ in 0..100 {
        assert_eq!(list.find(&long), None);
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
