//! Text (WET) and metadata (WAT) of selected captures, as Common Crawl has them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use http::HeaderMap;
use nephila_core::handler::sniff::{self, Kind as Media};
use nephila_core::handler::{Findings, Limits, Page, ReadAs, charset, read_page_until};
use nephila_core::store::{Digest, cdxj, head, record};
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_engine::crawl::reread::fields;
use nephila_engine::crawl::tables::decode;
use nephila_engine::crawl::text;
use nephila_store::archive::new_id;
use nephila_store::warc;
use nephila_tables::records::{BODY_BYTES_MAX, Gathered, Records};
use serde_json::{Map, Value, json};

use super::select::{Out, Select};
use super::{Exported, closed_files};

/// Time limit for parsing one page; a partial result counts.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// The kind of file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// WET: the text of pages; all, or the main text.
    Text { is_main: bool },
    /// WAT: metadata in JSON.
    Json,
}

/// Writes a record for each capture, which `say` hears of: bytes read, bytes in all.
pub(super) fn write(
    select: &Select,
    kind: Kind,
    out: &mut Out,
    say: &mut dyn FnMut(u64, u64),
) -> anyhow::Result<Exported> {
    let (files, all) = closed_files(&select.folder)?;
    let (mut exported, mut done) = (Exported::default(), 0);
    for file in &files {
        let named = || file.display().to_string();
        let input = BufReader::new(File::open(file).with_context(named)?);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let mut records = Records::new(input, &name);
        while let Some(gathered) = records.read().with_context(named)? {
            let is_page = matches!(gathered.header.get("WARC-Type"), Some("response" | "resource"));
            let capture = warc::scan::capture(&gathered.header, &gathered.http).filter(|_| is_page);
            let Some(capture) = capture.filter(|it| select.takes(it, it.mime.as_deref())) else { continue };
            let Some(id) = gathered.header.get("WARC-Record-ID") else { continue };
            let block = match kind {
                Kind::Text { is_main } => text_of(&gathered, &capture, is_main).map(String::into_bytes),
                Kind::Json => Some(serde_json::to_vec(&envelope(&gathered, &capture, file))?),
            };
            let Some(block) = block else { continue };
            let (name, label) = match kind {
                Kind::Text { .. } => ("conversion", "text/plain"),
                Kind::Json => ("metadata", "application/json"),
            };
            let size = (&Digest::of(&[&block]), block.len() as u64);
            let head = record::derived(name, label, (&capture.url, id), &new_id(), date(&gathered), size);
            out.record(&[&head, &block])?;
            exported.captures += 1;
            say(done + gathered.offset, all);
        }
        done += file.metadata().map(|it| it.len()).unwrap_or_default();
        say(done, all);
    }
    Ok(exported)
}

fn date(gathered: &Gathered) -> Timestamp {
    let date = gathered.header.get("WARC-Date").unwrap_or_default();
    let millis = date.parse::<jiff::Timestamp>().map_or(0, |time| time.as_millisecond());
    Timestamp(u64::try_from(millis).unwrap_or(0))
}

/// The text of a page with status 200; none of other captures and of pages without text.
fn text_of(gathered: &Gathered, capture: &cdxj::Capture, is_main: bool) -> Option<String> {
    // A `resource` has no status.
    if capture.status.as_deref().is_some_and(|status| status != "200") {
        return None;
    }
    let body = decode(&gathered.http, &gathered.body, BODY_BYTES_MAX as u64)?;
    let label = head::field(&gathered.http, "content-type");
    let label = label.as_deref().map(str::as_bytes);
    let media = sniff::sniff(label, &body).kind;
    if media == Media::Pdf && is_main {
        return gathered.text.clone().or_else(|| text::pdf::read(&body).map(|article| article.text));
    }
    if !media.is_text() {
        return None;
    }
    let encoding = charset::decide(label, &body).encoding;
    let decoded = charset::decode(encoding, &body, BODY_BYTES_MAX).text;
    let found = match (media, is_main) {
        (Media::Html, true) => match &gathered.text {
            Some(text) => text.clone(),
            None => text::of_html(&decoded, &capture.url)?.text,
        },
        (Media::Html, false) => text::plain::text(&decoded),
        _ => decoded,
    };
    Some(found).filter(|text| !text.trim().is_empty())
}

