//! Jobs with more seeds than fit into a record: they are crawled in scope on all nodes, more are added while they run,
//! and a command that was cut short is completed by repeating the command (idempotent).

use std::collections::BTreeSet;

use nephila_testweb::model::{RobotsKind, TruthOptions};
use nephila_testweb::settings::RobotsShares;

use super::*;

/// Number of seeds that may not be fetched: every one of them is known all the same.
const CLOSED_SEEDS: usize = 25_000;
/// Open hosts that have no seed.
const OUTSIDE: usize = 4;

/// Hosts of a web: open ones with a seed, open ones without, and closed ones.
struct Hosts {
    inside: Vec<u32>,
    outside: Vec<u32>,
    closed: Vec<u32>,
}

impl World {
    async fn of_many() -> (World, Hosts) {
        let robots = RobotsShares { closed: 0.5, ..RobotsShares::default() };
        let mut world = World::of(Settings { hosts: 60, pages: 900, robots, ..World::web() }).await;
        world.more = vec!["frontier.host_delay=100ms".into()];
        let all = world.web.world().clone();
        let is_closed = |host: &u32| all.robots_kind(*host) == RobotsKind::Closed;
        let (closed, mut inside): (Vec<u32>, Vec<u32>) = (0..60).partition(is_closed);
        let outside = inside.split_off(inside.len() - OUTSIDE);
        assert!(closed.len() > 15 && inside.len() > 15, "{} of 60 are closed", closed.len());
        (world, Hosts { inside, outside, closed })
    }

    /// A file with the homes of open hosts and very many pages of closed ones.
    fn seeds_file(&self, hosts: &Hosts) -> String {
        let closed = (0..CLOSED_SEEDS).map(|n| {
            let host = hosts.closed[n % hosts.closed.len()];
            format!("{}named-by-somebody/{n}", self.url(host, 0))
        });
        // Seeds that can be fetched stand in the middle.
        let mut seeds: Vec<String> = closed.collect();
        let middle = seeds.len() / 2;
        drop(seeds.splice(middle..middle, hosts.inside.iter().map(|host| self.url(*host, 0))));
        let path = self.dir.path().join("seeds.txt");
        std::fs::write(&path, seeds.join("\n")).expect("the seeds are written");
        path.display().to_string()
    }

    /// The places requested of the web, robots.txt left out.
    fn asked_for(&self) -> BTreeSet<Place> {
        let all = self.web.world();
        let requests = self.web.journal().log().requests;
        let places = requests.iter().filter(|request| request.path != "/robots.txt");
        places.filter_map(|request| all.place(&request.host, &request.path)).collect()
    }

