//! The parent: starts a child for each document, feeds it, collects its answer, and ends it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::frame::{self, End, OUT_OF_MEMORY, Record};
use crate::{Cut, Error, Limits, Pdf, extract};

/// Maximum size in bytes of what is kept of standard error.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;
/// Size in bytes of one read or write.
const STEP_BYTES: usize = 64 << 10;
/// First pause between two looks at a child that has closed its output and not ended.
const PAUSE: Duration = Duration::from_micros(100);

/// Reads PDFs, each in a child process of its own. Blocks until the child has ended.
#[derive(Clone, Debug)]
pub struct Reader {
    program: PathBuf,
    arguments: Vec<OsString>,
    limits: Limits,
}

impl Reader {
    /// A reader whose children are started with this program and these arguments. The program has to call
    /// [`crate::child()`]. Its environment is empty.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
        limits: Limits,
    ) -> Reader {
        Reader { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect(), limits }
    }

    /// Returns the text of a PDF, or why there is none.
    pub fn read(&self, pdf: &[u8]) -> Result<Pdf, Error> {
        if pdf.len() > self.limits.bytes_max {
            return Err(Error::TooLarge(self.limits.bytes_max));
        }
        if !extract::looks_like_pdf(pdf) {
            return Err(Error::NotPdf);
        }
        self.judge(&self.answer(pdf)?)
    }

    /// Starts a child, gives it the document and returns what it answered. The child has ended then.
    fn answer(&self, pdf: &[u8]) -> io::Result<Answer> {
        let deadline = Instant::now() + self.limits.wall_max;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Ended(command.spawn()?);
        let (stdin, stdout, stderr) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let limits = frame::limits_to_bytes(&self.limits);
        let mut talk = Talk {
            stdin,
            stdout,
            stderr,
            unsent: [&limits, pdf],
            records: Vec::new(),
            records_max: frame::answer_bytes_max(&self.limits),
            complaint: Vec::new(),
        };
        let is_over = talk.until(deadline)?;
        let Talk { records, complaint, .. } = talk;
        let status = if is_over { child.wait_until(deadline)? } else { None };
        Ok(Answer { records, complaint: String::from_utf8_lossy(&complaint).into_owned(), status })
    }

    /// What an answer means.
    fn judge(&self, answer: &Answer) -> Result<Pdf, Error> {
        let mut pdf = Pdf::default();
        let mut end = None;
        let mut records = &answer.records[..];
        while let Some(record) = frame::take(&mut records) {
            match record {
                Record::Title(title) => pdf.title = title,
                Record::Pages(pages) => pdf.pages = usize::try_from(pages).unwrap_or(usize::MAX),
                Record::Page(text) => {
                    pdf.pages_read += 1;
                    if !text.is_empty() && !pdf.text.is_empty() {
                        pdf.text.push_str("\n\n");
                    }
                    pdf.text.push_str(&text);
                }
                Record::End(said) => end = Some(said),
            }
        }
        pdf.cut = match end {
            Some(End::NotPdf) => return Err(Error::NotPdf),
            Some(End::Encrypted) => return Err(Error::Encrypted),
            Some(End::Whole) => None,
            Some(End::Cut(cut)) => Some(cut),
            None => Some(answer.cut()),
        };
        match pdf.cut {
            _ if !pdf.text.is_empty() => Ok(pdf),
            Some(Cut::Time) => Err(Error::OutOfTime),
            Some(Cut::Memory) => Err(Error::OutOfMemory),
            Some(Cut::Crash) => Err(Error::Crashed(answer.crash())),
            _ => Err(Error::NoText),
        }
    }
}

/// What a child that has ended left behind.
struct Answer {
    records: Vec<u8>,
    complaint: String,
    /// None: it was killed at its deadline.
    status: Option<ExitStatus>,
}

impl Answer {
    /// Why there is no end record.
    fn cut(&self) -> Cut {
        let Some(status) = self.status else { return Cut::Time };
        let is = |signal: rustix::process::Signal| status.signal() == Some(signal.as_raw());
        // The hard limit of processor time kills, and so does the system for lack of memory. The soft limit comes first.
        if is(rustix::process::Signal::XCPU) {
            Cut::Time
        } else if self.complaint.contains(OUT_OF_MEMORY) || is(rustix::process::Signal::KILL) {
            Cut::Memory
        } else {
            Cut::Crash
        }
    }

    /// How the child ended, for a human.
    fn crash(&self) -> String {
        let said = self.complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        self.status.map_or_else(|| said.to_owned(), |status| format!("{status}: {said}"))
    }
}

/// A child that is dead and waited for when this goes out of scope.
struct Ended(Child);

impl Ended {
    /// Waits for the end of the child. None if it has not ended at the deadline.
    fn wait_until(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        let mut pause = PAUSE;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // Both do nothing to a child that was waited for. Its id is ours until then, so no other process can be hit.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The three pipes of a child and what goes through them.
struct Talk<'a> {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The limits and the document, without what was sent.
    unsent: [&'a [u8]; 2],
    records: Vec<u8>,
    records_max: usize,
    complaint: Vec<u8>,
}

impl Talk<'_> {
    /// Talks until the child has closed its output. Returns whether that was before the deadline.
    fn until(&mut self, deadline: Instant) -> io::Result<bool> {
        for fd in self.open().iter().map(|(fd, _)| fd) {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        while self.stdout.is_some() || self.stderr.is_some() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return Ok(false) };
            let mut polled: Vec<_> =
                self.open().into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
            match poll(&mut polled, Some(&Timespec::try_from(left).map_err(io::Error::other)?)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => (),
                Err(error) => return Err(error.into()),
            }
            drop(polled);
            // Whatever is not ready says so, and is asked again in the next round.
            self.send()?;
            receive(&mut self.stdout, &mut self.records, self.records_max)?;
            receive(&mut self.stderr, &mut self.complaint, COMPLAINT_BYTES_MAX)?;
        }
        Ok(true)
    }

    /// The pipes that are open.
    fn open(&self) -> Vec<(std::os::fd::BorrowedFd<'_>, PollFlags)> {
        let stdin = self.stdin.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::OUT));
        let stdout = self.stdout.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN));
        let stderr = self.stderr.as_ref().map(|pipe| (pipe.as_fd(), PollFlags::IN));
        [stdin, stdout, stderr].into_iter().flatten().collect()
    }

    /// Sends as much as the child takes now. The pipe is closed after the last byte, or when the child does not want more.
    fn send(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.stdin else { return Ok(()) };
        for part in &mut self.unsent {
            while !part.is_empty() {
                match pipe.write(&part[..part.len().min(STEP_BYTES)]) {
                    Ok(0) => break,
                    Ok(sent) => *part = &part[sent..],
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                    Err(error) => return Err(error),
                }
            }
        }
        self.stdin = None;
        Ok(())
    }
}

/// Takes what a pipe has now. The pipe is closed at its end, and when it has more than the maximum.
fn receive<P: Read>(pipe: &mut Option<P>, into: &mut Vec<u8>, bytes_max: usize) -> io::Result<()> {
    let mut buffer = [0; STEP_BYTES];
    while let Some(open) = pipe {
        match open.read(&mut buffer) {
            Ok(size) => {
                let room = bytes_max - into.len();
                into.extend_from_slice(&buffer[..size.min(room)]);
                if size == 0 || size > room {
                    *pipe = None;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
