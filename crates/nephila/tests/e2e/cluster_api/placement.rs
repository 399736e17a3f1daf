//! New domains go to the node that has least to do and stay there, and there is a map that says where they are (ROW-06).

use super::*;

/// Hosts with many pages, each a domain that no two nodes can share.
const GIANTS: u32 = 2;
/// Domains that come later.
const NEW: u32 = 40;
const PARTITIONS: usize = 128;

impl World {
    /// The exported map: domain and node.
    fn map(&self, node: usize) -> BTreeMap<String, String> {
        let said = self.tell(node, &["cluster", "map", "--format", "csv"]);
        if !said.status.success() {
            // A partition is on the move.
            return BTreeMap::new();
        }
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some("domain,node,partition,hosts,pages,left"));
        let row = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), 6, "{line}");
            (cells[0].to_owned(), cells[1].to_owned())
        };
        let rows: Vec<(String, String)> = lines.map(row).collect();
        let map: BTreeMap<String, String> = rows.iter().cloned().collect();
        assert_eq!(map.len(), rows.len(), "each domain once: {said}");
        map
    }

    /// The node of each partition.
    fn owners(&self) -> Vec<String> {
        let said = self.say(&["cluster", "partitions", "--json"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let owner = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["node"].as_str().unwrap_or_default().to_owned()
        };
        said.lines().map(owner).collect()
    }

    fn domain(&self, host: u32) -> String {
        let url = self.url(host, 0);
        let name = url.split('/').nth(2).unwrap().split(':').next().unwrap();
        name.split_once('.').unwrap().1.to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_06_new_domains_go_to_the_least_loaded_node_and_stay() {
    let mut world = World::of(Settings {
        hosts: GIANTS + NEW,
        // Two hosts have thousands of pages, the others a handful.
        pages: 60_000,
        size_exponent: 3.0,
        ..World::web()
    })
    .await;
    world.more = vec![format!("cluster.partitions={PARTITIONS}"), "frontier.host_delay=100ms".into()];
    world.start_nodes(&["one", "two", "three"], 30);
    let giants: Vec<String> = (0..GIANTS).map(|host| world.url(host, 0)).collect();
    let made = world.tell(0, &["job", "create", "giants", "--scope", "host", &giants[0], &giants[1]]);
    assert!(made.status.success(), "{}", text(&made));

    // Each is on a node of its own in the end, and empty partitions are on the third.
    let busy = |map: &BTreeMap<String, String>| {
        let mut busy: Vec<String> = map.values().cloned().collect();
        busy.sort();
        busy.dedup();
        busy
    };
    let mut idle = String::new();
    world.wait("what is empty is where nothing is done", |world| {
        let busy = busy(&world.map(0));
        let names = ["one", "two", "three"];
        idle = names.iter().find(|name| !busy.contains(&(**name).to_owned())).unwrap_or(&"").to_string();
        busy.len() == 2 && world.owners().iter().filter(|owner| **owner == idle).count() == PARTITIONS - 2
    });
    // A partition may still be on the move.
    let mut map_before = BTreeMap::new();
    world.wait("another node knows them", |world| {
        map_before = world.map(1);
        map_before.len() == GIANTS as usize
    });
    let before = world.owners();

    let homes: Vec<String> = (GIANTS..GIANTS + NEW).map(|host| world.url(host, 0)).collect();
    let mut args = vec!["job", "create", "new", "--scope", "page"];
    args.extend(homes.iter().map(String::as_str));
    let made = world.tell(0, &args);
    assert!(made.status.success(), "{}", text(&made));
    let mut map = BTreeMap::new();
    world.wait("every domain is on the map", |world| {
        map = world.map(2);
        map.len() == (GIANTS + NEW) as usize
    });
    let placed = (GIANTS..GIANTS + NEW).filter(|host| map[&world.domain(*host)] == idle).count();
    assert!(placed >= 36, "{placed} of {NEW} at {idle}: {map:?}");

    // Nothing moves that need not, and every node has the same map.
    world.wait("they are fetched", |world| {
        world.say(&["job", "wait", "new", "--timeout", "1s"]).status.success()
    });
    assert_eq!(world.owners(), before);
    assert!(map_before.iter().all(|(domain, node)| map[domain] == *node), "{map_before:?} {map:?}");
    for node in 0..3 {
        world.wait("every node has the same map", |world| world.map(node) == map);
    }
    let said = world.say(&["cluster", "map"]);
    assert_eq!(said.status.code(), Some(2), "{}", text(&said));
    assert!(text(&said).contains("--node"), "{}", text(&said));
}
