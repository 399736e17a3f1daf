//! The store stage: from an exchange to bytes of the archive.
//!
//! An [`Exchange`] comes from the spider. [`head`] makes its response head readable for every public reader, [`redact`]
//! removes secrets from its request head, [`record`] writes the heads of the WARC records, [`cdxj`] the line of the
//! index, and [`roll`] decides when a file is full and how the next one is named. [`media`] decides which bodies go to an
//! object store instead. [`mhtml`] writes a page and its resources as one file. Everything here is pure: bytes in, bytes
//! out. `nephila-store` writes them to a disk.

mod exchange;

pub mod cdxj;
pub mod digest;
pub mod head;
pub mod media;
pub mod mhtml;
pub mod record;
pub mod redact;
pub mod roll;

pub use crate::notes::Notes;
pub use digest::Digest;
pub use exchange::{Exchange, Payload, Truncation};
pub use media::Media;
