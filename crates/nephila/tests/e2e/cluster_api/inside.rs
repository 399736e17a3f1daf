//! A client with the API's token may name URLs, and reaches nothing inside by that: no address of ours, no store, no
//! folder.

use std::net::TcpListener;

use super::*;

/// Any request would have come by then: hosts rest for a part of a second here.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn ssr_12_what_is_said_over_the_api_reaches_nothing_inside() {
    let mut world = World::of(World::web()).await;
    // A server of ours, on a port that may be asked. Only the addresses of the web are open.
    let inside = TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let port = inside.local_addr().unwrap().port();
    let (http, https) = (world.web.http_port(), world.web.https_port());
    world.more = vec![
        format!("spider.ports=[{http}, {https}, {port}]"),
        "spider.allow_addresses=[\"127.77.0.0/16\"]".into(),
        "spider.dns_fixed=[\"inside.test=127.0.0.1\"]".into(),
        "frontier.host_delay=300ms".into(),
    ];
    world.start_nodes(&["one", "two"], 3);
    let home = world.url(0, 0);
    let created = world.tell(0, &["job", "create", "press", "--scope", "page", &home]);
    assert!(created.status.success(), "{}", text(&created));

    // Addresses are refused when they are said, as seeds, as lines of a stream and as a job.
    let addresses = [
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        format!("http://127.0.0.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        "http://10.0.0.1/".to_owned(),
    ];
    let name = format!("http://inside.test:{port}/");
    let all: Vec<&str> = addresses.iter().chain([&name]).map(String::as_str).collect();
    let said = world.post(1, "urls?job=press&seed=true", &all.join("\n")).json();
    assert_eq!((&said["taken"], &said["refused"]), (&1.into(), &addresses.len().into()), "{said}");
    let refusals = said["refusals"].as_array().expect("reasons");
    assert!(refusals.iter().all(|refusal| refusal["why"].to_string().contains("allow_addresses")), "{said}");
    let line = |url: &String| format!("b1\t5\t20261115120000\thttp://page.test/\t{url}\t2\tx\n");
    let said = world.post(0, "reflog?job=press", &addresses.iter().map(line).collect::<String>()).json();
    assert_eq!(said["refused"], said["urls"], "{said}");
    assert!(said["urls"].as_u64() > Some(0), "{said}");
    for address in &addresses {
        let job = serde_json::json!({"name": "metadata", "scope": {"seeds": [address]}});
        let refused = world.post(1, "jobs", &job.to_string());
        assert_eq!(refused.status, 400, "{address}: {}", refused.text());
    }

    // A name is taken, and refused at the dial.
    world.wait("the name was tried", |world| {
        let lines = [world.lines(0), world.lines(1)].concat();
        let mut of_it = lines.iter().filter(|line| line["url"].to_string().contains("inside.test"));
        of_it.any(|line| line["outcome"] == "address-private")
    });
    world.wait("what is open is fetched", |world| world.page(1, &home).status == 200);
    std::thread::sleep(LONG_ENOUGH);
    assert!(inside.accept().is_err(), "somebody came: {}", world.said());
    for url in all {
        let page = world.page(0, url);
        assert!([404, 503].contains(&page.status), "{url}: {} {}", page.status, page.text());
    }

    // Settings, stores and webhooks are named in files, and nowhere else.
    for target in ["settings", "cluster/settings", "webhooks", "snapshots", "objects"] {
        for method in ["POST", "PUT", "PATCH"] {
            let token = format!("Bearer {TOKEN}");
            let fields = [("authorization", &*token)];
            let reply = world.request(0, method, target, &fields, "{}").expect("an answer");
            assert!([404, 405].contains(&reply.status), "{method} {target}: {}", reply.text());
        }
    }
    let words = r#"{"cluster": {"snapshots": "s3://elsewhere/"}}"#;
    let token = format!("Bearer {TOKEN}");
    let reply = world.request(0, "PATCH", "jobs/press", &[("authorization", &token)], words);
    assert_eq!(reply.expect("an answer").status, 400);
}
