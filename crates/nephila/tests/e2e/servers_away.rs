//! The servers of a cluster do not answer: the command says so at once, with their addresses, and has an exit code of
//! its own. Or they answer, and there is no cluster yet: read-only commands make none.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nephila_testnats::Nats;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");

/// An address without a listener: the port was ours a moment ago.
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

/// How many streams a server has, asked in its own protocol.
fn streams(server: &str) -> u64 {
    let stream = TcpStream::connect(server.trim_start_matches("nats://")).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let asked = "CONNECT {\"verbose\":false}\r\nSUB answer 1\r\nPUB $JS.API.INFO answer 0\r\n\r\n";
    (&stream).write_all(asked.as_bytes()).unwrap();
    let said =
        BufReader::new(stream).lines().map_while(Result::ok).find(|line| line.contains("\"streams\":"));
    let said: serde_json::Value = serde_json::from_str(&said.expect("an answer")).expect("JSON");
    said["streams"].as_u64().expect("a number")
}

#[test]
fn ops_04_who_only_looks_makes_no_cluster() {
    let (home, nats) = (tempfile::tempdir().unwrap(), Nats::one().expect("a NATS server"));
    let server = nats.urls()[0].clone();
    let look = |args: &[&str]| {
        let ran = command(args, &server, home.path()).args(["--set", "cluster.replicas=1"]).output().unwrap();
        let said = [&*ran.stdout, &*ran.stderr].concat();
        (ran.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    for args in
        [&["cluster", "status"][..], &["cluster", "nodes"], &["job", "list"], &["job", "show", "press"]]
    {
        let (code, said) = look(args);
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains("there is no cluster nephila on the NATS servers"), "{args:?}: {said}");
        assert!(said.contains("`nephila serve` on the first node makes it"), "{args:?}: {said}");
    }
    let folder = home.path().join("node").display().to_string();
    let (_, said) = look(&["doctor", "-o", &folder]);
    assert!(said.contains("there is no cluster nephila on these servers yet"), "{said}");
    assert_eq!(streams(&server), 0, "looking made streams");

    // A command that begins a job makes a cluster.
    let (code, said) = look(&["job", "create", "press", "http://example.test/"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(streams(&server) > 0);
    let (code, said) = look(&["job", "list"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("press"), "{said}");
}
