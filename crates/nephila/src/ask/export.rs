//! `nephila export`: a crawl in the formats of other programs.

mod derived;
mod select;
mod wacz;
mod warc;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nephila_engine::crawl::tables::decode;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::human::{count, size};
use nephila_store::disk::RealDisk;
use nephila_tables::{Progress, Written};

use crate::cli::export::{ExportArgs, ExportCommand, SelectArgs, WaczArgs};
use select::{Out, Select};

/// Interval of progress messages.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Ending of a file that is being written.
const TEMPORARY: &str = ".part";

/// Runs the command.
pub(super) fn run(command: &ExportCommand) -> anyhow::Result<Exit> {
    match command {
        ExportCommand::Parquet(args) => parquet(args),
        ExportCommand::Wacz(args) => wacz(args),
        ExportCommand::Warc(args) => {
            selected(&args.select, &mut |select, out, say| warc::write(select, !args.keep_revisits, out, say))
        }
        ExportCommand::Wet(args) => selected(&args.select, &mut |select, out, say| {
            derived::write(select, derived::Kind::Text { is_main: args.main }, out, say)
        }),
        ExportCommand::Wat(args) => selected(&args.select, &mut |select, out, say| {
            derived::write(select, derived::Kind::Json, out, say)
        }),
    }
}

/// Writes selected captures, and says how far it is: bytes read, bytes in all.
type WriteSelected<'a> =
    dyn FnMut(&Select, &mut Out, &mut dyn FnMut(u64, u64)) -> anyhow::Result<Exported> + 'a;

/// Writes the selected captures.
fn selected(args: &SelectArgs, write: &mut WriteSelected<'_>) -> anyhow::Result<Exit> {
    let select = Select::new(archived(args.output.as_deref())?, args)?;
    let mut say = progress(args.quiet);
    let (exported, bytes) = Out::fill(&args.to, &mut |out| write(&select, out, &mut say))?;
    let Exported { captures, resolved, unresolved, media } = exported;
    warn_of_media(media);
    if unresolved > 0 {
        eprintln!(
            "nephila: {} revisits are copied as they are: their bodies are not in this archive, are in an object store, or are too large",
            count(unresolved)
        );
    }
    if !args.quiet {
        let to =
            if args.to == Path::new("-") { "standard output".into() } else { args.to.display().to_string() };
        let revisits =
            if resolved > 0 { format!(" ({} of them revisits)", count(resolved)) } else { String::new() };
        eprintln!("nephila: {to}: {} captures{revisits}, {}", count(captures), size(bytes));
    }
    Ok(if captures > 0 { Exit::Done } else { Exit::Failed })
}

/// What was exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Exported {
    captures: u64,
    /// Revisits that became responses.
    resolved: u64,
    /// Revisits that could not.
    unresolved: u64,
    /// Captures whose bodies are in an object store.
    media: u64,
}

/// Says that bodies in an object store are not part of what was written.
fn warn_of_media(captures: u64) {
    if captures > 0 {
        eprintln!(
            "nephila: {} captures are exported without their bodies, which are in the object store (docs/media.md)",
            count(captures)
        );
    }
}

/// Says from time to time how far it is: bytes done, bytes in all.
fn progress(is_quiet: bool) -> impl FnMut(u64, u64) {
    let mut said = Instant::now();
    move |done, all| {
        if !is_quiet && said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            eprintln!("nephila: {} of {} so far", size(done), size(all));
        }
    }
}

/// The closed archive files of a crawl, and their size in bytes.
fn closed_files(folder: &Folder) -> anyhow::Result<(Vec<PathBuf>, u64)> {
    let files = nephila_tables::Folder::new(folder.dir(), None).files()?;
    if files.is_empty() {
        let dir = folder.dir().display();
        bail!("{dir} has no closed archive file: let the crawl end, or wait for the next file");
    }
    let lengths = files.iter().map(|file| file.metadata().map(|it| it.len()).unwrap_or_default());
    let bytes = lengths.sum();
    Ok((files, bytes))
}

/// Fills a file, which has its name only when it is complete. Refuses a target that is no file before all the work:
/// renaming would replace a device or a pipe, or fail.
fn replaced<T>(to: &Path, fill: impl FnOnce(&Path) -> anyhow::Result<T>) -> anyhow::Result<T> {
    match to.metadata() {
        Ok(about) if about.is_dir() => bail!("{} is a folder: name a file in it with --to", to.display()),
        Ok(about) if !about.is_file() => bail!("{} is no ordinary file: name one with --to", to.display()),
        _ => {}
    }
    let temporary = PathBuf::from(format!("{}{TEMPORARY}", to.display()));
    let filled = fill(&temporary).and_then(|filled| {
        std::fs::rename(&temporary, to).with_context(|| format!("renaming {}", temporary.display()))?;
        Ok(filled)
    });
    if filled.is_err() {
        // It may be what filled the disk.
        let _ = std::fs::remove_file(&temporary);
    }
    filled
}

/// The folder of a crawl that has an archive.
fn archived(output: Option<&Path>) -> anyhow::Result<Folder> {
    let folder = Folder::find(output);
    if !folder.archive().is_dir() {
        bail!("{} holds no archive: name the folder of a crawl with -o DIR", folder.dir().display());
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
    let mut say = progress(args.quiet);
    let wacz::Written { files, captures, pages, bytes, media } =
        wacz::write(&folder, &to, args.text, &mut say)?;
    warn_of_media(media);
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

#[cfg(test)]
mod tests;
