//! Standard output for text that is made at once and may be long.

use std::io::{ErrorKind, Write};

use nephila_engine::exit::Exit;

/// Prints all of it. A reader that has seen enough, such as `head`, is no error.
pub(crate) fn print_all(bytes: &[u8]) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(Exit::Done),
    }
}
