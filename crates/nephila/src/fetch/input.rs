//! URLs from arguments, files and standard input, with backpressure.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use tokio::sync::{Mutex, mpsc};

/// Number of lines in a batch.
const BATCH_MAX: usize = 64;
/// Capacity of the channel of batches; when full, reading waits.
const BATCHES_WAITING_MAX: usize = 16;
/// Maximum size in bytes of a line; a longer line is not a URL, and the rest is skipped.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The source of URLs, shared by all workers.
pub(super) struct Input(Mutex<Waiting>);

struct Waiting {
    batches: mpsc::Receiver<io::Result<Vec<String>>>,
    batch: VecDeque<String>,
}

impl Input {
    /// Starts to read: first the arguments, then the files, in order.
    pub(super) fn start(arguments: Vec<String>, files: Vec<PathBuf>) -> Self {
        let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        std::thread::spawn(move || {
            // A send fails when the receiver is gone; then there is nothing left to do.
            let _ = read_all(arguments, files, &sender);
        });
        Input(Mutex::new(Waiting { batches, batch: VecDeque::new() }))
    }

    /// The next URL, or `None` at the end.
    pub(super) async fn next(&self) -> io::Result<Option<String>> {
        let mut waiting = self.0.lock().await;
        while waiting.batch.is_empty() {
            match waiting.batches.recv().await {
                None => return Ok(None),
                Some(batch) => waiting.batch = batch?.into(),
            }
        }
        Ok(waiting.batch.pop_front())
    }
}

type Sender = mpsc::Sender<io::Result<Vec<String>>>;

fn read_all(arguments: Vec<String>, files: Vec<PathBuf>, sender: &Sender) -> Option<()> {
    for argument in arguments {
        if argument == "-" {
            read_lines(BufReader::new(io::stdin()), sender)?;
        } else {
            sender.blocking_send(Ok(vec![argument])).ok()?;
        }
    }
    for path in files {
        if path.as_os_str() == "-" {
            read_lines(BufReader::new(io::stdin()), sender)?;
            continue;
        }
        match File::open(&path) {
            Ok(file) => read_lines(BufReader::with_capacity(256 * 1024, file), sender)?,
            Err(error) => sender
                .blocking_send(Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))))
                .ok()?,
        }
    }
    Some(())
}

/// Reads lines and sends a batch whenever the next read might block.
fn read_lines(mut reader: impl BufferedLines, sender: &Sender) -> Option<()> {
    let mut batch = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = match read_line(&mut reader, &mut line) {
            Ok(read) => read,
            Err(error) => return sender.blocking_send(Err(error)).ok(),
        };
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            batch.push(text.to_owned());
        }
        if !batch.is_empty() && (!read || batch.len() == BATCH_MAX || !reader.has_line()) {
            sender.blocking_send(Ok(std::mem::take(&mut batch))).ok()?;
        }
        if !read {
            return Some(());
        }
    }
}

/// A buffered reader that knows whether its buffer holds a whole line.
trait BufferedLines: BufRead {
    fn has_line(&self) -> bool;
}

impl<R: io::Read> BufferedLines for BufReader<R> {
    fn has_line(&self) -> bool {
        self.buffer().contains(&b'\n')
    }
}

/// Reads one line, up to [`LINE_BYTES_MAX`] bytes. False at the end.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Ok(false);
        }
        let (taken, ends) = match available.iter().position(|b| *b == b'\n') {
            Some(at) => (at + 1, true),
            None => (available.len(), false),
        };
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        line.extend_from_slice(&available[..taken.min(room)]);
        reader.consume(taken);
        if ends {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn arguments_come_first_and_empty_lines_and_comments_do_not_count() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "# list\nhttp://b.test/\r\n\n  http://c.test/ \nhttp://d.test/").unwrap();
        let input = Input::start(vec!["http://a.test/".into()], vec![file.path().into()]);
        let mut all = Vec::new();
        while let Some(url) = input.next().await.unwrap() {
            all.push(url);
        }
        assert_eq!(all, ["http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/"]);
    }

    #[tokio::test]
    async fn a_missing_file_is_an_error_and_a_long_line_is_cut() {
        let input = Input::start(vec![], vec!["/nowhere/at/all".into()]);
        assert!(input.next().await.is_err());
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; LINE_BYTES_MAX * 2]).unwrap();
        file.write_all(b"\nhttp://a.test/\n").unwrap();
        let input = Input::start(vec![], vec![file.path().into()]);
        assert_eq!(input.next().await.unwrap().unwrap().len(), LINE_BYTES_MAX);
        assert_eq!(input.next().await.unwrap().as_deref(), Some("http://a.test/"));
    }
}
