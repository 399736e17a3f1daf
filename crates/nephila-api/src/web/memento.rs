//! Memento (RFC 7089): captures of a URL by time.
//!
//! `/web/URL` is a TimeGate: the request names a time in `Accept-Datetime`, the answer redirects to the capture nearest
//! to this time, or to the latest. `/web/TIMEid_/URL` is that capture: status and bytes as stored, the stored header
//! fields with the prefix `x-archive-orig-`. If the time is not the one of a capture, the answer redirects to the
//! nearest. `/web/timemap/FORMAT/URL` is a TimeMap, the list of all captures.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use nephila_core::store::{cdxj::Line, head};
use nephila_core::url::CrawlUrl;
use nephila_store::captures::{self, Query};
use serde::Deserialize;
use serde_json::json;

use super::{Instead, PREFIX, ReadPages, locked_in};
use crate::captures::Archive;
use crate::problem::{HttpAnswer, ok, problem, reply};
use crate::question::{HttpQuestion, escaped, unescaped};

/// Maximum number of captures in a TimeMap.
const TIME_MAP_MAX: usize = 50_000;
/// Maximum number of stored header fields in an answer.
const FIELDS_MAX: usize = 200;
/// Maximum size of one of them in bytes.
const FIELD_BYTES_MAX: usize = 16 * 1024;
/// Prefix of stored header fields.
const ORIGINAL: &str = "x-archive-orig-";
/// Modifier of a time: bytes as stored.
const RAW: &str = "id_";
/// Date of HTTP.
const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";

/// The answer of `GET /api/v1/pages?as=found`.
#[derive(Deserialize)]
struct Found {
    url: String,
    timestamp: String,
}

/// Answers a request for a capture: `rest` is the target behind [`PREFIX`].
pub(super) async fn capture(
    asked: &HttpQuestion,
    rest: &str,
    pages: &impl ReadPages,
) -> Result<HttpAnswer, Instead> {
    let (time, url) = split_time(rest)?;
    let url = parse(url)?;
    let is_gate = time.is_none();
    let at = match time {
        Some(time) => Some(time.to_owned()),
        None => accepted(asked)?,
    };
    let at = at.map(|at| format!("&at={at}")).unwrap_or_default();
    let target =
        |part: &str, url: &str, at: &str| format!("/api/v1/pages?as={part}&url={}{at}", escaped(url));
    let answer = pages.read_page(asked.instead(&target("found", url.as_str(), &at))).await;
    if answer.status() != StatusCode::OK {
        return Err(answer.into());
    }
    let found: Found =
        body(answer).await.and_then(|body| serde_json::from_slice(&body).ok()).ok_or_else(|| {
            Instead::from(problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the capture cannot be read",
                url.as_str(),
            ))
        })?;
    let site = Site::of(asked);
    if is_gate || time != Some(&found.timestamp) {
        let mut answer = reply(StatusCode::FOUND, "text/plain", "");
        let fields = answer.headers_mut();
        put(fields, header::LOCATION, &site.memento(&found.timestamp, &found.url));
        if is_gate {
            put(fields, header::VARY, "accept-datetime");
        }
        put(fields, header::LINK, &site.links(&found, None));
        return Ok(answer);
    }
    // The bytes as stored, also of a body in an object store.
    let at = format!("&inline=1&at={}", found.timestamp);
    let answer = pages.read_page(asked.instead(&target("http", &found.url, &at))).await;
    if answer.status() != StatusCode::OK {
        return Err(answer.into());
    }
    let stored = body(answer).await.unwrap_or_default();
    Ok(locked_in(raw(&site, &found, stored)))
}

