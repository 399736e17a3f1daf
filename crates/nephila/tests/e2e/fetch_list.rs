//! `nephila fetch` of a list, at the rests we ship: no host holds up another, the end is counted, and a run can be
//! continued.
//!
//! Settings that differ from the shipped ones: `slot_connections` and `slot_delay`, since all hosts of this site have
//! one address.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::site::{HOSTS, PROGRAM, Site};

const PAGES: usize = 3;

fn fetch(site: &Site, dir: &std::path::Path, more: &[&str]) -> Command {
    // Host by host, as the lists of sites are.
    let list: String = (0..HOSTS)
        .flat_map(|host| (0..PAGES).map(move |page| (host, page)))
        .map(|(host, page)| format!("http://s{host}.test:{}/p{page}\n", site.port))
        .collect();
    std::fs::write(dir.join("list"), list).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["fetch", "-i", "list", "--json", "--config", "/dev/null"]).args(more);
    for host in 0..HOSTS {
        command.args(["--resolve", &format!("s{host}.test:127.0.0.1")]);
    }
    for set in [
        "spider.allow_addresses=[\"127.0.0.1/32\"]".to_owned(),
        format!("spider.ports=[{}]", site.port),
        "frontier.slot_connections=6".into(),
        "frontier.slot_delay=0s".into(),
    ] {
        command.args(["--set", &set]);
    }
    command
        .current_dir(dir)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn host_of(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let url = line["url"].as_str().unwrap();
    url.split('/').nth(2).unwrap().to_owned()
}

#[test]
fn fin_09_no_host_of_a_list_holds_up_another() {
    let (site, dir) = (Site::start(), tempfile::tempdir().expect("a folder"));
    // Two workers, and the first host has three URLs: in the order of the list both would wait for that host.
    let output = fetch(&site, dir.path(), &["-c", "2"]).output().expect("it runs");
    let (lines, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    let hosts: Vec<String> = lines.lines().map(host_of).collect();
    assert_eq!(hosts.len(), HOSTS * PAGES, "{lines}");
    // In the order of the list the last host comes last. Here one worker may still have the first page of a host while the
    // other takes the second page of each of the others, and no third page is due by then.
    let first: BTreeSet<&String> = hosts[..2 * HOSTS].iter().collect();
    assert_eq!(first.len(), HOSTS, "every host is asked before the others are through: {hosts:?}");
    assert!(
        said.contains(&format!("{} URLs: {} ended well, 0 did not", HOSTS * PAGES, HOSTS * PAGES)),
        "{said}"
    );
}

#[test]
fn fin_09_the_same_command_goes_on_where_it_was_stopped() {
    let (site, dir) = (Site::start(), tempfile::tempdir().expect("a folder"));
    let mut child = fetch(&site, dir.path(), &["-o", "kept"]).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut first: Vec<String> = lines.by_ref().take(4).map(Result::unwrap).collect();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    first.extend(lines.map(Result::unwrap));
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(11), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(first.len() < HOSTS * PAGES, "there is something left");
    let again = fetch(&site, dir.path(), &["-o", "kept"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(0), "{said}");
    let second = String::from_utf8_lossy(&again.stdout).into_owned();
    assert_eq!(first.len() + second.lines().count(), HOSTS * PAGES, "{first:?} {second}");
    assert!(said.contains(&format!("{} were answered for before", first.len())), "{said}");
    assert!(dir.path().join("kept/archive").is_dir());
    let other = fetch(&site, dir.path(), &["-o", "kept", "http://127.0.0.1:9/"]).output().expect("it runs");
    assert_eq!(other.status.code(), Some(2), "another list");
}
