//! The outcome log of a crawl: one JSON line for every request that was made. A URL that was never asked for (closed by
//! robots.txt, say) has no line; `nephila explain` knows why.
//!
//! Lines lie in `logs/outcomes-NNNNNNNN.jsonl`; a full file is followed by the next. They are written when a request has
//! ended and before its outcome is reported, so a crash may leave a line whose fetch is repeated: both requests were
//! made, and both stand here. Reports and the proof of politeness are computed from these lines alone.
//!
//! What always holds: lines are whole but for the last one after a crash, which readers skip and the next writer ends.

mod line;
mod read;
mod write;

pub use line::{Line, Links, Purpose, Stored};
pub use read::{Lines, Merged, files};
pub use write::Writer;

/// How the name of a log file begins.
const BEGINNING: &str = "outcomes-";
/// How it ends.
const ENDING: &str = ".jsonl";
