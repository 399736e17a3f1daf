//! Events of a cluster: sent by the owner of a partition, read by any NATS client, and page by page over HTTP.

use std::collections::BTreeSet;

use futures_util::StreamExt;

use super::*;

impl World {
    /// Two nodes that tell events, and a job that ends.
    async fn telling() -> World {
        let mut world = World::start(&[]).await;
        world.more = vec!["cluster.events=true".into(), "frontier.host_delay=500ms".into()];
        for name in ["one", "two"] {
            let node = world.start_node(name);
            world.nodes.push(node);
        }
        world.wait_for_owners(3);
        world
    }

    /// A page of events: the events, and where to go on.
    fn events(&self, node: usize, from: &str) -> Option<(Vec<Value>, String)> {
        let reply = self.get(node, &format!("events?from={from}&wait=200ms"))?;
        if reply.status != 200 {
            assert_eq!(reply.status, 503, "{}", reply.text());
            return None;
        }
        let mut lines: Vec<Value> =
            reply.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let last = lines.pop().expect("a position");
        Some((lines, last["position"].as_str().expect("a position").to_owned()))
    }
}

fn id(event: &Value) -> String {
    event["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_of_a_cluster_is_told_though_a_node_is_killed() {
    let mut world = World::telling().await;
    // An ordinary client that knows nothing of us.
    let client = async_nats::connect(world.nats.urls()[0].as_str()).await.unwrap();
    let mut live = client.subscribe("neph.nephila.events.>").await.unwrap();
    client.flush().await.unwrap();
    let homes: Vec<String> = (0..HOSTS - 1).map(|host| world.url(host, 0)).collect();
    let mut args = vec!["job", "create", "press", "--scope", "host", "--limit-per-host", "8"];
    args.extend(homes.iter().map(String::as_str));
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));

    let (mut seen, mut repeats) = (BTreeMap::<String, Value>::new(), 0);
    let (mut position, mut number) = ("beginning".to_owned(), 0);
    let mut quiet = 0;
    let began = Instant::now();
    while quiet < 25 {
        assert!(began.elapsed() < 2 * PATIENCE, "{}", world.said());
        number += 1;
        if number == 15 {
            world.nodes[1].child.kill().unwrap();
            world.nodes[1].child.wait().unwrap();
            world.nodes[1] = world.start_node("two");
        }
        let Some((events, next)) = world.events(0, &position) else { continue };
        let new = events.into_iter().filter(|event| seen.insert(id(event), event.clone()).is_none()).count();
        // A program that dies before the position is saved sees some events again.
        if number % 3 > 0 {
            position = next;
        } else {
            repeats += 1;
        }
        // The dead node is taken over meanwhile.
        quiet = if new > 0 || began.elapsed() < Duration::from_secs(40) { 0 } else { quiet + 1 };
    }
    assert!(repeats > 5);
    let mut all = BTreeMap::new();
    let mut from = "beginning".to_owned();
    while let Some((events, next)) = world.events(0, &from)
        && next != from
    {
        all.extend(events.into_iter().map(|event| (id(&event), event)));
        from = next;
    }
    assert_eq!(seen.keys().collect::<Vec<_>>(), all.keys().collect::<Vec<_>>());
    assert!(all.values().all(|event| event["kind"] != "gap"), "nothing was left out");
    // Every page that the site served has its event.
    let told: BTreeSet<String> = all
        .values()
        .filter(|event| event["fetch"].is_string())
        .map(|event| event["url"].as_str().unwrap_or_default().to_owned())
        .collect();
    let asked = world.web.journal().log().requests;
    let pages: BTreeSet<&str> =
        asked.iter().map(|asked| &*asked.path).filter(|path| !path.starts_with("/robots")).collect();
    let told_paths: BTreeSet<String> =
        told.iter().map(|url| format!("/{}", url.splitn(4, '/').nth(3).unwrap_or_default())).collect();
    let missing: Vec<&&str> = pages.iter().filter(|path| !told_paths.contains(**path)).collect();
    assert!(missing.is_empty(), "{missing:?} of {}", pages.len());
    // The ordinary client saw the same.
    let mut heard = BTreeSet::new();
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(1), live.next()).await {
        for line in String::from_utf8_lossy(&message.payload).lines() {
            heard.insert(id(&serde_json::from_str(line).expect("JSON")));
        }
    }
    assert_eq!(heard, all.keys().cloned().collect());
    // And so does the command, at the node's folder and over the network.
    let folder = world.nodes[0].folder.display().to_string();
    for output in [world.ask(&["log", "--events", "-o", &folder]), world.tell(0, &["log", "--events"])] {
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let events = lines.lines().filter(|line| !line.contains("\"kind\":\"position\"")).count();
        assert!(events >= all.len(), "{events} of {}: {}", all.len(), text(&output));
    }
    println!("{} events, {} pages", all.len(), pages.len());
}
