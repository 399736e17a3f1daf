//! Compares indexes with the expected lines.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use nephila_core::store::Digest;
use nephila_core::store::cdxj::Line;

use super::{Kind, Report};
use crate::index::{self, Merged, read_line};

/// The expected lines of an index, as digests: a file may have a million lines.
#[derive(Default)]
pub(super) struct Wanted(HashMap<[u8; 16], u64>);

impl Wanted {
    /// Adds the line of the record at this offset.
    pub(super) fn add(&mut self, line: &str, offset: u64) {
        self.0.insert(short(line), offset);
    }
}

fn short(line: &str) -> [u8; 16] {
    Digest::of(&[line.as_bytes()]).0[..16].try_into().expect("a digest has 20 bytes")
}

/// Compares the index beside a WARC file with the lines of its records. A missing index is no finding.
pub(super) fn check_beside(warc: &Path, mut wanted: Wanted, report: &mut Report) -> io::Result<()> {
    let name = warc.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = crate::archive::ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    let Some(path) = stem.map(|stem| warc.with_file_name(format!("{stem}.cdxj"))) else { return Ok(()) };
    if !path.is_file() {
        return Ok(());
    }
    let mut lines = Ordered::open(&path)?;
    while let Some((number, line)) = lines.next(report)? {
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\n');
        if Line::parse(line).is_none() {
            report.add(&path, number, None, Kind::IndexForm, shorten(line));
        } else if wanted.0.remove(&short(line)).is_none() {
            report.add(&path, number, None, Kind::IndexExtra, shorten(line));
        }
    }
    let mut missing: Vec<u64> = wanted.0.into_values().collect();
    missing.sort_unstable();
    for offset in missing {
        report.add(&path, 0, None, Kind::IndexMissing, format!("the record at {offset} of {name}"));
    }
    Ok(())
}

/// Compares the merged index with its source indexes.
pub(super) fn check_merged(merged: &Path, folder: &Path, report: &mut Report) -> io::Result<()> {
    let mut sources: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>()?;
    sources.retain(|path| path.extension().is_some_and(|ending| ending == "cdxj"));
    if sources.len() > index::MERGE_FILES_MAX {
        // Too many files to open at once: only the order is checked.
        let mut lines = Ordered::open(merged)?;
        while lines.next(report)?.is_some() {}
        return Ok(());
    }
    let mut wanted = Merged::open(&sources)?.peekable();
    let mut lines = Ordered::open(merged)?;
    while let Some((number, line)) = lines.next(report)? {
        while let Some(missing) = wanted.next_if(|want| want.as_ref().is_ok_and(|want| *want < line)) {
            let missing = String::from_utf8_lossy(&missing?).into_owned();
            report.add(merged, number, None, Kind::IndexMissing, shorten(&missing));
        }
        if wanted.next_if(|want| want.as_ref().is_ok_and(|want| *want == line)).is_none() {
            report.add(merged, number, None, Kind::IndexExtra, shorten(&String::from_utf8_lossy(&line)));
        }
    }
    for missing in wanted {
        let missing = String::from_utf8_lossy(&missing?).into_owned();
        report.add(merged, lines.number, None, Kind::IndexMissing, shorten(&missing));
    }
    Ok(())
}

/// The lines of a file, with a finding for each that is out of order.
struct Ordered {
    path: PathBuf,
    input: BufReader<File>,
    last: Vec<u8>,
    number: u64,
}

impl Ordered {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Ordered {
            path: path.into(),
            input: BufReader::new(File::open(path)?),
            last: Vec::new(),
            number: 0,
        })
    }

    fn next(&mut self, report: &mut Report) -> io::Result<Option<(u64, Vec<u8>)>> {
        let Some(line) = read_line(&mut self.input)? else { return Ok(None) };
        self.number += 1;
        if line < self.last {
            report.add(
                &self.path,
                self.number,
                None,
                Kind::IndexOrder,
                shorten(&String::from_utf8_lossy(&line)),
            );
        }
        self.last.clone_from(&line);
        Ok(Some((self.number, line)))
    }
}

fn shorten(line: &str) -> String {
    line.trim_end().chars().take(200).collect()
}
