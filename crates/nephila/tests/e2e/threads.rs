//! How much of a machine a crawl takes: its threads for fetching and parsing, and their priority.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::feeds::wait;

/// Ends its process with the test.
struct Crawl(Child);

impl Drop for Crawl {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A crawl of a site that never answers, at the settings we ship but for these, under this command.
fn start(dir: &Path, url: &str, more: &[&str], under: &[&str]) -> Crawl {
    let program = env!("CARGO_BIN_EXE_nephila");
    let words: Vec<&str> = [under, &[program, "crawl", url, "-o", "data", "--forever", "-q"], more].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(dir).env("HOME", dir).env_remove("NEPHILA_CONFIG");
    Crawl(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts"))
}

/// Its threads that fetch and read, and its nice level (proc(5): field 19 of stat).
fn taken(crawl: &Crawl) -> (usize, Option<i32>) {
    let process = format!("/proc/{}", crawl.0.id());
    let tasks = std::fs::read_dir(format!("{process}/task")).into_iter().flatten().flatten();
    let is_worker = |task: &std::fs::DirEntry| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        name.starts_with("tokio-rt-worker") || name.starts_with("tokio-runtime-w")
    };
    let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
    let nice = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(16)?.parse().ok());
    (tasks.filter(is_worker).count(), nice)
}

#[test]
fn row_10_a_crawl_takes_all_cores_at_the_priority_it_was_started_with_and_fewer_if_it_is_told_so() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    let cores = std::thread::available_parallelism().expect("cores").get();
    let shows = |more: &[&str], under: &[&str], threads: usize, nice: i32| {
        let dir = tempfile::tempdir().expect("a folder");
        let crawl = start(dir.path(), &url, more, under);
        let what = format!("{threads} threads at {nice}");
        // Threads for blocking calls have the same name, and come and go: there may be more for a moment.
        wait(&what, || taken(&crawl) == (threads, Some(nice)));
    };
    let own =
        taken(&Crawl(Command::new("sleep").arg("60").spawn().expect("it starts"))).1.expect("a nice level");
    shows(&[], &[], cores, own);
    shows(&["--set", "crawl.threads=1"], &[], 1, own);
    shows(&["--set", "crawl.threads=1"], &["nice", "-n", "3"], 1, (own + 3).min(19));
}

#[test]
fn pro_07_the_allocator_gives_freed_memory_back_soon() {
    // The allocator prints its options on request; the variable adds to the built-in options.
    let mut command = Command::new(env!("CARGO_BIN_EXE_nephila"));
    let said = command.arg("--version").env("_RJEM_MALLOC_CONF", "stats_print:true").output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let has = |line: &str| said.lines().any(|said| said.trim_start().starts_with(line));
    assert!(has("opt.dirty_decay_ms: 500 ") && has("opt.muzzy_decay_ms: 0 "), "{said}");
    assert!(has("opt.background_thread: true"), "{said}");
}
