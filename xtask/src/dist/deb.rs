//! A Debian package, deb(5): an ar archive of two tar archives, one about the package and one with its files.

use anyhow::Result;

use super::tar::{ar, gzip, tar};
use super::tree::{FILE, PROGRAM, Tree};
use super::{About, scripts};

/// The package.
pub(crate) fn package(about: &About, files: &Tree) -> Result<Vec<u8>> {
    let mut control = Tree::default();
    control.file("control", FILE, fields(about, files));
    control.file("postinst", PROGRAM, scripts::postinst());
    control.file("prerm", PROGRAM, scripts::prerm());
    control.file("postrm", PROGRAM, scripts::postrm());
    let control = gzip(&tar(&control, "./", about.time)?)?;
    let data = gzip(&tar(files, "./", about.time)?)?;
    let members: [(&str, &[u8]); 3] =
        [("debian-binary", b"2.0\n"), ("control.tar.gz", &control), ("data.tar.gz", &data)];
    ar(&members, about.time)
}

/// File name of the package.
pub(crate) fn name(about: &About) -> String {
    format!("nephila_{}-1_{}.deb", about.version, about.arch.debian)
}

fn fields(about: &About, files: &Tree) -> String {
    let About { version, arch, needs, .. } = about;
    let depends = match &needs.glibc {
        Some(glibc) => format!("Depends: libc6 (>= {glibc}), libgcc-s1, passwd\n"),
        None => "Depends: passwd\n".to_owned(),
    };
    let kilobytes = files.bytes().div_ceil(1_024);
    format!(
        "Package: nephila\nVersion: {version}-1\nArchitecture: {}\nMaintainer: {}\n{depends}Installed-Size: {kilobytes}\n\
         Section: web\nPriority: optional\nDescription: {}\n {}\n",
        arch.debian,
        super::MAINTAINER,
        super::SUMMARY,
        super::DESCRIPTION.replace('\n', "\n "),
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::dist::tests::about;
    use crate::shell;

    #[test]
    fn dpkg_reads_what_we_write() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Tree::default();
        files.file("usr/bin/nephila", PROGRAM, "program");
        let path = folder.path().join(name(&about()));
        std::fs::write(&path, package(&about(), &files).unwrap()).unwrap();
        let dpkg = |what: &str| {
            let mut command = Command::new("dpkg-deb");
            shell::output(command.arg(what).arg(&path), Duration::from_secs(30)).unwrap()
        };
        let info = dpkg("--info");
        for line in ["Package: nephila", "Version: 0.1.0-1", "libc6 (>= 2.34)", "postinst", "Description: "] {
            assert!(info.contains(line), "{line} is missing: {info}");
        }
        let contents = dpkg("--contents");
        assert!(contents.contains("-rwxr-xr-x root/root"), "{contents}");
        assert!(contents.contains("./usr/bin/nephila"), "{contents}");
    }
}
