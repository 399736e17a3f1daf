//! Three nodes on a real NATS server, asked over HTTP and by commands: any node answers for any URL, regardless of its
//! owner, and says when to retry if no node can.

// When a job is complete.
mod completion;
// The events of a cluster.
mod events;
// Addresses inside, which must never be fetched.
mod inside;
// What a cluster says about the whole crawl.
mod overview;
// Pins of domains to nodes.
mod pins;
// Where new domains go.
mod placement;
// Pages with their resources, and reads that wait for the crawl.
mod reading;
// Redirects from one node to another.
mod redirects;
// Seeds that are many.
mod seeds;
// One domain on many nodes.
mod spread;
// Captures in the object store.
mod stored;
// Stops of hosts, domains and addresses.
mod stops;
// Rests and limits of all nodes together.
mod together;
// Authentication and permissions.
mod trust;
mod whole;
// The nodes, the servers and the web.
mod world;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nephila_testweb::Settings;
use nephila_testweb::model::{Place, What};
use serde_json::Value;

use self::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn any_node_answers_for_any_url() {
    let mut world = paused().await;
    // Every URL is explained equally by every node.
    let mut summaries = BTreeMap::<String, usize>::new();
    for page in 0..3 {
        for host in 0..HOSTS {
            let url = world.url(host, page);
            let said = world.explained_by_all(&url);
            for one in &said {
                for field in EXPLAINED {
                    assert_eq!(one[field], said[0][field], "{field} of {url}");
                }
            }
            *summaries.entry(said[0]["summary"].to_string()).or_default() += 1;
            let host = world.get(0, &format!("host?url={url}")).unwrap();
            assert_eq!(
                host.json()["origin"],
                world.get(2, &format!("host?url={url}")).unwrap().json()["origin"]
            );
        }
    }
    assert!(summaries.len() >= 3, "fetched, queued and out of scope: {summaries:?}");

    // A page is read through nodes that did not fetch the page.
    let url = world.find("fetched");
    let pages: Vec<Reply> = (0..3).map(|node| world.page(node, &url)).collect();
    for page in &pages {
        assert_eq!((page.status, &page.fields["nephila-url"]), (200, &url), "{}", page.text());
        assert_eq!(page.body, pages[0].body);
        assert_eq!(page.fields["nephila-archive"], pages[0].fields["nephila-archive"]);
    }
    for node in 0..3 {
        let read = world.tell(node, &["read", &url]);
        assert!(read.status.success() && read.stdout.starts_with(b"<!"), "{}", text(&read));
        let record = world.tell(node, &["read", "--warc", &url]);
        assert!(record.stdout.starts_with(b"WARC/1.1\r\n"), "{}", text(&record));
    }
    let head = world.get(1, &format!("pages?as=headers&url={url}")).unwrap();
    assert!(head.text().starts_with("HTTP/1.1 200"), "{}", head.text());

    // Archives of several nodes can be put into one place (OUT-04).
    for node in &world.nodes {
        let files = std::fs::read_dir(node.folder.join("archive")).unwrap();
        let names: Vec<String> =
            files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect();
        let mut archives = names.iter().filter(|name| name.contains(".warc"));
        assert!(archives.all(|name| name.contains(&format!("-{}.warc", node.name))), "{names:?}");
    }

    // Wanted URLs come later, unwanted ones never.
    let queued = world.find("queued");
    for node in 0..3 {
        let page = world.page(node, &queued);
        assert_eq!(page.status, 503, "{}", page.text());
        assert!(page.fields["retry-after"].parse::<u64>().unwrap() > 0, "{page:?}");
        let out = world.page(node, &world.url(HOSTS - 1, 0));
        assert_eq!(out.status, 404, "{}", out.text());
        assert!(out.text().contains("out of scope"), "{}", out.text());
    }
    assert_eq!(world.tell(2, &["read", &queued]).status.code(), Some(8));
    assert_eq!(world.tell(2, &["read", &world.url(HOSTS - 1, 0)]).status.code(), Some(1));

    // Without the token there is no answer; a request that makes no sense is the caller's error.
    for fields in [&[][..], &[("authorization", "Bearer wrong")]] {
        let refused = world.request(0, "GET", "stats", fields, "").unwrap();
        assert_eq!(refused.status, 401, "{}", refused.text());
    }
    for (target, status) in [
        ("explain", 400),
        ("pages?url=mailto:x", 400),
        ("pages?as=cake&url=http://a.test/", 400),
        ("jobs/nobody", 404),
        ("cake", 404),
        ("urls", 405),
        ("cluster", 200),
        ("cluster/partitions", 200),
        ("node", 200),
    ] {
        let reply = world.get(0, target).unwrap();
        assert_eq!(reply.status, status, "{target}: {}", reply.text());
    }
    let token = format!("Bearer {TOKEN}");
    let post = |target, body| {
        world.request(2, "POST", target, &[("authorization", &token)], body).expect("an answer").status
    };
    assert_eq!(post("jobs", r#"{"name":"press","scope":{"seeds":["http://a.test/"]}}"#), 409);
    assert_eq!(post("jobs", r#"{"name":"a/b","scope":{"seeds":["http://a.test/"]}}"#), 400);
    assert_eq!(post("jobs", "{"), 400);
    assert_eq!(post("cluster/drain/nobody", ""), 404);

    // The folder of a node is asked as that of a crawl is.
    let owner = &pages[0].fields["nephila-archive"];
    let node = world.nodes.iter().find(|node| node.name == *owner).unwrap();
    let folder = node.folder.display().to_string();
    for (args, code) in [
        (vec!["explain", &url], 0),
        (vec!["read", &url], 0),
        (vec!["cdx", &url], 0),
        (vec!["log"], 0),
        (vec!["report", "hosts"], 0),
        (vec!["stats"], 0),
        (vec!["politeness", "report"], 0),
        (vec!["report", "seeds"], 2),
    ] {
        let asked = world.ask(&[&args[..], &["-o", &folder]].concat());
        assert_eq!(asked.status.code(), Some(code), "{args:?}: {}", text(&asked));
    }

    // If no server is there, the message says so and names the things to check.
    for args in [vec!["explain", &url], vec!["job", "list"]] {
        let nobody = world.ask(&[&args[..], &["--node", "http://127.0.0.1:9"]].concat());
        assert_eq!(nobody.status.code(), Some(8), "{}", text(&nobody));
        assert!(text(&nobody).contains("`nephila serve`"), "{}", text(&nobody));
    }

    // When the servers are away, a node says so.
    world.nats.kill(0).unwrap();
    world.wait("the alarm is raised", |world| {
        let status = world.get(1, "cluster").expect("an answer").json();
        status["alarms"].to_string().contains("the NATS servers do not answer")
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_changes_while_it_runs_and_urls_are_added() {
    let world = begun().await;
    let set = world.tell(2, &["job", "set", "press", "--exclude", "/p/2", "--limit-per-host", "500"]);
    assert!(set.status.success(), "{}", text(&set));
    let shown = world.tell(0, &["job", "show", "press"]);
    assert!(text(&shown).contains("/p/2") && text(&shown).contains("500 pages"), "{}", text(&shown));
    // The owner of every host knows of the change soon, and requests no such page from then on, queued or not.
    for host in 0..HOSTS - 1 {
        let excluded = format!("{}p/2-nobody", world.url(host, 0));
        world
            .wait("every node knows of it", |world| world.explain(0, &excluded)["summary"] == "out-of-scope");
        assert_eq!(world.page(1, &excluded).status, 404, "{excluded}");
    }
    let known_at = world.web.journal().now_us() + GRACE_US;
    let nothing = world.tell(0, &["job", "set", "press"]);
    assert_eq!(nothing.status.code(), Some(2), "{}", text(&nothing));
    let wrong = world.tell(0, &["job", "set", "press", "--priority", "77"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));

    // One is taken, one is out of scope, one is none.
    let (known, outside) = (world.url(0, 0), world.url(HOSTS - 1, 0));
    let added = world.tell(1, &["add", "press", &known, &outside, "mailto:x@y", "--json"]);
    let said: Value = serde_json::from_slice(&added.stdout).unwrap_or_default();
    assert_eq!(
        (added.status.code(), &said["taken"], &said["refused"]),
        (Some(1), &1.into(), &2.into()),
        "{said}"
    );
    assert!(said["refusals"][0]["why"].as_str().unwrap().contains("out of scope"), "{said}");
    let lines = format!("# a comment\n{{\"url\":\"{known}\",\"priority\":0}}\n{{\"url\":1}}\n");
    let token = format!("Bearer {TOKEN}");
    let reply = world.request(0, "POST", "urls?job=press", &[("authorization", &token)], &lines).unwrap();
    assert_eq!((reply.status, &reply.json()["taken"], &reply.json()["refused"]), (202, &1.into(), &1.into()));
    let nobody = world.tell(1, &["add", "nobody", &known]);
    assert_eq!(nobody.status.code(), Some(2), "{}", text(&nobody));

    // A seed brings its scope along. The servers are told directly, without a node.
    let seeded = world.say(&["add", "press", "--seed", &outside]);
    assert!(seeded.status.success(), "{}", text(&seeded));
    world.wait("the new seed is fetched", |world| world.page(1, &outside).status == 200);
    world.wait("queued pages were turned away", |world| {
        let urls = (20..30).flat_map(|page| (0..HOSTS - 1).map(move |host| (host, page)));
        let mut urls = urls.map(|(host, page)| world.url(host, page));
        urls.any(|url| world.explain(0, &url)["last"]["outcome"] == "out-of-scope")
    });
    let asked = world.web.journal().log().requests;
    let late = asked.iter().find(|asked| asked.path.starts_with("/p/2") && asked.start_us > known_at);
    assert!(late.is_none(), "{late:?}");
    assert!(asked.iter().any(|asked| asked.start_us > known_at), "others go on");
    // A command to the servers and a command to a node have the same effect.
    let state = || {
        serde_json::from_slice::<Value>(&world.say(&["job", "list", "--json"]).stdout).unwrap()["state"]
            .clone()
    };
    for (verb, then) in [("pause", "paused"), ("resume", "running"), ("stop", "stopped")] {
        let said = world.say(&["job", verb, "press"]);
        assert!(said.status.success() && state() == then, "{}", text(&said));
    }
    let stopped = world.tell(2, &["job", "stop", "press"]);
    assert!(stopped.status.success() && state() == "stopped", "{}", text(&stopped));
    let late = world.tell(2, &["add", "press", &known]);
    assert!(text(&late).contains("stopped"), "{}", text(&late));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_dies_is_answered_for_again() {
    let mut world = paused().await;
    let url = world.find("fetched");
    let owner = world.page(0, &url).fields["nephila-archive"].clone();
    let dead = world.nodes.iter().position(|node| node.name == owner).unwrap();
    let other = (dead + 1) % 3;
    let before = world.page(other, &url).body;
    world.nodes[dead].child.kill().unwrap();
    world.nodes[dead].child.wait().unwrap();
    let orphan = world.page(other, &url);
    assert_eq!(orphan.status, 503, "{}", orphan.text());
    assert!(orphan.fields.contains_key("retry-after"), "{orphan:?}");
    world.wait("somebody else owns it", |world| {
        let reply = world.get(other, &format!("explain?url={url}")).expect("an answer");
        reply.status == 200 && reply.json()["summary"] == "fetched"
    });
    world.wait("all that it had is owned again", |world| {
        world.tell(other, &["cluster", "status", "--json"]).status.success()
    });
    // Its capture lies on a node that does not answer.
    let lost = world.page(other, &url);
    assert_eq!(lost.status, 503, "{}", lost.text());
    // The capture is found again when its node is back, regardless of the owner by then.
    let name = world.nodes[dead].name.clone();
    world.nodes[dead] = world.start_node(&name);
    world.wait("the capture is back", |world| {
        let page = world.page(other, &url);
        page.status == 200 && page.body == before && page.fields["nephila-archive"] == name
    });

    // The node leaves on command, through any node.
    let drained = world.tell(other, &["cluster", "drain", &name]);
    assert!(drained.status.success(), "{}", text(&drained));
    let began = Instant::now();
    let code = loop {
        if let Some(status) = world.nodes[dead].child.try_wait().unwrap() {
            break status.code();
        }
        assert!(began.elapsed() < PATIENCE, "{}", world.said());
        std::thread::sleep(LOOK);
    };
    assert_eq!(code, Some(11), "{}", world.said());
}

#[test]
fn a_node_that_others_reach_does_not_start_without_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("node").display().to_string();
    let serve = |listen: &str| {
        Command::new(PROGRAM)
            .args(["serve", "-o", &folder, "--set", &format!("api.listen={listen}")])
            .args(["--set", "cluster.servers=[\"nats://127.0.0.1:9\"]"])
            .env("NEPHILA_CONFIG", "/dev/null")
            .output()
            .unwrap()
    };
    let refused = serve("0.0.0.0:0");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("api.token_file"), "{}", text(&refused));
    let nonsense = serve("somewhere");
    assert_eq!(nonsense.status.code(), Some(2), "{}", text(&nonsense));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_given_to_two_nodes_counts_once_and_any_node_knows_the_feeds() {
    let world = World::start(&["one", "two"]).await;
    let home = world.url(0, 0);
    let created = world.tell(0, &["job", "create", "press", "--scope", "page", &home]);
    assert!(created.status.success(), "{}", text(&created));
    let urls: Vec<String> = (1..10).map(|host| world.url(host, 0)).collect();
    let give = |node: usize, minute: u64, tag: &str| {
        let line = |url: &String| {
            format!("b{minute}\t5\t2026111512{minute:02}00\thttp://page.test/\t{url}\t2\t{tag}\n")
        };
        let path = world.dir.path().join(format!("lines-{minute}"));
        std::fs::write(&path, urls.iter().map(line).collect::<String>()).expect("a file");
        let path = path.display().to_string();
        let given = world.tell(node, &["add", "press", "--reflog", &path, "--json"]);
        assert!(given.status.success(), "{}", text(&given));
        let said: Value = serde_json::from_slice(&given.stdout).expect("JSON");
        assert_eq!((&said["urls"], &said["refused"]), (&9.into(), &0.into()));
    };
    // How often each was asked for, by the server's own journal.
    let mut asked = BTreeMap::<String, u32>::new();
    let mut count = |world: &World| {
        for request in world.web.journal().take().requests {
            if request.path != "/robots.txt" {
                *asked.entry(format!("{}{}", request.host, request.path)).or_default() += 1;
            }
        }
        asked.values().copied().collect::<Vec<u32>>()
    };
    give(0, 0, "x");
    give(1, 0, "x");
    world.wait("every page", |world| count(world).len() == 10);
    // Some are still under way: a changed tag counts for them too.
    // Within the hour and unchanged, then changed: the changed one comes behind the other.
    give(1, 20, "x");
    give(0, 30, "y");
    give(1, 30, "y");
    world.wait("every page again", |world| {
        let asked = count(world);
        asked.iter().sum::<u32>() > 2 * 9
    });
    world.wait_until_still();
    let mut sorted = count(&world);
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2], "each batch counts once, whoever brings it");
    world.wait_until_written();

    // The same over HTTP, without an id and with lines that cannot be read.
    let line = format!("b40\t5\t20261115124000\t\t{}\t2\tz\nhalf a line\n", urls[1]);
    for node in 0..2 {
        let token = format!("Bearer {TOKEN}");
        let reply = world.request(node, "POST", "reflog?job=press", &[("authorization", &token)], &line);
        let reply = reply.expect("an answer");
        assert_eq!(reply.status, 202, "{}", reply.text());
        let said = reply.json();
        assert_eq!((&said["lines"], &said["urls"], &said["unreadable"]), (&1.into(), &1.into(), &1.into()));
    }
    world.wait("it once more", |world| count(world).iter().sum::<u32>() == 1 + 2 * 9 + 1);
    world.wait_until_written();

    // A page is no feed, and both nodes say so.
    let added = world.tell(1, &["feed", "add", &urls[0], "--job", "press"]);
    assert!(added.status.success(), "{}", text(&added));
    for node in 0..2 {
        world.wait("the feed was asked", |world| {
            let listed = world.tell(node, &["feed", "list", "--json"]);
            let said: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            said["url"] == *urls[0] && said["polls"][0]["found"] == "not-a-feed"
        });
        assert!(text(&world.tell(node, &["feed", "show", &urls[0]])).contains("not-a-feed"));
    }
}
