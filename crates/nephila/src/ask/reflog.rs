//! `nephila add --reflog`: sends a stream of visited URLs to a crawl's folder, or to a node of a cluster.
//!
//! Invariants: a file is cut into parts at fixed lines, so that the same file always gives the same parts, which are
//! deduplicated; all reported lines are durable.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::Path;

use nephila_core::reflog::part::first_part;
use nephila_core::reflog::{Batch, Decision, Record};
use nephila_core::time::Timestamp;
use serde::Serialize;

use super::socket::{STREAM_BYTES, Source};
use super::{out, print_json};
use crate::cli::cluster::AddArgs;
use nephila_api::{ForeseenSaid, NamedSaid};
use nephila_engine::crawl::stream::StreamSaid;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::human::count;

/// Size of a read in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// A read of fewer bytes indicates a pipe that was not full.
const SHORT_BYTES: usize = 64 * 1024;

/// Maximum number of URLs remembered in a dry run, so that later lines for the same URLs are decided as in a real run.
const DRY_URLS_MAX: usize = 1_000_000;

/// Runs the command.
pub(super) fn run(args: &AddArgs) -> anyhow::Result<Exit> {
    if args.remote.node.is_none() && args.output.is_none() {
        anyhow::bail!("where to? Name a node of a cluster with --node URL, or a crawl's folder with -o DIR");
    }
    let source = Source::open(Folder::find(args.output.as_deref()), &args.remote)?;
    let mut all = StreamSaid::default();
    let mut dry = args.dry_run.then(DryRun::default);
    for path in &args.reflog {
        let mut reader: Box<dyn Read> = match path.as_os_str() == "-" {
            true => Box::new(std::io::stdin().lock()),
            false => Box::new(std::fs::File::open(path).map_err(|error| unreadable(path, &error))?),
        };
        let (mut held, mut cut, mut is_end) = (Vec::new(), 0, false);
        // The number of the first part not yet sent, and the number of parts cut off since.
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
            // A short read: the writer is slower than this reader, so send the available parts now.
            if cut > 0 && (cut >= STREAM_BYTES || got < SHORT_BYTES) {
                let rest = held.split_off(cut);
                let text = std::mem::replace(&mut held, rest);
                match &mut dry {
                    Some(dry) => {
                        let foreseen = source.foresee(args.batch.as_deref(), first, &text)?;
                        all.plus(foreseen.said);
                        dry.print(&mut out(), foreseen)?;
                    }
                    None => all.plus(source.stream(&args.job, args.batch.as_deref(), first, text)?),
                }
                (first, parts, cut) = (first + parts, 0, 0);
                // More than one piece may be left.
                is_end &= held.is_empty();
            }
        }
    }
    source.settled()?;
    if let Some(dry) = &dry {
        let [sent, kept] = [dry.sent, dry.kept].map(count);
        let [lines, unreadable] = [all.lines, all.unreadable].map(count);
        eprintln!(
            "dry run: {lines} lines, {unreadable} unreadable: {sent} URLs would be sent on, {kept} not"
        );
        if dry.is_full {
            eprintln!("nephila: more than {DRY_URLS_MAX} URLs: those named twice behind them may be wrong");
        }
        return Ok(Exit::Done);
    }
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

/// State of a dry run, which changes nothing in the crawl: the records that earlier parts would leave for later ones.
#[derive(Default)]
struct DryRun {
    sent: u64,
    kept: u64,
    records: HashMap<String, Record>,
    /// Number of earlier parts in this run, for the numbering of batches.
    parts: u64,
    is_full: bool,
}

/// A line of a dry run: the fields of the seed's `filtered_log`, and more.
#[derive(Serialize)]
struct DryLine<'a> {
    url: &'a str,
    send: bool,
    /// Reason for the decision.
    why: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    tag: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    page: &'a str,
}

impl DryRun {
    fn print(&mut self, out: &mut dyn Write, foreseen: ForeseenSaid) -> anyhow::Result<()> {
        for (url, why) in &foreseen.kept_out {
            self.kept += 1;
            let line = DryLine { url, send: false, why, at: None, hits: None, tag: "", page: "" };
            print_json(out, &line)?;
        }
        for named in &foreseen.urls {
            let (send, why, hits) = self.decide(named)?;
            if send {
                self.sent += 1;
            } else {
                self.kept += 1;
            }
            print_json(
                out,
                &DryLine {
                    url: &named.url,
                    send,
                    why,
                    at: Some(Timestamp(named.at).warc_date()),
                    hits: Some(hits),
                    tag: &named.tag,
                    page: &named.page,
                },
            )?;
        }
        self.parts += 1;
        out.flush()?;
        Ok(())
    }

    /// Makes the decision of the partition's owner here. Returns the hits including waiting ones.
    fn decide(&mut self, named: &NamedSaid) -> anyhow::Result<(bool, &'static str, u64)> {
        let Some((number, at, previous)) = named.batch else {
            return Ok((false, "batch-taken-before", named.hits));
        };
        // Earlier parts of this run have a batch number each, at the same time.
        let previous = if self.parts > 0 { at } else { previous };
        let batch = Batch { number: number + self.parts, at: Timestamp(at), previous: Timestamp(previous) };
        let before = match self.records.get(&named.url) {
            Some(record) => Some(record.clone()),
            None => named.before.as_ref().map(|bytes| Record::from_bytes(bytes)).transpose()?,
        };
        let mut record = before.unwrap_or_default();
        let decision = record.handle_named(Timestamp(named.at), named.hits, &named.tag, &batch);
        if self.records.len() < DRY_URLS_MAX || self.records.contains_key(&named.url) {
            self.records.insert(named.url.clone(), record);
        } else {
            self.is_full = true;
        }
        Ok(match decision {
            Decision::Send { hits, reason } => (true, reason.name(), hits),
            Decision::Keep => (false, "within-the-hour", named.hits),
        })
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow::Error::new(Exit::Input).context(format!("{}: {error}", path.display()))
}
