//! Storage on disk: writes, reads and checks the archive.
//!
//! [`archive`] accepts exchanges and acknowledges each once its records are durable; [`warc`] reads WARC files of any
//! compression; [`captures`] finds the captures of a URL; [`contents`] lists the files of a folder; [`verify`] checks
//! strictly; [`index`] sorts and merges CDXJ; [`disk`] is the only place that changes a disk, so that a test can make
//! every such call fail.

pub mod archive;
pub mod captures;
pub mod contents;
mod deflate;
pub mod derive;
pub mod disk;
pub mod index;
pub mod journal;
pub mod runs;
pub mod state;
pub mod verify;
pub mod warc;
