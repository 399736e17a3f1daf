//! The checks of a clock, of a healthy folder, and of a folder after a kill.

use nephila_core::job::{Job, JobId};

use super::*;
use nephila_engine::folder::Plan;

fn of(checks: &Checks, name: &str) -> State {
    checks
        .0
        .iter()
        .find(|check| check.check == name)
        .unwrap_or_else(|| panic!("{name}: {:?}", checks.0))
        .state
}

#[test]
fn a_clock_of_another_age_fails() {
    for (now, want) in [(0, State::Fail), (1_794_697_089_000, State::Ok), (u64::MAX, State::Fail)] {
        let mut checks = Checks::default();
        clock(&mut checks, now);
        assert_eq!(of(&checks, "clock"), want, "{now}");
    }
}

#[test]
fn a_healthy_folder_is_well_and_a_full_disk_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path().join("not/there/yet"));
    let mut checks = Checks::default();
    let mut settings = Settings::default();
    settings.crawl.disk_free_min = 0;
    disk(&mut checks, &folder, &settings);
    state(&mut checks, &folder);
    assert_eq!((of(&checks, "disk"), of(&checks, "folder")), (State::Ok, State::Ok));
    assert_ne!(of(&checks, "sync"), State::Fail);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing stays");
    settings.crawl.disk_free_min = u64::MAX;
    let mut checks = Checks::default();
    disk(&mut checks, &folder, &settings);
    assert_eq!(of(&checks, "disk"), State::Fail);
}

#[test]
fn what_a_kill_leaves_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::new(dir.path());
    fs::create_dir_all(folder.archive()).unwrap();
    fs::create_dir_all(folder.logs()).unwrap();
    fs::write(folder.archive().join("x.warc.gz.open"), "").unwrap();
    fs::write(folder.logs().join("outcomes-00000001.jsonl"), "{\"torn").unwrap();
    let job = Job::new(JobId(1), "j");
    folder.set_plan(&Plan::of(job)).unwrap();
    let mut checks = Checks::default();
    let lock = folder.lock().unwrap();
    state(&mut checks, &folder);
    assert_eq!((of(&checks, "archive"), of(&checks, "lock")), (State::Ok, State::Ok), "it runs");
    drop(lock);
    let mut checks = Checks::default();
    state(&mut checks, &folder);
    assert_eq!((of(&checks, "archive"), of(&checks, "log")), (State::Warn, State::Warn));
    fs::write(folder.logs().join("outcomes-00000001.jsonl"), "{\"at\":1,\0\0\0}\n").unwrap();
    let mut checks = Checks::default();
    state(&mut checks, &folder);
    assert_eq!(of(&checks, "log"), State::Warn, "a line in which something was written over");
    fs::write(folder.state().join("secret"), "short").unwrap();
    fs::write(folder.settings(), "[nonsense]").unwrap();
    let mut checks = Checks::default();
    state(&mut checks, &folder);
    assert_eq!(of(&checks, "state"), State::Fail);
    assert!(checks.0.iter().any(|check| check.check == "folder" && check.state == State::Fail));
}
