//! The files of a package, with mode and owner, in the order of their paths: what all formats are written from.
//!
//! Invariants: a file lies in folders that are entries too; nothing depends on the machine or on the time of the build.

use std::collections::BTreeMap;

/// Mode of a program and of a folder.
pub(crate) const PROGRAM: u32 = 0o755;
/// Mode of any other file.
pub(crate) const FILE: u32 = 0o644;

/// A file or a folder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Permission bits.
    pub(crate) mode: u32,
    /// Number of its user and of its group.
    pub(crate) owner: u32,
    /// The content of a file; none for a folder.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Entries by path, without a slash at either end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// Adds a file, and the folders that it lies in.
    pub(crate) fn file(&mut self, path: impl Into<String>, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.put(path.into(), Entry { mode, owner: 0, bytes: Some(bytes.into()) });
    }

    /// Adds a folder with an owner, and the folders that it lies in.
    pub(crate) fn folder(&mut self, path: impl Into<String>, mode: u32, owner: u32) {
        self.put(path.into(), Entry { mode, owner, bytes: None });
    }

    fn put(&mut self, path: String, entry: Entry) {
        for (at, _) in path.match_indices('/') {
            let above = Entry { mode: PROGRAM, owner: 0, bytes: None };
            self.0.entry(path[..at].to_owned()).or_insert(above);
        }
        self.0.insert(path, entry);
    }

    /// The same files in a folder.
    pub(crate) fn below(&self, folder: &str) -> Tree {
        let mut tree = Tree::default();
        self.iter().for_each(|(path, entry)| tree.put(format!("{folder}/{path}"), entry.clone()));
        tree
    }

    /// Adds all entries of another tree.
    pub(crate) fn extend(&mut self, other: Tree) {
        other.0.into_iter().for_each(|(path, entry)| self.put(path, entry));
    }

    /// Paths and entries, a folder before its files.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Number of bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.iter().filter_map(|(_, entry)| entry.bytes.as_ref()).map(|bytes| bytes.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_brings_its_folders() {
        let mut tree = Tree::default();
        tree.file("usr/bin/nephila", PROGRAM, "x");
        tree.folder("data", 0o700, 7);
        let tree = tree.below("root");
        let paths: Vec<_> = tree.iter().map(|(path, entry)| (path, entry.mode, entry.owner)).collect();
        assert_eq!(
            paths,
            [
                ("root", 0o755, 0),
                ("root/data", 0o700, 7),
                ("root/usr", 0o755, 0),
                ("root/usr/bin", 0o755, 0),
                ("root/usr/bin/nephila", 0o755, 0)
            ]
        );
        assert_eq!(tree.bytes(), 1);
    }
}
