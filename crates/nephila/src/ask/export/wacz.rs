//! A crawl as one file that opens in a browser: WACZ 1.1.1.
//!
//! A WACZ file is a ZIP file whose entries are stored as they are: the archive files, an index of all captures in blocks
//! of [`INDEX_LINES`] lines (ZipNum), a list of pages, and a description with the digest of every entry.
//!
//! Invariants: memory does not grow with the archive, except for a line of the index's index for every block; the file
//! has its name only when it is complete.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use aws_lc_rs::digest::{self, SHA256};
use data_encoding::HEXLOWER;
use flate2::write::GzEncoder;
use nephila_engine::crawl::tables::decode;
use nephila_engine::folder::Folder;
use nephila_store::captures::{self, Captures};
use nephila_store::warc::Reader;
use nephila_tables::PageRow;
use serde_json::{Value, json};
use zip::write::{SimpleFileOptions, ZipWriter};

use super::{closed_files, replaced};

/// Number of index lines in one compressed block.
const INDEX_LINES: usize = 3_000;
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;
const VERSION: &str = "1.1.1";

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) files: usize,
    pub(super) captures: u64,
    pub(super) pages: u64,
    pub(super) bytes: u64,
}

/// Writes the closed archive files of a crawl, which `say` hears of: bytes done, bytes in all.
pub(super) fn write(
    folder: &Folder,
    to: &Path,
    with_text: bool,
    say: &mut dyn FnMut(u64, u64),
) -> anyhow::Result<Written> {
    let tables = nephila_tables::Folder::new(folder.dir(), None);
    let (files, bytes) = closed_files(folder)?;
    if let Some(file) = files.iter().find(|file| file.extension().is_some_and(|ending| ending == "zst")) {
        bail!("{} is compressed with zstd, which WACZ does not have: crawl with gzip", file.display());
    }
    replaced(to, |temporary| fill(folder, &tables, (&files, bytes), temporary, with_text, say))
}

/// Writes the whole package to `temporary`.
fn fill(
    folder: &Folder,
    tables: &nephila_tables::Folder,
    (files, bytes): (&[PathBuf], u64),
    temporary: &Path,
    with_text: bool,
    say: &mut dyn FnMut(u64, u64),
) -> anyhow::Result<Written> {
    let named = |doing: &'static str| format!("{doing} {}", temporary.display());
    let out = File::create(temporary).with_context(|| named("creating"))?;
    let mut package =
        Package { zip: ZipWriter::new(BufWriter::with_capacity(COPY_BYTES, out)), resources: vec![] };
    let mut written = Written { files: files.len(), ..Written::default() };
    copy(&mut package, files, &mut |done| say(done, bytes))?;
    written.captures = index(&mut package, folder, files)?;
    let (pages, first) = pages(&mut package, tables, files, with_text)?;
    written.pages = pages;
    describe(&mut package, folder, first)?;
    let out = package.zip.finish().context("ending the ZIP file")?;
    let out = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(|| named("writing"))?;
    out.sync_all().with_context(|| named("syncing"))?;
    written.bytes = out.metadata().with_context(|| named("reading"))?.len();
    Ok(written)
}

/// Copies the archive files.
fn copy(package: &mut Package, files: &[PathBuf], say: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
    let mut done = 0;
    let mut piece = vec![0; COPY_BYTES];
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let reading = || format!("reading {}", file.display());
        let mut input = File::open(file).with_context(reading)?;
        let mut entry = package.begin(&format!("archive/{name}"))?;
        loop {
            let count = input.read(&mut piece).with_context(reading)?;
            if count == 0 {
                break;
            }
            entry.write_all(&piece[..count])?;
            done += count as u64;
            say(done);
        }
        entry.end();
    }
    Ok(())
}

