//! Patterns of rules: `*` stands for anything, a final `$` for the end, everything else for itself.
//!
//! Patterns and paths are compared in one normal form (RFC 9309, 2.2.2): unreserved characters decoded, everything that
//! may not stand in a URI encoded, hex in upper case, reserved characters as they were written. A literal `*` or `$` is
//! always encoded in it, so a `*` that is left is a wildcard.
//!
//! What always holds: matching never goes back, so it is linear in the path.

use crate::url::percent;

/// How many pairs of a pattern are looked up before it is tried.
const PAIRS_MAX: usize = 8;

/// What occurs in a path: which bytes, and which pairs of neighbours. A rule that needs another is passed over without
/// being tried, which keeps ten thousand rules with wildcards cheap.
pub(super) struct Facts {
    bytes: Bytes,
    /// One bit for each pair.
    pairs: Vec<u64>,
}

impl Facts {
    pub(super) fn of(path: &[u8]) -> Self {
        let mut pairs = vec![0; 1 << 10];
        for pair in pairs_of(path) {
            pairs[usize::from(pair >> 6)] |= 1 << (pair & 63);
        }
        Facts { bytes: Bytes::of(path), pairs }
    }

    fn has_pair(&self, pair: u16) -> bool {
        self.pairs[usize::from(pair >> 6)] >> (pair & 63) & 1 == 1
    }
}

fn pairs_of(text: &[u8]) -> impl Iterator<Item = u16> {
    text.windows(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Which byte values occur in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Bytes([u64; 4]);

impl Bytes {
    fn of(text: &[u8]) -> Self {
        let mut set = [0; 4];
        for byte in text {
            set[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
        Bytes(set)
    }

    fn contains(&self, other: &Bytes) -> bool {
        self.0.iter().zip(other.0).all(|(mine, theirs)| theirs & !mine == 0)
    }
}

/// The path of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    /// In normal form; `*` is the wildcard.
    text: Box<[u8]>,
    /// Ends with `$`: the path must end there too.
    anchored: bool,
    /// Bytes and some of the pairs that every path has that matches.
    needs: Bytes,
    pairs: Box<[u16]>,
}

impl Pattern {
    /// None for a rule that matches nothing: an empty one, or one that begins with neither `/` nor `*`.
    pub(super) fn parse(value: &[u8]) -> Option<Pattern> {
        if !matches!(value.first(), Some(b'/' | b'*')) {
            return None;
        }
        let (body, anchored) = match value.strip_suffix(b"$") {
            Some(body) => (body, true),
            None => (value, false),
        };
        let text = normal(body, true).into_boxed_slice();
        let literals: Vec<u8> = text.iter().copied().filter(|b| *b != b'*').collect();
        let pairs = text.split(|b| *b == b'*').flat_map(pairs_of).take(PAIRS_MAX).collect();
        Some(Pattern { needs: Bytes::of(&literals), pairs, text, anchored })
    }

    /// The octets that count for "the most specific rule wins".
    pub(super) fn len(&self) -> usize {
        self.text.len() + usize::from(self.anchored)
    }

    /// Does a path in normal form match? `facts` are the path's.
    pub(super) fn matches(&self, path: &[u8], facts: &Facts) -> bool {
        if !facts.bytes.contains(&self.needs) || !self.pairs.iter().all(|pair| facts.has_pair(*pair)) {
            return false;
        }
        let mut pieces = self.text.split(|b| *b == b'*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else {
            // No wildcard.
            return !self.anchored || rest.is_empty();
        };
        // Each piece is taken where it first fits: a later place could only leave less for those that follow.
        for piece in pieces {
            match memchr::memmem::find(rest, piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        if self.anchored { rest.ends_with(last) } else { memchr::memmem::find(rest, last).is_some() }
    }
}

/// A path and query in normal form.
pub(super) fn normal_path(path: &str) -> Vec<u8> {
    if path.is_empty() { b"/".to_vec() } else { normal(path.as_bytes(), false) }
}

fn normal(text: &[u8], wildcards: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let escaped = percent::triplet(text, at);
        let byte = escaped.unwrap_or(text[at]);
        at += if escaped.is_some() { 3 } else { 1 };
        let unreserved = percent::is_unreserved(byte);
        let reserved = b":/?#[]@!&'()+,;=".contains(&byte);
        if unreserved || reserved && escaped.is_none() || wildcards && byte == b'*' && escaped.is_none() {
            out.push(byte);
        } else {
            out.extend(percent::encoded(byte));
        }
    }
    out
}
