//! `GET /api/v1/pages`: what was fetched from a URL, wherever it lies.
//!
//! The owner of a URL knows whether it was fetched, and when. Its capture lies in the archive of the node that fetched it,
//! which is another one after a take-over: if the owner does not have the newest, it asks all others what they have and
//! passes on what the best of them gives. What is not there is 404 if nobody wants it, and 503 with the expected time
//! if it is still to come.
//!
//! What always holds: bytes of strangers are never given as something that a browser would run.

use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};
use nephila_core::url::CrawlUrl;
use nephila_store::captures::Captures;
use serde::{Deserialize, Serialize};

use super::others::passed_on;
use super::{AWAY_RETRY, Api, Asked, FORWARDED, Instead, Place, url_of};
use crate::api::{Answer, Explained, Question, Summary, escaped, ok, problem, reply, retry_after};
use crate::ask::captures::about;

/// A capture is given up to this many bytes of its body.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// Another node says what it has within this time.
const FIND_MAX: Duration = Duration::from_secs(10);
/// What it says of a capture has at most so many bytes.
const FOUND_BYTES_MAX: usize = 256 << 10;
/// A capture of our own that began this many seconds before its fetch ended at the latest is the one of that fetch.
const FETCH_SECONDS_MAX: u64 = 600;
/// When to ask again for a URL of which nobody knows when its turn comes, in seconds.
const SOME_TIME: u64 = 3_600;

/// What is wanted of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Head and body, as a server would send them.
    Http,
    Headers,
    Body,
    /// The WARC record.
    Record,
    /// About it, as JSON.
    Json,
    /// Whether there is one, for another node.
    Found,
}

impl Part {
    fn named(name: &str) -> Option<Part> {
        Some(match name {
            "http" => Part::Http,
            "headers" => Part::Headers,
            "body" => Part::Body,
            "record" => Part::Record,
            "json" => Part::Json,
            "found" => Part::Found,
            _ => return None,
        })
    }
}

/// What a node has of a URL.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Found {
    url: String,
    /// Fourteen digits.
    timestamp: String,
}

impl Found {
    /// How good it is: the very URL first, then the nearest to a time, or the newest. Less is better.
    fn rank(&self, url: &str, at: Option<&str>) -> (bool, u64) {
        let time = seconds(&self.timestamp);
        (self.url != url, at.map_or(u64::MAX - time, |at| seconds(at).abs_diff(time)))
    }
}

/// What is wanted.
#[derive(Clone, Debug)]
struct Wanted {
    url: String,
    at: Option<String>,
    part: Part,
}

impl Api {
    pub(super) async fn pages(&self, asked: &Asked) -> Result<Answer, Instead> {
        let text = url_of(asked)?;
        let wrong = |title, detail: String| problem(StatusCode::BAD_REQUEST, title, detail);
        let url = CrawlUrl::parse(&text).map_err(|error| wrong("this is no URL", error.to_string()))?;
        let part = asked.parameter("as").unwrap_or_else(|| "http".into());
        let part = Part::named(&part)
            .ok_or_else(|| wrong("as= is http, headers, body, record or json", part.clone()))?;
        let at = asked.parameter("at");
        if at
            .as_ref()
            .is_some_and(|at| !(4..=14).contains(&at.len()) || !at.bytes().all(|byte| byte.is_ascii_digit()))
        {
            return Err(wrong("at= has 4 to 14 digits, such as 20261115", String::new()).into());
        }
        let wanted = Wanted { url: url.as_str().to_owned(), at, part };
        if asked.field(FORWARDED) == Some("archive") {
            let found = self.own(&wanted).await?;
            let none = || problem(StatusCode::NOT_FOUND, "there is no capture here", &*wanted.url);
            return Ok(found.ok_or_else(none)?);
        }
        let shared = match self.owner(asked, &url).await? {
            Place::Here(shared) => shared,
            Place::Answered(answer) => return Ok(answer),
        };
        let explained = self.explained(&shared, &text, &url).await?;
        drop(shared);
        let own = self.found(&wanted).await?;
        if wanted.at.is_none() && own.as_ref().is_some_and(|own| is_newest(own, &wanted.url, &explained)) {
            return self.own(&wanted).await?.ok_or_else(|| self.moving("its capture has just moved"));
        }
        // What was never asked for lies nowhere.
        if own.is_none() && explained.last.is_none() {
            return Err(missing(&explained, &[]).into());
        }
        self.best(asked, &wanted, own, &explained).await
    }

