//! Redirects, loops and doubtful TLS in the archive: every hop once, nothing good overwritten, every doubt recorded.

use std::fs::File;
use std::path::Path;

use nephila_store::verify::verify_path;
use nephila_store::warc::{Collect, Reader};

use crate::support::{Ran, World};

/// One record of an archive.
struct Stored {
    kind: String,
    url: String,
    truncated: Option<String>,
    block: String,
}

/// Every record of every file, after the strict check has found nothing.
fn stored(folder: &Path) -> Vec<Stored> {
    let report = verify_path(folder).unwrap();
    assert_eq!((report.findings_total, report.findings), (0, vec![]));
    let mut all = Vec::new();
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join("archive")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.to_string_lossy().contains(".warc")) {
        let mut reader = Reader::new(File::open(path).unwrap());
        loop {
            let mut block = Collect::default();
            let Some(record) = reader.read(&mut block).unwrap() else { break };
            let field = |name: &str| record.header.get(name).map(str::to_owned);
            all.push(Stored {
                kind: field("WARC-Type").unwrap(),
                url: field("WARC-Target-URI").unwrap_or_default(),
                truncated: field("WARC-Truncated"),
                block: String::from_utf8_lossy(&block.0).into_owned(),
            });
        }
    }
    all
}

/// The answers stored for a URL: whole ones and revisits.
fn answers<'a>(stored: &'a [Stored], url: &str) -> Vec<&'a Stored> {
    let is_answer =
        |record: &&Stored| matches!(record.kind.as_str(), "response" | "revisit") && record.url == url;
    stored.iter().filter(is_answer).collect()
}

/// The lines of the index for a URL.
fn indexed(folder: &Path, url: &str) -> Vec<String> {
    let index = std::fs::read_to_string(folder.join("indexes").join("index.cdxj")).unwrap();
    let wanted = format!("\"url\": \"{url}\"");
    index.lines().filter(|line| line.contains(&wanted)).map(str::to_owned).collect()
}

async fn archive(world: &World, folder: &Path, flags: &[&str], urls: &[&str]) -> Ran {
    world
        .fetch()
        .args(["--warc", folder.to_str().unwrap()])
        .args(flags.iter().copied())
        .urls(urls.iter().copied())
        .run()
        .await
}

#[tokio::test]
async fn red_01_every_hop_of_a_loop_is_in_the_archive() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let (a, b) = (world.web.url("red-01", "/a"), world.web.url("red-01", "/b"));
    archive(&world, folder.path(), &["-L"], &[&a]).await;
    let all = stored(folder.path());
    assert_eq!((answers(&all, &a).len(), answers(&all, &b).len()), (1, 1));
    let notes = all.iter().find(|record| record.kind == "metadata" && record.url == b).unwrap();
    assert!(notes.block.contains(&format!("via: {a}")), "{}", notes.block);
}

#[tokio::test]
async fn red_13_a_site_that_moved_has_one_record_per_old_url_and_one_page() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let old = [
        world.web.url("red-13", "/page"),
        world.web.url("www.red-13", "/page"),
        world.web.https_url("www.red-13", "/page"),
    ];
    let new = world.web.https_url("red-13", "/page");
    let ran = archive(&world, folder.path(), &["-L"], &old.each_ref().map(String::as_str)).await;
    assert_eq!((ran.lines.len(), ran.code), (4, 0), "{:?} {}", ran.outcomes(), ran.complaints);
    let all = stored(folder.path());
    for url in old.iter().chain([&new]) {
        assert_eq!(answers(&all, url).len(), 1, "{url}");
        assert_eq!(indexed(folder.path(), url).len(), 1, "{url}");
    }
    assert!(answers(&all, &new)[0].block.contains("the new site"));
    let fetched = world.web.requests("red-13").iter().filter(|seen| seen.tls && seen.path == "/page").count();
    assert_eq!(fetched, 2, "the page once, and the https of www once: no double crawl");
}

#[tokio::test]
async fn red_14_a_chain_that_ends_nowhere_does_not_hide_the_page_that_was_there() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let url = world.web.url("red-14", "/once");
    let first = archive(&world, folder.path(), &["-L"], &[&url]).await;
    assert_eq!(first.outcomes(), ["ok"]);
    let second = archive(&world, folder.path(), &["-L"], &[&url]).await;
    let limits = second.outcomes().iter().filter(|outcome| **outcome == "redirect-limit").count();
    assert_eq!((second.lines.len(), limits), (11, 1));
    let all = stored(folder.path());
    let captures = answers(&all, &url);
    assert_eq!(captures.len(), 2);
    assert!(captures[0].block.contains("<p>fine the first time</p>"), "still readable");
    let lines = indexed(folder.path(), &url);
    assert_eq!(lines.len(), 2, "and still found: {lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains("\"status\": \"200\"")).count(), 1, "{lines:?}");
    // With its name: a record may be 410 bytes long.
    let is_gone =
        |line: &String| line.contains("\"status\": \"404\"") || line.contains("\"status\": \"410\"");
    assert!(!lines.iter().any(is_gone), "nobody said that it is gone");
}

#[tokio::test]
async fn tls_01_the_archive_carries_what_is_wrong_with_a_certificate() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let urls = [world.web.https_url("tls-01", "/page"), world.web.https_url("tls-08", "/page")];
    for flags in [&[][..], &["--ignore-robots"]] {
        let refused = archive(&world, folder.path(), flags, &[&urls[0]]).await;
        assert_eq!((refused.outcomes(), refused.code), (vec!["tls-expired"], 1));
    }
    assert!(answers(&stored(folder.path()), &urls[0]).is_empty());
    let ran =
        archive(&world, folder.path(), &["--set", "spider.tls=accept-any"], &[&urls[0], &urls[1]]).await;
    ran.check_all(2, "ok");
    let all = stored(folder.path());
    let notes = |url: &str| {
        all.iter().find(|record| record.kind == "metadata" && record.url == url).unwrap().block.clone()
    };
    assert!(notes(&urls[0]).contains("certificate: tls-expired"), "{}", notes(&urls[0]));
    assert!(!notes(&urls[1]).contains("certificate"), "{}", notes(&urls[1]));
}

#[tokio::test]
async fn tls_03_a_page_with_the_wrong_name_is_never_stored_under_the_right_one() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let url = world.web.https_url("tls-03", "/page");
    let ran = archive(&world, folder.path(), &["--ignore-robots"], &[&url]).await;
    assert_eq!(ran.outcomes(), ["tls-name"]);
    assert!(answers(&stored(folder.path()), &url).is_empty());
}

#[tokio::test]
async fn tls_12_a_body_without_an_authenticated_end_is_never_called_unchanged() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let url = world.web.https_url("tls-12", "/page");
    for _ in 0..2 {
        let ran = archive(&world, folder.path(), &[], &[&url]).await;
        assert_eq!(ran.outcomes(), ["cut-disconnect"], "{}", ran.complaints);
        assert_eq!(ran.lines[0]["warc"]["kind"], "response");
    }
    let all = stored(folder.path());
    let captures = answers(&all, &url);
    assert_eq!(captures.len(), 2);
    for capture in captures {
        assert_eq!((capture.kind.as_str(), capture.truncated.as_deref()), ("response", Some("disconnect")));
        assert!(capture.block.ends_with("<p>is this all?</p>"), "what came is kept");
    }
}
