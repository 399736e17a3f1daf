//! Texts that were seen already, by their hashes: each has a number, in the order in which they came.
//!
//! A map would do, but a page has a hundred references, and each is looked up twice. The table is an open one whose load
//! stays below a half. What finds no room near its place goes to a map, so that hashes that were chosen to collide cost
//! no more than a map does.

use std::collections::BTreeMap;

/// Number of places that a hash may have in the table.
const NEAR: usize = 8;

/// Hashes and their numbers.
#[derive(Debug, Default)]
pub(super) struct Hashes {
    /// By number.
    hashes: Vec<u128>,
    /// Numbers, counted from 1; 0 is an empty place. As many as a power of two, or none.
    places: Vec<u32>,
    far: BTreeMap<u128, u32>,
}

impl Hashes {
    /// The number of a hash.
    pub(super) fn find(&self, hash: u128) -> Option<usize> {
        for place in near(hash, self.places.len()) {
            match self.places[place] {
                0 => return None,
                number if self.hashes[number as usize - 1] == hash => return Some(number as usize - 1),
                _ => {}
            }
        }
        self.far.get(&hash).map(|number| *number as usize - 1)
    }

    /// Adds a hash that is not there. Its number is the number of those that were there.
    pub(super) fn add(&mut self, hash: u128) {
        debug_assert!(self.find(hash).is_none());
        self.hashes.push(hash);
        if self.hashes.len() * 2 <= self.places.len() {
            return self.place(hash, self.hashes.len());
        }
        self.places.clear();
        self.places.resize((self.hashes.len() * 4).next_power_of_two().max(PLACES_MIN), 0);
        self.far.clear();
        for at in 0..self.hashes.len() {
            self.place(self.hashes[at], at + 1);
        }
    }

    fn place(&mut self, hash: u128, number: usize) {
        let number = u32::try_from(number).expect("a page names fewer than four billion URLs");
        match near(hash, self.places.len()).find(|place| self.places[*place] == 0) {
            Some(place) => self.places[place] = number,
            None => _ = self.far.insert(hash, number),
        }
    }
}

/// The places of a hash in a table of this size.
fn near(hash: u128, places: usize) -> impl Iterator<Item = usize> {
    let first = hash as usize;
    (0..NEAR.min(places)).map(move |next| first.wrapping_add(next) & (places - 1))
}

/// Number of places of the smallest table.
const PLACES_MIN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_keeps_its_number_whatever_collides() {
        // All in one place; and spread.
        for step in [1_u128 << 64, 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835] {
            let mut hashes = Hashes::default();
            let of = |number: usize| step.wrapping_mul(number as u128 + 1);
            for number in 0..3_000 {
                assert_eq!(hashes.find(of(number)), None);
                hashes.add(of(number));
            }
            assert!((0..3_000).all(|number| hashes.find(of(number)) == Some(number)));
            assert_eq!(hashes.far.len() > 2_900, step == 1 << 64);
        }
    }
}
