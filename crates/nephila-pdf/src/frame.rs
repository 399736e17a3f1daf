//! What parent and child say to each other.
//!
//! The parent sends the limits as six numbers, then the PDF until the end of the stream. The child answers with records:
//! one byte for the kind, four for the length, then the bytes. A record is sent as soon as its page is read, so that the
//! pages before a crash are not lost. An answer without an end record is one of a child that did not finish.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::{Cut, Limits, TITLE_BYTES_MAX};

/// What a Rust program writes to standard error before it aborts for lack of memory.
pub(crate) const OUT_OF_MEMORY: &str = "memory allocation of";
/// Size in bytes of the limits.
const LIMITS_BYTES: usize = 6 * 8;
/// Size in bytes of the kind and the length of a record.
const HEAD_BYTES: usize = 5;

/// How a child that finishes ends its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Whole,
    Cut(Cut),
    NotPdf,
    Encrypted,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Title(String),
    /// Number of pages of the document.
    Pages(u32),
    /// The text of the next page.
    Page(String),
    End(End),
}

/// Writes the limits.
pub(crate) fn limits_to_bytes(limits: &Limits) -> Vec<u8> {
    let numbers = [
        limits.bytes_max as u64,
        limits.memory_max,
        u64::try_from(limits.cpu_max.as_millis()).unwrap_or(u64::MAX),
        u64::try_from(limits.wall_max.as_millis()).unwrap_or(u64::MAX),
        limits.text_max as u64,
        limits.pages_max as u64,
    ];
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Reads the limits.
pub(crate) fn limits_from(input: &mut impl Read) -> io::Result<Limits> {
    let mut bytes = [0; LIMITS_BYTES];
    input.read_exact(&mut bytes)?;
    let mut numbers = bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
    let mut next = || numbers.next().unwrap_or_default();
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Limits {
        bytes_max: size(next()),
        memory_max: next(),
        cpu_max: Duration::from_millis(next()),
        wall_max: Duration::from_millis(next()),
        text_max: size(next()),
        pages_max: size(next()),
    })
}

/// Maximum size in bytes of an answer within these limits.
pub(crate) fn answer_bytes_max(limits: &Limits) -> usize {
    // Title, number of pages and end have a head each, and every page has one.
    let heads = limits.pages_max.saturating_add(3).saturating_mul(HEAD_BYTES);
    heads.saturating_add(TITLE_BYTES_MAX + 8).saturating_add(limits.text_max)
}

/// Writes a record.
pub(crate) fn write(output: &mut impl Write, record: &Record) -> io::Result<()> {
    let number;
    let (kind, bytes): (u8, &[u8]) = match record {
        Record::Title(title) => (b'T', title.as_bytes()),
        Record::Pages(pages) => {
            number = pages.to_le_bytes();
            (b'N', &number)
        }
        Record::Page(text) => (b'P', text.as_bytes()),
        Record::End(End::Whole) => (b'E', b"w"),
        Record::End(End::Cut(Cut::Text)) => (b'E', b"t"),
        Record::End(End::Cut(Cut::Pages)) => (b'E', b"p"),
        // Of these only the parent knows; a child does not send them.
        Record::End(End::Cut(Cut::Time | Cut::Memory | Cut::Crash)) => (b'E', b"c"),
        Record::End(End::NotPdf) => (b'E', b"n"),
        Record::End(End::Encrypted) => (b'E', b"e"),
    };
    let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    output.write_all(&[kind])?;
    output.write_all(&size.to_le_bytes())?;
    output.write_all(bytes)?;
    output.flush()
}

/// Takes the first record of an answer. None if it is not whole or not one of ours.
pub(crate) fn take(answer: &mut &[u8]) -> Option<Record> {
    let (head, rest) = answer.split_first_chunk::<HEAD_BYTES>()?;
    let [kind, size @ ..] = *head;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(size)).ok()?)?;
    let text = || String::from_utf8(bytes.to_vec()).ok();
    let record = match (kind, bytes) {
        (b'T', _) => Record::Title(text()?),
        (b'N', _) => Record::Pages(u32::from_le_bytes(bytes.try_into().ok()?)),
        (b'P', _) => Record::Page(text()?),
        (b'E', b"w") => Record::End(End::Whole),
        (b'E', b"t") => Record::End(End::Cut(Cut::Text)),
        (b'E', b"p") => Record::End(End::Cut(Cut::Pages)),
        (b'E', b"n") => Record::End(End::NotPdf),
        (b'E', b"e") => Record::End(End::Encrypted),
        _ => return None,
    };
    *answer = rest;
    Some(record)
}
