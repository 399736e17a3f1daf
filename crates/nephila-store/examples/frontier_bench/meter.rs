//! What the process used: CPU time, memory, bytes read and written. Linux only, as the figures are.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// CPU time of the whole process, background threads included.
pub fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of this thread alone.
pub fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[allow(unsafe_code, reason = "the standard library has no clock of CPU time")]
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer leads to a value that lives through the call; both clocks exist on Linux.
    let result = unsafe { libc::clock_gettime(id, &mut time) };
    assert_eq!(result, 0, "a clock that every Linux has");
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Resident memory now, in bytes.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// The most that was ever resident, in bytes.
pub fn resident_peak() -> u64 {
    status("VmHWM:")
}

fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Bytes that passed between the process and files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Io {
    /// Asked for by reading calls, whether or not they were in memory.
    pub read_calls: u64,
    /// Read from the device.
    pub read_device: u64,
    /// Given to writing calls.
    pub write_calls: u64,
}

impl Io {
    /// Up to now.
    pub fn now() -> Io {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Io { read_calls: field("rchar:"), read_device: field("read_bytes:"), write_calls: field("wchar:") }
    }

    /// Since then.
    pub fn since(self) -> Io {
        let now = Io::now();
        Io {
            read_calls: now.read_calls - self.read_calls,
            read_device: now.read_device - self.read_device,
            write_calls: now.write_calls - self.write_calls,
        }
    }
}

/// Bytes of all files below a folder.
pub fn disk_bytes(folder: &Path) -> u64 {
    let mut sum = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                sum += metadata.len();
            }
        }
    }
    sum
}

/// Measures a piece of work that is interrupted by work of our own, which is not counted.
///
/// What other threads do during the interruptions is counted, as if we had waited for it: merges in the background get
/// no time for nothing.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    cpu: Duration,
    io: Io,
    own_wall: Duration,
    own_cpu: Duration,
    others: Duration,
}

/// What a [`Meter`] saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Time on the wall, background work during interruptions included.
    pub wall: Duration,
    /// CPU of all threads.
    pub cpu: Duration,
    /// Files.
    pub io: Io,
}

impl Meter {
    /// Begins.
    pub fn start() -> Meter {
        Meter {
            begun: Instant::now(),
            cpu: process_cpu(),
            io: Io::now(),
            own_wall: Duration::ZERO,
            own_cpu: Duration::ZERO,
            others: Duration::ZERO,
        }
    }

    /// Does something that is not counted.
    pub fn pause<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (begun, all, own) = (Instant::now(), process_cpu(), thread_cpu());
        let result = work();
        let own = thread_cpu() - own;
        self.own_wall += begun.elapsed();
        self.own_cpu += own;
        self.others += (process_cpu() - all).saturating_sub(own);
        result
    }

    /// Ends.
    pub fn stop(self) -> Used {
        Used {
            wall: self.begun.elapsed().saturating_sub(self.own_wall) + self.others,
            cpu: (process_cpu() - self.cpu).saturating_sub(self.own_cpu),
            io: self.io.since(),
        }
    }
}
