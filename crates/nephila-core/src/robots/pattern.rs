//! Patterns of rules: `*` stands for anything, a final `$` for the end, everything else for itself.
//!
//! Patterns and paths are compared in one normal form (RFC 9309, 2.2.2): unreserved characters decoded, characters that
//! may not stand in a URI encoded, hex in upper case, reserved characters as written. A literal `*` or `$` is always
//! encoded in this form, so a remaining `*` is a wildcard.
//!
//! The RFC's table requires more: `?u=https://h` and `?u=https%3A%2F%2Fh` are the same. Behind the question mark the
//! delimiters of a URI delimit nothing, so there is a second form with them decoded there. A rule matches if either
//! form matches; so a rule that forbids `%2F` as written still does.
//!
//! Invariant: matching never backtracks. In each form, every byte of path and pattern is read at most once.

use crate::planted::{self, Bug};
use crate::url::percent;

/// Number of pairs of a pattern that are looked up before the match.
const PAIRS_MAX: usize = 8;

/// Up to this number of rules, pairs are not looked up: to note those of a path costs more than to compare a few rules.
const RULES_FEW: usize = 32;

/// The delimiters between the parts of a URI, which delimit nothing behind the question mark (RFC 3986, 3.4). `#` is
/// not among them: a bare `#` never stands there.
const DELIMITERS: &[u8] = b":/?@[]";

/// A path and query, prepared for the comparison with many rules.
pub(super) struct NormalPath {
    text: Vec<u8>,
    /// With the delimiters in the query decoded, if that differs.
    plain_query: Option<Vec<u8>>,
    facts: Facts,
}

impl NormalPath {
    /// For the comparison with this number of rules.
    pub(super) fn of(path: &str, rules: usize) -> Self {
        let path = if path.is_empty() { "/" } else { path };
        let text = match planted::is(Bug::RobotsRawPath) {
            true => path.as_bytes().to_vec(),
            false => normal(path.as_bytes(), false),
        };
        let plain_query = with_plain_query(&text);
        let mut facts = Facts::of(&text, rules > RULES_FEW);
        if let Some(text) = &plain_query {
            facts.add(text);
        }
        NormalPath { text, plain_query, facts }
    }
}

/// The bytes and pairs of neighbours that occur in a path, in either form. A rule that needs another is skipped without
/// a match, which keeps ten thousand rules with wildcards cheap.
struct Facts {
    bytes: Bytes,
    /// One bit for each pair; empty if pairs are not looked up.
    pairs: Vec<u64>,
}

impl Facts {
    fn of(path: &[u8], has_pairs: bool) -> Self {
        let pairs = if has_pairs { vec![0; 1 << 10] } else { Vec::new() };
        let mut facts = Facts { bytes: Bytes::default(), pairs };
        facts.add(path);
        facts
    }

    fn add(&mut self, path: &[u8]) {
        self.bytes.add(path);
        if self.pairs.is_empty() {
            return;
        }
        for pair in pairs_of(path) {
            self.pairs[usize::from(pair >> 6)] |= 1 << (pair & 63);
        }
    }

    /// Whether a pair may occur.
    fn has_pair(&self, pair: u16) -> bool {
        self.pairs.is_empty() || self.pairs[usize::from(pair >> 6)] >> (pair & 63) & 1 == 1
    }
}

