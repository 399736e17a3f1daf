//! The files of tables of one WARC file.
//!
//! `captures/crawl=NAME/subset=SUBSET/part-STEM.parquet` for each subset that has rows, then
//! `links/crawl=NAME/part-STEM.parquet`, which is always there. Each file is written under a temporary name, synced and
//! renamed. The links come last, and their footer names the WARC file, its length and the rows of each subset: a file of
//! links says that all others are complete.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nephila_store::disk::{Disk, DiskFile};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use crate::capture::{CaptureRow, Subset};
use crate::link::LinkRow;
use crate::parquet::{Stored, TableWriter};
use crate::records::{FileInfo, Records};
use crate::rows::{Decode, Rows, rows};
use crate::table::Millis;
use crate::{Error, VERSION, query, records};

/// Ending of a file that is being written.
const TEMPORARY: &str = ".part";
/// Names of the facts in a footer.
const FACTS: [&str; 4] = ["nephila.version", "nephila.warc", "nephila.warc_bytes", "nephila.captures"];

/// What was written for a WARC file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Rows of captures.
    pub captures: u64,
    /// Rows of links.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// A page that a person may want to open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRow {
    /// Its URL.
    pub url: String,
    /// When it was fetched.
    pub fetch_time: Millis,
    /// Its title, or nothing.
    pub title: String,
    /// Whether the crawl began here.
    pub is_seed: bool,
    /// Its main text, if asked for and stored.
    pub text: Option<String>,
    /// Fingerprint of its main text, if stored.
    pub simhash: Option<u64>,
}

/// Where the files of a WARC file are.
#[derive(Clone, Debug)]
struct Places {
    to: PathBuf,
    crawl: String,
    stem: String,
}

impl Places {
    fn new(to: &Path, info: &FileInfo) -> Places {
        let stem = info.name.split(".warc").next().unwrap_or_default();
        Places {
            to: to.to_owned(),
            crawl: format!("crawl={}", info.crawl),
            stem: format!("part-{stem}.parquet"),
        }
    }

    fn captures(&self, subset: Subset) -> PathBuf {
        let subset = format!("subset={}", subset.name());
        self.to.join("captures").join(&self.crawl).join(subset).join(&self.stem)
    }

    fn links(&self) -> PathBuf {
        self.to.join("links").join(&self.crawl).join(&self.stem)
    }
}

/// Maximum number of bodies that are passed over in vain, before it is asked whether most are.
const MISSED_MAX: u64 = 16;

/// Whether the tables of a WARC file are written, all of them and by this version.
pub fn is_written(warc: &Path, to: &Path) -> Result<bool, Error> {
    let (records, len) = open(warc)?;
    let places = Places::new(to, records.info());
    let Some(known) = facts_of(&places.links()) else { return Ok(false) };
    let captures = known.last().map(String::as_str).unwrap_or_default();
    let wanted = facts(records.info(), len, captures.to_owned()).map(|(_, value)| value);
    let is_there = |subset: Subset| {
        let has_none = captures.split(' ').any(|count| count == format!("{}=0", subset.name()));
        has_none || places.captures(subset).is_file()
    };
    Ok(known == wanted && Subset::ALL.into_iter().all(is_there))
}

/// Writes the tables of a WARC file. Bodies that the rows do not need are passed over, as far as the index beside the
/// file tells their lengths. An index that does not fit the file is not used.
pub fn write(disk: &dyn Disk, warc: &Path, to: &Path, decode: &Decode) -> Result<Part, Error> {
    let lengths = records::lengths(warc);
    let is_whole = lengths.is_empty();
    match write_with(disk, warc, to, decode, lengths) {
        Err(Error::Record { .. }) if !is_whole => write_with(disk, warc, to, decode, HashMap::new()),
        written => written,
    }
}

