//! Where a comparison runs: a network namespace with loopback alone and the test web as the resolver, and a new file
//! system for each run.
//!
//! Other tools ask the system for names and use ports 80 and 443 where a URL has none. In a new network namespace both
//! are possible without touching the machine: `unshare` makes the namespace, nothing inside leads outside, and the
//! namespace ends with its last process.
//!
//! Tools that write a file for each page would pay for the files of the runs before: so each run gets a [`Disk`]. Only
//! root may mount one. Without it the folder is emptied, and the report says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::shell;

/// The reason printed for tools that need a namespace where none can be made.
pub(super) const WHY_NOT: &str = "needs a network of its own: run as root or allow user namespaces; apt-get install util-linux iproute2 mount";

/// Ways to make a namespace. As root without a namespace of users, in which no file system may be mounted.
const WAYS: [&[&str]; 2] = [&["--net", "--mount"], &["--net", "--mount", "--map-root-user"]];

/// Brings loopback up, makes its first argument the resolver's file, and becomes the rest.
const PREPARE: &str =
    r#"ip link set lo up && mount --bind "$1" "$(readlink -f /etc/resolv.conf)" && shift && exec "$@""#;

/// Maximum size of a file system; its file is sparse.
const DISK_BYTES: u64 = 16 << 30;
/// Timeout of making, mounting and leaving one.
const DISK_LIMIT: Duration = Duration::from_secs(120);

/// A way to make a namespace that works on this machine.
#[derive(Clone, Copy)]
pub(super) struct Place(&'static [&'static str]);

impl Place {
    /// The first way that works, if there is one.
    pub(super) fn find() -> Option<Place> {
        let folder = tempfile::tempdir().ok()?;
        WAYS.into_iter().map(Place).find(|place| {
            let Ok(mut command) = place.inside(folder.path(), "true".as_ref()) else { return false };
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        })
    }

    /// This program with these flags, in a network namespace of its own. The folder must outlive the command.
    pub(super) fn enter(self, folder: &Path, flags: &[String]) -> Result<Command> {
        let mut command = self.inside(folder, &std::env::current_exe()?)?;
        command.args(flags);
        Ok(command)
    }

    fn inside(self, folder: &Path, program: &Path) -> Result<Command> {
        let resolver = folder.join("resolv.conf");
        std::fs::write(&resolver, "nameserver 127.0.0.1\n")?;
        let mut command = Command::new("unshare");
        command.args(self.0).args(["--", "sh", "-c", PREPARE, "sh"]).arg(resolver).arg(program);
        Ok(command)
    }
}

/// A new file system, mounted on a folder as long as this value lives.
pub(super) struct Disk(PathBuf);

impl Disk {
    /// Makes one in this file, which is replaced.
    pub(super) fn mount(image: &Path, on: &Path) -> Result<Disk> {
        let file = std::fs::File::create(image).with_context(|| image.display().to_string())?;
        file.set_len(DISK_BYTES)?;
        drop(file);
        let quiet = |command: &mut Command| shell::output(command, DISK_LIMIT).map(drop);
        quiet(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image))?;
        // No thread of the kernel fills tables beside a run.
        quiet(Command::new("mount").args(["-o", "loop,noinit_itable"]).arg(image).arg(on))?;
        let disk = Disk(on.to_owned());
        // An empty one has this folder, and some tools list what they find.
        std::fs::remove_dir(on.join("lost+found"))?;
        Ok(disk)
    }

    /// The reason why none can be made here, or none.
    pub(super) fn why_not(folder: &Path) -> Option<String> {
        let (image, on) = (folder.join("disk.img"), folder.join("disk"));
        let tried = std::fs::create_dir_all(&on).map_err(Into::into).and_then(|()| Disk::mount(&image, &on));
        tried.err().map(|error| format!("{error:#}").replace('\n', " "))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let leave =
            |flags: &[&str]| shell::output(Command::new("umount").args(flags).arg(&self.0), DISK_LIMIT);
        // What a stopped tool left open keeps it busy for a moment.
        if leave(&[]).is_err()
            && let Err(error) = leave(&["--lazy"])
        {
            println!("a file system stays mounted until the end: {error:#}");
        }
    }
}
