//! When an archive file is full (rolling), and the names of files.

use std::time::Duration;

use crate::time::{HELD_MS_MAX, Timestamp};

/// The suffix of the name of a file that is being written.
pub const OPEN: &str = ".open";

/// The limits of an archive file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size in bytes from which on no more records are begun in the file.
    pub bytes_max: u64,
    /// Maximum age. An older file is closed, so that its index appears in time.
    pub age_max: Duration,
}

impl Limits {
    /// Whether a file of this size and age is full.
    pub fn is_full(&self, bytes: u64, age: Duration) -> bool {
        bytes >= self.bytes_max || age >= self.age_max
    }
}

/// Whether the clock was set back since the latest date in a file was written, so that a capture of this date begins a
/// new file. Dates within a file then go back only because captures come late: captures are written in the order of
/// their ends, and carry the date of their beginning.
///
/// The clock was set back if the file has a date in the future and the capture has not. A capture that is merely late,
/// because the disk was full for an hour, stays in the file. So does a capture that itself has a date of the earlier
/// clock.
pub fn is_set_back(latest: Timestamp, date: Timestamp, wall: Timestamp) -> bool {
    // Dates may be ahead of the clock by this much: see `time::Forward`.
    let now = Timestamp(wall.0.saturating_add(HELD_MS_MAX));
    latest > now && date <= now
}

/// The name of a file without its extension: `PREFIX-20261114225809123-00007-NODE`. In prefix and node, characters that
/// do not belong into a file name are replaced.
pub fn name(prefix: &str, started: Timestamp, serial: u32, node: &str) -> String {
    format!("{}-{}-{serial:05}-{}", plain(prefix), started.digits17(), plain(node))
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_full_by_size_or_by_age() {
        let limits = Limits { bytes_max: 10, age_max: Duration::from_secs(60) };
        assert!(!limits.is_full(9, Duration::from_secs(59)));
        assert!(limits.is_full(10, Duration::ZERO));
        assert!(limits.is_full(0, Duration::from_secs(60)));
    }

    #[test]
    fn sto_22_a_capture_of_now_is_not_put_behind_one_of_tomorrow() {
        let [past, now, tomorrow] = [96_400, 100_000, 186_400].map(Timestamp::from_secs);
        let held = Timestamp(now.0 + HELD_MS_MAX);
        assert!(is_set_back(tomorrow, now, now));
        assert!(is_set_back(tomorrow, past, now));
        assert!(is_set_back(Timestamp(held.0 + 1), held, now));
        assert!(!is_set_back(tomorrow, tomorrow, now), "begun before the clock was set back");
        assert!(!is_set_back(now, past, now), "late, for another reason");
        assert!(!is_set_back(held, now, now), "set back a little");
        assert!(!is_set_back(now, tomorrow, now));
    }

    #[test]
    fn a_name_holds_no_path() {
        assert_eq!(name("../X", Timestamp(0), 7, "a/b"), ".._X-19700101000000000-00007-a_b");
    }
}
