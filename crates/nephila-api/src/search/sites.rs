//! The URLs of an index in the order of their keys, each with its newest capture.
//!
//! Invariants: URLs with the same key come together, so that a key says how far a search is; of a key at most
//! [`URLS_OF_KEY_MAX`] URLs are kept in memory, and captures of others are counted.

use std::collections::BTreeMap;
use std::iter::Peekable;

use nephila_core::store::cdxj::Line;
use nephila_store::captures::{Error, Lines};

/// Maximum number of URLs of a key that are read, those that were captured first. A key has the spellings that a site
/// makes up: other letters in upper case, other session ids, parameters in another order.
pub(super) const URLS_OF_KEY_MAX: usize = 1_000;
/// Maximum number of bodies of one URL that a revisit may refer to; older ones are forgotten.
const BODIES_MAX: usize = 8;
/// Media type of a revisit in an index.
const REVISIT: &str = "warc/revisit";

/// The newest capture of a URL.
#[derive(Clone, Debug)]
pub(super) struct Newest {
    /// The capture.
    pub(super) line: Line,
    /// The capture that holds its body: another, if the page had not changed. None if that is of another URL.
    pub(super) with_body: Option<Line>,
}

/// The URLs with the same key.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) key: String,
    pub(super) pages: Vec<Newest>,
    /// Number of captures of further URLs.
    pub(super) left_out: u64,
}

/// See the module.
pub(super) struct Sites(Peekable<Lines>);

/// What is known of a URL so far.
struct Seen {
    last: Line,
    bodies: Vec<Line>,
}

impl Sites {
    pub(super) fn new(lines: Lines) -> Sites {
        Sites(lines.peekable())
    }

    /// The URLs of the next key; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Site>, Error> {
        let Some(first) = self.0.next().transpose()? else { return Ok(None) };
        let key = first.key.clone();
        let mut urls: BTreeMap<String, Seen> = BTreeMap::new();
        put(&mut urls, first);
        let mut left_out = 0;
        while let Some(line) = self.0.next_if(|line| line.as_ref().map_or(true, |line| line.key == key)) {
            left_out += u64::from(!put(&mut urls, line?));
        }
        Ok(Some(Site { key, pages: urls.into_values().map(newest).collect(), left_out }))
    }
}

/// Adds a capture, which is the newest so far. Returns whether its URL is one of those that are read.
fn put(urls: &mut BTreeMap<String, Seen>, line: Line) -> bool {
    if urls.len() >= URLS_OF_KEY_MAX && !urls.contains_key(&line.capture.url) {
        return false;
    }
    let seen = urls
        .entry(line.capture.url.clone())
        .or_insert_with(|| Seen { last: line.clone(), bodies: Vec::new() });
    seen.last = line.clone();
    if line.capture.mime.as_deref() != Some(REVISIT) {
        seen.bodies.retain(|body| body.capture.digest != line.capture.digest);
        if seen.bodies.len() >= BODIES_MAX {
            seen.bodies.remove(0);
        }
        seen.bodies.push(line);
    }
    true
}

fn newest(seen: Seen) -> Newest {
    let Seen { last: line, mut bodies } = seen;
    let with_body = match line.capture.mime.as_deref() {
        Some(REVISIT) => {
            let same = bodies.iter().rposition(|body| body.capture.digest == line.capture.digest);
            same.map(|at| bodies.swap_remove(at))
        }
        _ => bodies.pop(),
    };
    Newest { line, with_body }
}
