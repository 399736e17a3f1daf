//! The shape of a URL: the URL without everything that numbers its pages.
//!
//! Numbers become one symbol, long ids (hex, UUIDs, random letters and digits) another; of a query the names remain, in
//! order. `/a/1?x=2` and `/a/77?x=9` have one shape. The host is not part of the shape, because shapes are stored with
//! their host.
//!
//! Invariant: shapes are stored, so the same URL has the same shape in every version. The golden test checks this.

use xxhash_rust::xxh3::xxh3_64;

use crate::url::CrawlUrl;
use crate::url::percent;

use super::{param_name, params, segments};

/// The shape of a URL, as a stable 64-bit hash.
pub fn shape(url: &CrawlUrl) -> u64 {
    xxh3_64(&text(url))
}

/// The shape of everything in one top folder of a host, whatever its depth and query: `/wiki/A`, `/wiki/b/c?d` and so
/// on have one. Catch-all routes answer every path with the same page, and each such path has another shape.
pub fn folder(url: &CrawlUrl) -> u64 {
    let mut out = vec![FOLDER];
    let mut segments = segments(url.path());
    if let (Some(first), Some(_)) = (segments.next(), segments.next()) {
        push_classes(&mut out, first.as_bytes());
    }
    xxh3_64(&out)
}

fn text(url: &CrawlUrl) -> Vec<u8> {
    let mut out = Vec::with_capacity(url.path_and_query().len());
    push_classes(&mut out, url.path().as_bytes());
    let mut names: Vec<Vec<u8>> = params(url.query().unwrap_or_default())
        .map(|param| {
            let mut name = Vec::new();
            push_classes(&mut name, param_name(param).as_bytes());
            name
        })
        .collect();
    names.sort_unstable();
    // `tag=a&tag=b` is a longer list of the same.
    names.dedup();
    for name in names {
        out.push(PARAM);
        out.extend(name);
    }
    out
}

/// Appends a text with its numbers and ids replaced by bytes that no URL has.
fn push_classes(out: &mut Vec<u8>, text: &[u8]) {
    let mut at = 0;
    while at < text.len() {
        if percent::triplet(text, at).is_some() {
            out.extend(text[at..at + 3].iter().map(u8::to_ascii_uppercase));
            at += 3;
        } else if let Some(id) = uuid(&text[at..]) {
            out.push(ID);
            at += id;
        } else if text[at].is_ascii_alphanumeric() {
            let len = text[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            push_word(out, &text[at..at + len]);
            at += len;
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
}

fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    let digits = word.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = word.len() - digits;
    let is_hex = word.len() >= HEX_BYTES_MIN && word.iter().all(u8::is_ascii_hexdigit);
    // Long words with at least two digits among their letters are random ids.
    let is_random = word.len() >= RANDOM_BYTES_MIN && digits >= 2;
    if letters > 0 && digits > 0 && (is_hex || is_random) {
        out.push(ID);
        return;
    }
    for (i, byte) in word.iter().enumerate() {
        if !byte.is_ascii_digit() {
            out.push(*byte);
        } else if i == 0 || !word[i - 1].is_ascii_digit() {
            out.push(NUMBER);
        }
    }
}

/// The length of the UUID at the start of a text.
fn uuid(text: &[u8]) -> Option<usize> {
    let id = text.get(..36)?;
    let ends = text.get(36).is_none_or(|b| !b.is_ascii_alphanumeric());
    let fits = id.iter().enumerate().all(|(i, b)| match i {
        8 | 13 | 18 | 23 => *b == b'-',
        _ => b.is_ascii_hexdigit(),
    });
    (fits && ends).then_some(36)
}

// Bytes that stand in no URL.
const NUMBER: u8 = 0;
const ID: u8 = 1;
const PARAM: u8 = 2;
const FOLDER: u8 = 3;

/// Minimum length of a hex id; shorter words of hex digits may be words.
const HEX_BYTES_MIN: usize = 8;

/// Minimum length of a random id; shorter words with digits in them may be names.
const RANDOM_BYTES_MIN: usize = 16;
