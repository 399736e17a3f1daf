//! Bombs: answers that are small on the wire and cost a naive reader minutes.
//!
//! Each has a name and any size; `bombs/coded.rs` has the bombs that attack the decoding of content codings,
//! `bombs/plain.rs` the bombs that attack the parsers after decoding. [`Site`] serves them on loopback, each on an
//! address of its own, among good pages.
//!
//! Invariant: the same name and size give the same bytes.

mod coded;
mod plain;
mod site;

use std::io::Write;

pub use site::Site;

/// One bomb.
#[derive(Clone, Copy, Debug)]
pub struct Bomb {
    /// Name of the bomb.
    pub name: &'static str,
    /// Its `Content-Type`.
    pub media: &'static str,
    /// Its `Content-Encoding`, as sent; empty for a bomb without a coding.
    pub coding: &'static str,
    make: fn(usize) -> Vec<u8>,
}

impl Bomb {
    /// All bombs.
    pub fn all() -> impl Iterator<Item = Bomb> {
        coded::BOMBS.iter().chain(plain::BOMBS).copied()
    }

    /// Bombs that attack the parser of the decoded body.
    pub fn plain() -> impl Iterator<Item = Bomb> {
        plain::BOMBS.iter().copied()
    }

    /// Bombs that attack the decoder of the content coding.
    pub fn coded() -> impl Iterator<Item = Bomb> {
        coded::BOMBS.iter().copied()
    }

    /// The bomb of this name.
    pub fn named(name: &str) -> Option<Bomb> {
        Bomb::all().find(|bomb| bomb.name == name)
    }

    /// The body before content coding, about this many bytes. For a bomb of [`Bomb::coded`]: the encoded bytes.
    pub fn body(&self, bytes: usize) -> Vec<u8> {
        (self.make)(bytes)
    }

    /// The bytes on the wire, with their `Content-Encoding`: a plain bomb goes as gzip, so ten megabytes fit ten
    /// kilobytes.
    pub fn wire(&self, bytes: usize) -> (Vec<u8>, &'static str) {
        match self.coding {
            "" => (gzip(&self.body(bytes)), "gzip"),
            coding => (self.body(bytes), coding),
        }
    }
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

fn brotli(data: &[u8]) -> Vec<u8> {
    let mut writer = ::brotli::CompressorWriter::new(Vec::new(), 64 * 1024, 1, 22);
    writer.write_all(data).expect("memory takes everything");
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bomb_has_a_name_of_its_own_and_about_the_size_it_is_asked_for() {
        let mut names: Vec<&str> = Bomb::all().map(|bomb| bomb.name).collect();
        assert!(names.len() >= 14, "{}", names.len());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Bomb::all().count());
        for bomb in Bomb::plain() {
            for bytes in [100_000, 200_000] {
                let made = bomb.body(bytes).len();
                assert!((bytes * 9 / 10..bytes * 11 / 10 + 20_000).contains(&made), "{}: {made}", bomb.name);
            }
        }
    }
}
