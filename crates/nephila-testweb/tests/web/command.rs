//! The `testweb` command: ready line, journal, judging, and its end when standard input closes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nephila_testweb::journal::Log;

/// No command takes longer to end.
const END_MAX: Duration = Duration::from_secs(10);

/// A running command that is killed, by its own handle, if a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn testweb(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testweb"));
    command.args(args);
    command
}

/// Starts a serving command and reads its ready line.
fn start(args: &[&str]) -> (Running, serde_json::Value) {
    let mut command = testweb(args);
    let mut child =
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the command starts"));
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

/// Closes standard input and waits for the end.
fn end(mut child: Running) {
    drop(child.0.stdin.take());
    let before = Instant::now();
    loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        assert!(before.elapsed() < END_MAX, "still running");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn get(to: &str, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn serve_writes_a_journal_that_check_can_judge() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.jsonl");
    let ca = folder.path().join("ca.pem");
    let (journal_arg, ca_arg) = (journal.to_str().unwrap(), ca.to_str().unwrap());
    let web = ["--seed", "5", "--hosts", "1", "--pages", "3", "--address-block", "81"];
    let mut args = vec!["serve", "--journal", journal_arg, "--ca", ca_arg];
    args.extend(web);
    let (child, ready) = start(&args);
    assert!(std::fs::read_to_string(&ca).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    let port = ready["http_port"].as_u64().unwrap().to_string();
    let (to, host) = (format!("127.81.0.1:{port}"), format!("h0.d0.test:{port}"));
    for path in ["/robots.txt", "/", "/p/1", "/p/2"] {
        assert!(get(&to, &host, path).starts_with("HTTP/1.1 200"), "{path}");
    }
    end(child);
    let log = Log::read(BufReader::new(std::fs::File::open(&journal).unwrap())).unwrap();
    assert_eq!((log.requests.len(), log.connections.len(), log.lost), (4, 4, 0));

    let check = |more: &[&str]| {
        let mut args = vec!["check", "--journal", journal_arg, "--http-port", &port];
        args.extend(web);
        args.extend(more);
        testweb(&args).output().unwrap()
    };
    let clean = check(&[]);
    assert!(clean.status.success(), "{}", String::from_utf8_lossy(&clean.stdout));
    let strict = check(&["--host-rest-ms", "60000"]);
    assert!(!strict.status.success());
    assert!(String::from_utf8_lossy(&strict.stdout).contains("HostRest"));
}

#[test]
fn a_line_on_standard_input_moves_virtual_time() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.json");
    std::fs::write(&file, r#"{"feed_share": 1.0, "feed_period": "10s", "address_block": 82}"#).unwrap();
    let (mut child, ready) = start(&["serve", "--settings", file.to_str().unwrap()]);
    let to = format!("127.82.0.1:{}", ready["http_port"]);
    assert!(get(&to, "h0.d0.test", "/news/20").starts_with("HTTP/1.1 404"));
    child.0.stdin.as_mut().unwrap().write_all(b"advance 3600\n").unwrap();
    let before = Instant::now();
    while !get(&to, "h0.d0.test", "/news/20").starts_with("HTTP/1.1 200") {
        assert!(before.elapsed() < END_MAX, "time did not move");
        std::thread::sleep(Duration::from_millis(20));
    }
    end(child);
}

#[test]
fn the_bare_server_answers_anything_with_its_page() {
    let (child, ready) = start(&["bench-bare", "--page-bytes", "5000"]);
    let to = format!("127.0.0.1:{}", ready["http_port"]);
    let answer = get(&to, "whoever", "/whatever");
    assert_eq!(answer.split("\r\n\r\n").nth(1).unwrap().len(), 5000);
    end(child);
}

#[test]
fn list_and_truth_agree_on_a_plain_web_and_settings_read_back() {
    let lines = |args: &[&str]| {
        let output = testweb(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let list = lines(&["list", "--hosts", "5", "--pages", "50"]);
    let truth = lines(&["truth", "--hosts", "5", "--pages", "50"]);
    assert!(list.lines().count() >= 45);
    let truth: Vec<_> = truth.lines().map(|line| line.strip_prefix("Page\t").unwrap()).collect();
    assert_eq!(list.lines().collect::<Vec<_>>(), truth);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.json");
    std::fs::write(&file, lines(&["settings", "--mixed", "--seed", "9"])).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(lines(&["list", "--settings", file]), lines(&["list", "--mixed", "--seed", "9"]));
}
