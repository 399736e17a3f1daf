//! Tidy: the sources of the core name nothing that opens, connects, waits or asks the time.

use super::{expect_none, files};

/// Names that the core must not use, and the crate where each belongs instead.
const FORBIDDEN: [(&str, &str); 15] = [
    ("std::fs", "files belong to nephila-store"),
    ("std::env", "settings are arguments"),
    ("std::thread", "threads belong to the node"),
    ("std::process", "processes belong to the node"),
    ("std::io::stdin", "input is an argument"),
    ("std::os::", "the system belongs to the shells"),
    ("TcpStream", "sockets belong to nephila-spider"),
    ("TcpListener", "sockets belong to nephila-spider"),
    ("UdpSocket", "sockets belong to nephila-spider"),
    ("Instant::now", "time is an argument"),
    ("SystemTime::now", "time is an argument"),
    ("Timestamp::now", "time is an argument"),
    ("Zoned::now", "time is an argument"),
    ("RandomState", "hash order is not decided by chance: use BTreeMap or a fixed hasher"),
    ("async fn", "the core never awaits"),
];

fn complaints(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate().take(lines_of_code(path, text)) {
        let code = code_of(line);
        for (word, instead) in FORBIDDEN.iter().filter(|(word, _)| code.contains(word)) {
            found.push(format!("{path}:{}: `{word}` in the core: {instead}", number + 1));
        }
        // `use std::{fs, fmt}` names the module without its path.
        if let Some(list) = code.trim_start().strip_prefix("use std::{") {
            for word in ["fs", "env", "thread", "process"] {
                if list.split([',', '{', '}', ';', ' ', ':']).any(|part| part == word) {
                    found.push(format!("{path}:{}: `std::{word}` in the core", number + 1));
                }
            }
        }
    }
    found
}

/// Tests may read golden files. They are a file of their own or the end of one.
fn lines_of_code(path: &str, text: &str) -> usize {
    if path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.contains("/tests/") {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|two| two[0] == "#[cfg(test)]" && two[1] == "mod tests {");
    tests.unwrap_or(lines.len())
}

/// A line without its comment. Two slashes after a colon are part of a URL in a string.
fn code_of(line: &str) -> &str {
    let mut from = 0;
    while let Some(at) = line[from..].find("//") {
        let at = from + at;
        if !line[..at].ends_with(':') {
            return &line[..at];
        }
        from = at + 2;
    }
    line
}

#[test]
fn the_core_touches_nothing() {
    let files = files();
    let core: Vec<_> = files
        .iter()
        .filter(|(path, _)| path.starts_with("crates/nephila-core/src/") && path.ends_with(".rs"))
        .collect();
    assert!(core.len() >= 5, "the core was not found");
    expect_none(core.iter().flat_map(|(path, text)| complaints(path, text)).collect());
}

#[test]
fn every_planted_call_is_found_and_a_comment_is_not() {
    for (word, _) in FORBIDDEN {
        assert_eq!(complaints("a.rs", &format!("let x = {word};\n")).len(), 1, "{word}");
        assert_eq!(
            complaints("a.rs", &format!("/// Not {word}.\n//! {word}\nx(); // {word}\n")).len(),
            0,
            "{word}"
        );
        assert_eq!(complaints("a.rs", &format!("get(\"http://a.test/\", {word});\n")).len(), 1, "{word}");
    }
    assert_eq!(complaints("a.rs", "use std::{fmt, fs};\n").len(), 1);
    assert_eq!(complaints("a.rs", "#[cfg(test)]\nmod tests;\nuse std::fs;\n").len(), 1);
    assert_eq!(complaints("a.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n").len(), 0);
    assert_eq!(complaints("store/tests.rs", "use std::fs;\n").len(), 0);
    assert_eq!(complaints("a.rs", "use std::{fmt, offset};\n").len(), 0);
}