fn pairs_of(text: &[u8]) -> impl Iterator<Item = u16> {
    text.windows(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// The set of byte values in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Bytes([u64; 4]);

impl Bytes {
    fn add(&mut self, text: &[u8]) {
        for byte in text {
            self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    /// The bytes that every match of a pattern contains.
    fn of_literals(pattern: &[u8]) -> Self {
        let mut bytes = Bytes::default();
        pattern.split(|b| *b == b'*').for_each(|piece| bytes.add(piece));
        bytes
    }

    fn and(self, other: Bytes) -> Self {
        Bytes(std::array::from_fn(|n| self.0[n] & other.0[n]))
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
    /// With the delimiters behind its question mark decoded, if that differs.
    plain_query: Option<Box<[u8]>>,
    /// Bytes and some of the pairs that every matching path has, in either form.
    needs: Bytes,
    pairs: Box<[u16]>,
}

impl Pattern {
    /// Whether every path matches, without looking at the path.
    pub(super) fn is_everything(&self) -> bool {
        !self.anchored && matches!(&*self.text, b"/" | b"*" | b"/*")
    }

    /// Parses a rule. None for a rule that matches nothing: an empty one, or one that begins with neither `/` nor `*`.
    pub(super) fn parse(value: &[u8]) -> Option<Pattern> {
        if !matches!(value.first(), Some(b'/' | b'*')) {
            return None;
        }
        let (body, anchored) = match value.strip_suffix(b"$") {
            Some(body) => (body, true),
            None => (value, false),
        };
        let text = normal(body, true).into_boxed_slice();
        let plain_query = with_plain_query(&text).map(Vec::into_boxed_slice);
        let mut needs = Bytes::of_literals(&text);
        let mut pairs: Vec<u16> = pairs_of_literals(&text).take(PAIRS_MAX).collect();
        if let Some(other) = &plain_query {
            needs = needs.and(Bytes::of_literals(other));
            pairs.retain(|pair| pairs_of_literals(other).any(|p| p == *pair));
        }
        Some(Pattern { needs, pairs: pairs.into(), text, anchored, plain_query })
    }

    /// The number of octets, for "the most specific rule wins".
    pub(super) fn len(&self) -> usize {
        self.text.len() + usize::from(self.anchored)
    }

    /// Size in memory beside the pattern itself, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let plain_query = self.plain_query.as_ref().map_or(0, |text| text.len());
        self.text.len() + plain_query + size_of_val(&*self.pairs)
    }

    /// Whether a path matches. `work` is called with the number of bytes that each step reads, so that a test can add
    /// them up.
    pub(super) fn matches(&self, path: &NormalPath, mut work: impl FnMut(usize)) -> bool {
        work(1);
        if !path.facts.bytes.contains(&self.needs)
            || !self.pairs.iter().all(|pair| path.facts.has_pair(*pair))
        {
            return false;
        }
        if self.fits(&self.text, &path.text, &mut work) {
            return true;
        }
        if self.plain_query.is_none() && path.plain_query.is_none() {
            return false;
        }
        let text = self.plain_query.as_deref().unwrap_or(&self.text);
        self.fits(text, path.plain_query.as_deref().unwrap_or(&path.text), &mut work)
    }

    fn fits(&self, text: &[u8], path: &[u8], work: &mut impl FnMut(usize)) -> bool {
        let mut pieces = text.split(|b| *b == b'*');
        let first = pieces.next().unwrap_or_default();
        work(first.len());
        let Some(mut rest) = path.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else {
            // No wildcard.
            return !self.anchored || rest.is_empty();
        };
        // Each piece is matched at its first position: a later position could only leave less for the following pieces.
        // The search itself is linear in the bytes that are read and in the piece.
        let mut find = |rest: &[u8], piece: &[u8]| {
            let found = memchr::memmem::find(rest, piece);
            work(1 + piece.len() + found.unwrap_or(rest.len()));
            found
        };
        for piece in pieces {
            match find(rest, piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        if self.anchored { rest.ends_with(last) } else { find(rest, last).is_some() }
    }
}

fn pairs_of_literals(pattern: &[u8]) -> impl Iterator<Item = u16> {
    pattern.split(|b| *b == b'*').flat_map(pairs_of)
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

/// The text with the [`DELIMITERS`] behind its first question mark decoded; None if there are none to decode.
fn with_plain_query(normal: &[u8]) -> Option<Vec<u8>> {
    let query = memchr::memchr(b'?', normal)? + 1;
    let delimiter = |at| percent::triplet(normal, at).filter(|byte| DELIMITERS.contains(byte));
    let first = memchr::memchr_iter(b'%', &normal[query..])
        .map(|at| query + at)
        .find(|at| delimiter(*at).is_some())?;
    let mut out = normal[..first].to_vec();
    let mut at = first;
    while at < normal.len() {
        let decoded = delimiter(at);
        out.push(decoded.unwrap_or(normal[at]));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    Some(out)
}
