//! SHA-1 in base 32, the digest that WARC and CDX readers compare.

use std::fmt;

use sha1::{Digest as _, Sha1};

/// A SHA-1 digest. Written as `sha1:` and 32 letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 20]);

impl Digest {
    /// The digest of the concatenated pieces.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Hasher::default();
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finish()
    }

    /// The text of the digest: `sha1:` and 32 letters.
    pub fn letters(&self) -> [u8; 37] {
        let mut out = [0; 37];
        out[..5].copy_from_slice(b"sha1:");
        data_encoding::BASE32.encode_mut(&self.0, &mut out[5..]);
        out
    }

    /// The first 64 bits, by which the frontier recognizes equal pages.
    pub fn short(&self) -> u64 {
        u64::from_be_bytes(self.0[..8].try_into().expect("eight of twenty bytes"))
    }

    /// Parses `sha1:` and base 32, or 40 hexadecimal digits, in either case. `None` for other algorithms.
    pub fn parse(text: &str) -> Option<Self> {
        let (algorithm, value) = text.split_once(':')?;
        if !algorithm.eq_ignore_ascii_case("sha1") {
            return None;
        }
        let bytes = match value.len() {
            32 => data_encoding::BASE32.decode(value.to_ascii_uppercase().as_bytes()).ok()?,
            40 => data_encoding::HEXLOWER_PERMISSIVE.decode(value.as_bytes()).ok()?,
            _ => return None,
        };
        Some(Digest(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.letters()).expect("base 32 is ASCII"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a [`Digest`] from bytes that come in pieces.
#[derive(Clone, Default)]
pub struct Hasher(Sha1);

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes added.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_and_read_the_same() {
        let digest = Digest::of(&[b"", b"abc"]);
        assert_eq!(digest.to_string(), "sha1:VGMT4NSHA2AWVOR6EVYXQUGCNSONBWE5");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(Digest::parse("SHA1:a9993e364706816aba3e25717850c26c9cd0d89d"), Some(digest));
        assert_eq!(Digest::parse("sha256:00"), None);
        assert_eq!(Digest::parse("sha1:!"), None);
    }
}
