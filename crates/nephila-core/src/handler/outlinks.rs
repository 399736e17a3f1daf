//! The outlinks of a page, as lines for the metadata record of its capture, in the notation of Heritrix:
//! `URL L a/@href`, with the kind of hop and the place in the page.
//!
//! Redirects come first, then links in the order of the page, then page requisites, then the entries of a sitemap.
//! Invariants: at most [`OUTLINKS_MAX`] lines with at most [`OUTLINKS_BYTES_MAX`] bytes together; omitted lines are
//! counted.

use super::link::LinkKind;
use super::page::Findings;
use crate::notes::Notes;
use crate::url::CrawlUrl;

/// Maximum number of lines of one page.
pub const OUTLINKS_MAX: usize = 6_000;
/// Maximum number of bytes in these lines: some 1,800 links of usual length. Pages that wait for the disk hold them in
/// memory.
pub const OUTLINKS_BYTES_MAX: usize = 128 * 1024;

/// The outlinks of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlinks {
    /// One line for each URL, as notes of a metadata record.
    pub lines: Notes,
    /// Minimum number of URLs that were left out.
    pub omitted: u64,
    bytes: usize,
}

impl Outlinks {
    /// From the findings of a page, and from the target of its redirect.
    pub fn of(findings: Option<&Findings>, redirect: Option<&CrawlUrl>) -> Outlinks {
        let mut outlinks = Outlinks::default();
        each(findings, redirect, &mut |url, kind, place| outlinks.push(url, kind, place));
        let Some(findings) = findings else { return outlinks };
        outlinks.omitted += findings.counts.over_limit;
        // The page was cut, and the number of missing URLs is unknown.
        outlinks.omitted += u64::from(findings.cut && outlinks.omitted == 0);
        outlinks
    }

    fn push(&mut self, url: &CrawlUrl, kind: LinkKind, place: &str) {
        let bytes = url.as_str().len() + place.len() + 3;
        if self.lines.len() >= OUTLINKS_MAX || self.bytes + bytes > OUTLINKS_BYTES_MAX {
            self.omitted += 1;
            return;
        }
        self.bytes += bytes;
        self.lines.push_with("outlink", |line| {
            line.push_str(url.as_str());
            line.extend([' ', kind.letter(), ' ']);
            line.push_str(place);
        });
    }
}

/// Calls `give` with every outlink of a page, in the order of the lines and without their limits.
pub fn each(
    findings: Option<&Findings>,
    redirect: Option<&CrawlUrl>,
    give: &mut dyn FnMut(&CrawlUrl, LinkKind, &'static str),
) {
    if let Some(target) = redirect {
        give(target, LinkKind::Redirect, "Location:");
    }
    let Some(findings) = findings else { return };
    findings.links.iter().for_each(|found| give(&found.url, found.kind, found.place));
    if let Some(sitemap) = &findings.sitemap {
        sitemap.sitemaps.iter().for_each(|url| give(url, LinkKind::Sitemap, "sitemap/loc"));
        for entry in &sitemap.urls {
            give(&entry.url, LinkKind::Listed, "url/loc");
            let alternates = entry.alternates.iter();
            alternates.for_each(|url| give(url, LinkKind::Alternate, "url/link/@href"));
        }
    }
}

/// The kind of a link of which only the hop and the place are known.
pub fn kind_of(letter: char, place: &str) -> LinkKind {
    match (letter, place) {
        ('R', _) => LinkKind::Redirect,
        ('M', "sitemap/loc") => LinkKind::Sitemap,
        ('M', _) => LinkKind::Listed,
        ('S', _) => LinkKind::Form,
        ('E', "iframe/@src" | "frame/@src") => LinkKind::Iframe,
        ('E', "@import") => LinkKind::Style,
        ('E', _) => LinkKind::Requisite,
        (_, "area/@href") => LinkKind::Area,
        (_, "Link:") => LinkKind::HeaderLink,
        (_, "Refresh:" | "meta/@content") => LinkKind::Refresh,
        (_, "url/link/@href") => LinkKind::Alternate,
        _ => LinkKind::Link,
    }
}

/// The URL of a line.
pub fn url_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::handler::{Limits, Page, ReadAs, read_page};
    use crate::url::KeyRules;

    fn read(body: &str, limits: &Limits) -> Outlinks {
        let url = CrawlUrl::parse("http://a.test/x/").unwrap();
        let mut fields = HeaderMap::new();
        fields.insert("content-type", "text/html".parse().unwrap());
        fields.insert("link", "<next>; rel=next".parse().unwrap());
        let keys = KeyRules::default();
        let (read_as, body) = (ReadAs::Page, body.as_bytes());
        let page = Page { url: &url, fields: &fields, body, read_as, agent: "", keys: &keys };
        let target = CrawlUrl::parse("http://b.test/").unwrap();
        Outlinks::of(Some(&read_page(&page, limits)), Some(&target))
    }

    #[test]
    fn out_01_every_link_says_its_hop_and_its_place() {
        let body = "<a href=/a>a</a><img src=i.png><script src=s.js></script><iframe src=f></iframe>\
                    <link rel=stylesheet href=c.css><a href=/a>again</a>";
        let found = read(body, &Limits::default());
        let lines: Vec<&str> = found.lines.iter().map(|(_, line)| line).collect();
        assert_eq!(
            lines,
            [
                "http://b.test/ R Location:",
                "http://a.test/x/next L Link:",
                "http://a.test/a L a/@href",
                "http://a.test/x/f E iframe/@src",
                "http://a.test/x/i.png E img/@src",
                "http://a.test/x/s.js E script/@src",
                "http://a.test/x/c.css E link/@href",
            ]
        );
        assert_eq!((found.omitted, url_of(lines[2])), (0, "http://a.test/a"));
    }

    #[test]
    fn out_01_lines_and_bytes_have_a_limit_and_the_rest_is_counted() {
        let many: String = (0..7_000).map(|n| format!("<a href=/{n}>")).collect();
        let limits = Limits { links_max: 10_000, ..Limits::default() };
        let found = read(&many, &limits);
        assert_eq!(found.lines.len() as u64 + found.omitted, 7_002);
        assert!(found.lines.iter().map(|(_, line)| line.len()).sum::<usize>() <= OUTLINKS_BYTES_MAX);
        let long: String = (0..200).map(|n| format!("<a href=/{n}{}>", "x".repeat(1_500))).collect();
        let found = read(&long, &limits);
        assert!(found.lines.len() < 100 && found.omitted > 100, "{}", found.lines.len());
        let few = read(&many, &Limits { links_max: 10, ..Limits::default() });
        assert!(few.omitted >= 6_990, "what the reader left out counts: {}", few.omitted);
    }
}
