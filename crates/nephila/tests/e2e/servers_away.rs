//! The servers of a cluster do not answer: that is said at once, with their addresses, and has an exit code of its own.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");

/// An address where nobody listens: it was ours a moment ago.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    format!("nats://{}", listener.local_addr().expect("an address"))
}

fn command(args: &[&str], server: &str, home: &std::path::Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).args(["--set", &format!("cluster.servers=[\"{server}\"]")]);
    command.env("HOME", home).env("NEPHILA_CONFIG", "/dev/null").stdin(Stdio::null());
    command
}

#[test]
fn ops_02_a_command_that_finds_no_server_says_so_soon_and_exits_with_8() {
    let (home, server, began) = (tempfile::tempdir().unwrap(), nobody(), Instant::now());
    let ran = command(&["job", "list"], &server, home.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(8), "{said}");
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    assert!(said.contains(&format!("waiting for the NATS servers ({server})")), "{said}");
    assert!(said.contains(&format!("the NATS servers ({server}) do not answer within 20 s")), "{said}");
}

#[test]
fn ops_02_a_node_that_waits_for_its_servers_says_so() {
    let (home, server) = (tempfile::tempdir().unwrap(), nobody());
    let folder = home.path().join("node").display().to_string();
    let mut node = command(&["serve", "-o", &folder, "--set", "api.listen="], &server, home.path());
    let mut node = node.stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let lines = BufReader::new(node.stderr.take().unwrap()).lines();
    let said = lines.map_while(Result::ok).find(|line| line.contains("waiting for the NATS servers"));
    node.kill().unwrap();
    node.wait().unwrap();
    assert!(said.is_some_and(|line| line.contains(&server)));
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
