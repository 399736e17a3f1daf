//! The crates that are linked into the program, by what cargo says: for the list of parts and for the notices.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::shell;

/// Timeout of a call of cargo, which may ask the registry.
const LIMIT: Duration = Duration::from_secs(120);

/// A crate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Linked {
    pub(crate) name: String,
    pub(crate) version: String,
    /// The expression of its licence.
    pub(crate) license: String,
    pub(crate) authors: Vec<String>,
    /// Where its sources are published; empty for crates of this workspace.
    pub(crate) repository: String,
    /// The digest of its package in the registry; none for crates of this workspace.
    pub(crate) sha256: Option<String>,
    /// Its sources on this machine.
    pub(crate) folder: PathBuf,
    /// Its dependencies, as `name@version`.
    pub(crate) needs: BTreeSet<String>,
}

impl Linked {
    /// `name@version`.
    pub(crate) fn id(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    #[serde(default)]
    authors: Vec<String>,
    repository: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

/// The linked crates for a target, in the order of their names. The program itself is one of them.
pub(crate) fn crates(target: &str) -> Result<Vec<Linked>> {
    let mut tree =
        shell::cargo(&["tree", "--locked", "-p", "nephila", "--prefix", "none", "--format", "{p}"]);
    tree.args(["-e", "normal,no-proc-macro", "--target", target]);
    let wanted = names(&shell::output(&mut tree, LIMIT)?);
    let mut metadata =
        shell::cargo(&["metadata", "--locked", "--format-version", "1", "--filter-platform", target]);
    let metadata: Metadata = serde_json::from_str(&shell::output(&mut metadata, LIMIT)?)?;
    let lock = std::fs::read_to_string(shell::root().join("Cargo.lock")).context("read Cargo.lock")?;
    let found = chosen(metadata, &wanted, &digests(&lock)?)?;
    ensure!(found.len() == wanted.len(), "cargo tree and cargo metadata do not agree");
    Ok(found)
}

/// `name@version` of each line of `cargo tree`.
fn names(tree: &str) -> BTreeSet<String> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{}@{}", words.next()?, words.next()?.strip_prefix('v')?))
    };
    tree.lines().filter_map(pair).collect()
}

/// The digests of a lock file.
fn digests(lock: &str) -> Result<HashMap<String, String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock).context("understand Cargo.lock")?;
    let entries = lock.package.into_iter();
    Ok(entries
        .filter_map(|entry| Some((format!("{}@{}", entry.name, entry.version), entry.checksum?)))
        .collect())
}

fn chosen(
    metadata: Metadata,
    wanted: &BTreeSet<String>,
    digests: &HashMap<String, String>,
) -> Result<Vec<Linked>> {
    let short = |package: &Package| format!("{}@{}", package.name, package.version);
    let names: HashMap<&str, String> =
        metadata.packages.iter().map(|package| (&*package.id, short(package))).collect();
    let mut needs: HashMap<&str, BTreeSet<String>> = HashMap::new();
    for node in &metadata.resolve.nodes {
        let below = node.dependencies.iter().filter_map(|id| names.get(&**id));
        needs.insert(&node.id, below.filter(|name| wanted.contains(*name)).cloned().collect());
    }
    let mut found = BTreeMap::new();
    for package in metadata.packages.iter().filter(|package| wanted.contains(&short(package))) {
        let id = short(package);
        let linked = Linked {
            name: package.name.clone(),
            version: package.version.clone(),
            license: package.license.clone().with_context(|| format!("{id} has no licence"))?,
            authors: package.authors.clone(),
            repository: package.repository.clone().unwrap_or_default(),
            sha256: package.source.as_ref().and_then(|_| digests.get(&id).cloned()),
            folder: package.manifest_path.parent().context("a manifest lies in a folder")?.to_owned(),
            needs: needs.remove(&*package.id).unwrap_or_default(),
        };
        found.insert(id, linked);
    }
    Ok(found.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_a_tree_are_named_once() {
        let tree = "nephila v0.1.0 (/somewhere)\nbytes v1.11.1\nbytes v1.11.1 (*)\n\n[build]\n";
        assert_eq!(names(tree), ["bytes@1.11.1", "nephila@0.1.0"].map(String::from).into());
    }
}
