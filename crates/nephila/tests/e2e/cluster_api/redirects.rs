//! Redirects that lead to hosts of another node: they are handed over with their count of hops, and only their owner asks.
//! That of a robots.txt is answered by that node.

use std::collections::BTreeSet;

use nephila_testweb::model::PageKind;
use nephila_testweb::settings::RobotsShares;

use super::*;

/// Number of redirects of a kind that are judged: enough that both nodes have some of either end.
const DETOURS: usize = 20;
/// Redirects of a kind from one host to another: whether a node has both is decided once for all of them.
const DETOURS_OF_PAIR: usize = 1;
/// How many of the pages redirect.
const SHARE: f64 = 0.5;

/// A page that redirects to one of another host.
struct Detour {
    from: String,
    to: String,
    /// That one redirects as well.
    goes_on: bool,
}

impl World {
    /// No URL stands in two of them, so each is requested in one way alone.
    fn detours(&self) -> Vec<Detour> {
        let world = self.web.world();
        let (mut detours, mut named) = (Vec::<Detour>::new(), BTreeSet::new());
        let mut pairs = BTreeMap::new();
        for host in 0..HOSTS {
            for page in 1..world.host_pages(host) {
                let PageKind::Redirect { to, .. } = world.page_kind(host, page) else { continue };
                let What::Page(target) = to.what else { continue };
                let goes_on = matches!(world.page_kind(to.host, target), PageKind::Redirect { .. });
                let (from, to_url) = (self.url(host, page), world.url(to));
                let alike = detours.iter().filter(|detour| detour.goes_on == goes_on).count();
                let is_new = !named.contains(&from) && !named.contains(&to_url);
                let of_pair = pairs.entry((host, to.host, goes_on)).or_insert(0);
                if to.host != host && alike < DETOURS && *of_pair < DETOURS_OF_PAIR && is_new {
                    *of_pair += 1;
                    named.extend([from.clone(), to_url.clone()]);
                    detours.push(Detour { from, to: to_url, goes_on });
                }
            }
        }
        detours
    }

    /// Which nodes have requested each URL, and how that ended.
    fn asked_by(&self) -> BTreeMap<String, Vec<(usize, String)>> {
        let mut asked = BTreeMap::<String, Vec<(usize, String)>>::new();
        for node in 0..self.nodes.len() {
            for line in self.lines(node) {
                let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
                asked.entry(field("url")).or_default().push((node, field("outcome")));
            }
        }
        asked
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn red_15_a_redirect_to_a_host_of_another_node_is_handed_over_with_its_hops() {
    let mut world = World::of(Settings { redirect_share: SHARE, ..World::web() }).await;
    // One redirect is followed, so the second in a row shows that the first was counted, on any node.
    world.more = vec!["spider.redirects_max=1".into(), "frontier.host_delay=300ms".into()];
    world.start_nodes(&["one", "two"], 3);
    let detours = world.detours();
    let mut args = vec!["job", "create", "press", "--scope", "any", "--depth", "0"];
    args.extend(detours.iter().map(|detour| detour.from.as_str()));
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));
    let mut asked = BTreeMap::new();
    world.wait("every redirect was followed", |world| {
        asked = world.asked_by();
        detours.iter().all(|detour| asked.contains_key(&detour.to))
    });

    let mut handed_over = BTreeMap::<bool, usize>::new();
    for Detour { from, to, goes_on } in &detours {
        let end = if *goes_on { "redirect-limit" } else { "ok" };
        let ([(first, redirect)], [(second, outcome)]) = (&asked[from][..], &asked[to][..]) else {
            panic!("{from} and {to} are asked for once: {:?} {:?}", asked[from], asked[to]);
        };
        assert_eq!((redirect.as_str(), outcome.as_str()), ("redirect", end), "{from} leads to {to}");
        *handed_over.entry(*goes_on).or_default() += usize::from(first != second);
    }
    println!("{} redirects, handed over {handed_over:?}", detours.len());
    assert!([false, true].iter().all(|goes_on| handed_over.get(goes_on) > Some(&0)), "{handed_over:?}");

    // The sites saw no other requests: each target was requested once, and so was the robots.txt of its host.
    let mut seen = BTreeMap::<String, usize>::new();
    for request in world.web.journal().log().requests {
        *seen.entry(format!("http://{}{}", request.host, request.path)).or_default() += 1;
    }
    for Detour { to, .. } in &detours {
        let (end, _) = to.match_indices('/').nth(2).expect("a path");
        let robots = format!("{}/robots.txt", &to[..end]);
        assert_eq!((seen.get(to), seen.get(&robots)), (Some(&1), Some(&1)), "{to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pro_01_a_robots_txt_that_redirects_to_a_host_of_another_node_is_read_and_obeyed() {
    let robots = RobotsShares { redirecting: 1.0, ..RobotsShares::default() };
    let web = Settings { robots, robots_elsewhere: true, private_share: 0.3, ..World::web() };
    let mut world = World::of(web).await;
    world.more = vec!["frontier.host_delay=100ms".into()];
    world.start_nodes(&["one", "two", "three"], 3);
    let seeds: Vec<String> = (0..HOSTS).map(|host| world.url(host, 0)).collect();
    let mut args = vec!["job", "create", "press", "--scope", "host"];
    args.extend(seeds.iter().map(String::as_str));
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));

    // Every host but the first has its rules on the next one; most of these are on another node.
    let model = world.web.world();
    let closed = |place: &Place| !model.robots_rules(place.host, "nephila", 0).allows(&model.path(*place));
    let (closed, open): (Vec<Place>, Vec<Place>) = model.pages().partition(closed);
    assert!(closed.len() > 20, "{} pages are closed", closed.len());
    let mut asked = BTreeMap::new();
    world.wait("every host is crawled", |world| {
        asked = world.asked_by();
        seeds.iter().all(|url| asked.contains_key(url))
    });
    let owner = |url: &String| asked[url][0].0;
    let across = (1..HOSTS).filter(|host| {
        let real = model.url(Place { host: (host + 1) % HOSTS, what: What::RobotsReal });
        owner(&seeds[*host as usize]) != owner(&real)
    });
    let across = across.count();
    println!("{across} of {} robots.txt files are of another node", HOSTS - 1);
    assert!(across > 0, "no robots.txt lies on another node");

    let requests = world.web.journal().log().requests;
    let seen: BTreeSet<String> =
        requests.iter().map(|request| format!("http://{}{}", request.host, request.path)).collect();
    for place in closed {
        let url = model.url(place);
        assert!(!seen.contains(&url), "{url} is closed by a robots.txt on another host");
    }
    assert!(open.iter().filter(|place| seen.contains(&model.url(**place))).count() >= HOSTS as usize);
}
