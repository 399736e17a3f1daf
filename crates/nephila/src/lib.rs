//! The program: reads flags and settings, plugs the parts together, speaks to people.
//!
//! `cli` says what can be asked, `settings` what is meant, `wire` builds the parts, and each command has a module of
//! its own: `fetch`, `verify`, `settings`. Exit codes are in `exit`.

use std::process::ExitCode;

pub mod cli;
pub mod clock;
pub mod exit;
pub mod fetch;
pub mod folder;
pub mod log;
pub mod memory;
pub mod settings;
mod verify;
mod wire;
pub mod worker;

use cli::{Cli, Command};
use exit::Exit;

/// Runs a command to its end.
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Fetch(args) => fetch::run(*args),
        Command::Verify(args) => verify::run(&args),
        Command::Settings(args) => settings::run(&args),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("nephila: {error:#}");
            error.downcast_ref::<Exit>().copied().unwrap_or(Exit::Failed).into()
        }
    }
}
