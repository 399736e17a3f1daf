//! `nephila verify`: our own strict check of archives.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use nephila_cluster::media::MediaStore;
use nephila_cluster::objects::Error;
use nephila_store::verify::{FINDINGS_MAX, Finding, Kind, Report, verify_path};
use serde::Serialize;

use crate::cli::VerifyArgs;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::folder::inspect::{self, inspect};
use nephila_engine::process::{block_on, small_runtime};
use nephila_engine::settings::usage;

/// A defect as a JSON line.
#[derive(Serialize)]
struct Line<'a> {
    file: String,
    offset: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a str>,
    defect: &'static str,
    message: &'a str,
}

/// Runs the check and prints the findings.
pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    let (mut files, mut records, mut bytes, mut found, mut objects) = (0, 0, 0, 0, 0);
    for path in &args.paths {
        if path.is_file() && path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("wacz")) {
            return Err(usage(anyhow::anyhow!(
                "{0}: a WACZ file is checked unpacked: unzip {0} -d FOLDER, then nephila verify FOLDER",
                path.display()
            )));
        }
        let report =
            verify_path(path).map_err(|error| usage(anyhow::anyhow!("{}: {error}", path.display())))?;
        files += report.files;
        records += report.records;
        bytes += report.bytes;
        found += report.findings_total;
        for finding in &report.findings {
            print(&mut out, finding, args.json)?;
        }
        if args.media {
            let damaged = media(args, path, &report)?;
            objects += report.media.len();
            found += damaged.len() as u64;
            for finding in damaged.iter().take(FINDINGS_MAX) {
                print(&mut out, finding, args.json)?;
            }
            if report.media_left_out > 0 {
                anyhow::bail!("{} records name objects that were not read: too many", report.media_left_out);
            }
        }
        for finding in state(path)? {
            found += 1;
            print(&mut out, &finding, args.json)?;
        }
        let unlisted = report.findings_total - report.findings.len() as u64;
        if unlisted > 0 {
            eprintln!("nephila: {}: {unlisted} more defects are not listed", path.display());
        }
    }
    if !args.json {
        let defects = match found {
            0 => "no defect".to_owned(),
            1 => "1 defect".to_owned(),
            many => format!("{many} defects"),
        };
        let objects = if args.media { format!(", {objects} objects") } else { String::new() };
        writeln!(out, "{files} files, {records} records, {bytes} bytes{objects}: {defects}")?;
    }
    Ok(if found == 0 { Exit::Done } else { Exit::Failed })
}

/// Findings about the objects that hold bodies of captures.
fn media(args: &VerifyArgs, path: &Path, report: &Report) -> anyhow::Result<Vec<Finding>> {
    if report.media.is_empty() {
        return Ok(Vec::new());
    }
    let kept = Folder::new(path).settings();
    let settings = args.common.load_from(Some(&*kept).filter(|kept| kept.is_file()))?;
    let store = MediaStore::open(&settings)?
        .with_context(|| format!("{}: media.to does not say where the bodies are", path.display()))?;
    let runtime = small_runtime()?;
    let mut findings = Vec::new();
    for (media, named) in &report.media {
        let kind = match block_on(&runtime, store.verify(media)) {
            Ok(()) => continue,
            Err(error @ Error::Missing { .. }) => (Kind::MediaGone, error),
            Err(error @ Error::Damaged { .. }) => (Kind::MediaDamaged, error),
            Err(error) => return Err(error.into()),
        };
        findings.push(Finding {
            file: named.file.clone(),
            offset: named.offset,
            record: named.record.clone(),
            kind: kind.0,
            message: kind.1.to_string(),
        });
    }
    Ok(findings)
}

/// Findings about the state of a crawl, if this path is the folder of one.
fn state(path: &Path) -> anyhow::Result<Vec<Finding>> {
    let folder = Folder::new(path);
    if !path.is_dir() || folder.is_node() {
        return Ok(Vec::new());
    }
    let found = inspect(&folder, folder.is_held())?.into_iter();
    let finding = |found: inspect::Finding| Finding {
        file: found.file,
        offset: 0,
        record: None,
        kind: Kind::State,
        message: found.text,
    };
    Ok(found.map(finding).collect())
}

fn print(out: &mut impl Write, finding: &Finding, json: bool) -> anyhow::Result<()> {
    let Finding { file, offset, record, kind, message } = finding;
    if json {
        let file = file.display().to_string();
        serde_json::to_writer(
            &mut *out,
            &Line { file, offset: *offset, record: record.as_deref(), defect: kind.name(), message },
        )?;
        writeln!(out)?;
    } else {
        writeln!(
            out,
            "{}:{offset}: {}: {}",
            file.display(),
            kind.name(),
            nephila_core::text::shown(message)
        )?;
    }
    Ok(())
}