/// A stored response as an answer.
fn raw(site: &Site, found: &Found, mut stored: Vec<u8>) -> HttpAnswer {
    let body = head::end(&stored).map(|end| stored.split_off(end));
    let (http, body) = match body {
        Some(body) => (stored, body),
        // No HTTP response: a DNS record or the like.
        None => (Vec::new(), stored),
    };
    let status = head::summary(&http).and_then(|(status, _)| status.parse().ok());
    let mut answer = reply(StatusCode::OK, "application/octet-stream", body);
    // Only a final status can be sent again.
    *answer.status_mut() =
        status.filter(|status: &StatusCode| status.as_u16() >= 200).unwrap_or(StatusCode::OK);
    let fields = answer.headers_mut();
    for line in http.split(|byte| *byte == b'\n').skip(1).take(FIELDS_MAX) {
        let Some(at) = line.iter().position(|byte| *byte == b':').filter(|_| line.len() <= FIELD_BYTES_MAX)
        else {
            continue;
        };
        let name = String::from_utf8_lossy(line[..at].trim_ascii()).to_ascii_lowercase();
        let Ok(value) = HeaderValue::from_bytes(line[at + 1..].trim_ascii()) else { continue };
        match &*name {
            "content-type" => _ = fields.insert(header::CONTENT_TYPE, value.clone()),
            "content-encoding" => _ = fields.append(header::CONTENT_ENCODING, value.clone()),
            "location" => {
                let base = CrawlUrl::parse(&found.url).ok();
                let target = base.and_then(|base| base.join(&String::from_utf8_lossy(value.as_bytes())).ok());
                if let Some(target) = target {
                    put(fields, header::LOCATION, &site.memento(&found.timestamp, target.as_str()));
                }
            }
            _ => {}
        }
        if let Ok(name) = HeaderName::try_from(format!("{ORIGINAL}{name}")) {
            fields.append(name, value);
        }
    }
    if let Some(date) = http_date(&found.timestamp) {
        put(fields, HeaderName::from_static("memento-datetime"), &date);
        put(fields, header::LINK, &site.links(found, Some(&date)));
    }
    answer
}

/// Answers a request for a TimeMap: `rest` is `FORMAT/URL`.
pub(super) async fn time_map(
    asked: &HttpQuestion,
    archive: &Archive,
    rest: &str,
) -> Result<HttpAnswer, Instead> {
    let (format, url) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(format, "link" | "json" | "cdxj") {
        let detail = "ask for /web/timemap/link/URL, /web/timemap/json/URL or /web/timemap/cdxj/URL";
        return Err(problem(StatusCode::NOT_FOUND, "no such format of a TimeMap", detail).into());
    }
    let url = parse(url)?;
    let text = url.as_str().to_owned();
    let lines = archive.read(move |captures| {
        let lines = captures.find(&Query::exact(&text))?.take(TIME_MAP_MAX);
        Ok(lines.collect::<Result<Vec<Line>, _>>()?)
    });
    let mut lines = lines.await?;
    // Two captures in one second have one address.
    lines.dedup_by(|a, b| (&a.capture.digits14, &a.capture.url) == (&b.capture.digits14, &b.capture.url));
    if lines.is_empty() {
        let detail = "`nephila explain` says why";
        return Err(problem(StatusCode::NOT_FOUND, "there is no capture", detail).into());
    }
    let site = Site::of(asked);
    let of_line = |line: &Line| site.memento(&line.capture.digits14, &line.capture.url);
    Ok(match format {
        "cdxj" => {
            let text: String = lines.iter().map(|line| captures::text(line) + "\n").collect();
            reply(StatusCode::OK, "text/x-cdxj", text)
        }
        "json" => {
            let mementos = lines
                .iter()
                .map(|line| json!({"datetime": iso(&line.capture.digits14), "uri": of_line(line)}));
            ok(&json!({
                "original_uri": url.as_str(),
                "timegate_uri": site.gate(url.as_str()),
                "timemap_uri": {"link_format": site.time_map(url.as_str())},
                "mementos": {"list": mementos.collect::<Vec<_>>()},
            }))
        }
        _ => {
            let date = |line: &Line| http_date(&line.capture.digits14).unwrap_or_default();
            let (first, last) = (&lines[0], &lines[lines.len() - 1]);
            let mut text = format!(
                "<{}>; rel=\"original\",\n<{}>; rel=\"self\"; type=\"application/link-format\"; from=\"{}\"; \
                 until=\"{}\",\n<{}>; rel=\"timegate\"",
                url.as_str(),
                site.time_map(url.as_str()),
                date(first),
                date(last),
                site.gate(url.as_str())
            );
            for (number, line) in lines.iter().enumerate() {
                let rel = match (number, number + 1 == lines.len()) {
                    (0, true) => "first last memento",
                    (0, false) => "first memento",
                    (_, true) => "last memento",
                    _ => "memento",
                };
                text.push_str(&format!(",\n<{}>; rel=\"{rel}\"; datetime=\"{}\"", of_line(line), date(line)));
            }
            text.push('\n');
            reply(StatusCode::OK, "application/link-format", text)
        }
    })
}

