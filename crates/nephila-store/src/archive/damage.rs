//! Finds missing and damaged parts of an archive, by the list of the folder ([`crate::contents`]) and by the
//! acknowledged captures.
//!
//! While a file is open, `NAME.acked` beside it has the index lines of all acknowledged captures. The lines are written
//! after the records are durable and before the acknowledgement, and are not synced themselves: after a kill all lines
//! are there, after a power loss some may be missing, and there is never one too many. A capture with a line but
//! without a record is lost.
//!
//! Invariants: a check changes nothing; a lost capture is named by its URL, as far as a line tells the URL.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use nephila_core::store::{cdxj, roll};

use super::recover::cdxj_of;
use crate::contents::{Closed, Contents, Listed, is_stored_elsewhere, sum_file};
use crate::disk::Disk;
use crate::index;
use crate::warc::scan::{Scanned, scan};

/// Ending of the file with the index lines beside an open file.
pub(super) const ACKED: &str = ".acked";
/// Beginning of a line with the number of acknowledged bytes of the file.
pub(super) const COMMITTED: &str = "#committed ";
/// The list of lost captures in the crawl's folder, until the captures are scheduled again.
pub const LOST: &str = "lost";
/// Maximum lost captures that are noted; further ones are left out.
pub const LOST_MAX: usize = 1_000_000;
/// Maximum bytes of closed files whose checksums are verified when an archive is opened, the newest first.
/// `nephila verify` verifies all files.
pub const LOOK_BYTES_MAX: u64 = 256 << 20;

/// A missing or damaged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The kind of damage.
    pub what: What,
}

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The file is listed but missing.
    Gone,
    /// The file was open when the process ended, and is missing.
    OpenGone,
    /// The length of the file has changed.
    Length {
        /// Listed length in bytes.
        listed: u64,
        /// Current length in bytes.
        found: u64,
    },
    /// The content of the file has changed.
    Changed,
    /// The index is missing or has changed. Opening rebuilds the index from the file.
    Index,
    /// The list itself has changed. Opening rebuilds the list from the existing files.
    List,
    /// This number of acknowledged captures is missing from the file.
    Lost(u64),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Gone => f.write_str("is gone"),
            What::OpenGone => f.write_str("was being written, and is gone"),
            What::Length { listed, found } => write!(f, "had {listed} bytes, and has {found}"),
            What::Changed => f.write_str("is damaged: its bytes are not those that were written"),
            What::Index => f.write_str("was gone or damaged; it is made from its archive file"),
            What::List => f.write_str(
                "was damaged; it is made again from what is there, and what was missing before cannot be told",
            ),
            What::Lost(0) => f.write_str("was damaged: records beside its captures are lost"),
            What::Lost(1) => f.write_str("was damaged: 1 capture that was stored is lost"),
            What::Lost(lost) => write!(f, "was damaged: {lost} captures that were stored are lost"),
        }
    }
}

impl What {
    /// Whether opening the archive repairs the damage.
    pub fn is_mended(self) -> bool {
        matches!(self, What::Index | What::List)
    }
}

/// A stored capture that is lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// The URL fetched.
    pub url: String,
    /// The file that held the capture.
    pub file: String,
}

/// Checks the closed files of an archive against its list. Checksums are computed of the newest files, up to
/// `bytes_max` bytes.
pub fn look(dir: &Path, contents: &Contents, bytes_max: u64) -> io::Result<Vec<Damage>> {
    let folder = dir.join("archive");
    let mut found = Vec::new();
    let mut looked = 0;
    // Newest first: the names contain the time.
    for (name, listed) in contents.files.iter().rev() {
        let file = folder.join(name);
        let mut add = |file: &Path, what| found.push(Damage { file: file.into(), what });
        let Listed::Closed(closed) = listed else {
            let open = folder.join(format!("{name}{}", roll::OPEN));
            // The names of both are durable before the first acknowledgement: where neither exists, there was none.
            let acked = folder.join(format!("{name}{ACKED}"));
            if !open.exists() && !file.exists() && acked.exists() {
                add(&open, What::OpenGone);
            }
            continue;
        };
        let bytes = match fs::metadata(&file) {
            Ok(file) => file.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !is_stored_elsewhere(dir, name) {
                    add(&file, What::Gone);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        if bytes != closed.bytes {
            add(&file, What::Length { listed: closed.bytes, found: bytes });
        } else if let Some(sum) = closed.sum
            && looked + bytes <= bytes_max
        {
            looked += bytes;
            if sum_file(&file)?.1 != sum {
                add(&file, What::Changed);
            }
        }
        if let Some(index) = cdxj_of(&file)
            && !is_index(&index, closed)?
        {
            add(&index, What::Index);
        }
    }
    found.reverse();
    Ok(found)
}

/// Whether this is the index that was written.
fn is_index(index: &Path, closed: &Closed) -> io::Result<bool> {
    match sum_file(index) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => {
            Ok(closed.index_sum.is_none_or(|sum| found.is_ok_and(|found| found == (closed.index_bytes, sum))))
        }
    }
}

/// The entry of a closed file for the list.
pub(super) fn listed(file: &Path, with_sum: bool) -> io::Result<Closed> {
    let (bytes, sum) = match with_sum {
        true => sum_file(file).map(|(bytes, sum)| (bytes, Some(sum)))?,
        false => (fs::metadata(file)?.len(), None),
    };
    let index = cdxj_of(file).map(|index| sum_file(&index)).transpose()?.unwrap_or_default();
    Ok(Closed { bytes, sum, index_bytes: index.0, index_sum: Some(index.1) })
}

/// Captures that these lines name but the records of a file lack.
pub(super) fn missing(lines: Vec<cdxj::Line>, scanned: &Scanned) -> Vec<Lost> {
    // Compared by content, not by offset: records move together when a gap is closed.
    let mut there: HashMap<String, usize> = HashMap::new();
    for capture in scanned.records.iter().filter_map(|record| record.capture.as_ref()) {
        *there.entry(capture.begin()).or_default() += 1;
    }
    let mut lost = Vec::new();
    for line in lines {
        match there.get_mut(&line.capture.begin()) {
            Some(left @ 1..) => *left -= 1,
            _ if lost.len() < LOST_MAX => lost.push(Lost { url: line.capture.url, file: line.filename }),
            _ => {}
        }
    }
    lost
}

/// Number of acknowledged bytes of an open file, from the lines beside the file.
pub(super) fn committed(path: &Path) -> io::Result<u64> {
    let mut input = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => BufReader::new(file?),
    };
    let mut committed = 0;
    while let Some(line) = index::read_line(&mut input)? {
        let line = String::from_utf8_lossy(&line);
        let said = line.trim_end().strip_prefix(COMMITTED).and_then(|bytes| bytes.parse().ok());
        committed = said.unwrap_or(committed);
    }
    Ok(committed)
}

