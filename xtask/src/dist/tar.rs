//! Archives of several files: tar (POSIX.1-1988, ustar), ar of Debian packages, cpio (newc) of RPM packages, and gzip.
//!
//! Invariant: the same entries and the same time give the same bytes.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};

use super::tree::{Entry, Tree};

/// Size of a block of tar.
const BLOCK: usize = 512;
/// Bits of a cpio mode that say what an entry is.
pub(crate) const IS_FILE: u32 = 0o100_000;
pub(crate) const IS_FOLDER: u32 = 0o040_000;

/// Compresses as gzip does, without a name and without a time.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

/// A tar archive of a tree, with a prefix before each path: empty, or `./` for Debian.
pub(crate) fn tar(tree: &Tree, prefix: &str, time: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    if !prefix.is_empty() {
        let root = Entry { mode: 0o755, owner: 0, bytes: None };
        out.extend_from_slice(&tar_header(prefix, &root, time)?);
    }
    for (path, entry) in tree.iter() {
        let slash = if entry.bytes.is_none() { "/" } else { "" };
        out.extend_from_slice(&tar_header(&format!("{prefix}{path}{slash}"), entry, time)?);
        if let Some(bytes) = &entry.bytes {
            out.extend_from_slice(bytes);
            pad(&mut out, BLOCK);
        }
    }
    // Two empty blocks are the end.
    out.resize(out.len() + 2 * BLOCK, 0);
    Ok(out)
}

fn tar_header(path: &str, entry: &Entry, time: u64) -> Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    // A long path is divided at a slash: the last 100 bytes, and what is before.
    let (before, name) = match path.len() > 100 {
        false => ("", path),
        true => {
            let at = path.match_indices('/').map(|(at, _)| at).find(|at| path.len() - at - 1 <= 100);
            let at = at.filter(|at| *at <= 155).with_context(|| format!("{path} is too long for tar"))?;
            (&path[..at], &path[at + 1..])
        }
    };
    let size = entry.bytes.as_ref().map_or(0, Vec::len);
    put(0, name.as_bytes());
    put(100, format!("{:07o}", entry.mode).as_bytes());
    put(108, format!("{:07o}", entry.owner).as_bytes());
    put(116, format!("{:07o}", entry.owner).as_bytes());
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{time:011o}").as_bytes());
    put(148, b"        ");
    put(156, if entry.bytes.is_some() { b"0" } else { b"5" });
    put(257, b"ustar\x0000");
    if entry.owner == 0 {
        put(265, b"root");
        put(297, b"root");
    }
    put(345, before.as_bytes());
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

/// An ar archive, whose members have no folders.
pub(crate) fn ar(members: &[(&str, &[u8])], time: u64) -> Result<Vec<u8>> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        ensure!(name.len() <= 16, "{name} is too long for ar");
        let len = bytes.len();
        writeln!(out, "{name:<16}{time:<12}{:<6}{:<6}{:<8}{len:<10}`", 0, 0, "100644")?;
        out.extend_from_slice(bytes);
        if len % 2 == 1 {
            out.push(b'\n');
        }
    }
    Ok(out)
}

/// A cpio archive of the files of a tree, and of the folders that `owns` says.
pub(crate) fn cpio(tree: &Tree, owns: impl Fn(&str) -> bool, time: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let owned = tree.iter().filter(|(path, entry)| entry.bytes.is_some() || owns(path));
    for (inode, (path, entry)) in (1..).zip(owned) {
        let (kind, links) = if entry.bytes.is_some() { (IS_FILE, 1) } else { (IS_FOLDER, 2) };
        let bytes = entry.bytes.as_deref().unwrap_or_default();
        cpio_entry(&mut out, &format!("./{path}"), [inode, entry.mode | kind, links, time as u32], bytes);
    }
    cpio_entry(&mut out, "TRAILER!!!", [0, 0, 1, 0], &[]);
    out
}

fn cpio_entry(out: &mut Vec<u8>, name: &str, [inode, mode, links, time]: [u32; 4], bytes: &[u8]) {
    let (size, name_len) = (bytes.len() as u32, name.len() as u32 + 1);
    let fields = [inode, mode, 0, 0, links, time, size, 0, 0, 0, 0, name_len, 0];
    out.extend_from_slice(b"070701");
    fields.iter().for_each(|field| out.extend_from_slice(format!("{field:08x}").as_bytes()));
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    pad(out, 4);
    out.extend_from_slice(bytes);
    pad(out, 4);
}

/// Fills with zeros up to a multiple of `to`.
pub(crate) fn pad(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::shell;

    fn listed(program: &str, args: &[&str], archive: &Path) -> String {
        shell::output(Command::new(program).args(args).arg(archive), Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn tar_reads_what_we_write() {
        let folder = tempfile::tempdir().unwrap();
        let mut tree = Tree::default();
        let long = format!("usr/share/{}/{}", "a".repeat(80), "b".repeat(60));
        tree.file(long.as_str(), 0o640, "long");
        tree.file("bin/run", 0o755, vec![7; 1_000]);
        tree.folder("data", 0o750, 65_532);
        let path = folder.path().join("x.tar.gz");
        std::fs::write(&path, gzip(&tar(&tree, "", 86_400).unwrap()).unwrap()).unwrap();
        let text = listed("tar", &["--utc", "--numeric-owner", "-tvzf"], &path);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(
            lines.contains(&vec!["-rwxr-xr-x", "0/0", "1000", "1970-01-02", "00:00", "bin/run"]),
            "{text}"
        );
        assert!(
            lines.contains(&vec!["drwxr-x---", "65532/65532", "0", "1970-01-02", "00:00", "data/"]),
            "{text}"
        );
        assert!(lines.iter().any(|line| line.last() == Some(&long.as_str())), "{text}");
        assert!(tar(&tree.below(&"c".repeat(200)), "", 0).is_err(), "no place for such a path");
    }

    #[test]
    fn ar_reads_what_we_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.a");
        std::fs::write(&path, ar(&[("odd", b"123"), ("even", b"1234")], 0).unwrap()).unwrap();
        assert_eq!(listed("ar", &["t"], &path), "odd\neven\n");
    }
}
