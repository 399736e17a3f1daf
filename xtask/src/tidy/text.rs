//! Tidy: how our files begin, how long they are, and which texts they must not contain.

use super::{expect_none, files};

/// Maximum lines of a product file: three files in four have at most 400, and one with more than this holds two ideas.
const LINES_MAX: usize = 500;

/// Maximum lines of any other file: tests, simulations, examples and automation.
const TEST_LINES_MAX: usize = 700;

/// Crates that exist for tests alone.
const TEST_CRATES: [&str; 4] = ["nephila-proof", "nephila-sim", "nephila-testweb", "nephila-testnats"];

/// Promises to do something later. Written in two halves so that this file does not complain about itself.
const UNFINISHED: [&str; 4] =
    [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("FIX", "ME"), concat!("XX", "X:")];

/// Paths that exist on one machine only.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/br", "ief"), concat!("/ho", "me/")];

fn complaints(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_rust = path.ends_with(".rs");
    let is_free =
        ["/tests/", "/benches/", "fuzz/"].iter().any(|part| path.contains(part) || path.starts_with(part));
    if is_rust && !is_free && !text.starts_with("//!") {
        found.push(format!("{path}: opens without `//!`; say what lives here and what always holds"));
    }
    let lines = text.lines().count();
    let lines_max = if is_product(path) { LINES_MAX } else { TEST_LINES_MAX };
    if is_rust && lines > lines_max {
        found.push(format!(
            "{path}: {lines} lines, at most {lines_max}; move an idea or the tests to their own file"
        ));
    }
    if is_text_of_ours(path) {
        for (number, line) in text.lines().enumerate() {
            for word in UNFINISHED.iter().filter(|word| is_rust && line.contains(**word)) {
                found.push(format!("{path}:{}: `{word}` in finished code", number + 1));
            }
            for word in MACHINE_PATHS.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{path}:{}: `{word}` exists on one machine only", number + 1));
            }
        }
    }
    found
}

/// Whether the file is part of the product: in the sources of a crate that is not for tests, and no file of tests.
fn is_product(path: &str) -> bool {
    let Some((name, file)) = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/")) else {
        return false;
    };
    !TEST_CRATES.contains(&name) && !file.contains("tests/") && !file.ends_with("tests.rs")
}

/// Seeds, golden files and the catalogue are data and may say anything.
fn is_text_of_ours(path: &str) -> bool {
    let is_data = ["/seeds/", "/golden/", "/catalogue/", "/fixtures/"].iter().any(|part| path.contains(part));
    let endings = [".rs", ".toml", ".md", ".py", ".sh", ".yml", ".lua", ".json"];
    !is_data && (endings.iter().any(|ending| path.ends_with(ending)) || path == ".ci/run")
}

#[test]
fn our_files_are_tidy() {
    let files = files();
    assert!(files.len() > 20, "the workspace was not found");
    expect_none(files.iter().flat_map(|(path, text)| complaints(path, text)).collect());
}

#[test]
fn a_file_without_an_opening_is_found() {
    let path = "crates/a/src/b.rs";
    assert_eq!(complaints(path, "use std::fmt;\n").len(), 1);
    assert_eq!(complaints(path, "//! About b.\n").len(), 0);
    assert_eq!(complaints("crates/a/tests/b.rs", "use std::fmt;\n").len(), 0);
    assert_eq!(complaints("fuzz/fuzz_targets/b.rs", "use std::fmt;\n").len(), 0);
}

#[test]
fn a_long_file_is_found() {
    let text = |lines: usize| format!("//! Long.\n{}", "\n".repeat(lines - 1));
    for (path, lines_max) in [
        ("crates/a/src/b.rs", LINES_MAX),
        ("crates/nephila-core/src/frontier/mod.rs", LINES_MAX),
        ("crates/a/src/b/tests.rs", TEST_LINES_MAX),
        ("crates/a/src/b/tests/c.rs", TEST_LINES_MAX),
        ("crates/a/src/b_tests.rs", TEST_LINES_MAX),
        ("crates/a/tests/b.rs", TEST_LINES_MAX),
        ("crates/a/examples/b.rs", TEST_LINES_MAX),
        ("crates/nephila-sim/src/b.rs", TEST_LINES_MAX),
        ("xtask/src/b.rs", TEST_LINES_MAX),
    ] {
        assert_eq!(complaints(path, &text(lines_max)).len(), 0, "{path}");
        assert_eq!(complaints(path, &text(lines_max + 1)).len(), 1, "{path}");
    }
    assert_eq!(complaints("crates/a/src/b.txt", &text(TEST_LINES_MAX + 1)).len(), 0);
}

#[test]
fn unfinished_code_and_machine_paths_are_found() {
    for word in UNFINISHED {
        assert_eq!(
            complaints("crates/a/src/b.rs", &format!("//! b\nfn f() {{ {word}) }}\n")).len(),
            1,
            "{word}"
        );
    }
    for word in MACHINE_PATHS {
        for path in ["crates/a/src/b.rs", "docs/a.md", ".ci/run"] {
            assert_eq!(complaints(path, &format!("//! b\n// {word}\n")).len(), 1, "{word}");
        }
        assert_eq!(complaints("fuzz/seeds/url/a.md", &format!("http://a.test{word}")).len(), 0);
    }
}
