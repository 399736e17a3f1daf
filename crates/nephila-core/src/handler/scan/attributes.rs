//! The attributes of one tag.
//!
//! Only the attributes in [`Attribute`] are kept, and of two with one name the first (HTML standard, 13.2.5.33), so a tag
//! may have any number of them. Values are kept as places in the page and decoded when they are asked for.

use std::borrow::Cow;

use encoding_rs::Encoding;

use super::find;
use super::names::{Attribute, Packed};

/// The attributes of the start tag that was read last.
#[derive(Debug)]
pub(in crate::handler) struct Attributes<'a> {
    bytes: &'a [u8],
    encoding: &'static Encoding,
    /// One bit for each attribute that the tag has.
    present: u64,
    /// The places of their values; those of other attributes mean nothing.
    values: [(usize, usize); Attribute::ALL.len()],
}

const _: () = assert!(Attribute::ALL.len() <= 64, "a bit for each");

impl<'a> Attributes<'a> {
    pub(super) fn new(bytes: &'a [u8], encoding: &'static Encoding) -> Attributes<'a> {
        Attributes { bytes, encoding, present: 0, values: [(0, 0); Attribute::ALL.len()] }
    }

    /// Whether the tag has the attribute.
    pub(in crate::handler) fn has(&self, attribute: Attribute) -> bool {
        self.present & 1 << attribute as u64 != 0
    }

    /// The value as written.
    pub(in crate::handler) fn raw(&self, attribute: Attribute) -> Option<&'a [u8]> {
        let (from, to) = self.values[attribute as usize];
        self.has(attribute).then(|| &self.bytes[from..to])
    }

    /// The value as the HTML standard reads one: character references decoded, NUL replaced.
    pub(in crate::handler) fn get(&self, attribute: Attribute) -> Option<Cow<'a, str>> {
        let raw = self.raw(attribute)?;
        let (mut value, _) = self.encoding.decode_without_bom_handling(raw);
        if memchr::memchr(0, raw).is_some() {
            value = value.replace('\0', "\u{fffd}").into();
        }
        if memchr::memchr(b'&', value.as_bytes()).is_some() {
            value = htmlize::unescape_attribute(value);
        }
        Some(value)
    }

    /// Passes the rest of a tag behind its name. Returns the byte behind the tag and whether it closes itself; none if
    /// the tag does not end.
    pub(super) fn pass(&mut self, at: usize) -> Option<(usize, bool)> {
        self.present = 0;
        rest_of_tag(self.bytes, at, |_, _| {})
    }

    /// Like [`Attributes::pass`], and keeps the attributes.
    pub(super) fn read(&mut self, at: usize) -> Option<(usize, bool)> {
        let (bytes, mut present) = (self.bytes, 0);
        let values = &mut self.values;
        let end = rest_of_tag(bytes, at, |name, value| {
            let Some(attribute) = Attribute::of(Packed::of(&bytes[name.0..name.1])) else { return };
            let bit = 1 << attribute as u64;
            if present & bit == 0 {
                present |= bit;
                values[attribute as usize] = value;
            }
        });
        self.present = present;
        end
    }
}

/// The states of a tag behind its name (13.2.5.32 to 13.2.5.40). `give` gets the places of the name and the value of each
/// attribute.
#[inline(always)]
fn rest_of_tag(
    bytes: &[u8],
    mut at: usize,
    mut give: impl FnMut((usize, usize), (usize, usize)),
) -> Option<(usize, bool)> {
    loop {
        at = skip(bytes, at, |byte| is(byte, SPACE));
        match *bytes.get(at)? {
            b'>' => return Some((at + 1, false)),
            b'/' if bytes.get(at + 1) == Some(&b'>') => return Some((at + 2, true)),
            b'/' => {
                at += 1;
                continue;
            }
            _ => {}
        }
        // A `=` as the first character belongs to the name.
        let name_from = at;
        at = skip(bytes, at + 1, |byte| !is(byte, ENDS_NAME));
        let name = (name_from, at);
        at = skip(bytes, at, |byte| is(byte, SPACE));
        if *bytes.get(at)? != b'=' {
            give(name, (at, at));
            continue;
        }
        at = skip(bytes, at + 1, |byte| is(byte, SPACE));
        match *bytes.get(at)? {
            quote @ (b'"' | b'\'') => {
                let end = find(bytes, at + 1, quote);
                if end == bytes.len() {
                    return None;
                }
                give(name, (at + 1, end));
                at = end + 1;
            }
            b'>' => give(name, (at, at)),
            _ => {
                let end = skip(bytes, at, |byte| !is(byte, ENDS_VALUE));
                give(name, (at, end));
                at = end;
            }
        }
    }
}

/// The end of the name of a tag that begins here; none if the page ends before.
pub(super) fn end_of_name(bytes: &[u8], at: usize) -> Option<usize> {
    let end = skip(bytes, at, |byte| !is(byte, ENDS_TAG_NAME));
    (end < bytes.len()).then_some(end)
}

/// The first byte from here on that is not skipped.
#[inline(always)]
fn skip(bytes: &[u8], mut at: usize, skipped: impl Fn(u8) -> bool) -> usize {
    while bytes.get(at).is_some_and(|byte| skipped(*byte)) {
        at += 1;
    }
    at
}

const SPACE: u8 = 1;
const ENDS_NAME: u8 = 2;
const ENDS_VALUE: u8 = 4;
const ENDS_TAG_NAME: u8 = 8;

/// The meaning of each byte within a tag.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let spaces = b"\t\n\x0c\r ";
    let mut at = 0;
    while at < spaces.len() {
        classes[spaces[at] as usize] = SPACE | ENDS_NAME | ENDS_VALUE | ENDS_TAG_NAME;
        at += 1;
    }
    classes[b'/' as usize] = ENDS_NAME | ENDS_TAG_NAME;
    classes[b'=' as usize] = ENDS_NAME;
    classes[b'>' as usize] = ENDS_NAME | ENDS_VALUE | ENDS_TAG_NAME;
    classes
};

#[inline(always)]
fn is(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}
