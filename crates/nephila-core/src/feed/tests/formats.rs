//! Every format, in good order.

use super::*;

#[test]
fn rss_2_is_read_whole() {
    let feed = read(
        br#"<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/"
  xmlns:sy="http://purl.org/rss/1.0/modules/syndication/" xmlns:media="http://search.yahoo.com/mrss/">
<channel><title>The &amp; Paper</title><link>http://s.test/</link><language>en-us</language><ttl>60</ttl>
<atom:link href="http://s.test/feeds/all.xml" rel="self" type="application/rss+xml"/>
<atom:link href="/feeds/all.xml?page=2" rel="next"/>
<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>2</sy:updateFrequency>
<image><url>http://s.test/logo.png</url><title>Logo</title><link>http://s.test/logo</link></image>
<item><title>One</title><link>http://s.test/1</link><guid isPermaLink="false">tag:1</guid>
  <description><![CDATA[<p>text <a href="http://other.test/">x</a>]]></description>
  <dc:creator>Ann</dc:creator><pubDate>Sun, 15 Nov 2026 10:20:30 GMT</pubDate>
  <media:group><media:title>wrong</media:title><media:content url="http://s.test/m.mp4"/></media:group>
  <source url="http://agency.test/rss">Agency</source></item>
<item><author>bob@s.test (Bob)</author><title><![CDATA[Two & <em>more</em>]]></title>
  <link><![CDATA[ http://s.test/2?a=1&b=2 ]]></link><dc:language>de</dc:language></item>
</channel></rss>"#,
    );
    assert_eq!(feed.notes, []);
    assert_eq!(
        (feed.format, feed.title.as_str(), feed.language.as_deref()),
        (Some(Format::Rss), "The & Paper", Some("en-us"))
    );
    assert_eq!(feed.site.as_ref().unwrap().as_str(), "http://s.test/");
    assert_eq!(feed.next.as_ref().unwrap().as_str(), "http://s.test/feeds/all.xml?page=2");
    assert_eq!(feed.hints.ttl, Some(Duration::from_secs(3_600)));
    assert_eq!(feed.hints.update_period, Some(Duration::from_secs(1_800)));
    let [one, two] = feed.entries.as_slice() else { panic!("{:?}", feed.entries) };
    assert_eq!(
        (one.url.as_str(), one.guid.as_deref(), one.title.as_str()),
        ("http://s.test/1", Some("tag:1"), "One")
    );
    assert_eq!(one.published.unwrap().warc_date(), "2026-11-15T10:20:30Z");
    assert_eq!((one.author.as_deref(), one.language.as_deref()), (Some("Ann"), Some("en-us")));
    assert_eq!((two.url.as_str(), two.title.as_str()), ("http://s.test/2?a=1&b=2", "Two & more"));
    assert_eq!((two.guid.as_deref(), two.published, two.language.as_deref()), (None, None, Some("de")));
    assert_eq!(two.author.as_deref(), Some("bob@s.test (Bob)"));
}

#[test]
fn atom_is_read_whole() {
    let feed = read(
        br#"<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="fr" xml:base="http://base.test/dir/">
<title type="text">A &lt;b&gt; feed</title><id>urn:feed</id><updated>2026-11-15T00:00:00Z</updated>
<link rel="self" href="http://s.test/feeds/all.xml"/><link href="/home"/>
<entry><title type="html">&lt;i&gt;One&lt;/i&gt; &amp;amp; all</title><id>urn:1</id>
 <link rel="edit" href="edit/1"/><link rel="alternate" type="application/json" href="1.json"/>
 <link rel="alternate" type="text/html" href="1.html"/>
 <published>2026-11-14T01:02:03+01:00</published><updated>2026-11-15T01:02:03Z</updated>
 <author><name>Ann</name><email>ann@x.test</email><uri>http://ann.test/</uri></author>
 <source><id>urn:else</id><title>Else</title><updated>2000-01-01T00:00:00Z</updated><link href="http://else.test/"/></source>
 <content type="xhtml"><div><title>no</title><link href="http://no.test/"/><a href="x">y</a></div></content></entry>
<entry xml:base="sub/" xml:lang="es"><title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">T<b>w</b>o</div></title>
 <id>http://ids.test/2</id><link href="2.html"/></entry>
<entry><title>Three</title><id>http://ids.test/3</id></entry>
</feed>"#,
    );
    assert_eq!(feed.notes, []);
    assert_eq!((feed.format, feed.title.as_str()), (Some(Format::Atom), "A <b> feed"));
    assert_eq!(feed.site.as_ref().unwrap().as_str(), "http://base.test/home");
    assert_eq!(
        urls(&feed),
        ["http://base.test/dir/1.html", "http://base.test/dir/sub/2.html", "http://ids.test/3"]
    );
    assert_eq!(titles(&feed), ["One & all", "Two", "Three"]);
    let one = &feed.entries[0];
    assert_eq!((one.guid.as_deref(), one.author.as_deref()), (Some("urn:1"), Some("Ann")));
    assert_eq!(one.published.unwrap().warc_date(), "2026-11-14T00:02:03Z");
    assert_eq!(one.updated.unwrap().warc_date(), "2026-11-15T01:02:03Z");
    let languages: Vec<_> = feed.entries.iter().map(|e| e.language.as_deref().unwrap()).collect();
    assert_eq!(languages, ["fr", "es", "fr"]);
}

#[test]
fn fee_18_rdf_atom_0_3_rss_0_91_json_and_news_are_feeds_whatever_they_are_served_as() {
    let rdf = br#"<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
        xmlns:dc="http://purl.org/dc/elements/1.1/"><channel rdf:about="http://s.test/rdf"><title>R</title><link>http://s.test/</link>
        <items><rdf:Seq><rdf:li rdf:resource="http://s.test/r1"/></rdf:Seq></items></channel>
        <item rdf:about="http://s.test/r1"><title>R1</title><link>http://s.test/r1</link><dc:date>2026-11-15T10:20:30Z</dc:date></item>
        <item rdf:about="http://s.test/r2"><title>R2</title></item></rdf:RDF>"#;
    let atom = br#"<feed version="0.3" xmlns="http://purl.org/atom/ns#"><title>A</title><entry><title>A1</title>
        <link rel="alternate" type="text/html" href="http://s.test/a1"/><id>tag:a1</id><issued>2026-11-15T10:20:30Z</issued>
        <modified>2026-11-15T10:20:31Z</modified></entry></feed>"#;
    let old = br#"<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/publish/formats/rss-0.91.dtd">
        <rss version="0.91"><channel><title>O</title><item><title>O1</title><link>http://s.test/o1</link></item></channel></rss>"#;
    let json = br#"{"version":"https://jsonfeed.org/version/1.1","title":"J","home_page_url":"http://s.test/","language":"en",
        "items":[{"id":"1","url":"/j1","title":"J1","date_published":"2026-11-15T10:20:30Z","authors":[{"name":"Ann"}]},
        {"id":2,"external_url":"http://s.test/j2","tags":["a",{"b":[1,2,null]}]},{"id":"http://s.test/j3"}]}"#;
    let news = br#"<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"
        xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"><url><loc>http://s.test/n1</loc><news:news><news:publication>
        <news:name>Paper</news:name><news:language>en</news:language></news:publication><news:publication_date>2026-11-15T10:20:30Z</news:publication_date>
        <news:title>N1</news:title></news:news><image:image><image:loc>http://s.test/i.png</image:loc></image:image></url></urlset>"#;
    type Case<'a> = (&'a [u8], Format, &'a [&'a str], &'a [&'a str]);
    let cases: [Case<'_>; 5] = [
        (rdf, Format::Rdf, &["http://s.test/r1", "http://s.test/r2"], &["R1", "R2"]),
        (atom, Format::Atom, &["http://s.test/a1"], &["A1"]),
        (old, Format::Rss, &["http://s.test/o1"], &["O1"]),
        (json, Format::Json, &["http://s.test/j1", "http://s.test/j2", "http://s.test/j3"], &["J1", "", ""]),
        (news, Format::Sitemap, &["http://s.test/n1"], &["N1"]),
    ];
    for (body, format, want, names) in cases {
        for label in ["text/html; charset=utf-8", "application/octet-stream", "text/plain"] {
            let feed = read_as(label, body, &Limits::default());
            assert_eq!(
                (feed.format, urls(&feed), titles(&feed)),
                (Some(format), want.to_vec(), names.to_vec())
            );
            assert_eq!(feed.notes, [], "{format:?}");
            if format != Format::Rss {
                assert_eq!(feed.entries[0].published.unwrap().warc_date(), "2026-11-15T10:20:30Z");
            }
        }
    }
    let atom = read(atom);
    assert_eq!(atom.entries[0].updated.unwrap().warc_date(), "2026-11-15T10:20:31Z");
    assert_eq!(read(json).entries[1].guid.as_deref(), Some("2"));
    assert_eq!(read(rdf).entries[1].guid.as_deref(), Some("http://s.test/r2"));
}

