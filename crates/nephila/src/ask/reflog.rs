//! `nephila add --reflog`: a stream of visited URLs into a crawl's folder, or to a node of a cluster.
//!
//! What always holds: a file is cut into parts by its own lines, so that whoever gives the same file again gives the same
//! parts, which count once; what was read is durable when it is said.

use std::io::{Read, Write};
use std::path::Path;

use nephila_core::reflog::part::first_part;

use super::socket::{STREAM_BYTES, Source};
use super::{out, print_json};
use crate::cli::cluster::AddArgs;
use crate::crawl::stream::StreamSaid;
use crate::exit::Exit;
use crate::folder::Folder;
use crate::human::count;

/// Read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// A read of fewer bytes has found a pipe that was not full.
const SHORT_BYTES: usize = 64 * 1024;

/// Runs the command.
pub(super) fn run(args: &AddArgs) -> anyhow::Result<Exit> {
    if args.remote.node.is_none() && args.output.is_none() {
        anyhow::bail!("where to? Name a node of a cluster with --node URL, or a crawl's folder with -o DIR");
    }
    let source = Source::open(Folder::find(args.output.as_deref()), &args.remote)?;
    let mut all = StreamSaid::default();
    for path in &args.reflog {
        let mut reader: Box<dyn Read> = match path.as_os_str() == "-" {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(std::fs::File::open(path).map_err(|error| unreadable(path, &error))?),
        };
        let (mut held, mut cut, mut is_end) = (Vec::new(), 0, false);
        // Those that are cut off and not given yet, and the number of the first of them.
        let (mut first, mut parts) = (0, 0);
        while !is_end {
            let from = held.len();
            held.resize(from + CHUNK_BYTES, 0);
            let got = reader.read(&mut held[from..]).map_err(|error| unreadable(path, &error))?;
            held.truncate(from + got);
            is_end = got == 0;
            while let Some(end) = first_part(&held[cut..], is_end) {
                (cut, parts) = (cut + end, parts + 1);
                if cut >= STREAM_BYTES {
                    break;
                }
            }
            // A short read: whoever writes is slower than we are, and what is there need not wait.
            if cut > 0 && (cut >= STREAM_BYTES || got < SHORT_BYTES) {
                let rest = held.split_off(cut);
                let text = std::mem::replace(&mut held, rest);
                all.plus(source.stream(&args.job, args.batch.as_deref(), first, text)?);
                (first, parts, cut) = (first + parts, 0, 0);
                // There may be more than one piece of it.
                is_end &= held.is_empty();
            }
        }
    }
    source.settled()?;
    let mut out = out();
    if args.json {
        print_json(&mut out, &all)?;
    } else {
        let StreamSaid { lines, urls, refused, unreadable } = all;
        let [lines, urls, refused, unreadable] = [lines, urls, refused, unreadable].map(count);
        writeln!(
            out,
            "{lines} lines: {urls} URLs after grouping, {refused} refused, {unreadable} unreadable"
        )?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::Error::new(Exit::Input).context(format!("{}: {error}", path.display()))
}
