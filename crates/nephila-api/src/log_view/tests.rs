//! Pages of the log, forwards in time and over nodes.

use std::fs::OpenOptions;
use std::io::Write;

use super::*;

fn line(at: u64, host: &str) -> Line {
    Line {
        at,
        url: format!("http://{host}/{at}"),
        origin: format!("http://{host}"),
        outcome: "ok".into(),
        class: "ok".into(),
        status: Some(200),
        requests: 1,
        ..Line::default()
    }
}

fn write(dir: &Path, lines: impl IntoIterator<Item = Line>) {
    let path = dir.join("outcomes-00000001.jsonl");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    for line in lines {
        file.write_all(&line.json()).unwrap();
    }
}

fn wanted(limit: usize, before: Option<&str>) -> LogWanted {
    LogWanted { limit, before: before.map(|text| text.parse().unwrap()), ..LogWanted::default() }
}

fn ats(said: &LogSaid) -> Vec<u64> {
    said.lines.iter().map(|line| line.at_ms).collect()
}

#[test]
fn pages_of_the_log_have_each_line_once() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), (1..=10).map(|at| line(at, "a.test")));
    let (mut cursor, mut all) = (None::<String>, Vec::new());
    loop {
        let said = read(dir.path(), &wanted(3, cursor.as_deref())).unwrap().said();
        assert!(said.complete && said.lines.len() <= 3);
        all.extend(ats(&said));
        cursor = said.cursor;
        if cursor.is_none() {
            break;
        }
        write(dir.path(), [line(99, "a.test")]);
    }
    assert_eq!(all, (1..=10).rev().collect::<Vec<_>>());
}

#[test]
fn a_filter_finds_few_lines_among_many() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), (0..500).map(|at| line(at, if at % 100 == 0 { "rare.test" } else { "a.test" })));
    let filter = Filter::of_host(Some("rare.test"));
    let said = read(dir.path(), &LogWanted { filter, limit: 3, before: None }).unwrap().said();
    assert_eq!(ats(&said), [400, 300, 200]);
    let filter = Filter::default().with_outcomes(vec!["404".into()]);
    let said = read(dir.path(), &LogWanted { filter, limit: 3, before: None }).unwrap().said();
    assert_eq!((ats(&said), said.cursor), (vec![], None));
}

#[test]
fn a_reading_that_met_its_bound_says_so_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), (0..2_000).map(|at| line(at, if at == 0 { "rare.test" } else { "a.test" })));
    let filter = Filter::of_host(Some("rare.test"));
    let wanted = LogWanted { filter: filter.clone(), limit: 3, before: None };
    let part = read_while(dir.path(), &wanted, |bytes| bytes < 100_000).unwrap();
    assert!(!part.complete && part.lines.is_empty() && part.end.is_some(), "{part:?}");
    let before = part.end.as_deref().map(|text| text.parse().unwrap());
    let said = read(dir.path(), &LogWanted { filter, limit: 3, before }).unwrap().said();
    assert_eq!((ats(&said), said.complete), (vec![0], true));
}

#[test]
fn what_is_no_line_is_skipped_and_text_of_others_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let hostile = Line { title: format!("</script>\u{202e}{}", "\u{e4}".repeat(600)), ..line(1, "a.test") };
    write(dir.path(), [hostile]);
    std::fs::write(dir.path().join("outcomes-00000002.jsonl"), b"{\"at\":12,\n\n\xff\xfe\nnull\n").unwrap();
    let said = read(dir.path(), &wanted(10, None)).unwrap().said();
    assert_eq!(ats(&said), [1]);
    assert!(said.lines[0].title.starts_with("</script>\u{202e}"), "readers show it as text");
    assert!(said.lines[0].title.len() <= TEXT_BYTES_MAX);
    assert_eq!(said.lines[0].at, "1970-01-01T00:00:00.001Z");
}

#[test]
fn the_logs_of_nodes_are_merged_and_paged_without_loss() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    write(dirs[0].path(), (0..20).map(|number| line(number * 10, "a.test")));
    write(dirs[1].path(), (0..5).map(|number| line(number * 40 + 1, "b.test")));
    let nodes = ["n1", "n-2", "empty"];
    let (mut cursor, mut all) = (None::<Cursors>, Vec::new());
    loop {
        let parts = nodes.iter().zip(&dirs).filter_map(|(node, dir)| {
            let before = match &cursor {
                None => None,
                Some(cursor) => Some(cursor.of(node)?.to_owned()),
            };
            Some((node.to_string(), read(dir.path(), &wanted(4, before.as_deref())).unwrap()))
        });
        let said = merge(parts.collect(), cursor.as_ref(), 4);
        assert!(said.lines.len() <= 4);
        assert!(said.lines.iter().all(|line| (line.node == "n1") == line.url.contains("a.test")));
        all.extend(ats(&said));
        let Some(next) = said.cursor else { break };
        cursor = Some(Cursors::parse(&next).unwrap());
    }
    let mut expected: Vec<u64> = (0..20).map(|n| n * 10).chain((0..5).map(|n| n * 40 + 1)).collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(all, expected);
}

#[test]
fn a_cursor_that_nobody_gave_is_refused() {
    for text in ["", "n1", "n1~", "n1~x", "n1~1:2:3", "n1~1:2,", "n1~-1:2"] {
        assert_eq!(Cursors::parse(text), None, "{text:?}");
    }
    let cursors = Cursors::parse("n1~3:77,n2~-").unwrap();
    assert_eq!((cursors.of("n1"), cursors.of("n2"), cursors.of("n3")), (Some("3:77"), None, None));
}

#[test]
fn a_tail_has_the_newest_lines_and_counts_what_it_dropped() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [line(1, "a.test")]);
    let mut tail = LogTail::new(dir.path().into(), Filter::default()).unwrap();
    assert_eq!(tail.look(10).unwrap(), Tailed::default(), "what was before is not told");
    write(dir.path(), (2..=9).map(|at| line(at, "a.test")));
    let tailed = tail.look(3).unwrap();
    let ats: Vec<u64> = tailed.lines.iter().map(|line| line.at_ms).collect();
    assert_eq!((ats, tailed.dropped), (vec![7, 8, 9], 5));
    assert_eq!(tail.look(3).unwrap(), Tailed::default());
}
