//! Queries about a crawl: its captures, its log, its politeness, and the state of a URL.
//!
//! Each command has a module. The commands read the folder's files, which they share with a running crawl; only `add`,
//! `export`, `extract`, `feed` and `reflog` write anything. Exit codes are those of grep.
//!
//! Invariant: text of third parties reaches a terminal only through [`nephila_core::text::shown`].

use std::io::{self, BufWriter, IsTerminal, Write};

use anyhow::Context;

use crate::cli::ask::{Ask, HostCommand, PolitenessCommand, ReportArgs, SlotCommand, What};
use crate::table::json;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::settings::Settings;

mod add;
pub(crate) mod captures;
mod doctor;
mod events;
mod explain;
mod export;
pub(crate) mod extract;
mod feed;
mod feed_check;
mod link;
mod list;
mod log;
mod mcp;
mod politeness;
mod reflog;
mod report;
mod socket;
mod sql;
mod summary;
mod time;
mod top;

/// Runs `nephila export`.
pub(crate) fn export(command: &crate::cli::export::ExportCommand) -> anyhow::Result<Exit> {
    ended(export::run(command))
}

/// Runs `nephila sql`.
pub(crate) fn sql(args: &crate::cli::SqlArgs) -> anyhow::Result<Exit> {
    ended(sql::run(args))
}

/// Runs `nephila top`.
pub(crate) fn top(args: &crate::cli::top::TopArgs) -> anyhow::Result<Exit> {
    ended(top::run(args))
}

/// Runs `nephila mcp`.
pub(crate) fn mcp(args: &crate::cli::mcp::McpArgs) -> anyhow::Result<Exit> {
    ended(mcp::run(args))
}

/// Runs `nephila feed`.
pub(crate) fn feed(command: crate::cli::feed::FeedCommand) -> anyhow::Result<Exit> {
    ended(feed::run(command))
}

/// Runs `nephila list`.
pub(crate) fn list(command: &crate::cli::list::ListCommand) -> anyhow::Result<Exit> {
    ended(list::run(command))
}

/// Runs `nephila link`.
pub(crate) fn link(command: &crate::cli::link::LinkCommand) -> anyhow::Result<Exit> {
    ended(link::run(command))
}

/// Runs `nephila add` for a crawl's folder.
pub(crate) fn add(args: &crate::cli::cluster::AddArgs) -> anyhow::Result<Exit> {
    ended(add::run(args))
}

/// Runs `nephila add --reflog`.
pub(crate) fn reflog(args: &crate::cli::cluster::AddArgs) -> anyhow::Result<Exit> {
    ended(reflog::run(args))
}

/// Runs a query. An error without its own exit code gives exit code 2.
pub(crate) fn run(ask: Ask) -> anyhow::Result<Exit> {
    let answered = match ask {
        Ask::Read(args) => captures::read(&args),
        Ask::Cdx(args) => captures::cdx(&args),
        Ask::Log(args) if events::are_wanted(&args) => events::run(&args),
        Ask::Log(args) => log::run(&args),
        Ask::Report(args) => report::run(&args),
        Ask::Stats(args) => report::stats(&args),
        Ask::Politeness(PolitenessCommand::Report(args)) => politeness::report(&args),
        Ask::Politeness(PolitenessCommand::Check(args)) => politeness::check(&args),
        Ask::Explain(args) => explain::run(&args),
        Ask::Host(HostCommand::Set(args)) => crate::command::cluster::host_set(&args),
        Ask::Host(HostCommand::Show(args)) => explain::host(&args),
        Ask::Host(HostCommand::List(args)) => report::run(&ReportArgs {
            what: What::Hosts,
            broken: false,
            host: None,
            limit: args.limit,
            format: args.format,
            place: args.place,
        }),
        Ask::Slot(SlotCommand::Show(args)) => politeness::slot(&args),
        Ask::Doctor(args) => doctor::run(&args),
    };
    ended(answered)
}

fn ended(answered: anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    match answered {
        // The reader has closed the pipe, as `head` does.
        Err(error) if is_broken_pipe(&error) => Ok(Exit::Done),
        Err(error) if error.downcast_ref::<Exit>().is_some() => Err(error),
        Err(error) => Err(nephila_engine::settings::usage(error)),
        Ok(exit) => Ok(exit),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(broken))
}

/// The settings of the folder's last crawl, or the defaults.
fn settings_of(folder: &Folder) -> anyhow::Result<Settings> {
    let path = folder.settings();
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).with_context(|| path.display().to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Settings::default()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Buffered standard output.
fn out() -> BufWriter<io::StdoutLock<'static>> {
    BufWriter::with_capacity(64 * 1024, io::stdout().lock())
}

/// Whether standard output is a terminal.
fn on_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints a line of JSON.
fn print_json(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    writeln!(out, "{}", json(value))
}
