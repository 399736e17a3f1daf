//! Runs against a model: a sorted list in memory answers the same queries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::disk::RealDisk;

type Entry = (Vec<u8>, Vec<u8>);

const URLS: Shape = Shape { group: 12, suffix: 8 };

pub(super) fn write(path: &Path, options: Options, entries: &[Entry], metadata: &[u8]) -> RunInfo {
    let mut writer = RunWriter::create(&RealDisk, path, options).unwrap();
    for (key, value) in entries {
        writer.push(key, value).unwrap();
    }
    writer.finish(metadata).unwrap()
}

pub(super) fn drain(mut scan: Scan) -> Vec<Entry> {
    let mut out = Vec::new();
    while let Some((key, value)) = scan.next().unwrap() {
        out.push((key.to_vec(), value.to_vec()));
    }
    out
}

/// A unique key, with few groups and few suffixes so that neighbours are queried too.
fn key(shape: Shape, number: u64) -> Vec<u8> {
    let mut key = vec![0; shape.width()];
    let (group, suffix) = key.split_at_mut(shape.group);
    for (part, mut number) in [(group, number / 7), (suffix, number % 7)] {
        for byte in part.iter_mut().rev() {
            // Spread over the alphabet, both ends of it included.
            *byte = (number % 16 * 17) as u8;
            number /= 16;
        }
    }
    key
}

