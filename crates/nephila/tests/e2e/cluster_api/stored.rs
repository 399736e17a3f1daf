//! Captures that no live node has on its disk: they are read from the object store.

use std::collections::BTreeSet;

use super::*;

impl World {
    /// URLs of captures in the indexes that a node has sent to the object store.
    fn sent(&self, node: &str) -> BTreeSet<String> {
        let mut urls = BTreeSet::new();
        let clusters = std::fs::read_dir(self.dir.path().join("objects")).into_iter().flatten().flatten();
        for cluster in clusters {
            let archive = cluster.path().join("archive").join(node);
            for index in std::fs::read_dir(archive).into_iter().flatten().flatten() {
                if index.path().extension().is_some_and(|ending| ending == "cdxj") {
                    let lines = std::fs::read_to_string(index.path()).unwrap_or_default();
                    let json = lines.lines().filter_map(|line| line.get(line.find('{')?..));
                    let values = json.filter_map(|json| serde_json::from_str::<Value>(json).ok());
                    let pages =
                        values.filter(|value| value["status"] == "200" && value["mime"] == "text/html");
                    urls.extend(pages.filter_map(|value| Some(value["url"].as_str()?.to_owned())));
                }
            }
        }
        urls
    }

    /// WARC files that a node has on its disk.
    fn files(&self, node: usize) -> usize {
        let files =
            std::fs::read_dir(self.nodes[node].folder.join("archive")).into_iter().flatten().flatten();
        files.filter(|file| file.file_name().to_string_lossy().ends_with(".warc.gz")).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ops_03_captures_of_a_dead_node_are_read_from_the_object_store() {
    let mut world = World::start(&[]).await;
    world.more = vec![
        format!("cluster.objects=file://{}", world.dir.path().join("objects").display()),
        "cluster.archive_upload=closed".into(),
        // Files close soon, and leave the disk as soon as they are in the store.
        "cluster.archive_keep_local=1s".into(),
        "store.bytes_max=20000".into(),
        "frontier.host_delay=100ms".into(),
    ];
    world.start_nodes(&["one", "two"], 3);
    let homes: Vec<String> = (0..HOSTS - 1).map(|host| world.url(host, 0)).collect();
    let mut args = vec!["job", "create", "press", "--scope", "host"];
    args.extend(homes.iter().map(String::as_str));
    let created = world.tell(0, &args);
    assert!(created.status.success(), "{}", text(&created));
    let waited = world.say(&["job", "wait", "press", "--timeout", "110s"]);
    assert!(waited.status.success(), "{}", text(&waited));
    world.wait("closed files are sent and gone", |world| {
        world.files(0) + world.files(1) == 0 && !world.sent("one").is_empty() && !world.sent("two").is_empty()
    });

    // A capture that has left the disk of its node can still be read, through either node.
    let (ours, mut theirs) = (world.sent("one"), world.sent("two"));
    // What was under way when a partition moved may have been fetched by both.
    theirs.retain(|url| !ours.contains(url));
    let before: Vec<Reply> = ours.iter().chain(&theirs).map(|url| world.page(0, url)).collect();
    for (page, url) in before.iter().zip(ours.iter().chain(&theirs)) {
        assert_eq!((page.status, page.fields.get("nephila-url")), (200, Some(url)), "{}", page.text());
    }

    // And when that node is gone for good.
    world.nodes.remove(1);
    world.wait("the other has everything", |world| {
        let status = world.say(&["cluster", "status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        status["without_owner"] == 0 && status["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1)
    });
    for (url, before) in theirs.iter().zip(&before[ours.len()..]) {
        // Its partition has an owner, who may still be opening the partition: 503 until then.
        world.wait("the new owner answers", |world| world.page(0, url).status != 503);
        let page = world.page(0, url);
        assert_eq!((page.status, &*page.fields["nephila-archive"]), (200, "two"), "{url}: {}", page.text());
        assert_eq!(page.body, before.body, "{url}");
    }
    println!("{} pages of one, {} of two, which is gone", ours.len(), theirs.len());
    assert!(ours.len() > 10 && theirs.len() > 10, "{} {}", ours.len(), theirs.len());
    let record = world.tell(0, &["read", "--warc", theirs.first().unwrap()]);
    assert!(record.stdout.starts_with(b"WARC/1.1\r\n"), "{}", text(&record));
    let never = world.page(0, &format!("{}never", homes[0]));
    assert_eq!(never.status, 404, "what was never asked for lies nowhere: {}", never.text());
}
