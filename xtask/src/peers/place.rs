//! A network namespace for a comparison: loopback alone, and the test web as the resolver.
//!
//! Other tools ask the system for names and use ports 80 and 443 where a URL has none. In a new network namespace both
//! are possible without touching the machine: `unshare` makes the namespace, nothing inside leads outside, and the
//! namespace ends with its last process.
//!
//! Each run has a new file system of its own there ([`Disk`]): tools that write a file for each page otherwise pay for the
//! files of the runs before. Only root may mount one; without it, the folder is emptied, and that is said.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::shell;

/// The reason printed for tools that need a namespace where none can be made.
pub(super) const WHY_NOT: &str = "needs a network of its own: run as root or allow user namespaces; apt-get install util-linux iproute2 mount";

const UNSHARE: [&str; 2] = ["--net", "--mount"];
/// For those who are not root: a namespace of users, in which file systems on a file cannot be mounted.
const MAP_USER: &str = "--map-root-user";

/// Maximum size of a file system; its file is sparse.
const DISK_BYTES: u64 = 16 << 30;
/// Timeout of making, mounting and leaving one.
const DISK_LIMIT: Duration = Duration::from_secs(120);

/// A new file system, mounted on a folder as long as this value lives.
pub(super) struct Disk<'a>(Option<&'a Path>);

impl<'a> Disk<'a> {
    /// Makes one in this file, which is replaced.
    pub(super) fn mount(image: &Path, on: &'a Path) -> Result<Self> {
        if !rustix::process::geteuid().is_root() || user_namespace() {
            println!("the file system is that of the machine: only root may mount a new one");
            return Ok(Disk(None));
        }
        let file = std::fs::File::create(image).with_context(|| image.display().to_string())?;
        file.set_len(DISK_BYTES)?;
        shell::run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image), DISK_LIMIT)?;
        shell::run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(on), DISK_LIMIT)?;
        // An empty one has this folder, and some tools list what they find.
        std::fs::remove_dir(on.join("lost+found"))?;
        Ok(Disk(Some(on)))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        if let Some(on) = self.0
            && let Err(error) = shell::run(Command::new("umount").arg(on), DISK_LIMIT)
        {
            println!("a file system stays mounted until the end: {error:#}");
        }
    }
}

/// Whether root here is an ordinary user outside.
fn user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().nth(2) != Some("4294967295")
}

/// Brings loopback up, makes its first argument the resolver's file, and becomes the rest.
const PREPARE: &str =
    r#"ip link set lo up && mount --bind "$1" "$(readlink -f /etc/resolv.conf)" && shift && exec "$@""#;

/// Whether this machine allows a new namespace.
pub(super) fn can_be_made() -> bool {
    let Ok(folder) = tempfile::tempdir() else { return false };
    let Ok(mut command) = inside(folder.path(), "true".as_ref()) else { return false };
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// This program with these flags, in a network namespace of its own. The folder must outlive the command.
pub(super) fn enter(folder: &Path, flags: &[String]) -> Result<Command> {
    let mut command = inside(folder, &std::env::current_exe()?)?;
    command.args(flags);
    Ok(command)
}

fn inside(folder: &Path, program: &Path) -> Result<Command> {
    let resolver = folder.join("resolv.conf");
    std::fs::write(&resolver, "nameserver 127.0.0.1\n")?;
    let mut command = Command::new("unshare");
    command.args(UNSHARE);
    if !rustix::process::geteuid().is_root() {
        command.arg(MAP_USER);
    }
    command.args(["--", "sh", "-c", PREPARE, "sh"]).arg(resolver).arg(program);
    Ok(command)
}
