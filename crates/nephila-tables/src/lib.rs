//! A crawl as tables: every capture a row, every link a row, in Parquet files that other programs read.
//!
//! One WARC file becomes up to four files of tables. [`records`] reads the file and joins the records of one capture;
//! [`capture`] and [`link`] are the rows, made by [`rows`] with the parts of [`host`], [`usage`] and [`simhash`];
//! [`parquet`] turns rows into bytes; [`part`] writes the files of one WARC file into a folder, and [`folder`] those of a
//! whole archive. [`query`] reads tables back, for the reports of the program.
//!
//! Invariants: the tables are a function of the WARC file. Neither the clock nor the order of a hash map nor another
//! file has a say, so the same version of this crate writes the same bytes, always. Memory is bounded by
//! [`parquet::GROUP_ROWS_MAX`] and [`parquet::GROUP_BYTES_MAX`] for each open table and by [`records::BODY_BYTES_MAX`].

pub mod capture;
pub mod folder;
pub mod host;
pub mod language;
pub mod link;
pub mod parquet;
pub mod part;
pub mod query;
pub mod records;
pub mod rows;
pub mod simhash;
mod table;
pub mod usage;

pub use capture::{CaptureRow, Subset};
pub use folder::{Folder, Progress, Written};
pub use link::LinkRow;
pub use part::PageRow;
pub use rows::Decode;

/// Version of the tables. A higher one replaces files of a lower one.
pub const VERSION: u32 = 2;

/// Why tables could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written: free the disk or mend the permissions, and run the command again.
    #[error("{doing} {path}", path = .path.display())]
    Io {
        /// What was done.
        doing: &'static str,
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A record of the WARC file is damaged; `nephila verify` says more. No tables are written for this file.
    #[error("{path}: {source}", path = .path.display())]
    Record {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: nephila_store::warc::Error,
    },
    /// A table could not be read: remove the file and run `nephila export parquet`, which writes the file again.
    #[error("{path}: {source}", path = .path.display())]
    Table {
        /// The file.
        path: std::path::PathBuf,
        /// The cause.
        #[source]
        source: ::parquet::errors::ParquetError,
    },
}

impl Error {
    fn io(doing: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { doing, path, source }
    }

    fn table(path: &std::path::Path) -> impl FnOnce(::parquet::errors::ParquetError) -> Error {
        let path = path.to_owned();
        move |source| Error::Table { path, source }
    }
}
