//! A root of its own for a trial: a folder that a command sees as the whole file system, in namespaces of its own.
//!
//! Needs to be root, as on a runner of CI. The network is the machine's: the test web listens on its loopback.
//!
//! Invariants: nothing is mounted outside of a command's namespace, so nothing stays mounted; a command sees nothing of this machine
//! but its kernel and its network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::shell;

/// The release of Debian that packages are tried on; it comes from where debootstrap takes it.
const RELEASE: &str = "bookworm";
/// Timeout for making a root, which downloads packages.
const MAKE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Timeout of a command in a root.
const LIMIT: Duration = Duration::from_secs(5 * 60);
/// What is mounted before a command runs: `$1` is the root, `$2` is `ro` or `rw`, `$3` the user, then the command.
const ENTER: &str = "\
set -e
root=$1 how=$2 user=$3
shift 3
mkdir -p $root/proc $root/dev $root/tmp $root/data
mount --bind $root $root
mount -t proc proc $root/proc
mount -t tmpfs tmpfs $root/dev
for name in null zero urandom; do touch $root/dev/$name; mount --bind /dev/$name $root/dev/$name; done
mount -t tmpfs -o mode=1777 tmpfs $root/tmp
if [ $how = ro ]; then
    mount --bind $root/data $root/data
    mount -o remount,bind,ro $root
fi
exec chroot --userspec=$user $root \"$@\"
";

/// See the module.
#[derive(Debug)]
pub(crate) struct Root(TempDir);

impl Root {
    /// A root without a file.
    pub(crate) fn empty() -> Result<Root> {
        Ok(Root(tempfile::tempdir().context("make a temporary folder")?))
    }

    /// A fresh Debian with these further packages, made once and kept in the cache.
    pub(crate) fn debian(cache: &Path, packages: &[&str]) -> Result<Root> {
        let root = Root::empty()?;
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto"]).arg(kept(cache, packages)?.join(".")).arg(root.path());
        shell::run(&mut copy, LIMIT)?;
        Ok(root)
    }

    /// Its folder on this machine.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Unpacks a tar archive into the root.
    pub(crate) fn unpack(&self, archive: &Path) -> Result<()> {
        let mut tar = Command::new("tar");
        tar.args(["--numeric-owner", "-xpf"]).arg(archive).arg("-C").arg(self.path());
        shell::output(&mut tar, LIMIT).map(drop)
    }

    /// Runs a command as the root user, and returns what it said on standard output.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String> {
        self.enter("rw", "0:0", words)
    }

    /// Runs a command as a user who is not root; of the root, only `/data` and `/tmp` can be written.
    pub(crate) fn run_read_only(&self, user: &str, words: &[&str]) -> Result<String> {
        self.enter("ro", user, words)
    }

    fn enter(&self, how: &str, user: &str, words: &[&str]) -> Result<String> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"]);
        command.arg(self.path()).args([how, user]).args(words);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/tmp")
            .env("LANG", "C.UTF-8");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        shell::output(&mut command, LIMIT)
    }

    /// Paths of all files, without those that dpkg and its tools keep for themselves, and without temporary ones.
    pub(crate) fn files(&self) -> Result<BTreeSet<String>> {
        const OF_TOOLS: [&str; 9] = [
            "dev",
            "proc",
            "run",
            "tmp",
            "var/cache",
            "var/lib/dpkg",
            "var/lib/systemd",
            "var/log",
            "etc/.pwd.lock",
        ];
        let mut find = Command::new("find");
        find.args([".", "-mindepth", "1", "-printf", "%P\n"]).current_dir(self.path());
        let all = shell::output(&mut find, LIMIT)?;
        let is_of_tools = |path: &str| {
            // Copies that passwd makes of its files.
            let is_copy = path.starts_with("etc/") && path.ends_with('-');
            is_copy || OF_TOOLS.iter().any(|of| path == *of || path.starts_with(&format!("{of}/")))
        };
        Ok(all.lines().filter(|path| !is_of_tools(path)).map(str::to_owned).collect())
    }

    /// Users and groups.
    pub(crate) fn users(&self) -> Result<String> {
        let read =
            |name| std::fs::read_to_string(self.path().join("etc").join(name)).context("users of a root");
        Ok(read("passwd")? + &read("group")?)
    }
}

/// The folder in the cache, which is made if it is not there. A half made one is made again.
fn kept(cache: &Path, packages: &[&str]) -> Result<PathBuf> {
    let name =
        if packages.is_empty() { "debian-root".to_owned() } else { format!("debian-root-{}", packages[0]) };
    let (folder, half) = (cache.join(&name), cache.join(format!("{name}.half")));
    if folder.join("etc/debian_version").is_file() && !folder.join("debootstrap").exists() {
        return Ok(folder);
    }
    for old in [&folder, &half] {
        if old.exists() {
            std::fs::remove_dir_all(old).with_context(|| old.display().to_string())?;
        }
    }
    let mut make = Command::new("debootstrap");
    make.arg("--variant=minbase");
    if !packages.is_empty() {
        make.arg(format!("--include={}", packages.join(",")));
    }
    make.arg(RELEASE).arg(&half);
    let (status, said) = shell::quiet(&mut make, MAKE_LIMIT).context("apt-get install debootstrap")?;
    ensure!(status.success(), "debootstrap failed:\n{said}");
    std::fs::rename(&half, &folder)?;
    Ok(folder)
}
