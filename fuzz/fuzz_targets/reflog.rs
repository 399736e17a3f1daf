//! Streams of visited URLs: any bytes are lines or bad lines, good lines beside bad ones survive, no hit is lost in
//! grouping, and a part arrives unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::codec::Reader;
use nephila_core::key::Secret;
use nephila_core::intake::reflog::{QUARANTINED_BYTES_MAX, read};
use nephila_core::job::JobId;
use nephila_core::reflog::part::{Part, Streamed};
use nephila_core::reflog::{BatchKey, Batches, Record, group};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;

const SECRET: Secret = Secret([7; 16]);
const GOOD_URL: &str = "http://good.example/";
const GOOD: &[u8] = b"b1\t5\t20110727200841\t2310\thttp://good.example/\t3\ttag";

fuzz_target!(|data: &[u8]| {
    check_lines(data);
    check_part(data);
    check_bytes(data);

    nephila_fuzz::linear(data, |data| _ = read(data));
});

fn check_lines(data: &[u8]) {
    let reading = read(data);
    let lines = data.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    let bad = reading.bad.values().sum::<u64>() as usize;
    assert!(reading.entries.len() + bad <= lines, "a line counts twice");
    assert_eq!(reading.quarantined.len(), bad);
    assert!(reading.quarantined.iter().all(|bad| bad.bytes.len() <= QUARANTINED_BYTES_MAX && bad.line >= 1));

    let around = [GOOD, b"\n\n", data, b"\n\n", GOOD].concat();
    let survived = read(&around).entries;
    let good = survived.iter().filter(|entry| entry.url.as_str() == GOOD_URL).count();
    assert!(good >= 2, "what stands around a bad line is lost");

    let hits: u128 = reading.entries.iter().map(|entry| u128::from(entry.hits)).sum();
    let groups = group(reading.entries);
    assert!(groups.windows(2).all(|two| two[0].id.0 < two[1].id.0), "a URL comes twice, or out of its order");
    if hits <= u128::from(u64::MAX) {
        assert_eq!(groups.iter().map(|group| u128::from(group.hits)).sum::<u128>(), hits, "hits are lost");
    }
}

fn check_part(data: &[u8]) {
    let wanted = |url: &CrawlUrl| !url.as_str().len().is_multiple_of(5);
    let (part, said) = Part::of_lines(data, ("batch", 0), JobId(1), &SECRET, wanted);
    assert!(said.unwanted <= said.urls && said.urls <= said.lines);
    assert!(part.urls.len() as u64 + said.unwanted <= said.urls);
    assert!(part.urls.windows(2).all(|two| two[0].key < two[1].key));
    assert_eq!(sent(&part), part, "a part arrives as another");

    // A repeated part counts once (idempotent), and the decision can be stored, for any times of its lines.
    let mut batches = Batches::default();
    let now = Timestamp(1_794_830_400_000);
    let batch = batches.check(part.key, now).expect("it is the first");
    batches.fold(part.key, &batch);
    assert_eq!(batches.check(part.key, now), None);
    assert_eq!(Batches::from_bytes(&batches.to_bytes()).as_ref(), Ok(&batches));
    decide(&part);
}

/// Bytes of another node, or of a log.
fn check_bytes(data: &[u8]) {
    if let Ok(part) = Part::read(&mut Reader::new(data)) {
        assert_eq!(sent(&part), part, "a part arrives as another");
        decide(&part);
    }
    if let Ok(streamed) = Streamed::read(&mut Reader::new(data)) {
        let mut out = Vec::new();
        streamed.put(&mut out);
        assert_eq!(Streamed::read(&mut Reader::new(&out)).as_ref(), Ok(&streamed));
        let mut batches = Batches::default();
        batches.fold(streamed.key, &streamed.batch);
    }
    let _ = Batches::from_bytes(data);
}

fn sent(part: &Part) -> Part {
    let mut out = Vec::new();
    part.put(&mut out);
    part.put_pages(&mut out);
    let mut reader = Reader::new(&out);
    let read = Part::read_with_pages(&mut reader).expect("what we write we can read");
    assert!(reader.is_empty());
    read
}

/// Decides about all URLs of a part as if they were one, so that each decision meets the record that the others left.
fn decide(part: &Part) {
    let mut batches = Batches::default();
    let mut record = Record::default();
    for (number, url) in part.urls.iter().enumerate() {
        let key = BatchKey(number as u64);
        let batch = batches.check(key, url.at).expect("each number comes once");
        batches.fold(key, &batch);
        record.handle_named(url.at, url.hits, &url.tag, &batch);
        assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Ok(&record));
    }
}
