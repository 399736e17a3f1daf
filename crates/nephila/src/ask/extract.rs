//! `nephila extract`: parses the stored pages again with the current parser.
//!
//! For every page and style sheet in the archive, text and links are extracted again, and written as records that refer
//! to the capture, unless the archive already has them: the command is idempotent. Nothing is fetched, and no stored
//! record changes.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use nephila_core::handler::outlinks::Outlinks;
use nephila_core::handler::{Page, ReadAs, read_page_until};
use nephila_core::store::record::WarcInfo;
use nephila_core::store::redact;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_store::captures::{Capture, Captures};
use nephila_store::derive::{Deriver, Kind as Derived};

use crate::cli::ExtractArgs;
use crate::command::resolved::{handler_before, store_before};
use nephila_engine::clock::Clock;
use nephila_engine::crawl::decoded::decoded;
use nephila_engine::crawl::reread::fields;
use nephila_engine::crawl::text;
use nephila_engine::exit::Exit;
use nephila_engine::folder::Folder;
use nephila_engine::human::count;

/// Time limit for parsing one page; a partial result counts.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Interval of progress messages.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Names of the metadata lines that come from parsing the page.
const NAMES: &[&str] = &["title", "published", "author", "language", "outlink", "outlinksOmitted"];

/// Runs the command.
pub(crate) fn run(args: &ExtractArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.output.as_deref());
    if !folder.archive().is_dir() {
        anyhow::bail!("{} holds no archive: name the folder of a crawl with -o DIR", folder.dir().display());
    }
    let handler = handler_before(&folder);
    let settings = store_before(&folder);
    let info = WarcInfo { software: format!("nephila/{}", env!("CARGO_PKG_VERSION")), ..WarcInfo::default() };
    let captures = Captures::new(folder.dir());
    let mut deriver = Deriver::begin(folder.dir(), &settings, info)?;
    let (clock, keys) = (Clock::new(), KeyRules::default());
    let (mut read, mut unread, mut said) = (0u64, 0u64, Instant::now());
    let mut seen: (String, HashSet<Option<String>>) = Default::default();
    for line in captures.all()? {
        let line = line?;
        let mime = line.capture.mime.as_deref().unwrap_or_default();
        let is_pdf = mime == "application/pdf" && !args.links;
        let is_page = mime.contains("html") || mime == "text/css";
        let bytes_max = if is_pdf { text::pdf::BYTES_MAX } else { handler.page_bytes_max };
        if !(is_page || is_pdf) || line.capture.status.as_deref().is_some_and(|status| status != "200") {
            continue;
        }
        if line.capture.url != seen.0 {
            seen = (line.capture.url.clone(), HashSet::new());
        }
        if !seen.1.insert(line.capture.digest.clone()) {
            continue;
        }
        let capture = captures.read(&line, bytes_max as u64);
        let Ok((capture, url)) = capture
            .map_err(drop)
            .and_then(|capture| Ok((capture, CrawlUrl::parse(&line.capture.url).map_err(drop)?)))
        else {
            unread += 1;
            continue;
        };
        let Some(found) = of_capture(&capture, &url, (&handler, bytes_max), &keys) else {
            unread += 1;
            continue;
        };
        read += 1;
        let Some(id) = capture.header.get("WARC-Record-ID") else { continue };
        let now = clock.now().wall;
        if !args.links && !found.text.is_empty() {
            let known = captures.beside(&line, Derived::Text.name())?;
            if known.as_deref() != Some(found.text.as_bytes()) {
                deriver.append(Derived::Text, url.as_str(), id, found.text.as_bytes(), now)?;
            }
        }
        if !args.text {
            let known = captures.beside(&line, Derived::Metadata.name())?.unwrap_or_default();
            if !found.is_in(&known) {
                deriver.append(Derived::Metadata, url.as_str(), id, found.block().as_bytes(), now)?;
            }
        }
        if !args.quiet && said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            eprintln!("nephila: {} captures read so far", count(read));
        }
    }
    let written = deriver.finish()?;
    if !args.quiet {
        eprintln!("nephila: {} captures read, {} records written", count(read), count(written));
        if unread > 0 {
            eprintln!("nephila: {} captures could not be read: `nephila verify` says more", count(unread));
        }
    }
    Ok(Exit::Done)
}

/// Result of parsing a page.
struct Found {
    text: String,
    /// Lines of the metadata record.
    lines: Vec<String>,
}

impl Found {
    fn block(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\r\n")).collect()
    }

    /// Whether a metadata record already has the same lines.
    fn is_in(&self, block: &[u8]) -> bool {
        let block = String::from_utf8_lossy(block);
        let of_reading = |line: &&str| line.split_once(": ").is_some_and(|(name, _)| NAMES.contains(&name));
        let mut known: Vec<&str> = block.lines().filter(of_reading).collect();
        let mut found: Vec<&str> = self.lines.iter().map(String::as_str).collect();
        known.sort_unstable();
        found.sort_unstable();
        known == found
    }
}

fn of_capture(
    capture: &Capture,
    url: &CrawlUrl,
    (handler, bytes_max): (&nephila_engine::settings::Handler, usize),
    keys: &KeyRules,
) -> Option<Found> {
    let (body, _) = decoded(&capture.http, &capture.body, bytes_max as u64).ok()?;
    let fields = fields(&capture.http);
    let page = Page { url, fields: &fields, body: &body, read_as: ReadAs::Page, agent: "", keys };
    let began = Instant::now();
    let limits = handler.limits(true);
    let findings = read_page_until(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX);
    let label = fields.get(http::header::CONTENT_TYPE).map(|value| value.as_bytes());
    let article = text::of_body(&body, label, url.as_str()).unwrap_or_default();
    let mut lines: Vec<String> =
        article.notes().into_iter().map(|(name, value)| note(name, &value)).collect();
    let outlinks = Outlinks::of(Some(&findings), None);
    lines.extend(outlinks.lines.iter().map(|(name, line)| note(name, line)));
    if outlinks.omitted > 0 {
        lines.push(note("outlinksOmitted", &outlinks.omitted.to_string()));
    }
    Some(Found { text: article.text, lines })
}

/// Formats a metadata line; control characters in the value are replaced, so that a value cannot end the line.
fn note(name: &str, value: &str) -> String {
    let value = redact::without_userinfo(value.as_bytes());
    let clean: String =
        String::from_utf8_lossy(&value).chars().map(|c| if c.is_ascii_control() { ' ' } else { c }).collect();
    format!("{name}: {clean}")
}
