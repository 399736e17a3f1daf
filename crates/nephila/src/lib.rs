//! The program: parses flags and settings, connects the parts, prints for people.
//!
//! `cli` defines the command line, `settings` the settings, `wire` builds the parts, and each command has a module of
//! its own: `fetch`, `verify`, `settings`, and `ask` for all queries. Exit codes are in `exit`.

use std::process::ExitCode;

mod ask;
pub mod cli;
mod command;
pub mod fetch;
mod logging;
pub mod memory;
mod table;
mod verify;

use cli::{Cli, Command};
use nephila_engine::exit::Exit;

/// Runs a command to its end.
pub fn run(cli: Cli) -> ExitCode {
    logging::install();
    let result = match cli.command {
        Command::Crawl(args) => command::crawl::run(*args),
        Command::Map(args) => command::map::run(*args),
        Command::Fetch(args) => fetch::run(*args),
        Command::Verify(args) => verify::run(&args),
        Command::Extract(args) => ask::extract::run(&args),
        Command::Export(command) => ask::export(&command),
        Command::Sql(args) => ask::sql(&args),
        Command::Top(args) => ask::top(&args),
        Command::Mcp(args) => ask::mcp(&args),
        Command::Completions(args) => command::completions::run(args),
        Command::Man(args) => command::man::run(&args),
        Command::Settings(args) => command::settings::run(&args),
        Command::Identity(command) => command::identity::run(&command),
        Command::Serve(args) => command::serve::run(&args),
        Command::Spider(args) => command::spider::spider(args),
        Command::Stop(command) => command::cluster::stop(command),
        Command::Job(command) => command::cluster::job(command),
        Command::Add(mut args) => args.settle().and_then(|()| match &args {
            args if !args.reflog.is_empty() => ask::reflog(args),
            args if args.output.is_some() => ask::add(args),
            args => command::cluster::add(args),
        }),
        Command::Feed(command) => ask::feed(command),
        Command::Link(command) => ask::link(&command),
        Command::List(command) => ask::list(&command),
        Command::Cluster(command) => command::cluster::cluster(command),
        Command::Ask(ask) => ask::run(ask),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The exit code needs no words; the message describes the cause.
            let words = error.chain().filter(|cause| !cause.is::<Exit>()).map(ToString::to_string);
            tracing::error!("{}", words.collect::<Vec<_>>().join(": "));
            error.downcast_ref::<Exit>().copied().unwrap_or(Exit::Failed).into()
        }
    }
}
