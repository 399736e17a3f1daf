//! The outcome log of a crawl: one JSON line for every request that was made. A URL that was never asked for (closed by
//! robots.txt, say) has no line; `nephila explain` knows why.
//!
//! Lines lie in `logs/outcomes-NNNNNNNN.jsonl`; a full file is followed by the next. They are written when a request has
//! ended and before its outcome is reported, so a crash may leave a line whose fetch is repeated: both requests were
//! made, and both stand here. What is about to be asked is written down first (`begun`); what a crash leaves without a
//! line gets one when the log is next opened. Reports and the proof of politeness are computed from these lines alone.
//!
//! What always holds: lines are whole but for the last one after a crash, which readers skip and the next writer ends; once
//! the log was opened again, every request that was made has a line.

mod begun;
mod line;
mod read;
mod write;

pub use line::{Counted, Line, Links, Purpose, Stored};
pub use read::{Lines, Merged, files};
pub use write::{Request, Writer};

/// How the name of a log file begins.
const BEGINNING: &str = "outcomes-";
/// How it ends.
const ENDING: &str = ".jsonl";

/// The number of a log file; 0 if it is none.
fn file_number(path: &std::path::Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = name.strip_prefix(BEGINNING).and_then(|rest| rest.strip_suffix(ENDING));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
