//! Remote spiders, version 1: programs of others that fetch URLs for a node, by the two text protocols and the binary
//! store message of the seeds. `docs/store-v1.md` describes them for somebody who writes a spider.
//!
//! [`line`](mod@line) is the control connection: the node sends URLs, the spider answers `DONE` or `WORKING`.
//! [`record`] is the store connection: the results of fetches. [`desk`] decides which spider gets which URL, when a URL
//! is sent again, and when the node gives up; it is a state machine without sockets and without a clock. [`v2`] is another
//! protocol, for our own spiders.

pub mod desk;
#[cfg(test)]
mod docs_tests;
pub mod line;
pub mod record;
pub mod v2;

/// Maximum length of a URL in bytes, in lines and in records.
pub const URL_BYTES_MAX: usize = 8_192;

/// Whether these bytes can stand in a line as one field: visible ASCII, no space, no control byte, not empty.
pub(crate) fn is_field(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic)
}
