//! The limits that the child sets on itself, before it reads a byte of the document.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::Limits;

/// Limits this process for the rest of its life.
///
/// Memory and processor time are those of the limits. No descriptor can be opened any more, so no file and no connection;
/// no process can be started (unless we are root), no file can grow, and no core is dumped.
pub(crate) fn confine(limits: &Limits) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        rustix::thread::set_no_new_privs(true)?;
    }
    // What is mapped already depends on the program, not on the document.
    let memory = mapped()?.saturating_add(limits.memory_max);
    set(Resource::Core, 0, 0)?;
    set(Resource::Fsize, 0, 0)?;
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    set(Resource::Nproc, 0, 0)?;
    // At the soft limit comes a signal that says why, at the hard one the end.
    let seconds = seconds(limits.cpu_max);
    set(Resource::Cpu, seconds, seconds.saturating_add(1))?;
    set(Resource::As, memory, memory)?;
    set(Resource::Nofile, 0, 0)
}

/// Sets one limit, or keeps a lower one that is there already.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let lower = |wanted: u64, now: Option<u64>| Some(now.map_or(wanted, |now| wanted.min(now)));
    let new = Rlimit { current: lower(soft, now.maximum), maximum: lower(hard, now.maximum) };
    Ok(setrlimit(resource, new)?)
}

/// Size in bytes of the address space of this process.
#[cfg(target_os = "linux")]
fn mapped() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    let kibibytes: u64 = size.and_then(|size| size.parse().ok()).unwrap_or_default();
    Ok(kibibytes.saturating_mul(1 << 10))
}

/// Size in bytes of the address space of this process: not known here.
#[cfg(not(target_os = "linux"))]
fn mapped() -> io::Result<u64> {
    Ok(0)
}

/// Number of whole seconds of a duration, rounded up, at least one.
fn seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}
