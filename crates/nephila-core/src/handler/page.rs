//! From an answer to what it names: the one entrance for everything that was fetched.
//!
//! A body is sniffed first. A page is read for links, a style sheet for what it needs, a sitemap or a feed for its
//! entries, and anything else only for what stands in its fields. Every URL comes out once, in its canonical form, under its strongest kind.
//!
//! What always holds: it returns for any bytes, within the [`Limits`], with whatever could be read; `cut` says that there
//! may have been more. It asks no clock: whoever has one passes a function that says when time is up.

use std::time::Duration;

use encoding_rs::UTF_8;

use super::charset::{self, Decision};
pub use super::collect::Counts;
use super::collect::{Collector, Named, Resolver};
use super::link::{Found, LinkKind, read_rel};
use super::page_robots::{self, PageRobots};
use super::read_as::ReadAs;
use super::refresh::{self, Refresh};
use super::sitemap::{self, SitemapFindings};
use super::sniff::{self, Kind};
use super::{css, html, link_field};
use crate::url::{CrawlUrl, KeyRules};

/// An answer, as the handler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Where it came from, after redirects.
    pub url: &'a CrawlUrl,
    /// The fields of its head.
    pub fields: &'a http::HeaderMap,
    /// Its body, content codings undone.
    pub body: &'a [u8],
    /// What whoever found the URL took it for.
    pub read_as: ReadAs,
    /// Our product token, by which pages may address us. Empty if there is none.
    pub agent: &'a str,
    /// The rules of the job for the keys of URLs.
    pub keys: &'a KeyRules,
}

/// How much is read, and what of it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// URLs from one page. The rest is counted.
    pub links_max: usize,
    /// How much of a page is read.
    pub html_bytes_max: usize,
    /// What the HTML parser may hold at a time: its open elements and the tag it is in.
    pub memory_max: usize,
    /// How much `noscript` text of one page is read again as markup.
    pub noscript_bytes_max: usize,
    /// How much of a sitemap is read, unpacked (sitemaps.org: 50 MB).
    pub sitemap_bytes_max: usize,
    /// Entries from one sitemap (sitemaps.org: 50,000).
    pub sitemap_urls_max: usize,
    /// A refresh up to this delay is a redirect, a longer one a link.
    pub refresh_redirect_max: Duration,
    /// Also name what a page needs to be shown: images, scripts, styles.
    pub requisites: bool,
    /// Also name where GET forms lead. Nothing is ever filled in.
    pub forms: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            links_max: 6_000,
            html_bytes_max: 16 * 1024 * 1024,
            memory_max: 4 * 1024 * 1024,
            noscript_bytes_max: 256 * 1024,
            sitemap_bytes_max: 50 * 1024 * 1024,
            sitemap_urls_max: 50_000,
            refresh_redirect_max: Duration::from_secs(1),
            requisites: true,
            forms: false,
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// What the body is.
    pub kind: Kind,
    /// In which encoding it was read, if it was.
    pub charset: Option<Decision>,
    /// The URLs it names, each once: links in the order in which they stand there, then what the page needs to be
    /// shown. The entries of a sitemap are in `sitemap` instead.
    pub links: Vec<Found>,
    /// What its references were joined with, if not its own URL.
    pub base_used: Option<CrawlUrl>,
    /// What was seen and what became of it.
    pub counts: Counts,
    /// Its title, on one line.
    pub title: Option<String>,
    /// What it asks of robots.
    pub page_robots: PageRobots,
    /// Where it sends its readers after a while. Its target is among `links` too.
    pub refresh: Option<Refresh>,
    /// What the sitemap says, if it is one.
    pub sitemap: Option<SitemapFindings>,
    /// A limit was met or time was up: there may be more.
    pub cut: bool,
}

/// Reads an answer.
pub fn read_page(page: &Page<'_>, limits: &Limits) -> Findings {
    read_page_until(page, limits, &mut || false)
}

