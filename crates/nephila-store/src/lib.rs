//! Talks to disks: writes the archive, reads it, checks it.
//!
//! [`archive`] takes exchanges and acknowledges each once it is safe on disk; [`warc`] reads WARC files of any
//! compression; [`captures`] finds what was fetched from a URL; [`contents`] lists what belongs to a folder; [`verify`] checks strictly; [`index`] sorts and merges
//! CDXJ; [`disk`] is the only place that changes anything on a disk, so that a test can make every such call fail.

pub mod archive;
pub mod captures;
pub mod contents;
pub mod derive;
pub mod disk;
pub mod index;
pub mod journal;
pub mod runs;
pub mod state;
pub mod verify;
pub mod warc;
