//! A capture as text: foreign bytes, read on threads of their own.
//!
//! Invariants: at most [`AT_ONCE`] captures are read at the same time; a body has at most [`BODY_BYTES_MAX`] bytes, and
//! its reading [`TIME_MAX`]; what is written runs nothing and loads nothing, apart from the body itself if it is asked for.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{self, HeaderValue};
use nephila_core::handler::sniff::{self, Kind as Media};
use nephila_core::handler::{Findings, Limits, Page, ReadAs, charset, read_page_until};
use nephila_core::store::head;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_engine::crawl::{decoded, text};
use nephila_store::captures::Capture;
use nephila_text::Part;
use tokio::sync::Semaphore;

use super::ask::Ask;
use super::failure::{Failure, Kind};
use super::site::ASK_MAX;
use super::{Scraped, Wants};
use crate::captures;
use crate::client::Question;
use crate::question::escaped;

/// Maximum number of captures that are read at the same time.
const AT_ONCE: usize = 4;
/// Maximum size of a body in bytes.
pub(super) const BODY_BYTES_MAX: usize = 8 << 20;
/// Maximum duration of reading one capture; then nobody waits for the thread, which keeps its place until it ends.
const TIME_MAX: Duration = Duration::from_secs(15);
/// Maximum duration of finding links.
const LINKS_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum number of links, and of images.
const LINKS_MAX: usize = 10_000;
/// Maximum size in bytes of a title and of other single fields.
const FIELD_BYTES_MAX: usize = 1_000;

/// Places of [`AT_ONCE`].
static ROOM: Semaphore = Semaphore::const_new(AT_ONCE);

/// A stored response.
#[derive(Debug)]
pub(super) struct Stored {
    url: CrawlUrl,
    /// Time of the capture in 14 digits.
    pub(super) captured: String,
    http: Bytes,
}

/// The newest capture of a URL, or the one nearest to a time of up to 14 digits. A URL without one is
/// [`Kind::NotFound`].
pub(super) async fn stored(ask: &impl Ask, url: &CrawlUrl, at: Option<&str>) -> Result<Stored, Failure> {
    let at = at.filter(|at| !at.is_empty()).map(|at| format!("&at={at}")).unwrap_or_default();
    let target = format!(
        "/api/v1/pages?as=http&inline=1&bytes_max={BODY_BYTES_MAX}&url={}{at}",
        escaped(url.as_str())
    );
    let reply = ask.ask(Question::get(target, BODY_BYTES_MAX + (2 << 20), ASK_MAX)).await?;
    if !reply.status.is_success() {
        return Err(Failure::of(&reply));
    }
    let captured = reply.field("nephila-captured").unwrap_or_default().to_owned();
    // The index may have found the URL by another spelling.
    let url = reply.field("nephila-url").and_then(|url| CrawlUrl::parse(url).ok()).unwrap_or(url.clone());
    Ok(Stored { url, captured, http: reply.body })
}

impl Stored {
    /// Undoes the content codings.
    fn response(self) -> Result<(CrawlUrl, String, http::Response<Bytes>), Failure> {
        let end = head::end(&self.http).unwrap_or(0);
        let (head, body) = (self.http[..end].to_vec(), self.http[end..].to_vec());
        let capture = Capture { header: Default::default(), http: head, body, origin: None, media: None };
        let url = nephila_core::text::shown(self.url.as_str()).to_string();
        let response = decoded::response(&capture, BODY_BYTES_MAX as u64 + 1).map_err(|error| {
            Failure::new(Kind::Site, format!("the capture of {url} is no HTTP response: {error:#}"))
        })?;
        if response.body().len() > BODY_BYTES_MAX {
            let text =
                format!("the body of {url} has more than {BODY_BYTES_MAX} bytes: read it with /api/v1/pages");
            return Err(Failure::new(Kind::TooLarge, text));
        }
        Ok((self.url, self.captured, response))
    }

    /// Target of a redirect, if the response is one.
    pub(super) fn redirect(&self) -> Option<CrawlUrl> {
        let end = head::end(&self.http).unwrap_or(0);
        let head = String::from_utf8_lossy(&self.http[..end]);
        let mut lines = head.lines();
        let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let location = lines.filter_map(|line| line.split_once(':'));
        let mut location = location.filter(|(name, _)| name.trim().eq_ignore_ascii_case("location"));
        let is_redirect = (300..400).contains(&status) && status != 304;
        self.url.join(location.next().filter(|_| is_redirect)?.1.trim()).ok()
    }
}

/// Reads on a thread of its own.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let Ok(place) = tokio::time::timeout(TIME_MAX, ROOM.acquire()).await else {
        return Err(Failure::new(Kind::Busy, "other pages are being read: ask again in a moment"));
    };
    let place = place.expect("it is never closed");
    let work = move || {
        // A client that goes away frees no place: the thread goes on.
        let _place = place;
        work()
    };
    match tokio::time::timeout(TIME_MAX, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => Err(Failure::new(Kind::Site, format!("the page cannot be read: {panic}"))),
        Err(_) => Err(Failure::new(
            Kind::Site,
            format!("reading the page took longer than {} s", TIME_MAX.as_secs()),
        )),
    }
}

/// The wanted parts of a capture.
pub(super) async fn scraped(asked: String, stored: Stored, wants: Wants) -> Result<Scraped, Failure> {
    apart(move || read(asked, stored, wants)).await
}

