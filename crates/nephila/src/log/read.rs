//! Reading the log: all files in their order, a line at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{BEGINNING, ENDING, Line};

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

/// All lines of a folder, oldest first. What cannot be read as a line is counted and skipped: after a crash the last
/// line of a file may be torn.
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

    /// How many lines could not be read so far.
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
