//! What Nephila decides. No sockets, no files, no clock, no randomness, no async: time and bytes are arguments.

// Tests read golden files and measure time; what they test does neither (see clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types))]

#[cfg(test)]
mod chance;
pub mod cluster;
pub mod codec;
pub mod entry;
pub mod event;
pub mod feed;
pub mod fold;
pub mod frontier;
pub mod handler;
pub mod identity;
pub mod intake;
pub mod job;
pub mod orders;
pub mod planted;
pub mod recrawl;
pub mod reflog;
pub mod robots;
pub mod spider;
pub mod state;
pub mod store;
pub mod text;
pub mod time;
pub mod url;
