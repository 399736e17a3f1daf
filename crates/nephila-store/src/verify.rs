//! A strict check of WARC files and their indexes.
//!
//! Stricter than the public tools, which accept four defects that spoil a replay years later: a chunked or gzip field
//! over a body that is neither, an invalid date, a URI in brackets. The definition of a defect follows the WARC 1.1
//! text and, where the text leaves a choice, the behaviour of public readers. Legal and therefore silent: dates with a
//! fraction or of lower precision, digests other than SHA-1 (only counted in [`Report::unchecked`], not recomputed),
//! revisits without a block, `X-Crawler-` fields over a decoded body.
//!
//! Each [`Finding`] has a stable name ([`Kind::name`]), for scripts.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use nephila_core::store::{Media, cdxj};

use crate::archive::ENDINGS;
use crate::archive::damage::{self, Damage, What};
use crate::contents::{self, Contents};
use crate::warc::scan::find_next;
use crate::warc::{Error, Limits, Reader};

mod http;
mod index;
mod kind;
mod record;

pub use kind::Kind;

/// Maximum findings kept; more are only counted.
pub const FINDINGS_MAX: usize = 10_000;
/// Maximum record ids remembered to find duplicates.
const IDS_MAX: usize = 4_000_000;
/// Maximum objects remembered; further ones are only counted.
pub const MEDIA_MAX: usize = 4_000_000;
/// Maximum bytes searched for the next record after an unreadable one.
const SEARCH_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// Place in the file: a byte offset in a WARC file, a line number in an index.
    pub offset: u64,
    /// `WARC-Record-ID`, if there is one.
    pub record: Option<String>,
    /// Kind of the defect.
    pub kind: Kind,
    /// Details in a few words.
    pub message: String,
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Findings in the order of files and places.
    pub findings: Vec<Finding>,
    /// Total number of findings.
    pub findings_total: u64,
    /// Files read.
    pub files: u64,
    /// Records read.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Digests of unsupported algorithms.
    pub unchecked: u64,
    /// The objects that hold bodies, each with the first record that names the object.
    pub media: BTreeMap<Media, Named>,
    /// Records that name objects beyond [`MEDIA_MAX`].
    pub media_left_out: u64,
}

/// A record that names an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The file.
    pub file: PathBuf,
    /// Offset of the record.
    pub offset: u64,
    /// `WARC-Record-ID`, if there is one.
    pub record: Option<String>,
}

impl Report {
    fn name(&mut self, media: Media, named: Named) {
        if self.media.len() < MEDIA_MAX || self.media.contains_key(&media) {
            self.media.entry(media).or_insert(named);
        } else {
            self.media_left_out += 1;
        }
    }

    fn add(
        &mut self,
        file: &Path,
        offset: u64,
        record: Option<&str>,
        kind: Kind,
        message: impl Into<String>,
    ) {
        self.findings_total += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding {
                file: file.into(),
                offset,
                record: record.map(str::to_owned),
                kind,
                message: message.into(),
            });
        }
    }
}

/// Checks a WARC file with its index, or a folder: an archive's own, or a crawl's with `archive` and `indexes` in the
/// folder. Fails only if something cannot be read at all.
pub fn verify_path(path: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let mut ids = HashSet::new();
    if path.is_file() {
        verify_file(path, &mut report, &mut ids)?;
        return Ok(report);
    }
    let inner = path.join("archive");
    let folder = if inner.is_dir() { inner } else { path.to_owned() };
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder)?.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>()?;
    files.sort();
    for file in files.iter().filter(|file| is_warc(file)) {
        verify_file(file, &mut report, &mut ids)?;
    }
    check_list(path, &mut report)?;
    let merged = path.join("indexes").join("index.cdxj");
    if merged.is_file() {
        index::check_merged(&merged, &folder, &mut report)?;
    }
    Ok(report)
}

/// Compares the files with the list of the folder, if there is one.
fn check_list(dir: &Path, report: &mut Report) -> io::Result<()> {
    let contents = match Contents::read(dir) {
        Ok(Some(contents)) => contents,
        Ok(None) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            report.add(&dir.join(contents::NAME), 0, None, Kind::ListDamaged, error.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for Damage { file, what } in damage::look(dir, &contents, u64::MAX)? {
        let kind = match what {
            What::Gone | What::OpenGone => Kind::FileGone,
            What::Index => Kind::IndexChanged,
            _ => Kind::FileChanged,
        };
        report.add(&file, 0, None, kind, kind_text(what));
    }
    Ok(())
}

fn kind_text(what: What) -> String {
    match what {
        What::Index => "is gone or not as it was written".into(),
        what => what.to_string(),
    }
}

/// An open file of a folder that nobody writes is no loss: the next run goes on behind its last whole record.
const OPEN_TEXT: &str = "still has the ending .open: a crawl writes it now, or was ended in the middle, and its next run closes it";

fn is_warc(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".open").unwrap_or(&name);
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn verify_file(path: &Path, report: &mut Report, ids: &mut HashSet<[u8; 16]>) -> io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    report.files += 1;
    report.bytes += length;
    if path.extension().is_some_and(|ending| ending == "open") {
        report.add(path, 0, None, Kind::FileOpen, OPEN_TEXT);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut wanted = index::Wanted::default();
    let mut format = None;
    let mut from = 0;
    while from < length {
        file.seek(SeekFrom::Start(from))?;
        let mut reader = Reader::with_limits(&file, from, Limits::default());
        reader.expect(format);
        let at = loop {
            let mut checker = record::Checker::default();
            let at = reader.offset();
            match reader.read(&mut checker) {
                Ok(None) => {
                    from = length;
                    break at;
                }
                Ok(Some(record)) => {
                    report.records += 1;
                    if let Some(capture) = checker.finish(path, &record, report, ids) {
                        let length = reader.format().map_or(record.length, |f| f.index_length(record.length));
                        let place = cdxj::Place { length, offset: record.offset, filename: &name };
                        let truncated = capture.truncated.clone();
                        wanted
                            .add(&cdxj::finish(capture.begin(), &place, truncated.as_deref()), record.offset);
                    }
                }
                Err(Error::Io(error)) => return Err(error),
                Err(error) => {
                    let kind = match error {
                        Error::NotWarc { .. } => Kind::NotWarc,
                        Error::Torn { .. } => Kind::TornRecord,
                        _ => Kind::DamagedRecord,
                    };
                    report.add(path, at, None, kind, error.to_string());
                    from = 0;
                    break at;
                }
            }
        };
        if from == length {
            break;
        }
        format = format.or(reader.format());
        match find_next(&mut file, at + 1, at + SEARCH_BYTES_MAX, format)? {
            Some(next) => from = next,
            None => break,
        }
    }
    index::check_beside(path, wanted, report)
}