fn write_with(
    disk: &dyn Disk,
    warc: &Path,
    to: &Path,
    decode: &Decode,
    lengths: HashMap<u64, u64>,
) -> Result<Part, Error> {
    let (mut records, len) = open(warc)?;
    records.pass_over(lengths);
    let (mut used, mut missed) = (0, 0);
    let info = records.info().clone();
    let places = Places::new(to, &info);
    let mut captures: [Option<Table<CaptureRow>>; 3] = [None, None, None];
    let mut links = Table::<LinkRow>::create(disk, places.links())?;
    while let Some(mut gathered) = records.read().map_err(damaged(warc))? {
        let Some(mut made) = rows(&gathered, &info, decode) else { continue };
        used += u64::from(gathered.lacks_body);
        if made.needs_body {
            gathered.read_body(warc).map_err(damaged(warc))?;
            let Some(again) = rows(&gathered, &info, decode) else { continue };
            made = again;
            missed += 1;
            if missed > MISSED_MAX && missed > used / 2 {
                // The crawl left no notes: the records are read whole from here on.
                records.pass_over(HashMap::new());
            }
        }
        let table = &mut captures[made.subset as usize];
        if table.is_none() {
            *table = Some(Table::create(disk, places.captures(made.subset))?);
        }
        if let Some(table) = table {
            table.push(made.capture)?;
        }
        made.links.into_iter().try_for_each(|link| links.push(link))?;
    }
    let mut part = Part::default();
    let mut counts = Vec::new();
    for (subset, table) in Subset::ALL.into_iter().zip(captures) {
        let rows = table.as_ref().map_or(0, Table::rows);
        counts.push(format!("{}={rows}", subset.name()));
        part.captures += rows;
        if let Some(table) = table {
            part.bytes += table.finish(disk, facts(&info, len, format!("{}={rows}", subset.name())))?;
        }
    }
    part.links = links.rows();
    part.bytes += links.finish(disk, facts(&info, len, counts.join(" ")))?;
    Ok(part)
}

/// The files of tables of a WARC file that are there: names within the folder of tables, and paths. The links are last.
pub fn files(warc: &Path, to: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let places = Places::new(to, open(warc)?.0.info());
    let paths = Subset::ALL.into_iter().map(|subset| places.captures(subset)).chain([places.links()]);
    let named = |path: PathBuf| {
        let parts: Vec<_> = path.strip_prefix(to).ok()?.iter().map(|part| part.to_string_lossy()).collect();
        Some((parts.join("/"), path))
    };
    Ok(paths.filter(|path| path.is_file()).filter_map(named).collect())
}

