//! A 64-bit fingerprint of a text: similar texts have fingerprints that differ in few bits (Charikar's simhash).
//!
//! The features are pairs of words in lower case. Linear in the length of the text.
//!
//! Two texts are nearly the same if their fingerprints differ in at most [`BITS_MAX`] of 64 bits: at most about
//! two words in a hundred differ. Texts that share every second paragraph differ in 13 bits and more. Of a million unrelated
//! texts, some 300 are that close to another one.

use xxhash_rust::xxh3::Xxh3;

/// Number of words in a feature.
const WORDS: usize = 2;
/// Maximum number of different bits of texts that are nearly the same.
pub const BITS_MAX: u32 = 8;

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

/// Whether two texts with these fingerprints are nearly the same.
pub fn is_near(one: u64, other: u64) -> bool {
    (one ^ other).count_ones() <= BITS_MAX
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
    fn similar_texts_differ_in_few_bits() {
        let long: Vec<String> = (0..400).map(|n| format!("word{}", n * 7 % 101)).collect();
        let mut other = long.clone();
        other[200] = "changed".into();
        let [a, b] = [long.join(" "), other.join(", ")].map(|text| simhash(&text).unwrap());
        assert!(is_near(a, b) && (a ^ b).count_ones() <= 6, "{}", (a ^ b).count_ones());
        let c = simhash("a text about something else entirely, of other words").unwrap();
        assert!((a ^ c).count_ones() > 12);
        assert_eq!(simhash("One TWO three"), simhash("one, two: three!"));
        assert_eq!((simhash(" ... "), simhash("x").is_some()), (None, true));
    }
}