/// The URLs of a sitemap, and the sitemaps that it lists; nothing for any other document.
pub(super) async fn sitemap(stored: Stored) -> Result<(Vec<CrawlUrl>, Vec<CrawlUrl>), Failure> {
    apart(move || {
        let (url, _, response) = stored.response()?;
        let found = links(&url, &response, ReadAs::Sitemap, false).sitemap;
        let entries =
            found.map(|found| (found.urls.into_iter().map(|entry| entry.url).collect(), found.sitemaps));
        Ok(entries.unwrap_or_default())
    })
    .await
}

/// The texts of a plain document.
pub(super) async fn plain(stored: Stored) -> Result<String, Failure> {
    apart(move || Ok(String::from_utf8_lossy(stored.response()?.2.body()).into_owned())).await
}

fn links(url: &CrawlUrl, response: &http::Response<Bytes>, read_as: ReadAs, requisites: bool) -> Findings {
    let (keys, began) = (KeyRules::default(), Instant::now());
    let page =
        Page { url, fields: response.headers(), body: response.body(), read_as, agent: "", keys: &keys };
    let limits = Limits { links_max: LINKS_MAX, requisites, ..Limits::default() };
    read_page_until(&page, &limits, &mut || began.elapsed() > LINKS_TIME_MAX)
}

fn field(text: &str) -> String {
    text::cut(text.trim(), FIELD_BYTES_MAX).to_owned()
}

fn read(asked: String, stored: Stored, wants: Wants) -> Result<Scraped, Failure> {
    let (url, captured, response) = stored.response()?;
    let labels = || response.headers().get_all(header::CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
    let sniffed = sniff::sniff(labels(), response.body());
    let label = labels().next_back().map(|label| String::from_utf8_lossy(label).into_owned());
    let content_type = label.or_else(|| sniffed.media_type(response.body())).unwrap_or_default();
    let mut page = Scraped {
        asked,
        status: response.status().as_u16(),
        content_type: field(&content_type),
        captured: captures::date(&captured),
        ..Scraped::default()
    };
    let is_html = sniffed.kind == Media::Html;
    let findings = is_html.then(|| links(&url, &response, ReadAs::Page, wants.images));
    let base = findings.as_ref().and_then(|found| found.base_used.clone()).unwrap_or_else(|| url.clone());
    if wants.links || wants.images {
        let of = |element: &str| -> Vec<String> {
            let mut known = HashSet::new();
            let all = findings.iter().flat_map(|found| &found.links);
            let of = all.filter(|link| link.place.starts_with(element) && known.insert(link.url.as_str()));
            of.map(|link| link.url.as_str().to_owned()).collect()
        };
        page.links = wants.links.then(|| of("a/"));
        page.images = wants.images.then(|| of("img/"));
    }
    if is_html {
        write_html(&mut page, &url, &base, response.body(), labels().next_back(), wants);
    } else {
        write_other(&mut page, &url, response.body(), labels().next_back(), sniffed.kind, wants);
    }
    page.url = url.as_str().to_owned();
    Ok(page)
}

fn write_html(
    page: &mut Scraped,
    url: &CrawlUrl,
    base: &CrawlUrl,
    body: &[u8],
    label: Option<&[u8]>,
    wants: Wants,
) {
    let decision = charset::decide(label, body);
    let html = charset::decode(decision.encoding, body, BODY_BYTES_MAX).text;
    if html.len() > nephila_text::HTML_BYTES_MAX {
        let text = format!("only the first {} bytes of the page were read", nephila_text::HTML_BYTES_MAX);
        page.warning = Some(text);
    }
    let part = if wants.only_main { Part::Main } else { Part::Whole };
    // Only addresses that a program can fetch: no `javascript:`.
    let resolve = |href: &str| base.join(href).ok().map(|url| url.as_str().to_owned());
    let written = nephila_text::write(&html, url.as_str(), part, &resolve);
    page.title = field(&written.title);
    page.description = field(&written.description);
    page.language = field(&written.found.language);
    page.author = field(&written.found.author);
    page.published = field(&written.found.published);
    page.markdown = wants.markdown.then_some(written.found.markdown);
    page.html = wants.html.then_some(written.html);
    page.raw_html = wants.raw_html.then_some(html);
}

/// A PDF, a plain text, or something that has no text.
fn write_other(
    page: &mut Scraped,
    url: &CrawlUrl,
    body: &[u8],
    label: Option<&[u8]>,
    media: Media,
    wants: Wants,
) {
    let is_text = body.iter().take(1_024).all(|byte| *byte != 0)
        && (page.content_type.starts_with("text/")
            || ["json", "xml", "javascript", "yaml"].iter().any(|part| page.content_type.contains(part)));
    let text = match media {
        Media::Pdf => match text::of_body(body, label, url.as_str()) {
            Some(article) => {
                page.title = article
                    .notes()
                    .into_iter()
                    .find(|(name, _)| *name == "title")
                    .map_or(String::new(), |it| it.1);
                article.text
            }
            None => String::new(),
        },
        _ if is_text => {
            let decision = charset::decide(label, body);
            charset::decode(decision.encoding, body, nephila_text::HTML_BYTES_MAX).text
        }
        _ => String::new(),
    };
    if text.is_empty() && !body.is_empty() {
        page.warning = Some(format!("no text was found in this {}", page.content_type));
    }
    page.raw_html = (wants.raw_html && is_text).then(|| text.clone());
    page.markdown = wants.markdown.then_some(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reading_keeps_its_place_until_it_ends_even_if_nobody_waits_for_it() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let reading = tokio::spawn(apart(move || {
            begin.send(()).expect("the test waits");
            _ = ended.recv();
            Ok(())
        }));
        begun.await.unwrap();
        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
        assert!(ROOM.available_permits() < AT_ONCE);
        drop(end);
    }
}