/// Like [`read_page`], ending early when `time_is_up` says so. It is asked every few thousand bytes or URLs.
pub fn read_page_until(page: &Page<'_>, limits: &Limits, time_is_up: &mut dyn FnMut() -> bool) -> Findings {
    let labels = || page.fields.get_all(http::header::CONTENT_TYPE).iter().map(|value| value.as_bytes());
    let kind = sniff::sniff(labels(), page.body).kind;
    let mut robots = page_robots::Reader::new(page.agent);
    robots.read_fields(page.fields);
    let mut resolver = Resolver::new(page.url, page.keys, limits.links_max);
    let mut findings = Findings {
        kind,
        charset: None,
        links: Vec::new(),
        base_used: None,
        counts: Counts::default(),
        title: None,
        page_robots: PageRobots::default(),
        refresh: None,
        sitemap: None,
        cut: false,
    };

    // The fields know nothing of a `base`.
    let (collector, refresh) = read_fields(page, limits);
    findings.cut |= resolver.resolve(collector, page.url, UTF_8, time_is_up);
    findings.refresh = refresh;

    let reading = match reader_of(kind, page.read_as) {
        Reading::Css if !limits.requisites => Reading::Nothing,
        reading => reading,
    };
    match reading {
        Reading::Sitemap => {
            let sitemap = sitemap::read_until(page, limits, time_is_up);
            findings.cut |= sitemap.cut;
            findings.sitemap = Some(sitemap);
        }
        Reading::Feed => {
            let feed = sitemap::read_until(page, limits, time_is_up);
            findings.cut |= feed.cut;
            feed.urls
                .into_iter()
                .for_each(|entry| resolver.add(entry.url, Named::new(LinkKind::Link, "entry")));
        }
        Reading::Html => {
            let label = labels().rfind(|label| sniff::essence(label).is_some());
            let decision = charset::decide(label, page.body);
            findings.charset = Some(decision);
            let mut body = &page.body[..page.body.len().min(limits.html_bytes_max)];
            findings.cut |= body.len() < page.body.len();
            let decoded;
            let mut encoding = decision.encoding;
            if !encoding.is_ascii_compatible() {
                decoded = charset::decode(encoding, body, limits.html_bytes_max);
                findings.cut |= decoded.cut;
                body = decoded.text.as_bytes();
                encoding = UTF_8;
            }
            let (html, was_cut) = html::read(body, encoding, robots.clone(), limits, page.keys, time_is_up);
            findings.cut |= was_cut;
            findings.title = html.shown_title();
            robots = html.robots;
            findings.refresh = findings.refresh.or(html.refresh);
            // The first base counts; one that cannot be used is no base, and the next is none either.
            let base = html.base.and_then(|href| page.url.join_in(&href, encoding, page.keys).ok());
            // References are in the encoding that the page has, not the one it was read in.
            let join_with = base.as_ref().unwrap_or(page.url);
            findings.cut |= resolver.resolve(html.collector, join_with, decision.encoding, time_is_up);
            findings.base_used = base.filter(|base| base.as_str() != page.url.as_str());
        }
        Reading::Css => {
            let label = labels().rfind(|label| sniff::essence(label).is_some());
            let decision = css::encoding(label, page.body);
            findings.charset = Some(decision);
            let mut collector = Collector::new(limits.links_max, page.keys);
            let mut take =
                |url: &str, named| collector.push(url, Named::new(kind_in_css(named), place_in_css(named)));
            findings.cut |=
                css::read_bytes(decision, page.body, limits.html_bytes_max, time_is_up, &mut take);
            findings.cut |= resolver.resolve(collector, page.url, decision.encoding, time_is_up);
        }
        Reading::Nothing => {}
    }

    findings.page_robots = robots.finish();
    findings.links = resolver.links;
    findings.counts = resolver.counts;
    findings.cut |= findings.counts.over_limit > 0;
    findings
}

enum Reading {
    Html,
    Css,
    Sitemap,
    Feed,
    Nothing,
}

/// The bytes decide where they are clear. A sitemap may also be plain text or packed, which only the finder knows.
fn reader_of(kind: Kind, read_as: ReadAs) -> Reading {
    let may_be_list = kind.is_text() || matches!(kind, Kind::Archive | Kind::Empty);
    match (kind, read_as) {
        (Kind::Sitemap, _) => Reading::Sitemap,
        (_, ReadAs::Sitemap) if may_be_list => Reading::Sitemap,
        (Kind::Feed, _) => Reading::Feed,
        (Kind::Xml | Kind::Text | Kind::Archive, ReadAs::Feed) => Reading::Feed,
        (Kind::Html, _) => Reading::Html,
        (Kind::Css, _) => Reading::Css,
        // By how it was linked: browsers take a style sheet without a label, or with a plain one, for what it is.
        (Kind::Text | Kind::Json, ReadAs::Style) => Reading::Css,
        _ => Reading::Nothing,
    }
}

/// What a style sheet names.
pub(super) fn kind_in_css(named: css::Named) -> LinkKind {
    match named {
        css::Named::Import => LinkKind::Style,
        css::Named::Url => LinkKind::Requisite,
    }
}

fn place_in_css(named: css::Named) -> &'static str {
    match named {
        css::Named::Import => "@import",
        css::Named::Url => "url()",
    }
}

/// `Link` and `Refresh` fields.
fn read_fields(page: &Page<'_>, limits: &Limits) -> (Collector, Option<Refresh>) {
    let mut collector = Collector::new(limits.links_max, page.keys);
    let mut links = 0;
    for field in page.fields.get_all(http::header::LINK) {
        for link in link_field::parse(&String::from_utf8_lossy(field.as_bytes())) {
            links += 1;
            let rel = read_rel(&link.rel, link.media.as_deref());
            // A link from another page says nothing about this one.
            if links > HEADER_LINKS_MAX || link.anchor.is_some() {
                continue;
            }
            match rel.kind {
                Some(kind) if kind.is_requisite() && !limits.requisites => {}
                Some(kind) => {
                    let kind = if kind == LinkKind::Link { LinkKind::HeaderLink } else { kind };
                    collector
                        .push(&link.target, Named { nofollow: rel.nofollow, ..Named::new(kind, "Link:") });
                }
                None => {}
            }
        }
    }
    let field = page.fields.get(http::header::REFRESH);
    let refresh = field.and_then(|field| refresh::parse(&String::from_utf8_lossy(field.as_bytes())));
    if let Some(Refresh { delay, url: Some(url) }) = &refresh {
        let short = *delay <= limits.refresh_redirect_max;
        let kind = if short { LinkKind::Redirect } else { LinkKind::Refresh };
        collector.push(url, Named::new(kind, "Refresh:"));
    }
    (collector, refresh)
}

/// More links than this are not read from all `Link` fields together.
const HEADER_LINKS_MAX: usize = 256;
