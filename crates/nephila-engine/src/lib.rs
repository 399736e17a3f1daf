//! The crawler as a library.

pub mod clock;
pub mod crawl;
pub mod credentials;
pub mod exit;
pub mod folder;
pub mod human;
pub mod identity;
pub mod introduce;
pub mod log;
pub mod orders;
pub mod private;
pub mod process;
pub mod reach;
pub mod settings;
pub mod wire;
pub mod worker;
