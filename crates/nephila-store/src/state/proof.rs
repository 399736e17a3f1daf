//! Tools for proofs of the state on disk: a reproducible log, and a machine that can stop anywhere.
//!
//! For tests here, for `examples/state_proof` and through it for `cargo xtask state`. Behind the feature `test-util`.

pub mod crash;
pub mod workload;

pub use workload::Workload;
