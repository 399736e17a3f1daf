//! Tests of the whole handler: a page in, findings out. Tests named after a case of the catalogue of hostile cases are
//! counted by `cargo xtask hostile`.

// Robots directives in pages and header fields, links in the head.
mod fields;
// Markup as browsers read it, and hostile markup: HTM.
mod html;
// Pages in other encodings: ENC.
mod encoding;
// Sitemaps and feeds: SMP.
mod sitemap;
// Any bytes at all.
mod any;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Findings, Limits, Page, ReadAs, read_page};
use crate::url::{CrawlUrl, KeyRules};

const HERE: &str = "http://a.test/dir/page";

/// An answer with these fields.
struct Answer {
    url: CrawlUrl,
    fields: HeaderMap,
    body: Vec<u8>,
    read_as: ReadAs,
    limits: Limits,
}

impl Answer {
    fn html(body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            url: CrawlUrl::parse(HERE).unwrap(),
            fields: HeaderMap::new(),
            body: body.into(),
            read_as: ReadAs::Page,
            limits: Limits::default(),
        }
        .field("content-type", "text/html")
    }

    fn sitemap(body: impl Into<Vec<u8>>) -> Answer {
        let mut answer = Answer::html(body);
        answer.fields.clear();
        answer.read_as = ReadAs::Sitemap;
        answer
    }

    fn field(mut self, name: &str, value: &str) -> Answer {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        if name == http::header::CONTENT_TYPE {
            self.fields.remove(&name);
        }
        self.fields.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    fn limit(mut self, change: impl FnOnce(&mut Limits)) -> Answer {
        change(&mut self.limits);
        self
    }

    fn read(&self) -> Findings {
        let keys = KeyRules::default();
        read_page(&self.page(&keys), &self.limits)
    }

    fn page<'a>(&'a self, keys: &'a KeyRules) -> Page<'a> {
        Page {
            url: &self.url,
            fields: &self.fields,
            body: &self.body,
            read_as: self.read_as,
            agent: "nephila",
            keys,
        }
    }

    /// The links of kind L or R, as requested.
    fn links(&self) -> Vec<String> {
        let found = self.read().links;
        found.iter().filter(|f| f.kind.letter() != 'E').map(|f| f.url.as_str().to_owned()).collect()
    }

    /// All links with the names of their kinds.
    fn kinds(&self) -> Vec<(&'static str, String)> {
        self.read().links.iter().map(|f| (f.kind.name(), f.url.as_str().to_owned())).collect()
    }
}

/// Asserts that the page names these links.
#[track_caller]
fn links(html: &str, want: &[&str]) {
    assert_eq!(Answer::html(html).links(), want, "{html}");
}

/// Asserts that the page names these URLs, in these ways.
#[track_caller]
fn kinds(html: &str, want: &[(&str, &str)]) {
    let found = Answer::html(html).kinds();
    let found: Vec<(&str, &str)> = found.iter().map(|(kind, url)| (*kind, url.as_str())).collect();
    assert_eq!(found, want, "{html}");
}