/// Hands the links of a WARC file to `give`, as far as the file can be read.
pub(crate) fn each_link(warc: &Path, decode: &Decode, give: &mut dyn FnMut(&LinkRow)) -> Result<(), Error> {
    let (mut records, info) = match open(warc) {
        Ok((records, _)) => {
            let info = records.info().clone();
            (records, info)
        }
        Err(Error::Record { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    while let Ok(Some(gathered)) = records.read() {
        rows(&gathered, &info, decode).iter().flat_map(|made| &made.links).for_each(&mut *give);
    }
    Ok(())
}

/// Hands the links in the table of a WARC file to `give`. Returns whether there is such a table.
pub(crate) fn each_stored_link(
    warc: &Path,
    to: &Path,
    give: &mut dyn FnMut(&LinkRow),
) -> Result<bool, Error> {
    if !matches!(is_written(warc, to), Ok(true)) {
        return Ok(false);
    }
    let path = Places::new(to, open(warc)?.0.info()).links();
    let columns = ["source", "target", "kind", "anchor", "rel", "place", "fetch_time"];
    query::each_of(&path, "links", &columns, &mut |row| {
        let text = |value: &query::Value| value.text().to_owned();
        let optional = |value: &query::Value| Some(text(value)).filter(|text| !text.is_empty());
        give(&LinkRow {
            source: text(&row[0]),
            target: text(&row[1]),
            kind: text(&row[2]),
            anchor: optional(&row[3]),
            rel: optional(&row[4]),
            place: text(&row[5]),
            fetch_time: Millis(row[6].number()),
        });
    })?;
    Ok(true)
}

/// Hands the HTML pages in the tables of a WARC file to `give`. Returns whether there are such tables.
pub(crate) fn each_stored_page(
    warc: &Path,
    to: &Path,
    give: &mut dyn FnMut(PageRow) -> bool,
) -> Result<bool, Error> {
    if !matches!(is_written(warc, to), Ok(true)) {
        return Ok(false);
    }
    let path = Places::new(to, open(warc)?.0.info()).captures(Subset::Warc);
    if !path.is_file() {
        return Ok(true);
    }
    let columns = ["url", "fetch_time", "content_mime_detected", "title", "depth", "simhash"];
    let mut go_on = true;
    query::each_of(&path, "captures", &columns, &mut |row| {
        if go_on && is_html(row[2].text()) {
            go_on = give(PageRow {
                url: row[0].text().to_owned(),
                fetch_time: Millis(row[1].number()),
                title: row[3].text().to_owned(),
                is_seed: row[4] == query::Value::Number(0),
                text: None,
                simhash: match row[5] {
                    query::Value::Number(hash) => Some(hash.cast_unsigned()),
                    _ => None,
                },
            });
        }
    })?;
    Ok(true)
}

/// Hands the HTML pages of a WARC file to `give`, with their texts.
pub(crate) fn each_page(
    warc: &Path,
    decode: &Decode,
    give: &mut dyn FnMut(PageRow) -> bool,
) -> Result<(), Error> {
    let (mut records, _) = open(warc)?;
    let info = records.info().clone();
    while let Some(mut gathered) = records.read().map_err(damaged(warc))? {
        let Some(Rows { capture, subset: Subset::Warc, .. }) = rows(&gathered, &info, decode) else {
            continue;
        };
        if !is_html(capture.content_mime_detected.as_deref().unwrap_or_default()) {
            continue;
        }
        let page = PageRow {
            url: capture.url,
            fetch_time: capture.fetch_time,
            title: capture.title.unwrap_or_default(),
            is_seed: capture.depth == Some(0),
            text: gathered.text.take(),
            simhash: capture.simhash.map(i64::cast_unsigned),
        };
        if !give(page) {
            break;
        }
    }
    Ok(())
}

fn is_html(media_type: &str) -> bool {
    matches!(media_type, "text/html" | "application/xhtml+xml")
}

fn open(warc: &Path) -> Result<(Records<File>, u64), Error> {
    let file = File::open(warc).map_err(Error::io("opening", warc))?;
    let len = file.metadata().map_err(Error::io("opening", warc))?.len();
    let name = warc.file_name().unwrap_or_default().to_string_lossy();
    let mut records = Records::new(file, &name);
    records.begin().map_err(damaged(warc))?;
    Ok((records, len))
}

fn damaged(warc: &Path) -> impl FnOnce(nephila_store::warc::Error) -> Error {
    let path = warc.to_owned();
    move |source| Error::Record { path, source }
}

fn facts(info: &FileInfo, len: u64, captures: String) -> [(String, String); 4] {
    let values = [VERSION.to_string(), info.name.clone(), len.to_string(), captures];
    let mut values = values.into_iter();
    FACTS.map(|name| (name.to_owned(), values.next().unwrap_or_default()))
}

/// The facts in the footer of a file; none if there is no such file, or if the file is no table of ours.
fn facts_of(path: &Path) -> Option<[String; 4]> {
    let reader = SerializedFileReader::new(File::open(path).ok()?).ok()?;
    let known = reader.metadata().file_metadata().key_value_metadata()?;
    let fact = |name: &str| known.iter().find(|fact| fact.key == name)?.value.clone();
    Some(FACTS.map(|name| fact(name).unwrap_or_default()))
}

/// A table on its way to a file.
struct Table<R> {
    writer: TableWriter<Out, R>,
    temporary: PathBuf,
    path: PathBuf,
}

impl<R: Stored> Table<R> {
    fn create(disk: &dyn Disk, path: PathBuf) -> Result<Table<R>, Error> {
        let mut temporary = path.clone().into_os_string();
        temporary.push(TEMPORARY);
        let temporary = PathBuf::from(temporary);
        let folder = path.parent().unwrap_or(&path);
        disk.create_dir(folder).map_err(Error::io("creating", folder))?;
        match disk.remove(&temporary) {
            // Left by a run that was interrupted.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("removing", &temporary)(error)),
        }
        let file = disk.create(&temporary).map_err(Error::io("creating", &temporary))?;
        let writer = TableWriter::new(Out { file, offset: 0 }).map_err(failed(&temporary))?;
        Ok(Table { writer, temporary, path })
    }

    fn push(&mut self, row: R) -> Result<(), Error> {
        self.writer.push(row).map_err(failed(&self.temporary))
    }

    fn rows(&self) -> u64 {
        self.writer.rows()
    }

    /// Makes the file durable under its name. Returns its length.
    fn finish(self, disk: &dyn Disk, facts: [(String, String); 4]) -> Result<u64, Error> {
        let Table { writer, temporary, path } = self;
        let out = writer.finish(facts.to_vec()).map_err(failed(&temporary))?;
        out.file.sync().map_err(Error::io("syncing", &temporary))?;
        disk.rename(&temporary, &path).map_err(Error::io("renaming", &temporary))?;
        let folder = path.parent().unwrap_or(&path);
        disk.sync_dir(folder).map_err(Error::io("syncing", folder))?;
        Ok(out.offset)
    }
}

/// An error of the writer is one of the disk: rows always fit their columns.
fn failed(path: &Path) -> impl FnOnce(ParquetError) -> Error {
    let path = path.to_owned();
    move |error| {
        let source = match error {
            ParquetError::External(inner) => {
                inner.downcast::<io::Error>().map_or_else(io::Error::other, |source| *source)
            }
            error => io::Error::other(error),
        };
        Error::Io { doing: "writing", path, source }
    }
}

/// The bytes of a table, appended to a file.
struct Out {
    file: Box<dyn DiskFile>,
    offset: u64,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(self.offset, bytes)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
