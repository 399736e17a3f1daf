//! The program: reads flags and settings, plugs the parts together, speaks to people.
//!
//! `cli` says what can be asked, `settings` what is meant, `wire` builds the parts, and each command has a module of
//! its own: `fetch`, `verify`, `settings`, and `ask` for all that only ask. Exit codes are in `exit`.

use std::process::ExitCode;

pub mod api;
mod ask;
pub mod cli;
pub mod clock;
pub mod crawl;
pub mod exit;
pub mod fetch;
pub mod folder;
mod human;
mod introduce;
pub mod log;
pub mod memory;
pub mod node;
pub mod objects;
pub mod settings;
mod verify;
mod wire;
pub mod worker;

use cli::{Cli, Command};
use exit::Exit;

/// Runs a command to its end.
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Crawl(args) => crawl::run(*args),
        Command::Map(args) => crawl::map::run(*args),
        Command::Fetch(args) => fetch::run(*args),
        Command::Verify(args) => verify::run(&args),
        Command::Settings(args) => settings::run(&args),
        Command::Serve(args) => node::run(&args),
        Command::Job(command) => node::command::job(command),
        Command::Add(args) => node::command::add(&args),
        Command::Cluster(command) => node::command::cluster(command),
        Command::Ask(ask) => ask::run(ask),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The exit code speaks for itself; the words are for what happened.
            let words = error.chain().filter(|cause| !cause.is::<Exit>()).map(ToString::to_string);
            eprintln!("nephila: {}", words.collect::<Vec<_>>().join(": "));
            error.downcast_ref::<Exit>().copied().unwrap_or(Exit::Failed).into()
        }
    }
}
