//! One domain on many nodes: its hosts are divided over the partitions, and each page is fetched once.

use std::collections::BTreeSet;

use super::*;

/// The domain of all hosts.
const DOMAIN: &str = "d0.test";

/// Three nodes, and a web of one domain.
async fn one_domain() -> World {
    let settings = nephila_testweb::Settings { hosts_per_domain: HOSTS, ..World::web() };
    let mut world = World::of(settings).await;
    // Shorter than in other tests: everything is fetched.
    world.more = vec!["frontier.host_delay=300ms".into()];
    world.start_nodes(&["one", "two", "three"], 3);
    world
}

impl World {
    fn done(&self, job: &str) {
        let waited = self.tell(1, &["job", "wait", job, "--timeout", "110s"]);
        assert!(waited.status.success(), "{}: {}", text(&waited), self.said());
    }

    /// How often each page was requested, by host and path.
    fn asked(&self) -> BTreeMap<(String, String), u32> {
        let mut asked = BTreeMap::new();
        for request in self.web.journal().log().requests {
            *asked.entry((request.host.to_string(), request.path.to_string())).or_default() += 1;
        }
        asked
    }

    /// The number of hosts that stay, once the home has decided.
    fn staying(&self) -> Option<u64> {
        let said = self.say(&["cluster", "spread", "--json"]);
        let said: Value = serde_json::from_slice(&said.stdout).ok()?;
        assert_eq!(said["domain"], DOMAIN);
        said["staying"].as_u64()
    }

    /// The hosts whose pages each node has fetched, by the nodes' own logs.
    fn hosts_of(&self, node: usize) -> BTreeSet<String> {
        let lines = self.lines(node).into_iter();
        let url = |line: Value| line["url"].as_str().unwrap_or_default().to_owned();
        lines.filter_map(|line| url(line).split('/').nth(2).map(str::to_owned)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_e1_a_spread_domain_is_fetched_by_all_nodes_and_each_page_once() {
    let world = one_domain().await;
    let seed = world.url(0, 0);
    let args = ["job", "create", "press", "--scope", "domain", "--spread", "www.d0.test", &seed];
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));
    world.done("press");
    assert_eq!(world.staying(), Some(0), "the domain was new");
    let asked = world.asked();
    let twice: Vec<_> = asked.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let hosts: BTreeSet<&String> = asked.keys().map(|(host, _)| host).collect();
    assert!(asked.len() > 500 && hosts.len() == HOSTS as usize, "{} of {}", asked.len(), hosts.len());
    for node in 0..3 {
        let own = world.hosts_of(node);
        assert!((1..HOSTS as usize).contains(&own.len()), "node {node} has {own:?}");
    }
    // Every node finds the owner of every page.
    for host in [0, 7, 13] {
        let url = world.url(host, 0);
        for node in 0..3 {
            assert_eq!(world.explain(node, &url)["summary"], "fetched", "{url} by node {node}");
            assert_eq!(world.page(node, &url).status, 200, "{url} by node {node}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_e1_hosts_that_are_known_when_their_domain_is_spread_stay_where_they_are() {
    const KNOWN: u32 = 5;
    let world = one_domain().await;
    let homes: Vec<String> = (0..HOSTS).map(|host| world.url(host, 0)).collect();
    let mut args = vec!["job", "create", "press", "--scope", "host", "--limit-per-host", "10"];
    args.extend(homes[..KNOWN as usize].iter().map(String::as_str));
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));
    world.wait("some pages are fetched", |world| world.asked().len() > 20);

    // While the job runs.
    let spread = world.say(&["job", "set", "press", "--spread", DOMAIN]);
    assert!(spread.status.success(), "{}", text(&spread));
    let mut args = vec!["job", "create", "rest", "--scope", "domain"];
    args.extend(homes.iter().map(String::as_str));
    let created = world.tell(2, &args);
    assert!(created.status.success(), "{}", text(&created));
    world.done("press");
    world.done("rest");
    assert_eq!(world.staying(), Some(u64::from(KNOWN)));
    let again = world.say(&["job", "set", "press", "--spread", DOMAIN]);
    assert!(again.status.success(), "{}", text(&again));

    let asked = world.asked();
    let twice: Vec<_> = asked.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let hosts: BTreeSet<&String> = asked.keys().map(|(host, _)| host).collect();
    assert_eq!(hosts.len(), HOSTS as usize);
    let others = (0..3).filter(|node| world.hosts_of(*node).len() > 1).count();
    assert!(others > 1, "all hosts are on one node");
    assert_eq!(world.staying(), Some(u64::from(KNOWN)), "the first decision stands");
}
