//! Writes records derived from captures afterwards, by a better extractor than that of the crawl: text and metadata, as
//! records of their own that refer to the capture.
//!
//! They go into WARC files of their own (`PREFIX-extract-…`), which hold no captures. `indexes/derived.idx` lists their
//! places, sorted by the id of the capture's record. [`Captures::beside`] searches there for the latest record before
//! looking beside the capture itself.
//!
//! Invariants: a record is listed only after the record is durable and its file closed; leftovers of a crash are not
//! listed, are removed by the next run, and are made again.
//!
//! [`Captures::beside`]: crate::captures::Captures::beside

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nephila_core::store::record::{self, WarcInfo};
use nephila_core::store::{Digest, roll};
use nephila_core::time::Timestamp;

use crate::archive::{Packer, Settings, lock, new_id};
use crate::disk::{Disk, DiskFile, RealDisk};
use crate::index::{self, Sorter};

/// Name of the list of these records, in `indexes`.
pub const LIST: &str = "derived.idx";
/// Part of the file name after its prefix.
const MARK: &str = "extract";

/// Kind of a derived record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The main text.
    Text,
    /// Metadata: title, author, links.
    Metadata,
}

impl Kind {
    /// `WARC-Type` of the record.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Text => "conversion",
            Kind::Metadata => "metadata",
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Kind::Text => "text/plain;charset=utf-8",
            Kind::Metadata => "application/warc-fields",
        }
    }
}

/// Writes derived records.
pub struct Deriver {
    disk: RealDisk,
    folder: PathBuf,
    list: PathBuf,
    settings: Settings,
    info: WarcInfo,
    packer: Packer,
    open: Option<Open>,
    serial: u32,
    records: u64,
    /// Held until the last write.
    _lock: File,
}

/// A file that is being written.
#[derive(Debug)]
struct Open {
    file: Box<dyn DiskFile>,
    stem: String,
    name: String,
    written: u64,
    lines: Vec<String>,
}

impl Deriver {
    /// Opens the archive of this folder for derived records. The lock keeps other writers out meanwhile.
    pub fn begin(dir: &Path, settings: &Settings, info: WarcInfo) -> io::Result<Deriver> {
        let folder = dir.join("archive");
        let lock = lock(&folder).map_err(io::Error::other)?;
        let list = dir.join("indexes").join(LIST);
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&prefix(settings)) && name.ends_with(roll::OPEN) {
                // Left by an interrupted run: nothing in this file is listed.
                RealDisk.remove(&path)?;
            }
        }
        let packer = Packer::new(settings.compression)?;
        let (settings, open) = (settings.clone(), None);
        let (serial, records) = (0, 0);
        Ok(Deriver {
            disk: RealDisk,
            folder,
            list,
            settings,
            info,
            packer,
            open,
            serial,
            records,
            _lock: lock,
        })
    }

    /// Writes one record, derived from the capture with this URL and record id.
    pub fn append(
        &mut self,
        kind: Kind,
        url: &str,
        of: &str,
        block: &[u8],
        now: Timestamp,
    ) -> io::Result<()> {
        if self.open.as_ref().is_some_and(|open| open.written >= self.settings.bytes_max) {
            self.close()?;
        }
        if self.open.is_none() {
            self.open = Some(self.create(now)?);
        }
        let digest = Digest::of(&[block]);
        let head = record::derived(
            kind.name(),
            kind.content_type(),
            (url, of),
            &new_id(),
            now,
            (&digest, block.len() as u64),
        );
        let mut bytes = Vec::new();
        self.packer.pack(&[&head, block, record::END], &mut bytes)?;
        let open = self.open.as_mut().expect("made above");
        open.file.write_at(open.written, &bytes)?;
        let (of, at) = (of.trim_matches(['<', '>']), now.digits17());
        open.lines.push(format!("{of} {} {at} {} {} {}", kind.name(), open.written, bytes.len(), open.name));
        open.written += bytes.len() as u64;
        self.records += 1;
        Ok(())
    }

    /// Closes the last file. Returns the number of records written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.close()?;
        Ok(self.records)
    }

    fn create(&mut self, now: Timestamp) -> io::Result<Open> {
        let stem = roll::name(&prefix(&self.settings), now, self.serial, &self.settings.node);
        self.serial = self.serial.wrapping_add(1) % 100_000;
        let name = format!("{stem}{}", self.settings.compression.ending());
        let file = self.disk.create(&self.folder.join(format!("{name}{}", roll::OPEN)))?;
        let block = self.info.block();
        let head = record::warcinfo(&new_id(), now, &name, &Digest::of(&[&block]), block.len() as u64);
        let mut bytes = Vec::new();
        self.packer.pack(&[&head, &block, record::END], &mut bytes)?;
        file.write_at(0, &bytes)?;
        Ok(Open { file, stem, name, written: bytes.len() as u64, lines: Vec::new() })
    }

    /// Makes the open file durable, gives the file its name and an index without captures, and lists its records.
    fn close(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.file.sync()?;
        Sorter::new(self.folder.join(format!("{}.cdxj", open.stem))).finish(&self.disk)?;
        let path = self.folder.join(format!("{}{}", open.name, roll::OPEN));
        self.disk.rename(&path, &self.folder.join(&open.name))?;
        self.disk.sync_dir(&self.folder)?;
        let part = self.list.with_extension("part");
        let mut sorter = Sorter::new(part.clone());
        open.lines.into_iter().try_for_each(|line| sorter.push(&self.disk, line))?;
        sorter.finish(&self.disk)?;
        let mut sources = vec![part.clone()];
        if self.list.is_file() {
            sources.push(self.list.clone());
        }
        index::merge(&self.disk, &sources, &self.list)?;
        self.disk.remove(&part)?;
        self.disk.sync_dir(self.list.parent().unwrap_or(&self.folder))
    }
}

fn prefix(settings: &Settings) -> String {
    format!("{}-{MARK}", settings.prefix)
}
