//! From a response to the URLs that the response names: the only entrance for everything that was fetched.
//!
//! A body is sniffed first. HTML is read for links, a style sheet for its requisites, a sitemap or a feed for its
//! entries, and anything else only for its header fields. Every URL comes out once (deduplicated), in its canonical
//! form, under its strongest kind.
//!
//! Invariants: reading returns for any input, within the [`Limits`], with everything that could be parsed; `cut` tells
//! that there may have been more. Nothing here reads the clock: the caller passes a function that tells when the
//! deadline has passed.

use std::time::Duration;

use encoding_rs::UTF_8;

use super::charset::{self, Decision};
pub use super::collect::Counts;
use super::collect::{Collector, Named, Resolver};
use super::details::Details;
use super::link::{FoundLink, LinkKind, read_rel};
use super::page_robots::{self, PageRobots};
use super::read_as::ReadAs;
use super::refresh::{self, Refresh};
use super::sitemap::{self, SitemapFindings};
use super::sniff::{self, Kind};
use super::{css, html, link_field};
use crate::url::{Base, CrawlUrl, KeyRules};

/// A response, as the handler sees one.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// The URL of the response, after redirects.
    pub url: &'a CrawlUrl,
    /// The header fields.
    pub fields: &'a http::HeaderMap,
    /// The body, without content codings.
    pub body: &'a [u8],
    /// The expected kind of document, from the link that named the URL.
    pub read_as: ReadAs,
    /// Our product token, by which pages may address us. Empty if there is none.
    pub agent: &'a str,
    /// The rules of the job for the keys of URLs.
    pub keys: &'a KeyRules,
}

/// Limits of reading a page, and the kinds of URLs that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of URLs from one page. The rest is counted.
    pub links_max: usize,
    /// Maximum number of bytes of a page that are read.
    pub html_bytes_max: usize,
    /// Maximum memory of the reader of HTML in bytes: its open elements. A tag may have half as many bytes.
    pub memory_max: usize,
    /// Maximum number of bytes of `noscript` text of one page that are read again as markup.
    pub noscript_bytes_max: usize,
    /// Maximum number of bytes of a sitemap, decompressed (sitemaps.org: 50 MB).
    pub sitemap_bytes_max: usize,
    /// Maximum number of entries from one sitemap (sitemaps.org: 50,000).
    pub sitemap_urls_max: usize,
    /// A refresh up to this delay is a redirect, a longer one a link.
    pub refresh_redirect_max: Duration,
    /// Also extract page requisites: images, scripts, styles.
    pub requisites: bool,
    /// Also extract the targets of GET forms. Nothing is ever filled in.
    pub forms: bool,
    /// Also extract what only tables hold: the texts of links, the description, the language (see [`Details`]).
    pub details: bool,
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
            details: false,
        }
    }
}

/// The findings of one page.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The media kind of the body.
    pub kind: Kind,
    /// The character encoding with which the body was read, if any.
    pub charset: Option<Decision>,
    /// The named URLs, each once: links in the order of the page, then page requisites. The entries of a sitemap are in
    /// `sitemap` instead.
    pub links: Vec<FoundLink>,
    /// The base URL of the references, if not the page's own URL.
    pub base_used: Option<CrawlUrl>,
    /// The counts of references by result.
    pub counts: Counts,
    /// The title, on one line.
    pub title: Option<String>,
    /// Media type, description, language and other versions of the page, if [`Limits::details`] asks for them.
    pub details: Option<Box<Details>>,
    /// The robots directives of the page.
    pub page_robots: PageRobots,
    /// The client-side refresh. Its target is among `links` too.
    pub refresh: Option<Refresh>,
    /// The contents of the sitemap, if the body is one.
    pub sitemap: Option<SitemapFindings>,
    /// A limit or the deadline was reached: there may be more.
    pub cut: bool,
    /// Facts that a reader of its own found, such as a price, for the metadata record of the capture and for observers.
    pub notes: Vec<(&'static str, String)>,
}

/// Reads a response.
pub fn read_page(page: &Page<'_>, limits: &Limits) -> Findings {
    read_page_until(page, limits, &mut || false)
}

