//! The licences of everything that is linked into the program, in one text: who has a copy of the program has the texts that its
//! parts ask for.
//!
//! Texts are the files of each crate with the names that licences have, also of the C sources that a crate brings. A crate without
//! one has the text of its expression, if that is certain; else the command fails and names the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::linked::Linked;
use crate::shell;

/// Beginnings of the names of files with licences, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "UNLICENSE", "COPYING", "COPYRIGHT", "NOTICE"];
/// Ends of files that are no texts.
const NO_TEXT: [&str; 5] = ["rs", "toml", "json", "html", "py"];
/// Crates whose text lies in another crate of the same authors.
const SAME: [(&str, &str); 1] = [("alloc-stdlib", "alloc-no-stdlib")];

/// The whole text.
pub(crate) fn text(crates: &[Linked]) -> Result<String> {
    let others: Vec<&Linked> = crates.iter().filter(|part| part.sha256.is_some()).collect();
    let (mut users, mut lost) = (BTreeMap::<String, BTreeSet<String>>::new(), Vec::new());
    for part in &others {
        let texts = texts_of(part, crates)?;
        if texts.is_empty() {
            lost.push(format!("{} ({})", part.id(), part.license));
        }
        for text in texts {
            users.entry(text).or_default().insert(part.id());
        }
    }
    if !lost.is_empty() {
        bail!("no text of the licence of {}: name where it is in xtask/src/dist/notices.rs", lost.join(", "));
    }
    Ok(page(&others, &users))
}

fn page(crates: &[&Linked], users: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut page = String::from(
        "Nephila is licensed under MIT or Apache-2.0, at your choice. The program contains the following crates, under the licences \
         below the list.\n\n",
    );
    crates.iter().for_each(|part| page += &format!("{}  {}\n", part.id(), part.license));
    // In the order of the crates, so that a version of a crate that changes moves little.
    let mut texts: Vec<_> = users.iter().collect();
    texts.sort_by_key(|(_, users)| users.first().cloned());
    for (text, users) in texts {
        let users = users.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        page += &format!("\n{}\n{users}\n\n{text}\n", "=".repeat(78));
    }
    page
}

/// The texts of a crate, by its files, else by its expression.
fn texts_of(part: &Linked, crates: &[Linked]) -> Result<Vec<String>> {
    let mut files = Vec::new();
    collect(&part.folder, &mut files).with_context(|| part.folder.display().to_string())?;
    let same = SAME.iter().find(|(name, _)| *name == part.name);
    if let Some(other) = same.and_then(|(_, name)| crates.iter().find(|other| other.name == *name)) {
        return texts_of(other, &[]);
    }
    if files.is_empty() {
        return by_expression(part);
    }
    files.sort();
    files.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n");
    Ok(text.trim_matches('\n').trim_end().to_owned())
}

/// Collects the files with licences below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, files)?;
        } else if is_licence(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    let is_text = path.extension().is_none_or(|end| !NO_TEXT.contains(&&*end.to_string_lossy()));
    is_text && NAMES.iter().any(|begin| name.starts_with(begin))
}

/// The text that an expression stands for: that of Apache-2.0, which names nobody, or of MIT with the authors of the crate.
fn by_expression(part: &Linked) -> Result<Vec<String>> {
    let ours = |name: &str| read(&shell::root().join(name));
    let choices: Vec<&str> = part.license.split([' ', '/']).filter(|word| *word != "OR").collect();
    if choices.contains(&"AND") {
        return Ok(Vec::new());
    }
    if choices.contains(&"Apache-2.0") {
        return Ok(vec![ours("LICENSE-APACHE")?]);
    }
    if part.license != "MIT" || part.authors.is_empty() {
        return Ok(Vec::new());
    }
    let holders = format!("Copyright (c) {}", part.authors.join(", "));
    let line = |line: &str| if line.starts_with("Copyright (c)") { holders.clone() } else { line.to_owned() };
    Ok(vec![ours("LICENSE-MIT")?.lines().map(line).collect::<Vec<_>>().join("\n")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::tests::linked;

    #[test]
    fn a_text_that_two_crates_share_is_there_once() {
        let folder = tempfile::tempdir().unwrap();
        let crates: Vec<Linked> = ["one", "two"]
            .map(|name| {
                let folder = folder.path().join(name);
                std::fs::create_dir_all(folder.join("zlib")).unwrap();
                std::fs::write(folder.join("LICENSE-MIT"), "the same\r\n").unwrap();
                std::fs::write(folder.join("zlib/copying.txt"), format!("of {name}")).unwrap();
                std::fs::write(folder.join("license.rs"), "no licence").unwrap();
                Linked { folder, ..linked(name) }
            })
            .into();
        let text = text(&crates).unwrap();
        assert_eq!(text.matches("the same").count(), 1, "{text}");
        assert!(text.contains("\none@0.1.0, two@0.1.0\n\nthe same\n"), "{text}");
        assert!(text.contains("\ntwo@0.1.0\n\nof two\n") && !text.contains("no licence"), "{text}");
    }

    #[test]
    fn a_crate_without_a_text_is_named_unless_its_expression_is_certain() {
        let folder = tempfile::tempdir().unwrap();
        let with = |license: &str, authors: &[&str]| {
            let authors = authors.iter().map(ToString::to_string).collect();
            let folder = folder.path().to_owned();
            text(&[Linked { license: license.into(), authors, folder, ..linked("odd") }])
        };
        assert!(with("BSD-3-Clause", &["A"]).unwrap_err().to_string().contains("odd@0.1.0 (BSD-3-Clause)"));
        assert!(with("MIT", &[]).is_err(), "the text of MIT names somebody");
        assert!(with("MIT", &["A", "B"]).unwrap().contains("Copyright (c) A, B\n"));
        assert!(with("MIT OR Apache-2.0", &[]).unwrap().contains("Apache License"));
        assert!(with("Apache-2.0 AND ISC", &[]).is_err());
    }
}
