//! What the program needs of a system: shared libraries, and which version of glibc.
//!
//! The program brings all but glibc and libgcc with it. A program without an interpreter needs nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::tree::{PROGRAM, Tree};
use crate::shell;

/// Names of libraries that a program of ours may need.
const KNOWN: [&str; 8] = [
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];
/// Timeout of a look at the program.
const LIMIT: Duration = Duration::from_secs(30);

/// Needs of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Needs {
    /// The lowest version of glibc, such as `2.34`; none for a program that needs nothing.
    pub(crate) glibc: Option<String>,
    /// Where a library or the loader has to lie, and where it lies here.
    pub(crate) libraries: Vec<(String, PathBuf)>,
}

impl Needs {
    /// The needs of a program, as the loader of this machine says them.
    pub(crate) fn of(program: &Path, bytes: &[u8]) -> Result<Needs> {
        let (status, text) = shell::quiet(Command::new("ldd").arg(program), LIMIT)?;
        if !status.success() || text.contains("statically linked") {
            ensure!(text.contains("static") || text.contains("not a dynamic"), "ldd: {}", text.trim());
            return Ok(Needs::default());
        }
        let libraries = text.lines().filter_map(library).collect::<Vec<_>>();
        for (place, _) in &libraries {
            let name = place.rsplit('/').next().unwrap_or(place);
            ensure!(KNOWN.contains(&name), "the program needs {name}, which a package does not name");
        }
        Ok(Needs { glibc: Some(glibc(bytes).context("the program names no version of glibc")?), libraries })
    }

    /// The libraries as files of a root, with their licence. A root needs no more to run the program.
    pub(crate) fn files(&self) -> Result<Tree> {
        let mut tree = Tree::default();
        for (place, path) in &self.libraries {
            tree.file(place.trim_start_matches('/'), PROGRAM, read(path)?);
        }
        if !self.libraries.is_empty() {
            for notice in ["/usr/share/doc/libc6/copyright", "/usr/share/doc/libgcc-s1/copyright"] {
                let notice = std::fs::canonicalize(notice).with_context(|| notice.to_owned())?;
                let path = notice.to_string_lossy().trim_start_matches('/').to_owned();
                tree.file(path, super::tree::FILE, read(&notice)?);
            }
        }
        Ok(tree)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

/// A line of ldd: the place at which the library is looked for, and the file.
fn library(line: &str) -> Option<(String, PathBuf)> {
    let line = line.trim();
    let path = match line.split_once(" => ") {
        Some((_, path)) => path,
        // The loader is named by its path, the kernel's library by none.
        None if line.starts_with('/') => line,
        None => return None,
    };
    let path = path.split(" (").next()?.trim();
    Some((path.to_owned(), path.into()))
}

/// The highest version that the program names of glibc's symbols.
fn glibc(program: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"GLIBC_2.";
    let found = program.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let minor = found.filter_map(|(at, _)| {
        let digits = program[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        String::from_utf8(digits.copied().collect()).ok()?.parse::<u32>().ok()
    });
    minor.max().map(|minor| format!("2.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_read_from_what_the_loader_says() {
        let line = "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007fa8)";
        assert_eq!(library(line).unwrap().0, "/lib/x86_64-linux-gnu/libm.so.6");
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x7f)").unwrap().0, "/lib64/ld-linux-x86-64.so.2");
        assert_eq!(library("\tlinux-vdso.so.1 (0x7f)"), None);
        assert_eq!(glibc(b"..GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE GLIBC_2.2.5"), Some("2.34".into()));
        assert_eq!(glibc(b"nothing"), None);
    }
}
