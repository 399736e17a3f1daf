//! `GET search`: the pages of an archive whose title and main text have all words of a search.
//!
//! The archive is its own index: captures are read one after the other, in the order of the CDXJ index (`sites`), the
//! newest of each URL alone. The text is the one that was stored with the capture, or is extracted again (`page`). A search
//! is bounded: after some hits, some seconds, or some captures it answers with what was found, how much was searched, and
//! a cursor; the next request goes on behind it. A cluster asks all nodes for the same part, and merges ([`merged`]).
//!
//! Invariants: the cursors of a search lead through every URL once, as long as the archive does not change; of a key
//! with very many URLs, whose number a site decides, the rest counts as unread; the work is linear in the bytes of the
//! captures; titles and snippets are words of third parties, bounded in length.

mod page;
mod sites;
mod words;

use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use http::StatusCode;
use nephila_core::store::cdxj::Line;
use nephila_store::captures::{Captures, Query};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::captures::{self, AWAY_RETRY, Archive};
use super::problem::{HttpAnswer, ok, problem, retry_after};
use super::question::HttpQuestion;
use page::Text;
use sites::{Newest, Sites};
use words::Words;

pub use words::{QUERY_BYTES_MAX, SNIPPET_CHARS, WORDS_MAX};

/// Usual number of hits of an answer.
pub const HITS_USUAL: usize = 20;
/// Maximum number of hits of an answer. URLs with the same key come together, so there may be up to twice as many.
pub const HITS_MAX: usize = 100;
/// Time after which a search answers with what it has.
pub const TIME_MAX: Duration = Duration::from_secs(5);
/// Number of captures after which a search answers with what it has.
pub const CAPTURES_MAX: u64 = 5_000;
/// Number of URLs of a key that are read whatever the time, so that the usual keys are never read in part.
const URLS_OF_KEY_SURE: usize = 16;
/// Maximum number of concurrent searches of an archive.
pub const AT_ONCE: usize = 2;
/// Maximum wait for the end of another search; then the client gets 503 with `Retry-After`.
const TURN_MAX: Duration = Duration::from_secs(10);
/// Maximum length of a title in characters.
const TITLE_CHARS: usize = 200;

/// An error answer, sent instead of the requested one.
type Instead = Box<HttpAnswer>;

/// A page that has all words.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SearchHit {
    /// URL of the page.
    pub url: String,
    /// Key of the URL in the index: hits come in the order of keys.
    pub urlkey: String,
    /// Time of the capture.
    pub captured: String,
    /// Title of the page, as the page states it; empty if there is none.
    pub title: String,
    /// Text of the page around the first word.
    pub snippet: String,
    /// Whether all text of the page was searched, since it has no main text.
    pub is_all_text: bool,
}

/// Why an answer has no more hits.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    /// The archive is searched to its end.
    #[default]
    End,
    /// The answer has as many hits as were asked for.
    Hits,
    /// The time or the number of captures of one request is used up: go on with the cursor.
    Work,
}

/// A part of a search.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SearchSaid {
    /// Pages that have all words, in the order of their keys.
    pub hits: Vec<SearchHit>,
    /// Number of pages that this part of the search has read.
    pub searched: u64,
    /// Number of pages that it could not read: too large, damaged, a PDF without stored text, stored elsewhere, or one
    /// of very many spellings of an address.
    pub unread: u64,
    /// Why there are no more hits.
    pub stopped: Stopped,
    /// Where the search goes on; none at the end of the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Nodes that did not answer, each with the reason: their archives were not searched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
}

/// A parsed request.
#[derive(Clone, Debug)]
pub struct SearchWanted {
    words: Words,
    urls: Query,
    /// Number of hits.
    pub limit: usize,
    /// The key behind which the search begins; empty for all.
    after: String,
}

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    end: Instant,
    captures: u64,
}

impl SearchWanted {
    /// Parses a request: `q`, `url`, `limit`, `cursor`.
    pub fn of(asked: &HttpQuestion) -> Result<SearchWanted, Instead> {
        let wrong =
            |title: &str, detail: String| Instead::from(problem(StatusCode::BAD_REQUEST, title, detail));
        let text = asked.parameter("q").unwrap_or_default();
        let words = Words::parse(&text).map_err(|why| wrong("invalid parameter q", why))?;
        let urls = Query::parse(asked.parameter("url").as_deref().unwrap_or("*"));
        let limit = asked.number("limit").unwrap_or(HITS_USUAL).clamp(1, HITS_MAX);
        let after = asked.parameter("cursor").map_or(Some(String::new()), |cursor| key_of(&cursor));
        let unknown = || wrong("invalid parameter cursor", "give the cursor of the answer before".into());
        Ok(SearchWanted { words, urls, limit, after: after.ok_or_else(unknown)? })
    }

