//! The files of the workspace, as text.

use std::path::{Path, PathBuf};

/// Folders that hold no source of ours.
const SKIPPED: [&str; 5] = [".git", "target", "corpus", "artifacts", "node_modules"];

/// All files under the workspace root that are text of ours, as paths from the root, with their content.
pub(crate) fn files() -> Vec<(String, String)> {
    let root = crate::shell::root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the workspace can be listed") {
            let path = entry.expect("the workspace can be listed").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_symlink() || SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                // A file that is not UTF-8 is a test's data, not text.
                found.push((from_root(&root, path), text));
            }
        }
    }
    found.sort();
    found
}

fn from_root(root: &Path, path: PathBuf) -> String {
    path.strip_prefix(root).expect("found under the root").to_string_lossy().into_owned()
}
