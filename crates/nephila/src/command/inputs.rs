//! Inputs of `nephila add`: URLs, lists of URLs, JSON lines, CDXJ indexes, sitemaps and WARC files, all converted to
//! lines that a job accepts.
//!
//! A thread reads ahead, with backpressure.
//!
//! Invariants: at most [`PIECES_WAITING_MAX`] pieces of [`PIECE_BYTES`] wait; unreadable input is reported, with its
//! place, and does not stop the rest.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use http::HeaderMap;
use nephila_core::handler::ReadAs;
use nephila_core::handler::page::{Limits, Page};
use nephila_core::handler::sitemap::read_sitemap;
use nephila_core::store::record::is_capture;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_store::warc;
use tokio::sync::mpsc;

use crate::cli::cluster::AddArgs;
use nephila_engine::crawl::adding::AddLine;
use nephila_engine::exit::Exit;

/// Size in bytes of a piece of lines.
const PIECE_BYTES: usize = 1 << 20;
/// Capacity of the channel of pieces.
const PIECES_WAITING_MAX: usize = 4;
/// Maximum size in bytes of a line; a longer line is neither a URL nor of an index.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum size in bytes of a sitemap file, compressed or not: somewhat above the limit of the format.
const SITEMAP_FILE_BYTES_MAX: u64 = 64 << 20;
/// The base of relative URLs in a sitemap; nothing is there.
const NOWHERE: &str = "http://sitemap.invalid/";

/// A piece of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Lines: URLs, or JSON.
    Lines(String),
    /// An unreadable input, with the reason.
    Bad(String, String),
}

/// Begins to read all named inputs. An error ends the reading.
pub(crate) fn read(args: &AddArgs) -> mpsc::Receiver<anyhow::Result<Piece>> {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING_MAX);
    let args = args.clone();
    std::thread::spawn(move || {
        let mut out = Out { sender, piece: String::new() };
        if let Err(Stop::Error(error)) = read_all(&args, &mut out).and_then(|()| out.flush()) {
            _ = out.sender.blocking_send(Err(error));
        }
    });
    receiver
}

/// Why reading ended early.
enum Stop {
    /// The receiver is gone.
    Unwanted,
    Error(anyhow::Error),
}

struct Out {
    sender: mpsc::Sender<anyhow::Result<Piece>>,
    piece: String,
}

impl Out {
    fn line(&mut self, line: &str) -> Result<(), Stop> {
        if self.piece.len() + line.len() > PIECE_BYTES {
            self.flush()?;
        }
        self.piece.push_str(line.trim());
        self.piece.push('\n');
        Ok(())
    }

    /// Adds a URL as a JSON line, whatever characters the URL has.
    fn url(&mut self, url: &str, sitemap: bool) -> Result<(), Stop> {
        let line = AddLine { url: url.to_owned(), sitemap, ..AddLine::default() };
        let line = serde_json::to_string(&line).map_err(|error| Stop::Error(error.into()))?;
        self.line(&line)
    }

    fn bad(&mut self, place: String, why: impl ToString) -> Result<(), Stop> {
        self.sender.blocking_send(Ok(Piece::Bad(place, why.to_string()))).map_err(|_| Stop::Unwanted)
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let piece = std::mem::take(&mut self.piece);
        match piece.trim().is_empty() {
            true => Ok(()),
            false => self.sender.blocking_send(Ok(Piece::Lines(piece))).map_err(|_| Stop::Unwanted),
        }
    }
}

fn read_all(args: &AddArgs, out: &mut Out) -> Result<(), Stop> {
    for url in &args.urls {
        match url.as_str() {
            "-" => list(Path::new("-"), out)?,
            url => out.line(url)?,
        }
    }
    for file in &args.seeds {
        list(file, out)?;
    }
    for file in &args.cdxj {
        cdxj(file, out)?;
    }
    for place in &args.sitemap {
        match place.contains("://") {
            // The crawl fetches the sitemap, as politely as everything else.
            true => out.url(place, true)?,
            false => sitemap(Path::new(place), out)?,
        }
    }
    for file in &args.warc {
        warc(file, out)?;
    }
    Ok(())
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> Stop {
    Stop::Error(anyhow::Error::new(Exit::Input).context(format!("{}: {error}", path.display())))
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Stop> {
    match path.as_os_str() == "-" {
        true => Ok(Box::new(BufReader::new(io::stdin()))),
        false => Ok(Box::new(BufReader::new(File::open(path).map_err(|error| unreadable(path, error))?))),
    }
}

/// The lines of a file, decompressed if gzipped, each with its number. Lines that are too long are cut.
fn lines(path: &Path, mut each: impl FnMut(usize, &str) -> Result<(), Stop>) -> Result<(), Stop> {
    let mut input = open(path)?;
    let is_gzip = input.fill_buf().map_err(|error| unreadable(path, error))?.starts_with(&[0x1f, 0x8b]);
    if is_gzip {
        input = Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(input)));
    }
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut some = (&mut input).take(LINE_BYTES_MAX as u64);
        if some.read_until(b'\n', &mut line).map_err(|error| unreadable(path, error))? == 0 {
            break;
        }
        let is_whole = line.ends_with(b"\n") || line.len() < LINE_BYTES_MAX;
        each(number, &String::from_utf8_lossy(&line))?;
        if !is_whole {
            input.skip_until(b'\n').map_err(|error| unreadable(path, error))?;
        }
    }
    Ok(())
}

