//! Tests that need a network of their own: the test runs itself again in a fresh network namespace, as root.
//!
//! A test's changes to routes and ports there end with the namespace and never affect the machine.

use std::process::Command;

/// Set in the process that runs inside.
const INSIDE: &str = "NEPHILA_TEST_NAMESPACE";
/// Makes loopback work, then runs the one test.
const SCRIPT: &str = "ip link set lo up && exec \"$0\" --exact \"$1\" --nocapture --test-threads 1";

/// Returns true inside the namespace. Outside, runs the named test (`tcp::tcp_10_…`) inside, checks that the test
/// passed, and returns false: the caller has nothing left to do. Without root the test is skipped, with a message.
pub(crate) fn enter(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    if !is_root() {
        eprintln!("{test} needs root for a network namespace: skipped");
        return false;
    }
    let own = std::env::current_exe().expect("our own path");
    let ran = Command::new("unshare")
        .args(["-n", "sh", "-c", SCRIPT])
        .arg(own)
        .arg(test)
        .env(INSIDE, "1")
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{test} inside:\n{said}\n{complained}");
    false
}

/// Runs a command that must succeed.
pub(crate) fn run(line: &str) {
    assert!(std::env::var_os(INSIDE).is_some(), "only inside");
    let mut words = line.split(' ');
    let status = Command::new(words.next().expect("a command")).args(words).status().expect(line);
    assert!(status.success(), "{line}");
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
    status
        .lines()
        .any(|line| line.strip_prefix("Uid:").is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0")))
}
