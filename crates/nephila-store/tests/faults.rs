//! Fault injection: every change to the disk fails once, and the power is cut at every change. Invariants: acknowledged
//! records can be read with their digests, and the archive works again afterwards.

use std::path::Path;
use std::sync::Arc;

use nephila_store::archive::{Archive, Error, Receipt, Settings};
use nephila_store::disk::faulty::{Damage, FaultyDisk, IO_ERROR, NO_SPACE, Plan};
use nephila_store::verify::verify_path;

mod common;
use common::{answers, info, page, redeem, settings};

/// Files of two pages, so that rolling happens too.
fn small_files() -> Settings {
    Settings { bytes_max: 2_500, ..settings() }
}

const PAGES: u64 = 8;

/// A disk that works, without the time that real syncs take.
fn healthy() -> Arc<FaultyDisk> {
    Arc::new(FaultyDisk::new(Plan::Healthy, IO_ERROR, Damage::None))
}

/// Appends some pages in sequence, each until accepted or until the disk stays broken; returns the receipts.
async fn workload(archive: &Archive, first: u64) -> Vec<(u64, Receipt)> {
    let mut receipts = Vec::new();
    for n in first..first + PAGES {
        for _ in 0..3 {
            match archive.append(page(n)).await {
                Ok(receipt) => {
                    receipts.push((n, receipt));
                    break;
                }
                Err(error) => assert!(error.is_temporary(), "{error}"),
            }
        }
    }
    receipts
}

/// Number of disk calls of a run without faults.
async fn calls_of_a_healthy_run() -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(Plan::Healthy, NO_SPACE, Damage::None);
    let archive = Archive::open_on(Arc::new(disk.clone()), dir.path(), small_files(), info()).unwrap();
    assert_eq!(workload(&archive, 0).await.len(), PAGES as usize);
    archive.close().await.unwrap();
    disk.calls().0
}

fn check(dir: &Path, receipts: &[(u64, Receipt)], exactly_once: bool, what: &str) {
    let seen = answers(dir);
    for (n, receipt) in receipts {
        redeem(dir, receipt);
        let count = seen.get(&format!("http://site.test/{n}")).copied().unwrap_or_default();
        assert!(count == 1 || (!exactly_once && count > 1), "page {n} is there {count} times, {what}");
    }
    let report = verify_path(dir).unwrap();
    assert!(report.findings.is_empty(), "{what}: {:#?}", report.findings);
}

#[tokio::test]
async fn every_call_may_fail_once() {
    let calls = calls_of_a_healthy_run().await;
    assert!(calls > 60, "{calls} calls");
    for errno in [NO_SPACE, IO_ERROR] {
        for damage in [Damage::None, Damage::HalfWritten] {
            for number in 0..calls {
                one_failure(number, errno, damage).await;
            }
        }
    }
}

async fn one_failure(number: u64, errno: i32, damage: Damage) {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(Plan::Once(number), errno, damage);
    let opened = Archive::open_on(Arc::new(disk.clone()), dir.path(), small_files(), info());
    let Ok(archive) = opened else { return };
    let receipts = workload(&archive, 0).await;
    let what = format!("call {number} ({}) failed with {errno}", disk.name(number));
    assert_eq!(receipts.len(), PAGES as usize, "an append works again after one failure; {what}");
    let closed = archive.close().await;
    let reopened = Archive::open_on(healthy(), dir.path(), small_files(), info()).unwrap();
    reopened.close().await.unwrap_or_else(|e| panic!("{what}: {e}"));
    if let Err(error) = closed {
        assert!(matches!(error, Error::Disk { .. }), "{what}: {error}");
    }
    check(dir.path(), &receipts, true, &what);
}

#[tokio::test]
async fn a_full_disk_stops_the_archive_until_there_is_space() {
    let calls = calls_of_a_healthy_run().await;
    for number in 2..calls {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new(Plan::From(number), NO_SPACE, Damage::HalfWritten);
        let Ok(archive) = Archive::open_on(Arc::new(disk.clone()), dir.path(), small_files(), info()) else {
            continue;
        };
        let mut receipts = workload(&archive, 0).await;
        disk.set_plan(Plan::Healthy);
        let later = workload(&archive, 100).await;
        assert_eq!(later.len(), PAGES as usize, "space is back");
        receipts.extend(later);
        archive.close().await.unwrap();
        check(dir.path(), &receipts, true, &format!("full from call {number}"));
    }
}

#[tokio::test]
async fn the_power_may_go_at_every_call() {
    let calls = calls_of_a_healthy_run().await;
    for kept in [0, 100, 255] {
        for number in 0..=calls {
            let dir = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::new(Plan::From(number), IO_ERROR, Damage::HalfWritten);
            let mut receipts = Vec::new();
            if let Ok(archive) = Archive::open_on(Arc::new(disk.clone()), dir.path(), small_files(), info()) {
                receipts = workload(&archive, 0).await;
                let _ = archive.close().await;
            }
            disk.lose_power(kept).unwrap();
            let again = Archive::open_on(healthy(), dir.path(), small_files(), info()).unwrap();
            receipts.extend(workload(&again, 100).await);
            again.close().await.unwrap();
            // A record may have been written, not acknowledged, and written again: then it is there twice.
            check(dir.path(), &receipts, false, &format!("no power from call {number}, {kept} kept"));
        }
    }
}

#[tokio::test]
async fn recovery_may_be_interrupted_at_every_call() {
    // An archive with an open file that has a torn tail.
    let make = || async {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new(Plan::Healthy, IO_ERROR, Damage::HalfWritten);
        let archive = Archive::open_on(Arc::new(disk.clone()), dir.path(), settings(), info()).unwrap();
        let receipts = workload(&archive, 0).await;
        disk.set_plan(Plan::From(disk.calls().0));
        let _ = archive.append(page(99)).await;
        let _ = archive.close().await;
        (dir, receipts)
    };
    for number in 0..40 {
        let (dir, receipts) = make().await;
        let disk = FaultyDisk::new(Plan::From(number), IO_ERROR, Damage::HalfWritten);
        if let Ok(archive) = Archive::open_on(Arc::new(disk.clone()), dir.path(), settings(), info()) {
            let _ = archive.close().await;
        }
        disk.lose_power(0).unwrap();
        let archive = Archive::open_on(healthy(), dir.path(), settings(), info()).unwrap();
        archive.close().await.unwrap();
        check(dir.path(), &receipts, true, &format!("recovery stopped at call {number}"));
    }
}
