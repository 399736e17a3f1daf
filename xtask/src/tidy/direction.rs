//! Tidy: which package may depend on which. Arrows never turn back, and the crates of the outside worlds do not know
//! each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::expect_none;
use crate::shell;

/// The packages of ours that each package of ours may depend on: in its code, and in its tests besides.
const ALLOWED: [(&str, &[&str], &[&str]); 16] = [
    ("nephila-core", &[], &[]),
    ("nephila-spider", &["nephila-core"], &["nephila-testweb"]),
    ("nephila-store", &["nephila-core"], &[]),
    ("nephila-log", &["nephila-store"], &["nephila-core", "nephila-testnats"]),
    ("nephila-tables", &["nephila-core", "nephila-store"], &[]),
    ("nephila-text", &[], &[]),
    ("nephila-pdf", &[], &[]),
    ("nephila-sim", &["nephila-core"], &[]),
    ("nephila-testnats", &[], &[]),
    ("nephila-testweb", &[], &[]),
    (
        "nephila-engine",
        &[
            "nephila-core",
            "nephila-log",
            "nephila-pdf",
            "nephila-spider",
            "nephila-store",
            "nephila-tables",
            "nephila-text",
        ],
        &["nephila-testweb"],
    ),
    (
        "nephila-api",
        &["nephila-core", "nephila-engine", "nephila-spider", "nephila-store", "nephila-text"],
        &[],
    ),
    (
        "nephila-cluster",
        &["nephila-api", "nephila-core", "nephila-engine", "nephila-log", "nephila-spider", "nephila-store"],
        &["nephila-testnats"],
    ),
    (
        "nephila",
        &[
            "nephila-api",
            "nephila-cluster",
            "nephila-core",
            "nephila-engine",
            "nephila-log",
            "nephila-spider",
            "nephila-store",
            "nephila-tables",
        ],
        &["nephila-testnats", "nephila-testweb"],
    ),
    (
        "nephila-proof",
        &[
            "nephila",
            "nephila-core",
            "nephila-engine",
            "nephila-log",
            "nephila-spider",
            "nephila-store",
            "nephila-testnats",
            "nephila-testweb",
        ],
        &[],
    ),
    ("xtask", &["nephila-core", "nephila-testnats"], &[]),
];

/// The packages that the core may name in its manifest. Each of these computes; none opens, connects, waits or draws
/// random numbers by itself. `jiff` can read the clock and the zone files: the core calls neither, and `purity.rs`
/// checks for the clock.
const CORE_DIRECT: [&str; 21] = [
    "bytes",
    "chardetng",
    "data-encoding",
    "encoding_rs",
    "flate2",
    "htmlize",
    "http",
    "httparse",
    "humantime-serde",
    "ipnet",
    "jiff",
    "memchr",
    "psl",
    "quick-xml",
    "serde",
    "serde_json",
    "sha1",
    "siphasher",
    "thiserror",
    "url",
    "xxhash-rust",
];

/// Packages that must not be anywhere below the core: sockets, files, clocks, threads, chance, C libraries of the
/// system.
const WORLDS: [&str; 24] = [
    "async-std",
    "aws-lc-rs",
    "chrono",
    "crossbeam-channel",
    "fastrand",
    "getrandom",
    "h2",
    "hickory-proto",
    "hickory-resolver",
    "hyper",
    "hyper-util",
    "libc",
    "mio",
    "native-tls",
    "polling",
    "rand",
    "rayon",
    "reqwest",
    "rustix",
    "rustls",
    "socket2",
    "tempfile",
    "tokio",
    "zstd",
];

/// Exceptions, as pairs of a package and its dependency: on some targets `cpufeatures` asks libc for the features of
/// the processor, and `phf_generator` draws random numbers in the compiler, where the crate builds tables.
const EXCEPTIONS: [(&str, &str); 2] = [("cpufeatures", "libc"), ("phf_generator", "fastrand")];

/// The part of `cargo metadata` that the checks use.
#[derive(Default)]
struct Graph {
    /// Members of the workspace, with their direct dependencies by kind.
    members: BTreeMap<String, Needs>,
    /// Every package's normal dependencies, as resolved, by id.
    below: BTreeMap<String, Vec<String>>,
    /// The name of each id.
    names: BTreeMap<String, String>,
}

#[derive(Default)]
struct Needs {
    id: String,
    normal: BTreeSet<String>,
    dev: BTreeSet<String>,
}

fn graph(metadata: &serde_json::Value) -> Graph {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).iter().map(text).collect();
    let mut graph = Graph::default();
    for package in list(&metadata["packages"]) {
        let id = text(&package["id"]);
        graph.names.insert(id.clone(), text(&package["name"]));
        if members.contains(&id) {
            let mut needs = Needs { id, ..Default::default() };
            for dependency in list(&package["dependencies"]) {
                let set = if dependency["kind"] == "dev" { &mut needs.dev } else { &mut needs.normal };
                set.insert(text(&dependency["name"]));
            }
            graph.members.insert(text(&package["name"]), needs);
        }
    }
    for node in list(&metadata["resolve"]["nodes"]) {
        let is_normal = |dep: &serde_json::Value| list(&dep["dep_kinds"]).iter().any(|k| k["kind"].is_null());
        let deps = list(&node["deps"]);
        let below = deps.iter().filter(|dep| is_normal(dep)).map(|dep| text(&dep["pkg"])).collect();
        graph.below.insert(text(&node["id"]), below);
    }
    graph
}

