//! The tables of a crawl, compared with the ground truth of the test web: every capture and every link, exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nephila_tables::query;
use nephila_testweb::Settings;
use nephila_testweb::model::{PageKind, Place, Reach, TruthOptions, What};

use super::World;

/// All files of a folder with their bytes.
fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.insert(path.clone(), std::fs::read(&path).expect("a file"));
            }
        }
    }
    all
}

fn rows(tables: &Path, table: &str, columns: &[&str]) -> Vec<Vec<query::Value>> {
    let mut rows = Vec::new();
    query::each(tables, table, columns, &mut |row| rows.push(row.to_vec())).expect("the tables are read");
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_hold_every_capture_and_every_link_once_and_are_the_same_again() {
    let world = World::start(Settings {
        hosts: 4,
        pages: 200,
        page_bytes: 2_000,
        duplicate_share: 0.05,
        redirect_share: 0.06,
        error_share: 0.06,
        retry_after: Duration::from_secs(1),
        threads: 1,
        ..Settings::default()
    })
    .await;
    let (home, settings) = (world.home(), world.settings());
    let mut args: Vec<&str> = vec!["crawl", &home, "-o", "crawl", "--scope", "any", "--delay", "1ms", "-q"];
    args.extend(["--set", "tables.write=true", "--set", "store.bytes_max=100000"]);
    args.extend(["--set", "crawl.retry_wait_max=0s"]);
    args.extend(settings.iter().map(String::as_str));
    let output = world.ask(&args);
    assert!(matches!(output.status.code(), Some(0 | 23)), "{output:?}");
    let tables = world.dir.path().join("crawl/table");
    let written = bytes_of(&tables);
    assert!(written.len() > 3, "several archive files: {:?}", written.keys());

    let model = world.web.world();
    let seeds = vec![Place { host: 0, what: What::Page(0) }];
    let truth = model.truth(&TruthOptions { seeds, ..TruthOptions::default() });
    let mut captures: BTreeMap<String, (i64, u32)> = BTreeMap::new();
    let columns = ["url", "fetch_status", "title", "job", "depth", "ip"];
    for row in rows(&tables, "captures", &columns) {
        let (url, status) = (row[0].text(), row[1].number());
        let known = captures.entry(url.to_owned()).or_insert((status, 0));
        known.1 += 1;
        if url.ends_with("/robots.txt") {
            continue;
        }
        assert_eq!(row[3].text(), "crawl", "{url}");
        assert!(row[5].text().starts_with("127."), "{url}");
        assert_eq!(row[4].number() == 0, url == home, "{url}");
    }
    for (place, reach) in truth.iter() {
        let url = model.url(place);
        let found = captures.remove(&url);
        match reach {
            Reach::Page => assert_eq!(found, Some((200, 1)), "{url}"),
            Reach::Redirect => assert!(matches!(found, Some((300..400, 1))), "{url}: {found:?}"),
            Reach::Error(status) => assert_eq!(found.map(|it| it.0), Some(i64::from(status)), "{url}"),
            _ => assert_eq!(found, None, "{url}"),
        }
    }
    assert!(captures.keys().all(|url| url.ends_with("/robots.txt")), "nothing else: {captures:?}");

    let is_normal = |place: Place| match place.what {
        What::Page(page) => model.page_kind(place.host, page) == PageKind::Normal,
        _ => false,
    };
    let mut wanted: BTreeSet<(String, String)> = BTreeSet::new();
    for (place, _) in truth.iter().filter(|(place, reach)| *reach == Reach::Page && is_normal(*place)) {
        let What::Page(page) = place.what else { continue };
        let source = model.url(place);
        model.each_link(place.host, page, |to| {
            wanted.insert((source.clone(), model.url(to)));
        });
    }
    wanted.retain(|(source, target)| source != target);
    let mut found = BTreeSet::new();
    for row in rows(&tables, "links", &["source", "target", "kind", "anchor"]) {
        let (source, target) = (row[0].text().to_owned(), row[1].text().to_owned());
        let place = model.place_of_url(&source).expect("a page of the web");
        if row[2].text() != "link" || !is_normal(place) {
            continue;
        }
        assert_eq!(row[3].text(), "link", "the text of the link from {source}");
        assert!(found.insert((source.clone(), target.clone())), "twice: {source} {target}");
    }
    assert_eq!(found.len(), wanted.len());
    assert_eq!(found, wanted);

    std::fs::remove_dir_all(&tables).expect("removed");
    let export = world.ask(&["export", "parquet", "-o", "crawl"]);
    assert!(export.status.success(), "{export:?}");
    assert_eq!(bytes_of(&tables), written, "the same bytes again");
    let again = world.ask(&["export", "parquet", "-o", "crawl"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("0 captures and 0 links of 0 archive files written"), "{said}");
    ask_about_links(&world);

    // As after a kill between two files: the next run writes what is missing.
    let (path, bytes) = written.iter().next_back().expect("a file");
    std::fs::remove_file(path).expect("removed");
    let output = world.ask(&args);
    assert!(matches!(output.status.code(), Some(0 | 23)), "{output:?}");
    assert!(std::fs::read(path).is_ok_and(|again| again == *bytes), "{} is written again", path.display());
}

/// Reports and queries over the same crawl.
fn ask_about_links(world: &World) {
    let broken = world.ask(&["report", "links", "--broken", "--format", "junit", "-o", "crawl"]);
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let junit = String::from_utf8_lossy(&broken.stdout).into_owned();
    assert!(junit.contains("<failure message=") && junit.contains("anchors: link"), "{junit}");
    for format in ["table", "json", "csv", "md", "html", "junit"] {
        for what in ["links", "orphans", "redirects", "duplicates"] {
            let report = world.ask(&["report", what, "--format", format, "-o", "crawl"]);
            assert!(report.status.success(), "{what} {format}: {report:?}");
        }
    }
    let orphans = world.ask(&["report", "orphans", "--format", "csv", "-o", "crawl"]);
    assert_eq!(String::from_utf8_lossy(&orphans.stdout).lines().next(), Some("depth,url,via"));
    let sql = world.ask(&["sql", "--print", "SELECT count(*) FROM captures", "-o", "crawl"]);
    let line = String::from_utf8_lossy(&sql.stdout).into_owned();
    assert!(line.starts_with("duckdb -c 'CREATE VIEW captures AS SELECT * FROM read_parquet("), "{line}");
    let none = world.ask(&["sql", "SELECT 1", "--tables", "nowhere", "-o", "crawl"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("nephila export parquet"), "{none:?}");
}
