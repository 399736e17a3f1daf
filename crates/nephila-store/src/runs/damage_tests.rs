//! Runs on bad disks: every byte flipped, every length cut, every call failing, power lost; and files of old versions.

use std::fs;
use std::path::{Path, PathBuf};

use super::tests::{drain, write};
use super::*;
use crate::disk::faulty::{Damage, FaultyDisk, IO_ERROR, NO_SPACE, Plan};
use crate::disk::{Disk, RealDisk};

type Entry = (Vec<u8>, Vec<u8>);

/// A few blocks of the given shape, some with values that compress, some with none.
fn sample(shape: Shape, count: u64) -> Vec<Entry> {
    (0..count)
        .map(|n| {
            let mut key = vec![0; shape.width()];
            key[shape.group - 1] = if shape.suffix == 0 { n as u8 } else { (n / 10) as u8 };
            if shape.suffix > 0 {
                key[shape.group..].fill(n as u8);
            }
            let value = if n < 12 { Vec::new() } else { format!("value value value {n}").into_bytes() };
            (key, value)
        })
        .collect()
}

/// Runs every query; every answer must be right.
fn answers_right_or_not_at_all(path: &Path, entries: &[Entry]) -> bool {
    let is_damage = |error: Error| assert!(matches!(error, Error::Damaged { .. }), "{error}");
    let run = match Run::open(path) {
        Ok(run) => run,
        Err(error) => {
            is_damage(error);
            return false;
        }
    };
    let mut io = Io::default();
    for (key, value) in entries {
        match run.get(key, &mut io) {
            Ok(got) => assert_eq!(got.as_ref(), Some(value)),
            Err(error) => is_damage(error),
        }
        let mut found = [false];
        match run.contains_sorted(Keys::new(key, key.len()), &mut found, &mut io) {
            Ok(()) => assert!(found[0]),
            Err(error) => is_damage(error),
        }
    }
    let mut scan = run.scan(&[]);
    for (key, value) in entries {
        match scan.next() {
            Ok(got) => assert_eq!(got, Some((&key[..], &value[..]))),
            Err(error) => {
                is_damage(error);
                // The scan does not continue past the error.
                assert!(scan.next().is_err());
                break;
            }
        }
    }
    match run.verify() {
        Ok(_) => true,
        Err(error) => {
            is_damage(error);
            false
        }
    }
}

fn layouts() -> Vec<Options> {
    let shapes = [Shape { group: 12, suffix: 8 }, Shape { group: 12, suffix: 0 }];
    let small = |shape| Options { block_entries: 10, ..Options::new(shape) };
    let mut all: Vec<Options> = shapes.into_iter().map(small).collect();
    all.push(Options { keys: KeyColumn::Zstd, filter: Filter::Group, ..small(shapes[0]) });
    all
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for (n, options) in layouts().into_iter().enumerate() {
        let entries = sample(options.shape, 35);
        let path = dir.path().join(format!("{n}.run"));
        write(&path, options, &entries, b"metadata");
        assert!(answers_right_or_not_at_all(&path, &entries));
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            for flip in [1 << (at % 8), 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                fs::write(&path, &bytes).unwrap();
                assert!(!answers_right_or_not_at_all(&path, &entries), "byte {at} of {}", whole.len());
            }
        }
    }
}

#[test]
fn a_file_cut_short_or_with_something_behind_it_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let options = layouts()[0];
    let entries = sample(options.shape, 35);
    write(&path, options, &entries, &[]);
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(Run::open(&path), Err(Error::Damaged { .. })), "{length} of {}", whole.len());
    }
    fs::write(&path, [&whole[..], &[0]].concat()).unwrap();
    assert!(matches!(Run::open(&path), Err(Error::Damaged { .. })));
    fs::remove_file(&path).unwrap();
    assert!(matches!(Run::open(&path), Err(Error::Io { .. })));

    // Cut while open.
    fs::write(&path, &whole).unwrap();
    let run = Run::open(&path).unwrap();
    fs::write(&path, &whole[..200]).unwrap();
    assert!(matches!(run.verify(), Err(Error::Damaged { .. })));
}

#[test]
fn a_block_in_the_place_of_another_is_noticed() {
    // Both blocks are whole; only the index knows which belongs where.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let shape = Shape { group: 4, suffix: 4 };
    let entries: Vec<Entry> = (0..20_u64).map(|n| (n.to_be_bytes().to_vec(), Vec::new())).collect();
    write(&path, Options { block_entries: 10, ..Options::new(shape) }, &entries, &[]);
    let mut bytes = fs::read(&path).unwrap();
    let block = 1 + 4 + 4 + 2 + 10 * 4 + 14;
    let (first, second) = bytes[8..8 + 2 * block].split_at_mut(block);
    first.swap_with_slice(second);
    fs::write(&path, bytes).unwrap();
    assert!(!answers_right_or_not_at_all(&path, &entries));
}

