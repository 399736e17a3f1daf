//! The text of a PDF, read in a child process with limits of memory and time.
//!
//! A PDF is a program in a small language, written by a stranger. A library that reads it can loop, use much memory or
//! crash. So the [`Reader`] starts one child process for each document: the child limits itself ([`mod@confine`]), reads
//! the document from its standard input ([`mod@extract`]) and writes the text page by page as records ([`mod@frame`]).
//! The parent collects the records until the child ends or its time is over ([`mod@reader`]).
//!
//! The program that holds a [`Reader`] is usually its own child: started with an argument of its choice, its `main`
//! calls [`child()`] before anything else, and a [`Reader`] is made with its own path and that argument.
//!
//! Invariants: no document makes [`Reader::read`] panic, or wait much longer than [`Limits::wall_max`]; the parent holds
//! at most the text and its limits; no child is left behind, running or as a zombie.

#[cfg(unix)]
mod child;
#[cfg(unix)]
mod confine;
#[cfg(unix)]
mod extract;
#[cfg(unix)]
mod frame;
#[cfg(unix)]
mod reader;

#[cfg(all(test, unix))]
mod tests;

use std::time::Duration;

#[cfg(unix)]
pub use child::child;
#[cfg(unix)]
pub use reader::Reader;

/// Maximum size in bytes of a PDF: shipped value of [`Limits::bytes_max`]. Larger ones are mostly scans and pictures.
pub const BYTES_MAX: usize = 32 << 20;
/// Maximum memory in bytes of a child: shipped value of [`Limits::memory_max`]. Of the documents measured
/// none needs more than 31 MiB (`docs/pdf.md`); the library itself refuses a stream only above 256 MiB unpacked.
pub const MEMORY_MAX: u64 = 256 << 20;
/// Maximum processor time of a child: shipped value of [`Limits::cpu_max`]. A document of a thousand pages needs half a second.
pub const CPU_MAX: Duration = Duration::from_secs(10);
/// Maximum time of a child by the clock: shipped value of [`Limits::wall_max`]. Three times the processor time, since
/// several children and a crawl share the processors.
pub const WALL_MAX: Duration = Duration::from_secs(30);
/// Maximum size in bytes of a text: shipped value of [`Limits::text_max`]. Some 1,500 full pages.
pub const TEXT_MAX: usize = 4 << 20;
/// Maximum number of pages that are read: shipped value of [`Limits::pages_max`].
pub const PAGES_MAX: usize = 2_000;
/// Maximum size in bytes of a title; the rest of it is cut off.
pub const TITLE_BYTES_MAX: usize = 1 << 10;

/// What a child may use for one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size in bytes of the PDF. A larger one is refused before a child is started.
    pub bytes_max: usize,
    /// Maximum memory in bytes, in addition to what the program has mapped when it starts.
    pub memory_max: u64,
    /// Maximum processor time, in whole seconds (rounded up).
    pub cpu_max: Duration,
    /// Maximum time by the clock, after which the child is killed.
    pub wall_max: Duration,
    /// Maximum size in bytes of the text. A longer one is cut.
    pub text_max: usize,
    /// Maximum number of pages that are read.
    pub pages_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_max: BYTES_MAX,
            memory_max: MEMORY_MAX,
            cpu_max: CPU_MAX,
            wall_max: WALL_MAX,
            text_max: TEXT_MAX,
            pages_max: PAGES_MAX,
        }
    }
}

/// The text of a PDF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pdf {
    /// The title that the document states, or an empty string.
    pub title: String,
    /// The text of the pages, in the order of the pages, with a blank line between two of them. Never empty.
    pub text: String,
    /// Number of pages that the document has.
    pub pages: usize,
    /// Number of pages that were read.
    pub pages_read: usize,
    /// Why the text is not whole, if it is not.
    pub cut: Option<Cut>,
}

/// Why a text ends before its document does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// [`Limits::text_max`] was reached.
    Text,
    /// [`Limits::pages_max`] was reached.
    Pages,
    /// The child ran out of time on a later page.
    Time,
    /// The child ran out of memory on a later page.
    Memory,
    /// The child crashed on a later page.
    Crash,
}

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not a PDF, or so damaged that no object of it is found.
    #[error("not a PDF")]
    NotPdf,
    /// The document can only be read with a password.
    #[error("encrypted with a password")]
    Encrypted,
    /// The document has more than [`Limits::bytes_max`] bytes.
    #[error("larger than {0} bytes")]
    TooLarge(usize),
    /// No page that was read has text: the document is empty, or a scan without a text layer.
    #[error("no text")]
    NoText,
    /// The child needed more than [`Limits::cpu_max`] or [`Limits::wall_max`] before it had any text.
    #[error("out of time")]
    OutOfTime,
    /// The child needed more than [`Limits::memory_max`] before it had any text.
    #[error("out of memory")]
    OutOfMemory,
    /// The child ended in another way before it had any text.
    #[error("the child crashed: {0}")]
    Crashed(String),
    /// The child could not be started or talked to. The document is not to blame.
    #[error("the child could not be started: {0}")]
    Start(#[from] std::io::Error),
}
