//! Recovery of the archive after a crash, and loading of the indexes of earlier runs.
//!
//! A file that still ends in `.open` is read from its start. Whole records that match their digests are kept, a torn
//! tail is cut, and the file gets its index and its final name. A file without a whole record except its warcinfo is
//! removed. Every step is idempotent: recovery of a recovered archive changes nothing.
//!
//! Unreadable bytes *between* whole records are removed and the records move together, so that public readers can read
//! the whole file. This happens when the disk kept later bytes and lost earlier ones.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nephila_core::store::{cdxj, roll};

use super::Error;
use super::damage::{self, Damage, What};
use super::memory::Memory;
use super::settings::ENDINGS;
use crate::contents::{self, Contents, Listed};
use crate::disk::Disk;
use crate::index::{self, Sorter, UNFINISHED};
use crate::warc::scan::{Scanned, scan};

const COPY_BYTES: usize = 256 * 1024;

/// Results of recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were open and are closed now.
    pub files_closed: u64,
    /// Files without a whole record that were removed.
    pub files_removed: u64,
    /// Whole records found in open files, of all types.
    pub records_kept: u64,
    /// Torn or damaged bytes that were cut.
    pub bytes_cut: u64,
    /// Missing or damaged indexes that were rebuilt from their WARC file.
    pub indexes_made: u64,
    /// Missing and damaged files, by the list of the folder and by the acknowledged captures.
    pub damage: Vec<Damage>,
}

/// Result for one file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mended {
    /// Whether a record was kept.
    pub(super) kept: bool,
    records: u64,
    bytes_cut: u64,
    /// Acknowledged captures that are missing from the file.
    lost: u64,
    /// The whole records have fewer bytes than were acknowledged.
    is_short: bool,
}

/// Recovers the archive of a crawl's folder and updates its list.
pub(super) fn recover(disk: &dyn Disk, dir: &Path) -> Result<(Recovered, Contents), Error> {
    let (folder, indexes) = (dir.join("archive"), dir.join("indexes"));
    let mut found = Recovered::default();
    let reading = |e| Error::disk("reading", &dir.join(contents::NAME), e);
    let before = match Contents::read(dir) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            found.damage.push(Damage { file: dir.join(contents::NAME), what: What::List });
            None
        }
        read => read.map_err(reading)?,
    };
    let mut list_now = before.clone().unwrap_or_default();
    for path in list(&folder)?.into_iter().chain(list(&indexes)?).filter(|path| ends_with(path, UNFINISHED)) {
        disk.remove(&path).map_err(|e| Error::disk("removing", &path, e))?;
    }
    // Checked before any repair, which would hide the damage.
    let damage = damage::look(dir, &list_now, damage::LOOK_BYTES_MAX).map_err(reading)?;
    let mut open: Vec<PathBuf> =
        list(&folder)?.into_iter().filter(|path| ends_with(path, roll::OPEN)).collect();
    // Of some files only the index lines of acknowledged captures are left.
    let of_acked = |path: &PathBuf| {
        let name = path.to_string_lossy();
        Some(PathBuf::from(format!("{}{}", name.strip_suffix(damage::ACKED)?, roll::OPEN)))
    };
    let acked: Vec<PathBuf> = list(&folder)?.iter().filter_map(of_acked).collect();
    open.extend(acked.into_iter().filter(|path| !path.exists()));
    let mut mended_now = Vec::new();
    for path in open {
        let mended = mend(disk, &folder, &path)?;
        found.files_closed += u64::from(mended.kept);
        found.files_removed += u64::from(!mended.kept);
        found.records_kept += mended.records;
        found.bytes_cut += mended.bytes_cut;
        if mended.lost > 0 || mended.is_short {
            found.damage.push(Damage { file: path.clone(), what: What::Lost(mended.lost) });
        }
        // The damage of an open file is reported by now, whether or not a part of the file stays.
        let name = closed_name(&path);
        list_now.files.remove(&name);
        mended_now.push(name);
    }
    for Damage { file, what } in damage {
        if what == What::Index && file.exists() {
            disk.remove(&file).map_err(|e| Error::disk("removing", &file, e))?;
        }
        let said = found.damage.iter().any(|said| said.file == file);
        if !said {
            found.damage.push(Damage { file, what });
        }
    }
    for path in list(&folder)? {
        let Some(target) = cdxj_of(&path) else { continue };
        let failed = |e| Error::disk("indexing", &path, e);
        if !target.exists() {
            let scanned = scan(&path).map_err(failed)?;
            write_index(disk, &path, &scanned, &target).map_err(failed)?;
            disk.sync_dir(&folder).map_err(failed)?;
            found.indexes_made += 1;
        }
        let name = closed_name(&path);
        match list_now.files.get_mut(&name) {
            // A rebuilt index is correct now; a file is not.
            Some(Listed::Closed(closed)) => {
                let now = damage::listed(&path, false).map_err(failed)?;
                (closed.index_bytes, closed.index_sum) = (now.index_bytes, now.index_sum);
            }
            _ => {
                // Checksums are computed of files that were open; for an old archive that would mean all files.
                let is_new = mended_now.contains(&name);
                list_now.files.insert(name, Listed::Closed(damage::listed(&path, is_new).map_err(failed)?));
            }
        }
    }
    if before.as_ref() != Some(&list_now) {
        list_now.write(disk, dir).map_err(|e| Error::disk("writing", &dir.join(contents::NAME), e))?;
    }
    Ok((found, list_now))
}

