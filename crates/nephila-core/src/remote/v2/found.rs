//! What a spider found on a page, as bytes of its result: the node does not read the page again.
//!
//! Most pages are told this way. A sitemap, a page whose texts are wanted for tables, and what is larger than
//! [`FOUND_BYTES_MAX`] are not ([`to_bytes`] returns `None`): the node reads these itself, as it does when a spider sends
//! nothing.
//!
//! Invariants: every URL is parsed again, so that a spider cannot make one page into two; the numbers of links and their
//! sizes are bounded before memory is taken for them; words for places are those of this program.

use std::time::Duration;

use encoding_rs::Encoding;

use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::handler::charset::{Decision, Source};
use crate::handler::link::{FoundLink, LinkKind};
use crate::handler::page_robots::PageRobots;
use crate::handler::refresh::Refresh;
use crate::handler::sniff::Kind;
use crate::handler::{Counts, Findings};
use crate::url::CrawlUrl;

/// Maximum number of bytes of what was found on a page.
pub const FOUND_BYTES_MAX: usize = 2 << 20;

/// Where a page names URLs. The place in this list is what travels: new ones go to the end.
const PLACES: [&str; 33] = [
    "a/@href",
    "area/@href",
    "audio/@src",
    "body/@background",
    "embed/@src",
    "form/@action",
    "frame/@src",
    "iframe/@src",
    "image/@href",
    "image/@src",
    "image/@xlink:href",
    "img/@src",
    "img/@srcset",
    "input/@src",
    "link/@href",
    "link/@imagesrcset",
    "meta/@content",
    "object/@data",
    "script/@src",
    "source/@src",
    "source/@srcset",
    "track/@src",
    "use/@href",
    "use/@src",
    "use/@xlink:href",
    "video/@poster",
    "video/@src",
    "@import",
    "url()",
    "Link:",
    "Refresh:",
    "style",
    "@style",
];
const SOURCES: [Source; 4] = [Source::Bom, Source::Transport, Source::Page, Source::Guess];

/// The findings of a page as bytes. `None` for those that the node has to read itself.
pub fn to_bytes(findings: &Findings) -> Option<Vec<u8>> {
    let has_secret = findings.base_used.as_ref().is_some_and(|base| base.credentials().is_some());
    if findings.sitemap.is_some() || findings.details.is_some() || !findings.notes.is_empty() || has_secret {
        return None;
    }
    let mut out = Vec::with_capacity(64 + findings.links.len() * 32);
    out.push(place_of(&Kind::ALL, &findings.kind)?);
    match &findings.charset {
        Some(Decision { encoding, source }) => {
            out.push(1 + place_of(&SOURCES, source)?);
            put_bytes(&mut out, encoding.name().as_bytes());
        }
        None => out.push(0),
    }
    put_text(&mut out, findings.base_used.as_ref().map(CrawlUrl::as_str));
    put_text(&mut out, findings.title.as_deref());
    let Counts { seen, dropped_scheme, dropped_invalid, over_limit } = findings.counts;
    [seen, dropped_scheme, dropped_invalid, over_limit].iter().for_each(|count| put_u64(&mut out, *count));
    let robots = &findings.page_robots;
    let flags = [robots.noindex, robots.nofollow, robots.noarchive, robots.nosnippet, robots.noimageindex];
    out.push(bits(&flags) << 2 | bits(&[robots.named, findings.cut]));
    put_text(&mut out, robots.unavailable_after.as_deref());
    put_u64(&mut out, robots.usage.len() as u64);
    for (source, statement) in &robots.usage {
        put_bytes(&mut out, source.as_bytes());
        put_bytes(&mut out, statement.as_bytes());
    }
    match &findings.refresh {
        Some(Refresh { delay, url }) => {
            out.push(1);
            put_u64(&mut out, delay.as_secs());
            put_u64(&mut out, u64::from(delay.subsec_nanos()));
            put_text(&mut out, url.as_deref());
        }
        None => out.push(0),
    }
    put_u64(&mut out, findings.links.len() as u64);
    for FoundLink { url, kind, place, nofollow, embedded, words } in &findings.links {
        if words.is_some() || url.credentials().is_some() || out.len() > FOUND_BYTES_MAX {
            return None;
        }
        out.push(kind.code());
        out.push(place_of(&PLACES, place)?);
        out.push(bits(&[*nofollow, *embedded]));
        put_bytes(&mut out, url.as_str().as_bytes());
    }
    (out.len() <= FOUND_BYTES_MAX).then_some(out)
}

