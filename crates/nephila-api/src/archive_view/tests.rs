//! Counts of small and of hostile archives.

use super::*;

fn index(dir: &Path, stem: &str, lines: &[(&str, &str, &str)]) {
    let lines = lines.iter().map(|(time, mime, status)| {
        format!(
            "test,a)/ {time} {{\"url\": \"http://a.test/\", \"mime\": {}, \"status\": \"{status}\", \"length\": \"100\", \
             \"offset\": \"0\", \"filename\": \"x\"}}\n",
            serde_json::to_string(mime).unwrap()
        )
    });
    std::fs::write(dir.join(format!("{stem}.cdxj")), lines.collect::<String>()).unwrap();
    std::fs::write(dir.join(format!("{stem}.warc.gz")), [0; 1_000]).unwrap();
}

fn archive() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    index(
        dir.path(),
        "a-1",
        &[("20261114225809", "text/html", "200"), ("20261114225709", "warc/revisit", "200")],
    );
    index(dir.path(), "a-2", &[("20261115000000", "<svg onload=alert(1)>", "404")]);
    std::fs::write(dir.path().join("a-3.warc.gz.open"), [0; 10]).unwrap();
    std::fs::write(dir.path().join("a-3.cdxj.new"), "x").unwrap();
    dir
}

/// Counts everything, then looks.
fn look_by(
    counts: &ArchiveCounts,
    dir: &Path,
    limit: usize,
    cursor: Option<&str>,
) -> io::Result<ArchiveSaid> {
    counts.count(dir, u64::MAX)?;
    counts.look(dir, limit, cursor)
}

fn look(dir: &Path, limit: usize, cursor: Option<&str>) -> io::Result<ArchiveSaid> {
    look_by(&ArchiveCounts::default(), dir, limit, cursor)
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "somebody else counts meanwhile")]
async fn nobody_waits_for_the_count_of_a_new_index_but_the_first() {
    let dir = archive();
    let counts = Arc::new(ArchiveCounts::default());
    counts.count_soon(dir.path().to_owned()).await;
    let first = counts.look(dir.path(), 10, None).unwrap();
    assert!(first.complete && first.captures == 3, "the first waits");
    index(dir.path(), "a-4", &[("20261115000001", "text/html", "200")]);
    let counting = counts.counting.lock().unwrap();
    counts.count_soon(dir.path().to_owned()).await;
    let second = counts.look(dir.path(), 10, None).unwrap();
    assert!(!second.complete && second.captures == 3, "somebody else is counting");
    drop(counting);
    counts.count_soon(dir.path().to_owned()).await;
    while !counts.look(dir.path(), 10, None).unwrap().complete {
        tokio::task::yield_now().await;
    }
    assert_eq!(counts.look(dir.path(), 10, None).unwrap().captures, 4);
}

#[test]
fn files_are_listed_and_captures_counted_by_type_and_status() {
    let dir = archive();
    let said = look(dir.path(), 10, None).unwrap();
    let names: Vec<&str> = said.files.iter().map(|file| &*file.name).collect();
    assert_eq!(names, ["a-3.warc.gz", "a-2.warc.gz", "a-1.warc.gz"], "the newest first");
    assert_eq!((said.bytes, said.captures, said.revisits, said.unindexed), (2_010, 3, 1, 1));
    assert!(said.complete && said.files[0].open && said.files[0].records.is_none());
    assert_eq!(said.files[2].first.as_deref(), Some("2026-11-14T22:57:09Z"));
    assert_eq!(said.files[2].last.as_deref(), Some("2026-11-14T22:58:09Z"));
    let types: Vec<(&str, u64)> = said.types.iter().map(|said| (&*said.r#type, said.count)).collect();
    assert_eq!(types, [("<svg onload=alert(1)>", 1), ("text/html", 1)]);
    let statuses: Vec<(&str, u64)> = said.statuses.iter().map(|said| (&*said.status, said.count)).collect();
    assert_eq!(statuses, [("200", 2), ("404", 1)]);
}

#[test]
fn an_index_is_read_once_and_a_request_reads_only_so_much() {
    let dir = archive();
    let counts = ArchiveCounts::default();
    let some = || {
        counts.count(dir.path(), 1).unwrap();
        counts.look(dir.path(), 10, None).unwrap()
    };
    let first = some();
    assert!(!first.complete);
    assert_eq!(first.captures, 1, "one index, the newest");
    assert_eq!(some().captures, 3);
    // What is counted is not read again: the same length is the same index.
    let path = dir.path().join("a-1.cdxj");
    let length = std::fs::metadata(&path).unwrap().len() as usize;
    std::fs::write(&path, vec![b'x'; length]).unwrap();
    assert_eq!(look_by(&counts, dir.path(), 10, None).unwrap().captures, 3);
    std::fs::remove_file(dir.path().join("a-1.warc.gz")).unwrap();
    assert_eq!(
        look_by(&counts, dir.path(), 10, None).unwrap().captures,
        1,
        "a file that is gone is not counted"
    );
}

#[test]
fn pages_have_each_file_once() {
    let dir = archive();
    let counts = ArchiveCounts::default();
    let (mut cursor, mut all) = (None::<String>, Vec::new());
    loop {
        let said = look_by(&counts, dir.path(), 1, cursor.as_deref()).unwrap();
        assert_eq!(said.files_total, 3);
        all.extend(said.files.into_iter().map(|file| file.name));
        let Some(next) = said.cursor else { break };
        cursor = Some(next);
    }
    assert_eq!(all, ["a-3.warc.gz", "a-2.warc.gz", "a-1.warc.gz"]);
    assert_eq!(look_by(&counts, &dir.path().join("none"), 1, None).unwrap().files_total, 0);
}

#[test]
fn servers_that_invent_types_take_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let many: Vec<String> = (0..1_000).map(|number| format!("x/{number}{}", "y".repeat(300))).collect();
    let lines: Vec<(&str, &str, &str)> = many.iter().map(|mime| ("20261114225809", &**mime, "200")).collect();
    index(dir.path(), "a-1", &lines);
    let said = look(dir.path(), 10, None).unwrap();
    assert_eq!(said.types.iter().map(|said| said.count).sum::<u64>(), 1_000);
    assert!(said.types.len() <= VALUES_SHOWN_MAX + 1);
    assert!(said.types.iter().all(|said| said.r#type.len() <= VALUE_BYTES_MAX));
    assert_eq!(said.types.iter().filter(|said| said.r#type == OTHER).count(), 1);
}

#[test]
fn the_archives_of_nodes_are_added() {
    let dir = archive();
    let mut all = look(dir.path(), 2, None).unwrap();
    let other = tempfile::tempdir().unwrap();
    index(other.path(), "a-0", &[("20261114225809", "text/html", "200")]);
    index(other.path(), "a-9", &[("20261114225809", "text/html", "500")]);
    all.add(look(other.path(), 2, None).unwrap(), 2);
    let names: Vec<&str> = all.files.iter().map(|file| &*file.name).collect();
    assert_eq!(names, ["a-9.warc.gz", "a-3.warc.gz"]);
    assert_eq!((all.cursor.as_deref(), all.files_total, all.captures), (Some("a-3.warc.gz"), 5, 5));
    assert_eq!((&*all.types[0].r#type, all.types[0].count), ("text/html", 3));
}
