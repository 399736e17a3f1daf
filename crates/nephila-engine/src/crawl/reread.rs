//! Reads the archive again when the scope of a crawl is wider than before: for links that were out of scope, too deep
//! or not followed when their page was fetched, and are wanted now.
//!
//! Every stored version of a page is parsed and judged once more, by the same code as after a fetch, with the depth and
//! the trail from the frontier's record. Wanted links go to the frontier, which deduplicates them. The plan records the
//! rules by which the archive was judged. The new rules are recorded only when all links are durable: an interrupted
//! run starts over, and loses nothing.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use nephila_core::follow::Known;
use nephila_core::store::cdxj::Line;
use nephila_core::url::CrawlUrl;
use nephila_store::captures::{Capture, Captures, Lines};
use tokio::sync::mpsc;

use super::decoded::decoded;
use super::intake;
use super::page::{complain, read_body};
use super::shared::{LINKS_MAX, Shared};
use crate::folder::Judged;
use crate::human::count;

/// Capacity of the queue of captures between disk and parser.
pub const CAPTURES_WAITING_MAX: usize = 4;
/// Maximum number of payloads of one URL that are deduplicated; further ones are read again.
pub const PAYLOADS_MAX: usize = 10_000;
/// Interval of progress messages.
pub const SAY_EVERY: Duration = Duration::from_secs(2);

/// Reads the archive again if the rules are wider than the recorded ones.
pub async fn run(shared: &Shared, quiet: bool) -> anyhow::Result<()> {
    let now = Judged::of(&shared.plan().job.scope, &shared.settings.handler);
    let old = shared.plan().judged.clone();
    if old.as_ref() == Some(&now) {
        return Ok(());
    }
    if old.is_some_and(|old| now.is_wider_than(&old)) {
        pass(shared, quiet).await?;
    }
    let mut plan = shared.plan();
    plan.judged = Some(now);
    shared.folder.set_plan(&plan)
}

/// Parses all captures again, offers their wanted links to the frontier, and prints progress unless `quiet`.
pub async fn pass(shared: &Shared, quiet: bool) -> anyhow::Result<()> {
    let say = |text: String| {
        if !quiet {
            tracing::info!("{text}");
        }
    };
    say("more is wanted than before: the archive is read again for links".into());
    let found_before = shared.handle.stats().await?.totals.all_jobs().found;
    let (sender, mut stored) = mpsc::channel(CAPTURES_WAITING_MAX);
    let captures = Captures::new(shared.folder.dir());
    let bytes_max = shared.settings.handler.page_bytes_max as u64;
    let reading = tokio::task::spawn_blocking(move || {
        let lines = captures.all()?;
        read_all(&captures, lines, bytes_max, &may_name, &sender)
    });
    let (mut pages, mut said) = (0u64, Instant::now());
    while let Some((line, capture)) = stored.recv().await {
        if offer(shared, &line, &capture).await? {
            pages += 1;
            shared.counts.reread.fetch_add(1, Ordering::Relaxed);
        }
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            say(format!("{} captures read again so far", count(pages)));
        }
    }
    let unread = reading.await??;
    let found = shared.handle.stats().await?.totals.all_jobs().found.saturating_sub(found_before);
    shared.counts.reread_found.fetch_add(found, Ordering::Relaxed);
    say(format!("{} captures read again, {} URLs are new", count(pages), count(found)));
    if unread > 0 {
        say(format!("{} captures could not be read: `nephila verify` says more", count(unread)));
    }
    Ok(())
}

/// Passes on every payload of a wanted line, once per URL. Returns the number of unreadable captures.
pub(super) fn read_all(
    captures: &Captures,
    lines: Lines,
    bytes_max: u64,
    is_wanted: &dyn Fn(&Line) -> bool,
    sender: &mpsc::Sender<(Line, Capture)>,
) -> anyhow::Result<u64> {
    let mut unread = 0;
    let mut url = String::new();
    let mut payloads: HashSet<Option<String>> = HashSet::new();
    for line in lines {
        let line = line?;
        if line.capture.url != url || payloads.len() >= PAYLOADS_MAX {
            url.clone_from(&line.capture.url);
            payloads.clear();
        }
        if !is_wanted(&line) || !payloads.insert(line.capture.digest.clone()) {
            continue;
        }
        match captures.read(&line, bytes_max) {
            Ok(capture) => {
                if sender.blocking_send((line, capture)).is_err() {
                    break;
                }
            }
            // The capture exceeds the size limit of a page, or is damaged: the others count.
            Err(_) => unread += 1,
        }
    }
    Ok(unread)
}

