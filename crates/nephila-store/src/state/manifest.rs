//! The manifest: the runs that make up a state, and its position in the log.
//!
//! The manifest is the one file that is replaced, by renaming a new one over the old; all other files are written once.
//! A file that the manifest does not list does not exist: an unlisted run is removed when the state is next opened.
//!
//! `NSTM` · version · position (sequence, chain) · next file number · meta · runs of each table, oldest first · xxh3 of
//! all that, 8 bytes.

use std::fs;
use std::io;
use std::path::Path;

use nephila_core::codec::{Damaged, Reader, put_bytes, put_u64};
use nephila_core::state::{Meta, Position};

use super::table::Table;
use crate::disk::Disk;

/// The name of the manifest in the state's folder.
pub(super) const NAME: &str = "manifest";
/// Name of a new manifest before the rename.
pub(super) const NAME_NEW: &str = "manifest.new";

const MAGIC: &[u8; 4] = b"NSTM";
const VERSION: u8 = 1;

/// The files of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) position: Position,
    /// The number of the next file.
    pub(super) next_file: u64,
    pub(super) meta: Meta,
    /// Counts that are missing in a manifest of an earlier version and have to be made.
    pub(super) lacks: Lacks,
    /// Numbers of the runs of each table, oldest first.
    pub(super) runs: Vec<(Table, u64)>,
}

/// Counts that an earlier version did not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacks {
    /// The number of remaining URLs in total.
    pub(super) left: bool,
    /// The number of remaining URLs of each job.
    pub(super) open: bool,
}

/// The name of a run.
pub(super) fn run_name(table: Table, number: u64) -> String {
    format!("{}-{number:08}.run", table.name())
}

impl Manifest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend(MAGIC);
        out.push(VERSION);
        put_u64(&mut out, self.position.sequence);
        out.extend(self.position.chain.to_be_bytes());
        put_u64(&mut out, self.next_file);
        put_bytes(&mut out, &self.meta.encode());
        put_u64(&mut out, self.runs.len() as u64);
        for (table, number) in &self.runs {
            out.push(*table as u8);
            put_u64(&mut out, *number);
        }
        let hash = xxhash_rust::xxh3::xxh3_64(&out);
        out.extend(hash.to_be_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Manifest, Damaged> {
        let len = bytes.len().checked_sub(8).ok_or(Damaged("length of the manifest"))?;
        let (body, hash) = bytes.split_at(len);
        if hash != xxhash_rust::xxh3::xxh3_64(body).to_be_bytes() {
            return Err(Damaged("sum of the manifest"));
        }
        let mut reader = Reader::new(body);
        if reader.take(4, "mark of the manifest")? != MAGIC
            || reader.u8("version of the manifest")? != VERSION
        {
            return Err(Damaged("version of the manifest"));
        }
        let sequence = reader.u64("position")?;
        let chain = reader.fixed_u64("position")?;
        let next_file = reader.u64("next file")?;
        let meta = reader.bytes("small things")?;
        let lacks = Lacks { left: Meta::lacks_totals(meta), open: Meta::lacks_open(meta) };
        let meta = Meta::decode(meta)?;
        let mut runs = Vec::new();
        for _ in 0..reader.u64("number of runs")? {
            let table = Table::by_code(reader.u8("table")?).ok_or(Damaged("table"))?;
            runs.push((table, reader.u64("number of a run")?));
        }
        Ok(Manifest { position: Position { sequence, chain }, next_file, meta, lacks, runs })
    }

    /// Reads the manifest of a folder; `None` if there is none.
    pub(super) fn read(folder: &Path) -> io::Result<Option<Manifest>> {
        let bytes = match fs::read(folder.join(NAME)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let manifest = Manifest::decode(&bytes);
        manifest.map(Some).map_err(|damaged| io::Error::new(io::ErrorKind::InvalidData, damaged))
    }

    /// Makes this the manifest of a folder. The listed runs must be durable already.
    pub(super) fn write(&self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        let new = folder.join(NAME_NEW);
        // Left by a crash.
        if new.exists() {
            disk.remove(&new)?;
        }
        let file = disk.create(&new)?;
        file.write_at(0, &self.encode())?;
        file.sync()?;
        drop(file);
        disk.rename(&new, &folder.join(NAME))?;
        disk.sync_dir(folder)
    }
}
