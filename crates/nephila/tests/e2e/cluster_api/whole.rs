//! Promises of a cluster as a whole: limits of a job over all nodes, and URLs that are given to several of them.

use super::*;

impl World {
    /// Number of pages that were requested.
    fn pages_asked(&self) -> usize {
        let asked = self.web.journal().log().requests;
        asked.iter().filter(|asked| !asked.path.starts_with("/robots")).count()
    }

    /// A job over all hosts but the last, with these flags.
    fn create(&self, flags: &[&str]) {
        let homes: Vec<String> = (0..HOSTS - 1).map(|host| self.url(host, 0)).collect();
        let mut args = vec!["job", "create", "press", "--scope", "host"];
        args.extend_from_slice(flags);
        args.extend(homes.iter().map(String::as_str));
        let created = self.tell(0, &args);
        assert!(created.status.success(), "{}", text(&created));
    }

    fn job(&self, node: usize) -> Value {
        self.get(node, "jobs/press").expect("an answer").json()
    }

    /// Messages that ever came into logs and inboxes.
    fn messages(&self) -> u64 {
        let said = self.nats.ask(0, "/jsz?streams=true&accounts=true").expect("the server answers");
        let accounts = said["account_details"].as_array().into_iter().flatten();
        let streams = accounts.flat_map(|account| account["stream_detail"].as_array().into_iter().flatten());
        let is_numbered = |stream: &&Value| {
            let name = stream["name"].as_str().unwrap_or_default();
            name.rsplit('_').next().is_some_and(|end| end.parse::<u32>().is_ok())
        };
        streams.filter(is_numbered).map(|stream| stream["state"]["last_seq"].as_u64().unwrap_or(0)).sum()
    }

