//! Mends what a crash left, and learns what earlier runs stored.
//!
//! A file that still ends in `.open` is read from its start. Whole records that match their digests are kept, a torn
//! tail is cut, the file gets its index and its final name. A file without a whole record but its warcinfo goes.
//! Every step can be interrupted and repeated: mending a mended archive changes nothing.
//!
//! If something unreadable lies *between* whole records, it is taken out and they move together, so that public
//! readers get through; that happens when the disk kept later bytes and lost earlier ones.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nephila_core::store::{cdxj, roll};

use super::Error;
use super::memory::Memory;
use super::settings::ENDINGS;
use crate::disk::Disk;
use crate::index::{self, Sorter, UNFINISHED};
use crate::warc::scan::{Scanned, scan};

const COPY_BYTES: usize = 256 * 1024;

/// What opening an archive found and mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were open and are closed now.
    pub files_closed: u64,
    /// Files that held no whole record and are gone.
    pub files_removed: u64,
    /// Whole records found in open files, of all types.
    pub records_kept: u64,
    /// Bytes cut, torn or damaged.
    pub bytes_cut: u64,
    /// Indexes that were missing and were made from their WARC file.
    pub indexes_made: u64,
}

/// What became of one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mended {
    /// Was there anything to keep?
    pub(super) kept: bool,
    records: u64,
    bytes_cut: u64,
}

pub(super) fn recover(disk: &dyn Disk, folder: &Path, indexes: &Path) -> Result<Recovered, Error> {
    let mut found = Recovered::default();
    for path in list(folder)?.into_iter().chain(list(indexes)?).filter(|path| ends_with(path, UNFINISHED)) {
        disk.remove(&path).map_err(|e| Error::disk("removing", &path, e))?;
    }
    for path in list(folder)?.into_iter().filter(|path| ends_with(path, roll::OPEN)) {
        let mended = mend(disk, folder, &path)?;
        found.files_closed += u64::from(mended.kept);
        found.files_removed += u64::from(!mended.kept);
        found.records_kept += mended.records;
        found.bytes_cut += mended.bytes_cut;
    }
    for path in list(folder)? {
        if let Some(target) = cdxj_of(&path)
            && !target.exists()
        {
            let failed = |e| Error::disk("indexing", &path, e);
            let scanned = scan(&path).map_err(failed)?;
            write_index(disk, &path, &scanned, &target).map_err(failed)?;
            disk.sync_dir(folder).map_err(failed)?;
            found.indexes_made += 1;
        }
    }
    Ok(found)
}

/// Mends one open file.
pub(super) fn mend(disk: &dyn Disk, folder: &Path, path: &Path) -> Result<Mended, Error> {
    let failed = |action| move |e| Error::disk(action, path, e);
    let closed = PathBuf::from(path.to_string_lossy().strip_suffix(roll::OPEN).unwrap_or_default());
    let Some(target) = cdxj_of(&closed) else { return Ok(Mended::default()) };
    if !path.exists() {
        return Ok(Mended::default());
    }
    let mut scanned = scan(path).map_err(failed("reading"))?;
    let records = scanned.records.len() as u64;
    if scanned.records.iter().all(|record| record.is_warcinfo) {
        disk.remove(path).map_err(failed("removing"))?;
        disk.sync_dir(folder).map_err(failed("removing"))?;
        return Ok(Mended { kept: false, records: 0, bytes_cut: scanned.file_len });
    }
    let bytes_cut = scanned.file_len - scanned.good_bytes();
    if scanned.has_gap() {
        close_gaps(disk, path, &mut scanned).map_err(failed("mending"))?;
        disk.sync_dir(folder).map_err(failed("mending"))?;
    } else {
        // Synced in any case: an abandoned file may have been cut already, but not durably.
        let file = disk.open(path).map_err(failed("cutting"))?;
        let cut = if bytes_cut > 0 { file.truncate(scanned.good_bytes()) } else { Ok(()) };
        cut.and_then(|()| file.sync()).map_err(failed("cutting"))?;
    }
    write_index(disk, &closed, &scanned, &target).map_err(failed("indexing"))?;
    disk.rename(path, &closed).and_then(|()| disk.sync_dir(folder)).map_err(failed("renaming"))?;
    Ok(Mended { kept: true, records, bytes_cut })
}

/// Copies the whole records to a new file and puts that in place of the old one.
fn close_gaps(disk: &dyn Disk, path: &Path, scanned: &mut Scanned) -> io::Result<()> {
    let unfinished = PathBuf::from(format!("{}{UNFINISHED}", path.display()));
    let _ = disk.remove(&unfinished);
    let file = disk.create(&unfinished)?;
    let mut source = File::open(path)?;
    let mut sink = crate::disk::Sink::new(&*file, 0);
    let mut at = 0;
    for record in &mut scanned.records {
        source.seek(SeekFrom::Start(record.offset))?;
        let mut bytes = BufReader::with_capacity(COPY_BYTES, (&source).take(record.length));
        io::copy(&mut bytes, &mut sink)?;
        record.offset = at;
        at += record.length;
    }
    sink.finish()?;
    file.sync()?;
    disk.rename(&unfinished, path)
}

fn write_index(disk: &dyn Disk, warc: &Path, scanned: &Scanned, target: &Path) -> io::Result<()> {
    let name = warc.file_name().unwrap_or_default().to_string_lossy();
    let mut sorter = Sorter::new(target.into());
    for record in &scanned.records {
        if let Some(capture) = &record.capture {
            let length = scanned.format.map_or(record.length, |format| format.index_length(record.length));
            let place = cdxj::Place { length, offset: record.offset, filename: &name };
            sorter.push(disk, cdxj::finish(capture.begin(), &place, capture.truncated.as_deref()))?;
        }
    }
    sorter.finish(disk)
}

/// Takes in the indexes of earlier runs.
pub(super) fn learn(folder: &Path, memory: &mut Memory) -> io::Result<()> {
    for path in cdxj_files(folder)? {
        let mut input = BufReader::new(File::open(path)?);
        let mut names: HashMap<String, Arc<str>> = HashMap::new();
        while let Some(line) = index::read_line(&mut input)? {
            if let Some(line) = cdxj::Line::parse(&String::from_utf8_lossy(&line)) {
                memory.learn(line, &mut names);
            }
        }
    }
    Ok(())
}

/// The index files of an archive, oldest first, as their names have the time in them.
pub(super) fn cdxj_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if ends_with(&path, ".cdxj") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The index that belongs to a closed WARC file; `None` if it is none.
pub(crate) fn cdxj_of(warc: &Path) -> Option<PathBuf> {
    let name = warc.file_name()?.to_str()?;
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending))?;
    Some(warc.with_file_name(format!("{stem}.cdxj")))
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(folder).and_then(|dir| dir.map(|entry| entry.map(|e| e.path())).collect());
    let mut paths: Vec<PathBuf> = entries.map_err(|e| Error::disk("listing", folder, e))?;
    paths.sort();
    Ok(paths)
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(ending))
}
