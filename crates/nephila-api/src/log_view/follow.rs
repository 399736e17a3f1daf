//! Following a growing log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use nephila_engine::log::{Line, files};

/// Reads a growing log, file after file. A line counts once it ends with a newline.
#[derive(Debug)]
pub struct Follow {
    folder: PathBuf,
    open: Option<(PathBuf, BufReader<File>)>,
    buffer: Vec<u8>,
}

impl Follow {
    /// From the first line on.
    pub fn new(folder: PathBuf) -> Follow {
        Follow { folder, open: None, buffer: Vec::new() }
    }

    /// The next line; none if there is none yet.
    pub fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let Some((path, open)) = &mut self.open else {
                let Some(first) = files(&self.folder)?.into_iter().next() else { return Ok(None) };
                self.go_to(&first)?;
                continue;
            };
            open.read_until(b'\n', &mut self.buffer)?;
            if self.buffer.ends_with(b"\n") {
                let line = serde_json::from_slice(&self.buffer).ok();
                self.buffer.clear();
                match line {
                    Some(line) => return Ok(Some(line)),
                    None => continue,
                }
            }
            let path = path.clone();
            let Some(next) = files(&self.folder)?.into_iter().find(|file| *file > path) else {
                return Ok(None);
            };
            // The next file was started after the last line of this one; lines written in the meantime are read first.
            let (_, open) = self.open.as_mut().expect("it is open");
            if open.read_until(b'\n', &mut self.buffer)? == 0 {
                self.buffer.clear();
                self.go_to(&next)?;
            } else if self.buffer.ends_with(b"\n") {
                let line = serde_json::from_slice(&self.buffer).ok();
                self.buffer.clear();
                if line.is_some() {
                    return Ok(line);
                }
            }
        }
    }

    /// From the end of the log on: only what is written from now on.
    pub fn at_end(folder: PathBuf) -> io::Result<Follow> {
        let mut follow = Follow::new(folder);
        if let Some(last) = files(&follow.folder)?.pop() {
            follow.go_to(&last)?;
            if let Some((_, open)) = &mut follow.open {
                open.seek(SeekFrom::End(0))?;
            }
        }
        Ok(follow)
    }

    fn go_to(&mut self, path: &Path) -> io::Result<()> {
        self.open = Some((path.into(), BufReader::with_capacity(64 * 1024, File::open(path)?)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(outcome: &str, status: Option<u16>) -> Line {
        Line { at: 1_794_697_089_123, outcome: outcome.into(), status, requests: 1, ..Line::default() }
    }

    #[test]
    fn a_log_that_is_written_is_followed_over_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut follow = Follow::new(dir.path().into());
        assert_eq!(follow.next_line().unwrap(), None, "there is no file yet");
        let (one, two) =
            (dir.path().join("outcomes-00000001.jsonl"), dir.path().join("outcomes-00000002.jsonl"));
        let json = line("ok", Some(200)).json();
        std::fs::write(&one, &json[..50]).unwrap();
        assert_eq!(follow.next_line().unwrap(), None, "half a line is none");
        let mut file = File::options().append(true).open(&one).unwrap();
        file.write_all(&json[50..]).unwrap();
        assert_eq!(follow.next_line().unwrap().unwrap().outcome, "ok");
        assert_eq!(follow.next_line().unwrap(), None);
        file.write_all(&line("gone", Some(410)).json()).unwrap();
        std::fs::write(&two, line("reset", None).json()).unwrap();
        assert_eq!(follow.next_line().unwrap().unwrap().outcome, "gone");
        assert_eq!(follow.next_line().unwrap().unwrap().outcome, "reset");
        assert_eq!(follow.next_line().unwrap(), None);
    }
}
