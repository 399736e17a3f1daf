//! The outcome log of a crawl: one JSON line for every request that was sent. A URL that was never requested (forbidden
//! by robots.txt, for example) has no line; `nephila explain` gives the reason.
//!
//! Lines are in `logs/outcomes-NNNNNNNN.jsonl`; a full file is followed by the next. A line is written after its
//! request has ended and before the outcome is reported. So a crash may leave a line whose fetch is repeated: both
//! requests were sent, and both have a line. Each request is journaled before it is sent (`begun`); a request that a
//! crash leaves without a line gets one when the log is next opened. Reports and the proof of politeness are computed
//! from these lines alone.
//!
//! Invariants: lines are complete except the last one after a crash, which readers skip and the next writer terminates;
//! once the log was opened again, every sent request has a line.

mod begun;
mod line;
mod newest;
mod read;
mod write;

pub use line::{Counted, Line, Links, Purpose, Stored};
pub use newest::{Newest, NoPosition, Position};
pub use read::{Lines, Merged, files};
pub use write::{Request, Writer};

/// Prefix of the name of a log file.
const BEGINNING: &str = "outcomes-";
/// Suffix of the name of a log file.
const ENDING: &str = ".jsonl";

/// The number of a log file; 0 for other files.
fn file_number(path: &std::path::Path) -> u64 {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = name.strip_prefix(BEGINNING).and_then(|rest| rest.strip_suffix(ENDING));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}