/// The name of an archive file when it is closed.
fn closed_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(roll::OPEN).unwrap_or(&name).to_owned()
}

/// Recovers one open file. If the file is missing, the index lines of its acknowledged captures may still exist.
pub(super) fn mend(disk: &dyn Disk, folder: &Path, path: &Path) -> Result<Mended, Error> {
    let failed = |action| move |e| Error::disk(action, path, e);
    let closed = PathBuf::from(path.to_string_lossy().strip_suffix(roll::OPEN).unwrap_or_default());
    let Some(target) = cdxj_of(&closed) else { return Ok(Mended::default()) };
    let acked = PathBuf::from(format!("{}{}", closed.display(), damage::ACKED));
    // Closed already, except for removing the lines beside the file.
    if !path.exists() && closed.exists() {
        disk.remove(&acked).map_err(failed("removing"))?;
        return Ok(Mended::default());
    }
    let mut scanned = match path.exists() {
        true => scan(path).map_err(failed("reading"))?,
        false => Scanned::default(),
    };
    let lost = damage::missing(damage::lines(&acked).map_err(failed("reading"))?, &scanned);
    let dir = folder.parent().unwrap_or(folder);
    damage::note_lost(disk, dir, &lost).map_err(failed("noting what is lost of"))?;
    let lost = lost.len() as u64;
    let is_short = scanned.good_bytes() < damage::committed(&acked).map_err(failed("reading"))?;
    let records = scanned.records.len() as u64;
    if scanned.records.iter().all(|record| record.is_warcinfo) {
        for path in [path, &acked].into_iter().filter(|path| path.exists()) {
            disk.remove(path).map_err(failed("removing"))?;
        }
        disk.sync_dir(folder).map_err(failed("removing"))?;
        return Ok(Mended { kept: false, records: 0, bytes_cut: scanned.file_len, lost, is_short });
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
    // Once the lines are gone, another recovery does not report the lost captures again.
    if acked.exists() {
        disk.remove(&acked).map_err(failed("removing"))?;
    }
    write_index(disk, &closed, &scanned, &target).map_err(failed("indexing"))?;
    disk.rename(path, &closed).and_then(|()| disk.sync_dir(folder)).map_err(failed("renaming"))?;
    Ok(Mended { kept: true, records, bytes_cut, lost, is_short })
}

/// Copies the whole records to a new file, which replaces the old one.
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

/// Loads the indexes of earlier runs.
pub(super) fn learn(folder: &Path, gone: &[Damage], memory: &mut Memory) -> io::Result<()> {
    for path in cdxj_files(folder)? {
        // A missing or damaged file is no reference for deduplication.
        if gone.iter().any(|damage| !damage.what.is_mended() && cdxj_of(&damage.file).as_ref() == Some(&path))
        {
            continue;
        }
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

/// The index files of an archive, oldest first, as their names contain the time.
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

/// The index of a closed WARC file; `None` if the path is no WARC file.
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
