//! Measurements of the test's own process, and versions from the lock file.

use std::time::Duration;

/// The kernel's unit of time in `/proc`, the same on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of this thread. A test runs its fetch and the hostile server on one thread, so both are counted;
/// other tests are not.
pub(crate) fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux tells");
    // The second field is a name in brackets and may hold spaces; after it come 11 fields, then user and system time.
    let (_, fields) = stat.rsplit_once(')').expect("the name ends");
    let ticks: u32 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().expect("a number")).sum();
    TICK * ticks
}

/// Resident memory of this process, in bytes.
pub(crate) fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// The oldest version of a package in the lock file of the workspace.
pub(crate) fn locked_version(package: &str) -> [u64; 3] {
    let path = "../../Cargo.lock";
    let lock = std::fs::read_to_string(path).expect("the lock file is committed");
    let wanted = format!("name = \"{package}\"");
    let lines: Vec<&str> = lock.lines().collect();
    let versions = lines.windows(2).filter(|pair| pair[0] == wanted).map(|pair| {
        let version = pair[1].trim_start_matches("version = \"").trim_end_matches('"');
        let numbers: Vec<u64> =
            version.split(['.', '-', '+']).take(3).map(|n| n.parse().expect("a number")).collect();
        [numbers[0], numbers[1], numbers[2]]
    });
    versions.min().unwrap_or_else(|| panic!("{package} is not in the lock file"))
}
