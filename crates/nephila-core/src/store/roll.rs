//! When an archive file is full, and what files are called.

use std::time::Duration;

use crate::time::{HELD_MS_MAX, Timestamp};

/// What a file that is being written has after its name.
pub const OPEN: &str = ".open";

/// When to close a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// No record is begun in a file of this size.
    pub bytes_max: u64,
    /// A file older than this is closed, so that its index appears in time.
    pub age_max: Duration,
}

impl Limits {
    /// Is a file of this size and age full?
    pub fn is_full(&self, bytes: u64, age: Duration) -> bool {
        bytes >= self.bytes_max || age >= self.age_max
    }
}

/// Was the clock set back since the latest date in a file was written, so that a capture of this date begins a new one?
/// Dates within a file then go back only as captures come late: they are written in the order they end, and carry the
/// date they began.
///
/// It was if the file has a date that is still to come and the capture has not. A capture that is merely late, because
/// the disk was full for an hour, stays with the others; so does one that itself has a date of the clock before.
pub fn is_set_back(latest: Timestamp, date: Timestamp, wall: Timestamp) -> bool {
    // Dates may be ahead of the clock by so much: see `time::Forward`.
    let now = Timestamp(wall.0.saturating_add(HELD_MS_MAX));
    latest > now && date <= now
}

/// The name of a file without its ending: `PREFIX-20261114225809123-00007-NODE`. Prefix and node lose what does
/// not belong into a file name.
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