    /// The places of these hosts that a crawl from their homes finds.
    fn truth_of(&self, hosts: &[u32]) -> BTreeSet<Place> {
        let options = TruthOptions {
            seeds: hosts.iter().map(|host| Place { host: *host, what: What::Page(0) }).collect(),
            scope: Some(hosts.to_vec()),
            reads_sitemaps: true,
            reads_feeds: true,
            ..TruthOptions::default()
        };
        self.web.world().truth(&options).expected().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_01_a_job_with_many_seeds_is_crawled_in_scope_and_takes_more_while_it_runs() {
    let (mut world, mut hosts) = World::of_many().await;
    world.start_nodes(&["one", "two", "three"], 3);
    let file = world.seeds_file(&hosts);
    let count = CLOSED_SEEDS + hosts.inside.len();
    let began = Instant::now();
    let created = world.say(&["job", "create", "big", "--scope", "host", "-d", "255", "-i", &file]);
    println!("{count} seeds in {:?}", began.elapsed());
    assert!(created.status.success(), "{}", text(&created));
    assert!(text(&created).contains(&format!("{count} seeds sent")), "{}", text(&created));
    let shown = text(&world.say(&["job", "show", "big"]));
    assert!(shown.contains(&format!("around {count} seeds")), "{shown}");
    let again = world.say(&["job", "create", "big", "--scope", "host", "-d", "255", "-i", &file]);
    assert_eq!(again.status.code(), Some(2), "it has begun: {}", text(&again));

    // A seed is added while the job runs, through a node; its surroundings are wanted from then on.
    let late = hosts.outside.pop().unwrap();
    let (home, other) = (world.url(late, 0), world.url(hosts.outside[0], 0));
    let refused = world.tell(1, &["add", "big", &home]);
    assert!(text(&refused).contains("out of scope: scope=host of "), "{}", text(&refused));
    let added = world.tell(1, &["add", "big", &home, "--seed"]);
    assert!(added.status.success(), "{}", text(&added));
    let waited = world.say(&["job", "wait", "big", "--timeout", "110s"]);
    assert_eq!(waited.status.code(), Some(0), "{}\n{}", text(&waited), world.said());

    // Everything around the seeds was fetched, and nothing else was asked for.
    hosts.inside.push(late);
    let asked = world.asked_for();
    for place in
        world.truth_of(&hosts.inside[..hosts.inside.len() - 1]).iter().chain(&world.truth_of(&[late]))
    {
        assert!(asked.contains(place), "{} was not asked for", world.web.world().url(*place));
    }
    for place in &asked {
        let url = world.web.world().url(*place);
        assert!(hosts.inside.contains(&place.host), "{url} is around no seed");
    }
    // Any node gives the number of a seed, and the reason why a seed was not fetched.
    let number = CLOSED_SEEDS / 2 + 1;
    for said in world.explained_by_all(&world.url(hosts.inside[0], 3)) {
        let scope = said["scope"].to_string();
        assert!(scope.contains(&format!("seed {number}")), "{scope}");
    }
    for said in world.explained_by_all(&other) {
        assert!(said["scope"].to_string().contains("scope=host of "), "{said}");
    }
    for n in [0, 1, CLOSED_SEEDS / 2, CLOSED_SEEDS - 1] {
        let host = hosts.closed[n % hosts.closed.len()];
        let said = world.explain(n % 3, &format!("{}named-by-somebody/{n}", world.url(host, 0)));
        assert_eq!((&said["summary"], &said["depth"]), (&"robots".into(), &0.into()), "{said}");
    }
    let shown = text(&world.say(&["job", "show", "big"]));
    assert!(shown.contains(&format!("around {} seeds", count + 1)) && shown.contains("complete"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_01_a_list_that_was_cut_short_is_said_and_finished_by_the_same_words() {
    use nephila_core::cluster::member::NodeRecord;
    use nephila_core::cluster::{Incarnation, NodeId};
    let (mut world, hosts) = World::of_many().await;
    world.start_nodes(&["one", "two"], 3);
    let file = world.seeds_file(&hosts);
    let create = ["job", "create", "big", "--scope", "host", "-d", "255", "-i", file.as_str()];

    // While a node of an older version lives, which would read such a job as one without seeds, no such job can be
    // made.
    let elder = NodeRecord {
        node: NodeId::of("elder"),
        incarnation: Incarnation(1 << 60),
        name: "elder".to_owned(),
        ..NodeRecord::default()
    };
    let client = async_nats::connect(world.nats.urls()).await.unwrap();
    client.publish("neph.nephila.lease.node.elder", elder.encode().into()).await.unwrap();
    client.flush().await.unwrap();
    let refused = world.say(&create);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("node elder is of an older version"), "{}", text(&refused));
    world.wait("the lease of the old node ends", |world| {
        !text(&world.say(&["cluster", "status"])).contains("elder")
    });

    // The state after a command that was killed while sending its list.
    let job = r#"{"name":"big","scope":{"kind":"host","depth_max":255}}"#;
    let begun = world.post(0, "jobs?list=true", job);
    assert_eq!(begun.status, 201, "{}", begun.text());
    let seeds = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = seeds.lines().collect();
    let half = world.post(1, "jobs/big/seeds", &lines[..lines.len() / 2 + 5].join("\n"));
    assert_eq!((half.status, &half.json()["refused"]), (200, &0.into()), "{}", half.text());
    for node in 0..2 {
        let shown = text(&world.tell(node, &["job", "show", "big"]));
        assert!(shown.contains("are listed so far") && shown.contains("goes on"), "{shown}");
    }
    let added = world.say(&["add", "big", &world.url(hosts.inside[0], 0), "--seed"]);
    assert!(text(&added).contains("are being listed"), "{}", text(&added));
    let waited = world.say(&["job", "wait", "big", "--timeout", "10s"]);
    assert_eq!(waited.status.code(), Some(24), "it is not complete: {}", text(&waited));
    assert!(world.asked_for().is_empty(), "nothing is fetched before all seeds are known");

    // The same command continues where the first stopped, through a node; another command is another job.
    let other = world.say(&["job", "create", "big", "--scope", "domain", "-i", &file]);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
    let created = world.tell(1, &create);
    assert!(created.status.success(), "{}", text(&created));
    assert!(text(&created).contains("was begun before"), "{}", text(&created));
    assert!(text(&created).contains(&format!("{} seeds sent", lines.len())), "{}", text(&created));
    let shown = text(&world.say(&["job", "show", "big"]));
    assert!(shown.contains(&format!("around {} seeds", lines.len())), "each counts once: {shown}");
    let waited = world.say(&["job", "wait", "big", "--timeout", "110s"]);
    assert_eq!(waited.status.code(), Some(0), "{}\n{}", text(&waited), world.said());
    let (asked, wanted) = (world.asked_for(), world.truth_of(&hosts.inside));
    assert!(wanted.is_subset(&asked), "{} of {}", asked.len(), wanted.len());
    assert!(asked.iter().all(|place| hosts.inside.contains(&place.host)));
}
