//! `nephila read` and `nephila cdx`: the captures of a URL.

use std::io::Write;

use anyhow::Context;
use http::{HeaderMap, Method, StatusCode};
use nephila_core::handler::{charset, sniff};
use nephila_core::store::{Media, head};
use nephila_core::text::{shown, shown_bytes};
use nephila_core::url::CrawlUrl;
use nephila_spider::decode;
use nephila_store::captures::{Captures, Match, Query};

use super::{json, on_terminal, out, time};
use crate::cli::ask::{CdxArgs, MatchKind, ReadArgs, Where};
use nephila_api::about::{About, Listed};
use nephila_api::web::ReadOnly;
use nephila_api::whole_page::whole_page_target;
use nephila_api::{HttpQuestion, Reply};
use nephila_cluster::media::MediaStore;
use nephila_cluster::remote::{Remote, refused};
use nephila_engine::crawl::decoded::{decoded, head_fields};
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::process::{block_on, small_runtime};

/// Maximum size in bytes of a stored body; `--warc` prints longer ones too.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Maximum size in bytes of a decoded body.
const DECODED_BYTES_MAX: u64 = 1 << 30;
/// Maximum size in bytes of the text of a page.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// `nephila read`.
pub(super) fn read(args: &ReadArgs) -> anyhow::Result<Exit> {
    let node = args.remote.open()?;
    if args.complete {
        return whole_page(node.as_ref(), args);
    }
    if let Some(node) = node {
        return read_from(&node, args);
    }
    let captures = open(&args.place)?;
    let url = canonical(&args.url);
    let at = args.at.as_deref().map(time::digits).transpose()?;
    let Some(line) = captures.nearest(&url, at.as_deref())? else {
        eprintln!("nephila: no capture of {}: `nephila explain` says why", shown(&url));
        return Ok(Exit::Failed);
    };
    let mut out = out();
    if args.warc {
        if on_terminal() {
            let mut record = Vec::new();
            captures.copy_record(&line, &mut record)?;
            show(&mut out, &record)?;
        } else {
            captures.copy_record(&line, &mut out)?;
        }
        out.flush()?;
        return Ok(Exit::Done);
    }
    let mut capture = captures.read(&line, BODY_BYTES_MAX)?;
    let is_body_wanted = !args.place.json && !args.headers;
    if let Some(media) = capture.media.filter(|_| is_body_wanted) {
        capture.body = body_of(&media, &Folder::find(args.place.output.as_deref()))?;
    }
    if args.place.json {
        super::print_json(&mut out, &About::of(&line, &capture))?;
    } else if args.headers {
        put(&mut out, &capture.http)?;
    } else if args.raw {
        put(&mut out, &capture.body)?;
    } else if args.markdown {
        put_line(&mut out, &text(&capture.http, &capture.body, &url, true)?)?;
    } else if args.text {
        // The text extracted at the time of the fetch is stored beside the record with the body.
        let kept = captures.beside(capture.origin.as_ref().unwrap_or(&line), "conversion")?;
        let text = match kept {
            Some(text) => String::from_utf8_lossy(&text).into_owned(),
            None => text(&capture.http, &capture.body, &url, false)?,
        };
        put_line(&mut out, &text)?;
    } else {
        put_decoded(&mut out, &capture.http, &capture.body)?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// Reads a body from the object store that the last crawl of the folder used.
fn body_of(media: &Media, folder: &Folder) -> anyhow::Result<Vec<u8>> {
    let kept = folder.settings();
    let settings = nephila_engine::settings::load(None, &[], Some(&*kept).filter(|kept| kept.is_file()))?;
    let store = MediaStore::open(&settings)?.with_context(|| {
        format!("its body is the object {}, and media.to does not say where that is", media.key())
    })?;
    anyhow::ensure!(
        media.bytes <= BODY_BYTES_MAX,
        "its body has {} bytes: read {} from the object store",
        media.bytes,
        media.key()
    );
    Ok(block_on(&small_runtime()?, store.read(media))?.into())
}

/// `nephila read --node`: reads the capture through a node, from any node of the cluster.
fn read_from(node: &Remote, args: &ReadArgs) -> anyhow::Result<Exit> {
    let at = args.at.as_deref().map(time::digits).transpose()?;
    let part = match (args.warc, args.place.json, args.headers, args.raw) {
        (true, ..) => "record",
        (_, true, ..) => "json",
        (_, _, true, _) => "headers",
        (.., true) => "body",
        _ => "http",
    };
    let runtime = small_runtime()?;
    let reply = block_on(&runtime, node.page(&args.url, part, at.as_deref()))?;
    if let Some(exit) = not_there(&reply)? {
        return Ok(exit);
    }
    let mut out = out();
    if part == "json" {
        let about: serde_json::Value = reply.json()?;
        super::print_json(&mut out, &about)?;
    } else if part == "http" {
        let end = head::end(&reply.body).unwrap_or(0);
        let (http, body) = reply.body.split_at(end);
        match args.text || args.markdown {
            true => put_line(&mut out, &text(http, body, &args.url, args.markdown)?)?,
            false => put_decoded(&mut out, http, body)?,
        }
    } else {
        put(&mut out, &reply.body)?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

/// `nephila read --complete`: a page with its resources, from a node or from the folder.
fn whole_page(node: Option<&Remote>, args: &ReadArgs) -> anyhow::Result<Exit> {
    let at = args.at.as_deref().map(time::digits).transpose()?;
    let target = whole_page_target(&args.url, at.as_deref());
    let runtime = small_runtime()?;
    let reply = match node {
        Some(node) => block_on(&runtime, node.whole_page(target))?,
        None => {
            let archive = ReadOnly::new(open_folder(&args.place)?.dir(), "this folder");
            let asked = HttpQuestion::new(Method::GET, &target, HeaderMap::new(), false);
            block_on(&runtime, async { Reply::of(archive.whole_page(&asked).await).await })
        }
    };
    if let Some(exit) = not_there(&reply)? {
        return Ok(exit);
    }
    let count = |name: &str| reply.field(name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    let (missing, omitted) = (count("nephila-missing"), count("nephila-omitted"));
    if missing + omitted > 0 {
        let all = count("nephila-resources") + omitted;
        eprintln!("nephila: {} of {all} resources are missing; their parts say why", missing + omitted);
    }
    let mut out = out();
    put(&mut out, &reply.body)?;
    out.flush()?;
    Ok(Exit::Done)
}

/// The exit status if a node has no capture now.
fn not_there(reply: &Reply) -> anyhow::Result<Option<Exit>> {
    match reply.status {
        StatusCode::OK => Ok(None),
        status @ (StatusCode::NOT_FOUND | StatusCode::SERVICE_UNAVAILABLE) => {
            eprintln!("nephila: {}", shown(&refused(reply).to_string()));
            let later = status == StatusCode::SERVICE_UNAVAILABLE;
            Ok(Some(if later { Exit::Unreachable } else { Exit::Failed }))
        }
        _ => Err(refused(reply)),
    }
}

fn put_decoded(out: &mut dyn Write, http: &[u8], body: &[u8]) -> anyhow::Result<()> {
    let (body, note) = decoded(http, body, DECODED_BYTES_MAX)?;
    if !matches!(note, decode::Note::Whole | decode::Note::Plain) {
        eprintln!("nephila: the stored body is {}: this is what could be read of it", note.as_str());
    }
    put(out, &body)
}

/// `nephila cdx`.
pub(super) fn cdx(args: &CdxArgs) -> anyhow::Result<Exit> {
    let captures = open(&args.place)?;
    let mut query = Query::parse(&args.url);
    query.matches = match args.matches {
        Some(MatchKind::Exact) => Match::Exact,
        Some(MatchKind::Prefix) => Match::Prefix,
        Some(MatchKind::Host) => Match::Host,
        Some(MatchKind::Domain) => Match::Domain,
        None => query.matches,
    };
    query.from = args.from.as_deref().map(time::digits).transpose()?;
    query.to = args.to.as_deref().map(time::digits).transpose()?;
    let mut out = out();
    let mut lines = captures.find(&query)?;
    let mut count = 0;
    for line in lines.by_ref().take(args.limit.unwrap_or(usize::MAX)) {
        let line = line?;
        count += 1;
        if args.place.json {
            writeln!(out, "{}", json(&Listed::of(&line)))?;
        } else {
            writeln!(out, "{}", nephila_store::captures::text(&line))?;
        }
    }
    out.flush()?;
    if lines.left_out() > 0 {
        eprintln!("nephila: {} captures in files still open are not listed", lines.left_out());
    }
    if lines.unread() > 0 {
        eprintln!("nephila: {} lines of an index cannot be read: `nephila verify` says more", lines.unread());
    }
    Ok(if count > 0 { Exit::Done } else { Exit::Failed })
}

fn open(place: &Where) -> anyhow::Result<Captures> {
    Ok(Captures::new(open_folder(place)?.dir()))
}

fn open_folder(place: &Where) -> anyhow::Result<Folder> {
    let folder = Folder::find(place.output.as_deref());
    if !folder.archive().is_dir() {
        anyhow::bail!(
            "{} holds no archive: name the folder of a crawl, or of `fetch --warc`, with -o DIR",
            folder.dir().display()
        );
    }
    Ok(folder)
}

/// The URL in canonical form, if valid; a URL without scheme is looked up by its key.
fn canonical(url: &str) -> String {
    CrawlUrl::parse(url).map_or_else(|_| url.to_owned(), |url| url.as_str().to_owned())
}

fn put_line(out: &mut dyn Write, text: &str) -> anyhow::Result<()> {
    put(out, text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The main text of a page, or all text.
fn text(http: &[u8], stored: &[u8], url: &str, as_markdown: bool) -> anyhow::Result<String> {
    let (body, _) = decoded(http, stored, DECODED_BYTES_MAX)?;
    let label = head_fields(http, "content-type").pop();
    let sniffed = sniff::sniff(label.iter().map(|label| label.as_bytes()), &body);
    if sniffed.kind == sniff::Kind::Pdf {
        let article = nephila_engine::crawl::text::pdf::read(&body);
        return article.map(|article| article.text).context(
            "no text was found in the PDF, perhaps since it is a scan: leave --text out to get its bytes",
        );
    }
    if !sniffed.kind.is_text() {
        let kind = sniffed.label.unwrap_or_else(|| format!("{:?}", sniffed.kind).to_lowercase());
        anyhow::bail!("{} has no text: leave --text out to get its bytes", shown(&kind));
    }
    let encoding = charset::decide(label.as_deref().map(str::as_bytes), &body).encoding;
    let text = charset::decode(encoding, &body, TEXT_BYTES_MAX).text;
    Ok(match sniffed.kind {
        sniff::Kind::Html => match main_text(&text, url, as_markdown) {
            Some(found) => found,
            None => {
                eprintln!("nephila: no main text was found: this is all text of the page");
                nephila_engine::crawl::text::plain::text(&text)
            }
        },
        _ => text,
    })
}

fn main_text(html: &str, url: &str, as_markdown: bool) -> Option<String> {
    match as_markdown {
        true => nephila_engine::crawl::text::markdown_of(html, url),
        false => nephila_engine::crawl::text::of_html(html, url).map(|article| article.text),
    }
}

/// Writes bytes unchanged; on a terminal, writes safe text.
fn put(out: &mut dyn Write, bytes: &[u8]) -> anyhow::Result<()> {
    if on_terminal() { show(out, bytes) } else { Ok(out.write_all(bytes)?) }
}

fn show(out: &mut dyn Write, bytes: &[u8]) -> anyhow::Result<()> {
    if sniff::is_binary(bytes) {
        anyhow::bail!("this is no text: send it to a file with `> FILE`");
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        writeln!(out, "{}", shown_bytes(line.strip_suffix(b"\r").unwrap_or(line)))?;
    }
    Ok(())
}