/// Writes the index of the captures in these files. Returns their number.
fn index(package: &mut Package, folder: &Folder, files: &[PathBuf]) -> anyhow::Result<u64> {
    let is_wanted = |name: &str| files.binary_search(&folder.archive().join(name)).is_ok();
    let mut blocks = format!("!meta 0 {}\n", json!({"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}));
    let mut entry = package.begin("indexes/index.cdx.gz")?;
    let (mut lines, mut captures) = (Vec::new(), 0);
    let mut indexed = HashSet::new();
    let mut found = Captures::new(folder.dir()).all()?;
    loop {
        let line = found.next().transpose()?;
        if line.as_ref().is_some_and(|line| !is_wanted(&line.filename)) {
            continue;
        }
        let is_last = line.is_none();
        if let Some(line) = line.as_ref().filter(|line| !indexed.contains(&line.filename)) {
            indexed.insert(line.filename.clone());
        }
        lines.extend(line.map(|line| captures::text(&line)));
        if lines.len() == INDEX_LINES || (is_last && !lines.is_empty()) {
            let offset = entry.bytes;
            let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
            lines.iter().try_for_each(|line| writeln!(packed, "{}", line.trim_end()))?;
            let packed = packed.finish()?;
            entry.write_all(&packed)?;
            let key = lines[0].split(" {").next().unwrap_or_default();
            let sha256 = hashed(digest::digest(&SHA256, &packed).as_ref());
            let place = json!({"offset": offset, "length": packed.len(), "digest": sha256});
            blocks.push_str(&format!("{key} {place}\n"));
            captures += lines.len() as u64;
            lines.clear();
        }
        if is_last {
            break;
        }
    }
    entry.end();
    if found.unread() > 0 || found.left_out() > 0 {
        let lines = found.unread() + found.left_out();
        bail!("{lines} lines of an index cannot be read: `nephila verify` names them");
    }
    let is_indexed =
        |file: &&PathBuf| indexed.contains(&*file.file_name().unwrap_or_default().to_string_lossy());
    for file in files.iter().filter(|file| !is_indexed(file)) {
        if has_captures(file)? {
            bail!("{} has captures that no index lists: `nephila verify` says more", file.display());
        }
    }
    package.add("indexes/index.idx", blocks.as_bytes())?;
    Ok(captures)
}

/// Whether a file has a record that belongs into an index.
fn has_captures(file: &Path) -> anyhow::Result<bool> {
    let named = || format!("reading {}", file.display());
    let mut reader = Reader::new(File::open(file).with_context(named)?);
    while let Some(record) = reader.read(&mut ()).with_context(named)? {
        if matches!(record.header.get("WARC-Type"), Some("response" | "revisit")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the list of pages. Returns their number, and the first page at which the crawl began.
fn pages(
    package: &mut Package,
    tables: &nephila_tables::Folder,
    files: &[PathBuf],
    with_text: bool,
) -> anyhow::Result<(u64, Option<PageRow>)> {
    let mut entry = package.begin("pages/pages.jsonl")?;
    let head = json!({"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": with_text});
    writeln!(entry, "{head}")?;
    let (mut count, mut first, mut failed) = (0_u64, None, None);
    for file in files {
        tables.each_page(file, with_text, &decode, &mut |page| {
            count += 1;
            let ts = date(page.fetch_time.0);
            let mut line = json!({"id": count.to_string(), "url": page.url, "ts": ts, "title": page.title});
            if page.is_seed {
                line["seed"] = Value::Bool(true);
            }
            if let Some(text) = &page.text {
                line["text"] = Value::String(text.clone());
            }
            failed = writeln!(entry, "{line}").err();
            if page.is_seed && first.is_none() {
                first = Some(page);
            }
            failed.is_none()
        })?;
        if let Some(error) = failed.take() {
            return Err(error).context("writing the pages");
        }
    }
    entry.end();
    Ok((count, first))
}

/// Writes the description of all entries, and its digest.
fn describe(package: &mut Package, folder: &Folder, first: Option<PageRow>) -> anyhow::Result<()> {
    let dir = folder.dir().canonicalize().unwrap_or_else(|_| folder.dir().to_owned());
    let title = dir.file_name().unwrap_or_default().to_string_lossy();
    let mut description = json!({
        "profile": "data-package",
        "wacz_version": VERSION,
        "title": title,
        "created": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "software": concat!("nephila ", env!("CARGO_PKG_VERSION")),
        "resources": std::mem::take(&mut package.resources),
    });
    if let Some(page) = first {
        description["mainPageUrl"] = page.url.into();
        description["mainPageDate"] = date(page.fetch_time.0).into();
    }
    let description = serde_json::to_vec_pretty(&description)?;
    package.add("datapackage.json", &description)?;
    let hash = hashed(digest::digest(&SHA256, &description).as_ref());
    let signed = serde_json::to_vec_pretty(&json!({"path": "datapackage.json", "hash": hash}))?;
    package.add("datapackage-digest.json", &signed)
}

fn date(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn hashed(hash: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(hash))
}

/// A ZIP file, and what its description says of the entries so far.
struct Package {
    zip: ZipWriter<BufWriter<File>>,
    resources: Vec<Value>,
}

impl Package {
    /// Begins an entry. Entries may be longer than 4 GiB.
    fn begin(&mut self, path: &str) -> anyhow::Result<Entry<'_>> {
        let options = SimpleFileOptions::default();
        let options = options.compression_method(zip::CompressionMethod::Stored).large_file(true);
        self.zip.start_file(path, options).with_context(|| format!("beginning {path}"))?;
        Ok(Entry { package: self, path: path.to_owned(), bytes: 0, hash: digest::Context::new(&SHA256) })
    }

    /// Adds a whole entry.
    fn add(&mut self, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let mut entry = self.begin(path)?;
        entry.write_all(bytes)?;
        entry.end();
        Ok(())
    }
}

/// An entry that is being written.
struct Entry<'a> {
    package: &'a mut Package,
    path: String,
    bytes: u64,
    hash: digest::Context,
}

impl Entry<'_> {
    fn end(self) {
        // Names in a data package are in lower case.
        let name = self.path.rsplit('/').next().unwrap_or_default().to_lowercase();
        let hash = hashed(self.hash.finish().as_ref());
        let resource = json!({"name": name, "path": self.path, "hash": hash, "bytes": self.bytes});
        self.package.resources.push(resource);
    }
}

impl Write for Entry<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.package.zip.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.package.zip.flush()
    }
}
