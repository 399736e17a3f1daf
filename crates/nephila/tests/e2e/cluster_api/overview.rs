//! What a cluster says about the whole crawl, through any of its nodes, and while one of them is dead.

use super::*;

/// All pages of a list, as one.
fn all_lines(world: &World, node: usize) -> Vec<Value> {
    let (mut lines, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let from = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let log = world.get(node, &format!("log?limit=7{from}")).unwrap().json();
        assert_eq!(log["complete"], true, "{log}");
        lines.extend(log["lines"].as_array().unwrap().iter().cloned());
        let Some(next) = log["cursor"].as_str() else { return lines };
        cursor = Some(next.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_the_same_about_the_whole_crawl() {
    let mut world = paused().await;
    // Links that were found before the pause may still be on their way to their owners.
    let queued = |world: &World| -> u64 {
        let waiting = |node| world.get(node, "stats").unwrap().json()["urls_waiting"].as_u64().unwrap();
        (0..3).map(waiting).sum()
    };
    world.wait("all nodes count the same queue", |world| {
        let before = queued(world);
        let said = |node| world.get(node, "status").unwrap().json()["frontier"].take();
        let is_same = |said: Value| said["queued"] == before && said["offers_waiting"] == 0;
        (0..3).all(|node| is_same(said(node))) && queued(world) == before
    });
    let said: Vec<Value> = (0..3).map(|node| world.get(node, "status").unwrap().json()).collect();
    for status in &said {
        assert_eq!((&status["mode"], &status["limited_by"]["reason"]), (&"cluster".into(), &"paused".into()));
        assert_eq!(status["done"]["pages"], said[0]["done"]["pages"]);
        assert_eq!(status["jobs"][0]["name"], "press", "{status}");
        let nodes = status["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 3, "{status}");
        assert!(nodes.iter().all(|node| node["error"].is_null()), "{status}");
    }

    // The log of the cluster has every line of every node, newest first.
    let lines = all_lines(&world, 1);
    let logged: usize = (0..3).map(|node| world.lines(node).len()).sum();
    assert_eq!(lines.len(), logged);
    // A log has its lines in the order in which the requests ended and were stored: one may overtake another by a little.
    let ended = |line: &Value| line["at_ms"].as_u64().unwrap() + line["took_ms"].as_u64().unwrap();
    assert!(lines.windows(2).all(|pair| ended(&pair[0]) + 10_000 >= ended(&pair[1])));
    let politeness = world.get(2, "politeness").unwrap().json();
    assert_eq!(
        (&politeness["requests"], &politeness["violations"]),
        (&logged.into(), &0.into()),
        "{politeness}"
    );

    // The hosts of all nodes are one list, whoever is asked, page by page.
    let whole = world.get(0, "hosts?limit=1000").unwrap().json();
    let hosts = whole["hosts"].as_array().unwrap();
    assert_eq!(hosts.len() as u64, whole["looked_at"].as_u64().unwrap(), "{whole}");
    let (mut paged, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let from = cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = world.get(2, &format!("hosts?limit=4{from}")).unwrap().json();
        paged.extend(page["hosts"].as_array().unwrap().iter().map(|host| host["origin"].clone()));
        let Some(next) = page["cursor"].as_str() else { break };
        cursor = Some(next.to_owned());
    }
    let origins: Vec<Value> = hosts.iter().map(|host| host["origin"].clone()).collect();
    assert_eq!(paged, origins);
    let busiest = hosts.iter().max_by_key(|host| host["done"].as_u64()).unwrap();
    let origin = busiest["origin"].as_str().unwrap();
    let timeline = world.get(1, &format!("host/timeline?url={origin}")).unwrap().json();
    let requests =
        lines.iter().filter(|line| line["url"].as_str().unwrap().starts_with(&format!("{origin}/")));
    assert_eq!(timeline["requests"].as_array().unwrap().len(), requests.count(), "{timeline}");

    // The job, with seeds and rules of all nodes; and a test of its rules.
    let job = world.get(0, "jobs/press").unwrap().json();
    let seeds = job["seeds"].as_array().unwrap();
    assert!(seeds.iter().all(|seed| seed["state"] != "unknown"), "{job}");
    // A node counts anew when the record of a job changes, and this one was paused.
    assert!(job["rules"].is_array(), "{job}");
    let test = serde_json::json!({"job": "press", "urls": [world.url(0, 1), world.url(HOSTS - 1, 0)]});
    let tested = world.post(1, "scope/test", &test.to_string()).json();
    assert_eq!((&tested[0]["verdict"], &tested[1]["verdict"]), (&"in".into(), &"out".into()), "{tested}");

    // Links that one node makes open at all others, and show the requests of all nodes.
    let link = |kind: &str, name: &str| {
        let made = world.tell(0, &["link", kind, name, "--for", "1h"]);
        assert!(made.status.success(), "{}", text(&made));
        let url = String::from_utf8(made.stdout).unwrap();
        let path = url.trim().strip_prefix(&format!("http://{}", world.nodes[0].address)).unwrap().to_owned();
        path.replacen("/public/", "/public/v1/", 1)
    };
    let (of_host, of_job) = (link("host", origin), link("job", "press"));
    for node in 0..3 {
        let shown = world.request(node, "GET", &of_host, &[], "").unwrap().json();
        let total = timeline["requests"].as_array().unwrap().len();
        assert_eq!((&shown["requests_total"], &shown["violations"]), (&total.into(), &0.into()), "{shown}");
        assert_eq!(shown["requests"].as_array().unwrap().len(), total.min(100), "{shown}");
        let waiting = busiest["queued"].as_u64().unwrap() + busiest["later"].as_u64().unwrap();
        assert_eq!(shown["sites"][0]["queued"], waiting, "{shown}");
        let shown = world.request(node, "GET", &of_job, &[], "").unwrap().json();
        assert_eq!((&shown["job"], &shown["state"]), (&"press".into(), &"paused".into()), "{shown}");
        // A URL that was found late ends as one of a paused job meanwhile.
        world.wait("the public page says what the status says", |world| {
            let shown = world.request(node, "GET", &of_job, &[], "").unwrap().json();
            let status = world.get(0, "status").unwrap().json();
            let classes = ["ok", "redirect", "missing", "refused", "failed"];
            classes.iter().all(|class| shown["ended_as"][class] == status["done"][class])
        });
    }
    let strange = of_host.replace("&key=", "&key=A");
    assert_eq!(world.request(1, "GET", &strange, &[], "").unwrap().status, 404);
    let bare = of_host.split_once('?').unwrap().0;
    assert_eq!(world.request(1, "GET", bare, &[], "").unwrap().status, 404);

    // A node that is dead is named within seconds, and the others answer for themselves.
    let dead = world.nodes.remove(2);
    let name = dead.name.clone();
    drop(dead);
    world.wait("the dead node is named", |world| {
        let status = world.get(0, "status").map(|reply| reply.json()).unwrap_or_default();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        // Once its lease has run out, it is no node any more.
        let row = nodes.iter().find(|node| node["name"] == name.as_str());
        row.is_none_or(|row| row["state"] == "unknown" && row["error"].is_string()) && nodes.len() >= 2
    });
}
