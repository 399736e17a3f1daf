//! Pages whose resources are of other nodes, and reads that wait for the crawl.

use super::*;
use crate::reading::Gallery;

#[tokio::test(flavor = "multi_thread")]
async fn e10_any_node_gathers_a_page_whose_resources_are_of_others() {
    let gallery = Gallery::start();
    let mut world = World::start(&[]).await;
    let (http, https) = (world.web.http_port(), world.web.https_port());
    // The gallery has a port of its own. Each of its hosts has five images; reads wait for them.
    world.more = vec![
        format!("spider.ports=[{http}, {https}, {}]", gallery.port),
        "frontier.host_delay=1s".into(),
        "handler.page_requisites=true".into(),
        "api.reads=when-ready".into(),
    ];
    world.start_nodes(&["one", "two", "three"], 3);
    let created = world.tell(0, &["job", "create", "press", "--scope", "page", &gallery.page]);
    assert!(created.status.success(), "{}", text(&created));
    let waited = world.say(&["job", "wait", "press", "--timeout", "100s"]);
    assert_eq!(waited.status.code(), Some(0), "{}\n{}", text(&waited), world.said());
    // Probes need no token.
    let ready = |world: &World, node: usize, wait: &str| {
        world.request(node, "GET", &format!("/readyz?for=reads{wait}"), &[], "").expect("an answer").status
    };
    let all_ready = |world: &World| (0..3).all(|node| ready(world, node, "&wait=20s") == 200);
    world.wait("all nodes are ready", all_ready);

    let whole = format!("pages?with=resources&url={}", gallery.page);
    for node in 0..3 {
        let page = world.get(node, &whole).expect("an answer");
        assert_eq!((page.status, &*page.fields["nephila-missing"]), (200, "0"), "{}", page.text());
        gallery.check(&page.body);
    }
    let read = world.tell(2, &["read", "--complete", &gallery.page]);
    assert!(read.status.success() && read.stderr.is_empty(), "{}", text(&read));
    gallery.check(&read.stdout);
    let fetched: Vec<usize> = (0..3).map(|node| world.lines(node).len()).collect();
    assert!(fetched.iter().filter(|count| **count > 0).count() > 1, "one node has them all: {fetched:?}");

    // The owner of the page has more to do: who reads the page waits again, at any node.
    let more: Vec<String> = (0..5).map(|number| format!("{}more-{number}", gallery.page)).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let added = world.tell(1, &[&["add", "press", "--seed"], &more[..]].concat());
    assert!(added.status.success(), "{}", text(&added));
    world.wait("its owner crawls", |world| (0..3).any(|node| ready(world, node, "") == 503));
    for node in 0..3 {
        let page = world.get(node, &whole).expect("an answer");
        assert_eq!((page.status, &*page.fields["retry-after"]), (503, "5"), "{}", page.text());
    }
    world.wait("all nodes are ready again", all_ready);
    gallery.check(&world.get(1, &whole).expect("an answer").body);
}
