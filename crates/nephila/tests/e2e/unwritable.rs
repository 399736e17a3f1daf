//! A folder that may be read and not written: on a medium of that kind, or of another user.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::site::{PROGRAM, Site, crawl_args, run};

/// The id of an unprivileged user without files.
const NOBODY: u32 = 65_534;

/// Every file and folder below, with its length; readable for all from now on, and writable for its owner at most.
fn opened(dir: &Path, seen: &mut BTreeMap<PathBuf, u64>) {
    let is_dir = dir.is_dir();
    let mode = if is_dir { 0o555 } else { 0o444 };
    if is_dir {
        for entry in std::fs::read_dir(dir).unwrap() {
            opened(&entry.unwrap().path(), seen);
        }
    }
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    seen.insert(dir.to_owned(), if is_dir { 0 } else { std::fs::metadata(dir).unwrap().len() });
}

#[test]
fn fin_13_a_folder_that_cannot_be_written_is_explained_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::start();
    let args = crawl_args(site.port, "crawl");
    let ended = run(dir.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ended.code, 0, "{}", ended.said);

    // The unprivileged user cannot read the folder of the build.
    let program = dir.path().join("nephila");
    std::fs::copy(PROGRAM, &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut before = BTreeMap::new();
    opened(&dir.path().join("crawl"), &mut before);

    let ask = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).args(["-o", "crawl"]).current_dir(dir.path()).stdin(Stdio::null());
        command.env("HOME", "/nonexistent").env_remove("NEPHILA_CONFIG");
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let url = format!("http://s0.test:{}/p1", site.port);
    let (code, said, wrong) = ask(&["explain", &url]);
    assert_eq!(code, Some(0), "{said}{wrong}");
    assert!(said.starts_with("fetched: ok 200") && said.contains("1 responses"), "{said}");
    let (code, said, wrong) = ask(&["host", "show", &format!("http://s0.test:{}", site.port)]);
    assert!(code == Some(0) && said.contains("queue      0 waiting"), "{said}{wrong}");
    // A command that changes the crawl fails with a message, instead of changing a copy.
    let (code, said, wrong) = ask(&["add", &format!("http://s0.test:{}/new", site.port)]);
    assert!(code != Some(0) && wrong.contains("ermission"), "{said}{wrong}");

    let mut after = BTreeMap::new();
    opened(&dir.path().join("crawl"), &mut after);
    assert_eq!(after, before, "something was written");
    // So that the test may clean up, as any user.
    for path in after.keys().filter(|path| path.is_dir()) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}
