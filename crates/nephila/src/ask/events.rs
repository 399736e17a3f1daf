//! `nephila log --events`: all events from any position on, as lines of JSON.
//!
//! Events of a crawl are read from its folder, whether or not the crawl runs; events of a cluster are requested from a
//! node.
//!
//! Invariant: a line of kind `position` comes after everything before that position was written; a reader that
//! continues from there misses nothing.

use std::io::Write;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::socket::ask_bytes;
use super::{on_terminal, out, print_json};
use crate::cli::ask::LogArgs;
use nephila_api::escaped;
use nephila_api::event_pages::local::Local;
use nephila_api::event_pages::{From, LOOK, Position, Wanted};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::process::{block_on, small_runtime};

/// Whether the arguments ask for events instead of the outcome log.
pub(super) fn are_wanted(args: &LogArgs) -> bool {
    args.events || args.stories || args.from.is_some() || !args.kind.is_empty() || args.remote.node.is_some()
}

/// Runs the command.
pub(super) fn run(args: &LogArgs) -> anyhow::Result<Exit> {
    let stories = args.stories.then_some("story");
    let wanted = Wanted::parse(args.kind.iter().map(String::as_str).chain(stories))?;
    let from = args.from.clone().unwrap_or_default();
    if let Some(node) = args.remote.open()? {
        let runtime = small_runtime()?;
        return pages(args.follow, from, &wanted, |target| block_on(&runtime, node.events(target)));
    }
    let folder = Folder::find(args.place.output.as_deref());
    folder.expect_crawl_or_node()?;
    if folder.is_node() {
        return pages(args.follow, from, &wanted, |target| {
            ask_bytes(&folder, &format!("GET {target}"), b"").context("asking the node")
        });
    }
    let mut local = Local::open(&folder, From::parse(&from))?;
    let mut out = out();
    loop {
        let page = local.read(&wanted)?;
        let moved = page.moved;
        if moved {
            print(&mut out, &page.whole())?;
            out.flush()?;
            continue;
        }
        if !args.follow || !is_read() {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK);
    }
}

/// Prints page after page, as returned by `ask`.
fn pages(
    follow: bool,
    mut from: String,
    wanted: &Wanted,
    mut ask: impl FnMut(&str) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Exit> {
    let wait = if follow { "20s" } else { "0s" };
    let mut out = out();
    loop {
        let target = format!("/api/v1/events?wait={wait}&kind={}&from={}", wanted.names(), escaped(&from));
        let page = ask(&target)?;
        let position = Position::of(&page).context("a page that does not say where to go on")?;
        let moved = position != from;
        if moved {
            print(&mut out, &page)?;
            out.flush()?;
        } else if !follow || !is_read() {
            return Ok(Exit::Done);
        }
        from = position;
    }
}

/// Whether standard output still has a reader. A process that writes nothing would not notice a closed pipe.
fn is_read() -> bool {
    let stdout = std::io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // If poll fails, assume a reader: the next write will tell.
    rustix::event::poll(&mut polled, Some(&at_once)).is_err() || !polled[0].revents().contains(PollFlags::ERR)
}

/// Prints lines unchanged; on a terminal, re-encodes them so that they cannot mislead the terminal.
fn print(out: &mut dyn Write, lines: &[u8]) -> anyhow::Result<()> {
    if !on_terminal() {
        out.write_all(lines)?;
        return Ok(());
    }
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        print_json(out, &serde_json::from_slice::<serde_json::Value>(line)?)?;
    }
    Ok(())
}
