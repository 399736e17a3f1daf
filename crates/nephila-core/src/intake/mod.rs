//! The intake stage: URLs that others give us, in their formats.

pub mod reflog;