    /// Searches a part of an archive. Blocks.
    fn search(&self, captures: &Captures, bounds: Bounds) -> anyhow::Result<SearchSaid> {
        let mut said = SearchSaid::default();
        let mut sites = Sites::new(captures.find_after(&self.urls, &self.after)?);
        while let Some(site) = sites.next()? {
            said.unread += site.left_out;
            for (number, newest) in site.pages.iter().enumerate() {
                let is_late = number >= URLS_OF_KEY_SURE && Instant::now() >= bounds.end;
                if is_late || said.hits.len() >= 2 * HITS_MAX {
                    said.unread += (site.pages.len() - number) as u64;
                    break;
                }
                self.look(captures, newest, &mut said);
            }
            let is_used_up = said.searched + said.unread >= bounds.captures || Instant::now() >= bounds.end;
            said.stopped = match (said.hits.len() >= self.limit, is_used_up) {
                (true, _) => Stopped::Hits,
                (false, true) => Stopped::Work,
                (false, false) => continue,
            };
            said.cursor = Some(cursor_of(&site.key));
            return Ok(said);
        }
        Ok(said)
    }

    /// Looks into the newest capture of a URL.
    fn look(&self, captures: &Captures, newest: &Newest, said: &mut SearchSaid) {
        let Newest { line, with_body } = newest;
        let read = match with_body {
            Some(body) => page::text(captures, body, &self.words),
            None => Text::Unread,
        };
        match read {
            Text::NoPage => {}
            Text::Unread => said.unread += 1,
            Text::Without => said.searched += 1,
            Text::Found { title, text, is_all } => {
                said.searched += 1;
                said.hits.push(hit(line, &title, self.words.snippet(&text), is_all));
            }
        }
    }
}

fn hit(line: &Line, title: &str, snippet: String, is_all_text: bool) -> SearchHit {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = title.char_indices().nth(TITLE_CHARS).map_or(title.len(), |(end, _)| end);
    SearchHit {
        url: line.capture.url.clone(),
        urlkey: line.key.clone(),
        captured: captures::date(&line.capture.digits14),
        title: title[..end].to_owned(),
        snippet,
        is_all_text,
    }
}

fn cursor_of(key: &str) -> String {
    BASE64URL_NOPAD.encode(key.as_bytes())
}

fn key_of(cursor: &str) -> Option<String> {
    String::from_utf8(BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?).ok()
}

/// The answers of several archives as one. They have searched different stretches: what lies behind the shortest one
/// comes with the next request.
pub fn merged(parts: impl IntoIterator<Item = SearchSaid>, limit: usize) -> SearchSaid {
    let mut all = SearchSaid::default();
    let mut end: Option<(String, Stopped)> = None;
    for part in parts {
        if let Some(key) = part.cursor.as_deref().and_then(key_of)
            && end.as_ref().is_none_or(|(end, _)| key < *end)
        {
            end = Some((key, part.stopped));
        }
        all.searched += part.searched;
        all.unread += part.unread;
        all.silent.extend(part.silent);
        all.hits.extend(part.hits);
    }
    if let Some((key, _)) = &end {
        all.hits.retain(|hit| hit.urlkey <= *key);
    }
    // After a take-over two nodes have captures of one URL: the newest counts.
    all.hits.sort_by(|a, b| (&a.urlkey, &a.url, &b.captured).cmp(&(&b.urlkey, &b.url, &a.captured)));
    all.hits.dedup_by(|later, first| later.url == first.url);
    if let Some(last) = all.hits.get(limit.saturating_sub(1)).map(|hit| hit.urlkey.clone())
        && all.hits.last().is_some_and(|hit| hit.urlkey > last)
    {
        all.hits.retain(|hit| hit.urlkey <= last);
        end = Some((last, Stopped::Hits));
    }
    if let Some((key, stopped)) = end {
        (all.cursor, all.stopped) = (Some(cursor_of(&key)), stopped);
    }
    all
}

impl Archive {
    /// Searches a part of the archive, within the bounds of one request.
    pub async fn search(&self, wanted: &SearchWanted) -> Result<SearchSaid, Instead> {
        let Ok(turn) = timeout(TURN_MAX, self.searches.clone().acquire_owned()).await else {
            let detail = format!("{AT_ONCE} searches are being answered");
            let answer = problem(StatusCode::SERVICE_UNAVAILABLE, "archive busy", detail);
            return Err(retry_after(answer, AWAY_RETRY).into());
        };
        let turn = turn.expect("it is never closed");
        let wanted = wanted.clone();
        let bounds = Bounds { end: Instant::now() + TIME_MAX, captures: CAPTURES_MAX };
        self.blocking(turn, move |captures| wanted.search(captures, bounds)).await
    }

    /// Answers `GET search` from this archive alone.
    pub async fn search_answer(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.search(&SearchWanted::of(asked)?).await?))
    }
}

#[cfg(test)]
mod tests;