/// Like [`read_page`], ending early when `time_is_up` returns true. The check runs every few thousand bytes or URLs.
pub fn read_page_until(page: &Page<'_>, limits: &Limits, time_is_up: &mut dyn FnMut() -> bool) -> Findings {
    let labels = || page.fields.get_all(http::header::CONTENT_TYPE).iter().map(|value| value.as_bytes());
    let sniffed = sniff::sniff(labels(), page.body);
    let kind = sniffed.kind;
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
        details: None,
        page_robots: PageRobots::default(),
        refresh: None,
        sitemap: None,
        cut: false,
        notes: Vec::new(),
    };

    // A `base` does not apply to header fields.
    let (collector, refresh) = read_fields(page, limits);
    findings.cut |= resolver.resolve(collector, &Base::new(page.url), UTF_8, time_is_up);
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
                .for_each(|entry| resolver.add(entry.url, Named::new(LinkKind::Link, "entry"), None));
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
            // The first base counts; an invalid one is no base, and later ones are ignored too.
            let base = html.base.and_then(|href| page.url.join_in(&href, encoding, page.keys).ok());
            // References are encoded in the encoding of the page, not in UTF-8.
            let join_with = Base::new(base.as_ref().unwrap_or(page.url));
            findings.details = html.noted.map(|noted| {
                noted.resolve(&mut |href| join_with.join(href, Some(decision.encoding), page.keys).ok())
            });
            findings.cut |= resolver.resolve(html.collector, &join_with, decision.encoding, time_is_up);
            findings.base_used = base.filter(|base| base.as_str() != page.url.as_str());
        }
        Reading::Css => {
            let label = labels().rfind(|label| sniff::essence(label).is_some());
            let decision = css::encoding(label, page.body);
            findings.charset = Some(decision);
            let mut collector = Collector::new(limits.links_max, page.keys);
            let mut take = |url: &str, named| {
                collector.push(url, Named::new(kind_in_css(named), place_in_css(named)));
            };
            findings.cut |=
                css::read_bytes(decision, page.body, limits.html_bytes_max, time_is_up, &mut take);
            findings.cut |= resolver.resolve(collector, &Base::new(page.url), decision.encoding, time_is_up);
        }
        Reading::Nothing => {}
    }

    if limits.details {
        findings.details.get_or_insert_default().media_type = sniffed.media_type(page.body);
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

/// The bytes decide where they are clear. A sitemap may also be plain text or compressed, which only `read_as` tells.
fn reader_of(kind: Kind, read_as: ReadAs) -> Reading {
    let may_be_list = kind.is_text() || matches!(kind, Kind::Archive | Kind::Empty);
    match (kind, read_as) {
        (Kind::Sitemap, _) => Reading::Sitemap,
        (_, ReadAs::Sitemap) if may_be_list => Reading::Sitemap,
        (Kind::Feed, _) => Reading::Feed,
        (Kind::Xml | Kind::Text | Kind::Archive, ReadAs::Feed) => Reading::Feed,
        (Kind::Html, _) => Reading::Html,
        (Kind::Css, _) => Reading::Css,
        // By the kind of link: browsers accept a style sheet without a label, or with a plain one.
        (Kind::Text | Kind::Json, ReadAs::Style) => Reading::Css,
        _ => Reading::Nothing,
    }
}

/// The link kind of a URL in a style sheet.
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

/// Reads the `Link` and `Refresh` fields.
fn read_fields(page: &Page<'_>, limits: &Limits) -> (Collector, Option<Refresh>) {
    let mut collector = Collector::new(limits.links_max, page.keys);
    let mut links = 0;
    for field in page.fields.get_all(http::header::LINK) {
        for link in link_field::parse(&String::from_utf8_lossy(field.as_bytes())) {
            links += 1;
            let rel = read_rel(&link.rel, link.media.as_deref());
            // A link from another page does not belong to this page.
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

/// Maximum number of links from all `Link` fields together.
const HEADER_LINKS_MAX: usize = 256;
