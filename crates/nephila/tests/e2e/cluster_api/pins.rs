//! Domains that an operator pins to a node: they go there while everything is fetched once, come back to that node, and
//! are let go.

use super::*;

impl World {
    /// Where the partition of the one pin is, and the partition.
    fn pin(&self) -> (String, u64) {
        let said = self.say(&["cluster", "pins", "--json"]);
        let pin: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        (pin["owner"].as_str().unwrap_or_default().to_owned(), pin["partition"].as_u64().unwrap_or(u64::MAX))
    }

    fn pin_to(&self, domain: &str, node: &str) {
        let said = self.tell(0, &["cluster", "pin", domain, "--to", node]);
        assert!(said.status.success(), "{}", text(&said));
        self.wait(&format!("{domain} is on {node}"), |world| world.pin().0 == node);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_domain_goes_to_its_node_and_comes_back_to_it() {
    let mut world = World::start(&[]).await;
    world.more = vec!["frontier.host_delay=1s".into()];
    for name in ["one", "two"] {
        let node = world.start_node(name);
        world.nodes.push(node);
    }
    world.wait_for_owners(3);
    let homes: Vec<String> = (0..HOSTS - 1).map(|host| world.url(host, 0)).collect();
    let mut args = vec!["job", "create", "press", "--scope", "host", "--limit-per-host", "12"];
    args.extend(homes.iter().map(String::as_str));
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));
    let domain = homes[0].split('/').nth(2).unwrap().split(':').next().unwrap().to_owned();
    // To and fro during the fetches.
    for node in ["one", "two", "one", "two"] {
        world.pin_to(&domain, node);
    }
    let (_, partition) = world.pin();
    world.wait_until_written();
    let mut asked = BTreeMap::<(String, String), u32>::new();
    for request in world.web.journal().log().requests {
        *asked.entry((request.host.to_string(), request.path.to_string())).or_default() += 1;
    }
    let twice: Vec<_> =
        asked.iter().filter(|((_, path), times)| **times > 1 && !path.starts_with("/robots")).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(asked.len() > 100, "{}", asked.len());

    // Its node dies: the other takes the domain over. Its node comes back: so does the domain.
    world.nodes[1].child.kill().unwrap();
    world.nodes[1].child.wait().unwrap();
    world.wait("the other takes it", |world| world.pin().0 == "one");
    world.nodes[1] = world.start_node("two");
    world.wait("it comes back", |world| world.pin() == ("two".to_owned(), partition));

    let other = world.say(&["cluster", "pin", &domain, "--to", "no such node"]);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
    assert!(world.say(&["cluster", "unpin", &domain]).status.success());
    let again = world.say(&["cluster", "unpin", &domain]);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    assert!(world.say(&["cluster", "pins", "--json"]).stdout.is_empty());
}
