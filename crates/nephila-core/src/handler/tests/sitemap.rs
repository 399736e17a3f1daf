//! Sitemaps and feeds.

use std::io::Write;
use std::time::{Duration, Instant};

use super::*;
use crate::handler::SitemapFindings;
use crate::handler::sitemap::Note;

fn read(answer: &Answer) -> SitemapFindings {
    answer.read().sitemap.expect("it is read as a sitemap")
}

fn urls(findings: &SitemapFindings) -> Vec<&str> {
    findings.urls.iter().map(|entry| entry.url.as_str()).collect()
}

/// Asserts that the sitemap names these pages, with exactly these notes.
#[track_caller]
fn check(body: &str, want: &[&str], notes: &[Note]) {
    let findings = read(&Answer::sitemap(body));
    assert_eq!(urls(&findings), want, "{body}");
    assert_eq!(findings.notes, notes, "{body}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn many(count: usize) -> String {
    let mut xml = "<urlset>".to_owned();
    (0..count).for_each(|i| xml.push_str(&format!("<url><loc>http://a.test/{i}</loc></url>")));
    xml + "</urlset>"
}

#[test]
fn an_entry_has_its_date_its_priority_and_its_other_languages() {
    let xml = "<?xml version='1.0' encoding='UTF-8'?>
        <urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' xmlns:xhtml='http://www.w3.org/1999/xhtml'>
        <url><loc>http://a.test/en?a=1&amp;b=2</loc><lastmod>2026-11-15</lastmod><changefreq>always</changefreq>
        <priority>0.8</priority>
        <xhtml:link rel='alternate' hreflang='de' href='http://a.test/de?x=1&amp;y=2'/>
        <xhtml:link rel='alternate' hreflang='en' href='http://a.test/en?a=1&amp;b=2'/></url></urlset>";
    let findings = read(&Answer::sitemap(xml));
    let entry = &findings.urls[0];
    assert_eq!(entry.url.as_str(), "http://a.test/en?a=1&b=2");
    assert_eq!(entry.lastmod.unwrap().warc_date(), "2026-11-15T00:00:00Z");
    assert_eq!((entry.priority, entry.foreign), (Some(0.8), false));
    let alternates: Vec<&str> = entry.alternates.iter().map(CrawlUrl::as_str).collect();
    assert_eq!(alternates, ["http://a.test/de?x=1&y=2"]);
    assert!(findings.notes.is_empty() && !findings.cut);
}

#[test]
fn extensions_describe_other_things() {
    let xml = "<urlset><url><loc>http://a.test/1</loc>
        <image:image><image:loc>http://a.test/i.png</image:loc></image:image>
        <video:video><video:player_loc>http://a.test/v</video:player_loc><loc>http://a.test/no</loc></video:video>
        <news:news><news:publication_date>2026-11-15</news:publication_date><link>http://a.test/no2</link></news:news>
        </url><url><loc>http://a.test/2</loc><image:image><loc>http://a.test/j.png</loc></url>
        <url><loc>http://a.test/3</loc></url></urlset>";
    check(xml, &["http://a.test/1", "http://a.test/2", "http://a.test/3"], &[]);
}

#[test]
fn a_sitemap_is_known_by_its_root_however_it_was_found() {
    let mut answer = Answer::sitemap(many(2)).field("content-type", "application/xml");
    answer.read_as = ReadAs::Page;
    assert_eq!(read(&answer).urls.len(), 2);
}

#[test]
fn smp_01_no_more_entries_and_bytes_than_the_protocol_allows() {
    let findings = read(&Answer::sitemap(many(50_001)));
    assert_eq!((findings.urls.len(), findings.cut), (50_000, true));
    assert_eq!(findings.notes, [Note::TooMany]);
    let findings = read(&Answer::sitemap(many(50_000)));
    assert_eq!((findings.urls.len(), findings.cut), (50_000, false));
    let long = format!("<urlset><url><loc>http://a.test/1</loc></url>{}", " ".repeat(51 * 1024 * 1024));
    let findings = read(&Answer::sitemap(long + "<url><loc>http://a.test/2</loc></url>"));
    assert_eq!((findings.urls.len(), findings.cut), (1, true));
    assert_eq!(findings.notes, [Note::TooLong]);
}

#[test]
fn smp_02_an_index_gives_sitemaps_and_may_name_itself() {
    let xml = "<sitemapindex><sitemap><loc>http://a.test/dir/page</loc></sitemap><sitemap><loc>/s2.xml.gz</loc>\
               <lastmod>2026</lastmod></sitemap></sitemapindex>";
    let findings = read(&Answer::sitemap(xml));
    let sitemaps: Vec<&str> = findings.sitemaps.iter().map(CrawlUrl::as_str).collect();
    assert_eq!(sitemaps, ["http://a.test/dir/page", "http://a.test/s2.xml.gz"]);
    assert!(findings.urls.is_empty() && findings.notes.is_empty());
    // By the wrapper of the entry, not only by the root.
    let findings =
        read(&Answer::sitemap("<urlset><sitemap><loc>/s</loc></sitemap><url><loc>/u</loc></url></urlset>"));
    assert_eq!((findings.sitemaps.len(), findings.urls.len()), (1, 1));
    let findings = read(&Answer::sitemap("<sitemapindex><loc>/s</loc><loc>/t</loc></sitemapindex>"));
    assert_eq!((findings.sitemaps.len(), findings.urls.len()), (2, 0));
}

#[test]
fn smp_03_other_hosts_are_marked() {
    let xml = "<urlset><url><loc>https://a.test/1</loc></url><url><loc>http://b.test/2</loc></url></urlset>";
    let findings = read(&Answer::sitemap(xml));
    let foreign: Vec<bool> = findings.urls.iter().map(|entry| entry.foreign).collect();
    assert_eq!(foreign, [false, true]);
    assert_eq!(findings.notes, [Note::Foreign]);
}

#[test]
fn smp_04_hints_are_clamped() {
    for (priority, want) in
        [("9", Some(1.0)), ("-1", Some(0.0)), ("NaN", None), ("inf", None), ("high", None), ("", None)]
    {
        let xml = format!(
            "<urlset><url><loc>/1</loc><priority>{priority}</priority><lastmod>2999-12-31</lastmod></url></urlset>"
        );
        let findings = read(&Answer::sitemap(xml));
        assert_eq!(findings.urls[0].priority, want, "{priority}");
        assert!(findings.urls[0].lastmod.is_some());
    }
    let findings =
        read(&Answer::sitemap("<urlset><url><loc>/1</loc><lastmod>0000-00-00</lastmod></url></urlset>"));
    assert_eq!(findings.urls[0].lastmod, None);
}

#[test]
fn smp_05_a_bomb_is_unpacked_up_to_the_limit() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"<urlset><url><loc>http://a.test/1</loc></url>").unwrap();
    let zeros = vec![b' '; 1024 * 1024];
    (0..300).for_each(|_| encoder.write_all(&zeros).unwrap());
    let bomb = encoder.finish().unwrap();
    let begun = Instant::now();
    let findings = read(&Answer::sitemap(bomb.clone()));
    assert!(begun.elapsed() < Duration::from_secs(30), "took {:?}", begun.elapsed());
    assert_eq!((findings.urls.len(), findings.cut), (1, true));
    assert_eq!(findings.notes, [Note::TooLong]);
    // Where the text is cut, a line may be half a URL.
    let lines = "http://a.test/12345\n".repeat(3);
    let findings = read(&Answer::sitemap(lines).limit(|l| l.sitemap_bytes_max = 38));
    assert_eq!((findings.urls.len(), findings.cut), (1, true));
    // One archive inside another costs no more.
    assert!(read(&Answer::sitemap(gzip(&bomb))).cut);
}

