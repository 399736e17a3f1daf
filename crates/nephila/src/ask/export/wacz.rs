//! A crawl as one file that opens in a browser: WACZ 1.1.1.
//!
//! A WACZ file is a ZIP file whose entries are stored as they are: the archive files, an index of all captures in blocks
//! of [`INDEX_LINES`] lines (ZipNum), a list of pages, and a description with the digest of every entry.
//!
//! Copying a file needs less time than its digest, and its digest less than its index and list of pages. So three threads
//! share the work: one copies, one computes digests, one writes index and pages to files without a name, which are copied
//! at the end.
//!
//! Invariants: memory does not grow with the archive, except for a line of the index's index for every block; the file
//! has its name only when it is complete.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use anyhow::{Context, bail};
use aws_lc_rs::digest::{self, SHA256};
use data_encoding::HEXLOWER;
use flate2::write::GzEncoder;
use nephila_core::store::record::is_capture;
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
/// Pieces on their way between the thread that copies and the thread that computes digests.
const COPY_PIECES: usize = 4;
const VERSION: &str = "1.1.1";

/// What was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) files: usize,
    pub(super) captures: u64,
    pub(super) pages: u64,
    pub(super) bytes: u64,
    /// Captures whose bodies are in an object store.
    pub(super) media: u64,
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
    let beside = temporary.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut package =
        Package { zip: ZipWriter::new(BufWriter::with_capacity(COPY_BYTES, out)), resources: vec![] };
    let has_failed = AtomicBool::new(false);
    let (lists, copied) = std::thread::scope(|scope| {
        let lists = scope.spawn(|| {
            let lists = Lists::new(folder, tables, files, beside, with_text);
            has_failed.store(lists.is_err(), Ordering::Relaxed);
            lists
        });
        // Without its lists the package is of no use.
        let copied = copy(&mut package, files, &mut |done| {
            say(done, bytes);
            !has_failed.load(Ordering::Relaxed)
        });
        (lists.join().expect("a thread that returns its errors"), copied)
    });
    let lists = lists?;
    copied?;
    let mut go_on = |_| true;
    package.copy("indexes/index.cdx.gz", lists.index, &mut go_on)?;
    package.add("indexes/index.idx", lists.blocks.as_bytes())?;
    package.copy("pages/pages.jsonl", lists.pages, &mut go_on)?;
    describe(&mut package, folder, lists.first)?;
    let out = package.zip.finish().context("ending the ZIP file")?;
    let out = out.into_inner().map_err(io::IntoInnerError::into_error).with_context(|| named("writing"))?;
    out.sync_all().with_context(|| named("syncing"))?;
    let bytes = out.metadata().with_context(|| named("reading"))?.len();
    let Lists { captures, media, count: pages, .. } = lists;
    Ok(Written { files: files.len(), captures, pages, bytes, media })
}

/// Copies the archive files, until `say` returns false.
fn copy(package: &mut Package, files: &[PathBuf], say: &mut dyn FnMut(u64) -> bool) -> anyhow::Result<()> {
    let mut before = 0;
    for file in files {
        let reading = || format!("copying {}", file.display());
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let input = File::open(file).with_context(reading)?;
        let copied = package.copy(&format!("archive/{name}"), input, &mut |done| say(before + done));
        before += copied.with_context(reading)?;
    }
    Ok(())
}

/// Index and list of pages, in files that are gone when they are closed.
struct Lists {
    index: File,
    blocks: String,
    captures: u64,
    media: u64,
    pages: File,
    count: u64,
    /// The first page at which the crawl began.
    first: Option<PageRow>,
}

impl Lists {
    fn new(
        folder: &Folder,
        tables: &nephila_tables::Folder,
        files: &[PathBuf],
        beside: &Path,
        with_text: bool,
    ) -> anyhow::Result<Lists> {
        let making = || format!("making a temporary file in {}", beside.display());
        let (index, pages) = (tempfile::tempfile_in(beside), tempfile::tempfile_in(beside));
        let (mut index, mut pages) = (index.with_context(making)?, pages.with_context(making)?);
        let (blocks, captures, media) = write_index(&mut index, folder, files)?;
        let (count, first) = write_pages(&mut pages, tables, files, with_text)?;
        index.rewind()?;
        pages.rewind()?;
        Ok(Lists { index, blocks, captures, media, pages, count, first })
    }
}