/// A list of URLs, or of JSON lines.
fn list(path: &Path, out: &mut Out) -> Result<(), Stop> {
    lines(path, |_, line| out.line(line))
}

/// A CDXJ index of captures: a key, a time, and JSON with the URL.
fn cdxj(path: &Path, out: &mut Out) -> Result<(), Stop> {
    let mut last = String::new();
    lines(path, |number, line| {
        // Headers of indexes begin with a space or an exclamation mark.
        if line.trim().is_empty() || line.starts_with([' ', '!', '#']) {
            return Ok(());
        }
        let json = line.find('{').and_then(|at| serde_json::from_str::<serde_json::Value>(&line[at..]).ok());
        match json.as_ref().and_then(|json| json["url"].as_str()) {
            // Captures of one URL are adjacent.
            Some(url) if url == last => Ok(()),
            Some(url) => {
                url.clone_into(&mut last);
                out.url(url, false)
            }
            None => out.bad(format!("{}:{number}", path.display()), "no CDXJ line with a url"),
        }
    })
}

/// A sitemap of any kind, or a sitemap index: the crawl fetches the sitemaps of an index.
fn sitemap(path: &Path, out: &mut Out) -> Result<(), Stop> {
    let mut body = Vec::new();
    let read = open(path)?.take(SITEMAP_FILE_BYTES_MAX).read_to_end(&mut body);
    read.map_err(|error| unreadable(path, error))?;
    let (url, keys) = (CrawlUrl::parse(NOWHERE).expect("a URL"), KeyRules::default());
    let fields = HeaderMap::new();
    let page =
        Page { url: &url, fields: &fields, body: &body, read_as: ReadAs::Sitemap, agent: "", keys: &keys };
    let found = read_sitemap(&page, &Limits::default());
    if found.urls.is_empty() && found.sitemaps.is_empty() {
        return Err(unreadable(path, "no sitemap: nothing in it names a page"));
    }
    let named = found.urls.iter().map(|entry| (&entry.url, false));
    for (named, is_sitemap) in named.chain(found.sitemaps.iter().map(|url| (url, true))) {
        match named.origin() == url.origin() {
            true => {
                out.bad(path.display().to_string(), format!("{} is no whole URL", named.path_and_query()))?
            }
            false => out.url(named.as_str(), is_sitemap)?,
        }
    }
    for _ in 0..found.dropped {
        out.bad(path.display().to_string(), "no URL")?;
    }
    if found.cut {
        out.bad(path.display().to_string(), "it is longer than a sitemap may be; the rest was not read")?;
    }
    Ok(())
}