/// Runs every query on a run, and compares.
fn check(options: Options, entries: &[Entry]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let info = write(&path, options, entries, b"about it");
    let cache = Cache::new(100_000);
    let run = Run::open_cached(&path, &cache).unwrap();
    assert_eq!(*run.info(), info);
    assert_eq!(*run.options(), options);
    assert_eq!(run.metadata(), b"about it");
    assert_eq!(info.entries, entries.len() as u64);
    assert_eq!(info.file_bytes, std::fs::metadata(&path).unwrap().len());
    assert_eq!(info.first, entries.first().map(|e| e.0.clone()).unwrap_or_default());
    assert_eq!(info.last, entries.last().map(|e| e.0.clone()).unwrap_or_default());
    run.verify().unwrap();
    assert_eq!(drain(run.scan(&[])), entries);

    // Every key, and its neighbours, which mostly are absent.
    let mut asked: BTreeSet<Vec<u8>> = BTreeSet::new();
    for (key, _) in entries {
        asked.insert(key.clone());
        for change in [1, 255] {
            let mut other = key.clone();
            *other.last_mut().unwrap() = other.last().unwrap().wrapping_add(change);
            asked.insert(other);
        }
    }
    let width = options.shape.width();
    asked.extend([vec![0; width], vec![255; width]]);
    let mut first = BTreeMap::new();
    for (key, value) in entries {
        first.entry(key.clone()).or_insert(value.clone());
    }
    let mut io = Io::default();
    for key in &asked {
        let expected = first.get(key);
        assert_eq!(run.get(key, &mut io).unwrap().as_ref(), expected);
        assert_eq!(run.contains(key, &mut io).unwrap(), expected.is_some());
        assert!(expected.is_none() || run.contains_filter(key));
        assert!(cache.bytes() <= 100_000);
    }
    for step in [1, 2, 5, 50] {
        let batch: Vec<&Vec<u8>> = asked.iter().step_by(step).collect();
        let flat: Vec<u8> = batch.iter().flat_map(|key| key.iter().copied()).collect();
        let keys = Keys::new(&flat, width);
        let mut found = vec![false; keys.len()];
        found[0] = true;
        run.contains_sorted(keys, &mut found, &mut io).unwrap();
        for (i, found) in found.iter().enumerate() {
            assert_eq!(*found, i == 0 || first.contains_key(batch[i]));
        }
        let mut got = Vec::new();
        run.get_sorted(keys, &mut io, |i, value| got.push((i, value.to_vec()))).unwrap();
        let expected: Vec<_> =
            batch.iter().enumerate().filter_map(|(i, key)| Some((i, first.get(*key)?.clone()))).collect();
        assert_eq!(got, expected);
    }
    let bounds: Vec<&Vec<u8>> = asked.iter().step_by(asked.len() / 12 + 1).collect();
    for from in &bounds {
        let tail = entries.partition_point(|entry| entry.0 < **from);
        assert_eq!(drain(run.scan(from)), entries[tail..]);
        for to in &bounds {
            let end = entries.partition_point(|entry| entry.0 < **to).max(tail);
            assert_eq!(drain(run.scan(from).until(to)), entries[tail..end]);
        }
        let (group, suffix) = from.split_at(options.shape.group);
        let expected: Vec<Entry> =
            entries[tail..].iter().filter(|entry| entry.0.starts_with(group)).cloned().collect();
        assert_eq!(drain(run.scan_group(group, suffix)), expected);
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let known = [(12, 8), (12, 9), (12, 12), (12, 0), (8, 0), (1, 0), (1, 1), (3, 2), (2, 20)];
    prop::sample::select(known.map(|(group, suffix)| Shape { group, suffix }).to_vec())
}

fn options() -> impl Strategy<Value = Options> {
    let columns = prop::sample::select(vec![KeyColumn::Raw, KeyColumn::Zstd]);
    let filters = prop::sample::select(vec![Filter::Key, Filter::Group, Filter::None]);
    (shapes(), columns, filters, any::<bool>(), 1..80_usize, 1..2_000_usize).prop_map(
        |(shape, keys, filter, duplicates, block_entries, piece_bytes)| Options {
            shape,
            keys,
            filter,
            duplicates,
            block_entries,
            piece_bytes,
        },
    )
}

fn entries(options: Options, numbers: Vec<(u64, usize)>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = numbers
        .into_iter()
        .map(|(number, length)| {
            let value = (0..length).map(|i| (number as usize * 31 + i * i) as u8).collect();
            (key(options.shape, number), value)
        })
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    if !options.duplicates {
        entries.dedup_by(|a, b| a.0 == b.0);
    }
    entries
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_answers_like_a_sorted_list(
        options in options(),
        numbers in vec((0..300_u64, prop_oneof![8 => 0..40_usize, 1 => 0..3_000_usize, 4 => Just(0)]), 0..400),
    ) {
        check(options, &entries(options, numbers));
    }

    #[test]
    fn a_merge_gives_every_entry_once_and_the_newest_first(
        policy in prop::sample::select(vec![Policy::Together, Policy::Each]),
        tables in vec(vec(0..60_u64, 0..80), 0..7),
    ) {
        let tables: Vec<Vec<Entry>> = tables
            .iter()
            .enumerate()
            .map(|(source, numbers)| {
                let mut keys: Vec<_> = numbers.iter().map(|n| key(URLS, *n)).collect();
                keys.sort();
                if policy == Policy::Together {
                    keys.dedup();
                }
                keys.into_iter().enumerate().map(|(i, key)| (key, format!("{source} {i}").into_bytes())).collect()
            })
            .collect();
        let mut expected: Vec<(Vec<u8>, usize, Vec<u8>)> = Vec::new();
        for (source, table) in tables.iter().enumerate() {
            expected.extend(table.iter().map(|(key, value)| (key.clone(), source, value.clone())));
        }
        // Stable, so entries of one source with one key keep their order.
        expected.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));

        let sources = tables.into_iter().map(Entries::new).collect();
        let mut merge = Merge::new(sources, policy);
        let mut got = Vec::new();
        let mut last = None;
        while let Some(group) = merge.next().unwrap() {
            let key = group.key().to_vec();
            if policy == Policy::Together {
                assert!(last.as_ref() < Some(&key), "a key was shown twice");
            }
            assert_eq!(group.values().next().unwrap().1, group.newest());
            got.extend(group.values().map(|(source, value)| (key.clone(), source, value.to_vec())));
            last = Some(key);
        }
        assert_eq!(got, expected);
    }
}

#[test]
fn an_empty_run_and_one_of_a_single_entry_work_in_every_shape() {
    for (group, suffix) in [(12, 8), (12, 0), (8, 0), (1, 0), (255, 255)] {
        for filter in [Filter::Key, Filter::Group, Filter::None] {
            let options = Options { filter, ..Options::new(Shape { group, suffix }) };
            check(options, &[]);
            check(options, &[(vec![7; group + suffix], Vec::new())]);
            check(options, &[(vec![255; group + suffix], b"last of all".to_vec())]);
        }
    }
}