#[test]
fn packed_files_are_unpacked_even_when_torn() {
    let packed = gzip(many(1_000).as_bytes());
    assert_eq!(read(&Answer::sitemap(packed.clone())).urls.len(), 1_000);
    assert_eq!(read(&Answer::sitemap(gzip(&packed))).urls.len(), 1_000);
    let two =
        [gzip(b"<urlset><url><loc>/1</loc></url>"), gzip(b"<url><loc>/2</loc></url></urlset>")].concat();
    assert_eq!(read(&Answer::sitemap(two)).urls.len(), 2);
    let findings = read(&Answer::sitemap(&packed[..packed.len() / 2]));
    assert!(findings.urls.len() > 100 && findings.urls.len() < 1_000, "{}", findings.urls.len());
    assert!(findings.notes.contains(&Note::TornGzip));
    // A compressed page is no sitemap unless `read_as` says so.
    let mut answer = Answer::sitemap(packed);
    answer.read_as = ReadAs::Page;
    assert!(answer.read().sitemap.is_none());
}

#[test]
fn smp_06_entities_are_refused_and_plain_ones_decoded() {
    let xml = "<!DOCTYPE urlset [<!ENTITY a 'http://a.test/'><!ENTITY b '&a;&a;&a;&a;'><!ENTITY x SYSTEM 'file:///etc/passwd'>]>
        <urlset><url><loc>&a;1</loc></url><url><loc>http://a.test/&x;</loc></url><url><loc>http://a.test/&b;</loc></url>
        <url><loc>http://a.test/?a=1&amp;b=&#50;&#x33;</loc></url></urlset>";
    check(xml, &["http://a.test/?a=1&b=23"], &[Note::OwnEntities]);
    let bomb = format!(
        "<!DOCTYPE a [{}]><urlset><url><loc>&z;</loc></url></urlset>",
        "<!ENTITY z '&z;&z;'>".repeat(1_000)
    );
    check(&bomb, &[], &[Note::NotASitemap, Note::OwnEntities]);
}

