//! Politeness of all nodes and all jobs together towards a host and an address.

use nephila_testweb::check::Politeness;

use super::*;

/// Rests that are set, and judged at the server.
const HOST_REST: Duration = Duration::from_millis(600);
const ADDRESS_REST: Duration = Duration::from_millis(200);
/// Requests that are judged.
const REQUESTS: u64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn pol_02_pol_21_three_nodes_and_two_jobs_are_as_polite_to_an_address_as_one() {
    let mut world = World::start(&[]).await;
    // Twenty hosts live on four addresses, wherever their partitions are.
    world.more = [
        format!("frontier.host_delay={}ms", HOST_REST.as_millis()),
        format!("frontier.slot_delay={}ms", ADDRESS_REST.as_millis()),
        "frontier.slot_connections=1".into(),
    ]
    .into();
    for name in ["one", "two", "three"] {
        let node = world.start_node(name);
        world.nodes.push(node);
    }
    world.wait_for_owners(1);
    // Two jobs want every host; each begins with pages of its own.
    for (name, page) in [("press", 0), ("science", 7)] {
        let seeds: Vec<String> = (0..HOSTS).map(|host| world.url(host, page)).collect();
        let mut args = vec!["job", "create", name, "--scope", "host"];
        args.extend(seeds.iter().map(String::as_str));
        let created = world.tell(0, &args);
        assert!(created.status.success(), "{}", text(&created));
    }
    // The seeds of the second job come late if its command does.
    let seeds = [0, 7].map(|page| world.url(1, page));
    world.wait("enough was asked for, of both jobs", |world| {
        let log = world.web.journal().log();
        let is_asked = |url: &String| {
            log.requests.iter().any(|request| url.ends_with(&format!("{}{}", request.host, request.path)))
        };
        log.requests.len() as u64 >= REQUESTS && seeds.iter().all(is_asked)
    });
    let log = world.web.journal().log();
    let rules = Politeness {
        host_rest: HOST_REST,
        address_rest: ADDRESS_REST,
        // A connection that is closed is gone a moment later at the server.
        closing_grace: Duration::from_secs(1),
        ..Politeness::default()
    };
    let report = rules.check(&log);
    assert!(report.judged >= REQUESTS && report.is_clean(), "{report:?}");
    // Without turns the limit would not hold: the nodes do share the addresses.
    let by_address = log.requests.iter().fold(BTreeMap::<_, usize>::new(), |mut by_address, request| {
        *by_address.entry(request.local).or_default() += 1;
        by_address
    });
    assert!(by_address.values().all(|count| *count >= 10), "{by_address:?}");
}
