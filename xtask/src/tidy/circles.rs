//! Tidy: no circle between the modules of a crate. An arrow is an import (`crate::module`) outside of tests.
//!
//! A reader can then take the modules of a crate in one order, and any part of a crate can become a crate of its own.

use std::collections::{BTreeMap, BTreeSet};

use super::{expect_none, files};

/// The sources that are checked.
const CRATES: [&str; 11] = [
    "crates/nephila-core/src/",
    "crates/nephila-spider/src/",
    "crates/nephila-store/src/",
    "crates/nephila-tables/src/",
    "crates/nephila-text/src/",
    "crates/nephila-pdf/src/",
    "crates/nephila-log/src/",
    "crates/nephila-engine/src/",
    "crates/nephila-api/src/",
    "crates/nephila-cluster/src/",
    "crates/nephila/src/",
];

/// The arrows of a crate: from a module to a module, with the file of the first import.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// The module of a file, by its path below `src`. None for the root of the crate and for tests.
fn module(path: &str) -> Option<&str> {
    let is_test = path.ends_with("tests.rs") || path.contains("/tests/") || path.contains("_tests.rs");
    let name = path.split('/').next()?.trim_end_matches(".rs");
    (!is_test && name != "lib" && name != "main").then_some(name)
}

/// The code of a file without its comments and without its tests, which stand at its end.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that a file imports: `crate::a::b` and `crate::{a::b, c}`.
fn imports(code: &str) -> BTreeSet<String> {
    let name = |text: &str| {
        let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
        text[..end].to_owned()
    };
    let mut found = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            Some(group) => {
                let mut depth = 0;
                let mut start = true;
                for (at, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && !c.is_whitespace() => {
                            found.insert(name(&group[at..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
            None => _ = found.insert(name(part)),
        }
    }
    found
}

fn arrows<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Arrows {
    let files: Vec<_> = files.filter_map(|(path, text)| Some((module(path)?, path, text))).collect();
    let modules: BTreeSet<&str> = files.iter().map(|(module, ..)| *module).collect();
    let mut arrows = Arrows::new();
    for (from, path, text) in &files {
        for to in imports(&code(text)) {
            if to != *from && modules.contains(&*to) {
                arrows.entry((*from).to_owned()).or_default().entry(to).or_insert_with(|| (*path).to_owned());
            }
        }
    }
    arrows
}

/// Modules that can be taken in no order: those that stay when modules without arrows are taken away, again and again, from
/// below and from above.
fn circles(crate_name: &str, mut arrows: Arrows) -> Vec<String> {
    loop {
        let from: BTreeSet<String> = arrows.keys().cloned().collect();
        let to: BTreeSet<String> = arrows.values().flat_map(|to| to.keys().cloned()).collect();
        let before: usize = arrows.values().map(BTreeMap::len).sum();
        arrows.retain(|module, _| to.contains(module));
        arrows.values_mut().for_each(|targets| targets.retain(|module, _| from.contains(module)));
        arrows.retain(|_, targets| !targets.is_empty());
        if arrows.values().map(BTreeMap::len).sum::<usize>() == before {
            break;
        }
    }
    let complaint = |(from, to): (&String, &BTreeMap<String, String>)| {
        let to: Vec<String> = to.iter().map(|(to, file)| format!("{to} (in {file})")).collect();
        format!(
            "{crate_name}: {from} is in a circle: it imports {}; move what both need below both",
            to.join(", ")
        )
    };
    arrows.iter().map(complaint).collect()
}

#[test]
fn no_circle_of_modules() {
    let files = files();
    let of_crate = |root: &'static str| {
        files.iter().filter_map(move |(path, text)| Some((path.strip_prefix(root)?, text.as_str())))
    };
    expect_none(CRATES.iter().flat_map(|root| circles(root, arrows(of_crate(root)))).collect());
}

#[test]
fn a_planted_circle_is_found() {
    let straight = [
        ("lib.rs", "mod a; mod b; mod c; use crate::a::X;"),
        ("a.rs", "use crate::b::{Y, Z};\n// use crate::c::W;"),
        ("b/mod.rs", "use crate::c::W;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::X;\n}"),
        ("c.rs", "pub struct W;"),
        ("c/tests.rs", "use crate::a::X;"),
    ];
    assert!(circles("x", arrows(straight.into_iter())).is_empty());
    for planted in
        ["use crate::a::X;", "use crate::{\n    a::{X, V},\n    d,\n};", "fn f() { crate::a::g() }"]
    {
        let with = straight.iter().copied().chain([("c/deep.rs", planted)]);
        let found = circles("x", arrows(with));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[2].contains("c is in a circle: it imports a (in c/deep.rs)"), "{found:?}");
    }
}
