//! Groups of texts that are nearly the same, by their fingerprints ([`nephila_core::simhash`]).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nephila_core::simhash::is_near;

/// First bits of the bands of a fingerprint, and the end: eight different bits leave at least two of ten bands alone.
const BANDS: [u32; 11] = [0, 7, 14, 21, 28, 34, 40, 46, 52, 58, 64];
/// Maximum number of comparisons of a fingerprint with others that have the same two bands. Of a million random
/// fingerprints, some 150 have them; many more have them only on purpose.
const COMPARED_MAX: usize = 512;

/// Groups of fingerprints that are near another one of the group, as places in `hashes`. The
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
            for other in others.filter(|other| is_near(hashes[**other], hashes[*place])) {
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

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    fn hash(word: &str) -> u64 {
        xxh3_64(word.as_bytes())
    }

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
                if is_near(*a, *b) {
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
}
