//! Where the files of the program lie: in the tarball, which may be unpacked anywhere, and in the packages.

use anyhow::{Context, Result};

use super::made::SCRIPTS;
use super::tar::gzip;
use super::tree::{FILE, PROGRAM, Tree};
use crate::shell;

/// Files of this workspace that packages have, below `deploy/systemd`, and where they go.
const UNITS: [(&str, &str); 5] = [
    ("nephila@.service", "usr/lib/systemd/system/nephila@.service"),
    ("nephila-node.service", "usr/lib/systemd/system/nephila-node.service"),
    ("nephila-spider.service", "usr/lib/systemd/system/nephila-spider.service"),
    ("nephila.sysusers.conf", "usr/lib/sysusers.d/nephila.conf"),
    ("nephila.tmpfiles.conf", "usr/lib/tmpfiles.d/nephila.conf"),
];

/// The licences of the program and of all that is linked into it.
pub(crate) fn licences(notices: &str) -> Result<Tree> {
    let mut tree = Tree::default();
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        tree.file(name, FILE, ours(name)?);
    }
    tree.file("THIRD-PARTY", FILE, notices);
    Ok(tree)
}

/// The tarball: everything in one folder.
pub(crate) fn tarball(folder: &str, program: &[u8], made: &Tree, licences: &Tree) -> Result<Tree> {
    let mut tree = licences.clone();
    tree.file("nephila", PROGRAM, program);
    tree.file("README.md", FILE, ours("README.md")?);
    tree.file("CHANGELOG.md", FILE, ours("CHANGELOG.md")?);
    tree.extend(made.clone());
    for (unit, _) in UNITS {
        tree.file(format!("systemd/{unit}"), FILE, ours(&format!("deploy/systemd/{unit}"))?);
    }
    Ok(tree.below(folder))
}

/// Kinds of packages, which have some files in different places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Debian's.
    Deb,
    /// Fedora's and openSUSE's.
    Rpm,
}

/// The files of a package.
pub(crate) fn package(kind: Kind, program: &[u8], made: &Tree, licences: &Tree) -> Result<Tree> {
    let mut tree = Tree::default();
    tree.file("usr/bin/nephila", PROGRAM, program);
    for (unit, path) in UNITS {
        tree.file(path, FILE, ours(&format!("deploy/systemd/{unit}"))?);
    }
    for (path, entry) in made.iter() {
        let Some(bytes) = &entry.bytes else { continue };
        match path.split_once('/') {
            Some(("man", page)) => tree.file(format!("usr/share/man/man1/{page}.gz"), FILE, gzip(bytes)?),
            Some(("completions", script)) => tree.file(completion(kind, script)?, FILE, bytes.clone()),
            _ => tree.file(format!("usr/share/doc/nephila/{path}"), FILE, bytes.clone()),
        }
    }
    tree.file("usr/share/doc/nephila/CHANGELOG.md", FILE, ours("CHANGELOG.md")?);
    match kind {
        Kind::Deb => {
            tree.extend(licences.below("usr/share/doc/nephila"));
            tree.file("usr/share/doc/nephila/copyright", FILE, COPYRIGHT);
        }
        Kind::Rpm => tree.extend(licences.below("usr/share/licenses/nephila")),
    }
    Ok(tree)
}

/// What Debian reads about the licence of a package.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: the Nephila developers
License: MIT or Apache-2.0
 The texts are in LICENSE-MIT and LICENSE-APACHE beside this file, those of all parts of the program in THIRD-PARTY.
";

/// Where a script of a shell belongs: `bash/nephila` and so on.
fn completion(kind: Kind, script: &str) -> Result<String> {
    let (shell, name) = script.split_once('/').context("a script of a shell")?;
    let folder = match (shell, kind) {
        ("bash", _) => "usr/share/bash-completion/completions",
        ("fish", _) => "usr/share/fish/vendor_completions.d",
        (_, Kind::Deb) => "usr/share/zsh/vendor-completions",
        (_, Kind::Rpm) => "usr/share/zsh/site-functions",
    };
    debug_assert!(SCRIPTS.iter().any(|(known, _)| *known == shell), "{shell} has a folder");
    Ok(format!("{folder}/{name}"))
}

fn ours(path: &str) -> Result<Vec<u8>> {
    let path = shell::root().join(path);
    std::fs::read(&path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_where_systems_look_for_them() {
        let mut made = Tree::default();
        made.file("man/nephila-crawl.1", FILE, "page");
        made.file("completions/zsh/_nephila", FILE, "script");
        made.file("nephila.toml", FILE, "settings");
        let licences = licences("notices").unwrap();
        let has = |kind, path: &str| {
            package(kind, b"program", &made, &licences).unwrap().iter().any(|(other, _)| other == path)
        };
        for path in [
            "usr/bin/nephila",
            "usr/lib/systemd/system/nephila@.service",
            "usr/share/man/man1/nephila-crawl.1.gz",
            "usr/share/zsh/vendor-completions/_nephila",
            "usr/share/doc/nephila/nephila.toml",
            "usr/share/doc/nephila/THIRD-PARTY",
        ] {
            assert!(has(Kind::Deb, path), "{path}");
        }
        assert!(has(Kind::Rpm, "usr/share/licenses/nephila/THIRD-PARTY"));
        let tarball = tarball("nephila-1", b"program", &made, &licences).unwrap();
        assert!(tarball.iter().any(|(path, _)| path == "nephila-1/systemd/nephila@.service"));
    }
}
