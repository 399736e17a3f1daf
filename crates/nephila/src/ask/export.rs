//! `nephila export`: a crawl in the formats of other programs.

mod wacz;

use std::path::Path;
use std::time::{Duration, Instant};

use nephila_engine::crawl::tables::decode;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::human::{count, size};
use nephila_store::disk::RealDisk;
use nephila_tables::{Progress, Written};

use crate::cli::{ExportArgs, ExportCommand, WaczArgs};

/// Interval of progress messages.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Runs the command.
pub(super) fn run(command: &ExportCommand) -> anyhow::Result<Exit> {
    match command {
        ExportCommand::Parquet(args) => parquet(args),
        ExportCommand::Wacz(args) => wacz(args),
    }
}

/// The folder of a crawl that has an archive.
fn archived(output: Option<&Path>) -> anyhow::Result<Folder> {
    let folder = Folder::find(output);
    if !folder.archive().is_dir() {
        anyhow::bail!("{} holds no archive: name the folder of a crawl with -o DIR", folder.dir().display());
    }
    Ok(folder)
}

fn wacz(args: &WaczArgs) -> anyhow::Result<Exit> {
    let folder = archived(args.output.as_deref())?;
    let to = match &args.to {
        Some(to) => to.clone(),
        None => {
            let dir = folder.dir().canonicalize().unwrap_or_else(|_| folder.dir().to_owned());
            let mut name = dir.file_name().unwrap_or_default().to_owned();
            name.push(".wacz");
            name.into()
        }
    };
    let mut said = Instant::now();
    let mut say = |done: u64, all: u64| {
        if !args.quiet && said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            eprintln!("nephila: {} of {} so far", size(done), size(all));
        }
    };
    let wacz::Written { files, captures, pages, bytes } = wacz::write(&folder, &to, args.text, &mut say)?;
    if !args.quiet {
        eprintln!(
            "nephila: {}: {} archive files with {} captures and {} pages, {}",
            to.display(),
            count(files as u64),
            count(captures),
            count(pages),
            size(bytes)
        );
    }
    Ok(Exit::Done)
}

fn parquet(args: &ExportArgs) -> anyhow::Result<Exit> {
    let folder = archived(args.output.as_deref())?;
    let tables = nephila_tables::Folder::new(folder.dir(), args.to.as_deref());
    let mut said = Instant::now();
    let mut go_on = |Progress { done, all }: Progress| {
        if !args.quiet && said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            eprintln!("nephila: {} of {} archive files so far", count(done), count(all));
        }
        true
    };
    let Written { files, skipped, part, failed } = tables.write_missing(&RealDisk, &decode, &mut go_on)?;
    for error in &failed {
        eprintln!("nephila: no tables of this file: {error}: `nephila verify` says more");
    }
    if !args.quiet {
        eprintln!(
            "nephila: {} captures and {} links of {} archive files written, {}; {} files had their tables: {}",
            count(part.captures),
            count(part.links),
            count(files),
            size(part.bytes),
            count(skipped),
            tables.tables().display()
        );
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::Failed })
}