/// Splits `20261115id_/URL`; the time of `URL` alone is none.
fn split_time(rest: &str) -> Result<(Option<&str>, &str), Instead> {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let Some((modifier, url)) = rest[digits..].split_once('/').filter(|_| digits > 0) else {
        return Ok((None, rest));
    };
    if !(4..=14).contains(&digits) || !matches!(modifier, "" | RAW) {
        let detail =
            "a time has 4 to 14 digits, followed by id_: pages as stored; they are not rewritten here";
        return Err(problem(StatusCode::BAD_REQUEST, "invalid time", detail).into());
    }
    Ok((Some(&rest[..digits]), url))
}

/// The URL behind a prefix, with or without scheme, also percent-encoded as a whole.
fn parse(text: &str) -> Result<CrawlUrl, Instead> {
    let text = match text.contains("://") || text.contains(":/") {
        true => text.to_owned(),
        false => unescaped(text),
    };
    let text = match text.split_once(":/") {
        // A proxy may have merged the slashes.
        Some((scheme, rest)) => format!("{scheme}://{}", rest.trim_start_matches('/')),
        None => format!("http://{text}"),
    };
    CrawlUrl::parse(&text)
        .map_err(|error| problem(StatusCode::BAD_REQUEST, "invalid URL", error.to_string()).into())
}

/// The time in `Accept-Datetime`, in fourteen digits.
fn accepted(asked: &HttpQuestion) -> Result<Option<String>, Instead> {
    let Some(text) = asked.field("accept-datetime") else { return Ok(None) };
    let time = jiff::fmt::rfc2822::parse(text).map_err(|_| {
        let detail = "Accept-Datetime is a date such as Sun, 15 Nov 2026 12:00:00 GMT";
        problem(StatusCode::BAD_REQUEST, "invalid date", detail)
    })?;
    let time = time.with_time_zone(jiff::tz::TimeZone::UTC);
    Ok(Some(time.strftime("%Y%m%d%H%M%S").to_string()))
}

fn time(digits14: &str) -> Option<jiff::civil::DateTime> {
    jiff::civil::DateTime::strptime("%Y%m%d%H%M%S", digits14).ok()
}

/// A time of fourteen digits as a date of HTTP.
pub(crate) fn http_date(digits14: &str) -> Option<String> {
    Some(time(digits14)?.strftime(HTTP_DATE).to_string())
}

fn iso(digits14: &str) -> Option<String> {
    Some(time(digits14)?.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

async fn body(answer: HttpAnswer) -> Option<Vec<u8>> {
    use http_body_util::BodyExt as _;
    Some(answer.into_body().collect().await.ok()?.to_bytes().to_vec())
}

/// Inserts a header field whose value is valid.
fn put(fields: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(name, value);
    }
}

/// The addresses of this server.
struct Site(String);

impl Site {
    /// Absolute addresses if the client said how the server is called.
    fn of(asked: &HttpQuestion) -> Site {
        let scheme = if asked.is_tls { "https" } else { "http" };
        let host = asked.field(header::HOST.as_str()).map(|host| format!("{scheme}://{host}"));
        Site(host.unwrap_or_default())
    }

    fn memento(&self, digits14: &str, url: &str) -> String {
        format!("{}{PREFIX}{digits14}{RAW}/{url}", self.0)
    }

    fn gate(&self, url: &str) -> String {
        format!("{}{PREFIX}{url}", self.0)
    }

    fn time_map(&self, url: &str) -> String {
        format!("{}{PREFIX}timemap/link/{url}", self.0)
    }

    /// The value of `Link`; of a capture, with its date.
    fn links(&self, found: &Found, date: Option<&str>) -> String {
        let Found { url, timestamp } = found;
        let mut links = format!(
            "<{url}>; rel=\"original\", <{}>; rel=\"timegate\", <{}>; rel=\"timemap\"; type=\"application/link-format\"",
            self.gate(url),
            self.time_map(url)
        );
        if let Some(date) = date {
            let memento = self.memento(timestamp, url);
            links.push_str(&format!(", <{memento}>; rel=\"memento\"; datetime=\"{date}\""));
        }
        links
    }
}

impl HttpQuestion {
    /// The same request for another target.
    fn instead(&self, target: &str) -> HttpQuestion {
        HttpQuestion::new(Method::GET, target, self.headers.clone(), self.is_tls)
    }
}
