//! Reading the log: iterators over the lines of all files, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::{BEGINNING, ENDING, Line};

/// Maximum number of folders that are merged. Each has one open file.
const FOLDERS_MAX: usize = 1_024;

/// The log files of a folder, oldest first.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(BEGINNING) && name.ends_with(ENDING) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Iterator over all lines of a folder, oldest first. Text that does not parse as a line is counted and skipped: after
/// a crash the last line of a file may be torn.
#[derive(Debug)]
pub struct Lines {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<BufReader<File>>,
    buffer: Vec<u8>,
    skipped: u64,
}

impl Lines {
    /// The lines in this folder.
    pub fn of(folder: &Path) -> io::Result<Lines> {
        Ok(Lines { files: files(folder)?.into_iter(), open: None, buffer: Vec::new(), skipped: 0 })
    }

    /// The newest lines in this folder, from about this number of bytes before the end on, oldest first. The second value
    /// is whether these are all lines.
    pub fn newest(folder: &Path, bytes_max: u64) -> io::Result<(Lines, bool)> {
        let mut all = files(folder)?;
        let (mut room, mut first) = (bytes_max, all.len());
        while first > 0 {
            first -= 1;
            let length = std::fs::metadata(&all[first])?.len();
            if length <= room {
                room -= length;
                continue;
            }
            let mut open = BufReader::with_capacity(256 * 1024, File::open(&all[first])?);
            open.seek(SeekFrom::Start(length - room))?;
            // The first line is probably not whole.
            open.skip_until(b'\n')?;
            let files = all.split_off(first + 1).into_iter();
            return Ok((Lines { files, open: Some(open), buffer: Vec::new(), skipped: 0 }, false));
        }
        Ok((Lines { files: all.into_iter(), open: None, buffer: Vec::new(), skipped: 0 }, true))
    }

    /// Number of lines skipped so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(path) = self.files.next() else { return Ok(None) };
                self.open = Some(BufReader::with_capacity(256 * 1024, File::open(path)?));
                continue;
            };
            self.buffer.clear();
            if open.read_until(b'\n', &mut self.buffer)? == 0 {
                self.open = None;
                continue;
            }
            match serde_json::from_slice(&self.buffer) {
                Ok(line) => return Ok(Some(line)),
                Err(_) if self.buffer.trim_ascii().is_empty() => {}
                Err(_) => self.skipped += 1,
            }
        }
    }
}

impl Iterator for Lines {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Iterator over the lines of several folders, merged by the time when requests ended. Each folder is in this order
/// except for lines reordered on the way to the disk, and so is the whole.
#[derive(Debug)]
pub struct Merged {
    logs: Vec<Lines>,
    /// The next line of each folder, the earliest end first.
    heads: BinaryHeap<Reverse<Head>>,
}

/// The next line of a folder.
#[derive(Debug)]
struct Head {
    ended: u64,
    log: usize,
    line: Line,
}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        (self.ended, self.log) == (other.ended, other.log)
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        (self.ended, self.log).cmp(&(other.ended, other.log))
    }
}

impl Merged {
    /// The lines in these folders; one file of each is open at a time.
    pub fn of(folders: &[PathBuf]) -> io::Result<Merged> {
        if folders.len() > FOLDERS_MAX {
            return Err(io::Error::other(format!("{} folders are more than {FOLDERS_MAX}", folders.len())));
        }
        let logs = folders.iter().map(|folder| Lines::of(folder)).collect::<io::Result<Vec<_>>>()?;
        let mut merged = Merged { logs, heads: BinaryHeap::new() };
        for log in 0..merged.logs.len() {
            merged.advance(log)?;
        }
        Ok(merged)
    }

    /// Number of lines skipped so far.
    pub fn skipped(&self) -> u64 {
        self.logs.iter().map(Lines::skipped).sum()
    }

    fn advance(&mut self, log: usize) -> io::Result<()> {
        if let Some(line) = self.logs[log].read()? {
            self.heads.push(Reverse(Head { ended: line.ended().0, log, line }));
        }
        Ok(())
    }
}

impl Iterator for Merged {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse(head) = self.heads.pop()?;
        match self.advance(head.log) {
            Ok(()) => Some(Ok(head.line)),
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_read_from_the_right_file_on() {
        let dir = tempfile::tempdir().unwrap();
        let line = |at| Line { at, requests: 1, ..Line::default() }.json();
        let length = line(1).len() as u64;
        for (number, ats) in [(1, [1, 2, 3]), (2, [4, 5, 6])] {
            let name = dir.path().join(format!("{BEGINNING}{number:08}{ENDING}"));
            std::fs::write(name, ats.map(line).concat()).unwrap();
        }
        let read = |bytes| {
            let (lines, is_all) = Lines::newest(dir.path(), bytes).unwrap();
            (lines.map(|line| line.unwrap().at).collect::<Vec<_>>(), is_all)
        };
        assert_eq!(read(6 * length), (vec![1, 2, 3, 4, 5, 6], true));
        assert_eq!(read(6 * length - 1), (vec![2, 3, 4, 5, 6], false));
        assert_eq!(read(3 * length + 5), (vec![4, 5, 6], false));
        assert_eq!(read(length + 5), (vec![6], false));
        assert_eq!(read(3), (vec![], false));
    }

    #[test]
    fn the_logs_of_several_nodes_are_read_as_one() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [dir.path().join("a"), dir.path().join("b"), dir.path().join("none")];
        for (folder, ends) in [(&folders[0], [10, 30, 70]), (&folders[1], [20, 30, 40])] {
            std::fs::create_dir(folder).unwrap();
            let lines = ends.map(|at| Line { at, requests: 1, ..Line::default() }.json()).concat();
            std::fs::write(folder.join(format!("{BEGINNING}00000001{ENDING}")), lines).unwrap();
        }
        let read: Vec<u64> = Merged::of(&folders).unwrap().map(|line| line.unwrap().at).collect();
        assert_eq!(read, [10, 20, 30, 30, 40, 70]);
    }
}