#[test]
fn fee_18_what_is_no_feed_says_so() {
    for body in [
        "<!DOCTYPE html><html><head><title>x</title><link href=/a></head><body><item><link>http://s.test/1</link></item></html>",
        "",
        "   ",
        "plain words",
        "{\"a\": 1}",
        "{\"items\": 3}",
        "[1,2]",
        "<opml><body><outline xmlUrl='http://a.test/'/></body></opml>",
        "\u{0}\u{1}\u{2}",
        "<svg><title>x</title></svg>",
    ] {
        let feed = read(body.as_bytes());
        assert_eq!((feed.format, feed.entries.len()), (None, 0), "{body:?}");
        assert!(feed.has(Note::NotAFeed), "{body:?}");
    }
}

#[test]
fn the_checksum_is_that_of_the_urls_alone() {
    let one = read(rss("<item><link>http://s.test/1</link><title>a</title></item><item><link>http://s.test/2</link></item>").as_bytes());
    let other = read(
        rss("<lastBuildDate>x</lastBuildDate><item><link>http://S.test/2#c</link></item><item><title>b</title><link>/1</link></item>\
             <item><guid>http://s.test/1</guid></item>")
        .as_bytes(),
    );
    assert_eq!(one.checksum(), other.checksum());
    for items in
        ["", "<item><link>http://s.test/1</link></item>", "<item><link>http://s.test/12</link></item>"]
    {
        assert_ne!(read(rss(items).as_bytes()).checksum(), one.checksum(), "{items}");
    }
}

#[test]
fn the_gap_between_entries_is_that_of_their_dates() {
    let feed = read(rss(&items(11)).as_bytes());
    assert_eq!(feed.dated_gap(), Some(Duration::from_secs(60)));
    assert_eq!(read(rss(&items(2)).as_bytes()).dated_gap(), None);
}

#[test]
fn fee_21_hubs_and_clouds_are_not_for_us() {
    let feed = read(
        rss("<atom:link rel=\"hub\" href=\"http://hub.test/\"/><cloud domain=\"rpc.test\" port=\"80\" path=\"/\"/>\
             <item><link>http://s.test/1</link><atom:link rel=\"hub\" href=\"http://hub.test/i\"/></item>")
        .as_bytes(),
    );
    assert_eq!((urls(&feed), &feed.next), (vec!["http://s.test/1"], &None));
    assert_eq!(feed.site.unwrap().as_str(), "http://s.test/");
}
