//! `nephila politeness`: checks whether every site was crawled as gently as promised.
//!
//! `report` uses our own log, `check` the log of a site. Neither uses the frontier, which made the promises: each line
//! of our log carries the crawl delay that was promised when its request began.

use std::io::Write;

use nephila_api::judge::Judge;
use nephila_api::log_view::Filter;
use nephila_core::frontier::slot::SlotKey;

use super::{out, print_json, settings_of, time};
use crate::cli::ask::{PageFormat, PolitenessReportArgs, SlotShowArgs};
use nephila_engine::clock::Clock;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::log::{Lines, Merged};

mod access;
mod check;
mod page;

pub(super) use check::run as check;

/// `nephila politeness report`.
pub(super) fn report(args: &PolitenessReportArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    let mut logs = Vec::new();
    for folder in std::iter::once(folder.clone()).chain(args.also.iter().map(Folder::new)) {
        if !folder.logs().is_dir() {
            folder.expect_crawl_or_node()?;
        }
        logs.push(folder.logs());
    }
    let now = Clock::new().now().wall;
    let from = args.from.as_deref().map(|text| time::since(text, now)).transpose()?;
    let to = args.to.as_deref().map(time::until).transpose()?;
    let filter = Filter::of_host(args.host.as_deref()).between(from, to);
    let settings = settings_of(&folder)?;
    let mut judge = Judge::new(settings.frontier.host_connections, settings.frontier.slot_connections);
    // A host moves from node to node, and several nodes may use a slot: only the merged logs show the delays.
    let mut lines = Merged::of(&logs)?;
    for line in lines.by_ref() {
        let line = line?;
        if filter.takes(&line) {
            judge.line(&line);
        }
    }
    let judged = judge.finish();
    let about = page::About {
        host: args.host.clone(),
        skipped: lines.skipped(),
        folders: logs.len(),
        made: now.warc_date(),
        agent: settings.identity.user_agent(),
    };
    let mut out = out();
    match args.format {
        PageFormat::Json => print_json(&mut out, &judged)?,
        PageFormat::Text if args.place.json => print_json(&mut out, &judged)?,
        PageFormat::Text => page::text(&mut out, &judged, &about)?,
        PageFormat::Html => page::html(&mut out, &judged, &about)?,
    }
    out.flush()?;
    Ok(if judged.is_clean() { Exit::Done } else { Exit::Failed })
}

/// `nephila slot show`: one address, from the log.
pub(super) fn slot(args: &SlotShowArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    if !folder.logs().is_dir() {
        folder.expect_crawl_or_node()?;
    }
    let settings = settings_of(&folder)?;
    let slot = SlotKey::of(args.address);
    let mut judge = Judge::new(settings.frontier.host_connections, settings.frontier.slot_connections);
    for line in Lines::of(&folder.logs())? {
        let line = line?;
        if line.address.is_some_and(|address| SlotKey::of(address) == slot) {
            judge.line(&line);
        }
    }
    let judged = judge.finish();
    let mut out = out();
    if args.place.json {
        print_json(&mut out, &judged)?;
    } else {
        let about = page::About {
            host: None,
            skipped: 0,
            folders: 1,
            made: String::new(),
            agent: settings.identity.user_agent(),
        };
        writeln!(out, "{slot}, asked under {} names", judged.hosts.len())?;
        page::text(&mut out, &judged, &about)?;
    }
    out.flush()?;
    Ok(if judged.requests > 0 { Exit::Done } else { Exit::Failed })
}
