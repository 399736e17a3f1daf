//! `nephila list`: downloads and stories of a crawl as rows, page by page.
//!
//! Invariants: one page is in memory at a time; a list that ends early prints the cursor to continue with.

use std::io::Write;

use super::out;
use super::socket::Source;
use crate::cli::ask::TableFormat;
use crate::cli::list::{ListCommand, PagesArgs};
use crate::table::{Cell, Column, Table};
use nephila_api::{DownloadSaid, ListSaid, PAGE_MAX, StorySaid};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;

const DOWNLOADS: [Column; 9] = [
    ("state", 8),
    ("type", 7),
    ("status", 6),
    ("outcome", 16),
    ("at", 20),
    ("next", 20),
    ("depth", 5),
    ("retries", 7),
    ("url", 0),
];
const STORIES: [Column; 6] =
    [("source", 20), ("found", 20), ("published", 20), ("feed", 40), ("url", 48), ("title", 0)];

/// Runs the command.
pub(super) fn run(command: &ListCommand) -> anyhow::Result<Exit> {
    match command {
        ListCommand::Downloads(args) => {
            let ask = |source: &Source, from: Option<&str>, max| {
                source.downloads(args.state.as_deref(), args.of.as_deref(), from, max)
            };
            pages(&args.pages, &DOWNLOADS, ask, download)
        }
        ListCommand::Stories(args) => {
            let ask =
                |source: &Source, from: Option<&str>, max| source.stories(args.source.as_deref(), from, max);
            pages(&args.pages, &STORIES, ask, story)
        }
    }
}

fn pages<T>(
    args: &PagesArgs,
    columns: &[Column],
    ask: impl Fn(&Source, Option<&str>, usize) -> anyhow::Result<ListSaid<T>>,
    cells: impl Fn(T) -> Vec<Cell>,
) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.place.output.as_deref());
    let source = Source::to_read(folder, &crate::cli::Remote::default())?;
    let format = if args.place.json { TableFormat::Json } else { args.format };
    let mut out = out();
    let mut table = Table::begin(&mut out, format, columns)?;
    let mut from = args.from.clone();
    let mut left = args.limit.unwrap_or(u64::MAX);
    loop {
        let max = usize::try_from(left).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let ListSaid { rows, next } = ask(&source, from.as_deref(), max)?;
        left = left.saturating_sub(rows.len() as u64);
        for row in rows {
            table.row(&cells(row))?;
        }
        from = next;
        if from.is_none() || left == 0 {
            break;
        }
    }
    let some = table.rows() > 0;
    table.finish()?;
    out.flush()?;
    if let Some(cursor) = from {
        eprintln!("nephila: there is more: go on with --from {cursor}");
    }
    Ok(if some { Exit::Done } else { Exit::Failed })
}

fn download(row: DownloadSaid) -> Vec<Cell> {
    vec![
        row.state.into(),
        row.of.into(),
        row.status.map(u64::from).into(),
        row.outcome.into(),
        row.at.into(),
        row.next.into(),
        u64::from(row.depth).into(),
        u64::from(row.retries).into(),
        row.url.into(),
    ]
}

fn story(row: StorySaid) -> Vec<Cell> {
    let title = (!row.title.is_empty()).then_some(row.title);
    vec![
        row.source.into(),
        row.found.into(),
        row.published.into(),
        row.feed.into(),
        row.url.into(),
        title.into(),
    ]
}
