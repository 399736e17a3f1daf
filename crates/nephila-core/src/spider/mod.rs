//! The spider stage: how a fetch may go, how it may end, what is never allowed.

pub mod address;
pub mod answer;
pub mod attempt;
pub mod auth;
pub mod coding;
pub mod cookie;
pub mod door;
pub mod head;
pub mod outcome;
pub mod reach;
mod settings;

pub use outcome::{Action, Class, Outcome};
pub use settings::{HttpVersion, Settings, TlsPolicy};