#[test]
fn smp_07_namespaces_and_prefixes_do_not_matter() {
    for root in [
        "<urlset xmlns='https://www.sitemaps.org/schemas/sitemap/0.9/'>",
        "<urlset xmlns=\"http://www.google.com/schemas/sitemap/0.84\">",
        "<root>",
        "<x:urlset xmlns:x='urn:x'>",
    ] {
        check(&format!("{root}<url><loc>/1</loc></url>"), &["http://a.test/1"], &[]);
        check(&format!("{root}<x:url><y:loc>/1</y:loc></x:url>"), &["http://a.test/1"], &[]);
    }
}

#[test]
fn smp_08_texts_are_gathered_and_trimmed() {
    check("<urlset><url><loc>\n\t http://a.test/1 \r\n</loc></url></urlset>", &["http://a.test/1"], &[]);
    check(
        "<urlset><url><loc>\u{a0}\u{feff}\u{3000}\u{200b}http://a.test/1\u{2028}</loc></url></urlset>",
        &["http://a.test/1"],
        &[],
    );
    check(
        "<urlset><url><loc><![CDATA[http://a.test/?a=1&b=2]]></loc></url></urlset>",
        &["http://a.test/?a=1&b=2"],
        &[],
    );
    check(
        "<urlset><url><loc>http://a.test/<!-- x -->1<![CDATA[2]]>3&amp;</loc></url></urlset>",
        &["http://a.test/123&"],
        &[],
    );
    // Missing ends.
    check(
        "<urlset><url><loc>/1<lastmod>2026</lastmod></url><url><loc>/2</url><loc>/3</loc><loc>/4</urlset>",
        &["http://a.test/1", "http://a.test/2", "http://a.test/3", "http://a.test/4"],
        &[],
    );
    check("<urlset><url><loc>/1</loc><url><loc>/2</loc>", &["http://a.test/1", "http://a.test/2"], &[]);
}

#[test]
fn broken_markup_loses_no_more_than_itself() {
    check("<urlset><url><loc>/?a=1&b=2&c;d</loc></url></urlset>", &["http://a.test/?a=1&b=2&c;d"], &[]);
    // A text that is cut is no URL; a text that a tag has ended is one.
    check("<urlset><url><loc>/1</loc></url><url><loc>/2", &["http://a.test/1"], &[Note::Broken]);
    let both = ["http://a.test/1", "http://a.test/2"];
    check("<urlset><url><loc>/1</loc></url><url><loc>/2</lo", &both, &[Note::Broken]);
    check(
        "<urlset><url><loc>/1</loc></url><!-- <url><loc>/2</loc></url>",
        &["http://a.test/1", "http://a.test/2"],
        &[Note::Broken],
    );
    check("<urlset></wrong></ends><url><loc>/1</loc></nothing></url>", &["http://a.test/1"], &[]);
    check(
        "<urlset><url><loc>/1</loc></url><![BAD[<url><loc>/2</loc></url>",
        &["http://a.test/1", "http://a.test/2"],
        &[Note::Broken],
    );
    check(
        "<urlset><url><loc>http://[</loc></url><url><loc>mailto:x</loc></url><url><loc/></url><url><loc>/1</loc></url>",
        &["http://a.test/1"],
        &[Note::BadUrls],
    );
    let deep = format!("<urlset><url><loc>/1</loc></url>{}<url><loc>/2</loc></url>", "<x>".repeat(3_000_000));
    assert_eq!(read(&Answer::sitemap(deep)).urls.len(), 2);
}

