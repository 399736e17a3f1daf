//! Tidy: tests about the code as text and as a graph. They run with all other tests.
//!
//! Every check is a function from data to a list of complaints, so that each can be shown a planted violation. A
//! complaint names the file or package and the remedy.

mod circles;
mod direction;
mod purity;
mod text;

use crate::tree::files;

/// Fails with all complaints at once.
#[track_caller]
fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}
