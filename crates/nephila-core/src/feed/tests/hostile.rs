//! Feeds that are broken, wrong or meant to harm.

use proptest::prelude::*;

use super::*;

#[test]
fn fee_01_entities_are_never_expanded() {
    let mut bomb = String::from("<?xml version=\"1.0\"?><!DOCTYPE rss [<!ENTITY a0 \"lol\">");
    for n in 1..20 {
        bomb.push_str(&format!("<!ENTITY a{n} \"{}\">", format!("&a{};", n - 1).repeat(10)));
    }
    bomb.push_str("<!ENTITY file SYSTEM \"file:///etc/passwd\">]>");
    let body = rss("<item><title>&a19; &file;</title><link>http://s.test/1</link></item>\
                    <item><title>x</title><link>http://s.test/&a19;</link></item>");
    let feed = read(body.replacen("<?xml version=\"1.0\"?>", &bomb, 1).as_bytes());
    assert_eq!(titles(&feed), ["&a19; &file;"]);
    assert_eq!((urls(&feed), feed.dropped), (vec!["http://s.test/1"], 1));
    assert!(feed.has(Note::OwnEntities));
}

#[test]
fn fee_02_a_tag_with_80_000_attributes_is_a_tag() {
    for text in [" a=''", " xmlns:x=''"] {
        let many: String = (0..80_000).map(|n| text.replace('=', &format!("{n}="))).collect();
        let feed = read(
            rss(&format!("<item{many}><link{many}>http://s.test/1</link></item>{}", items(1))).as_bytes(),
        );
        assert_eq!(urls(&feed), ["http://s.test/1", "http://s.test/0"]);
    }
}

#[test]
fn fee_03_deep_nesting_needs_no_stack() {
    for depth in [100_000, 250_000] {
        let deep = format!("{}{}{}", "<d>".repeat(depth), items(1), "</d>".repeat(depth));
        assert_eq!(urls(&read(rss(&deep).as_bytes())), ["http://s.test/0"]);
        let unclosed = read(rss(&format!("{}{}", items(1), "<item>".repeat(depth))).as_bytes());
        assert_eq!(urls(&unclosed), ["http://s.test/0"]);
    }
    let json = format!(
        "{{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{{\"url\":\"/1\"}},{}",
        "[".repeat(200_000)
    );
    assert_eq!(urls(&read(json.as_bytes())), ["http://s.test/1"]);
}

#[test]
fn fee_04_a_feed_beyond_the_limit_gives_what_came_before_it() {
    let limits = Limits { bytes_max: 20_000, entries_max: 5_000 };
    let feed = read_as("text/xml", rss(&items(10_000)).as_bytes(), &limits);
    assert!((100..200).contains(&feed.entries.len()), "{}", feed.entries.len());
    assert!(feed.cut && feed.has(Note::TooLong) && feed.has(Note::Partial));
    let limits = Limits::default();
    assert_eq!((limits.bytes_max, limits.entries_max), (10 * 1024 * 1024, 5_000));
}

#[test]
fn fee_04_time_that_is_up_ends_the_reading() {
    let url = CrawlUrl::parse("http://s.test/").unwrap();
    let (fields, keys) = (http::HeaderMap::new(), KeyRules::default());
    let json = format!("{{\"items\":[{}{{}}]}}", "{\"url\":\"/1\"},".repeat(4_000));
    for body in [rss(&items(4_000)), json] {
        let page = Page {
            url: &url,
            fields: &fields,
            body: body.as_bytes(),
            read_as: ReadAs::Feed,
            agent: "",
            keys: &keys,
        };
        let mut looks = 0;
        let feed = read_feed_until(&page, &Limits::default(), &mut || {
            looks += 1;
            looks > 2
        });
        assert!(feed.cut && (1..1_000).contains(&feed.entries.len()), "{}", feed.entries.len());
    }
}

#[test]
fn fee_05_what_stands_before_the_feed_is_passed_over() {
    let body = rss(&items(1));
    for before in [
        "\n\n  ",
        "\u{feff}",
        "\u{feff}\n",
        "Notice: something\n",
        "<br />\n<b>Warning</b>: x in <b>y</b><br />\n",
        "<!-- c -->",
    ] {
        let feed = read(format!("{before}{body}").as_bytes());
        assert_eq!(urls(&feed), ["http://s.test/0"], "{before:?}");
    }
    assert_eq!(urls(&read("\u{feff} {\"items\":[{\"url\":\"/1\"}]}".as_bytes())), ["http://s.test/1"]);
}

