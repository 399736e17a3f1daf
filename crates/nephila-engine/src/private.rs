//! File permissions: files of a crawl are readable by their owner alone.
//!
//! A crawl's folder holds the state of the crawl, pages behind passwords among the captures, and the key of its URLs.
//! New files and folders are private because the process sets its umask at startup, whatever umask was inherited. Files
//! that an older version or another program left readable are restricted when a process starts to work in the folder.
//!
//! Invariants: only files with a name of ours are changed, and no symbolic link is followed.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Names of our files in a folder; see `folder`.
pub const OURS: &[&str] = &[
    "archive",
    "indexes",
    "logs",
    "state",
    "contents",
    "doors.txt",
    "fetched",
    "feeds.opml",
    "job.json",
    "node.json",
    "settings.toml",
    "jobs.json",
    "links.key",
    "stops.json",
    "webhooks",
];
/// Permission bits of group and others.
const OF_OTHERS: u32 = 0o077;
/// Permission bit for reading by the group.
const READ_BY_GROUP: u32 = 0o040;

/// Sets the umask: this process creates folders with 0700 and files with 0600.
pub fn keep_private() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(OF_OTHERS));
}

/// Removes the permissions of other users from our files in a folder, and prints a note. A folder that also contains
/// foreign files keeps its own permissions; a failed change is only reported.
pub fn tighten(dir: &Path) {
    let mut closed = 0;
    match close_folder(dir, &mut closed) {
        Ok(()) if closed > 0 => tracing::info!(
            path = %dir.display(),
            "{closed} files and folders in {} could be read by other users, and now cannot: a crawl is its owner's",
            dir.display()
        ),
        Ok(()) => {}
        Err(error) => tracing::warn!(
            %error, path = %dir.display(),
            "{}: other users may be able to read it, and that cannot be changed: {error}",
            dir.display()
        ),
    }
}

/// Restricts our files in a folder, and the folder if all files are ours. Adds the number of changes to `closed`.
pub fn close_folder(dir: &Path, closed: &mut u64) -> io::Result<()> {
    let mut all_ours = true;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match OURS.iter().any(|name| entry.file_name() == **name) {
            true => close(&entry.path(), closed)?,
            false => all_ours = false,
        }
    }
    if all_ours { close_one(dir, closed) } else { Ok(()) }
}

/// Restricts a file, or a folder and its contents.
pub fn close(path: &Path, closed: &mut u64) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            close(&entry?.path(), closed)?;
        }
    }
    if kind.is_dir() || kind.is_file() { close_one(path, closed) } else { Ok(()) }
}

/// Removes the permissions of other users from one file or folder. Adds 1 to `closed` if there were any.
pub fn close_one(path: &Path, closed: &mut u64) -> io::Result<()> {
    let mode = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.mode(),
        // A file that was merged away in the meantime is no longer read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode & OF_OTHERS != 0 {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7777 & !OF_OTHERS))?;
        *closed += 1;
    }
    Ok(())
}

/// Whether only its owner can read a file with a secret. Of a file that root gave to this process, which is not root's, the group may
/// read it as well: Kubernetes makes the files of a Secret so, and only root chooses their group.
pub fn is_secret(file: &fs::Metadata) -> bool {
    is_closed(file.mode(), file.uid(), rustix::process::geteuid().as_raw())
}

fn is_closed(mode: u32, owner: u32, us: u32) -> bool {
    let permitted = if owner == 0 && us != 0 { READ_BY_GROUP } else { 0 };
    mode & OF_OTHERS & !permitted == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_06_the_group_may_read_a_secret_that_root_gave_us_and_no_other() {
        let (root, us, other) = (0, 65_532, 1_000);
        for (mode, owner, process, want) in [
            (0o400, us, us, true),
            (0o600, us, us, true),
            (0o440, root, us, true),
            (0o640, root, us, true),
            (0o440, us, us, false),
            (0o440, other, us, false),
            (0o440, root, root, false),
            (0o460, root, us, false),
            (0o444, root, us, false),
        ] {
            assert_eq!(is_closed(mode, owner, process), want, "{mode:o} of {owner}, read by {process}");
        }
    }

    #[test]
    fn sec_06_what_is_ours_is_closed_and_what_is_not_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o777;
        fs::create_dir_all(at("state/partition-0000")).unwrap();
        for name in ["state/secret", "state/partition-0000/x", "job.json"] {
            fs::write(at(name), "x").unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o644)).unwrap();
        }
        for name in [".", "state", "state/partition-0000"] {
            fs::set_permissions(at(name), Permissions::from_mode(0o755)).unwrap();
        }
        tighten(dir.path());
        for (name, want) in [("state/secret", 0o600), ("state/partition-0000/x", 0o600), ("job.json", 0o600)]
        {
            assert_eq!(mode(name), want, "{name}");
        }
        for name in [".", "state", "state/partition-0000"] {
            assert_eq!(mode(name), 0o700, "{name}");
        }
        // Somebody else's file, and the folder that it lies in.
        fs::write(at("thesis.tex"), "x").unwrap();
        for (name, mode) in [("thesis.tex", 0o644), (".", 0o755), ("job.json", 0o664)] {
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        tighten(dir.path());
        assert_eq!((mode("thesis.tex"), mode("."), mode("job.json")), (0o644, 0o755, 0o600));
    }
}