fn direction_complaints(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for (name, needs) in &graph.members {
        let Some((_, normal, dev)) = ALLOWED.iter().find(|(member, ..)| member == name) else {
            found.push(format!("{name} is new: say in xtask/src/tidy/direction.rs what it may depend on"));
            continue;
        };
        let is_ours = |other: &&String| graph.members.contains_key(*other);
        for other in needs.normal.iter().filter(is_ours).filter(|o| !normal.contains(&o.as_str())) {
            found.push(format!("{name} depends on {other}: the arrows do not go that way"));
        }
        // A package that names itself turns on a feature of its own for its tests.
        let may_test_with = |o: &str| normal.contains(&o) || dev.contains(&o) || o == name;
        for other in needs.dev.iter().filter(is_ours).filter(|o| !may_test_with(o)) {
            found.push(format!("the tests of {name} depend on {other}: the arrows do not go that way"));
        }
    }
    found
}

fn core_complaints(graph: &Graph) -> Vec<String> {
    let Some(core) = graph.members.get("nephila-core") else {
        return vec!["nephila-core is gone".to_owned()];
    };
    let mut found = Vec::new();
    for name in core.normal.iter().filter(|name| !CORE_DIRECT.contains(&name.as_str())) {
        found.push(format!(
            "nephila-core depends on {name}: if it only computes, add it to CORE_DIRECT with care"
        ));
    }
    let mut seen = BTreeSet::from([core.id.clone()]);
    let mut queue = VecDeque::from([core.id.clone()]);
    while let Some(id) = queue.pop_front() {
        for next in graph.below.get(&id).into_iter().flatten() {
            let (name, by) = (&graph.names[next], &graph.names[&id]);
            if EXCEPTIONS.contains(&(by.as_str(), name.as_str())) {
                continue;
            }
            if seen.insert(next.clone()) {
                queue.push_back(next.clone());
                if WORLDS.contains(&name.as_str()) {
                    found.push(format!("nephila-core reaches {name} through {by}: the core only decides"));
                }
            }
        }
    }
    found
}

fn real() -> Graph {
    let mut command = shell::cargo(&["metadata", "--format-version", "1", "--locked"]);
    let text = shell::output(&mut command, Duration::from_secs(120)).expect("cargo metadata works");
    graph(&serde_json::from_str(&text).expect("cargo metadata writes JSON"))
}

#[test]
fn arrows_never_turn_back() {
    let graph = real();
    assert!(graph.members.len() >= ALLOWED.len(), "members went missing");
    expect_none(direction_complaints(&graph));
}

#[test]
fn nothing_below_the_core_touches_the_world() {
    let graph = real();
    let core = &graph.below[&graph.members["nephila-core"].id];
    assert!(core.len() >= 5, "the resolved graph was not read: {core:?}");
    expect_none(core_complaints(&graph));
}

/// A small workspace: `(name, normal, dev)` of the members; every other name is a foreign package.
fn planted(members: &[(&str, &[&str], &[&str])], foreign: &[(&str, &[&str])]) -> Graph {
    let mut graph = Graph::default();
    let owned = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<BTreeSet<_>>();
    for (name, normal, dev) in members {
        let needs = Needs { id: name.to_string(), normal: owned(normal), dev: owned(dev) };
        graph.members.insert(name.to_string(), needs);
    }
    let all = members.iter().map(|(name, normal, _)| (*name, *normal)).chain(foreign.iter().copied());
    for (name, below) in all {
        graph.below.insert(name.to_string(), below.iter().map(|n| n.to_string()).collect());
        for name in below.iter().chain([&name]) {
            graph.names.insert(name.to_string(), name.to_string());
        }
    }
    graph
}

#[test]
fn a_planted_arrow_back_is_found() {
    let complaints = direction_complaints(&planted(
        &[
            ("nephila-core", &["nephila-store"], &[]),
            ("nephila-spider", &["nephila-core", "nephila-store"], &["nephila-testweb"]),
            ("nephila-store", &["nephila-core"], &["nephila"]),
            ("nephila-testweb", &["nephila-core"], &[]),
            ("nephila", &["nephila-core"], &[]),
            ("nephila-new", &[], &[]),
        ],
        &[],
    ));
    assert_eq!(complaints.len(), 5, "{complaints:?}");
    assert!(complaints.iter().any(|c| c.starts_with("nephila-spider depends on nephila-store")));
    assert!(complaints.iter().any(|c| c.starts_with("nephila-core depends on nephila-store")));
}

#[test]
fn a_planted_socket_far_below_the_core_is_found() {
    let graph = planted(&[("nephila-core", &["url"], &[])], &[("url", &["quick"]), ("quick", &["tokio"])]);
    let complaints = core_complaints(&graph);
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("tokio through quick"), "{complaints:?}");
    assert_eq!(core_complaints(&planted(&[("nephila-core", &["left-pad"], &[])], &[])).len(), 1);
}
