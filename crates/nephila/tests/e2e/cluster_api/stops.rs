//! Stops while three nodes crawl: said to one of them or to the servers, obeyed by all, also after all have begun again.

use std::collections::BTreeSet;

use super::*;

/// A stop is obeyed everywhere after this time.
const EFFECTIVE: Duration = Duration::from_secs(10);

impl World {
    /// The name of a host.
    fn name(&self, host: u32) -> String {
        let url = self.url(host, 0);
        let authority = url.split('/').nth(2).expect("an authority");
        authority.split(':').next().unwrap_or(authority).to_owned()
    }

    /// The hosts that were asked from a moment on.
    fn asked_since(&self, since_us: u64) -> BTreeSet<u32> {
        let log = self.web.journal().log();
        let names: BTreeSet<&str> = log
            .requests
            .iter()
            .filter(|seen| seen.start_us >= since_us)
            .map(|seen| seen.host.split(':').next().unwrap_or_default())
            .collect();
        (0..HOSTS).filter(|host| names.contains(self.name(*host).as_str())).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pol_19_stops_reach_every_node_and_outlive_all_of_them() {
    let mut world = begun().await;
    let hosts = HOSTS - 1;
    // Every third host by name, said to a node; every third as a domain, said to the servers.
    let mut stopped = BTreeMap::<u32, u64>::new();
    for third in 0..2 {
        let hosts: Vec<u32> = (0..hosts).filter(|host| host % 3 == third).collect();
        let name =
            |host: &u32| if third == 0 { world.name(*host) } else { format!("*.{}", world.name(*host)) };
        let targets: Vec<String> = hosts.iter().map(name).collect();
        let mut args = vec!["stop", "add", "--reason", "an abuse complaint", "--author", "ops"];
        args.extend(targets.iter().map(String::as_str));
        let said = if third == 0 { world.tell(1, &args) } else { world.say(&args) };
        assert!(said.status.success(), "{}", text(&said));
        let at = world.web.journal().now_us();
        stopped.extend(hosts.into_iter().map(|host| (host, at)));
    }
    let free: BTreeSet<u32> = (0..hosts).filter(|host| !stopped.contains_key(host)).collect();
    // One of the others gets a longer rest than the two seconds of all.
    let slow = *free.first().expect("some are free");
    let url = world.url(slow, 0);
    let (end, _) = url.match_indices('/').nth(2).expect("a path");
    let origin = &url[..end];
    let slow = world.name(slow);
    let set = world.tell(0, &["host", "set", origin, "--delay", "6s"]);
    assert!(set.status.success(), "{}", text(&set));
    std::thread::sleep(EFFECTIVE);
    let quiet_at = world.web.journal().now_us();
    // Some of them may have no page left by then.
    let go_on = |world: &World, since| 2 * world.asked_since(since).intersection(&free).count() >= free.len();
    world.wait("the others go on", |world| go_on(world, quiet_at));
    let starts = |world: &World| -> Vec<u64> {
        let log = world.web.journal().log();
        let of_it = log.requests.iter().filter(|seen| seen.host.split(':').next() == Some(&*slow));
        let mut starts: Vec<u64> =
            of_it.map(|seen| seen.start_us).filter(|start| *start >= quiet_at).collect();
        starts.sort_unstable();
        starts
    };
    world.wait("the slow one was asked three times", |world| starts(world).len() >= 3);
    let starts = starts(&world);
    assert!(starts.windows(2).all(|two| two[1] - two[0] >= 6_000_000), "{starts:?}");
    let log = world.web.journal().log();
    let mut slowest = 0;
    for (host, at) in &stopped {
        let name = world.name(*host);
        let last = log
            .requests
            .iter()
            .filter(|seen| seen.host.split(':').next() == Some(&name))
            .map(|seen| seen.start_us)
            .max();
        let late = last.unwrap_or(0).saturating_sub(*at);
        slowest = slowest.max(late);
        assert!(late <= EFFECTIVE.as_micros() as u64, "{name} was asked {late} us after it was stopped");
    }
    println!("{} stops, the last request {} ms after its stop", stopped.len(), slowest / 1_000);

    // All nodes begin again, one by one killed.
    for number in 0..world.nodes.len() {
        world.nodes[number].child.kill().unwrap();
        world.nodes[number].child.wait().unwrap();
    }
    let again_at = world.web.journal().now_us();
    for number in 0..world.nodes.len() {
        let name = world.nodes[number].name.clone();
        world.nodes[number] = world.start_node(&name);
    }
    world.wait("the others go on", |world| go_on(world, again_at));
    let rude: Vec<u32> =
        world.asked_since(again_at).into_iter().filter(|host| stopped.contains_key(host)).collect();
    assert!(rude.is_empty(), "{rude:?}");

    world.wait("the nodes answer again", |world| {
        let status: Value =
            serde_json::from_slice(&world.say(&["cluster", "status", "--json"]).stdout).unwrap_or_default();
        status["without_owner"] == 0 && status["nodes"].as_array().is_some_and(|nodes| nodes.len() == 3)
    });
    world.learn_addresses();
    let listed = world.tell(2, &["stop", "list", "--json"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(listed.lines().count(), stopped.len(), "{listed}");
    assert!(listed.lines().all(|line| line.contains("\"author\":\"ops\"")), "{listed}");
    let target = world.name(0);
    assert!(world.tell(1, &["stop", "remove", &target]).status.success());
    assert_eq!(world.say(&["stop", "remove", &target]).status.code(), Some(1), "it is gone already");
    for verb in [&["stop", "add", "192.0.2.0/24", "--reason", "x"][..], &["stop", "remove", "192.0.2.0/24"]] {
        let said = world.tell(0, verb);
        assert!(said.status.success(), "{}", text(&said));
    }
    let wrong = world.tell(0, &["stop", "add", "*.com", "--reason", "x"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
}
