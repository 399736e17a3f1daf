//! `GET /web/cdx`: the lines of the index, as CDX servers give them.
//!
//! Parameters as in pywb: `url`, `matchType`, `from`, `to`, `filter`, `fl` (or `fields`), `sort`, `closest`, `output`,
//! `limit`, `page`, `pageSize`, `showNumPages`. A page consists of blocks of [`BLOCK_BYTES`] of index lines. Without
//! `page` the answer is the first page; the header field `Link` names the next one.
//!
//! Invariant: as long as the archive does not change, the pages together have every line exactly once. A page without a
//! matching line is 404, a page after the last one 400: clients tell the end by this.

use http::StatusCode;
use http::header::{self, HeaderValue};
use nephila_core::store::cdxj::Line;
use nephila_store::captures::{self, Captures, Match, Query, seconds};
use serde_json::json;

use super::Instead;
use super::filter::{FIELDS, Filter, field, value};
use crate::captures::Archive;
use crate::problem::{HttpAnswer, ok, problem, problem_with, reply};
use crate::question::HttpQuestion;

/// Bytes of index lines in a block: about 3,000 lines.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;
/// Number of blocks in a page, without `pageSize`.
const PAGE_BLOCKS: u64 = 5;
/// Maximum number of blocks in a page.
const PAGE_BLOCKS_MAX: u64 = 16;
/// Maximum number of lines that are sorted.
const SORTED_MAX: usize = 100_000;
/// Maximum number of filters.
const FILTERS_MAX: usize = 16;
/// Parameters of other servers that would change the answer, and are not supported.
const UNSUPPORTED: [&str; 4] = ["collapse", "resumeKey", "showResumeKey", "resolveRevisits"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    Cdxj,
    Json,
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sort {
    Key,
    Reverse,
    Closest(String),
}

/// A parsed request.
#[derive(Clone, Debug)]
struct Asked {
    query: Query,
    filters: Vec<Filter>,
    fields: Option<Vec<&'static str>>,
    sort: Sort,
    output: Output,
    limit: usize,
    page: u64,
    page_blocks: u64,
    wants_count: bool,
}

/// Answers a request.
pub(super) async fn answer(asked: &HttpQuestion, archive: &Archive) -> Result<HttpAnswer, Instead> {
    let wrong = |detail| Instead::from(problem(StatusCode::BAD_REQUEST, "invalid request", detail));
    let parsed = Asked::parse(asked).map_err(wrong)?;
    let (url, output, page) = (parsed.query.url.clone(), parsed.output, parsed.page);
    let found = archive.read(move |captures| Ok(parsed.find(captures)?)).await?;
    match found {
        Found::Count { pages, page_blocks, blocks } => {
            Ok(ok(&json!({"pages": pages, "pageSize": page_blocks, "blocks": blocks})))
        }
        Found::NoPage(pages) => Err(wrong(format!("page {page} of {pages}: pages are counted from 0"))),
        Found::Lines { text, .. } if text.is_empty() => {
            // Clients of CDX servers look for `message`.
            let said = json!({"message": format!("No Captures found for: {url}")});
            Err(problem_with(StatusCode::NOT_FOUND, "there is no capture", &*url, said).into())
        }
        Found::Lines { text, has_more } => {
            let kind = if output == Output::Json { "application/x-ndjson" } else { "text/x-cdxj" };
            let mut answer = reply(StatusCode::OK, kind, text);
            let next = HeaderValue::from_str(&format!("<{}>; rel=\"next\"", next(asked, page + 1)));
            if let (true, Ok(next)) = (has_more, next) {
                answer.headers_mut().insert(header::LINK, next);
            }
            Ok(answer)
        }
    }
}

enum Found {
    Lines { text: Vec<u8>, has_more: bool },
    Count { pages: u64, page_blocks: u64, blocks: u64 },
    NoPage(u64),
}

impl Asked {
    fn parse(asked: &HttpQuestion) -> Result<Asked, String> {
        if let Some(name) = UNSUPPORTED.iter().find(|name| asked.parameter(name).is_some()) {
            return Err(format!("the parameter {name} is not supported"));
        }
        let url = asked.parameter("url").ok_or("the parameter url is missing")?;
        let mut query = Query::parse(&url);
        if let Some(kind) = asked.parameter("matchType") {
            query.matches = match &*kind {
                "exact" => Match::Exact,
                "prefix" => Match::Prefix,
                "host" => Match::Host,
                "domain" => Match::Domain,
                _ => return Err("matchType is exact, prefix, host or domain".into()),
            };
        }
        (query.from, query.to) = (digits(asked, "from")?, digits(asked, "to")?);
        let sort = match (digits(asked, "closest")?, asked.parameter("sort").as_deref()) {
            (Some(at), None | Some("closest")) => Sort::Closest(at),
            // pywb leaves the time empty when it wants a list.
            (None, Some("closest")) if asked.parameter("closest").is_some() => Sort::Key,
            (None, Some("closest")) => return Err("sort=closest needs closest=TIME".into()),
            (_, None | Some("default")) => Sort::Key,
            (_, Some("reverse")) => Sort::Reverse,
            (_, Some(_)) => return Err("sort is default, reverse or closest".into()),
        };
        if sort != Sort::Key && query.matches != Match::Exact {
            return Err("only the captures of one URL can be sorted: leave out sort and closest".into());
        }
        let output = match asked.parameter("output").as_deref() {
            None | Some("cdxj") => Output::Cdxj,
            Some("json") => Output::Json,
            Some("text") => Output::Text,
            Some(_) => return Err("output is cdxj, json or text".into()),
        };
        let fields = asked.parameter("fl").or(asked.parameter("fields")).filter(|list| !list.is_empty());
        let fields = fields.map(|list| list.split(',').map(field).collect()).transpose()?;
        let filters = asked.parameters("filter");
        if filters.len() > FILTERS_MAX {
            return Err(format!("at most {FILTERS_MAX} filters"));
        }
        Ok(Asked {
            query,
            filters: filters.iter().map(|filter| Filter::parse(filter)).collect::<Result<_, _>>()?,
            fields,
            sort,
            output,
            limit: number(asked, "limit")?.map_or(usize::MAX, |limit| limit as usize),
            page: number(asked, "page")?.unwrap_or(0),
            page_blocks: number(asked, "pageSize")?.unwrap_or(PAGE_BLOCKS).clamp(1, PAGE_BLOCKS_MAX),
            wants_count: asked.parameter("showNumPages").is_some_and(|text| text == "true" || text == "1"),
        })
    }

    fn find(&self, captures: &Captures) -> Result<Found, captures::Error> {
        if self.sort != Sort::Key {
            return self.sorted(captures);
        }
        let pages = captures.pages(&self.query, self.page_blocks * BLOCK_BYTES)?;
        let (count, page_blocks) = (pages.count(), self.page_blocks);
        if self.wants_count {
            let blocks = pages.bytes().div_ceil(BLOCK_BYTES);
            return Ok(Found::Count { pages: count, page_blocks, blocks });
        }
        if self.page >= count {
            return Ok(Found::NoPage(count));
        }
        let mut text = Vec::new();
        let mut left = self.limit;
        for line in captures.page(&pages, self.page)? {
            let line = line?;
            if left == 0 {
                break;
            }
            if self.filters.iter().all(|filter| filter.takes(&line)) {
                self.write(&line, &mut text);
                left -= 1;
            }
        }
        Ok(Found::Lines { text, has_more: left > 0 && self.page + 1 < count })
    }

    /// The captures of one URL in another order.
    fn sorted(&self, captures: &Captures) -> Result<Found, captures::Error> {
        let mut lines = Vec::new();
        for line in captures.find(&self.query)?.take(SORTED_MAX) {
            let line = line?;
            if self.filters.iter().all(|filter| filter.takes(&line)) {
                lines.push(line);
            }
        }
        match &self.sort {
            Sort::Closest(at) => {
                let at = seconds(at);
                lines.sort_by_key(|line| seconds(&line.capture.digits14).abs_diff(at));
            }
            _ => lines.reverse(),
        }
        let mut text = Vec::new();
        lines.iter().take(self.limit).for_each(|line| self.write(line, &mut text));
        Ok(Found::Lines { text, has_more: false })
    }

    fn write(&self, line: &Line, out: &mut Vec<u8>) {
        match (self.output, &self.fields) {
            (Output::Cdxj, None) => out.extend_from_slice(captures::text(line).as_bytes()),
            (Output::Cdxj, Some(fields)) => {
                out.extend_from_slice(format!("{} {} ", line.key, line.capture.digits14).as_bytes());
                write_json(line, fields, out);
            }
            (Output::Json, fields) => write_json(line, fields.as_deref().unwrap_or(&FIELDS), out),
            (Output::Text, fields) => {
                let fields = fields.as_deref().unwrap_or(&FIELDS[..FIELDS.len() - 1]);
                let values = fields.iter().map(|field| value(line, field).unwrap_or("-".into()));
                out.extend_from_slice(values.collect::<Vec<_>>().join(" ").as_bytes());
            }
        }
        out.push(b'\n');
    }
}

/// Writes fields as a JSON object, in this order. Fields without a value are left out.
fn write_json(line: &Line, fields: &[&'static str], out: &mut Vec<u8>) {
    let values = fields.iter().filter_map(|field| value(line, field).map(|value| (field, value)));
    let values = values.map(|(field, value)| format!("\"{field}\": {}", json!(value)));
    out.extend_from_slice(format!("{{{}}}", values.collect::<Vec<_>>().join(", ")).as_bytes());
}

/// A parameter of digits: a time.
fn digits(asked: &HttpQuestion, name: &str) -> Result<Option<String>, String> {
    let Some(text) = asked.parameter(name).filter(|text| !text.is_empty()) else { return Ok(None) };
    match (1..=14).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(Some(text)),
        false => Err(format!("{name} is a time of up to 14 digits, such as 20261115")),
    }
}

fn number(asked: &HttpQuestion, name: &str) -> Result<Option<u64>, String> {
    let text = asked.parameter(name);
    text.map(|text| text.parse().map_err(|_| format!("{name} is a number, not {text:?}"))).transpose()
}

/// The target of another page of the same request.
fn next(asked: &HttpQuestion, page: u64) -> String {
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let others = query.split('&').filter(|pair| !pair.starts_with("page="));
    format!("{path}?{}&page={page}", others.collect::<Vec<_>>().join("&"))
}
