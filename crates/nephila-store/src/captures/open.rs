//! Captures in a file that is open, or was open when its process ended.

use std::fs::File;
use std::io;
use std::path::Path;

use nephila_core::store::{cdxj, roll};

use crate::archive::ENDINGS;
use crate::warc::{self, Format, HttpHead, Reader};

/// Passes the index lines of an open file to `give`. A file in use may end anywhere: incomplete records are skipped.
pub(super) fn open_captures(path: &Path, mut give: impl FnMut(String)) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(roll::OPEN).unwrap_or(&name);
    if !ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        return Ok(());
    }
    let mut reader = Reader::new(File::open(path)?);
    loop {
        let mut answer = HttpHead::default();
        let record = match reader.read(&mut answer) {
            Ok(Some(record)) if record.separator => record,
            Err(warc::Error::Io(error)) => return Err(error),
            _ => return Ok(()),
        };
        if let Some(capture) = warc::scan::capture(&record.header, &answer.bytes) {
            let length =
                reader.format().map_or(record.length, |format: Format| format.index_length(record.length));
            let place = cdxj::Place { length, offset: record.offset, filename: name };
            give(cdxj::finish(capture.begin(), &place, capture.truncated.as_deref()));
        }
    }
}
