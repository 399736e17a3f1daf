//! Folders of crawls that earlier versions left: each opens, goes on, and has every page once in the end.
//!
//! `tests/golden/folders` has folders from 5ee840b on, named by date and commit. In each, the crawl of one small site was
//! killed after some pages. [`make_a_golden_folder`] makes one with the program of a version; those of earlier versions
//! are never made again.
//!
//! Settings that differ from the shipped ones: no rests between requests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::site::{HOSTS, PAGES, PATIENCE, Site, crawl_args, page, run};

/// The URLs of the folders name this port, so it is always the same one. Others who take ports of loopback take those
/// of 127.0.0.1.
const ADDRESS: &str = "127.91.17.3:18431";
/// Answers of the site before the kill: about half of them.
const ANSWERED: usize = 33;
/// A page that was answered this long before the kill is in the archive.
const SETTLED: Duration = Duration::from_secs(2);
/// Beside the crawl: the pages that were answered before the kill, one in each line.
const LIST: &str = "answered.txt";
/// Name of the crawl's folder, and so of the client.
const CRAWL: &str = "crawl";

fn folders() -> PathBuf {
    PathBuf::from("tests/golden/folders")
}

fn args(site: &Site) -> Vec<String> {
    let (ip, _) = ADDRESS.rsplit_once(':').expect("it has a port");
    let args = crawl_args(site.port, CRAWL);
    args.into_iter().map(|arg| arg.replace("127.0.0.1", ip)).collect()
}

fn tar(args: &[&str], path: &Path, at: &Path) {
    let status =
        Command::new("tar").args(args).arg(path).arg("-C").arg(at).arg(".").status().expect("tar runs");
    assert!(status.success(), "tar {args:?} {}: {status}", path.display());
}

/// Pages of the site, as a client sees them: host, port and path.
fn pages(port: u16) -> BTreeSet<String> {
    let of_host = |host: usize| {
        let numbered = (0..PAGES).map(move |number| format!("s{host}.test:{port}/p{number}"));
        numbered.chain([format!("s{host}.test:{port}/")])
    };
    (0..HOSTS).flat_map(of_host).collect()
}

#[test]
fn the_folder_of_every_version_opens_and_goes_on() {
    let (site, mut tried) = (Site::start_at(ADDRESS), 0);
    for entry in std::fs::read_dir(folders()).expect("there are some") {
        let packed = entry.expect("it can be read").path();
        goes_on(&site, &packed);
        tried += 1;
    }
    assert!(tried > 0, "no folder is there");
}

fn goes_on(site: &Site, packed: &Path) {
    let dir = tempfile::tempdir().expect("a folder");
    tar(&["-xzf"], packed, dir.path());
    let name = packed.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let list = std::fs::read_to_string(dir.path().join(LIST)).expect("it was packed too");
    let before: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let all = pages(site.port);
    assert!(before.is_subset(&all) && before.len() * 4 > all.len() && before.len() < all.len(), "{name}");

    let earlier = site.asked();
    let args = args(site);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = run(dir.path(), &args);
    assert_eq!(ended.code, 0, "{name}: {}", ended.said);
    let now = site.asked().into_iter().filter(|(url, times)| earlier.get(url) != Some(times));
    let asked: BTreeSet<String> =
        now.filter_map(|(url, _)| Some(url.strip_prefix("http://")?.to_owned())).collect();
    let missing: Vec<_> = all.difference(&before).filter(|page| !asked.contains(*page)).collect();
    let again: Vec<_> = asked.intersection(&before).collect();
    assert!(missing.is_empty() && again.is_empty(), "{name}: not asked for: {missing:?}; again: {again:?}");

    let verified = run(dir.path(), &["verify", CRAWL]);
    assert_eq!(verified.code, 0, "{name}: {}", verified.said);
    for page_name in &all {
        let (host, path) = page_name.split_at(page_name.find('/').expect("it has a path"));
        let read = run(dir.path(), &["read", &format!("http://{page_name}"), "-o", CRAWL]);
        assert_eq!(
            (read.code, read.said.trim_end()),
            (0, page(host, path, site.port).trim_end()),
            "{name}: {page_name}"
        );
    }
}

/// `NEPHILA_OLD=PROGRAM NEPHILA_NAME=2026-01-31-abcdef0 cargo nextest run --run-ignored=only -E 'test(make_a_golden_folder)'`
#[test]
#[ignore = "makes the folder of a version; those of earlier versions are never made again"]
fn make_a_golden_folder() {
    let [program, name] = ["NEPHILA_OLD", "NEPHILA_NAME"].map(|name| std::env::var(name).expect(name));
    let dir = tempfile::tempdir().expect("a folder");
    let site = Site::start_at(ADDRESS);
    site.left.store(ANSWERED, Ordering::SeqCst);
    let mut command = Command::new(program);
    command.args(args(&site)).current_dir(dir.path()).env("HOME", dir.path()).stdin(Stdio::null());
    let mut child = command.spawn().expect("the crawl starts");
    let began = Instant::now();
    while site.left.load(Ordering::SeqCst) > 0 && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(SETTLED);
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    let answered: Vec<String> = site.served_to("").into_iter().collect();
    std::fs::write(dir.path().join(LIST), answered.join("\n") + "\n").expect("it is written");
    std::fs::create_dir_all(folders()).expect("a folder");
    tar(&["-czf"], &folders().join(format!("{name}.tar.gz")), dir.path());
}
