//! The terminal of `nephila top`: a screen of its own, and keys without Enter.
//!
//! Invariant: when the value is dropped, the terminal is as it was before, also after an error.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::termios::{self, LocalModes, OptionalActions, Termios};

/// Size of a terminal that does not say, in columns and rows.
const SIZE: (usize, usize) = (80, 24);
/// Another screen, no cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// The cursor to the upper left corner; the rest of a line; everything below.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// See the module.
pub(super) struct Terminal {
    before: Termios,
    keys: Receiver<u8>,
}

impl Terminal {
    /// Takes over the terminal; none if input or output is none.
    pub(super) fn open() -> io::Result<Option<Terminal>> {
        let (input, output) = (io::stdin(), io::stdout());
        if !input.is_terminal() || !output.is_terminal() {
            return Ok(None);
        }
        let before = termios::tcgetattr(input.as_fd())?;
        let mut keys_at_once = before.clone();
        // Ctrl-C comes as a key, so that the terminal is restored before the end.
        keys_at_once.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        termios::tcsetattr(input.as_fd(), OptionalActions::Now, &keys_at_once)?;
        let (sender, keys) = channel();
        // Ends with the process: a read of a terminal cannot be interrupted.
        std::thread::spawn(move || {
            for key in io::stdin().lock().bytes().map_while(Result::ok) {
                if sender.send(key).is_err() {
                    return;
                }
            }
        });
        let terminal = Terminal { before, keys };
        write_all(ENTER)?;
        Ok(Some(terminal))
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        match terminal_size::terminal_size() {
            Some((columns, rows)) => (columns.0.into(), rows.0.into()),
            None => SIZE,
        }
    }

    /// Shows these lines, as many as there is room for.
    pub(super) fn show(&self, lines: &[String]) -> io::Result<()> {
        let (_, rows) = self.size();
        let mut text = String::from(HOME);
        for (at, line) in lines.iter().take(rows).enumerate() {
            text.push_str(if at == 0 { "" } else { "\r\n" });
            text.push_str(line);
            text.push_str(CLEAR_LINE);
        }
        text.push_str(CLEAR_BELOW);
        write_all(&text)
    }

    /// Waits, and returns whether a key ended the program: q, Ctrl-C or Ctrl-D.
    pub(super) fn is_over(&self, wait: Duration) -> bool {
        match self.keys.recv_timeout(wait) {
            Ok(key) => matches!(key, b'q' | b'Q' | 3 | 4),
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Nothing could be done about a terminal that has gone.
        _ = write_all(LEAVE);
        _ = termios::tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.before);
    }
}

fn write_all(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