/// Reads what [`to_bytes`] wrote; at most `links_max` links.
pub fn read(bytes: &[u8], links_max: usize) -> Result<Findings, Damaged> {
    let reader = &mut Reader::new(bytes);
    let kind = *Kind::ALL.get(usize::from(reader.u8("kind")?)).ok_or(Damaged("kind"))?;
    let charset = match reader.u8("source")? {
        0 => None,
        source => {
            let source = *SOURCES.get(usize::from(source - 1)).ok_or(Damaged("source"))?;
            let encoding = Encoding::for_label(reader.bytes("encoding")?).ok_or(Damaged("encoding"))?;
            Some(Decision { encoding, source })
        }
    };
    let url = |text: &str| CrawlUrl::parse(text).map_err(|_| Damaged("a URL"));
    let base_used = text(reader)?.map(url).transpose()?;
    let title = text(reader)?.map(str::to_owned);
    let mut count = || reader.u64("count");
    let [seen, dropped_scheme, dropped_invalid, over_limit] = [count()?, count()?, count()?, count()?];
    let flags = reader.u8("flags")?;
    let flag = |at: u8| flags >> at & 1 == 1;
    let unavailable_after = text(reader)?.map(str::to_owned);
    let mut usage = Vec::new();
    for _ in 0..reader.u64("usage")? {
        usage.push((reader.text("usage")?.to_owned(), reader.text("usage")?.to_owned()));
    }
    let page_robots = PageRobots {
        noindex: flag(2),
        nofollow: flag(3),
        noarchive: flag(4),
        nosnippet: flag(5),
        noimageindex: flag(6),
        unavailable_after,
        named: flag(0),
        usage,
    };
    let refresh = match reader.u8("refresh")? {
        0 => None,
        _ => {
            let (secs, nanos) = (reader.u64("refresh")?, reader.u32("refresh")?);
            let delay = Duration::from_secs(secs).saturating_add(Duration::from_nanos(u64::from(nanos)));
            Some(Refresh { delay, url: text(reader)?.map(str::to_owned) })
        }
    };
    let links = links(reader, links_max)?;
    if !reader.is_empty() {
        return Err(Damaged("the end of what was found"));
    }
    let counts = Counts { seen, dropped_scheme, dropped_invalid, over_limit };
    let (details, sitemap, notes, cut) = (None, None, Vec::new(), flag(1));
    Ok(Findings {
        kind,
        charset,
        links,
        base_used,
        counts,
        title,
        details,
        page_robots,
        refresh,
        sitemap,
        cut,
        notes,
    })
}

fn links(reader: &mut Reader<'_>, links_max: usize) -> Result<Vec<FoundLink>, Damaged> {
    let count = reader.u64("links")?;
    if count > links_max as u64 {
        return Err(Damaged("links: too many"));
    }
    let mut links: Vec<FoundLink> = Vec::new();
    for _ in 0..count {
        let kind = LinkKind::by_code(reader.u8("kind of link")?).ok_or(Damaged("kind of link"))?;
        let place = PLACES.get(usize::from(reader.u8("place")?)).ok_or(Damaged("place"))?;
        let flags = reader.u8("flags")?;
        let url = CrawlUrl::parse(reader.text("URL")?).map_err(|_| Damaged("URL"))?;
        let (nofollow, embedded) = (flags & 1 == 1, flags & 2 == 2);
        links.push(FoundLink { url, kind, place, nofollow, embedded, words: None });
    }
    Ok(links)
}

fn place_of<T: PartialEq>(all: &[T], one: &T) -> Option<u8> {
    all.iter().position(|other| other == one).and_then(|at| u8::try_from(at).ok())
}

fn bits(flags: &[bool]) -> u8 {
    flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag))
}

fn put_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    text.into_iter().for_each(|text| put_bytes(out, text.as_bytes()));
}

