//! The intake stage: URLs from external sources, in their formats.

pub mod reflog;
