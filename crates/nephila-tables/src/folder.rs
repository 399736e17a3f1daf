//! The tables of a whole archive: every closed WARC file that has none yet gets its own.

use std::fs;
use std::path::{Path, PathBuf};

use nephila_core::store::roll;
use nephila_store::archive::ENDINGS;
use nephila_store::disk::Disk;

use crate::link::LinkRow;
use crate::part::{self, PageRow, Part};
use crate::rows::Decode;
use crate::{Error, records};

/// The name of the folder with the tables, in the folder of a crawl.
pub const TABLES: &str = "table";

/// An archive and the place of its tables.
#[derive(Clone, Debug)]
pub struct Folder {
    archive: PathBuf,
    to: PathBuf,
}

/// How far the work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// WARC files done, those with tables included.
    pub done: u64,
    /// All WARC files.
    pub all: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Written {
    /// WARC files whose tables were written.
    pub files: u64,
    /// WARC files that had their tables.
    pub skipped: u64,
    /// The rows and bytes of the written ones.
    pub part: Part,
    /// WARC files without tables, each with the reason.
    pub failed: Vec<Error>,
}

impl Folder {
    /// The archive of a crawl's folder, with tables in another one.
    pub fn new(crawl: &Path, to: Option<&Path>) -> Folder {
        let to = to.map_or_else(|| crawl.join(TABLES), Path::to_owned);
        Folder { archive: crawl.join("archive"), to }
    }

    /// The folder with the tables.
    pub fn tables(&self) -> &Path {
        &self.to
    }

    /// The closed WARC files, in the order of their names.
    pub fn files(&self) -> Result<Vec<PathBuf>, Error> {
        self.list(is_closed)
    }

    fn list(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Error> {
        let failed = || Error::io("listing", &self.archive);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.archive).map_err(failed())? {
            let path = entry.map_err(failed())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if is_wanted(&name) && !records::is_derived(&name) {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }

    /// Writes the tables that are missing. A WARC file that cannot be read does not stop the others; a disk that cannot
    /// be written does. `go_on` is asked before each file.
    pub fn write_missing(
        &self,
        disk: &dyn Disk,
        decode: &Decode,
        go_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Written, Error> {
        let files = self.files()?;
        let mut written = Written::default();
        for (done, file) in files.iter().enumerate() {
            if !go_on(Progress { done: done as u64, all: files.len() as u64 }) {
                break;
            }
            match self.write_one(disk, file, decode) {
                Ok(Some(part)) => written.add(part),
                Ok(None) => written.skipped += 1,
                Err(error @ (Error::Record { .. } | Error::Table { .. })) => written.failed.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Writes the tables of one WARC file, unless they are there.
    pub fn write_one(&self, disk: &dyn Disk, file: &Path, decode: &Decode) -> Result<Option<Part>, Error> {
        if part::is_written(file, &self.to)? {
            return Ok(None);
        }
        part::write(disk, file, &self.to, decode).map(Some)
    }

    /// The tables of one WARC file, as far as they are there: names within the folder of tables, and paths. The links
    /// are last.
    pub fn tables_of(&self, file: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
        part::files(file, &self.to)
    }
}

impl Folder {
    /// Hands every link of the archive to `give`: from the tables of a file where they are written, else from the file
    /// itself, files that are being written included. A damaged file gives what comes before the damage.
    pub fn each_link(&self, decode: &Decode, give: &mut dyn FnMut(&LinkRow)) -> Result<(), Error> {
        for file in self.list(|name| is_closed(name) || name.ends_with(roll::OPEN))? {
            let is_open =
                file.extension().is_some_and(|ending| format!(".{}", ending.display()) == roll::OPEN);
            if is_open || !part::each_stored_link(&file, &self.to, give)? {
                part::each_link(&file, decode, give)?;
            }
        }
        Ok(())
    }
}

impl Folder {
    /// Hands the HTML pages of one WARC file to `give`, until it returns false: from its tables if they are written and
    /// no texts are wanted, else from the file itself.
    pub fn each_page(
        &self,
        file: &Path,
        with_text: bool,
        decode: &Decode,
        give: &mut dyn FnMut(PageRow) -> bool,
    ) -> Result<(), Error> {
        if !with_text && part::each_stored_page(file, &self.to, give)? {
            return Ok(());
        }
        part::each_page(file, decode, give)
    }
}

impl Written {
    fn add(&mut self, part: Part) {
        self.files += 1;
        self.part.captures += part.captures;
        self.part.links += part.links;
        self.part.bytes += part.bytes;
    }
}

/// Whether this is the name of a WARC file that is complete.
fn is_closed(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}
