//! A 64-bit fingerprint of a text: similar texts have fingerprints that differ in few bits (Charikar's simhash).
//!
//! The features are pairs of words in lower case. Linear in the length of the text.
//!
//! Two texts are nearly the same if their fingerprints differ in at most [`BITS_MAX`] of 64 bits: at most about
//! two words in a hundred differ. Texts that share every second paragraph differ in 13 bits and more. Of a million unrelated
//! texts, some 300 are that close to another one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3;

/// Number of words in a feature.
const WORDS: usize = 2;
/// Maximum number of different bits of texts that are nearly the same.
pub const BITS_MAX: u32 = 8;
/// First bits of the bands of a fingerprint, and the end: eight different bits leave at least two of ten bands alone.
const BANDS: [u32; 11] = [0, 7, 14, 21, 28, 34, 40, 46, 52, 58, 64];
/// Maximum number of comparisons of a fingerprint with others that have the same two bands. Of a million random
/// fingerprints, some 150 have them; many more have them only on purpose.
const COMPARED_MAX: usize = 512;

/// The fingerprint of a text; none if the text has no words.
pub fn simhash(text: &str) -> Option<u64> {
    let words: Vec<u64> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(hash).collect();
    if words.is_empty() {
        return None;
    }
    let mut votes = [0i64; 64];
    for feature in words.windows(WORDS.min(words.len())) {
        let mut hasher = Xxh3::new();
        feature.iter().for_each(|word| hasher.update(&word.to_le_bytes()));
        let hash = hasher.digest();
        for (bit, votes) in votes.iter_mut().enumerate() {
            *votes += if hash >> bit & 1 == 1 { 1 } else { -1 };
        }
    }
    Some(votes.iter().enumerate().fold(0, |hash, (bit, votes)| hash | u64::from(*votes > 0) << bit))
}

/// Groups of fingerprints that differ in at most [`BITS_MAX`] bits from another one of the group, as places in `hashes`. The
/// largest group is first; a fingerprint without others is in none. Time grows with the number of fingerprints and its
/// logarithm.
pub fn groups(hashes: &[u64]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..hashes.len()).collect();
    order.sort_unstable_by_key(|place| (hashes[*place], *place));
    let mut groups = Groups((0..hashes.len()).collect());
    order
        .windows(2)
        .filter(|pair| hashes[pair[0]] == hashes[pair[1]])
        .for_each(|pair| groups.join(pair[0], pair[1]));
    // One of each group of equal ones is compared with the others.
    order.dedup_by_key(|place| hashes[*place]);
    let band =
        |hash: u64, number: usize| hash >> BANDS[number] & ((1 << (BANDS[number + 1] - BANDS[number])) - 1);
    for (first, second) in
        (0..BANDS.len() - 1).flat_map(|first| (0..first).map(move |second| (first, second)))
    {
        let key = |place: &usize| (band(hashes[*place], first), band(hashes[*place], second));
        order.sort_unstable_by_key(|place| (key(place), hashes[*place]));
        for (at, place) in order.iter().enumerate() {
            let others =
                order[at + 1..].iter().take(COMPARED_MAX).take_while(|other| key(other) == key(place));
            for other in others.filter(|other| (hashes[**other] ^ hashes[*place]).count_ones() <= BITS_MAX) {
                groups.join(*place, *other);
            }
        }
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    (0..hashes.len()).for_each(|place| members.entry(groups.of(place)).or_default().push(place));
    let mut found: Vec<_> = members.into_values().filter(|group| group.len() > 1).collect();
    found.sort_by_key(|group| (Reverse(group.len()), group[0]));
    found
}

/// For each place another one of its group; the last one is itself.
struct Groups(Vec<usize>);

impl Groups {
    fn of(&mut self, mut place: usize) -> usize {
        while self.0[place] != place {
            self.0[place] = self.0[self.0[place]];
            place = self.0[place];
        }
        place
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.of(one), self.of(other));
        self.0[one.max(other)] = one.min(other);
    }
}

fn hash(word: &str) -> u64 {
    let mut hasher = Xxh3::new();
    let mut buffer = [0; 4];
    for c in word.chars().flat_map(char::to_lowercase) {
        hasher.update(c.encode_utf8(&mut buffer).as_bytes());
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_all_comparisons() {
        let mut hashes: Vec<u64> = (0..3_000u64).map(|n| hash(&n.to_string())).collect();
        // Neighbours with up to eleven different bits, chains, and equal ones.
        for n in 0..1_000u64 {
            let bits = hash(&format!("bits {n}"));
            let flips = (0..n % 12).fold(0, |flips, at| flips | 1 << (bits >> (at * 5) & 63));
            hashes.push(hashes[(bits % hashes.len() as u64) as usize] ^ flips);
        }
        let mut expected = Groups((0..hashes.len()).collect());
        for (one, a) in hashes.iter().enumerate() {
            for (other, b) in hashes.iter().enumerate().skip(one + 1) {
                if (a ^ b).count_ones() <= BITS_MAX {
                    expected.join(one, other);
                }
            }
        }
        let found = groups(&hashes);
        let mut count = 0;
        for group in &found {
            assert!(group.iter().all(|place| expected.of(*place) == group[0]), "{group:?}");
            count += group.len();
        }
        let alone = |place: &usize, expected: &mut Groups| {
            (0..hashes.len()).filter(|other| expected.of(*other) == expected.of(*place)).count() == 1
        };
        let alone = (0..hashes.len()).filter(|place| alone(place, &mut expected)).count();
        assert_eq!(count + alone, hashes.len());
        assert!(found.len() > 400 && found.windows(2).all(|pair| pair[0].len() >= pair[1].len()));
    }

    #[test]
    fn a_flood_of_alike_fingerprints_is_one_group() {
        // All have the same bands but two, so most comparisons are left out.
        let hashes: Vec<u64> = (0..6_000).map(|n| n % 3_000).collect();
        assert_eq!(groups(&hashes).iter().map(Vec::len).collect::<Vec<_>>(), [6_000]);
    }

    #[test]
    fn similar_texts_differ_in_few_bits() {
        let long: Vec<String> = (0..400).map(|n| format!("word{}", n * 7 % 101)).collect();
        let mut other = long.clone();
        other[200] = "changed".into();
        let [a, b] = [long.join(" "), other.join(", ")].map(|text| simhash(&text).unwrap());
        assert!((a ^ b).count_ones() <= 6, "{}", (a ^ b).count_ones());
        let c = simhash("a text about something else entirely, of other words").unwrap();
        assert!((a ^ c).count_ones() > 12);
        assert_eq!(simhash("One TWO three"), simhash("one, two: three!"));
        assert_eq!((simhash(" ... "), simhash("x").is_some()), (None, true));
    }
}
