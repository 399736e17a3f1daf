//! Captures can be queried: `nephila read` and `nephila cdx` over an archive of `nephila fetch`.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::support::World;

/// Timeout of a query.
const ANSWER_MAX: Duration = Duration::from_secs(20);

async fn ask(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nephila"));
    command
        .args(args)
        .arg("-o")
        .arg(folder)
        .env_remove("NEPHILA_CONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    tokio::time::timeout(ANSWER_MAX, command.output()).await.expect("an answer").expect("the command runs")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test]
async fn what_was_fetched_can_be_read_back_whatever_its_coding() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let page = world.web.url("good", "/page");
    let coded =
        ["/gzip", "/deflate", "/br", "/zstd", "/chunked", "/close"].map(|path| world.web.url("good", path));
    let run = world.fetch().args(["--warc", folder.path().to_str().unwrap()]).url(&page).urls(coded.clone());
    assert_eq!(run.run().await.code, 0);

    let body = ask(folder.path(), &["read", &page]).await;
    assert_eq!(body.status.code(), Some(0), "{}", String::from_utf8_lossy(&body.stderr));
    assert!(text(&body).contains("<html"), "{}", text(&body));
    for url in &coded {
        assert_eq!(text(&ask(folder.path(), &["read", url]).await), text(&body), "{url}");
    }
    let raw = ask(folder.path(), &["read", &coded[0], "--raw"]).await;
    assert!(raw.stdout.starts_with(&[0x1f, 0x8b]), "as it was sent");
    let head = text(&ask(folder.path(), &["read", &coded[0], "--headers"]).await);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.to_ascii_lowercase().contains("content-encoding: gzip"), "{head}");
    let record = text(&ask(folder.path(), &["read", &page, "--warc"]).await);
    assert!(record.starts_with("WARC/1.1\r\n") && record.contains(&page), "{record}");
    let plain = text(&ask(folder.path(), &["read", &coded[0], "--text"]).await);
    assert!(!plain.contains('<') && !plain.trim().is_empty(), "{plain}");
    let about: Value =
        serde_json::from_slice(&ask(folder.path(), &["read", &page, "--json"]).await.stdout).unwrap();
    assert_eq!(about["status"], "200");

    let missing = ask(folder.path(), &["read", &world.web.url("good", "/never")]).await;
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(1), 0));
    let nowhere = ask(Path::new("/nonexistent"), &["read", &page]).await;
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("-o DIR"), "it says what to do");
}

#[tokio::test]
async fn captures_are_listed_as_the_index_has_them() {
    let (world, folder) = (World::start().await, tempfile::tempdir().unwrap());
    let urls = ["/page", "/text", "/404", "/redirect"].map(|path| world.web.url("good", path));
    let archive = folder.path().to_str().unwrap();
    world.fetch().args(["--warc", archive]).urls(urls.clone()).run().await;
    world.fetch().args(["--warc", archive]).url(&urls[0]).run().await;

    let index = std::fs::read_to_string(folder.path().join("indexes/index.cdxj")).unwrap();
    let all = ask(folder.path(), &["cdx", &urls[0], "--match", "host"]).await;
    let pages: Vec<&str> = index.lines().filter(|line| line.contains("good")).collect();
    assert_eq!(text(&all).lines().collect::<Vec<_>>(), pages);
    let one = text(&ask(folder.path(), &["cdx", &urls[0]]).await);
    assert_eq!(one.lines().count(), 2, "fetched twice: {one}");
    assert!(one.contains("warc/revisit"), "{one}");
    // The revisit has a body.
    assert!(text(&ask(folder.path(), &["read", &urls[0]]).await).contains("<html"));
    let limited = text(&ask(folder.path(), &["cdx", &urls[0], "--match", "host", "--limit", "1"]).await);
    assert_eq!(limited.lines().count(), 1);
    let json = text(&ask(folder.path(), &["cdx", &urls[2], "--json"]).await);
    let line: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&line["status"], &line["url"]), (&"404".into(), &urls[2].as_str().into()));
    let none = ask(folder.path(), &["cdx", "http://nobody.test/", "--match", "domain"]).await;
    assert_eq!(none.status.code(), Some(1));
    let wrong = ask(folder.path(), &["cdx", &urls[0], "--from", "yesterday"]).await;
    assert_eq!(wrong.status.code(), Some(2));
}