#[test]
fn fee_06_bare_ampersands_html_entities_and_controls_lose_nothing() {
    let feed = read(
        rss("<item><title>R&D &eacute;t&eacute;&nbsp;&rsquo; AT&T &c; \u{b}x</title><link>http://s.test/1?a=1&b=2&copy=3</link></item>\
             <item><title>Two & three</title><link>http://s.test/2</link></item>")
        .as_bytes(),
    );
    assert_eq!(titles(&feed), ["R&D été ’ AT&T &c; x", "Two & three"]);
    assert_eq!(urls(&feed), ["http://s.test/1?a=1&b=2&copy=3", "http://s.test/2"]);
}

#[test]
fn fee_07_what_came_before_the_cut_is_used_and_half_an_entry_is_not() {
    let whole = rss(&items(50));
    let cut = whole.find("<title>Title 30").unwrap();
    for end in [cut, cut + 20, whole.find("/30</link>").unwrap() + 2, whole.find("g30").unwrap() + 1] {
        let feed = read(&whole.as_bytes()[..end]);
        assert_eq!(feed.entries.len(), 30, "{end}");
        assert!(feed.has(Note::Partial));
    }
    let json =
        br#"{"version":"https://jsonfeed.org/version/1","items":[{"url":"/1"},{"url":"/2"},{"url":"/3"#;
    let feed = read(json);
    assert_eq!(
        (urls(&feed), feed.notes.as_slice()),
        (vec!["http://s.test/1", "http://s.test/2"], [Note::Partial].as_slice())
    );
}

#[test]
fn fee_08_titles_are_right_whoever_told_the_encoding() {
    let text = |label: &str| {
        let declaration = if label.is_empty() {
            String::new()
        } else {
            format!("<?xml version='1.0' encoding='{label}'?>")
        };
        format!(
            "{declaration}<rss><channel><item><title>Новости дня из разных стран мира</title><link>http://s.test/1</link></item></channel></rss>"
        )
    };
    let in_1251 = |text: &str| encoding_rs::WINDOWS_1251.encode(text).0.into_owned();
    let in_koi = |text: &str| encoding_rs::KOI8_R.encode(text).0.into_owned();
    let utf_16 = |text: &str| {
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect::<Vec<u8>>()
    };
    let cases: [(&str, Vec<u8>); 9] = [
        ("text/xml", in_1251(&text("windows-1251"))),
        ("text/xml; charset=windows-1251", in_1251(&text(""))),
        ("text/xml; charset=windows-1251", in_1251(&text("utf-8"))),
        ("text/xml; charset=utf-8", in_1251(&text("windows-1251"))),
        ("application/rss+xml", in_koi(&text("koi8-r"))),
        ("application/rss+xml", utf_16(&text("utf-16"))),
        // Both labels are wrong: the text is UTF-8.
        ("text/xml; charset=iso-8859-1", text("iso-8859-1").into_bytes()),
        ("text/xml; charset=utf-16", text("utf-16").into_bytes()),
        ("text/xml", [b"\n\n".to_vec(), in_1251(&text("windows-1251"))].concat()),
    ];
    for (n, (label, body)) in cases.iter().enumerate() {
        let feed = read_as(label, body, &Limits::default());
        assert_eq!(titles(&feed), ["Новости дня из разных стран мира"], "case {n}");
    }
    // One wrong byte spoils one character, not the feed.
    let feed = read(&[rss(&items(2)).replace("Title 1", "T").as_bytes(), b"\xff"].concat());
    assert_eq!(feed.entries.len(), 2);
}

#[test]
fn fee_09_a_bad_date_is_no_date_and_the_entry_stays() {
    let dates =
        ["yesterday", "15 Nov 26 10:20 GMT", "2026-11-15 10:20:00", "0000-00-00", &"(".repeat(100_000), ""];
    let body: String = dates
        .iter()
        .map(|d| format!("<item><link>/{}</link><pubDate>{d}</pubDate></item>", d.len()))
        .collect();
    let feed = read(rss(&body).as_bytes());
    let read: Vec<_> = feed.entries.iter().map(|e| e.published.map(Timestamp::warc_date)).collect();
    let ten = Some("2026-11-15T10:20:00Z".to_owned());
    assert_eq!(read, [None, ten.clone(), ten, None, None, None]);
}