#[test]
fn a_value_larger_than_a_piece_has_one_of_its_own() {
    let options = Options { piece_bytes: 100, ..Options::new(URLS) };
    let long = |n: u8, bytes: usize| (0..bytes).map(|i| (i * i) as u8 ^ n).collect::<Vec<u8>>();
    check(
        options,
        &[(key(URLS, 1), long(1, 90)), (key(URLS, 2), long(2, 200_000)), (key(URLS, 3), long(3, 5))],
    );
    check(options, &[(key(URLS, 1), long(1, VALUE_BYTES_MAX))]);
}

#[test]
fn equal_keys_may_fill_several_blocks() {
    let options = Options { duplicates: true, block_entries: 4, ..Options::new(URLS) };
    let numbers = (0..40).map(|n| (if n < 5 { 1 } else { 2 + n / 30 }, n as usize % 3)).collect();
    check(options, &entries(options, numbers));
}

#[test]
fn large_blocks_of_many_groups_work() {
    let shape = Shape { group: 4, suffix: 0 };
    let options = Options { block_entries: BLOCK_ENTRIES_MAX, ..Options::new(shape) };
    let all: Vec<Entry> = (0..70_000_u32).map(|n| ((n * 3).to_be_bytes().to_vec(), Vec::new())).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    write(&path, options, &all, &[]);
    let run = Run::open(&path).unwrap();
    run.verify().unwrap();
    assert_eq!(drain(run.scan(&[])), all);
    let flat: Vec<u8> = (0..210_000_u32).flat_map(u32::to_be_bytes).collect();
    let mut found = vec![false; 210_000];
    run.contains_sorted(Keys::new(&flat, 4), &mut found, &mut Io::default()).unwrap();
    assert!(found.iter().enumerate().all(|(n, found)| *found == (n % 3 == 0)));
}

#[test]
fn what_breaks_the_rules_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let mut writer = RunWriter::create(&RealDisk, &path, Options::new(URLS)).unwrap();
    writer.push(&key(URLS, 5), b"five").unwrap();
    for (bad, value) in [
        (key(URLS, 5), &b""[..]),
        (key(URLS, 4), b""),
        (vec![255; 19], b""),
        (vec![255; 21], b""),
        (vec![255; 20], &vec![0; VALUE_BYTES_MAX + 1]),
    ] {
        assert!(matches!(writer.push(&bad, value), Err(Error::Misused { .. })));
    }
    writer.push(&key(URLS, 6), b"six").unwrap();
    assert_eq!(writer.finish(&[]).unwrap().entries, 2);
    let run = Run::open(&path).unwrap();
    assert_eq!(drain(run.scan(&[])).len(), 2);

    let io = &mut Io::default();
    assert!(matches!(run.contains_sorted(Keys::new(&[0; 20], 20), &mut [], io), Err(Error::Misused { .. })));
    assert!(matches!(
        run.contains_sorted(Keys::new(&[0; 19], 19), &mut [false], io),
        Err(Error::Misused { .. })
    ));
    assert_eq!(run.get(&[0; 3], io).unwrap(), None);

    let wrong = [
        Options::new(Shape { group: 0, suffix: 8 }),
        Options::new(Shape { group: 12, suffix: 256 }),
        Options { block_entries: 0, ..Options::new(URLS) },
        Options { block_entries: BLOCK_ENTRIES_MAX + 1, ..Options::new(URLS) },
        Options { piece_bytes: 0, ..Options::new(URLS) },
    ];
    for options in wrong {
        let path = dir.path().join("never.run");
        assert!(matches!(RunWriter::create(&RealDisk, &path, options), Err(Error::Misused { .. })));
        assert!(!path.exists());
    }
}

/// A run of `count` URLs: 100 per host, values of 40 bytes.
fn urls(path: &Path, count: u64) -> Vec<Entry> {
    let mut all: Vec<Entry> = (0..count)
        .map(|n| {
            let mut key = xxhash_rust::xxh3::xxh3_128(&(n / 100).to_be_bytes()).to_be_bytes()[..12].to_vec();
            key.extend(xxhash_rust::xxh3::xxh3_64(&n.to_be_bytes()).to_be_bytes());
            (key, format!("/section/{:03}/page-{n:08}.html?from=index", n % 100).into_bytes())
        })
        .collect();
    all.sort();
    write(path, Options::new(URLS), &all, &[]);
    all
}