fn text<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a str>, Damaged> {
    match reader.u8("a flag")? {
        0 => Ok(None),
        _ => reader.text("a text").map(Some),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::handler::{Limits, Page, ReadAs, read_page};
    use crate::url::KeyRules;

    const LINKS_MAX: usize = 6_000;

    fn found(html: &str, fields: &[(&'static str, &str)]) -> Findings {
        let url = CrawlUrl::parse("https://example.org/a/page.html").unwrap();
        let mut map = HeaderMap::new();
        map.insert("content-type", "text/html".parse().unwrap());
        for (name, value) in fields {
            map.append(*name, value.parse().unwrap());
        }
        let keys = KeyRules::default();
        let body = html.as_bytes();
        let page =
            Page { url: &url, fields: &map, body, read_as: ReadAs::Page, agent: "nephila", keys: &keys };
        read_page(&page, &Limits { forms: true, ..Limits::default() })
    }

    fn same(a: &Findings, b: &Findings) {
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    }

    #[test]
    fn every_place_of_a_link_comes_back() {
        let html = "<html><head><title>T &amp; \u{1f577}</title><base href='/b/'><link rel=stylesheet href=s.css>\
            <link rel=preload imagesrcset='x.png 2x' href=y.png><meta name=robots content='noindex, noarchive'>\
            <meta http-equiv=refresh content='5; url=next'><style>@import 'i.css'; p { background: url(u.png) }</style>\
            </head><body background=bg.png><a href=one>1</a><a rel=nofollow href='two?x=\u{e9}'>2</a>\
            <map><area href=area></map><audio src=a.ogg></audio><embed src=e.swf><form action=f></form>\
            <iframe src=i></iframe><img src=i.png srcset='j.png 1x, k.png 2x'><input type=image src=in.png>\
            <object data=o></object><script src=s.js></script><video poster=p.png src=v.mp4><source src=w.mp4>\
            <track src=t.vtt></video><picture><source srcset='q.png'></picture><svg><image xlink:href=g.png />\
            <image href=h.png /><use xlink:href='u.svg#a' /><use href='v.svg#b' /></svg><a href='mailto:x@y'>m</a></body>";
        let fields = [
            ("link", "</style.css>; rel=stylesheet"),
            ("refresh", "9; url=/later"),
            ("x-robots-tag", "nosnippet, unavailable_after: 2030-01-01"),
            ("content-usage", "train-ai=n"),
        ];
        let findings = found(html, &fields);
        let places: std::collections::BTreeSet<&str> = findings.links.iter().map(|link| link.place).collect();
        assert!(places.len() >= 24, "{places:?}");
        let bytes = to_bytes(&findings).expect("a page of every place can be told");
        same(&read(&bytes, LINKS_MAX).unwrap(), &findings);
    }

    #[test]
    fn a_sitemap_and_a_page_with_details_are_read_at_the_node() {
        let mut findings = found("<a href=x>", &[]);
        assert!(to_bytes(&findings).is_some());
        findings.details = Some(Box::default());
        assert!(to_bytes(&findings).is_none());
        findings.details = None;
        findings.sitemap = Some(Default::default());
        assert!(to_bytes(&findings).is_none());
    }

    #[test]
    fn a_liar_gets_no_more_links_in_than_the_settings_allow_and_no_foreign_spelling() {
        let html: String = (0..20).map(|n| format!("<a href=/{n}>{n}</a>")).collect();
        let bytes = to_bytes(&found(&html, &[])).unwrap();
        assert!(read(&bytes, 19).is_err());
        assert_eq!(read(&bytes, 20).unwrap().links.len(), 20);
        // A URL that is not in its canonical form becomes it, and one that is none ends the reading.
        let mut own = found("<a href=https://example.org/x>", &[]);
        let mut bytes = to_bytes(&own).unwrap();
        let at = bytes.windows(11).position(|window| window == b"example.org").unwrap();
        bytes[at..at + 11].copy_from_slice(b"EXAMPLE.org");
        own.links.truncate(1);
        same(&read(&bytes, LINKS_MAX).unwrap(), &own);
        bytes[at - 8..at].copy_from_slice(b"nothing:");
        assert!(read(&bytes, LINKS_MAX).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            _ = read(&bytes, LINKS_MAX);
        }

        #[test]
        fn damaged_bytes_end(at in 0usize..400, to: u8) {
            let mut bytes = to_bytes(&found("<title>x</title><a href=/a>a</a><a href=/ab>b</a><img src=i>", &[])).unwrap();
            let at = at % bytes.len();
            bytes[at] = to;
            _ = read(&bytes, LINKS_MAX);
        }

        #[test]
        fn what_a_page_names_comes_back(html in "(<a href='[^']{0,30}'>|<img src=[a-z:/.#?]{0,12}>|<p>|[ -~]){0,40}") {
            let findings = found(&html, &[]);
            if let Some(bytes) = to_bytes(&findings) {
                same(&read(&bytes, LINKS_MAX).unwrap(), &findings);
            }
        }
    }
}
