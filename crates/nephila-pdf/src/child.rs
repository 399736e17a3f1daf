//! What the child process does.

use std::io::{self, Read};
use std::process::ExitCode;

use crate::{confine, extract, frame};

/// Reads one PDF from standard input and writes its text to standard output, for a [`crate::Reader`] in the parent.
///
/// To be called first in `main`, while there is one thread and no open file: it limits the whole process. The limits are
/// sent by the reader.
pub fn child() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
            eprintln!("{}", frame::OUT_OF_MEMORY);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let limits = frame::limits_from(&mut input)?;
    confine::confine(&limits)?;
    let mut pdf = Vec::new();
    input.take(limits.bytes_max as u64).read_to_end(&mut pdf)?;
    let mut output = io::stdout().lock();
    extract::extract(pdf, &limits, &mut |record| frame::write(&mut output, &record))
}