#[test]
fn fee_10_links_are_joined_with_what_stands_nearest_and_others_are_none() {
    let feed = read(
        br#"<rss xmlns:atom="a"><channel xml:base="http://base.test/x/"><title>t</title>
        <item><link>rel.html</link></item>
        <item><atom:link rel="self" href="http://s.test/self"/><link>//other.test/p</link></item>
        <item xml:base="/deep/"><link>q</link></item>
        <item><guid>http://s.test/guid</guid></item>
        <item><guid isPermaLink="true">http://s.test/guid2</guid><link></link></item>
        <item><guid isPermaLink="false">http://s.test/no</guid></item>
        <item><guid>12345</guid></item>
        <item><link>javascript:alert(1)</link></item>
        <item><link>file:///etc/passwd</link><guid>http://s.test/instead</guid></item>
        <item><title>cast</title><enclosure url="http://s.test/cast.mp3" type="audio/mpeg"/></item>
        <item><link>mailto:a@b.test</link></item>
        </channel></rss>"#,
    );
    assert_eq!(
        urls(&feed),
        [
            "http://base.test/x/rel.html",
            "http://other.test/p",
            "http://base.test/deep/q",
            "http://s.test/guid",
            "http://s.test/guid2",
            "http://s.test/instead",
            "http://s.test/cast.mp3",
        ]
    );
    assert_eq!((feed.dropped, feed.notes.as_slice()), (4, [Note::BadUrls].as_slice()));
}

#[test]
fn fee_14_no_more_than_the_cap_is_taken() {
    let feed = read(rss(&items(50_000)).as_bytes());
    assert_eq!((feed.entries.len(), feed.cut), (5_000, true));
    assert!(feed.has(Note::TooMany));
}

#[test]
fn missing_and_crossed_tags_lose_no_entry() {
    let feed = read(
        b"<rss><channel><title>t<item><title>One<link>http://s.test/1</link><item><title>Two</item></title><link>http://s.test/2\
          <guid>g</guid></item><item><title>Three</title><description><p>unclosed <b>x</p><link>http://no.test/<pubDate>\
          Sun, 15 Nov 2026 10:20:30 GMT</pubDate><link>http://s.test/3</link></item><item><link>http://s.test/4</link></channel></rss>",
    );
    assert!(urls(&feed).contains(&"http://s.test/1"), "{feed:?}");
    assert!(urls(&feed).contains(&"http://s.test/3") && urls(&feed).contains(&"http://s.test/4"), "{feed:?}");
    assert!(feed.entries.iter().all(|e| e.url.host_str() == "s.test"));
    let three = feed.entries.iter().find(|e| e.title == "Three").unwrap();
    assert!(three.published.is_some());
}

#[test]
fn a_feed_that_is_broken_today_gives_the_entries_of_tomorrow() {
    let good = rss(&items(20));
    let whole = read(good.as_bytes());
    for broken in [
        good.replace("</channel></rss>", "</rss>"),
        good.replace("</title><link>", " & </title><link>").replace(" & </title>", "</title>"),
        good.replace("<channel>", "<channel><broken attr=>"),
        good.replace("</guid>", "</guid></b>"),
        good.replace("<item>", "<item><description>R&D <br> </description>"),
    ] {
        let feed = read(broken.as_bytes());
        assert_eq!(feed.entries, whole.entries);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes: Vec<u8>, label in "[a-z/;=8-]{0,30}") {
        read_as(&label, &bytes, &Limits::default());
    }

    #[test]
    fn any_soup_is_read_within_its_limits(
        parts in prop::collection::vec(prop::sample::select(vec![
            "<rss>", "<channel>", "</channel>", "<item>", "</item>", "<title>", "</title>", "<link>", "</link>", "<link href='/x'/>",
            "http://s.test/1", "<guid>", "</guid>", "&amp;", "&", "<![CDATA[", "]]>", "<!--", "-->", "<", ">", "<feed>", "<entry",
            "</entry>", "xml:base='http://b.test/'", " ", "é", "<description>", "</description>", "<pubDate>", "{\"items\":[", "{\"url\":\"/1\"},",
        ]), 0..60),
        cut in 0usize..400,
    ) {
        let mut text = parts.concat();
        let mut end = cut.min(text.len());
        while !text.is_char_boundary(end) { end -= 1; }
        text.truncate(end);
        let feed = read_as("text/xml", text.as_bytes(), &Limits { bytes_max: 300, entries_max: 3 });
        prop_assert!(feed.entries.len() <= 3);
        prop_assert_eq!(feed.checksum(), feed.checksum());
    }
}
