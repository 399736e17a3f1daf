//! The spider stage: how a fetch may go, how it may end, what is never allowed.

pub mod address;
pub mod answer;
pub mod attempt;
pub mod coding;
pub mod cookie;
pub mod head;
pub mod outcome;
mod settings;

pub use outcome::{Action, Class, Outcome};
pub use settings::{HttpVersion, Settings, TlsPolicy};