    /// The best of what all nodes have.
    async fn best(
        &self,
        asked: &Asked,
        wanted: &Wanted,
        own: Option<Found>,
        explained: &Explained,
    ) -> Result<Answer, Instead> {
        let mut target = format!("/api/v1/pages?as=found&url={}", escaped(&wanted.url));
        if let Some(at) = &wanted.at {
            target.push_str(&format!("&at={at}"));
        }
        let question = Question::get(target, FOUND_BYTES_MAX, FIND_MAX).with(FORWARDED, "archive");
        let rank = |found: &Found| found.rank(&wanted.url, wanted.at.as_deref());
        let mut best = own.map(|own| (rank(&own), None));
        let mut silent = Vec::new();
        for (other, answer) in self.ask_all(&question).await {
            match answer {
                Err(why) => silent.push(why),
                Ok(reply) if reply.status == StatusCode::OK => {
                    let Ok(found) = reply.json::<Found>() else { continue };
                    let rank = rank(&found);
                    if best.as_ref().is_none_or(|(best, _)| rank < *best) {
                        best = Some((rank, Some(other)));
                    }
                }
                Ok(_) => {}
            }
        }
        match best {
            None => Err(missing(explained, &silent).into()),
            Some((_, None)) => {
                self.own(wanted).await?.ok_or_else(|| self.moving("its capture has just moved"))
            }
            Some((_, Some(other))) => Ok(passed_on(self.ask(&other, asked, "archive").await?)),
        }
    }

    /// What the archive of this node has of it.
    async fn found(&self, wanted: &Wanted) -> Result<Option<Found>, Instead> {
        let wanted = wanted.clone();
        self.read(move |captures| {
            let line = captures.nearest(&wanted.url, wanted.at.as_deref())?;
            Ok(line.map(|line| Found { url: line.capture.url, timestamp: line.capture.digits14 }))
        })
        .await
    }

    /// The same, as it was asked for.
    async fn own(&self, wanted: &Wanted) -> Result<Option<Answer>, Instead> {
        let (wanted, node) = (wanted.clone(), self.node.name.clone());
        self.read(move |captures| {
            let Some(line) = captures.nearest(&wanted.url, wanted.at.as_deref())? else { return Ok(None) };
            let (kind, body) = match wanted.part {
                Part::Found => {
                    let found = Found { url: line.capture.url, timestamp: line.capture.digits14 };
                    return Ok(Some(ok(&found)));
                }
                Part::Json => {
                    let capture = captures.read(&line, BODY_BYTES_MAX)?;
                    return Ok(Some(ok(&about(&line, &capture))));
                }
                Part::Record => {
                    let mut record = Capped(Vec::new());
                    captures.copy_record(&line, &mut record)?;
                    ("application/warc", record.0)
                }
                Part::Http => {
                    let capture = captures.read(&line, BODY_BYTES_MAX)?;
                    let mut bytes = capture.http;
                    bytes.extend_from_slice(&capture.body);
                    ("application/http", bytes)
                }
                Part::Headers => ("text/plain", captures.read(&line, BODY_BYTES_MAX)?.http),
                Part::Body => ("application/octet-stream", captures.read(&line, BODY_BYTES_MAX)?.body),
            };
            let mut answer = reply(StatusCode::OK, kind, body);
            let fields = answer.headers_mut();
            // An archived page must not run as a page of ours.
            for (name, value) in
                [(header::CONTENT_SECURITY_POLICY, "sandbox"), (header::CONTENT_DISPOSITION, "attachment")]
            {
                fields.insert(name, HeaderValue::from_static(value));
            }
            let said = [
                ("nephila-url", Some(line.capture.url)),
                ("nephila-captured", Some(line.capture.digits14)),
                ("nephila-status", line.capture.status),
                ("nephila-mime", line.capture.mime),
                ("nephila-archive", Some(node)),
            ];
            for (name, value) in said {
                // What is no text for a field is left out.
                if let Some(Ok(value)) = value.map(|value| HeaderValue::from_str(&value)) {
                    fields.insert(HeaderName::from_static(name), value);
                }
            }
            Ok(Some(answer))
        })
        .await
    }

