//! The URLs of an index in the order of their keys, each with its newest capture.
//!
//! Invariant: URLs with the same key come together, so that a key says how far a search is.

use std::collections::BTreeMap;
use std::iter::Peekable;

use nephila_core::store::cdxj::Line;
use nephila_store::captures::{Error, Lines};

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
        while let Some(line) = self.0.next_if(|line| line.as_ref().map_or(true, |line| line.key == key)) {
            put(&mut urls, line?);
        }
        Ok(Some(Site { key, pages: urls.into_values().map(newest).collect() }))
    }
}

/// Adds a capture, which is the newest so far.
fn put(urls: &mut BTreeMap<String, Seen>, line: Line) {
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