#[test]
fn a_later_version_is_not_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let options = layouts()[0];
    write(&path, options, &sample(options.shape, 3), &[]);
    let mut bytes = fs::read(&path).unwrap();
    let footer = bytes.len() - 128;
    bytes[footer + 8] = 2;
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[footer..footer + 120]);
    bytes[footer + 120..].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    assert!(matches!(Run::open(&path), Err(Error::Version { version: 2, .. })));
}

/// Writes enough entries for several writes to the disk.
fn workload(disk: &dyn Disk, path: &Path) -> Result<RunInfo, Error> {
    let shape = Shape { group: 12, suffix: 8 };
    let mut writer = RunWriter::create(disk, path, Options::new(shape))?;
    let mut noise = 1_u64;
    let mut value = [0; 1_000];
    for n in 0..3_000_u64 {
        for byte in &mut value {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (noise >> 56) as u8;
        }
        let mut key = [0; 20];
        key[12..].copy_from_slice(&n.to_be_bytes());
        writer.push(&key, &value)?;
    }
    let info = writer.finish(b"workload")?;
    let folder = path.parent().expect("in a folder");
    disk.sync_dir(folder).map_err(|source| Error::io(folder, source))?;
    Ok(info)
}

#[test]
fn every_call_may_fail_and_no_half_run_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let healthy = FaultyDisk::new(Plan::Healthy, NO_SPACE, Damage::None);
    workload(&healthy, &path).unwrap();
    let calls = healthy.calls().0;
    assert!(calls >= 6, "{calls} calls");
    for call in 0..calls {
        for damage in [Damage::None, Damage::HalfWritten] {
            let _ = fs::remove_file(&path);
            let disk = FaultyDisk::new(Plan::Once(call), NO_SPACE, damage);
            let error = workload(&disk, &path).expect_err("the failure is told");
            assert!(matches!(error, Error::Io { .. }), "{error}");
            let is_synced = disk.name(call).starts_with("sync");
            assert!(is_synced || Run::open(&path).is_err(), "{} failed", disk.name(call));
        }
    }
}

#[test]
fn a_finished_run_survives_the_loss_of_power_and_an_unfinished_one_is_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let healthy = FaultyDisk::new(Plan::Healthy, IO_ERROR, Damage::None);
    workload(&healthy, &path).unwrap();
    let calls = healthy.calls().0;
    healthy.lose_power(0).unwrap();
    assert_eq!(Run::open(&path).unwrap().verify().unwrap().bytes, drained(&path));

    for call in 0..calls {
        for kept in [0, 100, 255] {
            let _ = fs::remove_file(&path);
            let disk = FaultyDisk::new(Plan::From(call), IO_ERROR, Damage::HalfWritten);
            workload(&disk, &path).expect_err("the disk is broken");
            disk.lose_power(kept).unwrap();
            // The name was never synced, so there is no file.
            assert!(!path.exists());
        }
    }
}

/// Bytes of blocks, by a full scan.
fn drained(path: &Path) -> u64 {
    let run = Run::open(path).unwrap();
    let mut scan = run.scan(&[]);
    while scan.next().unwrap().is_some() {}
    scan.io().bytes
}

#[test]
fn a_writer_that_met_an_error_writes_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.run");
    let shape = Shape { group: 4, suffix: 4 };
    let disk = FaultyDisk::new(Plan::Once(1), NO_SPACE, Damage::HalfWritten);
    let options = Options { keys: KeyColumn::Raw, block_entries: BLOCK_ENTRIES_MAX, ..Options::new(shape) };
    let mut writer = RunWriter::create(&disk, &path, options).unwrap();
    let failed = (0..1_000_000_u64).find_map(|n| writer.push(&n.to_be_bytes(), &[]).err());
    assert!(matches!(failed, Some(Error::Io { .. })));
    assert!(matches!(writer.push(&u64::MAX.to_be_bytes(), &[]), Err(Error::Misused { .. })));
    assert!(writer.finish(&[]).is_err());
    assert!(Run::open(&path).is_err());
}

fn golden(name: &str) -> PathBuf {
    Path::new("tests/golden/runs").join(name)
}

/// Entries of the golden files, by their number in [`layouts`].
fn golden_entries(options: Options) -> Vec<Entry> {
    sample(options.shape, 35)
}

#[test]
fn files_of_version_1_still_open() {
    for (n, options) in layouts().into_iter().enumerate() {
        let run = Run::open(&golden(&format!("v1-{n}.run"))).unwrap();
        assert_eq!(*run.options(), options);
        assert_eq!(run.metadata(), b"golden");
        run.verify().unwrap();
        let entries = golden_entries(options);
        assert_eq!(drain(run.scan(&[])), entries);
        let mut io = Io::default();
        assert!(entries.iter().all(|(key, value)| run.get(key, &mut io).unwrap().as_ref() == Some(value)));
    }
}

#[test]
#[ignore = "makes the golden files of a new version; those of old versions are never made again"]
fn make_golden_files() {
    for (n, options) in layouts().into_iter().enumerate() {
        let path = golden(&format!("v1-{n}.run"));
        RealDisk.create_dir(path.parent().unwrap()).unwrap();
        write(&path, options, &golden_entries(options), b"golden");
    }
}
