//! Sparse index from groups to stream positions: enough to start a read or a truncation close to a group.
//!
//! Invariants: a mark is the exact begin of its group; there are never more than [`MARKS_MAX`] marks, however large the
//! log.

/// Maximum number of marks; beyond this every second mark is dropped.
const MARKS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug)]
struct Mark {
    group: u64,
    position: u64,
    /// Total bytes of all earlier groups seen.
    bytes_before: u64,
}

/// Marks, in order.
#[derive(Debug, Default)]
pub(super) struct Marks {
    marks: Vec<Mark>,
    last: u64,
    bytes: u64,
    bytes_removed: u64,
}

impl Marks {
    /// Adds a group after the last known group; ignores other groups, which are known already.
    pub(super) fn push(&mut self, group: u64, position: u64, bytes: u64) {
        if group <= self.last {
            return;
        }
        self.marks.push(Mark { group, position, bytes_before: self.bytes });
        (self.last, self.bytes) = (group, self.bytes + bytes);
        if self.marks.len() > MARKS_MAX {
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// Position of the last marked group up to `group`.
    pub(super) fn before(&self, group: u64) -> Option<u64> {
        let behind = self.marks.partition_point(|mark| mark.group <= group);
        behind.checked_sub(1).map(|index| self.marks[index].position)
    }

    /// Drops marks before this group, which is or becomes the first in the log.
    pub(super) fn forget_before(&mut self, group: u64) {
        let behind = self.marks.partition_point(|mark| mark.group <= group);
        self.marks.drain(..behind.saturating_sub(1));
        if let Some(first) = self.marks.first() {
            self.bytes_removed = first.bytes_before;
        }
    }

    /// Total bytes of the groups known to exist.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes - self.bytes_removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_never_behind_the_group_asked_for() {
        let mut marks = Marks::default();
        assert_eq!(marks.before(5), None);
        for group in 10..20_000_u64 {
            marks.push(group, group * 3, 7);
        }
        assert!(marks.marks.len() <= MARKS_MAX);
        assert_eq!(marks.before(9), None);
        for group in [10, 11, 9_999, 19_999, 50_000] {
            let position = marks.before(group).unwrap();
            assert!(position <= group * 3 && position >= 30, "{group}: {position}");
        }
        assert_eq!(marks.bytes(), 19_990 * 7);
        marks.forget_before(15_000);
        assert!(marks.bytes() >= 5_000 * 7 && marks.bytes() < 5_100 * 7, "{}", marks.bytes());
        assert!(marks.before(15_000).unwrap() <= 45_000);
        marks.push(11, 1, 1);
        assert_eq!(marks.last, 19_999);
    }
}
