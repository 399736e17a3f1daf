//! A hash table for the paths that every packet takes: a lookup touches one place of an index and one entry, however
//! many there are, while a tree of a thousand nodes is walked from level to level.
//!
//! Keys that strangers choose (addresses) are mixed with a secret seed, so strangers cannot cause collisions.
//!
//! Invariants: entries stand side by side, in an order that follows from the operations alone and not from the seed;
//! at most half of the index is in use.

use crate::cluster::Incarnation;
use crate::frontier::slot::SlotKey;

/// The key of a table.
pub(super) trait Key: Copy + Eq {
    /// Bits in which two keys usually differ.
    fn bits(self) -> u64;
}

impl Key for Incarnation {
    fn bits(self) -> u64 {
        self.0
    }
}

impl Key for SlotKey {
    fn bits(self) -> u64 {
        match self {
            SlotKey::V4(bits) => u64::from(bits) | 1 << 40,
            SlotKey::V6(bits) => bits,
            SlotKey::Fleet { fleet, lane } => u64::from(fleet) << 32 | u64::from(lane),
        }
    }
}

/// No entry.
const NONE: u32 = u32::MAX;
/// Places of the smallest index.
const PLACES_MIN: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Map<K, V> {
    seed: u64,
    /// Half of the hash, and the position of the entry. The number of places is a power of two, or 0.
    places: Vec<(u32, u32)>,
    entries: Vec<(K, V)>,
}

impl<K: Key, V> Map<K, V> {
    pub(super) fn new(seed: u64) -> Map<K, V> {
        Map { seed, places: Vec::new(), entries: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn hash(&self, key: K) -> u32 {
        let mut mixed = key.bits() ^ self.seed;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as u32
    }

    /// The index place that points to a key's entry.
    fn find(&self, key: K) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let hash = self.hash(key);
        let mut place = hash as usize & mask;
        loop {
            let (of, at) = self.places[place];
            if at == NONE {
                return None;
            }
            if of == hash && self.entries[at as usize].0 == key {
                return Some(place);
            }
            place = (place + 1) & mask;
        }
    }

    /// The position of a key's entry. The position stays until an entry is removed.
    pub(super) fn place_of(&self, key: K) -> Option<usize> {
        self.find(key).map(|place| self.places[place].1 as usize)
    }

    /// The entry at this position.
    pub(super) fn by_place(&mut self, at: usize) -> (K, &mut V) {
        let (key, value) = &mut self.entries[at];
        (*key, value)
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.find(key).is_some()
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.place_of(key).map(|at| &self.entries[at].1)
    }

    pub(super) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.place_of(key).map(|at| &mut self.entries[at].1)
    }

    /// The entry of a key, inserted if there is none.
    pub(super) fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = self.place(key, make);
        &mut self.entries[at].1
    }

    /// The position of a key's entry, inserted if there is none.
    pub(super) fn place(&mut self, key: K, make: impl FnOnce() -> V) -> usize {
        match self.place_of(key) {
            Some(at) => at,
            None => self.add(key, make()),
        }
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.place_of(key) {
            Some(at) => self.entries[at].1 = value,
            None => _ = self.add(key, value),
        }
    }

    /// Adds an entry for a key that has none. Returns its position.
    fn add(&mut self, key: K, value: V) -> usize {
        let at = self.entries.len();
        self.entries.push((key, value));
        if 2 * self.entries.len() > self.places.len() {
            let places = (2 * self.places.len()).max(PLACES_MIN);
            self.places.clear();
            self.places.resize(places, (0, NONE));
            (0..self.entries.len()).for_each(|at| self.name(at));
        } else {
            self.name(at);
        }
        at
    }

    /// Gives an entry the first free place behind its hash.
    fn name(&mut self, at: usize) {
        let (hash, mask) = (self.hash(self.entries[at].0), self.places.len() - 1);
        let mut place = hash as usize & mask;
        while self.places[place].1 != NONE {
            place = (place + 1) & mask;
        }
        self.places[place] = (hash, at as u32);
    }

    pub(super) fn remove(&mut self, key: K) -> Option<V> {
        let mut hole = self.find(key)?;
        let (at, mask) = (self.places[hole].1 as usize, self.places.len() - 1);
        // Entries behind the hole that would not be found across it move into the hole.
        let mut place = (hole + 1) & mask;
        while self.places[place].1 != NONE {
            let home = self.places[place].0 as usize & mask;
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[place];
                hole = place;
            }
            place = (place + 1) & mask;
        }
        self.places[hole] = (0, NONE);
        // The last entry moves up.
        let last = self.entries.len() - 1;
        if at != last {
            let mut place = self.hash(self.entries[last].0) as usize & mask;
            while self.places[place].1 as usize != last {
                place = (place + 1) & mask;
            }
            self.places[place].1 = at as u32;
        }
        Some(self.entries.swap_remove(at).1)
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.places.fill((0, NONE));
    }

    /// Keeps the entries for which `keep` returns true.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut at = 0;
        while let Some((key, value)) = self.entries.get(at) {
            match keep(key, value) {
                true => at += 1,
                false => {
                    let key = *key;
                    self.remove(key);
                }
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter().map(|(key, value)| (*key, value))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (K, &mut V)> {
        self.entries.iter_mut().map(|(key, value)| (*key, value))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_knows_what_a_tree_knows(seed: u64, steps in proptest::collection::vec((0u8..6, 0u32..40, any::<u16>()), 0..400)) {
            let (mut map, mut tree) = (Map::new(seed), BTreeMap::new());
            for (step, key, value) in steps {
                let key = if key % 3 == 0 { SlotKey::V6(key.into()) } else { SlotKey::V4(key) };
                match step {
                    0 | 1 => {
                        map.insert(key, value);
                        tree.insert(key, value);
                    }
                    2 => prop_assert_eq!(*map.entry(key, || value), *tree.entry(key).or_insert(value)),
                    3 | 4 => prop_assert_eq!(map.remove(key), tree.remove(&key)),
                    _ if value % 50 == 0 => {
                        map.clear();
                        tree.clear();
                    }
                    _ => {
                        map.retain(|_, kept| *kept % 7 != value % 7);
                        tree.retain(|_, kept| *kept % 7 != value % 7);
                    }
                }
                prop_assert_eq!(map.get(key), tree.get(&key));
                prop_assert_eq!((map.len(), map.contains(key)), (tree.len(), tree.contains_key(&key)));
            }
            let all: BTreeMap<_, _> = map.iter().map(|(key, value)| (key, *value)).collect();
            prop_assert_eq!(&all, &tree);
            for (key, value) in tree {
                prop_assert_eq!(map.get(key), Some(&value));
            }
        }
    }
}