/// What a WAT record says of a response.
fn envelope(gathered: &Gathered, capture: &cdxj::Capture, file: &Path) -> Value {
    let warc: Map<String, Value> =
        gathered.header.fields.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let text = String::from_utf8_lossy(&gathered.http).into_owned();
    let mut lines = text.lines();
    let mut status = lines.next().unwrap_or_default().splitn(3, ' ');
    let (version, code, reason) = (status.next(), status.next(), status.next());
    let named = lines.filter_map(|line| line.split_once(':'));
    let headers: Map<String, Value> =
        named.map(|(name, value)| (name.trim().to_owned(), value.trim().into())).collect();
    let mut response = json!({
        "Response-Message": {"Version": version, "Status": code, "Reason": reason.unwrap_or_default()},
        "Headers": headers,
        "Headers-Length": gathered.http.len(),
        "Entity-Length": gathered.body.len(),
        "Entity-Digest": capture.digest,
    });
    if let Some(findings) = findings(gathered, capture) {
        response["HTML-Metadata"] = html(&findings);
    }
    json!({
        "Container": {
            "Filename": file.file_name().unwrap_or_default().to_string_lossy(),
            "Offset": gathered.offset.to_string(),
            "Compressed": file.extension().is_none_or(|ending| ending != "warc"),
        },
        "Envelope": {
            "Format": "WARC",
            "WARC-Header-Metadata": warc,
            "Actual-Content-Length": (gathered.http.len() + gathered.body.len()).to_string(),
            "Payload-Metadata": {
                "Actual-Content-Type": "application/http; msgtype=response",
                "HTTP-Response-Metadata": response,
            },
        },
    })
}

/// What the reader of pages finds in an HTML page.
fn findings(gathered: &Gathered, capture: &cdxj::Capture) -> Option<Findings> {
    let url = CrawlUrl::parse(&capture.url).ok()?;
    let body = decode(&gathered.http, &gathered.body, BODY_BYTES_MAX as u64)?;
    let fields: HeaderMap = fields(&gathered.http);
    let (keys, began) = (KeyRules::default(), Instant::now());
    let limits = Limits { details: true, html_bytes_max: BODY_BYTES_MAX, ..Limits::default() };
    let page =
        Page { url: &url, fields: &fields, body: &body, read_as: ReadAs::Page, agent: "", keys: &keys };
    let findings = read_page_until(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX);
    (findings.kind == Media::Html).then_some(findings)
}

fn html(findings: &Findings) -> Value {
    let links = findings.links.iter().map(|found| {
        let mut link = json!({"path": path(found.place), "url": found.url.as_str()});
        if let Some(words) = found.words.as_deref() {
            if !words.anchor.is_empty() {
                link["text"] = words.anchor.as_str().into();
            }
            if !words.rel.is_empty() {
                link["rel"] = words.rel.as_str().into();
            }
        }
        link
    });
    let mut top = json!({"Title": findings.title});
    if let Some(details) = findings.details.as_deref() {
        let description =
            details.description.iter().map(|text| json!({"name": "description", "content": text}));
        top["Metas"] = description.collect();
        let canonical = details.canonical.iter().map(|url| json!({"rel": "canonical", "url": url.as_str()}));
        top["Link"] = canonical.collect();
        top["Language"] = json!(details.language);
    }
    json!({"Head": top, "Links": links.collect::<Vec<_>>()})
}

/// The place of a link as Common Crawl writes it: `A@/href` for `a/@href`.
fn path(place: &str) -> String {
    match place.rsplit_once("/@") {
        Some((element, attribute)) => format!("{}@/{attribute}", element.to_uppercase()),
        None => place.to_owned(),
    }
}
