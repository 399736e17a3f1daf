//! What proves a state on disk: a log that can be made again from any group on, and a machine that stops anywhere.
//!
//! For tests here, for `examples/state_proof` and through it for `cargo xtask state`. Behind the feature `test-util`.

pub mod crash;
pub mod workload;

pub use workload::Workload;