#[test]
fn urls_take_little_memory_and_only_needed_blocks_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let all = urls(&path, 50_000);
    let run = Run::open(&path).unwrap();
    let filter = run.inner.resident.filter.as_ref().unwrap().bytes() as u64;
    assert!(filter * 8 < 50_000 * 10, "{filter} bytes of filter");
    let index = run.info().resident_bytes - filter;
    assert!(index * 20 < 50_000, "{index} bytes of index for 50,000 entries");

    // Two keys of the same block, and one that is not there: one read.
    let blocks = run.inner.resident.index.len() as u64;
    let mut io = Io::default();
    let absent = [0x11; 20];
    let mut batch = [all[30_000].0.clone(), all[30_001].0.clone(), absent.to_vec()];
    batch.sort();
    let mut found = [false; 3];
    run.contains_sorted(Keys::new(&batch.concat(), 20), &mut found, &mut io).unwrap();
    assert_eq!(found.iter().filter(|found| **found).count(), 2);
    assert!(io.reads <= 2 && io.bytes < 2 * 50_000, "{io:?}");

    // All keys: every block once, keys only.
    let flat: Vec<u8> = all.iter().flat_map(|entry| entry.0.clone()).collect();
    let mut found = vec![false; all.len()];
    let mut io = Io::default();
    run.contains_sorted(Keys::new(&flat, 20), &mut found, &mut io).unwrap();
    assert_eq!(io.reads, blocks);
    assert!(io.bytes < 50_000 * 9 && found.iter().all(|found| *found), "{io:?}");
    // Nothing is left to ask.
    let mut io = Io::default();
    run.contains_sorted(Keys::new(&flat, 20), &mut found, &mut io).unwrap();
    assert_eq!(io, Io::default());

    // A short walk reads keys and a piece or two. A long one reads the first block so, and then large parts.
    let mut scan = run.scan_group(&all[40_000].0[..12], &[]);
    while scan.advance().unwrap() {}
    assert!(scan.io().reads <= 3 && scan.io().bytes < 60_000, "{:?}", scan.io());
    let mut first = run.scan(&[]).until(run.inner.resident.index.first(1));
    while first.advance().unwrap() {}
    let mut scan = run.scan(&[]);
    while scan.advance().unwrap() {}
    assert!(scan.io().reads - first.io().reads < blocks / 2, "{:?} of {blocks} blocks", scan.io());
}

