//! Bombs for the readers of feeds, sitemaps and pages: input on which a careless reader goes over the same bytes again and
//! again, or makes much of little.

use super::Bomb;

const FEED: &str = "application/rss+xml";
const XML: &str = "application/xml";
const JSON: &str = "application/feed+json";
const HTML: &str = "text/html; charset=utf-8";

pub(super) const BOMBS: &[Bomb] = &[
    plain("feed-link-ampersands", FEED, |n| {
        feed(r#"<item><title>a</title><link href=""#, "&", n, r#""/></item>"#)
    }),
    plain("feed-guid-references", FEED, |n| {
        feed(r#"<item><guid isPermaLink=""#, "&a", n, r#"">x</guid></item>"#)
    }),
    plain("feed-titles-of-signs", FEED, |n| {
        let title = format!("<![CDATA[{}>]]>", "<".repeat(15_000));
        let item =
            format!("<item><link>http://a.test/</link><title>{title}</title><author>{title}</author></item>");
        feed("", &item, n, "")
    }),
    plain("feed-title-half-tags", FEED, |n| {
        let title = format!("<![CDATA[{}]]>", "<a<!".repeat(3_900));
        feed("", &format!("<item><link>http://a.test/</link><title>{title}</title></item>"), n, "")
    }),
    plain("feed-attributes", FEED, |n| feed("<item><link ", "a b=c d='e' ", n, "/></item>")),
    plain("feed-attributes-unclosed", FEED, |n| feed("<item><link ", "x=\" ", n, "/></item>")),
    plain("feed-attributes-equal-signs", FEED, |n| feed("<item><link ", "= ", n, "/></item>")),
    plain("feed-open-tags", FEED, |n| feed("", "<item><b>", n, "")),
    plain("feed-comments", FEED, |n| feed("", "<!--<!", n, "")),
    plain("feed-sections", FEED, |n| feed("", "<![CDATA[<", n, "")),
    plain("feed-instructions", FEED, |n| feed("", "<?<a", n, "")),
    plain("feed-references", FEED, |n| feed("<item><title>", "&#0;&x", n, "</title></item>")),
    plain("feed-zeros-in-reference", FEED, |n| feed("<item><title>&#", "0", n, ";</title></item>")),
    plain("feed-entities", FEED, |n| {
        let head = "<!DOCTYPE rss [<!ENTITY a \"b\">]><rss><channel><item><title>";
        pump(head, "&a;&a", n, "</title></item></channel></rss>")
    }),
    plain("json-authors-of-signs", JSON, |n| {
        let item = format!(r#"{{"url":"http://a.test/","authors":[{{"name":"{}>"}}]}},"#, "<".repeat(15_000));
        pump(r#"{"version":"https://jsonfeed.org/version/1.1","items":["#, &item, n, "{}]}")
    }),
    plain("json-deep", JSON, |n| {
        pump(r#"{"version":"https://jsonfeed.org/version/1.1","items":[{"x":"#, "[", n, "]}")
    }),
    plain("sitemap-link-ampersands", XML, |n| {
        sitemap(r#"<url><loc>http://a.test/</loc><link rel="alternate" href=""#, "&", n, r#""/></url>"#)
    }),
    plain("sitemap-alternates", XML, |n| {
        let long = "a".repeat(4_000);
        let link = |at| format!(r#"<xhtml:link rel="alternate" href="http://a.test/{long}{at}"/>"#);
        let links: String = (0..256).map(link).collect();
        let mut body =
            sitemap("", &format!("<url><loc>http://a.test/</loc>{links}</url>"), n + 1_100_000, "");
        body.truncate(n);
        body
    }),
    plain("sitemap-spaces", XML, |n| sitemap("<url><loc>", " ", n, "http://a.test/</loc></url>")),
    plain("html-ampersands", HTML, |n| pump("<a href=\"", "&", n, "\">x</a>")),
    plain("html-attributes", HTML, |n| pump("<a ", "b ", n, "href=x>x</a>")),
    plain("html-attributes-of-many", HTML, |n| pump("", &format!("<img {}>", "a ".repeat(2_000)), n, "")),
    plain("html-unclosed-quote", HTML, |n| pump("", "<a href=\"", n, "")),
    plain("html-long-tags", HTML, |n| {
        let mut body = pump("", &format!("<a href=\"{}\">", "x".repeat(900_000)), n + 1_000_000, "");
        body.truncate(n);
        body
    }),
    plain("html-open-drawings", HTML, |n| pump("", "<svg><title>", n, "")),
    plain("html-open-and-stray-ends", HTML, |n| {
        [pump("", "<b>", n / 2, ""), pump("", "</i>", n / 2, "")].concat()
    }),
    plain("html-open-templates", HTML, |n| pump("", "<template><a href=x>", n, "")),
    plain("html-noscript", HTML, |n| pump("", "<noscript><a href=x>", n, "")),
    plain("html-comments", HTML, |n| pump("", "<!--<!-", n, "")),
    plain("html-script-in-comment", HTML, |n| pump("<script>", "<!--<script ", n, "")),
    plain("html-srcset", HTML, |n| pump("<img srcset=\"", "a (,", n, "\">")),
    plain("html-refresh", HTML, |n| {
        pump("", "<meta http-equiv=refresh content=\"99999999999999999999;url=//\\a\\x\">", n, "")
    }),
    plain("html-long-base", HTML, |n| {
        let base = format!("<base href=\"http://a.test/{}/\">", "a/".repeat(3_900));
        numbered(&base, "<a href=", ">", n)
    }),
    plain("html-names-of-many-letters", HTML, |n| {
        let name: String = (0..450u32).filter_map(|at| char::from_u32(0x4e00 + at * 7)).collect();
        numbered("", "<a href=\"http://", &format!("{name}/\">"), n)
    }),
    plain("html-dots", HTML, |n| numbered("", "<a href=\"", &format!("{}\">", "/a/..".repeat(1_500)), n)),
    plain("html-formatting", HTML, |n| pump("", "<b><i><u><p>", n, "")),
    plain("html-tables", HTML, |n| pump("", "<table><tr><td><a>", n, "")),
    plain("html-deep-text", HTML, |n| {
        let deep = "<div>".repeat(150);
        pump(&deep, "word, word ", n, "")
    }),
];

const fn plain(name: &'static str, media: &'static str, make: fn(usize) -> Vec<u8>) -> Bomb {
    Bomb { name, media, coding: "", make }
}

/// A text whose middle is repeated up to about this many bytes.
fn pump(start: &str, middle: &str, bytes: usize, end: &str) -> Vec<u8> {
    let times = (bytes.saturating_sub(start.len() + end.len()) / middle.len()).max(1);
    let mut out = Vec::with_capacity(bytes + middle.len() + start.len());
    out.extend_from_slice(start.as_bytes());
    (0..times).for_each(|_| out.extend_from_slice(middle.as_bytes()));
    out.extend_from_slice(end.as_bytes());
    out
}

/// Pieces that differ by a number between their two halves.
fn numbered(start: &str, before: &str, after: &str, bytes: usize) -> Vec<u8> {
    let mut out = start.as_bytes().to_vec();
    for number in 0.. {
        out.extend_from_slice(format!("{before}{number}{after}").as_bytes());
        if out.len() >= bytes {
            break;
        }
    }
    out
}

fn feed(start: &str, middle: &str, bytes: usize, end: &str) -> Vec<u8> {
    let start = format!("<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>x</title>{start}");
    pump(&start, middle, bytes, &format!("{end}</channel></rss>"))
}

fn sitemap(start: &str, middle: &str, bytes: usize, end: &str) -> Vec<u8> {
    let start = format!(
        "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{start}"
    );
    pump(&start, middle, bytes, &format!("{end}</urlset>"))
}
