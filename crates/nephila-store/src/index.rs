//! Sorts lines of an index and merges sorted indexes, both in bounded memory.
//!
//! Lines are ordered by their bytes, like `LC_ALL=C sort`. [`Sorter`] takes lines in any order and writes sorted runs
//! beside its target when its buffer is full; [`merge`] reads sorted files side by side. A result appears under its
//! name only when complete and synced: the file is written as `NAME.tmp` first. Files ending in `.tmp` are garbage
//! after a crash.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use crate::disk::{Disk, Sink};

/// Maximum bytes of lines in a [`Sorter`] before it writes a run.
pub const SORT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum files read at once by [`merge`]; more are merged in rounds.
pub const MERGE_FILES_MAX: usize = 128;
/// Maximum length of a line in bytes; a longer line is split. Ours are far shorter.
const LINE_BYTES_MAX: u64 = 1024 * 1024;
/// Ending of unfinished files.
pub const UNFINISHED: &str = ".tmp";

/// Lines to be sorted into one file.
#[derive(Debug)]
pub struct Sorter {
    target: PathBuf,
    lines: Vec<String>,
    bytes: usize,
    runs: Vec<PathBuf>,
    bytes_max: usize,
}

impl Sorter {
    /// Creates a sorter for a file of this name.
    pub fn new(target: PathBuf) -> Self {
        Sorter { target, lines: Vec::new(), bytes: 0, runs: Vec::new(), bytes_max: SORT_BYTES_MAX }
    }

    /// Adds a line, without its line end.
    pub fn push(&mut self, disk: &dyn Disk, line: String) -> io::Result<()> {
        self.bytes += line.len() + size_of::<String>();
        self.lines.push(line);
        if self.bytes >= self.bytes_max { self.spill(disk) } else { Ok(()) }
    }

    /// Writes the file and makes its content durable; the caller syncs the folder.
    pub fn finish(mut self, disk: &dyn Disk) -> io::Result<()> {
        if self.runs.is_empty() {
            self.lines.sort_unstable();
            return write_lines(disk, &self.target, |out| {
                self.lines.iter().try_for_each(|line| writeln!(out, "{line}"))
            });
        }
        self.spill(disk)?;
        merge(disk, &self.runs, &self.target)?;
        self.discard(disk);
        Ok(())
    }

    /// Removes the runs, as far as possible; remaining ones are garbage by their name.
    pub fn discard(self, disk: &dyn Disk) {
        self.runs.iter().for_each(|run| drop(disk.remove(run)));
    }

    fn spill(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let run = with_ending(&self.target, &format!(".run{}{UNFINISHED}", self.runs.len()));
        self.lines.sort_unstable();
        let file = disk.create(&run)?;
        self.runs.push(run);
        let mut sink = Sink::new(&*file, 0);
        self.lines.iter().try_for_each(|line| writeln!(sink, "{line}"))?;
        sink.finish()?;
        self.lines.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Merges sorted files into one; returns its number of lines.
pub fn merge(disk: &dyn Disk, sources: &[PathBuf], target: &Path) -> io::Result<u64> {
    let mut sources = sources.to_vec();
    let mut rounds = Vec::new();
    while sources.len() > MERGE_FILES_MAX {
        let part = with_ending(target, &format!(".part{}", rounds.len()));
        let rest = sources.split_off(MERGE_FILES_MAX);
        let merged = std::mem::replace(&mut sources, rest);
        let out = with_ending(&part, UNFINISHED);
        copy_merged(disk, &merged, &out)?;
        rounds.push(out.clone());
        sources.push(out);
    }
    let mut count = 0;
    write_lines(disk, target, |out| {
        for line in Merged::open(&sources)? {
            out.write_all(&line?)?;
            count += 1;
        }
        Ok(())
    })?;
    rounds.iter().for_each(|part| drop(disk.remove(part)));
    Ok(count)
}

fn copy_merged(disk: &dyn Disk, sources: &[PathBuf], target: &Path) -> io::Result<()> {
    let _ = disk.remove(target);
    let file = disk.create(target)?;
    let mut sink = Sink::new(&*file, 0);
    for line in Merged::open(sources)? {
        sink.write_all(&line?)?;
    }
    sink.finish().map(drop)
}

/// The lines of sorted files, in order, each with its line end.
#[derive(Debug)]
pub struct Merged {
    files: Vec<BufReader<File>>,
    next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl Merged {
    /// Opens the files.
    pub fn open(sources: &[PathBuf]) -> io::Result<Self> {
        let files =
            sources.iter().map(|path| File::open(path).map(BufReader::new)).collect::<io::Result<_>>()?;
        let mut merged = Merged { files, next: BinaryHeap::new() };
        for which in 0..merged.files.len() {
            merged.fill(which)?;
        }
        Ok(merged)
    }

    fn fill(&mut self, which: usize) -> io::Result<()> {
        if let Some(line) = read_line(&mut self.files[which])? {
            self.next.push(Reverse((line, which)));
        }
        Ok(())
    }
}

impl Iterator for Merged {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((line, which)) = self.next.pop()?;
        Some(self.fill(which).map(|()| line))
    }
}

/// Reads the next line with its line end, which is added if the file lacks one.
pub fn read_line(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    io::Read::take(input, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        line.push(b'\n');
    }
    Ok(Some(line))
}

fn write_lines(
    disk: &dyn Disk,
    target: &Path,
    write: impl FnOnce(&mut Sink<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let unfinished = with_ending(target, UNFINISHED);
    // Left over from an earlier attempt, perhaps.
    let _ = disk.remove(&unfinished);
    let file = disk.create(&unfinished)?;
    let mut sink = Sink::new(&*file, 0);
    write(&mut sink)?;
    sink.finish()?;
    file.sync()?;
    disk.rename(&unfinished, target)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn many_runs_sort_like_one() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x.cdxj");
        let mut sorter = Sorter { bytes_max: 2_000, ..Sorter::new(target.clone()) };
        let lines: Vec<String> =
            (0..5_000u32).map(|n| format!("{:08x}", n.wrapping_mul(2_654_435_761))).collect();
        for line in &lines {
            sorter.push(&RealDisk, line.clone()).unwrap();
        }
        assert!(sorter.runs.len() > MERGE_FILES_MAX / 2);
        sorter.finish(&RealDisk).unwrap();
        let mut want = lines;
        want.sort();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), want.join("\n") + "\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "runs are gone");
    }

    #[test]
    fn more_files_than_may_be_open_are_merged_in_rounds() {
        let dir = tempfile::tempdir().unwrap();
        let count = 3 * MERGE_FILES_MAX + 5;
        let sources: Vec<PathBuf> = (0..count).map(|n| dir.path().join(format!("{n}.cdxj"))).collect();
        for (n, path) in sources.iter().enumerate() {
            std::fs::write(path, format!("{n:05}\n{:05}\n", n + count)).unwrap();
        }
        let target = dir.path().join("index.cdxj");
        assert_eq!(merge(&RealDisk, &sources, &target).unwrap(), 2 * count as u64);
        let want: String = (0..2 * count).map(|n| format!("{n:05}\n")).collect();
        assert_eq!(std::fs::read_to_string(&target).unwrap(), want);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), count + 1);
    }
}
