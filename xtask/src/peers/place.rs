//! A network namespace for a comparison: loopback alone, and the test web as the resolver.
//!
//! Other tools ask the system for names and use ports 80 and 443 where a URL has none. In a new network namespace both
//! are possible without touching the machine: `unshare` makes the namespace, nothing inside leads outside, and the
//! namespace ends with its last process.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;

/// The reason printed for tools that need a namespace where none can be made.
pub(super) const WHY_NOT: &str = "needs a network of its own: run as root or allow user namespaces; apt-get install util-linux iproute2 mount";

const UNSHARE: [&str; 4] = ["--net", "--mount", "--map-root-user", "--"];
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
    command.args(UNSHARE).args(["sh", "-c", PREPARE, "sh"]).arg(resolver).arg(program);
    Ok(command)
}
