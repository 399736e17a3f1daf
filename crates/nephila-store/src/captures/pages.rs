//! Pages of a long list of captures: parts of about equal size.
//!
//! The size of a list is the number of bytes of its index lines in all files. A page begins at a line, its cut: the
//! greatest line found before which at most the bytes of the earlier pages lie. Cuts are found by bisection of all
//! indexes side by side, without reading the lines between.
//!
//! Invariants: as long as the indexes do not change, every line lies in exactly one page; no page has more bytes than
//! asked for and [`SLACK_BYTES`] for each index, apart from captures in open files.

use std::io;
use std::path::{Path, PathBuf};

use super::search::{first_not_before, line_after};
use super::{Captures, Error, Lines, Query};

/// Bisection stops when the largest range has this number of bytes.
const SLACK_BYTES: u64 = 16 * 1024;

/// The part of an index whose lines match a query.
#[derive(Clone, Debug)]
struct Range {
    path: PathBuf,
    from: u64,
    to: u64,
}

/// A list of captures in pages.
#[derive(Clone, Debug)]
pub struct Pages {
    query: Query,
    ranges: Vec<Range>,
    bytes: u64,
    page_bytes: u64,
}

impl Pages {
    /// Number of bytes of all lines. A line that two indexes have counts twice.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of pages, at least one.
    pub fn count(&self) -> u64 {
        self.bytes.div_ceil(self.page_bytes).max(1)
    }

    /// The first line of the page with this number; none for the first page, which begins before all lines.
    fn cut(&self, number: u64) -> Result<Option<Vec<u8>>, (PathBuf, io::Error)> {
        let wanted = number.saturating_mul(self.page_bytes);
        let mut open = if number > 0 { self.ranges.clone() } else { Vec::new() };
        let mut best = None;
        while let Some(widest) = open.iter().max_by_key(|range| range.to - range.from) {
            if widest.to - widest.from <= SLACK_BYTES {
                break;
            }
            let middle = widest.from + (widest.to - widest.from) / 2;
            let named = |range: &Range| {
                let path = range.path.clone();
                move |error| (path, error)
            };
            let pivot = line_after(&widest.path, middle, widest.to).map_err(named(widest))?;
            // One line fills the second half.
            let Some(pivot) = pivot else { break };
            let mut places = Vec::with_capacity(open.len());
            let mut before = 0;
            for (range, whole) in open.iter().zip(&self.ranges) {
                let place = first_not_before(&range.path, &pivot, (range.from, range.to));
                let place = place.map_err(named(range))?;
                before += place - whole.from;
                places.push(place);
            }
            let is_enough = before <= wanted;
            // The same line over and over: no index of ours has such.
            let is_stuck = open.iter().zip(&places).all(|(range, place)| range.from == *place);
            if is_enough && is_stuck {
                break;
            }
            for (range, place) in open.iter_mut().zip(places) {
                *(if is_enough { &mut range.from } else { &mut range.to }) = place;
            }
            if is_enough {
                best = Some(pivot);
            }
        }
        Ok(best)
    }
}

impl Captures {
    /// The lines that match a query, in pages of about this number of bytes.
    pub fn pages(&self, query: &Query, page_bytes: u64) -> Result<Pages, Error> {
        let mut ranges = Vec::new();
        for path in self.indexes()? {
            for prefix in query.prefixes() {
                let range = range(&path, prefix.as_bytes());
                ranges.extend(range.map_err(|source| Error::Io { path: path.clone(), source })?);
            }
        }
        let bytes = ranges.iter().map(|range| range.to - range.from).sum();
        Ok(Pages { query: query.clone(), ranges, bytes, page_bytes: page_bytes.max(1) })
    }

    /// The lines of a page, in order. A page after the last one is empty.
    pub fn page(&self, pages: &Pages, number: u64) -> Result<Lines, Error> {
        let failed = |(path, source)| Error::Io { path, source };
        let is_last = number.saturating_add(1) >= pages.count();
        let from = pages.cut(number).map_err(failed)?;
        let to = if is_last { None } else { pages.cut(number + 1).map_err(failed)?.or(Some(Vec::new())) };
        let prefixes = if number < pages.count() { pages.query.prefixes() } else { Vec::new() };
        self.find_in(&pages.query, prefixes, from.as_deref().unwrap_or_default(), to.as_deref())
    }
}