#[test]
fn a_block_asked_for_again_comes_from_the_cache_and_batches_leave_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let all = urls(&path, 20_000);
    let cache = Cache::new(400_000);
    let run = Run::open_cached(&path, &cache).unwrap();
    let mut io = Io::default();
    assert_eq!(run.get(&all[500].0, &mut io).unwrap().unwrap(), all[500].1);
    assert_eq!(io.reads, 2);
    assert_eq!(run.get(&all[501].0, &mut io).unwrap().unwrap(), all[501].1);
    assert_eq!(io.reads, 2);

    let flat: Vec<u8> = all.iter().flat_map(|entry| entry.0.clone()).collect();
    let before = cache.bytes();
    run.contains_sorted(Keys::new(&flat, 20), &mut vec![false; all.len()], &mut Io::default()).unwrap();
    run.get_sorted(Keys::new(&flat, 20), &mut Io::default(), |_, _| ()).unwrap();
    drain(run.scan(&[]));
    assert_eq!(cache.bytes(), before);
    run.get(&all[502].0, &mut io).unwrap();
    assert_eq!(io.reads, 2);
    // A batch of a few keys is as good as single reads.
    let few = Keys::new(&flat[500 * 20..504 * 20], 20);
    let mut values = Vec::new();
    run.get_sorted(few, &mut io, |i, value| values.push((i, value.to_vec()))).unwrap();
    assert_eq!(values, (0..4).map(|i| (i, all[500 + i].1.clone())).collect::<Vec<_>>());
    assert_eq!(io.reads, 2);

    // However many blocks are read, the cache keeps its bound; closed runs leave the cache.
    for entry in all.iter().step_by(37) {
        assert_eq!(run.get(&entry.0, &mut io).unwrap().as_ref(), Some(&entry.1));
        assert!(cache.bytes() <= 400_000);
    }
    drop(run);
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn runs_fold_into_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = BTreeMap::new();
    let mut runs = Vec::new();
    for age in 0..5_u64 {
        let path = dir.path().join(format!("{age}.run"));
        let table: BTreeMap<Vec<u8>, Vec<u8>> =
            (0..2_000).filter(|n| n % (age + 2) == 0).map(|n| (key(URLS, n), vec![age as u8; 3])).collect();
        write(
            &path,
            Options { block_entries: 50, ..Options::new(URLS) },
            &table.clone().into_iter().collect::<Vec<_>>(),
            &[],
        );
        for (key, value) in table {
            model.entry(key).or_insert(value);
        }
        runs.push(Run::open(&path).unwrap());
    }
    // A table in memory is the newest.
    let memory: BTreeMap<Vec<u8>, Vec<u8>> = (0..30).map(|n| (key(URLS, n * 101), b"new".to_vec())).collect();
    let mut sources: Vec<Box<dyn Source + '_>> = vec![Box::new(Entries::new(&memory))];
    sources.extend(runs.iter().map(|run| Box::new(run.scan(&[])) as Box<dyn Source>));
    model.extend(memory.clone());

    let path = dir.path().join("all.run");
    let mut writer = RunWriter::create(&RealDisk, &path, Options::new(URLS)).unwrap();
    let mut merge = Merge::new(sources, Policy::Together);
    while let Some(group) = merge.next().unwrap() {
        writer.push(group.key(), group.newest()).unwrap();
    }
    writer.finish(&[]).unwrap();
    let run = Run::open(&path).unwrap();
    run.verify().unwrap();
    assert_eq!(drain(run.scan(&[])), model.into_iter().collect::<Vec<_>>());
}

/// Fails before every step, once.
struct Flaky<S> {
    inner: S,
    has_failed: bool,
}

impl<S: Source> Source for Flaky<S> {
    fn advance(&mut self) -> Result<bool, Error> {
        self.has_failed = !self.has_failed;
        if self.has_failed { Err(Error::misused(Path::new("flaky"), "a test")) } else { self.inner.advance() }
    }

    fn key(&self) -> &[u8] {
        self.inner.key()
    }

    fn value(&self) -> &[u8] {
        self.inner.value()
    }
}

#[test]
fn a_merge_goes_on_after_an_error_as_if_there_had_been_none() {
    let tables: Vec<Vec<Entry>> = [2, 3, 5]
        .map(|step| (0..60).step_by(step).map(|n| (key(URLS, n), vec![step as u8])).collect())
        .to_vec();
    let mut steady = Merge::new(tables.iter().cloned().map(Entries::new).collect(), Policy::Together);
    let flaky = |table| Flaky { inner: Entries::new(table), has_failed: false };
    let mut shaken = Merge::new(tables.iter().cloned().map(flaky).collect(), Policy::Together);
    let mut errors = 0;
    loop {
        let expected = steady.next().unwrap().map(|group| {
            let values: Vec<Vec<u8>> = group.values().map(|(_, value)| value.to_vec()).collect();
            (group.key().to_vec(), values)
        });
        let got = loop {
            match shaken.next() {
                Ok(group) => {
                    break group.map(|group| {
                        let values: Vec<Vec<u8>> = group.values().map(|(_, value)| value.to_vec()).collect();
                        (group.key().to_vec(), values)
                    });
                }
                Err(_) => errors += 1,
            }
        };
        assert_eq!(got, expected);
        if expected.is_none() {
            break;
        }
    }
    let entries: usize = tables.iter().map(Vec::len).sum();
    assert_eq!(errors, entries + tables.len());
}

#[test]
fn all_parts_may_move_between_threads() {
    fn check<T: Send>() {}
    fn check_shared<T: Send + Sync>() {}
    check::<RunWriter>();
    check::<Scan>();
    check::<Merge<Scan>>();
    check_shared::<Run>();
    check_shared::<Cache>();
}
