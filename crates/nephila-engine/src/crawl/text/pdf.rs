//! The text of PDF files.
//!
//! A program that can be its own child says so with [`set_reader`]; in other programs a PDF has no text.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Article;

/// Maximum size in bytes of a PDF whose text is extracted.
pub const BYTES_MAX: usize = 32 << 20;
/// Maximum number of child processes while crawling. Each may use 256 MiB of memory.
const AT_ONCE: usize = 2;

static ROOM: Semaphore = Semaphore::const_new(AT_ONCE);

/// Waits for room for a child process.
pub(super) async fn room() -> SemaphorePermit<'static> {
    ROOM.acquire().await.expect("never closed")
}

#[cfg(feature = "pdf")]
mod parent {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    use std::time::Duration;

    use nephila_pdf::{Limits, Reader};

    use super::super::{FIELD_BYTES_MAX, TEXT_BYTES_MAX, TIME_MAX, cut};
    use super::{Article, BYTES_MAX};

    static READER: OnceLock<Reader> = OnceLock::new();

    /// Sets the program that reads a PDF from its standard input when started with this argument: its `main` calls
    /// `nephila_pdf::child` then.
    pub fn set_reader(program: PathBuf, argument: &str) {
        let limits = Limits {
            bytes_max: BYTES_MAX,
            text_max: TEXT_BYTES_MAX,
            // The reader is abandoned at the end of that time.
            wall_max: TIME_MAX - Duration::from_secs(1),
            cpu_max: TIME_MAX / 2,
            ..Limits::default()
        };
        _ = READER.set(Reader::new(program, [argument], limits));
    }

    /// Whether this program reads PDF files.
    pub fn is_read() -> bool {
        READER.get().is_some()
    }

    /// The text of a PDF, if it has one and this program reads PDF files.
    pub fn read(pdf: &[u8]) -> Option<Article> {
        match READER.get()?.read(pdf) {
            Ok(pdf) => {
                let field = |text: &str| cut(text.trim(), FIELD_BYTES_MAX).to_owned();
                let text = cut(pdf.text.trim(), TEXT_BYTES_MAX).to_owned();
                Some(Article { title: field(&pdf.title), text, ..Article::default() })
            }
            Err(error) => {
                tracing::debug!("the PDF has no text: {error}");
                None
            }
        }
    }
}

#[cfg(feature = "pdf")]
pub use nephila_pdf::child;
#[cfg(feature = "pdf")]
pub use parent::{is_read, read, set_reader};

/// Without the feature `pdf` no PDF file is read.
#[cfg(not(feature = "pdf"))]
pub fn is_read() -> bool {
    false
}

/// Without the feature `pdf` no PDF file has a text.
#[cfg(not(feature = "pdf"))]
pub fn read(_pdf: &[u8]) -> Option<Article> {
    None
}
