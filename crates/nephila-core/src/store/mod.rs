//! The store stage: what an exchange becomes in the archive.
//!
//! An [`Exchange`] comes from the spider. [`head`] makes its response head fit for every public reader, [`redact`]
//! takes the secrets out of its request head, [`record`] writes the heads of the WARC records, [`cdxj`] the line of
//! the index, and [`roll`] says when a file is full and what the next one is called. All of it is pure: bytes in,
//! bytes out. Writing them to a disk is `nephila-store`'s work.

mod exchange;

pub mod cdxj;
pub mod digest;
pub mod head;
pub mod record;
pub mod redact;
pub mod roll;

pub use digest::Digest;
pub use exchange::{Exchange, Payload, Truncation};