/// The lines of an index; invalid lines are skipped.
pub(super) fn lines(path: &Path) -> io::Result<Vec<cdxj::Line>> {
    let mut input = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => BufReader::new(file?),
    };
    let mut lines = Vec::new();
    while let Some(line) = index::read_line(&mut input)? {
        lines.extend(cdxj::Line::parse(&String::from_utf8_lossy(&line)));
    }
    Ok(lines)
}

/// Removes missing and damaged files from the list for good, after their captures are noted as lost. Whole records of a
/// damaged file stay: opening the archive makes a file of them. The index of a missing file is set aside.
pub fn give_up(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let Some(mut contents) = Contents::read(dir)? else { return Ok(()) };
    let folder = dir.join("archive");
    for Damage { file, what } in look(dir, &contents, u64::MAX)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let index = cdxj_of(&file).filter(|index| index.exists());
        match what {
            What::Gone => {
                if let Some(index) = index {
                    let lost = lines(&index)?
                        .into_iter()
                        .map(|line| Lost { url: line.capture.url, file: name.clone() });
                    note_lost(disk, dir, &lost.collect::<Vec<_>>())?;
                    disk.rename(&index, &index.with_extension("cdxj.lost"))?;
                }
                contents.files.remove(&name);
            }
            What::OpenGone => _ = contents.files.remove(name.strip_suffix(roll::OPEN).unwrap_or(&name)),
            What::Length { .. } | What::Changed => {
                let scanned = scan(&file)?;
                if let Some(index) = index {
                    note_lost(disk, dir, &missing(lines(&index)?, &scanned))?;
                    disk.remove(&index)?;
                }
                // From here on like a file left open by a crash.
                disk.rename(&file, &folder.join(format!("{name}{}", roll::OPEN)))?;
                contents.files.insert(name, Listed::Open);
            }
            What::Index | What::List | What::Lost(_) => {}
        }
    }
    disk.sync_dir(&folder)?;
    contents.write(disk, dir)
}

/// Notes lost captures, durably, before their last trace is removed.
pub(super) fn note_lost(disk: &dyn Disk, dir: &Path, lost: &[Lost]) -> io::Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let path = dir.join(LOST);
    let at = fs::metadata(&path).map_or(0, |file| file.len());
    let file = if at > 0 { disk.open(&path)? } else { disk.create(&path)? };
    let text: String = lost.iter().map(|lost| format!("{} {}\n", lost.file, lost.url)).collect();
    file.write_at(at, text.as_bytes())?;
    file.sync()?;
    disk.sync_dir(dir)
}

/// Lost captures that are not scheduled again yet, each URL once.
pub fn lost(dir: &Path) -> io::Result<Vec<Lost>> {
    let mut input = match File::open(dir.join(LOST)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => BufReader::new(file?),
    };
    let mut lost = Vec::new();
    while let Some(line) = index::read_line(&mut input)?
        && lost.len() < LOST_MAX
    {
        let line = String::from_utf8_lossy(&line);
        if let Some((file, url)) = line.trim_end().rsplit_once(' ') {
            lost.push(Lost { url: url.to_owned(), file: file.to_owned() });
        }
    }
    lost.sort();
    lost.dedup_by(|one, other| one.url == other.url);
    Ok(lost)
}

/// Removes the list after all lost captures are scheduled again.
pub fn forget_lost(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match disk.remove(&dir.join(LOST)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| disk.sync_dir(dir)),
    }
}
