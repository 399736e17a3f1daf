//! The order in which the URLs of a host are fetched.
//!
//! First by **band** (priority, then depth: breadth first), then by **age**. Parked URLs stand behind all others.
//! URLs planned for a time of their own (a retry, another visit) wait in a second list, ordered by that time.

use crate::time::Seconds;

/// Number of distinct depths within a priority; deeper URLs share the last.
const DEPTHS: u8 = 25;

/// The band of parked URLs.
pub const PARKED: u8 = u8::MAX;

/// The band of a URL.
pub fn band(priority: u8, depth: u8) -> u8 {
    priority.min(crate::job::PRIORITY_MAX) * DEPTHS + depth.min(DEPTHS - 1)
}

/// A place in a host's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    /// See [`band`].
    pub band: u8,
    /// When the URL was put there.
    pub age: Seconds,
    /// The low bits of the URL's key. Two URLs may share a place; neither is lost.
    pub low: u32,
}

impl QueueKey {
    /// Length of the stored form.
    pub const BYTES: usize = 9;
    /// Before all others.
    pub const MIN: QueueKey = QueueKey { band: 0, age: Seconds(0), low: 0 };

    /// The place of a URL that is let in at this time.
    pub fn of(priority: u8, depth: u8, path: u64, now: Seconds) -> QueueKey {
        QueueKey { band: band(priority, depth), age: now, low: path as u32 }
    }

    /// The place of a URL that is parked at this time: among the parked, the better band comes first, then the older.
    pub fn parked(priority: u8, depth: u8, path: u64, now: Seconds) -> QueueKey {
        let age = (u32::from(band(priority, depth)) << 24) | (now.0 >> 8);
        QueueKey { band: PARKED, age: Seconds(age), low: path as u32 }
    }

    /// The stored form: sorts as bytes like the place.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.band;
        bytes[1..5].copy_from_slice(&self.age.0.to_be_bytes());
        bytes[5..].copy_from_slice(&self.low.to_be_bytes());
        bytes
    }

    /// Reads the stored form.
    ///
    /// # Panics If there are fewer than [`Self::BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Self {
        QueueKey {
            band: bytes[0],
            age: Seconds(u32::from_be_bytes(bytes[1..5].try_into().expect("four bytes"))),
            low: u32::from_be_bytes(bytes[5..9].try_into().expect("four bytes")),
        }
    }

    /// The next place; the last has none and stays.
    pub fn after(self) -> QueueKey {
        QueueKey::from_number((self.number() + 1).min((1 << 72) - 1))
    }

    /// The place before; the first has none and stays.
    pub fn before(self) -> QueueKey {
        QueueKey::from_number(self.number().saturating_sub(1))
    }

    fn number(self) -> u128 {
        (u128::from(self.band) << 64) | (u128::from(self.age.0) << 32) | u128::from(self.low)
    }

    fn from_number(number: u128) -> QueueKey {
        QueueKey { band: (number >> 64) as u8, age: Seconds((number >> 32) as u32), low: number as u32 }
    }
}

/// A place among the plans of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LaterKey {
    /// Not before this time.
    pub due: Seconds,
    /// The URL.
    pub path: u64,
}

impl LaterKey {
    /// Length of the stored form.
    pub const BYTES: usize = 12;
    /// Before all others.
    pub const MIN: LaterKey = LaterKey { due: Seconds(0), path: 0 };

    /// The stored form.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.due.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.path.to_be_bytes());
        bytes
    }

    /// Reads the stored form.
    ///
    /// # Panics If there are fewer than [`Self::BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Self {
        LaterKey {
            due: Seconds(u32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))),
            path: u64::from_be_bytes(bytes[4..12].try_into().expect("eight bytes")),
        }
    }

    /// The place before; the first has none and stays.
    pub fn before(self) -> LaterKey {
        let number = ((u128::from(self.due.0) << 64) | u128::from(self.path)).saturating_sub(1);
        LaterKey { due: Seconds((number >> 64) as u32), path: number as u64 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_sort_as_their_bytes_do(a: (u8, u32, u32), b: (u8, u32, u32)) {
            let key = |(band, age, low)| QueueKey { band, age: Seconds(age), low };
            let (a, b) = (key(a), key(b));
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
            prop_assert_eq!(QueueKey::from_bytes(&a.to_bytes()), a);
            prop_assert!(a.after() > a || a.to_bytes() == [0xff; 9]);
            prop_assert_eq!(a.after().before(), if a.after() > a { a } else { a.before() });
        }

        #[test]
        fn later_places_sort_as_their_bytes_do(a: (u32, u64), b: (u32, u64)) {
            let key = |(due, path)| LaterKey { due: Seconds(due), path };
            let (a, b) = (key(a), key(b));
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
            prop_assert_eq!(LaterKey::from_bytes(&a.to_bytes()), a);
            prop_assert!(a.before() < a || a == LaterKey::MIN);
        }
    }

    #[test]
    fn priority_comes_before_depth_and_depth_before_age() {
        assert!(band(0, 200) < band(1, 0));
        assert!(band(1, 1) < band(1, 2));
        assert!(band(200, 255) < PARKED);
        let parked = |depth, now| QueueKey::parked(1, depth, 9, Seconds(now));
        assert!(parked(1, 5_000) < parked(2, 1_000) && parked(2, 1_000) < parked(2, 2_000));
    }
}