/// Whether the type of a capture may contain links. The type of a revisit is not in the index.
pub fn may_name(line: &Line) -> bool {
    let redirect = line.capture.status.as_deref().is_some_and(|status| status.starts_with('3'));
    redirect
        || line.capture.mime.as_deref().is_none_or(|mime| {
            mime.starts_with("text/") || mime == "warc/revisit" || mime.contains("xml") || mime == "unk"
        })
}

/// Offers the links of a capture. False if there was nothing to read.
pub async fn offer(shared: &Shared, line: &Line, capture: &Capture) -> anyhow::Result<bool> {
    let Ok(url) = CrawlUrl::parse(&line.capture.url) else { return Ok(false) };
    let Some(record) = shared.handle.explain(&url).await?.record else { return Ok(false) };
    let known = Known {
        job: record.job,
        depth: record.depth,
        hops: record.hops,
        read_as: record.read_as,
        via: record.via,
    };
    // The next poll of a followed feed finds its new stories.
    if shared.settings.feed.follows(known.read_as, known.depth) {
        return Ok(false);
    }
    offer_as(shared, &known, &url, line, capture).await
}

/// Offers the links of a capture for the job of `known`. False if there was nothing to read.
pub(super) async fn offer_as(
    shared: &Shared,
    known: &Known,
    url: &CrawlUrl,
    line: &Line,
    capture: &Capture,
) -> anyhow::Result<bool> {
    let bytes_max = shared.settings.handler.page_bytes_max as u64;
    let fields = fields(&capture.http);
    let is_redirect = line.capture.status.as_deref().is_some_and(|status| status.starts_with('3'));
    let location = fields.get(LOCATION).filter(|_| is_redirect).and_then(|value| value.to_str().ok());
    let target = location.and_then(|text| url.join(text).ok()).filter(|target| target.key() != url.key());
    let findings = match line.capture.status.as_deref() {
        Some("200") | None => match decoded(&capture.http, &capture.body, bytes_max) {
            Ok((body, _)) => match read_body(shared, url, &fields, body.into(), known.read_as).await {
                Ok(findings) => Some(findings),
                Err(why) => {
                    complain(url, why)?;
                    None
                }
            },
            Err(_) => None,
        },
        _ => None,
    };
    let links = intake::links(shared, known, url, target.as_ref(), findings.as_deref());
    for target in &links.moved {
        shared.widen(known.job, target).await?;
    }
    let room = links.wanted.len().min(LINKS_MAX) as u32;
    let _offering = shared.room.offering.acquire_many(room).await.expect("never closed");
    shared.offer(&links.wanted).await?;
    Ok(findings.is_some() || target.is_some())
}

/// The header fields on which parsing depends, and no others.
pub fn fields(http: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let wanted = [CONTENT_TYPE, LOCATION, http::header::LINK, http::header::REFRESH];
    for line in http.split(|byte| *byte == b'\n').skip(1) {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        let name = HeaderName::from_bytes(name).ok();
        let wanted = name.filter(|name| wanted.contains(name) || name.as_str() == "x-robots-tag");
        if let (Some(name), Ok(value)) = (wanted, HeaderValue::from_bytes(value)) {
            fields.append(name, value);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_head_gives_the_fields_that_are_read() {
        let fields = fields(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nX-Robots-Tag: nofollow\r\n\r\n");
        assert_eq!((fields.len(), &fields[CONTENT_TYPE]), (2, &http::HeaderValue::from_static("text/html")));
        assert_eq!(fields["x-robots-tag"], "nofollow");
    }
}
