//! The commands that crawl and that speak to a cluster. `fetch`, `verify` and the queries of `ask` are beside them.

pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod crawl;
pub(crate) mod identity;
pub(crate) mod inputs;
pub(crate) mod man;
pub(crate) mod map;
mod out;
mod progress;
mod report;
pub(crate) mod resolved;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod spider;