#[test]
fn smp_09_lines_feeds_and_marks_are_read_by_what_they_are() {
    check(
        "\u{feff}http://a.test/1\r\nHTTPS://a.test/2\n\n  http://a.test/3  ",
        &["http://a.test/1", "https://a.test/2", "http://a.test/3"],
        &[],
    );
    check("http://a.test/1\n# a comment\n/relative", &["http://a.test/1"], &[Note::BadUrls]);
    check("\u{feff} <urlset><url><loc>/1</loc></url></urlset>", &["http://a.test/1"], &[]);
    let rss = "<rss><channel><link>http://a.test/</link><image><link>http://a.test/i</link></image>
        <item><title>t</title><link>http://a.test/1?a&amp;b</link><pubDate>Sun, 15 Nov 2026 10:20:30 GMT</pubDate></item>
        <item><guid>http://a.test/2</guid></item><item><guid isPermaLink='false'>http://a.test/no</guid></item>
        <item><guid>tag:x</guid><link>http://a.test/3</link></item></channel></rss>";
    check(rss, &["http://a.test/1?a&b", "http://a.test/2", "http://a.test/3"], &[]);
    let findings = read(&Answer::sitemap(rss));
    assert_eq!(findings.urls[0].lastmod.unwrap().warc_date(), "2026-11-15T10:20:30Z");
    let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><link rel='self' href='/feed'/><link href='/'/>
        <entry><link rel='edit' href='/no'/><link rel='alternate' type='text/html' href='/1'/><updated>2026-11-15T00:00:00Z</updated>
        </entry><entry><link href='/2'/><source><link href='/no2'/></source></entry></feed>";
    check(atom, &["http://a.test/1", "http://a.test/2"], &[]);
}

#[test]
fn a_feed_names_its_items_as_links() {
    let rss = "<rss version='2.0'><channel><item><link>http://b.test/1</link></item></channel></rss>";
    let answer = Answer::html(rss).field("content-type", "application/rss+xml");
    assert_eq!(answer.kinds(), [("link", "http://b.test/1".to_owned())]);
}

#[test]
fn encodings_are_seen_through() {
    let xml = "<urlset><url><loc>http://a.test/ü</loc></url></urlset>";
    let utf16: Vec<u8> = format!("\u{feff}{xml}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let declared: Vec<u8> =
        format!("<?xml version='1.0'?>{xml}").encode_utf16().flat_map(u16::to_be_bytes).collect();
    for body in [xml.as_bytes().to_vec(), utf16, declared] {
        assert_eq!(urls(&read(&Answer::sitemap(body))), ["http://a.test/%C3%BC"]);
    }
    // Says one thing and is another.
    for lie in ["iso-8859-1", "utf-16", "windows-1252"] {
        let answer = Answer::sitemap(xml).field("content-type", &format!("text/xml; charset={lie}"));
        let findings = read(&answer);
        assert_eq!(urls(&findings), ["http://a.test/%C3%BC"], "{lie}");
        assert_eq!(findings.notes, [Note::WrongEncoding], "{lie}");
    }
    let latin = b"<?xml version='1.0' encoding='iso-8859-1'?><urlset><url><loc>http://a.test/\xfc</loc></url></urlset>";
    assert_eq!(urls(&read(&Answer::sitemap(latin.to_vec()))), ["http://a.test/%C3%BC"]);
}

#[test]
fn smp_12_a_page_in_place_of_a_sitemap_is_none() {
    let html = "<!DOCTYPE html><html><head><link rel=stylesheet href=/x.css><title>Not found</title></head>\
                <body><a href=/home>home</a><br><img src=x></body></html>";
    check(html, &[], &[Note::NotASitemap]);
    check("", &[], &[Note::NotASitemap]);
    check("404 not found", &[], &[Note::NotASitemap, Note::BadUrls]);
}

#[test]
fn smp_14_what_a_sitemap_names_is_a_page_and_not_a_part_of_one() {
    let mut answer = Answer::sitemap("<urlset><url><loc>http://b.test/1</loc></url></urlset>");
    answer.read_as = ReadAs::Page;
    let findings = answer.field("content-type", "text/xml").read();
    // Sitemap entries are apart from the links, so that they are not mistaken for requisites of the page.
    assert!(findings.links.is_empty());
    assert!(findings.sitemap.unwrap().urls[0].foreign);
    assert_eq!(crate::handler::LinkKind::Listed.letter(), 'M');
}