    /// The messages, once no more come.
    fn messages_at_rest(&self) -> u64 {
        let (mut last, mut since) = (self.messages(), Instant::now());
        self.wait("nothing is written any more", |world| {
            let now = world.messages();
            if std::mem::replace(&mut last, now) != now {
                since = Instant::now();
            }
            since.elapsed() > Duration::from_secs(5)
        });
        last
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_at_its_limit_over_all_nodes_and_stays_ended() {
    const LIMIT: u64 = 60;
    let mut world = World::start(&["one", "two"]).await;
    world.create(&["--limit", &LIMIT.to_string(), "--time-limit", "1d"]);
    world.wait("it ends", |world| world.job(1)["ended"]["told"] == true);
    let job = world.job(0);
    assert_eq!(
        (&job["ended"]["limit"], &job["job"]["state"]),
        (&"pages_max".into(), &"paused".into()),
        "{job}"
    );
    assert!(job["ended"]["pages"].as_u64() >= Some(LIMIT), "never early: {job}");
    assert!(job["ended"]["seconds"].as_u64() < Some(600), "{job}");
    let shown = text(&world.tell(1, &["job", "show", "press"]));
    assert!(shown.contains("ended      at its pages_max") && shown.contains("60 pages"), "{shown}");
    world.wait("every partition has heard of it", |world| {
        let url = world.find("queued");
        world.explain(0, &url)["held_by"].to_string().contains("paused")
    });
    world.wait_until_still();
    let asked = world.pages_asked();
    assert!(asked as u64 >= LIMIT, "{asked}");

    // A restarted node does not continue the job, and neither does the node that takes its partitions.
    world.nodes[1].child.kill().unwrap();
    world.nodes[1].child.wait().unwrap();
    world.wait("the other has all partitions", |world| {
        world.get(0, "cluster").expect("an answer").json()["nodes"][0]["partitions"] == 12
    });
    world.nodes[1] = world.start_node("two");
    world.wait("both have some again", |world| {
        let nodes = world.get(0, "cluster").expect("an answer").json()["nodes"].clone();
        nodes[0]["partitions"].as_u64() > Some(0) && nodes[1]["partitions"].as_u64() > Some(0)
    });
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(world.pages_asked(), asked, "{}", world.said());

    // With a higher limit the job runs again; URLs that came up meanwhile were put back, and come later.
    let more = world.tell(0, &["job", "set", "press", "--limit", "100000"]);
    assert!(more.status.success(), "{}", text(&more));
    let resumed = world.tell(0, &["job", "resume", "press"]);
    assert!(resumed.status.success(), "{}", text(&resumed));
    let job = world.job(0);
    assert_eq!((&job["ended"], &job["job"]["state"]), (&Value::Null, &"running".into()), "{job}");
    // A time limit ends the job as well: the job has run for more than a second.
    let less = world.tell(0, &["job", "set", "press", "--time-limit", "1s"]);
    assert!(less.status.success(), "{}", text(&less));
    world.wait("its time is over", |world| world.job(0)["ended"]["limit"] == "time_max");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_batch_given_to_two_nodes_counts_once() {
    let mut world = World::start(&["one", "two"]).await;
    world.create(&[]);
    let paused = world.tell(0, &["job", "pause", "press"]);
    assert!(paused.status.success(), "{}", text(&paused));
    world.wait_until_still();
    let lines: String = (0..HOSTS - 1).map(|host| format!("{}batch\n", world.url(host, 0))).collect();
    let file = world.dir.path().join("batch.txt");
    std::fs::write(&file, &lines).unwrap();
    let file = file.display().to_string();
    let add = |node: &str| {
        let token = world.dir.path().join("token").display().to_string();
        let flags = ["--json", "--node", node, "--token-file", &token];
        world.ask(&[&["add", "press", "--seeds", &file], &flags[..]].concat())
    };
    let taken = |output: &Output| {
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        said["taken"].as_u64()
    };
    let urls: Vec<String> = world.nodes.iter().map(|node| format!("http://{}", node.address)).collect();
    let before = world.messages_at_rest();
    let first = add(&urls[0]);
    assert_eq!(taken(&first), Some(u64::from(HOSTS) - 1), "{}", text(&first));
    let after = world.messages_at_rest();
    assert!(after > before, "it arrived");
    // The other node accepts the URL as well, and the inboxes do not.
    let second = add(&urls[1]);
    assert_eq!(taken(&second), taken(&first), "{}", text(&second));
    assert_eq!(world.messages_at_rest(), after, "given twice, it is there once");

    // If one address does not answer, the next is tried: a node that is gone, and an address without a listener.
    let gone = format!("http://127.0.0.1:9, {},{}", urls[0], urls[1]);
    world.nodes[0].child.kill().unwrap();
    world.nodes[0].child.wait().unwrap();
    let third = {
        let token = world.dir.path().join("token").display().to_string();
        let more = format!("{}other", world.url(0, 0));
        world.ask(&["add", "press", &more, "--json", "--node", &gone, "--token-file", &token])
    };
    assert_eq!(taken(&third), Some(1), "{}", text(&third));
    let nobody = world.ask(&["add", "press", "http://a.test/", "--node", "http://127.0.0.1:9,127.0.0.1:9"]);
    assert_eq!(nobody.status.code(), Some(8), "{}", text(&nobody));
}

/// Listening addresses that never answer. Returns their port.
async fn silent(addresses: usize) -> u16 {
    let address = |n: usize| std::net::Ipv4Addr::new(127, 7, (n / 200) as u8, (n % 200 + 1) as u8);
    let first = tokio::net::TcpListener::bind((address(0), 0)).await.expect("a listener");
    let port = first.local_addr().unwrap().port();
    let mut listeners = vec![first];
    for n in 1..addresses {
        listeners.push(tokio::net::TcpListener::bind((address(n), port)).await.expect("a listener"));
    }
    for listener in listeners {
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                held.push(stream);
            }
        });
    }
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn clu_22_a_node_with_many_fetches_open_leaves_when_it_is_told_and_the_next_begins_at_once() {
    const OPEN: usize = 600;
    let mut world = World::start(&[]).await;
    let port = silent(OPEN).await;
    world.more = vec![
        format!("spider.ports=[{port}]"),
        "crawl.concurrency=2000".into(),
        "spider.total_timeout=10m".into(),
        "spider.head_timeout=10m".into(),
        "frontier.ticket_timeout=20m".into(),
        "frontier.host_delay=100ms".into(),
    ];
    let one = world.start_node("one");
    world.nodes.push(one);
    world.wait_for_owners(1);
    let seeds: String =
        (0..OPEN).map(|n| format!("http://127.7.{}.{}:{port}/\n", n / 200, n % 200 + 1)).collect();
    let file = world.dir.path().join("seeds.txt");
    std::fs::write(&file, seeds).unwrap();
    let created =
        world.tell(0, &["job", "create", "press", "--scope", "host", "--seeds", &file.display().to_string()]);
    assert!(created.status.success(), "{}", text(&created));
    let open = |world: &World, node: usize| {
        let nodes = world.get(node, "cluster/nodes").map(|reply| reply.json()).unwrap_or_default();
        let name = &world.nodes[node].name;
        let nodes = nodes.as_array().cloned().unwrap_or_default();
        nodes.iter().find(|one| one["name"] == **name).and_then(|one| one["stats"]["tickets_open"].as_u64())
    };
    world.wait("all fetches are open", |world| open(world, 0) >= Some(OPEN as u64 * 9 / 10));
    let two = world.start_node("two");
    world.nodes.push(two);
    world.wait("the other has come", |world| {
        world
            .get(0, "cluster")
            .is_some_and(|reply| reply.json()["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2))
    });
    let pid = rustix::process::Pid::from_child(&world.nodes[0].child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let began = Instant::now();
    while world.nodes[0].child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "it does not leave: {}", world.said());
        std::thread::sleep(LOOK);
    }
    // Its lease was given back, so no node waits for the expiry, and open tickets are requested again.
    world.nodes.remove(0);
    world.learn_addresses();
    world.wait_for_owners(1);
    world.wait("the next owner asks", |world| open(world, 0) >= Some(OPEN as u64 / 2));
    // After a second signal a node ends at once, without harm.
    let node = &mut world.nodes[0].child;
    let pid = rustix::process::Pid::from_child(node);
    for _ in 0..2 {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        std::thread::sleep(Duration::from_secs(1));
    }
    let began = Instant::now();
    while node.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(LOOK);
    }
}
