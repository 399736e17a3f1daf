//! A job is reported complete when nothing is left on any node: never before, soon after, and not because of others.

use super::*;

/// Maximum delay of the completion report.
const LATE_MAX: Duration = Duration::from_secs(30);
/// Anything still to come would have come by then: longer than any rest, and than the lease of a killed node.
const QUIET: Duration = Duration::from_secs(12);
/// Hosts of the job that is watched; the others are another's.
const PRESS: u32 = 8;

impl World {
    /// When the last request for a page of these hosts came, and how many there were.
    fn requests(&self, hosts: std::ops::Range<u32>) -> (u64, usize) {
        let names: Vec<String> = hosts.map(|host| self.url(host, 0)).collect();
        let is_of = |host: &str| names.iter().any(|name| name.contains(&format!("//{host}/")));
        let requests = self.web.journal().log().requests;
        let of = requests.iter().filter(|request| is_of(&request.host) && request.path != "/robots.txt");
        of.fold((0, 0), |(last, count), request| (last.max(request.start_us), count + 1))
    }

    fn shown(&self, job: &str) -> Value {
        let said = self.tell(0, &["job", "show", job, "--json"]);
        serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{}", text(&said)))
    }

    fn create_job(&self, name: &str, hosts: std::ops::Range<u32>, more: &[&str]) {
        let homes: Vec<String> = hosts.map(|host| self.url(host, 0)).collect();
        let mut args = vec!["job", "create", name, "--scope", "host"];
        args.extend_from_slice(more);
        args.extend(homes.iter().map(String::as_str));
        let created = self.tell(0, &args);
        assert!(created.status.success(), "{}", text(&created));
    }

    /// Waits for a job; nothing may come afterwards. Returns the number of requests.
    fn wait_for_job(&self, name: &str, hosts: std::ops::Range<u32>) -> usize {
        let waited = self.say(&["job", "wait", name, "--timeout", "100s"]);
        let at = Instant::now();
        assert_eq!(waited.status.code(), Some(0), "{}\n{}", text(&waited), self.said());
        let (last, count) = self.requests(hosts.clone());
        let now = self.web.journal().now_us();
        let late = Duration::from_micros(now.saturating_sub(last)).saturating_sub(at.elapsed());
        println!("{name}: {count} requests, complete {late:?} after the last");
        assert!(late < LATE_MAX, "{late:?}");
        std::thread::sleep(QUIET);
        assert_eq!(self.requests(hosts), (last, count), "something was left");
        count
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_05_a_job_is_complete_when_nothing_of_it_is_left_on_any_node() {
    let mut world = World::start(&[]).await;
    world.more = vec!["cluster.events=true".into(), "frontier.host_delay=100ms".into()];
    world.start_nodes(&["one", "two", "three"], 3);
    // Another job works all the time, and one has nothing to do at all.
    world.create_job("beside", PRESS..HOSTS, &["--recrawl", "fixed", "--interval", "2s"]);
    world.create_job("press", 0..PRESS, &[]);
    let crawling = || {
        let nodes = world.get(0, "cluster/nodes").expect("an answer").json();
        let nodes = nodes.as_array().cloned().unwrap_or_default();
        nodes.iter().filter(|node| node["state"] == "crawling").count()
    };
    world.wait("some nodes crawl", |_| crawling() > 0);
    assert!(world.shown("press")["progress"]["complete"].is_null());
    std::thread::sleep(Duration::from_secs(2));
    world.nodes[1].child.kill().unwrap();
    world.nodes[1].child.wait().unwrap();
    world.nodes[1] = world.start_node("two");
    let first = world.wait_for_job("press", 0..PRESS);
    world.learn_addresses();

    let shown = world.shown("press");
    let pages = shown["progress"]["pages"].as_u64().unwrap();
    assert!(shown["progress"]["complete"].is_string() && shown["progress"]["left"] == 0, "{shown}");
    // A page that was open when its node was killed is asked for twice and counts once.
    assert!(pages > 100 && pages <= first as u64, "{pages} of {first}");
    let listed = text(&world.say(&["job", "list"]));
    assert!(listed.lines().any(|line| line.contains("press") && line.contains("complete")), "{listed}");
    assert!(listed.lines().any(|line| line.contains("beside") && line.contains("running")), "{listed}");
    let never = world.say(&["job", "wait", "beside"]);
    assert_eq!(never.status.code(), Some(2), "{}", text(&never));

    // An added URL is wanted from the moment in which the command returns.
    let more = world.url(HOSTS - 1, 0);
    world.tell(0, &["job", "stop", "beside"]);
    let added = world.tell(2, &["add", "press", &world.url(0, 10_000), &more, "--seed"]);
    assert!(added.status.success(), "{}", text(&added));
    assert!(world.shown("press")["progress"]["complete"].is_null());
    world.wait_for_job("press", 0..PRESS);
    world.wait("nothing is left to do", |world| {
        let nodes = world.get(0, "cluster/nodes").expect("an answer").json();
        nodes.as_array().unwrap().iter().all(|node| node["state"] == "ready")
    });

    let ready = world.request(0, "GET", "/readyz", &[], "").expect("an answer");
    assert_eq!((ready.status, &*ready.text()), (200, "\"ready\""));
    let metrics = world.get(0, "/metrics").expect("an answer").text();
    for line in ["nephila_node_crawling 0", "nephila_partition_without_owner 0", "nephila_cluster_nodes 3"] {
        assert!(metrics.lines().any(|said| said == line), "{line}: {metrics}");
    }
    assert_eq!(
        world.request(0, "GET", "/metrics", &[], "").expect("an answer").status,
        401,
        "it needs a token"
    );

    // Programs are told, once for each time.
    let (mut complete, mut from) = (std::collections::BTreeSet::new(), "beginning".to_owned());
    world.wait("completion is told twice", |world| {
        let reply = world.get(0, &format!("events?from={from}&wait=200ms")).expect("an answer");
        for line in reply.text().lines() {
            let event: Value = serde_json::from_str(line).expect("JSON");
            if let Some(position) = event["position"].as_str() {
                from = position.to_owned();
            }
            if event["state"] == "complete" {
                assert_eq!((&event["kind"], &event["job"]), (&"job".into(), &"press".into()), "{event}");
                complete.insert(event["id"].to_string());
            }
        }
        complete.len() >= 2
    });
    assert_eq!(complete.len(), 2, "{complete:?}");
}