/// The range of the lines with a prefix; none without such lines.
fn range(path: &Path, prefix: &[u8]) -> io::Result<Option<Range>> {
    let length = match path.metadata() {
        // Replaced or moved since the listing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?.len(),
    };
    let from = first_not_before(path, prefix, (0, length))?;
    let to = match after(prefix) {
        Some(after) => first_not_before(path, &after, (from, length))?,
        None => length,
    };
    Ok((from < to).then(|| Range { path: path.to_owned(), from, to }))
}

/// The first bytes that sort after everything with a prefix; none if nothing does.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut after = prefix[..=kept].to_vec();
    after[kept] += 1;
    Some(after)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;

    use super::*;
    use crate::captures::Match;

    fn line(number: usize, file: usize) -> String {
        format!(
            "test,site)/{number:06} 20261114225809 {{\"url\": \"http://site.test/{number:06}\", \"length\": \"1\", \
             \"offset\": \"{number}\", \"filename\": \"f{file}.warc.gz\"}}"
        )
    }

    /// Writes indexes: of file `n` the lines whose number is in the list.
    fn folder(files: &[Vec<usize>]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("archive")).unwrap();
        for (file, numbers) in files.iter().enumerate() {
            let mut text = String::from("test,other)/ 20261114225809 {}\n");
            for number in numbers {
                writeln!(text, "{}", line(*number, file)).unwrap();
            }
            text.push_str("test,sitf)/ 20261114225809 {}\n");
            fs::write(dir.path().join(format!("archive/f{file}.cdxj")), text).unwrap();
        }
        dir
    }

    fn check(files: &[Vec<usize>], page_bytes: u64) {
        let dir = folder(files);
        let captures = Captures::new(dir.path());
        let query = Query { url: "http://site.test/".into(), matches: Match::Host, ..Query::default() };
        let pages = captures.pages(&query, page_bytes).unwrap();
        let mut found = Vec::new();
        for number in 0..pages.count() {
            let lines: Vec<String> = captures
                .page(&pages, number)
                .unwrap()
                .map(|line| super::super::text(&line.unwrap()))
                .collect();
            let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
            assert!(bytes as u64 <= page_bytes + SLACK_BYTES * files.len() as u64, "{number}: {bytes} bytes");
            found.extend(lines);
        }
        assert_eq!(captures.page(&pages, pages.count()).unwrap().count(), 0, "after the last page");
        let mut wanted: Vec<String> = Vec::new();
        for (file, numbers) in files.iter().enumerate() {
            wanted.extend(numbers.iter().map(|number| line(*number, file)));
        }
        wanted.sort();
        assert_eq!(found.len(), wanted.len());
        assert!(found == wanted, "each line once, in order");
    }

    #[test]
    fn every_line_lies_in_one_page() {
        let odd: Vec<usize> = (0..8_000).map(|n| n * 2 + 1).collect();
        let even: Vec<usize> = (0..8_000).map(|n| n * 2).collect();
        let early: Vec<usize> = (0..3_000).collect();
        let late: Vec<usize> = (100_000..109_000).collect();
        let few: Vec<usize> = vec![5, 99_999, 500_000];
        check(std::slice::from_ref(&odd), 100_000);
        check(&[odd.clone(), even.clone()], 50_000);
        check(&[early.clone(), late.clone(), few.clone()], 70_000);
        check(&[odd, even, early, late, few], 333_333);
        check(&[vec![]], 1_000);
        check(&[vec![1]], 1);
    }

    #[test]
    fn small_pages_of_a_small_index_hold_all() {
        check(&[(0..100).collect()], 1_000);
    }

    #[test]
    fn the_end_of_a_prefix_is_found() {
        assert_eq!(after(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!((after(b""), after(b"\xff")), (None, None));
    }
}
