//! Files of the archive while the clock is set back or ahead.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use bytes::Bytes;
use nephila_core::store::Exchange;
use tokio::sync::oneshot;

use super::super::compress::Worker;
use super::*;
use crate::disk::RealDisk;
use crate::warc;

const DAY: u64 = 24 * 60 * 60 * 1_000;

fn capture(started: Timestamp) -> Exchange {
    Exchange {
        url: format!("http://site.test/{}", started.0),
        started,
        elapsed_ms: 7,
        address: None,
        protocols: vec!["http/1.1"],
        request_head: Bytes::from_static(b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n"),
        response_head: Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
        body: Box::new(Bytes::from_static(b"short")),
        truncated: None,
        notes: Default::default(),
        text: "".into(),
        media: None,
    }
}

/// The dates of a file's records, in their order.
fn dates(path: &Path) -> Vec<String> {
    let mut reader = warc::Reader::new(File::open(path).unwrap());
    let mut dates = Vec::new();
    while let Some(record) = reader.read(&mut ()).unwrap() {
        dates.push(record.header.get("WARC-Date").unwrap().to_owned());
    }
    dates
}

/// Writes captures of these dates, commits once, and returns the file of each.
fn files_of(dir: &Path, started: &[Timestamp]) -> Vec<Arc<str>> {
    let (folder, indexes) = (dir.join("archive"), dir.join("indexes"));
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&indexes).unwrap();
    let settings = Arc::new(Settings::default());
    let memory = Arc::new(Mutex::new(Memory::new()));
    let mut worker = Worker::new(&settings, &memory).unwrap();
    let (disk, info) = (Arc::new(RealDisk), WarcInfo::default());
    let contents = Contents::default();
    let mut writer = Writer::new(disk, dir, contents, settings.clone(), info, memory.clone()).unwrap();
    let mut answers = Vec::new();
    for started in started {
        let (reply, answer) = oneshot::channel();
        writer.write(worker.work(capture(*started)).unwrap(), reply);
        answers.push(answer);
    }
    writer.commit();
    let files = answers.iter_mut().map(|answer| answer.try_recv().unwrap().unwrap().file).collect();
    assert_eq!(writer.close().unwrap().responses, started.len() as u64, "every one is kept");
    files
}

#[test]
fn sto_22_a_clock_that_is_set_back_begins_a_new_file_and_no_file_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let now = now();
    let [next, tomorrow, later] = [1_000, DAY, DAY + 1_000].map(|ahead| Timestamp(now.0 + ahead));
    // The last capture by the earlier clock arrives when that clock is already gone.
    let files = files_of(dir.path(), &[tomorrow, tomorrow, now, next, later, next]);
    assert!(files[0] == files[1] && files[2] == files[3] && files[3] == files[4], "{files:?}");
    let names: BTreeSet<&str> = files.iter().map(|file| &**file).collect();
    assert_eq!(names.len(), 3, "a name of its own for every file: {files:?}");
    for name in names {
        let dates = dates(&dir.path().join("archive").join(name));
        // The first date is that of the file itself, which is created when its first capture has ended.
        assert!(dates.len() > 1 && dates[1..].is_sorted(), "{name}: {dates:?}");
    }
}

#[test]
fn sto_22_captures_that_come_late_or_are_a_little_ahead_stay_in_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let now = now().0;
    let files = files_of(dir.path(), &[now, now - DAY, now + 60_000, now, now - 1_000].map(Timestamp));
    assert!(files.iter().all(|file| *file == files[0]), "{files:?}");
}
