//! The spider stage: settings and limits of a fetch, outcomes, and the addresses and ports that are never dialled.

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