/// Writes the index of the captures in these files. Returns the index's index, the number of captures, and how many of
/// them have their bodies in an object store.
fn write_index(to: &mut File, folder: &Folder, files: &[PathBuf]) -> anyhow::Result<(String, u64, u64)> {
    let is_wanted = |name: &str| files.binary_search(&folder.archive().join(name)).is_ok();
    let mut blocks = format!("!meta 0 {}\n", json!({"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}));
    let (mut lines, mut captures, mut media, mut offset) = (Vec::new(), 0, 0, 0);
    let mut indexed = HashSet::new();
    let mut found = Captures::new(folder.dir()).all()?;
    loop {
        let line = found.next().transpose()?;
        if line.as_ref().is_some_and(|line| !is_wanted(&line.filename)) {
            continue;
        }
        let is_last = line.is_none();
        media += u64::from(line.as_ref().is_some_and(|line| line.capture.media.is_some()));
        if let Some(line) = line.as_ref().filter(|line| !indexed.contains(&line.filename)) {
            indexed.insert(line.filename.clone());
        }
        lines.extend(line.map(|line| captures::text(&line)));
        if lines.len() == INDEX_LINES || (is_last && !lines.is_empty()) {
            // The index is small beside the archive: time matters more.
            let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            lines.iter().try_for_each(|line| writeln!(packed, "{}", line.trim_end()))?;
            let packed = packed.finish()?;
            to.write_all(&packed).context("writing the index")?;
            let key = lines[0].split(" {").next().unwrap_or_default();
            let sha256 = hashed(digest::digest(&SHA256, &packed).as_ref());
            let place = json!({"offset": offset, "length": packed.len(), "digest": sha256});
            blocks.push_str(&format!("{key} {place}\n"));
            offset += packed.len();
            captures += lines.len() as u64;
            lines.clear();
        }
        if is_last {
            break;
        }
    }
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
    Ok((blocks, captures, media))
}

/// Whether a file has a record that belongs into an index.
fn has_captures(file: &Path) -> anyhow::Result<bool> {
    let named = || format!("reading {}", file.display());
    let mut reader = Reader::new(File::open(file).with_context(named)?);
    while let Some(record) = reader.read(&mut ()).with_context(named)? {
        if record.header.get("WARC-Type").is_some_and(is_capture) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes the list of pages. Returns their number, and the first page at which the crawl began.
fn write_pages(
    to: &mut File,
    tables: &nephila_tables::Folder,
    files: &[PathBuf],
    with_text: bool,
) -> anyhow::Result<(u64, Option<PageRow>)> {
    let mut out = BufWriter::new(to);
    let head = json!({"format": "json-pages-1.0", "id": "pages", "title": "All Pages", "hasText": with_text});
    writeln!(out, "{head}")?;
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
            failed = writeln!(out, "{line}").err();
            if page.is_seed && first.is_none() {
                first = Some(page);
            }
            failed.is_none()
        })?;
        if let Some(error) = failed.take() {
            return Err(error).context("writing the pages");
        }
    }
    out.flush().context("writing the pages")?;
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
    /// Copies a file into an entry, until `say` returns false. Returns the number of bytes.
    fn copy(&mut self, path: &str, mut input: File, say: &mut dyn FnMut(u64) -> bool) -> anyhow::Result<u64> {
        self.begin(path)?;
        let (to_hash, hashing) = mpsc::channel::<(Vec<u8>, usize)>();
        let (to_free, free) = mpsc::channel();
        (0..COPY_PIECES).for_each(|_| _ = to_free.send(vec![0; COPY_BYTES]));
        let zip = &mut self.zip;
        let (bytes, hash) = std::thread::scope(|scope| {
            let hash = scope.spawn(move || {
                let mut hash = digest::Context::new(&SHA256);
                for (piece, count) in hashing {
                    hash.update(&piece[..count]);
                    let _ = to_free.send(piece);
                }
                hash.finish()
            });
            let mut bytes = 0;
            let mut copy = move || -> io::Result<u64> {
                while let Ok(mut piece) = free.recv() {
                    let count = input.read(&mut piece)?;
                    bytes += count as u64;
                    if count == 0 || !say(bytes) {
                        break;
                    }
                    zip.write_all(&piece[..count])?;
                    let _ = to_hash.send((piece, count));
                }
                Ok(bytes)
            };
            let bytes = copy();
            // Ends the channel to the thread.
            drop(copy);
            (bytes, hash.join().expect("digests do not panic"))
        });
        let bytes = bytes?;
        self.end(path, bytes, hash.as_ref());
        Ok(bytes)
    }

    /// Adds a whole entry.
    fn add(&mut self, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.begin(path)?;
        self.zip.write_all(bytes)?;
        self.end(path, bytes.len() as u64, digest::digest(&SHA256, bytes).as_ref());
        Ok(())
    }

    /// Begins an entry. Entries may be longer than 4 GiB.
    fn begin(&mut self, path: &str) -> anyhow::Result<()> {
        let options = SimpleFileOptions::default();
        let options = options.compression_method(zip::CompressionMethod::Stored).large_file(true);
        self.zip.start_file(path, options).with_context(|| format!("beginning {path}"))
    }

    fn end(&mut self, path: &str, bytes: u64, hash: &[u8]) {
        // Names in a data package are in lower case.
        let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
        self.resources.push(json!({"name": name, "path": path, "hash": hashed(hash), "bytes": bytes}));
    }
}