/// The pages of a WARC file.
fn warc(path: &Path, out: &mut Out) -> Result<(), Stop> {
    let mut reader = warc::Reader::new(open(path)?);
    let mut last = String::new();
    loop {
        let record = match reader.read(&mut ()) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(warc::Error::Io(error)) => return Err(unreadable(path, error)),
            // The records before the error count.
            Err(error) if reader.offset() > 0 => return out.bad(path.display().to_string(), error),
            Err(error) => return Err(unreadable(path, error)),
        };
        let kind = record.header.get("WARC-Type").unwrap_or_default();
        let url = record.header.get("WARC-Target-URI").unwrap_or_default();
        // Old writers put the URL between angle brackets.
        let url = url.trim_matches(['<', '>']);
        let is_page = is_capture(kind) && url.starts_with("http");
        if is_page && url != last {
            url.clone_into(&mut last);
            out.url(url, false)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn all(args: &AddArgs) -> (Vec<String>, Vec<(String, String)>, Option<String>) {
        let (mut lines, mut bad, mut error) = (Vec::new(), Vec::new(), None);
        let mut pieces = read(args);
        while let Some(piece) = pieces.blocking_recv() {
            match piece {
                Ok(Piece::Lines(text)) => lines.extend(text.lines().map(str::to_owned)),
                Ok(Piece::Bad(place, why)) => bad.push((place, why)),
                Err(stopped) => error = Some(format!("{stopped:#}")),
            }
        }
        (lines, bad, error)
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    fn of(url: &str) -> String {
        format!(r#"{{"url":"{url}"}}"#)
    }

    #[test]
    fn arguments_and_lists_come_as_they_are_packed_or_not() {
        let list = b"http://b.test/\n# no URL\n{\"url\": \"http://c.test/\", \"hits\": 3}\n";
        for bytes in [list.to_vec(), gzip(list)] {
            let list = file(&bytes);
            let args = AddArgs {
                urls: vec!["a.test".into()],
                seeds: vec![list.path().into()],
                ..AddArgs::default()
            };
            let (lines, bad, error) = all(&args);
            let json = "{\"url\": \"http://c.test/\", \"hits\": 3}";
            assert_eq!(lines, ["a.test", "http://b.test/", "# no URL", json]);
            assert_eq!((bad, error), (vec![], None));
        }
    }

    #[test]
    fn an_index_gives_each_url_once_and_says_which_lines_it_could_not_read() {
        let index = "!meta 0 {\"format\": \"cdxj\"}\n\
                     test,a)/ 20261115000000 {\"url\": \"http://a.test/\", \"status\": \"200\"}\n\
                     test,a)/ 20261115000001 {\"url\": \"http://a.test/\", \"status\": \"304\"}\n\
                     test,a)/ 2026 nothing\n\
                     test,b)/ 20261115000000 {\"url\": \"http://b.test/\"}\n";
        let index = file(index.as_bytes());
        let args = AddArgs { cdxj: vec![index.path().into()], ..AddArgs::default() };
        let (lines, bad, error) = all(&args);
        assert_eq!((lines, error), (vec![of("http://a.test/"), of("http://b.test/")], None));
        assert!(bad.len() == 1 && bad[0].0.ends_with(":4"), "{bad:?}");
    }

    #[test]
    fn a_sitemap_gives_pages_and_other_sitemaps() {
        let map = "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"><url><loc>http://a.test/1</loc></url>\
                   <url><loc>http://a.test/2</loc></url></urlset>";
        let index = "<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\"><sitemap>\
                     <loc>http://a.test/more.xml</loc></sitemap></sitemapindex>";
        let (map, index) = (file(&gzip(map.as_bytes())), file(index.as_bytes()));
        let path = |file: &tempfile::NamedTempFile| file.path().display().to_string();
        let sitemap = vec![path(&map), path(&index), "http://b.test/sitemap.xml".into()];
        let (lines, bad, error) = all(&AddArgs { sitemap, ..AddArgs::default() });
        let as_sitemap = |url: &str| format!(r#"{{"url":"{url}","sitemap":true}}"#);
        assert_eq!(
            lines,
            [
                of("http://a.test/1"),
                of("http://a.test/2"),
                as_sitemap("http://a.test/more.xml"),
                as_sitemap("http://b.test/sitemap.xml")
            ]
        );
        assert_eq!((bad, error), (vec![], None));
        let page = file(b"<html><p>no sitemap</p></html>");
        let (_, _, error) = all(&AddArgs { sitemap: vec![path(&page)], ..AddArgs::default() });
        assert!(error.unwrap().contains("no sitemap"));
    }

    #[test]
    fn an_archive_gives_its_pages_up_to_where_it_is_torn() {
        let record = |kind: &str, url: &str| {
            format!(
                "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2026-11-15T00:00:00Z\r\n\
                 WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\nContent-Length: 4\r\n\r\nbody\r\n\r\n"
            )
            .into_bytes()
        };
        let records = [
            record("request", "http://a.test/"),
            record("response", "http://a.test/"),
            record("revisit", "<http://b.test/>"),
            record("response", "dns:b.test"),
            record("metadata", "http://c.test/"),
        ];
        let torn = &record("response", "http://d.test/")[..60];
        let plain = [&records.concat()[..], torn].concat();
        let packed = records.iter().flat_map(|record| gzip(record)).collect::<Vec<u8>>();
        for (bytes, bad_count) in [(plain, 1), (packed, 0)] {
            let archive = file(&bytes);
            let (lines, bad, error) =
                all(&AddArgs { warc: vec![archive.path().into()], ..AddArgs::default() });
            assert_eq!((lines, error), (vec![of("http://a.test/"), of("http://b.test/")], None));
            assert_eq!(bad.len(), bad_count, "{bad:?}");
        }
        let page = file(b"<html>");
        let (_, _, error) = all(&AddArgs { warc: vec![page.path().into()], ..AddArgs::default() });
        assert!(error.is_some());
    }
}
