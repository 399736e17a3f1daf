//! Reads the JUnit report that the test runner writes: which tests ran, and which of them failed.
//!
//! Only the runner's own subset is understood: `<testcase name="…">` elements that hold a `<failure>` or an `<error>`
//! when the test did not pass. Tests that were not run are not in the report.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell;

/// One test that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// Its path inside its binary: `dns::dns_01_a_missing_name_is_asked_for_once`.
    pub(crate) name: String,
    /// The test's binary: `nephila-spider`, `nephila::e2e`.
    pub(crate) binary: String,
    /// Whether the test passed.
    pub(crate) passed: bool,
}

/// Where a profile's report goes: the runner's own folder, which does not follow `CARGO_TARGET_DIR`.
pub(crate) fn path_of(profile: &str) -> PathBuf {
    shell::root().join("target/nextest").join(profile).join("junit.xml")
}

/// The tests of the report at `path`.
pub(crate) fn read(path: &Path) -> Result<Vec<Test>> {
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read {}: the test runner wrote no report, see its output above", path.display())
    })?;
    parse(&text).with_context(|| format!("cannot understand {}", path.display()))
}

/// The tests of a report.
pub(crate) fn parse(xml: &str) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find("<testcase ") {
        rest = &rest[start..];
        let Some(end) = rest.find('>') else { bail!("a testcase element does not end") };
        let head = &rest[..end];
        let (inside, after) = if head.ends_with('/') {
            ("", end + 1)
        } else {
            let Some(close) = rest.find("</testcase>") else { bail!("a testcase element does not end") };
            (&rest[end + 1..close], close)
        };
        let name = attribute(head, "name").context("a testcase without a name")?;
        let binary = attribute(head, "classname").unwrap_or_default();
        // The output of a test is escaped in the report, so an element's name cannot come from there.
        let passed = !inside.contains("<failure") && !inside.contains("<error");
        tests.push(Test { name, binary, passed });
        rest = &rest[after..];
    }
    Ok(tests)
}

fn attribute(head: &str, key: &str) -> Option<String> {
    let start = head.find(&format!(" {key}=\""))? + key.len() + 3;
    let value = &head[start..];
    let value = &value[..value.find('"')?];
    Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_and_failed_tests_are_told_apart() {
        let xml = r#"<?xml version="1.0"?><testsuites name="nextest-run" tests="3"><testsuite name="nephila-spider">
            <testcase name="dns::dns_01_x" classname="nephila-spider" time="0.1">
            </testcase>
            <testcase name="dns_02_y" classname="nephila::e2e"><failure message="&lt;oops>">at line 3</failure>
              <system-out>&lt;testcase name="dns_09"</system-out></testcase>
            <testcase name="generic&lt;u8&gt;" classname="b"/>
            </testsuite></testsuites>"#;
        let seen: Vec<_> = parse(xml).unwrap().into_iter().map(|t| (t.name, t.binary, t.passed)).collect();
        let want = [
            ("dns::dns_01_x", "nephila-spider", true),
            ("dns_02_y", "nephila::e2e", false),
            ("generic<u8>", "b", true),
        ];
        assert_eq!(seen, want.map(|(n, b, p)| (n.to_owned(), b.to_owned(), p)));
    }

    #[test]
    fn a_cut_report_is_an_error() {
        assert!(parse(r#"<testcase name="a" classname="b"><failure"#).is_err());
        assert!(parse(r#"<testcase name="a" classname="b"><failure></failure>"#).is_err());
    }
}