    /// Reads from this node's archive, some at once.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Captures) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, Instead> {
        let _room = self.reads.acquire().await.expect("it is never closed");
        let dir = self.node.folder.dir().to_owned();
        let done = tokio::task::spawn_blocking(move || read(&Captures::new(&dir))).await;
        let done = done.unwrap_or_else(|panic| Err(anyhow::anyhow!("reading failed: {panic}")));
        Ok(done.map_err(|error| {
            let detail = format!("{error:#}; `nephila read -o` at node {} may say more", self.node.name);
            problem(StatusCode::INTERNAL_SERVER_ERROR, "the capture cannot be read", detail)
        })?)
    }
}

/// Is our capture that of the last fetch? Nobody else has a newer one then.
fn is_newest(own: &Found, url: &str, explained: &Explained) -> bool {
    let Some(last) = &explained.last else { return own.url == url };
    let ended: String = last.at.chars().filter(char::is_ascii_digit).take(14).collect();
    own.url == url && seconds(&own.timestamp) + FETCH_SECONDS_MAX >= seconds(&ended)
}

/// What is said of a URL without capture.
fn missing(explained: &Explained, silent: &[String]) -> Answer {
    let because = format!("{}: {}", explained.summary.name(), explained.because);
    let later = |seconds: u64, title: &str, detail: String| {
        retry_after(problem(StatusCode::SERVICE_UNAVAILABLE, title, detail), seconds)
    };
    match explained.summary {
        Summary::Queued | Summary::Fetching | Summary::Parked => {
            let seconds = explained.expected_s.unwrap_or(SOME_TIME);
            later(seconds, "it is wanted and not there yet", because)
        }
        _ if !silent.is_empty() => {
            later(AWAY_RETRY, "its capture may lie at a node that does not answer", silent.join("; "))
        }
        Summary::Fetched | Summary::Redirected => {
            let detail = format!("{because}; no live node has it: it lies at one that is away, or was lost");
            later(SOME_TIME, "its capture is not here", detail)
        }
        _ => problem(StatusCode::NOT_FOUND, "there is no capture", because),
    }
}

/// Seconds from up to fourteen digits.
fn seconds(digits: &str) -> u64 {
    let filled = format!("{digits}{}", "00000101000000".get(digits.len()..).unwrap_or_default());
    let time = jiff::civil::DateTime::strptime("%Y%m%d%H%M%S", filled).ok();
    let time = time.and_then(|time| time.to_zoned(jiff::tz::TimeZone::UTC).ok());
    time.and_then(|time| u64::try_from(time.timestamp().as_second()).ok()).unwrap_or(0)
}

/// As much of a record as is given.
struct Capped(Vec<u8>);

impl std::io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > BODY_BYTES_MAX {
            return Err(std::io::Error::other(format!("a record is given up to {BODY_BYTES_MAX} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(summary: Summary, expected_s: Option<u64>) -> Explained {
        let mut explained = Explained::bad("http://a.test/", "because".into());
        (explained.summary, explained.expected_s) = (summary, expected_s);
        explained
    }

    #[test]
    fn what_is_wanted_comes_later_and_what_is_not_never() {
        let status = |answer: &Answer| answer.status().as_u16();
        let queued = missing(&explained(Summary::Queued, Some(42)), &[]);
        assert_eq!((status(&queued), &queued.headers()["retry-after"]), (503, &HeaderValue::from(42)));
        let parked = missing(&explained(Summary::Parked, None), &[]);
        assert_eq!((status(&parked), &parked.headers()["retry-after"]), (503, &HeaderValue::from(SOME_TIME)));
        for unwanted in
            [Summary::OutOfScope, Summary::Robots, Summary::Trap, Summary::Unknown, Summary::Failed]
        {
            assert_eq!(status(&missing(&explained(unwanted, None), &[])), 404, "{unwanted:?}");
        }
        let lost = missing(&explained(Summary::Fetched, None), &[]);
        assert_eq!(status(&lost), 503, "it was there once");
        let silent = missing(&explained(Summary::Failed, None), &["node b: no answer".into()]);
        assert_eq!(status(&silent), 503, "who does not answer may have it");
    }

    #[test]
    fn the_very_url_and_the_newest_capture_win() {
        let found = |url: &str, timestamp: &str| Found { url: url.into(), timestamp: timestamp.into() };
        let url = "http://a.test/";
        let (old, new, other) = (
            found(url, "20260101000000"),
            found(url, "20260102000000"),
            found("https://a.test/", "20270101000000"),
        );
        assert!(new.rank(url, None) < old.rank(url, None));
        assert!(old.rank(url, None) < other.rank(url, None));
        assert!(old.rank(url, Some("2026")) < new.rank(url, Some("2026")));
    }
}
